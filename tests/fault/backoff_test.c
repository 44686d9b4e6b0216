/* Workers that can't be started: how often and how soon it is tried again.
 *
 * This program is also the worker of its cases: it notes when it was started, and does as it is
 * told. Times are only compared with the least that they must be. */
#include "support/harness.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

TROUPE_TEST("many workers");

/* Shared with the workers by a descriptor that they inherit. */
enum { SHARED_FD = 200, TIMES = 256 };

enum { REAL = 0, EXIT };

typedef struct shared {
    _Atomic int mode;
    _Atomic uint32_t started; /* workers that did not start for real */
    int64_t time[TIMES];
} shared;

static shared *common;

static void map_shared(void)
{
    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED, SHARED_FD, 0);
    if (common == MAP_FAILED)
        _exit(126);
}

static void make_shared(void)
{
    int fd = memfd_create("test-shared", 0);
    H_CHECK(fd >= 0 && dup2(fd, SHARED_FD) == SHARED_FD && close(fd) == 0);
    H_CHECK(ftruncate(SHARED_FD, sizeof *common) == 0);
    map_shared();
}

static void be_worker(char **argv)
{
    map_shared();
    int mode = atomic_load(&common->mode);
    if (mode != REAL) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        uint32_t i = atomic_load(&common->started);
        if (i < TIMES)
            common->time[i] = (int64_t)t.tv_sec * H_SEC + t.tv_nsec;
        atomic_store(&common->started, i + 1);
        _exit(9);
    }
    const char *real = getenv("TROUPE_WORKER");
    if (real)
        execv(real, argv);
    _exit(127);
}

static h_world open_own(trp_device_options options)
{
    h_world w = {.system = h_system_create("/proc/self/exe")};
    atomic_store(&common->mode, REAL);
    H_OK(trp_device_open(w.system, &options, &w.device));
    atomic_store(&common->started, 0);
    return w;
}

static trp_device_options alone(uint32_t budget)
{
    trp_device_options options = h_options();
    options.standby = TRP_STANDBY_OFF;
    options.restart_budget = budget;
    return options;
}

static void kill_worker(trp_device *device)
{
    H_CHECK(kill((pid_t)h_info(device).worker_pid, SIGKILL) == 0);
}

static void await_started(uint32_t count)
{
    int64_t end = h_now() + H_LONG;
    while (atomic_load(&common->started) < count) {
        H_CHECK(h_now() < end);
        h_sleep(H_MS);
    }
}

/* Between one try and the next: 10 ms, doubled each time, up to a second. */
static void check_gaps(uint32_t count)
{
    for (uint32_t i = 0; i + 1 < count && i + 1 < TIMES; i++) {
        int64_t least = 10 * H_MS << (i < 20 ? i : 20);
        least = least < H_SEC ? least : H_SEC;
        if (common->time[i + 1] - common->time[i] < least)
            h_fail(__FILE__, __LINE__, "try %u came %" PRId64 " ns after the one before", i + 1,
                   common->time[i + 1] - common->time[i]);
    }
}

/* As many as the budget has restarts, in a row; how short the window is does not matter. */
static void until_the_budget_is_spent(void)
{
    for (int with_window = 0; with_window < 2; with_window++) {
        enum { BUDGET = 6 };
        trp_device_options options = alone(BUDGET);
        options.restart_window_ns = with_window ? (uint64_t)(600 * H_SEC) : 1;
        h_world w = open_own(options);
        trp_actor *probe = h_actor(w.device, "probe");
        trp_completion c = {0};
        atomic_store(&common->mode, EXIT);
        kill_worker(w.device);
        h_await_state(w.device, TRP_DEVICE_DOWN);
        H_EQUAL(atomic_load(&common->started), BUDGET);
        check_gaps(BUDGET);
        H_EQUAL(h_info(w.device).restarts, BUDGET);
        H_IS(trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_NOP}, &c),
             TRP_E_DEVICE_DOWN);
        H_SAYS("too often");
        H_SAYS("status 9"); /* why */
        h_close(&w);
    }
}

