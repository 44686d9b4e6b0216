/* Checks epilogue trees and lowers them: one node for each operation of a kernel.
 */
#include "actors/cutlass/epilogue/tree.h"

#include "base/error.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The functions of request nodes. */

static const uint8_t of_activation[] = {
    [TRP_ACTIVATION_NONE] = TRP__FN_COUNT,
    [TRP_ACTIVATION_RELU] = TRP__FN_relu,
    [TRP_ACTIVATION_GELU] = TRP__FN_gelu,
    [TRP_ACTIVATION_SILU] = TRP__FN_silu,
    [TRP_ACTIVATION_DRELU] = TRP__FN_drelu,
    [TRP_ACTIVATION_DGELU] = TRP__FN_dgelu,
    [TRP_ACTIVATION_CLIPPED_RELU] = TRP__FN_clipped_relu,
    [TRP_ACTIVATION_LEAKY_RELU] = TRP__FN_leaky_relu,
    [TRP_ACTIVATION_ELU] = TRP__FN_elu,
    [TRP_ACTIVATION_SELU] = TRP__FN_selu,
    [TRP_ACTIVATION_GELU_ERF] = TRP__FN_gelu_erf,
    [TRP_ACTIVATION_SIGMOID] = TRP__FN_sigmoid,
    [TRP_ACTIVATION_TANH] = TRP__FN_tanh,
    [TRP_ACTIVATION_SOFTPLUS] = TRP__FN_softplus,
    [TRP_ACTIVATION_MISH] = TRP__FN_mish,
    [TRP_ACTIVATION_HARD_SIGMOID] = TRP__FN_hard_sigmoid,
    [TRP_ACTIVATION_HARD_SWISH] = TRP__FN_hard_swish,
    [TRP_ACTIVATION_CLAMP] = TRP__FN_clamp,
};
static const uint8_t of_unary[] = {
    [TRP_UNARY_NEGATE] = TRP__FN_negate, [TRP_UNARY_ABS] = TRP__FN_abs,
    [TRP_UNARY_SQUARE] = TRP__FN_square, [TRP_UNARY_SQRT] = TRP__FN_sqrt,
    [TRP_UNARY_RSQRT] = TRP__FN_rsqrt,   [TRP_UNARY_RECIPROCAL] = TRP__FN_reciprocal,
    [TRP_UNARY_EXP] = TRP__FN_exp,       [TRP_UNARY_LOG] = TRP__FN_log,
};
static const uint8_t of_binary[] = {
    [TRP_BINARY_ADD] = TRP__FN_add, [TRP_BINARY_SUB] = TRP__FN_sub, [TRP_BINARY_MUL] = TRP__FN_mul,
    [TRP_BINARY_DIV] = TRP__FN_div, [TRP_BINARY_MIN] = TRP__FN_min, [TRP_BINARY_MAX] = TRP__FN_max,
};

/* The kinds of nodes: their fields and number of inputs; a kind with a function has that function's
 * inputs. */

enum {
    HAS_ACTIVATION = 1,
    HAS_UNARY = 2,
    HAS_BINARY = 4,
    HAS_REDUCTION = 8,
    HAS_VALUE = 16,
    HAS_TYPE = 32,
    HAS_MATRIX = 64,   /* order, ld */
    HAS_BUFFER = 128,  /* and offset, stride */
    MAY_BUFFER = 256,  /* the same, but optional */
    IS_SINK = 512,     /* writes memory; its value is its input */
    OF_FUNCTION = 1024 /* has the inputs of a function */
};

