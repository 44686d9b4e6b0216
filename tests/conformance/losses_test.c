/* Calls of a training step in the conformance suite: gathering and losses. */
#include "conformance/calls.h"

#include <math.h>

TROUPE_TEST("one isolation", "computes");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

/* --- Gathering --- */

typedef struct gather_case {
    int rank, axis, index_rank;
    bool elements;
    int64_t x[8], index[8], y[8];
    int y_rank;
} gather_case;

static gather_case draw_gather(unsigned way)
{
    if (way == 0) { /* sizes of an embedding in a model */
        const gather_case large = {.rank = 2,
                                   .index_rank = 1,
                                   .x = {80, 64},
                                   .index = {6000},
                                   .y = {6000, 64},
                                   .y_rank = 2};
        return large;
    }
    gather_case g = {.rank = (int)f_from(1, 3), .elements = f_below(3) == 0};
    g.axis = (int)f_below(g.rank);
    for (int i = 0; i < g.rank; i++)
        g.x[i] = f_from(1, i == g.axis ? 40 : 19);
    g.index_rank = g.elements ? g.rank : (int)f_from(1, 2);
    for (int i = 0; i < g.index_rank; i++)
        g.index[i] = g.elements && i != g.axis ? f_from(1, g.x[i]) : f_from(1, 30);
    for (int i = 0; i < g.rank && !g.elements; i++) {
        if (i != g.axis)
            g.y[g.y_rank++] = g.x[i];
        for (int k = 0; k < g.index_rank && i == g.axis; k++)
            g.y[g.y_rank++] = g.index[k];
    }
    for (int i = 0; i < g.rank && g.elements; i++)
        g.y[g.y_rank++] = g.index[i];
    return g;
}

/* Returns the number of the element of x that element i of y is copied from, and sets that of the
 * index. */
static int64_t source(const gather_case *g, const f_field *index, int64_t i, int64_t *which)
{
    int64_t at[8], from = 0;
    *which = 0;
    for (int k = g->y_rank - 1; k >= 0; k--) {
        at[k] = i % g->y[k];
        i /= g->y[k];
    }
    for (int k = 0; k < g->index_rank; k++)
        *which = *which * g->index[k] + at[(g->elements ? 0 : g->axis) + k];
    for (int k = 0; k < g->rank; k++) {
        const int other = g->elements || k < g->axis ? k : k - 1 + g->index_rank;
        from = from * g->x[k] + (k == g->axis ? (int64_t)index->v[*which] : at[other]);
    }
    return from;
}

static f_field *draw_index(cf_fields *p, const gather_case *g)
{
    return cf_in(p, f_below(2) ? TRP_I32 : TRP_I64, g->index_rank, g->index, 0,
                 (double)g->x[g->axis] - 1);
}

/* Copies NaN and infinities as well. */
static bool gather_forward(cf_fields *p, trp_dtype type, unsigned way)
{
    static const double most[TRP_DTYPE_COUNT] = {
        [TRP_I8] = 127, [TRP_U8] = 255, [TRP_I32] = 2e9, [TRP_BOOL] = 1};
    const gather_case g = draw_gather(way);
    const bool real = most[type] == 0;
    int64_t which;
    p->packed = way == 0 || f_below(2);
    const f_field *x = cf_in(p, type, g.rank, g.x,
                             real              ? -2
                             : type == TRP_I32 ? -2e9
                                               : 0,
                             real ? 2 : most[type]);
    const f_field *index = draw_index(p, &g);
    const f_field *y = cf_out(p, f_below(2) || !real ? type : f_real(), g.y_rank, g.y);
    double *wanted = cf_want(p, y, 0, 0, true);
    for (int64_t i = 0; i < y->count; i++)
        wanted[i] = x->v[source(&g, index, i, &which)];
    *CF_REQUEST(p, gather) =
        (trp_gather_request){.mode = g.elements ? TRP_DNN_GATHER_ELEMENTS : TRP_DNN_GATHER_SLICES,
                             .axis = (uint32_t)g.axis,
                             .x = x->t,
                             .index = index->t,
                             .y = y->t};
    return true;
}

