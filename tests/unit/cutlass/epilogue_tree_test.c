/* Epilogue trees: what is refused and how it is told, the canonical form, and where operands lie.
 */
#include "support/unit.h"

#include "actors/cutlass/epilogue/tree.h"
#include "support/problems/epilogue_draw.h"
#include "support/reference/random.h"
#include "support/reference/reference.h"
#include "support/label.h"

#include <math.h>

TROUPE_TEST("no tsan");

static trp_error error;
static trp__tree tree;
static const trp__tree_types f32_types = {.accumulator = TRP_F32, .c = TRP_F32, .d = TRP_BF16};

static trp_status build(const trp_epilogue_node *nodes, uint32_t count)
{
    memset(&error, 0, sizeof error);
    return trp__tree_build(nodes, count, &f32_types, &tree, &error);
}

/* relu(acc * scale[row] + bias[column]), stored before the relu too. */
enum { NONE, ACC, SCALED, BIAS, SUM, KEPT, ROOT, COUNT };
static const trp_epilogue_node sample[COUNT] = {
    [ACC] = {.kind = TRP_EPILOGUE_ACCUMULATOR},
    [SCALED] = {.kind = TRP_EPILOGUE_SCALE_ROWS, .input = {ACC}, .buffer = {2}},
    [BIAS] = {.kind = TRP_EPILOGUE_PER_COLUMN, .type = TRP_BF16, .buffer = {3}},
    [SUM] = {.kind = TRP_EPILOGUE_BINARY, .input = {SCALED, BIAS}},
    [KEPT] = {.kind = TRP_EPILOGUE_AUX_STORE, .input = {SUM}, .buffer = {5}},
    [ROOT] = {.kind = TRP_EPILOGUE_ACTIVATION,
              .activation = TRP_ACTIVATION_LEAKY_RELU,
              .input = {KEPT}},
};

static void lowered(void **state)
{
    (void)state;
    assert_int_equal(build(sample, COUNT), TRP_OK);
    /* Sums, vector, product, vector, sum, store, slope, activation. */
    assert_int_equal(tree.count, 8);
    assert_int_equal(tree.slots, TRP__TREE_SLOT_FIRST + 4);
    assert_int_equal(tree.c, TRP_DTYPE_NONE);
    const trp__tree_node *root = &tree.node[tree.root];
    assert_int_equal(root->op, TRP__TREE_FUNCTION);
    assert_int_equal(root->detail, TRP__FN_leaky_relu);
    /* The store passes its input on. */
    const trp__tree_node *sum = &tree.node[root->input[0]];
    assert_int_equal(sum->detail, TRP__FN_add);
    const trp__tree_node *slope = &tree.node[root->input[1]];
    assert_int_equal(slope->op, TRP__TREE_SCALAR);
    assert_int_equal(tree.origin[slope->slot].node, ROOT);
    assert_int_equal(tree.origin[slope->slot].part, 1);
    for (uint32_t i = 0; i < tree.count; i++) {
        if (tree.node[i].op == TRP__TREE_STORE) {
            assert_int_equal(tree.node[i].type, TRP_BF16); /* D's */
            assert_int_equal(tree.origin[tree.node[i].slot].node, KEPT);
            assert_ptr_equal(&tree.node[tree.node[i].input[0]], sum);
        }
    }
}

/* Each is the sample but for a change, and refused with this message. */
#define BAD(expected_status, text, change)                                                         \
    do {                                                                                           \
        trp_epilogue_node n[TRP_EPILOGUE_NODES_MAX + 8] = {{.kind = TRP_EPILOGUE_NONE}};           \
        uint32_t count = COUNT;                                                                    \
        memcpy(n, sample, sizeof sample);                                                          \
        change;                                                                                    \
        assert_int_equal(build(n, count), expected_status);                                        \
        assert_string_equal(error.message, text);                                                  \
    } while (0)

