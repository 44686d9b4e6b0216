#ifndef TRP_ACTORS_DNN_KERNELS_SELECT_SELECT_CUH
#define TRP_ACTORS_DNN_KERNELS_SELECT_SELECT_CUH

#include "actors/dnn/kernels/common/packs.cuh"
#include "actors/dnn/kernels/select/select.h"
#include "actors/dnn/math/pick.h"

/* --- Marks --- */

TRP__DEVICE uint32_t trp__select_key(float value, bool smallest, uint32_t nan)
{
    const uint32_t bits = trp__f32_bits(value + 0.0F); /* -0 becomes 0 */
    const uint32_t key = bits ^ (uint32_t)((int32_t)bits >> 31 | INT32_MIN);
    return value != value ? nan : smallest ? ~key : key;
}

TRP__DEVICE uint64_t trp__select_mark(uint32_t key, int64_t number)
{
    return (uint64_t)key << 32 | (0xffffffffu - (uint32_t)number);
}

TRP__DEVICE int64_t trp__select_number_of(uint64_t mark)
{
    return (int64_t)(0xffffffffu - (uint32_t)mark);
}

struct trp__select_max {
    static TRP__DEVICE uint64_t of(uint64_t a, uint64_t b)
    {
        return a > b ? a : b;
    }
};

struct trp__select_row {
    int64_t at[TRP__SELECT_OPERANDS]; /* offsets of the row in the operands, in elements */
    uint64_t x;
    int64_t step;
    int shift; /* elements between a multiple of 8 and the first one */
    uint8_t type;
    bool smallest;
    uint32_t nan;

    TRP__DEVICE trp__select_row(const trp__select &p, int64_t row)
    {
        const trp__rows_operand &o = p.io[TRP__SELECT_X];
        trp__rows_find<TRP__SELECT_OPERANDS>(p.space, row, p.io, at);
        x = o.at + (uint64_t)(at[TRP__SELECT_X] * trp__element_bytes(o.type));
        step = o.step;
        shift = p.runs ? (int)(at[TRP__SELECT_X] % TRP__ROWS_RUN) : 0;
        type = o.type;
        smallest = p.smallest != 0;
        nan = p.smallest && !p.nan_first ? 0 : 0xffffffffu;
    }
    /* Returns the bits to invert in a word so that the smallest element has the largest key. */
    TRP__DEVICE uint32_t turned(int of) const
    {
        return !smallest ? 0 : of == TRP_F32 ? 0x80000000u : 0x80008000u;
    }
    /* Returns the key of element k. */
    template <int TYPE> TRP__DEVICE uint32_t key(int64_t k) const
    {
        if constexpr (TYPE == TRP_DTYPE_NONE) {
            const uint32_t key =
                (uint32_t)(int32_t)trp__load<double>(x, k * step, type) ^ 0x80000000u;
            return smallest ? ~key : key;
        } else {
            return trp__select_key(trp__load_float<float>(x, k * step, TYPE), smallest, nan);
        }
    }
    TRP__DEVICE double value(int64_t k) const
    {
        return trp__load_float<double>(x, k * step, type);
    }
};

TRP__DEVICE void trp__select_put(const trp__select &p, int64_t at, int64_t number)
{
    const trp__rows_operand &o = p.io[TRP__SELECT_INDEX];
    if (o.type == TRP_I64)
        trp__to<int64_t>(o.at, at) = number;
    else
        trp__to<int32_t>(o.at, at) = (int32_t)number;
}

/* --- The first largest --- */

/* Returns the largest mark of a thread's elements, of those from `begin` to before `end`; a NaN
 * wins. With `runs` a thread reads DEEP runs of 8 elements at a time; begin + shift is then a
 * multiple of 8, and begin may be as low as -shift. */
