#include "support/problems/grouped_problem.h"

#include "support/reference/elements.h"

#include <complex.h>
#include <math.h>

static size_t below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

static size_t bytes_of(trp_dtype type, size_t elements)
{
    return elements * (trp_dtype_bits(type) / 8);
}

static bool is_cut(const gp_problem *p, int which)
{
    switch (p->grouping) {
    case TRP_CUTLASS_GROUPS_OF_M:
        return which != GP_B;
    case TRP_CUTLASS_GROUPS_OF_N:
        return which != GP_A;
    case TRP_CUTLASS_GROUPS_OF_K:
        return which == GP_A || which == GP_B;
    default:
        return false;
    }
}

static size_t size(const gp_problem *p, size_t most)
{
    if (p->tight)
        return 2 + below(most);
    return below(5) == 0 ? 0 : below(4) == 0 ? 1 : 1 + below(most);
}

/* Draws a gap between operands, lines or groups, or after them. */
static size_t gap(const gp_problem *p, size_t bound)
{
    return p->tight ? 0 : below(bound);
}

/* Draws the sizes of all groups, and of the request. */
static void draw_sizes(gp_problem *p, size_t most)
{
    bool own = p->grouping < TRP_CUTLASS_GROUPS_OF_M;
    const size_t least = p->tight ? 2 : 1;
    size_t m = least + below(most), n = least + below(most), k = size(p, most), at = 0;
    for (size_t i = 0; i < p->groups; i++) {
        gp_group *g = &p->group[i];
        size_t piece = size(p, most);
        *g = (gp_group){.m = m, .n = n, .k = k};
        if (own)
            *g = (gp_group){.m = size(p, most), .n = size(p, most), .k = size(p, most)};
        if (p->grouping == TRP_CUTLASS_GROUPS_OF_M) {
            g->m = piece;
            g->row = at;
        } else if (p->grouping == TRP_CUTLASS_GROUPS_OF_N) {
            g->n = piece;
            g->column = at;
        } else if (p->grouping == TRP_CUTLASS_GROUPS_OF_K) {
            g->k = piece;
        }
        at += piece;
        p->m = own && g->m > p->m ? g->m : p->m;
        p->n = own && g->n > p->n ? g->n : p->n;
        p->k = own && g->k > p->k ? g->k : p->k;
    }
    if (own)
        return;
    at += gap(p, 4); /* gap after the last end */
    p->m = p->grouping == TRP_CUTLASS_GROUPS_OF_M ? at : m;
    p->n = p->grouping == TRP_CUTLASS_GROUPS_OF_N ? at : n;
    p->k = p->grouping == TRP_CUTLASS_GROUPS_OF_K ? at : k;
}

static void lines_of(const gp_place *x, int which, size_t m, size_t n, size_t k, size_t *length,
                     size_t *count)
{
    size_t rows = which == GP_B ? k : m, columns = which == GP_A ? k : n;
    *length = x->row_major ? columns : rows;
    *count = x->row_major ? rows : columns;
}

/* Places the matrices of all groups if one dimension is cut. */
static void lay_out_cut(gp_problem *p, int which)
{
    gp_place *x = &p->matrix[which];
    size_t length, count, begin = 0;
    lines_of(x, which, p->m, p->n, p->k, &length, &count);
    const bool least = p->tight || below(3) == 0;
    const bool shared = !p->tight && which != GP_D && below(4) == 0;
    x->ld = least ? (length ? length : 1) : length + 1 + below(5);
    x->stride = is_cut(p, which) || shared ? 0 : count * x->ld + gap(p, 5);
    for (size_t i = 0; i < p->groups; i++) {
        gp_group *g = &p->group[i];
        bool of_rows = p->grouping == TRP_CUTLASS_GROUPS_OF_M ||
                       (p->grouping == TRP_CUTLASS_GROUPS_OF_K && which == GP_B);
        g->ld[which] = x->ld;
        g->at[which] =
            is_cut(p, which) ? begin * (of_rows == x->row_major ? x->ld : 1) : i * x->stride;
        begin += p->grouping == TRP_CUTLASS_GROUPS_OF_M   ? g->m
                 : p->grouping == TRP_CUTLASS_GROUPS_OF_N ? g->n
                                                          : g->k;
    }
    x->span = x->offset + (is_cut(p, which) ? 1 : p->groups) * (count * x->ld + (p->tight ? 0 : 5));
    if (least)
        x->ld = 0;
}

