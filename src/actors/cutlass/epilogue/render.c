#include "actors/cutlass/epilogue/render.h"

#include "base/error.h"

#include <string.h>

/* Text that all trees begin with: arithmetic that the compiler does not fuse, so that a GPU gives
 * the bits that the host gives; the parts of functions; and what fills arguments. */
static const char common_text[] =
    "namespace trp_tree {\n"
    "CUTLASS_DEVICE float add(float x, float y) { return __fadd_rn(x, y); }\n"
    "CUTLASS_DEVICE float sub(float x, float y) { return __fsub_rn(x, y); }\n"
    "CUTLASS_DEVICE float mul(float x, float y) { return __fmul_rn(x, y); }\n"
    "CUTLASS_DEVICE float div(float x, float y) { return __fdiv_rn(x, y); }\n"
    "CUTLASS_DEVICE float quotient(float x, float y) { return __fdividef(x, y); }\n"
    "CUTLASS_DEVICE float fused(float x, float y, float z) { return __fmaf_rn(x, y, z); }\n"
    "CUTLASS_DEVICE float root(float x) { return __fsqrt_rn(x); }\n"
    "CUTLASS_DEVICE float inverse_root(float x) { return __frsqrt_rn(x); }\n"
    "CUTLASS_DEVICE float absolute(float x) { return fabsf(x); }\n"
    "CUTLASS_DEVICE float exponential(float x) { return expf(x); }\n"
    "CUTLASS_DEVICE float exponential_minus_1(float x) { return expm1f(x); }\n"
    "CUTLASS_DEVICE float logarithm(float x) { return logf(x); }\n"
    "CUTLASS_DEVICE float logarithm_1_plus(float x) { return log1pf(x); }\n"
    "CUTLASS_DEVICE float hyperbolic_tangent(float x) { return tanhf(x); }\n"
    "CUTLASS_DEVICE float error_function(float x) { return erff(x); }\n"
    "CUTLASS_DEVICE float larger(float x, float y) { return fmaxf(x, y); }\n"
    "CUTLASS_DEVICE float smaller(float x, float y) { return fminf(x, y); }\n"
    "CUTLASS_DEVICE float most(float x, float y) {\n"
    "  float r; asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(x), \"f\"(y)); return r; }\n"
    "CUTLASS_DEVICE float least(float x, float y) {\n"
    "  float r; asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(x), \"f\"(y)); return r; }\n"
    "CUTLASS_DEVICE double add(double x, double y) { return __dadd_rn(x, y); }\n"
    "CUTLASS_DEVICE double sub(double x, double y) { return __dsub_rn(x, y); }\n"
    "CUTLASS_DEVICE double mul(double x, double y) { return __dmul_rn(x, y); }\n"
    "CUTLASS_DEVICE double div(double x, double y) { return __ddiv_rn(x, y); }\n"
    "CUTLASS_DEVICE double quotient(double x, double y) { return __ddiv_rn(x, y); }\n"
    "CUTLASS_DEVICE double fused(double x, double y, double z) { return __fma_rn(x, y, z); }\n"
    "CUTLASS_DEVICE double root(double x) { return __dsqrt_rn(x); }\n"
    "CUTLASS_DEVICE double inverse_root(double x) { return ::rsqrt(x); }\n"
    "CUTLASS_DEVICE double absolute(double x) { return ::fabs(x); }\n"
    "CUTLASS_DEVICE double exponential(double x) { return ::exp(x); }\n"
    "CUTLASS_DEVICE double exponential_minus_1(double x) { return ::expm1(x); }\n"
    "CUTLASS_DEVICE double logarithm(double x) { return ::log(x); }\n"
    "CUTLASS_DEVICE double logarithm_1_plus(double x) { return ::log1p(x); }\n"
    "CUTLASS_DEVICE double hyperbolic_tangent(double x) { return ::tanh(x); }\n"
    "CUTLASS_DEVICE double error_function(double x) { return ::erf(x); }\n"
    "CUTLASS_DEVICE double larger(double x, double y) { return ::fmax(x, y); }\n"
    "CUTLASS_DEVICE double smaller(double x, double y) { return ::fmin(x, y); }\n"
    "CUTLASS_DEVICE double most(double x, double y) {\n"
    "  if (x != x || y != y) return __longlong_as_double(0x7ff8000000000000ll);\n"
    "  return x > y || (x == y && __double_as_longlong(y) < 0) ? x : y; }\n"
    "CUTLASS_DEVICE double least(double x, double y) {\n"
    "  if (x != x || y != y) return __longlong_as_double(0x7ff8000000000000ll);\n"
    "  return x < y || (x == y && __double_as_longlong(x) < 0) ? x : y; }\n"
    "template <class T> CUTLASS_DEVICE T gelu_inner(T x) {\n"
    "  return T(0.7978845608028654) * x * (T(1) + T(0.044715) * x * x); }\n"
    "template <class T> CUTLASS_DEVICE T gelu_slope(T x) {\n"
    "  if (absolute(x) > T(20)) return T(x > T(0));\n"
    "  T e = exponential(T(-2) * gelu_inner(x));\n"
    "  T s = quotient(T(1), T(1) + e), rest = quotient(T(1), T(1) + quotient(T(1), e));\n"
    "  return s + T(2) * x * s * rest * T(0.7978845608028654) * (T(1) + T(0.134145) * x * x); }\n"
    "template <class T> CUTLASS_DEVICE T soft_plus(T x) {\n"
    "  return most(x, T(0)) + logarithm_1_plus(exponential(-absolute(x))); }\n"
    "template <class T> CUTLASS_DEVICE T infinity() { return T(__int_as_float(0x7f800000)); }\n"
    "CUTLASS_DEVICE void atomic_largest(float *at, float x) {\n"
    "  int b = __float_as_int(x);\n"
    "  if (b >= 0) atomicMax((int *)at, b);\n"
    "  else atomicMin((unsigned *)at, (unsigned)b); }\n"
    "CUTLASS_DEVICE void atomic_smallest(float *at, float x) {\n"
    "  int b = __float_as_int(x);\n"
    "  if (b >= 0) atomicMin((int *)at, b);\n"
    "  else atomicMax((unsigned *)at, (unsigned)b); }\n"
    "CUTLASS_DEVICE void atomic_largest(double *at, double x) {\n"
    "  long long b = __double_as_longlong(x);\n"
    "  if (b >= 0) atomicMax((long long *)at, b);\n"
    "  else atomicMin((unsigned long long *)at, (unsigned long long)b); }\n"
    "CUTLASS_DEVICE void atomic_smallest(double *at, double x) {\n"
    "  long long b = __double_as_longlong(x);\n"
    "  if (b >= 0) atomicMin((long long *)at, b);\n"
    "  else atomicMax((unsigned long long *)at, (unsigned long long)b); }\n"
    "template <class A> CUTLASS_DEVICE void put_row(A &x, uint64_t const *s) {\n"
    "  x.ptr_row = (decltype(x.ptr_row))s[0]; cute::get<2>(x.dRow) = (int64_t)s[1]; }\n"
    "template <class A> CUTLASS_DEVICE void put_column(A &x, uint64_t const *s) {\n"
    "  x.ptr_col = (decltype(x.ptr_col))s[0]; cute::get<2>(x.dCol) = (int64_t)s[1]; }\n"
    "template <int Line, class A>\n"
    "CUTLASS_DEVICE void put_matrix(A &x, uint64_t at, int64_t ld, int64_t batch) {\n"
    "  x.ptr_aux = (decltype(x.ptr_aux))at; cute::get<Line>(x.dAux) = ld;\n"
    "  cute::get<2>(x.dAux) = batch; }\n"
    "template <int Line, class A> CUTLASS_DEVICE void put_matrix(A &x, uint64_t const *s) {\n"
    "  put_matrix<Line>(x, s[0], (int64_t)s[1], (int64_t)s[2]); }\n";

