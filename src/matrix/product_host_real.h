/* Products with sums of one real type. product_host.c includes this file once for each type, with
 * macros that are undefined at its end: T, the type; MY_TYPE, its trp_dtype; NAME(x), x with the
 * suffix of the type; GEMM, the routine of CBLAS; FUNCTION(x), x if T is f32, otherwise NULL. */

/* Elements. Types of up to 32 bits are converted through f32, which is exact. */

static void NAME(widen)(uint8_t type, const char *from, int64_t first, int64_t count, T *to)
{
    float part[256];
    if (type == MY_TYPE) {
        memcpy(to, (const T *)(const void *)from + first, (size_t)count * sizeof(T));
        return;
    }
    for (int64_t i = 0; i < count; i += 256) {
        int64_t some = count - i < 256 ? count - i : 256;
        widen_some(type, from, first + i, some, part);
        for (int64_t j = 0; j < some; j++)
            /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign) */
            to[i + j] = (T)part[j];
    }
}

static void NAME(narrow)(uint8_t type, const T *from, char *to, int64_t first, int64_t count)
{
    float part[256];
    if (type == MY_TYPE) {
        memcpy((T *)(void *)to + first, from, (size_t)count * sizeof(T));
        return;
    }
    for (int64_t i = 0; i < count; i += 256) {
        int64_t some = count - i < 256 ? count - i : 256;
        for (int64_t j = 0; j < some; j++)
            part[j] = (float)from[i + j];
        narrow_some(type, part, to, first + i, some);
    }
}

/* Widens a tile of matrix `which`: `lines` lines of op(A) or op(B)^T from `line` on, and `depth`
 * elements along k from `p` on. The result has columns of TILE elements and is transposed like the
 * matrix. */
static void NAME(widen_tile)(const product *x, int which, int64_t batch, int64_t line,
                             int64_t lines, int64_t p, int64_t depth, T *to)
{
    const trp__matmul *g = &x->g;
    bool along_k = lines_along_k(g, which);
    int64_t length = along_k ? depth : lines, count = along_k ? lines : depth;
    int64_t row = along_k ? p : line, column = along_k ? line : p;
    const char *from = x->at[which];
    int64_t first = batch * g->stride[which] + row + column * g->ld[which];
    scales s = scales_of(x, which, batch);
    bool groups = which == TRP__MATMUL_B && x->group > 0;
    for (int64_t j = 0; j < count; j++, first += g->ld[which], to += TILE) {
        NAME(widen)(g->type[which], from, first, length, to);
        for (int64_t i = 0; s.per_line && i < length; i++)
            to[i] *= (T)scale_at(&s, along_k ? line + j : line + i, along_k ? p + i : p + j);
        for (int64_t i = 0; groups && i < length; i++)
            to[i] = (T)of_group(x, batch, along_k ? line + j : line + i, along_k ? p + i : p + j,
                                (float)to[i]);
    }
}

/* Epilogues, which process one line of a tile at a time. */

static T NAME(gelu)(T x)
{
    T u = (T)0.7978845608028654 * (x + (T)0.044715 * x * x * x);
    T share = (T)0.5 * (1 + (T)tanh((double)u));
    return share == 0 ? -(T)0 : x * share; /* 0 for minus infinity too */
}

static T NAME(gelu_slope)(T x)
{
    T u = (T)0.7978845608028654 * (x + (T)0.044715 * x * x * x);
    T t = (T)tanh((double)u);
    T du = (T)0.7978845608028654 * (1 + 3 * (T)0.044715 * x * x);
    T rest = 1 - t * t; /* 0 where du may be infinite */
    return (T)0.5 * (1 + t) + (rest > 0 ? (T)0.5 * x * rest * du : 0);
}

static T NAME(silu)(T x)
{
    return x == -(T)INFINITY ? -(T)0 : x / (1 + (T)exp((double)-x));
}

/* Applies a function to each element: `all`, if there is one, to blocks of finite numbers,
 * otherwise `one`. */
static void NAME(map)(void (*all)(const float *in, float *out, size_t count), T (*one)(T x),
                      T *line, int64_t count)
{
    enum { BLOCK = 64 };
    for (int64_t at = 0; at < count; at += BLOCK) {
        const int64_t some = count - at < BLOCK ? count - at : BLOCK;
        T *x = line + at, zero = 0;
        for (int64_t i = 0; i < some; i++)
            zero += x[i] * 0; /* NaN, if any is not finite */
        if (all && zero == 0)
            all((const float *)(const void *)x, (float *)(void *)x, (size_t)some);
        else
            for (int64_t i = 0; i < some; i++)
                x[i] = one(x[i]);
    }
}

static void NAME(note_largest)(const T *line, int64_t count, float *largest)
{
    for (int64_t i = 0; i < count; i++) {
        T size = line[i] < 0 ? -line[i] : line[i];
        if (size > (T)*largest || size != size)
            *largest = (float)size;
    }
}

