/* Deadlines: what runs too long is ended with its worker, what is long by right or only waits is
 * not. */
#include "support/harness.h"

#include <signal.h>

TROUPE_TEST("long", "many workers");
TROUPE_TEST_FAKE_GPU("no sanitizer", "cases hung the_right_one_is_blamed among_others");

enum { BYTES = 4096 };

/* Longer than any wait here: a spin that nobody ends fails the test. */
#define ENDLESS (600 * H_SEC)
#define SHORT   (scale * 200 * H_MS)

/* A machine that stands still for as long as a deadline makes an innocent request miss it, rightly.
 * Then the case is tried again with all times longer; what is wrong is wrong at every scale. */
static int64_t scale = 1;
static bool too_slow;

static void with_patience(void (*run)(void))
{
    for (scale = 1;; scale *= 4) {
        too_slow = false;
        run();
        if (!too_slow)
            break;
        H_CHECK(scale < 16);
    }
    scale = 1;
}

static void spin(trp_actor *probe, int64_t ns, int64_t deadline_ns, trp_buffer input,
                 trp_buffer output, trp_completion *c)
{
    *c = (trp_completion){0};
    H_OK(trp_probe(probe,
                   &(trp_probe_request){.header = {.deadline_ns = (uint64_t)deadline_ns},
                                        .action = ns ? TRP_PROBE_SPIN : TRP_PROBE_NOP,
                                        .duration_ns = (uint64_t)ns,
                                        .inputs = {input},
                                        .outputs = {output}},
                   c));
}

static const trp_buffer none;

static void nop(trp_actor *probe)
{
    trp_completion c;
    spin(probe, 0, 0, none, none, &c);
    H_OK(h_await_any(c));
}

/* It must end because of its deadline. */
static void hangs(trp_completion c)
{
    trp_error error;
    H_IS(h_await(c.future, &error), TRP_E_FAULT);
    H_EQUAL(error.fault, TRP_FAULT_HANG);
    H_CHECK(error.incarnation != 0 && error.request != 0);
    H_CHECK(strstr(error.message, "deadline"));
}

/* It must succeed, unless the machine is too slow. */
static void in_time(trp_completion c)
{
    trp_error error;
    trp_status status = h_await(c.future, &error);
    if (status == TRP_E_FAULT && error.fault == TRP_FAULT_HANG)
        too_slow = true;
    else
        H_CHECK(status == TRP_OK || too_slow); /* what depends on it fails too */
}

static trp_buffer filled(trp_device *device, uint32_t value)
{
    trp_buffer b = h_buffer(device, BYTES);
    h_fill(device, b, value);
    return b;
}

static uint32_t word_of(trp_device *device, trp_buffer b)
{
    uint32_t word[BYTES / 4];
    h_read(device, b, 0, word, sizeof word);
    for (int i = 1; i < BYTES / 4; i++)
        H_EQUAL(word[i], word[0]);
    return word[0];
}

static void hung(void)
{
    h_world w = h_open(NULL);
    trp_actor *one = h_actor(w.device, "probe"), *two = h_actor(w.device, "probe");
    trp_buffer kept = filled(w.device, 5), output = filled(w.device, 6);
    for (int i = 0; i < 4; i++) {
        trp_completion c, next, other, more = {0};
        trp_device_info before = h_info(w.device);
        bool writes = i % 2;
        spin(one, ENDLESS, SHORT, kept, writes ? output : none, &c);
        spin(one, 0, 0, none, none, &next);
        spin(two, 0, 0, none, none, &other);
        /* Waits for the hung one, which reads it. */
        H_OK(trp_fill(w.device, kept, 0, BYTES, 5, 4, &more));
        hangs(c);
        H_OK(h_await_any(next));
        H_OK(h_await_any(other));
        H_OK(h_await_any(more));
        trp_device_info after = h_info(w.device);
        H_EQUAL(after.restarts, before.restarts + 1);
        H_EQUAL(after.requests_failed, before.requests_failed + 1);
        H_EQUAL(word_of(w.device, kept), 5);
        H_EQUAL(h_buffer_info(w.device, output).lost, writes);
        trp_completion fill = {0};
        H_OK(trp_fill(w.device, output, 0, BYTES, 6, 4, &fill));
        H_OK(h_await_any(fill));
        nop(one);
        nop(two);
    }
    h_close(&w);
}

