/* Evaluation of epilogue trees on the host, compared with one that goes node by node and element by
 * element through what the sender wrote, in long double, rounding by the formats' definitions. */
#include "support/unit.h"

#include "actors/cutlass/epilogue/eval.h"
#include "support/reference/elements.h"
#include "support/problems/epilogue_draw.h"
#include "support/reference/random.h"
#include "support/reference/reference.h"
#include "support/label.h"

#include <complex.h>
#include <math.h>

TROUPE_TEST("no tsan");

enum { M = 9, N = 70, BATCH = 2, OPERAND_BYTES = 16384, SUMS = BATCH * (M + N + 1) * 16 };

/* What lies in memory: D, C, the sums, and the operand of each node; once for the evaluation under
 * test and once for the other. */
typedef struct memory {
    _Alignas(16) unsigned char d[OPERAND_BYTES], c[OPERAND_BYTES], sums[OPERAND_BYTES];
    unsigned char operand[TRP_EPILOGUE_NODES_MAX][OPERAND_BYTES];
} memory;

static memory mine, theirs, before;
static epilogue_tree drawn;
static trp__tree tree;
static bool wide;
static int64_t tile_rows, tile_columns;

static double load_real(trp_dtype type, const void *at, int64_t index)
{
    return creal(ref_element_load(type, at, index));
}

static void store_real(trp_dtype type, void *at, int64_t index, double value)
{
    ref_element_store(type, at, index, type == TRP_I8 && isnan(value) ? 0 : value);
}

static trp_dtype compute_type(void)
{
    return wide ? TRP_F64 : TRP_F32;
}

/* Leading dimensions and strides, different for each node. */
static int64_t ld_of(trp_order order, uint32_t salt)
{
    return (order == TRP_ROW_MAJOR ? N : M) + (int64_t)(salt % 3);
}

static int64_t stride_of(trp_order order, uint32_t salt)
{
    return ld_of(order, salt) * (order == TRP_ROW_MAJOR ? M : N) + 5;
}

static int64_t element_of(trp_order order, uint32_t salt, int64_t i, int64_t j, int64_t l)
{
    int64_t ld = ld_of(order, salt);
    return l * stride_of(order, salt) + (order == TRP_ROW_MAJOR ? i * ld + j : j * ld + i);
}

/* The other evaluation. */

static double rounded(trp_dtype type, long double x)
{
    /* Once: a long double that is halfway for the double would be rounded twice, which no function
     * here makes likely. */
    return ref_element_round(type, (double)x);
}

static long double naive_soft_plus(long double x)
{
    return x > 0 ? x + logl(1 + expl(-x)) : log1pl(expl(x));
}

static long double naive_max(long double x, long double y)
{
    if (isnan(x) || isnan(y))
        return (long double)NAN;
    if (x == 0 && y == 0)
        return signbit(x) && signbit(y) ? -0.0L : 0.0L;
    return x > y ? x : y;
}

static long double naive_min(long double x, long double y)
{
    return -naive_max(-x, -y);
}

static long double naive_gelu_inner(long double x)
{
    return 2 * sqrtl(2 / 3.14159265358979323846264338327950288L) * (x + 0.044715L * x * x * x);
}

