/* What a training step needs, against float64: gathering, losses, linear layers, norms, rotary
 * embedding, gated activations, largest elements and sampling. The optimizers: optimizer_test.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/field.h"
#include "support/label.h"

#include <math.h>
#include <troupe/training.h>

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

static h_world world;
static trp_actor *dnn;

static void begin(void)
{
    world = h_open(NULL);
    dnn = h_actor(world.device, "dnn");
    f_open(world.device);
}

static void end(void)
{
    trp_actor_destroy(dnn);
    h_close(&world);
}

#define RUN(call, request)                                                                         \
    do {                                                                                           \
        trp_completion done_ = {0};                                                                \
        (request).header.wait_ns = TRP_FOREVER;                                                    \
        H_OK(call(dnn, &(request), &done_));                                                       \
        trp_error error_ = {0};                                                                    \
        if (h_await(done_.future, &error_) != TRP_OK)                                              \
            h_fail(__FILE__, __LINE__, "%s: %s", #call, error_.message);                           \
    } while (0)

static int rounds(int count)
{
    return H_SANITIZED ? count / 4 + 1 : count;
}

static double *zeros(int64_t count)
{
    return calloc((size_t)count + 1, sizeof(double));
}

static int64_t product(const int64_t *dim, int from, int to)
{
    int64_t all = 1;
    for (int i = from; i < to; i++)
        all *= dim[i];
    return all;
}

/* --- Gathering --- */

typedef struct gather_case {
    int rank, axis, index_rank;
    bool elements;
    int64_t x[8], index[8], y[8];
    int y_rank;
} gather_case;

/* An embedding as models have it. */
static gather_case large_gather(void)
{
    const gather_case g = {
        .rank = 2, .index_rank = 1, .x = {80, 64}, .index = {6000}, .y = {6000, 64}, .y_rank = 2};
    return g;
}

