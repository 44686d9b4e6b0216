/* Common parts of kernels over rows: finding a row, its elements in registers, and results that the
 * threads of a row compute together. */
#ifndef TRP_ACTORS_DNN_KERNELS_COMMON_ROWS_CUH
#define TRP_ACTORS_DNN_KERNELS_COMMON_ROWS_CUH

#include "actors/dnn/kernels/common/element.cuh"
#include "actors/dnn/kernels/common/rows.h"

/* Finds the offset, in elements, at which a row begins in each operand. */
template <int OPERANDS>
TRP__DEVICE void trp__rows_find(const trp__rows_space &s, int64_t row,
                                const trp__rows_operand *operand, int64_t first[OPERANDS])
{
    TRP__EACH(o, OPERANDS)
        first[o] = s.rank == 1 ? row * operand[o].stride[0] : 0;
    if (s.rank == 1)
        return;
    for (int d = 0; d < s.rank; d++) {
        int64_t at = row;
        if (d + 1 < s.rank) {
            const int64_t next = row <= INT32_MAX && s.dim[d] <= INT32_MAX
                                     ? (int64_t)((uint32_t)row / (uint32_t)s.dim[d])
                                     : row / s.dim[d];
            at = row - next * s.dim[d];
            row = next;
        }
        TRP__EACH(o, OPERANDS)
            first[o] += at * operand[o].stride[d];
    }
}

/* --- Runs: 8 elements that follow each other --- */

/* Calls `call` with the type as a constant: reads of several runs then have no branch between them,
 * and are in flight together. Reads f64 only if T is f64. */
#define TRP__ROWS_BY_TYPE(T, type, call)                                                           \
    if ((type) == TRP_F32)                                                                         \
        call(TRP_F32);                                                                             \
    else if ((type) == TRP_F16)                                                                    \
        call(TRP_F16);                                                                             \
    else if ((type) == TRP_BF16)                                                                   \
        call(TRP_BF16);                                                                            \
    else if (sizeof(T) == 8)                                                                       \
    call(TRP_F64)

/* A thread's elements of a row. place() returns the index in the row of element j of its run c. */
struct trp__rows_lanes {
    int thread, threads; /* this thread, and how many the row has */
    int shift;           /* elements between a multiple of 8 and the first one of the row */
    bool runs;           /* runs of 8 neighbouring elements; else elements `threads` apart */
    bool single;         /* elements of the operand must be read one by one */

    TRP__DEVICE int place(int c, int j) const
    {
        return runs ? (c * threads + thread) * TRP__ROWS_RUN + j - shift
                    : (c * TRP__ROWS_RUN + j) * threads + thread;
    }
};

template <typename T, int RUNS, int TYPE>
TRP__DEVICE void trp__rows_read_as(const trp__rows_lanes &l, uint64_t at, int64_t step, int n,
                                   T other, T v[RUNS * TRP__ROWS_RUN])
{
    bool whole[RUNS], ragged = false;
    for (int c = 0; c < RUNS; c++) {
        const int k = l.place(c, 0);
        whole[c] = l.runs && !l.single && k >= 0 && k + TRP__ROWS_RUN <= n;
        ragged = ragged || (!whole[c] && k < n);
    }
    TRP__EACH(c, RUNS) {
        if (whole[c])
            trp__load_run<T, TRP__ROWS_RUN>(at, l.place(c, 0), TYPE, v + c * TRP__ROWS_RUN);
        else
            for (int j = 0; j < TRP__ROWS_RUN; j++)
                v[c * TRP__ROWS_RUN + j] = other;
    }
    if (!ragged)
        return;
    TRP__EACH(c, RUNS) {
        TRP__EACH(j, TRP__ROWS_RUN) {
            const int k = l.place(c, j);
            if (!whole[c] && k >= 0 && k < n)
                v[c * TRP__ROWS_RUN + j] = trp__load_float<T>(at, (int64_t)k * step, TYPE);
        }
    }
}

