/* A program that gives up root after it has opened a device: it may send its worker no signal any
 * more, and the kernel sends none at its death. */
#include "support/faults/adversary.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534, WORKER = 0, STANDBY = 1 };

static void drop_rights(void)
{
    H_CHECK(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
}

/* A device whose workers have the rights that the program has given up. */
static h_world open_and_drop(const trp_device_options *options)
{
    h_world w = h_open(options);
    trp_device_info info =
        h_isolation() == TRP_ISOLATION_PROCESS ? h_await_standby(w.device) : h_info(w.device);
    adv_memory()->value[WORKER] = info.worker_pid;
    adv_memory()->value[STANDBY] = info.standby_pid;
    drop_rights();
    return w;
}

static void workers_are_gone(void)
{
    for (int i = WORKER; i <= STANDBY; i++) {
        if (adv_memory()->value[i] > 0)
            adv_await_gone(adv_memory()->value[i]);
    }
}

static void nop(trp_actor *probe)
{
    trp_completion c = {0};
    h_probe(probe, TRP_PROBE_NOP, &c);
    H_OK(h_await_any(c));
}

static void close_it(void)
{
    h_world w = open_and_drop(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    nop(probe);
    h_close(&w);
    H_EQUAL(h_count_children(), 0);
}

static void closing(void)
{
    adv_child(close_it);
    workers_are_gone();
}

static void close_busy(void)
{
    h_world w = open_and_drop(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    h_spin(probe, 1000 * H_SEC, NULL);
    h_close(&w);
    H_EQUAL(h_count_children(), 0);
}

static void closing_with_a_hung_request(void)
{
    if (h_isolation() == TRP_ISOLATION_THREAD)
        h_skip("a thread can't be ended");
    adv_child(close_busy);
    workers_are_gone();
}

/* Effective rights alone: what the process may do follows from the real ones, too. */
static void give_up_for_a_while(void)
{
    h_world w = h_open(NULL);
    H_CHECK(seteuid(NOBODY) == 0);
    trp_actor *probe = h_actor(w.device, "probe");
    nop(probe);
    h_close(&w);
    H_CHECK(seteuid(0) == 0);
    H_EQUAL(h_count_children(), 0);
}

static void effective_rights(void)
{
    adv_child(give_up_for_a_while);
}

static void hang(void)
{
    trp_device_options options = h_options();
    options.deadline_ns = (uint64_t)(100 * H_MS);
    h_world w = open_and_drop(&options);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_completion c = {0};
    trp_error error;
    h_spin(probe, 1000 * H_SEC, &c);
    H_IS(h_await(c.future, &error), TRP_E_FAULT);
    H_EQUAL(error.fault, TRP_FAULT_HANG);
    adv_await_gone(adv_memory()->value[WORKER]);
    nop(probe); /* on the standby */
    h_close(&w);
}

static void deadline(void)
{
    if (h_isolation() == TRP_ISOLATION_THREAD)
        h_skip("there are no deadlines");
    adv_child(hang);
    workers_are_gone();
}

/* A worker that is stopped ends by nothing that this program may do. */
static void give_up(void)
{
    trp_device_options options = h_options();
    options.deadline_ns = (uint64_t)(100 * H_MS);
    h_world w = h_open(&options);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_device_info info = h_await_standby(w.device);
    adv_memory()->value[WORKER] = info.worker_pid;
    h_stop_process(info.worker_pid);
    drop_rights();
    trp_completion c = {0}, next = {0};
    h_probe(probe, TRP_PROBE_NOP, &c);
    trp_status status = h_await_any(c);
    H_CHECK(status == TRP_E_FAULT || status == TRP_E_DEVICE_DOWN);
    h_await_state(w.device, TRP_DEVICE_DOWN);
    H_IS(trp_probe(probe, &(trp_probe_request){0}, &next), TRP_E_DEVICE_DOWN);
    H_SAYS("can't be ended");
    H_SAYS("Operation not permitted");
    h_close(&w);
}

static void what_cannot_be_ended(void)
{
    if (h_isolation() == TRP_ISOLATION_THREAD)
        h_skip("a thread has no process to stop");
    adv_child(give_up);
    kill((pid_t)adv_memory()->value[WORKER], SIGKILL);
    adv_await_gone(adv_memory()->value[WORKER]);
}

static void die(void)
{
    trp_device_options options = h_options();
    h_world w = open_and_drop(&options);
    trp_actor *probe = h_actor(w.device, "probe");
    h_spin(probe, 1000 * H_SEC, NULL);
    kill(getpid(), SIGKILL);
}

static void no_orphans(void)
{
    if (h_isolation() == TRP_ISOLATION_THREAD)
        h_skip("there is no process of its own");
    H_CHECK(WIFSIGNALED(adv_child_status(die)));
    workers_are_gone();
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {
        H_CASE(closing),  H_CASE(closing_with_a_hung_request), H_CASE(effective_rights),
        H_CASE(deadline), H_CASE(what_cannot_be_ended),        H_CASE(no_orphans)};
    adv_need_root();
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
