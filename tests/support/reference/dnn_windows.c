/* See dnn_reference.h: pooling and normalisation. SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/dnn_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- pooling --- */

/* Finds the elements of x in the window at `o`; returns how many there are. `room` suffices for
 * all. */
static size_t window_at(const trp_dnn_node *n, const dr_tensor *x, const int64_t *o, size_t *list)
{
    const uint32_t spatial = x->rank - 2;
    int64_t f[TRP_DNN_SPATIAL_MAX] = {0}, in[TRP_DNN_RANK_MAX] = {o[0], o[1]};
    size_t count = 0;
    do {
        bool inside = true;
        for (uint32_t i = 0; i < spatial; i++) {
            in[2 + i] = o[2 + i] * (n->stride[i] ? n->stride[i] : 1) + f[i] - n->pre_pad[i];
            inside = inside && in[2 + i] >= 0 && in[2 + i] < x->dim[2 + i];
        }
        if (inside)
            list[count++] = dr_at(x, in);
    } while (dr_step(spatial, n->window, f));
    return count;
}

static size_t window_size(const dr_work *w, const dr_tensor *x)
{
    size_t size = 1;
    for (uint32_t i = 0; i + 2 < x->rank; i++)
        size *= (size_t)w->n->window[i];
    return size;
}

/* Returns the divisor of a mean: the part of the window that lies in the image, or also in its
 * padding. */
static double divisor(const dr_work *w, const dr_tensor *x, const int64_t *o, size_t count)
{
    const trp_dnn_node *n = w->n;
    double by = 1;
    if (n->resample == TRP_DNN_POOL_AVERAGE)
        return (double)count;
    for (uint32_t i = 0; i + 2 < x->rank; i++) {
        const int64_t padded = x->dim[2 + i] + n->pre_pad[i] + n->post_pad[i];
        const int64_t begin = o[2 + i] * (n->stride[i] ? n->stride[i] : 1);
        by *= (double)(begin + n->window[i] < padded ? n->window[i] : padded - begin);
    }
    return by;
}

/* Returns the first of the largest elements; the first NaN, if there is one. */
static size_t largest(const dr_tensor *x, const size_t *list, size_t count)
{
    size_t best = list[0];
    for (size_t i = 1; i < count && !isnan(x->v[best]); i++)
        best = x->v[list[i]] > x->v[best] || isnan(x->v[list[i]]) ? list[i] : best;
    return best;
}

void dr_pool(const dr_work *w)
{
    const dr_tensor *x = dr_of(w, w->n->x);
    dr_tensor *y = dr_of(w, w->n->y);
    const size_t size = window_size(w, x);
    size_t *list = malloc(size * sizeof *list);
    int64_t o[TRP_DNN_RANK_MAX] = {0};
    for (bool more = y->count > 0; more && list; more = dr_next(y, o)) {
        size_t count = window_at(w->n, x, o, list), to = dr_at(y, o);
        dr_sum s = {0};
        double e = 0;
        for (size_t i = 0; i < count; i++) {
            dr_add(&s, x->v[list[i]], x->e[list[i]]);
            e = fmax(e, x->e[list[i]]);
        }
        double by = divisor(w, x, o, count);
        bool most = w->n->resample == TRP_DNN_POOL_MAX;
        y->v[to] = most ? x->v[largest(x, list, count)] : s.v / by;
        y->e[to] = most ? e : (dr_bound(&s, w->u) + 2 * w->u * s.size) / by;
    }
    free(list);
}

/* Returns the pooled tensor, for which an index may stand. */
static const dr_tensor *pooled(const dr_work *w)
{
    for (uint32_t i = 0; !w->n->x && w->n->index && i < w->g->nodes; i++) {
        const trp_dnn_node *forward = &w->g->node[i];
        if (forward->kind == TRP_DNN_RESAMPLE_FORWARD && forward->index == w->n->index)
            return dr_of(w, forward->x);
    }
    return dr_of(w, w->n->x);
}

