/* Attention in float64: the result from the inputs; gradients from the computed result and stats,
 * which are compared first. */
#include "attention.h"
#include "layer_check.h"
#include "ui/ui.h"

#include <math.h>
#include <stdlib.h>

typedef struct reference {
    const attention *job;
    double *value[LAYER_TENSORS]; /* values of each present tensor, in the order of its file */
    double scale, unit;
    double narrow; /* rounding of weights and gradients of scores before a product */
    /* One row of scores, shared by consecutive elements. */
    uint64_t row_at; /* its index; UINT64_MAX: none yet */
    check_number *weight, log_sum;
    int64_t first, end;
} reference;

/* Returns the index of an element of a tensor with four dimensions. */
static uint64_t place(const attention *job, int which, int64_t b, int64_t h, int64_t i, int64_t d)
{
    const file_array *file = &job->layer.tensor[which].file;
    int64_t y = job->interleaved ? i : h, z = job->interleaved ? h : i;
    return ((uint64_t)(b * (int64_t)file->dim[1] + y) * file->dim[2] + (uint64_t)z) * file->dim[3] +
           (uint64_t)d;
}

/* The inverse of place(). */
static void position(const attention *job, int which, uint64_t at, int64_t p[4])
{
    const file_array *file = &job->layer.tensor[which].file;
    for (int i = 4; i-- > 0;) {
        p[i] = (int64_t)(at % file->dim[i]);
        at /= file->dim[i];
    }
    if (job->interleaved) {
        int64_t row = p[1];
        p[1] = p[2];
        p[2] = row;
    }
}

/* Returns the index of an element of bias, whose dimensions are the last ones, or 1. */
static uint64_t bias_place(const attention *job, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const file_array *file = &job->layer.tensor[ATTENTION_BIAS].file;
    const int64_t p[] = {b, h, i, j};
    uint64_t at = 0;
    for (uint32_t k = 0; k < file->rank; k++)
        at = at * file->dim[k] + (file->dim[k] == 1 ? 0 : (uint64_t)p[4 - file->rank + k]);
    return at;
}

static uint64_t stats_place(const attention *job, int64_t b, int64_t h, int64_t i)
{
    return (uint64_t)((b * job->heads + h) * job->rows + i);
}

static int64_t shared_head(const attention *job, int64_t head)
{
    return head / (job->heads / job->shared);
}

/* Bounds the error of a sum of n terms: 16 + 4 sqrt(n) units of their sizes (Higham, Accuracy and
 * Stability, section 3.5). */
static double off(const reference *r, double n)
{
    return r->unit * (16 + 4 * sqrt(n));
}

static check_number dot(const reference *r, const double *x, const double *y, int64_t n)
{
    double sum = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += x[i] * y[i];
        size += fabs(x[i] * y[i]);
    }
    return (check_number){sum, off(r, (double)n) * size};
}

static check_number score(const reference *r, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const attention *job = r->job;
    const double *q = r->value[ATTENTION_Q] + place(job, ATTENTION_Q, b, h, i, 0);
    const double *k = r->value[ATTENTION_K] + place(job, ATTENTION_K, b, shared_head(job, h), j, 0);
    check_number s = dot(r, q, k, job->depth);
    s.x *= r->scale;
    s.bound *= fabs(r->scale);
    double size = fabs(s.x);
    if (r->value[ATTENTION_BIAS]) {
        double bias = r->value[ATTENTION_BIAS][bias_place(job, b, h, i, j)];
        s.x += bias;
        size += fabs(bias);
    }
    if (r->value[ATTENTION_SLOPES]) {
        double by = r->value[ATTENTION_SLOPES][h] * (double)(j - i);
        s.x += by;
        size += fabs(by);
    }
    s.bound += 8 * r->unit * size;
    return s;
}

static check_number exponential(const reference *r, check_number s, check_number log_sum)
{
    check_number w = {.x = exp(s.x - log_sum.x)};
    w.bound =
        w.x * (expm1(s.bound + log_sum.bound + 8 * r->unit * (fabs(s.x) + fabs(log_sum.x) + 1)) +
               r->narrow);
    return w;
}

/* Applies dropout to a weight. */
static check_number kept(const reference *r, check_number weight, double factor)
{
    const double bound = weight.bound + (factor == 1 ? 0 : 4 * r->unit * fabs(weight.x));
    return (check_number){factor * weight.x, factor * bound};
}

