/* Requests that no library and no fast kernel takes as they stand: products whose operands and
 * results are of unlike types, norms and pooling of 8 bits, norms to f64, and
 * reshapes of tensors that both have gaps. They run as others do, behind and in front of
 * conversions and copies. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_problem.h"
#include "support/label.h"

#include <string.h>

TROUPE_TEST_FAKE_GPU("no sanitizer", "as fake-cudnn", "dnn", "FAKE_CUDNN_TAKES=all,alike");

static trp_actor *dnn;
static h_world world;

/* Runs a problem, compares it, and asserts how what ran begins. Engines of a GPU are its own, but
 * never the plain kernels, which dp_compute() looks for. */
static void expect(dp_problem *p, const char *engine, uint32_t parts)
{
    dp_make(world.device, p);
    dp_compute(dnn, p);
    dp_compare(p);
    const bool same = strncmp(p->ran.engine, engine, strlen(engine)) == 0 && p->ran.parts == parts;
    if (h_is_cuda() && !h_is_gpu() && !same)
        h_fail(__FILE__, __LINE__, "%s to %s: %s in %u parts, expected %s in %u",
               trp_dtype_name(p->tensor[1].type), trp_dtype_name(p->tensor[p->tensors].type),
               p->ran.engine, p->ran.parts, engine, parts);
    dp_drop(p);
}

typedef struct types_row {
    trp_dtype a, b, y;
    const char *engine;
    uint32_t parts;
} types_row;

static void matrices(void)
{
    static const types_row rows[] = {
        {TRP_BF16, TRP_BF16, TRP_F32, "cublaslt_", 1},
        {TRP_BF16, TRP_BF16, TRP_F64, "cublaslt_", 2},
        {TRP_BF16, TRP_BF16, TRP_F16, "cublaslt_", 2},
        {TRP_F16, TRP_F16, TRP_F8E4M3, "cublaslt_", 2},
        {TRP_F32, TRP_F32, TRP_BF16, "eng1", 1}, /* both nodes */
        {TRP_F32, TRP_F32, TRP_F16, "eng1", 1},
        {TRP_F32, TRP_F32, TRP_F64, "cublaslt_", 2},
        {TRP_F32, TRP_F32, TRP_F8E5M2, "cublaslt_", 2},
        {TRP_F64, TRP_F64, TRP_F32, "cublaslt_", 2},
        {TRP_BF16, TRP_F16, TRP_F16, "eng1", 3},
        {TRP_BF16, TRP_F32, TRP_BF16, "eng1", 2},
        {TRP_F64, TRP_F32, TRP_F32, "cublaslt_", 3},
        {TRP_BF16, TRP_BF16, TRP_I8, "cublaslt_", 2},
        {TRP_F32, TRP_F32, TRP_I32, "cublaslt_", 2},
        {TRP_F8E4M3, TRP_F8E4M3, TRP_BF16, "cublaslt_", 4},
        {TRP_F8E5M2, TRP_F8E4M3, TRP_F8E4M3, "cublaslt_", 4},
        {TRP_F8E4M3, TRP_F16, TRP_F16, "", 2},
    };
    world = dp_open(&dnn);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int64_t a[] = {2, 17, 33}, b[] = {2, 33, 20}, y[] = {2, 17, 20};
        dp_problem p = {.kind = "product of unlike types", .packed = true};
        trp_dnn_node *n = dp_node(&p, TRP_DNN_MATMUL);
        n->a = dp_memory(&p, rows[i].a, 3, a);
        n->b = dp_memory(&p, rows[i].b, 3, b);
        n->y = dp_memory(&p, rows[i].y, 3, y);
        expect(&p, rows[i].engine, rows[i].parts);
    }
    dp_close(&world);
}

/* Matrices whose elements lie between those of others, and a result like an image with channels
 * last. */
