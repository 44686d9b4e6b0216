/* Modules of the jit actor on a device: launches, variables, handles, images that are wrong. Needs
 * a GPU, or the fake driver, which knows the kernels of support/jit_kernels.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/jit_bed.h"

TROUPE_TEST_FAKE_GPU("no sanitizer", "nvrtc");

/* A struct as an argument, in the record and, beside many others, in staging memory. */
static void arguments(void)
{
    jb_need_gpu();
    jb_bench b = jb_open(NULL);
    trp_module m = jb_loaded(&b);
    trp_buffer out = h_buffer(b.device, 64);
    const uint64_t three[3] = {5, 70, 900};
    uint64_t sum = 0;
    trp_kernel_arg args[] = {trp_arg_buffer(out, TRP_ACCESS_WRITE), trp_arg_bytes(three, 24)};
    trp_kernel_launch_request r = jb_launch_of(m, "jit_sum", args, 2);
    H_OK(trp_kernel_launch(b.jit, &r, NULL));
    h_read(b.device, out, 0, &sum, sizeof sum);
    H_EQUAL(sum, 975);

    /* What is wrong with it is found by the kernel's own parameters, and costs only this. */
    trp_completion c = {0};
    trp_error error = {0};
    r.arg_count = 1;
    H_OK(trp_kernel_launch(b.jit, &r, &c));
    H_IS(h_await(c.future, &error), TRP_E_ARGUMENT);
    h_check_says(__FILE__, __LINE__, error.message, "jit_sum has 2 parameters, got 1");
    r.arg_count = 2;
    args[1].bytes = 16;
    H_OK(trp_kernel_launch(b.jit, &r, &c));
    H_IS(h_await(c.future, &error), TRP_E_ARGUMENT);
    h_check_says(__FILE__, __LINE__, error.message, "args[1]: the parameter of jit_sum has 24");
    args[0] = trp_arg_u32(1);
    args[1].bytes = 24;
    H_OK(trp_kernel_launch(b.jit, &r, &c));
    H_IS(h_await(c.future, &error), TRP_E_ARGUMENT);
    h_check_says(__FILE__, __LINE__, error.message, "args[0]");
    H_EQUAL(h_info(b.device).restarts, 0);
    jb_close(&b);
}

