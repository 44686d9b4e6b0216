/* Results that travel to the sender's own memory with the end of a request: the same bytes as in a
 * buffer, there before the end is told, and only if it is a good one. */
#include "support/gate.h"
#include "support/harness.h"

#include <troupe/troupe.h>

TROUPE_TEST_FAKE_GPU("no sanitizer", "FAKE_CUDA_ADDRESS_SHIFT=0x100000000000");

enum { N = 37, MOST = 32, GUARD = 16, ROOM = 256 };

static h_world world;
static trp_actor *blas;

static const trp_dtype types[] = {TRP_F32, TRP_F64, TRP_C64, TRP_C128};

static const struct {
    uint32_t op;
    size_t elements, reals, bytes; /* of the result */
    bool two;
} ops[] = {
    {TRP_OP_DOT, 1, 0, 0, true},   {TRP_OP_DOTC, 1, 0, 0, true},   {TRP_OP_NRM2, 0, 1, 0, false},
    {TRP_OP_ASUM, 0, 1, 0, false}, {TRP_OP_IAMAX, 0, 0, 8, false}, {TRP_OP_IAMIN, 0, 0, 8, false},
    {TRP_OP_ROTG, 2, 0, 0, true},
};
enum { OPS = sizeof ops / sizeof *ops };

static size_t size_of(trp_dtype type)
{
    return trp_dtype_bits(type) / 8;
}

static size_t result_bytes(int op, trp_dtype type)
{
    size_t real = size_of(type) / (type == TRP_C64 || type == TRP_C128 ? 2 : 1);
    return ops[op].elements * size_of(type) + ops[op].reals * real + ops[op].bytes;
}

static void open_world(void)
{
    world = h_open(NULL);
    blas = h_actor(world.device, "blas");
}

/* A buffer of N elements of the type. */
static trp_buffer vector(trp_dtype type)
{
    char bytes[N * 16];
    size_t reals = N * size_of(type) / (type == TRP_F32 || type == TRP_C64 ? 4 : 8);
    for (size_t i = 0; i < reals; i++)
        ref_store(type == TRP_F32 || type == TRP_C64 ? REF_F32 : REF_F64, bytes, i,
                  ref_rng_uniform(h_rng(), -1, 1));
    trp_buffer b = h_buffer(world.device, N * size_of(type));
    h_write(world.device, b, 0, bytes, N * size_of(type));
    return b;
}

static trp_blas1_request request(uint32_t op, trp_dtype type, trp_buffer x, trp_buffer y)
{
    return (trp_blas1_request){.header = {.op = op, .size = sizeof(trp_blas1_request)},
                               .type = type,
                               .n = N,
                               .x = x,
                               .y = y};
}

/* Memory of a result, at an odd address between guards. */
typedef struct target {
    unsigned char bytes[GUARD + 1 + MOST + GUARD];
} target;

static void *value_of(target *t)
{
    memset(t->bytes, 0xa5, sizeof t->bytes);
    return t->bytes + GUARD + 1;
}

static void expect_guards(const target *t, size_t bytes)
{
    for (size_t i = 0; i < sizeof t->bytes; i++)
        H_CHECK((i >= GUARD + 1 && i < GUARD + 1 + bytes) || t->bytes[i] == 0xa5);
}

