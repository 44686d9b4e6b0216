/* Takes the nodes of a request. */
#include "actors/dnn/graph/train_op.h"
#include "actors/dnn/request/making.h"
#include "base/error.h"
#include "wire/actor_class.h"

#include <math.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#define FAIL(m, ...) trp__error_set((m)->error, TRP_E_ARGUMENT, __VA_ARGS__)

typedef trp__dnn_making making;

/* The fields of a node that name tensors. */
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
    FIELD(q),
    FIELD(k),
    FIELD(v),
    FIELD(dq),
    FIELD(dk),
    FIELD(dv),
    FIELD(stats),
    FIELD(slopes),
    FIELD(seq_q),
    FIELD(seq_kv),
    FIELD(part[0]),
    FIELD(part[1]),
    FIELD(part[2]),
    FIELD(part[3]),
    FIELD(part[4]),
    FIELD(part[5]),
    FIELD(part[6]),
    FIELD(part[7]),
    FIELD(seed),
    FIELD(offset),
    FIELD(table),
    FIELD(rows),
    FIELD(new_w),
    FIELD(moment[0]),
    FIELD(moment[1]),
    FIELD(new_moment[0]),
    FIELD(new_moment[1]),
    FIELD(narrow),
    FIELD(rate),
    FIELD(decay),
    FIELD(found),
    FIELD(segments),
    FIELD(grad_norm),
    FIELD(skipped),
    FIELD(count),
    FIELD(limit),
#undef FIELD
};

static uint32_t field_at(const trp_dnn_node *n, size_t offset)
{
    uint32_t value;
    memcpy(&value, (const char *)n + offset, sizeof value);
    return value;
}

/* Takes one port: an input must exist, an output must not be written yet. */
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
    trp_status status = trp__dnn_take_tensor(m, name, &n->port[at]);
    if (status != TRP_OK)
        return status;
    trp__dnn_tensor *t = &m->tensor[n->port[at]];
    if (t->role == TRP__DNN_DATA && !(n->kind == TRP_DNN_OPTIMIZER && at == TRP__OPT_SEGMENTS))
        return FAIL(m, "nodes[%u].%s (%s): expected a tensor without data", index, port->name,
                    kind->name);
    if (!port->written && t->role == TRP__DNN_VIRTUAL && !t->written)
        return FAIL(m,
                    "nodes[%u].%s (%s): tensors[%u] has no buffer and no value, and no earlier "
                    "node writes it",
                    index, port->name, kind->name, name);
    return TRP_OK;
}

/* Marks a node's inputs and outputs. */
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

/* Checks that tensor fields unused by the kind are 0. */
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

static bool is_attention(uint32_t kind)
{
    return kind == TRP_DNN_ATTENTION || kind == TRP_DNN_ATTENTION_BACKWARD;
}

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
    uint32_t count = is_attention(n->kind) ? 2 : 0; /* the scale's default follows from a shape */
    if (n->kind == TRP_DNN_RANDOM) {
        count = n->mode == TRP_DNN_BERNOULLI ? 1 : 2;
        n->parameter[0] = n->mode == TRP_DNN_BERNOULLI ? 0.5 : 0;
        n->parameter[1] = count - 1;
    }
    if (trp__dnn_is_training(n->kind))
        count = trp__train_parameters(n);
    for (size_t i = 0; has && i < COUNT_OF(defaults); i++) {
        if (defaults[i].mode == n->mode) {
            count = defaults[i].count;
            memcpy(n->parameter, defaults[i].value, sizeof n->parameter);
        }
    }
    trp_error error;
    if (trp__scalar_check(&error, "ignore", &given->ignore) != TRP_OK)
        return FAIL(m, "nodes[%u].%s", index, error.message);
    for (uint32_t i = 0; i < TRP_DNN_PARAMETERS; i++) {
        const trp_scalar *p = &given->parameter[i];
        if (trp__scalar_check(&error, "", p) != TRP_OK)
            return FAIL(m, "nodes[%u].parameter[%u]%s", index, i, error.message);
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
    if (is_attention(n->kind) && !(n->parameter[1] >= 0 && n->parameter[1] < 1))
        return FAIL(m,
                    "nodes[%u].parameter[1]: expected the probability of dropout, 0 to less than "
                    "1, got %g",
                    index, n->parameter[1]);
    return TRP_OK;
}

