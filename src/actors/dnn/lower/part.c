#include "actors/dnn/lower/part.h"

#include "base/text.h"

#include <troupe/dnn.h>

#include <inttypes.h>
#include <string.h>

static bool touches(const trp__dnn_node *node, uint32_t tensor)
{
    return memchr(node->port, (int)tensor, sizeof node->port) != NULL;
}

void trp__dnn_places(const trp__dnn_part *part, uint8_t place[TRP__DNN_LOWERED_TENSORS])
{
    const trp__dnn_graph *g = part->graph;
    for (uint32_t t = 0; t < g->head->tensors; t++) {
        bool inside = false, outside = false;
        uint32_t users = 0;
        for (uint32_t n = 0; n < g->head->nodes; n++) {
            if (!touches(&g->node[n], t))
                continue;
            users++;
            if (n - part->first < part->count)
                inside = true;
            else
                outside = true;
        }
        uint8_t role = g->tensor[t].role;
        place[t] = !inside                  ? TRP__DNN_PLACE_NONE
                   : role == TRP__DNN_VALUE ? TRP__DNN_PLACE_VALUE
                   : role == TRP__DNN_VIRTUAL && !outside && users > 1
                       ? TRP__DNN_PLACE_INSIDE
                       : TRP__DNN_PLACE_MEMORY; /* also unread outputs */
    }
}

static void add_tensor_text(trp__text *t, const trp__dnn_tensor *tensor)
{
    for (uint32_t i = 0; i < tensor->rank; i++)
        trp__text_add(t, "%s%" PRId64, i ? "x" : " ", tensor->dim[i]);
    trp__text_add(t, " %s", trp_dtype_name((trp_dtype)tensor->type));
}

void trp__dnn_graph_text(const trp__dnn_graph *graph, char *text, size_t size)
{
    trp__text t = {.out = text, .size = size};
    text[0] = '\0';
    for (uint32_t n = 0; n < graph->head->nodes; n++) {
        const trp__dnn_node *node = &graph->node[n];
        bool element_wise =
            node->kind == TRP_DNN_POINTWISE || node->kind == TRP_DNN_POINTWISE_BACKWARD;
        trp__text_add(&t, "%s%s", n ? ", " : "",
                      element_wise ? trp__dnn_pointwise_name(node->mode)
                                   : trp__dnn_kind_of(node->kind)->name);
        if (n == 0 && node->port[0] != TRP__DNN_NO_PORT)
            add_tensor_text(&t, &graph->tensor[node->port[0]]);
    }
}

void trp__dnn_part_text(const trp__dnn_part *part, char *text, size_t size)
{
    trp__dnn_head head = *part->graph->head;
    trp__dnn_graph alone = *part->graph;
    head.nodes = (uint16_t)part->count;
    alone.head = &head;
    alone.node += part->first;
    trp__dnn_graph_text(&alone, text, size);
}
