/* Order: what a request reads is what was written before it was sent, whichever actors are
 * involved. A sequential model in float64 runs beside; small whole numbers keep all arithmetic
 * exact. */
#include "support/harness.h"

#include <math.h>

TROUPE_TEST_FAKE_GPU("FAKE_CUDA_QUEUES=1");

enum { N = 6, CELLS = N * N, BUFFERS = 8, ACTORS = 4 };

typedef struct model {
    double cell[BUFFERS][CELLS];
} model;

static void wrap(double *cell)
{
    /* Exact in float64 for ever: values stay small. */
    for (int i = 0; i < CELLS; i++)
        cell[i] = fmod(cell[i], 1024);
}

static void model_gemm(model *m, size_t a, size_t b, size_t c, double alpha, double beta)
{
    double out[CELLS];
    for (int j = 0; j < N; j++) {
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += m->cell[a][k * N + i] * m->cell[b][j * N + k];
            out[j * N + i] = alpha * sum + (beta != 0 ? beta * m->cell[c][j * N + i] : 0);
        }
    }
    memcpy(m->cell[c], out, sizeof out);
}

static double largest(const double *cell)
{
    double most = 0;
    for (int i = 0; i < CELLS; i++)
        most = fmax(most, fabs(cell[i]));
    return most;
}

typedef struct bench {
    h_world w;
    trp_actor *blas[ACTORS], *probe[2];
    trp_buffer buffer[BUFFERS];
    model m;
    trp_completion read[64];
    double got[64][CELLS], want[64][CELLS];
    int reads;
    double source[256][CELLS];
    int writes;
} bench;

static void write_random(bench *t, ref_rng *rng, size_t k)
{
    double *source = t->source[t->writes++ % 256];
    for (int i = 0; i < CELLS; i++)
        t->m.cell[k][i] = source[i] = (double)ref_rng_below(rng, 9) - 4;
    H_OK(trp_write(t->w.device, t->buffer[k], 0, source, sizeof(double) * CELLS, NULL));
}

/* Three different buffers. */
static void pick(ref_rng *rng, size_t out[3])
{
    do {
        for (int i = 0; i < 3; i++)
            out[i] = ref_rng_below(rng, BUFFERS);
    } while (out[2] == out[0] || out[2] == out[1]);
}

static void one_step(bench *t, ref_rng *rng)
{
    trp_device *d = t->w.device;
    size_t b[3], action = ref_rng_below(rng, 20);
    pick(rng, b);
    if (action < 9) {
        /* Only where the result stays exact. */
        double beta = ref_rng_below(rng, 2) ? 1 : 0;
        if (largest(t->m.cell[b[0]]) * largest(t->m.cell[b[1]]) * N + largest(t->m.cell[b[2]]) >
            1e12) {
            write_random(t, rng, b[0]);
            return;
        }
        H_OK(trp_gemm(t->blas[ref_rng_below(rng, ACTORS)],
                      &(trp_gemm_request){.type = TRP_F64,
                                          .m = N,
                                          .n = N,
                                          .k = N,
                                          .a = t->buffer[b[0]],
                                          .b = t->buffer[b[1]],
                                          .c = t->buffer[b[2]],
                                          .alpha = trp_real(-1),
                                          .beta = trp_real(beta),
                                          .header = {.wait_ns = H_LONG}},
                      NULL));
        model_gemm(&t->m, b[0], b[1], b[2], -1, beta);
    } else if (action < 12) {
        H_OK(trp_copy(d, t->buffer[b[0]], 0, t->buffer[b[2]], 0, sizeof(double) * CELLS, NULL));
        memcpy(t->m.cell[b[2]], t->m.cell[b[0]], sizeof t->m.cell[0]);
    } else if (action < 13) {
        size_t half = sizeof(double) * CELLS / 2;
        H_OK(trp_copy(d, t->buffer[b[0]], half, t->buffer[b[2]], 0, half, NULL));
        memcpy(t->m.cell[b[2]], (char *)t->m.cell[b[0]] + half, half);
    } else if (action < 14) {
        H_OK(trp_fill(d, t->buffer[b[0]], 0, sizeof(double) * CELLS, 0, 4, NULL));
        memset(t->m.cell[b[0]], 0, sizeof t->m.cell[0]);
    } else if (action < 16) {
        write_random(t, rng, b[0]);
    } else if (action < 17) {
        /* Work that takes time, in the way of a reader or a writer. */
        trp_probe_request spin = {.action = TRP_PROBE_SPIN,
                                  .duration_ns = ref_rng_below(rng, 300000)};
        if (ref_rng_below(rng, 2))
            spin.inputs[0] = t->buffer[b[0]];
        else
            spin.outputs[1] = t->buffer[b[0]];
        spin.header.wait_ns = H_LONG;
        H_OK(trp_probe(t->probe[ref_rng_below(rng, 2)], &spin, NULL));
    } else if (t->reads < 64) {
        int i = t->reads++;
        memcpy(t->want[i], t->m.cell[b[0]], sizeof t->want[i]);
        t->read[i] = (trp_completion){0};
        H_OK(trp_read(d, t->buffer[b[0]], 0, t->got[i], sizeof t->got[i], &t->read[i]));
    }
}