/* What differs: on sm_90 a scalar's stride is an array of 64-bit strides, else one of 32 bits. */
static const char scalars_sm90[] =
    "template <class A> CUTLASS_DEVICE void put_scalar(A &x, uint64_t const *s) {\n"
    "  x.scalar_ptrs[0] = (Compute const *)s[0];\n"
    "  x.scalars[0] = s[0] ? Compute(0) : Compute(__longlong_as_double((long long)s[1]));\n"
    "  cute::get<2>(x.dScalar[0]) = s[0] ? (int64_t)s[1] : 0; }\n"
    "template <class A> CUTLASS_DEVICE void put_result(A &x, uint64_t const *s) {\n"
    "  x.ptr_scalar = (Compute *)s[0]; cute::get<2>(x.dScalar) = (int64_t)s[1]; }\n";
static const char scalars_sm80[] =
    "template <class A> CUTLASS_DEVICE void put_scalar(A &x, uint64_t const *s) {\n"
    "  x.scalar_ptrs[0] = (Compute const *)s[0];\n"
    "  x.scalars[0] = s[0] ? Compute(0) : Compute(__longlong_as_double((long long)s[1]));\n"
    "  cute::get<2>(x.dScalar) = s[0] ? (int)s[1] : 0; }\n"
    "template <class A> CUTLASS_DEVICE void put_result(A &x, uint64_t const *s) {\n"
    "  x.ptr_scalar = (Compute *)s[0]; cute::get<2>(x.dScalar) = (int)s[1]; }\n";

