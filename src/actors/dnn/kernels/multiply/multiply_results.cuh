/* The tiles of multiply.cuh: their places, and the epilogue of their sums. */
#ifndef TRP_ACTORS_DNN_KERNELS_MULTIPLY_MULTIPLY_RESULTS_CUH
#define TRP_ACTORS_DNN_KERNELS_MULTIPLY_MULTIPLY_RESULTS_CUH

#include "actors/dnn/kernels/common/functions.cuh"
#include "actors/dnn/kernels/multiply/multiply.h"
#include "actors/dnn/kernels/multiply/multiply_core.cuh"

/* A tile: the number of the product, and its first row and column. */
struct trp__multiply_place {
    int64_t batch, row, column;
};

TRP__DEVICE trp__multiply_place trp__multiply_place_of(const trp__multiply &p, int32_t tile)
{
    const int32_t one = p.rows * p.columns, batch = tile / one;
    tile -= batch * one;
    const int32_t band = tile / (TRP__MULTIPLY_BAND * p.columns);
    const int32_t first = band * TRP__MULTIPLY_BAND;
    const int32_t high = p.rows - first < TRP__MULTIPLY_BAND ? p.rows - first : TRP__MULTIPLY_BAND;
    tile -= first * p.columns;
    return {batch, (int64_t)(first + tile % high) * TRP__MULTIPLY_ROWS,
            (int64_t)(tile / high) * TRP__MULTIPLY_COLUMNS};
}

/* Returns the address of the flags of a whole tile, or of a part, numbered after all whole tiles.
 */
TRP__DEVICE uint64_t trp__multiply_flags(const trp__multiply &p, int64_t item)
{
    return p.flags + sizeof(uint32_t) * TRP__MULTIPLY_WARPS * (uint64_t)item;
}

/* Return the bytes from a row of D, or from a column, to the next. */
TRP__DEVICE uint64_t trp__multiply_down(const trp__multiply &p)
{
    return p.turned ? sizeof(float) : sizeof(float) * (uint64_t)p.ldd;
}
TRP__DEVICE uint64_t trp__multiply_across(const trp__multiply &p)
{
    return p.turned ? sizeof(float) * (uint64_t)p.ldd : sizeof(float);
}

TRP__DEVICE uint64_t trp__multiply_at(const trp__multiply &p, int64_t batch, int64_t row,
                                      int64_t column)
{
    return p.d + sizeof(float) * (uint64_t)(batch * p.stride_d) +
           (uint64_t)row * trp__multiply_down(p) + (uint64_t)column * trp__multiply_across(p);
}

/* Sums of two rows and 4 columns, all neighbours. */
struct trp__multiply_sums {
    float sum[2][4];
};

TRP__DEVICE void trp__multiply_add_bias(const trp__multiply &p, int64_t row, int64_t column,
                                        trp__multiply_sums &s)
{
    TRP__EACH(i, 2) {
        TRP__EACH(k, 4) {
            if (row + i < p.m && column + k < p.n)
                s.sum[i][k] += trp__at<float>(p.bias, p.turned ? row + i : column + k);
        }
    }
}

TRP__DEVICE float trp__multiply_activate(const trp__multiply &p, float v)
{
    return p.activation == TRP__MULTIPLY_RELU
               ? v < 0 ? 0 : v /* NaN stays */
               : trp__gated<float>(v, trp__gelu_tanh_gate<float>(v));
}

/* Stores the sums that are inside of D, with the epilogue. `to`: the address of the first. */
TRP__DEVICE void trp__multiply_store(const trp__multiply &p, uint64_t to, int64_t row,
                                     int64_t column, trp__multiply_sums s)
{
    const uint64_t down = trp__multiply_down(p), across = trp__multiply_across(p);
    if (row >= p.m || column >= p.n)
        return;
    if (p.bias)
        trp__multiply_add_bias(p, row, column, s);
    if (p.activation != TRP__MULTIPLY_PLAIN) {
        TRP__EACH(i, 8)
            s.sum[i / 4][i % 4] = trp__multiply_activate(p, s.sum[i / 4][i % 4]);
    }
    if (!p.vector_d || row + 2 > p.m || column + 4 > p.n) {
        TRP__EACH(i, 8) {
            if (row + i / 4 < p.m && column + i % 4 < p.n)
                trp__to<float>(to + (uint64_t)(i / 4) * down + (uint64_t)(i % 4) * across, 0) =
                    s.sum[i / 4][i % 4];
        }
    } else if (p.turned) {
        TRP__EACH(i, 4)
            trp__to<trp__pair>(to + (uint64_t)i * across, 0) = {s.sum[0][i], s.sum[1][i]};
    } else {
        TRP__EACH(i, 2) {
            uint32_t word[4];
            TRP__EACH(k, 4)
                word[k] = trp__f32_bits(s.sum[i][k]);
            trp__store16(to + (uint64_t)i * down, word);
        }
    }
}

#endif