static void refused_graphs(void **state)
{
    (void)state;
    BAD(TRP_E_ARGUMENT, "nodes: expected at least 2, nodes[0] and the root, got 1", count = 1);
    BAD(TRP_E_ARGUMENT, "nodes: expected at most 32, got 33", count = 33);
    BAD(TRP_E_ARGUMENT, "nodes[0]: expected all zero, for it stands for none, got a node",
        n[0].kind = TRP_EPILOGUE_C);
    BAD(TRP_E_ARGUMENT, "nodes[0]: expected all zero, for it stands for none, got fields",
        n[0].ld = 4);
    BAD(TRP_E_ARGUMENT, "nodes[4] (binary add): input[1]: expected a node, got none",
        n[SUM].input[1] = 0);
    BAD(TRP_E_ARGUMENT,
        "nodes[4] (binary add): input[1]: expected a node before this one, got itself",
        n[SUM].input[1] = SUM);
    BAD(TRP_E_ARGUMENT,
        "nodes[4] (binary add): input[0]: expected a node before this one, got nodes[6] "
        "(activation leaky_relu)",
        n[SUM].input[0] = ROOT);
    BAD(TRP_E_ARGUMENT,
        "nodes[4] (binary add): input[0]: expected less than 7, the number of nodes, got 7",
        n[SUM].input[0] = 7);
    BAD(TRP_E_ARGUMENT, "nodes[4] (binary add): input[2]: expected none, for it has 2, got 1",
        n[SUM].input[2] = ACC);
    BAD(TRP_E_ARGUMENT, "nodes[1] (accumulator): input[0]: expected none, for it has 0, got 3",
        n[ACC].input[0] = 3);
    BAD(TRP_E_ARGUMENT,
        "nodes[3] (per column): expected a node that something uses; neither D nor what is stored "
        "depends on it",
        n[SUM].input[1] = ACC);
    BAD(TRP_E_ARGUMENT, "nodes[5] (d): expected as the last node, nodes[6], only",
        n[KEPT] = ((trp_epilogue_node){.kind = TRP_EPILOGUE_D, .input = {SUM}}));
    BAD(TRP_E_ARGUMENT, "nodes[4]: kind: expected a trp_epilogue_kind but NONE, got 99",
        n[SUM].kind = (trp_epilogue_kind)99);
    BAD(TRP_E_ARGUMENT, "nodes[4] (none): kind: expected a trp_epilogue_kind but NONE, got 0",
        n[SUM].kind = TRP_EPILOGUE_NONE);
}

static void refused_fields(void **state)
{
    (void)state;
    BAD(TRP_E_ARGUMENT, "nodes[4] (binary): binary: expected 0 to 5, got 6",
        n[SUM].binary = (trp_binary)6);
    BAD(TRP_E_ARGUMENT, "nodes[6] (activation): activation: expected 1 to 17, got 0",
        n[ROOT].activation = TRP_ACTIVATION_NONE);
    BAD(TRP_E_ARGUMENT, "nodes[5] (aux store): order: expected 0 to 1, got 2",
        n[KEPT].order = (trp_order)2);
    BAD(TRP_E_ARGUMENT, "nodes[4] (binary add): activation: expected 0, for this node has none",
        n[SUM].activation = TRP_ACTIVATION_RELU);
    BAD(TRP_E_ARGUMENT, "nodes[4] (binary add): buffer: expected 0, for this node has none",
        n[SUM].buffer.id = 1);
    BAD(TRP_E_ARGUMENT, "nodes[3] (per column): ld: expected 0, for this node has none",
        n[BIAS].ld = 8);
    BAD(TRP_E_ARGUMENT,
        "nodes[6] (activation relu): parameter[0]: expected 0, for this node has none",
        n[ROOT].activation = TRP_ACTIVATION_RELU;
        n[ROOT].parameter[0] = trp_real(1));
    BAD(TRP_E_ARGUMENT, "nodes[3] (per column): buffer: expected one, got none",
        n[BIAS].buffer.id = 0);
    BAD(TRP_E_ARGUMENT,
        "nodes[6] (activation leaky_relu): parameter[0]: expected a finite f32, got inf",
        n[ROOT].parameter[0] = trp_real((double)INFINITY));
    BAD(TRP_E_ARGUMENT,
        "nodes[6] (activation leaky_relu): parameter[0]: expected a finite f32, got 1e+300",
        n[ROOT].parameter[0] = trp_real(1e300));
    BAD(TRP_E_ARGUMENT,
        "nodes[6] (activation leaky_relu): parameter[0]: expected a real number, got 1 + 2i",
        n[ROOT].parameter[0] = trp_complex(1, 2));
    BAD(TRP_E_ARGUMENT,
        "nodes[6] (activation clipped_relu): parameter[0]: expected a limit of 0 or more, got -1",
        n[ROOT].activation = TRP_ACTIVATION_CLIPPED_RELU;
        n[ROOT].parameter[0] = trp_real(-1));
    BAD(TRP_E_ARGUMENT,
        "nodes[6] (activation softplus): parameter[0]: expected a beta above 0, got 0",
        n[ROOT].activation = TRP_ACTIVATION_SOFTPLUS;
        n[ROOT].parameter[0] = trp_real(0));
    BAD(TRP_E_ARGUMENT,
        "nodes[6] (activation clamp): parameter[1]: expected at least 2, the least, got 1",
        n[ROOT].activation = TRP_ACTIVATION_CLAMP;
        n[ROOT].parameter[0] = trp_real(2));
    BAD(TRP_E_ARGUMENT, "nodes[3] (scalar): value: expected none with a buffer, got 2",
        n[BIAS] = ((trp_epilogue_node){
            .kind = TRP_EPILOGUE_SCALAR, .value = trp_real(2), .buffer = {3}}));
    BAD(TRP_E_ARGUMENT, "nodes[3] (scalar): stride: expected 0 without a buffer",
        n[BIAS] = ((trp_epilogue_node){.kind = TRP_EPILOGUE_SCALAR, .stride = 1}));
}

