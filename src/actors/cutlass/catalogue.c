#include "actors/cutlass/catalogue.h"

#include <string.h>

/* Names: the family, the inputs, the tile, then what sets rows apart: elements of A and B that are
 * loaded at once (a8), D and what is laid out like it in single elements (d1), the cluster, the
 * schedule. Rows that cost the same are taken in this order. The efficiencies are estimates. */

#define TILE(m, n, k)                                                                              \
    {                                                                                              \
        m, n, k                                                                                    \
    }
#define MMA80(id, in, tm, tn, tk, wm, wn, im, ins, ik, depth, elements, bytes, percent, ...)       \
    {                                                                                              \
        .name = "s80_" id, .family = TRP__CUTLASS_SM80, .inputs = TRP__CUTLASS_##in,               \
        .tile = TILE(tm, tn, tk), .warp = TILE(wm, wn, tk), .instruction = TILE(im, ins, ik),      \
        .cluster = {1, 1}, .stages = depth, .align = elements, .lines = bytes,                     \
        .efficiency = percent, __VA_ARGS__                                                         \
    }
#define HALF80(id, tm, tn, tk, wm, wn, depth, elements, bytes, percent, ...)                       \
    MMA80("half_" id, HALF, tm, tn, tk, wm, wn, 16, 8, 16, depth, elements, bytes, percent,        \
          __VA_ARGS__)
#define TF80(id, tm, tn, tk, wm, wn, depth, elements, bytes, percent, ...)                         \
    MMA80("tf32_" id, TF32, tm, tn, tk, wm, wn, 16, 8, 8, depth, elements, bytes, percent,         \
          __VA_ARGS__)
#define SIMT80(id, tm, tn, wm, wn, depth, percent)                                                 \
    MMA80("f32_" id, F32, tm, tn, 8, wm, wn, 1, 1, 1, depth, 1, 0, percent, .pingpong = false)
#define F64_80(id, tm, tn, wm, wn, depth, bytes, percent)                                          \
    MMA80("f64_" id, F64, tm, tn, 16, wm, wn, 8, 8, 4, depth, 1, bytes, percent, .pingpong = false)
#define I8_80(id, tm, tn, wm, wn, depth, elements, bytes, percent, ...)                            \
    MMA80("i8_" id, I8, tm, tn, 64, wm, wn, 16, 8, 32, depth, elements, bytes, percent, __VA_ARGS__)
#define FP8_80(id, tm, tn, wm, wn, depth, elements, bytes, percent)                                \
    MMA80("fp8_" id, FP8, tm, tn, 64, wm, wn, 16, 8, 32, depth, elements, bytes, percent,          \
          .pingpong = false)
#define MMA90(id, in, tm, tn, tk, cm, cn, elements, percent, ...)                                  \
    {                                                                                              \
        .name = "s90_" id, .family = TRP__CUTLASS_SM90, .inputs = TRP__CUTLASS_##in,               \
        .tile = TILE(tm, tn, tk), .cluster = {cm, cn}, .align = elements, .lines = 16,             \
        .efficiency = percent, __VA_ARGS__                                                         \
    }
#define COOPERATIVE .pingpong = false
#define PINGPONG    .pingpong = true
#define STREAM_K    .stream_k = true
#define PLAIN       .stream_k = false

