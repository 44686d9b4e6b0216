/* See dnn_reference.h: attention and its gradient, one score at a time.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/dnn_reference.h"

#include <math.h>
#include <stdlib.h>

typedef struct attention {
    const dr_work *w;
    const dr_tensor *q, *k, *v, *bias, *slopes, *seq_q, *seq_kv;
    double scale, u;
    /* precision to which weights and their gradients may be rounded before the next product, */
    double narrow;
    double least;      /* and the least error of that */
    double *score, *e; /* of one row */
    double dropout;
    uint64_t seed, offset;
} attention;

static double narrow_of(const dr_work *w, const dr_tensor *q)
{
    if (!w->g->fused)
        return 0;
    return q->type == TRP_BF16 ? 0x1p-8 : q->type == TRP_F16 ? 0x1p-11 : 0;
}

static attention begin(const dr_work *w)
{
    const trp_dnn_node *n = w->n;
    attention a = {.w = w,
                   .q = dr_of(w, n->q),
                   .k = dr_of(w, n->k),
                   .v = dr_of(w, n->v),
                   .bias = dr_of(w, n->bias),
                   .slopes = dr_of(w, n->slopes),
                   .seq_q = dr_of(w, n->seq_q),
                   .seq_kv = dr_of(w, n->seq_kv),
                   .u = w->u * (w->g->fused ? 4 : 1)};
    const double d = (double)a.q->dim[3];
    a.narrow = narrow_of(w, a.q);
    a.least = a.narrow > 0 && a.q->type == TRP_F16 ? 0x1p-25 : 0;
    a.dropout = n->parameter[1].re;
    a.seed = dr_integer(w, n->seed);
    a.offset = dr_integer(w, n->offset);
    a.scale = n->parameter[0].given ? n->parameter[0].re : d > 0 ? 1 / sqrt(d) : 1;
    a.score = calloc((size_t)a.k->dim[2] + 1, sizeof *a.score);
    a.e = calloc((size_t)a.k->dim[2] + 1, sizeof *a.e);
    if (!a.score || !a.e)
        abort();
    return a;
}

static void end(attention *a)
{
    free(a->score);
    free(a->e);
}

static size_t at(const dr_tensor *t, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return dr_at(t, (int64_t[]){b, h, i, j});
}

/* Returns the head of k and v for a head of q. */
static int64_t shared(const attention *a, int64_t h)
{
    return h / (a->q->dim[1] / a->k->dim[1]);
}

static int64_t length(const dr_tensor *lengths, int64_t b, int64_t size)
{
    double l = lengths ? lengths->v[b] : (double)size;
    return (int64_t)fmin(fmax(l, 0), (double)size);
}

static bool sees(const attention *a, int64_t b, int64_t i, int64_t j)
{
    const trp_dnn_node *n = a->w->n;
    const int64_t rows = length(a->seq_q, b, a->q->dim[2]);
    const int64_t columns = length(a->seq_kv, b, a->k->dim[2]);
    const bool low = n->mask == TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT;
    const int64_t diagonal = i + (low ? columns - rows : 0);
    return i < rows && j < columns && (n->mask == TRP_DNN_MASK_NONE || j <= diagonal) &&
           (n->window[0] == 0 || j + n->window[0] > diagonal);
}

/* Computes the scores of a row, minus infinity for hidden columns; false: it sees no column. */
static bool scores(attention *a, int64_t b, int64_t h, int64_t i)
{
    bool any = false;
    for (int64_t j = 0; j < a->k->dim[2]; j++) {
        dr_sum s = {0};
        a->score[j] = -INFINITY;
        a->e[j] = 0;
        if (!sees(a, b, i, j))
            continue;
        for (int64_t d = 0; d < a->q->dim[3]; d++) {
            const size_t x = at(a->q, b, h, i, d), y = at(a->k, b, shared(a, h), j, d);
            dr_add(&s, a->q->v[x] * a->k->v[y],
                   fabs(a->q->v[x]) * a->k->e[y] + fabs(a->k->v[y]) * a->q->e[x]);
        }
        double score = a->scale * s.v, size = fabs(score);
        double e = fabs(a->scale) * (dr_bound(&s, a->u) + 2 * a->u * s.size);
        if (a->bias) {
            const size_t x = at(a->bias, b, h, i, j);
            score += a->bias->v[x];
            size += fabs(a->bias->v[x]);
            e += a->bias->e[x];
        }
        if (a->slopes) {
            const double by = a->slopes->v[h] * (double)(j - i);
            score += by;
            size += fabs(by);
        }
        a->score[j] = score;
        a->e[j] = e + 4 * a->u * size;
        any = any || score != -INFINITY;
    }
    return any;
}

