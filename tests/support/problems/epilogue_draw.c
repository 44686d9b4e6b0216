#include "support/problems/epilogue_draw.h"

#include "support/reference/random.h"

#include <stdlib.h>
#include <string.h>

bool epilogue_is_sink(trp_epilogue_kind kind)
{
    return kind == TRP_EPILOGUE_AUX_STORE ||
           (kind >= TRP_EPILOGUE_REDUCE_ROWS && kind <= TRP_EPILOGUE_REDUCE_ALL);
}

bool epilogue_has_memory(trp_epilogue_kind kind)
{
    return (kind >= TRP_EPILOGUE_SCALAR && kind <= TRP_EPILOGUE_SCALE_COLUMNS) ||
           epilogue_is_sink(kind);
}

uint32_t epilogue_inputs(const trp_epilogue_node *x)
{
    if (x->kind <= TRP_EPILOGUE_AUX_LOAD)
        return 0;
    if (x->kind == TRP_EPILOGUE_BINARY)
        return 2;
    if (x->kind == TRP_EPILOGUE_FMA)
        return 3;
    if (x->kind == TRP_EPILOGUE_ACTIVATION)
        return x->activation == TRP_ACTIVATION_DRELU || x->activation == TRP_ACTIVATION_DGELU ? 2
                                                                                              : 1;
    return 1;
}

static trp_dtype draw_matrix_type(uint64_t *rng, bool wide)
{
    static const trp_dtype narrow[] = {TRP_F32, TRP_F16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2, TRP_I8};
    if (wide)
        return random_below(rng, 2) ? TRP_F64 : TRP_F32;
    return narrow[random_below(rng, 6)];
}

static trp_dtype draw_vector_type(uint64_t *rng, bool wide)
{
    static const trp_dtype narrow[] = {TRP_DTYPE_NONE, TRP_F32, TRP_F16, TRP_BF16};
    if (wide)
        return random_below(rng, 2) ? TRP_F64 : TRP_F32;
    return narrow[random_below(rng, 4)];
}

static trp_activation draw_activation(uint64_t *rng, bool exact)
{
    static const trp_activation all_exact[] = {TRP_ACTIVATION_RELU, TRP_ACTIVATION_DRELU,
                                               TRP_ACTIVATION_CLIPPED_RELU,
                                               TRP_ACTIVATION_LEAKY_RELU, TRP_ACTIVATION_CLAMP};
    if (exact)
        return all_exact[random_below(rng, 5)];
    return (trp_activation)(1 + random_below(rng, TRP_ACTIVATION_CLAMP));
}

static void draw_parameters(uint64_t *rng, trp_epilogue_node *x)
{
    bool has = x->activation == TRP_ACTIVATION_CLIPPED_RELU ||
               x->activation == TRP_ACTIVATION_LEAKY_RELU || x->activation == TRP_ACTIVATION_ELU ||
               x->activation == TRP_ACTIVATION_SOFTPLUS || x->activation == TRP_ACTIVATION_CLAMP;
    if (has && random_below(rng, 2))
        x->parameter[0] = trp_real(0.25 + 0.125 * random_below(rng, 8));
    if (x->activation == TRP_ACTIVATION_CLAMP)
        x->parameter[1] = trp_real(1.5 + 0.25 * random_below(rng, 8));
}

/* Draws a node without inputs. */
static trp_epilogue_node draw_leaf(uint64_t *rng, const epilogue_tree *t, epilogue_limits limits)
{
    static const trp_epilogue_kind leaves[] = {TRP_EPILOGUE_ACCUMULATOR, TRP_EPILOGUE_C,
                                               TRP_EPILOGUE_SCALAR,      TRP_EPILOGUE_PER_ROW,
                                               TRP_EPILOGUE_PER_COLUMN,  TRP_EPILOGUE_AUX_LOAD};
    bool wide = t->accumulator == TRP_F64;
    trp_epilogue_node x = {.kind = leaves[random_below(rng, 6)]};
    if (x.kind == TRP_EPILOGUE_SCALAR && random_below(rng, 3))
        x.value = trp_real((double)random_below(rng, 33) / 8 - 2);
    else if (x.kind == TRP_EPILOGUE_SCALAR && random_below(rng, 2))
        x.buffer.id = 1; /* replaced by the node's number later */
    if (x.kind == TRP_EPILOGUE_PER_ROW || x.kind == TRP_EPILOGUE_PER_COLUMN)
        x.type = draw_vector_type(rng, wide);
    if (x.kind == TRP_EPILOGUE_AUX_LOAD) {
        x.type = draw_matrix_type(rng, wide);
        x.order = limits.one_order || random_below(rng, 2) ? TRP_ROW_MAJOR : TRP_COL_MAJOR;
    }
    return x;
}

