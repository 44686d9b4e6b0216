/*
 * Fuzzes the trace with times, tickets and logs that a worker out of its mind might write. Whatever
 * is in the reply block, the file is JSON, and every time in it lies between the start and the end
 * of the run.
 *
 *   trace_test [ITERATIONS [SEED]]
 */
#include "base/error.h"
#include "client/observe/trace.h"
#include "support/harness.h"
#include "cli/data/json.h"
#include "support/reference/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TROUPE_TEST("no tsan");

enum { SLOTS = 64, EVENTS = 32 };

static uint64_t rng;

/* A time: plausible, at an edge, or any. */
static int64_t odd_time(int64_t start)
{
    static const int64_t edges[] = {0, 1, -1, INT64_MAX, INT64_MIN};
    uint64_t r = random_next(&rng);
    if (r % 2)
        return start + (int64_t)(random_next(&rng) % 1000000);
    return r % 4 ? edges[r / 4 % 5] : (int64_t)random_next(&rng);
}

/* There are no mailboxes in which something could be over. */
static void end_nothing(trp_device *device)
{
    (void)device;
}

/* A device that has nothing but what a trace needs. */
static trp_device *make_device(trp__client_actor *actors)
{
    static const uint32_t alive = 1;
    static _Atomic uint64_t tail;
    trp_device *d = aligned_alloc(64, (sizeof *d + 63) / 64 * 64);
    H_CHECK(d);
    memset(d, 0, sizeof *d);
    d->alive = &alive;
    d->control = aligned_alloc(4096, TRP__CONTROL_BYTES);
    d->reply = aligned_alloc(4096, TRP__REPLY_BYTES);
    d->slot = aligned_alloc(64, sizeof(trp__slot) * SLOTS);
    H_CHECK(d->control && d->reply && d->slot && trp__trace_create(d));
    d->end_over = end_nothing;
    memset(d->slot, 0, sizeof(trp__slot) * SLOTS);
    memset(d->control, 0, TRP__CONTROL_BYTES);
    memset(d->reply, 0, TRP__REPLY_BYTES);
    d->backend = TRP_BACKEND_HOST;
    strcpy(d->identity.name, "a \"processor\"\n\xff");
    atomic_store(&d->state, TRP_DEVICE_READY);
    atomic_store(&d->slots_used, SLOTS);
    for (uint32_t i = 0; i < 4; i++) {
        actors[i].class = i % 2 ? trp__actor_class_find("blas") : trp__actor_class_find("memory");
        actors[i].tail = &tail;
        snprintf(actors[i].name, sizeof actors[i].name, "%u\\\"\n\x1b\xc3", i);
        atomic_store(&d->actor[i], &actors[i]);
    }
    return d;
}

static void scribble_reply(trp__reply *reply, int64_t start)
{
    for (int i = 0; i < 100; i++) {
        trp__stamp *stamp = &reply->issue_stamp[random_next(&rng) % SLOTS];
        stamp->ticket = random_next(&rng) % 100;
        stamp->ns = odd_time(start);
        trp__progress *log = &reply->progress[random_next(&rng) % 4];
        log->count = random_next(&rng) % 2 ? random_next(&rng) % 300 : random_next(&rng);
        stamp = &log->stamp[random_next(&rng) % TRP__PROGRESS];
        stamp->ticket = random_next(&rng) % 4 ? random_next(&rng) % 100 : random_next(&rng);
        stamp->ns = odd_time(start);
    }
}

static void end_some(trp_device *d)
{
    for (int i = 0; i < 20; i++) {
        uint32_t index = (uint32_t)(random_next(&rng) % SLOTS);
        trp__slot *slot = &d->slot[index];
        trp__record *record = &d->control->record[index];
        slot->index = index;
        slot->ticket = random_next(&rng) % 100 + 1;
        slot->actor = (uint32_t)(random_next(&rng) % 5); /* one of them does not exist */
        slot->status = (int)(random_next(&rng) % 20);
        slot->deaths = (uint32_t)(random_next(&rng) % 3);
        slot->sent_ns = trp__tracing(d) ? trp__now_ns() : 0;
        record->op =
            random_next(&rng) % 2 ? (uint32_t)(random_next(&rng) % 6) : (uint32_t)random_next(&rng);
        atomic_store(&d->incarnation, (uint32_t)(random_next(&rng) % 3 + 1));
        if (random_next(&rng) % 8 == 0)
            trp__trace_interrupted(d, slot, record);
        else
            trp__trace_ended(d, slot, record, random_next(&rng) % 2);
        if (random_next(&rng) % 8 == 0)
            trp__trace_mark_now(d, "fault", 1, "\"%s\"", "a text\n\\");
    }
}

static void check_file(const char *path, int64_t start)
{
    cJSON *trace = json_read_file(path);
    double from = (double)start / 1000 - 1, to = (double)trp__now_ns() / 1000 + 1;
    size_t count = 0;
    H_CHECK(trace);
    const cJSON *events = cJSON_GetObjectItem(trace, "traceEvents");
    H_CHECK(cJSON_IsArray(events));
    for (const cJSON *e = events->child; e; e = e->next) {
        const char *phase = json_string(e, "ph");
        if (strcmp(phase, "M") == 0)
            continue;
        double ts = json_number(e, "ts");
        H_CHECK(ts >= from && ts <= to);
        if (strcmp(phase, "X") == 0) {
            H_CHECK(json_number(e, "dur") >= 0 && ts + json_number(e, "dur") <= to);
            count++;
        }
    }
    H_CHECK(count <= EVENTS);
    cJSON_Delete(trace);
}

int main(int argc, char **argv)
{
    static trp__client_actor actors[4];
    uint64_t iterations = argc > 1 ? strtoull(argv[1], NULL, 0) : 40;
    char path[256];
    const char *folder = getenv("TMPDIR");
    rng = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)getpid() * 1000003;
    printf("trace: %llu iterations, seed %llu\n", (unsigned long long)iterations,
           (unsigned long long)rng);
    snprintf(path, sizeof path, "%s/troupe-trace-%d.json", folder ? folder : "/tmp", (int)getpid());
    trp_device *d = make_device(actors);
    for (uint64_t i = 0; i < iterations; i++) {
        int64_t start = trp__now_ns();
        H_CHECK(trp_device_trace_start(d, &(trp_trace_options){.events = EVENTS}) == TRP_OK);
        for (int k = 0; k < 5; k++) {
            scribble_reply(d->reply, start);
            end_some(d);
        }
        H_CHECK(trp_device_trace_write(d, path) == TRP_OK);
        check_file(path, start);
    }
    unlink(path);
    trp__trace_destroy(d);
    free(d->control);
    free(d->reply);
    free(d->slot);
    free(d);
    return 0;
}