static void default_of_the_device(void)
{
    trp_device_options options = h_options();
    options.deadline_ns = (uint64_t)SHORT;
    h_world w = h_open(&options);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_completion c;
    spin(probe, ENDLESS, 0, none, none, &c);
    hangs(c);
    nop(probe);
    /* A request's own is used instead, be it longer or shorter. */
    spin(probe, 600 * H_MS, 50 * H_SEC, none, none, &c);
    H_OK(h_await_any(c));
    H_EQUAL(h_info(w.device).restarts, 1);
    h_close(&w);

    options.deadline_ns = (uint64_t)(50 * H_SEC);
    w = h_open(&options);
    probe = h_actor(w.device, "probe");
    spin(probe, ENDLESS, SHORT, none, none, &c);
    hangs(c);
    spin(probe, 300 * H_MS, 0, none, none, &c);
    H_OK(h_await_any(c));
    h_close(&w);
}

/* Many that are each in time, one behind the other; copies too. */
static void long_work(void)
{
    enum { COUNT = 30 };
    trp_device_options options = h_options();
    options.deadline_ns = (uint64_t)(scale * 2 * H_SEC);
    h_world w = h_open(&options);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_completion c[COUNT];
    trp_buffer b = h_buffer(w.device, 8 * H_MIB);
    char *data = h_random_block(h_rng(), 8 * H_MIB), *got = h_malloc(8 * H_MIB);
    for (int i = 0; i < COUNT; i++)
        spin(probe, scale * 80 * H_MS, 0, none, none, &c[i]);
    trp_completion up = {0}, down = {0};
    H_OK(trp_write(w.device, b, 0, data, 8 * H_MIB, &up));
    in_time(up);
    if (!too_slow) {
        H_OK(trp_read(w.device, b, 0, got, 8 * H_MIB, &down));
        in_time(down);
    }
    if (!too_slow)
        H_SAME(got, data, 8 * H_MIB);
    for (int i = 0; i < COUNT; i++)
        in_time(c[i]);
    H_EQUAL(h_info(w.device).restarts > 0, too_slow);
    free(data);
    free(got);
    h_close(&w);
}

static void long_work_is_left_alone(void)
{
    with_patience(long_work);
}

/* Behind a long request of the same actor, or of another by way of a buffer, in either direction,
 * and behind one that waits itself. */
static void waiting(void)
{
    enum { ACTORS = 3 };
    h_world w = h_open(NULL);
    trp_actor *probe[ACTORS];
    trp_buffer x = filled(w.device, 1), y = filled(w.device, 2);
    for (int i = 0; i < ACTORS; i++)
        probe[i] = h_actor(w.device, "probe");
    for (int way = 0; way < 5 && !too_slow; way++) {
        trp_completion c[ACTORS];
        trp_actor *second = way == 0 ? probe[0] : probe[1];
        bool long_writes = way == 1 || way == 2;
        int64_t patience = way == 2 ? 50 * H_SEC : 0;
        spin(probe[0], scale * 900 * H_MS, patience, long_writes ? none : x, long_writes ? x : none,
             &c[0]);
        spin(second, 0, SHORT, long_writes ? x : none, long_writes ? y : x, &c[1]);
        spin(probe[2], 0, SHORT, long_writes ? y : x, none, &c[2]);
        for (int i = 0; i < ACTORS; i++)
            in_time(c[i]);
        H_EQUAL(h_info(w.device).restarts > 0, too_slow);
    }
    h_close(&w);
}

/* A read and a copy wait too. */
static void copies_waiting(void)
{
    trp_device_options options = h_options();
    options.deadline_ns = (uint64_t)SHORT;
    h_world w = h_open(&options);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_buffer x = h_buffer(w.device, BYTES), y = h_buffer(w.device, BYTES);
    uint32_t got[BYTES / 4];
    trp_completion c, fill = {0}, copy = {0}, read = {0};
    H_OK(trp_fill(w.device, x, 0, BYTES, 1, 4, &fill));
    in_time(fill);
    spin(probe, scale * 900 * H_MS, 50 * H_SEC, none, too_slow ? none : x, &c);
    if (!too_slow) {
        H_OK(trp_copy(w.device, x, 0, y, 0, BYTES, &copy));
        H_OK(trp_read(w.device, y, 0, got, BYTES, &read));
        in_time(copy);
        in_time(read);
    }
    in_time(c);
    H_CHECK(too_slow || got[3] == 1);
    H_EQUAL(h_info(w.device).restarts > 0, too_slow);
    h_close(&w);
}

static void waiting_is_not_running(void)
{
    with_patience(waiting);
    with_patience(copies_waiting);
}