static bool gather_backward(cf_fields *p, trp_dtype type, unsigned way)
{
    const gather_case g = draw_gather(way);
    const bool ignores = f_below(2), before = f_below(2), in_place = before && f_below(2);
    const double left_out = floor(((double)g.x[g.axis] - 1) / 2);
    int64_t which;
    p->packed = way == 0 || f_below(2);
    const f_field *index = draw_index(p, &g);
    const f_field *dy = cf_in(p, type, g.y_rank, g.y, -2, 2);
    const f_field *dx =
        in_place ? cf_in(p, f_real(), g.rank, g.x, -2, 2) : cf_out(p, f_real(), g.rank, g.x);
    const f_field *add = before && !in_place ? cf_in(p, f_real(), g.rank, g.x, -2, 2)
                         : in_place          ? dx
                                             : NULL;
    double *sum = cf_want(p, dx, 8, 64, false);
    for (int64_t i = 0; add && i < dx->count; i++)
        sum[i] = add->v[i];
    for (int64_t i = 0; i < dy->count; i++) {
        const int64_t to = source(&g, index, i, &which);
        sum[to] += ignores && index->v[which] == left_out ? 0 : dy->v[i];
    }
    trp_gather_request *r = CF_REQUEST(p, gather);
    *r = (trp_gather_request){.mode = g.elements ? TRP_DNN_GATHER_ELEMENTS : TRP_DNN_GATHER_SLICES,
                              .axis = (uint32_t)g.axis,
                              .dy = dy->t,
                              .index = index->t,
                              .dx = dx->t};
    if (add)
        r->add_dx = add->t;
    if (ignores)
        r->ignore = trp_real(left_out);
    p->may_fault = in_place;
    return true;
}

/* --- Cross-entropy --- */

typedef struct entropy {
    double loss, log_sum;
} entropy;

/* A row and its probabilities q, which are dx / dy. Sums have more bits than f64, in which the sum
 * of 50,257 equal shares would be off by more than the bound. */
static entropy entropy_of(const double *x, double *q, int64_t classes, double z)
{
    entropy e = {0};
    double most = -INFINITY;
    long double sum = 0, total = 0, loss = 0;
    for (int64_t j = 0; j < classes; j++)
        most = x[j] > most ? x[j] : most;
    for (int64_t j = 0; j < classes; j++) {
        sum += exp(x[j] - most);
        total += q[j];
    }
    e.log_sum = most + log((double)sum);
    const double factor = (double)total + 2 * z * e.log_sum;
    for (int64_t j = 0; j < classes; j++) {
        loss += q[j] == 0 ? 0 : q[j] * (e.log_sum - x[j]);
        q[j] = factor * exp(x[j] - most) / (double)sum - q[j];
    }
    e.loss = (double)loss + (z == 0 ? 0 : z * e.log_sum * e.log_sum);
    return e;
}

/* Fills a row, and returns its largest size. */
static double fill_logits(f_field *x, int64_t classes)
{
    const int how = (int)f_below(5);
    double largest = 1;
    for (int64_t i = 0; i < x->count; i++) {
        if (how == 1)
            x->v[i] *= 1e4;
        else if (how == 2 && f_below(3) == 0 && i % classes != 0)
            x->v[i] = -INFINITY;
        else if (how == 3)
            x->v[i] -= 2e4;
    }
    f_encode(x);
    for (int64_t i = 0; i < x->count; i++)
        largest = isfinite(x->v[i]) && fabs(x->v[i]) > largest ? fabs(x->v[i]) : largest;
    return largest;
}

/* Rows of up to 70 classes, of thousands, of a vocabulary, and too long for shared memory to hold
 * two of them. */
enum { LONG = 37, VOCABULARY, LONGEST, ENTROPY_WAYS };

