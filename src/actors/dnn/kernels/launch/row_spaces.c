#include "actors/dnn/kernels/launch/row_spaces.h"

#include <string.h>

void trp__rows_begin(trp__rows *r, const trp__dnn_tensor *shape, const trp__dnn_tensor *group)
{
    trp__dnn_tensor kept = *shape, reduced = *shape;
    for (int i = 0; i < shape->rank; i++) {
        if (group->dim[i] == 1)
            kept.dim[i] = 1;
        else
            reduced.dim[i] = 1;
    }
    trp__space_begin(&r->kept, &kept);
    trp__space_begin(&r->reduced, &reduced);
}

void trp__rows_add(trp__rows *r, const trp__dnn_tensor *operand)
{
    trp__dnn_tensor shape = *operand; /* trp__space_add() reads its rank only */
    shape.rank = (uint8_t)r->kept.rank;
    trp__space_add(&r->kept, &shape, operand);
    trp__space_add(&r->reduced, &shape, operand);
}

void trp__rows_finish(trp__rows *r, int by)
{
    trp__space_order(&r->kept, by);
    trp__space_merge(&r->kept);
    trp__space_order(&r->reduced, by);
    trp__space_merge(&r->reduced);
    /* The stride along a dimension of 1 is never used, and must not keep rows from being runs. */
    for (int o = 0; o < r->kept.operands; o++) {
        if (r->kept.dim[0] == 1)
            r->kept.stride[o][0] = 0;
        if (r->reduced.dim[0] == 1)
            r->reduced.stride[o][0] = 1;
    }
}

void trp__rows_space_of(const trp__space *kept, int from, trp__rows_space *out)
{
    memset(out, 0, sizeof *out);
    out->rows = 1;
    for (int i = from; i < kept->rank; i++) {
        out->dim[out->rank++] = kept->dim[i];
        out->rows *= kept->dim[i];
    }
}

void trp__rows_operand_of(const trp__rows *r, int operand, int from, uint8_t type,
                          trp__rows_operand *out)
{
    memset(out, 0, sizeof *out);
    out->type = type;
    out->step = r->reduced.stride[operand][0];
    for (int i = from; i < r->kept.rank; i++)
        out->stride[i - from] = r->kept.stride[operand][i];
}

bool trp__rows_are_runs(const trp__space *kept, int from, int operands, bool *ragged)
{
    *ragged = false;
    for (int i = from; i < kept->rank; i++) {
        const int64_t rest = kept->stride[0][i] % TRP__ROWS_RUN;
        *ragged = *ragged || rest != 0;
        for (int o = 1; o < operands; o++) {
            if (kept->stride[o][i] % TRP__ROWS_RUN != rest)
                return false;
        }
    }
    return true;
}

int trp__rows_share(int64_t n, int runs, int threads_max, int32_t *threads)
{
    static const struct {
        int runs, threads;
    } rows[] = {{1, 32}, {2, 32}, {4, 32}, {1, 256}, {2, 512}, {4, 1024}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int limit =
            rows[i].runs == runs && rows[i].threads > 32 ? threads_max : rows[i].threads;
        const int64_t each = (int64_t)rows[i].runs * TRP__ROWS_RUN;
        if (rows[i].runs > runs || n > each * limit)
            continue;
        const int32_t need = (int32_t)((n + each - 1) / each);
        *threads = (need + 31) / 32 * 32;
        for (int32_t two = 1; two < need * 2 && two < 32; two *= 2) {
            if (rows[i].runs == 1 && need <= two) {
                *threads = two;
                break;
            }
        }
        return rows[i].runs;
    }
    return 0;
}

const char *trp__row_packs_type(const trp__rows_operand *operand, int count)
{
    for (int o = 1; o < count; o++) {
        if (operand[o].type != operand[0].type)
            return NULL;
    }
    return operand[0].type != TRP_F64 && trp__rows_takes_type(operand[0].type)
               ? trp_dtype_name((trp_dtype)operand[0].type)
               : NULL;
}

int trp__row_packs_share(const trp__row_packs_ways ways, int64_t n, uint8_t type, int32_t *threads)
{
    const int size = type == TRP_F32 ? 4 : 2;
    for (int w = 0; w < 4; w++) {
        const int64_t each = (int64_t)ways[w].packs * 16 / size;
        if (each == 0 || n > each * ways[w].threads)
            continue;
        const int32_t need = (int32_t)((n + each - 1) / each);
        *threads = (need + 31) / 32 * 32;
        while (ways[w].threads <= 32 && *threads > 1 && *threads / 2 >= need)
            *threads /= 2;
        return ways[w].packs;
    }
    return 0;
}

/* Plans blocks, `resident` of which share a multiprocessor. False: a cluster can't hold a row. */
static bool plan_slices(const trp__kernel_modules *modules, int64_t rows, int64_t units, int loads,
                        uint32_t resident, trp__slices *s)
{
    enum { RESERVED = 1 << 10 }; /* bytes of each block that the device reserves */
    const uint32_t most = (uint32_t)trp__kernel_cluster_most(modules);
    s->threads = TRP__SLICE_THREADS / resident;
    const uint32_t bytes = TRP__SLICE_BYTES * s->threads;
    const uint32_t room =
        ((trp__kernel_shared_most(modules) + RESERVED) / resident - RESERVED - TRP__SLICE_STATIC) /
        bytes;
    const int64_t tile = (int64_t)s->threads * loads;
    s->cluster = 1;
    while (s->cluster < most &&
           ((units + s->cluster - 1) / s->cluster > room * tile ||
            (rows * s->cluster < modules->processors && units > s->cluster * tile)))
        s->cluster *= 2;
    s->each = (units + s->cluster - 1) / s->cluster;
    const int64_t tiles = (s->each + tile - 1) / tile;
    s->most = (int32_t)room;
    s->room = (int32_t)(tiles < room ? tiles : room);
    s->shared = (uint32_t)s->room * bytes;
    return tiles <= room || (most > 1 && resident == 1 && tiles <= 5 * room);
}

bool trp__rows_slices(const trp__kernel_modules *modules, int64_t rows, int64_t units, int loads,
                      uint32_t most, uint32_t least, trp__slices *out)
{
    uint32_t resident = most;
    while (resident > 0 && resident >= least &&
           !plan_slices(modules, rows, units, loads, resident, out))
        resident /= 2;
    return resident > 0 && resident >= least && 2 * rows * out->cluster >= modules->processors;
}

bool trp__rows_takes_type(uint8_t type)
{
    return type == TRP_F64 || type == TRP_F32 || type == TRP_F16 || type == TRP_BF16;
}
