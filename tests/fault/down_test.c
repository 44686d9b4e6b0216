/* The end of the restart budget, workers that can't be started again, and calls that wait
 * meanwhile.
 *
 * This program is also the worker of some of its cases: started as one, it does as it is
 * told. */
#include "support/harness.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

TROUPE_TEST("many workers");

/* What a worker shall do is written into a memory file that it inherits; the environment can't be
 * changed beside a thread that starts a process. */
enum { MODE_FD = 200, MODE_BYTES = 16 };

static void make_mode_file(void)
{
    int fd = memfd_create("test-mode", 0);
    H_CHECK(fd >= 0 && dup2(fd, MODE_FD) == MODE_FD && close(fd) == 0);
}

static void set_mode(const char *mode)
{
    char text[MODE_BYTES] = "";
    snprintf(text, sizeof text, "%s", mode);
    H_CHECK(pwrite(MODE_FD, text, sizeof text, 0) == MODE_BYTES);
}

/* As a worker. */
static void be_worker(char **argv)
{
    char mode[MODE_BYTES] = "";
    if (pread(MODE_FD, mode, sizeof mode, 0) != MODE_BYTES)
        _exit(126);
    if (strcmp(mode, "hang") == 0) {
        for (;;)
            pause();
    }
    if (strcmp(mode, "exit") == 0)
        _exit(5);
    const char *real = getenv("TROUPE_WORKER");
    if (real)
        execv(real, argv);
    _exit(127);
}

static trp_device *open_own(trp_system **system, trp_device_options options)
{
    trp_device *device = NULL;
    set_mode("real");
    *system = h_system_create("/proc/self/exe");
    H_OK(trp_device_open(*system, &options, &device));
    return device;
}

static void kill_once(trp_device *device)
{
    trp_device_info info = h_info(device);
    H_CHECK(kill((pid_t)info.worker_pid, SIGKILL) == 0);
}

static void everything_is_refused(trp_device *device, trp_actor *probe, trp_buffer buffer)
{
    char byte = 0;
    void *memory;
    trp_buffer b;
    trp_actor *actor;
    trp_completion c = {.future = {3}};
    H_IS(trp_write(device, buffer, 0, &byte, 1, &c), TRP_E_DEVICE_DOWN);
    H_IS(trp_read(device, buffer, 0, &byte, 1, &c), TRP_E_DEVICE_DOWN);
    H_IS(trp_fill(device, buffer, 0, 1, 1, 1, &c), TRP_E_DEVICE_DOWN);
    H_IS(trp_copy(device, buffer, 0, buffer, 1, 1, &c), TRP_E_DEVICE_DOWN);
    H_IS(trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_NOP}, &c), TRP_E_DEVICE_DOWN);
    H_IS(trp_buffer_create(device, 1, &b), TRP_E_DEVICE_DOWN);
    H_IS(trp_host_alloc(device, 1, &memory), TRP_E_DEVICE_DOWN);
    H_IS(trp_actor_create(device, &(trp_actor_options){.kind = "probe"}, &actor),
         TRP_E_DEVICE_DOWN);
    H_CHECK(trp_error_message()[0] != 0);
    H_EQUAL(c.future.id, 3);
    H_OK(trp_device_drain(device, H_LONG));
    trp_device_info info = h_info(device);
    H_EQUAL(info.state, TRP_DEVICE_DOWN);
    H_EQUAL(info.worker_pid, 0);
    H_EQUAL(h_count_children(), 0);
}