static const struct {
    const char *name;
    int has, inputs;
    uint8_t op;
} kinds[] = {
    [TRP_EPILOGUE_NONE] = {"none", 0, 0, TRP__TREE_OPS},
    [TRP_EPILOGUE_ACCUMULATOR] = {"accumulator", 0, 0, TRP__TREE_ACCUMULATOR},
    [TRP_EPILOGUE_C] = {"c", 0, 0, TRP__TREE_C},
    [TRP_EPILOGUE_SCALAR] = {"scalar", HAS_VALUE | HAS_TYPE | MAY_BUFFER, 0, TRP__TREE_SCALAR},
    [TRP_EPILOGUE_PER_ROW] = {"per row", HAS_TYPE | HAS_BUFFER, 0, TRP__TREE_PER_ROW},
    [TRP_EPILOGUE_PER_COLUMN] = {"per column", HAS_TYPE | HAS_BUFFER, 0, TRP__TREE_PER_COLUMN},
    [TRP_EPILOGUE_AUX_LOAD] = {"aux load", HAS_TYPE | HAS_MATRIX | HAS_BUFFER, 0, TRP__TREE_LOAD},
    [TRP_EPILOGUE_AUX_STORE] = {"aux store", HAS_TYPE | HAS_MATRIX | HAS_BUFFER | IS_SINK, 1,
                                TRP__TREE_STORE},
    [TRP_EPILOGUE_SCALE_ROWS] = {"scale rows", HAS_TYPE | HAS_BUFFER, 1, TRP__TREE_PER_ROW},
    [TRP_EPILOGUE_SCALE_COLUMNS] = {"scale columns", HAS_TYPE | HAS_BUFFER, 1,
                                    TRP__TREE_PER_COLUMN},
    [TRP_EPILOGUE_ACTIVATION] = {"activation", HAS_ACTIVATION | OF_FUNCTION, 0, TRP__TREE_FUNCTION},
    [TRP_EPILOGUE_UNARY] = {"unary", HAS_UNARY | OF_FUNCTION, 0, TRP__TREE_FUNCTION},
    [TRP_EPILOGUE_BINARY] = {"binary", HAS_BINARY | OF_FUNCTION, 0, TRP__TREE_FUNCTION},
    [TRP_EPILOGUE_FMA] = {"fma", OF_FUNCTION, 0, TRP__TREE_FUNCTION},
    [TRP_EPILOGUE_CONVERT] = {"convert", HAS_TYPE, 1, TRP__TREE_CONVERT},
    [TRP_EPILOGUE_REDUCE_ROWS] = {"reduce rows", HAS_REDUCTION | HAS_TYPE | HAS_BUFFER | IS_SINK, 1,
                                  TRP__TREE_REDUCE_ROWS},
    [TRP_EPILOGUE_REDUCE_COLUMNS] = {"reduce columns",
                                     HAS_REDUCTION | HAS_TYPE | HAS_BUFFER | IS_SINK, 1,
                                     TRP__TREE_REDUCE_COLUMNS},
    [TRP_EPILOGUE_REDUCE_ALL] = {"reduce all", HAS_REDUCTION | HAS_TYPE | HAS_BUFFER | IS_SINK, 1,
                                 TRP__TREE_REDUCE_ALL},
    [TRP_EPILOGUE_D] = {"d", 0, 1, TRP__TREE_OPS},
};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* The state of checks. */
typedef struct build {
    const trp_epilogue_node *nodes;
    uint32_t count;
    const trp__tree_types *types;
    trp__tree *tree;
    trp_error *error;
    uint8_t value[TRP_EPILOGUE_NODES_MAX]; /* for each node the tree's node with its value */
} build;

typedef struct node_name {
    char text[64];
} node_name;

/* Returns the inputs of a function that are values, which precede its parameters. */
static uint32_t values_of(uint8_t function)
{
    return trp__tree_function_inputs(function) - trp__tree_function_parameters(function);
}

/* Returns the function of a node whose own fields have been checked, or TRP__FN_COUNT without
 * one. */
static uint8_t function_of(const trp_epilogue_node *x)
{
    switch (x->kind) {
    case TRP_EPILOGUE_ACTIVATION:
        return of_activation[x->activation];
    case TRP_EPILOGUE_UNARY:
        return of_unary[x->unary];
    case TRP_EPILOGUE_BINARY:
        return of_binary[x->binary];
    case TRP_EPILOGUE_FMA:
        return TRP__FN_fma;
    case TRP_EPILOGUE_SCALE_ROWS:
    case TRP_EPILOGUE_SCALE_COLUMNS:
        return TRP__FN_mul;
    default:
        return TRP__FN_COUNT;
    }
}

