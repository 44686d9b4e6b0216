/* The random actor on the host. */
#include "actors/random/host/batch.h"
#include "actors/random/random.h"
#include "base/os/team.h"
#include "wire/record.h"

#include <string.h>

typedef struct fill {
    trp__random g;
    void *y;
    const uint64_t *state; /* NULL: none */
} fill;

typedef struct advance {
    const uint64_t *from;
    uint64_t *to;
    uint64_t words;
} advance;

_Static_assert(sizeof(fill) <= TRP_ACTOR_ENQUEUE_MAX, "travels to the stream's thread");

static trp_status init(trp_instance *instance, trp_error *error)
{
    (void)instance;
    (void)error;
    trp__team_open();
    return TRP_OK;
}

static void stop(trp_instance *instance)
{
    (void)instance;
    trp__team_close();
}

static void run_fill(void *arguments)
{
    fill *f = arguments;
    if (f->state) {
        f->g.seed = f->state[0];
        f->g.offset += f->state[1];
    }
    trp__random_fill(&f->g, f->y);
}

static void run_advance(void *arguments)
{
    const advance *a = arguments;
    const uint64_t seed = a->from[0], offset = a->from[1];
    a->to[0] = seed;
    a->to[1] = offset + a->words;
}

static trp_status handle_advance(trp_instance *instance, trp_job *job, trp_error *error)
{
    trp__random_advance payload;
    memcpy(&payload, job->payload, sizeof payload);
    const advance a = {.from = job->access[0].address,
                       .to = job->access[job->access_count - 1].address,
                       .words = payload.words};
    return instance->services->enqueue(instance, run_advance, &a, sizeof a, error);
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    fill f = {.y = NULL};
    if (job->op == TRP_OP_RANDOM_ADVANCE)
        return handle_advance(instance, job, error);
    memcpy(&f.g, job->payload, sizeof f.g);
    if (f.g.access_y == TRP__RANDOM_NO_ACCESS)
        return TRP_OK;
    f.y = (char *)job->access[f.g.access_y].address + f.g.y_first;
    if (f.g.access_state != TRP__RANDOM_NO_ACCESS)
        f.state = job->access[f.g.access_state].address;
    return instance->services->enqueue(instance, run_fill, &f, sizeof f, error);
}

const trp_actor_impl trp__random_host = {
    .abi = TRP_ACTOR_ABI,
    .init = init,
    .handle = handle,
    .stop = stop,
};
