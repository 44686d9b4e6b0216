/* Grouped products of the cutlass actor by cuBLASLt, as long as no kernel is there, on the fakes of
 * both. SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/elements.h"
#include "support/kernels.h"
#include "support/label.h"

#include <complex.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>

TROUPE_TEST_FAKE_GPU("cutlass");

enum { A, B, C, D, MATRICES };
enum { GROUPS = 24 };

typedef struct place {
    trp_dtype type;
    trp_order order;
    size_t offset, span; /* elements */
    unsigned char *data;
    trp_buffer buffer;
} place;

typedef struct problem {
    size_t groups, most; /* of sizes */
    trp_cutlass_group group[GROUPS];
    place matrix[MATRICES];
    bool in_place;
    double alpha, beta;
    trp_cutlass_chosen chosen;
    trp_completion done;
} problem;

static size_t below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

static size_t bytes_of(const place *x)
{
    return (x->span + 1) * (trp_dtype_bits(x->type) / 8);
}

/* Lines of a matrix of a group: how long, and how many. */
static void lines_of(const place *x, int which, const trp_cutlass_group *g, int64_t *length,
                     int64_t *count)
{
    const int64_t rows = which == B ? g->k : g->m, columns = which == A ? g->k : g->n;
    *length = x->order == TRP_ROW_MAJOR ? columns : rows;
    *count = x->order == TRP_ROW_MAJOR ? rows : columns;
}

/* One group behind the other, with gaps. */
static void lay_out(problem *p, int which)
{
    place *x = &p->matrix[which];
    x->offset = below(3);
    x->span = x->offset;
    for (size_t i = 0; i < p->groups; i++) {
        trp_cutlass_group *g = &p->group[i];
        int64_t *at[] = {&g->a, &g->b, &g->c, &g->d}, *ld[] = {&g->lda, &g->ldb, &g->ldc, &g->ldd};
        int64_t length, count;
        lines_of(x, which, g, &length, &count);
        x->span += below(4);
        *at[which] = (int64_t)(x->span - x->offset);
        *ld[which] = below(2) ? 0 : length + (int64_t)below(4);
        x->span += (size_t)((*ld[which] ? *ld[which] : length) * count);
    }
}

static problem draw(void)
{
    static const trp_dtype from[] = {TRP_F64, TRP_F32, TRP_F16, TRP_BF16};
    problem p = {.groups = 1 + below(GROUPS),
                 .most = 1 + below(20),
                 .in_place = below(2),
                 .alpha = below(2) ? 1 : -2,
                 .beta = (double)below(4) - 1};
    const trp_dtype a = from[below(4)];
    p.matrix[A].type = p.matrix[B].type = a;
    p.matrix[C].type = p.matrix[D].type = trp_dtype_bits(a) == 16 && below(2) ? TRP_F32 : a;
    for (size_t i = 0; i < p.groups; i++)
        p.group[i] = (trp_cutlass_group){.m = (int64_t)below(8) ? 1 + (int64_t)below(p.most) : 0,
                                         .n = 1 + (int64_t)below(p.most),
                                         .k = 1 + (int64_t)below(p.most)};
    p.group[0].m = 1 + (int64_t)below(p.most);
    for (int i = 0; i < MATRICES; i++)
        p.matrix[i].order = below(2) ? TRP_ROW_MAJOR : TRP_COL_MAJOR;
    p.matrix[C].order = p.matrix[D].order;
    return p;
}

static void make(const h_kernels *k, problem *p)
{
    for (int i = 0; i < MATRICES; i++) {
        place *x = &p->matrix[i];
        lay_out(p, i);
        x->data = h_malloc(bytes_of(x));
        h_random_bytes(h_rng(), x->data, bytes_of(x));
        for (size_t j = 0; j < x->span; j++)
            ref_element_store(x->type, x->data, (int64_t)j, (double)below(7) - 3);
        x->buffer = h_buffer(k->world.device, bytes_of(x));
        h_write(k->world.device, x->buffer, 0, x->data, bytes_of(x));
    }
}

static trp_matmul_matrix matrix_of(const place *x)
{
    return (trp_matmul_matrix){.buffer = x->buffer,
                               .offset = x->offset * (trp_dtype_bits(x->type) / 8),
                               .type = x->type,
                               .order = x->order};
}

static trp_cutlass_grouped_gemm_request request_of(problem *p)
{
    trp_cutlass_grouped_gemm_request r = {
        .groups = (int64_t)p->groups,
        .a = matrix_of(&p->matrix[A]),
        .b = matrix_of(&p->matrix[B]),
        .c = matrix_of(&p->matrix[p->in_place ? D : C]),
        .d = matrix_of(&p->matrix[D]),
        .alpha = trp_real(p->alpha),
        .group = p->group,
        .first = TRP_CUTLASS_FIRST_FALLBACK,
        .chosen = &p->chosen,
    };
    if (p->beta != 0 || r.c.buffer.id)
        r.beta = trp_real(p->beta);
    return r;
}

