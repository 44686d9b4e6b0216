/* What the death of a worker costs with each fault_scope: buffers that nobody uses, requests in the
 * queue, requests of others that were in flight. */
#include "support/harness.h"

#include <signal.h>

static const trp_buffer none;

static void kill_process(int64_t pid)
{
    if (pid > 0)
        kill((pid_t)pid, SIGKILL);
}

static trp_completion probe_with(trp_actor *probe, trp_probe_action action, trp_buffer output)
{
    trp_completion c = {0};
    H_OK(trp_probe(probe, &(trp_probe_request){.action = action, .outputs = {output}}, &c));
    return c;
}

static void check_sealed(trp_device *device, trp_buffer b)
{
    trp_buffer_info info = h_buffer_info(device, b);
    H_CHECK(info.sealed && !info.lost);
}

static h_world open_scope(trp_fault_scope scope)
{
    trp_device_options options = h_options();
    options.fault_scope = scope;
    return h_open(&options);
}

static uint32_t word_of(trp_device *device, trp_buffer b)
{
    uint32_t word = 0;
    h_read(device, b, 0, &word, 4);
    return word;
}

/* What is idle when the worker dies. */
static void scope_of_the_idle(void)
{
    enum { BYTES = 1000 };
    static const trp_probe_action ways[] = {TRP_PROBE_SEGV, TRP_PROBE_KILL, TRP_PROBE_SPIN,
                                            TRP_PROBE_ILLEGAL_ADDRESS, TRP_PROBE_EXIT};
    for (int scope = 0; scope < 2; scope++) {
        h_world w = open_scope((trp_fault_scope)scope);
        trp_device *d = w.device;
        trp_actor *probe = h_actor(d, "probe");
        trp_buffer x = h_buffer(d, BYTES), s = h_sealable(d, BYTES), open = h_sealable(d, BYTES);
        H_OK(trp_fill(d, s, 0, BYTES, 5, 4, NULL));
        H_OK(trp_buffer_seal(d, s, TRP_FOREVER));
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i += H_SANITIZED ? 2 : 1) {
            trp_completion c = {0};
            trp_probe_request r = {.action = ways[i]};
            uint32_t word;
            if (ways[i] == TRP_PROBE_SPIN) {
                r.duration_ns = (uint64_t)(3600 * H_SEC);
                r.header.deadline_ns = (uint64_t)(30 * H_MS);
            }
            H_OK(trp_fill(d, x, 0, BYTES, 6, 4, NULL));
            H_OK(trp_fill(d, open, 0, BYTES, 7, 4, NULL));
            H_OK(trp_device_drain(d, H_LONG));
            H_OK(trp_probe(probe, &r, &c));
            H_IS(h_await_any(c), TRP_E_FAULT);
            H_EQUAL(h_buffer_info(d, x).lost, scope);
            H_EQUAL(h_buffer_info(d, open).lost, scope);
            check_sealed(d, s);
            H_EQUAL(word_of(d, s), 5);
            if (!scope) {
                H_EQUAL(word_of(d, x), 6);
            } else {
                H_IS(trp_read(d, x, 0, &word, 4, NULL), TRP_E_LOST);
                H_SAYS("buffer: ");
                H_OK(trp_fill(d, x, 0, BYTES - 4, 8, 4, NULL)); /* not whole */
                H_IS(trp_copy(d, x, 0, open, 0, BYTES, NULL), TRP_E_LOST);
                H_SAYS("source: ");
                H_IS(trp_buffer_seal(d, open, TRP_FOREVER), TRP_E_LOST);
            }
            H_OK(trp_copy(d, s, 0, x, 0, BYTES, NULL));
            H_EQUAL(word_of(d, x), 5);
            H_CHECK(!h_buffer_info(d, x).lost);
            trp_buffer fresh = h_buffer(d, BYTES); /* made after it: undefined, not lost */
            H_CHECK(!h_buffer_info(d, fresh).lost);
            H_OK(trp_buffer_free(d, fresh));
        }
        /* The standby runs nothing: its death costs nothing. */
        trp_device_info info = h_await_standby(d);
        kill_process(info.standby_pid);
        h_await_gone(info.standby_pid);
        h_await_standby(d);
        H_EQUAL(word_of(d, x), 5);
        h_close(&w);
    }
}

/* Requests of which each waits for the one before when the worker is killed; what becomes of them
 * with a scope. */
enum { CHAIN_BYTES = 34 << 20, SMALL = 4000 };

