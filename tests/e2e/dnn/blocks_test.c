/* Numbers of 8 bits in blocks with scales of their own, there and back, of every type and layout
 * against a float64 reference; what is no number; beside other nodes; and what is wrong with nodes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_draw.h"
#include "support/label.h"

#include <math.h>

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static h_world world;
static trp_actor *dnn;

static const trp_dtype wides[] = {TRP_F32, TRP_F16, TRP_BF16}, narrows[] = {TRP_F8E4M3, TRP_F8E5M2},
                       scales[] = {TRP_F8E8M0, TRP_F8E4M3, TRP_F32};

/* Along any axis, with lines of which the last block is whole or not. */
static uint32_t draw_dims(trp_dnn_node *n, int64_t *dim)
{
    const uint32_t rank = (uint32_t)dp_from(1, 4);
    for (uint32_t i = 0; i < rank; i++)
        dim[i] = dp_below(25) ? dp_from(1, 4) : 0;
    n->axis = (uint32_t)dp_below(rank);
    n->block = 16 * (uint32_t)dp_below(3);
    dim[n->axis] = dp_below(4) ? dp_from(1, 100) : 32 * dp_below(4);
    return rank;
}

static void there(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(60); i++) {
        dp_problem p = {.kind = "block_scale_quantize"};
        int64_t dim[TRP_DNN_RANK_MAX];
        trp_dnn_node *n = dp_node(&p, TRP_DNN_BLOCK_SCALE_QUANTIZE);
        const uint32_t rank = draw_dims(n, dim);
        n->x = dp_memory(&p, wides[i % 3], rank, dim);
        n->y = dp_memory(&p, narrows[i / 3 % 2], rank, dim);
        n->scale = dd_scale_of(&p, scales[i / 6 % 3], n, n->x);
        p.fill[n->x] = dp_below(2) ? DP_WIDE : DP_ANY;
        n->compute = dp_below(4) ? TRP_DTYPE_NONE : TRP_F64;
        dp_check(world.device, dnn, &p);
    }
    dp_close(&world);
}

static void back(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(60); i++) {
        dp_problem p = {.kind = "block_scale_dequantize"};
        int64_t dim[TRP_DNN_RANK_MAX];
        trp_dnn_node *n = dp_node(&p, TRP_DNN_BLOCK_SCALE_DEQUANTIZE);
        const uint32_t rank = draw_dims(n, dim);
        n->x = dp_memory(&p, narrows[i / 3 % 2], rank, dim);
        n->scale = dd_scale_of(&p, scales[i / 6 % 3], n, n->x);
        n->y = dp_memory(&p, wides[i % 3], rank, dim);
        n->compute = dp_below(4) ? TRP_DTYPE_NONE : TRP_F64;
        dp_check(world.device, dnn, &p);
    }
    dp_close(&world);
}

/* Random numbers that go there and back through virtual tensors, transposed in between, and what is
 * off of them. */
static void among_others(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(15); i++) {
        dp_problem p = {.kind = "random, there and back"};
        const int64_t rows = dp_from(1, 5), columns = dp_from(1, 80), dim[] = {rows, columns};
        const bool second = dp_below(2);
        trp_dnn_node *n = dd_random(&p, (trp_dnn_random)(2 * dp_below(2)));
        const uint32_t x = n->y = dp_memory(&p, TRP_F32, 2, dim);
        n = dp_node(&p, TRP_DNN_BLOCK_SCALE_QUANTIZE);
        n->axis = second;
        n->block = 16;
        n->x = x;
        const uint32_t few = n->y = dp_virtual(&p, dp_below(2) ? TRP_DTYPE_NONE : TRP_F8E5M2);
        const uint32_t scale = n->scale = dp_virtual(&p, scales[dp_below(3)]);
        p.tensor[scale].rank = 2;
        p.tensor[scale].dim[0] = second ? rows : (rows + 15) / 16;
        p.tensor[scale].dim[1] = second ? (columns + 15) / 16 : columns;
        p.tensor[few].type = p.tensor[few].type ? p.tensor[few].type : TRP_F8E4M3;
        n = dp_node(&p, TRP_DNN_BLOCK_SCALE_DEQUANTIZE);
        n->axis = second;
        n->block = 16;
        n->x = few;
        n->scale = scale;
        const uint32_t again = n->y = dp_virtual(&p, TRP_F32);
        n = dp_node(&p, TRP_DNN_POINTWISE);
        n->pointwise = TRP_DNN_SUB;
        n->x = again;
        n->b = x;
        n->y = dp_memory(&p, TRP_F32, 2, dim);
        dp_check(world.device, dnn, &p);
    }
    dp_close(&world);
}

