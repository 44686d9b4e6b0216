/* The loops of ops.h without functions of vmath.h, for one instruction set: table entries by type
 * and mode. ops.c and ops_avx2.c define OPS, the name of the table, and LINKAGE, and include
 * this. */
#include "actors/dnn/host/arrays/ops_table.h"
#include "base/numbers/half.h"

#include <math.h>
#include <string.h>

#define UNARY(name, ...)                                                                           \
    static void NAME(name)(const double *p, const trp__chain_arrays *a)                            \
    {                                                                                              \
        const T *from = a->x;                                                                      \
        T *to = a->y;                                                                              \
        (void)p;                                                                                   \
        for (int64_t i = 0; i < a->count; i++) {                                                   \
            const T x = from[i];                                                                   \
            to[i] = (T)(__VA_ARGS__);                                                              \
        }                                                                                          \
    }

#define BINARY(name, ...)                                                                          \
    static void NAME(name)(const double *p, const trp__chain_arrays *a)                            \
    {                                                                                              \
        const T *from = a->x, *by = a->b;                                                          \
        T *to = a->y;                                                                              \
        (void)p;                                                                                   \
        if (a->one_b) {                                                                            \
            const T b = *by;                                                                       \
            for (int64_t i = 0; i < a->count; i++) {                                               \
                const T x = from[i];                                                               \
                to[i] = (T)(__VA_ARGS__);                                                          \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < a->count; i++) {                                                   \
            const T x = from[i], b = by[i];                                                        \
            to[i] = (T)(__VA_ARGS__);                                                              \
        }                                                                                          \
    }

#define T       float
#define NAME(x) x##_f32
#define FUN(x)  x##f
#include "actors/dnn/host/arrays/ops_real.h"
#undef T
#undef NAME
#undef FUN

#define T       double
#define NAME(x) x##_f64
#define FUN(x)  x
#include "actors/dnn/host/arrays/ops_real.h"
#undef T
#undef NAME
#undef FUN

/* Computes the gradient for finite numbers. */
static void relu_gradient_f32(const double *p, const trp__chain_arrays *a)
{
    const float *from = a->x, *dy = a->b;
    float *dx = a->y;
    const double least = p[0], most = p[1], below = p[2];
    for (int64_t i = 0; i < a->count; i++) {
        const double x = (double)from[i];
        const double above = x < most ? 1 : 0;
        dx[i] = (float)((double)dy[i] * (x > least ? above : below));
    }
}

/* Reductions. */

enum { PARTS = 16 };

#define REDUCE(first, ...)                                                                         \
    do {                                                                                           \
        double part[PARTS], s;                                                                     \
        int64_t at = 0;                                                                            \
        for (int i = 0; i < PARTS; i++)                                                            \
            part[i] = (first);                                                                     \
        for (; at + PARTS <= count; at += PARTS) {                                                 \
            for (int i = 0; i < PARTS; i++) {                                                      \
                const double v = (double)x[at + i];                                                \
                s = part[i];                                                                       \
                part[i] = (__VA_ARGS__);                                                           \
            }                                                                                      \
        }                                                                                          \
        for (; at < count; at++) {                                                                 \
            const double v = (double)x[at];                                                        \
            s = part[at % PARTS];                                                                  \
            part[at % PARTS] = (__VA_ARGS__);                                                      \
        }                                                                                          \
        memcpy(out, part, sizeof part);                                                            \
    } while (0)

static void sum_parts(const float *x, int64_t count, double out[PARTS])
{
    REDUCE(0, s + v);
}

static void size_parts(const float *x, int64_t count, double out[PARTS])
{
    REDUCE(0, s + fabs(v));
}

static void square_parts(const float *x, int64_t count, double out[PARTS])
{
    REDUCE(0, s + v * v);
}

/* Keeps a NaN, which compares neither larger nor smaller. */
static void most_parts(const float *x, int64_t count, double out[PARTS])
{
    REDUCE(-INFINITY, s != s || s > v ? s : v);
}

static void least_parts(const float *x, int64_t count, double out[PARTS])
{
    REDUCE(INFINITY, s != s || s < v ? s : v);
}

static void amax_parts(const float *x, int64_t count, double out[PARTS])
{
    REDUCE(0, s != s || s > fabs(v) ? s : fabs(v));
}

static void widen_i32_f32(const int32_t *from, void *to, int64_t count)
{
    float *out = to;
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)from[i];
}

static void widen_i32_f64(const int32_t *from, void *to, int64_t count)
{
    double *out = to;
    for (int64_t i = 0; i < count; i++)
        out[i] = (double)from[i];
}

static void round_bf16(float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = trp__bf16_to_f32(trp__f32_to_bf16(x[i]));
}

/* Tells whether all numbers are finite. */
static bool are_finite(const float *x, int64_t count)
{
    uint32_t beyond = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        beyond |= (bits & 0x7fffffff) >= 0x7f800000;
    }
    return !beyond;
}

#define ROWS(real)                                                                                 \
    {                                                                                              \
        [TRP_DNN_IDENTITY] = identity_##real, [TRP_DNN_ADD] = add_##real,                          \
        [TRP_DNN_SUB] = sub_##real, [TRP_DNN_MUL] = mul_##real, [TRP_DNN_DIV] = div_##real,        \
        [TRP_DNN_MIN] = min_##real, [TRP_DNN_MAX] = max_##real,                                    \
        [TRP_DNN_ADD_SQUARE] = add_square_##real, [TRP_DNN_ABS] = abs_##real,                      \
        [TRP_DNN_CEIL] = ceil_##real, [TRP_DNN_FLOOR] = floor_##real,                              \
        [TRP_DNN_NEGATE] = negate_##real, [TRP_DNN_SQRT] = sqrt_##real,                            \
        [TRP_DNN_RSQRT] = rsqrt_##real, [TRP_DNN_RECIPROCAL] = reciprocal_##real,                  \
        [TRP_DNN_EQUAL] = equal_##real, [TRP_DNN_NOT_EQUAL] = not_equal_##real,                    \
        [TRP_DNN_GREATER] = greater_##real, [TRP_DNN_GREATER_EQUAL] = greater_equal_##real,        \
        [TRP_DNN_LESS] = less_##real, [TRP_DNN_LESS_EQUAL] = less_equal_##real,                    \
        [TRP_DNN_AND] = and_##real, [TRP_DNN_OR] = or_##real, [TRP_DNN_NOT] = not_##real,          \
        [TRP_DNN_SELECT] = select_##real, [TRP_DNN_RELU] = relu_##real,                            \
    }

LINKAGE const trp__chain_table OPS = {
    .f32 = ROWS(f32),
    .f64 = ROWS(f64),
    .relu_gradient_f32 = relu_gradient_f32,
    .parts =
        {
            [TRP_DNN_SUM] = sum_parts,
            [TRP_DNN_MEAN] = sum_parts,
            [TRP_DNN_NORM1] = size_parts,
            [TRP_DNN_NORM2] = square_parts,
            [TRP_DNN_MOST] = most_parts,
            [TRP_DNN_LEAST] = least_parts,
            [TRP_DNN_AMAX] = amax_parts,
        },
    .widen_i32 = {widen_i32_f32, widen_i32_f64},
    .are_finite = are_finite,
    .round_bf16 = round_bf16,
};