static const char includes_sm90[] =
    "#include \"cutlass/epilogue/fusion/sm90_visitor_tma_warpspecialized.hpp\"\n"
    "#include \"cutlass/epilogue/fusion/sm90_visitor_load_tma_warpspecialized.hpp\"\n"
    "#include \"cutlass/epilogue/fusion/sm90_visitor_store_tma_warpspecialized.hpp\"\n"
    "#include \"cutlass/epilogue/fusion/sm90_visitor_compute_tma_warpspecialized.hpp\"\n";
static const char includes_sm80[] =
    "#include \"cutlass/epilogue/threadblock/fusion/visitors.hpp\"\n";

/* The functions' bodies, and those of reductions. */
static const struct {
    const char *name, *body;
} functions[TRP__FN_COUNT] = {
#define FN(name, values, parameters, commuting, exact, body) {#name, body},
    TRP__TREE_FUNCTIONS(FN)
#undef FN
};
static const struct {
    const char *name, *combine, *atomic;
} reductions[] = {
    [TRP_REDUCTION_SUM] = {"sum", "add(x, y)", "atomicAdd(at, x)"},
    [TRP_REDUCTION_MAX] = {"max", "larger(x, y)", "atomic_largest(at, x)"},
    [TRP_REDUCTION_MIN] = {"min", "smaller(x, y)", "atomic_smallest(at, x)"},
    [TRP_REDUCTION_AMAX] = {"amax", "larger(absolute(x), absolute(y))", "atomic_largest(at, x)"},
};

typedef struct render {
    const trp__tree *tree;
    trp__tree_target target;
    uint32_t alignment;
    trp__text *out;
    bool grouped;
    bool nested; /* every value is used once, so the visitors nest; else they are listed */
    uint8_t uses[TRP__TREE_NODES_MAX]; /* by operations and as D, not by stores */
} render;

#define ADD(r, ...) trp__text_add((r)->out, __VA_ARGS__)