/* Equal as numbers: the sign of a zero is the library's business. */
static void check_cells(const double *got, const double *want)
{
    for (int i = 0; i < CELLS; i++) {
        if (got[i] != want[i])
            h_fail(__FILE__, __LINE__, "cell %d is %g, the model has %g", i, got[i], want[i]);
    }
}

static void check_reads(bench *t)
{
    for (int i = 0; i < t->reads; i++) {
        H_OK(h_await_any(t->read[i]));
        check_cells(t->got[i], t->want[i]);
    }
    H_OK(trp_device_drain(t->w.device, H_LONG)); /* now the sources may change */
    t->reads = 0;
    t->writes = 0;
}

static bench *begin(void)
{
    bench *t = h_malloc(sizeof *t);
    memset(t, 0, sizeof *t);
    t->w = h_open(NULL);
    for (int i = 0; i < ACTORS; i++)
        t->blas[i] = h_actor(t->w.device, "blas");
    for (int i = 0; i < 2; i++)
        t->probe[i] = h_actor(t->w.device, "probe");
    for (size_t i = 0; i < BUFFERS; i++) {
        t->buffer[i] = h_buffer(t->w.device, sizeof(double) * CELLS);
        write_random(t, h_rng(), i);
    }
    return t;
}

static void end(bench *t)
{
    for (size_t i = 0; i < BUFFERS; i++) {
        h_read(t->w.device, t->buffer[i], 0, t->got[0], sizeof t->got[0]);
        check_cells(t->got[0], t->m.cell[i]);
    }
    H_EQUAL(h_info(t->w.device).requests_failed, 0);
    h_close(&t->w);
    free(t);
}

static void random_programs(void)
{
    bench *t = begin();
    const int rounds = H_SANITIZED ? 40 : 250;
    for (int round = 0; round < rounds; round++) {
        /* At most as many steps as there are sources that must stay unchanged. */
        for (int step = 0; step < 200; step++)
            one_step(t, h_rng());
        check_reads(t);
        for (size_t i = 0; i < BUFFERS; i++) {
            if (largest(t->m.cell[i]) > 1e6) {
                wrap(t->m.cell[i]);
                h_write(t->w.device, t->buffer[i], 0, t->m.cell[i], sizeof t->m.cell[i]);
            }
        }
    }
    end(t);
}

/* A buffer freed and made again between the steps: orders of the old must not touch the new. */
static void with_new_buffers(void)
{
    bench *t = begin();
    for (int round = 0; round < (H_SANITIZED ? 20 : 100); round++) {
        for (int step = 0; step < 60; step++) {
            one_step(t, h_rng());
            if (step % 8 == 0) {
                size_t k = ref_rng_below(h_rng(), BUFFERS);
                H_OK(trp_buffer_free(t->w.device, t->buffer[k]));
                t->buffer[k] = h_buffer(t->w.device, sizeof(double) * CELLS);
                write_random(t, h_rng(), k);
            }
        }
        check_reads(t);
    }
    end(t);
}

