/* The sender's side: checks a graph, gives its tensors numbers, and writes the request's record. */
#include "actors/dnn/dnn.h"
#include "actors/dnn/making.h"
#include "actors/dnn/quirks.h"
#include "base/checksum.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#define FAIL(m, ...) trp__error_set((m)->error, TRP_E_ARGUMENT, __VA_ARGS__)

typedef trp__dnn_making making;

/* What an engine may use if the request does not say. */
#define WORKSPACE_DEFAULT ((uint64_t)256 << 20)

static trp_status check_options(making *m, const trp_dnn_graph_request *r)
{
    if (r->node_count < 1 || r->node_count > TRP_DNN_NODES_MAX || !r->nodes)
        return FAIL(m, "nodes: expected 1 to %d, got %u%s", TRP_DNN_NODES_MAX, r->node_count,
                    r->nodes ? "" : " at NULL");
    if (r->tensor_count < 2 || r->tensor_count > TRP_DNN_TENSORS_MAX || !r->tensors)
        return FAIL(m, "tensors: expected 2 to %d, got %u%s", TRP_DNN_TENSORS_MAX, r->tensor_count,
                    r->tensors ? "" : " at NULL");
    const trp_dnn_tensor *none = &r->tensors[0];
    if (none->type || none->rank || none->buffer.id || none->value.given)
        return FAIL(m, "tensors[0]: expected all zero, for it stands for none");
    if (r->options.heuristic > TRP_DNN_HEURISTIC_FALLBACK)
        return FAIL(m, "heuristic: expected a trp_dnn_heuristic, got %d",
                    (int)r->options.heuristic);
    if (r->options.tune > TRP_TUNE_FULL)
        return FAIL(m, "tune: expected TRP_TUNE_OFF, _QUICK or _FULL, got %d",
                    (int)r->options.tune);
    m->head = (trp__dnn_head){.tf32 = r->options.tf32,
                              .deterministic = r->options.deterministic,
                              .heuristic = (uint8_t)r->options.heuristic,
                              .tune = (uint8_t)r->options.tune,
                              .workspace = r->options.workspace_bytes ? r->options.workspace_bytes
                                                                      : WORKSPACE_DEFAULT};
    return TRP_OK;
}

static trp_status take_graph(making *m, const trp_dnn_graph_request *r)
{
    uint64_t read = 0;
    memset(m->number, TRP__DNN_NO_NUMBER, sizeof m->number);
    trp_status status = check_options(m, r);
    for (uint32_t i = 0; i < r->node_count && status == TRP_OK; i++) {
        status = trp__dnn_take_node(m, i, r->tensor_count, &read);
        m->head.nodes++;
    }
    for (uint32_t i = 1; i < r->tensor_count && status == TRP_OK; i++) {
        uint8_t number = m->number[i];
        if (number == TRP__DNN_NO_NUMBER)
            return FAIL(m, "tensors[%u]: no node names it", i);
        trp__dnn_tensor *t = &m->tensor[number];
        if (t->role == TRP__DNN_VIRTUAL && !(read >> number & 1))
            return FAIL(m, "tensors[%u]: it has no buffer, and no node reads it", i);
        if (t->role == TRP__DNN_VALUE && t->rank == 0)
            t->rank = 1;
        if (t->role == TRP__DNN_VALUE)
            trp__dnn_pack_strides(t, NULL);
    }
    return status;
}

/* Places. */

static uint64_t bytes_of(const trp__dnn_tensor *t)
{
    return (uint64_t)trp__dnn_extent(t) * (trp_dtype_bits((trp_dtype)t->type) / 8);
}

/* Whether two tensors share bytes of a buffer; those between elements count. */
static bool overlap(const making *m, uint32_t a, uint32_t b)
{
    const trp_dnn_tensor *x = &m->given[m->name[a]], *y = &m->given[m->name[b]];
    return m->tensor[b].role == TRP__DNN_BUFFER && x->buffer.id == y->buffer.id &&
           x->offset < y->offset + bytes_of(&m->tensor[b]) &&
           y->offset < x->offset + bytes_of(&m->tensor[a]);
}

static trp_status check_output(making *m, uint32_t number)
{
    for (uint32_t i = 0; i < m->head.tensors; i++) {
        if (i != number && overlap(m, number, i))
            return FAIL(m, "tensors[%u]: it overlaps tensors[%u], and is written", m->name[number],
                        m->name[i]);
    }
    return TRP_OK;
}

static trp_status add_tensor(making *m, trp__pack *pack, uint32_t number, uint8_t *access)
{
    trp__dnn_tensor *t = &m->tensor[number];
    const trp_dnn_tensor *given = &m->given[m->name[number]];
    uint64_t size = trp_dtype_bits((trp_dtype)t->type) / 8;
    char name[24];
    *access = TRP__DNN_NO_ACCESS;
    if (t->role != TRP__DNN_BUFFER)
        return TRP_OK;
    trp_status status = t->written ? check_output(m, number) : TRP_OK;
    if (status != TRP_OK)
        return status;
    bool dense = trp__dnn_extent(t) == trp__dnn_elements(t);
    uint32_t mode = !t->written ? TRP__READ : dense ? TRP__WRITE | TRP__COVER : TRP__WRITE;
    snprintf(name, sizeof name, "tensors[%u]", m->name[number]);
    *access = (uint8_t)pack->record->access_count;
    return trp__pack_access(pack, m->names ? m->names[m->name[number]] : name, given->buffer,
                            given->offset, bytes_of(t), size, mode);
}