const char *trp__tree_element(uint32_t type)
{
    switch (type) {
    case TRP_F64:
        return "double";
    case TRP_F32:
        return "float";
    case TRP_F16:
        return "cutlass::half_t";
    case TRP_BF16:
        return "cutlass::bfloat16_t";
    case TRP_F4E2M1:
        return "cutlass::float_e2m1_t";
    case TRP_I4:
        return "cutlass::int4b_t";
    case TRP_F8E4M3:
        return "cutlass::float_e4m3_t";
    case TRP_F8E5M2:
        return "cutlass::float_e5m2_t";
    case TRP_I8:
        return "int8_t";
    case TRP_I32:
        return "int32_t";
    default:
        return "void";
    }
}

static const char *matrix_stride(uint32_t order)
{
    return order == TRP_ROW_MAJOR ? "cute::Stride<int64_t, cute::_1, int64_t>"
                                  : "cute::Stride<cute::_1, int64_t, int64_t>";
}

#define ROW_STRIDE    "cute::Stride<cute::_0, cute::_1, int64_t>"
#define COLUMN_STRIDE "cute::Stride<cute::_1, cute::_0, int64_t>"

/* Words. */

static uint32_t words_of(const trp__tree_node *x)
{
    return x->op == TRP__TREE_LOAD || x->op == TRP__TREE_STORE ? 3 : 2;
}

uint32_t trp__tree_word(const trp__tree *tree, uint32_t slot)
{
    uint32_t word = 0;
    /* Slots are in the order of nodes. */
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

/* What can't be had. */

trp_status trp__tree_renders(const trp__tree *t, trp__tree_target target, trp_error *error)
{
    bool sm80 = target == TRP__TREE_SM80;
    if (trp__tree_word(t, t->slots) > TRP__TREE_WORDS_MAX)
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "epilogue: its operands take %u words of arguments, a kernel has %d",
                              trp__tree_word(t, t->slots), TRP__TREE_WORDS_MAX);
    if (sm80 && t->order != TRP_ROW_MAJOR)
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "epilogue: kernels for sm_80 take a tree in row-major order only");
    for (uint32_t i = 0; i < t->count; i++) {
        const trp__tree_node *x = &t->node[i];
        uint32_t node = t->origin[x->slot].node;
        bool matrix = x->op == TRP__TREE_LOAD || x->op == TRP__TREE_STORE;
        if (sm80 && matrix && x->detail != TRP_ROW_MAJOR)
            return trp__error_set(error, TRP_E_UNSUPPORTED,
                                  "nodes[%u] (aux %s): order: another one than D's, which kernels "
                                  "for sm_80 can't have",
                                  node, x->op == TRP__TREE_LOAD ? "load" : "store");
        /* Their visitor adds the sum of a warp once for each of its threads. */
        if (sm80 && x->op == TRP__TREE_REDUCE_ALL && x->detail == TRP_REDUCTION_SUM)
            return trp__error_set(error, TRP_E_UNSUPPORTED,
                                  "nodes[%u] (reduce all sum): which kernels for sm_80 can't do",
                                  node);
    }
    return TRP_OK;
}

/* Functions. */

static const char *const letters[] = {"x", "y", "z"};

static void add_functor(const render *r, const char *name, uint32_t inputs, const char *body)
{
    ADD(r, "template <class T> struct %s { CUTLASS_DEVICE T operator()(", name);
    for (uint32_t p = 0; p < inputs; p++)
        ADD(r, "%sT %s", p ? ", " : "", letters[p]);
    ADD(r,
        ") const { %s } };\n"
        "template <class T, int N> struct %s<cutlass::Array<T, N>> {\n"
        "  using V = cutlass::Array<T, N>;\n"
        "  CUTLASS_DEVICE V operator()(",
        body, name);
    for (uint32_t p = 0; p < inputs; p++)
        ADD(r, "%sV const &%s", p ? ", " : "", letters[p]);
    ADD(r,
        ") const {\n    V r; %s<T> f;\n    CUTLASS_PRAGMA_UNROLL\n"
        "    for (int i = 0; i < N; ++i) r[i] = f(",
        name);
    for (uint32_t p = 0; p < inputs; p++)
        ADD(r, "%s%s[i]", p ? ", " : "", letters[p]);
    ADD(r, ");\n    return r; } };\n");
}

