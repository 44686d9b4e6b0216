/* Batch norm in three passes: sums of parts, statistics and factors of groups, and elements. */
#ifndef TRP_ACTORS_DNN_KERNELS_NORM_BATCH_PASSES_CUH
#define TRP_ACTORS_DNN_KERNELS_NORM_BATCH_PASSES_CUH

#include "actors/dnn/kernels/norm/batch_columns.cuh"
#include "actors/dnn/kernels/norm/batch_rows.cuh"
#include "actors/dnn/kernels/norm/norm_add.cuh"

TRP__DEVICE void trp__batch_factor(const trp__batch &p, int which, int64_t group, double value)
{
    trp__to<float>(p.factors, which * p.pitch + group) = (float)value;
}

/* Loads the factors that are inputs: a thread for each group. */
TRP__GLOBAL(TRP__BATCH_THREADS) trp_batch_prepare(const TRP__CONSTANT trp__batch p)
{
    const int64_t group = (p.first + blockIdx.x) * TRP__BATCH_THREADS + threadIdx.x;
    const int64_t outer = group / p.columns, column = group - outer * p.columns;
    trp__batch_place place;
    if (group >= p.space.rows * p.columns)
        return;
    place.find(p, outer);
    trp__batch_factor(p, TRP__BATCH_F_MEAN, group, place.load(p, TRP__BATCH_MEAN, column, 0));
    trp__batch_factor(p, TRP__BATCH_F_REST, group, 0);
    trp__batch_factor(p, TRP__BATCH_F_INVERSE, group, place.load(p, TRP__BATCH_INVERSE, column, 0));
    trp__batch_factor(p, TRP__BATCH_F_SCALE, group, place.load(p, TRP__BATCH_SCALE, column, 1));
    if (!p.back)
        trp__batch_factor(p, TRP__BATCH_F_BIAS, group, place.load(p, TRP__BATCH_BIAS, column, 0));
}

/* Adds up the parts of a group and writes its statistics and factors: a warp for each group. */
TRP__GLOBAL(TRP__BATCH_THREADS) trp_batch_finish(const TRP__CONSTANT trp__batch p)
{
    const int lane = (int)threadIdx.x % 32;
    const int64_t number = (p.first + blockIdx.x) * TRP__BATCH_WARPS + (int)threadIdx.x / 32;
    const int64_t groups = p.space.rows * p.columns, group = number < groups ? number : 0;
    const int64_t outer = group / p.columns, column = group - outer * p.columns;
    trp__batch_place place;
    float out[TRP__BATCH_FACTORS];
    double s[2] = {0, 0};
    place.find(p, outer);
#pragma unroll 4
    for (int64_t i = lane; i < p.parts; i += 32) {
        s[0] += trp__at<double>(p.sums, (group * p.parts + i) * 2);
        s[1] += trp__at<double>(p.sums, (group * p.parts + i) * 2 + 1);
    }
    trp__rows_together<trp__rows_sum, double, 2>(s, 32, 0.0);
    if (lane != 0 || number >= groups)
        return;
    const float pivot =
        p.back ? 0.0f : trp__batch_pivot((float)place.load(p, TRP__BATCH_X, column, 0));
    const trp__batch_found found = trp__batch_solve(p, pivot, s, trp__batch_value(p.epsilon));
    found.set(p, out);
    if (p.back) {
        trp__to<double>(p.totals, group * 2) = s[0];
        trp__to<double>(p.totals, group * 2 + 1) = s[1];
        trp__batch_factor(p, TRP__BATCH_F_BIAS, group, (double)out[TRP__BATCH_F_BIAS]);
        trp__batch_factor(p, TRP__BATCH_F_SLOPE, group, (double)out[TRP__BATCH_F_SLOPE]);
        return;
    }
    const double running[2] = {place.load(p, TRP__BATCH_RUNNING_MEAN, column, 0),
                               place.load(p, TRP__BATCH_RUNNING_VARIANCE, column, 0)};
    trp__batch_write(p, place, column, found, running, trp__batch_value(p.average));
    TRP__UNROLL
    for (int which = TRP__BATCH_F_MEAN; which <= TRP__BATCH_F_INVERSE; which++)
        trp__batch_factor(p, which, group, (double)out[which]);
    trp__batch_factor(p, TRP__BATCH_F_SCALE, group, place.load(p, TRP__BATCH_SCALE, column, 1));
    trp__batch_factor(p, TRP__BATCH_F_BIAS, group, place.load(p, TRP__BATCH_BIAS, column, 0));
}

TRP__ENTRY(trp_batch_add, trp__norm_sum, (TRP__NORM_SUM_WARPS * 32), trp__norm_add<double>)

/* Launch bounds: threads of a block, and blocks that a multiprocessor holds at a time, at least, so
 * that enough loads are in flight. */
#define TRP__BATCH_rows_MOMENTS    TRP__BATCH_THREADS, 4
#define TRP__BATCH_rows_APPLY      TRP__BATCH_THREADS, 4
#define TRP__BATCH_rows_BACK       TRP__BATCH_THREADS, 4
#define TRP__BATCH_columns_MOMENTS TRP__BATCH_THREADS, 2
#define TRP__BATCH_columns_APPLY   TRP__BATCH_THREADS, 3
#define TRP__BATCH_columns_BACK    TRP__BATCH_THREADS, 2

/* The kernels of all passes for a layout, a type and a load of V elements. */
#define TRP__BATCH_KERNELS(name, way, TYPE, V)                                                     \
    TRP__ENTRY(name##_moments, trp__batch, (TRP__BATCH_##way##_MOMENTS),                           \
               trp__batch_moments_##way<TYPE, V>)                                                  \
    TRP__ENTRY(name##_sums, trp__batch, (TRP__BATCH_##way##_MOMENTS),                              \
               trp__batch_sums_##way<TYPE, V>)                                                     \
    TRP__ENTRY(name##_apply, trp__batch, (TRP__BATCH_##way##_APPLY),                               \
               trp__batch_apply_##way<TYPE, V, false>)                                             \
    TRP__ENTRY(name##_back, trp__batch, (TRP__BATCH_##way##_BACK),                                 \
               trp__batch_apply_##way<TYPE, V, true>)

TRP__BATCH_KERNELS(trp_batch_rows_f32_4, rows, TRP_F32, 4)
TRP__BATCH_KERNELS(trp_batch_rows_bf16_8, rows, TRP_BF16, 8)
TRP__BATCH_KERNELS(trp_batch_rows_bf16_4, rows, TRP_BF16, 4)
TRP__BATCH_KERNELS(trp_batch_rows_f16_8, rows, TRP_F16, 8)
TRP__BATCH_KERNELS(trp_batch_rows_f16_4, rows, TRP_F16, 4)
TRP__BATCH_KERNELS(trp_batch_rows_any_1, rows, TRP_DTYPE_NONE, 1)
TRP__BATCH_KERNELS(trp_batch_columns_f32_4, columns, TRP_F32, 4)
TRP__BATCH_KERNELS(trp_batch_columns_bf16_8, columns, TRP_BF16, 8)
TRP__BATCH_KERNELS(trp_batch_columns_f16_8, columns, TRP_F16, 8)
TRP__BATCH_KERNELS(trp_batch_columns_any_1, columns, TRP_DTYPE_NONE, 1)

#endif
