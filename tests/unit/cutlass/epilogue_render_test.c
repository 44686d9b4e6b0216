/* The text of epilogue trees for kernels, and the words of their operands. What compiles it needs a
 * compiler for GPUs; here it is looked at as text: it is the same each time, names what it uses,
 * and says which part of the arguments each word goes to. */
#include "support/unit.h"

#include "actors/cutlass/epilogue/render.h"
#include "support/problems/epilogue_draw.h"
#include "support/reference/random.h"
#include "support/reference/reference.h"
#include "support/label.h"

TROUPE_TEST("no tsan");

enum { TEXT_MAX = 1 << 16 };

static trp_error error;
static char text[TEXT_MAX], again[TEXT_MAX];

static trp__tree tree_of(const epilogue_tree *t)
{
    const trp__tree_types types = {
        .accumulator = t->accumulator, .c = t->c, .d = t->d, .order = t->order};
    trp__tree tree;
    if (trp__tree_build(t->node, t->count, &types, &tree, &error) != TRP_OK)
        fail_msg("%s", error.message);
    return tree;
}

static trp_status render(const trp__tree *tree, trp__tree_target target, char *to)
{
    trp__text out = {.out = to, .size = TEXT_MAX};
    memset(&error, 0, sizeof error);
    trp_status status = trp__tree_render(tree, target, 16, &out, &error);
    assert_true(out.length < TEXT_MAX);
    return status;
}

/* How often `what` stands in the text. */
static uint32_t count_in(const char *in, const char *what)
{
    uint32_t n = 0;
    for (const char *at = strstr(in, what); at; at = strstr(at + 1, what))
        n++;
    return n;
}

/* Where arguments go, read out of the text as a C++ compiler would: those of a visitor with
 * children are members op_0, op_1, ... of which the last is the visitor's own. */

typedef struct span {
    const char *at;
    size_t length;
} span;

/* What a name stands for. */
static span definition(const char *name, size_t length)
{
    char line[64];
    snprintf(line, sizeof line, "using %.*s = ", (int)length, name);
    const char *at = strstr(text, line);
    assert_non_null(at);
    at += strlen(line);
    return (span){at, (size_t)(strchr(at, ';') - at)};
}

static span alias_of(span type)
{
    return type.at[0] == 'v' || type.at[0] == 'T' ? definition(type.at, type.length) : type;
}

static bool is_tree(span type)
{
    return strncmp(type.at, "fusion::Sm90TreeVisitor<", 24) == 0 ||
           strncmp(type.at, "fusion::Sm80EVT<", 16) == 0;
}

/* Member `which` of the arguments of a tree: its type. */
static span member_of(span type, uint32_t which)
{
    span part[1 + TRP__TREE_INPUTS + 1];
    uint32_t parts = 0, depth = 0;
    const char *begin = strchr(type.at, '<') + 1;
    for (const char *c = begin; c < type.at + type.length; c++) {
        if ((*c == ',' && depth == 0) || c == type.at + type.length - 1) {
            assert_in_range(parts, 0, TRP__TREE_INPUTS);
            part[parts++] = (span){begin, (size_t)(c - begin)};
            begin = c + 2;
        }
        depth += *c == '<';
        depth -= *c == '>';
    }
    assert_in_range(which, 0, parts - 1);
    return which == parts - 1 ? part[0] : part[which + 1];
}

/* The number of the node whose arguments are at a path: "x.op_0.op_1", "cute::get<3>(x)". */
static uint32_t node_at(const char *path)
{
    span type = alias_of((span){"Tree", 4});
    if (strncmp(path, "cute::get<", 10) == 0)
        return (uint32_t)atoi(path + 10);
    if (!is_tree(type)) /* a list of up to four */
        return (uint32_t)atoi(strstr(path, ".op_") + 4);
    for (path = strstr(path, ".op_"); path && path[0] == '.'; path += 5) {
        assert_true(is_tree(type));
        type = alias_of(member_of(type, (uint32_t)(path[4] - '0')));
    }
    assert_memory_equal(type.at, "op", 2);
    return (uint32_t)atoi(type.at + 2);
}