/* --- numbers that are known --- */

enum { BLOCK = 16 };

/* One block: its codes and the scale's bits. */
static void quantize(const float x[BLOCK], trp_dtype narrow, trp_dtype type, uint8_t y[BLOCK],
                     uint32_t *scale)
{
    const size_t bytes = trp_dtype_bits(type) / 8;
    trp_buffer from = h_buffer(world.device, BLOCK * sizeof *x), to = h_buffer(world.device, BLOCK);
    trp_buffer factor = h_buffer(world.device, bytes);
    trp_completion done = {0};
    const trp_dnn_tensor tensors[] = {{0},
                                      {.type = TRP_F32, .rank = 1, .dim = {BLOCK}, .buffer = from},
                                      {.type = narrow, .rank = 1, .dim = {BLOCK}, .buffer = to},
                                      {.type = type, .rank = 1, .dim = {1}, .buffer = factor}};
    const trp_dnn_node node = {
        .kind = TRP_DNN_BLOCK_SCALE_QUANTIZE, .x = 1, .y = 2, .scale = 3, .block = BLOCK};
    const trp_dnn_graph_request r = {
        .tensors = tensors, .tensor_count = 4, .nodes = &node, .node_count = 1};
    h_write(world.device, from, 0, x, BLOCK * sizeof *x);
    H_OK(trp_dnn_graph(dnn, &r, &done));
    H_OK(h_await_any(done));
    h_read(world.device, to, 0, y, BLOCK);
    *scale = 0;
    h_read(world.device, factor, 0, scale, bytes);
    H_OK(trp_buffer_free(world.device, from));
    H_OK(trp_buffer_free(world.device, to));
    H_OK(trp_buffer_free(world.device, factor));
}

