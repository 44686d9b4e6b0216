/* One fault at a time, of every kind: who is told what, what is lost, what is intact. */
#include "support/harness.h"

#include <signal.h>

TROUPE_TEST("many workers");
TROUPE_TEST_FAKE_GPU("no tsan", "FAKE_CUDA_REPORT_MS=5");

static const trp_probe_action faults[] = {
    TRP_PROBE_ILLEGAL_ADDRESS,
    TRP_PROBE_OUT_OF_BOUNDS,
    TRP_PROBE_MISALIGNED,
    TRP_PROBE_TRAP,
    TRP_PROBE_SEGV,
    TRP_PROBE_ABORT,
    TRP_PROBE_KILL,
    TRP_PROBE_EXIT,
};

/* Whoever gets SIGKILL may have got it from outside, so the request that was running is not guilty
 * yet: it runs once more, and costs another worker. */
static uint32_t cost(trp_probe_action action)
{
    return action == TRP_PROBE_KILL ? 2 : 1;
}

enum { FAULTS = sizeof faults / sizeof *faults };

/* What the record of a request that died must say. */
static void check_cause(const trp_error *e, trp_probe_action action, uint32_t incarnation)
{
    static const int signals[TRP_PROBE_ACTION_COUNT] = {
        [TRP_PROBE_ILLEGAL_ADDRESS] = SIGSEGV,
        [TRP_PROBE_OUT_OF_BOUNDS] = SIGSEGV,
        [TRP_PROBE_MISALIGNED] = SIGBUS,
        [TRP_PROBE_TRAP] = SIGILL,
        [TRP_PROBE_SEGV] = SIGSEGV,
        [TRP_PROBE_ABORT] = SIGABRT,
        [TRP_PROBE_KILL] = SIGKILL,
    };
    /* CUresult: cudaErrorIllegalAddress 700 for the first two, 716 misaligned, 719 and 715 for a
     * trap. */
    bool gpu = h_is_cuda() && action < TRP_PROBE_SEGV;
    H_EQUAL(e->status, TRP_E_FAULT);
    H_EQUAL(e->incarnation, incarnation);
    H_CHECK(e->request != 0);
    H_CHECK(e->message[0] != '\0');
    if (action == TRP_PROBE_EXIT) {
        H_EQUAL(e->fault, TRP_FAULT_EXIT);
        H_EQUAL(e->code, 3);
        H_CHECK(strcmp(e->domain, "exit") == 0);
    } else if (gpu) {
        H_EQUAL(e->fault, TRP_FAULT_GPU);
        H_CHECK(e->code != 0);
        H_CHECK(strcmp(e->domain, "cuda") == 0);
        if (action == TRP_PROBE_ILLEGAL_ADDRESS || action == TRP_PROBE_OUT_OF_BOUNDS)
            H_EQUAL(e->code, 700);
        if (action == TRP_PROBE_MISALIGNED)
            H_EQUAL(e->code, 716);
    } else {
        H_EQUAL(e->fault, TRP_FAULT_SIGNAL);
        H_CHECK(strcmp(e->domain, "signal") == 0);
        H_EQUAL(e->code, signals[action]);
    }
}

/* The device must do a product, and do it right. */
static void works(trp_device *device, trp_actor *blas)
{
    enum { N = 3 };
    double a[N * N], b[N * N], c[N * N];
    for (int i = 0; i < N * N; i++) {
        a[i] = ref_rng_uniform(h_rng(), -1, 1);
        b[i] = ref_rng_uniform(h_rng(), -1, 1);
    }
    trp_buffer ba = h_buffer(device, sizeof a), bb = h_buffer(device, sizeof b);
    trp_buffer bc = h_buffer(device, sizeof c);
    h_write(device, ba, 0, a, sizeof a);
    h_write(device, bb, 0, b, sizeof b);
    trp_completion done = {0};
    H_OK(trp_gemm(
        blas,
        &(trp_gemm_request){.type = TRP_F64, .m = N, .n = N, .k = N, .a = ba, .b = bb, .c = bc},
        &done));
    H_OK(h_await_any(done));
    h_read(device, bc, 0, c, sizeof c);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += a[k * N + i] * b[j * N + k];
            double error = c[j * N + i] - sum;
            H_CHECK(error < 1e-12 && error > -1e-12);
        }
    }
    H_OK(trp_buffer_free(device, ba));
    H_OK(trp_buffer_free(device, bb));
    H_OK(trp_buffer_free(device, bc));
}

