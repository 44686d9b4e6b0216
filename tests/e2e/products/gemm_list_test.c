/* Lists of products: results are those of single products, the completion comes once, when all have
 * ended, and reports the first failure; also when members are cancelled, die or are refused. */
#include "support/gate.h"
#include "support/harness.h"
#include "support/reference/elements.h"

#include <complex.h>
#include <math.h>
#include <pthread.h>

TROUPE_TEST_FAKE_GPU("no sanitizer");

enum { MOST = 150, SIDE = 24 };

static h_world world;
static trp_actor *blas;

static void open_world(void)
{
    world = h_open(NULL);
    blas = h_actor(world.device, "blas");
}

static size_t below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

/* One product of small integers, so that all is exact in every type. */
typedef struct product {
    int64_t m, n, k, lda, ldb, ldc;
    uint64_t c_offset;
    size_t c_bytes;
    trp_buffer a, b, c;
    char *expected; /* all of c's buffer */
} product;

typedef struct list {
    trp_dtype type, type_c;
    bool row_major, own_sizes;
    trp_transpose trans_a, trans_b;
    double alpha, beta;
    int count;
    product one[MOST];
} list;

static double cell(const list *l, const double *x, bool trans, int64_t ld, int64_t i, int64_t j)
{
    bool turn = trans != l->row_major;
    return x[turn ? i * ld + j : j * ld + i];
}

static trp_buffer upload(trp_dtype type, const double *x, size_t count, char **copy)
{
    size_t bytes = count * trp_dtype_bits(type) / 8;
    char *raw = h_malloc(bytes);
    for (size_t i = 0; i < count; i++)
        ref_element_store(type, raw, (int64_t)i, x[i]);
    trp_buffer b = h_buffer(world.device, bytes);
    h_write(world.device, b, 0, raw, bytes);
    if (copy)
        *copy = raw;
    else
        free(raw);
    return b;
}

static double *integers(size_t count)
{
    double *x = h_malloc(count * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = (double)below(5) - 2;
    return x;
}

/* Room for a matrix of `run` elements a line, as a list has it. */
static size_t room(const list *l, int64_t rows, int64_t columns, int64_t *ld, size_t gap)
{
    int64_t run = l->row_major ? columns : rows, lines = l->row_major ? rows : columns;
    *ld = run + (int64_t)gap;
    return (size_t)(*ld * lines);
}

static void make_product(const list *l, product *p)
{
    bool ta = l->trans_a != TRP_N, tb = l->trans_b != TRP_N;
    size_t gap = l->own_sizes ? below(3) : 0, offset = l->own_sizes ? below(3) * 8 : 0;
    size_t na = room(l, ta ? p->k : p->m, ta ? p->m : p->k, &p->lda, gap);
    size_t nb = room(l, tb ? p->n : p->k, tb ? p->k : p->n, &p->ldb, gap);
    size_t nc = room(l, p->m, p->n, &p->ldc, gap) + offset + 5;
    double *a = integers(na), *b = integers(nb), *c = integers(nc);
    p->a = upload(l->type, a, na, NULL);
    p->b = upload(l->type, b, nb, NULL);
    p->c = upload(l->type_c, c, nc, &p->expected);
    p->c_bytes = nc * trp_dtype_bits(l->type_c) / 8;
    p->c_offset = offset * trp_dtype_bits(l->type_c) / 8;
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < p->k; k++)
                sum += cell(l, a, ta, p->lda, i, k) * cell(l, b, tb, p->ldb, k, j);
            size_t at = offset + (size_t)(l->row_major ? i * p->ldc + j : j * p->ldc + i);
            ref_element_store(l->type_c, p->expected, (int64_t)at,
                              l->alpha * sum + l->beta * c[at]);
        }
    }
    free(a);
    free(b);
    free(c);
}