static void refused_types(void **state)
{
    (void)state;
    BAD(TRP_E_UNSUPPORTED, "nodes[3] (per column): type: expected f32, f16 or bf16, got f8e4m3 (5)",
        n[BIAS].type = TRP_F8E4M3);
    BAD(TRP_E_UNSUPPORTED,
        "nodes[5] (aux store): type: expected f32, f16, bf16, f8e4m3, f8e5m2 or i8, got f64 (1)",
        n[KEPT].type = TRP_F64);
    BAD(TRP_E_UNSUPPORTED, "nodes[5] (reduce rows max): type: expected f32, got bf16 (4)",
        n[KEPT].kind = TRP_EPILOGUE_REDUCE_ROWS;
        n[KEPT].reduction = TRP_REDUCTION_MAX; n[KEPT].type = TRP_BF16);
    trp__tree_types types = f32_types;
    types.accumulator = TRP_F16;
    assert_int_equal(trp__tree_build(sample, COUNT, &types, &tree, &error), TRP_E_UNSUPPORTED);
    assert_string_equal(error.message,
                        "an epilogue tree of sums of type f16: expected f32, f64 or i32");
    types = f32_types;
    types.d = TRP_C64;
    assert_int_equal(trp__tree_build(sample, COUNT, &types, &tree, &error), TRP_E_UNSUPPORTED);
    types.accumulator = TRP_F64;
    types.c = TRP_F64;
    types.d = TRP_F64; /* but the bias is bf16 */
    assert_int_equal(trp__tree_build(sample, COUNT, &types, &tree, &error), TRP_E_UNSUPPORTED);
    assert_string_equal(error.message,
                        "nodes[3] (per column): type: expected f64 or f32, got bf16 (4)");
    const trp_epilogue_node source[] = {[1] = {.kind = TRP_EPILOGUE_C}};
    types = f32_types;
    types.c = TRP_DTYPE_NONE;
    assert_int_equal(trp__tree_build(source, 2, &types, &tree, &error), TRP_E_ARGUMENT);
    assert_string_equal(error.message,
                        "nodes[1] (c): expected a request with a c.buffer, got none");
}