/* Draws an operation on earlier nodes. */
static trp_epilogue_node draw_operation(uint64_t *rng, const epilogue_tree *t,
                                        epilogue_limits limits)
{
    static const trp_epilogue_kind kinds[] = {TRP_EPILOGUE_BINARY,      TRP_EPILOGUE_BINARY,
                                              TRP_EPILOGUE_BINARY,      TRP_EPILOGUE_BINARY,
                                              TRP_EPILOGUE_ACTIVATION,  TRP_EPILOGUE_ACTIVATION,
                                              TRP_EPILOGUE_UNARY,       TRP_EPILOGUE_FMA,
                                              TRP_EPILOGUE_SCALE_ROWS,  TRP_EPILOGUE_SCALE_COLUMNS,
                                              TRP_EPILOGUE_CONVERT,     TRP_EPILOGUE_AUX_STORE,
                                              TRP_EPILOGUE_REDUCE_ROWS, TRP_EPILOGUE_REDUCE_COLUMNS,
                                              TRP_EPILOGUE_REDUCE_ALL};
    static const trp_unary exact_unary[] = {TRP_UNARY_NEGATE, TRP_UNARY_ABS, TRP_UNARY_SQUARE,
                                            TRP_UNARY_SQRT, TRP_UNARY_RECIPROCAL};
    bool wide = t->accumulator == TRP_F64;
    trp_epilogue_node x = {.kind = kinds[random_below(rng, limits.no_sinks ? 11 : 15)]};
    switch (x.kind) {
    case TRP_EPILOGUE_BINARY:
        x.binary = (trp_binary)random_below(rng, TRP_BINARY_MAX + 1);
        break;
    case TRP_EPILOGUE_ACTIVATION:
        x.activation = draw_activation(rng, limits.exact_only);
        draw_parameters(rng, &x);
        break;
    case TRP_EPILOGUE_UNARY:
        x.unary = limits.exact_only ? exact_unary[random_below(rng, 5)]
                                    : (trp_unary)random_below(rng, TRP_UNARY_LOG + 1);
        break;
    case TRP_EPILOGUE_SCALE_ROWS:
    case TRP_EPILOGUE_SCALE_COLUMNS:
        x.type = draw_vector_type(rng, wide);
        break;
    case TRP_EPILOGUE_CONVERT:
        x.type = draw_matrix_type(rng, wide);
        break;
    case TRP_EPILOGUE_AUX_STORE:
        x.type = draw_matrix_type(rng, wide);
        x.order = limits.one_order || random_below(rng, 2) ? TRP_ROW_MAJOR : TRP_COL_MAJOR;
        break;
    case TRP_EPILOGUE_REDUCE_ROWS:
    case TRP_EPILOGUE_REDUCE_COLUMNS:
    case TRP_EPILOGUE_REDUCE_ALL:
        x.reduction = (trp_reduction)random_below(rng, TRP_REDUCTION_AMAX + 1);
        break;
    default:
        break;
    }
    for (uint32_t p = 0; p < epilogue_inputs(&x); p++)
        x.input[p] = 1 + random_below(rng, t->count - 1);
    return x;
}

static void add(epilogue_tree *t, trp_epilogue_node x)
{
    if (epilogue_has_memory(x.kind) && (x.kind != TRP_EPILOGUE_SCALAR || x.buffer.id))
        x.buffer.id = t->count;
    t->node[t->count++] = x;
}

/* Adds sums that lead every unused value to the root. */
static void join(epilogue_tree *t)
{
    bool used[TRP_EPILOGUE_NODES_MAX] = {false};
    for (uint32_t i = 1; i < t->count; i++) {
        for (uint32_t p = 0; p < TRP_EPILOGUE_INPUTS; p++)
            used[t->node[i].input[p]] = true;
    }
    uint32_t root = 0, most = t->count;
    for (uint32_t i = 1; i < most; i++) {
        if (used[i] || epilogue_is_sink(t->node[i].kind))
            continue;
        if (root != 0)
            add(t, (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY, .input = {root, i}});
        root = root != 0 ? t->count - 1 : i;
    }
    if (root == 0) /* only stores are left: one of them becomes the root */
        return;
    if (root != t->count - 1)
        add(t, (trp_epilogue_node){.kind = TRP_EPILOGUE_D, .input = {root}});
}