static void make_list(list *l, int count)
{
    static const struct {
        trp_dtype type, type_c;
    } types[] = {{TRP_F32, TRP_F32}, {TRP_F64, TRP_F64}, {TRP_F16, TRP_F16}, {TRP_BF16, TRP_F32}};
    size_t t = below(4);
    *l = (list){.type = types[t].type,
                .type_c = types[t].type_c,
                .row_major = below(2),
                .own_sizes = below(2),
                .trans_a = below(2) ? TRP_T : TRP_N,
                .trans_b = below(2) ? TRP_T : TRP_N,
                .alpha = below(2) ? 1 : -2,
                .beta = below(2) ? 0 : 3,
                .count = count};
    for (int i = 0; i < count; i++) {
        product *p = &l->one[i];
        p->m = 1 + (int64_t)below(SIDE);
        p->n = 1 + (int64_t)below(SIDE);
        p->k = 1 + (int64_t)below(SIDE);
        if (!l->own_sizes && i > 0) {
            p->m = l->one[0].m;
            p->n = l->one[0].n;
            p->k = l->one[0].k;
        }
        make_product(l, p);
    }
}

static trp_gemm_list_request request_of(const list *l, trp_gemm_item *items)
{
    const product *first = &l->one[0];
    trp_gemm_list_request r = {
        .header = {.wait_ns = H_LONG}, .own_sizes = l->own_sizes, .count = l->count, .item = items};
    r.common = (trp_gemm_request){.type = l->type,
                                  .type_c = l->type_c,
                                  .order = l->row_major ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
                                  .trans_a = l->trans_a,
                                  .trans_b = l->trans_b,
                                  .alpha = trp_real(l->alpha),
                                  .beta = trp_real(l->beta)};
    if (!l->own_sizes) {
        r.common.m = first->m;
        r.common.n = first->n;
        r.common.k = first->k;
    }
    for (int i = 0; i < l->count; i++) {
        const product *p = &l->one[i];
        items[i] = (trp_gemm_item){.a = p->a, .b = p->b, .c = p->c, .c_offset = p->c_offset};
        if (l->own_sizes) {
            items[i].m = p->m;
            items[i].n = p->n;
            items[i].k = p->k;
            items[i].lda = p->lda;
            items[i].ldb = p->ldb;
            items[i].ldc = p->ldc;
        }
    }
    return r;
}

static void check_and_free(list *l)
{
    for (int i = 0; i < l->count; i++) {
        product *p = &l->one[i];
        char *got = h_malloc(p->c_bytes);
        h_read(world.device, p->c, 0, got, p->c_bytes);
        for (size_t at = 0; at < p->c_bytes * 8 / trp_dtype_bits(l->type_c); at++) {
            double want = creal(ref_element_load(l->type_c, p->expected, (int64_t)at)),
                   have = creal(ref_element_load(l->type_c, got, (int64_t)at));
            if (have != want)
                h_fail(__FILE__, __LINE__,
                       "%s to %s, item %d of %d, %lld x %lld x %lld: element "
                       "%zu is %g, expected %g",
                       trp_dtype_name(l->type), trp_dtype_name(l->type_c), i, l->count,
                       (long long)p->m, (long long)p->n, (long long)p->k, at, have, want);
        }
        free(got);
        free(p->expected);
        H_OK(trp_buffer_free(world.device, p->a));
        H_OK(trp_buffer_free(world.device, p->b));
        H_OK(trp_buffer_free(world.device, p->c));
    }
}

/* Lists of every kind, told in every way. */
static void products(void)
{
    static list l;
    static trp_gemm_item items[MOST];
    open_world();
    trp_queue *queue;
    H_OK(trp_queue_create(world.system, &queue));
    for (int round = 0; round < (H_SANITIZED ? 20 : 60); round++) {
        make_list(&l, round % 10 == 0 ? 1 : 1 + (int)below(MOST));
        trp_gemm_list_request r = request_of(&l, items);
        trp_completion done = {.queue = round % 4 == 0 ? queue : NULL, .user_data = &l};
        trp_event event;
        H_OK(trp_gemm_list(blas, &r, round % 4 == 1 ? NULL : &done));
        memset(items, 0xff, sizeof items); /* read during the call */
        switch (round % 4) {
        case 0:
            H_OK(trp_queue_next(queue, H_LONG, &event));
            H_CHECK(event.user_data == &l);
            H_EQUAL(event.status, TRP_OK);
            break;
        case 1:
            H_OK(trp_device_drain(world.device, H_LONG));
            break;
        case 2:
            H_OK(h_await_any(done));
            H_IS(trp_await(done.future, 0, NULL), TRP_E_STALE);
            break;
        default:
            H_OK(trp_device_drain(world.device, H_LONG));
            H_OK(trp_await(done.future, 0, NULL)); /* all has been told by now */
        }
        check_and_free(&l);
    }
    trp_event none;
    H_IS(trp_queue_next(queue, 0, &none), TRP_E_TIMEOUT);
    H_OK(trp_queue_destroy(queue));
    h_close(&world);
}

