/* An actor that joins requests, and looks whether they are independent as promised.
 * SPDX-License-Identifier: Apache-2.0 */
#include "joining.h"

#include <troupe/worker.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct work {
    uint32_t code, payload;
    uint32_t *out;
    const uint32_t *x, *y;
} work;

static void run(const work *w)
{
    for (int i = 0; i < JOINING_WORDS; i++)
        w->out[i] = joining_result(w->code, w->out[i], w->x[i], w->y[i], w->payload);
}

static void run_one(void *argument)
{
    run(argument);
}

typedef struct list {
    uint32_t count;
    work work[];
} list;

/* In reverse: the order must not matter. */
static void run_all(void *argument)
{
    list *all;
    memcpy(&all, argument, sizeof all);
    for (uint32_t i = all->count; i-- > 0;)
        run(&all->work[i]);
    free(all);
}

static work read_work(const trp_job *job)
{
    work w = {.code = job->code,
              .out = job->access[0].address,
              .x = job->access[1].address,
              .y = job->access[2].address};
    memcpy(&w.payload, job->payload, sizeof w.payload);
    return w;
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    joining_report *report = instance->state;
    if (job->code == JOINING_REPORT) {
        memcpy(job->access[0].address, report, sizeof *report);
        return TRP_OK;
    }
    work w = read_work(job);
    report->calls++;
    return instance->services->enqueue(instance, run_one, &w, sizeof w, error);
}

static bool joins(trp_instance *instance, const trp_job *first, const trp_job *next)
{
    (void)instance;
    return first->code == next->code && first->code < JOINING_APART;
}

/* Nobody's output is another one's operand. */
static void check(trp_job *const *jobs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < count; k++) {
            for (uint32_t a = 0; a < jobs[k]->access_count; a++) {
                if (k != i && jobs[k]->access[a].address == jobs[i]->access[0].address)
                    abort();
            }
        }
    }
}

static trp_status handle_joined(trp_instance *instance, trp_job *const *jobs, uint32_t count,
                                trp_error *error)
{
    joining_report *report = instance->state;
    check(jobs, count);
    if (count < 2 || count > TRP_ACTOR_JOINED_MAX)
        abort();
    if (jobs[0]->code == JOINING_REFUSED) {
        report->refused++;
        nanosleep(&(struct timespec){.tv_nsec = 5000000},
                  NULL); /* others see what is noted of them */
        return instance->services->fail(error, TRP_E_UNSUPPORTED, "", 0, "not together");
    }
    list *all = malloc(sizeof *all + count * sizeof *all->work);
    if (!all)
        return instance->services->fail(error, TRP_E_MEMORY, "", 0, "no memory");
    all->count = count;
    for (uint32_t i = 0; i < count; i++)
        all->work[i] = read_work(jobs[i]);
    report->joined++;
    report->most = count > report->most ? count : report->most;
    return instance->services->enqueue(instance, run_all, &all, sizeof all, error);
}

static const trp_actor_impl host = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(joining_report),
    .handle = handle,
    .joins = joins,
    .handle_joined = handle_joined,
};

const trp_actor_library trp_actor_entry = {
    .head = TRP_ACTOR_HEAD,
    .name = "joining",
    .host = &host,
};