static gather_case draw_gather(void)
{
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

/* The number of the element of x that element i of y comes from, and of the index for it. */
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

/* Elements that are no real numbers are copied as they are. */
static void check_bytes(const gather_case *g, const f_field *index, trp_dnn_gather mode)
{
    static const trp_dtype types[] = {TRP_I8, TRP_U8, TRP_I32, TRP_BOOL};
    const trp_dtype type = types[f_below(4)];
    f_field x = f_make(type, g->rank, g->x, false, type == TRP_I32 ? -2e9 : 0,
                       type == TRP_I32  ? 2e9
                       : type == TRP_I8 ? 127
                       : type == TRP_U8 ? 255
                                        : 1);
    f_field y = f_make(type, g->y_rank, g->y, false, 1, 0);
    double *wanted = zeros(y.count);
    int64_t which;
    for (int64_t i = 0; i < y.count; i++)
        wanted[i] = x.v[source(g, index, i, &which)];
    trp_gather_request r = {
        .mode = mode, .axis = (uint32_t)g->axis, .x = x.t, .index = index->t, .y = y.t};
    RUN(trp_gather_forward, r);
    F_COMPARE(&y, wanted, 0, 0, true);
    f_drop(&x), f_drop(&y), free(wanted);
}

static void gathering(void)
{
    begin();
    for (int round = 0; round < rounds(120); round++) {
        const gather_case g = round % 60 == 59 ? large_gather() : draw_gather();
        const double most = (double)g.x[g.axis] - 1;
        const bool packed = round % 60 == 59 || f_below(2);
        const bool ignores = f_below(2), before = f_below(2), in_place = before && f_below(2);
        f_field x = f_make(f_real(), g.rank, g.x, packed, -2, 2);
        f_field index =
            f_make(f_below(2) ? TRP_I32 : TRP_I64, g.index_rank, g.index, packed, 0, most);
        f_field y = f_make(f_below(2) ? x.t.type : f_real(), g.y_rank, g.y, packed, 1, 0);
        f_field dx = f_make(f_real(), g.rank, g.x, packed, in_place ? -2 : 1, in_place ? 2 : 0);
        f_field add = {0}, dy = f_make(f_real(), g.y_rank, g.y, packed, -2, 2);
        double *wanted = zeros(y.count), *sum = zeros(x.count);
        const trp_dnn_gather mode = g.elements ? TRP_DNN_GATHER_ELEMENTS : TRP_DNN_GATHER_SLICES;
        int64_t which;
        for (int64_t i = 0; i < y.count; i++)
            wanted[i] = x.v[source(&g, &index, i, &which)];
        trp_gather_request r = {
            .mode = mode, .axis = (uint32_t)g.axis, .x = x.t, .index = index.t, .y = y.t};
        RUN(trp_gather_forward, r);
        F_COMPARE(&y, wanted, 0, 0, true);
        check_bytes(&g, &index, mode);
        if (before && !in_place)
            add = f_make(f_real(), g.rank, g.x, packed, -2, 2);
        for (int64_t i = 0; i < x.count && before; i++)
            sum[i] = in_place ? dx.v[i] : add.v[i];
        const double left_out = floor(most / 2);
        for (int64_t i = 0; i < dy.count; i++) {
            const int64_t to = source(&g, &index, i, &which);
            sum[to] += ignores && index.v[which] == left_out ? 0 : dy.v[i];
        }
        trp_gather_request b = {
            .mode = mode, .axis = (uint32_t)g.axis, .dy = dy.t, .index = index.t, .dx = dx.t};
        b.add_dx = in_place ? dx.t : add.t;
        b.ignore = ignores ? trp_real(left_out) : b.ignore;
        RUN(trp_gather_backward, b);
        F_COMPARE(&dx, sum, 8, 64, false);
        f_drop(&x), f_drop(&index), f_drop(&y), f_drop(&dx), f_drop(&add), f_drop(&dy);
        free(wanted), free(sum);
    }
    end();
}

/* Indices that lead nowhere: refused on the host, NaN and nothing on GPUs; and no elements. */
static void nowhere(void)
{
    begin();
    f_field table = f_make(TRP_F32, 2, (int64_t[]){5, 3}, true, -1, 1);
    f_field grad = f_like(&table, TRP_F32, 1, 0);
    f_field index = f_make(TRP_I64, 1, (int64_t[]){4}, true, 0, 4);
    f_field y = f_make(TRP_F32, 2, (int64_t[]){4, 3}, true, 1, 0);
    f_field dy = f_make(TRP_F32, 2, (int64_t[]){4, 3}, true, -1, 1);
    const double bad[] = {5, -1, 4294967296.0, -4294967295.0};
    for (int i = 0; i < 4; i++) {
        trp_completion done = {0};
        trp_error error = {0};
        index.v[0] = 2, index.v[1] = bad[i], index.v[2] = 0, index.v[3] = 4;
        f_write(&index);
        trp_embedding_request r = {.table = table.t, .index = index.t, .y = y.t};
        H_OK(trp_embedding_forward(dnn, &r, &done));
        const trp_status status = h_await(done.future, &error);
        if (!h_is_cuda()) {
            H_EQUAL(status, TRP_E_ARGUMENT);
            h_check_says(__FILE__, __LINE__, error.message, "element 1: expected 0 to 4");
        } else {
            H_EQUAL(status, TRP_OK);
            f_read(&y);
            for (int k = 0; k < 12; k++)
                H_CHECK(k / 3 == 1 ? isnan(y.v[k])
                                   : y.v[k] == table.v[(int)index.v[k / 3] * 3 + k % 3]);
        }
        r = (trp_embedding_request){.index = index.t, .dy = dy.t, .dtable = grad.t};
        if (h_is_cuda())
            RUN(trp_embedding_backward, r);
    }
    const double zero[15] = {0};
    trp_embedding_request none = {.index = index.t, .dy = dy.t, .dtable = grad.t};
    none.index.dim[0] = none.dy.dim[0] = 0;
    RUN(trp_embedding_backward, none);
    F_COMPARE(&grad, zero, 0, 0, false);
    f_drop(&table), f_drop(&grad), f_drop(&index), f_drop(&y), f_drop(&dy);
    end();
}

/* --- Losses --- */

static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

typedef struct entropy {
    double loss, log_sum, slope_sum;
} entropy;

/* A row; q are its probabilities, and become dx / dy. Sums have more bits than f64: one of 50,257
 * equal shares would be off by more than what is compared. */
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

static void fill_logits(f_field *x, int64_t classes)
{
    const int how = (int)f_below(5);
    for (int64_t i = 0; i < x->count; i++) {
        if (how == 1)
            x->v[i] *= 1e4;
        else if (how == 2 && f_below(3) == 0 && i % classes != 0)
            x->v[i] = -INFINITY;
        else if (how == 3)
            x->v[i] -= 2e4;
    }
    f_write(x);
}

static void cross_entropy(void)
{
    begin();
    for (int round = 0; round < rounds(160); round++) {
        const bool big = round % 40 == 39, none_rank = f_below(2);
        const bool longest = round % 160 == 119; /* no shared memory holds two such rows */
        const bool labels = !longest && f_below(3) > 0;
        const int64_t dim[3] = {f_from(longest ? 1 : 0, 3), big ? 1 : f_from(1, 7),
                                !big               ? f_from(1, 70)
                                : longest          ? 70001
                                : round % 80 == 79 ? 50257
                                                   : f_from(3000, 9000)};
        const int64_t rows = dim[0] * dim[1], classes = dim[2];
        const int64_t row_dim[3] = {dim[0], dim[1], 1};
        const double s = f_below(2) ? 0 : f_below(4) ? ref_rng_uniform(h_rng(), 0, 1) : 1;
        const double z = f_below(3) ? 0 : 0.01;
        const trp_dnn_reduction how = (trp_dnn_reduction)f_below(3);
        const bool each = how == TRP_DNN_REDUCE_NONE, in_place = f_below(3) == 0;
        const bool packed = big || f_below(2), one_type = longest || f_below(2);
        f_field x = f_make(f_real(), 3, dim, packed, -3, 3), q = {0}, index = {0}, dx = {0};
        f_field dy = f_make(TRP_F32, none_rank ? 2 : 3, row_dim, false, -2, 2);
        f_field y = each ? f_make(TRP_F32, none_rank ? 2 : 3, row_dim, false, 1, 0)
                         : f_make(f_below(2) ? TRP_F64 : TRP_F32, 1, (int64_t[]){1}, true, 1, 0);
        f_field row = f_make(TRP_F32, 3, row_dim, false, 1, 0), stats = f_like(&row, TRP_F32, 1, 0);
        fill_logits(&x, classes);
        const double ignored = f_below(2) ? -100 : 0;
        if (labels) {
            index = f_make(f_below(2) ? TRP_I32 : TRP_I64, none_rank ? 2 : 3, row_dim, false, 0,
                           (double)classes - 1);
            for (int64_t i = 0; i < rows; i++)
                index.v[i] = f_below(4) ? index.v[i] : ignored;
            f_write(&index);
        } else {
            q = f_make(one_type ? x.t.type : f_real(), 3, dim, packed, 0, 1);
        }
        if (!in_place)
            dx = f_make(one_type ? x.t.type : f_real(), 3, dim, packed, 1, 0);
        double *dxs = zeros(x.count), *losses = zeros(rows), *logs = zeros(rows), sum = 0,
               count = 0;
        for (int64_t r = 0; r < rows; r++) {
            double *p = dxs + r * classes;
            if (labels && index.v[r] == ignored)
                continue;
            count++;
            for (int64_t j = 0; j < classes; j++)
                p[j] = (1 - s) * (labels ? (double)j == index.v[r] : q.v[r * classes + j]) +
                       s / (double)classes;
            const entropy e = entropy_of(x.v + r * classes, p, classes, z);
            losses[r] = e.loss;
            logs[r] = e.log_sum;
            sum += e.loss;
        }
        for (int64_t i = 0; i < x.count; i++)
            dxs[i] *= (each ? dy.v[i / classes] : 0.75) /
                      (how == TRP_DNN_REDUCE_MEAN && count > 0 ? count : 1);
        const double total = how == TRP_DNN_REDUCE_MEAN ? sum / count : sum;
        double largest = 1;
        for (int64_t i = 0; i < x.count; i++)
            largest = isfinite(x.v[i]) && fabs(x.v[i]) > largest ? fabs(x.v[i]) : largest;
        trp_cross_entropy_request r = {.logits = x.t,
                                       .labels = index.t,
                                       .target = q.t,
                                       .reduction = how,
                                       .smoothing = s,
                                       .z_loss = z,
                                       .loss = y.t,
                                       .rows = row.t,
                                       .stats = stats.t,
                                       .dlogits = in_place ? x.t : dx.t};
        r.dloss = each ? dy.t : (trp_dnn_tensor){.value = trp_real(0.75)};
        r.ignore = labels && ignored == 0 ? trp_real(0) : r.ignore;
        const bool wide = x.t.type == TRP_F64;
        RUN(trp_cross_entropy, r);
        const double scale =
            largest * (z > 0 ? 1 + largest * z : 1) * (labels ? 1 : (double)classes);
        F_COMPARE(&row, losses, scale, 64, wide);
        F_COMPARE(&stats, logs, largest, 16, wide);
        if (each)
            F_COMPARE(&y, losses, scale, 64, wide);
        else
            F_COMPARE(&y, &total, scale * (how == TRP_DNN_REDUCE_SUM ? (double)rows : 1), 64, wide);
        F_COMPARE(in_place ? &x : &dx, dxs, (1 + largest * z) * (labels ? 1 : (double)classes), 64,
                  wide);
        f_drop(&x), f_drop(&q), f_drop(&index), f_drop(&dx), f_drop(&dy), f_drop(&y);
        f_drop(&row), f_drop(&stats), free(dxs), free(losses), free(logs);
    }
    end();
}

/* Rows that hold no numbers, or infinities; and labels that are none. */
static void entropy_of_extremes(void)
{
    begin();
    f_field x = f_make(TRP_F32, 2, (int64_t[]){4, 3}, true, -1, 1);
    f_field index = f_make(TRP_I32, 1, (int64_t[]){4}, true, 0, 2);
    f_field rows = f_make(TRP_F32, 1, (int64_t[]){4}, true, 1, 0), dx = f_like(&x, TRP_F32, 1, 0);
    x.v[1] = NAN, x.v[3] = INFINITY, x.v[6] = x.v[7] = x.v[8] = -INFINITY, x.v[9] = 3e38,
    x.v[10] = -3e38;
    index.v[3] = 1;
    f_write(&x), f_write(&index);
    trp_cross_entropy_request r = {
        .logits = x.t, .labels = index.t, .rows = rows.t, .dlogits = dx.t};
    RUN(trp_cross_entropy, r);
    f_read(&rows), f_read(&dx);
    for (int i = 0; i < 9; i++)
        H_CHECK(isnan(rows.v[i / 3]) && (isnan(dx.v[i]) || i / 3 == 1));
    H_CHECK(isinf(rows.v[3]) || rows.v[3] > 3e38);
    H_CHECK(fabs(dx.v[9] - 0.25) < 1e-6 && fabs(dx.v[10] + 0.25) < 1e-6 && dx.v[11] == 0);
    trp_completion done = {0};
    trp_error error = {0};
    index.v[2] = 3;
    f_write(&index);
    H_OK(trp_cross_entropy(dnn, &r, &done));
    const trp_status status = h_await(done.future, &error);
    H_EQUAL(status, h_is_cuda() ? TRP_OK : TRP_E_ARGUMENT);
    if (!h_is_cuda())
        h_check_says(__FILE__, __LINE__, error.message,
                     "expected 0 to 2 or the ignored one, got 3");
    f_drop(&x), f_drop(&index), f_drop(&rows), f_drop(&dx);
    end();
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

static void losses(void)
{
    begin();
    for (int round = 0; round < rounds(150); round++) {
        const int rank = (int)f_from(1, 3);
        const bool packed = f_below(2);
        int64_t dim[3], spread[3];
        for (int i = 0; i < rank; i++) {
            dim[i] = f_from(1, round % 15 == 7 && i == 0 ? 3000 : 17);
            spread[i] = f_below(2) ? dim[i] : 1;
        }
        const trp_dnn_loss mode = (trp_dnn_loss)f_below(6);
        const trp_dnn_reduction how = (trp_dnn_reduction)f_below(4);
        const bool each = how == TRP_DNN_REDUCE_NONE, weighs = f_below(2);
        const bool share = mode == TRP_DNN_BCE_LOGITS || mode == TRP_DNN_KL;
        const double beta = mode != TRP_DNN_SMOOTH_L1 ? 1 : f_below(4) ? 0.7 : 0;
        const bool alike = f_below(2); /* arrays of one type have kernels of their own */
        f_field x = f_make(f_real(), rank, dim, packed, -4, 4);
        const trp_dtype type = x.t.type;
        f_field t =
            f_make(alike ? type : f_real(), rank, dim, packed, share ? 0 : -4, share ? 1 : 4);
        f_field w = f_make(alike ? type : f_real(), rank, spread, packed, 0.5, 2),
                b = f_make(alike ? type : TRP_F32, rank, spread, packed, 0.5, 2);
        f_field dy = f_make(alike ? type : TRP_F32, rank, dim, packed, -1, 1),
                dx = f_make(alike ? type : f_real(), rank, dim, packed, 1, 0);
        f_field y = each ? f_make(alike ? type : TRP_F32, rank, dim, packed, 1, 0)
                         : f_make(TRP_F64, 1, (int64_t[]){1}, true, 1, 0);
        f_field row = f_make(alike ? type : TRP_F64, rank, dim, packed, 1, 0);
        double *values = zeros(x.count), *slopes = zeros(x.count), sum = 0;
        const double divisor = how == TRP_DNN_REDUCE_MEAN    ? (double)x.count
                               : how == TRP_DNN_REDUCE_BATCH ? (double)dim[0]
                                                             : 1;
        for (int64_t i = 0; i < x.count; i++) {
            int64_t at = 0, rest = i, step = 1;
            for (int k = rank - 1; k >= 0; k--) {
                at += spread[k] == 1 ? 0 : rest % dim[k] * step;
                step *= spread[k];
                rest /= dim[k];
            }
            const double weight = weighs ? w.v[at] : 1;
            values[i] = weight * loss_of(mode, beta, x.v[i], t.v[i],
                                         mode == TRP_DNN_BCE_LOGITS ? b.v[at] : 1, &slopes[i]);
            slopes[i] *= weight * (each ? dy.v[i] : -1.5) / divisor;
            sum += values[i];
        }
        sum /= divisor;
        trp_loss_request r = {.mode = mode,
                              .reduction = how,
                              .x = x.t,
                              .target = t.t,
                              .loss = y.t,
                              .rows = row.t,
                              .dx = dx.t};
        if (weighs)
            r.weight = w.t;
        if (mode == TRP_DNN_BCE_LOGITS)
            r.positive_weight = b.t;
        if (mode == TRP_DNN_SMOOTH_L1)
            r.beta = trp_real(beta);
        r.dloss = each ? dy.t : (trp_dnn_tensor){.value = trp_real(-1.5)};
        const bool wide = x.t.type == TRP_F64 && t.t.type == TRP_F64;
        RUN(trp_loss, r);
        F_COMPARE(&row, values, mode == TRP_DNN_KL_LOG ? 400 : 4, 64, wide && false);
        F_COMPARE(&y, each ? values : &sum,
                  (mode == TRP_DNN_KL_LOG ? 400 : 8) * (each ? 1 : (double)x.count / divisor), 64,
                  false);
        F_COMPARE(&dx, slopes, mode == TRP_DNN_KL_LOG ? 60 : 1, 64, false);
        f_drop(&x), f_drop(&t), f_drop(&w), f_drop(&b), f_drop(&dy), f_drop(&dx), f_drop(&y),
            f_drop(&row);
        free(values), free(slopes);
    }
    end();
}

/* --- Layers that are graphs --- */

/* y[i][j] = the sum over k of a[i][k] b[k][j], each with a step between rows and columns. */
static void multiply(int64_t m, int64_t n, int64_t k, const double *a, int64_t ai, int64_t ak,
                     const double *b, int64_t bk, int64_t bj, double *y)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += a[i * ai + l * ak] * b[l * bk + j * bj];
            y[i * n + j] = sum;
        }
    }
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    const double c = sqrt(2 / 3.14159265358979323846), t = tanh(c * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

static void linear(void)
{
    begin();
    for (int round = 0; round < rounds(40); round++) {
        const int64_t b = f_from(1, 3), s = f_from(1, 9), k = f_from(1, 40), n = f_from(1, 40),
                      m = b * s;
        const int64_t xd[] = {b, s, k}, yd[] = {b, s, n}, wd[] = {n, k}, nd[] = {n};
        const trp_dtype type = f_real(), grad = type == TRP_F64 ? TRP_F64 : TRP_F32;
        const bool acts = f_below(2), more = f_below(2), in_place = f_below(2);
        const double size = (double)k + 2, back = (double)(m > n ? m : n) + 4;
        f_field x = f_make(type, 3, xd, true, -1, 1), w = f_make(type, 2, wd, true, -1, 1);
        f_field bias = f_make(type, 1, nd, true, -1, 1), res = f_make(type, 3, yd, true, -1, 1);
        f_field y = f_make(type, 3, yd, true, 1, 0), z = f_make(type, 3, yd, true, 1, 0);
        double *zs = zeros(m * n), *ys = zeros(m * n);
        multiply(m, n, k, x.v, k, 1, w.v, 1, k, zs);
        for (int64_t i = 0; i < m * n; i++) {
            zs[i] += bias.v[i % n] + (more ? res.v[i] : 0);
            ys[i] = acts ? gelu(zs[i]) : zs[i];
        }
        trp_linear_request r = {.x = x.t, .w = w.t, .bias = bias.t, .y = y.t};
        if (more)
            r.residual = res.t;
        if (acts) {
            r.activation.mode = TRP_DNN_GELU_TANH;
            r.z = z.t;
        }
        RUN(trp_linear_forward, r);
        const double loose = type == TRP_F16    ? 0x1p14
                             : type == TRP_BF16 ? 0x1p17
                                                : 16; /* between nodes */
        F_COMPARE(&y, ys, size, loose, type == TRP_F64);
        if (acts)
            F_COMPARE(&z, zs, size, loose, type == TRP_F64);
        f_field dy = f_make(type, 3, yd, true, -1, 1), dx = f_make(type, 3, xd, true, 1, 0),
                xz = f_make(type, 3, xd, true, -2, 2);
        f_field dw = f_make(grad, 2, wd, true, -1, 1), db = f_make(grad, 1, nd, true, -1, 1);
        f_field add = f_make(type, 3, xd, true, -1, 1), dw2 = f_make(grad, 2, wd, true, 1, 0);
        double *dxs = zeros(m * k), *dws = zeros(n * k), *dbs = zeros(n);
        multiply(m, k, n, dy.v, n, 1, w.v, k, 1, dxs);
        multiply(n, k, m, dy.v, 1, n, x.v, k, 1, dws);
        for (int64_t i = 0; i < m * k; i++)
            dxs[i] = dxs[i] * (acts ? gelu_slope(xz.v[i]) : 1) + (more ? add.v[i] : 0);
        for (int64_t i = 0; i < n * k && (more || in_place); i++)
            dws[i] += dw.v[i];
        for (int64_t i = 0; i < m * n; i++)
            dbs[i % n] += dy.v[i];
        for (int64_t i = 0; i < n && in_place; i++)
            dbs[i] += db.v[i];
        trp_linear_request q = {.x = x.t,
                                .w = w.t,
                                .dy = dy.t,
                                .dx = dx.t,
                                .dw = in_place ? dw.t : dw2.t,
                                .dbias = db.t};
        if (acts) {
            q.x_activation.mode = TRP_DNN_GELU_TANH;
            q.x_z = xz.t;
        }
        if (more)
            q.add_dx = add.t;
        if (more || in_place)
            q.add_dw = dw.t;
        if (in_place)
            q.add_dbias = db.t;
        RUN(trp_linear_backward, q);
        F_COMPARE(&dx, dxs, back, loose, type == TRP_F64);
        F_COMPARE(in_place ? &dw : &dw2, dws, back, 64, type == TRP_F64);
        F_COMPARE(&db, dbs, back, 64, type == TRP_F64);
        f_drop(&x), f_drop(&w), f_drop(&bias), f_drop(&res), f_drop(&y), f_drop(&z), f_drop(&dy),
            f_drop(&dx);
        f_drop(&xz), f_drop(&dw), f_drop(&db), f_drop(&add), f_drop(&dw2);
        free(zs), free(ys), free(dxs), free(dws), free(dbs);
    }
    end();
}

static void residual_norm(void)
{
    begin();
    for (int round = 0; round < rounds(40); round++) {
        const int64_t b = f_from(1, 3), s = f_from(1, 9), c = f_from(2, 50), m = b * s;
        const int64_t xd[] = {b, s, c}, cd[] = {c}, md[] = {b, s};
        const trp_dtype type = f_real(), fine = type == TRP_F64 ? TRP_F64 : TRP_F32;
        const bool rms = f_below(2), more = f_below(2), wide = type == TRP_F64;
        const double loose = type == TRP_F16    ? 0x1p14
                             : type == TRP_BF16 ? 0x1p17
                                                : 64,
                     eps = f_below(2) ? 1e-5 : 0.1;
        f_field x = f_make(type, 3, xd, true, -1, 1), res = f_make(type, 3, xd, true, -1, 1),
                sum = f_make(type, 3, xd, true, 1, 0);
        f_field scale = f_make(fine, 1, cd, true, 0.5, 2), bias = f_make(fine, 1, cd, true, -1, 1),
                y = f_make(type, 3, xd, true, 1, 0);
        f_field mean = f_make(fine, 2, md, true, 1, 0), inv = f_make(fine, 2, md, true, 1, 0);
        trp_residual_norm_request r = {.mode = rms ? TRP_DNN_RMS : TRP_DNN_LAYER,
                                       .x = x.t,
                                       .scale = scale.t,
                                       .y = y.t,
                                       .inv_variance = inv.t};
        if (eps != 1e-5)
            r.epsilon = trp_real(eps);
        if (!rms)
            r.bias = bias.t, r.mean = mean.t;
        if (more)
            r.residual = res.t, r.sum = sum.t;
        RUN(trp_residual_norm_forward, r);
        double *h = zeros(m * c), *ys = zeros(m * c), *sums = zeros(m * c), *invs = zeros(m),
               *means = zeros(m);
        for (int64_t i = 0; i < m * c; i++)
            sums[i] = x.v[i] + (more ? res.v[i] : 0);
        if (more)
            F_COMPARE(&sum, sums, 0, 2, wide);
        if (more)
            memcpy(sums, sum.v, (size_t)(m * c) * sizeof *sums);
        for (int64_t i = 0; i < m; i++) {
            double square = 0;
            for (int64_t j = 0; j < c; j++)
                means[i] += rms ? 0 : sums[i * c + j] / (double)c;
            for (int64_t j = 0; j < c; j++)
                square += pow(sums[i * c + j] - means[i], 2) / (double)c;
            invs[i] = 1 / sqrt(square + eps);
            for (int64_t j = 0; j < c; j++) {
                h[i * c + j] = (sums[i * c + j] - means[i]) * invs[i];
                ys[i * c + j] = h[i * c + j] * scale.v[j] + (rms ? 0 : bias.v[j]);
            }
        }
        F_COMPARE(&y, ys, 4, loose, wide);
        F_COMPARE(&inv, invs, 1, loose, wide);
        if (!rms)
            F_COMPARE(&mean, means, 1, loose, wide);
        f_field dy = f_make(type, 3, xd, true, -1, 1), dx = f_make(type, 3, xd, true, 1, 0),
                add = f_make(type, 3, xd, true, -1, 1);
        f_field ds = f_make(fine, 1, cd, true, -1, 1), db = f_make(fine, 1, cd, true, 1, 0);
        double *dxs = zeros(m * c), *dss = zeros(c), *dbs = zeros(c);
        for (int64_t i = 0; i < m; i++) {
            double g = 0, gh = 0;
            for (int64_t j = 0; j < c; j++) {
                g += rms ? 0 : dy.v[i * c + j] * scale.v[j] / (double)c;
                gh += dy.v[i * c + j] * scale.v[j] * h[i * c + j] / (double)c;
                dss[j] += dy.v[i * c + j] * h[i * c + j];
                dbs[j] += dy.v[i * c + j];
            }
            for (int64_t j = 0; j < c; j++)
                dxs[i * c + j] = invs[i] * (dy.v[i * c + j] * scale.v[j] - g - h[i * c + j] * gh) +
                                 (more ? add.v[i * c + j] : 0);
        }
        for (int64_t j = 0; j < c && more; j++)
            dss[j] += ds.v[j];
        trp_residual_norm_request q = {.mode = r.mode,
                                       .x = x.t,
                                       .sum = r.sum,
                                       .scale = scale.t,
                                       .mean = r.mean,
                                       .inv_variance = inv.t,
                                       .dy = dy.t,
                                       .dx = dx.t,
                                       .dscale = ds.t};
        if (!rms)
            q.dbias = db.t;
        if (more)
            q.add_dx = add.t, q.add_dscale = ds.t;
        RUN(trp_residual_norm_backward, q);
        F_COMPARE(&dx, dxs, 1000, loose, wide);
        F_COMPARE(&ds, dss, (double)m * 8, 256, wide);
        if (!rms)
            F_COMPARE(&db, dbs, (double)m * 8, 64, wide);
        f_drop(&x), f_drop(&res), f_drop(&sum), f_drop(&scale), f_drop(&bias), f_drop(&y),
            f_drop(&mean), f_drop(&inv);
        f_drop(&dy), f_drop(&dx), f_drop(&add), f_drop(&ds), f_drop(&db);
        free(h), free(ys), free(sums), free(invs), free(means), free(dxs), free(dss), free(dbs);
    }
    end();
}

static void gated(void)
{
    begin();
    for (int round = 0; round < rounds(24); round++) {
        const int64_t rows = f_from(1, 9), n = f_from(1, 40), half[] = {rows, n},
                      both[] = {rows, 2 * n};
        const trp_dtype type = f_real();
        const bool wide = type == TRP_F64;
        const double loose = type == TRP_F16 ? 0x1p15 : type == TRP_BF16 ? 0x1p18 : 64;
        f_field x = f_make(type, 2, both, true, -3, 3), dx = f_make(type, 2, both, true, 1, 0),
                y = f_make(type, 2, half, true, 1, 0), dy = f_make(type, 2, half, true, -1, 1);
        double *ys = zeros(y.count), *dxs = zeros(x.count);
        trp_dnn_tensor gate = x.t, up;
        gate.dim[1] = n, gate.stride[0] = 2 * n, gate.stride[1] = 1;
        up = gate;
        up.offset = (uint64_t)n * (trp_dtype_bits(type) / 8);
        for (int64_t i = 0; i < rows * n; i++) {
            const double g = x.v[i / n * 2 * n + i % n], u = x.v[i / n * 2 * n + n + i % n],
                         sig = 1 / (1 + exp(-g));
            ys[i] = g * sig * u;
            dxs[i / n * 2 * n + i % n] = dy.v[i] * u * sig * (1 + g * (1 - sig));
            dxs[i / n * 2 * n + n + i % n] = dy.v[i] * g * sig;
        }
        trp_glu_request r = {.activation.mode = TRP_DNN_SWISH, .gate = gate, .up = up, .y = y.t};
        RUN(trp_glu_forward, r);
        F_COMPARE(&y, ys, 9, loose, wide);
        r = (trp_glu_request){.activation.mode = TRP_DNN_SWISH,
                              .gate = gate,
                              .up = up,
                              .dy = dy.t,
                              .dgate = gate,
                              .dup = up};
        r.dgate.buffer = r.dup.buffer = dx.t.buffer;
        RUN(trp_glu_backward, r);
        F_COMPARE(&dx, dxs, 9, loose, wide);
        f_drop(&x), f_drop(&dx), f_drop(&y), f_drop(&dy), free(ys), free(dxs);
    }
    end();
}

/* An activation and its slope, of f64. */
static double activation_of(trp_dnn_pointwise mode, double g, double *slope)
{
    if (mode == TRP_DNN_GELU) {
        const double share = erfc(-g * sqrt(0.5)) / 2;
        *slope = share + g * exp(-g * g / 2) / sqrt(2 * acos(-1.0));
        return g * share;
    }
    const bool swish = mode == TRP_DNN_SWISH;
    const double c = 2 * sqrt(2 / acos(-1.0));
    const double y = swish ? g : c * (g + 0.044715 * g * g * g);
    const double bend = swish ? 1 : c * (1 + 3 * 0.044715 * g * g);
    const double share = 1 / (1 + exp(-y));
    *slope = share + g * bend * share * (1 / (1 + exp(y)));
    return g * share;
}

/* Tensors of their own without gaps, which have kernels made ahead; sizes about those of a thread
 * and a block. */
static void gated_apart(void)
{
    static const trp_dnn_pointwise modes[] = {TRP_DNN_SWISH, TRP_DNN_GELU, TRP_DNN_GELU_TANH};
    begin();
    for (int round = 0; round < rounds(36); round++) {
        const trp_dnn_pointwise mode = modes[round % 3];
        const int64_t dim[] = {f_from(1, 9), round % 2 ? 8 * f_from(1, 40) : f_from(1, 400)};
        const trp_dtype type = f_real();
        const bool wide = type == TRP_F64;
        const double far = round % 4 == 3 ? 60 : 4;
        f_field gate = f_make(type, 2, dim, true, -far, far),
                up = f_make(type, 2, dim, true, -3, 3), dy = f_make(type, 2, dim, true, -1, 1),
                y = f_make(type, 2, dim, true, 1, 0), dgate = f_make(type, 2, dim, true, 1, 0),
                dup = f_make(type, 2, dim, true, 1, 0);
        double *ys = zeros(y.count), *dgates = zeros(y.count), *dups = zeros(y.count);
        for (int64_t i = 0; i < y.count; i++) {
            double slope;
            const double a = activation_of(mode, gate.v[i], &slope);
            ys[i] = a * up.v[i];
            dups[i] = dy.v[i] * a;
            dgates[i] = dy.v[i] * up.v[i] * slope;
        }
        trp_glu_request r = {.activation.mode = mode, .gate = gate.t, .up = up.t, .y = y.t};
        RUN(trp_glu_forward, r);
        F_COMPARE(&y, ys, far, 64, wide);
        r = (trp_glu_request){.activation.mode = mode,
                              .gate = gate.t,
                              .up = up.t,
                              .dy = dy.t,
                              .dgate = dgate.t,
                              .dup = dup.t};
        RUN(trp_glu_backward, r);
        F_COMPARE(&dup, dups, far, 64, wide);
        F_COMPARE(&dgate, dgates, far, 64, wide);
        f_drop(&gate), f_drop(&up), f_drop(&dy), f_drop(&y), f_drop(&dgate), f_drop(&dup);
        free(ys), free(dgates), free(dups);
    }
    end();
}

static void rotary(void)
{
    begin();
    for (int round = 0; round < rounds(60); round++) {
        const bool packed = f_below(2);
        const int64_t dim[] = {f_from(1, 3), f_from(1, 6), f_from(1, 20),
                               packed ? 16 * f_from(1, 8) : f_from(1, 300)};
        const int64_t turning = f_below(2) ? dim[3] / 2 * 2 : f_below(dim[3] / 2 + 1) * 2,
                      half = turning / 2;
        const int64_t index_dim[] = {f_below(2) ? dim[0] : 1, 1, dim[2], 1}, positions = 50;
        const bool tables = f_below(2), indexed = f_below(2), pairs = f_below(2),
                   in_place = f_below(2);
        const int64_t start = f_below(2) ? f_below(20) : 0;
        f_field x = f_make(f_real(), 4, dim, packed, -2, 2),
                y = f_make(f_below(2) ? x.t.type : f_real(), 4, dim, packed, 1, 0);
        f_field index = f_make(TRP_I32, 4, index_dim, false, 0, (double)positions - 1);
        f_field c = f_make(TRP_F32, 2, (int64_t[]){positions, half}, false, -1, 1),
                s = f_make(TRP_F32, 2, (int64_t[]){positions, half}, false, -1, 1);
        double *ys = zeros(x.count), *back = zeros(x.count);
        for (int64_t i = 0; i < x.count; i += dim[3]) {
            const int64_t row = i / dim[3] % dim[2], batch = i / (dim[3] * dim[2] * dim[1]);
            const int64_t p = indexed
                                  ? (int64_t)index.v[(index_dim[0] == 1 ? 0 : batch) * dim[2] + row]
                                  : row + start;
            memcpy(ys + i, x.v + i, (size_t)dim[3] * sizeof *ys);
            memcpy(back + i, x.v + i, (size_t)dim[3] * sizeof *ys);
            for (int64_t k = 0; k < half; k++) {
                const int64_t a = pairs ? 2 * k : k, b = pairs ? 2 * k + 1 : k + half;
                const double angle = (double)p * pow(10000, -2.0 * (double)k / (double)turning);
                const double co = tables ? c.v[p * half + k] : cos(angle),
                             si = tables ? s.v[p * half + k] : sin(angle);
                ys[i + a] = x.v[i + a] * co - x.v[i + b] * si;
                ys[i + b] = x.v[i + a] * si + x.v[i + b] * co;
                back[i + a] = x.v[i + a] * co + x.v[i + b] * si;
                back[i + b] = x.v[i + b] * co - x.v[i + a] * si;
            }
        }
        trp_rotary_request r = {
            .mode = pairs ? TRP_DNN_ROTARY_PAIRS : TRP_DNN_ROTARY_HALVES, .x = x.t, .y = y.t};
        if (tables)
            r.cosines = c.t, r.sines = s.t;
        else
            r.turning = turning;
        if (indexed)
            r.positions = index.t;
        else if (start)
            r.start = trp_dnn_integer((uint64_t)start);
        if (!tables && turning == 0) /* 0 is the default */
            goto next;
        RUN(trp_rotary_forward, r);
        F_COMPARE(&y, ys, 2, 128, x.t.type == TRP_F64); /* an angle of hundreds, of two libraries */
        r.dy = x.t, r.dx = in_place ? x.t : y.t;
        r.x = r.y = (trp_dnn_tensor){0};
        RUN(trp_rotary_backward, r);
        F_COMPARE(in_place ? &x : &y, back, 2, 128, x.t.type == TRP_F64);
    next:
        f_drop(&x), f_drop(&y), f_drop(&index), f_drop(&c), f_drop(&s), free(ys), free(back);
    }
    end();
}

/* --- Largest elements, sampling --- */

static bool before(bool smallest, double a, int64_t i, double b, int64_t j)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b) ? i < j : smallest ? isnan(b) : isnan(a);
    return a != b ? (smallest ? a < b : a > b) : i < j;
}

