/* Blocks of 8 bits with scales that are known, and what is no number. Against a reference:
 * tests/conformance. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_draw.h"
#include "support/label.h"

#include <math.h>

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static h_world world;
static trp_actor *dnn;

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

H_CASES(H_CASE(known))
