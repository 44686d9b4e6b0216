/* NORM_..., a part of kernels.h: one block per group with common statistics. */

static double load_at(const trp__direct *d, int port, int rank, const int64_t *at)
{
    return load(d, port, offset(&d->tensor[port], rank, at));
}

static void store_at(const trp__direct *d, int port, int rank, const int64_t *at, double value)
{
    if (d->used[port])
        store(d, port, offset(&d->tensor[port], rank, at), value);
}

/* A thread's sum, and what its roundings lost: groups are long, and f64 has no wider type. */
typedef struct exact_sum {
    double sum, lost;
} exact_sum;

static void add_to(exact_sum *s, double x)
{
    const double next = s->sum + x, part = next - s->sum;
    const double error = (s->sum - (next - part)) + (x - part);
    s->sum = next;
    if (error == error) /* sums that are infinite lose nothing */
        s->lost += error;
}

static double exact_of_block(const exact_sum *s)
{
    return sum_of_block(s->sum + s->lost);
}

/* Computes the mean of a group and the mean of squared differences from it, of its values times a
 * factor. `at` is the group's position. */
static void take_statistics(const trp__direct *d, int64_t group, int64_t *at, double *factor,
                            double *mean, double *variance)
{
    const trp__dnn_tensor *x = &d->tensor[TRP__DNN_NORM_X];
    const trp__dnn_tensor *s = &d->tensor[TRP__DIRECT_STATISTICS];
    double amax = 0;
    exact_sum sum = {0, 0}, squares = {0, 0};
    *factor = 1;
    *mean = 0;
    if (x->type == TRP_F64) { /* f64 represents the squares of all other types */
        FOR_IN_BLOCK(i, group)
        {
            position_within(x, s, i, at);
            amax =
                trp__dnn_reduce_next(TRP_DNN_AMAX, amax, load_at(d, TRP__DNN_NORM_X, x->rank, at));
        }
        *factor = trp__dnn_norm_factor(of_block(TRP_DNN_AMAX, amax));
    }
    if (d->node.mode != TRP_DNN_RMS) {
        FOR_IN_BLOCK(i, group)
        {
            position_within(x, s, i, at);
            add_to(&sum, load_at(d, TRP__DNN_NORM_X, x->rank, at) * *factor);
        }
        *mean = exact_of_block(&sum) / (double)group;
    }
    FOR_IN_BLOCK(i, group)
    {
        position_within(x, s, i, at);
        double away = load_at(d, TRP__DNN_NORM_X, x->rank, at) * *factor - *mean;
        add_to(&squares, away * away);
    }
    *variance = exact_of_block(&squares) / (double)group;
}

static void write_statistics(const trp__direct *d, int rank, int64_t group, const int64_t *at,
                             double mean, double variance, double inverse)
{
    store_at(d, TRP__DNN_NORM_MEAN, rank, at, mean);
    store_at(d, TRP__DNN_NORM_INV_VARIANCE, rank, at, inverse);
    if (!d->used[TRP__DNN_NORM_RUNNING_MEAN])
        return;
    double factor = load_at(d, TRP__DNN_NORM_AVERAGE_FACTOR, rank, at);
    double all = group > 1 ? variance * ((double)group / (double)(group - 1)) : variance;
    store_at(d, TRP__DNN_NORM_NEW_RUNNING_MEAN, rank, at,
             (1 - factor) * load_at(d, TRP__DNN_NORM_RUNNING_MEAN, rank, at) + factor * mean);
    store_at(d, TRP__DNN_NORM_NEW_RUNNING_VARIANCE, rank, at,
             (1 - factor) * load_at(d, TRP__DNN_NORM_RUNNING_VARIANCE, rank, at) + factor * all);
}

