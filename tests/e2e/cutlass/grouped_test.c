/* Grouped products of the cutlass actor beside what tests/conformance compares: sizes that a
 * request before has written, tables that are wrong, requests that are, and as many groups as there
 * may be. SPDX-License-Identifier: Apache-2.0 */
#include "support/harness.h"

TROUPE_TEST_FAKE_GPU("no tsan", "cutlass");

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

static trp_buffer upload(const void *data, size_t bytes)
{
    trp_buffer b = h_buffer(world.device, bytes);
    h_write(world.device, b, 0, data, bytes);
    return b;
}

/* --- a router --- */

enum { EXPERTS = 5, ROWS = 23, N = 6, K = 4 };

typedef struct router {
    trp_buffer tokens, weights, out, table;
    float token[ROWS * K], weight[EXPERTS * N * K], before[ROWS * N];
    trp_cutlass_grouped_gemm_request r;
} router;

static router route(void)
{
    router x;
    for (size_t i = 0; i < ROWS * K; i++)
        x.token[i] = (float)below(9) - 4;
    for (size_t i = 0; i < EXPERTS * N * K; i++)
        x.weight[i] = (float)below(9) - 4;
    for (size_t i = 0; i < ROWS * N; i++)
        x.before[i] = 1000 + (float)below(99);
    x.tokens = upload(x.token, sizeof x.token);
    x.weights = upload(x.weight, sizeof x.weight);
    x.out = upload(x.before, sizeof x.before);
    x.table = h_buffer(world.device, EXPERTS * sizeof(trp_cutlass_group));
    x.r = (trp_cutlass_grouped_gemm_request){
        .groups = EXPERTS,
        .grouping = TRP_CUTLASS_GROUPS_OF_M,
        .m = ROWS,
        .n = N,
        .k = K,
        .a = {.buffer = x.tokens, .type = TRP_F32, .order = TRP_ROW_MAJOR},
        .b = {.buffer = x.weights, .stride = N * K}, /* [experts][n][k] */
        .d = {.buffer = x.out, .order = TRP_ROW_MAJOR},
        .table = x.table};
    return x;
}

static void check_routed(const router *x, const int32_t *ends)
{
    float after[ROWS * N];
    h_read(world.device, x->out, 0, after, sizeof after);
    size_t expert = 0;
    for (size_t i = 0; i < ROWS; i++) {
        while (expert < EXPERTS && (size_t)ends[expert] <= i)
            expert++;
        for (size_t j = 0; j < N; j++) {
            float want = 0;
            for (size_t k = 0; k < K && expert < EXPERTS; k++)
                want += x->token[i * K + k] * x->weight[(expert * N + j) * K + k];
            H_CHECK(after[i * N + j] == (expert < EXPERTS ? want : x->before[i * N + j]));
        }
    }
}

/* Requests that follow each other without a wait: each reads the ends that are there then. */
static void routed(void)
{
    enum { TIMES = 20 };
    open_world();
    router x = route();
    int32_t ends[TIMES][EXPERTS];
    trp_buffer all = h_buffer(world.device, sizeof ends), copy[TIMES];
    trp_completion done[TIMES] = {{0}};
    for (int t = 0; t < TIMES; t++) {
        int32_t at = 0;
        for (int i = 0; i < EXPERTS; i++)
            ends[t][i] = at += (int32_t)below(ROWS / EXPERTS + 1);
    }
    h_write(world.device, all, 0, ends, sizeof ends);
    for (int t = 0; t < TIMES; t++) {
        copy[t] = h_buffer(world.device, sizeof x.before);
        H_OK(trp_copy(world.device, all, (uint64_t)t * sizeof *ends, x.table, 0, sizeof *ends,
                      NULL));
        H_OK(trp_write(world.device, x.out, 0, x.before, sizeof x.before, NULL));
        H_OK(trp_cutlass_grouped_gemm(cutlass, &x.r, &done[t]));
        H_OK(trp_copy(world.device, x.out, 0, copy[t], 0, sizeof x.before, NULL));
    }
    for (int t = 0; t < TIMES; t++) {
        H_OK(h_await_any(done[t]));
        x.out = copy[t];
        check_routed(&x, ends[t]);
    }
    h_close(&world);
}

