/* Runs a plan of the dnn actor on a GPU: its steps in order in the actor's stream. */
#include "actors/dnn/dnn_cuda.h"
#include "actors/dnn/reference/launch.h"
#include "base/error.h"
#include "worker/actor.h"

#include <string.h>

typedef trp__dnn_cuda_state state;

/* Writes zeros to the elements of a tensor and not between them: one fill for each piece without
 * gaps. Iterates over the last dimension with a gap and all before it. */
static trp_status write_zeros(trp_instance *instance, const trp__dnn_tensor *t, void *at,
                              trp_error *error)
{
    uint64_t width = trp_dtype_bits((trp_dtype)t->type) / 8, run = 1, pieces = 1;
    bool within[TRP__DNN_RANK] = {0};
    trp_status status = TRP_OK;
    for (bool more = true; more;) { /* dimensions that continue the contiguous run are merged into
                                     * it */
        more = false;
        for (int i = 0; i < t->rank; i++) {
            if (!within[i] && (t->dim[i] == 1 || (uint64_t)t->stride[i] == run)) {
                within[i] = more = true;
                run *= (uint64_t)t->dim[i];
            }
        }
    }
    for (int i = 0; i < t->rank; i++)
        pieces *= within[i] ? 1 : (uint64_t)t->dim[i];
    for (uint64_t p = 0; p < pieces && status == TRP_OK; p++) {
        uint64_t rest = p, offset = 0;
        for (int i = t->rank; i-- > 0;) {
            if (within[i])
                continue;
            offset += rest % (uint64_t)t->dim[i] * (uint64_t)t->stride[i];
            rest /= (uint64_t)t->dim[i];
        }
        status = instance->services->fill(instance, (char *)at + offset * width, 0, 1, run * width,
                                          error);
    }
    return status;
}

static trp_status zero_results(trp_instance *instance, const trp__dnn_graph *g,
                               const trp__dnn_node *node, void *const at[], trp_error *error)
{
    const trp__dnn_kind *kind = trp__dnn_kind_of(node->kind);
    trp_status status = TRP_OK;
    for (int i = 0; i < TRP__DNN_PORTS && status == TRP_OK; i++) {
        uint8_t t = node->port[i];
        if (t != TRP__DNN_NO_PORT && kind->port[i].written && at[t] &&
            trp__dnn_elements(&g->tensor[t]) > 0)
            status = write_zeros(instance, &g->tensor[t], at[t], error);
    }
    return status;
}

/* Enqueues a piece. */
static trp_status launch_step(trp__dnn_plan *plan, trp__dnn_step *step, trp__cudnn_handle handle,
                              const trp__kernel_launch *kernel, trp_error *error)
{
    const trp__dnn_graph *lowered = &plan->lowered.graph;
    switch (step->way) {
    case TRP__DNN_WAY_ENGINE:
        return trp__dnn_step_launch(plan, step, handle, kernel->at, kernel->workspace, error);
    case TRP__DNN_WAY_PRODUCT:
        return trp__dnn_product_launch(&step->engine, kernel, error);
    case TRP__DNN_WAY_DIRECT:
        return trp__direct_launch(lowered, step->first, kernel, error);
    case TRP__DNN_WAY_KERNEL:
        return step->family->launch(step->kernel, kernel, error);
    default:
        return zero_results(kernel->instance, lowered, &lowered->node[step->first], kernel->at,
                            error);
    }
}

/* Tells whether a library has refused to run a piece that can run in another way. A library that
 * cannot capture into a graph has refused nothing. */
static bool is_refused(trp_instance *instance, const trp__dnn_step *step, const trp_error *error)
{
    const state *s = instance->state;
    if ((step->way != TRP__DNN_WAY_ENGINE && step->way != TRP__DNN_WAY_PRODUCT) ||
        trp__instance_rehearses(instance) || !trp__dnn_is_refusal(error))
        return false;
    trp__cu_result result = s->cu->cuStreamQuery(instance->stream);
    return result == TRP__CU_SUCCESS || result == TRP__CU_NOT_READY;
}