static void add_functions(const render *r)
{
    const trp__tree *t = r->tree;
    bool needed[TRP__FN_COUNT] = {false}, reduced[TRP_REDUCTION_AMAX + 1] = {false};
    char name[24], body[64];
    for (uint32_t i = 0; i < t->count; i++) {
        if (t->node[i].op == TRP__TREE_FUNCTION)
            needed[t->node[i].detail] = true;
        if (t->node[i].op >= TRP__TREE_REDUCE_ROWS)
            reduced[t->node[i].detail] = true;
    }
    add_functor(r, "as_is", 1, "return x;");
    for (uint32_t f = 0; f < TRP__FN_COUNT; f++) {
        trp__text text = {.out = name, .size = sizeof name};
        trp__text_add(&text, "fn_%s", functions[f].name);
        if (needed[f])
            add_functor(r, name, trp__tree_function_inputs((uint8_t)f), functions[f].body);
    }
    for (uint32_t k = 0; k <= TRP_REDUCTION_AMAX; k++) {
        trp__text text = {.out = name, .size = sizeof name};
        trp__text all = {.out = body, .size = sizeof body};
        if (!reduced[k])
            continue;
        trp__text_add(&text, "red_%s", reductions[k].name);
        trp__text_add(&all, "return %s;", reductions[k].combine);
        add_functor(r, name, 2, body);
        ADD(r,
            "template <class T> struct at_%s { CUTLASS_DEVICE void operator()(T *at, T x) const "
            "{ %s; } };\n",
            reductions[k].name, reductions[k].atomic);
    }
    ADD(r, "}\nnamespace cutlass {\n");
    for (uint32_t k = 0; k <= TRP_REDUCTION_AMAX; k++) {
        if (reduced[k])
            ADD(r,
                "template <class T> struct is_atomic<trp_tree::at_%s<T>> : platform::true_type "
                "{};\n",
                reductions[k].name);
    }
    ADD(r, "}\nnamespace trp_tree {\n");
}

/* Visitors: op0, op1, ... are the nodes' own. */

static uint32_t aux_alignment(const render *r, uint32_t type)
{
    uint32_t elements = r->alignment * 8 / trp_dtype_bits((trp_dtype)type);
    return elements > 0 ? elements : 1;
}

static void add_op_sm90(const render *r, const trp__tree_node *x)
{
    const char *element = trp__tree_element(x->type);
    const char *reduction = x->op >= TRP__TREE_REDUCE_ROWS ? reductions[x->detail].name : "";
    switch (x->op) {
    case TRP__TREE_ACCUMULATOR:
        ADD(r, "fusion::Sm90AccFetch");
        break;
    case TRP__TREE_C:
        ADD(r, "fusion::Sm90SrcFetch<ElementC>");
        break;
    case TRP__TREE_SCALAR:
        ADD(r, "fusion::Sm90ScalarBroadcast<Compute, cute::Stride<cute::_0, cute::_0, int64_t>>");
        break;
    case TRP__TREE_PER_ROW: /* no vectors: a batch may lie at any address */
        ADD(r, "fusion::Sm90ColBroadcast<0, trp_tile, %s%s, Compute, " COLUMN_STRIDE ", 1>",
            element, r->grouped ? " *" : "");
        break;
    case TRP__TREE_PER_COLUMN:
        ADD(r, "fusion::Sm90RowBroadcast<0, trp_tile, %s%s, Compute, " ROW_STRIDE ">", element,
            r->grouped ? " *" : "");
        break;
    case TRP__TREE_LOAD:
        ADD(r, "fusion::Sm90AuxLoad<0, void, %s, %s, void, void, %u>", element,
            matrix_stride(x->detail), aux_alignment(r, x->type));
        break;
    case TRP__TREE_FUNCTION:
        ADD(r, "fusion::Sm90Compute<fn_%s, Compute, Compute, Nearest>", functions[x->detail].name);
        break;
    case TRP__TREE_CONVERT:
        ADD(r, "fusion::Sm90Compute<as_is, %s, Compute, Nearest>", element);
        break;
    case TRP__TREE_STORE:
        ADD(r, "fusion::Sm90AuxStore<0, void, %s, Nearest, %s, void, void, %u>", element,
            matrix_stride(x->detail), aux_alignment(r, x->type));
        break;
    case TRP__TREE_REDUCE_ALL:
        ADD(r,
            "fusion::Sm90ScalarReduction<red_%s, at_%s, Compute, Compute, Nearest, "
            "cute::Stride<cute::_0, cute::_0, int64_t>>",
            reduction, reduction);
        break;
    default:
        ADD(r,
            "fusion::Sm90%sReduction<red_%s, red_%s, at_%s, 0, trp_tile, Compute, Compute, "
            "Nearest, %s>",
            x->op == TRP__TREE_REDUCE_ROWS ? "Col" : "Row", reduction, reduction, reduction,
            x->op == TRP__TREE_REDUCE_ROWS ? COLUMN_STRIDE : ROW_STRIDE);
    }
}