static void require_arguments(const trp__tree *tree)
{
    static const char *const puts[TRP__TREE_OPS] = {
        [TRP__TREE_SCALAR] = "put_scalar",      [TRP__TREE_PER_ROW] = "put_column",
        [TRP__TREE_PER_COLUMN] = "put_row",     [TRP__TREE_LOAD] = "put_matrix",
        [TRP__TREE_STORE] = "put_matrix",       [TRP__TREE_REDUCE_ROWS] = "put_column",
        [TRP__TREE_REDUCE_COLUMNS] = "put_row", [TRP__TREE_REDUCE_ALL] = "put_result",
    };
    bool put[TRP__TREE_NODES_MAX] = {false};
    const char *at = strstr(text, "Tree::Arguments x;");
    for (at = strstr(at, "  put_"); at; at = strstr(at + 1, "  put_")) {
        const char *path = strchr(at, '(') + 1, *end = strchr(at, ';');
        const char *words = strstr(at, "a.slot + ");
        if (!words || words > end)
            continue; /* C or D */
        uint32_t node = node_at(path);
        assert_in_range(node, 0, tree->count - 1);
        const trp__tree_node *x = &tree->node[node];
        assert_memory_equal(at + 2, puts[x->op], strlen(puts[x->op]));
        assert_int_equal(atoi(words + 9), trp__tree_word(tree, x->slot));
        put[node] = true;
    }
    for (uint32_t i = 0; i < tree->count; i++)
        assert_int_equal(put[i], tree->node[i].slot != 0);
}

static const trp_epilogue_node sample[] = {
    [1] = {.kind = TRP_EPILOGUE_ACCUMULATOR},
    [2] = {.kind = TRP_EPILOGUE_SCALE_ROWS, .input = {1}, .buffer = {2}},
    [3] = {.kind = TRP_EPILOGUE_PER_COLUMN, .type = TRP_BF16, .buffer = {3}},
    [4] = {.kind = TRP_EPILOGUE_BINARY, .input = {2, 3}},
    [5] = {.kind = TRP_EPILOGUE_AUX_STORE, .input = {4}, .order = TRP_ROW_MAJOR, .buffer = {5}},
    [6] = {.kind = TRP_EPILOGUE_ACTIVATION, .activation = TRP_ACTIVATION_LEAKY_RELU, .input = {5}},
};

static epilogue_tree sample_tree(void)
{
    epilogue_tree t = {.count = 7, .accumulator = TRP_F32, .d = TRP_F16, .order = TRP_ROW_MAJOR};
    memcpy(t.node, sample, sizeof sample);
    return t;
}

static void nested(void **state)
{
    (void)state;
    const epilogue_tree t = sample_tree();
    const trp__tree tree = tree_of(&t);
    assert_int_equal(render(&tree, TRP__TREE_SM90, text), TRP_OK);
    assert_int_equal(count_in(text, "TopologicalVisitor<"), 0);
    assert_non_null(strstr(text, "Sm90RowBroadcast<0, trp_tile, cutlass::bfloat16_t, Compute,"));
    assert_non_null(strstr(text, "Sm90ColBroadcast<0, trp_tile, float, Compute,"));
    assert_non_null(strstr(text, "Sm90AuxStore<0, void, cutlass::half_t, Nearest, "
                                 "cute::Stride<int64_t, cute::_1, int64_t>, void, void, 8>"));
    assert_non_null(strstr(text, "struct fn_leaky_relu"));
    assert_null(strstr(text, "struct fn_gelu"));
    assert_non_null(strstr(text, "using ElementC = void;"));
    assert_non_null(strstr(text, "using ElementD = cutlass::half_t;"));
    require_arguments(&tree);
    assert_int_equal(render(&tree, TRP__TREE_SM80, text), TRP_OK);
    assert_non_null(strstr(text, "VisitorRowBroadcast<trp_thread_map, cutlass::bfloat16_t,"));
    assert_non_null(strstr(text, "put_matrix<0>(x.op_1, a.d, a.ldd, a.batch_d);"));
    assert_null(strstr(text, "Sm90"));
}

