/* The sender's side: checks a graph, numbers its tensors, and writes the request's record. */
#include "actors/dnn/graph/wire.h"
#include "actors/dnn/lower/quirks.h"
#include "actors/dnn/request/making.h"
#include "actors/dnn/request/encode.h"
#include "base/checksum.h"
#include "base/error.h"
#include "base/overlap.h"

#include <stdio.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#define FAIL(m, ...) trp__error_set((m)->error, TRP_E_ARGUMENT, __VA_ARGS__)

typedef trp__dnn_making making;

enum { DATA_MAX = 48 << 10 }; /* largest data of a request in bytes, without the graph */

/* Default workspace limit of an engine. */
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
                              .workspace = r->options.workspace_bytes};
    return TRP_OK;
}

/* cuDNN stores the gradients of k and v of all heads of q before it adds those of a group: engines
 * are worth that additional memory. */
static uint64_t default_workspace(const making *m)
{
    uint64_t most = WORKSPACE_DEFAULT;
    for (uint32_t i = 0; i < m->head.nodes; i++) {
        const trp__dnn_node *n = &m->node[i];
        if (n->kind != TRP_DNN_ATTENTION_BACKWARD)
            continue;
        const trp__dnn_tensor *q = &m->tensor[n->port[TRP__DNN_ATTENTION_Q]];
        const trp__dnn_tensor *v = &m->tensor[n->port[TRP__DNN_ATTENTION_V]];
        const uint64_t size = trp_dtype_bits((trp_dtype)v->type) / 8;
        const uint64_t rows = (uint64_t)q->dim[0] * (uint64_t)q->dim[1] * (uint64_t)v->dim[2];
        const uint64_t bytes = rows * ((uint64_t)q->dim[3] + (uint64_t)v->dim[3]) * size;
        if (q->dim[1] != v->dim[1] && WORKSPACE_DEFAULT + bytes > most)
            most = WORKSPACE_DEFAULT + bytes;
    }
    return most;
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
    if (status == TRP_OK && m->head.workspace == 0)
        m->head.workspace = default_workspace(m);
    return status;
}

static uint64_t bytes_of(const trp__dnn_tensor *t)
{
    return (uint64_t)trp__dnn_extent(t) * (trp_dtype_bits((trp_dtype)t->type) / 8);
}

static trp__strided strided(const trp__dnn_tensor *t)
{
    trp__strided s = {.rank = t->rank, .size = trp_dtype_bits((trp_dtype)t->type) / 8};
    for (int i = 0; i < t->rank; i++) {
        s.dim[i] = t->dim[i];
        s.stride[i] = t->stride[i] * s.size;
    }
    return s;
}

static trp__overlap overlap(const making *m, uint32_t a, uint32_t b)
{
    const trp_dnn_tensor *x = &m->given[m->name[a]], *y = &m->given[m->name[b]];
    if (m->tensor[b].role != TRP__DNN_BUFFER || x->buffer.id != y->buffer.id ||
        x->offset >= y->offset + bytes_of(&m->tensor[b]) ||
        y->offset >= x->offset + bytes_of(&m->tensor[a]))
        return TRP__OVERLAP_NONE;
    const trp__strided of_x = strided(&m->tensor[a]), of_y = strided(&m->tensor[b]);
    return trp__overlap_between(&of_x, &of_y, (int64_t)(y->offset - x->offset));
}

/* Tells whether both tensors have each element at the same address. */
static bool same_place(const making *m, uint32_t a, uint32_t b)
{
    const trp__dnn_tensor *x = &m->tensor[a], *y = &m->tensor[b];
    bool same = x->type == y->type && x->rank == y->rank &&
                m->given[m->name[a]].offset == m->given[m->name[b]].offset;
    for (int i = 0; same && i < x->rank; i++)
        same = x->dim[i] == y->dim[i] && (x->dim[i] == 1 || x->stride[i] == y->stride[i]);
    return same;
}

static bool is_element_wise(const trp__dnn_node *n)
{
    return n->kind == TRP_DNN_POINTWISE || n->kind == TRP_DNN_POINTWISE_BACKWARD;
}

static const trp__dnn_tensor *result_of(const making *m, const trp__dnn_node *n)
{
    const int at = n->kind == TRP_DNN_POINTWISE ? TRP__DNN_POINTWISE_Y : TRP__DNN_GRADIENT_DX;
    return &m->tensor[n->port[at]];
}

/* Tells whether y may overwrite x: all nodes are element-wise, the readers of x produce as many
 * elements as x has, so that each element is read only for its own place, and no reader comes after
 * the writer of y. */