/* Places them if each group has an offset: one after the other, in random order. */
static void lay_out_own(gp_problem *p, int which)
{
    gp_place *x = &p->matrix[which];
    size_t at = 0, length, count, start = gap(p, p->groups);
    x->ld = p->tight || below(2) ? 0 : 60 + below(5);
    for (size_t i = 0; i < p->groups; i++) {
        gp_group *g = &p->group[(start + i) % p->groups];
        lines_of(x, which, g->m, g->n, g->k, &length, &count);
        at += below(3) ? 0 : gap(p, 6);
        g->at[which] = at;
        g->ld[which] = length + gap(p, 5);
        if (below(4) == 0)
            g->ld[which] = x->ld ? x->ld : length; /* the default */
        at += count * g->ld[which];
    }
    x->span = x->offset + at + (p->tight ? 0 : 3);
}

/* Draws small integers, which all types hold. */
static void fill(const gp_problem *p, gp_place *x, block *b)
{
    x->block = b;
    const size_t bytes = bytes_of(x->type, x->span + (p->tight ? 0 : 1));
    *b = block_make(bytes, h_random_block(h_rng(), bytes));
    for (size_t i = 0; i < x->span; i++)
        ref_element_store(x->type, b->before, (int64_t)i, (double)below(9) - 4);
}

static double load(const gp_place *x, size_t index)
{
    return creal(ref_element_load(x->type, x->block->before, (int64_t)(x->offset + index)));
}

static double element(const gp_problem *p, const gp_group *g, int which, size_t i, size_t j)
{
    const gp_place *x = &p->matrix[which];
    return load(x, g->at[which] + (x->row_major ? i * g->ld[which] + j : j * g->ld[which] + i));
}

static gp_place vector_of(gp_problem *p, int which, trp_dtype type, size_t length, bool whole)
{
    gp_place x = {.type = type, .offset = below(3)};
    x.stride = whole || below(3) == 0 ? 0 : length + below(3);
    x.span = x.offset + length + (p->groups - 1) * x.stride;
    fill(p, &x, &p->blocks[which]);
    return x;
}

static void draw_types(gp_problem *p, trp_dtype a)
{
    static const trp_dtype narrow[] = {TRP_F32, TRP_F16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2, TRP_I8};
    bool fp8 = a == TRP_F8E4M3 || a == TRP_F8E5M2, wide = a == TRP_F64;
    p->matrix[GP_A].type = a;
    p->matrix[GP_B].type = fp8 ? (below(2) ? TRP_F8E4M3 : TRP_F8E5M2) : a;
    p->matrix[GP_D].type = wide ? (below(2) ? TRP_F64 : TRP_F32) : narrow[below(6)];
    p->matrix[GP_C].type = wide ? (below(2) ? TRP_F64 : TRP_F32) : narrow[below(6)];
    if (p->in_place)
        p->matrix[GP_C].type = p->matrix[GP_D].type;
}

static void draw_tree(gp_problem *p)
{
    const trp_dtype f = p->matrix[GP_A].type == TRP_F64 ? TRP_F64 : TRP_F32;
    const trp_dtype other = f == TRP_F64 ? TRP_F32 : TRP_BF16;
    p->rows =
        vector_of(p, GP_ROWS, below(2) ? f : other, p->m, p->grouping == TRP_CUTLASS_GROUPS_OF_M);
    p->columns = vector_of(p, GP_COLUMNS, f, p->n, p->grouping == TRP_CUTLASS_GROUPS_OF_N);
    p->scalars = vector_of(p, GP_SCALARS, f, 1, false);
}

static void draw_operands(gp_problem *p, trp_dtype type, size_t most)
{
    static const double alphas[] = {1, 1, -2, 0, 3}, betas[] = {0, 1, -3, 2};
    p->groups = p->tight ? 2 : 1 + below(GP_GROUPS_MOST);
    p->in_place = !p->tight && below(3) == 0;
    p->tree = !p->tight && below(2);
    p->alpha = alphas[p->tight ? 0 : below(5)];
    p->beta = betas[p->tight ? 1 : below(4)];
    draw_types(p, type);
    draw_sizes(p, most);
    for (int i = 0; i < GP_MATRICES; i++) {
        const int which = i == 2 ? GP_D : i == 3 ? GP_C : i; /* C has D's order */
        gp_place *x = &p->matrix[which];
        x->row_major = which == GP_C ? p->matrix[GP_D].row_major : below(2);
        x->offset = gap(p, 4);
        if (p->grouping < TRP_CUTLASS_GROUPS_OF_M)
            lay_out_own(p, which);
        else
            lay_out_cut(p, which);
        if (which != GP_C || !p->in_place)
            fill(p, x, &p->blocks[which]);
    }
    for (size_t i = 0; i < p->groups && p->in_place; i++) {
        p->group[i].at[GP_C] = p->group[i].at[GP_D];
        p->group[i].ld[GP_C] = p->group[i].ld[GP_D];
    }
    if (p->tree)
        draw_tree(p);
}

