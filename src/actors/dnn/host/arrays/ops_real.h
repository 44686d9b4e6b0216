/* Loops of ops_body.h in one real type T. Operations that are not exact in T are computed in f64,
 * as in math/functions.c. */

static void NAME(identity)(const double *p, const trp__chain_arrays *a)
{
    (void)p;
    if (a->y != a->x)
        memcpy(a->y, a->x, (size_t)a->count * sizeof(T));
}

BINARY(add, x + b)
BINARY(sub, x - b)
BINARY(mul, x *b)
BINARY(div, x / b)
BINARY(min, x != x || x < b ? x : b)
BINARY(max, x != x || x > b ? x : b)
BINARY(add_square, (double)x + (double)b * (double)b)
BINARY(equal, x == b ? 1 : 0)
BINARY(not_equal, x != b ? 1 : 0)
BINARY(greater, x > b ? 1 : 0)
BINARY(greater_equal, x >= b ? 1 : 0)
BINARY(less, x < b ? 1 : 0)
BINARY(less_equal, x <= b ? 1 : 0)
BINARY(and, ((x != 0) & (b != 0)) ? 1 : 0)
BINARY(or, ((x != 0) | (b != 0)) ? 1 : 0)
UNARY(not, x == 0 ? 1 : 0)
UNARY(abs, FUN(fabs)(x))
UNARY(ceil, FUN(ceil)(x))
UNARY(floor, FUN(floor)(x))
UNARY(negate, -x)
UNARY(sqrt, FUN(sqrt)(x))
UNARY(rsqrt, 1 / sqrt((double)x))
UNARY(reciprocal, 1 / x)

static void NAME(select)(const double *p, const trp__chain_arrays *a)
{
    const T *x = a->x, *b = a->b, *t = a->t;
    T *y = a->y;
    (void)p;
    for (int64_t i = 0; i < a->count; i++) {
        const T other = b[a->one_b ? 0 : i];
        y[i] = t[i] != 0 ? x[i] : other;
    }
}

static void NAME(relu)(const double *p, const trp__chain_arrays *a)
{
    const T *from = a->x;
    T *to = a->y;
    const double least = p[0], most = p[1], slope = p[2];
    if (slope == 0 && least == 0 && isinf(most)) {
        for (int64_t i = 0; i < a->count; i++) {
            const T x = from[i];
            to[i] = x <= 0 ? 0 : x; /* NaN stays */
        }
        return;
    }
    for (int64_t i = 0; i < a->count; i++) {
        const double x = (double)from[i];
        const double below = slope == 0 ? least : least + slope * (x - least);
        const double inside = x > least ? x : below;
        const double clipped = x > most ? most : inside;
        to[i] = (T)(x != x ? x : clipped);
    }
}