static void send(const h_kernels *k, problem *p)
{
    const trp_cutlass_grouped_gemm_request r = request_of(p);
    H_OK(trp_cutlass_grouped_gemm(k->cutlass, &r, &p->done));
}

static int64_t index_of(const problem *p, int which, const trp_cutlass_group *g, int64_t i,
                        int64_t j)
{
    const place *x = &p->matrix[which];
    const int64_t at[] = {g->a, g->b, g->c, g->d}, ld[] = {g->lda, g->ldb, g->ldc, g->ldd};
    int64_t length, count;
    lines_of(x, which, g, &length, &count);
    const int64_t lines = ld[which] ? ld[which] : length;
    return (int64_t)x->offset + at[which] +
           (x->order == TRP_ROW_MAJOR ? i * lines + j : j * lines + i);
}

static double load(const problem *p, int which, const trp_cutlass_group *g, int64_t i, int64_t j)
{
    const place *x = &p->matrix[which];
    return creal(ref_element_load(x->type, x->data, index_of(p, which, g, i, j)));
}

/* Every byte of D's buffer, gaps too; then it frees all. */
static void check(const h_kernels *k, problem *p)
{
    place *d = &p->matrix[D];
    unsigned char *want = h_malloc(bytes_of(d)), *got = h_malloc(bytes_of(d));
    memcpy(want, d->data, bytes_of(d));
    for (size_t g = 0; g < p->groups; g++) {
        const trp_cutlass_group *x = &p->group[g];
        for (int64_t i = 0; i < x->m * x->n; i++) {
            double sum = 0;
            for (int64_t l = 0; l < x->k; l++)
                sum += load(p, A, x, i / x->n, l) * load(p, B, x, l, i % x->n);
            double old = load(p, p->in_place ? D : C, x, i / x->n, i % x->n);
            ref_element_store(d->type, want, index_of(p, D, x, i / x->n, i % x->n),
                              p->beta != 0 ? fma(p->alpha, sum, p->beta * old) : p->alpha * sum);
        }
    }
    h_read(k->world.device, d->buffer, 0, got, bytes_of(d));
    for (size_t i = 0; i < bytes_of(d); i++) {
        if (got[i] != want[i])
            h_fail(__FILE__, __LINE__, "%s: %s to %s, %zu groups%s: byte %zu is %#x, expected %#x",
                   p->chosen.kernel, trp_dtype_name(p->matrix[A].type), trp_dtype_name(d->type),
                   p->groups, p->in_place ? ", in place" : "", i, got[i], want[i]);
    }
    free(want);
    free(got);
    for (int i = 0; i < MATRICES; i++) {
        H_OK(trp_buffer_free(k->world.device, p->matrix[i].buffer));
        free(p->matrix[i].data);
    }
}

static bool by_cublaslt(const trp_cutlass_chosen *c)
{
    bool it = strcmp(c->kernel, "cublaslt") == 0;
    H_CHECK(!it || (c->fallback && c->ready && !c->tuned && !c->searching));
    return it;
}

static bool run(const h_kernels *k, problem p)
{
    make(k, &p);
    send(k, &p);
    H_OK(h_await(p.done.future, NULL));
    H_IS(trp_await(p.done.future, 0, NULL), TRP_E_STALE); /* once */
    check(k, &p);
    return by_cublaslt(&p.chosen);
}