enum chain_request {
    SPIN_READS_G,
    UPLOAD_G,  /* in flight, because it needs more pieces than there are */
    COPY_G_H,  /* this and the next wait behind it, not issued */
    COPY_X_Z1, /* reads what was written long ago */
    FILL_X,    /* writes it whole */
    COPY_X_Z2, /* reads that */
    COPY_S_W,  /* reads what is sealed */
    FILL_PART, /* writes a part of p */
    COPY_P_Z3, /* reads p */
    READ_Z2,
    READ_Z1,
    CHAIN
};

typedef struct chain {
    trp_device *device;
    trp_buffer g, h, x, z1, z2, z3, s, w, p, idle;
    trp_completion c[CHAIN];
    trp_status status[CHAIN];
    uint32_t got[2];
} chain;

static void send_chain(chain *k, trp_actor *probe, const char *data, int64_t spin_ns)
{
    trp_device *d = k->device;
    trp_probe_request spin = {
        .action = TRP_PROBE_SPIN, .duration_ns = (uint64_t)spin_ns, .inputs = {k->g}};
    memset(k->c, 0, sizeof k->c);
    H_OK(trp_probe(probe, &spin, &k->c[SPIN_READS_G]));
    H_OK(trp_write(d, k->g, 0, data, CHAIN_BYTES, &k->c[UPLOAD_G]));
    H_OK(trp_copy(d, k->g, 0, k->h, 0, SMALL, &k->c[COPY_G_H]));
    H_OK(trp_copy(d, k->x, 0, k->z1, 0, SMALL, &k->c[COPY_X_Z1]));
    H_OK(trp_fill(d, k->x, 0, SMALL, 20, 4, &k->c[FILL_X]));
    H_OK(trp_copy(d, k->x, 0, k->z2, 0, SMALL, &k->c[COPY_X_Z2]));
    H_OK(trp_copy(d, k->s, 0, k->w, 0, SMALL, &k->c[COPY_S_W]));
    H_OK(trp_fill(d, k->p, 0, 8, 21, 4, &k->c[FILL_PART]));
    H_OK(trp_copy(d, k->p, 0, k->z3, 0, SMALL, &k->c[COPY_P_Z3]));
    H_OK(trp_read(d, k->z2, 0, &k->got[0], 4, &k->c[READ_Z2]));
    H_OK(trp_read(d, k->z1, 0, &k->got[1], 4, &k->c[READ_Z1]));
}

static void fill_all(chain *k)
{
    const trp_buffer list[] = {k->x, k->z1, k->z2, k->z3, k->w, k->p, k->idle};
    for (uint32_t i = 0; i < sizeof list / sizeof *list; i++)
        H_OK(trp_fill(k->device, list[i], 0, SMALL, i, 4, NULL));
    H_OK(trp_fill(k->device, k->g, 0, CHAIN_BYTES, 9, 4, NULL));
    H_OK(trp_fill(k->device, k->h, 0, SMALL, 9, 4, NULL));
    H_OK(trp_device_drain(k->device, H_LONG));
}

static void check_chain(chain *k, trp_fault_scope scope, const char *data)
{
    static const trp_status with_all[CHAIN] = {
        [SPIN_READS_G] = TRP_E_LOST, [COPY_X_Z1] = TRP_E_LOST, [COPY_P_Z3] = TRP_E_LOST};
    bool all = scope == TRP_FAULT_SCOPE_ALL;
    uint32_t first;
    memcpy(&first, data, 4);
    for (int i = 0; i < READ_Z1; i++)
        H_IS(k->status[i], all ? with_all[i] : TRP_OK);
    H_EQUAL(k->got[0], 20);
    if (all) { /* its input was not written, or is lost */
        H_CHECK(k->status[READ_Z1] == TRP_E_LOST || k->status[READ_Z1] == TRP_E_DEPENDENCY);
    } else {
        H_OK(k->status[READ_Z1]);
        H_EQUAL(k->got[1], 0);
    }
    H_EQUAL(word_of(k->device, k->g), first);
    H_EQUAL(word_of(k->device, k->h), first);
    H_EQUAL(word_of(k->device, k->x), 20);
    H_EQUAL(word_of(k->device, k->z2), 20);
    H_EQUAL(word_of(k->device, k->w), 30);
    H_EQUAL(word_of(k->device, k->s), 30);
    H_EQUAL(h_buffer_info(k->device, k->z1).lost, all);
    H_EQUAL(h_buffer_info(k->device, k->z3).lost, all);
    H_EQUAL(h_buffer_info(k->device, k->p).lost, all);
    H_EQUAL(h_buffer_info(k->device, k->idle).lost, all);
}

