/* The sender's side of grouped products on a GPU: what can be said of all groups without knowing
 * what is on the device, and the arguments from which that is found out there. */
#include "actors/cutlass/encode/gemm_run.h"
#include "actors/cutlass/encode/grouped.h"
#include "actors/cutlass/fallback/cublaslt.h"
#include "actors/cutlass/plan/run.h"
#include "actors/cutlass/templates/groups.h"
#include "base/error.h"

#include <stddef.h>
#include <string.h>

_Static_assert((int)TRP_GROUPED_BY_VALUE == (int)TRP_CUTLASS_GROUPS_BY_VALUE &&
                   (int)TRP_GROUPED_BY_TABLE == (int)TRP_CUTLASS_GROUPS_BY_TABLE &&
                   (int)TRP_GROUPED_OF_M == (int)TRP_CUTLASS_GROUPS_OF_M &&
                   (int)TRP_GROUPED_OF_N == (int)TRP_CUTLASS_GROUPS_OF_N &&
                   (int)TRP_GROUPED_OF_K == (int)TRP_CUTLASS_GROUPS_OF_K,
               "groupings are the public ones");
_Static_assert(sizeof(trp_group_row) == sizeof(trp_cutlass_group) &&
                   offsetof(trp_group_row, at) == offsetof(trp_cutlass_group, a) &&
                   offsetof(trp_group_row, ld) == offsetof(trp_cutlass_group, lda),
               "so are rows");

/* The largest power of two, up to 16, in what was put together by "or". */
static uint32_t power_of(uint64_t all)
{
    all |= 16;
    return (uint32_t)(all & (~all + 1));
}

static bool is_turned(const trp__grouped_encoding *m)
{
    return m->g.order[TRP__GEMM_D] == TRP_COL_MAJOR;
}

/* The matrix that plays a part in the problem, which is the transposed one where D is column-major.
 */
static int source_of(const trp__grouped_encoding *m, int part)
{
    return part < TRP__GEMM_C && is_turned(m) ? 1 - part : part;
}

/* Common properties of the groups' matrices. */

typedef struct common {
    uint64_t align[TRP__GEMM_MATRICES]; /* bytes, by "or" */
    uint64_t size[3];                   /* m, n, k likewise */
    int64_t total[3];                   /* of all groups; 0: not known */
} common;

/* By value all is known. */
static void look_at_rows(const trp__grouped_encoding *m, common *x)
{
    static const uint64_t no_limit[] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    for (uint32_t i = 0; i < m->g.groups; i++) {
        trp__group group;
        trp_error ignored;
        trp__group_from_row(&m->g, i, &m->r->group[i], no_limit, &group, &ignored);
        if (group.m == 0 || group.n == 0)
            continue;
        x->size[0] |= (uint64_t)group.m;
        x->size[1] |= (uint64_t)group.n;
        x->size[2] |= (uint64_t)group.k;
        x->total[0] += group.m;
        x->total[1] += group.n;
        x->total[2] += group.k;
        for (int w = 0; w < TRP__GEMM_MATRICES; w++) {
            int64_t length, count;
            uint32_t element = trp_dtype_bits((trp_dtype)m->g.type[w]) / 8;
            if (m->g.type[w] == TRP_DTYPE_NONE)
                continue;
            trp__group_lines(&m->g, &group, w, &length, &count);
            if (length == 0 || count == 0)
                continue;
            x->align[w] |= (uint64_t)group.at[w] * element;
            if (count > 1)
                x->align[w] |= (uint64_t)group.ld[w] * element;
        }
    }
}

/* Elements of a matrix that the caller's promise is about; at least 1. */
static uint64_t promised(const trp__grouped_encoding *m, int which)
{
    uint32_t element = trp_dtype_bits((trp_dtype)m->g.type[which]) / 8;
    return m->g.alignment > element ? m->g.alignment / element : 1;
}

/* The dimension that the lines of a matrix go along. */
static int along(const trp__grouped_encoding *m, int which)
{
    const int rows = which == TRP__GEMM_B ? 2 : 0, columns = which == TRP__GEMM_A ? 2 : 1;
    return m->g.order[which] == TRP_ROW_MAJOR ? columns : rows;
}

/* A dimension is cut: nothing is known of where, but that lines of it begin at one. */
static void look_at_cut(const trp__grouped_encoding *m, common *x)
{
    const int64_t size[3] = {m->g.m, m->g.n, m->g.k};
    const int cut = m->g.grouping - TRP_CUTLASS_GROUPS_OF_M;
    for (int i = 0; i < 3; i++) {
        x->size[i] = i == cut ? 1 : (uint64_t)size[i];
        x->total[i] = i == cut ? size[i] : size[i] * (int64_t)m->g.groups;
    }
    for (int w = 0; w < TRP__GEMM_MATRICES; w++) {
        uint32_t element = trp_dtype_bits((trp_dtype)m->g.type[w]) / 8;
        x->align[w] = (uint64_t)m->g.ld[w] * element;
        if (!trp__grouped_is_cut(m->g.grouping, w)) {
            x->align[w] |= m->g.groups > 1 ? (uint64_t)m->g.stride[w] * element : 0;
        } else if (trp__grouped_cuts_lines(&m->g, w) && m->g.type[w] != TRP_DTYPE_NONE) {
            x->align[w] |= promised(m, w) * element;
            if (promised(m, w) > x->size[cut])
                x->size[cut] = promised(m, w);
        }
    }
}