static long double naive_activation(const trp_epilogue_node *x, long double v, long double z)
{
    long double p = x->parameter[0].given ? x->parameter[0].re : -1, s, t;
    switch (x->activation) {
    case TRP_ACTIVATION_RELU:
        return naive_max(v, 0);
    case TRP_ACTIVATION_GELU:
        return v / (1 + expl(-naive_gelu_inner(v)));
    case TRP_ACTIVATION_SILU:
        return v / (1 + expl(-v));
    case TRP_ACTIVATION_DRELU:
        return z > 0 ? v : 0;
    case TRP_ACTIVATION_DGELU:
        s = 1 / (1 + expl(-naive_gelu_inner(z)));
        t = 1 / (1 + expl(naive_gelu_inner(z)));
        if (fabsl(z) > 100)
            return z > 0 ? v : v * 0;
        return v *
               (s + z * s * t * (naive_gelu_inner(1) / 1.044715L) * (1 + 3 * 0.044715L * z * z));
    case TRP_ACTIVATION_CLIPPED_RELU:
        return naive_min(naive_max(v, 0), p < 0 ? 6 : p);
    case TRP_ACTIVATION_LEAKY_RELU:
        return v > 0 ? v : v * (p < 0 ? rounded(compute_type(), 0.01) : p);
    case TRP_ACTIVATION_ELU:
        return v > 0 ? v : (p < 0 ? 1 : p) * expm1l(v);
    case TRP_ACTIVATION_SELU:
        return 1.0507009873554804934193349852946L *
               (v > 0 ? v : 1.6732632423543772848170429916717L * expm1l(v));
    case TRP_ACTIVATION_GELU_ERF:
        return v * erfcl(-v / sqrtl(2)) / 2;
    case TRP_ACTIVATION_SIGMOID:
        return 1 / (1 + expl(-v));
    case TRP_ACTIVATION_TANH:
        return tanhl(v);
    case TRP_ACTIVATION_SOFTPLUS:
        p = p < 0 ? 1 : p;
        return isnan(v) ? v : naive_soft_plus(v * p) / p;
    case TRP_ACTIVATION_MISH:
        return isnan(v) ? v : v * tanhl(naive_soft_plus(v));
    case TRP_ACTIVATION_HARD_SIGMOID:
        return naive_min(naive_max(v + 3, 0), 6) / 6;
    case TRP_ACTIVATION_HARD_SWISH:
        return v * naive_min(naive_max(v + 3, 0), 6) / 6;
    case TRP_ACTIVATION_CLAMP:
        return naive_min(naive_max(v, p < 0 ? 0 : p),
                         x->parameter[1].given ? x->parameter[1].re : 1);
    default:
        fail();
        return 0;
    }
}

static long double naive_operation(const trp_epilogue_node *x, const double *v)
{
    long double a = v[0], b = v[1];
    switch (x->kind) {
    case TRP_EPILOGUE_UNARY: {
        const long double results[] = {-a,           fabsl(a), a * a,   sqrtl(a),
                                       1 / sqrtl(a), 1 / a,    expl(a), logl(a)};
        return results[x->unary];
    }
    case TRP_EPILOGUE_BINARY: {
        const long double results[] = {a + b, a - b,           a * b,
                                       a / b, naive_min(a, b), naive_max(a, b)};
        return results[x->binary];
    }
    case TRP_EPILOGUE_FMA:
        return wide ? (long double)fma(v[0], v[1], v[2])
                    : (long double)fmaf((float)v[0], (float)v[1], (float)v[2]);
    default:
        return naive_activation(x, a, b);
    }
}

/* One element of D, and of all that is stored; `value` is of each node. */
static void naive_element(int64_t i, int64_t j, int64_t l, double *value)
{
    for (uint32_t k = 1; k < drawn.count; k++) {
        const trp_epilogue_node *x = &drawn.node[k];
        double v[3] = {value[x->input[0]], value[x->input[1]], value[x->input[2]]};
        trp_dtype type = x->type ? x->type : compute_type();
        void *at = theirs.operand[k];
        bool per_row = x->kind == TRP_EPILOGUE_PER_ROW || x->kind == TRP_EPILOGUE_SCALE_ROWS;
        int64_t place = l * (k % 2 ? 80 : 0) + (per_row ? i : j);
        switch (x->kind) {
        case TRP_EPILOGUE_ACCUMULATOR:
            value[k] = rounded(compute_type(),
                               load_real(drawn.accumulator, theirs.sums, l * M * N + i * N + j));
            break;
        case TRP_EPILOGUE_C:
            value[k] = load_real(drawn.c, before.c, element_of(drawn.order, 1, i, j, l));
            break;
        case TRP_EPILOGUE_SCALAR:
            value[k] = x->buffer.id     ? load_real(compute_type(), at, l * 3)
                       : x->value.given ? rounded(compute_type(), x->value.re)
                                        : 1;
            break;
        case TRP_EPILOGUE_PER_ROW:
        case TRP_EPILOGUE_PER_COLUMN:
            value[k] = load_real(type, at, place);
            break;
        case TRP_EPILOGUE_SCALE_ROWS:
        case TRP_EPILOGUE_SCALE_COLUMNS:
            value[k] = rounded(compute_type(), (long double)v[0] * load_real(type, at, place));
            break;
        case TRP_EPILOGUE_AUX_LOAD:
            value[k] = load_real(type, at, element_of(x->order, k, i, j, l));
            break;
        case TRP_EPILOGUE_AUX_STORE:
            store_real(type, at, element_of(x->order, k, i, j, l), v[0]);
            value[k] = v[0];
            break;
        case TRP_EPILOGUE_CONVERT:
            /* An integer has neither NaN nor -0. */
            value[k] = type == TRP_I8 && isnan(v[0]) ? 0 : ref_element_round(type, v[0]);
            value[k] += type == TRP_I8 ? 0.0 : -0.0;
            break;
        case TRP_EPILOGUE_REDUCE_ROWS:
        case TRP_EPILOGUE_REDUCE_COLUMNS:
        case TRP_EPILOGUE_REDUCE_ALL:
        case TRP_EPILOGUE_D:
            value[k] = v[0];
            break;
        default:
            value[k] = rounded(compute_type(), naive_operation(x, v));
        }
    }
    store_real(drawn.d, theirs.d, element_of(drawn.order, 0, i, j, l), value[drawn.count - 1]);
}

