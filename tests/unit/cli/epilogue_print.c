#include "epilogue_print.h"

#include "cli/commands/cutlass/epilogue_words.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct printer {
    const epilogue *tree;
    char *out;
    size_t size, length;
    uint32_t uses[TRP_EPILOGUE_NODES_MAX];
    char name[TRP_EPILOGUE_NODES_MAX][EPILOGUE_NAME_MAX];   /* of operands */
    char shared[TRP_EPILOGUE_NODES_MAX][EPILOGUE_NAME_MAX]; /* of values that are used twice */
} printer;

static void put(printer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(printer *p, const char *format, ...)
{
    va_list arguments;
    size_t at = p->length < p->size ? p->length : p->size;
    va_start(arguments, format);
    int n = vsnprintf(p->size > 0 ? p->out + at : NULL, p->size - at, format, arguments);
    va_end(arguments);
    p->length += n > 0 ? (size_t)n : 0;
}

static bool is_sink(trp_epilogue_kind kind)
{
    return kind == TRP_EPILOGUE_AUX_STORE || kind == TRP_EPILOGUE_REDUCE_ROWS ||
           kind == TRP_EPILOGUE_REDUCE_COLUMNS || kind == TRP_EPILOGUE_REDUCE_ALL;
}

/* The node whose value a node passes on. */
static uint32_t origin_of(const epilogue *e, uint32_t node)
{
    while (is_sink(e->node[node].kind) || e->node[node].kind == TRP_EPILOGUE_D)
        node = e->node[node].input[0];
    return node;
}

/* Whether a node is an operand with a name: it is written by it wherever it is used. */
static bool is_operand(const trp_epilogue_node *x)
{
    return (x->kind == TRP_EPILOGUE_SCALAR && !x->value.given) ||
           (x->kind >= TRP_EPILOGUE_PER_ROW && x->kind <= TRP_EPILOGUE_AUX_LOAD);
}

static bool has_name(const trp_epilogue_node *x)
{
    return is_operand(x) || is_sink(x->kind) || x->kind == TRP_EPILOGUE_SCALE_ROWS ||
           x->kind == TRP_EPILOGUE_SCALE_COLUMNS;
}

static bool is_taken(const printer *p, const char *name)
{
    for (uint32_t i = 1; i < p->tree->count; i++) {
        if (strcmp(p->name[i], name) == 0 || strcmp(p->tree->name[i], name) == 0)
            return true;
    }
    return epilogue_reserved(name);
}

static void invent_name(const printer *p, uint32_t number, char letter,
                        char name[EPILOGUE_NAME_MAX])
{
    char made[EPILOGUE_NAME_MAX];
    do {
        snprintf(made, sizeof made, "%c%u", letter, number);
        number += TRP_EPILOGUE_NODES_MAX;
    } while (is_taken(p, made));
    memcpy(name, made, sizeof made);
}

static void put_suffixes(printer *p, const trp_epilogue_node *x)
{
    if (x->type != TRP_DTYPE_NONE)
        put(p, ":%s", trp_dtype_name(x->type));
    if (x->order == TRP_ROW_MAJOR)
        put(p, ":rowmajor");
}

static const function_row *function_of(const trp_epilogue_node *x)
{
    for (size_t i = 0; i < epilogue_function_count; i++) {
        const function_row *f = &epilogue_functions[i];
        int which = f->kind == TRP_EPILOGUE_ACTIVATION ? (int)x->activation
                    : f->kind == TRP_EPILOGUE_UNARY    ? (int)x->unary
                    : f->kind == TRP_EPILOGUE_BINARY   ? (int)x->binary
                                                       : f->which;
        if (f->kind == x->kind && f->which == which)
            return f;
    }
    return NULL;
}

static void put_value(printer *p, uint32_t node);

static void put_call(printer *p, uint32_t node, const trp_epilogue_node *x)
{
    const function_row *f = function_of(x);
    bool scale = x->kind == TRP_EPILOGUE_SCALE_ROWS || x->kind == TRP_EPILOGUE_SCALE_COLUMNS;
    bool second = x->parameter[1].given;
    if (!f)
        return;
    put(p, "%s(", x->kind == TRP_EPILOGUE_CONVERT && x->type ? trp_dtype_name(x->type) : f->name);
    for (uint32_t i = 0; i < f->inputs; i++) {
        put(p, "%s", i ? ", " : "");
        put_value(p, x->input[i]);
    }
    if (scale) {
        put(p, ", %s[%s]", p->name[node], x->kind == TRP_EPILOGUE_SCALE_ROWS ? "row" : "col");
        put_suffixes(p, x);
    }
    if (x->parameter[0].given || second)
        put(p, ", %.17g", x->parameter[0].given ? x->parameter[0].re : 0);
    if (second)
        put(p, ", %.17g", x->parameter[1].re);
    put(p, ")");
}

static void put_node(printer *p, uint32_t node)
{
    static const char signs[] = {'+', '-', '*', '/'}; /* trp_binary */
    const trp_epilogue_node *x = &p->tree->node[node];
    switch (x->kind) {
    case TRP_EPILOGUE_ACCUMULATOR:
        put(p, "acc");
        break;
    case TRP_EPILOGUE_C:
        put(p, "c");
        break;
    case TRP_EPILOGUE_SCALAR:
        put(p, "%.17g", x->value.re);
        break;
    case TRP_EPILOGUE_BINARY:
        if (x->binary > TRP_BINARY_DIV) {
            put_call(p, node, x);
            break;
        }
        put(p, "(");
        put_value(p, x->input[0]);
        put(p, " %c ", signs[x->binary]);
        put_value(p, x->input[1]);
        put(p, ")");
        break;
    default:
        put_call(p, node, x);
    }
}

static void put_value(printer *p, uint32_t node)
{
    node = origin_of(p->tree, node);
    const trp_epilogue_node *x = &p->tree->node[node];
    if (is_operand(x)) {
        put(p, "%s%s", p->name[node],
            x->kind == TRP_EPILOGUE_PER_ROW      ? "[row]"
            : x->kind == TRP_EPILOGUE_PER_COLUMN ? "[col]"
            : x->kind == TRP_EPILOGUE_AUX_LOAD   ? "[row,col]"
                                                 : "");
        put_suffixes(p, x);
    } else if (p->shared[node][0]) {
        put(p, "%s", p->shared[node]);
    } else {
        put_node(p, node);
    }
}

static void put_sink(printer *p, uint32_t node)
{
    const trp_epilogue_node *x = &p->tree->node[node];
    bool store = x->kind == TRP_EPILOGUE_AUX_STORE;
    put(p, "%s[%s]", p->name[node],
        store                                    ? "row,col"
        : x->kind == TRP_EPILOGUE_REDUCE_ROWS    ? "row"
        : x->kind == TRP_EPILOGUE_REDUCE_COLUMNS ? "col"
                                                 : "");
    put_suffixes(p, x);
    put(p, " = ");
    if (!store)
        put(p, "%s(", epilogue_reductions[x->reduction]);
    put_value(p, x->input[0]);
    put(p, store ? "; " : "); ");
}

size_t epilogue_print(const epilogue *tree, char *out, size_t size)
{
    printer p = {.tree = tree, .out = out, .size = size};
    if (size > 0)
        out[0] = '\0';
    p.uses[origin_of(tree, tree->count - 1)]++;
    for (uint32_t i = 1; i < tree->count; i++) {
        for (uint32_t k = 0; k < TRP_EPILOGUE_INPUTS && tree->node[i].kind != TRP_EPILOGUE_D; k++) {
            uint32_t from = origin_of(tree, tree->node[i].input[k]);
            /* A store that something uses counts for itself, and its user for what it passes on. */
            p.uses[from]++;
        }
        memcpy(p.name[i], tree->name[i], EPILOGUE_NAME_MAX);
        if (has_name(&tree->node[i]) && !p.name[i][0])
            invent_name(&p, i, 'v', p.name[i]);
    }
    for (uint32_t i = 1; i < tree->count; i++) {
        const trp_epilogue_node *x = &tree->node[i];
        bool plain = x->kind == TRP_EPILOGUE_ACCUMULATOR || x->kind == TRP_EPILOGUE_C;
        if (is_sink(x->kind)) {
            put_sink(&p, i);
        } else if (!plain && !is_operand(x) && x->kind != TRP_EPILOGUE_D && p.uses[i] > 1) {
            char name[EPILOGUE_NAME_MAX];
            invent_name(&p, i, 't', name);
            put(&p, "%s = ", name);
            put_node(&p, i);
            put(&p, "; ");
            memcpy(p.shared[i], name, sizeof name);
        }
    }
    put_value(&p, tree->count - 1);
    return p.length;
}