static bool cross_entropy(cf_fields *p, trp_dtype type, unsigned way)
{
    const bool big = way >= LONG, longest = way == LONGEST, one_type = longest || f_below(2);
    const bool labels = !longest && f_below(3) > 0;
    const int rank = f_below(2) ? 2 : 3; /* rank of labels, and of the results of rows */
    const int64_t dim[3] = {f_from(longest || p->tight, 3), big ? 1 : f_from(1, 7),
                            way == LONGEST      ? 70001
                            : way == VOCABULARY ? 50257
                            : big               ? f_from(3000, 9000)
                                                : f_from(1, 70)};
    const int64_t rows = dim[0] * dim[1], classes = dim[2], row_dim[3] = {dim[0], dim[1], 1};
    const double s = f_below(2) ? 0 : f_below(4) ? ref_rng_uniform(h_rng(), 0, 1) : 1;
    const double z = f_below(3) ? 0 : 0.01, ignored = f_below(2) ? -100 : 0;
    const trp_dnn_reduction how = (trp_dnn_reduction)f_below(3);
    const bool each = how == TRP_DNN_REDUCE_NONE, in_place = f_below(3) == 0;
    const bool packed = big || f_below(2);
    p->packed = packed;
    f_field *x = cf_in(p, type, 3, dim, -3, 3), *q = NULL, *index = NULL;
    const double largest = fill_logits(x, classes);
    if (!labels)
        q = cf_in(p, one_type ? type : f_real(), 3, dim, 0, 1);
    const f_field *dx = in_place ? x : cf_out(p, one_type ? type : f_real(), 3, dim);
    p->packed = false;
    const f_field *dy = cf_in(p, TRP_F32, rank, row_dim, -2, 2);
    const f_field *row = cf_out(p, TRP_F32, 3, row_dim), *stats = cf_out(p, TRP_F32, 3, row_dim);
    const f_field *y = each ? cf_out(p, TRP_F32, rank, row_dim)
                            : cf_out(p, f_below(2) ? TRP_F64 : TRP_F32, 1, (int64_t[]){1});
    if (labels) {
        index = cf_in(p, f_below(2) ? TRP_I32 : TRP_I64, rank, row_dim, 0, (double)classes - 1);
        for (int64_t i = 0; i < rows; i++)
            index->v[i] = f_below(4) ? index->v[i] : ignored;
        f_encode(index);
    }
    const bool wide = type == TRP_F64;
    const double spread = labels ? 1 : (double)classes;
    const double scale = largest * (z > 0 ? 1 + largest * z : 1) * spread;
    double *dxs = cf_want(p, dx, (1 + largest * z) * spread, 64, wide);
    double *losses = cf_want(p, row, scale, 64, wide), *logs = cf_want(p, stats, largest, 16, wide);
    double *total = cf_want(p, y, scale * (how == TRP_DNN_REDUCE_SUM ? (double)rows : 1), 64, wide);
    double sum = 0, count = 0;
    for (int64_t r = 0; r < rows; r++) {
        double *share = dxs + r * classes;
        if (labels && index->v[r] == ignored)
            continue;
        count++;
        for (int64_t j = 0; j < classes; j++)
            share[j] = (1 - s) * (labels ? (double)j == index->v[r] : q->v[r * classes + j]) +
                       s / (double)classes;
        const entropy e = entropy_of(x->v + r * classes, share, classes, z);
        losses[r] = e.loss;
        logs[r] = e.log_sum;
        sum += e.loss;
    }
    for (int64_t i = 0; i < x->count; i++)
        dxs[i] *= (each ? dy->v[i / classes] : 0.75) /
                  (how == TRP_DNN_REDUCE_MEAN && count > 0 ? count : 1);
    if (each)
        memcpy(total, losses, (size_t)rows * sizeof *total);
    else
        *total = how == TRP_DNN_REDUCE_MEAN ? sum / count : sum;
    trp_cross_entropy_request *r = CF_REQUEST(p, cross_entropy);
    *r = (trp_cross_entropy_request){.logits = x->t,
                                     .reduction = how,
                                     .smoothing = s,
                                     .z_loss = z,
                                     .loss = y->t,
                                     .rows = row->t,
                                     .stats = stats->t,
                                     .dlogits = dx->t};
    r->dloss = each ? dy->t : (trp_dnn_tensor){.value = trp_real(0.75)};
    if (labels)
        r->labels = index->t;
    else
        r->target = q->t;
    if (labels && ignored == 0)
        r->ignore = trp_real(0);
    p->may_fault = in_place;
    return true;
}