static void budget(void)
{
    trp_device_options options = h_options();
    options.restart_budget = 3;
    options.restart_window_ns = (uint64_t)(600 * H_SEC);
    h_world w = h_open(&options);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_buffer kept = h_buffer(w.device, 1000);
    trp_queue *queue = NULL;
    trp_event event;
    H_OK(trp_queue_create(w.system, &queue));
    H_OK(trp_fill(w.device, kept, 0, 1000, 1, 1, NULL));
    H_OK(trp_device_drain(w.device, H_LONG)); /* else the first fault may meet it */
    void *host = NULL;
    H_OK(trp_host_alloc(w.device, 100, &host));
    for (int i = 0; i < 3; i++) {
        trp_completion c = {0}, next = {0};
        h_probe(probe, TRP_PROBE_EXIT, &c);
        H_IS(h_await_any(c), TRP_E_FAULT);
        h_probe(probe, TRP_PROBE_NOP, &next);
        H_OK(h_await_any(next));
    }
    H_EQUAL(h_info(w.device).restarts, 3);
    /* The fourth is one too many. What is pending ends too, each once. */
    enum { PENDING = 100 };
    trp_completion c = {0}, pending[PENDING] = {{0}};
    h_spin(probe, 20 * H_MS, NULL);
    h_probe(probe, TRP_PROBE_EXIT, &c);
    int sent = 0;
    for (int i = 0; i < PENDING; i++) {
        if (i % 2)
            pending[i].queue = queue;
        trp_status made = trp_probe(
            probe, &(trp_probe_request){.action = TRP_PROBE_NOP, .inputs = {kept}}, &pending[i]);
        H_CHECK(made == TRP_OK || made == TRP_E_DEVICE_DOWN);
        sent += made == TRP_OK;
        if (made != TRP_OK)
            break;
    }
    /* Those that were in flight, the guilty one among them, would have run again, alone. */
    trp_status status = h_await_any(c);
    H_CHECK(status == TRP_E_FAULT || status == TRP_E_DEVICE_DOWN);
    for (int i = 0; i < sent; i += 2) {
        status = h_await_any(pending[i]);
        H_CHECK(status == TRP_E_FAULT || status == TRP_E_DEVICE_DOWN);
    }
    for (int i = 1; i < sent; i += 2) {
        H_OK(trp_queue_next(queue, H_LONG, &event));
        H_CHECK(event.status == TRP_E_FAULT || event.status == TRP_E_DEVICE_DOWN);
    }
    H_IS(trp_queue_next(queue, 0, &event), TRP_E_TIMEOUT);
    h_await_state(w.device, TRP_DEVICE_DOWN);
    everything_is_refused(w.device, probe, kept);
    H_EQUAL(h_info(w.device).restarts, 3);
    H_CHECK(h_log_said("down"));
    /* Giving back works on a device that is down. */
    H_EQUAL(h_buffer_info(w.device, kept).bytes, 1000);
    H_OK(trp_buffer_free(w.device, kept));
    H_OK(trp_host_free(w.device, host));
    trp_actor_destroy(probe);
    H_OK(trp_queue_destroy(queue));
    h_close(&w);
}

/* A window that passes makes room for further restarts. */
static void window(void)
{
    trp_device_options options = h_options();
    options.restart_budget = 2;
    options.restart_window_ns = (uint64_t)H_MS;
    h_world w = h_open(&options);
    trp_actor *probe = h_actor(w.device, "probe");
    for (int i = 0; i < 6; i++) {
        trp_completion c = {0};
        h_sleep(3 * H_MS);
        h_probe(probe, TRP_PROBE_EXIT, &c);
        H_IS(h_await_any(c), TRP_E_FAULT);
        h_probe(probe, TRP_PROBE_NOP, &c);
        H_OK(h_await_any(c));
    }
    H_EQUAL(h_info(w.device).restarts, 6);
    h_close(&w);
}

/* A worker that dies while it starts uses up the budget as well, then the device is down. */
static void workers_that_exit(void)
{
    trp_system *system;
    trp_device_options options = h_options();
    options.restart_budget = 4;
    options.standby = TRP_STANDBY_OFF; /* one that is ready would go on */
    trp_device *device = open_own(&system, options);
    trp_actor *probe = h_actor(device, "probe");
    trp_buffer b = h_buffer(device, 10);
    trp_completion c = {0};
    h_spin(probe, 60 * H_SEC, &c);
    set_mode("exit");
    kill_once(device);
    trp_status status = h_await_any(c); /* the spin may not have begun yet */
    H_CHECK(status == TRP_E_FAULT || status == TRP_E_DEVICE_DOWN);
    h_await_state(device, TRP_DEVICE_DOWN);
    everything_is_refused(device, probe, b);
    trp_device_close(device);
    H_OK(trp_system_destroy(system));
    set_mode("real");
}

typedef struct waiter {
    trp_device *device;
    int what;
    _Atomic bool started, ended;
    trp_status status;
    char message[256];
} waiter;

static void *call_and_wait(void *argument)
{
    waiter *w = argument;
    trp_actor *actor = NULL;
    void *memory = NULL;
    atomic_store(&w->started, true);
    if (w->what == 0)
        w->status = trp_actor_create(w->device, &(trp_actor_options){.kind = "blas"}, &actor);
    else if (w->what == 1)
        w->status = trp_host_alloc(w->device, 1 << 20, &memory);
    else
        w->status = trp_device_drain(w->device, H_LONG);
    snprintf(w->message, sizeof w->message, "%s", trp_error_message());
    atomic_store(&w->ended, true);
    return NULL;
}

/* The next worker hangs in its start. Requests queue up meanwhile, calls that need an answer wait,
 * and all end when the device gives up. */