static void add_op_sm80(const render *r, const trp__tree_node *x)
{
    const char *element = trp__tree_element(x->type);
    const char *reduction = x->op >= TRP__TREE_REDUCE_ROWS ? reductions[x->detail].name : "";
    switch (x->op) {
    case TRP__TREE_ACCUMULATOR:
        ADD(r, "fusion::VisitorAccFetch");
        break;
    case TRP__TREE_C:
        ADD(r, "fusion::VisitorAuxLoad<trp_thread_map, ElementC, %s>",
            matrix_stride(TRP_ROW_MAJOR));
        break;
    case TRP__TREE_SCALAR:
        ADD(r, "fusion::VisitorScalarBroadcast<Compute, cute::Stride<cute::_0, cute::_0, int>>");
        break;
    case TRP__TREE_PER_ROW:
        ADD(r, "fusion::VisitorColBroadcast<trp_thread_map, %s, " COLUMN_STRIDE ">", element);
        break;
    case TRP__TREE_PER_COLUMN:
        ADD(r, "fusion::VisitorRowBroadcast<trp_thread_map, %s, " ROW_STRIDE ">", element);
        break;
    case TRP__TREE_LOAD:
        ADD(r, "fusion::VisitorAuxLoad<trp_thread_map, %s, %s>", element, matrix_stride(x->detail));
        break;
    case TRP__TREE_FUNCTION:
        ADD(r, "fusion::VisitorCompute<fn_%s, Compute, Compute, Nearest>",
            functions[x->detail].name);
        break;
    case TRP__TREE_CONVERT:
        ADD(r, "fusion::VisitorCompute<as_is, %s, Compute, Nearest>", element);
        break;
    case TRP__TREE_STORE:
        ADD(r, "fusion::VisitorAuxStore<trp_thread_map, %s, Nearest, %s>", element,
            matrix_stride(x->detail));
        break;
    case TRP__TREE_REDUCE_ALL:
        ADD(r,
            "fusion::VisitorScalarReduction<red_%s, at_%s, trp_thread_map, Compute, Compute, "
            "Nearest, cute::Stride<cute::_0, cute::_0, int>>",
            reduction, reduction);
        break;
    default:
        ADD(r,
            "fusion::Visitor%sReduction<red_%s, at_%s, trp_thread_map, Compute, Compute, Nearest, "
            "%s>",
            x->op == TRP__TREE_REDUCE_ROWS ? "Col" : "Row", reduction, reduction,
            x->op == TRP__TREE_REDUCE_ROWS ? COLUMN_STRIDE : ROW_STRIDE);
    }
}

