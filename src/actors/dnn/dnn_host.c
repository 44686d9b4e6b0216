/* The dnn actor on the host. */
#include "actors/dnn/dnn.h"
#include "actors/dnn/onednn.h"
#include "actors/dnn/rnn.h"
#include "base/error.h"

#include <string.h>

typedef trp__dnn_host_libraries state;

static trp_status init(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    trp_error ignored; /* own loops compute what oneDNN would */
    trp_status status = trp__openblas_load(&s->blas, error);
    if (status == TRP_OK)
        trp__onednn_open(&s->onednn, &ignored);
    return status;
}

static void stop(trp_instance *instance)
{
    trp__onednn_close(((state *)instance->state)->onednn);
}

typedef struct run_arguments {
    trp__dnn_host_run *run;
} run_arguments;

static void run(void *arguments)
{
    trp__dnn_host_run_now(((run_arguments *)arguments)->run);
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    const state *s = instance->state;
    void *address[TRP_DNN_TENSORS_MAX] = {0};
    uint64_t bytes[TRP_DNN_TENSORS_MAX] = {0};
    trp__dnn_graph graph;
    trp_dnn_ran *ran;
    run_arguments arguments;
    trp__dnn g;
    if (job->op != TRP_OP_DNN_GRAPH)
        return trp__rnn_host_handle(instance, s->blas, job, error);
    memcpy(&g, job->payload, sizeof g);
    if (g.bytes == 0)
        return TRP_OK;
    trp_status status = trp__dnn_job_graph(job, &graph, &ran, error);
    if (status != TRP_OK)
        return status;
    for (int i = 0; i < graph.head->tensors; i++) {
        if (graph.access[i] < job->access_count) {
            address[i] = job->access[graph.access[i]].address;
            bytes[i] = job->access[graph.access[i]].bytes;
        }
    }
    status = trp__dnn_host_make(s, &graph, address, bytes, &arguments.run, error);
    if (status != TRP_OK)
        return status;
    *ran = (trp_dnn_ran){.parts = 1};
    trp__copy_string(ran->engine, sizeof ran->engine, "host");
    status = instance->services->enqueue(instance, run, &arguments, sizeof arguments, error);
    if (status != TRP_OK)
        trp__dnn_host_drop(arguments.run);
    return status;
}

const trp_actor_impl trp__dnn_host = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .init = init,
    .handle = handle,
    .stop = stop,
};
