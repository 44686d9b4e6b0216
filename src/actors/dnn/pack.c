/* The sender's side: checks a graph, gives its tensors numbers, and writes the request's record. */
#include "actors/dnn/dnn.h"
#include "actors/dnn/shapes.h"
#include "base/checksum.h"
#include "base/error.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#define FAIL(m, ...) trp__error_set((m)->error, TRP_E_ARGUMENT, __VA_ARGS__)

typedef trp__dnn_making making;

enum { NO_NUMBER = 0xff };

/* What an engine may use if the request does not say. */
#define WORKSPACE_DEFAULT ((uint64_t)256 << 20)

/* More elements or bytes than this are refused: sums of a few such numbers still fit. */
#define SPAN_MAX (INT64_C(1) << 48)

/* Fields of a node that name tensors. */
static const struct {
    const char *name;
    size_t offset;
} fields[] = {
#define FIELD(name)                                                                                \
    {                                                                                              \
#name, offsetof(trp_dnn_node, name)                                                        \
    }
    FIELD(x),
    FIELD(w),
    FIELD(y),
    FIELD(dx),
    FIELD(dw),
    FIELD(dy),
    FIELD(a),
    FIELD(b),
    FIELD(t),
    FIELD(index),
    FIELD(scale),
    FIELD(bias),
    FIELD(epsilon),
    FIELD(mean),
    FIELD(inv_variance),
    FIELD(dscale),
    FIELD(dbias),
    FIELD(running_mean),
    FIELD(running_variance),
    FIELD(average_factor),
    FIELD(new_running_mean),
    FIELD(new_running_variance),
    FIELD(sum),
    FIELD(square_sum),
#undef FIELD
};

static uint32_t field_at(const trp_dnn_node *n, size_t offset)
{
    uint32_t value;
    memcpy(&value, (const char *)n + offset, sizeof value);
    return value;
}

/* Tensors as they are given. */

static bool is_type(trp_dtype type)
{
    static const trp_dtype types[] = {TRP_F64,    TRP_F32, TRP_F16, TRP_BF16, TRP_F8E4M3,
                                      TRP_F8E5M2, TRP_I8,  TRP_U8,  TRP_I32,  TRP_BOOL};
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        if (types[i] == type)
            return true;
    }
    return false;
}

static trp__dnn_role role_of(const trp_dnn_tensor *t)
{
    return t->buffer.id ? TRP__DNN_BUFFER : t->value.given ? TRP__DNN_VALUE : TRP__DNN_VIRTUAL;
}

static trp_status check_value(making *m, uint32_t name)
{
    const trp_dnn_tensor *t = &m->given[name];
    if (t->buffer.id && t->value.given)
        return FAIL(m, "tensors[%u].value: expected none, for it has a buffer", name);
    if (t->value.given && (t->value.im != 0 || !isfinite(t->value.re)))
        return FAIL(m, "tensors[%u].value: expected a real finite number, got %g + %gi", name,
                    t->value.re, t->value.im);
    if (!t->buffer.id && t->offset != 0)
        return FAIL(m, "tensors[%u].offset: expected 0, for it has no buffer, got %llu", name,
                    (unsigned long long)t->offset);
    return TRP_OK;
}

static trp_status check_type(making *m, uint32_t name)
{
    const trp_dnn_tensor *t = &m->given[name];
    if (is_type(t->type) || (t->type == TRP_DTYPE_NONE && !t->buffer.id))
        return TRP_OK;
    return FAIL(m,
                "tensors[%u].type: expected f64, f32, f16, bf16, f8e4m3, f8e5m2, i8, u8, i32 or "
                "bool, got %s (%d)",
                name, trp_dtype_name(t->type), (int)t->type);
}