static void each_action(void)
{
    enum { KEPT = 20, BYTES = 300000 };
    h_world w = h_open(NULL);
    trp_actor *blas = h_actor(w.device, "blas");
    trp_actor *probe = NULL;
    H_OK(
        trp_actor_create(w.device, &(trp_actor_options){.kind = "probe", .name = "drill"}, &probe));
    trp_buffer kept[KEPT], output = h_buffer(w.device, BYTES);
    uint64_t hash[KEPT];
    char *data = h_malloc(BYTES);
    for (int i = 0; i < KEPT; i++) {
        kept[i] = h_buffer(w.device, BYTES);
        h_random_bytes(h_rng(), data, BYTES);
        hash[i] = h_hash(data, BYTES);
        h_write(w.device, kept[i], 0, data, BYTES);
    }
    for (uint32_t f = 0; f < FAULTS; f++) {
        trp_device_info before = h_info(w.device);
        uint64_t lines = h_log_count();
        trp_completion c = {0};
        trp_error error;
        h_write(w.device, output, 0, data, BYTES);
        H_CHECK(!h_buffer_info(w.device, output).lost);
        trp_probe_request r = {
            .action = faults[f], .inputs = {kept[f], kept[7]}, .outputs = {output}};
        H_OK(trp_probe(probe, &r, &c));
        H_IS(h_await(c.future, &error), TRP_E_FAULT);
        check_cause(&error, faults[f], before.incarnation + cost(faults[f]) - 1);
        H_CHECK(strcmp(error.actor, "drill") == 0);
        H_CHECK(memcmp(&error, trp_error_last(), sizeof error) == 0);

        /* The output is lost: it can't be read, in any way. */
        H_CHECK(h_buffer_info(w.device, output).lost);
        H_IS(trp_read(w.device, output, 0, data, 1, &c), TRP_E_LOST);
        H_SAYS("buffer");
        H_IS(trp_copy(w.device, output, 0, kept[0], 0, 1, &c), TRP_E_LOST);
        H_SAYS("source");
        trp_gemm_request g = {
            .type = TRP_F32, .m = 4, .n = 4, .k = 4, .a = output, .b = kept[0], .c = kept[0]};
        g.c_offset = 4096;
        H_IS(trp_gemm(blas, &g, &c), TRP_E_LOST);
        H_SAYS("a: ");
        H_IS(trp_probe(probe, &(trp_probe_request){.inputs = {output}}, &c), TRP_E_LOST);
        /* What is written is good, and the rest is when that is, too. */
        h_write(w.device, output, 0, data, BYTES - 1);
        H_CHECK(h_buffer_info(w.device, output).lost);
        H_IS(trp_read(w.device, output, BYTES - 2, data, 2, &c), TRP_E_LOST);
        H_OK(trp_read(w.device, output, BYTES - 2, data, 1, &c));
        H_OK(h_await_any(c));
        h_write(w.device, output, BYTES - 1, data + BYTES - 1, 1);
        H_CHECK(!h_buffer_info(w.device, output).lost);

        /* All else is as it was, in the worker after. */
        works(w.device, blas);
        for (int i = 0; i < KEPT; i++) {
            H_CHECK(!h_buffer_info(w.device, kept[i]).lost);
            h_read(w.device, kept[i], 0, data, BYTES);
            H_EQUAL(h_hash(data, BYTES), hash[i]);
        }
        trp_device_info after = h_info(w.device);
        H_EQUAL(after.state, TRP_DEVICE_READY);
        H_EQUAL(after.incarnation, before.incarnation + cost(faults[f]));
        H_EQUAL(after.restarts, before.restarts + cost(faults[f]));
        H_CHECK(after.worker_pid != before.worker_pid && after.worker_pid > 0);
        H_EQUAL(after.requests_failed, before.requests_failed + 1);
        h_await_gone(before.worker_pid);
        H_CHECK(h_log_count() > lines);
        h_random_bytes(h_rng(), data, BYTES);
    }
    /* Freeing after all that. */
    for (int i = 0; i < KEPT; i++)
        H_OK(trp_buffer_free(w.device, kept[i]));
    H_OK(trp_buffer_free(w.device, output));
    H_OK(trp_device_drain(w.device, H_LONG)); /* the last worker has still to pass the culprit */
    H_EQUAL(h_info(w.device).memory_used, 0);
    free(data);
    h_close(&w);
}