static bool may_replace(const making *m, uint32_t y, uint32_t x)
{
    bool written = false;
    if (m->tensor[x].written || !same_place(m, y, x))
        return false;
    for (uint32_t i = 0; i < m->head.nodes; i++) {
        const trp__dnn_node *n = &m->node[i];
        if (!is_element_wise(n))
            return false;
        const trp__dnn_tensor *result = result_of(m, n);
        for (int at = 0; at < TRP__DNN_PORTS; at++) {
            if (n->port[at] == x &&
                (written || trp__dnn_elements(result) != trp__dnn_elements(&m->tensor[x])))
                return false;
        }
        written = written || result == &m->tensor[y];
    }
    return true;
}

/* Tells whether a tensor overwrites one that is read only by the node that writes it. */
static bool is_in_place(const making *m, uint32_t written, uint32_t read)
{
    bool writer = false;
    if (!m->tensor[written].written || m->tensor[read].written || !same_place(m, written, read))
        return false;
    for (uint32_t i = 0; i < m->head.nodes; i++) {
        const trp__dnn_node *n = &m->node[i];
        const uint8_t *to = memchr(n->port, (int)written, sizeof n->port);
        for (int at = 0; at < TRP__DNN_PORTS; at++) {
            if (n->port[at] != read)
                continue;
            if (!to || !trp__dnn_in_place(n->kind, at, (int)(to - n->port)))
                return false;
            writer = true;
        }
    }
    return writer;
}

/* Checks an output. *replaces: it overwrites an input. */
static trp_status check_output(making *m, uint32_t number, bool *replaces)
{
    *replaces = false;
    for (uint32_t i = 0; i < m->head.tensors; i++) {
        const trp__overlap found = i == number ? TRP__OVERLAP_NONE : overlap(m, number, i);
        if (found == TRP__OVERLAP_NONE)
            continue;
        if (!may_replace(m, number, i) && !is_in_place(m, number, i))
            return FAIL(m, "tensors[%u]: it %s tensors[%u], and is written%s", m->name[number],
                        found == TRP__OVERLAP_UNKNOWN ? "may overlap" : "overlaps", m->name[i],
                        found == TRP__OVERLAP_UNKNOWN ? "; expected strides that nest" : "");
        *replaces = true;
    }
    return TRP_OK;
}

static trp_status add_tensor(making *m, trp__encoder *encoder, uint32_t number, uint8_t *access)
{
    trp__dnn_tensor *t = &m->tensor[number];
    const trp_dnn_tensor *given = &m->given[m->name[number]];
    uint64_t size = trp_dtype_bits((trp_dtype)t->type) / 8;
    char name[24];
    *access = TRP__DNN_NO_ACCESS;
    if (t->role != TRP__DNN_BUFFER)
        return TRP_OK;
    bool replaces = false;
    trp_status status = t->written ? check_output(m, number, &replaces) : TRP_OK;
    if (status != TRP_OK)
        return status;
    bool covers = trp__dnn_extent(t) == trp__dnn_elements(t) && !replaces;
    uint32_t mode = !t->written ? TRP__READ : covers ? TRP__WRITE | TRP__COVER : TRP__WRITE;
    snprintf(name, sizeof name, "tensors[%u]", m->name[number]);
    *access = (uint8_t)encoder->record->access_count;
    const char *field = m->names ? m->names[m->name[number]] : NULL;
    return trp__encode_access(encoder, field ? field : name, given->buffer, given->offset,
                              bytes_of(t), size, mode);
}

static bool lies_in(const making *m, uint32_t number, trp_buffer buffer, uint64_t begin,
                    uint64_t end)
{
    const trp_dnn_tensor *at = &m->given[m->name[number]];
    return m->tensor[number].role == TRP__DNN_BUFFER && at->buffer.id == buffer.id &&
           at->offset < end && begin < at->offset + bytes_of(&m->tensor[number]);
}

/* Adds an access for the union of outputs. Views that are all written, such as dq, dk and dv in one
 * array, may cover it without gaps, though each of them has gaps: then the array is valid again
 * even if its contents were lost. An additional access without a tensor declares that. */
static trp_status add_union(making *m, trp__encoder *encoder, uint32_t first)
{
    const trp_buffer buffer = m->given[m->name[first]].buffer;
    uint64_t begin = m->given[m->name[first]].offset, written = 0;
    uint64_t end = begin + bytes_of(&m->tensor[first]);
    bool member[TRP_DNN_TENSORS_MAX] = {false};
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->head.tensors; i++) {
        const trp__dnn_tensor *t = &m->tensor[i];
        const uint64_t offset = m->given[m->name[i]].offset;
        if (member[i] || !lies_in(m, i, buffer, begin, end))
            continue;
        if (!t->written || i < first) /* an input, or done already */
            return TRP_OK;
        member[i] = true;
        count++;
        written += (uint64_t)trp__dnn_elements(t) * (trp_dtype_bits((trp_dtype)t->type) / 8);
        if (offset >= begin && offset + bytes_of(t) <= end)
            continue;
        begin = offset < begin ? offset : begin;
        end = offset + bytes_of(t) > end ? offset + bytes_of(t) : end;
        i = UINT32_MAX; /* others may be within it now */
    }
    if (count < 2 || written != end - begin || encoder->record->access_count >= TRP__ACCESS_MAX)
        return TRP_OK;
    return trp__encode_access(encoder, "tensors", buffer, begin, written, 1,
                              TRP__WRITE | TRP__COVER);
}