/* Of buffers, whose places in memory are multiples of more than any library asks for. */
static void note_alignments(making *m)
{
    for (uint32_t i = 0; i < m->head.tensors; i++) {
        uint64_t offset = m->given[m->name[i]].offset;
        if (m->tensor[i].role == TRP__DNN_BUFFER)
            m->tensor[i].alignment = offset % 16 ? (uint32_t)(offset & -offset) & 15U : 16U;
    }
}

static trp_status check_buffers(making *m, bool *anything)
{
    uint32_t buffers = 0;
    for (uint32_t i = 0; i < m->head.tensors; i++) {
        const trp__dnn_tensor *t = &m->tensor[i];
        buffers += t->role == TRP__DNN_BUFFER;
        *anything =
            *anything || (t->role == TRP__DNN_BUFFER && t->written && trp__dnn_elements(t) > 0);
    }
    if (buffers > TRP_DNN_BUFFERS_MAX)
        return trp__error_set(m->error, TRP_E_UNSUPPORTED,
                              "tensors: expected at most %d with a buffer, got %u",
                              TRP_DNN_BUFFERS_MAX, buffers);
    return TRP_OK;
}

/* A value, or the bits of one that is i64. */
static double value_of(const making *m, size_t number)
{
    const trp_scalar *given = &m->given[m->name[number]].value;
    double value = given->re;
    if (m->tensor[number].type == TRP_I64) {
        const uint64_t whole = (uint64_t)given->re + ((uint64_t)given->im << 32);
        memcpy(&value, &whole, sizeof value);
    }
    return value;
}

/* Writes the graph to `at`: its key from what was checked, values and accesses. */
static trp_status put_graph(making *m, trp__pack *pack, char *at)
{
    double value[TRP_DNN_TENSORS_MAX] = {0};
    uint8_t access[TRP_DNN_TENSORS_MAX];
    trp_status status = TRP_OK;
    const size_t tensors = m->head.tensors;
    for (uint32_t i = 0; i < tensors && status == TRP_OK; i++) {
        if (m->tensor[i].role == TRP__DNN_VALUE)
            value[i] = value_of(m, i);
        status = add_tensor(m, pack, i, &access[i]);
    }
    if (status != TRP_OK)
        return status;
    const struct {
        const void *from;
        size_t bytes;
    } parts[] = {{&m->head, sizeof m->head},
                 {m->tensor, tensors * sizeof *m->tensor},
                 {m->node, m->head.nodes * sizeof *m->node},
                 {value, tensors * sizeof *value},
                 {access, tensors * sizeof *access}};
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        memcpy(at, parts[i].from, parts[i].bytes);
        at += parts[i].bytes;
    }
    return TRP_OK;
}

/* What is asked for by `tune` is no part of the key, nor of its checksum. */
static trp_status put_request(making *m, trp__pack *pack, const trp_dnn_graph_request *r,
                              trp__dnn *g)
{
    const uint32_t before = (uint32_t)sizeof *r->options.ran;
    const uint8_t tune = m->head.tune;
    void *room = NULL;
    g->bytes = (uint32_t)trp__dnn_bytes(&m->head);
    trp_status status = pack->exchange(pack, r->options.ran, r->options.ran ? before : 0,
                                       before + g->bytes, r->header.wait_ns, &room);
    if (status != TRP_OK)
        return status;
    char *graph = (char *)room + before;
    m->head.tune = 0;
    status = put_graph(m, pack, graph);
    if (status == TRP_OK)
        g->sum = trp__checksum(graph, trp__dnn_key_bytes(&m->head));
    m->head.tune = tune;
    memcpy(graph, &m->head, sizeof m->head);
    return status;
}

trp_status trp__dnn_pack_named(trp__pack *pack, const trp_dnn_graph_request *r,
                               const char *const *names)
{
    making m = {.given = r->tensors, .nodes = r->nodes, .error = pack->error, .names = names};
    trp__dnn g = {0};
    bool anything = false;
    trp_status status = take_graph(&m, r);
    if (status == TRP_OK)
        status = check_buffers(&m, &anything);
    if (status != TRP_OK)
        return status;
    note_alignments(&m);
    if (anything) {
        status = put_request(&m, pack, r, &g);
    } else if (r->options.ran) {
        *r->options.ran = (trp_dnn_ran){.engine = "none"};
    }
    memcpy(pack->record->payload, &g, sizeof g);
    return status;
}

trp_status trp__dnn_pack(trp__pack *pack, const trp_request *request)
{
    return trp__dnn_pack_named(pack, (const trp_dnn_graph_request *)request, NULL);
}

bool trp__dnn_is_asked(const trp_dnn_graph_request *r)
{
    trp_error ignored;
    making m = {.given = r->tensors, .nodes = r->nodes, .error = &ignored};
    if (take_graph(&m, r) != TRP_OK)
        return false;
    note_alignments(&m);
    const trp__dnn_graph graph = {.head = &m.head, .tensor = m.tensor, .node = m.node};
    uint32_t at = 0, count = 1;
    for (; at < m.head.nodes && count > 0; at += count)
        count = trp__dnn_asked(&graph, at);
    return count > 0;
}