/* Each operation with its result in a buffer and in memory; and a sum of nothing. */
static void same_as_in_a_buffer(void)
{
    open_world();
    trp_queue *queue;
    H_OK(trp_queue_create(world.system, &queue));
    for (int op = 0; op < OPS; op++) {
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            size_t bytes = result_bytes(op, types[t]);
            unsigned char in_buffer[MOST] = {0};
            target in_memory;
            trp_buffer x = vector(types[t]), y = vector(types[t]);
            trp_buffer copy = h_buffer(world.device, 2 * size_of(types[t]));
            trp_buffer result = h_buffer(world.device, MOST);
            h_fill(world.device, result, 0);
            trp_blas1_request r =
                request(ops[op].op, types[t], x, ops[op].two ? y : (trp_buffer){0});
            /* rotg changes what it reads. */
            H_OK(trp_copy(world.device, x, 0, copy, 0, size_of(types[t]), NULL));
            H_OK(trp_copy(world.device, y, 0, copy, size_of(types[t]), size_of(types[t]), NULL));
            r.result = result;
            H_OK(trp_submit(blas, &r.header, NULL));
            h_read(world.device, result, 0, in_buffer, bytes);
            H_OK(trp_copy(world.device, copy, 0, x, 0, size_of(types[t]), NULL));
            H_OK(trp_copy(world.device, copy, size_of(types[t]), y, 0, size_of(types[t]), NULL));
            r.result = (trp_buffer){0};
            r.value = value_of(&in_memory);
            trp_completion done = {.queue = op % 2 ? queue : NULL, .user_data = &r};
            H_OK(trp_submit(blas, &r.header, &done));
            trp_event event;
            if (done.queue) {
                H_OK(trp_queue_next(queue, H_LONG, &event));
                H_CHECK(event.user_data == &r && event.status == TRP_OK);
            } else {
                H_OK(h_await_any(done));
            }
            H_SAME(r.value, in_buffer, bytes);
            expect_guards(&in_memory, bytes);
            if (ops[op].op != TRP_OP_ROTG) {
                r.n = 0;
                r.value = value_of(&in_memory);
                memset(in_buffer, 0, sizeof in_buffer);
                done = (trp_completion){0};
                H_OK(trp_submit(blas, &r.header, &done));
                H_OK(h_await_any(done));
                H_SAME(r.value, in_buffer, bytes);
                expect_guards(&in_memory, bytes);
            }
            const trp_buffer used[] = {x, y, copy, result};
            for (int i = 0; i < 4; i++)
                H_OK(trp_buffer_free(world.device, used[i]));
        }
    }
    H_OK(trp_queue_destroy(queue));
    h_close(&world);
}

static void refusals(void)
{
    open_world();
    target t;
    trp_completion done = {0};
    trp_buffer x = vector(TRP_F32), y = vector(TRP_F32);
    trp_blas1_request r = request(TRP_OP_DOT, TRP_F32, x, y);
    H_IS(trp_submit(blas, &r.header, &done), TRP_E_ARGUMENT);
    H_SAYS("result: expected a buffer, or a pointer in `value`, got none");
    r.value = value_of(&t);
    r.result = x;
    H_IS(trp_submit(blas, &r.header, &done), TRP_E_ARGUMENT);
    H_SAYS("value: expected none beside `result`");
    r = request(TRP_OP_AXPY, TRP_F32, x, y);
    r.value = value_of(&t);
    H_IS(trp_submit(blas, &r.header, &done), TRP_E_ARGUMENT);
    H_SAYS("value: expected none: the operation has no result");
    r = request(TRP_OP_DOT, TRP_F32, x, x);
    r.n = N + 1;
    r.value = value_of(&t);
    for (int i = 0; i < 2 * ROOM; i++) /* what is refused holds nothing */
        H_IS(trp_submit(blas, &r.header, &done), TRP_E_ARGUMENT);
    r.n = N;
    H_OK(trp_submit(blas, &r.header, &done));
    H_OK(h_await_any(done));
    h_close(&world);
}

/* Sums of squares of vectors of one number, so that each is known. */
static trp_buffer constant(float number)
{
    float x[N];
    for (int i = 0; i < N; i++)
        x[i] = number;
    trp_buffer b = h_buffer(world.device, sizeof x);
    h_write(world.device, b, 0, x, sizeof x);
    return b;
}

/* A dot of the gate's buffer, which holds zeros, and of x. */
static trp_blas1_request gated(const h_gate *gate, trp_buffer x, void *value)
{
    trp_blas1_request r = request(TRP_OP_DOT, TRP_F32, gate->buffer, x);
    r.value = value;
    return r;
}

