#include "actors/matmul/graphs.h"

#include "base/error.h"

enum {
    RECORDINGS = 512,
    OFTEN = 4, /* recording costs more than this number of calls */
};

/* The state of one product. */
typedef struct recording {
    trp__cu_graph_exec graph; /* NULL: not recorded */
    uint32_t seen;            /* how often it was called before the recording */
} recording;

static void drop(void *context, void *value)
{
    trp__matmul_graphs *a = context;
    const recording *r = value;
    if (r->graph)
        a->cu->cuGraphExecDestroy(r->graph);
}

trp_status trp__matmul_graphs_open(trp__matmul_graphs *a, const trp__cuda *cu, trp_error *error)
{
    a->cu = cu;
    if (cu->cuStreamCreate(&a->stream, TRP__CU_STREAM_NON_BLOCKING) != TRP__CU_SUCCESS)
        a->stream = NULL; /* then nothing is recorded */
    return trp__lru_create(sizeof(trp__matmul_graph_key), sizeof(recording), RECORDINGS, drop, a,
                           &a->table, error);
}

static void stop_recording(trp__matmul_graphs *a)
{
    if (a->stream)
        a->cu->cuStreamDestroy_v2(a->stream);
    a->stream = NULL;
}

void trp__matmul_graphs_close(trp__matmul_graphs *a)
{
    trp__lru_destroy(a->table);
    a->table = NULL;
    if (a->cu)
        stop_recording(a);
}

void trp__matmul_graphs_forget(trp__matmul_graphs *a)
{
    trp__lru_clear(a->table);
}

trp__cu_graph_exec trp__matmul_graphs_find(trp__matmul_graphs *a, const trp__matmul_graph_key *key)
{
    const recording *r = trp__lru_find(a->table, key);
    return r ? r->graph : NULL;
}

static trp__cu_graph_exec record(trp__matmul_graphs *a, const trp__matmul_planner *planner,
                                 const trp__matmul_plan *plan, const trp__matmul_graph_key *key,
                                 size_t workspace_bytes)
{
    const trp__cuda *cu = a->cu;
    trp__cu_graph graph = NULL;
    trp__cu_graph_exec exec = NULL;
    trp_error ignored;
    void *at[TRP__MATMUL_OPERANDS];
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++)
        at[i] = (void *)(uintptr_t)key->at[i];
    if (cu->cuStreamBeginCapture_v2(a->stream, TRP__CU_STREAM_CAPTURE_MODE_RELAXED) !=
        TRP__CU_SUCCESS)
        return NULL;
    trp_status status =
        trp__matmul_plan_launch(planner, plan, &key->problem, at, (void *)(uintptr_t)key->workspace,
                                workspace_bytes, a->stream, &ignored);
    if (cu->cuStreamEndCapture(a->stream, &graph) != TRP__CU_SUCCESS || !graph) {
        stop_recording(a); /* the state of the stream is unknown */
        return NULL;
    }
    if (status != TRP_OK || cu->cuGraphInstantiateWithFlags(&exec, graph, 0) != TRP__CU_SUCCESS)
        exec = NULL;
    cu->cuGraphDestroy(graph);
    return exec;
}

void trp__matmul_graphs_note(trp__matmul_graphs *a, const trp__matmul_planner *planner,
                             const trp__matmul_plan *plan, const trp__matmul_graph_key *key,
                             size_t workspace_bytes)
{
    if (!a->stream)
        return;
    recording *r = trp__lru_find(a->table, key);
    r = r ? r : trp__lru_add(a->table, key);
    if (r->seen < OFTEN && ++r->seen == OFTEN)
        r->graph = record(a, planner, plan, key, workspace_bytes);
}
