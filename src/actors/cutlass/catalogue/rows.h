/* Macros for rows of the catalogue, and its tables, one per operation.
 *
 * A name consists of the family, the inputs, the tile, then the distinguishing properties: elements
 * of A and B per load (a8), single-element access to D and lines like it (d1), the cluster, the
 * schedule. Rows of equal cost are preferred in the order of their table. */
#ifndef TRP_ACTORS_CUTLASS_CATALOGUE_ROWS_H
#define TRP_ACTORS_CUTLASS_CATALOGUE_ROWS_H

#include "actors/cutlass/catalogue/catalogue.h"

#define TRP__TILE(m, n, k)                                                                         \
    {                                                                                              \
        m, n, k                                                                                    \
    }
#define TRP__ROW_SM80(what, id, in, tm, tn, tk, wm, wn, im, ins, ik, depth, elements, bytes,       \
                      percent, ...)                                                                \
    {                                                                                              \
        .name = "s80_" id, .operation = TRP__CUTLASS_##what, .family = TRP__CUTLASS_SM80,          \
        .inputs = TRP__CUTLASS_##in, .tile = TRP__TILE(tm, tn, tk), .warp = TRP__TILE(wm, wn, tk), \
        .instruction = TRP__TILE(im, ins, ik), .cluster = {1, 1}, .stages = depth,                 \
        .align = elements, .lines = bytes, .efficiency = percent, __VA_ARGS__                      \
    }
#define TRP__ROW_3X(generation, prefix, what, id, in, tm, tn, tk, cm, cn, elements, percent, ...)  \
    {                                                                                              \
        .name = prefix id, .operation = TRP__CUTLASS_##what, .family = TRP__CUTLASS_##generation,  \
        .inputs = TRP__CUTLASS_##in, .tile = TRP__TILE(tm, tn, tk), .cluster = {cm, cn},           \
        .align = elements, .lines = 16, .efficiency = percent, __VA_ARGS__                         \
    }
#define TRP__ROW_SM90(...)  TRP__ROW_3X(SM90, "s90_", __VA_ARGS__)
#define TRP__ROW_SM100(...) TRP__ROW_3X(SM100, "s100_", __VA_ARGS__)
#define TRP__ROW_SM120(...) TRP__ROW_3X(SM120, "s120_", __VA_ARGS__)

/* Rows by instruction. Each table first defines MMA80(id, ...): a 2.x row of its operation, with
 * the prefix of its names. */
#define HALF80(id, tm, tn, tk, wm, wn, depth, elements, bytes, percent, ...)                       \
    MMA80("half_" id, HALF, tm, tn, tk, wm, wn, 16, 8, 16, depth, elements, bytes, percent,        \
          __VA_ARGS__)
#define TF80(id, tm, tn, tk, wm, wn, depth, elements, bytes, percent, ...)                         \
    MMA80("tf32_" id, TF32, tm, tn, tk, wm, wn, 16, 8, 8, depth, elements, bytes, percent,         \
          __VA_ARGS__)
#define SIMT80(id, in, tm, tn, wm, wn, depth, percent)                                             \
    MMA80(id, in, tm, tn, 8, wm, wn, 1, 1, 1, depth, 1, 0, percent, PLAIN)
#define F64_80(id, tm, tn, wm, wn, depth, bytes, percent)                                          \
    MMA80("f64_" id, F64, tm, tn, 16, wm, wn, 8, 8, 4, depth, 1, bytes, percent, PLAIN)
#define I8_80(id, tm, tn, wm, wn, depth, elements, bytes, percent, ...)                            \
    MMA80("i8_" id, I8, tm, tn, 64, wm, wn, 16, 8, 32, depth, elements, bytes, percent, __VA_ARGS__)
#define MIXED80(id, in, tm, tn, wm, wn, depth, elements, bytes, percent, ...)                      \
    MMA80("mixed_" id, in, tm, tn, 64, wm, wn, 16, 8, 16, depth, elements, bytes, percent,         \
          __VA_ARGS__)
#define FP8_80(id, tm, tn, wm, wn, depth, elements, bytes, percent)                                \
    MMA80("fp8_" id, FP8, tm, tn, 64, wm, wn, 16, 8, 32, depth, elements, bytes, percent, PLAIN)

#define FAST_FP8_80(id, tm, tn, wm, wn, depth, elements, bytes, percent)                           \
    MMA80("fp8_" id, FP8, tm, tn, 64, wm, wn, 16, 8, 32, depth, elements, bytes, percent,          \
          .fast = true)

/* Distinguishing properties of rows with the same tile. */
#define COOPERATIVE .pingpong = false
#define PINGPONG    .pingpong = true
#define SINGLE      .single = true
#define STREAM_K    .stream_k = true
#define PLAIN       .stream_k = false

typedef struct trp__cutlass_rows {
    const trp__cutlass_row *row;
    uint32_t count;
} trp__cutlass_rows;

extern const trp__cutlass_rows trp__cutlass_gemm_rows;
extern const trp__cutlass_rows trp__cutlass_grouped_rows;
extern const trp__cutlass_rows trp__cutlass_conv_rows;

#endif
