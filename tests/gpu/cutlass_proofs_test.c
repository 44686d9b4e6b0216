/* Kernels that people use, of each family, with proofs on: all are good, and none is computed by
 * the reference. Prints what the first request of a size takes longer than the second, which is the
 * proof, once kernel and reference are loaded. Kernels of a pack, or of the cache, spare the
 * compiling. SPDX-License-Identifier: Apache-2.0 */
#include "support/gpu.h"
#include "support/label.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TROUPE_TEST_FAKE_GPU("no sanitizer", "cutlass", "TROUPE_TEST_SMALL=16");

enum { BYTES = 512 << 20, EXPERTS = 16 };

static h_world world;
static trp_actor *cutlass;
static trp_buffer in, other, out, more, small; /* of BYTES, or of 4 MiB */
static int64_t divisor = 1;

/* What is sent: product, groups or convolution `which` of a size, 0 or 1. */
typedef struct subject {
    const char *what, *kernel;
    trp_status (*send)(const struct subject *s, int64_t size, trp_cutlass_chosen *chosen,
                       trp_cutlass_ran *ran, trp_completion *done);
    int64_t m, n, k, batch;
    trp_dtype a, b, d;
    trp_compute compute;
    uint32_t epilogue; /* of `trees` */
    trp_scale_mode scale_a, scale_b;
    int64_t group;
    int64_t odd; /* elements between lines besides */
    bool in_place;
    trp_conv_operation operation;
} subject;

/* --- Epilogues --- */

enum { NO_TREE, RELU, ALL_KINDS, TREES };

static uint32_t tree_of(uint32_t which, trp_epilogue_node out_nodes[16])
{
    enum { NONE, SUM, BIAS, BIASED, ROOT };
    enum { STORE = ROOT, ROWS, LARGEST, LAST };
    trp_epilogue_node *x = out_nodes;
    memset(x, 0, 16 * sizeof *x);
    x[SUM].kind = TRP_EPILOGUE_ACCUMULATOR;
    x[BIAS] =
        (trp_epilogue_node){.kind = TRP_EPILOGUE_PER_COLUMN, .buffer = small, .type = TRP_BF16};
    x[BIASED] = (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY, .input = {SUM, BIAS}};
    x[ROOT] = (trp_epilogue_node){
        .kind = TRP_EPILOGUE_ACTIVATION, .activation = TRP_ACTIVATION_RELU, .input = {BIASED}};
    if (which == RELU)
        return ROOT + 1;
    x[STORE] = (trp_epilogue_node){.kind = TRP_EPILOGUE_AUX_STORE,
                                   .input = {BIASED},
                                   .buffer = more,
                                   .type = TRP_BF16,
                                   .order = TRP_ROW_MAJOR};
    x[ROWS] = (trp_epilogue_node){.kind = TRP_EPILOGUE_REDUCE_ROWS,
                                  .input = {BIASED},
                                  .buffer = small,
                                  .offset = 1 << 20,
                                  .reduction = TRP_REDUCTION_SUM};
    x[LARGEST] = (trp_epilogue_node){.kind = TRP_EPILOGUE_REDUCE_ALL,
                                     .input = {BIASED},
                                     .buffer = small,
                                     .offset = 2 << 20,
                                     .reduction = TRP_REDUCTION_AMAX};
    x[LAST] = (trp_epilogue_node){
        .kind = TRP_EPILOGUE_ACTIVATION, .activation = TRP_ACTIVATION_GELU, .input = {BIASED}};
    return LAST + 1;
}

/* --- Requests --- */

static trp_status send_product(const subject *s, int64_t size, trp_cutlass_chosen *chosen,
                               trp_cutlass_ran *ran, trp_completion *done)
{
    trp_epilogue_node nodes[16];
    const int64_t step = 16 * size;
    const trp_cutlass_gemm_request r = {
        .m = s->m / divisor + step,
        .n = s->n / divisor + step,
        .k = s->group || s->scale_a ? s->k / divisor + 128 * size : s->k / divisor + step,
        .batch = s->batch,
        .compute = s->compute,
        .a = {.buffer = in,
              .type = s->a,
              .order = TRP_ROW_MAJOR,
              .ld = s->odd ? s->k / divisor + step + s->odd : 0,
              .stride = s->batch ? (s->m / divisor + step) * (s->k / divisor + step) : 0,
              .scale = {.buffer = s->scale_a ? small : (trp_buffer){0}, .mode = s->scale_a}},
        .b = {.buffer = other,
              .type = s->b,
              .stride = s->batch ? (s->n / divisor + step) * (s->k / divisor + step) : 0,
              .scale = {.buffer = s->scale_b ? small : (trp_buffer){0}, .mode = s->scale_b}},
        .groups = {.size = s->group, .scale = s->group ? small : (trp_buffer){0}},
        .c = {.buffer = s->in_place ? out : (trp_buffer){0}, .type = s->d, .order = TRP_ROW_MAJOR},
        .d = {.buffer = out,
              .type = s->d,
              .order = TRP_ROW_MAJOR,
              .stride = s->batch ? (s->m / divisor + step) * (s->n / divisor + step) : 0},
        .alpha = s->in_place ? trp_real(0.75) : (trp_scalar){0},
        .beta = s->in_place ? trp_real(-0.5) : (trp_scalar){0},
        .epilogue = s->epilogue ? nodes : NULL,
        .epilogue_count = s->epilogue ? tree_of(s->epilogue, nodes) : 0,
        .kernel = s->kernel,
        .chosen = chosen,
        .ran = ran};
    return trp_cutlass_gemm(cutlass, &r, done);
}

