/* Rows that the blocks of a cluster share: each block has a slice of a row, and walks it twice,
 * forwards and then backwards. Shared memory holds some tiles of the slice; each thread copies and
 * uses its own elements of these. The tiles that were read last are still there when the second
 * pass begins. It copies the others again while it works on these. */
#ifndef TRP_ACTORS_DNN_KERNELS_COMMON_SLICES_CUH
#define TRP_ACTORS_DNN_KERNELS_COMMON_SLICES_CUH

#include "actors/dnn/kernels/common/async.cuh"
#include "actors/dnn/kernels/common/cluster.cuh"
#include "actors/dnn/kernels/common/row_packs.cuh"

/* The tiles of a slice, and how many of them shared memory holds, `room`: tile t is in slot t %
 * room. WORK has a function copy(tile, slot), which ends with trp__async_commit(). */
struct trp__slice_tiles {
    int tiles, room;

    template <typename WORK> TRP__DEVICE void begin(WORK &work) const
    {
        for (int t = 0; t < room && t < tiles; t++)
            work.copy(t, t);
    }
    /* Forward pass: waits for a tile and returns its slot. */
    TRP__DEVICE int next(int tile) const
    {
        trp__async_wait_for((tile + room < tiles ? tile + room : tiles) - 1 - tile);
        return tile % room;
    }
    template <typename WORK> TRP__DEVICE void copy_behind(WORK &work, int tile) const
    {
        if (tile + room < tiles)
            work.copy(tile + room, tile % room);
    }
    /* Does the same for the backward pass, which follows. */
    TRP__DEVICE int before(int tile) const
    {
        const int done = tiles - 1 - tile, again = tiles - room;
        if (done >= room)
            trp__async_wait_for((done < again ? done : again) - (done - room + 1));
        return tile % room;
    }
    template <typename WORK> TRP__DEVICE void copy_before(WORK &work, int tile) const
    {
        if (tile >= room)
            work.copy(tile - room, tile % room);
    }
};

/* The slice of a row of one type, in one or two operands. */
template <int TYPE, bool RAGGED, int OPERANDS> struct trp__row_tiles : trp__row_packs<TYPE, RAGGED> {
    typedef trp__row_packs<TYPE, RAGGED> packs;
    typedef typename packs::pack pack;
    enum { DEEP = 2 / OPERANDS };
    trp__pack16 *shared;
    uint64_t at[OPERANDS];
    float other; /* the value outside of the row */

    TRP__DEVICE int size() const /* elements of a tile */
    {
        return (int)blockDim.x * packs::V * DEEP;
    }
    TRP__DEVICE int tiles() const
    {
        return (packs::end + size() - 1) / size();
    }
    TRP__DEVICE trp__pack16 *spot(int operand, int slot, int c) const
    {
        return shared + (slot * 2 + operand + c) * (int)blockDim.x + (int)threadIdx.x;
    }
    TRP__DEVICE void go(int tile)
    {
        packs::first = tile * size() + (int)threadIdx.x * packs::V;
        packs::step = (int)blockDim.x * packs::V;
    }
    TRP__DEVICE void copy(int tile, int slot)
    {
        bool whole = true;
        go(tile);
        TRP__EACH(c, DEEP)
            whole = whole && packs::whole(c);
        TRP__EACH(o, OPERANDS) {
            if (whole) {
                TRP__EACH(c, DEEP)
                    trp__async_copy(spot(o, slot, c),
                                    at[o] + (uint64_t)packs::place(c) * packs::SIZE);
                continue;
            }
            pack v[DEEP];
            packs::template read<DEEP>(at[o], other, v);
            TRP__EACH(c, DEEP)
                v[c].give(spot(o, slot, c));
        }
        trp__async_commit();
    }
    TRP__DEVICE void take(int operand, int tile, int slot, pack v[DEEP])
    {
        go(tile);
        TRP__EACH(c, DEEP)
            v[c].take(*spot(operand, slot, c));
    }
};

#endif