static void fill_word(bench *t, size_t k, uint32_t value)
{
    H_OK(trp_fill(t->w.device, t->buffer[k], 0, sizeof(double) * CELLS, value, 4, NULL));
}

/* The three hazards one by one, with a spin that holds back the first of the two. */
static void hazards(void)
{
    bench *t = begin();
    trp_device *d = t->w.device;
    for (int round = 0; round < 20; round++) {
        uint32_t got[2] = {0, 0};
        trp_completion c[2] = {{0}};
        trp_probe_request hold = {.action = TRP_PROBE_SPIN, .duration_ns = 3 * (uint64_t)H_MS};
        /* Read after write: copy waits for the spin that "writes" its source. */
        fill_word(t, 0, 1);
        fill_word(t, 1, 2);
        hold.outputs[0] = t->buffer[0];
        H_OK(trp_probe(t->probe[0], &hold, NULL));
        fill_word(t, 0, 3);
        H_OK(trp_copy(d, t->buffer[0], 0, t->buffer[1], 0, 4, NULL));
        H_OK(trp_read(d, t->buffer[1], 0, &got[0], 4, &c[0]));
        /* Write after read: the fill waits for the spin that reads, and the copy before it. */
        memset(&hold.outputs, 0, sizeof hold.outputs);
        hold.inputs[2] = t->buffer[1];
        H_OK(trp_probe(t->probe[1], &hold, NULL));
        fill_word(t, 1, 4);
        H_OK(trp_read(d, t->buffer[1], 0, &got[1], 4, &c[1]));
        /* Write after write: the last one stays. */
        fill_word(t, 1, 5);
        H_OK(h_await_any(c[0]));
        H_OK(h_await_any(c[1]));
        H_EQUAL(got[0], 3);
        H_EQUAL(got[1], 4);
        h_read(d, t->buffer[1], 0, got, 4);
        H_EQUAL(got[0], 5);
        memset(&hold.inputs, 0, sizeof hold.inputs);
    }
    for (size_t i = 0; i < BUFFERS; i++)
        write_random(t, h_rng(), i);
    H_OK(trp_device_drain(d, H_LONG));
    end(t);
}

/* A value handed from actor to actor, 2,000 times; then twenty readers of it at once, and a writer
 * that has to wait for all of them. */
static void relay(void)
{
    bench *t = begin();
    trp_device *d = t->w.device;
    double identity[CELLS] = {0}, one[CELLS] = {0}, got[CELLS];
    const int hops = H_SANITIZED ? 300 : 2000;
    for (int i = 0; i < N; i++)
        identity[i * N + i] = one[i] = 1;
    h_write(d, t->buffer[0], 0, identity, sizeof identity);
    h_write(d, t->buffer[1], 0, one, sizeof one);
    h_write(d, t->buffer[2], 0, one, sizeof one);
    h_write(d, t->buffer[3], 0, one, sizeof one);
    for (int i = 0; i < hops; i++) {
        /* 2 += 1, then 3 = 2, each by another actor. */
        trp_gemm_request r = {.type = TRP_F64,
                              .m = N,
                              .n = N,
                              .k = N,
                              .a = t->buffer[0],
                              .b = t->buffer[i % 2 ? 2 : 1],
                              .c = t->buffer[i % 2 ? 3 : 2],
                              .beta = trp_real(i % 2 ? 0 : 1),
                              .header = {.wait_ns = H_LONG}};
        H_OK(trp_gemm(t->blas[i % ACTORS], &r, NULL));
    }
    h_read(d, t->buffer[3], 0, got, sizeof got);
    for (int i = 0; i < CELLS; i++)
        H_CHECK(got[i] == (i < N ? 1.0 + hops / 2 : 0.0));
    for (int round = 0; round < 50; round++) {
        trp_completion c[20] = {{0}};
        double many[20][CELLS];
        for (int i = 0; i < 20; i++)
            H_OK(trp_read(d, t->buffer[3], 0, many[i], sizeof many[i], &c[i]));
        fill_word(t, 3, 0);
        for (int i = 0; i < 20; i++) {
            H_OK(h_await_any(c[i]));
            H_SAME(many[i], got, sizeof got);
        }
        H_OK(trp_copy(d, t->buffer[2], 0, t->buffer[3], 0, sizeof got, NULL));
        h_read(d, t->buffer[3], 0, got, sizeof got);
    }
    for (size_t i = 0; i < BUFFERS; i++)
        write_random(t, h_rng(), i);
    H_OK(trp_device_drain(d, H_LONG));
    end(t);
}

