/* Adds up what blocks or rows have left for dscale and dbias. */
#ifndef TRP_ACTORS_DNN_KERNELS_NORM_ADD_CUH
#define TRP_ACTORS_DNN_KERNELS_NORM_ADD_CUH

#include "actors/dnn/kernels/norm.h"
#include "actors/dnn/kernels/rows.cuh"

/* A block for 32 columns: each warp adds up every 32nd of the sums. */
template <typename T> TRP__DEVICE void trp__norm_add(const trp__norm_sum &p)
{
    __shared__ double shared[TRP__NORM_SUM_WARPS][33];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t column = (int64_t)blockIdx.x * 32 + lane;
    for (int which = 0; which < 2; which++) {
        double sum = 0;
        if (!p.out[which])
            continue;
        for (int64_t i = warp; i < p.count && column < p.columns; i += TRP__NORM_SUM_WARPS)
            sum += (double)trp__at<T>(p.sums, i * p.pitch + column * p.step + which * p.second);
        shared[warp][lane] = sum;
        __syncthreads();
        if (warp == 0 && column < p.columns) {
            for (int w = 1; w < TRP__NORM_SUM_WARPS; w++)
                sum += shared[w][lane];
            trp__store_float<double>(p.out[which], column * p.out_step[which], p.type[which], sum);
        }
        __syncthreads();
    }
}

#endif
