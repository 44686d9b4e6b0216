/* The kernels of products. The efficiencies of half_ and fp8_ for sm_90 were measured on an H200
 * (not with factors, nor half_ of 192), the others are estimates. */
#include "actors/cutlass/catalogue_rows.h"

#define MMA80(...)  TRP__ROW_SM80(GEMM, __VA_ARGS__)
#define MMA90(...)  TRP__ROW_SM90(GEMM, __VA_ARGS__)
#define MMA100(...) TRP__ROW_SM100(GEMM, __VA_ARGS__)
#define MMA120(...) TRP__ROW_SM120(GEMM, __VA_ARGS__)
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
#define COOPERATIVE .pingpong = false
#define PINGPONG    .pingpong = true
#define SINGLE      .single = true
#define STREAM_K    .stream_k = true
#define PLAIN       .stream_k = false

static const trp__cutlass_row rows[] = {
    /* One tensor core each; those that two share are not there yet. */
    MMA100("half_128x256x64_1x1", HALF, 128, 256, 64, 1, 1, 8, 76, PLAIN),
    MMA100("half_128x128x64_1x1", HALF, 128, 128, 64, 1, 1, 8, 66, PLAIN),
    MMA100("half_128x64x64_1x1", HALF, 128, 64, 64, 1, 1, 8, 45, PLAIN),
    MMA100("fp8_128x256x128_1x1", FP8, 128, 256, 128, 1, 1, 16, 76, PLAIN),
    MMA100("fp8_128x128x128_1x1", FP8, 128, 128, 128, 1, 1, 16, 66, PLAIN),
    MMA100("mxfp8_128x256x128_1x1", MXFP8, 128, 256, 128, 1, 1, 16, 74, PLAIN),
    MMA100("mxfp8_128x128x128_1x1", MXFP8, 128, 128, 128, 1, 1, 16, 64, PLAIN),
    MMA100("nvfp4_128x256x256_1x1", NVFP4, 128, 256, 256, 1, 1, 32, 70, PLAIN),
    MMA100("nvfp4_128x128x256_1x1", NVFP4, 128, 128, 256, 1, 1, 32, 60, PLAIN),
    MMA120("mxfp8_128x128x128_1x1", MXFP8, 128, 128, 128, 1, 1, 16, 70, COOPERATIVE),
    MMA120("nvfp4_128x128x128_1x1", NVFP4, 128, 128, 128, 1, 1, 32, 66, COOPERATIVE),
    MMA120("nvfp4_128x128x128_1x1_pingpong", NVFP4, 128, 128, 128, 1, 1, 32, 70, PINGPONG),

    MMA90("half_128x256x64_2x1", HALF, 128, 256, 64, 2, 1, 8, 80, COOPERATIVE),
    MMA90("half_256x128x64_2x1", HALF, 256, 128, 64, 2, 1, 8, 77, COOPERATIVE),
    MMA90("half_128x256x64_1x2", HALF, 128, 256, 64, 1, 2, 8, 79, COOPERATIVE),
    MMA90("half_128x128x64_2x1", HALF, 128, 128, 64, 2, 1, 8, 72, COOPERATIVE),
    MMA90("half_128x128x64_1x1", HALF, 128, 128, 64, 1, 1, 8, 72, COOPERATIVE),
    MMA90("half_64x256x64_2x1_pingpong", HALF, 64, 256, 64, 2, 1, 8, 74, PINGPONG),
    MMA90("half_64x256x64_1x1_pingpong", HALF, 64, 256, 64, 1, 1, 8, 73, PINGPONG),
    MMA90("half_64x128x64_2x1_pingpong", HALF, 64, 128, 64, 2, 1, 8, 58, PINGPONG),
    MMA90("half_64x128x64_1x1_pingpong", HALF, 64, 128, 64, 1, 1, 8, 60, PINGPONG),
    MMA90("half_128x192x64_2x1", HALF, 128, 192, 64, 2, 1, 8, 76, COOPERATIVE),
    MMA90("half_128x192x64_1x1", HALF, 128, 192, 64, 1, 1, 8, 75, COOPERATIVE),
    MMA90("half_64x192x64_1x1_pingpong", HALF, 64, 192, 64, 1, 1, 8, 68, PINGPONG),
    MMA90("half_64x128x64_1x1_single", HALF, 64, 128, 64, 1, 1, 8, 52, SINGLE),
    MMA90("half_64x64x64_1x1_pingpong", HALF, 64, 64, 64, 1, 1, 8, 40, PINGPONG),
    MMA90("half_128x256x64_2x1_streamk", HALF, 128, 256, 64, 2, 1, 8, 77, STREAM_K),
    MMA90("half_128x128x64_1x1_streamk", HALF, 128, 128, 64, 1, 1, 8, 69, STREAM_K),
    MMA90("tf32_128x256x32_2x1", TF32, 128, 256, 32, 2, 1, 4, 78, COOPERATIVE),
    MMA90("tf32_128x128x32_2x1", TF32, 128, 128, 32, 2, 1, 4, 68, COOPERATIVE),
    MMA90("tf32_128x128x32_1x1", TF32, 128, 128, 32, 1, 1, 4, 65, COOPERATIVE),
    MMA90("tf32_64x128x32_1x1_pingpong", TF32, 64, 128, 32, 1, 1, 4, 58, PINGPONG),
    MMA90("tf32_128x128x32_1x1_streamk", TF32, 128, 128, 32, 1, 1, 4, 62, STREAM_K),
    MMA90("fp8_128x256x128_2x1", FP8, 128, 256, 128, 2, 1, 16, 62, COOPERATIVE),
    MMA90("fp8_128x256x128_1x1", FP8, 128, 256, 128, 1, 1, 16, 61, COOPERATIVE),
    MMA90("fp8_128x128x128_2x1", FP8, 128, 128, 128, 2, 1, 16, 59, COOPERATIVE),
    MMA90("fp8_128x128x128_1x1", FP8, 128, 128, 128, 1, 1, 16, 59, COOPERATIVE),
    MMA90("fp8_64x128x128_2x1_pingpong", FP8, 64, 128, 128, 2, 1, 16, 49, PINGPONG),
    MMA90("fp8_64x128x128_1x1_pingpong", FP8, 64, 128, 128, 1, 1, 16, 47, PINGPONG),
    MMA90("fp8_128x128x128_1x1_streamk", FP8, 128, 128, 128, 1, 1, 16, 55, STREAM_K),
    MMA90("fp8_128x256x128_2x1_fast", FP8, 128, 256, 128, 2, 1, 16, 80, .fast = true),
    MMA90("fp8_64x256x128_1x1_pingpong_fast", FP8, 64, 256, 128, 1, 1, 16, 74, PINGPONG,
          .fast = true),
    MMA90("fp8_blocks_128x128x128_2x1", FP8_BLOCKS, 128, 128, 128, 2, 1, 16, 52, COOPERATIVE),
    MMA90("fp8_blocks_128x128x128_1x1", FP8_BLOCKS, 128, 128, 128, 1, 1, 16, 54, COOPERATIVE),
    MMA90("fp8_blocks_64x128x128_1x1_pingpong", FP8_BLOCKS, 64, 128, 128, 1, 1, 16, 48, PINGPONG),
    MMA90("i8_128x256x128_2x1", I8, 128, 256, 128, 2, 1, 16, 75, COOPERATIVE),
    MMA90("i8_128x128x128_1x1", I8, 128, 128, 128, 1, 1, 16, 62, COOPERATIVE),
    MMA90("i8_64x128x128_1x1_pingpong", I8, 64, 128, 128, 1, 1, 16, 55, PINGPONG),
    MMA90("mixed_128x128x64_1x1", MIXED, 128, 128, 64, 1, 1, 16, 60, COOPERATIVE),
    MMA90("mixed_128x64x64_1x1", MIXED, 128, 64, 64, 1, 1, 16, 45, COOPERATIVE),
    MMA90("mixed_64x128x64_1x1_pingpong", MIXED, 64, 128, 64, 1, 1, 16, 55, PINGPONG),

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

    MMA80("mixed_128x128x64_a16", MIXED, 128, 128, 64, 64, 64, 16, 8, 16, 3, 16, 16, 60, PLAIN),
    MMA80("mixed_64x64x64_a16", MIXED, 64, 64, 64, 32, 32, 16, 8, 16, 4, 16, 16, 40, PLAIN),

    FP8_80("128x128x64_a16", 128, 128, 64, 32, 4, 16, 16, 70),
    FP8_80("64x64x64_a16", 64, 64, 32, 32, 4, 16, 16, 46),
    FP8_80("128x128x64_a16_d1", 128, 128, 64, 32, 4, 16, 0, 68),
    FP8_80("128x128x64_a4", 128, 128, 64, 32, 4, 4, 0, 44),
    FP8_80("64x64x64_a4", 64, 64, 32, 32, 4, 4, 0, 30),
    FP8_80("128x128x64_a1", 128, 128, 64, 32, 2, 1, 0, 12),
    MMA80("fp8_simt_128x128x8", FP8, 128, 128, 8, 32, 64, 1, 1, 1, 2, 1, 0, 40, PLAIN),
    MMA80("fp8_simt_64x64x8", FP8, 64, 64, 8, 32, 32, 1, 1, 1, 2, 1, 0, 32, PLAIN),
};

const trp__cutlass_rows trp__cutlass_gemm_rows = {rows, sizeof rows / sizeof *rows};