static trp_status check_dims(making *m, uint32_t name)
{
    const trp_dnn_tensor *t = &m->given[name];
    int64_t least = role_of(t) == TRP__DNN_VALUE ? 1 : 0;
    int64_t most = role_of(t) == TRP__DNN_VALUE ? 1 : SPAN_MAX;
    if (t->rank > TRP_DNN_RANK_MAX || (t->rank == 0 && t->buffer.id))
        return FAIL(m, "tensors[%u].rank: expected %d to %d, got %u", name, t->buffer.id ? 1 : 0,
                    TRP_DNN_RANK_MAX, t->rank);
    for (uint32_t i = 0; i < TRP_DNN_RANK_MAX; i++) {
        if (i < t->rank ? t->dim[i] < least || t->dim[i] > most : t->dim[i] != 0)
            return FAIL(m, "tensors[%u].dim[%u]: expected %lld to %lld, got %lld", name, i,
                        (long long)(i < t->rank ? least : 0), (long long)(i < t->rank ? most : 0),
                        (long long)t->dim[i]);
        if (t->stride[i] < 0 || t->stride[i] > (i < t->rank ? SPAN_MAX : 0))
            return FAIL(m, "tensors[%u].stride[%u]: expected 0 to %lld, got %lld", name, i,
                        (long long)(i < t->rank ? SPAN_MAX : 0), (long long)t->stride[i]);
    }
    return TRP_OK;
}

/* The strides of a packed tensor whose dimensions lie in the order of those of `like`, or in their
 * own without one. */
static void pack_strides(trp__dnn_tensor *t, const trp__dnn_tensor *like)
{
    int order[TRP__DNN_RANK];
    for (int i = 0; i < t->rank; i++)
        order[i] = t->rank - 1 - i;
    for (int i = 1; like && i < t->rank; i++) { /* fastest first; a stable sort */
        int moved = order[i], at = i;
        for (; at > 0 && like->stride[order[at - 1]] > like->stride[moved]; at--)
            order[at] = order[at - 1];
        order[at] = moved;
    }
    int64_t next = 1;
    for (int i = 0; i < t->rank; i++) {
        t->stride[order[i]] = next;
        next *= t->dim[order[i]] ? t->dim[order[i]] : 1;
    }
}

/* How far a tensor's elements reach, all products within reason. */
static trp_status check_span(making *m, uint8_t number)
{
    const trp__dnn_tensor *t = &m->tensor[number];
    int64_t elements = 1, last = 0;
    for (int i = 0; i < t->rank; i++) {
        int64_t dim = t->dim[i] ? t->dim[i] : 1, reach;
        if (__builtin_mul_overflow(elements, dim, &elements) || elements > SPAN_MAX ||
            __builtin_mul_overflow(dim - 1, t->stride[i], &reach) || reach > SPAN_MAX ||
            (last += reach) > SPAN_MAX)
            return FAIL(m, "tensors[%u]: expected less than 2^48 elements, and not further apart",
                        m->name[number]);
    }
    return TRP_OK;
}

/* Takes a tensor into the graph when a node names it first. */
static trp_status take_tensor(making *m, uint32_t name, uint8_t *number)
{
    const trp_dnn_tensor *given = &m->given[name];
    *number = m->number[name];
    if (*number != NO_NUMBER)
        return TRP_OK;
    trp_status status = check_value(m, name);
    if (status == TRP_OK)
        status = check_type(m, name);
    if (status == TRP_OK)
        status = check_dims(m, name);
    if (status != TRP_OK)
        return status;
    *number = m->number[name] = (uint8_t)m->head.tensors;
    m->name[m->head.tensors] = (uint8_t)name;
    trp__dnn_tensor *t = &m->tensor[m->head.tensors++];
    *t = (trp__dnn_tensor){.type = (uint8_t)given->type,
                           .rank = (uint8_t)given->rank,
                           .role = (uint8_t)role_of(given)};
    bool packed = true;
    for (int i = 0; i < TRP__DNN_RANK; i++) {
        t->dim[i] = i < t->rank ? given->dim[i] : 1;
        t->stride[i] = given->stride[i];
        packed = packed && given->stride[i] == 0;
    }
    if (packed && t->role != TRP__DNN_VIRTUAL)
        pack_strides(t, NULL);
    return check_span(m, *number);
}

/* Nodes. */