/* Whether a node may stand in several places as so many visitors, for it costs nothing. */
static bool is_free(const render *r, const trp__tree_node *x)
{
    return x->op == TRP__TREE_ACCUMULATOR || x->op == TRP__TREE_SCALAR ||
           (x->op == TRP__TREE_C && r->target == TRP__TREE_SM90);
}

static void count_uses(render *r)
{
    const trp__tree *t = r->tree;
    bool stored[TRP__TREE_NODES_MAX] = {false};
    r->uses[t->root]++;
    for (uint32_t i = 0; i < t->count; i++) {
        const trp__tree_node *x = &t->node[i];
        for (uint32_t p = 0; p < trp__tree_inputs(x); p++) {
            if (trp__tree_is_sink(x))
                stored[x->input[p]] = true;
            else
                r->uses[x->input[p]]++;
        }
    }
    r->nested = true;
    for (uint32_t i = 0; i < t->count; i++) {
        const trp__tree_node *x = &t->node[i];
        if (trp__tree_is_sink(x))
            continue;
        if (r->uses[i] != 1 && (stored[i] || !is_free(r, x)))
            r->nested = false;
    }
}

/* The visitor that makes D of the root's value, opD. */
static void add_last(const render *r)
{
    if (r->target == TRP__TREE_SM90)
        ADD(r, "using opD = fusion::Sm90Compute<as_is, ElementD, Compute, Nearest>;\n");
    else
        ADD(r, "using opD = fusion::VisitorAuxStore<trp_thread_map, ElementD, Nearest, %s>;\n",
            matrix_stride(TRP_ROW_MAJOR));
}

static const char *tree_of(const render *r)
{
    return r->target == TRP__TREE_SM90 ? "fusion::Sm90TreeVisitor" : "fusion::Sm80EVT";
}

/* Values v0, v1, ... as nested visitors; what is stored passes through its stores. A value that
 * several stores take has them around it one after the other. */
static void add_nested(const render *r)
{
    const trp__tree *t = r->tree;
    for (uint32_t i = 0; i < t->count; i++) {
        const trp__tree_node *x = &t->node[i];
        bool convert_sums = x->op == TRP__TREE_ACCUMULATOR && t->accumulator != t->compute;
        char stores[TRP__TREE_NODES_MAX];
        uint32_t stored = 0;
        if (trp__tree_is_sink(x))
            continue;
        for (uint32_t s = i + 1; s < t->count; s++) {
            if (trp__tree_is_sink(&t->node[s]) && t->node[s].input[0] == i)
                stores[stored++] = (char)s;
        }
        ADD(r, "using v%u = ", i);
        for (uint32_t s = stored; s > 0; s--)
            ADD(r, "%s<op%d, ", tree_of(r), stores[s - 1]);
        if (trp__tree_inputs(x) > 0) {
            ADD(r, "%s<op%u", tree_of(r), i);
            for (uint32_t p = 0; p < trp__tree_inputs(x); p++)
                ADD(r, ", v%u", x->input[p]);
            ADD(r, ">");
        } else if (convert_sums) {
            ADD(r, "%s<opS, op%u>", tree_of(r), i);
        } else {
            ADD(r, "op%u", i);
        }
        for (uint32_t s = 0; s < stored; s++)
            ADD(r, ">");
        ADD(r, ";\n");
    }
    ADD(r, "using Tree = %s<opD, v%u>;\n", tree_of(r), t->root);
}

/* All visitors in a list, each with the numbers of those that it takes. */
static void add_listed(const render *r)
{
    const trp__tree *t = r->tree;
    ADD(r, "using Tree = fusion::%s<Compute,\n    cute::tuple<",
        r->target == TRP__TREE_SM90 ? "Sm90TopologicalVisitor" : "Sm80TopologicalVisitor");
    for (uint32_t i = 0; i < t->count; i++) {
        const trp__tree_node *x = &t->node[i];
        ADD(r, "cute::seq<");
        for (uint32_t p = 0; p < trp__tree_inputs(x); p++)
            ADD(r, "%s%u", p ? ", " : "", x->input[p]);
        ADD(r, ">, ");
    }
    ADD(r, "cute::seq<%u>>,\n    ", t->root);
    for (uint32_t i = 0; i < t->count; i++)
        ADD(r, "op%u, ", i);
    ADD(r, "opD>;\n");
}