/* Returns the logarithm of the sum of a row, and its bound. */
static double logarithm(const attention *a, double *e)
{
    double most = -INFINITY, sum = 0, n = 0, off = 0;
    for (int64_t j = 0; j < a->k->dim[2]; j++)
        most = fmax(most, a->score[j]);
    for (int64_t j = 0; j < a->k->dim[2]; j++) {
        if (a->score[j] == -INFINITY)
            continue;
        const double power = exp(a->score[j] - most);
        sum += power;
        off += power * (a->e[j] + a->u * (fabs(a->score[j]) + fabs(most)));
        n++;
    }
    *e = off / sum + (n + 8) * a->u + 4 * a->u * (fabs(most) + fabs(log(sum)));
    return most + log(sum);
}

/* Returns the weight of a column, from the logarithm. */
static double weight(const attention *a, int64_t j, double log_sum, double log_e, double *e)
{
    *e = 0;
    if (a->score[j] == -INFINITY || log_sum == -INFINITY)
        return 0;
    const double by = exp(a->score[j] - log_sum);
    const double off = a->e[j] + log_e + 2 * a->u * (fabs(a->score[j]) + fabs(log_sum) + 4);
    *e = by * (expm1(off) + a->narrow) + a->least;
    return by;
}

/* Returns the factor of a weight, which dropout sets. */
static double factor(const attention *a, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const int64_t row = (b * a->q->dim[1] + h) * a->q->dim[2] + i;
    if (a->dropout == 0)
        return 1;
    const uint64_t number = (uint64_t)(row * a->k->dim[2] + j);
    return dr_fraction(false, a->seed, a->offset, number) < a->dropout ? 0 : 1 / (1 - a->dropout);
}

void dr_attention(const dr_work *w)
{
    attention a = begin(w);
    dr_tensor *y = dr_of(w, w->n->y), *stats = dr_of(w, w->n->stats);
    int64_t p[4] = {0};
    for (bool more = y->count > 0 || (stats && stats->count > 0); more;
         more = dr_step(3, a.q->dim, p)) {
        double log_e = 0, e;
        const bool any = scores(&a, p[0], p[1], p[2]);
        const double log_sum = any ? logarithm(&a, &log_e) : -INFINITY;
        if (stats) {
            stats->v[dr_at(stats, p)] = log_sum;
            stats->e[dr_at(stats, p)] = log_e;
        }
        for (int64_t d = 0; d < a.v->dim[3]; d++) {
            dr_sum s = {0};
            for (int64_t j = 0; any && j < a.k->dim[2]; j++) {
                const size_t x = at(a.v, p[0], shared(&a, p[1]), j, d);
                const double kept = factor(&a, p[0], p[1], p[2], j);
                const double by = kept * weight(&a, j, log_sum, log_e, &e);
                e = kept * e + (kept != 1 ? 2 * a.u * by : 0);
                if (by != 0 || e != 0)
                    dr_add(&s, by * a.v->v[x], by * a.v->e[x] + fabs(a.v->v[x]) * e);
            }
            const size_t to = at(y, p[0], p[1], p[2], d);
            y->v[to] = s.v;
            y->e[to] = dr_bound(&s, a.u) + 4 * a.u * s.size;
        }
    }
    end(&a);
}

/* --- the gradient --- */

static dr_sum *sums_of(const dr_tensor *t)
{
    dr_sum *sums = calloc((t ? t->count : 0) + 1, sizeof *sums);
    if (!sums)
        abort();
    return sums;
}