/* One port: what is read must be there, what is written must be free. */
static trp_status take_port(making *m, uint32_t index, int at, uint32_t tensors)
{
    trp__dnn_node *n = &m->node[index];
    const trp__dnn_kind *kind = trp__dnn_kind_of(n->kind);
    const trp__dnn_port *port = &kind->port[at];
    uint32_t name = port->name ? field_at(&m->nodes[index], port->offset) : 0;
    n->port[at] = TRP__DNN_NO_PORT;
    if (!port->name || (name == 0 && port->optional))
        return TRP_OK;
    if (name == 0 || name >= tensors)
        return FAIL(m, "nodes[%u].%s (%s): expected a tensor, 1 to %u, got %u", index, port->name,
                    kind->name, tensors - 1, name);
    trp_status status = take_tensor(m, name, &n->port[at]);
    if (status != TRP_OK)
        return status;
    trp__dnn_tensor *t = &m->tensor[n->port[at]];
    if (!port->written && t->role == TRP__DNN_VIRTUAL && !t->written)
        return FAIL(m,
                    "nodes[%u].%s (%s): tensors[%u] has no buffer and no value, and no earlier "
                    "node writes it",
                    index, port->name, kind->name, name);
    return TRP_OK;
}

/* Marks what a node writes, when all that it reads is known. */
static trp_status take_outputs(making *m, uint32_t index, uint64_t *read)
{
    const trp__dnn_node *n = &m->node[index];
    const trp__dnn_kind *kind = trp__dnn_kind_of(n->kind);
    for (int at = 0; at < TRP__DNN_PORTS; at++) {
        if (n->port[at] != TRP__DNN_NO_PORT && !kind->port[at].written)
            *read |= UINT64_C(1) << n->port[at];
    }
    for (int at = 0; at < TRP__DNN_PORTS; at++) {
        if (n->port[at] == TRP__DNN_NO_PORT || !kind->port[at].written)
            continue;
        trp__dnn_tensor *t = &m->tensor[n->port[at]];
        if (t->written || t->role == TRP__DNN_VALUE || (*read >> n->port[at] & 1))
            return FAIL(m, "nodes[%u].%s (%s): tensors[%u] is %s", index, kind->port[at].name,
                        kind->name, m->name[n->port[at]],
                        t->written                  ? "written before"
                        : t->role == TRP__DNN_VALUE ? "a value"
                                                    : "read before it is written");
        t->written = 1;
    }
    return TRP_OK;
}

/* Fields of tensors that the kind has no use for. */
static trp_status check_unused(making *m, uint32_t index)
{
    const trp_dnn_node *n = &m->nodes[index];
    const trp__dnn_kind *kind = trp__dnn_kind_of(n->kind);
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        bool used = false;
        for (int at = 0; at < TRP__DNN_PORTS; at++)
            used = used || (kind->port[at].name && kind->port[at].offset == fields[i].offset);
        if (!used && field_at(n, fields[i].offset) != 0)
            return FAIL(m, "nodes[%u].%s: expected 0, for %s has no such tensor, got %u", index,
                        fields[i].name, kind->name, field_at(n, fields[i].offset));
    }
    return TRP_OK;
}

/* Modes and parameters. */

static trp_status check_parameters(making *m, uint32_t index)
{
    static const struct {
        uint32_t mode, count;
        double value[TRP_DNN_PARAMETERS];
    } defaults[] = {{TRP_DNN_RELU, 3, {0, INFINITY, 0}},
                    {TRP_DNN_ELU, 1, {1}},
                    {TRP_DNN_SOFTPLUS, 1, {1}},
                    {TRP_DNN_SWISH, 1, {1}}};
    const trp_dnn_node *given = &m->nodes[index];
    trp__dnn_node *n = &m->node[index];
    bool has = n->kind == TRP_DNN_POINTWISE || n->kind == TRP_DNN_POINTWISE_BACKWARD;
    uint32_t count = 0;
    for (size_t i = 0; has && i < COUNT_OF(defaults); i++) {
        if (defaults[i].mode == n->mode) {
            count = defaults[i].count;
            memcpy(n->parameter, defaults[i].value, sizeof n->parameter);
        }
    }
    for (uint32_t i = 0; i < TRP_DNN_PARAMETERS; i++) {
        const trp_scalar *p = &given->parameter[i];
        if (p->given && (i >= count || p->im != 0 || !isfinite(p->re)))
            return FAIL(m, "nodes[%u].parameter[%u]: expected %s, got %g + %gi", index, i,
                        i < count ? "a real finite number" : "none", p->re, p->im);
        if (p->given)
            n->parameter[i] = p->re;
    }
    if (has && n->mode == TRP_DNN_RELU && n->parameter[1] < n->parameter[0])
        return FAIL(m, "nodes[%u].parameter[1]: expected at least the lower clip, %g, got %g",
                    index, n->parameter[0], n->parameter[1]);
    if (has && n->mode == TRP_DNN_SOFTPLUS && n->parameter[0] <= 0)
        return FAIL(m, "nodes[%u].parameter[0]: expected more than 0, got %g", index,
                    n->parameter[0]);
    return TRP_OK;
}

