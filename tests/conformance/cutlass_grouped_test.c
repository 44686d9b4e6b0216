/* Grouped products of the cutlass actor in the conformance suite: groups told in every way, of
 * every type and layout, with small integers as input, so that what must come out is known to the
 * bit. */
#include "conformance/conformance.h"
#include "support/reference/elements.h"

#include <complex.h>
#include <math.h>

TROUPE_TEST("computes", "one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "cutlass");

enum { A, B, C, D, MATRICES, ROWS = MATRICES, COLUMNS, SCALARS, TABLE, BLOCKS };
enum { NONE, SUMS, SCALED, COLUMN, BIASED, RELU, SCALAR, OLD, ROOT, NODES };
enum { GROUPS_MOST = 9 };

static size_t below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

static size_t bytes_of(trp_dtype type, size_t elements)
{
    return elements * (trp_dtype_bits(type) / 8);
}

/* --- problems --- */

/* A matrix of all groups as it lies in memory; or a vector. */
typedef struct place {
    trp_dtype type;
    bool row_major;
    size_t offset, span; /* elements */
    size_t ld, stride;   /* of the request */
    block *block;
} place;

typedef struct group {
    size_t m, n, k;
    size_t at[MATRICES], ld[MATRICES]; /* elements; `at` from the matrix's offset */
    size_t row, column;
} group;

typedef struct problem {
    trp_cutlass_grouping grouping;
    size_t groups, m, n, k; /* m, n, k: of the request */
    group group[GROUPS_MOST];
    place matrix[MATRICES];
    bool in_place, tree;
    double alpha, beta;
    place rows, columns, scalars; /* what the tree reads */
    block blocks[BLOCKS];
    unsigned char *wanted; /* D, gaps and all */
    trp_cutlass_group row[GROUPS_MOST];
    uint64_t table_offset;
    trp_epilogue_node nodes[NODES];
} problem;

static bool is_cut(const problem *p, int which)
{
    switch (p->grouping) {
    case TRP_CUTLASS_GROUPS_OF_M:
        return which != B;
    case TRP_CUTLASS_GROUPS_OF_N:
        return which != A;
    case TRP_CUTLASS_GROUPS_OF_K:
        return which == A || which == B;
    default:
        return false;
    }
}

static size_t size(size_t most)
{
    return below(5) == 0 ? 0 : below(4) == 0 ? 1 : 1 + below(most);
}

/* Sizes of all groups, and of the request. */
static void draw_sizes(problem *p, size_t most)
{
    bool own = p->grouping < TRP_CUTLASS_GROUPS_OF_M;
    size_t m = 1 + below(most), n = 1 + below(most), k = size(most), at = 0;
    for (size_t i = 0; i < p->groups; i++) {
        group *g = &p->group[i];
        size_t piece = size(most);
        *g = (group){.m = m, .n = n, .k = k};
        if (own)
            *g = (group){.m = size(most), .n = size(most), .k = size(most)};
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
    at += below(4); /* what lies behind the last end */
    p->m = p->grouping == TRP_CUTLASS_GROUPS_OF_M ? at : m;
    p->n = p->grouping == TRP_CUTLASS_GROUPS_OF_N ? at : n;
    p->k = p->grouping == TRP_CUTLASS_GROUPS_OF_K ? at : k;
}

static void lines_of(const place *x, int which, size_t m, size_t n, size_t k, size_t *length,
                     size_t *count)
{
    size_t rows = which == B ? k : m, columns = which == A ? k : n;
    *length = x->row_major ? columns : rows;
    *count = x->row_major ? rows : columns;
}

/* Where a matrix of each group lies, when one dimension is cut. */
static void lay_out_cut(problem *p, int which)
{
    place *x = &p->matrix[which];
    size_t length, count, begin = 0;
    lines_of(x, which, p->m, p->n, p->k, &length, &count);
    bool least = below(3) == 0;
    x->ld = least ? (length ? length : 1) : length + 1 + below(5);
    x->stride = is_cut(p, which) ? 0 : (which != D && below(4) == 0) ? 0 : count * x->ld + below(5);
    for (size_t i = 0; i < p->groups; i++) {
        group *g = &p->group[i];
        bool of_rows = p->grouping == TRP_CUTLASS_GROUPS_OF_M ||
                       (p->grouping == TRP_CUTLASS_GROUPS_OF_K && which == B);
        g->ld[which] = x->ld;
        g->at[which] =
            is_cut(p, which) ? begin * (of_rows == x->row_major ? x->ld : 1) : i * x->stride;
        begin += p->grouping == TRP_CUTLASS_GROUPS_OF_M   ? g->m
                 : p->grouping == TRP_CUTLASS_GROUPS_OF_N ? g->n
                                                          : g->k;
    }
    x->span = x->offset + (is_cut(p, which) ? 1 : p->groups) * (count * x->ld + 5);
    if (least)
        x->ld = 0;
}

/* The same, when each group has a place: one after the other, in any order. */
static void lay_out_own(problem *p, int which)
{
    place *x = &p->matrix[which];
    size_t at = 0, length, count, start = below(p->groups);
    x->ld = below(2) ? 0 : 60 + below(5);
    for (size_t i = 0; i < p->groups; i++) {
        group *g = &p->group[(start + i) % p->groups];
        lines_of(x, which, g->m, g->n, g->k, &length, &count);
        at += below(3) ? 0 : below(6);
        g->at[which] = at;
        g->ld[which] = length + below(5);
        if (below(4) == 0)
            g->ld[which] = x->ld ? x->ld : length; /* by default */
        at += count * g->ld[which];
    }
    x->span = x->offset + at + 3;
}

/* Small integers, which all types have. */
static block make_block(size_t bytes)
{
    block b = {.bytes = bytes, .before = h_random_block(h_rng(), bytes), .after = h_malloc(bytes)};
    b.writable = h_malloc(bytes);
    memset(b.writable, false, bytes);
    return b;
}

static void fill(place *x, block *b)
{
    x->block = b;
    *b = make_block(bytes_of(x->type, x->span + 1));
    for (size_t i = 0; i < x->span; i++)
        ref_element_store(x->type, b->before, (int64_t)i, (double)below(9) - 4);
}

static double load(const place *x, size_t index)
{
    return creal(ref_element_load(x->type, x->block->before, (int64_t)(x->offset + index)));
}

static double element(const problem *p, const group *g, int which, size_t i, size_t j)
{
    const place *x = &p->matrix[which];
    return load(x, g->at[which] + (x->row_major ? i * g->ld[which] + j : j * g->ld[which] + i));
}

static place vector_of(problem *p, int which, trp_dtype type, size_t length, bool whole)
{
    place x = {.type = type, .offset = below(3)};
    x.stride = whole || below(3) == 0 ? 0 : length + below(3);
    x.span = x.offset + length + (p->groups - 1) * x.stride;
    fill(&x, &p->blocks[which]);
    return x;
}

static void draw_types(problem *p, trp_dtype a)
{
    static const trp_dtype narrow[] = {TRP_F32, TRP_F16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2, TRP_I8};
    bool fp8 = a == TRP_F8E4M3 || a == TRP_F8E5M2, wide = a == TRP_F64;
    p->matrix[A].type = a;
    p->matrix[B].type = fp8 ? (below(2) ? TRP_F8E4M3 : TRP_F8E5M2) : a;
    p->matrix[D].type = wide ? (below(2) ? TRP_F64 : TRP_F32) : narrow[below(6)];
    p->matrix[C].type = wide ? (below(2) ? TRP_F64 : TRP_F32) : narrow[below(6)];
    if (p->in_place)
        p->matrix[C].type = p->matrix[D].type;
}

static void draw_tree(problem *p)
{
    const trp_dtype f = p->matrix[A].type == TRP_F64 ? TRP_F64 : TRP_F32;
    const trp_dtype other = f == TRP_F64 ? TRP_F32 : TRP_BF16;
    p->rows =
        vector_of(p, ROWS, below(2) ? f : other, p->m, p->grouping == TRP_CUTLASS_GROUPS_OF_M);
    p->columns = vector_of(p, COLUMNS, f, p->n, p->grouping == TRP_CUTLASS_GROUPS_OF_N);
    p->scalars = vector_of(p, SCALARS, f, 1, false);
}

static void draw_problem(problem *p, trp_dtype type, size_t most)
{
    static const double alphas[] = {1, 1, -2, 0, 3}, betas[] = {0, 1, -3, 2};
    p->groups = 1 + below(GROUPS_MOST);
    p->in_place = below(3) == 0;
    p->tree = below(2);
    p->alpha = alphas[below(5)];
    p->beta = betas[below(4)];
    draw_types(p, type);
    draw_sizes(p, most);
    for (int i = 0; i < MATRICES; i++) {
        const int which = i == 2 ? D : i == 3 ? C : i; /* C's order is D's */
        place *x = &p->matrix[which];
        x->row_major = which == C ? p->matrix[D].row_major : below(2);
        x->offset = below(4);
        if (p->grouping < TRP_CUTLASS_GROUPS_OF_M)
            lay_out_own(p, which);
        else
            lay_out_cut(p, which);
        if (which != C || !p->in_place)
            fill(x, &p->blocks[which]);
    }
    for (size_t i = 0; i < p->groups && p->in_place; i++) {
        p->group[i].at[C] = p->group[i].at[D];
        p->group[i].ld[C] = p->group[i].ld[D];
    }
    if (p->tree)
        draw_tree(p);
}

/* More than a tile, in each direction by itself. */
static void draw_large(problem *p, unsigned way)
{
    const size_t m = way == 0 ? 517 : 3, n = way == 1 ? 1030 : 2, k = way == 2 ? 1025 : 4;
    p->groups = 2;
    p->alpha = 1;
    p->matrix[A].type = p->matrix[B].type = TRP_BF16;
    p->matrix[C].type = p->matrix[D].type = TRP_F32;
    p->group[0] = (group){.m = 3, .n = n, .k = k};
    p->group[1] = (group){.m = m, .n = n, .k = k, .row = 3};
    p->m = m + 3;
    p->n = n;
    p->k = k;
    for (int i = 0; i < MATRICES; i++) {
        p->matrix[i].row_major = i != B;
        lay_out_cut(p, i);
        fill(&p->matrix[i], &p->blocks[i]);
    }
}

/* --- what must come of them --- */

static double value_of(const problem *p, size_t index, size_t i, size_t j)
{
    const group *g = &p->group[index];
    int c = p->in_place ? D : C;
    double sum = 0;
    for (size_t k = 0; k < g->k; k++)
        sum += element(p, g, A, i, k) * element(p, g, B, k, j);
    if (!p->tree)
        return p->beta != 0 ? fma(p->alpha, sum, p->beta * element(p, g, c, i, j)) : p->alpha * sum;
    sum = sum * load(&p->rows, index * p->rows.stride + g->row + i) +
          load(&p->columns, index * p->columns.stride + g->column + j);
    return fmax(sum, 0) + load(&p->scalars, index * p->scalars.stride) * element(p, g, c, i, j);
}

static void expect(problem *p)
{
    const place *d = &p->matrix[D];
    p->wanted = h_malloc(d->block->bytes);
    memcpy(p->wanted, d->block->before, d->block->bytes);
    for (size_t index = 0; index < p->groups; index++) {
        const group *g = &p->group[index];
        for (size_t i = 0; i < g->m; i++) {
            for (size_t j = 0; j < g->n; j++) {
                size_t at =
                    d->offset + g->at[D] + (d->row_major ? i * g->ld[D] + j : j * g->ld[D] + i);
                ref_element_store(d->type, p->wanted, (int64_t)at, value_of(p, index, i, j));
                memset(d->block->writable + bytes_of(d->type, at), true, bytes_of(d->type, 1));
            }
        }
    }
}

/* --- sending --- */

static trp_matmul_matrix matrix_of(const place *x)
{
    return (trp_matmul_matrix){.buffer = x->block->buffer,
                               .offset = bytes_of(x->type, x->offset),
                               .type = x->type,
                               .order = x->row_major ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
                               .ld = (int64_t)x->ld,
                               .stride = (int64_t)x->stride};
}

static trp_cutlass_group row_of(const problem *p, const group *g)
{
    int64_t ld[MATRICES];
    for (int i = 0; i < MATRICES; i++) {
        size_t length, count;
        lines_of(&p->matrix[i], i, g->m, g->n, g->k, &length, &count);
        size_t standard = p->matrix[i].ld ? p->matrix[i].ld : length;
        ld[i] = g->ld[i] == standard && below(2) ? 0 : (int64_t)g->ld[i];
    }
    return (trp_cutlass_group){.m = (int64_t)g->m,
                               .n = (int64_t)g->n,
                               .k = (int64_t)g->k,
                               .a = (int64_t)g->at[A],
                               .b = (int64_t)g->at[B],
                               .c = p->in_place ? -1 : (int64_t)g->at[C], /* counts for nothing */
                               .d = (int64_t)g->at[D],
                               .lda = ld[A],
                               .ldb = ld[B],
                               .ldc = p->in_place ? -1 : ld[C],
                               .ldd = ld[D]};
}

static void set_nodes(const problem *p, trp_epilogue_node *x)
{
    x[SUMS].kind = TRP_EPILOGUE_ACCUMULATOR;
    x[SCALED] = (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALE_ROWS,
                                    .input = {SUMS},
                                    .type = p->rows.type,
                                    .buffer = p->rows.block->buffer,
                                    .offset = bytes_of(p->rows.type, p->rows.offset),
                                    .stride = (int64_t)p->rows.stride};
    x[COLUMN] = (trp_epilogue_node){.kind = TRP_EPILOGUE_PER_COLUMN,
                                    .buffer = p->columns.block->buffer,
                                    .offset = bytes_of(p->columns.type, p->columns.offset),
                                    .stride = (int64_t)p->columns.stride};
    x[BIASED] = (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY, .input = {SCALED, COLUMN}};
    x[RELU] = (trp_epilogue_node){
        .kind = TRP_EPILOGUE_ACTIVATION, .activation = TRP_ACTIVATION_RELU, .input = {BIASED}};
    x[SCALAR] = (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALAR,
                                    .buffer = p->scalars.block->buffer,
                                    .offset = bytes_of(p->scalars.type, p->scalars.offset),
                                    .stride = (int64_t)p->scalars.stride};
    x[OLD].kind = TRP_EPILOGUE_C;
    x[ROOT] = (trp_epilogue_node){.kind = TRP_EPILOGUE_FMA, .input = {SCALAR, OLD, RELU}};
}

/* The table, in a block of its own with something before it; or the rows by value. */
static void make_table(problem *p)
{
    const bool rows = p->grouping <= TRP_CUTLASS_GROUPS_BY_TABLE;
    const size_t one = rows ? sizeof(trp_cutlass_group) : sizeof(int32_t);
    int32_t end = 0;
    p->table_offset = below(5) * (rows ? 8 : 4);
    for (size_t i = 0; i < p->groups; i++)
        p->row[i] = row_of(p, &p->group[i]);
    if (p->grouping == TRP_CUTLASS_GROUPS_BY_VALUE)
        return;
    p->blocks[TABLE] = make_block(p->table_offset + p->groups * one);
    for (size_t i = 0; i < p->groups; i++) {
        const group *g = &p->group[i];
        end += (int32_t)(p->grouping == TRP_CUTLASS_GROUPS_OF_M   ? g->m
                         : p->grouping == TRP_CUTLASS_GROUPS_OF_N ? g->n
                                                                  : g->k);
        memcpy(p->blocks[TABLE].before + p->table_offset + i * one,
               rows ? (const void *)&p->row[i] : (const void *)&end, one);
    }
}

static void make_request(const cf_problem *problem_, void *out)
{
    problem *p = problem_->own;
    trp_cutlass_grouped_gemm_request *r = out;
    *r = (trp_cutlass_grouped_gemm_request){.groups = (int64_t)p->groups,
                                            .grouping = p->grouping,
                                            .a = matrix_of(&p->matrix[A]),
                                            .b = matrix_of(&p->matrix[B]),
                                            .c = matrix_of(&p->matrix[p->in_place ? D : C]),
                                            .d = matrix_of(&p->matrix[D])};
    if (p->tree) {
        set_nodes(p, p->nodes);
        r->epilogue = p->nodes;
        r->epilogue_count = NODES;
    } else {
        r->alpha = trp_real(p->alpha);
        r->beta = trp_real(p->beta);
    }
    if (p->grouping == TRP_CUTLASS_GROUPS_BY_VALUE) {
        r->group = p->row;
        return;
    }
    r->m = (int64_t)p->m;
    r->n = (int64_t)p->n;
    r->k = (int64_t)p->k;
    r->table = p->blocks[TABLE].buffer;
    r->table_offset = p->table_offset;
}

static trp_status send(trp_actor *cutlass, const cf_problem *problem_, trp_completion *done)
{
    trp_cutlass_grouped_gemm_request r;
    make_request(problem_, &r);
    return trp_cutlass_grouped_gemm(cutlass, &r, done);
}

/* --- the family --- */

static const cf_variant variants[] = {
    {.name = "f64", .type = TRP_F64},       {.name = "f32", .type = TRP_F32},
    {.name = "f16", .type = TRP_F16},       {.name = "bf16", .type = TRP_BF16},
    {.name = "f8e4m3", .type = TRP_F8E4M3}, {.name = "f8e5m2", .type = TRP_F8E5M2},
};
enum { WAYS = 25 };

static void drop(cf_problem *problem_)
{
    problem *p = problem_->own;
    free(p->wanted);
    free(p);
}

static bool draw(cf_problem *problem_, unsigned way, cf_kind kind)
{
    const trp_dtype type = variants[problem_->variant].type;
    problem *p = h_malloc(sizeof *p);
    *p = (problem){.grouping = *(const trp_cutlass_grouping *)problem_->operation->row};
    if (p->grouping == TRP_CUTLASS_GROUPS_OF_M && type == TRP_BF16 && way < 3)
        draw_large(p, way);
    else
        draw_problem(p, type, way == WAYS - 1 ? 60 : 12);
    expect(p);
    make_table(p);
    problem_->own = p;
    problem_->blocks = p->blocks;
    problem_->block_count = BLOCKS;
    problem_->may_fault = p->in_place && (p->tree || p->beta != 0);
    /* A D of which nothing is written is lost all the same. */
    if (problem_->may_fault && !memchr(p->blocks[D].writable, true, p->blocks[D].bytes)) {
        for (int i = 0; i < BLOCKS; i++) {
            free(p->blocks[i].before);
            free(p->blocks[i].after);
            free(p->blocks[i].writable);
        }
        drop(problem_);
        return false;
    }
    problem_->may_refuse = kind == CF_TIGHT ? "" : NULL;
    return true;
}

static bool check(cf_problem *problem_, cf_tally *tally)
{
    const problem *p = problem_->own;
    const block *d = &p->blocks[D];
    (void)tally;
    for (size_t i = 0; i < d->bytes; i++) {
        if ((unsigned char)d->after[i] == p->wanted[i])
            continue;
        fprintf(stderr,
                "%zu groups, %s x %s + %s -> %s, request %zu x %zu x %zu%s%s: byte %zu of %zu is "
                "%#x, expected %#x\n",
                p->groups, trp_dtype_name(p->matrix[A].type), trp_dtype_name(p->matrix[B].type),
                trp_dtype_name(p->matrix[C].type), trp_dtype_name(p->matrix[D].type), p->m, p->n,
                p->k, p->tree ? ", a tree" : "", p->in_place ? ", in place" : "", i, d->bytes,
                (unsigned char)d->after[i], p->wanted[i]);
        return false;
    }
    return true;
}

static const cf_family family = {
    .request_bytes = sizeof(trp_cutlass_grouped_gemm_request),
    .draw = draw,
    .request = make_request,
    .send = send,
    .check = check,
    .drop = drop,
};

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        trp_cutlass_grouping grouping;
    } rows[] = {{"groups_by_value", TRP_CUTLASS_GROUPS_BY_VALUE},
                {"groups_by_table", TRP_CUTLASS_GROUPS_BY_TABLE},
                {"groups_of_m", TRP_CUTLASS_GROUPS_OF_M},
                {"groups_of_n", TRP_CUTLASS_GROUPS_OF_N},
                {"groups_of_k", TRP_CUTLASS_GROUPS_OF_K}};
    enum { COUNT = sizeof rows / sizeof *rows };
    static cf_operation operations[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        operations[i] = (cf_operation){.name = rows[i].name,
                                       .op = TRP_OP_CUTLASS_GROUPED_GEMM,
                                       .family = &family,
                                       .row = &rows[i].grouping,
                                       .variants = variants,
                                       .variant_count = sizeof variants / sizeof *variants,
                                       .ways = WAYS};
    const cf_actor cutlass = {.kind = "cutlass",
                              .title = "cutlass: groups",
                              .operations = operations,
                              .count = COUNT,
                              .rounds = WAYS,
                              .keeps = true};
    if (h_is_gpu())
        return H_EXIT_SKIPPED; /* hundreds of kernels: gpu/cutlass_grouped has a few */
    return cf_main(argc, argv, &cutlass);
}