/* Formats "nodes[4] (binary add)", as far as the fields are valid. */
static node_name name_of(const trp_epilogue_node *nodes, uint32_t i)
{
    const trp_epilogue_node *x = &nodes[i];
    const char *kind = (uint32_t)x->kind < COUNT_OF(kinds) ? kinds[x->kind].name : NULL;
    const char *more = NULL;
    node_name name;
    if (x->kind == TRP_EPILOGUE_ACTIVATION && x->activation != TRP_ACTIVATION_NONE &&
        (uint32_t)x->activation < COUNT_OF(of_activation))
        more = trp__tree_function_name(of_activation[x->activation]);
    if (x->kind == TRP_EPILOGUE_UNARY && (uint32_t)x->unary < COUNT_OF(of_unary))
        more = trp__tree_function_name(of_unary[x->unary]);
    if (x->kind == TRP_EPILOGUE_BINARY && (uint32_t)x->binary < COUNT_OF(of_binary))
        more = trp__tree_function_name(of_binary[x->binary]);
    if (kind && (kinds[x->kind].has & HAS_REDUCTION) &&
        (uint32_t)x->reduction < TRP_REDUCTION_AMAX + 1u)
        more = trp__tree_reduction_name((uint8_t)x->reduction);
    snprintf(name.text, sizeof name.text, "nodes[%u]%s%s%s%s%s", i, kind ? " (" : "",
             kind ? kind : "", more ? " " : "", more ? more : "", kind ? ")" : "");
    return name;
}

#define WRONG(b, i, ...) wrong((b), (i), TRP_E_ARGUMENT, __VA_ARGS__)