/* Draws more than a tile in one direction. */
static void draw_large(gp_problem *p, unsigned way)
{
    const size_t m = way == 0 ? 517 : 3, n = way == 1 ? 1030 : 2, k = way == 2 ? 1025 : 4;
    p->groups = 2;
    p->alpha = 1;
    p->matrix[GP_A].type = p->matrix[GP_B].type = TRP_BF16;
    p->matrix[GP_C].type = p->matrix[GP_D].type = TRP_F32;
    p->group[0] = (gp_group){.m = 3, .n = n, .k = k};
    p->group[1] = (gp_group){.m = m, .n = n, .k = k, .row = 3};
    p->m = m + 3;
    p->n = n;
    p->k = k;
    for (int i = 0; i < GP_MATRICES; i++) {
        p->matrix[i].row_major = i != GP_B;
        lay_out_cut(p, i);
        fill(p, &p->matrix[i], &p->blocks[i]);
    }
}

/* --- expected results --- */

static double value_of(const gp_problem *p, size_t index, size_t i, size_t j)
{
    const gp_group *g = &p->group[index];
    int c = p->in_place ? GP_D : GP_C;
    double sum = 0;
    for (size_t k = 0; k < g->k; k++)
        sum += element(p, g, GP_A, i, k) * element(p, g, GP_B, k, j);
    if (!p->tree)
        return p->beta != 0 ? fma(p->alpha, sum, p->beta * element(p, g, c, i, j)) : p->alpha * sum;
    sum = sum * load(&p->rows, index * p->rows.stride + g->row + i) +
          load(&p->columns, index * p->columns.stride + g->column + j);
    return fmax(sum, 0) + load(&p->scalars, index * p->scalars.stride) * element(p, g, c, i, j);
}

static void expect(gp_problem *p)
{
    const gp_place *d = &p->matrix[GP_D];
    p->wanted = h_malloc(d->block->bytes);
    memcpy(p->wanted, d->block->before, d->block->bytes);
    for (size_t index = 0; index < p->groups; index++) {
        const gp_group *g = &p->group[index];
        for (size_t i = 0; i < g->m; i++) {
            for (size_t j = 0; j < g->n; j++) {
                size_t at = d->offset + g->at[GP_D] +
                            (d->row_major ? i * g->ld[GP_D] + j : j * g->ld[GP_D] + i);
                ref_element_store(d->type, p->wanted, (int64_t)at, value_of(p, index, i, j));
                memset(d->block->writable + bytes_of(d->type, at), true, bytes_of(d->type, 1));
            }
        }
    }
}

/* --- sending --- */

static trp_matmul_matrix matrix_of(const gp_place *x)
{
    return (trp_matmul_matrix){.buffer = x->block->buffer,
                               .offset = bytes_of(x->type, x->offset),
                               .type = x->type,
                               .order = x->row_major ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
                               .ld = (int64_t)x->ld,
                               .stride = (int64_t)x->stride};
}

static trp_cutlass_group row_of(const gp_problem *p, const gp_group *g)
{
    int64_t ld[GP_MATRICES];
    for (int i = 0; i < GP_MATRICES; i++) {
        size_t length, count;
        lines_of(&p->matrix[i], i, g->m, g->n, g->k, &length, &count);
        size_t standard = p->matrix[i].ld ? p->matrix[i].ld : length;
        ld[i] = g->ld[i] == standard && below(2) ? 0 : (int64_t)g->ld[i];
    }
    return (trp_cutlass_group){.m = (int64_t)g->m,
                               .n = (int64_t)g->n,
                               .k = (int64_t)g->k,
                               .a = (int64_t)g->at[GP_A],
                               .b = (int64_t)g->at[GP_B],
                               .c = p->in_place ? -1 : (int64_t)g->at[GP_C], /* ignored */
                               .d = (int64_t)g->at[GP_D],
                               .lda = ld[GP_A],
                               .ldb = ld[GP_B],
                               .ldc = p->in_place ? -1 : ld[GP_C],
                               .ldd = ld[GP_D]};
}