/* Products of which some need others of the same list are done in its order. */
static void chains(void)
{
    enum { LINKS = 40, N = 4 };
    float x[N * N] = {0}, got[N * N];
    trp_buffer b[LINKS + 1];
    trp_gemm_item items[LINKS];
    open_world();
    for (int i = 0; i < N; i++)
        x[i * N + i] = 1;
    for (int i = 0; i <= LINKS; i++) {
        b[i] = h_buffer(world.device, sizeof x);
        h_write(world.device, b[i], 0, x, sizeof x);
    }
    for (int i = 0; i < LINKS; i++)
        items[i] = (trp_gemm_item){.a = b[i], .b = b[0], .c = b[i + 1]};
    trp_gemm_list_request r = {.count = LINKS, .item = items};
    r.common = (trp_gemm_request){.type = TRP_F32, .m = N, .n = N, .k = N, .alpha = trp_real(0.5)};
    trp_completion done = {0};
    H_OK(trp_gemm_list(blas, &r, &done));
    H_OK(h_await_any(done));
    for (int i = 0; i <= LINKS; i++) {
        h_read(world.device, b[i], 0, got, sizeof got);
        H_CHECK(got[0] == ldexpf(1, -i) && got[N + 1] == got[0] && got[1] == 0);
    }
    h_close(&world);
}

static trp_gemm_list_request simple(trp_gemm_item *items, int count, trp_buffer a, trp_buffer c)
{
    trp_gemm_list_request r = {.count = count, .item = items};
    r.common = (trp_gemm_request){.type = TRP_F32, .m = 2, .n = 2, .k = 2};
    for (int i = 0; i < count; i++)
        items[i] = (trp_gemm_item){.a = a, .b = a, .c = c, .c_offset = (uint64_t)i * 16};
    return r;
}

static void bad_input(void)
{
    enum { COUNT = 5 };
    trp_gemm_item items[COUNT], *x = items;
    open_world();
    trp_buffer a = h_filled(world.device, 16, 0x3f800000), c = h_buffer(world.device, COUNT * 16);
    trp_completion done = {.future = {9}};
    uint64_t before;
    trp_gemm_list_request r;
    H_OK(trp_device_drain(world.device, H_LONG));
    before = h_info(world.device).requests_submitted;
#define BAD(status, word, ...)                                                                     \
    do {                                                                                           \
        r = simple(x, COUNT, a, c);                                                                \
        __VA_ARGS__;                                                                               \
        H_IS(trp_gemm_list(blas, &r, &done), status);                                              \
        H_SAYS(word);                                                                              \
        H_CHECK(strcmp(trp_error_last()->actor, "blas") == 0);                                     \
    } while (0)
    BAD(TRP_E_ARGUMENT, "count: expected 1 or more", r.count = 0);
    BAD(TRP_E_ARGUMENT, "count: expected 1 or more", r.count = -1);
    BAD(TRP_E_ARGUMENT, "count: expected 1 or more", r.count = INT64_MAX);
    BAD(TRP_E_ARGUMENT, "count: expected 1 to", r.count = INT32_MAX);
    BAD(TRP_E_ARGUMENT, "item: expected a pointer", r.item = NULL);
    BAD(TRP_E_ARGUMENT, "common.a: expected 0", r.common.a = a);
    BAD(TRP_E_ARGUMENT, "common.batch: expected 0", r.common.batch = 2);
    BAD(TRP_E_ARGUMENT, "common.c_stride: expected 0", r.common.c_stride = 4);
    BAD(TRP_E_ARGUMENT, "common.m: expected 0", r.own_sizes = true);
    BAD(TRP_E_ARGUMENT, "item[2]: m: expected 0", x[2].m = 2);
    BAD(TRP_E_ARGUMENT, "item[0]: type: expected", r.common.type = TRP_U8);
    BAD(TRP_E_ARGUMENT, "item[4]: c: the request needs", x[4].c_offset += 4);
    BAD(TRP_E_ARGUMENT, "item[1]: b_offset: expected", x[1].b_offset = 1);
    BAD(TRP_E_STALE, "item[3]: b", x[3].b.id = 77);
    BAD(TRP_E_ARGUMENT, "item[3]: c: bytes", x[3].c = a; x[3].c_offset = 0);
    BAD(TRP_E_ARGUMENT, "item[0]: alpha", r.common.alpha = trp_complex(0, 1));
#undef BAD
    r = simple(x, COUNT, a, c);
    r.header.op = TRP_OP_GEMM_LIST;
    r.header.size = sizeof r - 8;
    H_IS(trp_submit(blas, &r.header, &done), TRP_E_VERSION);
    H_EQUAL(done.future.id, 9);
    H_EQUAL(h_info(world.device).requests_submitted, before);
    r = simple(x, COUNT, a, c);
    H_OK(trp_gemm_list(blas, &r, &done));
    H_OK(h_await_any(done));
    H_OK(trp_buffer_free(world.device, a));
    H_OK(trp_buffer_free(world.device, c));
    H_OK(trp_device_drain(world.device, H_LONG));
    H_EQUAL(h_info(world.device).buffers, 0); /* nothing is held */
    h_close(&world);
}