/* Tells whether a request overwrites its inputs, so that it cannot restart. */
static bool is_in_place(const trp_job *job)
{
    for (uint32_t w = 0; w < job->access_count; w++) {
        const trp_job_access *to = &job->access[w];
        if ((to->mode & TRP_ACCESS_READ_WRITE) == TRP_ACCESS_READ_WRITE)
            return true;
        for (uint32_t r = 0; r < job->access_count && (to->mode & TRP_ACCESS_WRITE); r++) {
            const trp_job_access *from = &job->access[r];
            const uintptr_t a = (uintptr_t)to->address, b = (uintptr_t)from->address;
            if ((from->mode & TRP_ACCESS_READ) && a < b + from->bytes && b < a + to->bytes)
                return true;
        }
    }
    return false;
}

trp_status trp__dnn_cuda_launch(trp_instance *instance, trp_job *job, trp__dnn_plan *plan,
                                const trp__dnn_graph *graph, void *at[], trp_error *error)
{
    state *s = instance->state;
    const trp__dnn_graph *lowered = &plan->lowered.graph;
    char *scratch = job->access[0].address; /* a rehearsal writes nothing there */
    trp_status status = TRP_OK;
    if (!trp__instance_rehearses(instance))
        status = trp__scratch_have(instance, s->cu, &s->scratch, plan->between + plan->workspace,
                                   &scratch, error);
    if (status != TRP_OK)
        return status;
    void *workspace = plan->workspace ? scratch + plan->between : NULL;
    for (uint32_t t = 0; t < lowered->head->tensors && plan->between; t++) {
        if (plan->offset[t] != UINT64_MAX)
            at[t] = scratch + plan->offset[t];
    }
    trp__dnn_plan_set_values(plan, graph);
    const trp__kernel_launch kernel = {.modules = &s->modules,
                                       .instance = instance,
                                       .at = at,
                                       .number = plan->number,
                                       .workspace = workspace};
    for (uint32_t i = 0; i < plan->steps && status == TRP_OK; i++) {
        status = launch_step(plan, &plan->step[i], s->handle, &kernel, error);
        if (status == TRP_OK || !is_refused(instance, &plan->step[i], error))
            continue;
        plan->refused = true;
        plan->refused_step = i;
        trp__copy_string(plan->refused_reason, sizeof plan->refused_reason, error->message);
        if (i == 0 && plan->step[i].way == TRP__DNN_WAY_ENGINE)
            return TRP_AGAIN; /* nothing is in the stream */
        job->progress = 1;
        return is_in_place(job) ? status : TRP_AGAIN;
    }
    return status;
}

/* Returns a step's weight in the description of how a graph ran: */
static uint32_t weight_of(const trp__dnn_plan *plan, const trp__dnn_step *step)
{
    uint32_t weight = step->count;
    for (uint32_t i = step->first; i < step->first + step->count; i++) {
        const uint8_t kind = plan->lowered.graph.node[i].kind;
        if (kind <= TRP_DNN_MATMUL || kind == TRP_DNN_ATTENTION ||
            kind == TRP_DNN_ATTENTION_BACKWARD)
            weight += TRP__DNN_LOWERED_NODES;
    }
    return weight;
}

void trp__dnn_cuda_describe(const trp__dnn_plan *plan, trp_dnn_ran *ran)
{
    uint32_t heaviest = 0;
    *ran = (trp_dnn_ran){.parts = plan->steps ? plan->steps : 1,
                         .found = plan->found,
                         .proven = plan->proven,
                         .tuned = plan->tune != TRP_TUNE_OFF,
                         .workspace_bytes = plan->workspace};
    for (uint32_t i = 1; i < plan->steps; i++) {
        if (weight_of(plan, &plan->step[i]) > weight_of(plan, &plan->step[heaviest]))
            heaviest = i;
    }
    if (plan->steps)
        trp__copy_string(ran->engine, sizeof ran->engine, plan->step[heaviest].engine.name);
}
