/* Signals, which belong to the program's own threads. */
#include "support/faults/adversary.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { LARGE = 24 << 20 };

/* All kinds of threads: those that copy, those of libraries, those of a worker. */
static h_world start_all_threads(void)
{
    h_world w = h_open(NULL);
    char *data = h_malloc(LARGE);
    memset(data, 7, LARGE);
    trp_buffer b = h_buffer(w.device, LARGE);
    h_write(w.device, b, 0, data, LARGE);
    h_read(w.device, b, 0, data, LARGE);
    free(data);
    trp_actor *blas = h_actor(w.device, "blas");
    enum { N = 192 };
    trp_buffer a = h_filled(w.device, N * N * 4, 0), c = h_filled(w.device, N * N * 4, 0);
    trp_completion done = {0};
    H_OK(trp_gemm(
        blas, &(trp_gemm_request){.type = TRP_F32, .m = N, .n = N, .k = N, .a = a, .b = a, .c = c},
        &done));
    H_OK(h_await_any(done));
    return w;
}

/* Signals that the program has blocked in all its threads, sent to the process: each would end it.
 */
static void send_blocked(void)
{
    sigset_t all;
    sigfillset(&all);
    h_world w = start_all_threads();
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    static const int deadly[] = {SIGTERM, SIGHUP, SIGINT,  SIGUSR1,   SIGUSR2, SIGPIPE,
                                 SIGPROF, SIGIO,  SIGXFSZ, SIGVTALRM, SIGQUIT};
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        H_CHECK(kill(getpid(), deadly[i]) == 0);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_completion c = {0};
    h_probe(probe, TRP_PROBE_NOP, &c);
    H_OK(h_await_any(c));
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) {
        sigset_t pending;
        H_CHECK(sigpending(&pending) == 0 && sigismember(&pending, deadly[i]));
    }
    h_close(&w);
}

static void blocked_signals(void)
{
    adv_child(send_blocked);
}

/* Cancellation, asked for before the call: it would come at the first cancellation point inside. */

static h_world shared;

static void await_all(trp_status status, trp_completion *c)
{
    H_IS(status, TRP_OK);
    H_OK(h_await_any(*c));
}

static void do_actor(void)
{
    trp_actor *actor = NULL;
    H_OK(trp_actor_create(shared.device, &(trp_actor_options){.kind = "probe"}, &actor));
    trp_actor_destroy(actor);
}

static void do_memory(void)
{
    void *memory = NULL;
    H_OK(trp_host_alloc(shared.device, 1 << 20, &memory));
    H_OK(trp_host_free(shared.device, memory));
}

static void do_seal(void)
{
    trp_buffer b = h_sealable(shared.device, 4096);
    h_fill(shared.device, b, 1);
    H_OK(trp_buffer_seal(shared.device, b, H_LONG));
    H_OK(trp_buffer_unseal(shared.device, b));
    H_OK(trp_buffer_free(shared.device, b));
}

static void do_copies(void)
{
    static char data[3 << 20];
    trp_completion c = {0};
    trp_buffer b = h_buffer(shared.device, sizeof data);
    await_all(trp_write(shared.device, b, 0, data, sizeof data, &c), &c);
    c = (trp_completion){0};
    await_all(trp_read(shared.device, b, 0, data, sizeof data, &c), &c);
    H_OK(trp_buffer_free(shared.device, b));
    H_OK(trp_device_drain(shared.device, H_LONG));
}

static void do_queue(void)
{
    trp_queue *queue = NULL;
    trp_event event;
    trp_actor *probe = h_actor(shared.device, "probe");
    H_OK(trp_queue_create(shared.system, &queue));
    trp_completion c = {.queue = queue};
    h_spin(probe, 20 * H_MS, &c);
    H_OK(trp_queue_next(queue, H_LONG, &event));
    H_OK(trp_queue_destroy(queue));
    trp_actor_destroy(probe);
}

/* Calls that are made for each request, on the ways that they go now and then: a full mailbox,
 * wake-ups of the supervisor, the last hold of memory that was freed, results, lists. */
static void do_submit(void)
{
    trp_device *d = shared.device;
    trp_actor *probe = h_actor(d, "probe"), *blas = h_actor(d, "blas");
    trp_completion c = {0}, none = {0};
    const bool process = h_isolation() == TRP_ISOLATION_PROCESS;
    h_spin(probe, 20 * H_MS, NULL);
    for (int i = 0; i < 3000; i++)
        h_probe(probe, TRP_PROBE_NOP, NULL);
    const trp_probe_request timed = {.header.deadline_ns = process ? (uint64_t)H_LONG : 0};
    await_all(trp_probe(probe, &timed, &c), &c);

    trp_buffer s = h_sealable(d, 4096);
    void *host = NULL;
    H_OK(trp_host_alloc(d, 1 << 20, &host));
    c = (trp_completion){0};
    H_OK(trp_probe(probe,
                   &(trp_probe_request){.action = TRP_PROBE_SPIN,
                                        .duration_ns = (uint64_t)(20 * H_MS),
                                        .outputs = {s}},
                   NULL));
    H_OK(trp_write(d, s, 0, host, 4096, &none)); /* waits for the probe */
    H_OK(trp_probe(probe, &(trp_probe_request){.inputs = {s}}, &c));
    H_OK(trp_buffer_free(d, s));
    H_OK(trp_host_free(d, host));
    H_OK(h_await_any(none));
    H_OK(h_await_any(c));

    float value = 0;
    trp_buffer x = h_filled(d, 4096, 0);
    trp_blas1_request dot = {.type = TRP_F32, .n = 1024, .x = x, .y = x, .value = &value};
    H_OK(trp_dot(blas, &dot, NULL));
    c = (trp_completion){0};
    await_all(trp_dot(blas, &dot, &c), &c);
    c = (trp_completion){0};
    H_OK(trp_dot(blas, &dot, &c));
    trp_future_drop(c.future);
    H_OK(trp_buffer_free(d, x));
    trp_actor_destroy(blas);
    trp_actor_destroy(probe);
}