static T NAME(factor)(const product *x, int which)
{
    return x->at[which] ? (T) * (const float *)x->at[which] : 1;
}

/* Writes a line to aux, or multiplies it by the derivative that aux determines. */
static void NAME(apply_aux)(product *x, int64_t batch, int64_t row, int64_t column, T *line,
                            int64_t count)
{
    const trp__matmul *g = &x->g;
    char *aux = x->at[TRP__MATMUL_AUX];
    int64_t first = batch * g->stride[TRP__MATMUL_AUX] + row + column * g->ld[TRP__MATMUL_AUX];
    T stored[TILE];
    switch (g->activation) {
    case TRP_ACTIVATION_RELU:
        for (int64_t i = 0; aux && i < count; i++)
            set_bit(aux, first + i, line[i] > 0);
        break;
    case TRP_ACTIVATION_GELU:
        if (!aux)
            break;
        if (x->at[TRP__MATMUL_AMAX_AUX])
            NAME(note_largest)(line, count, &x->largest_aux);
        T factor = NAME(factor)(x, TRP__MATMUL_SCALE_AUX);
        for (int64_t i = 0; i < count; i++)
            stored[i] = line[i] * factor;
        NAME(narrow)(g->type[TRP__MATMUL_AUX], stored, aux, first, count);
        break;
    case TRP_ACTIVATION_DRELU:
        for (int64_t i = 0; i < count; i++)
            line[i] = get_bit(aux, first + i) ? line[i] : 0;
        break;
    case TRP_ACTIVATION_DGELU:
        NAME(widen)(g->type[TRP__MATMUL_AUX], aux, first, count, stored);
        factor = NAME(factor)(x, TRP__MATMUL_SCALE_AUX);
        for (int64_t i = 0; i < count; i++)
            stored[i] *= factor;
        NAME(map)(FUNCTION(trp__vgelu_tanh_slope), NAME(gelu_slope), stored, count);
        for (int64_t i = 0; i < count; i++)
            line[i] *= stored[i];
        break;
    }
}

static void NAME(activate)(uint8_t activation, T *line, int64_t count)
{
    for (int64_t i = 0; activation == TRP_ACTIVATION_RELU && i < count; i++)
        line[i] = line[i] <= 0 ? 0 : line[i]; /* keeps a NaN */
    if (activation == TRP_ACTIVATION_GELU)
        NAME(map)(FUNCTION(trp__vgelu_tanh), NAME(gelu), line, count);
    else if (activation == TRP_ACTIVATION_SILU)
        NAME(map)(FUNCTION(silu_array), NAME(silu), line, count);
}

/* Applies bias, activation, aux and scale to `rows` elements of a column and writes them to D.
 * `sum` may be in D. */
static void NAME(finish_epilogue)(product *x, int64_t batch, int64_t row, int64_t column,
                                  int64_t rows, T *sum, T *gradient)
{
    const trp__matmul *g = &x->g;
    T line[TILE];
    if (x->at[TRP__MATMUL_VECTOR] && g->gradient == TRP_BIAS_GRADIENT_NONE) {
        NAME(widen)
        (g->vector_type, x->at[TRP__MATMUL_VECTOR], batch * g->vector_stride + row, rows, line);
        for (int64_t i = 0; i < rows; i++)
            sum[i] += line[i];
    }
    NAME(apply_aux)(x, batch, row, column, sum, rows);
    NAME(activate)(g->activation, sum, rows);
    for (int64_t i = 0; g->gradient == TRP_BIAS_GRADIENT_D && i < rows; i++)
        gradient[i] += sum[i];
    if (x->at[TRP__MATMUL_AMAX_D])
        NAME(note_largest)(sum, rows, &x->largest_d);
    T factor = NAME(factor)(x, TRP__MATMUL_SCALE_D);
    for (int64_t i = 0; factor != 1 && i < rows; i++)
        sum[i] *= factor;
    void (*const scale)(const product *, int64_t, int64_t, int64_t, float *) =
        FUNCTION(scale_blocks);
    if (scale && x->at[TRP__MATMUL_OUT_SCALE])
        scale(x, row, column, rows, (float *)(void *)sum);
    const int64_t place = batch * g->stride[TRP__MATMUL_D] + row + column * g->ld[TRP__MATMUL_D];
    if (g->type[TRP__MATMUL_D] != MY_TYPE || sum != (T *)x->at[TRP__MATMUL_D] + place)
        NAME(narrow)(g->type[TRP__MATMUL_D], sum, x->at[TRP__MATMUL_D], place, rows);
}