static void largest(void)
{
    begin();
    for (int round = 0; round < rounds(80); round++) {
        const int rank = (int)f_from(1, 3), axis = (int)f_below(rank);
        int64_t dim[3], one[3], some[3];
        for (int i = 0; i < rank; i++)
            one[i] = some[i] = dim[i] = f_from(1, i == axis && round % 8 == 0 ? 500 : 20);
        one[axis] = 1;
        some[axis] = f_from(1, dim[axis]);
        const bool smallest = f_below(2);
        const trp_dtype type = f_below(2) ? TRP_I32 : TRP_I64;
        f_field x = f_make(f_real(), rank, dim, false, -2, 2),
                arg = f_make(type, rank, one, false, 1, 0);
        f_field index = f_make(type, rank, some, false, 1, 0),
                v = f_make(f_below(2) ? x.t.type : TRP_F64, rank, some, false, 1, 0);
        for (int64_t i = 0; i < x.count; i++)
            x.v[i] = f_below(60) == 0   ? NAN
                     : f_below(20) == 0 ? INFINITY
                     : f_below(2)       ? floor(x.v[i])
                                        : x.v[i];
        f_write(&x);
        trp_top_k_request r = {.extreme = smallest ? TRP_DNN_SMALLEST : TRP_DNN_LARGEST,
                               .axis = (uint32_t)axis,
                               .x = x.t,
                               .index = arg.t};
        RUN(trp_arg, r);
        r.index = index.t;
        r.values = v.t;
        RUN(trp_top_k, r);
        f_read(&arg), f_read(&index), f_read(&v);
        const int64_t inner = product(dim, axis + 1, rank), length = dim[axis], k = some[axis];
        for (int64_t line = 0; line < x.count / length; line++) {
            const double *at = x.v + line / inner * length * inner + line % inner;
            int64_t best = 0;
            for (int64_t i = 1; i < length; i++) {
                const double a = at[i * inner], b = at[best * inner];
                if (!isnan(b) && (isnan(a) || (smallest ? a < b : a > b)))
                    best = i;
            }
            H_EQUAL(arg.v[line], best);
            for (int64_t rank_of = 0; rank_of < k; rank_of++) {
                const int64_t where = line / inner * k * inner + rank_of * inner + line % inner;
                const int64_t got = (int64_t)index.v[where];
                int64_t ahead = 0;
                H_CHECK(got >= 0 && got < length);
                for (int64_t i = 0; i < length; i++)
                    ahead += before(smallest, at[i * inner], i, at[got * inner], got);
                H_EQUAL(ahead, rank_of);
                H_CHECK(v.v[where] == at[got * inner] ||
                        (isnan(v.v[where]) && isnan(at[got * inner])));
            }
        }
        f_drop(&x), f_drop(&arg), f_drop(&index), f_drop(&v);
    }
    end();
}

