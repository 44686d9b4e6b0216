/* The sender's side of grouped products: checks a request and writes its record. */
#include "actors/cutlass/encode/grouped.h"

#include "actors/cutlass/encode/encode.h"
#include "actors/cutlass/wire/run.h"
#include "base/error.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#define FAIL(m, status, ...) trp__error_set((m)->encoder->error, status, __VA_ARGS__)

typedef trp__grouped_encoding encoding;

/* Numbers. */

static trp_status check_enums(encoding *m)
{
    const trp_cutlass_grouped_gemm_request *r = m->r;
    const trp__choice choices[] = {
        {"a.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->a.order, TRP_ROW_MAJOR},
        {"b.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->b.order, TRP_ROW_MAJOR},
        {"c.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->c.order, TRP_ROW_MAJOR},
        {"d.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->d.order, TRP_ROW_MAJOR},
        {"compute", "TRP_COMPUTE_DEFAULT, _TF32 or _PEDANTIC", r->compute, TRP_COMPUTE_PEDANTIC},
        {"grouping", "a trp_cutlass_grouping", r->grouping, TRP_CUTLASS_GROUPS_OF_K},
        {"first", "TRP_CUTLASS_FIRST_WAIT or _FALLBACK", r->first, TRP_CUTLASS_FIRST_FALLBACK},
        {"tune", "TRP_TUNE_OFF, _QUICK or _FULL", r->tune, TRP_TUNE_FULL},
    };
    for (int i = 0; i < TRP__GEMM_MATRICES; i++) {
        static const char *const names[] = {"a", "b", "c", "d"};
        trp_status status = trp__check_no_scale(m->encoder, names[i], trp__grouped_matrix(m, i));
        if (status != TRP_OK)
            return status;
        m->g.order[i] = (uint8_t)trp__grouped_matrix(m, i)->order;
    }
    m->g.grouping = (uint8_t)r->grouping;
    return trp__check_choices(m->encoder, choices, COUNT_OF(choices));
}

static trp_status check_sizes(encoding *m)
{
    const trp_cutlass_grouped_gemm_request *r = m->r;
    bool by_value = r->grouping == TRP_CUTLASS_GROUPS_BY_VALUE;
    int64_t most = by_value ? TRP_CUTLASS_GROUPS_BY_VALUE_MAX : TRP_CUTLASS_GROUPS_MAX;
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"m", r->m}, {"n", r->n}, {"k", r->k}};
    if (r->groups < 0 || r->groups > most)
        return FAIL(m, TRP_E_ARGUMENT, "groups: expected 0 to %lld%s, got %lld", (long long)most,
                    by_value ? " by value" : "", (long long)r->groups);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        if (by_value ? sizes[i].value != 0 : sizes[i].value < 0)
            return trp__operand_wrong(m->encoder, sizes[i].name,
                                      by_value ? "0, for each group has its own" : "0 or more",
                                      sizes[i].value);
    }
    if (r->alignment > 16 || (r->alignment & (r->alignment - 1)) != 0 ||
        (by_value && r->alignment != 0))
        return FAIL(m, TRP_E_ARGUMENT, "alignment: expected 0%s, got %u",
                    by_value ? " by value" : ", 1, 2, 4, 8 or 16", r->alignment);
    m->g.alignment = r->alignment ? (uint8_t)r->alignment : 1;
    if (by_value && (r->group == NULL) != (r->groups == 0))
        return FAIL(m, TRP_E_ARGUMENT, "group: expected %s with groups %lld, got %s",
                    r->groups ? "an array" : "NULL", (long long)r->groups,
                    r->group ? "a pointer" : "NULL");
    if (!by_value && r->group)
        return FAIL(m, TRP_E_ARGUMENT, "group: expected NULL but by value, got a pointer");
    if (by_value && (r->table.id || r->table_offset))
        return FAIL(m, TRP_E_ARGUMENT, "%s: expected none with groups by value",
                    r->table.id ? "table" : "table_offset");
    m->g.groups = (uint32_t)r->groups;
    m->g.m = r->m;
    m->g.n = r->n;
    m->g.k = r->k;
    return TRP_OK;
}

/* Types and epilogue. */

/* Refuses nodes that kernels for groups have no visitor for. */
static trp_status check_node(encoding *m, uint32_t i)
{
    static const char *const refused[] = {
        [TRP_EPILOGUE_AUX_LOAD] = "aux load",
        [TRP_EPILOGUE_AUX_STORE] = "aux store",
        [TRP_EPILOGUE_REDUCE_ROWS] = "reduce rows",
        [TRP_EPILOGUE_REDUCE_COLUMNS] = "reduce columns",
        [TRP_EPILOGUE_REDUCE_ALL] = "reduce all",
    };
    const trp_epilogue_node *x = &m->e.nodes[i];
    bool per_row = x->kind == TRP_EPILOGUE_PER_ROW || x->kind == TRP_EPILOGUE_SCALE_ROWS;
    bool per_column = x->kind == TRP_EPILOGUE_PER_COLUMN || x->kind == TRP_EPILOGUE_SCALE_COLUMNS;
    bool whole = (per_row && m->g.grouping == TRP_CUTLASS_GROUPS_OF_M) ||
                 (per_column && m->g.grouping == TRP_CUTLASS_GROUPS_OF_N);
    if ((size_t)x->kind < COUNT_OF(refused) && refused[x->kind])
        return FAIL(m, TRP_E_UNSUPPORTED, "nodes[%u] (%s): which grouped products can't do", i,
                    refused[x->kind]);
    if (whole && x->stride != 0)
        return FAIL(m, TRP_E_ARGUMENT,
                    "nodes[%u].stride: expected 0, for the vector goes over the %s of all groups, "
                    "got %lld",
                    i, per_row ? "rows" : "columns", (long long)x->stride);
    return TRP_OK;
}

static bool same_place(const encoding *m)
{
    const trp_matmul_matrix *c = &m->r->c, *d = &m->r->d;
    bool own = m->g.grouping < TRP_CUTLASS_GROUPS_OF_M;
    int64_t smallest = own ? 0 : d->order == TRP_ROW_MAJOR ? m->g.n : m->g.m;
    return c->buffer.id == d->buffer.id && c->offset == d->offset && c->stride == d->stride &&
           (c->ld ? c->ld : smallest) == (d->ld ? d->ld : smallest) &&
           m->g.type[TRP__GEMM_C] == m->g.type[TRP__GEMM_D];
}

static trp_status set_epilogue(encoding *m)
{
    const trp_cutlass_grouped_gemm_request *r = m->r;
    m->e = (trp__epilogue_encoding){.encoder = m->encoder,
                                    TRP__EPILOGUE_OF(r),
                                    .order = r->d.order,
                                    .transpose = m->encoder->backend == TRP_BACKEND_CUDA &&
                                                 r->d.order == TRP_COL_MAJOR};
    trp_status status = trp__epilogue_check(&m->e);
    for (uint32_t i = 1; i < r->epilogue_count && status == TRP_OK; i++)
        status = check_node(m, i);
    if (status != TRP_OK)
        return status;
    memcpy(m->g.type, m->e.type, sizeof m->g.type);
    m->g.compute = (uint8_t)r->compute;
    if (m->g.type[TRP__GEMM_C] == TRP_DTYPE_NONE)
        return TRP_OK;
    m->g.in_place = same_place(m);
    return r->c.order == r->d.order
               ? TRP_OK
               : FAIL(m, TRP_E_UNSUPPORTED, "c.order: another one than d.order");
}

/* Places. */

static trp_status add_matrices(encoding *m)
{
    bool rest = m->g.grouping == TRP_CUTLASS_GROUPS_BY_TABLE;
    trp_status status = TRP_OK;
    uint32_t access;
    for (int i = 0; i < TRP__GEMM_MATRICES && status == TRP_OK; i++) {
        const trp__operand *x = &m->matrix[i];
        m->g.access[i] = TRP__GEMM_NO_ACCESS;
        if (rest && x->mode) {
            m->g.access[i] = (uint8_t)m->encoder->record->access_count;
            status = trp__encode_access_rest(m->encoder, x->name, x->buffer, x->offset, x->element,
                                             x->mode);
        } else {
            status = trp__add_operand(m->encoder, x, &access);
            m->g.access[i] = (uint8_t)access;
        }
    }
    if (m->g.in_place)
        m->g.access[TRP__GEMM_C] = m->g.access[TRP__GEMM_D];
    if (status == TRP_OK)
        status = trp__add_operand(m->encoder, &m->table, &access);
    m->g.table = status == TRP_OK ? (uint8_t)access : TRP__GEMM_NO_ACCESS;
    return status;
}

static trp_status put_all(encoding *m)
{
    bool by_value = m->g.grouping == TRP_CUTLASS_GROUPS_BY_VALUE;
    uint32_t extra = by_value ? m->g.groups * (uint32_t)sizeof *m->r->group : 0;
    void *room = NULL;
    trp_status status = trp__epilogue_reserve(&m->e, m->g.rest, sizeof m->g.rest, extra, &room);
    if (status == TRP_OK)
        status = add_matrices(m);
    if (status != TRP_OK)
        return status;
    if (by_value)
        memcpy(room, m->r->group, extra);
    m->g.slots = (uint8_t)m->e.slots;
    m->g.tree_bytes = (uint16_t)m->e.tree_bytes;
    return trp__epilogue_put(&m->e, (char *)room + extra);
}

static trp_status place_tree(encoding *m)
{
    uint32_t operands = m->table.mode != 0;
    trp_status status =
        trp__tree_place_operands(m->encoder, m->e.nodes, &m->e.tree, m->g.m, m->g.n, m->g.groups,
                                 m->matrix, TRP__GEMM_MATRICES, &m->e.operands);
    for (int i = 0; i < TRP__GEMM_MATRICES; i++)
        operands += m->matrix[i].mode != 0;
    return status == TRP_OK ? trp__epilogue_check_count(&m->e, operands) : status;
}

static trp_status set_places(encoding *m)
{
    bool by_value = m->g.grouping == TRP_CUTLASS_GROUPS_BY_VALUE;
    trp_status status = TRP_OK;
    if (m->g.groups > 0 && (by_value || (m->g.m > 0 && m->g.n > 0)))
        status = trp__grouped_place(m);
    if (status != TRP_OK)
        return status;
    if (!m->matrix[TRP__GEMM_D].mode) {
        m->g.groups = 0;
        return TRP_OK;
    }
    status = place_tree(m);
    if (status != TRP_OK)
        return status;
    return m->encoder->backend == TRP_BACKEND_HOST ? put_all(m) : trp__cutlass_encode_groups(m);
}

trp_status trp__cutlass_encode_grouped(trp__encoder *encoder, const trp_request *request)
{
    encoding m = {.encoder = encoder, .r = (const trp_cutlass_grouped_gemm_request *)request};
    trp_status status = check_enums(&m);
    if (status == TRP_OK)
        status = check_sizes(&m);
    if (status == TRP_OK)
        status = set_epilogue(&m);
    if (status == TRP_OK)
        status = trp__check_kernel(encoder, m.r->kernel, m.r->chosen, m.r->ran);
    if (status == TRP_OK && encoder->backend == TRP_BACKEND_CUDA)
        memset(encoder->record->payload, 0, sizeof(trp__cutlass_run)); /* nothing to do */
    if (status == TRP_OK)
        status = set_places(&m);
    if (status == TRP_OK && encoder->backend == TRP_BACKEND_HOST)
        memcpy(encoder->record->payload, &m.g, sizeof m.g);
    return status;
}