static void wait_in_vain(trp_device *device, trp_actor *probe, trp_buffer b,
                         const trp_completion sent[2])
{
    enum { WAITERS = 3 };
    waiter waits[WAITERS];
    h_thread *thread[WAITERS];
    for (int i = 0; i < WAITERS; i++) {
        waits[i] = (waiter){.device = device, .what = i};
        thread[i] = h_start(call_and_wait, &waits[i]);
    }
    for (int i = 0; i < WAITERS; i++) {
        while (!atomic_load(&waits[i].started))
            h_sleep(H_MS);
    }
    h_sleep(50 * H_MS);
    if (h_info(device).state == TRP_DEVICE_RECOVERING) {
        for (int i = 0; i < WAITERS; i++)
            H_CHECK(!atomic_load(&waits[i].ended));
        H_IS(trp_await(sent[0].future, 0, NULL), TRP_E_TIMEOUT);
    }
    for (int i = 0; i < WAITERS; i++) {
        h_join(thread[i]);
        if (waits[i].what == 2)
            H_OK(waits[i].status);
        else
            H_IS(waits[i].status, TRP_E_DEVICE_DOWN);
    }
    for (int i = 0; i < 2; i++)
        H_IS(h_await_any(sent[i]), TRP_E_DEVICE_DOWN);
    everything_is_refused(device, probe, b);
}

/* False if the device was down before everything was sent: a slow machine. */
static bool try_waiting(int64_t patience)
{
    trp_device *device = NULL;
    trp_device_options options = h_options();
    options.restart_budget = 1;
    options.standby = TRP_STANDBY_OFF;
    options.start_timeout_ns = (uint64_t)patience;
    set_mode("real");
    trp_system *system = h_system_create("/proc/self/exe");
    trp_status status = trp_device_open(system, &options, &device);
    bool in_time = status == TRP_OK;
    H_CHECK(in_time || status == TRP_E_TIMEOUT);
    if (in_time) {
        trp_actor *probe = h_actor(device, "probe");
        trp_buffer b = h_buffer(device, 10);
        trp_completion sent[2] = {{0}};
        set_mode("hang");
        kill_once(device);
        while (h_info(device).state == TRP_DEVICE_READY)
            h_sleep(H_MS / 10);
        in_time =
            trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_NOP}, &sent[0]) == TRP_OK &&
            trp_fill(device, b, 0, 10, 1, 1, &sent[1]) == TRP_OK;
        if (in_time)
            wait_in_vain(device, probe, b, sent);
        trp_device_close(device);
    }
    H_OK(trp_system_destroy(system));
    set_mode("real");
    return in_time;
}

static void waiting_calls(void)
{
    int64_t patience = h_is_cuda() ? 5 * H_SEC : 2 * H_SEC;
    while (!try_waiting(patience)) {
        patience *= 4;
        H_CHECK(patience < H_LONG);
    }
}

/* The same calls when the next worker does come: they succeed, with it. */
static void waiting_calls_are_served(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    for (int round = 0; round < 10; round++) {
        waiter waits[2];
        h_thread *thread[2];
        h_probe(probe, TRP_PROBE_KILL, NULL);
        for (int i = 0; i < 2; i++) {
            waits[i] = (waiter){.device = w.device, .what = i};
            thread[i] = h_start(call_and_wait, &waits[i]);
        }
        for (int i = 0; i < 2; i++) {
            h_join(thread[i]);
            if (waits[i].status != TRP_OK)
                h_fail(__FILE__, __LINE__, "call %d: %s", i, waits[i].message);
        }
    }
    h_close(&w);
}

/* Closing while the next worker is being started, or hangs in that. */
static void close_while_recovering(void)
{
    for (int i = 0; i < 6; i++) {
        h_world w = h_open(NULL);
        trp_actor *probe = h_actor(w.device, "probe");
        h_probe(probe, TRP_PROBE_KILL, NULL);
        h_probe(probe, TRP_PROBE_NOP, NULL);
        h_sleep(i * 3 * H_MS);
        h_close(&w);
    }
    trp_system *system;
    trp_device_options options = h_options();
    options.standby = TRP_STANDBY_OFF;
    trp_device *device = open_own(&system, options);
    set_mode("hang");
    kill_once(device);
    h_await_state(device, TRP_DEVICE_RECOVERING);
    h_sleep(50 * H_MS);
    int64_t start = h_now();
    trp_device_close(device); /* must not wait for the timeout of the start */
    H_CHECK(h_now() - start < H_LONG / 2);
    H_OK(trp_system_destroy(system));
    set_mode("real");
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {H_CASE(budget),
                                   H_CASE(window),
                                   H_CASE(workers_that_exit),
                                   H_CASE(waiting_calls),
                                   H_CASE(waiting_calls_are_served),
                                   H_CASE(close_while_recovering)};
    if (argc > 1 && strcmp(argv[1], "--parent") == 0)
        be_worker(argv);
    h_need_process_isolation();
    make_mode_file();
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
