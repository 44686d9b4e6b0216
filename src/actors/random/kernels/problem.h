/* Launches of the random actor's kernels (random.cuh). */
#ifndef TRP_ACTORS_RANDOM_KERNELS_PROBLEM_H
#define TRP_ACTORS_RANDOM_KERNELS_PROBLEM_H

#include "actors/random/law/random_wire.h"

enum { TRP__RANDOM_KERNEL_THREADS = 256, TRP__RANDOM_KERNEL_DIMS = TRP_RANDOM_RANK_MAX + 1 };

/* The kernels, by the name of each; X gets `...` too. */
#define TRP__RANDOM_KERNELS(X, ...)                                                                \
    X(bits, __VA_ARGS__)                                                                           \
    X(integers_8, __VA_ARGS__)                                                                     \
    X(integers_32, __VA_ARGS__)                                                                    \
    X(integers_64, __VA_ARGS__)                                                                    \
    X(uniform_f32, __VA_ARGS__)                                                                    \
    X(uniform_f16, __VA_ARGS__)                                                                    \
    X(uniform_bf16, __VA_ARGS__)                                                                   \
    X(uniform_f64, __VA_ARGS__)                                                                    \
    X(normal_f32, __VA_ARGS__)                                                                     \
    X(normal_f16, __VA_ARGS__)                                                                     \
    X(normal_bf16, __VA_ARGS__)                                                                    \
    X(normal_f64, __VA_ARGS__)                                                                     \
    X(two_values_8, __VA_ARGS__)                                                                   \
    X(two_values_16, __VA_ARGS__)                                                                  \
    X(two_values_32, __VA_ARGS__)                                                                  \
    X(two_values_64, __VA_ARGS__)                                                                  \
    X(others_f32, __VA_ARGS__)                                                                     \
    X(others_f16, __VA_ARGS__)                                                                     \
    X(others_bf16, __VA_ARGS__)                                                                    \
    X(others_f64, __VA_ARGS__)

/* Fills a tensor. Complex numbers are pairs of real ones, and bits of i64 pairs of i32, along a
 * last dimension of their own. */
typedef struct trp__random_launch {
    trp__random g;  /* without dimensions; words and type are those of the parts of a pair */
    uint64_t y;     /* address of the element of index 0 */
    uint64_t state; /* address; 0: seed and offset are those of g */
    int64_t count;  /* parts */
    uint8_t pairs;  /* elements are pairs */
    uint8_t packed; /* element i is at y + i elements */
    uint8_t rank;
    trp__random_dim dim[TRP__RANDOM_KERNEL_DIMS];
} trp__random_launch;

typedef struct trp__random_advance_launch {
    uint64_t from, to; /* addresses */
    uint64_t words;
} trp__random_advance_launch;

#endif