/* Checks the mode of a node in the field that its kind defines. */
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
        {"mask", n->mask, 0, TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT, is_attention(kind)},
        {"random", n->random, 0, TRP_DNN_BERNOULLI, kind == TRP_DNN_RANDOM},
        {"gather", n->gather, 0, TRP_DNN_GATHER_ELEMENTS,
         kind == TRP_DNN_GATHER || kind == TRP_DNN_SCATTER_ADD},
        {"loss", n->loss, 0, TRP_DNN_KL_LOG, kind == TRP_DNN_LOSS},
        {"rotary", n->rotary, 0, TRP_DNN_ROTARY_PAIRS,
         kind == TRP_DNN_ROTARY || kind == TRP_DNN_ROTARY_BACKWARD},
        {"extreme", n->extreme, 0, TRP_DNN_SMALLEST, kind == TRP_DNN_ARG || kind == TRP_DNN_TOP_K},
        {"optimizer", n->optimizer, 0, TRP_DNN_LION, kind == TRP_DNN_OPTIMIZER},
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
    if (n->round_up && (!kind->geometry || conv))
        return FAIL(m, "nodes[%u].round_up (%s): expected false", index, kind->name);
    const struct {
        const char *name;
        const int64_t *from;
        int32_t *to;
        bool mine;
        int32_t zero; /* meaning of 0 */
    } numbers[] = {
        {"pre_pad", n->pre_pad, to->pre_pad, kind->geometry, 0},
        {"post_pad", n->post_pad, to->post_pad, kind->geometry, 0},
        {"stride", n->stride, to->stride, kind->geometry, 1},
        {"dilation", n->dilation, to->dilation, kind->geometry && conv, 1},
        {"window", n->window, to->window, (kind->geometry && !conv) || is_attention(to->kind), 0},
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

/* Refuses parameters of missing dimensions, which would be ignored. */
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

/* Tells whether all elements have distinct places: sorted by stride, each dimension's stride
 * exceeds the reach of the previous ones. */
static bool is_injective(const trp__dnn_tensor *t)
{
    int64_t reach = 0;
    bool done[TRP__DNN_RANK] = {false};
    if (trp__dnn_elements(t) == 0)
        return true;
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

/* Completes outputs, whose dimensions are all set. A virtual tensor without strides gets the order
 * of the node's first input, so that a graph in channels-last order stays so. */
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
        status = trp__dnn_check_span(m, n->port[at]);
        if (status == TRP_OK && t->role == TRP__DNN_VIRTUAL && trp__dnn_extent(t) <= 1) {
            trp__dnn_pack_strides(t, like);
            status = trp__dnn_check_span(m, n->port[at]);
        }
        if (status == TRP_OK && !is_injective(t))
            status =
                FAIL(m, "tensors[%u].stride: expected a place for each element, for it is written",
                     m->name[n->port[at]]);
    }
    return status;
}

trp_status trp__dnn_take_node(making *m, uint32_t index, uint32_t tensors, uint64_t *read)
{
    const trp_dnn_node *given = &m->nodes[index];
    trp__dnn_node *n = &m->node[index];
    if (!trp__dnn_kind_of(given->kind))
        return FAIL(m, "nodes[%u].kind: expected a trp_dnn_kind, 1 to %d, got %d", index,
                    TRP_DNN_OPTIMIZER, (int)given->kind);
    *n = (trp__dnn_node){.kind = (uint8_t)given->kind};
    trp_status status = check_unused(m, index);
    if (status == TRP_OK)
        status = check_mode(m, index);
    if (status == TRP_OK)
        status = check_parameters(m, index);
    if (status == TRP_OK)
        status = check_geometry(m, index);
    if (status == TRP_OK)
        status = trp__dnn_take_move(m, index);
    if (status == TRP_OK)
        status = trp__train_take(m, index);
    for (int at = 0; at < TRP__DNN_PORTS && status == TRP_OK; at++)
        status = take_port(m, index, at, tensors);
    if (status == TRP_OK)
        status = take_outputs(m, index, read);
    if (status == TRP_OK)
        status = trp__dnn_check_shapes(m, index);
    if (status == TRP_OK)
        status = check_spatial(m, index);
    return status == TRP_OK ? complete_outputs(m, index) : status;
}
