/* Grouped products of the cutlass actor: groups told in every way, of every type and layout, with
 * small integers as input, so that what must come out is known to the bit.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/elements.h"
#include "support/harness.h"

#include <complex.h>
#include <math.h>

TROUPE_TEST("computes", "one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "cutlass");

enum { A, B, C, D, MATRICES };
enum { GROUPS_MOST = 9 };

static h_world world;
static trp_actor *cutlass;

static void open_world(void)
{
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
}

static size_t below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

static size_t bytes_of(trp_dtype type, size_t elements)
{
    return elements * (trp_dtype_bits(type) / 8);
}

static trp_buffer upload(const void *data, size_t bytes)
{
    trp_buffer b = h_buffer(world.device, bytes);
    h_write(world.device, b, 0, data, bytes);
    return b;
}

/* --- problems --- */

/* A matrix of all groups as it lies in memory; or a vector. */
typedef struct place {
    trp_dtype type;
    bool row_major;
    size_t offset, span; /* elements */
    size_t ld, stride;   /* of the request */
    unsigned char *data;
    trp_buffer buffer;
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
static void fill(place *x)
{
    x->data = h_malloc(bytes_of(x->type, x->span + 1));
    h_random_bytes(h_rng(), x->data, bytes_of(x->type, x->span + 1));
    for (size_t i = 0; i < x->span; i++)
        ref_element_store(x->type, x->data, (int64_t)i, (double)below(9) - 4);
    x->buffer = upload(x->data, bytes_of(x->type, x->span + 1));
}

static double load(const place *x, size_t index)
{
    return creal(ref_element_load(x->type, x->data, (int64_t)(x->offset + index)));
}

static double element(const problem *p, const group *g, int which, size_t i, size_t j)
{
    const place *x = &p->matrix[which];
    return load(x, g->at[which] + (x->row_major ? i * g->ld[which] + j : j * g->ld[which] + i));
}

static place vector_of(const problem *p, trp_dtype type, size_t length, bool whole)
{
    place x = {.type = type, .offset = below(3)};
    x.stride = whole || below(3) == 0 ? 0 : length + below(3);
    x.span = x.offset + length + (p->groups - 1) * x.stride;
    fill(&x);
    return x;
}

static void draw_types(problem *p)
{
    static const trp_dtype inputs[] = {TRP_F64,  TRP_F32,  TRP_F16,    TRP_F16,
                                       TRP_BF16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2};
    static const trp_dtype narrow[] = {TRP_F32, TRP_F16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2, TRP_I8};
    trp_dtype a = inputs[below(8)];
    bool fp8 = a == TRP_F8E4M3 || a == TRP_F8E5M2, wide = a == TRP_F64;
    p->matrix[A].type = a;
    p->matrix[B].type = fp8 ? (below(2) ? TRP_F8E4M3 : TRP_F8E5M2) : a;
    p->matrix[D].type = wide ? (below(2) ? TRP_F64 : TRP_F32) : narrow[below(6)];
    p->matrix[C].type = wide ? (below(2) ? TRP_F64 : TRP_F32) : narrow[below(6)];
    if (p->in_place)
        p->matrix[C].type = p->matrix[D].type;
}

static problem draw(trp_cutlass_grouping grouping, size_t most)
{
    static const double alphas[] = {1, 1, -2, 0, 3}, betas[] = {0, 1, -3, 2};
    problem p = {.grouping = grouping,
                 .groups = 1 + below(GROUPS_MOST),
                 .in_place = below(3) == 0,
                 .tree = below(2),
                 .alpha = alphas[below(5)],
                 .beta = betas[below(4)]};
    draw_types(&p);
    draw_sizes(&p, most);
    for (int i = 0; i < MATRICES; i++) {
        p.matrix[i].row_major = i == C ? false : below(2);
        p.matrix[i].offset = below(4);
    }
    for (int i = 0; i < MATRICES; i++) {
        int which = i == 2 ? D : i == 3 ? C : i; /* C's order is D's */
        if (which == C)
            p.matrix[C].row_major = p.matrix[D].row_major;
        if (grouping < TRP_CUTLASS_GROUPS_OF_M)
            lay_out_own(&p, which);
        else
            lay_out_cut(&p, which);
        fill(&p.matrix[which]);
    }
    for (size_t i = 0; i < p.groups && p.in_place; i++) {
        p.group[i].at[C] = p.group[i].at[D];
        p.group[i].ld[C] = p.group[i].ld[D];
    }
    trp_dtype f = p.matrix[A].type == TRP_F64 ? TRP_F64 : TRP_F32;
    if (p.tree) {
        p.rows = vector_of(&p,
                           below(2)       ? f
                           : f == TRP_F64 ? TRP_F32
                                          : TRP_BF16,
                           p.m, grouping == TRP_CUTLASS_GROUPS_OF_M);
        p.columns = vector_of(&p, f, p.n, grouping == TRP_CUTLASS_GROUPS_OF_N);
        p.scalars = vector_of(&p, f, 1, false);
    }
    return p;
}

static void drop(problem *p)
{
    place *all[] = {&p->matrix[A], &p->matrix[B], &p->matrix[C], &p->matrix[D],
                    &p->rows,      &p->columns,   &p->scalars};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i]->buffer.id)
            H_OK(trp_buffer_free(world.device, all[i]->buffer));
        free(all[i]->data);
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