/* Tokens of experts, or a table of products. */
static trp_status send_groups(const subject *s, int64_t size, trp_cutlass_chosen *chosen,
                              trp_cutlass_ran *ran, trp_completion *done)
{
    const int64_t rows = s->m / divisor + 16 * size, n = s->n / divisor, k = s->k / divisor;
    int32_t ends[EXPERTS];
    for (int i = 0; i < EXPERTS; i++)
        ends[i] = (int32_t)(rows * (i + 1) / EXPERTS);
    h_write(world.device, small, 0, ends, sizeof ends);
    const trp_cutlass_grouped_gemm_request r = {
        .groups = EXPERTS,
        .grouping = TRP_CUTLASS_GROUPS_OF_M,
        .m = rows,
        .n = n,
        .k = k,
        .a = {.buffer = in, .type = s->a, .order = TRP_ROW_MAJOR},
        .b = {.buffer = other, .stride = n * k},
        .d = {.buffer = out, .type = s->d, .order = TRP_ROW_MAJOR},
        .table = small,
        .kernel = s->kernel,
        .chosen = chosen,
        .ran = ran};
    return trp_cutlass_grouped_gemm(cutlass, &r, done);
}

static trp_status send_values(const subject *s, int64_t size, trp_cutlass_chosen *chosen,
                              trp_cutlass_ran *ran, trp_completion *done)
{
    trp_cutlass_group group[4];
    memset(group, 0, sizeof group);
    for (int i = 0; i < 4; i++) {
        group[i] = (trp_cutlass_group){.m = s->m / divisor + 16 * (i + size),
                                       .n = s->n / divisor,
                                       .k = s->k / divisor,
                                       .a = i * (1 << 20),
                                       .b = i * (1 << 20),
                                       .d = i * (1 << 20)};
    }
    const trp_cutlass_grouped_gemm_request r = {
        .groups = 4,
        .a = {.buffer = in, .type = s->a, .order = TRP_ROW_MAJOR},
        .b = {.buffer = other},
        .d = {.buffer = out, .type = s->d, .order = TRP_ROW_MAJOR},
        .group = group,
        .kernel = s->kernel,
        .chosen = chosen,
        .ran = ran};
    return trp_cutlass_grouped_gemm(cutlass, &r, done);
}

/* m images of 28 x 28 with k channels, n filters of 3 x 3. */
static trp_status send_conv(const subject *s, int64_t size, trp_cutlass_chosen *chosen,
                            trp_cutlass_ran *ran, trp_completion *done)
{
    const bool back = s->operation == TRP_CONV_DGRAD;
    const trp_cutlass_conv_request r = {.operation = s->operation,
                                        .images = s->m / divisor + size,
                                        .channels = s->k / divisor,
                                        .filters = s->n / divisor,
                                        .input = {28, 28},
                                        .filter = {3, 3},
                                        .pad = {1, 1},
                                        .pad_after = {1, 1},
                                        .stride = {back ? 2 : 1, back ? 2 : 1},
                                        .a = {.buffer = in, .type = s->a},
                                        .b = {.buffer = other},
                                        .d = {.buffer = out},
                                        .kernel = s->kernel,
                                        .chosen = chosen,
                                        .ran = ran};
    return trp_cutlass_conv(cutlass, &r, done);
}