/* Applies alpha, beta and the epilogue to sums of op(A) op(B). */
static void NAME(finish_line)(product *x, int64_t batch, int64_t row, int64_t column, int64_t rows,
                              T *sum, T *gradient)
{
    const trp__matmul *g = &x->g;
    T line[TILE];
    T alpha = (T)x->alpha, beta = (T)x->beta;
    if (g->type[TRP__MATMUL_D] == TRP_I32) {
        finish_integers(x, batch, row, column, rows, (const double *)(const void *)sum);
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        sum[i] = alpha != 0 ? alpha * sum[i] : 0;
    if (x->at[TRP__MATMUL_ALPHAS] && alpha != 0) {
        NAME(widen)
        (g->scalar_type, x->at[TRP__MATMUL_ALPHAS], batch * g->alphas_stride + row, rows, line);
        for (int64_t i = 0; i < rows; i++)
            sum[i] *= line[i];
    }
    if (beta != 0) {
        int64_t first = batch * g->stride[TRP__MATMUL_C] + row + column * g->ld[TRP__MATMUL_C];
        NAME(widen)(g->type[TRP__MATMUL_C], x->at[TRP__MATMUL_C], first, rows, line);
        for (int64_t i = 0; i < rows; i++)
            sum[i] += beta * line[i];
    }
    NAME(finish_epilogue)(x, batch, row, column, rows, sum, gradient);
}

/* Computes the sums of a tile in the scratch memory. */
static T *NAME(sums)(const product *x, int64_t batch, int64_t row, int64_t column, int64_t rows,
                     int64_t columns)
{
    const trp__matmul *g = &x->g;
    T *wide_a = x->scratch, *wide_b = wide_a + TILE * TILE, *sum = wide_b + TILE * TILE;
    for (int64_t p = 0; p < g->k && x->alpha != 0; p += TILE) {
        int64_t depth = at_most_a_tile(g->k - p);
        NAME(widen_tile)(x, TRP__MATMUL_A, batch, row, rows, p, depth, wide_a);
        NAME(widen_tile)(x, TRP__MATMUL_B, batch, column, columns, p, depth, wide_b);
        x->blas->GEMM(TRP__CBLAS_COLUMN_MAJOR, trp__cblas_trans(g->trans_a),
                      trp__cblas_trans(g->trans_b), (int)rows, (int)columns, (int)depth, 1, wide_a,
                      TILE, wide_b, TILE, p == 0 ? 0 : 1, sum, TILE);
    }
    return sum;
}

static void NAME(run_tile)(product *x, int64_t batch, int64_t row, int64_t column, int64_t rows,
                           T *gradient)
{
    int64_t columns = at_most_a_tile(x->g.n - column);
    T *sum = NAME(sums)(x, batch, row, column, rows, columns);
    for (int64_t j = 0; j < columns; j++)
        NAME(finish_line)(x, batch, row, column + j, rows, sum + j * TILE, gradient);
}

/* Sums op(A) or op(B) over k, a tile of lines at a time. */
static void NAME(sum_input)(const product *x, int which, int64_t batch)
{
    const trp__matmul *g = &x->g;
    bool along_k = lines_along_k(g, which);
    int64_t all = which == TRP__MATMUL_A ? g->m : g->n;
    T *wide = x->scratch, sum[TILE];
    for (int64_t line = 0; line < all; line += TILE) {
        int64_t lines = at_most_a_tile(all - line);
        memset(sum, 0, sizeof sum);
        for (int64_t p = 0; p < g->k; p += TILE) {
            int64_t depth = at_most_a_tile(g->k - p);
            NAME(widen_tile)(x, which, batch, line, lines, p, depth, wide);
            for (int64_t i = 0; i < lines; i++) {
                for (int64_t q = 0; q < depth; q++)
                    sum[i] += along_k ? wide[q + i * TILE] : wide[i + q * TILE];
            }
        }
        NAME(narrow)
        (g->vector_type, sum, x->at[TRP__MATMUL_VECTOR], batch * g->vector_stride + line, lines);
    }
}

static void NAME(run_tiles)(product *x)
{
    const trp__matmul *g = &x->g;
    T gradient[TILE];
    for (int64_t l = 0; l < g->batch; l++) {
        for (int64_t row = 0; row < g->m; row += TILE) {
            int64_t rows = at_most_a_tile(g->m - row);
            memset(gradient, 0, sizeof gradient);
            for (int64_t column = 0; column < g->n; column += TILE)
                NAME(run_tile)(x, l, row, column, rows, gradient);
            if (g->gradient == TRP_BIAS_GRADIENT_D)
                NAME(narrow)
            (g->vector_type, gradient, x->at[TRP__MATMUL_VECTOR], l * g->vector_stride + row, rows);
        }
        if (g->gradient == TRP_BIAS_GRADIENT_A || g->gradient == TRP_BIAS_GRADIENT_B)
            NAME(sum_input)
        (x, g->gradient == TRP_BIAS_GRADIENT_A ? TRP__MATMUL_A : TRP__MATMUL_B, l);
    }
}

#include "matrix/product_host_whole_real.h"

static void NAME(run)(product *x)
{
    if (is_whole(x, MY_TYPE))
        NAME(run_whole)(x);
    else
        NAME(run_tiles)(x);
}

#undef T
#undef MY_TYPE
#undef NAME
#undef GEMM
#undef FUNCTION