/* --- Losses of elements --- */

static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double loss_of(trp_dnn_loss mode, double beta, double x, double t, double b, double *slope)
{
    const double d = x - t, sign = d > 0 ? 1 : d < 0 ? -1 : 0;
    switch (mode) {
    case TRP_DNN_MSE:
        *slope = 2 * d;
        return d * d;
    case TRP_DNN_L1:
        *slope = sign;
        return fabs(d);
    case TRP_DNN_SMOOTH_L1:
        *slope = fabs(d) < beta ? d / beta : sign;
        return fabs(d) < beta ? d * d / 2 / beta : fabs(d) - beta / 2;
    case TRP_DNN_BCE_LOGITS:
        *slope = (1 - t) / (1 + exp(-x)) - b * t / (1 + exp(x));
        return (1 - t) * softplus(x) + b * t * softplus(-x);
    case TRP_DNN_KL:
        *slope = -t;
        return t > 0 ? t * (log(t) - x) : 0;
    default:
        *slope = -exp(t);
        return exp(t) * (t - x);
    }
}

/* Returns the number of the element that goes with element i; dimensions of 1 are repeated. */
static int64_t spread_at(int rank, const int64_t *dim, const int64_t *spread, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int k = rank - 1; k >= 0; k--) {
        at += spread[k] == 1 ? 0 : i % dim[k] * step;
        step *= spread[k];
        i /= dim[k];
    }
    return at;
}

/* `way` chooses the mode. */
static bool loss(cf_fields *p, trp_dtype type, unsigned way)
{
    const int rank = (int)f_from(1, 3);
    int64_t dim[3], spread[3];
    for (int i = 0; i < rank; i++) {
        dim[i] = f_from(1, i == 0 && f_below(15) == 0 ? 3000 : 17);
        spread[i] = f_below(2) ? dim[i] : 1;
    }
    const trp_dnn_loss mode = (trp_dnn_loss)way;
    const trp_dnn_reduction how = (trp_dnn_reduction)f_below(4);
    const bool each = how == TRP_DNN_REDUCE_NONE, weighs = f_below(2),
               bce = way == TRP_DNN_BCE_LOGITS;
    const bool share = bce || mode == TRP_DNN_KL;
    const double beta = mode != TRP_DNN_SMOOTH_L1 ? 1 : f_below(4) ? 0.7 : 0;
    const bool alike = f_below(2); /* arrays of one type have kernels of their own */
    const trp_dtype narrow = alike ? type : TRP_F32;
    p->packed = f_below(2);
    const f_field *x = cf_in(p, type, rank, dim, -4, 4);
    const f_field *t = cf_in(p, alike ? type : f_real(), rank, dim, share ? 0 : -4, share ? 1 : 4);
    const f_field *w = cf_in(p, alike ? type : f_real(), rank, spread, 0.5, 2);
    const f_field *b = cf_in(p, narrow, rank, spread, 0.5, 2);
    const f_field *dy = cf_in(p, narrow, rank, dim, -1, 1);
    const bool in_place = alike && f_below(4) == 0;
    const f_field *dx = in_place ? x : cf_out(p, alike ? type : f_real(), rank, dim);
    const f_field *y = each ? cf_out(p, narrow, rank, dim) : cf_out(p, TRP_F64, 1, (int64_t[]){1});
    const f_field *row = cf_out(p, alike ? type : TRP_F64, rank, dim);
    const double divisor = how == TRP_DNN_REDUCE_MEAN    ? (double)x->count
                           : how == TRP_DNN_REDUCE_BATCH ? (double)dim[0]
                                                         : 1;
    const double steep = mode == TRP_DNN_KL_LOG ? 60 : 1;
    double *values = cf_want(p, row, mode == TRP_DNN_KL_LOG ? 400 : 4, 64, false);
    double *slopes = cf_want(p, dx, steep, 64, false);
    double *sums =
        cf_want(p, y, (mode == TRP_DNN_KL_LOG ? 400 : 8) * (each ? 1 : (double)x->count / divisor),
                64, false);
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t at = spread_at(rank, dim, spread, i);
        const double weight = weighs ? w->v[at] : 1;
        values[i] = weight * loss_of(mode, beta, x->v[i], t->v[i], bce ? b->v[at] : 1, &slopes[i]);
        slopes[i] *= weight * (each ? dy->v[i] : -1.5) / divisor;
        sums[each ? i : 0] += values[i] / divisor;
    }
    trp_loss_request *r = CF_REQUEST(p, loss);
    *r = (trp_loss_request){.mode = mode,
                            .reduction = how,
                            .x = x->t,
                            .target = t->t,
                            .loss = y->t,
                            .rows = row->t,
                            .dx = dx->t};
    if (weighs)
        r->weight = w->t;
    if (bce)
        r->positive_weight = b->t;
    if (mode == TRP_DNN_SMOOTH_L1)
        r->beta = trp_real(beta);
    r->dloss = each ? dy->t : (trp_dnn_tensor){.value = trp_real(-1.5)};
    p->may_fault = in_place;
    return true;
}

