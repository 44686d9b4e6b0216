/* Computes sizes and places of one group of a grouped product: for the sender, and for the worker
 * if they are in device memory. */
#include "actors/cutlass/wire/grouped.h"

#include "base/error.h"

static const char names[] = "abcd";

bool trp__grouped_is_cut(uint32_t grouping, int matrix)
{
    switch (grouping) {
    case TRP_CUTLASS_GROUPS_OF_M:
        return matrix != TRP__GEMM_B;
    case TRP_CUTLASS_GROUPS_OF_N:
        return matrix != TRP__GEMM_A;
    case TRP_CUTLASS_GROUPS_OF_K:
        return matrix == TRP__GEMM_A || matrix == TRP__GEMM_B;
    default:
        return false;
    }
}

void trp__group_lines(const trp__cutlass_grouped *g, const trp__group *x, int matrix,
                      int64_t *length, int64_t *count)
{
    int64_t rows = matrix == TRP__GEMM_B ? x->k : x->m;
    int64_t columns = matrix == TRP__GEMM_A ? x->k : x->n;
    bool by_row = g->order[matrix] == TRP_ROW_MAJOR;
    *length = by_row ? columns : rows;
    *count = by_row ? rows : columns;
}

/* Overflow gives a value above any limit. */
static uint64_t end_of(const trp__cutlass_grouped *g, const trp__group *x, int matrix)
{
    int64_t length, count, end;
    trp__group_lines(g, x, matrix, &length, &count);
    if (length == 0 || count == 0)
        return 0;
    if (__builtin_mul_overflow(count - 1, x->ld[matrix], &end) ||
        __builtin_add_overflow(end, length, &end) ||
        __builtin_add_overflow(end, x->at[matrix], &end))
        return UINT64_MAX;
    return (uint64_t)end;
}

uint64_t trp__group_end(const trp__cutlass_grouped *g, const trp__group *x, int matrix)
{
    return x->m == 0 || x->n == 0 ? 0 : end_of(g, x, matrix);
}

static trp_status check_sizes(const trp__cutlass_grouped *g, uint32_t index,
                              const trp_cutlass_group *row, trp_error *error)
{
    const struct {
        const char *name;
        int64_t value, most;
    } sizes[] = {{"m", row->m, g->m}, {"n", row->n, g->n}, {"k", row->k, g->k}};
    for (int i = 0; i < 3; i++) {
        if (sizes[i].value < 0 || sizes[i].value > sizes[i].most)
            return trp__error_set(
                error, TRP_E_ARGUMENT, "group[%u].%s: expected 0 to %lld, got %lld", index,
                sizes[i].name, (long long)sizes[i].most, (long long)sizes[i].value);
    }
    if (row->reserved != 0)
        return trp__error_set(error, TRP_E_ARGUMENT, "group[%u].reserved: expected 0, got %lld",
                              index, (long long)row->reserved);
    return TRP_OK;
}

/* Checks that a number of elements has the promised alignment. */
static trp_status check_promise(const trp__cutlass_grouped *g, uint32_t index, int matrix,
                                const char *what, int64_t elements, trp_error *error)
{
    const int64_t element = trp_dtype_bits((trp_dtype)g->type[matrix]) / 8;
    if (g->alignment <= element || elements % (g->alignment / element) == 0)
        return TRP_OK;
    return trp__error_set(error, TRP_E_ARGUMENT,
                          "group[%u].%s%c: expected a multiple of %lld elements, which `alignment` "
                          "says, got %lld",
                          index, what, names[matrix], (long long)(g->alignment / element),
                          (long long)elements);
}

static trp_status check_promises(const trp__cutlass_grouped *g, uint32_t index, int matrix,
                                 const trp__group *x, trp_error *error)
{
    int64_t length, count;
    trp__group_lines(g, x, matrix, &length, &count);
    trp_status status = check_promise(g, index, matrix, "", x->at[matrix], error);
    if (status == TRP_OK && count > 1)
        status = check_promise(g, index, matrix, "ld", x->ld[matrix], error);
    return status == TRP_OK ? check_promise(g, index, matrix, "lines of ", length, error) : status;
}