/* What is drawn has the probabilities that it should, comes of the candidates alone, and is the
 * same each time. */
static void sampling(void)
{
    enum { ROWS = 1000, CLASSES = 12 };
    begin();
    f_field x = f_make(TRP_F32, 2, (int64_t[]){ROWS, CLASSES}, false, 0, 0);
    f_field index = f_make(TRP_I32, 1, (int64_t[]){ROWS}, false, 1, 0);
    for (int round = 0; round < 8; round++) {
        const double t = round % 2 ? 0.7 : 1, p = round & 2 ? 0.6 : 1;
        const uint64_t k = round & 4 ? 5 : 0;
        double logit[CLASSES], share[CLASSES], total = 0, sum = 0;
        int order[CLASSES], count[CLASSES] = {0}, some = k ? (int)k : CLASSES;
        for (int i = 0; i < CLASSES; i++) {
            logit[i] = (double)(float)ref_rng_uniform(h_rng(), -2, 2);
            order[i] = i;
        }
        for (int64_t i = 0; i < x.count; i++)
            x.v[i] = logit[i % CLASSES];
        f_write(&x);
        for (int i = 0; i < CLASSES; i++) {
            for (int j = i + 1; j < CLASSES; j++) {
                if (logit[order[j]] > logit[order[i]])
                    order[i] ^= order[j], order[j] ^= order[i], order[i] ^= order[j];
            }
        }
        for (int i = 0; i < some; i++)
            total += exp(logit[order[i]] / t);
        int last = 0;
        for (; last < some && (last == 0 || sum < p * total); last++)
            sum += exp(logit[order[last]] / t);
        for (int i = 0; i < CLASSES; i++)
            share[order[i]] = i < last ? exp(logit[order[i]] / t) / sum : 0;
        trp_sample_request r = {.logits = x.t,
                                .index = index.t,
                                .top_k = k,
                                .seed = trp_dnn_integer(7),
                                .offset = trp_dnn_integer((uint64_t)round)};
        r.temperature = trp_real(t);
        if (p < 1)
            r.top_p = trp_real(p);
        RUN(trp_sample, r);
        f_read(&index);
        for (int i = 0; i < ROWS; i++)
            count[(int)index.v[i]]++;
        for (int i = 0; i < CLASSES; i++) {
            H_CHECK(share[i] > 0 || count[i] == 0);
            H_CHECK(fabs((double)count[i] / ROWS - share[i]) <
                    6 * sqrt(share[i] * (1 - share[i]) / ROWS) + 1e-9);
        }
        double again[ROWS];
        memcpy(again, index.v, sizeof again);
        RUN(trp_sample, r);
        F_COMPARE(&index, again, 0, 0, false);
        r.temperature = trp_real(0);
        RUN(trp_sample, r);
        f_read(&index);
        for (int i = 0; i < ROWS; i++)
            H_EQUAL(index.v[i], order[0]);
    }
    f_drop(&x), f_drop(&index);
    end();
}