/* What a node does in particular, which its kind says where to find. */
static trp_status check_mode(making *m, uint32_t index)
{
    const trp_dnn_node *n = &m->nodes[index];
    uint32_t kind = m->node[index].kind;
    bool pointwise = kind == TRP_DNN_POINTWISE || kind == TRP_DNN_POINTWISE_BACKWARD;
    bool conv = kind <= TRP_DNN_CONV_BACKWARD_FILTER;
    bool norm = kind >= TRP_DNN_NORM_TRAINING && kind <= TRP_DNN_NORM_BACKWARD;
    bool pool = kind == TRP_DNN_RESAMPLE_FORWARD || kind == TRP_DNN_RESAMPLE_BACKWARD;
    const struct {
        const char *name;
        uint32_t value, least, most;
        bool mine;
    } modes[] = {
        {"pointwise", n->pointwise, kind == TRP_DNN_POINTWISE_BACKWARD ? TRP_DNN_RELU : 0,
         TRP_DNN_SWISH, pointwise},
        {"reduce", n->reduce, 0, TRP_DNN_PRODUCT, kind == TRP_DNN_REDUCTION},
        {"resample", n->resample, 0, TRP_DNN_POOL_AVERAGE_PADDED, pool},
        {"norm", n->norm, 0, TRP_DNN_RMS, norm},
        {"flip", n->flip, 0, 1, conv},
    };
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        uint32_t least = modes[i].mine ? modes[i].least : 0,
                 most = modes[i].mine ? modes[i].most : 0;
        if (modes[i].value < least || modes[i].value > most)
            return FAIL(m, "nodes[%u].%s (%s): expected %u to %u, got %u", index, modes[i].name,
                        trp__dnn_kind_of(kind)->name, least, most, modes[i].value);
        if (modes[i].mine)
            m->node[index].mode = (uint8_t)modes[i].value;
    }
    return TRP_OK;
}

static trp_status check_geometry(making *m, uint32_t index)
{
    const trp_dnn_node *n = &m->nodes[index];
    trp__dnn_node *to = &m->node[index];
    const trp__dnn_kind *kind = trp__dnn_kind_of(to->kind);
    bool conv = to->kind <= TRP_DNN_CONV_BACKWARD_FILTER;
    const struct {
        const char *name;
        const int64_t *from;
        int32_t *to;
        bool mine;
        int32_t zero; /* what 0 stands for */
    } numbers[] = {
        {"pre_pad", n->pre_pad, to->pre_pad, kind->geometry, 0},
        {"post_pad", n->post_pad, to->post_pad, kind->geometry, 0},
        {"stride", n->stride, to->stride, kind->geometry, 1},
        {"dilation", n->dilation, to->dilation, kind->geometry && conv, 1},
        {"window", n->window, to->window, kind->geometry && !conv, 0},
    };
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        for (int d = 0; d < TRP__DNN_SPATIAL; d++) {
            int64_t value = numbers[i].from[d], most = numbers[i].mine ? INT32_MAX / 4 : 0;
            if (value < 0 || value > most)
                return FAIL(m, "nodes[%u].%s[%d] (%s): expected 0 to %lld, got %lld", index,
                            numbers[i].name, d, kind->name, (long long)most, (long long)value);
            numbers[i].to[d] = value ? (int32_t)value : numbers[i].mine ? numbers[i].zero : 0;
        }
    }
    return TRP_OK;
}

/* Numbers for dimensions that are not there say something that nobody would look at. */
static trp_status check_spatial(making *m, uint32_t index)
{
    const trp_dnn_node *n = &m->nodes[index];
    const int64_t *all[] = {n->pre_pad, n->post_pad, n->stride, n->dilation, n->window};
    static const char *const names[] = {"pre_pad", "post_pad", "stride", "dilation", "window"};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        for (int d = m->node[index].spatial; d < TRP__DNN_SPATIAL; d++) {
            if (all[i][d] != 0)
                return FAIL(m,
                            "nodes[%u].%s[%d] (%s): expected 0, for there are %u spatial "
                            "dimensions, got %lld",
                            index, names[i], d, trp__dnn_kind_of(n->kind)->name,
                            m->node[index].spatial, (long long)all[i][d]);
        }
    }
    return TRP_OK;
}