/* Places one matrix of a group whose sizes are set. */
static trp_status place(const trp__cutlass_grouped *g, uint32_t index, int matrix, int64_t at,
                        int64_t ld, uint64_t room, trp__group *out, trp_error *error)
{
    int64_t length, count;
    trp__group_lines(g, out, matrix, &length, &count);
    int64_t least = length > 0 ? length : 1;
    ld = ld ? ld : g->ld[matrix] ? g->ld[matrix] : least;
    out->at[matrix] = at;
    out->ld[matrix] = ld;
    if (length == 0 || count == 0)
        return TRP_OK;
    if (ld < least)
        return trp__error_set(
            error, TRP_E_ARGUMENT,
            "group[%u].ld%c: expected at least %lld (the %s of %c as stored), got "
            "%lld",
            index, names[matrix], (long long)least,
            g->order[matrix] == TRP_ROW_MAJOR ? "columns" : "rows", names[matrix], (long long)ld);
    if (at < 0)
        return trp__error_set(error, TRP_E_ARGUMENT, "group[%u].%c: expected 0 or more, got %lld",
                              index, names[matrix], (long long)at);
    uint64_t end = end_of(g, out, matrix);
    if (end <= room)
        return check_promises(g, index, matrix, out, error);
    if (end == UINT64_MAX)
        return trp__error_set(error, TRP_E_ARGUMENT,
                              "group[%u].%c: %lld lines of %lld, %lld apart, from %lld on are more "
                              "than 2^63 elements",
                              index, names[matrix], (long long)count, (long long)length,
                              (long long)ld, (long long)at);
    return trp__error_set(error, TRP_E_ARGUMENT,
                          "group[%u].%c: expected elements that end at %llu or before, got %lld to "
                          "%llu",
                          index, names[matrix], (unsigned long long)room, (long long)at,
                          (unsigned long long)end);
}

trp_status trp__group_from_row(const trp__cutlass_grouped *g, uint32_t index,
                               const trp_cutlass_group *row,
                               const uint64_t room[TRP__GEMM_MATRICES], trp__group *out,
                               trp_error *error)
{
    const int64_t at[] = {row->a, row->b, row->c, row->d};
    const int64_t ld[] = {row->lda, row->ldb, row->ldc, row->ldd};
    trp_status status = check_sizes(g, index, row, error);
    *out = (trp__group){.m = row->m, .n = row->n, .k = row->k};
    if (status != TRP_OK || row->m == 0 || row->n == 0)
        return status;
    for (int i = 0; i < TRP__GEMM_MATRICES && status == TRP_OK; i++) {
        if (i != TRP__GEMM_C || (g->type[i] != TRP_DTYPE_NONE && !g->in_place))
            status = place(g, index, i, at[i], ld[i], room[i], out, error);
    }
    if (g->in_place) {
        out->at[TRP__GEMM_C] = out->at[TRP__GEMM_D];
        out->ld[TRP__GEMM_C] = out->ld[TRP__GEMM_D];
    }
    return status;
}

bool trp__grouped_cuts_lines(const trp__cutlass_grouped *g, int matrix)
{
    bool rows = g->grouping == TRP_CUTLASS_GROUPS_OF_M ||
                (g->grouping == TRP_CUTLASS_GROUPS_OF_K && matrix == TRP__GEMM_B);
    return rows != (g->order[matrix] == TRP_ROW_MAJOR);
}

/* Returns the distance between lines of the divided dimension in a matrix. */
static int64_t step_of(const trp__cutlass_grouped *g, int matrix)
{
    return trp__grouped_cuts_lines(g, matrix) ? 1 : g->ld[matrix];
}

trp_status trp__group_from_ends(const trp__cutlass_grouped *g, uint32_t index, int64_t begin,
                                int64_t end, trp__group *out, trp_error *error)
{
    bool of_m = g->grouping == TRP_CUTLASS_GROUPS_OF_M;
    bool of_n = g->grouping == TRP_CUTLASS_GROUPS_OF_N;
    int64_t all = of_m ? g->m : of_n ? g->n : g->k, size = end - begin;
    if (end < begin || end > all)
        return trp__error_set(error, TRP_E_ARGUMENT,
                              "table[%u]: expected %lld, where the group begins, to %lld, got %lld",
                              index, (long long)begin, (long long)all, (long long)end);
    *out = (trp__group){.m = of_m ? size : g->m,
                        .n = of_n ? size : g->n,
                        .k = of_m || of_n ? g->k : size,
                        .row = of_m ? begin : 0,
                        .column = of_n ? begin : 0};
    for (int i = 0; i < TRP__GEMM_MATRICES; i++) {
        out->ld[i] = g->ld[i];
        out->at[i] = trp__grouped_is_cut(g->grouping, i) ? begin * step_of(g, i)
                                                         : (int64_t)index * g->stride[i];
    }
    for (int i = 0; i < TRP__GEMM_MATRICES && size > 0; i++) {
        if (g->type[i] == TRP_DTYPE_NONE || !trp__grouped_is_cut(g->grouping, i) ||
            !trp__grouped_cuts_lines(g, i))
            continue;
        trp_status status = check_promise(g, index, i, "", begin, error);
        if (status == TRP_OK)
            status = check_promise(g, index, i, "lines of ", size, error);
        if (status != TRP_OK)
            return status;
    }
    return TRP_OK;
}