static void tensor_maps(void)
{
    jb_need_gpu();
    if (h_is_gpu())
        h_skip("a real map can't be read by a kernel; gpu/jit uses one");
    jb_bench b = jb_open(NULL);
    trp_module m = jb_loaded(&b);
    trp_buffer out = h_buffer(b.device, 64), data = h_buffer(b.device, 64 * 32 * 4);
    trp_tensor_map map = {.type = TRP_F32, .rank = 2, .size = {64, 32}, .box = {32, 16}};
    uint32_t got[6] = {0};
    trp_kernel_arg args[] = {trp_arg_buffer(out, TRP_ACCESS_WRITE),
                             trp_arg_tensor_map(data, &map, TRP_ACCESS_READ)};
    trp_kernel_launch_request r = jb_launch_of(m, "jit_map", args, 2);
    r.shared_bytes = 100 << 10;
    r.cluster[0] = 2;
    r.cooperative = true;
    h_fill(b.device, data, 0);
    H_OK(trp_kernel_launch(b.jit, &r, NULL));
    h_read(b.device, out, 0, got, sizeof got);
    H_CHECK(got[0] == 2 && got[1] == 64 && got[2] == 32 && got[3] == 0);

    map.size[1] = 33; /* more than the buffer has */
    H_IS(trp_kernel_launch(b.jit, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("args[1].map");
    map.size[1] = 32;
    args[1].offset = 8; /* refused by the driver */
    map.size[1] = 31;
    trp_completion c = {0};
    trp_error error = {0};
    H_OK(trp_kernel_launch(b.jit, &r, &c));
    H_IS(h_await(c.future, &error), TRP_E_ARGUMENT);
    h_check_says(__FILE__, __LINE__, error.message, "cuTensorMapEncodeTiled");
    jb_close(&b);
}

static void attributes(void)
{
    jb_need_gpu();
    jb_bench b = jb_open(NULL);
    trp_module m = jb_loaded(&b);
    trp_kernel_info info = {0};
    trp_completion c = {0};
    trp_kernel_query_request q = {.module = m, .kernel = "jit_axpy", .out = &info};
    q.block_threads = 256;
    H_OK(trp_kernel_query(b.jit, &q, &c));
    H_OK(h_await(c.future, NULL));
    H_CHECK(info.parameters == 4 && info.parameter_bytes >= 24 && info.threads_max >= 256 &&
            info.registers > 0 && info.blocks_per_processor >= 1 && info.block_best >= 32 &&
            info.grid_best >= 1);
    jb_close(&b);
}

/* ---- variables ---- */

/* In the order of the requests; far more often than a module has places. */
static void variables(void)
{
    jb_need_gpu();
    jb_bench b = jb_open(NULL);
    trp_module m = jb_loaded(&b);
    trp_buffer x = jb_ones(&b), y = h_buffer(b.device, JB_N * 4);
    trp_completion c = {0};
    trp_error error = {0};
    for (int i = 1; i <= 3 * TRP_MODULE_SETS_MAX; i++) {
        H_OK(jb_set_factor(&b, m, (float)i, NULL));
        jb_scale(&b, m, x, y, NULL);
        H_CHECK(jb_last_of(&b, y) == (float)i);
    }
    trp_module_set_request r = {.module = m, .variable = "nothing", .data = "1234", .bytes = 4};
    H_OK(trp_module_set(b.jit, &r, &c));
    H_IS(h_await(c.future, &error), TRP_E_ARGUMENT);
    h_check_says(__FILE__, __LINE__, error.message, "nothing");
    r.variable = "factor";
    r.offset = 1;
    H_OK(trp_module_set(b.jit, &r, &c));
    H_IS(h_await(c.future, &error), TRP_E_ARGUMENT);
    h_check_says(__FILE__, __LINE__, error.message, "the variable has 4");
    jb_scale(&b, m, x, y, NULL);
    H_CHECK(jb_last_of(&b, y) == (float)(3 * TRP_MODULE_SETS_MAX)); /* both were told */
    jb_close(&b);
}

/* ---- lives of handles ---- */

static void stale_handles(void)
{
    jb_need_gpu();
    jb_bench b = jb_open(NULL);
    h_world other_world = h_open(NULL);
    trp_actor *other = h_actor(other_world.device, "jit"), *second = h_actor(b.device, "jit");
    trp_module m = jb_loaded(&b), none = {0}, forged;
    trp_buffer out = h_buffer(b.device, JB_N * 4);
    H_IS(jb_fill(&b, none, out, 1, NULL), TRP_E_STALE);
    H_SAYS("no module");
    forged.id = m.id + (UINT64_C(1) << 32);
    H_IS(jb_fill(&b, forged, out, 1, NULL), TRP_E_STALE);
    forged.id = out.id; /* a buffer is no module, */
    H_IS(jb_fill(&b, forged, out, 1, NULL), TRP_E_STALE);
    H_IS(trp_module_free(b.device, forged), TRP_E_STALE);
    forged.id = out.id | UINT64_C(1) << 63;
    H_IS(jb_fill(&b, forged, out, 1, NULL), TRP_E_STALE);
    H_IS(trp_buffer_free(b.device, (trp_buffer){m.id}), TRP_E_STALE); /* and no module a buffer */
    jb_bench with_other = {.world = other_world, .device = other_world.device, .jit = other};
    trp_buffer there = h_buffer(other_world.device, JB_N * 4);
    H_IS(jb_fill(&with_other, m, there, 1, NULL), TRP_E_STALE);
    jb_bench with_second = {.world = b.world, .device = b.device, .jit = second};
    H_IS(jb_fill(&with_second, m, out, 1, NULL), TRP_E_ARGUMENT);
    H_SAYS("another actor");

    /* Freed with launches on their way. */
    trp_completion c[20] = {{0}};
    for (int i = 0; i < 20; i++)
        H_OK(jb_fill(&b, m, out, (uint32_t)i, &c[i]));
    H_OK(trp_module_free(b.device, m));
    H_IS(jb_fill(&b, m, out, 1, NULL), TRP_E_STALE);
    for (int i = 0; i < 20; i++)
        H_OK(h_await(c[i].future, NULL));
    jb_check_filled(&b, out, 19);
    trp_actor_destroy(second);
    trp_actor_destroy(other);
    h_close(&other_world);
    jb_close(&b);
}

/* More modules than a worker keeps loaded, twice round. */
static void many_modules(void)
{
    enum { MODULES = 300 };
    jb_need_gpu();
    if (h_is_gpu())
        h_skip("on the fake driver it is quick");
    jb_bench b = jb_open(NULL);
    static trp_module m[MODULES];
    trp_buffer out = h_buffer(b.device, JB_N * 4);
    int modules = H_SANITIZED ? 40 : MODULES;
    for (int i = 0; i < modules; i++)
        m[i] = jb_loaded(&b);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < modules; i++)
            H_OK(jb_fill(&b, m[i], out, (uint32_t)i, NULL));
        jb_check_filled(&b, out, (uint32_t)modules - 1);
    }
    for (int i = 0; i < modules; i++)
        H_OK(trp_module_free(b.device, m[i]));
    jb_close(&b);
}

