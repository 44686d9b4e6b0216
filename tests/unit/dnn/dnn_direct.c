/* See dnn_direct.h. */
#include "unit/dnn/dnn_direct.h"

#include "actors/dnn/dnn.h"
#include "backend/host/host_backend.h"
#include "worker/actor.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 14 };

static trp__instance instance;
static trp_error error;
static const dd_graph *now; /* the one that is sent */
static _Alignas(64) unsigned char piece[PIECE];
static uint32_t piece_bytes;

uint32_t dd_tensor(dd_graph *g, trp_dtype type, void *array, int rank, const int64_t *dim)
{
    const uint32_t number = ++g->tensors;
    uint64_t count = 1;
    if (number >= DD_TENSORS)
        abort();
    trp_dnn_tensor *t = &g->tensor[number];
    *t = (trp_dnn_tensor){.type = type, .rank = (uint32_t)rank, .buffer = {array ? number : 0}};
    for (int i = 0; i < rank; i++) {
        t->dim[i] = dim[i];
        count *= (uint64_t)dim[i];
    }
    g->array[number] = array;
    g->bytes[number] = count * trp_dtype_bits(type) / 8;
    return number;
}

uint32_t dd_line(dd_graph *g, trp_dtype type, void *array, int64_t count)
{
    return dd_tensor(g, type, array, 1, &count);
}

uint32_t dd_value(dd_graph *g, trp_dtype type, double value)
{
    const uint32_t number = dd_tensor(g, type, NULL, 0, NULL);
    g->tensor[number].value = trp_real(value);
    return number;
}

trp_dnn_node *dd_node(dd_graph *g, trp_dnn_kind kind)
{
    if (g->nodes == DD_NODES)
        abort();
    trp_dnn_node *n = &g->node[g->nodes++];
    *n = (trp_dnn_node){.kind = kind};
    return n;
}

static trp_status acquire(trp__encoder *encoder, const char *name, trp_buffer buffer,
                          trp__access *access, uint64_t *bytes)
{
    (void)encoder;
    (void)name;
    access->slot = (uint32_t)buffer.id;
    *bytes = now->bytes[buffer.id];
    return TRP_OK;
}

static trp_status exchange(trp__encoder *encoder, void *target, uint32_t result_bytes,
                           uint32_t bytes, void **room)
{
    (void)encoder;
    (void)target;
    (void)result_bytes;
    if (bytes > sizeof piece)
        abort();
    piece_bytes = bytes;
    *room = piece;
    return TRP_OK;
}

trp_status dd_send(const dd_graph *g, void (*meddle)(trp_job *job))
{
    const trp_dnn_graph_request r = {.header.op = TRP_OP_DNN_GRAPH,
                                     .tensors = g->tensor,
                                     .tensor_count = g->tensors + 1,
                                     .nodes = g->node,
                                     .node_count = g->nodes};
    trp__record record = {.op = TRP_OP_DNN_GRAPH};
    trp__encoder encoder = {.record = &record,
                            .error = &error,
                            .backend = TRP_BACKEND_HOST,
                            .acquire = acquire,
                            .exchange = exchange};
    trp__job job;
    now = g;
    piece_bytes = 0;
    memset(piece, 0, sizeof piece);
    memset(&error, 0, sizeof error);
    trp_status status = trp__dnn_encode(&encoder, &r.header);
    if (status != TRP_OK)
        return status;
    trp__job_begin(&job, &record);
    uint32_t count = 0;
    for (; count < record.access_count; count++) {
        const trp__access *a = &record.access[count];
        job.api.access[count].address = (char *)g->array[a->slot] + a->offset;
        job.api.access[count].bytes = a->bytes;
    }
    if (piece_bytes) {
        job.api.access[count].address = piece;
        job.api.access[count++].bytes = piece_bytes;
    }
    job.api.access_count = count;
    if (meddle)
        meddle(&job.api);
    status = trp__dnn_host.handle(&instance.api, &job.api, &error);
    trp__host_drain(instance.stream);
    return status;
}

trp__dnn_host_libraries *dd_libraries(void)
{
    return instance.api.state;
}

const trp_error *dd_error(void)
{
    return &error;
}

const trp_dnn_ran *dd_ran(void)
{
    return (const trp_dnn_ran *)piece;
}

trp_status dd_open(void)
{
    instance.backend = &trp__host_backend;
    instance.api.state = calloc(1, trp__dnn_host.state_bytes);
    if (!instance.api.state || trp__host_backend.open(0, &instance.accel, &error) != TRP_OK ||
        trp__host_backend.stream_create(instance.accel, &instance.stream, &error) != TRP_OK)
        abort();
    trp__instance_begin(&instance, TRP_BACKEND_HOST, 0, 1);
    trp_status status = trp__dnn_host.init(&instance.api, &error);
    if (status != TRP_OK)
        dd_close();
    return status;
}

void dd_close(void)
{
    if (trp__dnn_host.stop)
        trp__dnn_host.stop(&instance.api);
    trp__host_backend.stream_destroy(instance.stream);
    trp__host_backend.close(instance.accel);
    free(instance.api.state);
}