/* Arguments. */

/* Where a visitor's arguments lie in those of the whole tree. */
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

/* Those of v<node> at `at`, which is changed and left as it was. */
static void put_nested(const render *r, uint32_t node, path *at)
{
    const trp__tree *t = r->tree;
    const trp__tree_node *x = &t->node[node];
    size_t length = strlen(at->text);
    uint32_t inputs = trp__tree_inputs(x);
    /* The last store is the outermost; inputs come before the operation. */
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
        /* Up to four are members, more are a tuple. */
        trp__text_add(&text, t->count + 1u <= 4 ? "x.op_%u" : "cute::get<%u>(x)", i);
        add_put(r, &t->node[i], at);
    }
}

static void add_arguments(const render *r)
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

/* The canonical form, so that a text says of itself which tree it is. */
static void add_form(const render *r)
{
    uint8_t bytes[TRP__TREE_BYTES_MAX];
    size_t length = trp__tree_encode(r->tree, bytes);
    ADD(r, "/* tree ");
    for (size_t i = 0; i < length; i++)
        ADD(r, "%02x", bytes[i]);
    ADD(r, " */\n");
}

trp_status trp__tree_render(const trp__tree *tree, trp__tree_target target, uint32_t alignment,
                            trp__text *out, trp_error *error)
{
    bool sm90 = target != TRP__TREE_SM80;
    render r = {.tree = tree,
                .target = sm90 ? TRP__TREE_SM90 : TRP__TREE_SM80,
                .alignment = alignment,
                .out = out,
                .grouped = target == TRP__TREE_SM90_GROUPED};
    trp_status status = trp__tree_renders(tree, target, error);
    if (status != TRP_OK)
        return status;
    count_uses(&r);
    add_form(&r);
    ADD(&r, "%s%s", sm90 ? includes_sm90 : includes_sm80, common_text);
    ADD(&r,
        "namespace fusion = cutlass::epilogue::%s;\n"
        "using Compute = %s;\n"
        "using ElementC = %s;\n"
        "using ElementD = %s;\n"
        "constexpr auto Nearest = cutlass::FloatRoundStyle::round_to_nearest;\n%s",
        sm90 ? "fusion" : "threadblock", trp__tree_element(tree->compute),
        trp__tree_element(tree->c), trp__tree_element(tree->d), sm90 ? scalars_sm90 : scalars_sm80);
    add_functions(&r);
    for (uint32_t i = 0; i < tree->count; i++) {
        ADD(&r, "using op%u = ", i);
        if (sm90)
            add_op_sm90(&r, &tree->node[i]);
        else
            add_op_sm80(&r, &tree->node[i]);
        ADD(&r, ";\n");
    }
    ADD(&r, "using opS = fusion::%s<as_is, Compute, Compute, Nearest>;\n",
        sm90 ? "Sm90Compute" : "VisitorCompute");
    add_last(&r);
    if (r.nested)
        add_nested(&r);
    else
        add_listed(&r);
    add_arguments(&r);
    ADD(&r, "}\n"
            "using trp_epilogue_tree = trp_tree::Tree;\n"
            "using trp_tree_c = trp_tree::ElementC;\n"
            "using trp_tree_d = trp_tree::ElementD;\n"
            "CUTLASS_DEVICE trp_epilogue_tree::Arguments\n"
            "trp_epilogue_arguments(trp_cutlass_args const &a) { return trp_tree::arguments(a); "
            "}\n"
            "#define TRP_FUSION trp_epilogue_tree\n"
            "#define TRP_FUSION_ARGS(args) trp_epilogue_arguments(args)\n");
    return TRP_OK;
}
