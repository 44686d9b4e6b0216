/* CROSS_ENTROPY and LOSS, a part of kernels.h. */
#include "actors/dnn/math/loss.h"

/* --- CROSS_ENTROPY. Scratch: the loss of each row, then the number of rows that count. --- */

/* Returns the offset of a row's element in a tensor of one element per row, with or without the
 * last dimension. */
static int64_t row_offset(const trp__direct *d, int port, const int64_t *at)
{
    const trp__dnn_tensor *t = &d->tensor[port];
    return offset(t, t->rank, at);
}

static int64_t label_of(const trp__direct *d, const int64_t *at, bool *ignored)
{
    const int64_t label = load_integer(d, TRP__LOSS_INDEX, row_offset(d, TRP__LOSS_INDEX, at));
    *ignored = trp__train_ignores(&d->node, label);
    return label;
}

TRP__KERNEL void trp_direct_cross_entropy_count(const trp__direct d)
{
    const trp__dnn_tensor *s = &d.tensor[TRP__DIRECT_STATISTICS];
    const int64_t rows = elements(s);
    double count = 0;
    if (TRP__BLOCK != 0)
        return;
    FOR_IN_BLOCK(row, rows)
    {
        int64_t at[TRP__DNN_RANK];
        bool ignored = false;
        position(s, row, at);
        if (d.used[TRP__LOSS_INDEX])
            label_of(&d, at, &ignored);
        count += !ignored;
    }
    count = sum_of_block(count);
    if (TRP__THREAD == 0)
        ((double *)d.scratch)[rows] = count;
}

static void store_row(const trp__direct *d, int port, const int64_t *at, double value)
{
    if (d->used[port])
        store(d, port, row_offset(d, port, at), value);
}

/* One block per row. The whole row is read before dx, which may have its place, is written, except
 * for each element's own place. */
TRP__KERNEL void trp_direct_cross_entropy(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__LOSS_X], *s = &d.tensor[TRP__DIRECT_STATISTICS];
    const trp__dnn_tensor *t = &d.tensor[TRP__LOSS_T], *dx = &d.tensor[TRP__LOSS_DX];
    const int last = x->rank - 1;
    const int64_t classes = x->dim[last], step = x->stride[last];
    const double smooth = d.node.parameter[0], z = d.node.parameter[1];
    const double even = smooth / (double)classes;
    const bool each = trp__train_reduction(&d.node) == TRP_DNN_REDUCE_NONE;
    double *losses = (double *)d.scratch;
    const double divisor = trp__loss_divisor(&d.node, losses[elements(s)], 1);
    FOR_BLOCKS(row, d.count)
    {
        int64_t at[TRP__DNN_RANK], label = -1;
        bool ignored = false;
        double most = -INFINITY, sum = 0, linear = 0, total = 0, loss = 0, factor = 1;
        position(s, row, at);
        const int64_t from = offset(x, x->rank, at);
        const int64_t of_t = d.used[TRP__LOSS_T] ? offset(t, t->rank, at) : 0;
        const int64_t to = d.used[TRP__LOSS_DX] ? offset(dx, dx->rank, at) : 0;
        if (d.used[TRP__LOSS_INDEX])
            label = label_of(&d, at, &ignored);
        const bool wrong = d.used[TRP__LOSS_INDEX] && !ignored && (label < 0 || label >= classes);
        FOR_IN_BLOCK(j, classes)
        {
            const double v = load(&d, TRP__LOSS_X, from + j * step);
            most = v > most ? v : most;
        }
        most = of_block(TRP_DNN_MOST, most);
        FOR_IN_BLOCK(j, classes)
        {
            const double v = load(&d, TRP__LOSS_X, from + j * step);
            sum += exp(v - most);
            linear += v;
            if (d.used[TRP__LOSS_T])
                total += load(&d, TRP__LOSS_T, of_t + j * t->stride[last]);
        }
        sum = sum_of_block(sum);
        linear = sum_of_block(linear);
        total = sum_of_block(total);
        const double log_sum = most + log(sum);
        const double own = d.used[TRP__LOSS_INDEX] && !ignored && !wrong
                               ? load(&d, TRP__LOSS_X, from + label * step)
                               : 0;
        TRP__SYNC(); /* all threads have read `own` */
        total = d.used[TRP__LOSS_T] ? (1 - smooth) * total + smooth : 1;
        if (d.used[TRP__LOSS_DY])
            factor = load(&d, TRP__LOSS_DY,
                          each && d.at[TRP__LOSS_DY] ? row_offset(&d, TRP__LOSS_DY, at) : 0);
        factor = divisor > 0 ? factor / divisor : 0;
        FOR_IN_BLOCK(j, classes)
        {
            const double v = load(&d, TRP__LOSS_X, from + j * step);
            double q = even + (j == label ? 1 - smooth : 0);
            if (d.used[TRP__LOSS_T]) {
                q = (1 - smooth) * load(&d, TRP__LOSS_T, of_t + j * t->stride[last]) + even;
                loss += q == 0 ? 0 : q * (log_sum - v);
            }
            if (d.used[TRP__LOSS_DX])
                store(&d, TRP__LOSS_DX, to + j * dx->stride[last],
                      ignored ? 0
                      : wrong ? NAN
                              : factor * ((total + 2 * z * log_sum) * (exp(v - most) / sum) - q));
        }
        loss = sum_of_block(loss);
        if (d.used[TRP__LOSS_INDEX])
            loss = (smooth < 1 ? (1 - smooth) * (log_sum - own) : 0) +
                   (smooth > 0 ? smooth * (log_sum - linear / (double)classes) : 0);
        loss += z != 0 ? z * log_sum * log_sum : 0;
        loss = ignored ? 0 : wrong ? NAN : loss;
        if (TRP__THREAD == 0) {
            losses[row] = loss;
            store_row(&d, TRP__LOSS_ROWS, at, loss);
            store_row(&d, TRP__LOSS_STATS, at, ignored ? 0 : log_sum);
            if (each)
                store_row(&d, TRP__LOSS_Y, at, loss);
        }
    }
}