/* The one that hangs is found among those that wait for it with shorter deadlines. */
static void blame(void)
{
    h_world w = h_open(NULL);
    trp_actor *one = h_actor(w.device, "probe"), *two = h_actor(w.device, "probe");
    trp_buffer x = filled(w.device, 1), y = filled(w.device, 2);
    trp_completion c, waits, behind, free_one;
    spin(one, ENDLESS, 4 * SHORT, x, none, &c);
    spin(two, 0, SHORT, y, x, &waits);
    spin(two, 0, SHORT, y, none, &behind);
    hangs(c);
    /* It had not begun; that nobody knows, and it can't run twice. */
    trp_status status = h_await_any(waits);
    H_CHECK(status == TRP_OK || status == TRP_E_FAULT);
    in_time(behind);
    H_EQUAL(h_info(w.device).restarts > 1, too_slow);
    if (too_slow) {
        h_close(&w);
        return;
    }

    trp_completion fill = {0};
    H_OK(trp_fill(w.device, x, 0, BYTES, 2, 4, &fill));
    H_OK(h_await_any(fill));
    spin(one, ENDLESS, 4 * SHORT, none, x, &c);
    spin(two, 0, SHORT, x, y, &waits);
    spin(two, 0, SHORT, none, none, &free_one);
    hangs(c);
    status = h_await_any(waits);
    H_CHECK(status == TRP_E_LOST || status == TRP_E_FAULT); /* the latter if it was in its stream */
    in_time(free_one);
    H_EQUAL(h_info(w.device).restarts > 2, too_slow);
    H_CHECK(h_buffer_info(w.device, x).lost);
    h_close(&w);
}

static void the_right_one_is_blamed(void)
{
    with_patience(blame);
}

/* Work of others that was in flight runs again, unless it can't. */
static void innocents(void)
{
    enum { ACTORS = 8 };
    h_world w = h_open(NULL);
    trp_actor *probe[ACTORS], *culprit = h_actor(w.device, "probe");
    trp_actor *stuck = h_actor(w.device, "probe");
    trp_buffer shared = filled(w.device, 1), output = filled(w.device, 2);
    for (int i = 0; i < ACTORS; i++)
        probe[i] = h_actor(w.device, "probe");
    for (int round = 0; round < 2; round++) {
        trp_completion c[ACTORS], hang, other;
        trp_device_info before = h_info(w.device);
        for (int i = 0; i < ACTORS; i++)
            spin(probe[i], (i + 1) * 60 * H_MS, 0, shared, none, &c[i]);
        /* It writes what it reads, so it can't run twice. */
        spin(stuck, ENDLESS, 0, shared, output, &other);
        spin(culprit, ENDLESS, SHORT, shared, none, &hang);
        hangs(hang);
        hangs(other);
        for (int i = 0; i < ACTORS; i++)
            H_OK(h_await_any(c[i]));
        h_await_state(w.device, TRP_DEVICE_READY); /* all may have ended before the next worker */
        trp_device_info after = h_info(w.device);
        H_EQUAL(after.restarts, before.restarts + 1);
        H_EQUAL(after.requests_failed, before.requests_failed + 2);
        H_CHECK(h_buffer_info(w.device, output).lost);
        trp_completion fill = {0};
        H_OK(trp_fill(w.device, output, 0, BYTES, 2, 4, &fill));
        H_OK(h_await_any(fill));
        H_EQUAL(word_of(w.device, shared), 1);
    }
    h_close(&w);
}

/* Two hang at the same time: each is found, with a worker for each. */
static void two_at_once(void)
{
    h_world w = h_open(NULL);
    trp_actor *one = h_actor(w.device, "probe"), *two = h_actor(w.device, "probe");
    trp_completion a, b, c;
    spin(one, ENDLESS, SHORT, none, none, &a);
    spin(two, ENDLESS, 2 * SHORT, none, none, &b);
    spin(one, 0, 0, none, none, &c);
    hangs(a);
    hangs(b);
    H_OK(h_await_any(c));
    H_EQUAL(h_info(w.device).restarts, 2);
    H_EQUAL(h_info(w.device).requests_failed, 2);
    h_close(&w);
}

/* The worker itself stands still, wherever it is. */
static void stopped_worker(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    for (int i = 0; i < 3; i++) {
        trp_completion c, next;
        spin(probe, 500 * H_MS, H_SEC, none, none, &c);
        spin(probe, 0, 0, none, none, &next);
        h_sleep(80 * H_MS);
        h_stop_process(h_info(w.device).worker_pid);
        /* The GPU goes on without it: the spin may be done in time. */
        trp_status status = h_await_any(c);
        H_CHECK(status == TRP_E_FAULT || h_is_cuda());
        if (status == TRP_OK)
            kill((pid_t)h_info(w.device).worker_pid, SIGCONT);
        H_OK(h_await_any(next));
        nop(probe);
    }
    h_close(&w);
}

/* Copies have deadlines of their own: a worker that leaves one lying is replaced, for no other
 * reason is there one. */
