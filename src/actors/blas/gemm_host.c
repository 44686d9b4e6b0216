/* gemm on the host by OpenBLAS. Types that it lacks are widened. */
#include "actors/blas/gemm_host.h"

#include "base/error.h"
#include "base/numbers/half.h"
#include "base/numbers/types.h"

#include <troupe/blas.h>

#include <limits.h>
#include <string.h>

/* Requests on the thread of the stream. */

typedef trp__gemm_host_job gemm_arguments;

_Static_assert(sizeof(gemm_arguments) <= TRP_ACTOR_ENQUEUE_MAX, "an operation's arguments fit");

/* Returns the product with its scalars, which may have to be read from a buffer. */
static trp__gemm gemm_now(const gemm_arguments *x)
{
    trp__gemm g = x->g;
    const float *f32 = x->scalars;
    const double *f64 = x->scalars;
    const int32_t *i32 = x->scalars;
    if (!x->scalars)
        return g;
    if (g.type_c == TRP_I32) {
        g.alpha[0] = i32[0];
        g.beta[0] = i32[1];
        return g;
    }
    bool wide = g.type == TRP_F64 || g.type == TRP_C128;
    int parts = trp__is_complex(g.type) ? 2 : 1;
    for (int i = 0; i < parts; i++) {
        g.alpha[i] = wide ? f64[i] : (double)f32[i];
        g.beta[i] = wide ? f64[parts + i] : (double)f32[parts + i];
    }
    return g;
}

/* C = beta C, for products without a sum. With beta 0, C is not read. */
#define DEFINE_SCALE(type)                                                                         \
    static void scale_##type(const trp__gemm *g, type *c)                                          \
    {                                                                                              \
        type beta = (type)g->beta[0];                                                              \
        for (int64_t j = 0; j < g->n; j++, c += g->ldc) {                                          \
            for (int64_t i = 0; i < g->m; i++)                                                     \
                c[i] = beta == 0 ? 0 : beta * c[i];                                                \
        }                                                                                          \
    }
DEFINE_SCALE(float)
DEFINE_SCALE(double)
#undef DEFINE_SCALE

/* With alpha 0, A and B are not read, as in BLAS: NaNs in them do not reach C. */
static bool nothing_to_add(const trp__gemm *g)
{
    return g->k == 0 || (g->alpha[0] == 0 && g->alpha[1] == 0);
}

#define DEFINE_RUN(type, gemm)                                                                     \
    static void run_##type(void *arguments)                                                        \
    {                                                                                              \
        const gemm_arguments *x = arguments;                                                       \
        const trp__gemm now = gemm_now(x), *g = &now;                                              \
        for (int64_t i = 0; i < g->batch; i++) {                                                   \
            const type *a = (const type *)x->a + i * g->a_stride;                                  \
            const type *b = (const type *)x->b + i * g->b_stride;                                  \
            type *c = (type *)x->c + i * g->c_stride;                                              \
            if (nothing_to_add(g))                                                                 \
                scale_##type(g, c);                                                                \
            else                                                                                   \
                x->state->blas->gemm(TRP__CBLAS_COLUMN_MAJOR, trp__cblas_trans(g->trans_a),        \
                                     trp__cblas_trans(g->trans_b), (int)g->m, (int)g->n,           \
                                     (int)g->k, (type)g->alpha[0], a, (int)g->lda, b, (int)g->ldb, \
                                     (type)g->beta[0], c, (int)g->ldc);                            \
        }                                                                                          \
    }
DEFINE_RUN(float, cblas_sgemm)
DEFINE_RUN(double, cblas_dgemm)
#undef DEFINE_RUN

/* The same for complex numbers; each element of `c` is two real numbers. */
#define DEFINE_SCALE(type)                                                                         \
    static void scale_complex_##type(const trp__gemm *g, type *c)                                  \
    {                                                                                              \
        type re = (type)g->beta[0], im = (type)g->beta[1];                                         \
        for (int64_t j = 0; j < g->n; j++, c += 2 * g->ldc) {                                      \
            for (int64_t i = 0; i < 2 * g->m; i += 2) {                                            \
                type x = c[i], y = c[i + 1];                                                       \
                c[i] = re == 0 && im == 0 ? 0 : re * x - im * y;                                   \
                c[i + 1] = re == 0 && im == 0 ? 0 : re * y + im * x;                               \
            }                                                                                      \
        }                                                                                          \
    }
