/* The kernels of grouped products. The efficiencies of half_ for sm_90 were measured
 * on an H200, the others are estimates. */
#include "actors/cutlass/catalogue/rows.h"

#define MMA80(id, ...) TRP__ROW_SM80(GROUPED, "grouped_" id, __VA_ARGS__)
#define MMA90(id, ...) TRP__ROW_SM90(GROUPED, "grouped_" id, __VA_ARGS__)

static const trp__cutlass_row rows[] = {
    MMA90("half_128x256x64_2x1", HALF, 128, 256, 64, 2, 1, 8, 72, COOPERATIVE),
    MMA90("half_256x128x64_2x1", HALF, 256, 128, 64, 2, 1, 8, 71, COOPERATIVE),
    MMA90("half_256x128x64_1x1", HALF, 256, 128, 64, 1, 1, 8, 74, COOPERATIVE),
    MMA90("half_128x256x64_1x2", HALF, 128, 256, 64, 1, 2, 8, 72, COOPERATIVE),
    MMA90("half_128x256x64_1x1", HALF, 128, 256, 64, 1, 1, 8, 78, COOPERATIVE),
    MMA90("half_128x128x64_2x1", HALF, 128, 128, 64, 2, 1, 8, 62, COOPERATIVE),
    MMA90("half_128x128x64_1x1", HALF, 128, 128, 64, 1, 1, 8, 62, COOPERATIVE),
    MMA90("half_128x128x64_2x1_pingpong", HALF, 128, 128, 64, 2, 1, 8, 64, PINGPONG),
    MMA90("half_128x128x64_1x1_pingpong", HALF, 128, 128, 64, 1, 1, 8, 64, PINGPONG),
    MMA90("half_64x256x64_2x1_pingpong", HALF, 64, 256, 64, 2, 1, 8, 66, PINGPONG),
    MMA90("half_64x256x64_1x2_pingpong", HALF, 64, 256, 64, 1, 2, 8, 66, PINGPONG),
    MMA90("half_64x256x64_1x1_pingpong", HALF, 64, 256, 64, 1, 1, 8, 66, PINGPONG),
    MMA90("half_64x128x64_1x1_pingpong", HALF, 64, 128, 64, 1, 1, 8, 48, PINGPONG),
    MMA90("half_64x64x64_1x1_pingpong", HALF, 64, 64, 64, 1, 1, 8, 30, PINGPONG),
    MMA90("fp8_128x128x128_2x1", FP8, 128, 128, 128, 2, 1, 16, 54, COOPERATIVE),
    MMA90("fp8_128x128x128_1x1", FP8, 128, 128, 128, 1, 1, 16, 56, COOPERATIVE),
    MMA90("fp8_64x128x128_1x1_pingpong", FP8, 64, 128, 128, 1, 1, 16, 38, PINGPONG),
    MMA90("fp8_128x256x128_2x1_fast", FP8, 128, 256, 128, 2, 1, 16, 80, .fast = true),

    HALF80("128x128x32_a8", 128, 128, 32, 64, 64, 4, 8, 16, 70, PLAIN),
    HALF80("128x64x32_a8", 128, 64, 32, 64, 32, 4, 8, 16, 58, PLAIN),
    HALF80("64x64x64_a8", 64, 64, 64, 32, 32, 4, 8, 16, 46, PLAIN),
    HALF80("128x128x32_a8_d1", 128, 128, 32, 64, 64, 4, 8, 0, 68, PLAIN),
    HALF80("64x64x64_a8_d1", 64, 64, 64, 32, 32, 4, 8, 0, 44, PLAIN),
    HALF80("64x64x32_a2_d1", 64, 64, 32, 32, 32, 4, 2, 0, 30, PLAIN),
    HALF80("128x128x32_a1", 128, 128, 32, 64, 64, 2, 1, 0, 20, PLAIN),
    HALF80("64x64x32_a1", 64, 64, 32, 32, 32, 2, 1, 0, 16, PLAIN),

    TF80("128x128x16_a4", 128, 128, 16, 64, 64, 4, 4, 16, 68, PLAIN),
    TF80("64x64x32_a4", 64, 64, 32, 32, 32, 4, 4, 16, 46, PLAIN),
    TF80("64x64x16_a1", 64, 64, 16, 32, 32, 4, 1, 0, 30, PLAIN),

    SIMT80("f32_128x128x8", F32, 128, 128, 32, 64, 4, 78),
    SIMT80("f32_64x64x8", F32, 64, 64, 32, 32, 4, 58),

    F64_80("64x64x16", 64, 64, 32, 32, 4, 16, 68),
    F64_80("64x64x16_d1", 64, 64, 32, 32, 4, 0, 66),

    FP8_80("128x128x64_a16", 128, 128, 64, 32, 4, 16, 16, 68),
    FP8_80("64x64x64_a16_d1", 64, 64, 32, 32, 4, 16, 0, 44),
    FP8_80("128x128x64_a1", 128, 128, 64, 32, 2, 1, 0, 12),
    SIMT80("fp8_simt_64x64x8", FP8, 64, 64, 32, 32, 2, 30),
};

const trp__cutlass_rows trp__cutlass_grouped_rows = {rows, sizeof rows / sizeof *rows};