/* --- Wrong requests --- */

static void wrong(void)
{
    begin();
    f_field a = f_make(TRP_F32, 2, (int64_t[]){6, 4}, true, -1, 1),
            b = f_make(TRP_F32, 2, (int64_t[]){6, 4}, true, -1, 1);
    f_field i = f_make(TRP_I32, 1, (int64_t[]){6}, true, 0, 3),
            one = f_make(TRP_F32, 1, (int64_t[]){1}, true, 0, 1);
    trp_embedding_request e = {.table = a.t, .index = b.t, .y = b.t};
    H_IS(trp_embedding_forward(dnn, &e, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected i32 or i64, got f32");
    e = (trp_embedding_request){.table = a.t, .index = i.t, .y = a.t};
    H_IS(trp_embedding_forward(dnn, &e, NULL), TRP_E_ARGUMENT);
    H_SAYS("overlaps");
    e.y = b.t, e.y.dim[1] = 3;
    H_IS(trp_embedding_forward(dnn, &e, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected 6 x 4, got 6 x 3");
    trp_cross_entropy_request c = {.logits = a.t, .labels = i.t, .loss = b.t};
    H_IS(trp_cross_entropy(dnn, &c, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected one element");
    c.loss = one.t, c.smoothing = 1.5;
    H_IS(trp_cross_entropy(dnn, &c, NULL), TRP_E_ARGUMENT);
    H_SAYS("label smoothing, 0 to 1, got 1.5");
    c = (trp_cross_entropy_request){.logits = a.t, .labels = i.t};
    H_IS(trp_cross_entropy(dnn, &c, NULL), TRP_E_ARGUMENT);
    H_SAYS("at least one tensor to write");
    c = (trp_cross_entropy_request){.logits = a.t, .loss = one.t};
    H_IS(trp_cross_entropy(dnn, &c, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected index or t, got neither");
    trp_loss_request l = {
        .x = a.t, .target = b.t, .loss = one.t, .positive_weight = {.value = trp_real(2)}};
    H_IS(trp_loss(dnn, &l, NULL), TRP_E_ARGUMENT);
    H_SAYS("only TRP_DNN_BCE_LOGITS");
    trp_linear_request n = {.x = a.t, .w = b.t, .dy = a.t, .dw = b.t};
    H_IS(trp_linear_backward(dnn, &n, NULL), TRP_E_ARGUMENT);
    n = (trp_linear_request){.dy = a.t};
    H_IS(trp_linear_backward(dnn, &n, NULL), TRP_E_ARGUMENT);
    H_SAYS("dx, dw, dbias: expected at least one");
    trp_rotary_request r = {.x = a.t, .y = b.t, .cosines = one.t};
    H_IS(trp_rotary_forward(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected both tables or none");
    r = (trp_rotary_request){.x = a.t, .y = b.t, .turning = 3};
    H_IS(trp_rotary_forward(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected an even number up to 4");
    trp_top_k_request k = {.x = a.t, .index = i.t, .axis = 5};
    H_IS(trp_arg(dnn, &k, NULL), TRP_E_ARGUMENT);
    H_SAYS("axis");
    trp_sample_request s = {.logits = a.t, .index = i.t};
    H_IS(trp_sample(dnn, &s, NULL), TRP_E_ARGUMENT);
    H_SAYS("seed");
    const trp_dnn_tensor t[] = {
        {0}, a.t, {.type = TRP_F64, .rank = 1, .dim = {1}, .data = &s}, b.t};
    const trp_dnn_node node = {
        .kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_ADD, .x = 1, .b = 2, .y = 3};
    const trp_dnn_graph_request g = {
        .tensors = t, .tensor_count = 4, .nodes = &node, .node_count = 1};
    H_IS(trp_dnn_graph(dnn, &g, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected a tensor without data");
    f_drop(&a), f_drop(&b), f_drop(&i), f_drop(&one);
    end();
}

static const h_case cases[] = {{"gathering", gathering},
                               {"nowhere", nowhere},
                               {"cross_entropy", cross_entropy},
                               {"entropy_of_extremes", entropy_of_extremes},
                               {"losses", losses},
                               {"linear", linear},
                               {"residual_norm", residual_norm},
                               {"gated", gated},
                               {"gated_apart", gated_apart},
                               {"rotary", rotary},
                               {"largest", largest},
                               {"sampling", sampling},
                               {"wrong", wrong}};

int main(int argc, char **argv)
{
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
