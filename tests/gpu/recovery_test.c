/* How long the device takes to go on after a fault, and after a kernel that never ends. Prints the
 * times; they decide nothing. What must hold: the guilty request fails, all others succeed, and a
 * watch tells of each fault. Wanted: from the driver's report to the end of the next request on the
 * standby 1 ms at the median, 3 ms at the 99th percentile. */
#include "support/label.h"
#include <troupe/troupe.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

TROUPE_TEST_FAKE_GPU("no sanitizer");

enum { FAULTS = 100, HANGS = 3, SKIPPED = 77 };

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void require(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "%s (last error: %s)\n", what, trp_error_message());
    exit(1);
}

/* Sends one probe and waits for its end. */
static trp_status run(trp_actor *probe, const trp_probe_request *request)
{
    trp_completion c = {0};
    require(trp_probe(probe, request, &c) == TRP_OK, "a probe is sent");
    return trp_await(c.future, TRP_FOREVER, NULL);
}

static void await_standby(trp_device *device)
{
    trp_device_info info;
    double end = now_ms() + 30e3;
    do {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        require(trp_device_get_info(device, &info) == TRP_OK, "the device tells of itself");
    } while (info.standby_pid == 0 && now_ms() < end);
    require(info.standby_pid != 0, "a standby comes up");
}

/* When the worker reported the fault of `incarnation`, on the clock of now_ms(). */
static double report_ms(trp_queue *queue, uint32_t incarnation)
{
    trp_event e;
    require(trp_queue_next(queue, INT64_C(10000000000), &e) == TRP_OK, "a notice comes");
    require(e.notice == TRP_NOTICE_FAULT && e.incarnation == incarnation && e.dropped == 0,
            "it is of this fault");
    require(e.error.fault == TRP_FAULT_GPU && e.error.code != 0, "it has the driver's code");
    return (double)e.time_ns / 1e6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(void)
{
    trp_system *system;
    trp_device *device;
    trp_actor *guilty, *other;
    double known[FAULTS], next[FAULTS], reported[FAULTS];
    trp_queue *queue;
    trp_watch *watch;
    const trp_probe_request nop = {.action = TRP_PROBE_NOP};
    const trp_actor_options kind = {.kind = "probe"};

    require(trp_system_create(NULL, &system) == TRP_OK, "a system");
    trp_status status = trp_device_open(
        system, &(trp_device_options){.backend = TRP_BACKEND_CUDA, .restart_budget = 1000},
        &device);
    if (status == TRP_E_MISSING) {
        printf("skipped: %s\n", trp_error_message());
        require(trp_system_destroy(system) == TRP_OK, "the system ends");
        return SKIPPED;
    }
    require(status == TRP_OK, "a device");
    require(trp_actor_create(device, &kind, &guilty) == TRP_OK, "an actor");
    require(trp_actor_create(device, &kind, &other) == TRP_OK, "another actor");
    require(trp_queue_create(system, &queue) == TRP_OK, "a queue");
    require(trp_device_watch(
                device,
                &(trp_watch_options){.events = TRP_NOTICE_BIT(TRP_NOTICE_FAULT), .queue = queue},
                &watch) == TRP_OK,
            "a watch");

    for (int i = 0; i < FAULTS; i++) {
        await_standby(device);
        double start = now_ms();
        status = run(guilty, &(trp_probe_request){.action = TRP_PROBE_ILLEGAL_ADDRESS});
        require(status == TRP_E_FAULT, "the guilty request fails");
        double told = now_ms();
        require(run(other, &nop) == TRP_OK, "the next request succeeds");
        double end = now_ms();
        known[i] = told - start;
        next[i] = end - told;
        reported[i] = end - report_ms(queue, (uint32_t)i + 1);
        require(reported[i] > 0 && reported[i] < end - start, "the report lies in between");
    }
    qsort(known, FAULTS, sizeof *known, by_value);
    qsort(next, FAULTS, sizeof *next, by_value);
    qsort(reported, FAULTS, sizeof *reported, by_value);
    printf("%d faults: sender told after (ms) median %.1f max %.1f\n", FAULTS, known[FAULTS / 2],
           known[FAULTS - 1]);
    printf("from then to the end of the next request (ms): p50 %.3f p99 %.3f max %.3f\n",
           next[FAULTS / 2], next[FAULTS * 99 / 100], next[FAULTS - 1]);
    printf(
        "from the driver's report to that (ms; wanted: p50 1, p99 3): p50 %.3f p99 %.3f max %.3f\n",
        reported[FAULTS / 2], reported[FAULTS * 99 / 100], reported[FAULTS - 1]);
    trp_watch_end(watch);
    require(trp_queue_destroy(queue) == TRP_OK, "the queue ends");

    for (int i = 0; i < HANGS; i++) {
        await_standby(device);
        double start = now_ms();
        status = run(guilty, &(trp_probe_request){.header = {.deadline_ns = 200000000},
                                                  .action = TRP_PROBE_SPIN,
                                                  .duration_ns = 20000000000});
        require(status == TRP_E_FAULT, "a request past its deadline fails");
        require(run(other, &nop) == TRP_OK, "the next request succeeds");
        printf("deadline 200 ms: next request done %.1f ms after the launch\n", now_ms() - start);
    }
    trp_device_close(device);
    require(trp_system_destroy(system) == TRP_OK, "the system ends");
    return 0;
}
