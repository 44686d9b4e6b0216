/* Where the matrices of a grouped product lie: checks of leading dimensions, strides, and of what
 * overlaps. */
#include "actors/cutlass/encode/grouped.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAIL(m, ...) trp__error_set((m)->encoder->error, TRP_E_ARGUMENT, __VA_ARGS__)

static const char *const names[] = {"a", "b", "c", "d"};

static bool cuts(const trp__grouped_encoding *m)
{
    return m->g.grouping >= TRP_CUTLASS_GROUPS_OF_M;
}

/* Sets the parts that all kinds have: buffer, offset, element, and the mode, 0 for an absent
 * operand. */
static void begin(trp__grouped_encoding *m, int which, bool empty)
{
    const trp_matmul_matrix *from = trp__grouped_matrix(m, which);
    uint8_t type = m->g.type[which];
    bool there = !empty && type != TRP_DTYPE_NONE && (which != TRP__GEMM_C || !m->g.in_place);
    m->matrix[which] = (trp__operand){.name = names[which],
                                      .fields = true,
                                      .buffer = from->buffer,
                                      .offset = from->offset,
                                      .element = trp_dtype_bits((trp_dtype)type) / 8,
                                      .mode = !there                 ? 0
                                              : which != TRP__GEMM_D ? TRP__READ
                                              : m->g.in_place        ? TRP__READ | TRP__WRITE
                                                                     : TRP__WRITE};
}

/* A dimension is cut. */

static trp_status set_cut_matrix(trp__grouped_encoding *m, int which)
{
    const trp_matmul_matrix *from = trp__grouped_matrix(m, which);
    const trp__group all = {.m = m->g.m, .n = m->g.n, .k = m->g.k};
    bool cut = trp__grouped_is_cut(m->g.grouping, which);
    int64_t batch = cut ? 1 : m->g.groups;
    begin(m, which, m->g.k == 0 && which < TRP__GEMM_C);
    trp__operand *x = &m->matrix[which];
    if (!x->mode)
        return TRP_OK;
    if (cut && from->stride != 0)
        return FAIL(m, "%s.stride: expected 0, for it is one matrix that is cut, got %lld",
                    names[which], (long long)from->stride);
    trp__group_lines(&m->g, &all, which, &x->rows, &x->columns);
    x->ld = from->ld;
    x->stride = from->stride;
    trp_status status = trp__operand_check_ld(m->encoder, x, from->order);
    if (status == TRP_OK)
        status = trp__operand_check_extent(m->encoder, x, batch);
    if (cut) /* the groups of a D that is cut may end before it does */
        x->mode &= ~(uint32_t)TRP__COVER;
    m->g.ld[which] = x->ld;
    m->g.stride[which] = x->stride;
    return status;
}

static trp_status set_cut(trp__grouped_encoding *m)
{
    trp_status status = TRP_OK;
    for (int i = 0; i < TRP__GEMM_MATRICES && status == TRP_OK; i++)
        status = set_cut_matrix(m, i);
    if (m->g.in_place) {
        m->g.ld[TRP__GEMM_C] = m->g.ld[TRP__GEMM_D];
        m->g.stride[TRP__GEMM_C] = m->g.stride[TRP__GEMM_D];
    }
    return status;
}

/* By value and by table. */

static trp_status check_own(trp__grouped_encoding *m)
{
    for (int i = 0; i < TRP__GEMM_MATRICES; i++) {
        const trp_matmul_matrix *x = trp__grouped_matrix(m, i);
        if (m->g.type[i] == TRP_DTYPE_NONE)
            continue;
        if (x->stride != 0)
            return FAIL(m, "%s.stride: expected 0, for each group says where it begins, got %lld",
                        names[i], (long long)x->stride);
        if (x->offset % (trp_dtype_bits((trp_dtype)m->g.type[i]) / 8) != 0)
            return FAIL(m, "%s.offset: expected a multiple of %u bytes, got %llu", names[i],
                        (unsigned)trp_dtype_bits((trp_dtype)m->g.type[i]) / 8,
                        (unsigned long long)x->offset);
        if (x->ld < 0)
            return FAIL(m, "%s.ld: expected 0 or more, got %lld", names[i], (long long)x->ld);
        m->g.ld[i] = x->ld;
    }
    return TRP_OK;
}

