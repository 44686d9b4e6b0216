/* Adds up the partial sums that blocks or rows have written for dscale and dbias. */
#ifndef TRP_ACTORS_DNN_KERNELS_NORM_NORM_ADD_CUH
#define TRP_ACTORS_DNN_KERNELS_NORM_NORM_ADD_CUH

#include "actors/dnn/kernels/norm/norm.h"
#include "actors/dnn/kernels/common/rows.cuh"

/* A block has 32 columns: each warp adds up every 32nd partial sum, for dscale and dbias at a time,
 * and then warp 0 finishes dscale, warp 1 dbias. */
template <typename T> TRP__DEVICE void trp__norm_add(const trp__norm_sum &p)
{
    __shared__ double shared[2][TRP__NORM_SUM_WARPS][33];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t column = (int64_t)blockIdx.x * 32 + lane;
    double sum = 0, other = 0;
#pragma unroll 4
    for (int64_t i = warp; i < p.count && column < p.columns; i += TRP__NORM_SUM_WARPS) {
        const int64_t at = i * p.pitch + column * p.step;
        sum += (double)trp__at<T>(p.sums, at);
        other += (double)trp__at<T>(p.sums, at + p.second);
    }
    shared[0][warp][lane] = sum;
    shared[1][warp][lane] = other;
    __syncthreads();
    if (warp > 1 || column >= p.columns || !p.out[warp])
        return;
    sum = shared[warp][0][lane];
    TRP__UNROLL
    for (int w = 1; w < TRP__NORM_SUM_WARPS; w++)
        sum += shared[warp][w][lane];
    trp__store_float<double>(p.out[warp], column * p.out_step[warp], p.type[warp], sum);
}

#endif