/* By hand: most is 448 = 0x7e or 57344 = 0x7b; 1 is 0x38 or 0x3c, infinity is not made. */
static void known(void)
{
    static const struct {
        float x[3]; /* and zeros */
        trp_dtype narrow, type;
        uint32_t scale;
        uint8_t y[3];
    } rows[] = {
        {{448, -448, 1}, TRP_F8E4M3, TRP_F8E8M0, 127, {0x7e, 0xfe, 0x38}},
        {{449, -448, 1}, TRP_F8E4M3, TRP_F8E8M0, 128, {0x76, 0xf6, 0x30}}, /* up, not down */
        {{57344, 1, -1}, TRP_F8E5M2, TRP_F8E8M0, 127, {0x7b, 0x3c, 0xbc}},
        {{0, -0.0F, 0}, TRP_F8E4M3, TRP_F8E8M0, 0, {0, 0x80, 0}},
        {{0, -0.0F, 0}, TRP_F8E4M3, TRP_F8E4M3, 0, {0, 0x80, 0}},
        {{0, -0.0F, 0}, TRP_F8E4M3, TRP_F32, 0, {0, 0x80, 0}},
        {{NAN, 448, 0}, TRP_F8E4M3, TRP_F8E8M0, 127, {0x7f, 0x7e, 0}},
        {{NAN, 0, 0}, TRP_F8E4M3, TRP_F32, 0, {0x7f, 0, 0}},
        {{INFINITY, -INFINITY, 448}, TRP_F8E4M3, TRP_F8E8M0, 254, {0x7e, 0xfe, 0}},
        {{INFINITY, -INFINITY, 448}, TRP_F8E5M2, TRP_F8E4M3, 0x7e, {0x7b, 0xfb, 0x3c}},
        {{INFINITY, 0, 0}, TRP_F8E4M3, TRP_F32, 0x7f7fffff, {0x7e, 0, 0}},
        {{896, 448, 2}, TRP_F8E4M3, TRP_F32, 0x40000000, {0x7e, 0x76, 0x38}},
        {{896, 448, 2}, TRP_F8E4M3, TRP_F8E4M3, 0x40, {0x7e, 0x76, 0x38}},
        {{897, 448, 2}, TRP_F8E4M3, TRP_F8E4M3, 0x41, {0x7c, 0x74, 0x36}}, /* 2.25; 398.7, 199.1 */
        {{1e30F, 0, -1}, TRP_F8E4M3, TRP_F8E4M3, 0x7e, {0x7e, 0, 0x81}},   /* as large as it gets */
    };
    world = dp_open(&dnn);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        float x[BLOCK] = {0};
        uint8_t y[BLOCK];
        uint32_t scale;
        memcpy(x, rows[i].x, sizeof rows[i].x);
        quantize(x, rows[i].narrow, rows[i].type, y, &scale);
        if (scale != rows[i].scale || memcmp(y, rows[i].y, 3) != 0 || y[3] != 0)
            h_fail(__FILE__, __LINE__, "row %zu: %02x %02x %02x %02x with %x", i, y[0], y[1], y[2],
                   y[3], scale);
    }
    dp_close(&world);
}

/* --- wrong nodes --- */

/* What is done to a good node (0: there, 1: back), and what is said of it. */
#define BAD_CASES(BAD)                                                                             \
    BAD(0, "nodes[0].block (block_scale_quantize): expected 16 or 32, got 8", n->block = 8)        \
    BAD(1, "nodes[0].block (block_scale_dequantize): expected 16 or 32, got 64", n->block = 64)    \
    BAD(0, "nodes[0].axis (block_scale_quantize): expected 0 to 7, got 8", n->axis = 8)            \
    BAD(0, "nodes[0].axis (block_scale_quantize): expected less than the 2 dimensions, got 2",     \
        n->axis = 2)                                                                               \
    BAD(0, "nodes[0].x (block_scale_quantize): expected f32, f16 or bf16, got i8",                 \
        t[1].type = TRP_I8)                                                                        \
    BAD(0, "nodes[0].x (block_scale_quantize): expected f32, f16 or bf16, got f64",                \
        t[1].type = TRP_F64)                                                                       \
    BAD(0, "nodes[0].x (block_scale_quantize): expected a tensor with elements, got a number",     \
        t[1] = (trp_dnn_tensor){.value = trp_real(1)})                                             \
    BAD(0, "nodes[0].y (block_scale_quantize): expected f8e4m3 or f8e5m2, got f16",                \
        t[2].type = TRP_F16)                                                                       \
    BAD(0, "nodes[0].scale (block_scale_quantize): expected f8e8m0, f8e4m3 or f32, got f8e5m2",    \
        t[3].type = TRP_F8E5M2)                                                                    \
    BAD(0, "nodes[0].scale (block_scale_quantize): expected 3 x 3, got 3 x 2", t[3].dim[1] = 2)    \
    BAD(0, "nodes[0].scale (block_scale_quantize): expected 3 x 5, got 3 x 3", n->block = 16)      \
    BAD(0, "nodes[0].y (block_scale_quantize): expected 3 x 70, got 3 x 69", t[2].dim[1] = 69)     \
    BAD(0, "nodes[0].scale (block_scale_quantize): expected a tensor, 1 to 3, got 0",              \
        n->scale = 0)                                                                              \
    BAD(0, "nodes[0].mean: expected 0, for block_scale_quantize has no such tensor", n->mean = 3)  \
    BAD(0, "nodes[0].window[0] (block_scale_quantize): expected 0 to 0, got 32",                   \
        n->window[0] = 32)                                                                         \
    BAD(0, "nodes[0].compute (block_scale_quantize): expected f32 or f64, got i32",                \
        n->compute = TRP_I32)                                                                      \
    BAD(0, "nodes[0].parameter[0]: expected none", n->parameter[0] = trp_real(1))                  \
    BAD(1, "nodes[0].x (block_scale_dequantize): expected f8e4m3 or f8e5m2, got u8",               \
        t[1].type = TRP_U8)                                                                        \
    BAD(1, "nodes[0].scale (block_scale_dequantize): expected f8e8m0, f8e4m3 or f32, got f16",     \
        t[3].type = TRP_F16)                                                                       \
    BAD(1, "nodes[0].y (block_scale_dequantize): expected f32, f16 or bf16, got f8e8m0",           \
        t[2].type = TRP_F8E8M0)                                                                    \
    BAD(1, "nodes[0].scale (block_scale_dequantize): expected 1 x 70, got 3 x 3", n->axis = 0)     \
    BAD(1, "nodes[0].x (pointwise): expected another type than f8e8m0",                            \
        *n = ((trp_dnn_node){                                                                      \
            .kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_ADD, .x = 3, .b = 1, .y = 2}))         \
    BAD(1, "nodes[0].x (slice): expected another type than f8e8m0",                                \
        *n = ((trp_dnn_node){.kind = TRP_DNN_SLICE, .x = 3, .y = 2}))                              \
    BAD(1, "nodes[0].block (pointwise): expected 0, got 32",                                       \
        *n = ((trp_dnn_node){.kind = TRP_DNN_POINTWISE, .x = 1, .y = 2, .block = 32}))