/* The first failure is told, with its place; what follows it was done, and can be read. */
static void failures(void)
{
    enum { COUNT = 6 };
    trp_gemm_item items[COUNT];
    float got[4];
    open_world();
    h_gate gate = h_gate_create(world.device, 16);
    trp_actor *probe = h_actor(world.device, "probe");
    for (int64_t ns = 50 * H_MS;; ns *= 2) {
        trp_buffer a = h_filled(world.device, 16, 0x3f800000), bad = h_buffer(world.device, 16);
        trp_buffer c[COUNT];
        trp_completion done = {0};
        trp_error error;
        h_gate_close(&gate, ns);
        /* Behind the gate something fails that should have written `bad`. */
        trp_probe_request wrong = {.action = TRP_PROBE_LIBRARY_ERROR};
        wrong.inputs[0] = gate.buffer;
        wrong.outputs[0] = bad;
        H_OK(trp_probe(probe, &wrong, NULL));
        trp_gemm_list_request r = simple(items, COUNT, a, a);
        for (int i = 0; i < COUNT; i++) {
            c[i] = h_buffer(world.device, 16);
            items[i].c = c[i];
            items[i].c_offset = 0;
        }
        items[2].a = items[4].b = bad;
        H_OK(trp_gemm_list(blas, &r, &done));
        bool closed = h_gate_closed(&gate);
        h_gate_open(&gate);
        trp_status status = h_await(done.future, &error);
        for (int i = 0; i < COUNT; i++) {
            h_read(world.device, c[i], 0, got, sizeof got); /* also of those that failed */
            H_CHECK(i == 2 || i == 4 || got[0] == 2);
        }
        if (!closed)
            continue;
        H_EQUAL(status, TRP_E_DEPENDENCY);
        h_check_says(__FILE__, __LINE__, error.message, "request 2 of the list: ");
        break;
    }
    h_close(&world);
}

/* Cancelling ends all that the device was not given, at once, and leaves their outputs alone. */
static void cancelled(void)
{
    enum { COUNT = 20 };
    trp_gemm_item items[COUNT];
    uint32_t got[COUNT * 4];
    open_world();
    h_gate gate = h_gate_create(world.device, 16);
    for (int round = 0; round < 4; round++) {
        for (int64_t ns = 50 * H_MS;; ns *= 2) {
            trp_buffer a = h_filled(world.device, 16, 0x3f800000);
            trp_buffer c = h_filled(world.device, sizeof got, 0x11111111);
            trp_completion done = {0};
            trp_error error;
            h_gate_close(&gate, ns);
            trp_gemm_list_request r = simple(items, COUNT, a, c);
            items[0].a = gate.buffer;
            H_OK(trp_gemm_list(blas, &r, &done));
            H_OK(trp_cancel(done.future));
            if (round == 3)
                trp_future_drop(done.future);
            else
                H_OK(trp_cancel(done.future)); /* twice is as good */
            trp_status status =
                round == 3 ? TRP_E_CANCELLED : trp_await(done.future, H_LONG, &error);
            bool closed = h_gate_closed(&gate);
            h_gate_open(&gate);
            h_write(world.device, a, 0, got, 0);
            if (closed) {
                H_EQUAL(status, TRP_E_CANCELLED);
                if (round != 3) {
                    h_check_says(__FILE__, __LINE__, error.message, "request 0 of the list: ");
                    h_read(world.device, c, 0, got, sizeof got);
                    for (int i = 0; i < COUNT * 4; i++)
                        H_EQUAL(got[i], 0x11111111);
                }
            }
            H_OK(trp_device_drain(world.device, H_LONG));
            H_OK(trp_buffer_free(world.device, a));
            H_OK(trp_buffer_free(world.device, c));
            if (closed)
                break;
        }
    }
    h_close(&world);
}