/* Computes the weights of a row from the inputs. */
static void take_row(reference *r, int64_t b, int64_t h, int64_t i)
{
    const uint64_t at = stats_place(r->job, b, h, i);
    double most = -INFINITY, sum = 0, bound = 0;
    if (r->row_at == at)
        return;
    r->row_at = at;
    attention_seen(r->job, b, i, &r->first, &r->end);
    for (int64_t j = r->first; j < r->end; j++) {
        r->weight[j] = score(r, b, h, i, j);
        most = fmax(most, r->weight[j].x);
    }
    for (int64_t j = r->first; j < r->end && most > -INFINITY; j++) {
        double power = exp(r->weight[j].x - most);
        sum += power;
        bound += power * r->weight[j].bound;
    }
    r->log_sum = (check_number){-INFINITY, 0};
    if (most > -INFINITY || isnan(most))
        r->log_sum =
            (check_number){most + log(sum), bound / sum + off(r, (double)(r->end - r->first)) +
                                                8 * r->unit * fabs(most)};
    for (int64_t j = r->first; j < r->end; j++)
        r->weight[j] = r->log_sum.x == -INFINITY ? (check_number){0}
                                                 : kept(r, exponential(r, r->weight[j], r->log_sum),
                                                        attention_kept(r->job, b, h, i, j));
}

static check_number stats_element(const void *user, uint64_t at)
{
    reference *r = (reference *)user;
    const attention *job = r->job;
    int64_t row = (int64_t)at % job->rows, head = (int64_t)at / job->rows % job->heads;
    take_row(r, (int64_t)at / job->rows / job->heads, head, row);
    return r->log_sum;
}

static check_number y_element(const void *user, uint64_t at)
{
    reference *r = (reference *)user;
    const attention *job = r->job;
    int64_t p[4];
    double size = 0;
    check_number y = {0};
    position(job, ATTENTION_Y, at, p);
    take_row(r, p[0], p[1], p[2]);
    for (int64_t j = r->first; j < r->end; j++) {
        double v =
            r->value[ATTENTION_V][place(job, ATTENTION_V, p[0], shared_head(job, p[1]), j, p[3])];
        y.x += r->weight[j].x * v;
        y.bound += r->weight[j].bound * fabs(v);
        size += fabs(r->weight[j].x * v);
    }
    y.bound += off(r, (double)(r->end - r->first)) * size;
    return y;
}

/* Gradients. */

typedef struct pair {
    check_number weight, slope; /* of one score */
} pair;

static pair pair_at(const reference *r, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const attention *job = r->job;
    pair p = {0};
    int64_t first, end;
    attention_seen(job, b, i, &first, &end);
    const check_number log_sum = {r->value[ATTENTION_STATS][stats_place(job, b, h, i)], 0};
    if (j < first || j >= end || log_sum.x == -INFINITY)
        return p;
    const double *dy = r->value[ATTENTION_DY] + place(job, ATTENTION_DY, b, h, i, 0);
    const double *y = r->value[ATTENTION_Y] + place(job, ATTENTION_Y, b, h, i, 0);
    const double *v = r->value[ATTENTION_V] + place(job, ATTENTION_V, b, shared_head(job, h), j, 0);
    const double factor = attention_kept(job, b, h, i, j);
    const check_number mean = dot(r, dy, y, job->width);
    const check_number product = kept(r, dot(r, dy, v, job->width), factor);
    const check_number weight = exponential(r, score(r, b, h, i, j), log_sum);
    p.weight = kept(r, weight, factor);
    p.slope.x = weight.x * (product.x - mean.x);
    p.slope.bound = weight.bound * fabs(product.x - mean.x) +
                    (weight.x + weight.bound) * (product.bound + mean.bound) +
                    (r->narrow + 8 * r->unit) * fabs(p.slope.x);
    return p;
}

static void add(check_number *sum, double *size, check_number by, double x)
{
    sum->x += by.x * x;
    sum->bound += by.bound * fabs(x);
    *size += fabs(by.x * x);
}

static check_number dq_element(const void *user, uint64_t at)
{
    const reference *r = user;
    const attention *job = r->job;
    int64_t p[4];
    double size = 0;
    check_number sum = {0};
    position(job, ATTENTION_DQ, at, p);
    for (int64_t j = 0; j < job->columns; j++)
        add(&sum, &size, pair_at(r, p[0], p[1], p[2], j).slope,
            r->scale * r->value[ATTENTION_K]
                               [place(job, ATTENTION_K, p[0], shared_head(job, p[1]), j, p[3])]);
    sum.bound += off(r, (double)job->columns) * size;
    return sum;
}

/* Sums dk or dv over all rows of the heads that share one of k and v; partial sums may have been
 * rounded. */
