#include "actors/cutlass/epilogue/render.h"

#include "actors/cutlass/epilogue/render_parts.h"
#include "base/error.h"

typedef trp__tree_render_state render;

/* The common start of all trees' text: arithmetic that the compiler does not fuse, so that a GPU
 * and the host give equal bits; the parts of functions; and helpers to fill arguments. */
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

/* The target-specific part: on sm_90 a scalar's stride is an array of 64-bit strides, else one of
 * 32 bits. */
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
static const char *const bodies[TRP__FN_COUNT] = {
#define FN(name, values, parameters, commuting, exact, body) (body),
    TRP__TREE_FUNCTIONS(FN)
#undef FN
};
static const struct {
    const char *combine, *atomic;
} reductions[] = {
    [TRP_REDUCTION_SUM] = {"add(x, y)", "atomicAdd(at, x)"},
    [TRP_REDUCTION_MAX] = {"larger(x, y)", "atomic_largest(at, x)"},
    [TRP_REDUCTION_MIN] = {"smaller(x, y)", "atomic_smallest(at, x)"},
    [TRP_REDUCTION_AMAX] = {"larger(absolute(x), absolute(y))", "atomic_largest(at, x)"},
};

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
        /* CUTLASS's visitor adds the sum of a warp once per thread. */
        if (sm80 && x->op == TRP__TREE_REDUCE_ALL && x->detail == TRP_REDUCTION_SUM)
            return trp__error_set(error, TRP_E_UNSUPPORTED,
                                  "nodes[%u] (reduce all sum): which kernels for sm_80 can't do",
                                  node);
    }
    return TRP_OK;
}

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
        trp__text_add(&text, "fn_%s", trp__tree_function_name((uint8_t)f));
        if (needed[f])
            add_functor(r, name, trp__tree_function_inputs((uint8_t)f), bodies[f]);
    }
    for (uint32_t k = 0; k <= TRP_REDUCTION_AMAX; k++) {
        trp__text text = {.out = name, .size = sizeof name};
        trp__text all = {.out = body, .size = sizeof body};
        if (!reduced[k])
            continue;
        trp__text_add(&text, "red_%s", trp__tree_reduction_name((uint8_t)k));
        trp__text_add(&all, "return %s;", reductions[k].combine);
        add_functor(r, name, 2, body);
        ADD(r,
            "template <class T> struct at_%s { CUTLASS_DEVICE void operator()(T *at, T x) const "
            "{ %s; } };\n",
            trp__tree_reduction_name((uint8_t)k), reductions[k].atomic);
    }
    ADD(r, "}\nnamespace cutlass {\n");
    for (uint32_t k = 0; k <= TRP_REDUCTION_AMAX; k++) {
        if (reduced[k])
            ADD(r,
                "template <class T> struct is_atomic<trp_tree::at_%s<T>> : platform::true_type "
                "{};\n",
                trp__tree_reduction_name((uint8_t)k));
    }
    ADD(r, "}\nnamespace trp_tree {\n");
}

/* Adds the canonical form, which identifies the tree of a text. */
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
    trp__render_visitors(&r);
    trp__render_arguments(&r);
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
