/* Data survives faults: 20 buffers of 64 MiB (of 1 MiB on the fake driver), each checked by hash
 * after each of 50 faults of five kinds. Prints how long each step of a recovery took; time decides
 * nothing. */
#define XXH_INLINE_ALL
#include "support/label.h"
#include <xxhash.h>

#include <troupe/troupe.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

TROUPE_TEST_FAKE_GPU("no sanitizer", "FAKE_CUDA_REPORT_MS=5");

enum { BUFFERS = 20, ROUNDS = 50, SKIPPED = 77 };

static uint64_t bytes = UINT64_C(64) << 20; /* of each buffer */

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void check(trp_status status, const char *what)
{
    if (status == TRP_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, trp_status_name(status), trp_error_message());
    exit(1);
}

static void require(bool condition, const char *what, int round)
{
    if (condition)
        return;
    fprintf(stderr, "round %d: %s (last error: %s)\n", round, what, trp_error_message());
    exit(1);
}

static void finish(trp_status sent, trp_completion *c, const char *what)
{
    check(sent, what);
    check(trp_await(c->future, TRP_FOREVER, NULL), what);
}

static void fill_random(uint64_t *words, uint64_t count, uint64_t seed)
{
    for (uint64_t i = 0; i < count; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        words[i] = seed;
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(void)
{
    static const trp_probe_action kinds[] = {TRP_PROBE_ILLEGAL_ADDRESS, TRP_PROBE_OUT_OF_BOUNDS,
                                             TRP_PROBE_MISALIGNED, TRP_PROBE_TRAP, TRP_PROBE_KILL};
    trp_system *system;
    trp_device *device;
    trp_actor *probe;
    trp_buffer buffer[BUFFERS], scratch;
    uint64_t hash[BUFFERS];
    double reported[ROUNDS], recovered[ROUNDS];
    void *host;
    trp_completion c = {0};
    const char *gpu = getenv("TROUPE_TEST_GPU");

    if (gpu && strcmp(gpu, "fake") == 0)
        bytes = UINT64_C(1) << 20;
    check(trp_system_create(NULL, &system), "system");
    trp_status status = trp_device_open(
        system, &(trp_device_options){.backend = TRP_BACKEND_CUDA, .restart_budget = 2 * ROUNDS},
        &device);
    if (status == TRP_E_MISSING) {
        printf("skipped: %s\n", trp_error_message());
        check(trp_system_destroy(system), "system");
        return SKIPPED;
    }
    check(status, "device");
    check(trp_actor_create(device, &(trp_actor_options){.kind = "probe"}, &probe), "probe");
    check(trp_host_alloc(device, bytes, &host), "host memory");
    check(trp_buffer_create(device, 1 << 20, &scratch), "scratch");
    for (int i = 0; i < BUFFERS; i++) {
        check(trp_buffer_create(device, bytes, &buffer[i]), "buffer");
        fill_random(host, bytes / 8, 88172645463325252u + (uint64_t)i);
        hash[i] = XXH3_64bits(host, bytes);
        finish(trp_write(device, buffer[i], 0, host, bytes, &c), &c, "write");
    }

    for (int round = 0; round < ROUNDS; round++) {
        trp_probe_action kind = kinds[round % 5];
        trp_error error;
        trp_buffer_info info;
        unsigned char byte;
        double start = now_ms();
        check(trp_probe(probe, &(trp_probe_request){.action = kind, .outputs = {scratch}}, &c),
              "probe");
        status = trp_await(c.future, TRP_FOREVER, &error);
        reported[round] = now_ms() - start;
        require(status == TRP_E_FAULT, "the culprit ends with TRP_E_FAULT", round);
        require(kind == TRP_PROBE_KILL ? error.fault == TRP_FAULT_SIGNAL && error.code == 9
                                       : error.fault == TRP_FAULT_GPU && error.code != 0,
                "the cause is named", round);
        start = now_ms();
        finish(trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_NOP}, &c), &c,
               "work after a fault");
        recovered[round] = now_ms() - start;
        if (round < 5)
            printf("%-16s %s\n", trp_probe_action_name(kind), error.message);

        check(trp_buffer_get_info(device, scratch, &info), "info");
        require(info.lost, "the output in flight is lost", round);
        require(trp_read(device, scratch, 0, &byte, 1, &c) == TRP_E_LOST, "it can't be read",
                round);
        finish(trp_fill(device, scratch, 0, 1 << 20, 7, 1, &c), &c, "fill");
        finish(trp_read(device, scratch, (1 << 20) - 1, &byte, 1, &c), &c, "read");
        require(byte == 7, "it can be written again", round);
        for (int i = 0; i < BUFFERS; i++) {
            finish(trp_read(device, buffer[i], 0, host, bytes, &c), &c, "read");
            require(XXH3_64bits(host, bytes) == hash[i], "a buffer is intact", round);
        }
    }
    qsort(reported, ROUNDS, sizeof *reported, by_value);
    qsort(recovered, ROUNDS, sizeof *recovered, by_value);
    printf("%d faults, %d buffers of %llu MiB intact after each\n", ROUNDS, BUFFERS,
           (unsigned long long)(bytes >> 20));
    printf("fault known after (ms):  min %.2f  median %.2f  max %.2f\n", reported[0],
           reported[ROUNDS / 2], reported[ROUNDS - 1]);
    printf("next request done after (ms):  min %.2f  median %.2f  max %.2f\n", recovered[0],
           recovered[ROUNDS / 2], recovered[ROUNDS - 1]);
    trp_device_close(device);
    check(trp_system_destroy(system), "system");
    return 0;
}