void dr_pool_backward(const dr_work *w)
{
    const dr_tensor *dy = dr_of(w, w->n->dy), *x = pooled(w);
    dr_tensor *dx = dr_of(w, w->n->dx);
    const bool most = w->n->resample == TRP_DNN_POOL_MAX;
    const size_t size = window_size(w, dx);
    size_t *list = malloc(size * sizeof *list);
    dr_sum *sums = calloc(dx->count + 1, sizeof *sums);
    int64_t o[TRP_DNN_RANK_MAX] = {0};
    for (bool more = dy->count > 0; more && list && sums; more = dr_next(dy, o)) {
        size_t count = window_at(w->n, dx, o, list), from = dr_at(dy, o);
        double by = divisor(w, dx, o, count);
        if (most)
            dr_add(&sums[largest(x, list, count)], dy->v[from], dy->e[from]);
        for (size_t i = 0; i < count && !most; i++)
            dr_add(&sums[list[i]], dy->v[from] / by, dy->e[from] / by);
    }
    for (size_t i = 0; i < dx->count && sums; i++) {
        dx->v[i] = sums[i].v;
        dx->e[i] = dr_bound(&sums[i], w->u) + (most ? 0 : 2 * w->u * sums[i].size);
    }
    free(sums);
    free(list);
}

/* --- normalisation --- */

/* Statistics of a cell, with bounds. */
typedef struct cell {
    double n, mean, mean_e, var, var_e, inv, inv_e, square;
} cell;

/* Returns the dimensions of the statistics: 1 for dimensions that they extend over. */
static dr_tensor cells_of(const dr_work *w, const dr_tensor *x)
{
    const dr_tensor *scale = dr_of(w, w->n->scale);
    dr_tensor like = {.rank = x->rank, .count = 1};
    for (uint32_t i = 0; i < x->rank; i++) {
        bool over = w->n->norm == TRP_DNN_BATCH      ? i != 1
                    : w->n->norm == TRP_DNN_INSTANCE ? i >= 2
                                                     : i >= 1 && scale->dim[i] == x->dim[i];
        like.dim[i] = over ? 1 : x->dim[i];
        like.count *= (size_t)like.dim[i];
    }
    return like;
}

static void take_mean(const dr_work *w, const dr_tensor *x, const dr_tensor *like, cell *cells)
{
    dr_sum *sums = calloc(like->count + 1, sizeof *sums);
    int64_t at[TRP_DNN_RANK_MAX] = {0};
    for (bool more = sums && x->count > 0; more; more = dr_next(x, at))
        dr_add(&sums[dr_at(like, at)], x->v[dr_at(x, at)], x->e[dr_at(x, at)]);
    for (size_t i = 0; i < like->count && sums; i++) {
        cells[i].n = sums[i].n;
        if (w->n->norm == TRP_DNN_RMS)
            continue;
        cells[i].mean = sums[i].v / sums[i].n;
        cells[i].mean_e = dr_bound(&sums[i], w->u) / sums[i].n + 2 * w->u * fabs(cells[i].mean);
    }
    free(sums);
}

/* A variance may be computed as the difference of two means, which cancels. */
static void take_variance(const dr_work *w, const dr_tensor *x, const dr_tensor *like, cell *cells)
{
    const dr_tensor *epsilon = dr_of(w, w->n->epsilon);
    int64_t at[TRP_DNN_RANK_MAX] = {0};
    for (bool more = x->count > 0; more; more = dr_next(x, at)) {
        cell *c = &cells[dr_at(like, at)];
        double v = x->v[dr_at(x, at)], e = x->e[dr_at(x, at)] + c->mean_e, d = fabs(v - c->mean);
        c->var += d * d / c->n;
        c->var_e += (2 * d * e + e * e) / c->n;
        c->square += v * v / c->n;
    }
    for (size_t i = 0; i < like->count; i++) {
        cell *c = &cells[i];
        double added = epsilon->v[0];
        c->var_e += 2 * (c->n + 4) * w->u * (c->square + c->mean * c->mean);
        c->inv = 1 / sqrt(c->var + added);
        c->inv_e = 1 / sqrt(fmax(c->var - c->var_e, 0) + added) - c->inv + 4 * w->u * c->inv;
    }
}