/* Reads a thread's elements of the row at `at`. Those outside of the row are `other`. */
template <typename T, int RUNS>
TRP__DEVICE void trp__rows_read(const trp__rows_lanes &l, uint64_t at, int64_t step, uint8_t type,
                                int n, T other, T v[RUNS * TRP__ROWS_RUN])
{
#define TRP__ROWS_READ(TYPE) trp__rows_read_as<T, RUNS, TYPE>(l, at, step, n, other, v)
    TRP__ROWS_BY_TYPE(T, type, TRP__ROWS_READ);
#undef TRP__ROWS_READ
}

template <typename T, int RUNS, int TYPE>
TRP__DEVICE void trp__rows_write_as(const trp__rows_lanes &l, uint64_t at, int64_t step, int n,
                                    const T v[RUNS * TRP__ROWS_RUN])
{
    TRP__EACH(c, RUNS) {
        const int first = l.place(c, 0);
        if (l.runs && first >= 0 && first + TRP__ROWS_RUN <= n) {
            trp__store_run<T, TRP__ROWS_RUN>(at, first, TYPE, v + c * TRP__ROWS_RUN);
        } else if (first < n) {
            TRP__EACH(j, TRP__ROWS_RUN) {
                const int k = l.place(c, j);
                if (k >= 0 && k < n)
                    trp__store_float<T>(at, (int64_t)k * step, TYPE, v[c * TRP__ROWS_RUN + j]);
            }
        }
    }
}

template <typename T, int RUNS>
TRP__DEVICE void trp__rows_write(const trp__rows_lanes &l, uint64_t at, int64_t step, uint8_t type,
                                 int n, const T v[RUNS * TRP__ROWS_RUN])
{
#define TRP__ROWS_WRITE(TYPE) trp__rows_write_as<T, RUNS, TYPE>(l, at, step, n, v)
    TRP__ROWS_BY_TYPE(T, type, TRP__ROWS_WRITE);
#undef TRP__ROWS_WRITE
}

/* --- Results that the threads of a row compute together --- */

struct trp__rows_sum {
    template <typename T> static TRP__DEVICE T of(T a, T b)
    {
        return a + b;
    }
};

/* The larger number; NaN only if both are NaN. */
struct trp__rows_most {
    template <typename T> static TRP__DEVICE T of(T a, T b)
    {
        return fmax(a, b);
    }
};

/* Combines COUNT numbers of the `threads` threads of a row: a power of two up to 32, or the whole
 * block. All threads of the block call this, and get the results. `none` is the neutral element of
 * OP. The order is fixed, so results are the same each time. */
template <typename OP, typename T, int COUNT>
TRP__DEVICE void trp__rows_together(T v[COUNT], int threads, T none)
{
    __shared__ T part[COUNT][32];
    for (int by = 1; by < threads && by < 32; by *= 2) {
        for (int i = 0; i < COUNT; i++)
            v[i] = OP::of(v[i], __shfl_xor_sync(0xffffffffu, v[i], by));
    }
    if (threads <= 32)
        return;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    __syncthreads(); /* the results of the last call have been read */
    for (int i = 0; i < COUNT && lane == 0; i++)
        part[i][warp] = v[i];
    __syncthreads();
    for (int i = 0; i < COUNT; i++) {
        v[i] = lane * 32 < threads ? part[i][lane] : none;
        for (int by = 1; by * 32 < threads; by *= 2)
            v[i] = OP::of(v[i], __shfl_xor_sync(0xffffffffu, v[i], by));
        v[i] = __shfl_sync(0xffffffffu, v[i], 0);
    }
}

template <typename OP, typename T> TRP__DEVICE T trp__rows_together(T v, int threads, T none)
{
    trp__rows_together<OP, T, 1>(&v, threads, none);
    return v;
}

/* A compensated sum (Kahan): the total is sum - lost, where `lost` is a rounding error. */
template <typename T> struct trp__exact_sum {
    T sum, lost;

    TRP__DEVICE void add(T x)
    {
        const T y = x - lost, next = sum + y;
        const T error = (next - sum) - y;
        lost = error == error ? error : T(0); /* an infinite sum has no error */
        sum = next;
    }
};

#endif