static void interleaved(void)
{
    const int64_t a[] = {2, 1, 18, 14}, b[] = {1, 3, 14, 15}, y[] = {2, 3, 18, 15};
    world = dp_open(&dnn);
    for (int last = 0; last < 2; last++) {
        dp_problem p = {.kind = "product of interleaved matrices", .packed = true};
        trp_dnn_node *n = dp_node(&p, TRP_DNN_MATMUL);
        n->a = dp_memory(&p, TRP_F32, 4, a);
        n->b = dp_memory(&p, TRP_F32, 4, b);
        n->y = dp_memory(&p, TRP_F32, 4, y);
        memcpy(p.tensor[n->a].stride, ((int64_t[]){1200, 38, 2, 83}), 4 * sizeof(int64_t));
        memcpy(p.tensor[n->b].stride, ((int64_t[]){87, 6, 20, 300}), 4 * sizeof(int64_t));
        if (last)
            memcpy(p.tensor[n->y].stride, ((int64_t[]){810, 1, 45, 3}), 4 * sizeof(int64_t));
        expect(&p, "cublaslt_", last ? 4 : 3);
    }
    dp_close(&world);
}

static void convolutions(void)
{
    static const types_row rows[] = {
        {TRP_F16, TRP_F16, TRP_F8E4M3, "eng1", 4},
        {TRP_F32, TRP_F32, TRP_F8E5M2, "eng1", 2},
        {TRP_BF16, TRP_BF16, TRP_F64, "eng1", 4},
        {TRP_F32, TRP_F32, TRP_F64, "eng1", 2},
        {TRP_F32, TRP_F32, TRP_U8, "eng1", 2},
        {TRP_BF16, TRP_BF16, TRP_BOOL, "eng1", 4},
        {TRP_F8E4M3, TRP_F8E4M3, TRP_F16, "eng0", 3},
        {TRP_F8E5M2, TRP_F8E5M2, TRP_F8E5M2, "eng0", 1},
    };
    world = dp_open(&dnn);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int64_t x[] = {2, 8, 9, 9}, w[] = {8, 8, 2, 2}, y[] = {2, 8, 8, 8};
        dp_problem p = {.kind = "convolution to an unlike type", .packed = true};
        trp_dnn_node *n = dp_node(&p, TRP_DNN_CONV_FORWARD);
        n->x = dp_memory(&p, rows[i].a, 4, x);
        n->w = dp_memory(&p, rows[i].b, 4, w);
        n->y = dp_memory(&p, rows[i].y, 4, y);
        expect(&p, rows[i].engine, rows[i].parts);
    }
    dp_close(&world);
}

/* Norms of b for scale and bias. */
static void norms(void)
{
    static const types_row rows[] = {
        {TRP_F32, TRP_F32, TRP_F8E4M3, "norm_", 2}, {TRP_BF16, TRP_F32, TRP_F8E5M2, "norm_", 2},
        {TRP_BF16, TRP_BF16, TRP_I8, "norm_", 2},   {TRP_F8E4M3, TRP_F32, TRP_F8E4M3, "map_", 3},
        {TRP_F8E5M2, TRP_F32, TRP_BF16, "map_", 2}, {TRP_F32, TRP_F32, TRP_F64, "norm_", 2},
        {TRP_F32, TRP_F8E4M3, TRP_F32, "map_", 2},
    };
    world = dp_open(&dnn);
    for (size_t i = 0; i < 4 * (sizeof rows / sizeof *rows); i++) {
        const types_row *row = &rows[i / 4];
        const trp_dnn_norm mode = (trp_dnn_norm)(i % 4);
        const bool each = mode == TRP_DNN_LAYER || mode == TRP_DNN_RMS;
        const int64_t x[] = {3, 5, 64}, scale[] = {1, 5, each ? 64 : 1};
        dp_problem p = {.kind = "norm of unlike types", .packed = true};
        trp_dnn_node *n =
            dp_node(&p, mode == TRP_DNN_BATCH ? TRP_DNN_NORM_TRAINING : TRP_DNN_NORM_INFERENCE);
        n->norm = mode;
        n->compute = TRP_F32;
        n->x = dp_memory(&p, row->a, 3, x);
        n->scale = dp_memory(&p, row->b, 3, scale);
        n->bias = mode == TRP_DNN_RMS ? 0 : dp_memory(&p, row->b, 3, scale);
        n->epsilon = dp_value(&p, 1e-5);
        if (mode == TRP_DNN_BATCH) {
            n->mean = dp_memory(&p, TRP_F32, 3, (int64_t[]){1, 5, 1});
            n->inv_variance = dp_memory(&p, TRP_F32, 3, (int64_t[]){1, 5, 1});
        }
        n->y = dp_memory(&p, row->y, 3, x);
        expect(&p, row->engine, row->parts);
    }
    dp_close(&world);
}

