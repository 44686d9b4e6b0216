#include "actors/cutlass/epilogue/eval.h"

#include "actors/cutlass/epilogue/evaluate.h"
#include "base/numbers/half.h"
#include "base/numbers/narrow.h"

#include <math.h>
#include <string.h>

/* Largest line of a tile that is evaluated together, along the contiguous dimension of D. */
enum { BLOCK = 64 };

/* Loads `count` elements from index `first` on, `step` apart. */
static void load(trp_dtype type, const void *at, int64_t first, int64_t step, int64_t count,
                 double *out)
{
    int64_t k = first;
    switch (type) {
    case TRP_F64:
        for (int64_t i = 0; i < count; i++, k += step)
            out[i] = ((const double *)at)[k];
        break;
    case TRP_F32:
        for (int64_t i = 0; i < count; i++, k += step)
            out[i] = (double)((const float *)at)[k];
        break;
    case TRP_F16:
        for (int64_t i = 0; i < count; i++, k += step)
            out[i] = (double)trp__f16_to_f32(((const uint16_t *)at)[k]);
        break;
    case TRP_BF16:
        for (int64_t i = 0; i < count; i++, k += step)
            out[i] = (double)trp__bf16_to_f32(((const uint16_t *)at)[k]);
        break;
    case TRP_F8E4M3:
        for (int64_t i = 0; i < count; i++, k += step)
            out[i] = (double)trp__f8e4m3_to_f32(((const uint8_t *)at)[k]);
        break;
    case TRP_F8E5M2:
        for (int64_t i = 0; i < count; i++, k += step)
            out[i] = (double)trp__f8e5m2_to_f32(((const uint8_t *)at)[k]);
        break;
    case TRP_I32:
        for (int64_t i = 0; i < count; i++, k += step)
            out[i] = (double)((const int32_t *)at)[k];
        break;
    default: /* i8 */
        for (int64_t i = 0; i < count; i++, k += step)
            out[i] = (double)((const int8_t *)at)[k];
    }
}

static int8_t to_i8(double value)
{
    double rounded = nearbyint(value);
    if (rounded != rounded)
        return 0;
    return rounded <= INT8_MIN ? INT8_MIN : rounded >= INT8_MAX ? INT8_MAX : (int8_t)rounded;
}

/* Stores values of the compute type; a narrow type is only stored from f32. */
static void store(trp_dtype type, void *at, int64_t first, int64_t step, int64_t count,
                  const double *from)
{
    int64_t k = first;
    switch (type) {
    case TRP_F64:
        for (int64_t i = 0; i < count; i++, k += step)
            ((double *)at)[k] = from[i];
        break;
    case TRP_F32:
        for (int64_t i = 0; i < count; i++, k += step)
            ((float *)at)[k] = (float)from[i];
        break;
    case TRP_F16:
        for (int64_t i = 0; i < count; i++, k += step)
            ((uint16_t *)at)[k] = trp__f32_to_f16((float)from[i]);
        break;
    case TRP_BF16:
        for (int64_t i = 0; i < count; i++, k += step)
            ((uint16_t *)at)[k] = trp__f32_to_bf16((float)from[i]);
        break;
    case TRP_F8E4M3:
        for (int64_t i = 0; i < count; i++, k += step)
            ((uint8_t *)at)[k] = trp__f32_to_f8e4m3((float)from[i]);
        break;
    case TRP_F8E5M2:
        for (int64_t i = 0; i < count; i++, k += step)
            ((uint8_t *)at)[k] = trp__f32_to_f8e5m2((float)from[i]);
        break;
    default: /* i8 */
        for (int64_t i = 0; i < count; i++, k += step)
            ((int8_t *)at)[k] = to_i8(from[i]);
    }
}

static void round_to(trp_dtype type, double *values, int64_t count)
{
    unsigned char narrow[BLOCK * sizeof(double)];
    store(type, narrow, 0, 1, count, values);
    load(type, narrow, 0, 1, count, values);
}

static void round_to_compute(const trp__tree *t, double *values, int64_t count)
{
    for (int64_t i = 0; t->compute == TRP_F32 && i < count; i++)
        values[i] = (double)(float)values[i];
}

static bool is_reduction(const trp__tree_node *x)
{
    return x->op >= TRP__TREE_REDUCE_ROWS && x->op <= TRP__TREE_REDUCE_ALL;
}