/* An image that the driver does not take: its load fails, and so does what was sent behind it. */
static void bad_images(void)
{
    static const char bad[] = ".version 7.8\n.target sm_80\n.address_size 64\n"
                              ".visible .entry jit_fill(.param what)\n{\n}\n";
    jb_need_gpu();
    jb_bench b = jb_open(NULL);
    trp_module m;
    trp_completion load = {0}, launch = {0}, again = {0};
    trp_error error = {0};
    trp_buffer out = h_buffer(b.device, JB_N * 4);
    const trp_jit_load_request r = {
        .image = bad, .bytes = sizeof bad, .names = &(const char *){"jit_fill"}, .name_count = 1};
    H_OK(trp_jit_load(b.jit, &r, &m, &load));
    trp_status sent = jb_fill(&b, m, out, 1, &launch);
    H_CHECK(sent == TRP_OK || sent == TRP_E_DEPENDENCY); /* if the load has failed by then */
    H_IS(h_await(load.future, &error), TRP_E_LIBRARY);
    uint64_t cause = error.request;
    H_CHECK(strcmp(error.domain, "cuda") == 0);
    h_check_says(__FILE__, __LINE__, error.message, "ptxas");
    char word[32];
    snprintf(word, sizeof word, "%llu", (unsigned long long)cause);
    if (sent == TRP_OK) {
        H_IS(h_await(launch.future, &error), TRP_E_DEPENDENCY);
        h_check_says(__FILE__, __LINE__, error.message, word);
    }
    H_IS(jb_fill(&b, m, out, 1, &again), TRP_E_DEPENDENCY); /* told, but still no module */
    H_SAYS(word);
    H_OK(trp_module_free(b.device, m));
    jb_close(&b);
}

/* A launch sent behind a compile that fails, on a backend that launches. */
static void launch_of_a_failed_compile(void)
{
    static const char *const names[] = {"jit_fill"};
    jb_need_gpu();
    jb_need_nvrtc();
    jb_bench b = jb_open(NULL);
    trp_module m;
    trp_completion compile = {0}, launch = {0};
    trp_error error = {0};
    trp_buffer out = h_buffer(b.device, JB_N * 4);
    trp_jit_compile_request r = {
        .source = "this is not C++", .names = names, .name_count = 1, .output = TRP_JIT_PTX};
    H_OK(trp_jit_compile(b.jit, &r, &m, &compile));
    trp_status sent = jb_fill(&b, m, out, 1, &launch);
    H_CHECK(sent == TRP_OK || sent == TRP_E_DEPENDENCY); /* if the compile has failed by then */
    if (sent == TRP_OK)
        H_IS(h_await(launch.future, &error), TRP_E_DEPENDENCY);
    H_IS(h_await(compile.future, &error), TRP_E_LIBRARY);
    jb_close(&b);
}

/* From source to result. The fake driver reads the parameters from the PTX that NVRTC makes. */
static void compile_and_launch(void)
{
    static const char *const names[] = {"jit_fill", "jit_axpy"};
    jb_need_gpu();
    jb_need_nvrtc();
    jb_bench b = jb_open(NULL);
    trp_module m;
    trp_buffer out = h_buffer(b.device, JB_N * 4);
    trp_jit_compile_request r = {
        .source =
            "extern \"C\" __global__ void jit_fill(unsigned *out, unsigned v, unsigned n)\n"
            "{ unsigned i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = v + i; }"
            "extern \"C\" __global__ void jit_axpy(const float *x, float *y, float a,\n"
            "                                      unsigned n) { }",
        .names = names,
        .name_count = 2,
        .output = TRP_JIT_PTX};
    H_OK(trp_jit_compile(b.jit, &r, &m, NULL));
    H_OK(jb_fill(&b, m, out, 40, NULL));
    jb_check_filled(&b, out, 40);
    jb_close(&b);
}

H_CASES(H_CASE(arguments), H_CASE(tensor_maps), H_CASE(attributes), H_CASE(variables),
        H_CASE(stale_handles), H_CASE(many_modules), H_CASE(bad_images),
        H_CASE(launch_of_a_failed_compile), H_CASE(compile_and_launch))