static void do_trace(void)
{
    H_OK(trp_device_trace_start(shared.device, NULL));
    H_OK(trp_device_trace_write(shared.device, "/dev/null"));
    H_OK(trp_device_trace_stop(shared.device));
}

static void do_files(void)
{
    enum { COUNT = 1 << 20 };
    static float numbers[COUNT];
    const char *folder = getenv("TMPDIR");
    char path[4096];
    trp_io_file *file = NULL;
    trp_buffer b;
    uint64_t offset;
    const trp_io_item item = {.array = {.type = TRP_F32, .rank = 1, .dim = {COUNT}},
                              .data = numbers};
    snprintf(path, sizeof path, "%s/cancelled.npy", folder ? folder : "/tmp");
    H_OK(trp_io_save(path, &item, 1, NULL));
    H_OK(trp_io_open(path, &file));
    H_OK(trp_io_load_sealed(file, shared.device, NULL, 1, NULL, &b, &offset));
    trp_io_close(file);
    H_OK(trp_buffer_free(shared.device, b));
    H_CHECK(unlink(path) == 0);
}

static void do_device(void)
{
    h_world w = h_open(NULL);
    h_close(&w);
}

static void (*const every[])(void) = {do_actor,  do_memory, do_seal,  do_copies, do_queue,
                                      do_submit, do_trace,  do_files, do_device};
static bool came_back;

static void *cancelled_main(void *argument)
{
    pthread_cancel(pthread_self());
    every[(size_t)(intptr_t)argument]();
    came_back = true;
    pthread_testcancel();
    return NULL;
}

static void cancellation(void)
{
    for (size_t i = 0; i < sizeof every / sizeof *every; i++) {
        pthread_t thread;
        void *result = NULL;
        shared = h_open(NULL);
        came_back = false;
        H_CHECK(pthread_create(&thread, NULL, cancelled_main, (void *)(intptr_t)i) == 0);
        H_CHECK(pthread_join(thread, &result) == 0);
        H_CHECK(came_back && result == PTHREAD_CANCELED);
        for (size_t k = 0; k < sizeof every / sizeof *every; k++)
            every[k]();
        h_close(&shared);
    }
}

static void cancel_in_child(void)
{
    adv_child(cancellation);
}

/* Calls from a handler in the middle of a call. */

static _Atomic int refused, accepted;
static trp_actor *handler_actor;

static void count(trp_status status)
{
    if (status == TRP_E_UNSUPPORTED)
        refused++;
    else
        accepted++;
}

static void on_signal(int signal)
{
    (void)signal;
    trp_device_info info;
    if (refused > 0 || trp_device_get_info(shared.device, &info) != TRP_E_UNSUPPORTED)
        return; /* between two calls */
    trp_buffer b;
    trp_actor *actor;
    trp_queue *queue;
    void *memory;
    trp_completion c = {0};
    count(trp_buffer_create(shared.device, 4096, &b));
    count(trp_actor_create(shared.device, &(trp_actor_options){.kind = "probe"}, &actor));
    count(trp_host_alloc(shared.device, 4096, &memory));
    count(trp_queue_create(shared.system, &queue));
    count(trp_probe(handler_actor, &(trp_probe_request){0}, &c));
    count(trp_await(c.future, 0, NULL));
    count(trp_device_drain(shared.device, TRP_FOREVER));
    H_SAYS("signal handler");
    trp_actor_destroy(handler_actor);
    trp_device_close(shared.device);
}

static void *interrupted_main(void *argument)
{
    (void)argument;
    H_IS(trp_device_get_info(shared.device, NULL), TRP_E_ARGUMENT);
    while (refused == 0) { /* a worker may be told to spin for long, but not a thread be stopped */
        trp_completion c = {0};
        h_spin(handler_actor, 5 * H_MS, &c);
        H_OK(trp_await(c.future, TRP_FOREVER, NULL));
        H_SAYS("out: expected a pointer");
    }
    return NULL;
}

static void handlers(void)
{
    pthread_t thread;
    shared = h_open(NULL);
    handler_actor = h_actor(shared.device, "probe");
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal}, NULL);
    H_CHECK(pthread_create(&thread, NULL, interrupted_main, NULL) == 0);
    for (int64_t end = h_now() + H_LONG; refused == 0 && h_now() < end;) {
        pthread_kill(thread, SIGUSR1);
        h_sleep(H_MS);
    }
    H_CHECK(pthread_join(thread, NULL) == 0);
    H_EQUAL(refused, 7);
    H_EQUAL(accepted, 0);
    signal(SIGUSR1, SIG_DFL);
    trp_completion c = {0};
    h_probe(handler_actor, TRP_PROBE_NOP, &c); /* what the handler ended is still there */
    H_OK(h_await_any(c));
    h_close(&shared);
}

static void calls_from_handlers(void)
{
    adv_child(handlers);
}

H_CASES(H_CASE(blocked_signals), H_CASE(cancel_in_child), H_CASE(calls_from_handlers))
