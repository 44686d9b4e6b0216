#include "support/faults/innocents.h"

enum {
    STREAMS = 32,
    SIDE = 48, /* rows and columns of matrices */
    CELLS = SIDE * SIDE,
    BYTES = CELLS * 4,
    SPINS = 3,
    EACH = SPINS + 2, /* requests of a stream in a round, at most */
};

/* A stream with its own buffers. Odd streams multiply, by one of two actors: product = alpha A B,
 * result = product A. Even streams read their `a` for a while, fill it, and copy it. */
typedef struct stream {
    trp_actor *actor;
    bool matmul;
    trp_buffer a, b, product, result;
    float *a_values, *b_values; /* small integers, so that all arithmetic is exact */
    float *got;
    trp_completion c[EACH];
    int sent;
} stream;

typedef struct court {
    h_world w;
    stream stream[STREAMS];
    trp_actor *culprit;
    trp_buffer evidence, scratch;
    int round;
} court;

static float *small_numbers(void)
{
    float *values = h_malloc(BYTES);
    for (int i = 0; i < CELLS; i++)
        values[i] = (float)((int)ref_rng_below(h_rng(), 5) - 2);
    return values;
}

/* Creates the actor of a stream; blas stands in where the backend lacks it. */
static void create_actor(stream *s, int i, trp_device *device)
{
    static const char *const kinds[] = {"probe", "blas", "probe", "matmul"};
    trp_actor_options options = {.kind = kinds[i % 4]};
    trp_status status = trp_actor_create(device, &options, &s->actor);
    s->matmul = i % 4 == 3 && status == TRP_OK;
    if (status == TRP_E_UNSUPPORTED && i % 4 == 3)
        s->actor = h_actor(device, "blas");
    else
        H_OK(status);
}

static void open_court(court *k)
{
    k->w = h_open(NULL);
    trp_device *d = k->w.device;
    for (int i = 0; i < STREAMS; i++) {
        stream *s = &k->stream[i];
        create_actor(s, i, d);
        s->a = h_buffer(d, BYTES);
        s->b = h_buffer(d, BYTES);
        s->product = h_buffer(d, BYTES);
        s->result = h_buffer(d, BYTES);
        s->a_values = small_numbers();
        s->b_values = small_numbers();
        s->got = h_malloc(BYTES);
        h_write(d, s->a, 0, s->a_values, BYTES);
        h_write(d, s->b, 0, s->b_values, BYTES);
    }
    k->culprit = h_actor(d, "probe");
    k->evidence = h_buffer(d, BYTES);
    k->scratch = h_buffer(d, BYTES);
}

static void close_court(court *k)
{
    for (int i = 0; i < STREAMS; i++) {
        free(k->stream[i].a_values);
        free(k->stream[i].b_values);
        free(k->stream[i].got);
    }
    h_close(&k->w);
}

static trp_completion *next_of(stream *s)
{
    H_CHECK(s->sent < EACH);
    s->c[s->sent] = (trp_completion){0};
    return &s->c[s->sent++];
}

static float alpha_of(const court *k, int i)
{
    return (float)(k->round % 7 + i % 3 + 1);
}

static void send_product(stream *s, trp_buffer left, trp_buffer right, trp_buffer out, float alpha)
{
    const trp_matmul_request matmul = {.m = SIDE,
                                       .n = SIDE,
                                       .k = SIDE,
                                       .alpha = trp_real((double)alpha),
                                       .a = {.buffer = left, .type = TRP_F32},
                                       .b = {.buffer = right},
                                       .d = {.buffer = out}};
    const trp_gemm_request gemm = {.type = TRP_F32,
                                   .m = SIDE,
                                   .n = SIDE,
                                   .k = SIDE,
                                   .alpha = trp_real((double)alpha),
                                   .a = left,
                                   .b = right,
                                   .c = out};
    H_OK(s->matmul ? trp_matmul(s->actor, &matmul, next_of(s))
                   : trp_gemm(s->actor, &gemm, next_of(s)));
}

/* Sends one part of a stream's work in this round. The parts of all streams are sent in turn. */
static void send_part(court *k, int i, int part)
{
    stream *s = &k->stream[i];
    if (i % 2 && part == 0)
        send_product(s, s->a, s->b, s->product, alpha_of(k, i));
    else if (i % 2 && part == 1)
        send_product(s, s->product, s->a, s->result, 1);
    else if (i % 2 == 0)
        H_OK(trp_probe(
            s->actor,
            &(trp_probe_request){.action = TRP_PROBE_SPIN,
                                 .duration_ns = (uint64_t)ref_rng_below(h_rng(), 300) * 1000,
                                 .inputs = {s->a}},
            next_of(s)));
}