static void too_large(void **state)
{
    (void)state;
    /* Each clamp is three: itself and its two limits. */
    trp_epilogue_node n[TRP_EPILOGUE_NODES_MAX] = {[1] = {.kind = TRP_EPILOGUE_ACCUMULATOR}};
    for (uint32_t i = 2; i < TRP_EPILOGUE_NODES_MAX; i++)
        n[i] = (trp_epilogue_node){
            .kind = TRP_EPILOGUE_ACTIVATION, .activation = TRP_ACTIVATION_CLAMP, .input = {i - 1}};
    assert_int_equal(build(n, 23), TRP_OK); /* 1 + 21 * 3 */
    assert_int_equal(tree.count, 64);
    assert_int_equal(build(n, 24), TRP_E_ARGUMENT);
    assert_string_equal(error.message,
                        "nodes[23] (activation clamp): expected a tree of at most 64 operands and "
                        "operations, those of scales and parameters counted apart");
}

/* The canonical form. */

typedef struct form {
    uint8_t bytes[TRP__TREE_BYTES_MAX];
    size_t length;
} form;

static form form_of(const epilogue_tree *t, trp__tree *out)
{
    const trp__tree_types types = {
        .accumulator = t->accumulator, .c = t->c, .d = t->d, .order = t->order};
    form f;
    memset(&error, 0, sizeof error);
    if (trp__tree_build(t->node, t->count, &types, out, &error) != TRP_OK)
        fail_msg("%s", error.message);
    f.length = trp__tree_encode(out, f.bytes);
    return f;
}

