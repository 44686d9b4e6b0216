/* The functions of an epilogue tree, one row each. The checks, the evaluation on the host, the
 * rendering and the documents all use this table.
 *
 *     FN(name, values, parameters, commuting, exact, body)
 *
 * A function has `values` inputs that are nodes and `parameters` that are numbers, in this order,
 * called x, y and z. The first `commuting` inputs may be exchanged without changing a bit of the
 * result; 0: none. The GPU's result of an `exact` function equals the host's bit by bit except for
 * a NaN's payload; other results agree within a few units in the last place.
 *
 * `body` is the CUDA expression of the result, a value of type T. That of an exact function leaves
 * no choice to the compiler: products and sums are written as mul() and add(), which are never
 * fused. quotient() is accurate to two units and takes a third of div()'s instructions. */
#ifndef TRP_ACTORS_CUTLASS_EPILOGUE_FUNCTIONS_H
#define TRP_ACTORS_CUTLASS_EPILOGUE_FUNCTIONS_H

#define TRP__TREE_FUNCTIONS(FN)                                                                    \
    FN(negate, 1, 0, 0, true, "return -x;")                                                        \
    FN(abs, 1, 0, 0, true, "return absolute(x);")                                                  \
    FN(square, 1, 0, 0, true, "return mul(x, x);")                                                 \
    FN(sqrt, 1, 0, 0, true, "return root(x);")                                                     \
    FN(rsqrt, 1, 0, 0, false, "return inverse_root(x);")                                           \
    FN(reciprocal, 1, 0, 0, true, "return div(T(1), x);")                                          \
    FN(exp, 1, 0, 0, false, "return exponential(x);")                                              \
    FN(log, 1, 0, 0, false, "return logarithm(x);")                                                \
    FN(add, 2, 0, 2, true, "return add(x, y);")                                                    \
    FN(sub, 2, 0, 0, true, "return sub(x, y);")                                                    \
    FN(mul, 2, 0, 2, true, "return mul(x, y);")                                                    \
    FN(div, 2, 0, 0, true, "return div(x, y);")                                                    \
    FN(min, 2, 0, 2, true, "return least(x, y);")                                                  \
    FN(max, 2, 0, 2, true, "return most(x, y);")                                                   \
    FN(fma, 3, 0, 2, true, "return fused(x, y, z);")                                               \
    FN(relu, 1, 0, 0, true, "return most(x, T(0));")                                               \
    FN(gelu, 1, 0, 0, false, "return quotient(x, T(1) + exponential(T(-2) * gelu_inner(x)));")     \
    FN(silu, 1, 0, 0, false, "return quotient(x, T(1) + exponential(-x));")                        \
    FN(drelu, 2, 0, 0, true, "return y > T(0) ? x : T(0);")                                        \
    FN(dgelu, 2, 0, 0, false, "return mul(x, gelu_slope(y));")                                     \
    FN(clipped_relu, 1, 1, 0, true, "return least(most(x, T(0)), y);")                             \
    FN(leaky_relu, 1, 1, 0, true, "return x > T(0) ? x : mul(x, y);")                              \
    FN(elu, 1, 1, 0, false, "return x > T(0) ? x : mul(y, exponential_minus_1(x));")               \
    FN(selu, 1, 0, 0, false,                                                                       \
       "return mul(T(1.0507009873554805), x > T(0) ? x : mul(T(1.6732632423543772), "              \
       "exponential_minus_1(x)));")                                                                \
    FN(gelu_erf, 1, 0, 0, false,                                                                   \
       "return mul(mul(T(0.5), x), T(1) + error_function(mul(x, T(0.7071067811865476))));")        \
    FN(sigmoid, 1, 0, 0, false, "return quotient(T(1), T(1) + exponential(-x));")                  \
    FN(tanh, 1, 0, 0, false, "return hyperbolic_tangent(x);")                                      \
    FN(softplus, 1, 1, 0, false, "return div(soft_plus(mul(x, y)), y);")                           \
    FN(mish, 1, 0, 0, false, "return mul(x, hyperbolic_tangent(soft_plus(x)));")                   \
    FN(hard_sigmoid, 1, 0, 0, false, "return div(least(most(x + T(3), T(0)), T(6)), T(6));")       \
    FN(hard_swish, 1, 0, 0, false, "return mul(x, div(least(most(x + T(3), T(0)), T(6)), T(6)));") \
    FN(clamp, 1, 2, 0, true, "return least(most(x, y), z);")

typedef enum trp__tree_function {
#define FN(name, values, parameters, commuting, exact, body) TRP__FN_##name,
    TRP__TREE_FUNCTIONS(FN)
#undef FN
        TRP__FN_COUNT
} trp__tree_function;

#endif