/* There is room for all, or nothing is queued. */
static void full_mailbox(void)
{
    enum { MAILBOX = 1024 }; /* for the gate needs room, too */
    static trp_gemm_item items[MAILBOX + 1];
    trp_device_options options = h_options();
    options.mailbox_size = MAILBOX;
    world = h_open(&options);
    blas = h_actor(world.device, "blas");
    h_gate gate = h_gate_create(world.device, 16);
    trp_buffer a = h_filled(world.device, 16, 0x3f800000),
               c = h_buffer(world.device, (MAILBOX + 1) * 16);
    trp_gemm_list_request r = simple(items, MAILBOX + 1, a, c);
    H_IS(trp_gemm_list(blas, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("count: expected 1 to 1024");
    for (int64_t ns = 100 * H_MS;; ns *= 2) {
        trp_completion first = {0}, last = {0};
        h_gate_close(&gate, ns);
        r = simple(items, MAILBOX - 3, a, c);
        items[0].a = gate.buffer;
        H_OK(trp_gemm_list(blas, &r, &first));
        uint64_t sent = h_info(world.device).requests_submitted;
        r = simple(items, 4, a, c);
        r.header.wait_ns = TRP_NOWAIT;
        trp_status status = trp_gemm_list(blas, &r, NULL);
        bool unchanged = h_info(world.device).requests_submitted == sent;
        bool closed = h_gate_closed(&gate);
        r.header.wait_ns = H_LONG; /* until the gate opens */
        H_OK(trp_gemm_list(blas, &r, &last));
        h_gate_open(&gate);
        H_OK(h_await_any(first));
        H_OK(h_await_any(last));
        if (!closed)
            continue;
        H_EQUAL(status, TRP_E_BUSY);
        H_CHECK(unchanged);
        break;
    }
    h_close(&world);
}

/* Workers die with lists in their streams. What can run again does; what can't has failed, and the
 * list says so; its completion comes once. */
static void after_a_death(void)
{
    static list l;
    static trp_gemm_item items[MOST];
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("a fault of a worker that is a thread ends the whole program");
    trp_device_options options = h_options();
    options.restart_budget = 1000;
    world = h_open(&options);
    blas = h_actor(world.device, "blas");
    trp_actor *probe = h_actor(world.device, "probe");
    trp_queue *queue;
    H_OK(trp_queue_create(world.system, &queue));
    int failed = 0;
    for (int round = 0; round < (H_SANITIZED ? 6 : 16); round++) {
        make_list(&l, 1 + (int)below(60));
        trp_gemm_list_request r = request_of(&l, items);
        trp_completion done = {.queue = round % 2 ? queue : NULL}, death = {0};
        trp_event event = {0};
        trp_error error = {0};
        H_OK(trp_gemm_list(blas, &r, &done));
        h_probe(probe, TRP_PROBE_KILL, &death);
        H_IS(h_await(death.future, NULL), TRP_E_FAULT);
        trp_status status;
        if (done.queue) {
            H_OK(trp_queue_next(queue, H_LONG, &event));
            status = event.status;
            error = event.error;
        } else {
            status = trp_await(done.future, H_LONG, &error);
        }
        if (status != TRP_OK) { /* only what reads what it writes */
            H_EQUAL(status, TRP_E_FAULT);
            H_CHECK(l.beta != 0);
            h_check_says(__FILE__, __LINE__, error.message, " of the list: ");
            failed++;
            for (int i = 0; i < l.count; i++)
                free(l.one[i].expected);
        } else {
            check_and_free(&l);
        }
    }
    printf("  %d lists failed\n", failed);
    H_IS(trp_queue_next(queue, 0, &(trp_event){0}), TRP_E_TIMEOUT);
    H_OK(trp_queue_destroy(queue));
    h_close(&world);
}

/* Senders, cancellers and deaths at once, more requests than there are slots: each list ends once,
 * and its slots are used again. */

enum { SENDERS = 3, TURNS = 250, LENGTH = 60 };

typedef struct sender {
    pthread_t thread;
    ref_rng rng;
    trp_buffer in, out;
} sender;

static void *send_lists(void *argument)
{
    const sender *s = argument;
    ref_rng rng = s->rng;
    trp_gemm_item items[LENGTH];
    for (int i = 0; i < (H_SANITIZED ? TURNS / 5 : TURNS); i++) {
        trp_gemm_list_request r =
            simple(items, 1 + (int)ref_rng_below(&rng, LENGTH), s->in, s->out);
        trp_completion done = {0};
        r.header.wait_ns = H_LONG;
        H_OK(trp_gemm_list(blas, &r, ref_rng_below(&rng, 8) ? &done : NULL));
        if (!done.future.id)
            continue;
        if (ref_rng_below(&rng, 3) == 0)
            H_OK(trp_cancel(done.future));
        if (ref_rng_below(&rng, 5) == 0) {
            trp_future_drop(done.future);
            continue;
        }
        trp_status status = trp_await(done.future, H_LONG, NULL);
        H_CHECK(status == TRP_OK || status == TRP_E_CANCELLED || status == TRP_E_FAULT);
        H_IS(trp_await(done.future, 0, NULL), TRP_E_STALE);
    }
    return NULL;
}

static void everything_at_once(void)
{
    sender senders[SENDERS];
    trp_device_options options = h_options();
    options.restart_budget = 1000;
    world = h_open(&options);
    blas = h_actor(world.device, "blas");
    trp_actor *probe = h_actor(world.device, "probe");
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (sender){.rng = h_rng_fork()};
        senders[i].in = h_filled(world.device, 16, 0x3f800000);
        senders[i].out = h_buffer(world.device, LENGTH * 16);
        H_EQUAL(pthread_create(&senders[i].thread, NULL, send_lists, &senders[i]), 0);
    }
    for (int i = 0; h_isolation() == TRP_ISOLATION_PROCESS && i < 4; i++) {
        trp_completion death = {0};
        h_probe(probe, TRP_PROBE_KILL, &death);
        H_IS(h_await(death.future, NULL), TRP_E_FAULT);
    }
    for (int i = 0; i < SENDERS; i++)
        pthread_join(senders[i].thread, NULL);
    H_OK(trp_device_drain(world.device, H_LONG));
    for (int i = 0; i < SENDERS; i++) {
        H_OK(trp_buffer_free(world.device, senders[i].in));
        H_OK(trp_buffer_free(world.device, senders[i].out));
    }
    H_OK(trp_device_drain(world.device, H_LONG));
    H_EQUAL(h_info(world.device).buffers, 0);
    h_close(&world);
}

/* A device that is closed ends its lists, too. */
static void closed_device(void)
{
    trp_gemm_item items[LENGTH];
    open_world();
    trp_queue *queue;
    trp_completion future = {0}, queued = {0};
    H_OK(trp_queue_create(world.system, &queue));
    h_gate gate = h_gate_create(world.device, 16);
    trp_buffer c = h_buffer(world.device, LENGTH * 16);
    h_gate_close(&gate, 200 * H_MS);
    trp_gemm_list_request r = simple(items, LENGTH, gate.buffer, c);
    queued.queue = queue;
    H_OK(trp_gemm_list(blas, &r, &future));
    H_OK(trp_gemm_list(blas, &r, &queued));
    H_OK(trp_gemm_list(blas, &r, NULL));
    trp_device_close(world.device);
    H_IS(trp_await(future.future, 0, NULL), TRP_E_STALE);
    H_OK(trp_queue_destroy(queue)); /* nothing is expected any more */
    trp_system_destroy(world.system);
}

H_CASES(H_CASE(products), H_CASE(chains), H_CASE(bad_input), H_CASE(failures), H_CASE(cancelled),
        H_CASE(full_mailbox), H_CASE(after_a_death), H_CASE(everything_at_once),
        H_CASE(closed_device))