/* Where D of one group lies, in elements. */
typedef struct part {
    uint64_t begin, end;
    uint32_t index;
} part;

static int by_begin(const void *left, const void *right)
{
    const part *a = left, *b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

static const uint64_t no_limit[] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};

/* D of one group, which was checked before. */
static trp__operand part_of(const trp__grouped_encoding *m, const part *p)
{
    trp__operand x = m->matrix[TRP__GEMM_D];
    trp__group group;
    trp_error ignored;
    trp__group_from_row(&m->g, p->index, &m->r->group[p->index], no_limit, &group, &ignored);
    x.offset += p->begin * x.element;
    x.elements = p->end - p->begin;
    x.ld = group.ld[TRP__GEMM_D];
    trp__group_lines(&m->g, &group, TRP__GEMM_D, &x.rows, &x.columns);
    return x;
}

/* Compares each group, in the order of their beginnings, with those that begin before it ends. */
static trp_status check_parts(trp__grouped_encoding *m, part *parts, uint32_t count)
{
    trp_status status = TRP_OK;
    qsort(parts, count, sizeof *parts, by_begin);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = i + 1; j < count && parts[j].begin < parts[i].end; j++) {
            trp__operand x = part_of(m, &parts[i]), y = part_of(m, &parts[j]);
            char name[2][24];
            snprintf(name[0], sizeof name[0], "group[%u].d", parts[i].index);
            snprintf(name[1], sizeof name[1], "group[%u].d", parts[j].index);
            x.name = name[0];
            y.name = name[1];
            status = trp__operand_check_apart(m->encoder, &y, &x, 1);
            if (status != TRP_OK)
                return status;
        }
    }
    return TRP_OK;
}

/* Extends the ranges and alignments of all matrices by a group's. */
static void reach(trp__grouped_encoding *m, uint32_t index, const trp__group *group)
{
    for (int i = 0; i < TRP__GEMM_MATRICES; i++) {
        uint64_t end = trp__group_end(&m->g, group, i);
        if (end <= m->matrix[i].elements)
            continue;
        m->matrix[i].elements = end;
        snprintf(m->name[i], sizeof m->name[i], "group[%u].%s", index, names[i]);
    }
}