static long double reductions[TRP_EPILOGUE_NODES_MAX][BATCH][N];

static void naive_reduce(uint32_t k, long double *to, long double value)
{
    switch (drawn.node[k].reduction) {
    case TRP_REDUCTION_SUM:
        *to += value;
        break;
    case TRP_REDUCTION_MAX:
        *to = isnan(value) || *to > value ? *to : value;
        break;
    case TRP_REDUCTION_MIN:
        *to = isnan(value) || *to < value ? *to : value;
        break;
    default:
        *to = isnan(value) || *to > fabsl(value) ? *to : fabsl(value);
    }
}

static void naive(void)
{
    double value[TRP_EPILOGUE_NODES_MAX] = {0};
    for (uint32_t k = 0; k < drawn.count; k++) {
        trp_reduction r = drawn.node[k].reduction;
        for (int64_t s = 0; s < BATCH * N; s++)
            reductions[k][s / N][s % N] = r == TRP_REDUCTION_MAX   ? -(long double)INFINITY
                                          : r == TRP_REDUCTION_MIN ? (long double)INFINITY
                                                                   : 0;
    }
    for (int64_t e = 0; e < BATCH * M * N; e++) {
        int64_t l = e / (M * N), i = e / N % M, j = e % N;
        naive_element(i, j, l, value);
        for (uint32_t k = 1; k < drawn.count; k++) {
            trp_epilogue_kind kind = drawn.node[k].kind;
            if (kind >= TRP_EPILOGUE_REDUCE_ROWS && kind <= TRP_EPILOGUE_REDUCE_ALL)
                naive_reduce(
                    k,
                    &reductions[k][k % 2 ? l : 0][kind == TRP_EPILOGUE_REDUCE_ROWS      ? i
                                                  : kind == TRP_EPILOGUE_REDUCE_COLUMNS ? j
                                                                                        : 0],
                    value[k]);
        }
    }
    for (uint32_t k = 1; k < drawn.count; k++) {
        trp_epilogue_kind kind = drawn.node[k].kind;
        int64_t count = kind == TRP_EPILOGUE_REDUCE_ROWS      ? M
                        : kind == TRP_EPILOGUE_REDUCE_COLUMNS ? N
                        : kind == TRP_EPILOGUE_REDUCE_ALL     ? 1
                                                              : 0;
        for (int64_t s = 0; s < (k % 2 ? BATCH : 1) * count; s++)
            store_real(compute_type(), theirs.operand[k], s / count * 80 + s % count,
                       (double)reductions[k][s / count][s % count]);
    }
}

/* The evaluation under test, on the same. */

