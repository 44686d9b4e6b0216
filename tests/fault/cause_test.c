/* What could not run because a worker died names the request that killed it, through any number of
 * links, whether they were queued or are sent later. */
#include "support/harness.h"

TROUPE_TEST_FAKE_GPU("no tsan", "FAKE_CUDA_REPORT_MS=5");

enum { BYTES = 256, LINKS = 60, ROUNDS = 8 };

/* The root is a request that a worker died of: the first, or one that was in flight beside it and
 * may have been to blame. */
static uint64_t check_cause(const trp_error *e, uint64_t first, uint64_t last)
{
    char text[96];
    H_CHECK(e->cause_request >= first && e->cause_request <= last);
    snprintf(text, sizeof text, "request %" PRIu64 " (probe, \"%s\") failed: ", e->cause_request,
             e->cause_request == first ? "the first" : "link");
    H_EQUAL(e->cause_status, TRP_E_FAULT);
    H_EQUAL(e->cause_fault, h_is_cuda() ? TRP_FAULT_GPU : TRP_FAULT_SIGNAL);
    h_check_says(__FILE__, __LINE__, e->message, text);
    if (!h_is_cuda())
        h_check_says(__FILE__, __LINE__, e->message, "SIGSEGV");
    return e->cause_request;
}

/* The worker dies of the first of a chain, of which only the last is awaited; then again. */
static void chains(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe"), *second = h_actor(w.device, "probe");
    trp_buffer b[LINKS + 1];
    for (int i = 0; i <= LINKS; i++)
        b[i] = h_buffer(w.device, BYTES);
    for (int round = 0; round < ROUNDS; round++) {
        trp_completion last = {0};
        trp_error e = {0};
        for (int i = 0; i <= LINKS; i++)
            h_fill(w.device, b[i], 1);
        H_OK(trp_probe(probe,
                       &(trp_probe_request){.header.label = "the first",
                                            .action = h_is_cuda() ? TRP_PROBE_TRAP : TRP_PROBE_SEGV,
                                            .outputs = {b[0]}},
                       NULL));
        uint64_t root = h_info(w.device).requests_submitted;
        trp_status status = TRP_OK;
        for (int i = 0; i < LINKS && status == TRP_OK; i++)
            status = trp_probe(i % 2 ? probe : second,
                               &(trp_probe_request){.header = {.label = "link", .wait_ns = H_LONG},
                                                    .inputs = {b[i]},
                                                    .outputs = {b[i + 1]}},
                               i + 1 == LINKS ? &last : NULL);
        if (status == TRP_OK)
            status = h_await(last.future, &e);
        else
            e = *trp_error_last(); /* it was known already */
        uint64_t end = h_info(w.device).requests_submitted;
        if (status != TRP_E_FAULT) {
            H_CHECK(status == TRP_E_DEPENDENCY || status == TRP_E_LOST);
            check_cause(&e, root, end);
        }
        /* Nobody was told of the first: it is told to whoever comes later. */
        H_OK(trp_device_drain(w.device, H_LONG));
        H_IS(trp_copy(w.device, b[0], 0, b[1], 0, BYTES, NULL), TRP_E_LOST);
        H_EQUAL(check_cause(trp_error_last(), root, end), root);
        if (last.future.id) {
            status = trp_copy(w.device, b[LINKS - 1], 0, b[1], 0, BYTES, NULL);
            H_CHECK(status == TRP_E_DEPENDENCY || status == TRP_E_LOST);
            check_cause(trp_error_last(), root, end);
        }
        h_await_state(w.device, TRP_DEVICE_READY);
        h_await_standby(w.device);
    }
    h_close(&w);
}

/* With fault_scope all no request is to blame for what is lost. */
static void everything_lost(void)
{
    trp_device_options options = h_options();
    options.fault_scope = TRP_FAULT_SCOPE_ALL;
    h_world w = h_open(&options);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_buffer a = h_buffer(w.device, BYTES);
    trp_completion c = {0};
    h_fill(w.device, a, 1);
    h_probe(probe, h_is_cuda() ? TRP_PROBE_TRAP : TRP_PROBE_SEGV, &c);
    H_IS(h_await_any(c), TRP_E_FAULT);
    H_IS(trp_copy(w.device, a, 0, a, 128, 64, NULL), TRP_E_LOST);
    H_EQUAL(trp_error_last()->cause_request, 0);
    h_close(&w);
}

H_CASES_OF_PROCESSES(H_CASE(chains), H_CASE(everything_lost))