static void check_inputs(const router *x)
{
    float token[ROWS * K], weight[EXPERTS * N * K];
    h_read(world.device, x->tokens, 0, token, sizeof token);
    h_read(world.device, x->weights, 0, weight, sizeof weight);
    H_SAME(token, x->token, sizeof token);
    H_SAME(weight, x->weight, sizeof weight);
}

static void refuse_table(router *x, const void *table, size_t bytes, const char *word)
{
    float after[ROWS * N];
    trp_completion done = {0};
    h_write(world.device, x->table, 0, table, bytes);
    H_OK(trp_cutlass_grouped_gemm(cutlass, &x->r, &done));
    trp_status status = h_await_any(done);
    if (h_is_cuda()) { /* which leaves out what is wrong */
        H_IS(status, TRP_OK);
        check_inputs(x);
        h_write(world.device, x->out, 0, x->before, sizeof x->before);
        return;
    }
    H_IS(status, TRP_E_ARGUMENT);
    H_SAYS(word);
    h_read(world.device, x->out, 0, after, sizeof after); /* nothing was written */
    H_SAME(after, x->before, sizeof after);
}

static void wrong_ends(router *x)
{
    static const struct {
        int32_t ends[EXPERTS];
        const char *word;
    } cases[] = {
        {{-1, 0, 0, 0, 0}, "table[0]: expected 0, where the group begins, to 23, got -1"},
        {{3, 2, 5, 6, 7}, "table[1]: expected 3, where the group begins, to 23, got 2"},
        {{1, 2, 3, 4, 24}, "table[4]: expected 4, where the group begins, to 23, got 24"},
        {{1, 2, INT32_MAX, 4, 5}, "table[2]: expected 2"},
        {{0, INT32_MIN, 0, 0, 0}, "table[1]: expected 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse_table(x, cases[i].ends, sizeof cases[i].ends, cases[i].word);
    trp_completion done = {0};
    const int32_t right[EXPERTS] = {1, 5, 5, 20, ROWS};
    h_write(world.device, x->table, 0, right, sizeof right);
    H_OK(trp_cutlass_grouped_gemm(cutlass, &x->r, &done));
    H_OK(h_await_any(done));
    check_routed(x, right);
}

#define WRONG_ROW(change, word)                                                                    \
    do {                                                                                           \
        trp_cutlass_group row[EXPERTS] = {{.m = 1, .n = N, .k = K}, {.m = 2, .n = 1, .k = 1}};     \
        change;                                                                                    \
        refuse_table(x, row, sizeof row, word);                                                    \
    } while (0)

static void wrong_rows(router *x)
{
    x->r.grouping = TRP_CUTLASS_GROUPS_BY_TABLE;
    x->r.b.stride = 0;
    h_write(world.device, x->out, 0, x->before, sizeof x->before);
    WRONG_ROW(row[0].m = -1, "group[0].m: expected 0 to 23, got -1");
    WRONG_ROW(row[1].m = ROWS + 1, "group[1].m: expected 0 to 23, got 24");
    WRONG_ROW(row[1].n = INT64_MAX, "group[1].n: expected 0 to 6");
    WRONG_ROW(row[0].k = INT64_MIN, "group[0].k: expected 0 to 4");
    WRONG_ROW(row[0].lda = K - 1, "group[0].lda: expected at least 4 (the columns of a as stored)");
    WRONG_ROW(row[0].ldd = -5, "group[0].ldd: expected at least 6");
    WRONG_ROW(row[1].b = -1, "group[1].b: expected 0 or more, got -1");
    WRONG_ROW(row[0].a = ROWS * K - 3, "group[0].a: expected elements that end at 92 or before");
    WRONG_ROW(row[0].d = ROWS * N - 5, "group[0].d: expected elements that end at 138 or before");
    WRONG_ROW(row[0].b = INT64_MAX, "group[0].b: ");
    WRONG_ROW((row[1].m = 3, row[1].ldd = INT64_MAX), "group[1].d: ");
    WRONG_ROW(row[3].reserved = 1, "group[3].reserved: expected 0, got 1");
    x->r.alignment = 16; /* 4 elements */
    WRONG_ROW((row[0].n = 4, row[0].a = 2), "group[0].a: expected a multiple of 4 elements");
    WRONG_ROW((row[0].n = 4, row[0].ldd = 7, row[0].m = 2), "group[0].ldd: expected a multiple of");
    WRONG_ROW(, "group[0].lines of d: expected a multiple of 4 elements, which `alignment` says");
    x->r.alignment = 0;
    /* What a group without elements says of its places counts for nothing. */
    trp_cutlass_group row[EXPERTS] = {{.a = -1, .lda = -1, .m = ROWS}, {.m = 1, .n = 1, .d = 7}};
    float after[ROWS * N];
    trp_completion done = {0};
    h_write(world.device, x->table, 0, row, sizeof row);
    H_OK(trp_cutlass_grouped_gemm(cutlass, &x->r, &done));
    H_OK(h_await_any(done));
    h_read(world.device, x->out, 0, after, sizeof after);
    x->before[7] = 0; /* sums of nothing */
    H_SAME(after, x->before, sizeof after);
}

/* On a GPU a group that is wrong is left out, and the others are computed. */
static void left_out(void)
{
    open_world();
    router x = route();
    float after[ROWS * N], want[ROWS * N];
    const int64_t far = INT64_MAX;
    const trp_cutlass_group wrong[] = {
        {.m = 1, .n = N, .k = K, .d = ROWS * N - N + 1},
        {.m = 1, .n = N, .k = K, .d = far},
        {.m = 1, .n = N, .k = K, .d = -1},
        {.m = 1, .n = N, .k = K, .d = 3 * N, .a = ROWS * K - K + 1},
        {.m = 1, .n = N, .k = K, .d = 3 * N, .b = EXPERTS * N * K},
        {.m = ROWS + 1, .n = 1, .k = 1},
        {.m = 2, .n = N, .k = K, .d = 3 * N, .ldd = N - 1},
        {.m = 2, .n = N, .k = K, .d = 3 * N, .ldd = far},
        {.m = 3, .n = N, .k = K, .d = 3 * N, .lda = far / 2},
        {.m = -1, .n = N, .k = K, .d = 3 * N},
        {.m = 1, .n = N, .k = far, .d = 3 * N},
    };
    x.r.grouping = TRP_CUTLASS_GROUPS_BY_TABLE;
    x.r.b.stride = 0;
    memcpy(want, x.before, sizeof want);
    for (int g = 0; g < EXPERTS; g += 2) {
        for (int j = 0; j < N; j++) {
            want[g * N + j] = 0;
            for (int k = 0; k < K; k++)
                want[g * N + j] += x.token[g * K + k] * x.weight[(g * N + j) * K + k];
        }
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong && h_is_cuda(); i++) {
        trp_cutlass_group row[EXPERTS];
        trp_completion done = {0};
        for (int g = 0; g < EXPERTS; g++)
            row[g] = g % 2 ? wrong[(i + (size_t)g) % (sizeof wrong / sizeof *wrong)]
                           : (trp_cutlass_group){
                                 .m = 1, .n = N, .k = K, .a = g * K, .b = g * N * K, .d = g * N};
        h_write(world.device, x.out, 0, x.before, sizeof x.before);
        h_write(world.device, x.table, 0, row, sizeof row);
        H_OK(trp_cutlass_grouped_gemm(cutlass, &x.r, &done));
        H_OK(h_await_any(done));
        h_read(world.device, x.out, 0, after, sizeof after);
        H_SAME(after, want, sizeof after);
    }
    check_inputs(&x);
    h_close(&world);
}

/* Any bytes at all as a table: the request works or is refused, and the worker lives. */
static void wild_tables(router *x)
{
    for (int i = 0; i < 200; i++) {
        trp_completion done = {0};
        trp_cutlass_group row[EXPERTS];
        h_random_bytes(h_rng(), row, sizeof row);
        for (size_t w = 0; w < sizeof row / 8; w++) { /* numbers of every size */
            int64_t *number = (int64_t *)row + w;
            if (below(3))
                *number >>= below(64);
            if (below(2))
                *number &= 3;
        }
        x->r.grouping = below(2) ? TRP_CUTLASS_GROUPS_BY_TABLE : TRP_CUTLASS_GROUPS_OF_M;
        h_write(world.device, x->table, 0, row, sizeof row);
        H_OK(trp_cutlass_grouped_gemm(cutlass, &x->r, &done));
        trp_status status = h_await_any(done);
        H_CHECK(status == TRP_OK || status == TRP_E_ARGUMENT);
    }
    H_EQUAL(h_info(world.device).incarnation, 1);
}

static void tables(void)
{
    open_world();
    router x = route();
    wrong_ends(&x);
    wrong_rows(&x);
    wild_tables(&x);
    h_close(&world);
}

/* --- what is refused --- */

typedef struct setting {
    trp_cutlass_grouped_gemm_request r;
    trp_cutlass_group group[3];
    trp_epilogue_node nodes[5];
    uint32_t count;
} setting;

static router frame;

/* Three groups of 4 x 6 x 4 by value. */
static setting by_value(void)
{
    setting s = {.r = frame.r};
    s.r.grouping = TRP_CUTLASS_GROUPS_BY_VALUE;
    s.r.groups = 3;
    s.r.m = s.r.n = s.r.k = 0;
    s.r.b.stride = 0;
    s.r.table.id = 0;
    for (int i = 0; i < 3; i++)
        s.group[i] = (trp_cutlass_group){
            .m = 4, .n = N, .k = K, .a = i * 4 * K, .b = i * N * K, .d = i * 4 * N};
    return s;
}

static setting cut(void)
{
    return (setting){.r = frame.r};
}

static trp_status send_setting(setting *s)
{
    trp_completion done = {0};
    if (s->r.grouping == TRP_CUTLASS_GROUPS_BY_VALUE && s->r.groups > 0)
        s->r.group = s->group;
    if (s->count) {
        s->nodes[1].kind = TRP_EPILOGUE_ACCUMULATOR;
        s->r.epilogue = s->nodes;
        s->r.epilogue_count = s->count;
    }
    trp_status status = trp_cutlass_grouped_gemm(cutlass, &s->r, &done);
    return status == TRP_OK ? h_await_any(done) : status;
}

#define REFUSE(from, change, status, word)                                                         \
    do {                                                                                           \
        setting s = from();                                                                        \
        change;                                                                                    \
        H_IS(send_setting(&s), status);                                                            \
        H_SAYS(word);                                                                              \
    } while (0)

static void refused_numbers(void)
{
    REFUSE(by_value, s.r.groups = 513, TRP_E_ARGUMENT, "groups: expected 0 to 512 by value");
    REFUSE(cut, s.r.alignment = 3, TRP_E_ARGUMENT,
           "alignment: expected 0, 1, 2, 4, 8 or 16, got 3");
    REFUSE(cut, s.r.kernel = "none", h_is_cuda() ? TRP_E_ARGUMENT : TRP_E_UNSUPPORTED, "kernel: ");
    REFUSE(by_value, s.r.a.offset = 2, TRP_E_ARGUMENT, "a.offset: expected a multiple of 4 bytes");
    REFUSE(by_value, s.r.a.ld = 3, TRP_E_ARGUMENT, "group[0].lda: expected at least 4");
    REFUSE(by_value, s.group[1].ldb = INT64_MAX, TRP_E_ARGUMENT, "group[1].b: ");
    REFUSE(by_value, s.group[1].a = 4000, TRP_E_ARGUMENT, "group[1].a: the request needs bytes");
}

static void refused_places(void)
{
    REFUSE(by_value, s.group[1].d = 23, TRP_E_ARGUMENT, "group[1].d: bytes 92 to 188");
    REFUSE(by_value, s.r.d.buffer = frame.weights, TRP_E_ARGUMENT, "overlap those of group[2].b");
    REFUSE(cut,
           (s.r.grouping = TRP_CUTLASS_GROUPS_BY_TABLE, s.r.b.stride = 0, s.count = 3,
            s.nodes[2] = (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALE_ROWS,
                                             .input = {1},
                                             .buffer = frame.out}),
           TRP_E_ARGUMENT, "d.buffer: expected one of its own");
    H_SAYS("got that of nodes[2]");
    /* Side by side in one matrix is no overlap. */
    setting s = by_value();
    for (int i = 0; i < 3; i++) {
        s.group[i].n = 2;
        s.group[i].d = 2 * i;
    }
    s.r.d.ld = N;
    H_OK(send_setting(&s));
    s.group[1].d = 1;
    H_IS(send_setting(&s), TRP_E_ARGUMENT);
    s = by_value();
    s.r.groups = 0; /* nothing to do, and nothing looked at */
    s.r.d.buffer.id = 0;
    H_OK(send_setting(&s));
    s = cut();
    s.r.n = 0;
    H_OK(send_setting(&s));
}

static void refused_types_and_trees(void)
{
    REFUSE(cut, s.r.b.type = TRP_F16, TRP_E_UNSUPPORTED, "b.type: expected f32 where A is f32");
    REFUSE(cut, s.r.d.type = TRP_F64, TRP_E_UNSUPPORTED, "d.type: expected f32, f16");
    REFUSE(cut, s.r.beta = trp_real(1), TRP_E_ARGUMENT, "c.buffer: expected one");
    REFUSE(cut, (s.r.beta = trp_real(1), s.r.c = s.r.d, s.r.c.order = TRP_COL_MAJOR),
           TRP_E_UNSUPPORTED, "c.order");
    REFUSE(cut, (s.count = 2, s.r.alpha = trp_real(1)), TRP_E_ARGUMENT, "alpha: expected none");
#define NODE(...) (s.count = 3, s.nodes[2] = (trp_epilogue_node){__VA_ARGS__})
    REFUSE(cut, NODE(.kind = TRP_EPILOGUE_AUX_STORE, .input = {1}, .buffer = frame.table),
           TRP_E_UNSUPPORTED, "nodes[2] (aux store): which grouped products can't do");
    REFUSE(cut, NODE(.kind = TRP_EPILOGUE_REDUCE_ALL, .input = {1}, .buffer = frame.table),
           TRP_E_UNSUPPORTED, "nodes[2] (reduce all)");
    REFUSE(cut,
           NODE(.kind = TRP_EPILOGUE_SCALE_ROWS, .input = {1}, .buffer = frame.tokens, .stride = 5),
           TRP_E_ARGUMENT, "nodes[2].stride: expected 0, for the vector goes over the rows");
    REFUSE(cut,
           NODE(.kind = TRP_EPILOGUE_SCALE_COLUMNS, .input = {1}, .buffer = frame.table,
                .stride = 4000),
           TRP_E_ARGUMENT, "nodes[2]: the request needs bytes");
    REFUSE(cut, NODE(.kind = TRP_EPILOGUE_SCALE_ROWS, .input = {1}, .buffer = frame.out),
           TRP_E_ARGUMENT, "overlap those of nodes[2]");
#undef NODE
}

static void refused(void)
{
    const int32_t ends[EXPERTS] = {1, 2, 3, 4, 5};
    open_world();
    frame = route();
    h_write(world.device, frame.table, 0, ends, sizeof ends);
    setting s = by_value();
    H_OK(send_setting(&s));
    s = cut();
    H_OK(send_setting(&s));
    refused_numbers();
    refused_places();
    refused_types_and_trees();
    H_EQUAL(h_info(world.device).incarnation, 1);
    h_close(&world);
}

/* --- many --- */

/* As many groups as there may be: dot products, each with a factor of its own, some of nothing. */
static void check_many(size_t groups, trp_cutlass_grouping grouping)
{
    enum { DEPTH = 2 };
    trp_cutlass_group *row = calloc(groups, sizeof *row);
    float *a = h_malloc((groups + DEPTH) * sizeof *a), *factor = h_malloc(groups * sizeof *factor);
    float *d = h_malloc(groups * sizeof *d);
    H_CHECK(row);
    for (size_t i = 0; i < groups + DEPTH; i++)
        a[i] = (float)below(9) - 4;
    for (size_t i = 0; i < groups; i++) {
        factor[i] = (float)below(9) - 4;
        row[i] = (trp_cutlass_group){.m = 1,
                                     .n = 1,
                                     .k = (int64_t)below(DEPTH + 1),
                                     .a = (int64_t)i,
                                     .b = (int64_t)(groups - i) - 1,
                                     .d = (int64_t)(i ^ 1)};
    }
    trp_buffer in = upload(a, (groups + DEPTH) * sizeof *a);
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
        r.k = DEPTH;
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

H_CASES(H_CASE(routed), H_CASE(tables), H_CASE(left_out), H_CASE(refused), H_CASE(many))