/* What does not succeed writes nothing. */
static void not_written_on_failure(void)
{
    open_world();
    h_gate gate = h_gate_create(world.device, N * sizeof(float));
    trp_buffer two = constant(2);
    for (int64_t ns = 50 * H_MS;; ns *= 2) {
        target cancelled, dropped, done;
        trp_completion c[3] = {{0}};
        h_gate_close(&gate, ns);
        trp_blas1_request r = gated(&gate, two, value_of(&cancelled));
        H_OK(trp_submit(blas, &r.header, &c[0]));
        r.value = value_of(&dropped);
        H_OK(trp_submit(blas, &r.header, &c[1]));
        r.value = value_of(&done);
        H_OK(trp_submit(blas, &r.header, &c[2]));
        H_OK(trp_cancel(c[0].future));
        H_OK(trp_cancel(c[1].future));
        trp_future_drop(c[1].future);
        bool closed = h_gate_closed(&gate);
        h_gate_open(&gate);
        trp_status status = h_await(c[0].future, NULL);
        H_OK(h_await(c[2].future, NULL));
        float sum;
        memcpy(&sum, done.bytes + GUARD + 1, sizeof sum);
        H_CHECK(sum == 0);
        expect_guards(&done, sizeof sum);
        if (!closed)
            continue;
        H_EQUAL(status, TRP_E_CANCELLED);
        expect_guards(&cancelled, 0);
        expect_guards(&dropped, 0);
        break;
    }
    h_close(&world);
}

/* There is room for as many results as for requests; small copies do not share it. */
static void room_for_many(void)
{
    static float values[ROOM + 50];
    open_world();
    h_gate gate = h_gate_create(world.device, N * sizeof(float));
    trp_buffer two = constant(2);
    for (int64_t ns = 200 * H_MS;; ns *= 2) {
        trp_completion c[ROOM] = {{0}};
        float late = 1;
        h_gate_close(&gate, ns);
        for (int i = 0; i < ROOM; i++) {
            trp_blas1_request r = gated(&gate, two, &values[i]);
            values[i] = -1;
            H_OK(trp_submit(blas, &r.header, &c[i]));
        }
        trp_completion copy = {0};
        H_OK(trp_read(world.device, two, 0, &late, sizeof late, &copy));
        H_OK(h_await_any(copy));
        H_CHECK(late == 2);
        bool closed = h_gate_closed(&gate);
        h_gate_open(&gate);
        for (int i = 0; i < ROOM; i++) {
            H_OK(h_await_any(c[i]));
            H_CHECK(values[i] == 0);
        }
        H_OK(trp_device_drain(world.device, H_LONG));
        if (!closed)
            continue;
        break;
    }
    for (int i = 0; i < ROOM + 50; i++) { /* nobody awaits them one by one */
        trp_blas1_request r = request(TRP_OP_DOT, TRP_F32, two, two);
        r.value = &values[i];
        H_OK(trp_submit(blas, &r.header, NULL));
    }
    H_OK(trp_device_drain(world.device, H_LONG));
    for (int i = 0; i < ROOM + 50; i++)
        H_CHECK(values[i] == 4 * N);
    h_close(&world);
}

/* A worker dies: what was in flight runs again, and its result comes from the next worker. */
static void after_a_death(void)
{
    enum { COUNT = 40 };
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("a fault of a worker that is a thread ends the whole program");
    open_world();
    trp_actor *probe = h_actor(world.device, "probe");
    trp_buffer x[2] = {constant(1), constant(3)};
    for (int round = 0; round < 3; round++) {
        trp_completion c[COUNT] = {{0}}, death = {0};
        float sums[COUNT];
        for (int i = 0; i < COUNT; i++) {
            trp_blas1_request r = request(TRP_OP_DOT, TRP_F32, x[i % 2], x[1]);
            r.value = &sums[i];
            sums[i] = -1;
            H_OK(trp_submit(blas, &r.header, &c[i]));
        }
        h_probe(probe, TRP_PROBE_KILL, &death);
        H_IS(h_await(death.future, NULL), TRP_E_FAULT);
        for (int i = 0; i < COUNT; i++) {
            H_OK(h_await_any(c[i]));
            H_CHECK(sums[i] == (i % 2 ? 9 : 3) * N);
        }
    }
    h_close(&world);
}

H_CASES(H_CASE(same_as_in_a_buffer), H_CASE(refusals), H_CASE(not_written_on_failure),
        H_CASE(room_for_many), H_CASE(after_a_death))