static unsigned char *expected(const problem *p)
{
    const place *d = &p->matrix[D];
    size_t bytes = bytes_of(d->type, d->span + 1);
    unsigned char *want = h_malloc(bytes);
    memcpy(want, d->data, bytes);
    for (size_t index = 0; index < p->groups; index++) {
        const group *g = &p->group[index];
        for (size_t i = 0; i < g->m; i++) {
            for (size_t j = 0; j < g->n; j++) {
                size_t at =
                    d->offset + g->at[D] + (d->row_major ? i * g->ld[D] + j : j * g->ld[D] + i);
                ref_element_store(d->type, want, (int64_t)at, value_of(p, index, i, j));
            }
        }
    }
    return want;
}

/* --- sending --- */

static trp_matmul_matrix matrix_of(const place *x)
{
    return (trp_matmul_matrix){.buffer = x->buffer,
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

enum { NONE, SUMS, SCALED, COLUMN, BIASED, RELU, SCALAR, OLD, ROOT, NODES };

static void set_nodes(const problem *p, trp_epilogue_node *x)
{
    x[SUMS].kind = TRP_EPILOGUE_ACCUMULATOR;
    x[SCALED] = (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALE_ROWS,
                                    .input = {SUMS},
                                    .type = p->rows.type,
                                    .buffer = p->rows.buffer,
                                    .offset = bytes_of(p->rows.type, p->rows.offset),
                                    .stride = (int64_t)p->rows.stride};
    x[COLUMN] = (trp_epilogue_node){.kind = TRP_EPILOGUE_PER_COLUMN,
                                    .buffer = p->columns.buffer,
                                    .offset = bytes_of(p->columns.type, p->columns.offset),
                                    .stride = (int64_t)p->columns.stride};
    x[BIASED] = (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY, .input = {SCALED, COLUMN}};
    x[RELU] = (trp_epilogue_node){
        .kind = TRP_EPILOGUE_ACTIVATION, .activation = TRP_ACTIVATION_RELU, .input = {BIASED}};
    x[SCALAR] = (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALAR,
                                    .buffer = p->scalars.buffer,
                                    .offset = bytes_of(p->scalars.type, p->scalars.offset),
                                    .stride = (int64_t)p->scalars.stride};
    x[OLD].kind = TRP_EPILOGUE_C;
    x[ROOT] = (trp_epilogue_node){.kind = TRP_EPILOGUE_FMA, .input = {SCALAR, OLD, RELU}};
}

/* The table, in a buffer of its own with something before it. */
static trp_buffer table_of(const problem *p, uint64_t *offset)
{
    unsigned char bytes[64 + GROUPS_MOST * sizeof(trp_cutlass_group)];
    bool rows = p->grouping == TRP_CUTLASS_GROUPS_BY_TABLE;
    size_t one = rows ? sizeof(trp_cutlass_group) : sizeof(int32_t);
    int32_t end = 0;
    *offset = below(5) * (rows ? 8 : 4);
    for (size_t i = 0; i < p->groups; i++) {
        const group *g = &p->group[i];
        trp_cutlass_group row = row_of(p, g);
        end += (int32_t)(p->grouping == TRP_CUTLASS_GROUPS_OF_M   ? g->m
                         : p->grouping == TRP_CUTLASS_GROUPS_OF_N ? g->n
                                                                  : g->k);
        memcpy(bytes + *offset + i * one, rows ? (const void *)&row : (const void *)&end, one);
    }
    return upload(bytes, *offset + p->groups * one);
}

static trp_cutlass_grouped_gemm_request request_of(const problem *p, trp_epilogue_node *nodes,
                                                   trp_cutlass_group *rows)
{
    trp_cutlass_grouped_gemm_request r = {.groups = (int64_t)p->groups,
                                          .grouping = p->grouping,
                                          .a = matrix_of(&p->matrix[A]),
                                          .b = matrix_of(&p->matrix[B]),
                                          .c = matrix_of(&p->matrix[p->in_place ? D : C]),
                                          .d = matrix_of(&p->matrix[D])};
    if (p->tree) {
        set_nodes(p, nodes);
        r.epilogue = nodes;
        r.epilogue_count = NODES;
    } else {
        r.alpha = trp_real(p->alpha);
        if (p->beta != 0 || r.c.buffer.id || below(2))
            r.beta = trp_real(p->beta);
    }
    if (p->grouping == TRP_CUTLASS_GROUPS_BY_VALUE) {
        for (size_t i = 0; i < p->groups; i++)
            rows[i] = row_of(p, &p->group[i]);
        r.group = rows;
        return r;
    }
    r.m = (int64_t)p->m;
    r.n = (int64_t)p->n;
    r.k = (int64_t)p->k;
    r.table = table_of(p, &r.table_offset);
    return r;
}

static void check(problem *p)
{
    trp_epilogue_node nodes[NODES] = {{0}};
    trp_cutlass_group rows[GROUPS_MOST];
    trp_cutlass_grouped_gemm_request r = request_of(p, nodes, rows);
    trp_completion done = {0};
    H_OK(trp_cutlass_grouped_gemm(cutlass, &r, &done));
    H_OK(h_await_any(done));
    const place *d = &p->matrix[D];
    size_t bytes = bytes_of(d->type, d->span + 1);
    unsigned char *after = h_malloc(bytes), *want = expected(p);
    h_read(world.device, d->buffer, 0, after, bytes);
    for (size_t i = 0; i < bytes; i++) {
        if (after[i] != want[i])
            h_fail(__FILE__, __LINE__,
                   "grouping %d, %zu groups, %s x %s + %s -> %s, request %zu x %zu x %zu%s%s: byte "
                   "%zu of %zu is %#x, expected %#x",
                   (int)p->grouping, p->groups, trp_dtype_name(p->matrix[A].type),
                   trp_dtype_name(p->matrix[B].type), trp_dtype_name(p->matrix[C].type),
                   trp_dtype_name(d->type), p->m, p->n, p->k, p->tree ? ", a tree" : "",
                   p->in_place ? ", in place" : "", i, bytes, after[i], want[i]);
    }
    free(after);
    free(want);
    if (r.table.id)
        H_OK(trp_buffer_free(world.device, r.table));
    drop(p);
}

static void products(void)
{
    open_world();
    for (int i = 0; i < (H_SANITIZED ? 150 : 500); i++) {
        problem p = draw((trp_cutlass_grouping)(i % 5), i % 25 == 24 ? 60 : 12);
        check(&p);
    }
    h_close(&world);
}

/* More than a tile, in each direction by itself. */
static void large(void)
{
    open_world();
    for (int way = 0; way < 3; way++) {
        problem p = {.grouping = TRP_CUTLASS_GROUPS_OF_M, .groups = 2, .alpha = 1};
        size_t m = way == 0 ? 517 : 3, n = way == 1 ? 1030 : 2, k = way == 2 ? 1025 : 4;
        p.matrix[A].type = p.matrix[B].type = TRP_BF16;
        p.matrix[C].type = p.matrix[D].type = TRP_F32;
        p.group[0] = (group){.m = 3, .n = n, .k = k};
        p.group[1] = (group){.m = m, .n = n, .k = k, .row = 3};
        p.m = m + 3;
        p.n = n;
        p.k = k;
        for (int i = 0; i < MATRICES; i++) {
            p.matrix[i].row_major = i != B;
            lay_out_cut(&p, i);
            fill(&p.matrix[i]);
        }
        check(&p);
    }
    h_close(&world);
}

/* As many groups as there may be: dot products, each with a factor of its own, some of nothing. */
static void check_many(size_t groups, trp_cutlass_grouping grouping)
{
    enum { K = 2 };
    trp_cutlass_group *row = calloc(groups, sizeof *row);
    float *a = h_malloc((groups + K) * sizeof *a), *factor = h_malloc(groups * sizeof *factor);
    float *d = h_malloc(groups * sizeof *d);
    H_CHECK(row);
    for (size_t i = 0; i < groups + K; i++)
        a[i] = (float)below(9) - 4;
    for (size_t i = 0; i < groups; i++) {
        factor[i] = (float)below(9) - 4;
        row[i] = (trp_cutlass_group){.m = 1,
                                     .n = 1,
                                     .k = (int64_t)below(K + 1),
                                     .a = (int64_t)i,
                                     .b = (int64_t)(groups - i) - 1,
                                     .d = (int64_t)(i ^ 1)};
    }
    trp_buffer in = upload(a, (groups + K) * sizeof *a);
    trp_epilogue_node nodes[4] = {
        [1] = {.kind = TRP_EPILOGUE_ACCUMULATOR},
        [2] = {.kind = TRP_EPILOGUE_SCALAR,
               .buffer = upload(factor, groups * sizeof *factor),
               .stride = 1},
        [3] = {.kind = TRP_EPILOGUE_BINARY, .binary = TRP_BINARY_MUL, .input = {1, 2}}};
    trp_cutlass_grouped_gemm_request r = {
        .groups = (int64_t)groups,
        .grouping = grouping,
        .a = {.buffer = in, .type = TRP_F32},
        .b = {.buffer = in},
        .d = {.buffer = h_buffer(world.device, groups * sizeof *d)},
        .epilogue = nodes,
        .epilogue_count = 4};
    if (grouping == TRP_CUTLASS_GROUPS_BY_VALUE) {
        r.group = row;
    } else {
        r.m = r.n = 1;
        r.k = K;
        r.table = upload(row, groups * sizeof *row);
    }
    trp_completion done = {0};
    H_OK(trp_cutlass_grouped_gemm(cutlass, &r, &done));
    H_OK(h_await_any(done));
    h_read(world.device, r.d.buffer, 0, d, groups * sizeof *d);
    for (size_t i = 0; i < groups; i++) {
        float want = 0;
        for (int64_t k = 0; k < row[i].k; k++)
            want += a[row[i].a + k] * a[row[i].b + k];
        H_CHECK(d[i ^ 1] == want * factor[i]);
    }
    free(row);
    free(a);
    free(factor);
    free(d);
}

static void many(void)
{
    open_world();
    check_many(TRP_CUTLASS_GROUPS_BY_VALUE_MAX, TRP_CUTLASS_GROUPS_BY_VALUE);
    check_many(TRP_CUTLASS_GROUPS_MAX, TRP_CUTLASS_GROUPS_BY_TABLE);
    h_close(&world);
}

static const h_case cases[] = {{"products", products}, {"large", large}, {"many", many}};

int main(int argc, char **argv)
{
    if (h_is_gpu())
        return H_EXIT_SKIPPED; /* hundreds of kernels: gpu/cutlass_grouped has a few */
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
