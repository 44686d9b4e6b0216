/* Computes the canonical form of an epilogue tree.
 *
 * Nodes get colours, numbers that depend on a node's computation and uses but not on its number,
 * and the colours are refined until they distinguish no more nodes. Nodes that still share a colour
 * are usually interchangeable, such as the two vectors of a sum; to be certain, each of them is
 * singled out in turn and the smallest result is taken. Colours begin with the height above the
 * leaves, so an order by colour puts inputs before their uses.
 *
 * Source: the search tree of B. McKay, Practical graph isomorphism, 1981, without most of its
 * pruning. */
#include "actors/cutlass/epilogue/tree.h"

#include <string.h>

enum {
    NODES = TRP__TREE_NODES_MAX,
    VERSION = 1,
    HEADER = 8,
    LEAVES_MAX = 256, /* tried orders; beyond them the first of equal nodes is taken */
    /* Colour, commuting inputs, then a colour and an input index for each use. A node has at most
     * as many uses as the tree has inputs. */
    KEY_BYTES = 1 + TRP__TREE_INPUTS + 2 * NODES * TRP__TREE_INPUTS,
};

typedef struct colours {
    uint8_t of[NODES];
    uint32_t classes;
} colours;

typedef struct form {
    uint8_t bytes[TRP__TREE_BYTES_MAX];
    size_t length;
} form;

typedef struct search {
    const trp__tree *tree;
    uint8_t key[NODES][KEY_BYTES];
    size_t key_length, used; /* significant bytes of a key, and those that are not zero */
    uint32_t leaves;
} search;

static void swap_bytes(uint8_t *a, uint8_t *b)
{
    uint8_t t = *a;
    *a = *b;
    *b = t;
}

/* Insertion sort of `count` elements of `width` bytes. */
static void sort_bytes(uint8_t *at, uint32_t count, uint32_t width)
{
    for (uint32_t i = 1; i < count; i++) {
        for (uint32_t j = i; j > 0 && memcmp(at + (j - 1) * width, at + j * width, width) > 0;
             j--) {
            for (uint32_t b = 0; b < width; b++)
                swap_bytes(at + (j - 1) * width + b, at + j * width + b);
        }
    }
}

/* Sets the colours to the ranks of the keys. */
static void rank(const search *s, colours *c)
{
    uint8_t order[NODES];
    uint32_t count = s->tree->count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = i;
        for (; j > 0 && memcmp(s->key[order[j - 1]], s->key[i], s->key_length) > 0; j--)
            order[j] = order[j - 1];
        order[j] = (uint8_t)i;
    }
    c->classes = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || memcmp(s->key[order[i - 1]], s->key[order[i]], s->key_length) != 0)
            c->classes++;
        c->of[order[i]] = (uint8_t)(c->classes - 1);
    }
}

static void first_colours(search *s, colours *c)
{
    const trp__tree *t = s->tree;
    uint8_t height[NODES] = {0};
    s->key_length = 5;
    for (uint32_t i = 0; i < t->count; i++) {
        const trp__tree_node *x = &t->node[i];
        for (uint32_t p = 0; p < trp__tree_inputs(x); p++) {
            uint8_t above = (uint8_t)(height[x->input[p]] + 1);
            height[i] = above > height[i] ? above : height[i];
        }
        s->key[i][0] = height[i];
        s->key[i][1] = x->op;
        s->key[i][2] = x->type;
        s->key[i][3] = x->detail;
        s->key[i][4] = i == t->root;
    }
    rank(s, c);
}

static void refine_once(search *s, colours *c)
{
    const trp__tree *t = s->tree;
    uint32_t uses[NODES] = {0}, most_uses = 0;
    for (uint32_t i = 0; i < t->count; i++)
        memset(s->key[i], 0, s->used);
    for (uint32_t i = 0; i < t->count; i++) {
        const trp__tree_node *x = &t->node[i];
        uint32_t commuting = trp__tree_commuting(x);
        s->key[i][0] = c->of[i];
        for (uint32_t p = 0; p < trp__tree_inputs(x); p++) {
            uint8_t from = x->input[p];
            uint8_t *use = &s->key[from][1 + TRP__TREE_INPUTS + 2 * uses[from]++];
            s->key[i][1 + p] = c->of[from];
            use[0] = (uint8_t)(c->of[i] + 1); /* 0 means no use */
            use[1] = (uint8_t)(p < commuting ? 0 : p);
        }
        sort_bytes(&s->key[i][1], commuting, 1);
    }
    for (uint32_t i = 0; i < t->count; i++) {
        sort_bytes(&s->key[i][1 + TRP__TREE_INPUTS], uses[i], 2);
        most_uses = uses[i] > most_uses ? uses[i] : most_uses;
    }
    s->key_length = s->used = 1 + TRP__TREE_INPUTS + 2 * (size_t)most_uses;
    rank(s, c);
}