static int64_t larger(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

/* As one matrix of one line. */
static trp_status close_by_value(trp__grouped_encoding *m)
{
    for (int i = 0; i < TRP__GEMM_MATRICES; i++) {
        trp__operand *x = &m->matrix[i];
        if (x->elements == 0 || !x->mode) {
            x->mode = 0;
            continue;
        }
        if (x->elements > INT64_MAX / x->element)
            return FAIL(m, "%s: expected to end before 2^63 bytes, got %llu elements", m->name[i],
                        (unsigned long long)x->elements);
        x->name = m->name[i];
        x->rows = x->ld = (int64_t)x->elements;
        x->columns = 1;
        x->one = x->elements;
    }
    return TRP_OK;
}

static trp_status set_by_value(trp__grouped_encoding *m)
{
    part parts[TRP_CUTLASS_GROUPS_BY_VALUE_MAX];
    uint32_t count = 0;
    uint64_t written = 0;
    int64_t most[3] = {0, 0, 0};
    trp_status status = TRP_OK;
    for (int i = 0; i < TRP__GEMM_MATRICES; i++)
        begin(m, i, false);
    m->g.m = m->g.n = m->g.k = INT64_MAX; /* any */
    for (uint32_t i = 0; i < m->g.groups; i++) {
        trp__group group;
        status =
            trp__group_from_row(&m->g, i, &m->r->group[i], no_limit, &group, m->encoder->error);
        if (status != TRP_OK)
            return status;
        most[0] = larger(most[0], group.m);
        most[1] = larger(most[1], group.n);
        most[2] = larger(most[2], group.k);
        reach(m, i, &group);
        if (group.m == 0 || group.n == 0)
            continue;
        parts[count++] = (part){.begin = (uint64_t)group.at[TRP__GEMM_D],
                                .end = trp__group_end(&m->g, &group, TRP__GEMM_D),
                                .index = i};
        written += (uint64_t)group.m * (uint64_t)group.n;
    }
    m->g.m = most[0];
    m->g.n = most[1];
    m->g.k = most[2];
    status = close_by_value(m);
    if (status == TRP_OK)
        status = check_parts(m, parts, count);
    trp__operand *d = &m->matrix[TRP__GEMM_D];
    if (status == TRP_OK && d->mode == TRP__WRITE && written == d->elements)
        d->mode |= TRP__COVER;
    return status;
}

/* Where a table says where groups lie, D has a buffer of its own. */
static trp_status check_alone(const trp__grouped_encoding *m, const char *name, trp_buffer buffer)
{
    if (buffer.id == 0 || buffer.id != m->r->d.buffer.id)
        return TRP_OK;
    return FAIL(
        m, "d.buffer: expected one of its own, since groups by table may overlap, got that of %s",
        name);
}

/* By table each matrix has the rest of its buffer. */
static trp_status set_by_table(trp__grouped_encoding *m)
{
    trp_status status = check_alone(m, "table", m->r->table);
    for (int i = 0; i < TRP__GEMM_MATRICES && status == TRP_OK; i++) {
        begin(m, i, m->g.k == 0 && i < TRP__GEMM_C);
        if (i != TRP__GEMM_D && m->matrix[i].mode)
            status = check_alone(m, names[i], m->matrix[i].buffer);
    }
    for (uint32_t s = TRP__TREE_SLOT_FIRST; s < m->e.tree.slots && status == TRP_OK; s++) {
        char name[24];
        snprintf(name, sizeof name, "nodes[%u]", m->e.tree.origin[s].node);
        if (m->e.tree.origin[s].part == 0)
            status = check_alone(m, name, m->e.nodes[m->e.tree.origin[s].node].buffer);
    }
    return status;
}

/* All. */

static void set_table(trp__grouped_encoding *m)
{
    uint64_t groups = m->g.groups;
    m->table = (trp__operand){.name = "table",
                              .buffer = m->r->table,
                              .offset = m->r->table_offset,
                              .element = cuts(m) ? 4 : 8,
                              .mode = TRP__READ};
    m->table.elements = cuts(m) ? groups : groups * sizeof(trp_cutlass_group) / 8;
    m->table.rows = m->table.ld = (int64_t)m->table.elements;
    m->table.columns = 1;
    m->table.one = m->table.elements;
}

static trp_status check_apart(trp__grouped_encoding *m)
{
    const trp__operand *d = &m->matrix[TRP__GEMM_D];
    trp_status status = TRP_OK;
    for (int i = TRP__GEMM_A; i <= TRP__GEMM_C && status == TRP_OK; i++) {
        if (m->matrix[i].mode)
            status = trp__operand_check_apart(m->encoder, d, &m->matrix[i], m->g.groups);
    }
    if (status == TRP_OK && m->table.mode)
        status = trp__operand_check_apart(m->encoder, d, &m->table, m->g.groups);
    return status;
}

trp_status trp__grouped_place(trp__grouped_encoding *m)
{
    trp_status status = TRP_OK;
    if (m->g.grouping != TRP_CUTLASS_GROUPS_BY_VALUE)
        set_table(m);
    if (cuts(m))
        status = set_cut(m);
    else
        status = check_own(m);
    if (status == TRP_OK && m->g.grouping == TRP_CUTLASS_GROUPS_BY_VALUE)
        status = set_by_value(m);
    if (status == TRP_OK && m->g.grouping == TRP_CUTLASS_GROUPS_BY_TABLE)
        return set_by_table(m);
    return status == TRP_OK && m->matrix[TRP__GEMM_D].mode ? check_apart(m) : status;
}