static void under_test(uint64_t *rng)
{
    static trp__tree_data slot[TRP__TREE_SLOTS_MAX];
    static double sums[SUMS];
    trp__tree_eval e = {.tree = &tree, .m = M, .n = N, .batch = BATCH, .slot = slot, .sums = sums};
    memset(slot, 0, sizeof slot);
    slot[TRP__TREE_SLOT_D] = (trp__tree_data){
        .at = mine.d, .ld = ld_of(drawn.order, 0), .stride = stride_of(drawn.order, 0)};
    slot[TRP__TREE_SLOT_C] = (trp__tree_data){
        .at = mine.c, .ld = ld_of(drawn.order, 1), .stride = stride_of(drawn.order, 1)};
    for (uint32_t s = TRP__TREE_SLOT_FIRST; s < tree.slots; s++) {
        uint32_t k = tree.origin[s].node, part = tree.origin[s].part;
        const trp_epilogue_node *x = &drawn.node[k];
        bool matrix = x->kind == TRP_EPILOGUE_AUX_LOAD || x->kind == TRP_EPILOGUE_AUX_STORE;
        if (part != 0 || !x->buffer.id) {
            static const double defaults[] = {[TRP_ACTIVATION_CLIPPED_RELU] = 6,
                                              [TRP_ACTIVATION_LEAKY_RELU] = 0.01,
                                              [TRP_ACTIVATION_ELU] = 1,
                                              [TRP_ACTIVATION_SOFTPLUS] = 1,
                                              [TRP_ACTIVATION_CLAMP] = 0};
            const trp_scalar *given = part != 0 ? &x->parameter[part - 1] : &x->value;
            slot[s].value = given->given ? given->re
                            : part == 0  ? 1
                            : part == 1  ? defaults[x->activation]
                                         : 1;
            continue;
        }
        slot[s].at = mine.operand[k];
        slot[s].ld = matrix ? ld_of(x->order, k) : 0;
        slot[s].stride = matrix                           ? stride_of(x->order, k)
                         : x->kind == TRP_EPILOGUE_SCALAR ? 3
                         : k % 2                          ? 80
                                                          : 0;
    }
    assert_in_range(trp__tree_eval_sums(&e), 0, SUMS);
    trp__tree_eval_begin(&e);
    tile_rows = 1 + random_below(rng, M);
    tile_columns = 1 + random_below(rng, N);
    for (int64_t l = 0; l < BATCH; l++) {
        for (int64_t i = 0; i < M; i += tile_rows) {
            for (int64_t j = 0; j < N; j += tile_columns) {
                trp__tree_tile tile = {.row = i,
                                       .column = j,
                                       .batch = l,
                                       .rows = M - i < tile_rows ? M - i : tile_rows,
                                       .columns = N - j < tile_columns ? N - j : tile_columns,
                                       .acc_type = drawn.accumulator,
                                       .acc_order = TRP_ROW_MAJOR,
                                       .acc_ld = N,
                                       .acc = mine.sums +
                                              (l * M * N + i * N + j) *
                                                  (int64_t)(trp_dtype_bits(drawn.accumulator) / 8)};
                trp__tree_eval_tile(&e, &tile);
            }
        }
    }
    trp__tree_eval_end(&e);
}

static void fill(uint64_t *rng, trp_dtype type, void *at)
{
    int64_t count = OPERAND_BYTES / (trp_dtype_bits(type) / 8);
    for (int64_t i = 0; i < count; i++)
        store_real(type, at, i,
                   ((double)(int32_t)random_next(rng)) * 0x1p-31 *
                       (type == TRP_I8 || type == TRP_I32 ? 9 : 4));
}

static void fill_all(uint64_t *rng)
{
    memset(&before, 0xff, sizeof before);
    fill(rng, drawn.accumulator, before.sums);
    fill(rng, drawn.c, before.c);
    for (uint32_t k = 1; k < drawn.count; k++) {
        trp_epilogue_node *x = &drawn.node[k];
        if (epilogue_has_memory(x->kind) && !epilogue_is_sink(x->kind))
            fill(rng, x->type ? x->type : compute_type(), before.operand[k]);
        /* The naive evaluation does not know defaults of matrices. */
        if (x->kind == TRP_EPILOGUE_AUX_LOAD || x->kind == TRP_EPILOGUE_AUX_STORE)
            assert_int_not_equal(x->type, TRP_DTYPE_NONE);
    }
    mine = theirs = before;
}

