/* SPDX-License-Identifier: Apache-2.0 */
#include "support/jit_bed.h"

#include "support/jit_kernels.h"

static const char *const kernel_names[] = {"jit_axpy", "jit_fill", "jit_scale", "jit_sum",
                                           "jit_map",  "jit_spin", "&factor",   "jit_trap"};

jb_bench jb_open(const trp_device_options *options)
{
    jb_bench b = {.world = h_open(options)};
    b.device = b.world.device;
    b.jit = h_actor(b.device, "jit");
    return b;
}

void jb_close(jb_bench *b)
{
    trp_actor_destroy(b->jit);
    h_close(&b->world);
}

trp_jit_compile_request jb_compile_of(const char *source)
{
    return (trp_jit_compile_request){.source = source, .architecture = "sm_90"};
}

static bool has_nvrtc(void)
{
    jb_bench b = jb_open(NULL);
    const trp_jit_compile_request r = jb_compile_of("__global__ void k() {}");
    trp_module m;
    trp_completion c = {0};
    trp_error error = {0};
    H_OK(trp_jit_compile(b.jit, &r, &m, &c));
    const trp_status status = h_await(c.future, &error);
    H_CHECK(status == TRP_OK || status == TRP_E_MISSING);
    if (status == TRP_E_MISSING)
        h_check_says(__FILE__, __LINE__, error.message, "install");
    jb_close(&b);
    return status == TRP_OK;
}

void jb_need_nvrtc(void)
{
    static int known;
    if (known == 0)
        known = has_nvrtc() ? 1 : 2;
    if (known == 2)
        h_skip("NVRTC is not installed");
}

void jb_need_gpu(void)
{
    if (!h_is_cuda())
        h_skip("kernels run on GPUs only");
}

trp_module jb_loaded(const jb_bench *b)
{
    trp_module m;
    const trp_jit_load_request r = {.image = jit_kernels_ptx,
                                    .bytes = sizeof jit_kernels_ptx,
                                    .names = kernel_names,
                                    .name_count = sizeof kernel_names / sizeof *kernel_names};
    H_OK(trp_jit_load(b->jit, &r, &m, NULL));
    return m;
}

trp_kernel_launch_request jb_launch_of(trp_module m, const char *kernel, const trp_kernel_arg *args,
                                       uint32_t count)
{
    return (trp_kernel_launch_request){.module = m,
                                       .kernel = kernel,
                                       .grid = {(JB_N + 255) / 256},
                                       .block = {256},
                                       .args = args,
                                       .arg_count = count};
}

trp_status jb_fill(const jb_bench *b, trp_module m, trp_buffer out, uint32_t value,
                   trp_completion *c)
{
    const trp_kernel_arg args[] = {trp_arg_buffer(out, TRP_ACCESS_COVER), trp_arg_u32(value),
                                   trp_arg_u32(JB_N)};
    const trp_kernel_launch_request r = jb_launch_of(m, "jit_fill", args, 3);
    return trp_kernel_launch(b->jit, &r, c);
}

void jb_check_filled(const jb_bench *b, trp_buffer out, uint32_t value)
{
    uint32_t got[JB_N];
    h_read(b->device, out, 0, got, sizeof got);
    for (uint32_t i = 0; i < JB_N; i++)
        H_EQUAL(got[i], value + i);
}

trp_status jb_set_factor(const jb_bench *b, trp_module m, float value, trp_completion *c)
{
    const trp_module_set_request r = {
        .module = m, .variable = "factor", .data = &value, .bytes = sizeof value};
    return trp_module_set(b->jit, &r, c);
}

trp_buffer jb_ones(const jb_bench *b)
{
    const float one = 1;
    uint32_t word;
    memcpy(&word, &one, sizeof word);
    return h_filled(b->device, JB_N * 4, word);
}

void jb_scale(const jb_bench *b, trp_module m, trp_buffer x, trp_buffer y, trp_completion *c)
{
    const trp_kernel_arg args[] = {trp_arg_buffer(y, TRP_ACCESS_COVER),
                                   trp_arg_buffer(x, TRP_ACCESS_READ), trp_arg_u32(JB_N)};
    const trp_kernel_launch_request r = jb_launch_of(m, "jit_scale", args, 3);
    H_OK(trp_kernel_launch(b->jit, &r, c));
}

float jb_last_of(const jb_bench *b, trp_buffer y)
{
    float got = 0;
    h_read(b->device, y, (JB_N - 1) * 4, &got, sizeof got);
    return got;
}
