/* The application dies, in the middle of whatever: the worker goes with it, and nothing stays.
 *
 * Each case forks before anything is open, so the child is a program of its own. */
#include "support/harness.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

TROUPE_TEST("long", "many workers");

typedef struct application {
    pid_t pid;
    int64_t worker;
} application;

/* What the application is doing when it is killed. */
typedef enum activity {
    IDLE,
    SPINNING,
    COPYING,
    RECOVERING,
    OPENING,
    MANY_DEVICES,
    ACTIVITIES
} activity;

static void say_worker(int pipe_end, int64_t pid)
{
    H_CHECK(write(pipe_end, &pid, sizeof pid) == sizeof pid);
}

_Noreturn static void be_application(activity what, int pipe_end)
{
    static char memory[64 << 20];
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_buffer b = h_buffer(w.device, sizeof memory);
    void *host = NULL;
    H_OK(trp_host_alloc(w.device, 1 << 20, &host));
    int64_t worker = h_info(w.device).worker_pid;
    switch (what) {
    case IDLE:
    case ACTIVITIES:
        break;
    case SPINNING:
        h_spin(probe, 60 * H_SEC, NULL);
        for (int i = 0; i < 1000; i++)
            h_probe(probe, TRP_PROBE_NOP, NULL);
        break;
    case COPYING:
        say_worker(pipe_end, worker);
        for (;;) {
            trp_completion c = {0};
            H_OK(trp_write(w.device, b, 0, memory, sizeof memory, NULL));
            H_OK(trp_read(w.device, b, 0, memory, sizeof memory, &c));
            H_OK(h_await_any(c));
        }
    case RECOVERING:
        say_worker(pipe_end, worker);
        for (;;) {
            trp_completion c = {0};
            h_probe(probe, TRP_PROBE_KILL, &c);
            (void)h_await_any(c);
        }
    case OPENING:
        say_worker(pipe_end, worker);
        for (;;) {
            h_world other = h_open(NULL);
            h_close(&other);
        }
    case MANY_DEVICES:
        for (int i = 0; i < 4; i++)
            h_open(NULL);
        break;
    }
    say_worker(pipe_end, worker);
    for (;;)
        pause();
}

static void killed(activity what, int64_t after_ns, int signal_number)
{
    int end[2];
    int64_t worker = 0;
    if (h_is_cuda())
        h_skip("the application here is a forked child, in which a GPU's driver can't be used");
    fflush(NULL);
    H_CHECK(pipe(end) == 0);
    pid_t pid = fork();
    H_CHECK(pid >= 0);
    if (pid == 0) {
        close(end[0]);
        be_application(what, end[1]);
    }
    close(end[1]);
    H_CHECK(read(end[0], &worker, sizeof worker) == sizeof worker);
    close(end[0]);
    H_CHECK(what == RECOVERING || h_process_exists(worker));
    h_sleep(after_ns);
    H_CHECK(kill(pid, signal_number) == 0);
    int status = 0;
    H_CHECK(waitpid(pid, &status, 0) == pid);
    H_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == signal_number);
    /* What it leaves is ours now (subreaper), and must die by itself; a worker that the kill met
     * between its start and its request to die with its parent looks for that itself. */
    int64_t limit = h_now() + H_LONG;
    for (pid_t reaped; (reaped = waitpid(-1, NULL, WNOHANG)) >= 0;) {
        if (h_now() > limit)
            h_fail(__FILE__, __LINE__, "%zu processes outlive the application, its worker was %lld",
                   h_count_children(), (long long)worker);
        if (reaped == 0)
            h_sleep(2 * H_MS);
    }
    H_CHECK(!h_process_exists(worker));
}

static void every_activity(int signal_number)
{
    H_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    for (int what = 0; what < ACTIVITIES; what++) {
        int rounds = H_SANITIZED ? 2 : 4;
        for (int i = 0; i < rounds; i++)
            killed((activity)what, (int64_t)ref_rng_below(h_rng(), 30) * H_MS, signal_number);
    }
    /* LeakSanitizer starts a process in a worker that ends: it must not become a child of ours. */
    H_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 0) == 0);
}

static void by_sigkill(void)
{
    every_activity(SIGKILL);
}

static void by_sigterm(void)
{
    every_activity(SIGTERM);
}

/* Ctrl-C goes to all processes of a terminal; the worker leaves it to the application. */
static void worker_ignores_the_terminal(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP};
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_device_info before = h_info(w.device);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        trp_completion c = {0};
        H_CHECK(kill((pid_t)before.worker_pid, signals[i]) == 0);
        h_probe(probe, TRP_PROBE_NOP, &c);
        H_OK(h_await_any(c));
    }
    h_sleep(20 * H_MS);
    H_EQUAL(h_info(w.device).worker_pid, before.worker_pid);
    H_EQUAL(h_info(w.device).restarts, 0);
    h_close(&w);
}

static void *open_and_leave(void *argument)
{
    h_world *w = argument;
    *w = h_open(NULL);
    return NULL;
}

/* The thread that opened a device may end: the worker belongs to the program. */
static void opened_by_a_thread_that_ends(void)
{
    h_world w;
    h_join(h_start(open_and_leave, &w));
    h_sleep(50 * H_MS);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_completion c = {0};
    h_probe(probe, TRP_PROBE_NOP, &c);
    H_OK(h_await_any(c));
    H_EQUAL(h_info(w.device).restarts, 0);
    h_close(&w);
}

static _Atomic int children_seen;

static void on_child(int signal_number)
{
    (void)signal_number;
    children_seen++;
}

/* Programs that wait for any child, or ignore them all, take the worker's end away from the
 * library: it says less then, and recovers all the same. */
static void program_that_reaps_all(void)
{
    struct sigaction old, ignore = {.sa_handler = SIG_IGN}, handle = {.sa_handler = on_child};
    for (int way = 0; way < 2; way++) {
        H_CHECK(sigaction(SIGCHLD, way ? &handle : &ignore, &old) == 0);
        h_world w = h_open(NULL);
        trp_actor *probe = h_actor(w.device, "probe");
        for (int i = 0; i < 5; i++) {
            trp_completion c = {0};
            trp_error error;
            h_probe(probe, i % 2 ? TRP_PROBE_KILL : TRP_PROBE_EXIT, &c);
            H_IS(h_await(c.future, &error), TRP_E_FAULT);
            H_CHECK(error.fault != TRP_FAULT_NONE);
            h_probe(probe, TRP_PROBE_NOP, &c);
            H_OK(h_await_any(c));
        }
        h_close(&w);
        H_CHECK(sigaction(SIGCHLD, &old, NULL) == 0);
        /* Where they are ignored, the kernel takes them away just after they have ended. */
        h_await_count("child processes", h_count_children, 0);
    }
}

H_CASES_OF_PROCESSES(H_CASE(by_sigkill), H_CASE(by_sigterm), H_CASE(worker_ignores_the_terminal),
                     H_CASE(opened_by_a_thread_that_ends), H_CASE(program_that_reaps_all))