/* What a node has written has all its dimensions by now. A virtual tensor without strides lies in
 * memory as the first of what the node reads, so that a graph in channels-last order stays so. */
static trp_status complete_outputs(making *m, uint32_t index)
{
    const trp__dnn_node *n = &m->node[index];
    const trp__dnn_kind *kind = trp__dnn_kind_of(n->kind);
    trp_status status = TRP_OK;
    for (int at = 0; at < TRP__DNN_PORTS && status == TRP_OK; at++) {
        if (n->port[at] == TRP__DNN_NO_PORT || !kind->port[at].written)
            continue;
        trp__dnn_tensor *t = &m->tensor[n->port[at]];
        const trp__dnn_tensor *like = NULL;
        for (int i = 0; i < TRP__DNN_PORTS && !like; i++) {
            if (n->port[i] != TRP__DNN_NO_PORT && !kind->port[i].written &&
                m->tensor[n->port[i]].rank == t->rank)
                like = &m->tensor[n->port[i]];
        }
        if (t->rank == 0)
            return FAIL(m, "nodes[%u].%s (%s): expected dimensions", index, kind->port[at].name,
                        kind->name);
        if (t->role == TRP__DNN_VIRTUAL && trp__dnn_extent(t) <= 1)
            pack_strides(t, like);
        status = check_span(m, n->port[at]);
    }
    return status;
}

static trp_status take_node(making *m, uint32_t index, uint32_t tensors, uint64_t *read)
{
    const trp_dnn_node *given = &m->nodes[index];
    trp__dnn_node *n = &m->node[index];
    if (!trp__dnn_kind_of(given->kind))
        return FAIL(m, "nodes[%u].kind: expected a trp_dnn_kind, 1 to %d, got %d", index,
                    TRP_DNN_STATISTICS, (int)given->kind);
    *n = (trp__dnn_node){.kind = (uint8_t)given->kind};
    trp_status status = check_unused(m, index);
    if (status == TRP_OK)
        status = check_mode(m, index);
    if (status == TRP_OK)
        status = check_parameters(m, index);
    if (status == TRP_OK)
        status = check_geometry(m, index);
    for (int at = 0; at < TRP__DNN_PORTS && status == TRP_OK; at++)
        status = take_port(m, index, at, tensors);
    if (status == TRP_OK)
        status = trp__dnn_check_shapes(m, index);
    if (status == TRP_OK)
        status = check_spatial(m, index);
    if (status == TRP_OK)
        status = take_outputs(m, index, read);
    return status == TRP_OK ? complete_outputs(m, index) : status;
}

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
    memset(m->number, NO_NUMBER, sizeof m->number);
    trp_status status = check_options(m, r);
    for (uint32_t i = 0; i < r->node_count && status == TRP_OK; i++) {
        status = take_node(m, i, r->tensor_count, &read);
        m->head.nodes++;
    }
    for (uint32_t i = 1; i < r->tensor_count && status == TRP_OK; i++) {
        uint8_t number = m->number[i];
        if (number == NO_NUMBER)
            return FAIL(m, "tensors[%u]: no node names it", i);
        trp__dnn_tensor *t = &m->tensor[number];
        if (t->role == TRP__DNN_VIRTUAL && !(read >> number & 1))
            return FAIL(m, "tensors[%u]: it has no buffer, and no node reads it", i);
        if (t->role == TRP__DNN_VALUE && t->rank == 0)
            t->rank = 1;
        if (t->role == TRP__DNN_VALUE)
            pack_strides(t, NULL);
    }
    return status;
}

/* Places. */

static uint64_t bytes_of(const trp__dnn_tensor *t)
{
    return (uint64_t)trp__dnn_extent(t) * (trp_dtype_bits((trp_dtype)t->type) / 8);
}

/* Whether no two elements lie in one place: sorted by stride, each dimension begins behind the
 * reach of those before. */