/* Requests wait meanwhile, and run on the first worker that starts. */
static void it_starts_at_last(void)
{
    h_world w = open_own(alone(1000));
    trp_actor *probe = h_actor(w.device, "probe");
    trp_queue *queue;
    trp_watch *watch;
    trp_event e;
    trp_completion c = {0};
    H_OK(trp_queue_create(w.system, &queue));
    H_OK(trp_device_watch(w.device, &(trp_watch_options){.queue = queue}, &watch));
    atomic_store(&common->mode, EXIT);
    kill_worker(w.device);
    h_await_state(w.device, TRP_DEVICE_RECOVERING);
    h_probe(probe, TRP_PROBE_NOP, &c);
    await_started(4);
    H_IS(trp_await(c.future, 0, NULL), TRP_E_TIMEOUT);
    atomic_store(&common->mode, REAL);
    H_OK(h_await_any(c));
    uint32_t tried = atomic_load(&common->started);
    H_EQUAL(h_info(w.device).restarts, tried + 1);
    H_EQUAL(h_info(w.device).incarnation, tried + 2);
    H_OK(trp_queue_next(queue, H_LONG, &e));
    H_EQUAL(e.notice, TRP_NOTICE_FAULT);
    H_OK(trp_queue_next(queue, H_LONG, &e));
    H_EQUAL(e.notice, TRP_NOTICE_RESTART);
    H_EQUAL(e.incarnation, tried + 2);
    check_gaps(tried);
    trp_watch_end(watch);
    H_OK(trp_queue_destroy(queue));
    h_close(&w);
}

/* The wait is 640 ms then, or a second; closing does not wait for its end, nor for the next try. */
static void closed_while_it_waits(void)
{
    h_world w = open_own(alone(1000));
    atomic_store(&common->mode, EXIT);
    kill_worker(w.device);
    await_started(7);
    h_close(&w);
    H_CHECK(atomic_load(&common->started) <= 8);
}

/* Every try of a standby fails: the device goes on, what ends is delivered, and the tries come
 * later and later. When one succeeds, it takes over at once. */
static void standbys(void)
{
    enum { TRIES = 6 };
    trp_device_options options = h_options();
    h_world w = open_own(options);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_queue *queue;
    trp_watch *watch;
    trp_event e;
    trp_watch_options lost = {.events = TRP_NOTICE_BIT(TRP_NOTICE_STANDBY_LOST)};
    trp_device_info info = h_await_standby(w.device);
    H_OK(trp_queue_create(w.system, &queue));
    lost.queue = queue;
    H_OK(trp_device_watch(w.device, &lost, &watch));
    atomic_store(&common->started, 0);
    atomic_store(&common->mode, EXIT);
    H_CHECK(kill((pid_t)info.standby_pid, SIGKILL) == 0);
    while (atomic_load(&common->started) < TRIES) {
        /* Nobody looks into the queue but the supervisor: it must not be asleep. */
        trp_completion c = {.queue = queue, .user_data = &e};
        h_probe(probe, TRP_PROBE_NOP, &c);
        do
            H_OK(trp_queue_next(queue, H_LONG, &e));
        while (e.notice == TRP_NOTICE_STANDBY_LOST);
        H_EQUAL(e.notice, TRP_NOTICE_NONE);
        H_CHECK(e.user_data == &e);
        H_OK(e.status);
        h_sleep(H_MS);
    }
    /* The death of one that was ready comes first: the tries begin 10 ms after it. */
    for (uint32_t i = 0; i + 1 < TRIES; i++)
        H_CHECK(common->time[i + 1] - common->time[i] >= 20 * H_MS << i);
    H_EQUAL(h_info(w.device).standby_pid, 0);
    H_EQUAL(h_info(w.device).restarts, 0);
    atomic_store(&common->mode, REAL);
    info = h_await_standby(w.device);
    trp_completion c = {0};
    h_probe(probe, TRP_PROBE_ABORT, &c);
    H_IS(h_await_any(c), TRP_E_FAULT);
    h_probe(probe, TRP_PROBE_NOP, &c);
    H_OK(h_await_any(c));
    H_EQUAL(h_info(w.device).worker_pid, info.standby_pid);
    h_await_standby(w.device); /* the failures are forgotten */
    trp_watch_end(watch);
    H_OK(trp_queue_destroy(queue));
    h_close(&w);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {H_CASE(until_the_budget_is_spent), H_CASE(it_starts_at_last),
                                   H_CASE(closed_while_it_waits), H_CASE(standbys)};
    if (argc > 1 && strcmp(argv[1], "--parent") == 0)
        be_worker(argv);
    h_need_process_isolation();
    make_shared();
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
