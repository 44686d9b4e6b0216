#include "actors/dnn/host/arrays/ops.h"

#include "actors/dnn/math/functions.h"
#include "base/os/cpu.h"
#include "base/numbers/vmath.h"

#define OPS     portable
#define LINKAGE static
#include "actors/dnn/host/arrays/ops_body.h"

static const trp__chain_table *table(void)
{
#if defined(TRP__VECTOR_AVX2)
    return trp__cpu_has_avx2() ? &trp__chain_table_avx2 : &portable;
#else
    return &portable;
#endif
}

/* A function of one number in f32. `special`: it does not handle infinities and NaN. */
typedef struct function {
    void (*plain)(const float *in, float *out, size_t count);
    void (*with_number)(const float *in, double p, float *out, size_t count);
    bool special;
} function;

static const function functions[TRP__CHAIN_MODES] = {
    [TRP_DNN_EXP] = {trp__vexp, NULL, false},
    [TRP_DNN_LOG] = {trp__vlog, NULL, false},
    [TRP_DNN_ERF] = {trp__verf, NULL, false},
    [TRP_DNN_TANH] = {trp__vtanh, NULL, false},
    [TRP_DNN_SIGMOID] = {trp__vsigmoid, NULL, false},
    [TRP_DNN_GELU] = {trp__vgelu, NULL, true},
    [TRP_DNN_GELU_TANH] = {trp__vgelu_tanh, NULL, true},
    [TRP_DNN_SWISH] = {NULL, trp__vswish, true},
    [TRP_DNN_SOFTPLUS] = {NULL, trp__vsoftplus, true},
    [TRP_DNN_ELU] = {NULL, trp__velu, true},
};

static const function slopes[TRP__CHAIN_MODES] = {
    [TRP_DNN_TANH] = {trp__vtanh_slope, NULL, true},
    [TRP_DNN_SIGMOID] = {trp__vsigmoid_slope, NULL, true},
    [TRP_DNN_GELU] = {trp__vgelu_slope, NULL, true},
    [TRP_DNN_GELU_TANH] = {trp__vgelu_tanh_slope, NULL, true},
    [TRP_DNN_SWISH] = {NULL, trp__vswish_slope, true},
    [TRP_DNN_SOFTPLUS] = {NULL, trp__vsoftplus_slope, true},
    [TRP_DNN_ELU] = {NULL, trp__velu_slope, true},
};

enum { BLOCK = 256 };

static double slope_times(const trp__dnn_node *n, double x, double dy)
{
    return trp__dnn_activation_gradient(n, x, dy);
}

static void apply(const function *f, const trp__dnn_node *n, const float *x, float *y,
                  int64_t count)
{
    if (f->plain)
        f->plain(x, y, (size_t)count);
    else
        f->with_number(x, n->parameter[0], y, (size_t)count);
}

static bool is_finite(float x)
{
    return x - x == 0;
}

/* Runs a function in blocks: y may be x, which is still needed where it is not finite. */
static void run_function(const trp__chain_table *ops, const trp__dnn_node *n,
                         const trp__chain_arrays *a)
{
    const function *f = &functions[n->mode];
    const float *x = a->x;
    float *y = a->y, block[BLOCK];
    if (!f->special) {
        apply(f, n, x, y, a->count);
        return;
    }
    for (int64_t at = 0; at < a->count; at += BLOCK) {
        const int64_t count = a->count - at < BLOCK ? a->count - at : BLOCK;
        const bool finite = ops->are_finite(x + at, count);
        apply(f, n, x + at, block, count);
        for (int64_t i = 0; !finite && i < count; i++) {
            if (!is_finite(x[at + i]))
                block[i] = (float)trp__dnn_pointwise_value(n, (double)x[at + i], 0, 0);
        }
        memcpy(y + at, block, (size_t)count * sizeof *block);
    }
}