/* --- Operations --- */

CF_SEND(gather_forward, gather)
CF_SEND(gather_backward, gather)
CF_SEND(cross_entropy, cross_entropy)
CF_SEND(loss, loss)

static const cf_call calls[] = {
    {CF_CALL(gather_forward, gather), .types = 8, .ways = 40, .runs_again = true,
     .tensor = {CF_TENSOR(gather, CF_READ, x), CF_TENSOR(gather, CF_READ, index),
                CF_TENSOR(gather, CF_WRITE, y)}},
    {CF_CALL(gather_backward, gather), .types = 4, .ways = 40,
     .tensor = {CF_TENSOR(gather, CF_READ, dy), CF_TENSOR(gather, CF_READ, index),
                CF_TENSOR(gather, CF_UPDATE, dx), CF_TENSOR(gather, CF_SHARED, add_dx)}},
    {CF_CALL(cross_entropy, cross_entropy), .types = 4, .ways = ENTROPY_WAYS,
     .tensor = {CF_TENSOR(cross_entropy, CF_SHARED, logits),
                CF_TENSOR(cross_entropy, CF_READ, labels),
                CF_TENSOR(cross_entropy, CF_READ, target), CF_TENSOR(cross_entropy, CF_WRITE, loss),
                CF_TENSOR(cross_entropy, CF_WRITE, rows), CF_TENSOR(cross_entropy, CF_WRITE, stats),
                CF_TENSOR(cross_entropy, CF_UPDATE, dlogits),
                CF_TENSOR(cross_entropy, CF_READ, dloss)}},
    {CF_CALL(loss, loss), .types = 4, .ways = 6, .runs_again = true,
     .tensor = {CF_TENSOR(loss, CF_SHARED, x), CF_TENSOR(loss, CF_READ, target),
                CF_TENSOR(loss, CF_READ, weight), CF_TENSOR(loss, CF_READ, positive_weight),
                CF_TENSOR(loss, CF_WRITE, loss), CF_TENSOR(loss, CF_WRITE, rows),
                CF_TENSOR(loss, CF_UPDATE, dx), CF_TENSOR(loss, CF_READ, dloss)}},
};

int main(int argc, char **argv)
{
    return cf_calls_main(argc, argv, "dnn: gathering, losses", calls, sizeof calls / sizeof *calls);
}