static check_number column_element(const reference *r, int which, uint64_t at)
{
    const attention *job = r->job;
    const int64_t group = job->heads / job->shared;
    int64_t p[4];
    double size = 0;
    check_number sum = {0};
    position(job, which, at, p);
    for (int64_t h = p[1] * group; h < (p[1] + 1) * group; h++) {
        for (int64_t i = 0; i < job->rows; i++) {
            pair one = pair_at(r, p[0], h, i, p[2]);
            if (which == ATTENTION_DK)
                add(&sum, &size, one.slope,
                    r->scale * r->value[ATTENTION_Q][place(job, ATTENTION_Q, p[0], h, i, p[3])]);
            else
                add(&sum, &size, one.weight,
                    r->value[ATTENTION_DY][place(job, ATTENTION_DY, p[0], h, i, p[3])]);
        }
    }
    sum.bound += (off(r, (double)(group * job->rows)) + (group > 1 ? r->narrow : 0)) * size;
    return sum;
}

static check_number dk_element(const void *user, uint64_t at)
{
    return column_element(user, ATTENTION_DK, at);
}

static check_number dv_element(const void *user, uint64_t at)
{
    return column_element(user, ATTENTION_DV, at);
}

static check_number dbias_element(const void *user, uint64_t at)
{
    const reference *r = user;
    const attention *job = r->job;
    const file_array *file = &job->layer.tensor[ATTENTION_BIAS].file;
    int64_t least[4] = {0}, most[] = {job->batches, job->heads, job->rows, job->columns};
    double size = 0, count = 0;
    check_number sum = {0};
    for (uint32_t i = file->rank; i-- > 0;) {
        if (file->dim[i] != 1) {
            least[4 - file->rank + i] = (int64_t)(at % file->dim[i]);
            most[4 - file->rank + i] = least[4 - file->rank + i] + 1;
        }
        at /= file->dim[i];
    }
    for (int64_t b = least[0]; b < most[0]; b++)
        for (int64_t h = least[1]; h < most[1]; h++)
            for (int64_t i = least[2]; i < most[2]; i++)
                for (int64_t j = least[3]; j < most[3]; j++) {
                    add(&sum, &size, pair_at(r, b, h, i, j).slope, 1);
                    count++;
                }
    sum.bound += off(r, count) * size;
    return sum;
}

/* All. */

static bool fill(attention *job, reference *r)
{
    bool ok =
        layer_fetch_one(&job->layer, ATTENTION_Y) && layer_fetch_one(&job->layer, ATTENTION_STATS);
    r->weight = calloc((size_t)job->columns, sizeof *r->weight);
    if (!r->weight)
        ui_error("check: out of memory");
    for (int i = 0; i < LAYER_TENSORS && ok; i++) {
        const tensor *t = &job->layer.tensor[i];
        bool there = i != ATTENTION_SEQ_Q && i != ATTENTION_SEQ_KV && t->use != OPERAND_ABSENT &&
                     (t->use == OPERAND_INPUT || i == ATTENTION_Y || i == ATTENTION_STATS);
        ok = !there || (r->value[i] = tensor_values(t, false));
    }
    return ok && r->weight;
}

static bool compare(const reference *r, int which,
                    check_number (*element)(const void *user, uint64_t at), double terms,
                    uint64_t began)
{
    return check_result(&r->job->layer.tensor[which], terms, element, r, began);
}

bool attention_check(attention *job)
{
    const check_type type = check_type_of(job->type);
    const double each = (double)(job->depth + job->width), rows = (double)job->rows;
    const int64_t heads = job->heads / job->shared;
    const double columns = (double)job->columns, group = (double)heads;
    const double scores = (double)(job->batches * job->heads) * rows * columns;
    const double biases = (double)tensor_elements(&job->layer.tensor[ATTENTION_BIAS]);
    uint64_t began = ui_now();
    ui_progress("checking against float64");
    reference r = {.job = job,
                   .scale = attention_scale(job),
                   .unit = check_unit(job->type),
                   .row_at = UINT64_MAX};
    r.narrow = job->type == TRP_F16 || job->type == TRP_BF16 ? type.unit : 0;
    bool ok = check_inputs(&job->layer) && fill(job, &r) &&
              compare(&r, ATTENTION_Y, y_element, columns * each, began) &&
              compare(&r, ATTENTION_STATS, stats_element, columns * each, began) &&
              compare(&r, ATTENTION_DQ, dq_element, columns * 2 * each, began) &&
              compare(&r, ATTENTION_DK, dk_element, rows * group * 2 * each, began) &&
              compare(&r, ATTENTION_DV, dv_element, rows * group * 2 * each, began) &&
              compare(&r, ATTENTION_DBIAS, dbias_element, scores / biases * 2 * each, began);
    for (int i = 0; i < LAYER_TENSORS; i++)
        free(r.value[i]);
    free(r.weight);
    return ok;
}