/* Adds terms, each of which may have been rounded once more. */
static void take(const attention *a, dr_tensor *t, dr_sum *sums, double narrow)
{
    for (size_t i = 0; t && i < t->count; i++) {
        t->v[i] = sums[i].v;
        t->e[i] = dr_bound(&sums[i], a->u) + (4 * a->u + narrow) * sums[i].size;
    }
    free(sums);
}

static dr_sum dot(const attention *a, const dr_tensor *x, const int64_t *p, const dr_tensor *y,
                  int64_t h, int64_t row)
{
    dr_sum s = {0};
    for (int64_t d = 0; d < a->v->dim[3]; d++) {
        const size_t i = at(x, p[0], p[1], p[2], d), j = at(y, p[0], h, row, d);
        dr_add(&s, x->v[i] * y->v[j], fabs(x->v[i]) * y->e[j] + fabs(y->v[j]) * x->e[i]);
    }
    s.e = dr_bound(&s, a->u);
    return s;
}

static void product(dr_sum *s, double v, double e, const dr_tensor *t, size_t i)
{
    dr_add(s, v * t->v[i], fabs(v) * t->e[i] + e * fabs(t->v[i]) + e * t->e[i]);
}

void dr_attention_backward(const dr_work *w)
{
    attention a = begin(w);
    const dr_tensor *y = dr_of(w, w->n->y), *dy = dr_of(w, w->n->dy);
    const dr_tensor *stats = dr_of(w, w->n->stats);
    dr_tensor *dq = dr_of(w, w->n->dq), *dk = dr_of(w, w->n->dk), *dv = dr_of(w, w->n->dv);
    dr_tensor *dbias = dr_of(w, w->n->dbias);
    dr_sum *q = sums_of(dq), *k = sums_of(dk), *v = sums_of(dv), *bias = sums_of(dbias);
    const double heads = a.q->dim[1] == a.k->dim[1] ? 0 : a.narrow;
    int64_t p[4] = {0};
    for (bool more = a.q->dim[0] * a.q->dim[1] * a.q->dim[2] > 0; more;
         more = dr_step(3, a.q->dim, p)) {
        if (!scores(&a, p[0], p[1], p[2]))
            continue;
        const size_t row = dr_at(stats, p);
        const int64_t h = shared(&a, p[1]);
        const dr_sum mean = dot(&a, dy, p, y, p[1], p[2]);
        for (int64_t j = 0; j < a.k->dim[2]; j++) {
            double e, by = weight(&a, j, stats->v[row], stats->e[row], &e);
            if (by == 0 && e == 0)
                continue;
            const double kept = factor(&a, p[0], p[1], p[2], j);
            const double kept_e = kept * e + (kept != 1 ? 2 * a.u * kept * by : 0);
            const dr_sum slope = dot(&a, dy, p, a.v, h, j);
            const double away = kept * slope.v - mean.v;
            const double off =
                kept * slope.e + mean.e + 4 * a.u * (kept * fabs(slope.v) + fabs(mean.v));
            const double ds = by * away;
            const double ds_e =
                e * fabs(away) + by * off + e * off + (4 * a.u + a.narrow) * fabs(ds) + a.least;
            for (int64_t d = 0; d < a.v->dim[3]; d++)
                product(&v[at(dv, p[0], h, j, d)], kept * by, kept_e, dy,
                        at(dy, p[0], p[1], p[2], d));
            for (int64_t d = 0; d < a.q->dim[3]; d++) {
                product(&q[at(dq, p[0], p[1], p[2], d)], a.scale * ds, fabs(a.scale) * ds_e, a.k,
                        at(a.k, p[0], h, j, d));
                product(&k[at(dk, p[0], h, j, d)], a.scale * ds, fabs(a.scale) * ds_e, a.q,
                        at(a.q, p[0], p[1], p[2], d));
            }
            if (dbias)
                dr_add(&bias[at(dbias, p[0], p[1], p[2], j)], ds, ds_e);
        }
    }
    take(&a, dq, q, 0);
    take(&a, dk, k, heads);
    take(&a, dv, v, heads);
    take(&a, dbias, bias, 0);
    end(&a);
}