DEFINE_SCALE(float)
DEFINE_SCALE(double)
#undef DEFINE_SCALE

static void run_complex(void *arguments)
{
    const gemm_arguments *x = arguments;
    const trp__gemm now = gemm_now(x), *g = &now;
    bool wide = g->type == TRP_C128;
    int64_t size = wide ? 16 : 8;
    float alpha[2] = {(float)g->alpha[0], (float)g->alpha[1]};
    float beta[2] = {(float)g->beta[0], (float)g->beta[1]};
    void (*multiply)(int, int, int, int, int, int, const void *, const void *, int, const void *,
                     int, const void *, void *, int) =
        wide ? x->state->blas->cblas_zgemm : x->state->blas->cblas_cgemm;
    for (int64_t i = 0; i < g->batch; i++) {
        char *c = x->c + i * g->c_stride * size;
        if (!nothing_to_add(g))
            multiply(TRP__CBLAS_COLUMN_MAJOR, trp__cblas_trans(g->trans_a),
                     trp__cblas_trans(g->trans_b), (int)g->m, (int)g->n, (int)g->k,
                     wide ? (const void *)g->alpha : alpha, x->a + i * g->a_stride * size,
                     (int)g->lda, x->b + i * g->b_stride * size, (int)g->ldb,
                     wide ? (const void *)g->beta : beta, c, (int)g->ldc);
        else if (wide)
            scale_complex_double(g, (double *)(void *)c);
        else
            scale_complex_float(g, (float *)(void *)c);
    }
}

/* Types of 16 and 8 bits, which are widened to f32 tile by tile. */

enum { TILE = TRP__GEMM_TILE };
#define TILE_ELEMENTS ((size_t)TILE * TILE)

static size_t element_bytes(uint8_t type)
{
    return trp_dtype_bits((trp_dtype)type) / 8;
}

static void widen(uint8_t type, const char *from, float *to, int64_t count)
{
    if (type == TRP_F16)
        trp__f16_to_f32_array((const uint16_t *)(const void *)from, to, (size_t)count);
    else if (type == TRP_BF16)
        trp__bf16_to_f32_array((const uint16_t *)(const void *)from, to, (size_t)count);
    else if (type == TRP_F32)
        memcpy(to, from, (size_t)count * sizeof *to);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = ((const int8_t *)from)[i];
}

static void narrow(uint8_t type, const float *from, char *to, int64_t count)
{
    if (type == TRP_F16)
        trp__f32_to_f16_array(from, (uint16_t *)(void *)to, (size_t)count);
    else if (type == TRP_BF16)
        trp__f32_to_bf16_array(from, (uint16_t *)(void *)to, (size_t)count);
    else
        memcpy(to, from, (size_t)count * sizeof *from);
}

/* Widens the tile of op(X) that begins at (row, column) and has `rows` x `columns` elements. The
 * result has the leading dimension TILE and is transposed like the stored matrix. */
static void widen_tile(uint8_t type, uint8_t trans, const char *x, int64_t ld, int64_t row,
                       int64_t column, int64_t rows, int64_t columns, float *to)
{
    int64_t size = (int64_t)element_bytes(type);
    int64_t length = trans != TRP_N ? columns : rows;
    int64_t count = trans != TRP_N ? rows : columns;
    const char *from = x + (trans != TRP_N ? column + row * ld : row + column * ld) * size;
    for (int64_t j = 0; j < count; j++)
        widen(type, from + j * ld * size, to + j * TILE, length);
}

static int64_t at_most_a_tile(int64_t rest)
{
    return rest < TILE ? rest : TILE;
}

/* Computes the tile c = alpha sum + beta c, rounded once. `line` is room for a column. */
static void finish_tile(const trp__gemm *g, char *c, int64_t rows, int64_t columns,
                        const float *sum, float *line)
{
    float alpha = (float)g->alpha[0];
    float beta = (float)g->beta[0];
    bool add = !nothing_to_add(g);
    for (int64_t j = 0; j < columns; j++) {
        char *out = c + j * g->ldc * (int64_t)element_bytes(g->type_c);
        const float *in = sum + j * TILE;
        if (beta != 0) {
            widen(g->type_c, out, line, rows);
            for (int64_t i = 0; i < rows; i++)
                line[i] = add ? alpha * in[i] + beta * line[i] : beta * line[i];
        } else {
            for (int64_t i = 0; i < rows; i++)
                line[i] = add ? alpha * in[i] : 0;
        }
        narrow(g->type_c, line, out, rows);
    }
}

