/* The fast kernels of the dnn actor, and those of the random actor, that the fake device runs, each
 * with its parameter. A kernel without a row here is not found when it is loaded. */
#ifndef TESTS_FAKE_CUDA_DEVICE_KERNELS_H
#define TESTS_FAKE_CUDA_DEVICE_KERNELS_H

#include "actors/dnn/kernels/attention/attention.h"
#include "actors/dnn/kernels/norm/batch.h"
#include "actors/dnn/kernels/map/map.h"
#include "actors/dnn/kernels/move/move.h"
#include "actors/dnn/kernels/multiply/multiply.h"
#include "actors/dnn/kernels/norm/norm.h"
#include "actors/dnn/kernels/optimizer/optimizer.h"
#include "actors/dnn/kernels/losses/losses.h"
#include "actors/dnn/kernels/rotary/rotary.h"
#include "actors/dnn/kernels/move/gather.h"
#include "actors/dnn/kernels/losses/entropy.h"
#include "actors/dnn/kernels/select/select.h"
#include "actors/dnn/kernels/pool/pool.h"
#include "actors/dnn/kernels/map/ready.h"
#include "actors/dnn/kernels/reduce/reduce.h"
#include "actors/dnn/kernels/softmax/softmax.h"
#include "actors/random/kernels/problem.h"

#include <stddef.h>
#include <stdint.h>