static bool is_injective(const trp__dnn_tensor *t)
{
    int64_t reach = 0;
    bool done[TRP__DNN_RANK] = {false};
    for (int round = 0; round < t->rank; round++) {
        int least = -1;
        for (int i = 0; i < t->rank; i++) {
            if (!done[i] && (least < 0 || t->stride[i] < t->stride[least]))
                least = i;
        }
        done[least] = true;
        if (t->dim[least] > 1 && t->stride[least] <= reach)
            return false;
        reach += (t->dim[least] - 1) * t->stride[least];
    }
    return true;
}

/* Whether two tensors share bytes of a buffer; those between elements count. */
static bool overlap(const making *m, uint8_t a, uint8_t b)
{
    const trp_dnn_tensor *x = &m->given[m->name[a]], *y = &m->given[m->name[b]];
    return m->tensor[b].role == TRP__DNN_BUFFER && x->buffer.id == y->buffer.id &&
           x->offset < y->offset + bytes_of(&m->tensor[b]) &&
           y->offset < x->offset + bytes_of(&m->tensor[a]);
}

static trp_status check_output(making *m, uint8_t number)
{
    if (!is_injective(&m->tensor[number]))
        return FAIL(m, "tensors[%u].stride: expected a place for each element, for it is written",
                    m->name[number]);
    for (uint8_t i = 0; i < m->head.tensors; i++) {
        if (i != number && overlap(m, number, i))
            return FAIL(m, "tensors[%u]: it overlaps tensors[%u], and is written", m->name[number],
                        m->name[i]);
    }
    return TRP_OK;
}

static trp_status add_tensor(making *m, trp__pack *pack, uint8_t number, uint8_t *access)
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
    return trp__pack_access(pack, name, given->buffer, given->offset, bytes_of(t), size, mode);
}

/* Of buffers, whose places in memory are multiples of more than any library asks for. */
static void note_alignments(making *m)
{
    for (uint8_t i = 0; i < m->head.tensors; i++) {
        uint64_t offset = m->given[m->name[i]].offset;
        if (m->tensor[i].role == TRP__DNN_BUFFER)
            m->tensor[i].alignment = offset % 16 ? (uint32_t)(offset & -offset) & 15U : 16U;
    }
}

static trp_status check_buffers(making *m, bool *anything)
{
    uint32_t buffers = 0;
    for (uint8_t i = 0; i < m->head.tensors; i++) {
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

/* Writes the graph to `at`: its key from what was checked, values and accesses. */
static trp_status put_graph(making *m, trp__pack *pack, char *at)
{
    double value[TRP_DNN_TENSORS_MAX] = {0};
    uint8_t access[TRP_DNN_TENSORS_MAX];
    trp_status status = TRP_OK;
    const size_t tensors = m->head.tensors;
    for (uint8_t i = 0; i < tensors && status == TRP_OK; i++) {
        if (m->tensor[i].role == TRP__DNN_VALUE)
            value[i] = m->given[m->name[i]].value.re;
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

trp_status trp__dnn_pack(trp__pack *pack, const trp_request *request)
{
    const trp_dnn_graph_request *r = (const trp_dnn_graph_request *)request;
    making m = {.given = r->tensors, .nodes = r->nodes, .error = pack->error};
    trp__dnn g = {0};
    bool anything = false;
    void *room = NULL;
    trp_status status = take_graph(&m, r);
    if (status == TRP_OK)
        status = check_buffers(&m, &anything);
    if (status != TRP_OK)
        return status;
    note_alignments(&m);
    if (anything) {
        g.bytes = (uint32_t)trp__dnn_bytes(&m.head);
        status =
            pack->exchange(pack, r->options.ran, r->options.ran ? sizeof *r->options.ran : 0,
                           (uint32_t)sizeof *r->options.ran + g.bytes, r->header.wait_ns, &room);
        if (status == TRP_OK)
            status = put_graph(&m, pack, (char *)room + sizeof *r->options.ran);
        if (status == TRP_OK)
            g.sum =
                trp__checksum((char *)room + sizeof *r->options.ran, trp__dnn_key_bytes(&m.head));
    } else if (r->options.ran) {
        *r->options.ran = (trp_dnn_ran){.engine = "none"};
    }
    memcpy(pack->record->payload, &g, sizeof g);
    return status;
}
