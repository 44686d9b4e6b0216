/* Renders the arguments of a tree: the words of its operands, and the text that reads them. */
#include "actors/cutlass/epilogue/render_parts.h"
#include "base/error.h"

#include <string.h>

typedef trp__tree_render_state render;

static uint32_t words_of(const trp__tree_node *x)
{
    return x->op == TRP__TREE_LOAD || x->op == TRP__TREE_STORE ? 3 : 2;
}

uint32_t trp__tree_word(const trp__tree *tree, uint32_t slot)
{
    uint32_t word = 0;
    /* Slots have the order of nodes. */
    for (uint32_t i = 0; i < tree->count; i++) {
        const trp__tree_node *x = &tree->node[i];
        if (x->slot && x->slot < slot)
            word += words_of(x);
    }
    return word;
}

void trp__tree_fill_words(const trp__tree *tree, const trp__tree_value *value,
                          uint64_t words[TRP__TREE_WORDS_MAX])
{
    for (uint32_t i = 0; i < tree->count; i++) {
        const trp__tree_node *x = &tree->node[i];
        const trp__tree_value *v = &value[x->slot];
        if (!x->slot)
            continue;
        *words++ = v->address;
        if (words_of(x) == 3)
            *words++ = (uint64_t)v->place.ld;
        if (x->op == TRP__TREE_SCALAR && !v->address)
            memcpy(words, &v->place.value, sizeof *words);
        else
            *words = (uint64_t)v->place.stride;
        words++;
    }
}

uint64_t trp__tree_neutral_bits(const trp__tree *tree, const trp__tree_node *node)
{
    bool wide = tree->compute == TRP_F64;
    switch (node->detail) {
    case TRP_REDUCTION_MAX:
        return wide ? UINT64_C(0xfff0000000000000) : 0xff800000u;
    case TRP_REDUCTION_MIN:
        return wide ? UINT64_C(0x7ff0000000000000) : 0x7f800000u;
    default:
        return 0;
    }
}

/* The path to a visitor's arguments in those of the whole tree. */
typedef struct path {
    char text[16 * TRP__TREE_NODES_MAX];
} path;

static void add_put(const render *r, const trp__tree_node *x, const char *at)
{
    uint32_t word = x->slot ? trp__tree_word(r->tree, x->slot) : 0;
    uint32_t line = x->detail == TRP_ROW_MAJOR ? 0 : 1;
    if (x->op == TRP__TREE_SCALAR)
        ADD(r, "  put_scalar(%s, a.slot + %u);\n", at, word);
    else if (x->op == TRP__TREE_PER_ROW || x->op == TRP__TREE_REDUCE_ROWS)
        ADD(r, "  put_column(%s, a.slot + %u);\n", at, word);
    else if (x->op == TRP__TREE_PER_COLUMN || x->op == TRP__TREE_REDUCE_COLUMNS)
        ADD(r, "  put_row(%s, a.slot + %u);\n", at, word);
    else if (x->op == TRP__TREE_REDUCE_ALL)
        ADD(r, "  put_result(%s, a.slot + %u);\n", at, word);
    else if (x->op == TRP__TREE_LOAD || x->op == TRP__TREE_STORE)
        ADD(r, "  put_matrix<%u>(%s, a.slot + %u);\n", line, at, word);
    else if (x->op == TRP__TREE_C && r->target == TRP__TREE_SM80)
        ADD(r, "  put_matrix<0>(%s, a.c, a.ldc, a.batch_c);\n", at);
    if (x->op >= TRP__TREE_REDUCE_ROWS)
        ADD(r, "  %s.reduction_identity = %s;\n", at,
            x->detail == TRP_REDUCTION_MAX   ? "-infinity<Compute>()"
            : x->detail == TRP_REDUCTION_MIN ? "infinity<Compute>()"
                                             : "Compute(0)");
}

static void extend(path *at, const char *step)
{
    size_t length = strlen(at->text);
    trp__copy_string(at->text + length, sizeof at->text - length, step);
}

/* Adds the arguments of v<node> at the path `at`, which is restored at the end. */
static void put_nested(const render *r, uint32_t node, path *at)
{
    const trp__tree *t = r->tree;
    const trp__tree_node *x = &t->node[node];
    size_t length = strlen(at->text);
    uint32_t inputs = trp__tree_inputs(x);
    /* The last store is the outermost; inputs precede the operation. */
    for (uint32_t s = t->count; s-- > node + 1;) {
        if (!trp__tree_is_sink(&t->node[s]) || t->node[s].input[0] != node)
            continue;
        size_t here = strlen(at->text);
        extend(at, ".op_1");
        add_put(r, &t->node[s], at->text);
        at->text[here] = '\0';
        extend(at, ".op_0");
    }
    size_t inner = strlen(at->text);
    for (uint32_t p = 0; p < inputs; p++) {
        trp__text part = {.out = at->text + inner, .size = 8};
        trp__text_add(&part, ".op_%u", p);
        put_nested(r, x->input[p], at);
        at->text[inner] = '\0';
    }
    if (inputs == 0)
        add_put(r, x, at->text);
    at->text[length] = '\0';
}

static void put_listed(const render *r)
{
    const trp__tree *t = r->tree;
    char at[32];
    for (uint32_t i = 0; i < t->count; i++) {
        trp__text text = {.out = at, .size = sizeof at};
        /* Up to four arguments are members, more are a tuple. */
        trp__text_add(&text, t->count + 1u <= 4 ? "x.op_%u" : "cute::get<%u>(x)", i);
        add_put(r, &t->node[i], at);
    }
}

void trp__render_arguments(const trp__tree_render_state *r)
{
    const trp__tree *t = r->tree;
    path at = {"x.op_0"};
    ADD(r, "CUTLASS_DEVICE Tree::Arguments arguments(trp_cutlass_args const &a) {\n"
           "  Tree::Arguments x;\n");
    if (r->nested)
        put_nested(r, t->root, &at);
    else
        put_listed(r);
    if (r->target == TRP__TREE_SM80 && r->nested)
        ADD(r, "  put_matrix<0>(x.op_1, a.d, a.ldd, a.batch_d);\n");
    else if (r->target == TRP__TREE_SM80)
        ADD(r,
            t->count + 1u <= 4 ? "  put_matrix<0>(x.op_%u, a.d, a.ldd, a.batch_d);\n"
                               : "  put_matrix<0>(cute::get<%u>(x), a.d, a.ldd, a.batch_d);\n",
            t->count);
    ADD(r, "  return x; }\n");
}