static void look_at_table(const trp__grouped_encoding *m, common *x)
{
    const int64_t size[3] = {m->g.m, m->g.n, m->g.k};
    for (int i = 0; i < 3; i++) {
        x->size[i] = 1;
        x->total[i] = size[i] * (int64_t)m->g.groups;
    }
    for (int w = 0; w < TRP__GEMM_MATRICES; w++) {
        if (m->g.type[w] == TRP_DTYPE_NONE)
            continue;
        x->align[w] = promised(m, w) * (trp_dtype_bits((trp_dtype)m->g.type[w]) / 8);
        if (promised(m, w) > x->size[along(m, w)])
            x->size[along(m, w)] = promised(m, w);
    }
}

static common common_of(const trp__grouped_encoding *m)
{
    common x = {0};
    if (m->g.grouping == TRP_CUTLASS_GROUPS_BY_VALUE)
        look_at_rows(m, &x);
    else if (m->g.grouping == TRP_CUTLASS_GROUPS_BY_TABLE)
        look_at_table(m, &x);
    else
        look_at_cut(m, &x);
    for (int w = 0; w < TRP__GEMM_MATRICES; w++)
        x.align[w] |= m->matrix[w].offset;
    if (m->g.in_place)
        x.align[TRP__GEMM_C] = x.align[TRP__GEMM_D];
    return x;
}

/* The problem. */

static int64_t mean(const trp__grouped_encoding *m, int64_t total)
{
    int64_t each = total / (int64_t)m->g.groups;
    return each > 0 ? each : 1;
}

/* Vectors along the lines of D: those of a dimension that is cut begin where the pieces do. */
static uint32_t alignment_of_vectors(const trp__cutlass_running *w, const trp__grouped_encoding *m)
{
    uint32_t least = trp__run_alignment_of_tree(w, (int64_t)m->g.groups);
    int32_t cut = w->args.grouping;
    for (uint32_t i = 0; i < w->tree->count && cut == TRP_GROUPED_OF_N; i++) {
        const trp__tree_node *x = &w->tree->node[i];
        if (x->op != TRP__TREE_PER_COLUMN)
            continue;
        uint64_t bytes = promised(m, TRP__GEMM_D) * (trp_dtype_bits((trp_dtype)x->type) / 8);
        least = bytes < least ? (uint32_t)bytes : least;
    }
    return least;
}

static int32_t grouping_of(const trp__grouped_encoding *m)
{
    if (is_turned(m) && m->g.grouping == TRP_CUTLASS_GROUPS_OF_M)
        return TRP_GROUPED_OF_N;
    if (is_turned(m) && m->g.grouping == TRP_CUTLASS_GROUPS_OF_N)
        return TRP_GROUPED_OF_M;
    return m->g.grouping;
}

static void set_arguments(trp__cutlass_running *w, const trp__grouped_encoding *m)
{
    const int a = source_of(m, TRP__GEMM_A), b = source_of(m, TRP__GEMM_B);
    const bool turned = is_turned(m);
    bool reads_c = m->g.type[TRP__GEMM_C] != TRP_DTYPE_NONE;
    w->args = (trp_cutlass_args){
        .lda = m->g.ld[a],
        .ldb = m->g.ld[b],
        .ldc = m->g.ld[TRP__GEMM_C],
        .ldd = m->g.ld[TRP__GEMM_D],
        .batch_a = m->g.stride[a],
        .batch_b = m->g.stride[b],
        .batch_c = m->g.stride[TRP__GEMM_C],
        .batch_d = m->g.stride[TRP__GEMM_D],
        .m = (int32_t)(turned ? m->g.n : m->g.m),
        .n = (int32_t)(turned ? m->g.m : m->g.n),
        .k = (int32_t)m->g.k,
        .l = (int32_t)m->g.groups,
        .grouping = grouping_of(m),
        .group_turned = turned,
        .group_c = !reads_c        ? 0
                   : m->g.in_place ? 2
                                   : 1,
    };
}