static void refine(search *s, colours *c)
{
    uint32_t before;
    do {
        before = c->classes;
        refine_once(s, c);
    } while (c->classes != before && c->classes < s->tree->count);
}

/* Writes the bytes of a tree with node i at position place[i]. */
static void write_form(const trp__tree *t, const uint8_t place[NODES], form *out)
{
    uint8_t *b = out->bytes;
    uint8_t at[NODES] = {0};
    for (uint8_t i = 0; i < t->count; i++)
        at[place[i]] = i;
    *b++ = VERSION;
    *b++ = t->accumulator;
    *b++ = t->c;
    *b++ = t->d;
    *b++ = t->order;
    *b++ = t->count;
    *b++ = place[t->root];
    *b++ = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const trp__tree_node *x = &t->node[at[i]];
        uint8_t *inputs = b + 3;
        b[0] = x->op;
        b[1] = x->type;
        b[2] = x->detail;
        b += 3;
        for (uint32_t p = 0; p < trp__tree_inputs(x); p++)
            *b++ = place[x->input[p]];
        sort_bytes(inputs, trp__tree_commuting(x), 1);
    }
    out->length = (size_t)(b - out->bytes);
}

static int compare_forms(const form *a, const form *b)
{
    /* All forms of a tree have the same length. */
    return memcmp(a->bytes, b->bytes, a->length);
}

/* Finds the lowest colour that several nodes share; returns false if there is none. */
static bool find_shared(const search *s, const colours *c, uint8_t *shared)
{
    uint32_t members[NODES] = {0};
    for (uint32_t i = 0; i < s->tree->count; i++)
        members[c->of[i]]++;
    for (uint32_t k = 0; k < c->classes; k++) {
        if (members[k] > 1) {
            *shared = (uint8_t)k;
            return true;
        }
    }
    return false;
}

/* Gives one node a colour of its own and refines. */
static void single_out(search *s, colours *c, uint32_t node)
{
    uint8_t colour = c->of[node];
    for (uint32_t i = 0; i < s->tree->count; i++) {
        if (c->of[i] > colour || (c->of[i] == colour && i != node))
            c->of[i]++;
    }
    c->classes++;
    refine(s, c);
}

/* Returns a hash of the form that results from always taking the first of equal nodes. A collision
 * can only cause a second form of the same tree. */