static void set_nodes(const gp_problem *p, trp_epilogue_node *x)
{
    x[GP_SUMS].kind = TRP_EPILOGUE_ACCUMULATOR;
    x[GP_SCALED] = (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALE_ROWS,
                                       .input = {GP_SUMS},
                                       .type = p->rows.type,
                                       .buffer = p->rows.block->buffer,
                                       .offset = bytes_of(p->rows.type, p->rows.offset),
                                       .stride = (int64_t)p->rows.stride};
    x[GP_COLUMN] = (trp_epilogue_node){.kind = TRP_EPILOGUE_PER_COLUMN,
                                       .buffer = p->columns.block->buffer,
                                       .offset = bytes_of(p->columns.type, p->columns.offset),
                                       .stride = (int64_t)p->columns.stride};
    x[GP_BIASED] =
        (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY, .input = {GP_SCALED, GP_COLUMN}};
    x[GP_RELU] = (trp_epilogue_node){
        .kind = TRP_EPILOGUE_ACTIVATION, .activation = TRP_ACTIVATION_RELU, .input = {GP_BIASED}};
    x[GP_SCALAR] = (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALAR,
                                       .buffer = p->scalars.block->buffer,
                                       .offset = bytes_of(p->scalars.type, p->scalars.offset),
                                       .stride = (int64_t)p->scalars.stride};
    x[GP_OLD].kind = TRP_EPILOGUE_C;
    x[GP_ROOT] =
        (trp_epilogue_node){.kind = TRP_EPILOGUE_FMA, .input = {GP_SCALAR, GP_OLD, GP_RELU}};
}

/* Writes the table into a block of its own after an offset, or the rows by value. */
static void make_table(gp_problem *p)
{
    const bool rows = p->grouping <= TRP_CUTLASS_GROUPS_BY_TABLE;
    const size_t one = rows ? sizeof(trp_cutlass_group) : sizeof(int32_t);
    int32_t end = 0;
    p->table_offset = gap(p, 5) * (rows ? 8 : 4);
    for (size_t i = 0; i < p->groups; i++)
        p->row[i] = row_of(p, &p->group[i]);
    if (p->grouping == TRP_CUTLASS_GROUPS_BY_VALUE)
        return;
    const size_t bytes = p->table_offset + p->groups * one;
    p->blocks[GP_TABLE] = block_make(bytes, h_random_block(h_rng(), bytes));
    for (size_t i = 0; i < p->groups; i++) {
        const gp_group *g = &p->group[i];
        end += (int32_t)(p->grouping == TRP_CUTLASS_GROUPS_OF_M   ? g->m
                         : p->grouping == TRP_CUTLASS_GROUPS_OF_N ? g->n
                                                                  : g->k);
        memcpy(p->blocks[GP_TABLE].before + p->table_offset + i * one,
               rows ? (const void *)&p->row[i] : (const void *)&end, one);
    }
}

void gp_draw(gp_problem *p, trp_dtype type, size_t most)
{
    draw_operands(p, type, most);
    expect(p);
    make_table(p);
}

void gp_draw_large(gp_problem *p, unsigned way)
{
    draw_large(p, way);
    expect(p);
    make_table(p);
}

void gp_request(gp_problem *p, trp_cutlass_grouped_gemm_request *out)
{
    *out = (trp_cutlass_grouped_gemm_request){.groups = (int64_t)p->groups,
                                              .grouping = p->grouping,
                                              .a = matrix_of(&p->matrix[GP_A]),
                                              .b = matrix_of(&p->matrix[GP_B]),
                                              .c = matrix_of(&p->matrix[p->in_place ? GP_D : GP_C]),
                                              .d = matrix_of(&p->matrix[GP_D])};
    if (p->tree) {
        set_nodes(p, p->nodes);
        out->epilogue = p->nodes;
        out->epilogue_count = GP_NODES;
    } else {
        out->alpha = trp_real(p->alpha);
        out->beta = trp_real(p->beta);
    }
    if (p->grouping == TRP_CUTLASS_GROUPS_BY_VALUE) {
        out->group = p->row;
        return;
    }
    out->m = (int64_t)p->m;
    out->n = (int64_t)p->n;
    out->k = (int64_t)p->k;
    out->table = p->blocks[GP_TABLE].buffer;
    out->table_offset = p->table_offset;
}