static void run_tile(const gemm_arguments *x, const trp__gemm *g, const char *a, const char *b,
                     char *c, int64_t i, int64_t j)
{
    float *wide_a = x->state->scratch;
    float *wide_b = wide_a + TILE_ELEMENTS;
    float *sum = wide_b + TILE_ELEMENTS;
    int64_t rows = at_most_a_tile(g->m - i);
    int64_t columns = at_most_a_tile(g->n - j);
    for (int64_t p = 0; p < g->k && !nothing_to_add(g); p += TILE) {
        int64_t depth = at_most_a_tile(g->k - p);
        widen_tile(g->type, g->trans_a, a, g->lda, i, p, rows, depth, wide_a);
        widen_tile(g->type, g->trans_b, b, g->ldb, p, j, depth, columns, wide_b);
        x->state->blas->cblas_sgemm(TRP__CBLAS_COLUMN_MAJOR, trp__cblas_trans(g->trans_a),
                                    trp__cblas_trans(g->trans_b), (int)rows, (int)columns,
                                    (int)depth, 1.0f, wide_a, TILE, wide_b, TILE,
                                    p == 0 ? 0.0f : 1.0f, sum, TILE);
    }
    finish_tile(g, c + (i + j * g->ldc) * (int64_t)element_bytes(g->type_c), rows, columns, sum,
                wide_a);
}

static void run_widened(void *arguments)
{
    const gemm_arguments *x = arguments;
    const trp__gemm now = gemm_now(x), *g = &now;
    int64_t size = (int64_t)element_bytes(g->type), c_size = (int64_t)element_bytes(g->type_c);
    for (int64_t l = 0; l < g->batch; l++) {
        const char *a = x->a + l * g->a_stride * size;
        const char *b = x->b + l * g->b_stride * size;
        char *c = x->c + l * g->c_stride * c_size;
        for (int64_t j = 0; j < g->n; j += TILE) {
            for (int64_t i = 0; i < g->m; i += TILE)
                run_tile(x, g, a, b, c, i, j);
        }
    }
}

static void run_integer(void *arguments)
{
    const gemm_arguments *x = arguments;
    const trp__gemm now = gemm_now(x);
    trp__gemm_host_integer(x, &now);
}

static bool fits_32_bits(const trp__gemm *g)
{
    return g->m <= INT_MAX && g->n <= INT_MAX && g->k <= INT_MAX && g->lda <= INT_MAX &&
           g->ldb <= INT_MAX && g->ldc <= INT_MAX;
}

static void (*method_of(const trp__gemm *g))(void *)
{
    switch (g->type) {
    case TRP_C64:
    case TRP_C128:
        return run_complex;
    case TRP_F64:
        return run_double;
    case TRP_F32:
        return run_float;
    default:
        return g->type_c == TRP_I32 ? run_integer : run_widened;
    }
}

trp_status trp__gemm_host(trp_instance *instance, const trp_job *job,
                          const trp__blas_host_state *state, trp_error *error)
{
    gemm_arguments x = {.state = state};
    memcpy(&x.g, job->payload, sizeof x.g);
    if (x.g.m == 0 || x.g.n == 0)
        return TRP_OK;
    if (!fits_32_bits(&x.g))
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "m, n, k or a leading dimension is 2^31 or more, which OpenBLAS with "
                              "32-bit integers can't take");
    x.c = job->access[TRP__GEMM_C].address;
    x.a = x.g.k > 0 ? job->access[TRP__GEMM_A].address : x.c;
    x.b = x.g.k > 0 ? job->access[TRP__GEMM_B].address : x.c;
    if (x.g.scalars != TRP__GEMM_NO_ACCESS)
        x.scalars = job->access[x.g.scalars].address;
    return instance->services->enqueue(instance, method_of(&x.g), &x, sizeof x, error);
}
