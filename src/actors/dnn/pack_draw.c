/* What a node draws by: seed and offset become values of the graph, which are no part of its key.
 * The 64 bits of each lie in the place of a number, which would not hold them. */
#include "actors/dnn/making.h"
#include "base/error.h"

#define FAIL(m, ...) trp__error_set((m)->error, TRP_E_ARGUMENT, __VA_ARGS__)

typedef trp__dnn_making making;

static trp_status add_drawn(making *m, uint32_t index, uint64_t bits, uint8_t *number)
{
    if (m->head.tensors == TRP_DNN_TENSORS_MAX)
        return trp__error_set(m->error, TRP_E_UNSUPPORTED,
                              "nodes[%u].seed: the graph has no room for it beside %d tensors",
                              index, TRP_DNN_TENSORS_MAX);
    *number = (uint8_t)m->head.tensors;
    trp__dnn_tensor *t = &m->tensor[m->head.tensors++];
    *t = (trp__dnn_tensor){.type = TRP_I64, .rank = 1, .role = TRP__DNN_VALUE};
    for (int i = 0; i < TRP__DNN_RANK; i++)
        t->dim[i] = 1;
    trp__dnn_pack_strides(t, NULL);
    m->name[*number] = 0;
    m->drawn[*number] = bits;
    return TRP_OK;
}

static trp_status refuse(making *m, uint32_t index, const char *why)
{
    const trp_dnn_node *n = &m->nodes[index];
    return FAIL(m, "nodes[%u].%s (%s): expected 0, for %s, got %llu", index,
                n->seed ? "seed" : "offset", trp__dnn_kind_of(n->kind)->name, why,
                (unsigned long long)(n->seed ? n->seed : n->offset));
}

trp_status trp__dnn_take_seed(making *m, uint32_t index)
{
    const trp_dnn_node *given = &m->nodes[index];
    trp__dnn_node *n = &m->node[index];
    const bool any = given->seed != 0 || given->offset != 0;
    if (n->kind != TRP_DNN_ATTENTION && n->kind != TRP_DNN_ATTENTION_BACKWARD)
        return any ? refuse(m, index, "it draws nothing") : TRP_OK;
    if (given->draw)
        return any ? refuse(m, index, "draw is there") : TRP_OK;
    if (n->parameter[1] == 0) /* nothing is drawn: the graph is the same as without */
        return TRP_OK;
    trp_status status = add_drawn(m, index, given->seed, &n->port[TRP__DNN_ATTENTION_SEED]);
    if (status == TRP_OK)
        status = add_drawn(m, index, given->offset, &n->port[TRP__DNN_ATTENTION_OFFSET]);
    return status;
}