static void pools(void)
{
    static const types_row rows[] = {
        {TRP_F8E4M3, TRP_F8E4M3, TRP_F8E4M3, "map_", 3},
        {TRP_F32, TRP_F32, TRP_F8E5M2, "pool_", 2},
        {TRP_I8, TRP_I8, TRP_I8, "map_", 3},
    };
    world = dp_open(&dnn);
    for (size_t i = 0; i < 2 * (sizeof rows / sizeof *rows); i++) {
        const types_row *row = &rows[i / 2];
        const int64_t x[] = {2, 8, 12, 12}, y[] = {2, 8, 6, 6};
        dp_problem p = {.kind = "pooling of unlike types", .packed = true};
        trp_dnn_node *n = dp_node(&p, TRP_DNN_RESAMPLE_FORWARD);
        n->resample = i % 2 ? TRP_DNN_POOL_MAX : TRP_DNN_POOL_AVERAGE;
        n->compute = TRP_F32;
        for (int k = 0; k < 2; k++)
            n->window[k] = n->stride[k] = 2;
        n->x = dp_memory(&p, row->a, 4, x);
        n->y = dp_memory(&p, row->y, 4, y);
        expect(&p, row->engine, row->parts);
    }
    dp_close(&world);
}

/* Rows of both with gaps, and the outer two dimensions of one the other way round. */
static void reshapes(void)
{
    static const trp_dtype types[] = {TRP_F64,    TRP_F32, TRP_F16, TRP_BF16, TRP_F8E4M3,
                                      TRP_F8E5M2, TRP_I8,  TRP_I32, TRP_U8,   TRP_BOOL};
    enum { TYPES = sizeof types / sizeof *types };
    world = dp_open(&dnn);
    for (int from = 0; from < TYPES; from++) {
        for (int to = 0; to < TYPES; to++) {
            const int64_t x[] = {3, 40, 50}, y[] = {60, 100};
            dp_problem p = {.kind = "reshape", .packed = true};
            trp_dnn_node *n = dp_node(&p, TRP_DNN_RESHAPE);
            n->x = dp_memory(&p, types[from], 3, x);
            n->y = dp_memory(&p, types[to], 2, y);
            memcpy(p.tensor[n->x].stride, ((int64_t[]){55, 3 * 55, 1}), 3 * sizeof(int64_t));
            memcpy(p.tensor[n->y].stride, ((int64_t[]){103, 1}), 2 * sizeof(int64_t));
            expect(&p, "move_", 2);
            dp_problem same = {.kind = "reshape to the same dimensions", .packed = true};
            n = dp_node(&same, TRP_DNN_RESHAPE);
            n->x = dp_memory(&same, types[from], 3, x);
            n->y = dp_memory(&same, types[to], 3, x);
            for (int i = 1; i <= 2; i++) /* as channels last */
                memcpy(same.tensor[i].stride, ((int64_t[]){2000, 1, 40}), 3 * sizeof(int64_t));
            expect(&same, from == to ? "move_" : "convert_map_", 1);
        }
    }
    dp_close(&world);
}

H_CASES(H_CASE(matrices), H_CASE(interleaved), H_CASE(convolutions), H_CASE(norms), H_CASE(pools),
        H_CASE(reshapes))