TRP__KERNEL void trp_direct_norm(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_NORM_X];
    const trp__dnn_tensor *s = &d.tensor[TRP__DIRECT_STATISTICS];
    const int64_t group = elements(x) / elements(s);
    FOR_BLOCKS(b, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        double mean = 0, variance = 0, factor = 1, inverse;
        position(s, b, at);
        if (d.used[TRP__DNN_NORM_EPSILON]) {
            take_statistics(&d, group, at, &factor, &mean, &variance);
            inverse = trp__dnn_norm_inverse(
                variance, load_at(&d, TRP__DNN_NORM_EPSILON, x->rank, at), factor);
        } else {
            if (d.used[TRP__DNN_NORM_MEAN])
                mean = load_at(&d, TRP__DNN_NORM_MEAN, x->rank, at);
            factor = trp__dnn_norm_factor_beside(mean);
            mean *= factor;
            inverse = load_at(&d, TRP__DNN_NORM_INV_VARIANCE, x->rank, at) / factor;
        }
        if (d.node.kind == TRP_DNN_NORM_TRAINING && TRP__THREAD == 0)
            write_statistics(&d, x->rank, group, at, mean / factor, variance / factor / factor,
                             inverse * factor);
        FOR_IN_BLOCK(i, group)
        {
            position_within(x, s, i, at);
            double value = (load_at(&d, TRP__DNN_NORM_X, x->rank, at) * factor - mean) * inverse *
                           load_at(&d, TRP__DNN_NORM_SCALE, x->rank, at);
            if (d.used[TRP__DNN_NORM_BIAS])
                value += load_at(&d, TRP__DNN_NORM_BIAS, x->rank, at);
            store_at(&d, TRP__DNN_NORM_Y, x->rank, at, value);
        }
    }
}

/* Returns (x - mean) * inverse, and dy. */
static double normal(const trp__direct *d, int rank, const int64_t *at, double *dy)
{
    double mean = d->used[TRP__DNN_NORM_MEAN] ? load_at(d, TRP__DNN_NORM_MEAN, rank, at) : 0;
    *dy = load_at(d, TRP__DNN_NORM_Y, rank, at);
    return (load_at(d, TRP__DNN_NORM_X, rank, at) - mean) *
           load_at(d, TRP__DNN_NORM_INV_VARIANCE, rank, at);
}

/* With h as of normal() and g = dy * scale: dx = inverse * (g - mean of g - h * mean of g h), the
 * means over each group, that of g only where x was centred. */
TRP__KERNEL void trp_direct_norm_backward(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_NORM_X];
    const trp__dnn_tensor *s = &d.tensor[TRP__DIRECT_STATISTICS];
    const int64_t group = elements(x) / elements(s);
    FOR_BLOCKS(b, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        exact_sum sum = {0, 0}, sum_h = {0, 0};
        double dy;
        position(s, b, at);
        FOR_IN_BLOCK(i, group)
        {
            position_within(x, s, i, at);
            double h = normal(&d, x->rank, at, &dy);
            dy *= load_at(&d, TRP__DNN_NORM_SCALE, x->rank, at);
            add_to(&sum, dy);
            add_to(&sum_h, dy * h);
        }
        const double g = d.node.mode != TRP_DNN_RMS ? exact_of_block(&sum) / (double)group : 0;
        const double gh = exact_of_block(&sum_h) / (double)group;
        FOR_IN_BLOCK(i, group)
        {
            position_within(x, s, i, at);
            double h = normal(&d, x->rank, at, &dy);
            dy *= load_at(&d, TRP__DNN_NORM_SCALE, x->rank, at);
            store_at(&d, TRP__DNN_NORM_DX, x->rank, at,
                     load_at(&d, TRP__DNN_NORM_INV_VARIANCE, x->rank, at) * (dy - g - h * gh));
        }
    }
}

/* One block per element of dscale and dbias. */
TRP__KERNEL void trp_direct_norm_backward_scale(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_NORM_X];
    const trp__dnn_tensor *s = &d.tensor[TRP__DNN_NORM_DSCALE];
    const int64_t group = elements(x) / elements(s);
    FOR_BLOCKS(b, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        exact_sum sum = {0, 0}, sum_h = {0, 0};
        double dy;
        position(s, b, at);
        FOR_IN_BLOCK(i, group)
        {
            position_within(x, s, i, at);
            double h = normal(&d, x->rank, at, &dy);
            add_to(&sum, dy);
            add_to(&sum_h, dy * h);
        }
        const double dbias = exact_of_block(&sum), dscale = exact_of_block(&sum_h);
        position(s, b, at);
        if (TRP__THREAD == 0) {
            store_at(&d, TRP__DNN_NORM_DSCALE, x->rank, at, dscale);
            store_at(&d, TRP__DNN_NORM_BIAS, x->rank, at, dbias);
        }
    }
}