/* Each way of writing all of a buffer makes it whole again, each way of writing a part doesn't. */
static void covering(void)
{
    enum { N = 64, BYTES = N * N * 4 };
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe"), *blas = h_actor(w.device, "blas");
    trp_buffer b = h_buffer(w.device, BYTES), good = h_buffer(w.device, BYTES);
    float *data = h_malloc(BYTES);
    void *host = NULL;
    H_OK(trp_host_alloc(w.device, BYTES, &host));
    memset(data, 0, BYTES);
    memset(host, 0, BYTES);
    h_write(w.device, good, 0, data, BYTES);
    trp_gemm_request g = {.type = TRP_F32, .m = N, .n = N, .k = N, .a = good, .b = good, .c = b};
    for (int way = 0; way < 12; way++) {
        bool covers = way < 6;
        trp_completion c = {0};
        H_OK(trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_KILL, .outputs = {b}}, &c));
        H_IS(h_await_any(c), TRP_E_FAULT);
        H_CHECK(h_buffer_info(w.device, b).lost);
        switch (way) {
        case 0:
            H_OK(trp_write(w.device, b, 0, data, BYTES, &c));
            break;
        case 1:
            H_OK(trp_write(w.device, b, 0, host, BYTES, &c));
            break;
        case 2:
            H_OK(trp_fill(w.device, b, 0, BYTES, 0, 2, &c));
            break;
        case 3:
            H_OK(trp_copy(w.device, good, 0, b, 0, BYTES, &c));
            break;
        case 4: /* all of C, not read */
        case 5: {
            trp_gemm_request dense = g;
            dense.order = way == 5 ? TRP_ROW_MAJOR : TRP_COL_MAJOR;
            H_OK(trp_gemm(blas, &dense, &c));
            break;
        }
        case 6:
            H_OK(trp_write(w.device, b, 4, data, BYTES - 4, &c));
            break;
        case 7:
            H_OK(trp_fill(w.device, b, 0, BYTES - 4, 0, 4, &c));
            break;
        case 8:
            H_OK(trp_copy(w.device, good, 0, b, 8, BYTES - 8, &c));
            break;
        case 9: { /* C is read */
            trp_gemm_request more = g;
            more.beta = trp_real(1);
            H_IS(trp_gemm(blas, &more, &c), TRP_E_LOST);
            H_SAYS("c: ");
            H_OK(trp_fill(w.device, b, 0, 4, 0, 4, &c));
            break;
        }
        case 10: { /* a gap after each column */
            trp_gemm_request gaps = g;
            gaps.m = N - 1;
            gaps.lda = gaps.ldc = N;
            H_OK(trp_gemm(blas, &gaps, &c));
            break;
        }
        default: /* a probe reads what it does not change */
            H_IS(trp_probe(probe, &(trp_probe_request){.outputs = {b}}, &c), TRP_E_LOST);
            H_OK(trp_fill(w.device, b, 4, 4, 0, 4, &c));
            break;
        }
        /* A full write counts from when it is sent: a reader may be queued behind it. */
        trp_completion read = {0};
        if (covers)
            H_OK(trp_read(w.device, b, 0, data, BYTES, &read));
        else
            H_IS(trp_read(w.device, b, 0, data, BYTES, &read), TRP_E_LOST);
        H_OK(h_await_any(c));
        if (covers)
            H_OK(h_await_any(read));
        H_EQUAL(h_buffer_info(w.device, b).lost, !covers);
    }
    free(data);
    h_close(&w);
}

/* A failure that is not a fault costs its request only. */
static void library_error(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_buffer b = h_buffer(w.device, 100);
    for (int i = 0; i < 50; i++) {
        trp_completion c = {0}, next = {0};
        trp_error error;
        H_OK(trp_probe(
            probe, &(trp_probe_request){.action = TRP_PROBE_LIBRARY_ERROR, .outputs = {b}}, &c));
        h_probe(probe, TRP_PROBE_NOP, &next);
        H_IS(h_await(c.future, &error), TRP_E_LIBRARY);
        H_EQUAL(error.status, TRP_E_LIBRARY);
        H_EQUAL(error.fault, TRP_FAULT_NONE);
        H_EQUAL(error.code, 1);
        H_EQUAL(error.incarnation, 1);
        H_CHECK(strcmp(error.domain, "probe") == 0);
        H_CHECK(strcmp(error.actor, "probe") == 0);
        H_OK(h_await_any(next));
    }
    H_EQUAL(h_info(w.device).restarts, 0);
    H_EQUAL(h_info(w.device).requests_failed, 50);
    H_CHECK(!h_buffer_info(w.device, b).lost);
    h_close(&w);
}