static void run_slope(const trp__chain_table *ops, const trp__dnn_node *n,
                      const trp__chain_arrays *a)
{
    const function *f = &slopes[n->mode];
    const float *x = a->x, *b = a->b;
    float *y = a->y, block[BLOCK], dy[BLOCK];
    for (int64_t at = 0; at < a->count; at += BLOCK) {
        const int64_t count = a->count - at < BLOCK ? a->count - at : BLOCK;
        const trp__chain_arrays part = {.count = count, .x = x + at, .b = dy, .y = block};
        const trp__chain_arrays product = {.count = count, .x = block, .b = dy, .y = block};
        for (int64_t i = 0; i < count; i++)
            dy[i] = b[a->one_b ? 0 : at + i];
        const bool finite = ops->are_finite(x + at, count) && ops->are_finite(dy, count);
        if (n->mode == TRP_DNN_RELU) {
            ops->relu_gradient_f32(n->parameter, &part);
        } else {
            apply(f, n, x + at, block, count);
            ops->f32[TRP_DNN_MUL](NULL, &product);
        }
        for (int64_t i = 0; !finite && i < count; i++) {
            if (!is_finite(x[at + i]) || !is_finite(dy[i]))
                block[i] = (float)slope_times(n, (double)x[at + i], (double)dy[i]);
        }
        memcpy(y + at, block, (size_t)count * sizeof *block);
    }
}

/* Runs math/functions.c element by element. */
#define ONE_BY_ONE(type)                                                                           \
    do {                                                                                           \
        const type *x = a->x, *b = a->b, *t = a->t;                                                \
        type *y = a->y;                                                                            \
        for (int64_t i = 0; i < a->count; i++) {                                                   \
            const double v = (double)x[i], w = b ? (double)b[a->one_b ? 0 : i] : 0;                \
            y[i] = (type)(n->kind == TRP_DNN_POINTWISE                                             \
                              ? trp__dnn_pointwise_value(n, v, w, t ? (double)t[i] : 0)            \
                              : slope_times(n, v, w));                                             \
        }                                                                                          \
    } while (0)

void trp__chain_op_f32(const trp__dnn_node *n, const trp__chain_arrays *a)
{
    const trp__chain_table *ops = table();
    const function *f = &functions[n->mode];
    if (n->kind == TRP_DNN_POINTWISE_BACKWARD)
        run_slope(ops, n, a);
    else if (ops->f32[n->mode])
        ops->f32[n->mode](n->parameter, a);
    else if (f->plain || f->with_number)
        run_function(ops, n, a);
    else
        ONE_BY_ONE(float);
}

void trp__chain_op_f64(const trp__dnn_node *n, const trp__chain_arrays *a)
{
    trp__chain_loop *loop = table()->f64[n->mode];
    if (n->kind == TRP_DNN_POINTWISE && loop)
        loop(n->parameter, a);
    else
        ONE_BY_ONE(double);
}

/* Adds the parts of a sum in pairs. */
static double fold(uint8_t mode, double *part, int parts)
{
    for (int half = parts / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) {
            const double other = part[i + half];
            part[i] = mode == TRP_DNN_LEAST || mode == TRP_DNN_MOST || mode == TRP_DNN_AMAX
                          ? trp__dnn_reduce_next(mode, part[i], other)
                          : part[i] + other;
        }
    }
    return part[0];
}

float trp__chain_reduce_f32(uint8_t mode, const float *x, int64_t count)
{
    double part[TRP__CHAIN_PARTS], whole = trp__dnn_reduce_first(mode);
    if (table()->parts[mode]) {
        table()->parts[mode](x, count, part);
        whole = fold(mode, part, TRP__CHAIN_PARTS);
    } else {
        for (int64_t i = 0; i < count; i++)
            whole = trp__dnn_reduce_next(mode, whole, (double)x[i]);
    }
    return (float)trp__dnn_reduce_last(mode, whole, count);
}

void trp__chain_widen_i32(const int32_t *from, bool wide, void *to, int64_t count)
{
    table()->widen_i32[wide](from, to, count);
}

void trp__chain_round_bf16(float *x, int64_t count)
{
    table()->round_bf16(x, count);
}