static int64_t results_of(const trp__tree_eval *e, const trp__tree_node *x)
{
    return x->op == TRP__TREE_REDUCE_ROWS ? e->m : x->op == TRP__TREE_REDUCE_COLUMNS ? e->n : 1;
}

/* Returns the number of results along the batch: one if all members share them. */
static int64_t members_of(const trp__tree_eval *e, const trp__tree_node *x)
{
    return e->slot[x->slot].stride == 0 ? 1 : e->batch;
}

static double neutral(uint8_t reduction)
{
    return reduction == TRP_REDUCTION_MAX   ? (double)-INFINITY
           : reduction == TRP_REDUCTION_MIN ? (double)INFINITY
                                            : 0;
}

static void reduce(uint8_t reduction, double *sum, double value)
{
    switch (reduction) {
    case TRP_REDUCTION_SUM:
        *sum += value;
        break;
    case TRP_REDUCTION_MAX:
        *sum = fmax(*sum, value);
        break;
    case TRP_REDUCTION_MIN:
        *sum = fmin(*sum, value);
        break;
    default:
        *sum = fmax(*sum, fabs(value));
    }
}

int64_t trp__tree_eval_sums(const trp__tree_eval *e)
{
    int64_t count = 0;
    for (uint32_t i = 0; i < e->tree->count; i++) {
        const trp__tree_node *x = &e->tree->node[i];
        int64_t more;
        if (is_reduction(x) && (__builtin_mul_overflow(results_of(e, x), members_of(e, x), &more) ||
                                __builtin_add_overflow(count, more, &count)))
            return INT64_MAX;
    }
    return count;
}

void trp__tree_eval_begin(const trp__tree_eval *e)
{
    double *sum = e->sums;
    for (uint32_t i = 0; i < e->tree->count; i++) {
        const trp__tree_node *x = &e->tree->node[i];
        int64_t count = is_reduction(x) ? results_of(e, x) * members_of(e, x) : 0;
        for (int64_t k = 0; k < count; k++)
            *sum++ = neutral(x->detail);
    }
}

void trp__tree_eval_end(const trp__tree_eval *e)
{
    double *sum = e->sums;
    for (uint32_t i = 0; i < e->tree->count; i++) {
        const trp__tree_node *x = &e->tree->node[i];
        const trp__tree_data *out = &e->slot[x->slot];
        int64_t results = results_of(e, x);
        for (int64_t l = 0; is_reduction(x) && l < members_of(e, x); l++, sum += results)
            store((trp_dtype)e->tree->compute, out->at, l * out->stride, 1, results, sum);
    }
}

/* A line of a tile: `count` elements from (row, column) on, along a row or a column. */
typedef struct line {
    int64_t row, column, count, batch;
    bool along_row;
    const trp__tree_tile *tile;
    double value[TRP__TREE_NODES_MAX][BLOCK];
} line;

/* Returns the index of element (row, column) of the line's batch in a matrix, and the distance to
 * the next element. */
static int64_t place_in(const line *l, const trp__tree_data *x, uint8_t order, int64_t *step)
{
    bool row_major = order == TRP_ROW_MAJOR;
    *step = l->along_row == row_major ? 1 : x->ld;
    return l->batch * x->stride +
           (row_major ? l->row * x->ld + l->column : l->column * x->ld + l->row);
}

static void load_sums(const line *l, double *out)
{
    const trp__tree_tile *t = l->tile;
    bool row_major = t->acc_order == TRP_ROW_MAJOR;
    int64_t i = l->row - t->row, j = l->column - t->column;
    load(t->acc_type, t->acc, row_major ? i * t->acc_ld + j : j * t->acc_ld + i,
         l->along_row == row_major ? 1 : t->acc_ld, l->count, out);
}

static void load_vector(const line *l, const trp__tree_data *x, uint8_t type, bool per_row,
                        double *out)
{
    bool varies = per_row != l->along_row;
    load((trp_dtype)type, x->at, l->batch * x->stride + (per_row ? l->row : l->column),
         varies ? 1 : 0, l->count, out);
}

