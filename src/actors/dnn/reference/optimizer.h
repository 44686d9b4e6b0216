/* OPTIMIZER, a part of kernels.h. Scratch: the sums of each part of the gradients; then the norm,
 * and whether the step is skipped. */
#include "actors/dnn/math/optimizer.h"

/* Returns the index of an element's range; -1: none. Without a list, range 0 has all elements.
 */
static int64_t range_of(const trp__direct *d, int64_t i)
{
    const double *segment = (const double *)d->at[TRP__OPT_SEGMENTS];
    int64_t low = 0, high = d->used[TRP__OPT_SEGMENTS] ? d->tensor[TRP__OPT_SEGMENTS].dim[0] : 0;
    const int64_t count = high;
    if (!d->used[TRP__OPT_SEGMENTS])
        return 0;
    while (low < high) { /* the first that ends after it */
        const int64_t middle = (low + high) / 2;
        const double *s = segment + middle * TRP__SEGMENT_COLUMNS;
        if (s[TRP__SEGMENT_OFFSET] + s[TRP__SEGMENT_COUNT] > (double)i)
            high = middle;
        else
            low = middle + 1;
    }
    return low < count && segment[low * TRP__SEGMENT_COLUMNS + TRP__SEGMENT_OFFSET] <= (double)i
               ? low
               : -1;
}

TRP__KERNEL void trp_direct_optimizer_norm(const trp__direct d)
{
    const int64_t all = elements(&d.tensor[TRP__OPT_W]);
    double *sums = (double *)d.scratch;
    if (!d.used[TRP__OPT_LIMIT] && !d.used[TRP__OPT_NORM] && !d.used[TRP__OPT_SKIPPED])
        return;
    FOR_BLOCKS(part, d.count)
    {
        double sum[TRP__OPT_SUMS] = {0, 0, 0, 0};
        for (int64_t i = part * TRP__THREADS + TRP__THREAD; i < all; i += d.count * TRP__THREADS) {
            const double g = range_of(&d, i) < 0 ? 0 : load(&d, TRP__OPT_DW, i);
            const double less = g * 0x1p-600, more = g * 0x1p600;
            sum[TRP__OPT_SQUARES] += g * g;
            sum[TRP__OPT_SQUARES_LESS] += less * less;
            sum[TRP__OPT_SQUARES_MORE] += more * more;
            sum[TRP__OPT_ZEROS] += g - g;
        }
        for (int k = 0; k < TRP__OPT_SUMS; k++) {
            sum[k] = sum_of_block(sum[k]);
            if (TRP__THREAD == 0)
                sums[TRP__OPT_SUMS * part + k] = sum[k];
        }
    }
}

static double number_at(const trp__direct *d, int port, double none)
{
    return d->used[port] ? load(d, port, 0) : none;
}

TRP__KERNEL void trp_direct_optimizer_total(const trp__direct d)
{
    double *sums = (double *)d.scratch;
    const double scale = number_at(&d, TRP__OPT_SCALE, 1);
    const bool sum_up = d.used[TRP__OPT_LIMIT] || d.used[TRP__OPT_NORM] || d.used[TRP__OPT_SKIPPED];
    double sum[TRP__OPT_SUMS] = {0, 0, 0, 0};
    if (TRP__BLOCK != 0)
        return;
    FOR_IN_BLOCK(part, sum_up ? TRP__TRAIN_PARTS : 0)
    {
        for (int k = 0; k < TRP__OPT_SUMS; k++)
            sum[k] += sums[TRP__OPT_SUMS * part + k];
    }
    for (int k = 0; k < TRP__OPT_SUMS; k++)
        sum[k] = sum_of_block(sum[k]);
    const bool finite = sum[TRP__OPT_ZEROS] == 0;
    const double norm = fabs(scale) * trp__opt_root(sum);
    const bool skip =
        number_at(&d, TRP__OPT_FOUND, 0) != 0 || (d.used[TRP__OPT_SKIPPED] && !finite);
    if (TRP__THREAD == 0) {
        sums[TRP__OPT_SUMS * TRP__TRAIN_PARTS] = norm;
        sums[TRP__OPT_SUMS * TRP__TRAIN_PARTS + 1] = skip;
        if (d.used[TRP__OPT_NORM])
            store(&d, TRP__OPT_NORM, 0, norm);
        if (d.used[TRP__OPT_SKIPPED])
            store(&d, TRP__OPT_SKIPPED, 0, skip);
    }
}

/* One thread per element; tensors are contiguous. */
TRP__KERNEL void trp_direct_optimizer(const trp__direct d)
{
    const double *sums = (const double *)d.scratch;
    const bool skip = sums[TRP__OPT_SUMS * TRP__TRAIN_PARTS + 1] != 0;
    const double factor =
        trp__opt_factor(number_at(&d, TRP__OPT_SCALE, 1), d.used[TRP__OPT_LIMIT],
                        number_at(&d, TRP__OPT_LIMIT, 1), sums[TRP__OPT_SUMS * TRP__TRAIN_PARTS]);
    const double rate = number_at(&d, TRP__OPT_RATE, 0);
    const double *segment = (const double *)d.at[TRP__OPT_SEGMENTS];
    trp__opt_step s =
        trp__opt_step_of(&d.node, d.used[TRP__OPT_MOMENT], rate, number_at(&d, TRP__OPT_DECAY, 0),
                         factor, (int64_t)word_at(&d, TRP__OPT_COUNT));
    FOR_THREADS(i, d.count)
    {
        const int64_t range = range_of(&d, i);
        double w = load(&d, TRP__OPT_W, i), m[2] = {0, 0};
        for (int k = 0; k < 2; k++) {
            if (d.used[TRP__OPT_MOMENT + k])
                m[k] = load(&d, TRP__OPT_MOMENT + k, i);
        }
        if (d.used[TRP__OPT_SEGMENTS] && range >= 0) {
            s.rate = rate * segment[range * TRP__SEGMENT_COLUMNS + TRP__SEGMENT_RATE];
            s.decay = segment[range * TRP__SEGMENT_COLUMNS + TRP__SEGMENT_DECAY];
        }
        if (range >= 0 && !skip)
            w = trp__opt_update(&s, w, load(&d, TRP__OPT_DW, i), &m[0], &m[1]);
        store(&d, TRP__OPT_NEW_W, i, w);
        if (d.used[TRP__OPT_NARROW])
            store(&d, TRP__OPT_NARROW, i, w);
        for (int k = 0; k < 2; k++) {
            if (d.used[TRP__OPT_NEW_MOMENT + k])
                store(&d, TRP__OPT_NEW_MOMENT + k, i, m[k]);
        }
    }
}