/* As the product of a group in the mean. */
static void set_problem(trp__cutlass_running *w, const trp__grouped_encoding *m)
{
    const common all = common_of(m);
    const int a = source_of(m, TRP__GEMM_A), b = source_of(m, TRP__GEMM_B);
    const bool turned = is_turned(m), reads_c = m->g.type[TRP__GEMM_C] != TRP_DTYPE_NONE;
    trp__cutlass_gemm each = {.m = mean(m, all.total[0]),
                              .n = mean(m, all.total[1]),
                              .k = mean(m, all.total[2]),
                              .batch = (int64_t)m->g.groups,
                              .compute = m->g.compute};
    trp__cutlass_problem *p = &w->problem;
    memcpy(each.type, m->g.type, sizeof each.type);
    memcpy(each.order, m->g.order, sizeof each.order);
    *p = (trp__cutlass_problem){
        .divides = {power_of(all.size[turned]), power_of(all.size[!turned]), power_of(all.size[2])},
        .align = {power_of(all.align[a]), power_of(all.align[b]),
                  reads_c ? power_of(all.align[TRP__GEMM_C]) : 16, power_of(all.align[TRP__GEMM_D]),
                  alignment_of_vectors(w, m)},
        .tree = w->tree,
        .capability = w->encoder->compute,
        .processors = w->encoder->processors,
        .shared_bytes = trp__run_shared_bytes(w->encoder->compute),
    };
    trp__cutlass_set_types(p, &each);
    p->operation = TRP__CUTLASS_GROUPED;
    p->grouping = (uint8_t)w->args.grouping;
}

/* Checks the numbers that kernels count in 32 bits. */
static trp_status check_numbers(const trp__cutlass_running *w, const trp__grouped_encoding *m)
{
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"m", m->g.m}, {"n", m->g.n}, {"k", m->g.k}};
    for (int i = 0; i < 3; i++) {
        if (sizes[i].value > INT32_MAX)
            return trp__error_set(w->encoder->error, TRP_E_UNSUPPORTED,
                                  "%s: expected at most %d on a GPU, got %lld", sizes[i].name,
                                  INT32_MAX, (long long)sizes[i].value);
    }
    for (uint32_t i = 0; i < w->tree->count; i++) {
        const trp__tree_node *x = &w->tree->node[i];
        int64_t stride = x->slot ? w->operands->place[x->slot].stride : 0;
        if (x->op == TRP__TREE_SCALAR && w->operands->operand[x->slot].mode &&
            (stride < 0 ? -stride : stride) > INT32_MAX / (int64_t)m->g.groups)
            return trp__error_set(w->encoder->error, TRP_E_UNSUPPORTED,
                                  "nodes[%u].stride: expected at most %lld for %u groups on a GPU, "
                                  "got %lld",
                                  w->tree->origin[x->slot].node,
                                  (long long)(INT32_MAX / (int64_t)m->g.groups), m->g.groups,
                                  (long long)stride);
    }
    return TRP_OK;
}

/* The record. */

/* A matrix, its address and how many bytes it has; by table it is the rest of its buffer. */
static trp_status add_matrix(trp__cutlass_running *w, trp__grouped_encoding *m, int part)
{
    const trp__operand *x = &m->matrix[source_of(m, part)];
    const size_t at = offsetof(trp_cutlass_args, a) + (size_t)part * 8;
    uint32_t access = w->encoder->record->access_count;
    trp_status status = TRP_OK;
    if (!x->mode)
        return TRP_OK;
    if (m->g.grouping == TRP_CUTLASS_GROUPS_BY_TABLE)
        status =
            trp__encode_access_rest(w->encoder, x->name, x->buffer, x->offset, x->element, x->mode);
    else
        status = trp__operand_access(w->encoder, x);
    trp__run_note_address(w, at, access);
    trp__run_note_bytes(w, offsetof(trp_cutlass_args, group_room) + (size_t)part * 8, access);
    if (part == TRP__GEMM_D && m->g.in_place)
        trp__run_note_address(w, offsetof(trp_cutlass_args, c), access);
    return status;
}

static trp_status add_table(trp__cutlass_running *w, trp__grouped_encoding *m)
{
    if (m->table.mode) {
        w->run.table = w->encoder->record->access_count + 1;
        return trp__operand_access(w->encoder, &m->table);
    }
    w->rows = m->r->group;
    w->run.rows_bytes = m->g.groups * (uint32_t)sizeof *m->r->group;
    return TRP_OK;
}

trp_status trp__cutlass_encode_groups(trp__grouped_encoding *m)
{
    trp__cutlass_running w = {.encoder = m->encoder,
                              .tree = &m->e.tree,
                              .operands = &m->e.operands,
                              .kernel = m->r->kernel,
                              .first = m->r->first,
                              .tune = m->r->tune,
                              .library = &trp__groups_by_cublaslt,
                              .asked = m,
                              .in_place = m->g.in_place,
                              .chosen = m->r->chosen,
                              .ran = m->r->ran};
    trp_status status = trp__run_check_offsets(&w, m->matrix, TRP__GEMM_MATRICES);
    if (status == TRP_OK)
        status = check_numbers(&w, m);
    if (status != TRP_OK)
        return status;
    set_arguments(&w, m);
    set_problem(&w, m);
    status = trp__run_add_kernel(&w);
    if (status == TRP_OK && w.by_library)
        return trp__by_cublaslt_encode_groups(m);
    for (int part = 0; part < TRP__GEMM_MATRICES && status == TRP_OK; part++)
        status = add_matrix(&w, m, part);
    if (status == TRP_OK)
        status = add_table(&w, m);
    if (status == TRP_OK)
        status = trp__run_add_slots(&w);
    return status == TRP_OK ? trp__run_write(&w) : status;
}
