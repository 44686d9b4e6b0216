/* Rows of a type that is known at compile time, in registers and stored as in memory: each thread
 * has some packs of 16 bytes. */
#ifndef TRP_ACTORS_DNN_KERNELS_COMMON_ROW_PACKS_CUH
#define TRP_ACTORS_DNN_KERNELS_COMMON_ROW_PACKS_CUH

#include "actors/dnn/kernels/common/packs.cuh"

/* Finds where a row begins, as trp__rows_find() does, among at most 2^31 - 1 rows. Divides by 32
 * bits: divisions of 64 bits are calls, which cost registers. */
template <int OPERANDS>
TRP__DEVICE void trp__row_packs_find(const trp__rows_space &s, uint32_t row,
                                     const trp__rows_operand *operand, int64_t first[OPERANDS])
{
    TRP__EACH(o, OPERANDS)
        first[o] = s.rank == 1 ? (int64_t)row * operand[o].stride[0] : 0;
    if (s.rank == 1)
        return;
    if (s.rank == 2) { /* without a loop: the compiler divides once for all operands of a row */
        const uint32_t second = row / (uint32_t)s.dim[0];
        TRP__EACH(o, OPERANDS)
            first[o] = (row - second * (uint32_t)s.dim[0]) * operand[o].stride[0] +
                       second * operand[o].stride[1];
        return;
    }
    TRP__ROLLED
    for (int d = 0; d < s.rank; d++) {
        uint32_t at = row;
        if (d + 1 < s.rank) {
            row = at / (uint32_t)s.dim[d];
            at -= row * (uint32_t)s.dim[d];
        }
        TRP__EACH(o, OPERANDS)
            first[o] += at * operand[o].stride[d];
    }
}

/* The bytes of an element, and the pack of 16 bytes. */
template <int TYPE> struct trp__row_type {
    enum { SIZE = TYPE == TRP_F32 ? 4 : 2, V = 16 / SIZE };
    typedef trp__pack<TYPE, V> pack;
};

/* The packs of a thread: the first begins at element `first`, the others `step` elements apart.
 * Elements are counted from an address that is a multiple of 16, at or before the row. The row has
 * the elements from `begin` to below `end`; no others are read or written. Without RAGGED both are
 * multiples of LENGTH, the elements of a pack. */
template <int TYPE, bool RAGGED = true, int LENGTH = trp__row_type<TYPE>::V> struct trp__row_packs {
    enum { SIZE = trp__row_type<TYPE>::SIZE, V = LENGTH };
    typedef trp__pack<TYPE, V> pack;
    int first, step, begin, end;

    TRP__DEVICE int place(int c) const
    {
        return first + c * step;
    }
    TRP__DEVICE bool whole(int c) const
    {
        return RAGGED ? place(c) >= begin && place(c) + V <= end : place(c) < end;
    }
    TRP__DEVICE bool has(int c, int j) const
    {
        return place(c) + j >= begin && place(c) + j < end;
    }
    /* Reads PACKS packs of the row at `at`. Elements outside of the row become `other`. */
    template <int PACKS> TRP__DEVICE void read(uint64_t at, float other, pack v[PACKS]) const
    {
        float outside[V];
        bool ragged = false;
        TRP__EACH(j, V)
            outside[j] = other;
        TRP__EACH(c, PACKS) {
            if (whole(c))
                v[c].load(at, place(c), TYPE);
            else
                v[c].set(outside);
            ragged = ragged || (!whole(c) && place(c) < end);
        }
        if (!RAGGED || !ragged)
            return;
        TRP__EACH(c, PACKS) {
            if (whole(c) || place(c) >= end)
                continue;
            TRP__EACH(j, V) {
                if (has(c, j))
                    v[c].put(j, at, place(c) + j);
            }
        }
    }
    TRP__DEVICE void write(uint64_t at, int c, const pack &v) const
    {
        if (whole(c)) {
            v.store(at, place(c), TYPE);
            return;
        }
        TRP__UNROLL
        for (int j = 0; RAGGED && j < V; j++) {
            if (has(c, j))
                trp__store_float<float>(at, place(c) + j, TYPE, v.get(j));
        }
    }
};

#endif