static uint64_t first_form(search *s, colours c)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    form f = {.length = 0};
    uint8_t shared;
    while (find_shared(s, &c, &shared)) {
        uint32_t i = 0;
        while (c.of[i] != shared)
            i++;
        single_out(s, &c, i);
    }
    s->leaves++;
    write_form(s->tree, c.of, &f);
    for (size_t i = 0; i < f.length; i++) /* FNV-1a */
        hash = (hash ^ f.bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Finds the smallest form and the colours (all different) that produce it. */
static void find_least(search *s, const colours *from, form *best, colours *winner)
{
    uint64_t first[NODES];
    uint32_t firsts = 0;
    uint8_t shared;
    if (!find_shared(s, from, &shared)) {
        form mine = {.length = 0};
        s->leaves++;
        write_form(s->tree, from->of, &mine);
        if (best->length == 0 || compare_forms(&mine, best) < 0) {
            *best = mine;
            *winner = *from;
        }
        return;
    }
    for (uint32_t i = 0; i < s->tree->count; i++) {
        if (from->of[i] != shared)
            continue;
        if (firsts > 0 && s->leaves > LEAVES_MAX)
            return;
        colours c = *from;
        bool seen = false;
        single_out(s, &c, i);
        /* An equal hash means that this node and a previous one are interchangeable. */
        uint64_t tried = first_form(s, c);
        for (uint32_t k = 0; k < firsts && !seen; k++)
            seen = first[k] == tried;
        if (seen)
            continue;
        first[firsts++] = tried;
        find_least(s, &c, best, winner);
    }
}

static void renumber(trp__tree *t, const uint8_t place[NODES])
{
    trp__tree old = *t;
    uint8_t slots = TRP__TREE_SLOT_FIRST;
    uint8_t at[NODES] = {0};
    for (uint8_t i = 0; i < old.count; i++)
        at[place[i]] = i;
    memset(t->origin, 0, sizeof t->origin);
    t->root = place[old.root];
    for (uint32_t i = 0; i < old.count; i++) {
        trp__tree_node x = old.node[at[i]];
        for (uint32_t p = 0; p < trp__tree_inputs(&x); p++)
            x.input[p] = place[x.input[p]];
        sort_bytes(x.input, trp__tree_commuting(&x), 1);
        if (x.slot) {
            t->origin[slots] = old.origin[x.slot];
            x.slot = slots++;
        }
        t->node[i] = x;
    }
}

void trp__tree_canonize(trp__tree *tree)
{
    search s = {.tree = tree, .used = KEY_BYTES};
    form best = {.length = 0};
    colours c = {0}, winner;
    first_colours(&s, &c);
    refine(&s, &c);
    winner = c;
    find_least(&s, &c, &best, &winner);
    renumber(tree, winner.of);
}

size_t trp__tree_encode(const trp__tree *tree, uint8_t bytes[TRP__TREE_BYTES_MAX])
{
    uint8_t place[NODES];
    form f = {.length = 0};
    for (uint32_t i = 0; i < NODES; i++)
        place[i] = (uint8_t)i;
    write_form(tree, place, &f);
    memcpy(bytes, f.bytes, f.length);
    return f.length;
}

/* Tells whether op, type and detail form a valid node. */
static bool is_node(const trp__tree *t, const trp__tree_node *x)
{
    switch (x->op) {
    case TRP__TREE_ACCUMULATOR:
    case TRP__TREE_SCALAR:
        return x->type == 0 && x->detail == 0;
    case TRP__TREE_C:
        return x->type == 0 && x->detail == 0 && t->c != TRP_DTYPE_NONE;
    case TRP__TREE_PER_ROW:
    case TRP__TREE_PER_COLUMN:
        return trp__tree_vector_type(t->compute, x->type) && x->detail == 0;
    case TRP__TREE_LOAD:
    case TRP__TREE_STORE:
        return trp__tree_matrix_type(t->compute, x->type) && x->detail <= TRP_ROW_MAJOR;
    case TRP__TREE_FUNCTION:
        return x->type == 0 && x->detail < TRP__FN_COUNT;
    case TRP__TREE_CONVERT:
        return trp__tree_matrix_type(t->compute, x->type) && x->detail == 0;
    case TRP__TREE_REDUCE_ROWS:
    case TRP__TREE_REDUCE_COLUMNS:
    case TRP__TREE_REDUCE_ALL:
        return x->type == 0 && x->detail <= TRP_REDUCTION_AMAX;
    default:
        return false;
    }
}

static bool decode_nodes(const uint8_t *b, const uint8_t *end, trp__tree *t)
{
    bool reads_c = false, used[NODES] = {false};
    for (uint8_t i = 0; i < t->count; i++) {
        trp__tree_node x = {0};
        if (end - b < 3)
            return false;
        x.op = b[0];
        x.type = b[1];
        x.detail = b[2];
        b += 3;
        if (!is_node(t, &x))
            return false;
        for (uint32_t p = 0; p < trp__tree_inputs(&x); p++) {
            if (b == end || *b >= i || trp__tree_is_sink(&t->node[*b]))
                return false;
            used[*b] = true;
            x.input[p] = *b++;
        }
        if (trp__tree_commuting(&x) == 2 && x.input[0] > x.input[1])
            return false;
        if (trp__tree_has_slot(&x))
            x.slot = t->slots++;
        reads_c = reads_c || x.op == TRP__TREE_C;
        used[i] = trp__tree_is_sink(&x);
        t->node[i] = x;
    }
    used[t->root] = true;
    for (uint32_t i = 0; i < t->count; i++) {
        if (!used[i])
            return false;
    }
    return b == end && !trp__tree_is_sink(&t->node[t->root]) && reads_c == (t->c != TRP_DTYPE_NONE);
}

bool trp__tree_decode(const uint8_t *bytes, size_t length, trp__tree *out)
{
    memset(out, 0, sizeof *out);
    if (length < HEADER || bytes[0] != VERSION || bytes[7] != 0)
        return false;
    out->accumulator = bytes[1];
    out->c = bytes[2];
    out->d = bytes[3];
    out->order = bytes[4];
    out->count = bytes[5];
    out->root = bytes[6];
    out->compute = out->accumulator == TRP_F64 ? TRP_F64 : TRP_F32;
    out->slots = TRP__TREE_SLOT_FIRST;
    if (out->accumulator != TRP_F32 && out->accumulator != TRP_F64 && out->accumulator != TRP_I32)
        return false;
    if (!trp__tree_matrix_type(out->compute, out->d) || out->order > TRP_ROW_MAJOR ||
        out->count == 0 || out->count > NODES || out->root >= out->count)
        return false;
    if (out->c != TRP_DTYPE_NONE && !trp__tree_matrix_type(out->compute, out->c))
        return false;
    return decode_nodes(bytes + HEADER, bytes + length, out);
}