static void probe_arguments(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    H_IS(trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_ACTION_COUNT}, NULL),
         TRP_E_ARGUMENT);
    H_SAYS("action");
    H_IS(trp_probe(probe, &(trp_probe_request){.action = (trp_probe_action)-1}, NULL),
         TRP_E_ARGUMENT);
    H_IS(trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_OUT_OF_BOUNDS}, NULL),
         TRP_E_ARGUMENT);
    H_SAYS("buffer");
    for (int i = 0; i < TRP_PROBE_ACTION_COUNT; i++)
        H_CHECK(trp_probe_action_name((trp_probe_action)i) != NULL);
    H_CHECK(trp_probe_action_name(TRP_PROBE_ACTION_COUNT) == NULL);
    H_CHECK(trp_probe_action_name((trp_probe_action)-1) == NULL);
    /* All eight buffers; the same one twice. */
    trp_buffer b[8];
    trp_completion c = {0};
    for (int i = 0; i < 8; i++) {
        b[i] = h_buffer(w.device, 8);
        H_OK(trp_fill(w.device, b[i], 0, 8, 0, 1, NULL));
    }
    H_OK(trp_probe(probe,
                   &(trp_probe_request){.inputs = {b[0], b[1], b[2], b[3]},
                                        .outputs = {b[4], b[5], b[6], b[7]}},
                   &c));
    H_OK(h_await_any(c));
    H_OK(trp_probe(probe,
                   &(trp_probe_request){.inputs = {b[0], b[0]}, .outputs = {b[0], b[0], {0}, b[0]}},
                   &c));
    H_OK(h_await_any(c));
    h_close(&w);
}

/* Memory from trp_host_alloc, regions and the actors' handles come over into each new worker. */
static void things_that_survive(void)
{
    enum { BYTES = 1 << 20, ROUNDS = 6 };
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe"), *blas = h_actor(w.device, "blas");
    trp_actor *gone = h_actor(w.device, "probe");
    char *host = NULL, *dropped = NULL;
    H_OK(trp_host_alloc(w.device, BYTES, (void **)&host));
    H_OK(trp_host_alloc(w.device, BYTES, (void **)&dropped));
    trp_buffer b = h_buffer(w.device, BYTES), big = h_buffer(w.device, 100 * H_MIB);
    trp_actor_destroy(gone);
    H_OK(trp_host_free(w.device, dropped));
    h_random_bytes(h_rng(), host, BYTES);
    uint64_t hash = h_hash(host, BYTES);
    for (int i = 0; i < ROUNDS; i++) {
        trp_completion c = {0};
        h_probe(probe, faults[i % FAULTS] == TRP_PROBE_OUT_OF_BOUNDS ? TRP_PROBE_ABORT : faults[i],
                &c);
        H_IS(h_await_any(c), TRP_E_FAULT);
        H_EQUAL(h_hash(host, BYTES), hash);
        h_write(w.device, b, 0, host, BYTES);
        memset(host, 0, BYTES);
        h_read(w.device, b, 0, host, BYTES);
        H_EQUAL(h_hash(host, BYTES), hash);
        works(w.device, blas);
        /* New things can be made in every worker. */
        trp_actor *more = h_actor(w.device, "blas");
        works(w.device, more);
        trp_actor_destroy(more);
        void *other = NULL;
        H_OK(trp_host_alloc(w.device, 5000, &other));
        H_OK(trp_host_free(w.device, other));
    }
    H_OK(trp_buffer_free(w.device, big));
    h_close(&w);
}

/* Fifty restarts leave no descriptor, child or thread behind. */
static void no_growth(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    size_t fds = 0, threads = 0;
    const int rounds = H_SANITIZED ? 20 : 50;
    for (int i = 0; i < rounds; i++) {
        trp_completion c = {0};
        h_probe(probe, i % 2 ? TRP_PROBE_KILL : TRP_PROBE_EXIT, &c);
        H_IS(h_await_any(c), TRP_E_FAULT);
        h_probe(probe, TRP_PROBE_NOP, &c);
        H_OK(h_await_any(c));
        h_await_standby(w.device);
        h_await_count("children", h_count_children, 2);
        if (i == 2) {
            fds = h_count_fds();
            threads = h_count_threads();
        } else if (i > 2) {
            h_await_count("descriptors", h_count_fds, fds);
            H_CHECK(h_threads_come_to(threads));
        }
    }
    H_EQUAL(h_info(w.device).restarts, rounds + rounds / 2);
    h_close(&w);
}

H_CASES_OF_PROCESSES(H_CASE(each_action), H_CASE(covering), H_CASE(library_error),
                     H_CASE(probe_arguments), H_CASE(things_that_survive), H_CASE(no_growth))