/* A kernel for three types. */
#define FAKE_DEVICE_TYPES(X, before, after, type)                                                  \
    X(before##f32##after, type)                                                                    \
    X(before##bf16##after, type)                                                                   \
    X(before##f16##after, type)

/* All passes of an attention engine. */
#define FAKE_DEVICE_ATTENTION(X, name)                                                             \
    X(trp_attention_##name##_forward, trp__attention)                                              \
    X(trp_attention_##name##_rows, trp__attention)                                                 \
    X(trp_attention_##name##_dq, trp__attention)                                                   \
    X(trp_attention_##name##_dkv, trp__attention)                                                  \
    X(trp_attention_##name##_dbias, trp__attention)                                                \
    X(trp_attention_##name##_fold, trp__attention)

#define FAKE_DEVICE_ATTENTIONS(X)                                                                  \
    FAKE_DEVICE_ATTENTION(X, f16_64)                                                               \
    FAKE_DEVICE_ATTENTION(X, f16_128)                                                              \
    FAKE_DEVICE_ATTENTION(X, bf16_64)                                                              \
    FAKE_DEVICE_ATTENTION(X, bf16_128)                                                             \
    FAKE_DEVICE_ATTENTION(X, f32_64)                                                               \
    FAKE_DEVICE_ATTENTION(X, f32_128)                                                              \
    FAKE_DEVICE_ATTENTION(X, f32_256)                                                              \
    FAKE_DEVICE_ATTENTION(X, f64_64)                                                               \
    FAKE_DEVICE_ATTENTION(X, f64_128)                                                              \
    FAKE_DEVICE_ATTENTION(X, f64_256)

/* All passes of batch norm for one way to read elements. */
#define FAKE_DEVICE_BATCH(X, way, name)                                                            \
    X(trp_batch_##way##_##name##_moments, trp__batch)                                              \
    X(trp_batch_##way##_##name##_sums, trp__batch)                                                 \
    X(trp_batch_##way##_##name##_apply, trp__batch)                                                \
    X(trp_batch_##way##_##name##_back, trp__batch)

#define FAKE_DEVICE_BATCHES(X)                                                                     \
    FAKE_DEVICE_BATCH(X, rows, f32_4)                                                              \
    FAKE_DEVICE_BATCH(X, rows, bf16_8)                                                             \
    FAKE_DEVICE_BATCH(X, rows, bf16_4)                                                             \
    FAKE_DEVICE_BATCH(X, rows, f16_8)                                                              \
    FAKE_DEVICE_BATCH(X, rows, f16_4)                                                              \
    FAKE_DEVICE_BATCH(X, rows, any_1)                                                              \
    FAKE_DEVICE_BATCH(X, columns, f32_4)                                                           \
    FAKE_DEVICE_BATCH(X, columns, bf16_8)                                                          \
    FAKE_DEVICE_BATCH(X, columns, f16_8)                                                           \
    FAKE_DEVICE_BATCH(X, columns, any_1)

/* Batch norm of rows by clusters. */
#define FAKE_DEVICE_BATCH_SLICES(X, name)                                                          \
    X(trp_batch_rows_##name##_slices, trp__batch)                                                  \
    X(trp_batch_rows_##name##_back_slices, trp__batch)

#define FAKE_DEVICE_SOFTMAX(X, type)                                                               \
    X(trp_softmax_##type##_2, trp__softmax)                                                        \
    X(trp_softmax_##type##_4, trp__softmax)                                                        \
    X(trp_softmax_##type##_8, trp__softmax)                                                        \
    X(trp_softmax_##type##_parts, trp__softmax)                                                    \
    X(trp_softmax_##type##_back_2, trp__softmax)                                                   \
    X(trp_softmax_##type##_back_4, trp__softmax)                                                   \
    X(trp_softmax_##type##_back_parts, trp__softmax)                                               \
    X(trp_softmax_##type##_slices, trp__softmax)                                                   \
    X(trp_softmax_##type##_back_slices, trp__softmax)

#define FAKE_DEVICE_NORM(X, name)                                                                  \
    X(trp_norm_##name##_2, trp__norm)                                                              \
    X(trp_norm_##name##_4, trp__norm)                                                              \
    X(trp_norm_##name##_8, trp__norm)                                                              \
    X(trp_norm_##name##_walk, trp__norm)

#define FAKE_DEVICE_POOL_WINDOW(X, name)                                                           \
    X(trp_pool_##name##_2_2, trp__pool)                                                            \
    X(trp_pool_##name##_3_1, trp__pool)                                                            \
    X(trp_pool_##name##_3_2, trp__pool)                                                            \
    X(trp_pool_##name##_5_1, trp__pool)                                                            \
    X(trp_pool_##name##_7_1, trp__pool)                                                            \
    X(trp_pool_##name##_9_1, trp__pool)
#define FAKE_DEVICE_POOL_WINDOWS(X, name)                                                          \
    FAKE_DEVICE_POOL_WINDOW(X, name)                                                               \
    X(trp_pool_##name##_13_1, trp__pool)
#define FAKE_DEVICE_POOL_PLANES(X, name)                                                           \
    FAKE_DEVICE_POOL_WINDOWS(X, name##_max)                                                        \
    FAKE_DEVICE_POOL_WINDOWS(X, name##_mean)
#define FAKE_DEVICE_REDUCE_LOOSE(X, name)                                                          \
    FAKE_DEVICE_TYPES(X, trp_reduce_##name##_, _ragged, trp__reduce)                               \
    FAKE_DEVICE_TYPES(X, trp_reduce_##name##_, _loose, trp__reduce)

#define FAKE_DEVICE_READIES(X)                                                                     \
    FAKE_DEVICE_TYPES(X, trp_glu_swish_, , trp__map)                                               \
    FAKE_DEVICE_TYPES(X, trp_glu_swish_back_, , trp__map)                                          \
    FAKE_DEVICE_TYPES(X, trp_glu_gelu_, , trp__map)                                                \
    FAKE_DEVICE_TYPES(X, trp_glu_gelu_back_, , trp__map)                                           \
    FAKE_DEVICE_TYPES(X, trp_glu_gelu_tanh_, , trp__map)                                           \
    FAKE_DEVICE_TYPES(X, trp_glu_gelu_tanh_back_, , trp__map)                                      \
    FAKE_DEVICE_TYPES(X, trp_random_uniform_, , trp__map)                                          \
    FAKE_DEVICE_TYPES(X, trp_random_normal_, , trp__map)                                           \
    FAKE_DEVICE_TYPES(X, trp_random_bernoulli_, , trp__map)

#define FAKE_DEVICE_RANDOM(name, X) X(trp_philox_##name, trp__random_launch)

#define FAKE_DEVICE_KERNELS(X)                                                                     \
    X(trp_map_f32, trp__map)                                                                       \
    X(trp_map_f64, trp__map)                                                                       \
    FAKE_DEVICE_READIES(X)                                                                         \
    TRP__RANDOM_KERNELS(FAKE_DEVICE_RANDOM, X)                                                     \
    X(trp_philox_advance, trp__random_advance_launch)                                              \
    X(trp_optimizer_norm_f32, trp__optimizer)                                                      \
    X(trp_optimizer_norm_f64, trp__optimizer)                                                      \
    FAKE_DEVICE_TYPES(X, trp_select_arg_, , trp__select)                                           \
    X(trp_select_arg_any, trp__select)                                                             \
    X(trp_select_arg_finish, trp__select)                                                          \
    FAKE_DEVICE_TYPES(X, trp_select_tiles_, , trp__select)                                         \
    X(trp_select_merge, trp__select)                                                               \
    FAKE_DEVICE_TYPES(X, trp_select_shares_, , trp__select)                                        \
    FAKE_DEVICE_TYPES(X, trp_select_class_, , trp__select)                                         \
    X(trp_select_draw_ranked, trp__select)                                                         \
    X(trp_entropy_count, trp__entropy)                                                             \
    X(trp_entropy_total, trp__entropy)                                                             \
    FAKE_DEVICE_TYPES(X, trp_entropy_packs_, , trp__entropy)                                       \
    FAKE_DEVICE_TYPES(X, trp_entropy_targets_, , trp__entropy)                                     \
    FAKE_DEVICE_TYPES(X, trp_entropy_long_, , trp__entropy)                                        \
    FAKE_DEVICE_TYPES(X, trp_entropy_, , trp__entropy)                                             \
    X(trp_entropy_f64, trp__entropy)                                                               \
    X(trp_gather_lines, trp__gathering)                                                            \
    X(trp_scatter_rank, trp__gathering)                                                            \
    X(trp_scatter_merge, trp__gathering)                                                           \
    X(trp_scatter_f32_1_parts, trp__gathering)                                                     \
    X(trp_scatter_f32_1_rows, trp__gathering)                                                      \
    X(trp_scatter_f32_4_parts, trp__gathering)                                                     \
    X(trp_scatter_f32_4_rows, trp__gathering)                                                      \
    X(trp_scatter_f32_8_parts, trp__gathering)                                                     \
    X(trp_scatter_f32_8_rows, trp__gathering)                                                      \
    X(trp_scatter_f64_1_parts, trp__gathering)                                                     \
    X(trp_scatter_f64_1_rows, trp__gathering)                                                      \
    X(trp_scatter_f64_4_parts, trp__gathering)                                                     \
    X(trp_scatter_f64_4_rows, trp__gathering)                                                      \
    FAKE_DEVICE_TYPES(X, trp_rotary_, , trp__rotary)                                               \
    X(trp_rotary_any_f32_1, trp__rotary)                                                           \
    X(trp_rotary_any_f32_4, trp__rotary)                                                           \
    X(trp_rotary_any_f64_1, trp__rotary)                                                           \
    X(trp_rotary_any_f64_4, trp__rotary)                                                           \
    FAKE_DEVICE_TYPES(X, trp_losses_mse_, , trp__losses)                                           \
    FAKE_DEVICE_TYPES(X, trp_losses_l1_, , trp__losses)                                            \
    FAKE_DEVICE_TYPES(X, trp_losses_smooth_l1_, , trp__losses)                                     \
    FAKE_DEVICE_TYPES(X, trp_losses_bce_, , trp__losses)                                           \
    FAKE_DEVICE_TYPES(X, trp_losses_kl_, , trp__losses)                                            \
    FAKE_DEVICE_TYPES(X, trp_losses_kl_log_, , trp__losses)                                        \
    X(trp_losses_f32, trp__losses)                                                                 \
    X(trp_losses_narrow_bf16, trp__losses)                                                         \
    X(trp_losses_narrow_f16, trp__losses)                                                          \
    X(trp_losses_f64, trp__losses)                                                                 \
    X(trp_losses_total, trp__losses)                                                               \
    X(trp_optimizer_prepare, trp__optimizer)                                                       \
    X(trp_optimizer_f32, trp__optimizer)                                                           \
    X(trp_optimizer_f64, trp__optimizer)                                                           \
    X(trp_reduce_rows_f32, trp__reduce)                                                            \
    X(trp_reduce_rows_f64, trp__reduce)                                                            \
    X(trp_reduce_columns_f32, trp__reduce)                                                         \
    X(trp_reduce_columns_f64, trp__reduce)                                                         \
    X(trp_reduce_finish, trp__reduce)                                                              \
    FAKE_DEVICE_TYPES(X, trp_reduce_rows_sums_, , trp__reduce)                                     \
    FAKE_DEVICE_TYPES(X, trp_reduce_rows_squares_, , trp__reduce)                                  \
    FAKE_DEVICE_TYPES(X, trp_reduce_rows_extremes_, , trp__reduce)                                 \
    FAKE_DEVICE_TYPES(X, trp_reduce_columns_sums_, , trp__reduce)                                  \
    FAKE_DEVICE_REDUCE_LOOSE(X, columns_sums)                                                      \
    FAKE_DEVICE_TYPES(X, trp_reduce_columns_squares_, , trp__reduce)                               \
    FAKE_DEVICE_REDUCE_LOOSE(X, columns_squares)                                                   \
    FAKE_DEVICE_TYPES(X, trp_reduce_columns_extremes_, , trp__reduce)                              \
    FAKE_DEVICE_REDUCE_LOOSE(X, columns_extremes)                                                  \
    X(trp_move_rows, trp__move)                                                                    \
    X(trp_move_tiles, trp__move)                                                                   \
    X(trp_move_turn2, trp__move)                                                                   \
    X(trp_move_turn4, trp__move)                                                                   \
    X(trp_multiply_split_n, trp__multiply)                                                         \
    X(trp_multiply_split_t, trp__multiply)                                                         \
    X(trp_multiply_n, trp__multiply)                                                               \
    X(trp_multiply_t, trp__multiply)                                                               \
    X(trp_multiply_finish, trp__multiply)                                                          \
    FAKE_DEVICE_ATTENTIONS(X)                                                                      \
    FAKE_DEVICE_NORM(X, f32_each)                                                                  \
    FAKE_DEVICE_NORM(X, bf16_each)                                                                 \
    FAKE_DEVICE_NORM(X, f16_each)                                                                  \
    FAKE_DEVICE_NORM(X, f32_row)                                                                   \
    FAKE_DEVICE_NORM(X, bf16_row)                                                                  \
    FAKE_DEVICE_NORM(X, f16_row)                                                                   \
    FAKE_DEVICE_TYPES(X, trp_norm_back_, _each, trp__norm)                                         \
    FAKE_DEVICE_TYPES(X, trp_norm_, _each_slices, trp__norm)                                       \
    FAKE_DEVICE_TYPES(X, trp_norm_, _each_held, trp__norm)                                         \
    FAKE_DEVICE_TYPES(X, trp_norm_, _row_held, trp__norm)                                          \
    X(trp_norm_bf16_half_4, trp__norm)                                                             \
    X(trp_norm_f16_half_4, trp__norm)                                                              \
    FAKE_DEVICE_TYPES(X, trp_norm_tiles_, _rows, trp__norm)                                        \
    X(trp_norm_any_1, trp__norm)                                                                   \
    X(trp_norm_any_2, trp__norm)                                                                   \
    X(trp_norm_any_4, trp__norm)                                                                   \
    X(trp_norm_any_walk, trp__norm)                                                                \
    X(trp_norm_f64_1, trp__norm)                                                                   \
    X(trp_norm_back_any_1, trp__norm)                                                              \
    X(trp_norm_back_any_2, trp__norm)                                                              \
    X(trp_norm_back_f64_1, trp__norm)                                                              \
    X(trp_norm_add_f32, trp__norm_sum)                                                             \
    X(trp_norm_add_f64, trp__norm_sum)                                                             \
    X(trp_pool_f32_1, trp__pool)                                                                   \
    FAKE_DEVICE_POOL_PLANES(X, planes_f32)                                                         \
    FAKE_DEVICE_POOL_PLANES(X, planes_bf16)                                                        \
    FAKE_DEVICE_POOL_PLANES(X, planes_f16)                                                         \
    FAKE_DEVICE_POOL_PLANES(X, words_bf16)                                                         \
    FAKE_DEVICE_POOL_PLANES(X, words_f16)                                                          \
    FAKE_DEVICE_TYPES(X, trp_pool_whole_, _max, trp__pool)                                         \
    FAKE_DEVICE_TYPES(X, trp_pool_whole_, _mean, trp__pool)                                        \
    FAKE_DEVICE_POOL_WINDOW(X, places_f32)                                                         \
    FAKE_DEVICE_POOL_WINDOW(X, places_bf16)                                                        \
    FAKE_DEVICE_POOL_WINDOW(X, places_f16)                                                         \
    FAKE_DEVICE_TYPES(X, trp_pool_typed_, _1_forward, trp__pool)                                   \
    FAKE_DEVICE_TYPES(X, trp_pool_typed_, _1_back, trp__pool)                                      \
    X(trp_pool_typed_f32_4_forward, trp__pool)                                                     \
    X(trp_pool_typed_f32_4_back, trp__pool)                                                        \
    X(trp_pool_typed_bf16_8_forward, trp__pool)                                                    \
    X(trp_pool_typed_bf16_8_back, trp__pool)                                                       \
    X(trp_pool_typed_f16_8_forward, trp__pool)                                                     \
    X(trp_pool_typed_f16_8_back, trp__pool)                                                        \
    FAKE_DEVICE_TYPES(X, trp_pool_strip_, _back, trp__pool)                                        \
    X(trp_pool_warp_f32_1, trp__pool)                                                              \
    X(trp_pool_warp_f32_4, trp__pool)                                                              \
    X(trp_pool_warp_f32_8, trp__pool)                                                              \
    X(trp_pool_back_f32_1, trp__pool)                                                              \
    X(trp_pool_f64_1, trp__pool)                                                                   \
    X(trp_pool_warp_f64_1, trp__pool)                                                              \
    X(trp_pool_back_f64_1, trp__pool)                                                              \
    FAKE_DEVICE_BATCHES(X)                                                                         \
    FAKE_DEVICE_BATCH_SLICES(X, f32_4)                                                             \
    FAKE_DEVICE_BATCH_SLICES(X, bf16_8)                                                            \
    FAKE_DEVICE_BATCH_SLICES(X, bf16_4)                                                            \
    FAKE_DEVICE_BATCH_SLICES(X, f16_8)                                                             \
    FAKE_DEVICE_BATCH_SLICES(X, f16_4)                                                             \
    X(trp_batch_prepare, trp__batch)                                                               \
    X(trp_batch_finish, trp__batch)                                                                \
    X(trp_batch_add, trp__norm_sum)                                                                \
    FAKE_DEVICE_SOFTMAX(X, f32)                                                                    \
    FAKE_DEVICE_SOFTMAX(X, bf16)                                                                   \
    FAKE_DEVICE_SOFTMAX(X, f16)                                                                    \
    X(trp_softmax_any_1, trp__softmax)                                                             \
    X(trp_softmax_any_2, trp__softmax)                                                             \
    X(trp_softmax_any_4, trp__softmax)                                                             \
    X(trp_softmax_parts_any, trp__softmax)                                                         \
    X(trp_softmax_columns_any, trp__softmax)                                                       \
    X(trp_softmax_back_any_1, trp__softmax)                                                        \
    X(trp_softmax_back_any_2, trp__softmax)                                                        \
    X(trp_softmax_back_parts_any, trp__softmax)                                                    \
    X(trp_softmax_back_columns_any, trp__softmax)                                                  \
    X(trp_softmax_f64_1, trp__softmax)                                                             \
    X(trp_softmax_parts_f64, trp__softmax)                                                         \
    X(trp_softmax_columns_f64, trp__softmax)                                                       \
    X(trp_softmax_back_f64_1, trp__softmax)                                                        \
    X(trp_softmax_back_parts_f64, trp__softmax)                                                    \
    X(trp_softmax_back_columns_f64, trp__softmax)

#ifdef __cplusplus
extern "C" {
#endif

#define FAKE_DEVICE_DECLARE(name, type) void fake_device_##name(const void *parameter);
FAKE_DEVICE_KERNELS(FAKE_DEVICE_DECLARE)
#undef FAKE_DEVICE_DECLARE

/* Run all blocks of a launch in sequence, or the blocks of clusters together. */
void fake_device_run(void (*run)(const void *parameter), const void *parameter,
                     const unsigned grid[3], unsigned threads, size_t shared_bytes,
                     unsigned cluster);

#ifdef __cplusplus
}
#endif

#endif