/* How many elements of two arrays differ; NaNs are alike. */
static int64_t differences(trp_dtype type, const void *a, const void *b)
{
    int64_t count = OPERAND_BYTES / (trp_dtype_bits(type) / 8), n = 0;
    for (int64_t i = 0; i < count; i++) {
        double x = load_real(type, a, i), y = load_real(type, b, i);
        n += !(x == y || (isnan(x) && isnan(y)));
    }
    return n;
}

static int64_t compare(void)
{
    int64_t n = differences(drawn.d, mine.d, theirs.d);
    for (uint32_t k = 1; k < drawn.count; k++) {
        const trp_epilogue_node *x = &drawn.node[k];
        n += differences(x->type ? x->type : compute_type(), mine.operand[k], theirs.operand[k]);
    }
    return n;
}

static void build(void)
{
    const trp__tree_types types = {
        .accumulator = drawn.accumulator, .c = drawn.c, .d = drawn.d, .order = drawn.order};
    trp_error error = {0};
    wide = drawn.accumulator == TRP_F64;
    if (trp__tree_build(drawn.node, drawn.count, &types, &tree, &error) != TRP_OK)
        fail_msg("%s", error.message);
}

/* A function may be rounded the other way where the two evaluations differ in the last bit of an
 * f64, once in some 10^8 elements for f32; f64 itself has no such room, so it is compared with f32
 * results only. */
static void random_trees(void **state)
{
    (void)state;
    uint64_t rng = ref_seed();
    int64_t different = 0, elements = 0;
    for (int i = 0; i < 60; i++) {
        epilogue_draw(&rng, (epilogue_limits){.nodes = i % 3 ? 12 : 0}, &drawn);
        if (drawn.accumulator == TRP_F64) {
            i--;
            continue;
        }
        build();
        fill_all(&rng);
        naive();
        under_test(&rng);
        int64_t n = compare();
        if (n > 2)
            fail_msg("tree %d: %lld elements differ", i, (long long)n);
        different += n;
        elements += M * N * BATCH;
    }
    printf("%lld of %lld elements differ\n", (long long)different, (long long)elements);
    assert_true(different <= 4);
}

/* With f64 sums, and functions that are exact. */
static void wide_trees(void **state)
{
    (void)state;
    uint64_t rng = ref_seed();
    for (int i = 0; i < 10;) {
        epilogue_draw(&rng, (epilogue_limits){.nodes = 10, .exact_only = true}, &drawn);
        bool sums = false;
        for (uint32_t k = 1; k < drawn.count; k++)
            sums = sums || (drawn.node[k].kind >= TRP_EPILOGUE_REDUCE_ROWS &&
                            drawn.node[k].reduction == TRP_REDUCTION_SUM);
        if (drawn.accumulator != TRP_F64 || sums)
            continue;
        build();
        fill_all(&rng);
        naive();
        under_test(&rng);
        /* long double rounds products, sums and quotients twice: seldom, but not never. */
        assert_in_range(compare(), 0, 30);
        i++;
    }
}

/* What another numbering computes is the same, bit by bit. */
static void numbering_is_no_matter(void **state)
{
    (void)state;
    uint64_t rng = ref_seed(), first, second;
    static memory results;
    for (int i = 0; i < 30; i++) {
        epilogue_tree original;
        uint32_t new_of[TRP_EPILOGUE_NODES_MAX];
        epilogue_draw(&rng, (epilogue_limits){.nodes = 16}, &original);
        drawn = original;
        build();
        fill_all(&rng);
        first = second = rng;
        under_test(&first);
        results = mine;
        mine = before;
        epilogue_shuffle(&rng, &original, &drawn, new_of);
        /* Operands keep their memory, and what it looks like: nodes are told by where they were. */
        build();
        for (uint32_t s = TRP__TREE_SLOT_FIRST; s < tree.slots; s++) {
            for (uint32_t k = 1; k < drawn.count; k++) {
                if (new_of[k] == tree.origin[s].node) {
                    tree.origin[s].node = (uint8_t)k;
                    break;
                }
            }
        }
        drawn = original;
        under_test(&second);
        assert_memory_equal(&mine, &results, sizeof mine);
    }
}