static const trp__cutlass_row rows[] = {
    MMA90("half_128x256x64_2x1", HALF, 128, 256, 64, 2, 1, 8, 80, COOPERATIVE),
    MMA90("half_256x128x64_2x1", HALF, 256, 128, 64, 2, 1, 8, 80, COOPERATIVE),
    MMA90("half_128x256x64_1x2", HALF, 128, 256, 64, 1, 2, 8, 79, COOPERATIVE),
    MMA90("half_128x128x64_2x1", HALF, 128, 128, 64, 2, 1, 8, 68, COOPERATIVE),
    MMA90("half_128x128x64_1x1", HALF, 128, 128, 64, 1, 1, 8, 65, COOPERATIVE),
    MMA90("half_64x256x64_2x1_pingpong", HALF, 64, 256, 64, 2, 1, 8, 72, PINGPONG),
    MMA90("half_64x256x64_1x1_pingpong", HALF, 64, 256, 64, 1, 1, 8, 70, PINGPONG),
    MMA90("half_64x128x64_2x1_pingpong", HALF, 64, 128, 64, 2, 1, 8, 62, PINGPONG),
    MMA90("half_64x128x64_1x1_pingpong", HALF, 64, 128, 64, 1, 1, 8, 60, PINGPONG),
    MMA90("half_64x64x64_1x1_pingpong", HALF, 64, 64, 64, 1, 1, 8, 40, PINGPONG),
    MMA90("half_128x256x64_2x1_streamk", HALF, 128, 256, 64, 2, 1, 8, 77, STREAM_K),
    MMA90("half_128x128x64_1x1_streamk", HALF, 128, 128, 64, 1, 1, 8, 62, STREAM_K),
    MMA90("tf32_128x256x32_2x1", TF32, 128, 256, 32, 2, 1, 4, 78, COOPERATIVE),
    MMA90("tf32_128x128x32_2x1", TF32, 128, 128, 32, 2, 1, 4, 68, COOPERATIVE),
    MMA90("tf32_128x128x32_1x1", TF32, 128, 128, 32, 1, 1, 4, 65, COOPERATIVE),
    MMA90("tf32_64x128x32_1x1_pingpong", TF32, 64, 128, 32, 1, 1, 4, 58, PINGPONG),
    MMA90("tf32_128x128x32_1x1_streamk", TF32, 128, 128, 32, 1, 1, 4, 62, STREAM_K),
    MMA90("fp8_128x128x128_2x1", FP8, 128, 128, 128, 2, 1, 16, 64, COOPERATIVE),
    MMA90("fp8_128x128x128_1x1", FP8, 128, 128, 128, 1, 1, 16, 60, COOPERATIVE),
    MMA90("fp8_64x128x128_1x1_pingpong", FP8, 64, 128, 128, 1, 1, 16, 55, PINGPONG),
    MMA90("fp8_128x128x128_1x1_streamk", FP8, 128, 128, 128, 1, 1, 16, 57, STREAM_K),
    MMA90("fp8_128x256x128_2x1_fast", FP8, 128, 256, 128, 2, 1, 16, 80, .by_name = true),
    MMA90("fp8_64x256x128_1x1_pingpong_fast", FP8, 64, 256, 128, 1, 1, 16, 74, PINGPONG,
          .by_name = true),
    MMA90("i8_128x256x128_2x1", I8, 128, 256, 128, 2, 1, 16, 75, COOPERATIVE),
    MMA90("i8_128x128x128_1x1", I8, 128, 128, 128, 1, 1, 16, 62, COOPERATIVE),
    MMA90("i8_64x128x128_1x1_pingpong", I8, 64, 128, 128, 1, 1, 16, 55, PINGPONG),

    HALF80("256x128x32_a8", 256, 128, 32, 64, 64, 3, 8, 16, 78, PLAIN),
    HALF80("128x256x32_a8", 128, 256, 32, 64, 64, 3, 8, 16, 78, PLAIN),
    HALF80("128x128x32_a8", 128, 128, 32, 64, 64, 4, 8, 16, 74, PLAIN),
    HALF80("128x64x32_a8", 128, 64, 32, 64, 32, 4, 8, 16, 60, PLAIN),
    HALF80("64x64x64_a8", 64, 64, 64, 32, 32, 4, 8, 16, 48, PLAIN),
    HALF80("128x128x32_a8_streamk", 128, 128, 32, 64, 64, 4, 8, 16, 70, STREAM_K),
    HALF80("128x128x32_a8_d1", 128, 128, 32, 64, 64, 4, 8, 0, 72, PLAIN),
    HALF80("64x64x64_a8_d1", 64, 64, 64, 32, 32, 4, 8, 0, 46, PLAIN),
    HALF80("128x128x32_a4", 128, 128, 32, 64, 64, 4, 4, 8, 62, PLAIN),
    HALF80("64x64x32_a4", 64, 64, 32, 32, 32, 4, 4, 8, 40, PLAIN),
    HALF80("128x128x32_a4_streamk", 128, 128, 32, 64, 64, 4, 4, 8, 58, STREAM_K),
    HALF80("128x128x32_a2", 128, 128, 32, 64, 64, 4, 2, 4, 45, PLAIN),
    HALF80("64x64x32_a2", 64, 64, 32, 32, 32, 4, 2, 4, 32, PLAIN),
    HALF80("128x128x32_a2_d1", 128, 128, 32, 64, 64, 4, 2, 0, 44, PLAIN),
    HALF80("64x64x32_a2_d1", 64, 64, 32, 32, 32, 4, 2, 0, 31, PLAIN),
    /* cp.async copies four bytes at least: single elements go through registers, in two stages. */
    HALF80("128x128x32_a1", 128, 128, 32, 64, 64, 2, 1, 0, 20, PLAIN),
    HALF80("64x64x32_a1", 64, 64, 32, 32, 32, 2, 1, 0, 16, PLAIN),

    TF80("256x128x16_a4", 256, 128, 16, 64, 64, 3, 4, 16, 76, PLAIN),
    TF80("128x128x16_a4", 128, 128, 16, 64, 64, 4, 4, 16, 72, PLAIN),
    TF80("64x64x32_a4", 64, 64, 32, 32, 32, 4, 4, 16, 48, PLAIN),
    TF80("128x128x16_a4_streamk", 128, 128, 16, 64, 64, 4, 4, 16, 68, STREAM_K),
    TF80("128x128x16_a4_d1", 128, 128, 16, 64, 64, 4, 4, 0, 70, PLAIN),
    TF80("128x128x16_a1", 128, 128, 16, 64, 64, 4, 1, 0, 44, PLAIN),
    TF80("64x64x16_a1", 64, 64, 16, 32, 32, 4, 1, 0, 32, PLAIN),

    SIMT80("256x128x8", 256, 128, 64, 64, 4, 85),
    SIMT80("128x128x8", 128, 128, 32, 64, 4, 80),
    SIMT80("64x64x8", 64, 64, 32, 32, 4, 60),

    F64_80("128x128x16", 128, 128, 32, 64, 3, 16, 85),
    F64_80("64x64x16", 64, 64, 32, 32, 4, 16, 70),
    F64_80("128x128x16_d1", 128, 128, 32, 64, 3, 0, 83),
    F64_80("64x64x16_d1", 64, 64, 32, 32, 4, 0, 68),

    I8_80("256x128x64_a16", 256, 128, 64, 64, 3, 16, 16, 76, PLAIN),
    I8_80("128x128x64_a16", 128, 128, 64, 64, 4, 16, 16, 72, PLAIN),
    I8_80("64x64x64_a16", 64, 64, 32, 32, 4, 16, 16, 48, PLAIN),
    I8_80("128x128x64_a16_streamk", 128, 128, 64, 64, 4, 16, 16, 68, STREAM_K),
    I8_80("128x128x64_a16_d1", 128, 128, 64, 64, 4, 16, 0, 70, PLAIN),
    I8_80("128x128x64_a4", 128, 128, 64, 64, 4, 4, 4, 45, PLAIN),
    I8_80("64x64x64_a4", 64, 64, 32, 32, 4, 4, 0, 30, PLAIN),
    I8_80("128x128x64_a1", 128, 128, 64, 64, 2, 1, 0, 12, PLAIN),
    /* Tensor cores want i8 along k; these take any layout. (By dp4a they would take fours only.) */
    MMA80("i8_simt_128x128x8", I8, 128, 128, 8, 32, 64, 1, 1, 1, 2, 1, 0, 40, PLAIN),
    MMA80("i8_simt_64x64x8", I8, 64, 64, 8, 32, 32, 1, 1, 1, 2, 1, 0, 32, PLAIN),

    FP8_80("128x128x64_a16", 128, 128, 64, 32, 4, 16, 16, 70),
    FP8_80("64x64x64_a16", 64, 64, 32, 32, 4, 16, 16, 46),
    FP8_80("128x128x64_a16_d1", 128, 128, 64, 32, 4, 16, 0, 68),
    FP8_80("128x128x64_a4", 128, 128, 64, 32, 4, 4, 0, 44),
    FP8_80("64x64x64_a4", 64, 64, 32, 32, 4, 4, 0, 30),
    FP8_80("128x128x64_a1", 128, 128, 64, 32, 2, 1, 0, 12),
    MMA80("fp8_simt_128x128x8", FP8, 128, 128, 8, 32, 64, 1, 1, 1, 2, 1, 0, 40, PLAIN),
    MMA80("fp8_simt_64x64x8", FP8, 64, 64, 8, 32, 32, 1, 1, 1, 2, 1, 0, 32, PLAIN),
};

uint32_t trp__cutlass_row_count(void)
{
    return sizeof rows / sizeof *rows;
}

const trp__cutlass_row *trp__cutlass_row_at(uint32_t i)
{
    return &rows[i];
}

const trp__cutlass_row *trp__cutlass_row_find(const char *name)
{
    for (uint32_t i = 0; i < trp__cutlass_row_count(); i++) {
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    }
    return NULL;
}