void epilogue_draw(uint64_t *rng, epilogue_limits limits, epilogue_tree *out)
{
    static const trp_dtype sums[] = {TRP_F32, TRP_F32, TRP_F32, TRP_I32, TRP_F64};
    uint32_t most = limits.nodes ? limits.nodes : TRP_EPILOGUE_NODES_MAX;
    memset(out, 0, sizeof *out);
    out->accumulator = sums[random_below(rng, limits.f32_only ? 3 : 5)];
    out->d = draw_matrix_type(rng, out->accumulator == TRP_F64);
    out->c = draw_matrix_type(rng, out->accumulator == TRP_F64);
    out->order = limits.one_order || random_below(rng, 2) ? TRP_ROW_MAJOR : TRP_COL_MAJOR;
    out->count = 1;
    add(out, (trp_epilogue_node){.kind = TRP_EPILOGUE_ACCUMULATOR});
    /* Joining needs as many nodes again, at most. */
    uint32_t drawn = 1 + random_below(rng, (most - 2) / 2);
    for (uint32_t i = 0; i < drawn; i++)
        add(out, random_below(rng, 3) == 0 ? draw_leaf(rng, out, limits)
                                           : draw_operation(rng, out, limits));
    join(out);
    if (out->count > most)
        abort();
}

void epilogue_shuffle(uint64_t *rng, const epilogue_tree *from, epilogue_tree *out,
                      uint32_t new_of[TRP_EPILOGUE_NODES_MAX])
{
    bool done[TRP_EPILOGUE_NODES_MAX] = {[0] = true};
    *out = *from;
    new_of[0] = 0;
    for (uint32_t place = 1; place < from->count; place++) {
        /* The root stays last; it is tried first only when no other node is left. */
        uint32_t last = from->count - 1, start = random_below(rng, from->count), i = last;
        for (uint32_t k = 0; k < from->count && place < last; k++) {
            uint32_t tried = (start + k) % from->count;
            const trp_epilogue_node *x = &from->node[tried];
            if (!done[tried] && tried != last && done[x->input[0]] && done[x->input[1]] &&
                done[x->input[2]]) {
                i = tried;
                break;
            }
        }
        trp_epilogue_node x = from->node[i];
        for (uint32_t p = 0; p < TRP_EPILOGUE_INPUTS; p++)
            x.input[p] = new_of[x.input[p]];
        bool commutes = x.kind == TRP_EPILOGUE_FMA ||
                        (x.kind == TRP_EPILOGUE_BINARY && x.binary != TRP_BINARY_SUB &&
                         x.binary != TRP_BINARY_DIV);
        if (commutes && random_below(rng, 2)) {
            uint32_t first = x.input[0];
            x.input[0] = x.input[1];
            x.input[1] = first;
        }
        done[i] = true;
        new_of[i] = place;
        out->node[place] = x;
    }
}

/* Changes node x if possible, and returns a text for the change. */
static const char *change_node(epilogue_tree *t, trp_epilogue_node *x)
{
    bool wide = t->accumulator == TRP_F64;
    switch (x->kind) {
    case TRP_EPILOGUE_BINARY:
        x->binary = (trp_binary)((x->binary + 1) % (TRP_BINARY_MAX + 1));
        return "a binary operation";
    case TRP_EPILOGUE_UNARY:
        x->unary = (trp_unary)((x->unary + 1) % (TRP_UNARY_LOG + 1));
        return "a unary operation";
    case TRP_EPILOGUE_ACTIVATION:
        if (epilogue_inputs(x) != 1)
            return NULL;
        x->activation =
            x->activation == TRP_ACTIVATION_MISH ? TRP_ACTIVATION_TANH : TRP_ACTIVATION_MISH;
        memset(x->parameter, 0, sizeof x->parameter);
        return "an activation";
    case TRP_EPILOGUE_PER_ROW:
        x->kind = TRP_EPILOGUE_PER_COLUMN;
        return "per row to per column";
    case TRP_EPILOGUE_SCALE_COLUMNS:
        x->kind = TRP_EPILOGUE_SCALE_ROWS;
        return "scale columns to scale rows";
    case TRP_EPILOGUE_AUX_LOAD:
    case TRP_EPILOGUE_AUX_STORE:
        x->order = (trp_order)(1 - (int)x->order);
        return "the order of an aux";
    case TRP_EPILOGUE_CONVERT:
        x->type = x->type == TRP_F32 ? (wide ? TRP_F64 : TRP_F16) : TRP_F32;
        return "the type of a conversion";
    case TRP_EPILOGUE_REDUCE_ROWS:
    case TRP_EPILOGUE_REDUCE_ALL:
        x->reduction = (trp_reduction)((x->reduction + 1) % (TRP_REDUCTION_AMAX + 1));
        return "a reduction";
    default:
        return NULL;
    }
}

const char *epilogue_change(uint64_t *rng, const epilogue_tree *from, epilogue_tree *out)
{
    uint32_t start = random_below(rng, from->count);
    *out = *from;
    for (uint32_t k = 0; k < from->count; k++) {
        const char *what = change_node(out, &out->node[(start + k) % from->count]);
        if (what)
            return what;
    }
    out->d = out->d == TRP_F32 ? (out->accumulator == TRP_F64 ? TRP_F64 : TRP_F16) : TRP_F32;
    return "the type of D";
}
