/* The dnn actor on the host. */
#include "actors/dnn/dnn.h"
#include "actors/dnn/host/onednn/onednn.h"
#include "actors/dnn/host/paged.h"
#include "actors/dnn/rnn/rnn.h"
#include "base/error.h"
#include "base/os/team.h"

#include <stdatomic.h>
#include <string.h>

/* A run whose tables are checked in the stream, after all that writes them and before the run is
 * enqueued, so that a request with a wrong table can be refused. */
typedef struct looking {
    trp__dnn_host_run *run; /* NULL: none */
    trp_error error;
    atomic_bool done;
} looking;

typedef struct state {
    trp__dnn_host_libraries libraries;
    trp__dnn_host_room room;
    looking looking;
    bool pooled;
} state;

static trp_status init(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    trp_error ignored; /* own loops replace oneDNN */
    trp_status status = trp__openblas_load(&s->libraries.blas, error);
    if (status != TRP_OK)
        return status;
    trp__onednn_open(&s->libraries.onednn, &ignored);
    trp__team_open();
    s->pooled = true;
    return TRP_OK;
}

static void stop(trp_instance *instance)
{
    state *s = instance->state;
    if (s->looking.run) /* its request does not return here */
        trp__dnn_host_drop(s->looking.run);
    s->looking.run = NULL;
    trp__dnn_host_trim(&s->room);
    trp__onednn_close(s->libraries.onednn);
    if (s->pooled)
        trp__team_close();
    s->pooled = false;
}

static void trim(trp_instance *instance)
{
    state *s = instance->state;
    trp__dnn_host_trim(&s->room);
}

typedef struct run_arguments {
    trp__dnn_host_run *run;
    looking *looking;
} run_arguments;

static void run(void *arguments)
{
    trp__dnn_host_run_now(((run_arguments *)arguments)->run);
}

static void look(void *arguments)
{
    const run_arguments *a = arguments;
    a->looking->error.status = TRP_OK;
    trp__dnn_host_look(a->run, &a->looking->error);
    atomic_store_explicit(&a->looking->done, true, memory_order_release);
}

static trp_status make_run(state *s, const trp_job *job, const trp__dnn_graph *graph,
                           trp__dnn_host_run **out, trp_error *error)
{
    void *address[TRP_DNN_TENSORS_MAX] = {0};
    uint64_t bytes[TRP_DNN_TENSORS_MAX] = {0};
    trp__dnn_job_places(job, graph, address, bytes);
    return trp__dnn_host_make(&s->libraries, &s->room, graph, address, bytes, out, error);
}

/* Checks tables first: returns TRP_AGAIN, then the result of the check. */
static trp_status look_first(trp_instance *instance, trp_job *job, trp__dnn_host_run *made,
                             trp_error *error)
{
    state *s = instance->state;
    run_arguments arguments = {made, &s->looking};
    if (job->progress == 0) {
        atomic_store(&s->looking.done, false);
        trp_status status =
            instance->services->enqueue(instance, look, &arguments, sizeof arguments, error);
        if (status != TRP_OK)
            return status;
        s->looking.run = made;
        job->progress = 1;
        return TRP_AGAIN;
    }
    s->looking.run = NULL;
    job->progress = 0; /* nothing is written yet */
    if (s->looking.error.status != TRP_OK)
        *error = s->looking.error;
    return s->looking.error.status;
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    state *s = instance->state;
    trp__dnn_graph graph;
    trp_dnn_ran *ran;
    run_arguments arguments = {s->looking.run, NULL}; /* this request's run, if it has begun */
    trp__dnn g;
    if (job->op != TRP_OP_DNN_GRAPH)
        return trp__rnn_host_handle(instance, s->libraries.blas, job, error);
    if (job->progress > 0 && !atomic_load_explicit(&s->looking.done, memory_order_acquire))
        return TRP_AGAIN;
    memcpy(&g, job->payload, sizeof g);
    if (g.bytes == 0)
        return TRP_OK;
    trp_status status = trp__dnn_job_graph(job, &graph, &ran, error);
    if (status == TRP_OK && job->progress == 0)
        status = make_run(s, job, &graph, &arguments.run, error);
    if (status != TRP_OK)
        return status;
    if (trp__dnn_host_has_tables(&arguments.run->graph))
        status = look_first(instance, job, arguments.run, error);
    if (status == TRP_AGAIN)
        return status;
    if (status == TRP_OK) {
        *ran = (trp_dnn_ran){.parts = 1};
        trp__copy_string(ran->engine, sizeof ran->engine, "host");
        status = instance->services->enqueue(instance, run, &arguments, sizeof arguments, error);
    }
    if (status != TRP_OK)
        trp__dnn_host_drop(arguments.run);
    return status;
}

const trp_actor_impl trp__dnn_host = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .init = init,
    .handle = handle,
    .trim = trim,
    .stop = stop,
};