/* All types, orders, with C, in D's place or not. */
static void groups(void)
{
    h_kernels k = h_kernels_open(NULL);
    const int count = H_SANITIZED ? 30 : 100;
    h_kernels_set(&k, "compile_ms", "100000");
    for (int i = 0; i < count; i++)
        H_CHECK(run(&k, draw()));
    H_EQUAL(h_kernels_reported(&k, "runs"), 0);
    H_CHECK(h_kernels_reported(&k, "cublaslt_runs") >= (size_t)count);
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

static void until_compiled(void)
{
    h_kernels k = h_kernels_open(NULL);
    problem p = draw();
    h_kernels_set(&k, "compile_ms", "100000");
    H_CHECK(run(&k, p));
    h_kernels_unset(&k, "compile_ms");
    while (run(&k, p))
        continue;
    H_CHECK(h_kernels_reported(&k, "runs") > 0);
    h_kernels_close(&k);
}

/* As many as fit; one more waits for a kernel, as do a k of 0, an alpha of 0, a tree and sizes on
 * the device. */
static void others(void)
{
    enum { MOST = 234, ALL = MOST + 1 };
    static const trp_epilogue_node tree[2] = {[1] = {.kind = TRP_EPILOGUE_ACCUMULATOR}};
    for (int i = 0; i < 7; i++) {
        h_kernels k = h_kernels_open(NULL);
        trp_cutlass_group group[ALL];
        trp_cutlass_chosen chosen;
        trp_completion done = {0};
        uint16_t out[ALL * 64];
        trp_buffer a = h_buffer(k.world.device, ALL * 128), d = h_buffer(k.world.device, ALL * 128),
                   ends = h_buffer(k.world.device, 16);
        h_fill(k.world.device, a, 0x3f803f80); /* ones of bf16 */
        h_fill(k.world.device, d, 0);
        h_write(k.world.device, ends, 0, &(int32_t){8}, 4);
        for (int j = 0; j < ALL; j++)
            group[j] = (trp_cutlass_group){.m = 8, .n = 8, .k = 8, .d = j * 64};
        trp_cutlass_grouped_gemm_request r = {
            .groups = i < 2 ? MOST + i : 1,
            .a = {.buffer = a, .type = TRP_BF16, .order = TRP_ROW_MAJOR},
            .b = {.buffer = a},
            .d = {.buffer = d, .order = TRP_ROW_MAJOR},
            .group = group,
            .first = i == 5 ? TRP_CUTLASS_FIRST_WAIT : TRP_CUTLASS_FIRST_FALLBACK,
            .chosen = &chosen};
        if (i == 2)
            group[0].k = 0;
        if (i == 6)
            r.alpha = trp_real(0);
        if (i == 3) {
            r.epilogue = tree;
            r.epilogue_count = 2;
        }
        if (i == 4) {
            r.grouping = TRP_CUTLASS_GROUPS_OF_M;
            r.group = NULL;
            r.m = r.n = r.k = 8;
            r.table = ends;
        }
        H_OK(trp_cutlass_grouped_gemm(k.cutlass, &r, &done));
        H_EQUAL(by_cublaslt(&chosen), i == 0);
        H_OK(h_await(done.future, NULL));
        h_read(k.world.device, d, 0, out, sizeof out);
        for (int j = 0; j < (int)r.groups * 64; j++)
            H_EQUAL(out[j], i == 2 || i == 6 ? 0 : 0x4100); /* 8 */
        h_kernels_close(&k);
    }
}

/* Errors are those of groups, whoever computes. */
static void wrong(void)
{
    h_kernels k = h_kernels_open(NULL);
    problem p = draw();
    trp_completion done = {0};
    h_kernels_set(&k, "compile_ms", "100000");
    make(&k, &p);
    trp_cutlass_grouped_gemm_request r = request_of(&p);
    p.group[0].a += (int64_t)p.matrix[A].span + 2; /* behind its buffer */
    H_IS(trp_cutlass_grouped_gemm(k.cutlass, &r, &done), TRP_E_ARGUMENT);
    H_SAYS("group[0].a: ");
    p.group[0].a -= (int64_t)p.matrix[A].span + 2;
    send(&k, &p);
    H_CHECK(by_cublaslt(&p.chosen));
    H_OK(h_await(p.done.future, NULL));
    check(&k, &p);
    h_kernels_close(&k);
}

static void missing(void)
{
    setenv("TROUPE_CUBLASLT", "/nowhere/libcublasLt.so", 1);
    h_kernels k = h_kernels_open(NULL);
    H_CHECK(!run(&k, draw()));
    H_CHECK(h_kernels_reported(&k, "runs") > 0);
    h_kernels_close(&k);
}

/* The worker dies with such requests in flight. What C in D's place was is gone with it, maybe. */
static void killed(void)
{
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        return;
    h_kernels k = h_kernels_open(NULL);
    problem p = draw();
    p.in_place = false;
    h_kernels_set(&k, "compile_ms", "100000");
    make(&k, &p);
    send(&k, &p);
    H_CHECK(by_cublaslt(&p.chosen));
    h_kernels_unset(&k, "compile_ms");
    kill((pid_t)h_info(k.world.device).worker_pid, SIGKILL);
    H_OK(h_await(p.done.future, NULL));
    check(&k, &p);
    H_CHECK(h_info(k.world.device).restarts <= 1);
    run(&k, draw());
    h_kernels_close(&k);
}

/* Cancelled at any time: one that has begun goes on, for D is written. */
static void cancelled(void)
{
    h_kernels k = h_kernels_open(NULL);
    h_kernels_set(&k, "compile_ms", "100000");
    for (int i = 0; i < 20; i++) {
        problem p = draw(), q = draw();
        make(&k, &p);
        make(&k, &q);
        send(&k, &p);
        send(&k, &q);
        h_sleep((int64_t)below(300) * 1000);
        trp_cancel(p.done.future);
        trp_status status = h_await(p.done.future, NULL);
        H_CHECK(status == TRP_OK || status == TRP_E_CANCELLED);
        H_IS(trp_await(p.done.future, 0, NULL), TRP_E_STALE);
        H_OK(h_await(q.done.future, NULL));
        check(&k, &q);
        if (status == TRP_E_CANCELLED) { /* nothing is written */
            p.alpha = 0;
            p.beta = 1;
            p.in_place = true;
        }
        check(&k, &p);
    }
    H_EQUAL(h_info(k.world.device).incarnation, 1);
    h_kernels_close(&k);
}

H_KERNEL_CASES(H_CASE(groups), H_CASE(until_compiled), H_CASE(others), H_CASE(wrong),
               H_CASE(missing), H_CASE(killed), H_CASE(cancelled))