static void scope_of_the_queued(void)
{
    char *data = h_random_block(h_rng(), CHAIN_BYTES);
    for (int scope = H_SANITIZED; scope < 2; scope++) { /* both in the plain build */
        bool hit = false;
        h_world w = open_scope((trp_fault_scope)scope);
        trp_device *d = w.device;
        trp_actor *probe = h_actor(d, "probe");
        chain k = {.device = d, .g = h_buffer(d, CHAIN_BYTES), .s = h_sealable(d, SMALL)};
        trp_buffer *small[] = {&k.h, &k.x, &k.z1, &k.z2, &k.z3, &k.w, &k.p, &k.idle};
        for (size_t i = 0; i < sizeof small / sizeof *small; i++)
            *small[i] = h_buffer(d, SMALL);
        H_OK(trp_fill(d, k.s, 0, SMALL, 30, 4, NULL));
        H_OK(trp_buffer_seal(d, k.s, TRP_FOREVER));
        for (int64_t ns = H_SEC; !hit; ns *= 2) {
            fill_all(&k);
            send_chain(&k, probe, data, ns);
            h_sleep(20 * H_MS);
            trp_device_info info = h_info(d);
            /* That the spin is still running is known afterwards: it is the one that reads g. */
            bool running = trp_await(k.c[SPIN_READS_G].future, 0, NULL) == TRP_E_TIMEOUT;
            kill_process(info.worker_pid);
            for (int i = running ? 0 : 1; i < CHAIN; i++)
                k.status[i] = h_await_any(k.c[i]);
            h_await_incarnation(d, info.incarnation + 1);
            hit = running && (scope == 0 || k.status[SPIN_READS_G] != TRP_OK);
        }
        check_chain(&k, (trp_fault_scope)scope, data);
        h_close(&w);
    }
    free(data);
}

/* The culprit costs its sender, and what others had in flight on sealed and host memory only goes
 * on.
 */
static void scope_of_the_innocent(void)
{
    enum { N = 64, BYTES = N * N * 4 };
    h_world w = open_scope(TRP_FAULT_SCOPE_ALL);
    trp_device *d = w.device;
    trp_actor *probe = h_actor(d, "probe"), *blas = h_actor(d, "blas");
    trp_buffer weights = h_sealable(d, BYTES), out = h_buffer(d, BYTES), bias = h_buffer(d, BYTES);
    float *data = h_malloc(BYTES);
    for (int i = 0; i < N * N; i++)
        data[i] = 1;
    h_write(d, weights, 0, data, BYTES);
    H_OK(trp_buffer_seal(d, weights, TRP_FOREVER));
    trp_gemm_request good = {
        .type = TRP_F32, .m = N, .n = N, .k = N, .a = weights, .b = weights, .c = out};
    trp_gemm_request bad = good;
    bad.b = bias;
    for (int i = 0; i < (H_SANITIZED ? 2 : 6); i++) {
        trp_completion c[2] = {{0}};
        h_write(d, bias, 0, data, BYTES);
        trp_completion guilty =
            probe_with(probe, i % 2 ? TRP_PROBE_EXIT : TRP_PROBE_SEGV, i % 3 ? none : bias);
        trp_status sent = trp_gemm(blas, &bad, &c[0]);
        H_OK(trp_gemm(blas, &good, &c[1]));
        H_IS(h_await_any(guilty), TRP_E_FAULT);
        trp_status status = sent == TRP_OK ? h_await_any(c[0]) : sent;
        /* It came before or after the fault; in between it could not. */
        H_CHECK(status == TRP_OK || status == TRP_E_LOST || status == TRP_E_DEPENDENCY);
        H_OK(h_await_any(c[1]));
        H_CHECK(h_buffer_info(d, bias).lost);
        /* Whether it had ended before a worker died decides if the result is still there. */
        if (!h_buffer_info(d, out).lost) {
            float got = 0;
            h_read(d, out, BYTES - 4, &got, 4);
            H_CHECK(got == N);
        }
        check_sealed(d, weights);
    }
    free(data);
    h_close(&w);
}

H_CASES_OF_PROCESSES(H_CASE(scope_of_the_idle), H_CASE(scope_of_the_queued),
                     H_CASE(scope_of_the_innocent))
