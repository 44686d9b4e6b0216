/* Stream capture, as far as the program uses it: the calls of a fake library become the nodes of a
 * graph, which can be launched any number of times. */
#include "support/fake_cuda/fake.h"

#include <stdlib.h>

enum { NODES = 8 };

/* Lives as long as a handle or an operation refers to it. */
struct fake_graph {
    unsigned int references;
    int count;
    struct {
        void (*run)(void *argument);
        void (*drop)(void *argument);
        void *argument;
    } node[NODES];
};

void fake_graph_keep(fake_graph *g)
{
    g->references++;
}

void fake_graph_drop(fake_graph *g)
{
    if (--g->references > 0)
        return;
    for (int i = 0; i < g->count; i++)
        g->node[i].drop(g->node[i].argument);
    free(g);
}

void fake_graph_run(const fake_graph *g)
{
    for (int i = 0; i < g->count; i++)
        g->node[i].run(g->node[i].argument);
}

trp__cu_result cuStreamBeginCapture_v2(trp__cu_stream stream, trp__cu_capture_mode mode)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    fake_graph **capture = stream ? fake_stream_capture(stream) : NULL;
    if (!capture || *capture || mode != TRP__CU_STREAM_CAPTURE_MODE_RELAXED)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    *capture = calloc(1, sizeof **capture);
    if (!*capture)
        return fake_leave(FAKE_ERROR_OUT_OF_MEMORY);
    (*capture)->references = 1;
    return fake_leave(FAKE_SUCCESS);
}

static trp__cu_result give(uintptr_t handle, fake_graph *g, void *out)
{
    if (!handle) {
        fake_graph_drop(g);
        return fake_leave(FAKE_ERROR_OUT_OF_MEMORY);
    }
    *(uintptr_t *)out = handle;
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuStreamEndCapture(trp__cu_stream stream, trp__cu_graph *out)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    fake_graph **capture = stream ? fake_stream_capture(stream) : NULL;
    fake_graph *g = capture ? *capture : NULL;
    if (!g)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    *capture = NULL;
    return give(fake_handle_new(FAKE_GRAPH, g), g, out);
}

trp__cu_result cuGraphInstantiateWithFlags(trp__cu_graph_exec *out, trp__cu_graph graph,
                                           unsigned long long flags)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    fake_graph *g = fake_handle_get(FAKE_GRAPH, (uintptr_t)graph);
    if (!g || flags != 0)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    fake_graph_keep(g);
    return give(fake_handle_new(FAKE_GRAPH_EXEC, g), g, out);
}

trp__cu_result cuGraphLaunch(trp__cu_graph_exec exec, trp__cu_stream stream)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    fake_graph *g = fake_handle_get(FAKE_GRAPH_EXEC, (uintptr_t)exec);
    fake_stream *s = fake_stream_get(stream);
    if (!g || !s)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    fake_graph_keep(g); /* submitting may release the lock */
    result = fake_submit(s, &(fake_op){.kind = FAKE_OP_GRAPH, .graph = g});
    fake_graph_drop(g);
    return fake_leave(result);
}

static trp__cu_result destroy(fake_kind kind, uintptr_t handle)
{
    int result = fake_enter(FAKE_ENDS_CONTEXT);
    if (result)
        return result;
    fake_graph *g = fake_handle_get(kind, handle);
    if (!g)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    fake_handle_drop(handle);
    fake_graph_drop(g);
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuGraphExecDestroy(trp__cu_graph_exec exec)
{
    return destroy(FAKE_GRAPH_EXEC, (uintptr_t)exec);
}

trp__cu_result cuGraphDestroy(trp__cu_graph graph)
{
    return destroy(FAKE_GRAPH, (uintptr_t)graph);
}

bool fake_cuda_record(trp__cu_stream stream, void (*run)(void *argument),
                      void (*drop)(void *argument), void *argument)
{
    if (fake_enter(FAKE_NEEDS_CONTEXT))
        return false;
    fake_graph **capture = stream ? fake_stream_capture(stream) : NULL;
    fake_graph *g = capture ? *capture : NULL;
    bool taken = g && g->count < NODES;
    if (taken) {
        g->node[g->count].run = run;
        g->node[g->count].drop = drop;
        g->node[g->count++].argument = argument;
    }
    fake_leave(FAKE_SUCCESS);
    return taken;
}