/* Sets the alignments of tensors in buffers, whose own alignment exceeds what any library
 * requires. */
static void note_alignments(making *m)
{
    for (uint32_t i = 0; i < m->head.tensors; i++) {
        uint64_t offset = m->given[m->name[i]].offset;
        if (m->tensor[i].role == TRP__DNN_BUFFER)
            m->tensor[i].alignment = offset % 16 ? (uint32_t)(offset & -offset) & 15U : 16U;
    }
}

/* Counts the data of the request without the graph. */
static trp_status count_data(making *m, uint32_t *bytes)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < m->head.tensors; i++) {
        const uint64_t elements =
            m->tensor[i].role == TRP__DNN_DATA ? (uint64_t)trp__dnn_elements(&m->tensor[i]) : 0;
        sum += elements > DATA_MAX ? DATA_MAX + 1 : elements * sizeof(double);
        if (sum > DATA_MAX)
            return FAIL(m, "tensors[%u].data: expected at most %d bytes in all tensors, got more",
                        m->name[i], DATA_MAX);
    }
    *bytes = (uint32_t)sum;
    return TRP_OK;
}

/* Copies that data. */
static void put_data(const making *m, char *to)
{
    for (uint32_t i = 0; i < m->head.tensors; i++) {
        if (m->tensor[i].role != TRP__DNN_DATA)
            continue;
        const size_t bytes = (size_t)trp__dnn_data_bytes(&m->tensor[i]);
        if (bytes > 0)
            memcpy(to, m->given[m->name[i]].data, bytes);
        to += bytes;
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

/* Returns a value, or the bits of an i64. */
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

/* Writes the graph to `at`: the checked key, values and accesses. */
static trp_status put_graph(making *m, trp__encoder *encoder, char *at)
{
    double value[TRP_DNN_TENSORS_MAX] = {0};
    uint8_t access[TRP_DNN_TENSORS_MAX];
    trp_status status = TRP_OK;
    const size_t tensors = m->head.tensors;
    for (uint32_t i = 0; i < tensors && status == TRP_OK; i++) {
        if (m->tensor[i].role == TRP__DNN_VALUE)
            value[i] = value_of(m, i);
        status = add_tensor(m, encoder, i, &access[i]);
    }
    for (uint32_t i = 0; i < tensors && status == TRP_OK; i++) {
        if (m->tensor[i].role == TRP__DNN_BUFFER && m->tensor[i].written)
            status = add_union(m, encoder, i);
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

/* Writes the request. `tune` is not part of the key or its checksum. */
static trp_status put_request(making *m, trp__encoder *encoder, const trp_dnn_graph_request *r,
                              trp__dnn *g)
{
    const uint32_t before = (uint32_t)sizeof *r->options.ran;
    const uint8_t tune = m->head.tune;
    void *room = NULL;
    g->bytes = (uint32_t)trp__dnn_bytes(&m->head);
    trp_status status = count_data(m, &g->data);
    if (status == TRP_OK)
        status = encoder->exchange(
            encoder, r->options.ran, r->options.ran ? before : 0,
            g->data ? (uint32_t)TRP__DNN_DATA_AT(g->bytes) + g->data : before + g->bytes, &room);
    if (status != TRP_OK)
        return status;
    char *graph = (char *)room + before;
    if (g->data)
        put_data(m, (char *)room + TRP__DNN_DATA_AT(g->bytes));
    m->head.tune = 0;
    status = put_graph(m, encoder, graph);
    if (status == TRP_OK)
        g->sum = trp__checksum(graph, trp__dnn_key_bytes(&m->head));
    m->head.tune = tune;
    memcpy(graph, &m->head, sizeof m->head);
    return status;
}

trp_status trp__dnn_encode(trp__encoder *encoder, const trp_request *request)
{
    const trp_dnn_graph_request *r = (const trp_dnn_graph_request *)request;
    making m = {.given = r->tensors, .nodes = r->nodes, .error = encoder->error, .names = r->names};
    trp__dnn g = {0};
    bool anything = false;
    trp_status status = take_graph(&m, r);
    if (status == TRP_OK)
        status = check_buffers(&m, &anything);
    note_alignments(&m);
    if (status == TRP_OK && anything)
        status = put_request(&m, encoder, r, &g);
    else if (status == TRP_OK && r->options.ran)
        *r->options.ran = (trp_dnn_ran){.engine = "none"};
    if (status != TRP_OK)
        trp__dnn_rename(&m);
    memcpy(encoder->record->payload, &g, sizeof g);
    return status;
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
