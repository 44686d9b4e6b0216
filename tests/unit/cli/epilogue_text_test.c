/* The text of epilogue trees: what it means, what is refused and where, and that what is printed
 * reads back. */
#include "support/unit.h"

#include "actors/cutlass/epilogue/tree.h"
#include "cli/commands/cutlass/epilogue.h"
#include "support/problems/epilogue_draw.h"
#include "epilogue_print.h"
#include "support/reference/reference.h"
#include "support/label.h"

TROUPE_TEST("no tsan");

static epilogue e;
static char error[400];

static void parse(const char *text)
{
    if (!epilogue_parse(text, &e, error, sizeof error))
        fail_msg("%s", error);
}

static const trp_epilogue_node *node(uint32_t i)
{
    assert_in_range(i, 1, e.count - 1);
    return &e.node[i];
}

static const trp_epilogue_node *root(void)
{
    return node(e.count - 1);
}

static void meaning(void **state)
{
    (void)state;
    parse("relu(alpha*acc + bias[row]) * scale[col]");
    assert_int_equal(root()->kind, TRP_EPILOGUE_BINARY);
    assert_int_equal(root()->binary, TRP_BINARY_MUL);
    const trp_epilogue_node *relu = node(root()->input[0]), *scale = node(root()->input[1]);
    assert_int_equal(relu->activation, TRP_ACTIVATION_RELU);
    assert_int_equal(scale->kind, TRP_EPILOGUE_PER_COLUMN);
    assert_string_equal(e.name[root()->input[1]], "scale");
    const trp_epilogue_node *sum = node(relu->input[0]);
    assert_int_equal(sum->binary, TRP_BINARY_ADD);
    assert_int_equal(node(sum->input[1])->kind, TRP_EPILOGUE_PER_ROW);
    const trp_epilogue_node *product = node(sum->input[0]);
    assert_int_equal(node(product->input[0])->kind, TRP_EPILOGUE_SCALAR);
    assert_string_equal(e.name[product->input[0]], "alpha");
    assert_int_equal(node(product->input[1])->kind, TRP_EPILOGUE_ACCUMULATOR);
}

static void precedence(void **state)
{
    (void)state;
    parse("acc - 2 - 3 * c / x[row,col]:bf16:rowmajor");
    assert_int_equal(root()->binary, TRP_BINARY_SUB);
    const trp_epilogue_node *left = node(root()->input[0]), *right = node(root()->input[1]);
    assert_int_equal(left->binary, TRP_BINARY_SUB);
    assert_true(node(left->input[1])->value.re == 2);
    assert_int_equal(right->binary, TRP_BINARY_DIV);
    assert_int_equal(node(right->input[0])->binary, TRP_BINARY_MUL);
    const trp_epilogue_node *x = node(right->input[1]);
    assert_int_equal(x->kind, TRP_EPILOGUE_AUX_LOAD);
    assert_int_equal(x->type, TRP_BF16);
    assert_int_equal(x->order, TRP_ROW_MAJOR);
    parse("-acc * -2.5e-1");
    assert_int_equal(root()->binary, TRP_BINARY_MUL);
    assert_int_equal(node(root()->input[0])->unary, TRP_UNARY_NEGATE);
    assert_true(node(root()->input[1])->value.re == -0.25);
}

static void statements(void **state)
{
    (void)state;
    parse("t = acc + bias[col]; z[row,col]:f16 = t; s[row] = sum(t); peak[] = amax(t); gelu(t);");
    uint32_t kinds[TRP_EPILOGUE_D + 1] = {0};
    for (uint32_t i = 1; i < e.count; i++)
        kinds[e.node[i].kind]++;
    assert_int_equal(kinds[TRP_EPILOGUE_AUX_STORE], 1);
    assert_int_equal(kinds[TRP_EPILOGUE_REDUCE_ROWS], 1);
    assert_int_equal(kinds[TRP_EPILOGUE_REDUCE_ALL], 1);
    assert_int_equal(kinds[TRP_EPILOGUE_ACCUMULATOR], 1);
    assert_int_equal(kinds[TRP_EPILOGUE_D], 0);
    assert_int_equal(root()->activation, TRP_ACTIVATION_GELU);
    /* D is a value that others use. */
    parse("t = relu(acc); s[row] = max(square(t)); t");
    assert_int_equal(root()->kind, TRP_EPILOGUE_D);
    assert_int_equal(node(root()->input[0])->activation, TRP_ACTIVATION_RELU);
    /* The same name is the same operand; parameters and conversions. */
    parse("clamp(leaky_relu(bf16(acc * a + a), 0.5), -1, 2)");
    assert_true(root()->parameter[0].re == -1 && root()->parameter[1].re == 2);
    const trp_epilogue_node *leaky = node(root()->input[0]);
    assert_true(leaky->parameter[0].re == 0.5);
    const trp_epilogue_node *convert = node(leaky->input[0]);
    assert_int_equal(convert->type, TRP_BF16);
    const trp_epilogue_node *sum = node(convert->input[0]);
    assert_int_equal(sum->input[1], node(sum->input[0])->input[1]);
}