static void of_copies(void)
{
    enum { LARGE = 3 << 20 };
    h_world w = h_open(NULL);
    trp_buffer a = filled(w.device, 5), b = h_filled(w.device, LARGE, 5);
    char *memory = h_malloc(LARGE);
    const uint64_t pattern[2] = {1, 2};
    const trp_request header = {.deadline_ns = (uint64_t)SHORT};
    for (int i = 0; i < 4; i++) {
        trp_completion c = {0};
        H_OK(trp_device_drain(w.device, H_LONG));
        h_await_standby(w.device);
        const int64_t worker = h_info(w.device).worker_pid;
        h_stop_process(worker);
        if (i == 0)
            H_OK(
                trp_write_with(w.device,
                               &(trp_write_request){
                                   .header = header, .buffer = b, .source = memory, .bytes = LARGE},
                               &c));
        else if (i == 1)
            H_OK(trp_read_with(
                w.device,
                &(trp_read_request){.header = header, .buffer = a, .target = memory, .bytes = 8},
                &c));
        else if (i == 2)
            H_OK(trp_copy_with(
                w.device,
                &(trp_copy_request){.header = header, .source = a, .target = b, .bytes = 8}, &c));
        else
            H_OK(trp_fill_with(
                w.device,
                &(trp_fill_request){
                    .header = header, .buffer = b, .bytes = LARGE, .pattern = pattern, .width = 16},
                &c));
        /* It runs again, on the next worker, unless this one had begun it. */
        trp_status status = h_await_any(c);
        H_CHECK(status == TRP_OK || status == TRP_E_FAULT);
        kill((pid_t)worker, SIGCONT);
    }
    free(memory);
    h_close(&w);
}

/* Requests that come to the worker together share a timeline write; how long one with a deadline
 * has run must be known all the same. The worker stands still while they are sent. */
static void among_others(void)
{
    enum { OTHERS = 5 };
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    for (int round = 0; round < 2; round++) {
        trp_completion before[OTHERS], c, after[OTHERS];
        int64_t worker = h_info(w.device).worker_pid;
        h_stop_process(worker);
        for (int i = 0; i < OTHERS; i++)
            spin(probe, 0, 0, none, none, &before[i]);
        spin(probe, ENDLESS, SHORT, none, none, &c);
        H_CHECK(kill((pid_t)worker, SIGCONT) == 0);
        hangs(c);
        for (int i = 0; i < OTHERS; i++)
            H_OK(h_await_any(before[i]));

        /* What is before it and behind it has all the time. */
        worker = h_await_standby(w.device).worker_pid;
        h_stop_process(worker);
        for (int i = 0; i < OTHERS; i++)
            spin(probe, 80 * H_MS, 0, none, none, &before[i]);
        spin(probe, H_MS, 2 * SHORT, none, none, &c);
        for (int i = 0; i < OTHERS; i++)
            spin(probe, 110 * H_MS, 0, none, none, &after[i]);
        H_CHECK(kill((pid_t)worker, SIGCONT) == 0);
        H_OK(h_await_any(c));
        for (int i = 0; i < OTHERS; i++)
            H_OK(h_await_any(after[i]));
        H_EQUAL(h_info(w.device).restarts, (uint64_t)round + 1);
    }
    h_close(&w);
}

/* What a death interrupts and runs again has its whole time again. */
static void anew_after_a_death(void)
{
    h_world w = h_open(NULL);
    trp_actor *one = h_actor(w.device, "probe");
    trp_buffer kept = filled(w.device, 5);
    bool proven = false;
    for (int i = 0; i < 5 && !proven; i++) {
        trp_completion c;
        trp_error error;
        trp_device_info before = h_await_standby(w.device);
        spin(one, 600 * H_MS, H_SEC, kept, none, &c);
        h_sleep(550 * H_MS);
        kill((pid_t)before.worker_pid, SIGKILL);
        h_await_incarnation(w.device, before.incarnation + 1);
        int64_t again = h_now();
        trp_status status = h_await(c.future, &error);
        proven = status == TRP_OK;
        if (proven)
            continue;
        /* A machine that stood still for a while proves nothing. */
        H_IS(status, TRP_E_FAULT);
        H_EQUAL(error.fault, TRP_FAULT_HANG);
        H_CHECK(h_now() - again >= 900 * H_MS);
    }
    H_CHECK(proven);
    h_close(&w);
}

H_CASES_OF_PROCESSES(H_CASE(hung), H_CASE(default_of_the_device), H_CASE(long_work_is_left_alone),
                     H_CASE(waiting_is_not_running), H_CASE(the_right_one_is_blamed),
                     H_CASE(innocents), H_CASE(two_at_once), H_CASE(among_others),
                     H_CASE(stopped_worker), H_CASE(of_copies), H_CASE(anew_after_a_death))