template <int TYPE, int DEEP>
TRP__DEVICE uint64_t trp__select_first(const trp__select_row &r, int64_t begin, int64_t end,
                                       bool runs)
{
    const int thread = (int)threadIdx.x, threads = (int)blockDim.x;
    uint64_t best = 0;
    if (!runs || TYPE == TRP_DTYPE_NONE) {
#pragma unroll 4
        for (int64_t k = begin + thread; k < end; k += threads)
            best = trp__select_max::of(best, trp__select_mark(r.key<TYPE>(k), k));
        return best;
    }
    if constexpr (TYPE != TRP_DTYPE_NONE) {
        const uint32_t turned = r.turned(TYPE);
        float most = 0;
        int64_t where = -1; /* the run with `most`; -1: none yet */
        for (int64_t c = begin + thread * TRP__ROWS_RUN; c < end;
             c += (int64_t)threads * TRP__ROWS_RUN * DEEP) {
            trp__pack<TYPE, TRP__ROWS_RUN> raw[DEEP];
            TRP__EACH(d, DEEP) {
                const int64_t k = c + (int64_t)d * threads * TRP__ROWS_RUN;
                if (k >= 0 && k + TRP__ROWS_RUN <= end)
                    raw[d].load(r.x, k, TYPE);
                else
                    raw[d].clear();
            }
            TRP__EACH(d, DEEP) {
                const int64_t k = c + (int64_t)d * threads * TRP__ROWS_RUN;
                if (k >= 0 && k + TRP__ROWS_RUN <= end) {
                    raw[d].flip(turned);
                    const float x = raw[d].template most<true>();
                    const bool larger = where < 0 || (most == most && !(x <= most));
                    most = larger ? x : most;
                    where = larger ? k : where;
                } else {
                    for (int j = 0; j < TRP__ROWS_RUN; j++) {
                        if (k + j >= 0 && k + j < end)
                            best = trp__select_max::of(best,
                                                       trp__select_mark(r.key<TYPE>(k + j), k + j));
                    }
                }
            }
        }
        if (where >= 0) {
            for (int j = 0; j < TRP__ROWS_RUN; j++)
                best = trp__select_max::of(best,
                                           trp__select_mark(r.key<TYPE>(where + j), where + j));
        }
    }
    return best;
}

template <int TYPE, int DEEP> TRP__DEVICE void trp__select_arg(const trp__select &p)
{
    const int64_t row = blockIdx.x / p.parts, part = blockIdx.x - row * p.parts;
    const trp__select_row r(p, p.first + row);
    const int64_t begin = part * p.part - r.shift, end = begin + p.part;
    uint64_t best = trp__select_first<TYPE, DEEP>(r, begin, end < p.n ? end : p.n, p.runs != 0);
    best = trp__rows_together<trp__select_max, uint64_t>(best, (int)blockDim.x, 0);
    if (threadIdx.x != 0)
        return;
    if (p.to)
        trp__to<uint64_t>(p.to, blockIdx.x) = best;
    else
        trp__select_put(p, r.at[TRP__SELECT_INDEX], trp__select_number_of(best));
}

TRP__ENTRY(trp_select_arg_f32, trp__select, (TRP__SELECT_THREADS), trp__select_arg<TRP_F32, 2>)
TRP__ENTRY(trp_select_arg_bf16, trp__select, (TRP__SELECT_THREADS), trp__select_arg<TRP_BF16, 4>)
TRP__ENTRY(trp_select_arg_f16, trp__select, (TRP__SELECT_THREADS), trp__select_arg<TRP_F16, 4>)
TRP__ENTRY(trp_select_arg_any, trp__select, (TRP__SELECT_THREADS),
           trp__select_arg<TRP_DTYPE_NONE, 1>)

/* Finds the first largest element of all parts of a row, with a warp for each row. */
TRP__GLOBAL(32) trp_select_arg_finish(const TRP__CONSTANT trp__select p)
{
    const trp__select_row r(p, p.first + blockIdx.x);
    uint64_t best = 0;
    for (int64_t i = threadIdx.x; i < p.parts; i += 32)
        best = trp__select_max::of(best, trp__at<uint64_t>(p.to, blockIdx.x * p.parts + i));
    best = trp__rows_together<trp__select_max, uint64_t>(best, 32, 0);
    if (threadIdx.x == 0)
        trp__select_put(p, r.at[TRP__SELECT_INDEX], trp__select_number_of(best));
}

/* Kernels of all types, whose names begin with `prefix`. */
#define TRP__SELECT_KERNELS(prefix, KERNEL)                                                        \
    KERNEL(f32, TRP_F32)                                                                           \
    KERNEL(bf16, TRP_BF16)                                                                         \
    KERNEL(f16, TRP_F16)

#include "actors/dnn/kernels/select/select_tiles.cuh"
#include "actors/dnn/kernels/select/select_draw.cuh"

#endif