/* Requests that share nothing run at the same time, even though each is sent before the other has
 * ended: two spins that are each other's neighbours take less than both one after the other. The
 * bound is generous and a slow machine gets several attempts. */
static void overlap(void)
{
    h_world w = h_open(NULL);
    trp_actor *a = h_actor(w.device, "probe"), *b = h_actor(w.device, "probe");
    bool overlapped = false;
    for (int i = 0; i < 10 && !overlapped; i++) {
        trp_completion ca = {0}, cb = {0};
        int64_t start = h_now();
        h_spin(a, 100 * H_MS, &ca);
        h_spin(b, 100 * H_MS, &cb);
        H_OK(h_await_any(ca));
        H_OK(h_await_any(cb));
        overlapped = h_now() - start < 190 * H_MS;
    }
    H_CHECK(overlapped);
    /* On one actor they don't. */
    trp_completion ca = {0}, cb = {0};
    int64_t start = h_now();
    h_spin(a, 50 * H_MS, &ca);
    h_spin(a, 50 * H_MS, &cb);
    H_OK(h_await_any(cb));
    H_CHECK(h_now() - start >= 99 * H_MS);
    H_OK(trp_await(ca.future, 0, NULL));
    h_close(&w);
}

typedef struct client {
    trp_device *device;
    ref_rng rng;
} client;

/* A thread with buffers and actors of its own: its order must hold beside the others'. */
static void *own_chain(void *argument)
{
    client *c = argument;
    enum { WORDS = 5000 };
    trp_buffer a = h_buffer(c->device, WORDS * 4), b = h_buffer(c->device, WORDS * 4);
    trp_actor *probe = h_actor(c->device, "probe");
    uint32_t *got = h_malloc(WORDS * 4);
    for (int i = 0; i < (H_SANITIZED ? 60 : 400); i++) {
        uint32_t value = (uint32_t)ref_rng_next(&c->rng);
        trp_completion done = {0};
        H_OK(trp_fill(c->device, a, 0, WORDS * 4, value, 4, NULL));
        H_OK(trp_probe(probe,
                       &(trp_probe_request){.action = TRP_PROBE_SPIN,
                                            .duration_ns = ref_rng_below(&c->rng, 50000),
                                            .outputs = {a}},
                       NULL));
        H_OK(trp_copy(c->device, a, 0, b, 0, WORDS * 4, NULL));
        H_OK(trp_fill(c->device, a, 0, WORDS * 4, ~value, 4, NULL));
        H_OK(trp_read(c->device, b, 0, got, WORDS * 4, &done));
        H_OK(h_await_any(done));
        for (int k = 0; k < WORDS; k++)
            H_CHECK(got[k] == value);
    }
    trp_actor_destroy(probe);
    H_OK(trp_buffer_free(c->device, a));
    H_OK(trp_buffer_free(c->device, b));
    free(got);
    return NULL;
}

static void many_chains(void)
{
    enum { THREADS = 8 };
    h_world w = h_open(NULL);
    client c[THREADS];
    h_thread *thread[THREADS];
    for (int i = 0; i < THREADS; i++) {
        c[i] = (client){.device = w.device, .rng = h_rng_fork()};
        thread[i] = h_start(own_chain, &c[i]);
    }
    for (int i = 0; i < THREADS; i++)
        h_join(thread[i]);
    h_close(&w);
}

H_CASES(H_CASE(random_programs), H_CASE(with_new_buffers), H_CASE(hazards), H_CASE(relay),
        H_CASE(overlap), H_CASE(many_chains))