static void wrong_ones(void)
{
    trp_dnn_tensor t[4] = {{0}};
    trp_dnn_node node, *const n = &node;
    trp_buffer kept[4] = {{0}};
    world = dp_open(&dnn);
    for (int i = 1; i < 4; i++)
        kept[i] = h_buffer(world.device, 4096);
#define TRY(which, says, change)                                                                   \
    {                                                                                              \
        for (int i = 1; i < 4; i++)                                                                \
            t[i] = (trp_dnn_tensor){.rank = 2, .dim = {3, i == 3 ? 3 : 70}, .buffer = kept[i]};    \
        t[1].type = (which) ? TRP_F8E4M3 : TRP_F32;                                                \
        t[2].type = (which) ? TRP_F32 : TRP_F8E4M3;                                                \
        t[3].type = TRP_F8E8M0;                                                                    \
        *n = (trp_dnn_node){.kind = (trp_dnn_kind)(TRP_DNN_BLOCK_SCALE_QUANTIZE + (which)),        \
                            .x = 1,                                                                \
                            .y = 2,                                                                \
                            .scale = 3,                                                            \
                            .axis = 1};                                                            \
        change;                                                                                    \
        const trp_dnn_graph_request r = {                                                          \
            .tensors = t, .tensor_count = 4, .nodes = n, .node_count = 1};                         \
        H_IS(trp_dnn_graph(dnn, &r, NULL), TRP_E_ARGUMENT);                                        \
        H_SAYS(says);                                                                              \
    }
    BAD_CASES(TRY)
#undef TRY
    dp_close(&world);
}

static const h_case cases[] = {
    {"there", there},           {"back", back}, {"among_others", among_others}, {"known", known},
    {"wrong_ones", wrong_ones},
};

int main(int argc, char **argv)
{
    return h_main(argc, argv, cases, COUNT_OF(cases));
}