/* A value that is used twice is computed once. */
static void listed(void **state)
{
    (void)state;
    epilogue_tree t = sample_tree();
    t.node[6] =
        (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY, .binary = TRP_BINARY_MUL, .input = {4, 4}};
    const trp__tree tree = tree_of(&t);
    assert_int_equal(render(&tree, TRP__TREE_SM90, text), TRP_OK);
    assert_int_equal(count_in(text, "fusion::Sm90TopologicalVisitor<Compute,"), 1);
    assert_int_equal(count_in(text, "fusion::Sm90TreeVisitor<"), 0);
    assert_non_null(strstr(text, "cute::get<"));
}

/* Every op stands once in a list, every word of every slot is used once or, where an operand that
 * costs nothing stands in several places, in each. */
static void random_trees(void **state)
{
    (void)state;
    uint64_t rng = ref_seed();
    uint32_t refused = 0, lists = 0;
    for (int i = 0; i < 300; i++) {
        epilogue_tree drawn, shuffled;
        uint32_t new_of[TRP_EPILOGUE_NODES_MAX];
        trp__tree_target target = i % 2 ? TRP__TREE_SM80 : TRP__TREE_SM90;
        epilogue_draw(&rng, (epilogue_limits){.nodes = i % 3 ? 14 : 0, .one_order = i % 4 != 0},
                      &drawn);
        epilogue_shuffle(&rng, &drawn, &shuffled, new_of);
        const trp__tree a = tree_of(&drawn), b = tree_of(&shuffled);
        trp_status status = render(&a, target, text);
        assert_int_equal(render(&b, target, again), status);
        if (status != TRP_OK) {
            assert_int_equal(status, TRP_E_UNSUPPORTED);
            refused++;
            continue;
        }
        assert_string_equal(text, again);
        assert_int_equal(count_in(text, "{"), count_in(text, "}"));
        assert_int_equal(count_in(text, "("), count_in(text, ")"));
        bool list = count_in(text, "TopologicalVisitor<") == 1;
        lists += list;
        require_arguments(&a);
        for (uint32_t k = 0; k < a.count; k++) {
            char what[64];
            const trp__tree_node *x = &a.node[k];
            snprintf(what, sizeof what, "using op%u = ", k);
            assert_int_equal(count_in(text, what), 1);
            if (!x->slot)
                continue;
            snprintf(what, sizeof what, ", a.slot + %u);", trp__tree_word(&a, x->slot));
            uint32_t uses = count_in(text, what);
            assert_true(uses == 1 || (!list && x->op == TRP__TREE_SCALAR && uses > 1));
        }
    }
    printf("%u refused, %u in lists\n", refused, lists);
    assert_in_range(refused, 1, 250);
    assert_in_range(lists, 1, 290);
}

/* The text is made of the canonical form, so of what differs in the form it differs too. */
static void changes_show(void **state)
{
    (void)state;
    uint64_t rng = ref_seed();
    for (int i = 0; i < 300; i++) {
        epilogue_tree drawn, changed;
        epilogue_draw(&rng, (epilogue_limits){.nodes = 12}, &drawn);
        const char *what = epilogue_change(&rng, &drawn, &changed);
        const trp__tree a = tree_of(&drawn), b = tree_of(&changed);
        assert_int_equal(render(&a, TRP__TREE_SM90, text), TRP_OK);
        assert_int_equal(render(&b, TRP__TREE_SM90, again), TRP_OK);
        if (strcmp(text, again) == 0)
            fail_msg("tree %d: the text does not show %s", i, what);
    }
}

