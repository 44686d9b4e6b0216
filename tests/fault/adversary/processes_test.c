/* Folders that change, children that are forked, descriptors that are closed. */
#include "support/faults/adversary.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void nop(trp_actor *probe)
{
    trp_completion c = {0};
    h_probe(probe, TRP_PROBE_NOP, &c);
    H_OK(h_await_any(c));
}

/* A path of the worker that is relative, and a program that goes elsewhere. */
static void change_folder(bool by_option)
{
    char path[PATH_MAX], relative[PATH_MAX];
    const char *worker = getenv("TROUPE_WORKER");
    H_CHECK(worker && worker[0] == '/');
    snprintf(path, sizeof path, "%s", worker);
    snprintf(relative, sizeof relative, "./%s", basename(path));
    snprintf(path, sizeof path, "%s", worker);
    H_CHECK(chdir(dirname(path)) == 0);
    setenv("TROUPE_WORKER", by_option ? "/nowhere" : relative, 1);
    trp_system *system = NULL;
    trp_device *device = NULL;
    trp_device_options options = h_options();
    H_OK(trp_system_create(&(trp_system_options){.worker_path = by_option ? relative : NULL},
                           &system));
    H_CHECK(chdir("/proc/self/fd") == 0);
    H_OK(trp_device_open(system, &options, &device));
    trp_actor *probe = h_actor(device, "probe");
    for (int i = 0; i < 3 && h_isolation() == TRP_ISOLATION_PROCESS; i++) {
        trp_completion c = {0};
        h_await_standby(device); /* each a worker that was started after the change */
        h_probe(probe, TRP_PROBE_ABORT, &c);
        H_IS(h_await_any(c), TRP_E_FAULT);
    }
    nop(probe);
    trp_device_close(device);
    H_OK(trp_system_destroy(system));
}

static void change_folder_by_environment(void)
{
    change_folder(false);
}

static void change_folder_by_option(void)
{
    change_folder(true);
}

static void folders(void)
{
    adv_child(change_folder_by_environment);
    adv_child(change_folder_by_option);
}

/* As many devices as a process may have, and a child that wants one of its own. */

enum { MOST = 64 };

static void open_one(void)
{
    h_world w = h_open(NULL);
    nop(h_actor(w.device, "probe"));
    h_close(&w);
}

static void open_all_and_fork(void)
{
    trp_device *device[MOST + 1] = {NULL};
    trp_system *system = h_system_create(NULL);
    trp_device_options options = h_options();
    options.standby = TRP_STANDBY_OFF;
    for (int i = 0; i < MOST; i++)
        H_OK(trp_device_open(system, &options, &device[i]));
    H_IS(trp_device_open(system, &options, &device[MOST]), TRP_E_BUSY);
    adv_child(open_one);
    H_IS(trp_device_open(system, &options, &device[MOST]), TRP_E_BUSY);
    nop(h_actor(device[MOST - 1], "probe"));
    for (int i = 0; i < MOST; i++)
        trp_device_close(device[i]);
    H_OK(trp_system_destroy(system));
}

static void children_of_many_devices(void)
{
    if (H_SANITIZED)
        h_skip("too much memory under a sanitizer");
    adv_child(open_all_and_fork);
}

/* Children that are forked while another thread opens and closes. */

static _Atomic bool stop;

static void *opening_main(void *argument)
{
    (void)argument;
    while (!stop)
        open_one();
    return NULL;
}

static void fork_meanwhile(void)
{
    h_thread *thread = h_start(opening_main, NULL);
    for (int i = 0; i < 12; i++)
        adv_child(open_one);
    stop = true;
    h_join(thread);
}

static void forks(void)
{
    if (H_SANITIZED)
        h_skip("a sanitizer's allocator stays locked in a child, or has no threads there");
    adv_child(fork_meanwhile);
}

/* A child that closes all descriptors, as those that go on in the background do. */

static void close_all(void)
{
    closefrom(3);
}

static void fork_one_that_closes(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    adv_child(close_all);
    nop(probe);
    h_close(&w);
}

/* The program itself closes those of the library: it learns that, and can close the device. */
static void close_own(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    nop(probe);
    close_all();
    h_await_state(w.device, TRP_DEVICE_DOWN);
    trp_completion c = {0};
    H_IS(trp_probe(probe, &(trp_probe_request){0}, &c), TRP_E_DEVICE_DOWN);
    if (h_isolation() == TRP_ISOLATION_PROCESS)
        H_SAYS("closed descriptors");
    h_close(&w);
}

static void closed_descriptors(void)
{
    adv_child(fork_one_that_closes);
    adv_child(close_own);
}

/* More news than the worker's socket has room for, and a close right behind them. The worker ends
 * because it was asked to: the log says so if it does not in 3 s, as on a machine that stands
 * still. */
static void close_behind_news(void)
{
    trp_device_options options = h_options();
    options.standby = TRP_STANDBY_OFF;
    int killed = 0;
    for (int round = 0; round < 3; round++) {
        h_world w = h_open(&options);
        int64_t worker = h_info(w.device).worker_pid;
        if (worker > 0)
            h_stop_process(worker);
        for (int i = 0; i < 500; i++)
            h_sealable(w.device, 256);
        if (worker > 0)
            H_CHECK(kill((pid_t)worker, SIGCONT) == 0);
        uint64_t lines = h_log_count();
        h_close(&w);
        killed += h_log_count() > lines;
    }
    H_CHECK(killed < 3);
}

static void closing_after_much_news(void)
{
    adv_child(close_behind_news);
}

H_CASES(H_CASE(folders), H_CASE(children_of_many_devices), H_CASE(forks),
        H_CASE(closed_descriptors), H_CASE(closing_after_much_news))