static void put_all(dr_tensor *t, const cell *cells, size_t value, size_t bound)
{
    for (size_t i = 0; t && i < t->count; i++) {
        memcpy(&t->v[i], (const char *)&cells[i] + value, sizeof(double));
        memcpy(&t->e[i], (const char *)&cells[i] + bound, sizeof(double));
    }
}

static void run_on(const dr_work *w, const cell *cells)
{
    const trp_dnn_node *n = w->n;
    const dr_tensor *old[2] = {dr_of(w, n->running_mean), dr_of(w, n->running_variance)};
    dr_tensor *to[2] = {dr_of(w, n->new_running_mean), dr_of(w, n->new_running_variance)};
    if (!old[0])
        return;
    double f = dr_of(w, n->average_factor)->v[0];
    for (size_t i = 0; i < to[0]->count; i++) {
        double unbiased = cells[i].n / (cells[i].n - 1);
        double now[2] = {cells[i].mean, cells[i].var * unbiased};
        double e[2] = {cells[i].mean_e, cells[i].var_e * unbiased};
        for (int k = 0; k < 2; k++) {
            to[k]->v[i] = (1 - f) * old[k]->v[i] + f * now[k];
            to[k]->e[i] = f * e[k] + old[k]->e[i] + 4 * w->u * (fabs(old[k]->v[i]) + fabs(now[k]));
        }
    }
}

/* Reads statistics that are inputs. */
static void get_cells(const dr_work *w, size_t count, cell *cells)
{
    const dr_tensor *mean = dr_of(w, w->n->mean), *inv = dr_of(w, w->n->inv_variance);
    for (size_t i = 0; i < count; i++) {
        cells[i].mean = mean ? mean->v[i] : 0;
        cells[i].mean_e = mean ? mean->e[i] : 0;
        cells[i].inv = inv->v[i];
        cells[i].inv_e = inv->e[i];
    }
}

void dr_norm(const dr_work *w)
{
    const trp_dnn_node *n = w->n;
    const dr_tensor *x = dr_of(w, n->x), *scale = dr_of(w, n->scale), *bias = dr_of(w, n->bias);
    dr_tensor *y = dr_of(w, n->y), like = cells_of(w, x);
    cell *cells = calloc(like.count + 1, sizeof *cells);
    if (!cells)
        abort();
    if (n->kind == TRP_DNN_NORM_INFERENCE && n->norm == TRP_DNN_BATCH) {
        get_cells(w, like.count, cells);
    } else {
        take_mean(w, x, &like, cells);
        take_variance(w, x, &like, cells);
    }
    if (n->kind == TRP_DNN_NORM_TRAINING) {
        put_all(dr_of(w, n->mean), cells, offsetof(cell, mean), offsetof(cell, mean_e));
        put_all(dr_of(w, n->inv_variance), cells, offsetof(cell, inv), offsetof(cell, inv_e));
        run_on(w, cells);
    }
    int64_t at[TRP_DNN_RANK_MAX] = {0};
    for (bool more = x->count > 0; more; more = dr_next(x, at)) {
        const cell *c = &cells[dr_at(&like, at)];
        size_t i = dr_at(x, at), k = dr_at(scale, at);
        double s = scale->v[k], d = x->v[i] - c->mean, b = bias ? bias->v[k] : 0;
        y->v[i] = d * c->inv * s + b;
        y->e[i] = fabs(d * s) * c->inv_e + (x->e[i] + c->mean_e) * fabs(s) * (c->inv + c->inv_e) +
                  fabs(d * c->inv) * scale->e[k] + (bias ? bias->e[k] : 0) +
                  6 * w->u * ((fabs(x->v[i]) + fabs(c->mean)) * c->inv * fabs(s) + fabs(b));
    }
    free(cells);
}