static void reduce_line(const trp__tree_eval *e, const line *l, const trp__tree_node *x,
                        double *sums, const double *from)
{
    int64_t member = members_of(e, x) == 1 ? 0 : l->batch;
    bool by_row = x->op == TRP__TREE_REDUCE_ROWS, all = x->op == TRP__TREE_REDUCE_ALL;
    int64_t at = member * results_of(e, x) + (all ? 0 : by_row ? l->row : l->column);
    int64_t step = all || by_row == l->along_row ? 0 : 1;
    for (int64_t i = 0; i < l->count; i++)
        reduce(x->detail, &sums[at + i * step], from[i]);
}

static void evaluate_function(const trp__tree *t, line *l, uint32_t node)
{
    const trp__tree_node *x = &t->node[node];
    uint32_t inputs = trp__tree_inputs(x);
    double v[TRP__TREE_INPUTS] = {0};
    for (int64_t i = 0; i < l->count; i++) {
        for (uint32_t p = 0; p < inputs; p++)
            v[p] = l->value[x->input[p]][i];
        /* A product of two f32 is exact in f64, but then a sum would be rounded twice. */
        l->value[node][i] = x->detail == TRP__FN_fma && t->compute == TRP_F32
                                ? (double)fmaf((float)v[0], (float)v[1], (float)v[2])
                                : trp__tree_evaluate(x->detail, v);
    }
    round_to_compute(t, l->value[node], l->count);
}

static void evaluate_line(const trp__tree_eval *e, line *l)
{
    const trp__tree *t = e->tree;
    const trp__tree_data *c = &e->slot[TRP__TREE_SLOT_C], *d = &e->slot[TRP__TREE_SLOT_D];
    double *sums = e->sums;
    int64_t step, at;
    for (uint32_t i = 0; i < t->count; i++) {
        const trp__tree_node *x = &t->node[i];
        const trp__tree_data *s = &e->slot[x->slot];
        double *out = l->value[i], *in = l->value[x->input[0]];
        switch (x->op) {
        case TRP__TREE_ACCUMULATOR:
            load_sums(l, out);
            round_to_compute(t, out, l->count);
            break;
        case TRP__TREE_C:
            at = place_in(l, c, t->order, &step);
            load((trp_dtype)t->c, c->at, at, step, l->count, out);
            break;
        case TRP__TREE_SCALAR:
            if (s->at)
                load((trp_dtype)t->compute, s->at, l->batch * s->stride, 0, l->count, out);
            for (int64_t k = 0; !s->at && k < l->count; k++)
                out[k] = s->value;
            round_to_compute(t, out, l->count);
            break;
        case TRP__TREE_PER_ROW:
        case TRP__TREE_PER_COLUMN:
            load_vector(l, s, x->type, x->op == TRP__TREE_PER_ROW, out);
            break;
        case TRP__TREE_LOAD:
            at = place_in(l, s, x->detail, &step);
            load((trp_dtype)x->type, s->at, at, step, l->count, out);
            break;
        case TRP__TREE_FUNCTION:
            evaluate_function(t, l, i);
            break;
        case TRP__TREE_CONVERT:
            memcpy(out, in, (size_t)l->count * sizeof *out);
            round_to((trp_dtype)x->type, out, l->count);
            break;
        case TRP__TREE_STORE:
            at = place_in(l, s, x->detail, &step);
            store((trp_dtype)x->type, s->at, at, step, l->count, in);
            break;
        default:
            reduce_line(e, l, x, sums, in);
            sums += results_of(e, x) * members_of(e, x);
        }
    }
    at = place_in(l, d, t->order, &step);
    store((trp_dtype)t->d, d->at, at, step, l->count, l->value[t->root]);
}

void trp__tree_eval_tile(const trp__tree_eval *e, const trp__tree_tile *tile)
{
    bool along_row = e->tree->order == TRP_ROW_MAJOR;
    int64_t lines = along_row ? tile->rows : tile->columns;
    int64_t length = along_row ? tile->columns : tile->rows;
    line l = {.along_row = along_row, .tile = tile, .batch = tile->batch};
    for (int64_t k = 0; k < lines; k++) {
        for (int64_t i = 0; i < length; i += BLOCK) {
            l.row = tile->row + (along_row ? k : i);
            l.column = tile->column + (along_row ? i : k);
            l.count = length - i < BLOCK ? length - i : BLOCK;
            evaluate_line(e, &l);
        }
    }
}