static void refused(void **state)
{
    (void)state;
    epilogue_tree t = sample_tree();
    t.node[5].order = TRP_COL_MAJOR;
    trp__tree tree = tree_of(&t);
    assert_int_equal(render(&tree, TRP__TREE_SM90, text), TRP_OK);
    assert_int_equal(render(&tree, TRP__TREE_SM80, text), TRP_E_UNSUPPORTED);
    assert_string_equal(error.message, "nodes[5] (aux store): order: another one than D's, which "
                                       "kernels for sm_80 can't have");
    t.order = TRP_COL_MAJOR;
    tree = tree_of(&t);
    assert_int_equal(render(&tree, TRP__TREE_SM80, text), TRP_E_UNSUPPORTED);
    assert_string_equal(error.message,
                        "epilogue: kernels for sm_80 take a tree in row-major order only");
    t = sample_tree();
    t.node[5] = (trp_epilogue_node){.kind = TRP_EPILOGUE_REDUCE_ALL, .input = {4}, .buffer = {5}};
    tree = tree_of(&t);
    assert_int_equal(render(&tree, TRP__TREE_SM90, text), TRP_OK);
    assert_int_equal(render(&tree, TRP__TREE_SM80, text), TRP_E_UNSUPPORTED);
    assert_string_equal(error.message,
                        "nodes[5] (reduce all sum): which kernels for sm_80 can't do");
    t.node[5].reduction = TRP_REDUCTION_AMAX;
    tree = tree_of(&t);
    assert_int_equal(render(&tree, TRP__TREE_SM80, text), TRP_OK);
    /* 17 matrices of three words each. */
    memset(t.node, 0, sizeof t.node);
    for (uint32_t i = 1; i <= 16; i++)
        t.node[i] = (trp_epilogue_node){.kind = TRP_EPILOGUE_AUX_LOAD, .buffer = {i}};
    t.node[17] = t.node[16];
    for (uint32_t i = 18; i <= 31; i++)
        t.node[i] = (trp_epilogue_node){.kind = TRP_EPILOGUE_FMA,
                                        .input = {i == 18 ? 1 : i - 1, i - 16, i - 14}};
    t.count = 32;
    tree = tree_of(&t);
    assert_int_equal(render(&tree, TRP__TREE_SM90, text), TRP_E_UNSUPPORTED);
    assert_string_equal(error.message,
                        "epilogue: its operands take 51 words of arguments, a kernel has 48");
}

static void words(void **state)
{
    (void)state;
    const epilogue_tree t = sample_tree();
    const trp__tree tree = tree_of(&t);
    trp__tree_value value[TRP__TREE_SLOTS_MAX] = {{0}};
    uint64_t got[TRP__TREE_WORDS_MAX] = {0};
    for (uint32_t s = TRP__TREE_SLOT_FIRST; s < tree.slots; s++) {
        uint32_t node = tree.origin[s].node;
        value[s] =
            (trp__tree_value){.address = node == 6 ? 0 : 1000 * node,
                              .place = {.ld = 10 * node, .stride = 100 * node, .value = 0.25}};
    }
    trp__tree_fill_words(&tree, value, got);
    assert_int_equal(trp__tree_word(&tree, tree.slots), 2 + 2 + 3 + 2);
    for (uint32_t s = TRP__TREE_SLOT_FIRST; s < tree.slots; s++) {
        const uint64_t *w = &got[trp__tree_word(&tree, s)];
        uint32_t node = tree.origin[s].node;
        double number = 0.25;
        assert_true(w[0] == value[s].address);
        if (node == 6)
            assert_memory_equal(&w[1], &number, 8);
        else if (node == 5)
            assert_true(w[1] == 50 && w[2] == 500);
        else
            assert_true(w[1] == 100 * node);
    }
    trp__tree_node x = {.detail = TRP_REDUCTION_MAX};
    assert_true(trp__tree_neutral_bits(&tree, &x) == 0xff800000u);
    x.detail = TRP_REDUCTION_AMAX;
    assert_true(trp__tree_neutral_bits(&tree, &x) == 0);
}

UNIT_MAIN(UNIT(nested), UNIT(listed), UNIT(random_trees), UNIT(changes_show), UNIT(refused),
          UNIT(words))