/* A normalised element, and the size of the parts from which it may be computed. */
typedef struct normed {
    double v, e, size;
} normed;

static normed norm_one(const dr_work *w, const cell *c, double x, double e)
{
    double size = (fabs(x) + fabs(c->mean)) * c->inv;
    return (normed){.v = (x - c->mean) * c->inv,
                    .e = (e + c->mean_e) * c->inv + fabs(x - c->mean) * c->inv_e + 3 * w->u * size,
                    .size = size};
}

/* y = xn * s + b with xn = (x - mean(x)) * inv(x): the two sums are the derivatives through the
 * mean and through inv. */
void dr_norm_backward(const dr_work *w)
{
    const trp_dnn_node *n = w->n;
    const dr_tensor *x = dr_of(w, n->x), *scale = dr_of(w, n->scale), *dy = dr_of(w, n->dy);
    dr_tensor *dx = dr_of(w, n->dx), *ds = dr_of(w, n->dscale), *db = dr_of(w, n->dbias);
    dr_tensor like = cells_of(w, x);
    cell *cells = calloc(like.count + 1, sizeof *cells);
    dr_sum *sums = calloc(2 * like.count + 2 * ds->count + 1, sizeof *sums);
    dr_sum *first = sums, *second = sums + like.count, *s = second + like.count, *b = s + ds->count;
    if (!cells || !sums)
        abort();
    get_cells(w, like.count, cells);
    int64_t at[TRP_DNN_RANK_MAX] = {0};
    for (bool more = x->count > 0; more; more = dr_next(x, at)) {
        size_t i = dr_at(x, at), k = dr_at(scale, at), c = dr_at(&like, at);
        normed xn = norm_one(w, &cells[c], x->v[i], x->e[i]);
        double g = dy->v[i] * scale->v[k];
        double e = dy->e[i] * fabs(scale->v[k]) + fabs(dy->v[i]) * scale->e[k] + w->u * fabs(g);
        dr_add(&b[k], dy->v[i], dy->e[i]);
        dr_add_of(&s[k], dy->v[i] * xn.v, fabs(dy->v[i]) * xn.e + dy->e[i] * xn.size,
                  fabs(dy->v[i]) * xn.size);
        dr_add(&first[c], g, e);
        dr_add_of(&second[c], g * xn.v, fabs(g) * xn.e + e * xn.size, fabs(g) * xn.size);
    }
    for (bool more = x->count > 0; more; more = dr_next(x, at)) {
        size_t i = dr_at(x, at), k = dr_at(scale, at), c = dr_at(&like, at);
        const cell *l = &cells[c];
        normed xn = norm_one(w, l, x->v[i], x->e[i]);
        double g = dy->v[i] * scale->v[k], count = first[c].n, rms = n->norm == TRP_DNN_RMS;
        double m1 = rms != 0 ? 0 : first[c].v / count, m2 = second[c].v / count;
        double e1 = rms != 0 ? 0 : dr_bound(&first[c], w->u) / count;
        double e2 = dr_bound(&second[c], w->u) / count;
        dx->v[i] = l->inv * (g - m1 - xn.v * m2);
        dx->e[i] =
            l->inv *
                (e1 + xn.size * e2 + xn.e * fabs(m2) + dy->e[i] * fabs(scale->v[k]) +
                 fabs(dy->v[i]) * scale->e[k] +
                 8 * w->u * (fabs(g) + fabs(m1) + xn.size * (fabs(m2) + second[c].size / count))) +
            fabs(dx->v[i]) / l->inv * l->inv_e;
    }
    for (size_t i = 0; i < ds->count; i++) {
        ds->v[i] = s[i].v;
        ds->e[i] = dr_bound(&s[i], w->u);
        if (db) {
            db->v[i] = b[i].v;
            db->e[i] = dr_bound(&b[i], w->u);
        }
    }
    free(sums);
    free(cells);
}