static void refused(void **state)
{
    (void)state;
    const struct {
        const char *text, *error;
    } bad[] = {
        {"", "column 1: expected a value, got the end\n  \n  ^"},
        {"relu(acc + )", "column 12: expected a value, got ')'\n  relu(acc + )\n             ^"},
        {"relu(acc", "column 9: expected ')', got the end\n  relu(acc\n          ^"},
        {"acc acc", "column 5: expected an operator or the end, got 'acc'\n  acc acc\n      ^"},
        {"rellu(acc)",
         "column 1: expected a function, got 'rellu', did you mean 'relu'?\n  rellu(acc)\n  ^"},
        {"min(acc)", "column 8: expected ',', got ')'\n  min(acc)\n         ^"},
        {"relu(acc, 2)", "column 9: expected ')', got ','\n  relu(acc, 2)\n          ^"},
        {"elu(acc, x)", "column 10: expected a number, got 'x'\n  elu(acc, x)\n           ^"},
        {"acc + bias[rows]",
         "column 12: expected row, col or row,col in brackets\n  acc + bias[rows]\n             ^"},
        {"acc + x[col,row]",
         "column 9: expected row, col or row,col in brackets\n  acc + x[col,row]\n          ^"},
        {"acc + b[row] + b[col]", "column 16: expected another name: b is a vector [row] already\n"
                                  "  acc + b[row] + b[col]\n                 ^"},
        {"acc + b[row]:f16 + b[row]:bf16",
         "column 20: expected b as it is written first, or without a suffix\n"
         "  acc + b[row]:f16 + b[row]:bf16\n                     ^"},
        {"acc + b[row]:rowmajor",
         "column 14: expected a type, got 'rowmajor'\n  acc + b[row]:rowmajor\n               ^"},
        {"t = acc; acc", "column 1: expected t to be used, or left out\n  t = acc; acc\n  ^"},
        {"c = acc; acc", "column 1: expected another name: c is taken\n  c = acc; acc\n  ^"},
        {"s[row] = acc; acc",
         "column 10: expected sum, max, min or amax of a value\n  s[row] = acc; acc\n           ^"},
        {"acc * sum", "column 7: expected a value, got the word 'sum'\n  acc * sum\n        ^"},
        {"acc * 1.2.3", "column 7: expected a number, got '1.2.3'\n  acc * 1.2.3\n        ^"},
        {"acc * 1e999", "column 7: expected a number, got '1e999'\n  acc * 1e999\n        ^"},
        {"acc # 1", "column 5: expected an operator or the end, got '#'\n  acc # 1\n      ^"},
        {"acc + \xc3\xa9", "column 7: expected a value, got byte 0xc3\n  acc + ??\n        ^"},
        {"scale_rows(acc, s[col])",
         "column 17: expected a vector [row]\n  scale_rows(acc, s[col])\n                  ^"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(epilogue_parse(bad[i].text, &e, error, sizeof error));
        assert_string_equal(error, bad[i].error);
    }
}

static void limits(void **state)
{
    (void)state;
    static char text[EPILOGUE_TEXT_MAX + 100];
    /* Of a long text only what is near is shown. */
    memset(text, ' ', sizeof text);
    memcpy(text + 2000, "acc +", 6);
    assert_false(epilogue_parse(text, &e, error, sizeof error));
    assert_non_null(strstr(error, "column 2006: expected a value, got the end"));
    assert_true(strlen(error) < 200);
    memset(text, '(', 500);
    memcpy(text + 500, "acc", 4);
    assert_false(epilogue_parse(text, &e, error, sizeof error));
    assert_non_null(strstr(error, "at most 64 nested parentheses and signs"));
    memset(text, '-', 500);
    assert_false(epilogue_parse(text, &e, error, sizeof error));
    memset(text, ' ', sizeof text - 1);
    assert_false(epilogue_parse(text, &e, error, sizeof error));
    assert_non_null(strstr(error, "expected at most 4096 characters"));
    text[0] = '\0';
    for (int i = 0; i < 40; i++)
        strcat(text, "acc+");
    strcat(text, "acc");
    assert_false(epilogue_parse(text, &e, error, sizeof error));
    assert_non_null(strstr(error, "expected at most 31 operands and operations"));
    assert_false(epilogue_parse("abcdefghijabcdefghijabcdefghijab", &e, error, sizeof error));
    assert_non_null(strstr(error, "a name of at most 31 letters"));
    assert_false(epilogue_parse("acc +", &e, NULL, 0));
}

/* A tree and the values of its slots, in the canonical order. */
typedef struct whole {
    uint8_t bytes[TRP__TREE_BYTES_MAX];
    size_t length;
    double value[TRP__TREE_SLOTS_MAX];
} whole;

static whole whole_of(const epilogue *x, trp_dtype sums, trp_dtype type)
{
    static const double first[] = {[TRP_ACTIVATION_CLIPPED_RELU] = 6,
                                   [TRP_ACTIVATION_LEAKY_RELU] = 0.01,
                                   [TRP_ACTIVATION_ELU] = 1,
                                   [TRP_ACTIVATION_SOFTPLUS] = 1,
                                   [TRP_ACTIVATION_CLAMP] = 0};
    const trp__tree_types types = {.accumulator = sums, .c = type, .d = type};
    epilogue placed = *x;
    trp__tree tree;
    trp_error why;
    whole w;
    memset(&w, 0, sizeof w);
    for (uint32_t i = 1; i < placed.count; i++) {
        trp_epilogue_node *n = &placed.node[i];
        if (epilogue_has_memory(n->kind) && (n->kind != TRP_EPILOGUE_SCALAR || !n->value.given))
            n->buffer.id = i;
    }
    if (trp__tree_build(placed.node, placed.count, &types, &tree, &why) != TRP_OK)
        fail_msg("%s", why.message);
    w.length = trp__tree_encode(&tree, w.bytes);
    for (uint32_t s = TRP__TREE_SLOT_FIRST; s < tree.slots; s++) {
        const trp_epilogue_node *n = &placed.node[tree.origin[s].node];
        uint32_t part = tree.origin[s].part;
        const trp_scalar *given = part ? &n->parameter[part - 1] : &n->value;
        w.value[s] = given->given ? given->re : part == 1 ? first[n->activation] : part ? 1 : -99;
    }
    return w;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void round_trip(void **state)
{
    (void)state;
    uint64_t rng = ref_seed();
    for (int i = 0; i < 2000; i++) {
        epilogue_tree drawn;
        static epilogue again, given;
        static char text[EPILOGUE_TEXT_MAX], twice[EPILOGUE_TEXT_MAX];
        epilogue_draw(&rng, (epilogue_limits){.nodes = i % 2 ? 0 : 10}, &drawn);
        memset(&given, 0, sizeof given);
        memcpy(given.node, drawn.node, sizeof drawn.node);
        given.count = drawn.count;
        for (uint32_t k = 1; k < given.count; k++) {
            trp_epilogue_node *x = &given.node[k];
            x->buffer.id = 0;
            if (x->kind == TRP_EPILOGUE_SCALAR && !x->value.given && drawn.node[k].buffer.id == 0)
                x->value = trp_real(1);
        }
        size_t length = epilogue_print(&given, text, sizeof text);
        assert_true(length < sizeof text);
        if (!epilogue_parse(text, &again, error, sizeof error)) {
            /* What prints shared sums and names D needs a node more. */
            if (strstr(error, "expected at most 31 operands"))
                continue;
            fail_msg("tree %d: %s\n%s", i, error, text);
        }
        whole a = whole_of(&given, drawn.accumulator, drawn.d);
        whole b = whole_of(&again, drawn.accumulator, drawn.d);
        if (a.length != b.length || memcmp(a.bytes, b.bytes, a.length) != 0)
            fail_msg("tree %d reads back as another one: %s", i, text);
        /* Scalars that are symmetric may have changed places. */
        qsort(a.value, TRP__TREE_SLOTS_MAX, sizeof *a.value, compare_doubles);
        qsort(b.value, TRP__TREE_SLOTS_MAX, sizeof *b.value, compare_doubles);
        assert_memory_equal(a.value, b.value, sizeof a.value);
        /* And what was read prints a text that reads back, and so on. */
        epilogue_print(&again, text, sizeof text);
        assert_true(epilogue_parse(text, &given, error, sizeof error));
        epilogue_print(&given, twice, sizeof twice);
        assert_string_equal(text, twice);
    }
}

UNIT_MAIN(UNIT(meaning), UNIT(precedence), UNIT(statements), UNIT(refused), UNIT(limits),
          UNIT(round_trip))
