/* The kernels of convolutions: product kernels with gathered operands. The efficiencies for f16 and
 * bf16 follow measurements on an H200, the others are estimates. */
#include "actors/cutlass/catalogue/rows.h"

#define MMA80(id, ...) TRP__ROW_SM80(CONV, "conv_" id, __VA_ARGS__)
#define MMA90(id, ...) TRP__ROW_SM90(CONV, "conv_" id, __VA_ARGS__)

static const trp__cutlass_row rows[] = {
    MMA90("half_128x256x64_2x1", HALF, 128, 256, 64, 2, 1, 8, 75, COOPERATIVE),
    MMA90("half_256x128x64_2x1", HALF, 256, 128, 64, 2, 1, 8, 73, COOPERATIVE),
    MMA90("half_128x128x64_2x1", HALF, 128, 128, 64, 2, 1, 8, 70, COOPERATIVE),
    MMA90("half_128x128x64_1x1", HALF, 128, 128, 64, 1, 1, 8, 69, COOPERATIVE),
    MMA90("half_64x256x64_1x1_pingpong", HALF, 64, 256, 64, 1, 1, 8, 82, PINGPONG),
    MMA90("half_128x128x64_1x1_pingpong", HALF, 128, 128, 64, 1, 1, 8, 86, PINGPONG),
    MMA90("half_128x128x64_2x1_pingpong", HALF, 128, 128, 64, 2, 1, 8, 87, PINGPONG),
    MMA90("half_128x128x64_1x2_pingpong", HALF, 128, 128, 64, 1, 2, 8, 86, PINGPONG),
    MMA90("half_64x128x64_1x1_pingpong", HALF, 64, 128, 64, 1, 1, 8, 58, PINGPONG),
    MMA90("half_128x64x64_1x1", HALF, 128, 64, 64, 1, 1, 8, 50, COOPERATIVE),
    MMA90("half_64x64x64_1x1_pingpong", HALF, 64, 64, 64, 1, 1, 8, 40, PINGPONG),
    MMA90("half_128x256x64_2x1_streamk", HALF, 128, 256, 64, 2, 1, 8, 75, STREAM_K),
    MMA90("half_128x128x64_1x1_streamk", HALF, 128, 128, 64, 1, 1, 8, 66, STREAM_K),
    MMA90("tf32_128x128x32_2x1", TF32, 128, 128, 32, 2, 1, 4, 66, COOPERATIVE),
    MMA90("tf32_64x128x32_1x1_pingpong", TF32, 64, 128, 32, 1, 1, 4, 56, PINGPONG),
    MMA90("fp8_128x128x128_2x1", FP8, 128, 128, 128, 2, 1, 16, 52, COOPERATIVE),
    MMA90("fp8_64x128x128_1x1_pingpong", FP8, 64, 128, 128, 1, 1, 16, 38, PINGPONG),

    HALF80("256x128x32_a8", 256, 128, 32, 64, 64, 3, 8, 16, 68, PLAIN),
    HALF80("128x128x32_a8", 128, 128, 32, 64, 64, 4, 8, 16, 66, PLAIN),
    HALF80("128x64x32_a8", 128, 64, 32, 64, 32, 4, 8, 16, 54, PLAIN),
    HALF80("64x64x64_a8", 64, 64, 64, 32, 32, 4, 8, 16, 44, PLAIN),
    HALF80("128x128x32_a8_streamk", 128, 128, 32, 64, 64, 4, 8, 16, 62, STREAM_K),
    HALF80("64x64x64_a8_streamk", 64, 64, 64, 32, 32, 4, 8, 16, 40, STREAM_K),
    HALF80("128x128x32_a8_d1", 128, 128, 32, 64, 64, 4, 8, 0, 64, PLAIN),
    HALF80("64x64x64_a8_d1", 64, 64, 64, 32, 32, 4, 8, 0, 42, PLAIN),
    HALF80("128x128x32_a4", 128, 128, 32, 64, 64, 4, 4, 8, 52, PLAIN),
    HALF80("64x64x32_a4", 64, 64, 32, 32, 32, 4, 4, 8, 36, PLAIN),
    HALF80("128x128x32_a4_streamk", 128, 128, 32, 64, 64, 4, 4, 8, 48, STREAM_K),
    HALF80("64x64x32_a4_d1", 64, 64, 32, 32, 32, 4, 4, 0, 35, PLAIN),
    HALF80("128x128x32_a2", 128, 128, 32, 64, 64, 4, 2, 4, 36, PLAIN),
    HALF80("64x64x32_a2", 64, 64, 32, 32, 32, 4, 2, 4, 26, PLAIN),
    HALF80("64x64x32_a2_d1", 64, 64, 32, 32, 32, 4, 2, 0, 25, PLAIN),
    HALF80("128x128x32_a1", 128, 128, 32, 64, 64, 2, 1, 0, 14, PLAIN),
    HALF80("64x64x32_a1", 64, 64, 32, 32, 32, 2, 1, 0, 12, PLAIN),
    HALF80("64x64x32_a1_streamk", 64, 64, 32, 32, 32, 2, 1, 0, 11, STREAM_K),

    TF80("128x128x16_a4", 128, 128, 16, 64, 64, 4, 4, 16, 64, PLAIN),
    TF80("64x64x32_a4", 64, 64, 32, 32, 32, 4, 4, 16, 44, PLAIN),
    TF80("128x128x16_a4_streamk", 128, 128, 16, 64, 64, 4, 4, 16, 60, STREAM_K),
    TF80("64x64x32_a4_d1", 64, 64, 32, 32, 32, 4, 4, 0, 42, PLAIN),
    TF80("128x128x16_a1", 128, 128, 16, 64, 64, 4, 1, 0, 34, PLAIN),
    TF80("64x64x16_a1", 64, 64, 16, 32, 32, 4, 1, 0, 26, PLAIN),

    SIMT80("f32_128x128x8", F32, 128, 128, 32, 64, 4, 70),
    SIMT80("f32_64x64x8", F32, 64, 64, 32, 32, 4, 54),

    F64_80("64x64x16", 64, 64, 32, 32, 4, 16, 62),
    F64_80("64x64x16_d1", 64, 64, 32, 32, 4, 0, 60),

    FP8_80("128x128x64_a16", 128, 128, 64, 32, 4, 16, 16, 60),
    FP8_80("64x64x64_a16", 64, 64, 32, 32, 4, 16, 16, 42),
    FP8_80("64x64x64_a16_d1", 64, 64, 32, 32, 4, 16, 0, 40),
    FP8_80("64x64x64_a4", 64, 64, 32, 32, 4, 4, 0, 26),
    FP8_80("128x128x64_a1", 128, 128, 64, 32, 2, 1, 0, 10),
    SIMT80("fp8_simt_128x128x8", FP8, 128, 128, 32, 64, 2, 36),
    SIMT80("fp8_simt_64x64x8", FP8, 64, 64, 32, 32, 2, 30),
};

const trp__cutlass_rows trp__cutlass_conv_rows = {rows, sizeof rows / sizeof *rows};