static uint32_t fill_of(const court *k, int i)
{
    return (uint32_t)(k->round * STREAMS + i) * 2654435761u;
}

static void send_fills(court *k)
{
    for (int i = 0; i < STREAMS; i += 2) {
        stream *s = &k->stream[i];
        H_OK(trp_fill(k->w.device, s->a, 0, BYTES, fill_of(k, i), 4, next_of(s)));
        H_OK(trp_copy(k->w.device, s->a, 0, s->result, 0, BYTES, next_of(s)));
    }
}

/* Sends the culprit at a random position among the other requests. */
static void send_round(court *k, trp_probe_action action, trp_completion *guilty)
{
    int at = (int)ref_rng_below(h_rng(), SPINS * STREAMS);
    for (int n = 0; n < SPINS * STREAMS; n++) {
        if (n == at)
            H_OK(trp_probe(k->culprit,
                           &(trp_probe_request){
                               .action = action, .inputs = {k->scratch}, .outputs = {k->evidence}},
                           guilty));
        send_part(k, n % STREAMS, n / STREAMS);
    }
    send_fills(k);
}

/* Computes both products of a stream, column-major, exactly. */
static void multiply(const float *left, const float *right, float alpha, float *out)
{
    for (int column = 0; column < SIDE; column++) {
        for (int row = 0; row < SIDE; row++) {
            float sum = 0;
            for (int i = 0; i < SIDE; i++)
                sum += left[i * SIDE + row] * right[column * SIDE + i];
            out[column * SIDE + row] = alpha * sum;
        }
    }
}

static void check_results(court *k)
{
    static float product[CELLS], result[CELLS];
    for (int i = 0; i < STREAMS; i++) {
        stream *s = &k->stream[i];
        if (i % 2) {
            multiply(s->a_values, s->b_values, alpha_of(k, i), product);
            multiply(product, s->a_values, 1, result);
        } else {
            uint32_t word = fill_of(k, i);
            for (int n = 0; n < CELLS; n++)
                memcpy(&result[n], &word, sizeof word);
        }
        H_CHECK(!h_buffer_info(k->w.device, s->result).lost);
        h_read(k->w.device, s->result, 0, s->got, BYTES);
        H_SAME(s->got, result, BYTES);
    }
}

static void check_guilty(court *k, trp_completion guilty, const trp_device_info *before)
{
    trp_error error;
    H_IS(h_await(guilty.future, &error), TRP_E_FAULT);
    H_CHECK(error.fault != TRP_FAULT_NONE);
    H_CHECK(strcmp(error.actor, "probe") == 0);
    H_CHECK(error.incarnation >= before->incarnation);
    H_CHECK(h_buffer_info(k->w.device, k->evidence).lost);
}

static void hold_round(court *k, trp_probe_action action)
{
    trp_device_info before = h_info(k->w.device);
    trp_completion guilty = {0};
    for (int i = 0; i < STREAMS; i++)
        k->stream[i].sent = 0;
    send_round(k, action, &guilty);
    for (int i = 0; i < STREAMS; i++) {
        for (int n = 0; n < k->stream[i].sent; n++)
            H_OK(h_await_any(k->stream[i].c[n]));
    }
    check_guilty(k, guilty, &before);
    h_await_state(k->w.device,
                  /* senders learn of the fault before the next worker is ready */
                  TRP_DEVICE_READY);
    trp_device_info after = h_info(k->w.device);
    H_EQUAL(after.requests_failed, before.requests_failed + 1);
    H_CHECK(after.restarts > before.restarts);
    check_results(k);
}

void h_innocents(int rounds, const trp_probe_action *actions, size_t action_count)
{
    static court k;
    const char *text = getenv("TROUPE_TEST_ROUNDS");
    if (text && *text)
        rounds = atoi(text);
    H_CHECK(rounds > 0);
    open_court(&k);
    for (k.round = 0; k.round < rounds; k.round++)
        hold_round(&k, actions[(size_t)k.round % action_count]);
    trp_device_info info = h_info(k.w.device);
    printf("  %d rounds of %d streams: %" PRIu64 " requests, %" PRIu64 " errors, %u workers "
           "replaced\n",
           rounds, STREAMS, info.requests_submitted, info.requests_failed, info.restarts);
    H_EQUAL(info.requests_failed, rounds);
    close_court(&k);
}