TRP__KERNEL void trp_direct_cross_entropy_total(const trp__direct d)
{
    const int64_t rows = elements(&d.tensor[TRP__DIRECT_STATISTICS]);
    const double *losses = (const double *)d.scratch;
    double sum = 0;
    if (TRP__BLOCK != 0 || trp__train_reduction(&d.node) == TRP_DNN_REDUCE_NONE)
        return;
    FOR_IN_BLOCK(row, rows) sum += losses[row];
    sum = sum_of_block(sum);
    if (TRP__THREAD == 0 && d.used[TRP__LOSS_Y])
        store(&d, TRP__LOSS_Y, 0, sum / trp__loss_divisor(&d.node, losses[rows], 1));
}

/* --- LOSS. Scratch: the sum of each part. --- */

static double spread_at(const trp__direct *d, int port, int rank, const int64_t *at)
{
    return d->used[port] ? load_at(d, port, rank, at) : 1;
}

TRP__KERNEL void trp_direct_loss(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__LOSS_X];
    const int rank = x->rank, mode = d.node.mode;
    const int64_t all = elements(x);
    const bool each = trp__train_reduction(&d.node) == TRP_DNN_REDUCE_NONE;
    const double beta = d.node.parameter[0];
    const double divisor = trp__loss_divisor(&d.node, (double)all, (double)x->dim[0]);
    FOR_BLOCKS(part, d.count)
    {
        double sum = 0;
        for (int64_t i = part * TRP__THREADS + TRP__THREAD; i < all; i += d.count * TRP__THREADS) {
            int64_t at[TRP__DNN_RANK];
            position(x, i, at);
            const double v = load_at(&d, TRP__LOSS_X, rank, at);
            const double t = load_at(&d, TRP__LOSS_T, rank, at);
            const double w = spread_at(&d, TRP__LOSS_W, rank, at);
            const double b = spread_at(&d, TRP__LOSS_B, rank, at);
            const double value = trp__loss_value(mode, beta, v, t, b) * w;
            sum += value;
            store_at(&d, TRP__LOSS_ROWS, rank, at, value);
            if (each)
                store_at(&d, TRP__LOSS_Y, rank, at, value);
            if (d.used[TRP__LOSS_DX])
                store_at(&d, TRP__LOSS_DX, rank, at,
                         trp__loss_slope(mode, beta, v, t, b) * w *
                             spread_at(&d, TRP__LOSS_DY, rank, at) / divisor);
        }
        sum = sum_of_block(sum);
        if (TRP__THREAD == 0)
            ((double *)d.scratch)[part] = sum;
    }
}

TRP__KERNEL void trp_direct_loss_total(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__LOSS_X];
    double sum = 0;
    if (TRP__BLOCK != 0 || trp__train_reduction(&d.node) == TRP_DNN_REDUCE_NONE)
        return;
    FOR_IN_BLOCK(part, TRP__TRAIN_PARTS) sum += ((const double *)d.scratch)[part];
    sum = sum_of_block(sum);
    if (TRP__THREAD == 0 && d.used[TRP__LOSS_Y])
        store(&d, TRP__LOSS_Y, 0,
              sum / trp__loss_divisor(&d.node, (double)elements(x), (double)x->dim[0]));
}
