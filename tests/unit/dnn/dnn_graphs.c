#include "dnn_graphs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dnn_begin(dnn_graph *g)
{
    memset(g, 0, sizeof *g);
    g->head.workspace = UINT64_C(256) << 20;
}

uint8_t dnn_tensor(dnn_graph *g, trp__dnn_role role, trp_dtype type, dnn_layout layout,
                   uint32_t rank, const int64_t dim[])
{
    uint8_t number = (uint8_t)g->head.tensors++;
    trp__dnn_tensor *t = &g->tensor[number];
    trp_dnn_tensor how = {.rank = rank};
    *t = (trp__dnn_tensor){.type = (uint8_t)type, .rank = (uint8_t)rank, .role = (uint8_t)role};
    t->alignment = role == TRP__DNN_BUFFER ? 16 : 0;
    for (uint32_t i = 0; i < TRP__DNN_RANK; i++)
        t->dim[i] = i < rank ? dim[i] : 1;
    memcpy(how.dim, t->dim, sizeof how.dim);
    int64_t next = 1;
    for (uint32_t i = rank; i-- > 0;) {
        how.stride[i] = next;
        next *= how.dim[i];
    }
    if (layout == DNN_CHANNELS_LAST)
        trp_dnn_channels_last(&how);
    memcpy(t->stride, how.stride, sizeof t->stride);
    return number;
}

uint8_t dnn_value(dnn_graph *g, trp_dtype type, double value)
{
    const int64_t one = 1;
    uint8_t number = dnn_tensor(g, TRP__DNN_VALUE, type, DNN_ROWS, 1, &one);
    g->value[number] = value;
    return number;
}

trp__dnn_node *dnn_node(dnn_graph *g, trp_dnn_kind kind, uint32_t mode, trp_dtype compute,
                        uint32_t spatial)
{
    trp__dnn_node *n = &g->node[g->head.nodes++];
    *n = (trp__dnn_node){.kind = (uint8_t)kind,
                         .mode = (uint8_t)mode,
                         .compute = (uint8_t)compute,
                         .spatial = (uint8_t)spatial};
    memset(n->port, DNN_NONE, sizeof n->port);
    for (uint32_t i = 0; i < spatial; i++)
        n->stride[i] = n->dilation[i] = 1;
    n->parameter[0] = mode == TRP_DNN_RELU ? 0 : 1;
    n->parameter[1] = mode == TRP_DNN_RELU ? INFINITY : 0;
    return n;
}

trp__dnn_graph dnn_finish(dnn_graph *g)
{
    size_t bytes = trp__dnn_bytes(&g->head);
    for (uint32_t n = 0; n < g->head.nodes; n++) {
        const trp__dnn_kind *kind = trp__dnn_kind_of(g->node[n].kind);
        for (int i = 0; i < TRP__DNN_PORTS; i++) {
            if (kind->port[i].name && kind->port[i].written && g->node[n].port[i] != DNN_NONE)
                g->tensor[g->node[n].port[i]].written = 1;
        }
    }
    char *at = g->bytes = calloc(1, bytes);
    if (!at)
        abort();
    memcpy(at, &g->head, sizeof g->head);
    at += sizeof g->head;
    memcpy(at, g->tensor, g->head.tensors * sizeof *g->tensor);
    at += g->head.tensors * sizeof *g->tensor;
    memcpy(at, g->node, g->head.nodes * sizeof *g->node);
    at += g->head.nodes * sizeof *g->node;
    memcpy(at, g->value, g->head.tensors * sizeof *g->value);
    return trp__dnn_graph_at(g->bytes);
}

void dnn_end(dnn_graph *g)
{
    free(g->bytes);
    g->bytes = NULL;
}

uint8_t dnn_image(dnn_graph *g, trp__dnn_role role, trp_dtype type, dnn_layout layout,
                  uint32_t spatial, int64_t n, int64_t c, int64_t size)
{
    const int64_t dim[] = {n, c, size, size, size};
    return dnn_tensor(g, role, type, layout, 2 + spatial, dim);
}