static trp_status wrong(const build *b, uint32_t i, trp_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static trp_status wrong(const build *b, uint32_t i, trp_status status, const char *format, ...)
{
    char text[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return trp__error_set(b->error, status, "%s: %s", name_of(b->nodes, i).text, text);
}

bool trp__tree_matrix_type(uint8_t compute, uint32_t type)
{
    if (compute == TRP_F64)
        return type == TRP_F64 || type == TRP_F32;
    return type == TRP_F32 || type == TRP_F16 || type == TRP_BF16 || type == TRP_F8E4M3 ||
           type == TRP_F8E5M2 || type == TRP_I8;
}

bool trp__tree_vector_type(uint8_t compute, uint32_t type)
{
    if (compute == TRP_F64)
        return type == TRP_F64 || type == TRP_F32;
    return type == TRP_F32 || type == TRP_F16 || type == TRP_BF16;
}

static const char *matrix_types(uint8_t compute)
{
    return compute == TRP_F64 ? "f64 or f32" : "f32, f16, bf16, f8e4m3, f8e5m2 or i8";
}

/* Returns the type of a node with the default applied. */
static trp_dtype type_of(const build *b, const trp_epilogue_node *x)
{
    bool matrix = (kinds[x->kind].has & HAS_MATRIX) || x->kind == TRP_EPILOGUE_CONVERT;
    if (x->type != TRP_DTYPE_NONE)
        return x->type;
    return matrix ? b->types->d : (trp_dtype)b->tree->compute;
}

static trp_status check_type(const build *b, uint32_t i)
{
    const trp_epilogue_node *x = &b->nodes[i];
    int has = kinds[x->kind].has;
    uint8_t compute = b->tree->compute;
    trp_dtype type = type_of(b, x);
    if (!(has & HAS_TYPE))
        return TRP_OK;
    if ((has & HAS_MATRIX) || x->kind == TRP_EPILOGUE_CONVERT) {
        if (!trp__tree_matrix_type(compute, type))
            return wrong(b, i, TRP_E_UNSUPPORTED, "type: expected %s, got %s (%d)",
                         matrix_types(compute), trp_dtype_name(type), (int)type);
    } else if (x->kind == TRP_EPILOGUE_SCALAR || (has & HAS_REDUCTION)) {
        if (type != compute)
            return wrong(b, i, TRP_E_UNSUPPORTED, "type: expected %s, got %s (%d)",
                         trp_dtype_name((trp_dtype)compute), trp_dtype_name(type), (int)type);
    } else if (!trp__tree_vector_type(compute, type)) {
        return wrong(b, i, TRP_E_UNSUPPORTED, "type: expected %s, got %s (%d)",
                     compute == TRP_F64 ? "f64 or f32" : "f32, f16 or bf16", trp_dtype_name(type),
                     (int)type);
    }
    return TRP_OK;
}

static trp_status check_request_types(const build *b)
{
    const trp__tree_types *t = b->types;
    uint8_t compute = b->tree->compute;
    if (t->accumulator != TRP_F32 && t->accumulator != TRP_F64 && t->accumulator != TRP_I32)
        return trp__error_set(b->error, TRP_E_UNSUPPORTED,
                              "an epilogue tree of sums of type %s: expected f32, f64 or i32",
                              trp_dtype_name(t->accumulator));
    if (!trp__tree_matrix_type(compute, t->d))
        return trp__error_set(b->error, TRP_E_UNSUPPORTED,
                              "d.type: expected %s with an epilogue tree, got %s (%d)",
                              matrix_types(compute), trp_dtype_name(t->d), (int)t->d);
    if (t->c != TRP_DTYPE_NONE && !trp__tree_matrix_type(compute, t->c))
        return trp__error_set(b->error, TRP_E_UNSUPPORTED,
                              "c.type: expected %s with an epilogue tree, got %s (%d)",
                              matrix_types(compute), trp_dtype_name(t->c), (int)t->c);
    return TRP_OK;
}

static bool is_zero(const trp_scalar *s)
{
    return !s->given && s->re == 0 && s->im == 0;
}

/* Returns the first field that is set although a node of this kind does not have it, or NULL. */
static const char *stray_field(const trp_epilogue_node *x, int has, uint32_t parameters)
{
    bool buffer = (has & (HAS_BUFFER | MAY_BUFFER)) != 0;
    const struct {
        const char *name;
        bool has, set;
    } fields[] = {
        {"activation", has & HAS_ACTIVATION, x->activation != TRP_ACTIVATION_NONE},
        {"unary", has & HAS_UNARY, x->unary != 0},
        {"binary", has & HAS_BINARY, x->binary != 0},
        {"reduction", has & HAS_REDUCTION, x->reduction != 0},
        {"value", has & HAS_VALUE, !is_zero(&x->value)},
        {"parameter[0]", parameters > 0, !is_zero(&x->parameter[0])},
        {"parameter[1]", parameters > 1, !is_zero(&x->parameter[1])},
        {"buffer", buffer, x->buffer.id != 0},
        {"offset", buffer, x->offset != 0},
        {"type", has & HAS_TYPE, x->type != TRP_DTYPE_NONE},
        {"order", has & HAS_MATRIX, x->order != TRP_COL_MAJOR},
        {"ld", has & HAS_MATRIX, x->ld != 0},
        {"stride", buffer, x->stride != 0},
    };
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        if (fields[i].set && !fields[i].has)
            return fields[i].name;
    }
    return NULL;
}

static trp_status check_enums(const build *b, uint32_t i)
{
    const trp_epilogue_node *x = &b->nodes[i];
    const struct {
        const char *name;
        int kind;
        uint32_t value, least, count;
    } enums[] = {
        {"activation", HAS_ACTIVATION, x->activation, 1, COUNT_OF(of_activation)},
        {"unary", HAS_UNARY, x->unary, 0, COUNT_OF(of_unary)},
        {"binary", HAS_BINARY, x->binary, 0, COUNT_OF(of_binary)},
        {"reduction", HAS_REDUCTION, x->reduction, 0, TRP_REDUCTION_AMAX + 1u},
        {"order", HAS_MATRIX, x->order, 0, TRP_ROW_MAJOR + 1},
    };
    for (size_t e = 0; e < COUNT_OF(enums); e++) {
        if ((kinds[x->kind].has & enums[e].kind) &&
            (enums[e].value < enums[e].least || enums[e].value >= enums[e].count))
            return WRONG(b, i, "%s: expected %u to %u, got %d", enums[e].name, enums[e].least,
                         enums[e].count - 1, (int)enums[e].value);
    }
    return TRP_OK;
}

static trp_status check_inputs(const build *b, uint32_t i, uint32_t inputs)
{
    const trp_epilogue_node *x = &b->nodes[i];
    for (uint32_t p = 0; p < TRP_EPILOGUE_INPUTS; p++) {
        uint32_t from = x->input[p];
        if (p >= inputs && from != 0)
            return WRONG(b, i, "input[%u]: expected none, for it has %u, got %u", p, inputs, from);
        if (p >= inputs)
            continue;
        if (from == 0)
            return WRONG(b, i, "input[%u]: expected a node, got none", p);
        if (from >= b->count)
            return WRONG(b, i, "input[%u]: expected less than %u, the number of nodes, got %u", p,
                         b->count, from);
        if (from >= i)
            return WRONG(b, i, "input[%u]: expected a node before this one, got %s", p,
                         from == i ? "itself" : name_of(b->nodes, from).text);
    }
    return TRP_OK;
}

/* Checks a number in the compute type. */
static trp_status check_number(const build *b, uint32_t i, const char *field, const trp_scalar *s,
                               bool finite)
{
    double held = b->tree->compute == TRP_F32 ? (double)(float)s->re : s->re;
    trp_error error;
    if (trp__scalar_check(&error, field, s) != TRP_OK)
        return WRONG(b, i, "%s", error.message);
    if (s->im != 0)
        return WRONG(b, i, "%s: expected a real number, got %g + %gi", field, s->re, s->im);
    if (finite && !isfinite(held))
        return WRONG(b, i, "%s: expected a finite %s, got %g", field,
                     trp_dtype_name((trp_dtype)b->tree->compute), s->re);
    return TRP_OK;
}

static trp_status check_parameters(const build *b, uint32_t i, uint32_t parameters)
{
    static const char *const fields[TRP_EPILOGUE_PARAMETERS] = {"parameter[0]", "parameter[1]"};
    const trp_epilogue_node *x = &b->nodes[i];
    double p[TRP_EPILOGUE_PARAMETERS] = {trp__tree_parameter(x, 0), trp__tree_parameter(x, 1)};
    for (uint32_t k = 0; k < parameters && k < TRP_EPILOGUE_PARAMETERS; k++) {
        trp_status status = check_number(b, i, fields[k], &x->parameter[k], true);
        if (status != TRP_OK)
            return status;
    }
    if (parameters == 0)
        return TRP_OK;
    if (x->activation == TRP_ACTIVATION_CLIPPED_RELU && p[0] < 0)
        return WRONG(b, i, "parameter[0]: expected a limit of 0 or more, got %g", p[0]);
    if (x->activation == TRP_ACTIVATION_SOFTPLUS && !((float)p[0] > 0))
        return WRONG(b, i, "parameter[0]: expected a beta above 0, got %g", p[0]);
    if (x->activation == TRP_ACTIVATION_CLAMP && p[1] < p[0])
        return WRONG(b, i, "parameter[1]: expected at least %g, the least, got %g", p[0], p[1]);
    return TRP_OK;
}

static trp_status check_memory(const build *b, uint32_t i)
{
    const trp_epilogue_node *x = &b->nodes[i];
    int has = kinds[x->kind].has;
    if ((has & HAS_BUFFER) && !x->buffer.id)
        return WRONG(b, i, "buffer: expected one, got none");
    if (x->kind == TRP_EPILOGUE_SCALAR && x->buffer.id && !is_zero(&x->value))
        return WRONG(b, i, "value: expected none with a buffer, got %g", x->value.re);
    if (x->kind == TRP_EPILOGUE_SCALAR && !x->buffer.id && (x->offset || x->stride))
        return WRONG(b, i, "%s: expected 0 without a buffer", x->offset ? "offset" : "stride");
    if (x->kind == TRP_EPILOGUE_SCALAR)
        return check_number(b, i, "value", &x->value, false);
    if (x->kind == TRP_EPILOGUE_C && b->types->c == TRP_DTYPE_NONE)
        return WRONG(b, i, "expected a request with a c.buffer, got none");
    return TRP_OK;
}

static trp_status check_node(const build *b, uint32_t i)
{
    const trp_epilogue_node *x = &b->nodes[i];
    if (x->kind == TRP_EPILOGUE_NONE || (uint32_t)x->kind >= COUNT_OF(kinds))
        return WRONG(b, i, "kind: expected a trp_epilogue_kind but NONE, got %d", (int)x->kind);
    int has = kinds[x->kind].has;
    trp_status status = check_enums(b, i);
    if (status != TRP_OK)
        return status;
    if (x->kind == TRP_EPILOGUE_D && i != b->count - 1)
        return WRONG(b, i, "expected as the last node, nodes[%u], only", b->count - 1);
    uint8_t function = (has & OF_FUNCTION) ? function_of(x) : TRP__FN_COUNT;
    uint32_t parameters = function < TRP__FN_COUNT ? trp__tree_function_parameters(function) : 0;
    uint32_t inputs =
        function < TRP__FN_COUNT ? values_of(function) : (uint32_t)kinds[x->kind].inputs;
    const char *stray = stray_field(x, has, parameters);
    if (stray)
        return WRONG(b, i, "%s: expected 0, for this node has none", stray);
    status = check_inputs(b, i, inputs);
    if (status == TRP_OK)
        status = check_parameters(b, i, parameters);
    if (status == TRP_OK)
        status = check_memory(b, i);
    return status == TRP_OK ? check_type(b, i) : status;
}

static trp_status check_count(const build *b)
{
    if (!b->nodes || b->count < 2)
        return trp__error_set(b->error, TRP_E_ARGUMENT,
                              "nodes: expected at least 2, nodes[0] and the root, got %u",
                              b->nodes ? b->count : 0);
    if (b->count > TRP_EPILOGUE_NODES_MAX)
        return trp__error_set(b->error, TRP_E_ARGUMENT, "nodes: expected at most %d, got %u",
                              TRP_EPILOGUE_NODES_MAX, b->count);
    const trp_epilogue_node *none = &b->nodes[0];
    bool inputs = none->input[0] || none->input[1] || none->input[2];
    if (none->kind != TRP_EPILOGUE_NONE || inputs || stray_field(none, 0, 0))
        return trp__error_set(b->error, TRP_E_ARGUMENT,
                              "nodes[0]: expected all zero, for it stands for none, got %s",
                              none->kind != TRP_EPILOGUE_NONE ? "a node" : "fields");
    return TRP_OK;
}

/* Checks that every node leads to the root or to memory. */
static trp_status check_used(const build *b)
{
    bool used[TRP_EPILOGUE_NODES_MAX] = {false};
    used[b->count - 1] = true;
    for (uint32_t i = b->count - 1; i > 0; i--) {
        const trp_epilogue_node *x = &b->nodes[i];
        if (!used[i] && !(kinds[x->kind].has & IS_SINK))
            return WRONG(b, i,
                         "expected a node that something uses; neither D nor what is stored "
                         "depends on it");
        for (uint32_t p = 0; p < TRP_EPILOGUE_INPUTS; p++)
            used[x->input[p]] = true;
    }
    return TRP_OK;
}

/* Returns the tree's node that equals `x`, existing or new. `node` and `part` are the origin of its
 * slot. */
static trp_status add_node(build *b, trp__tree_node x, uint32_t node, uint32_t part, uint8_t *out)
{
    trp__tree *t = b->tree;
    if (trp__tree_commuting(&x) == 2 && x.input[0] > x.input[1]) {
        uint8_t first = x.input[0];
        x.input[0] = x.input[1];
        x.input[1] = first;
    }
    /* Slots are never merged, even if they name the same memory. */
    for (uint8_t i = 0; !trp__tree_has_slot(&x) && i < t->count; i++) {
        if (memcmp(&t->node[i], &x, sizeof x) == 0) {
            *out = i;
            return TRP_OK;
        }
    }
    if (t->count == TRP__TREE_NODES_MAX)
        return WRONG(b, node,
                     "expected a tree of at most %d operands and operations, those of "
                     "scales and parameters counted apart",
                     TRP__TREE_NODES_MAX);
    if (trp__tree_has_slot(&x)) {
        x.slot = t->slots++;
        t->origin[x.slot].node = (uint8_t)node;
        t->origin[x.slot].part = (uint8_t)part;
    }
    *out = t->count;
    t->node[t->count++] = x;
    return TRP_OK;
}

static uint8_t transposed(uint8_t op)
{
    switch (op) {
    case TRP__TREE_PER_ROW:
        return TRP__TREE_PER_COLUMN;
    case TRP__TREE_PER_COLUMN:
        return TRP__TREE_PER_ROW;
    case TRP__TREE_REDUCE_ROWS:
        return TRP__TREE_REDUCE_COLUMNS;
    case TRP__TREE_REDUCE_COLUMNS:
        return TRP__TREE_REDUCE_ROWS;
    default:
        return op;
    }
}

void trp__tree_transpose(trp__tree *tree)
{
    for (uint32_t i = 0; i < tree->count; i++) {
        trp__tree_node *n = &tree->node[i];
        n->op = transposed(n->op);
        if (n->op == TRP__TREE_LOAD || n->op == TRP__TREE_STORE)
            n->detail = (uint8_t)(1 - n->detail);
    }
    tree->order = (uint8_t)(1 - tree->order);
}

/* Lowers a function of a node: its inputs, and a scalar for each of its parameters. */
static trp_status lower_function(build *b, uint32_t i, uint8_t function, uint8_t extra,
                                 uint8_t *out)
{
    const trp_epilogue_node *x = &b->nodes[i];
    trp__tree_node fn = {.op = TRP__TREE_FUNCTION, .detail = function};
    uint32_t values = values_of(function);
    trp_status status = TRP_OK;
    for (uint32_t p = 0; p < values; p++)
        fn.input[p] = b->value[x->input[p]];
    if (extra != TRP__TREE_NODES_MAX)
        fn.input[1] = extra;
    for (uint32_t p = 0; status == TRP_OK && p < trp__tree_function_parameters(function); p++)
        status =
            add_node(b, (trp__tree_node){.op = TRP__TREE_SCALAR}, i, p + 1, &fn.input[values + p]);
    return status == TRP_OK ? add_node(b, fn, i, 0, out) : status;
}

static trp_status lower(build *b, uint32_t i)
{
    const trp_epilogue_node *x = &b->nodes[i];
    int has = kinds[x->kind].has;
    bool scale = x->kind == TRP_EPILOGUE_SCALE_ROWS || x->kind == TRP_EPILOGUE_SCALE_COLUMNS;
    bool typed = (has & HAS_TYPE) && !(has & HAS_REDUCTION) && x->kind != TRP_EPILOGUE_SCALAR;
    uint8_t made = 0;
    if (has & OF_FUNCTION)
        return lower_function(b, i, function_of(x), TRP__TREE_NODES_MAX, &b->value[i]);
    if (x->kind == TRP_EPILOGUE_D) {
        b->value[i] = b->value[x->input[0]];
        return TRP_OK;
    }
    trp__tree_node node = {.op = kinds[x->kind].op};
    if (b->types->transpose)
        node.op = transposed(node.op);
    if (typed)
        node.type = (uint8_t)type_of(b, x);
    if (has & HAS_MATRIX)
        node.detail = (uint8_t)(b->types->transpose ? 1 - (int)x->order : (int)x->order);
    if (has & HAS_REDUCTION)
        node.detail = (uint8_t)x->reduction;
    if (kinds[x->kind].inputs == 1 && !scale)
        node.input[0] = b->value[x->input[0]];
    trp_status status = add_node(b, node, i, 0, &made);
    if (status == TRP_OK && scale)
        return lower_function(b, i, TRP__FN_mul, made, &b->value[i]);
    b->value[i] = (has & IS_SINK) ? b->value[x->input[0]] : made;
    return status;
}

trp_status trp__tree_build(const trp_epilogue_node *nodes, uint32_t count,
                           const trp__tree_types *types, trp__tree *out, trp_error *error)
{
    build b = {.nodes = nodes, .count = count, .types = types, .tree = out, .error = error};
    memset(out, 0, sizeof *out);
    out->compute = types->accumulator == TRP_F64 ? TRP_F64 : TRP_F32;
    out->slots = TRP__TREE_SLOT_FIRST;
    trp_status status = check_count(&b);
    if (status == TRP_OK)
        status = check_request_types(&b);
    for (uint32_t i = 1; status == TRP_OK && i < count; i++)
        status = check_node(&b, i);
    if (status == TRP_OK)
        status = check_used(&b);
    for (uint32_t i = 1; status == TRP_OK && i < count; i++)
        status = lower(&b, i);
    if (status != TRP_OK)
        return status;
    out->accumulator = (uint8_t)types->accumulator;
    out->d = (uint8_t)types->d;
    out->order = (uint8_t)(types->transpose ? 1 - (int)types->order : (int)types->order);
    out->root = b.value[count - 1];
    for (uint32_t i = 0; i < out->count; i++) {
        if (out->node[i].op == TRP__TREE_C)
            out->c = (uint8_t)types->c;
    }
    trp__tree_canonize(out);
    return TRP_OK;
}