#define SIZES(rows, columns, terms) .m = (rows), .n = (columns), .k = (terms)
#define TYPES(type, other, result)  .a = (type), .b = (other), .d = (result)
static const subject subjects[] = {
    {"bf16", "s90_half_128x256x64_2x1", send_product, SIZES(4096, 4096, 4096),
     TYPES(TRP_BF16, 0, TRP_BF16)},
    {"bf16, stream-K", "s90_half_128x128x64_1x1_streamk", send_product, SIZES(512, 512, 8192),
     TYPES(TRP_BF16, 0, TRP_BF16)},
    {"bf16, a batch", "s90_half_128x256x64_2x1", send_product, SIZES(1024, 512, 512),
     TYPES(TRP_BF16, 0, TRP_BF16), .batch = 8},
    {"bf16, relu and bias", "s90_half_64x128x64_1x1_pingpong", send_product,
     SIZES(2048, 2048, 1024), TYPES(TRP_BF16, 0, TRP_BF16), .epilogue = RELU},
    {"bf16, all kinds", "s80_half_64x64x64_a8", send_product, SIZES(512, 256, 256),
     TYPES(TRP_BF16, 0, TRP_BF16), .epilogue = ALL_KINDS},
    {"bf16, C in place", "s80_half_128x128x32_a8", send_product, SIZES(1024, 1024, 1024),
     TYPES(TRP_BF16, 0, TRP_BF16), .in_place = true},
    {"bf16, aligned to 4", "s80_half_128x128x32_a2", send_product, SIZES(992, 992, 992),
     TYPES(TRP_BF16, 0, TRP_BF16), .odd = 2},
    {"tf32", "s90_tf32_128x128x32_1x1", send_product, SIZES(2048, 2048, 2048),
     TYPES(TRP_F32, 0, TRP_F32), .compute = TRP_COMPUTE_TF32},
    {"f32", "s80_f32_128x128x8", send_product, SIZES(2048, 2048, 2048), TYPES(TRP_F32, 0, TRP_F32)},
    {"f64", "s80_f64_64x64x16", send_product, SIZES(2048, 2048, 2048), TYPES(TRP_F64, 0, TRP_F64)},
    {"i8", "s80_i8_128x128x64_a16", send_product, SIZES(2048, 2048, 2048),
     TYPES(TRP_I8, 0, TRP_I32)},
    {"fp8, factors", "s90_fp8_blocks_128x128x128_1x1", send_product, SIZES(2048, 2048, 2048),
     TYPES(TRP_F8E4M3, 0, TRP_BF16), .scale_a = TRP_SCALE_BLOCK_128,
     .scale_b = TRP_SCALE_BLOCK_128X128},
    {"bf16 and i8", "s90_mixed_64x128x64_1x1_pingpong", send_product, SIZES(128, 2048, 2048),
     TYPES(TRP_BF16, TRP_I8, TRP_BF16), .group = 128},
    {"groups of tokens", "s90_grouped_half_128x128x64_1x1", send_groups, SIZES(4096, 1024, 1024),
     TYPES(TRP_BF16, 0, TRP_BF16)},
    {"groups by value", "s80_grouped_half_64x64x64_a8_d1", send_values, SIZES(256, 512, 512),
     TYPES(TRP_BF16, 0, TRP_BF16)},
    {"fprop", "s90_conv_half_128x128x64_1x1", send_conv, SIZES(32, 256, 256),
     TYPES(TRP_BF16, 0, TRP_BF16)},
    {"fprop for sm_80", "s80_conv_half_64x64x64_a8", send_conv, SIZES(32, 256, 256),
     TYPES(TRP_BF16, 0, TRP_BF16)},
    {"dgrad with strides", "s80_conv_half_64x64x64_a8", send_conv, SIZES(32, 256, 256),
     TYPES(TRP_BF16, 0, TRP_BF16), .operation = TRP_CONV_DGRAD},
    {"wgrad", "s80_conv_half_64x64x64_a8", send_conv, SIZES(32, 256, 256),
     TYPES(TRP_BF16, 0, TRP_BF16), .operation = TRP_CONV_WGRAD},
};

/* Sends one and awaits it; what it took, in ns. */
static int64_t run(const subject *s, int64_t size, trp_cutlass_ran *ran)
{
    trp_cutlass_chosen chosen = {0};
    trp_completion done = {0};
    trp_error error = {0};
    *ran = (trp_cutlass_ran){0};
    const int64_t began = h_now();
    if (s->send(s, size, &chosen, ran, &done) != TRP_OK)
        h_fail(__FILE__, __LINE__, "%s: %s", s->what, trp_error_last()->message);
    if (h_await(done.future, &error) != TRP_OK)
        h_fail(__FILE__, __LINE__, "%s: %s", s->what, error.message);
    return h_now() - began;
}

static void usual_kernels(void)
{
    const char *small_sizes = getenv("TROUPE_TEST_SMALL");
    const size_t room = small_sizes ? 16 << 20 : BYTES;
    divisor = small_sizes ? atoi(small_sizes) : 1;
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    in = h_filled(world.device, room, 0x3c003c00);
    other = h_filled(world.device, room, 0x3c003c00);
    out = h_filled(world.device, room, 0x3c003c00);
    more = h_filled(world.device, room, 0x3c003c00);
    small = h_filled(world.device, 4 << 20, 0x3c003c00);
    printf("%-20s %-34s %10s %10s %10s\n", "what", "kernel", "loaded ms", "proof ms", "run ms");
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        const subject *s = &subjects[i];
        trp_cutlass_ran ran[3];
        const int64_t loaded = run(s, 0, &ran[0]), proven = run(s, 1, &ran[1]);
        const int64_t again = run(s, 1, &ran[2]);
        printf("%-20s %-34s %10.1f %10.2f %10.2f%s\n", s->what, ran[1].kernel, (double)loaded / 1e6,
               (double)(proven - again) / 1e6, (double)again / 1e6,
               ran[1].proven && strcmp(ran[1].kernel, s->kernel) == 0 ? "" : "  NOT PROVEN");
        for (int k = 0; k < 3; k++)
            H_CHECK(ran[k].proven && strcmp(ran[k].kernel, s->kernel) == 0);
    }
    h_close(&world);
}

static const h_case cases[] = {{"usual_kernels", usual_kernels}};

int main(int argc, char **argv)
{
    return gpu_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