static bool same(const form *a, const form *b)
{
    return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

static void canonical_form(void **state)
{
    (void)state;
    uint64_t rng = ref_seed();
    trp__tree first, second, decoded;
    uint32_t new_of[TRP_EPILOGUE_NODES_MAX];
    for (int i = 0; i < 2000; i++) {
        epilogue_tree drawn, shuffled, changed;
        epilogue_draw(&rng, (epilogue_limits){.nodes = i % 2 ? 0 : 10}, &drawn);
        epilogue_shuffle(&rng, &drawn, &shuffled, new_of);
        const char *what = epilogue_change(&rng, &drawn, &changed);
        form f = form_of(&drawn, &first), g = form_of(&shuffled, &second);
        form h = form_of(&changed, &decoded);
        assert_true(same(&f, &g));
        if (same(&f, &h))
            fail_msg("tree %d: the form does not see a change: %s", i, what);
        /* Slots of the two trees are those of the same nodes. */
        assert_int_equal(first.slots, second.slots);
        /* What is symmetric may have changed places; what is alone may not. */
        for (uint32_t s = TRP__TREE_SLOT_FIRST; s < first.slots; s++)
            assert_int_equal(first.origin[s].part, second.origin[s].part);
        /* The bytes are the whole tree. */
        assert_true(trp__tree_decode(f.bytes, f.length, &decoded));
        memcpy(decoded.origin, first.origin, sizeof decoded.origin);
        assert_memory_equal(&decoded, &first, sizeof first);
    }
}

/* Runtime values are not in the form. */
static void values_do_not_count(void **state)
{
    (void)state;
    epilogue_tree a = {.count = COUNT, .accumulator = TRP_F32, .c = TRP_F32, .d = TRP_BF16};
    memcpy(a.node, sample, sizeof sample);
    epilogue_tree b = a;
    b.node[BIAS].buffer.id = 77;
    b.node[BIAS].offset = 16;
    b.node[BIAS].stride = 100;
    b.node[KEPT].ld = 5000;
    b.node[ROOT].parameter[0] = trp_real(0.5);
    trp__tree t;
    form f = form_of(&a, &t), g = form_of(&b, &t);
    assert_true(same(&f, &g));
    /* A scalar by value, and in a buffer. */
    a.node[BIAS] = (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALAR, .value = trp_real(3)};
    b.node[BIAS] = (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALAR, .buffer = {9}};
    f = form_of(&a, &t);
    g = form_of(&b, &t);
    assert_true(same(&f, &g));
}

/* The same computation, written in ways that no renumbering gives. */
static void equal_trees(void **state)
{
    (void)state;
    enum { VECTOR = COUNT, PRODUCT, SUM_2, SIZE };
    epilogue_tree a = {.count = COUNT, .accumulator = TRP_F32, .c = TRP_F32, .d = TRP_BF16}, b = a;
    memcpy(a.node, sample, sizeof sample);
    /* The scale as a product, the sums named twice, the store beside the root. */
    const trp_epilogue_node other[] = {
        [1] = {.kind = TRP_EPILOGUE_PER_COLUMN, .type = TRP_BF16, .buffer = {3}},
        [2] = {.kind = TRP_EPILOGUE_PER_ROW, .buffer = {2}},
        [3] = {.kind = TRP_EPILOGUE_ACCUMULATOR},
        [4] = {.kind = TRP_EPILOGUE_BINARY, .binary = TRP_BINARY_MUL, .input = {2, 3}},
        [5] = {.kind = TRP_EPILOGUE_ACCUMULATOR},
        [6] = {.kind = TRP_EPILOGUE_BINARY, .binary = TRP_BINARY_MUL, .input = {5, 2}},
        [7] = {.kind = TRP_EPILOGUE_BINARY, .input = {4, 1}},
        [8] = {.kind = TRP_EPILOGUE_BINARY, .input = {1, 6}},
        [9] = {.kind = TRP_EPILOGUE_AUX_STORE, .input = {8}, .buffer = {5}},
        [10] = {.kind = TRP_EPILOGUE_ACTIVATION,
                .activation = TRP_ACTIVATION_LEAKY_RELU,
                .input = {7}},
    };
    memcpy(b.node, other, sizeof other);
    b.count = 11;
    trp__tree t;
    form f = form_of(&a, &t), g = form_of(&b, &t);
    assert_true(same(&f, &g));
}

/* Operands that look alike but are not: which of two vectors is used twice is no matter, that one
 * is used twice and not two once each, is. */
static void alike_but_different(void **state)
{
    (void)state;
    epilogue_tree a = {.count = 7, .accumulator = TRP_F32, .d = TRP_F32}, b, c;
    const trp_epilogue_node once[] = {
        [1] = {.kind = TRP_EPILOGUE_ACCUMULATOR},
        [2] = {.kind = TRP_EPILOGUE_PER_ROW, .buffer = {2}},
        [3] = {.kind = TRP_EPILOGUE_PER_ROW, .buffer = {3}},
        [4] = {.kind = TRP_EPILOGUE_BINARY, .input = {1, 2}},
        [5] = {.kind = TRP_EPILOGUE_BINARY, .input = {4, 3}},
        [6] = {.kind = TRP_EPILOGUE_BINARY, .binary = TRP_BINARY_SUB, .input = {5, 2}},
    };
    memcpy(a.node, once, sizeof once);
    b = c = a;
    b.node[6].input[1] = 3;
    c.node[4].input[1] = 3; /* a, with 2 and 3 in each other's place */
    c.node[5].input[1] = 2;
    c.node[6].input[1] = 3;
    trp__tree t;
    form f = form_of(&a, &t), g = form_of(&b, &t), h = form_of(&c, &t);
    assert_false(same(&f, &g));
    assert_true(same(&f, &h));
    /* An order of subtraction. */
    b = a;
    b.node[6].input[0] = 2;
    b.node[6].input[1] = 5;
    g = form_of(&b, &t);
    assert_false(same(&f, &g));
}

/* Trees that are as symmetric as can be still have one form. */
static void symmetric_trees(void **state)
{
    (void)state;
    uint64_t rng = ref_seed();
    epilogue_tree t = {.count = 32, .accumulator = TRP_F32, .d = TRP_F32};
    t.node[1].kind = TRP_EPILOGUE_ACCUMULATOR;
    for (uint32_t i = 2; i < 17; i++)
        t.node[i] = (trp_epilogue_node){.kind = TRP_EPILOGUE_PER_ROW, .buffer = {i}};
    for (uint32_t i = 17; i < 32; i++) /* a balanced tree of sums over all of them */
        t.node[i] = (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY,
                                        .input = {2 * (i - 17) + 1, 2 * (i - 17) + 2}};
    for (int i = 0; i < 4; i++) {
        epilogue_tree shuffled;
        trp__tree a, b;
        uint32_t new_of[TRP_EPILOGUE_NODES_MAX];
        epilogue_shuffle(&rng, &t, &shuffled, new_of);
        form f = form_of(&t, &a), g = form_of(&shuffled, &b);
        assert_true(same(&f, &g));
    }
}

/* Four vectors in a ring of maxima, which are added in two ways: as neighbours, so that two of the
 * vectors have both of their maxima in one sum, or as opposites, so that none has. Nodes that look
 * alike from near are not here. */
static void rings(void **state)
{
    (void)state;
    uint64_t rng = ref_seed();
    const uint32_t joined[2][4] = {{5, 6, 7, 8}, {5, 7, 6, 8}};
    epilogue_tree t[2];
    trp__tree lowered_tree;
    form f[2];
    for (uint32_t k = 0; k < 2; k++) {
        memset(&t[k], 0, sizeof t[k]);
        t[k].accumulator = t[k].d = TRP_F32;
        t[k].count = 12;
        for (uint32_t i = 1; i <= 4; i++) {
            t[k].node[i] = (trp_epilogue_node){.kind = TRP_EPILOGUE_PER_ROW, .buffer = {i}};
            t[k].node[4 + i] = (trp_epilogue_node){
                .kind = TRP_EPILOGUE_BINARY, .binary = TRP_BINARY_MAX, .input = {i, i % 4 + 1}};
        }
        for (uint32_t i = 0; i < 2; i++)
            t[k].node[9 + i] = (trp_epilogue_node){
                .kind = TRP_EPILOGUE_BINARY, .input = {joined[k][2 * i], joined[k][2 * i + 1]}};
        t[k].node[11] = (trp_epilogue_node){
            .kind = TRP_EPILOGUE_BINARY, .binary = TRP_BINARY_MUL, .input = {9, 10}};
        f[k] = form_of(&t[k], &lowered_tree);
        for (int i = 0; i < 50; i++) {
            epilogue_tree shuffled;
            uint32_t new_of[TRP_EPILOGUE_NODES_MAX];
            epilogue_shuffle(&rng, &t[k], &shuffled, new_of);
            form g = form_of(&shuffled, &lowered_tree);
            assert_true(same(&f[k], &g));
        }
    }
    assert_false(same(&f[0], &f[1]));
}

static void bad_forms(void **state)
{
    (void)state;
    uint64_t rng = ref_seed();
    trp__tree t, decoded;
    for (int i = 0; i < 20000; i++) {
        epilogue_tree drawn;
        uint8_t again[TRP__TREE_BYTES_MAX];
        if (i % 20 == 0)
            epilogue_draw(&rng, (epilogue_limits){.nodes = 12}, &drawn);
        form f = form_of(&drawn, &t);
        for (uint32_t k = 1 + random_below(&rng, 3); k > 0; k--)
            f.bytes[random_below(&rng, (uint32_t)f.length)] = (uint8_t)random_below(&rng, 24);
        if (random_below(&rng, 4) == 0)
            f.length = random_below(&rng, (uint32_t)f.length + 1);
        if (!trp__tree_decode(f.bytes, f.length, &decoded))
            continue;
        /* One that is accepted means what it says. */
        assert_int_equal(trp__tree_encode(&decoded, again), f.length);
        assert_memory_equal(again, f.bytes, f.length);
    }
}

static void transposed(void **state)
{
    (void)state;
    uint64_t rng = ref_seed();
    for (int i = 0; i < 200; i++) {
        epilogue_tree drawn;
        trp__tree a, b;
        uint8_t bytes[TRP__TREE_BYTES_MAX], others[TRP__TREE_BYTES_MAX];
        epilogue_draw(&rng, (epilogue_limits){.nodes = 14}, &drawn);
        trp__tree_types types = {.accumulator = drawn.accumulator,
                                 .c = drawn.c,
                                 .d = drawn.d,
                                 .order = drawn.order,
                                 .transpose = true};
        assert_int_equal(trp__tree_build(drawn.node, drawn.count, &types, &a, &error), TRP_OK);
        assert_int_equal(a.order, 1 - (int)drawn.order);
        /* The same as if the sender had written it the other way round. */
        for (uint32_t k = 1; k < drawn.count; k++) {
            trp_epilogue_node *x = &drawn.node[k];
            if (x->kind == TRP_EPILOGUE_PER_ROW || x->kind == TRP_EPILOGUE_SCALE_ROWS ||
                x->kind == TRP_EPILOGUE_REDUCE_ROWS)
                x->kind = (trp_epilogue_kind)(x->kind + 1);
            else if (x->kind == TRP_EPILOGUE_PER_COLUMN || x->kind == TRP_EPILOGUE_SCALE_COLUMNS ||
                     x->kind == TRP_EPILOGUE_REDUCE_COLUMNS)
                x->kind = (trp_epilogue_kind)(x->kind - 1);
            if (x->kind == TRP_EPILOGUE_AUX_LOAD || x->kind == TRP_EPILOGUE_AUX_STORE)
                x->order = (trp_order)(1 - (int)x->order);
        }
        types.transpose = false;
        types.order = (trp_order)(1 - (int)types.order);
        assert_int_equal(trp__tree_build(drawn.node, drawn.count, &types, &b, &error), TRP_OK);
        size_t length = trp__tree_encode(&a, bytes);
        assert_int_equal(length, trp__tree_encode(&b, others));
        assert_memory_equal(bytes, others, length);
    }
}

/* Places. */

static trp__tree_operands operands;

static trp_status place(const trp_epilogue_node *nodes, uint32_t count, int64_t batch,
                        const trp__operand *others, uint32_t other_count)
{
    trp__encoder encoder = {.error = &error};
    assert_int_equal(build(nodes, count), TRP_OK);
    memset(&error, 0, sizeof error);
    return trp__tree_place_operands(&encoder, nodes, &tree, 20, 30, batch, others, other_count,
                                    &operands);
}

static uint32_t slot_of(uint32_t node, uint32_t part)
{
    for (uint32_t s = TRP__TREE_SLOT_FIRST; s < tree.slots; s++) {
        if (tree.origin[s].node == node && tree.origin[s].part == part)
            return s;
    }
    fail_msg("node %u has no slot for part %u", node, part);
    return 0;
}

static void places(void **state)
{
    (void)state;
    trp_epilogue_node n[COUNT];
    memcpy(n, sample, sizeof sample);
    n[KEPT].order = TRP_ROW_MAJOR;
    n[KEPT].ld = 32;
    n[KEPT].stride = 700;
    n[BIAS].stride = 30;
    n[ROOT].parameter[0] = trp_real(0.25);
    assert_int_equal(place(n, COUNT, 4, NULL, 0), TRP_OK);
    const trp__operand *kept = &operands.operand[slot_of(KEPT, 0)];
    assert_int_equal(kept->rows, 30);
    assert_int_equal(kept->columns, 20);
    assert_int_equal(kept->element, 2);
    assert_int_equal(kept->elements, 3 * 700 + 19 * 32 + 30);
    assert_int_equal(kept->mode, TRP__WRITE);
    assert_int_equal(operands.place[slot_of(KEPT, 0)].ld, 32);
    assert_int_equal(operands.place[slot_of(KEPT, 0)].stride, 700);
    const trp__operand *bias = &operands.operand[slot_of(BIAS, 0)];
    assert_int_equal(bias->elements, 4 * 30);
    assert_int_equal(bias->mode, TRP__READ);
    const trp__operand *scale = &operands.operand[slot_of(SCALED, 0)];
    assert_int_equal(scale->elements, 20);
    assert_int_equal(scale->element, 4);
    assert_true(operands.place[slot_of(ROOT, 1)].value == 0.25);
    assert_int_equal(operands.operand[slot_of(ROOT, 1)].mode, 0);
    /* Dense: it is written whole. */
    n[KEPT].ld = 0;
    n[KEPT].stride = 600;
    assert_int_equal(place(n, COUNT, 4, NULL, 0), TRP_OK);
    assert_int_equal(operands.operand[slot_of(KEPT, 0)].mode, TRP__WRITE | TRP__COVER);
    assert_int_equal(operands.place[slot_of(KEPT, 0)].ld, 30);
    n[ROOT].parameter[0] = (trp_scalar){0};
    assert_int_equal(place(n, COUNT, 1, NULL, 0), TRP_OK);
    assert_true(operands.place[slot_of(ROOT, 1)].value == 0.01);
}

static void refused_places(void **state)
{
    (void)state;
    trp_epilogue_node n[COUNT + 1];
#define PLACE(text, batch, change)                                                                 \
    do {                                                                                           \
        memcpy(n, sample, sizeof sample);                                                          \
        change;                                                                                    \
        assert_int_equal(place(n, COUNT, batch, NULL, 0), TRP_E_ARGUMENT);                         \
        assert_string_equal(error.message, text);                                                  \
    } while (0)
    PLACE("nodes[5].ld: expected at least 20 (the rows of nodes[5] as stored), got 19", 1,
          n[KEPT].ld = 19);
    PLACE("nodes[5].offset: expected a multiple of 2 bytes below 2^63, got 3", 1,
          n[KEPT].offset = 3);
    PLACE("nodes[3].stride: expected 0 or more, got -1", 2, n[BIAS].stride = -1;
          n[KEPT].stride = 600);
    PLACE("nodes[5].stride: expected at least 600, or 20 with a leading dimension or increment of "
          "at least 20, to keep the members of the batch apart, got 0 and 20",
          2, n[KEPT].stride = 0);
    PLACE("nodes[5]: bytes 0 to 1200 of its buffer must not overlap those of nodes[3], 1100 to "
          "1160",
          1, n[BIAS].buffer.id = 5;
          n[BIAS].offset = 1100);
    /* Two stores; and one beside the other is fine. */
    const trp_epilogue_node two[] = {
        [1] = {.kind = TRP_EPILOGUE_ACCUMULATOR},
        [2] = {.kind = TRP_EPILOGUE_AUX_STORE, .input = {1}, .buffer = {7}},
        [3] = {.kind = TRP_EPILOGUE_REDUCE_ROWS, .input = {1}, .buffer = {7}, .offset = 1196},
    };
    memcpy(n, two, sizeof two);
    assert_int_equal(place(n, 4, 1, NULL, 0), TRP_E_ARGUMENT);
    assert_non_null(strstr(error.message, "must not overlap"));
    n[3].offset = 1200;
    assert_int_equal(place(n, 4, 1, NULL, 0), TRP_OK);
    /* D, and an input of the product. */
    trp__operand others[2] = {{.name = "d",
                               .buffer = {8},
                               .rows = 20,
                               .columns = 30,
                               .ld = 20,
                               .element = 2,
                               .mode = TRP__WRITE,
                               .elements = 600,
                               .one = 600},
                              {.name = "a",
                               .buffer = {7},
                               .offset = 1300,
                               .rows = 20,
                               .columns = 30,
                               .ld = 20,
                               .element = 2,
                               .mode = TRP__READ,
                               .elements = 600,
                               .one = 600}};
    assert_int_equal(place(n, 4, 1, others, 2), TRP_OK);
    others[1].offset = 1100;
    assert_int_equal(place(n, 4, 1, others, 2), TRP_E_ARGUMENT);
    others[1].offset = 1300;
    others[0].buffer.id = 2;
    memcpy(n, sample, sizeof sample);
    assert_int_equal(place(n, COUNT, 1, others, 2), TRP_E_ARGUMENT);
    assert_string_equal(error.message, "d: bytes 0 to 1200 of its buffer must not overlap those of "
                                       "nodes[2], 0 to 80");
}

UNIT_MAIN(UNIT(lowered), UNIT(refused_graphs), UNIT(refused_fields), UNIT(refused_types),
          UNIT(too_large), UNIT(canonical_form), UNIT(values_do_not_count), UNIT(equal_trees),
          UNIT(alike_but_different), UNIT(symmetric_trees), UNIT(rings), UNIT(bad_forms),
          UNIT(transposed), UNIT(places), UNIT(refused_places))