/* Values that need care. */
static double evaluate(trp_epilogue_node *nodes, uint32_t count, float sum)
{
    const trp__tree_types types = {.accumulator = TRP_F32, .d = TRP_F32};
    trp__tree_data slot[TRP__TREE_SLOTS_MAX] = {{0}};
    trp_error error;
    float d = -1;
    assert_int_equal(trp__tree_build(nodes, count, &types, &tree, &error), TRP_OK);
    slot[TRP__TREE_SLOT_D].at = &d;
    for (uint32_t s = TRP__TREE_SLOT_FIRST; s < tree.slots; s++)
        slot[s].value = nodes[tree.origin[s].node].value.re;
    trp__tree_eval e = {.tree = &tree, .m = 1, .n = 1, .batch = 1, .slot = slot};
    trp__tree_tile tile = {.rows = 1, .columns = 1, .acc = &sum, .acc_type = TRP_F32, .acc_ld = 1};
    trp__tree_eval_begin(&e);
    trp__tree_eval_tile(&e, &tile);
    trp__tree_eval_end(&e);
    return (double)d;
}

static double activated(trp_activation activation, float x)
{
    trp_epilogue_node n[] = {
        [1] = {.kind = TRP_EPILOGUE_ACCUMULATOR},
        [2] = {.kind = TRP_EPILOGUE_ACTIVATION, .activation = activation, .input = {1}}};
    return evaluate(n, 3, x);
}

static void special_values(void **state)
{
    (void)state;
    const float inf = INFINITY;
    assert_true(isnan(activated(TRP_ACTIVATION_RELU, NAN)));
    assert_true(isnan(activated(TRP_ACTIVATION_MISH, NAN)));
    assert_true(activated(TRP_ACTIVATION_RELU, -inf) == 0);
    assert_false(signbit(activated(TRP_ACTIVATION_RELU, -0.0f)));
    assert_true(activated(TRP_ACTIVATION_GELU, inf) == (double)inf);
    assert_true(activated(TRP_ACTIVATION_GELU, -1e30f) == 0);
    assert_true(activated(TRP_ACTIVATION_SILU, 1e30f) == (double)1e30f);
    assert_true(activated(TRP_ACTIVATION_SIGMOID, -inf) == 0);
    assert_true(activated(TRP_ACTIVATION_HARD_SWISH, 100) == 100);
    assert_true(activated(TRP_ACTIVATION_GELU_ERF, -9) < 0);
    /* A product and a sum are rounded apart, FMA once. */
    float x = 1 + 0x1p-12f;
    trp_epilogue_node n[] = {
        [1] = {.kind = TRP_EPILOGUE_ACCUMULATOR},
        [2] = {.kind = TRP_EPILOGUE_SCALAR, .value = trp_real(-1)},
        [3] = {.kind = TRP_EPILOGUE_FMA, .input = {1, 1, 2}},
        [4] = {.kind = TRP_EPILOGUE_NONE},
    };
    assert_true(evaluate(n, 4, x) == 0x1p-11 + 0x1p-24);
    n[2].value.re = 0x1p-60; /* nearly halfway: in f64 it would be so quite */
    assert_true(evaluate(n, 4, x) == 1 + 0x1p-11 + 0x1p-23);
    n[2].value.re = -1;
    n[3] = (trp_epilogue_node){.kind = TRP_EPILOGUE_UNARY, .unary = TRP_UNARY_SQUARE, .input = {1}};
    n[4] = (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY, .input = {3, 2}};
    assert_true(evaluate(n, 5, x) == 0x1p-11);
    /* Conversions saturate, or do not, as the type has it. */
    n[2] = (trp_epilogue_node){.kind = TRP_EPILOGUE_CONVERT, .type = TRP_F8E4M3, .input = {1}};
    assert_true(evaluate(n, 3, 1e4f) == 448);
    n[2].type = TRP_I8;
    assert_true(evaluate(n, 3, -1e4f) == -128);
    assert_true(evaluate(n, 3, 2.5f) == 2);
    n[2].type = TRP_F16;
    assert_true(evaluate(n, 3, 1e6f) == (double)inf);
}

UNIT_MAIN(UNIT(random_trees), UNIT(wide_trees), UNIT(numbering_is_no_matter), UNIT(special_values))
