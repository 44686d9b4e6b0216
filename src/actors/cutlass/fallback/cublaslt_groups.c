/* Groups by value as products of the matmul actor, one after the other. */
#include "actors/cutlass/fallback/cublaslt.h"

#include "actors/matmul/matmul.h"
#include "base/error.h"
#include "libs/cublaslt/cublaslt.h"

#include <string.h>

static const uint64_t no_limit[] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};

/* A group that was checked before; false: it does nothing. */
static bool group_at(const trp__grouped_encoding *m, uint32_t index, trp__group *out)
{
    trp_error ignored;
    trp__group_from_row(&m->g, index, &m->r->group[index], no_limit, out, &ignored);
    return out->m > 0 && out->n > 0;
}

static uint32_t count_products(const trp__grouped_encoding *m)
{
    uint32_t count = 0;
    trp__group group;
    for (uint32_t i = 0; i < m->g.groups; i++)
        count += group_at(m, i, &group);
    return count;
}

static bool takes(const void *problem)
{
    const trp__grouped_encoding *m = problem;
    if (m->g.grouping != TRP_CUTLASS_GROUPS_BY_VALUE || m->r->epilogue_count > 0 ||
        !trp__by_cublaslt_multiplies(m->g.type, m->r->alpha) ||
        count_products(m) > TRP__BY_CUBLASLT_GROUPS_MAX)
        return false;
    for (uint32_t i = 0; i < m->g.groups; i++) {
        trp__group group;
        if (group_at(m, i, &group) && group.k == 0)
            return false;
    }
    return true;
}

static atomic_bool found;

const trp__run_library trp__groups_by_cublaslt = {
    .name = "cublaslt", .takes = takes, .find = trp__cublaslt_find, .found = &found};

/* For a record of one group only: its buffers are the request's matrices, of any size, whose ranges
 * are compared with the buffers for all groups together. */
static trp_status acquire(trp__encoder *encoder, const char *name, trp_buffer buffer,
                          trp__access *access, uint64_t *bytes)
{
    (void)encoder;
    (void)name;
    access->slot = (uint32_t)buffer.id - 1;
    *bytes = INT64_MAX;
    return TRP_OK;
}

static trp_matmul_matrix matrix_of(const trp__grouped_encoding *m, const trp__group *group,
                                   int which)
{
    const int place = which == TRP__GEMM_C && m->g.in_place ? TRP__GEMM_D : which;
    const uint32_t element = trp_dtype_bits((trp_dtype)m->g.type[which]) / 8;
    if (m->g.type[which] == TRP_DTYPE_NONE)
        return (trp_matmul_matrix){.type = TRP_DTYPE_NONE};
    return (trp_matmul_matrix){.buffer = {(uint64_t)place + 1},
                               .offset = (uint64_t)group->at[place] * element,
                               .type = (trp_dtype)m->g.type[which],
                               .order = (trp_order)m->g.order[which],
                               .ld = group->ld[place]};
}

static trp_status put_group(const trp__grouped_encoding *m, const trp__group *group,
                            const uint32_t access[TRP__GEMM_MATRICES], trp__by_cublaslt_group *out)
{
    trp__record record;
    trp__encoder alone = *m->encoder;
    const trp_matmul_request r = {.header = m->r->header,
                                  .m = group->m,
                                  .n = group->n,
                                  .k = group->k,
                                  .compute = (trp_compute)m->g.compute,
                                  .a = matrix_of(m, group, TRP__GEMM_A),
                                  .b = matrix_of(m, group, TRP__GEMM_B),
                                  .c = matrix_of(m, group, TRP__GEMM_C),
                                  .d = matrix_of(m, group, TRP__GEMM_D),
                                  .alpha = m->r->alpha,
                                  .beta = m->r->beta};
    memset(&record, 0, sizeof record);
    alone.record = &record;
    alone.acquire = acquire;
    alone.look = NULL;
    trp_status status = trp__matmul_encode(&alone, &r.header);
    if (status != TRP_OK)
        return status;
    memset(out, 0, sizeof *out);
    memcpy(&out->problem, record.payload, sizeof out->problem);
    for (; out->accesses < record.access_count && out->accesses < TRP__GEMM_MATRICES;
         out->accesses++) {
        const trp__access *x = &record.access[out->accesses];
        out->access[out->accesses] = access[x->slot];
        out->at[out->accesses] = x->offset;
        out->bytes[out->accesses] = x->bytes;
    }
    return TRP_OK;
}

trp_status trp__by_cublaslt_encode_groups(trp__grouped_encoding *m)
{
    const trp__by_cublaslt_groups payload = {.run = {.args_bytes = TRP__RUN_BY_CUBLASLT_GROUPS},
                                             .count = count_products(m)};
    uint32_t access[TRP__GEMM_MATRICES], put = 0;
    void *piece = NULL;
    trp_status status = m->encoder->input(
        m->encoder, payload.count * (uint32_t)sizeof(trp__by_cublaslt_group), &piece);
    for (int i = 0; i < TRP__GEMM_MATRICES && status == TRP_OK; i++)
        status = trp__add_operand(m->encoder, &m->matrix[i], &access[i]);
    for (uint32_t i = 0; i < m->g.groups && status == TRP_OK; i++) {
        trp__by_cublaslt_group one;
        trp__group group;
        if (!group_at(m, i, &group))
            continue;
        status = put_group(m, &group, access, &one);
        if (status == TRP_OK)
            memcpy((char *)piece + put++ * sizeof one, &one, sizeof one);
    }
    memcpy(m->encoder->record->payload, &payload, sizeof payload);
    return status;
}
