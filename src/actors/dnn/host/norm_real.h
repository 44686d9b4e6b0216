/* Reductions and normalisation in one real type, summed in f64; for f64 with the rounding errors of
 * the additions (Knuth's two-sum). Included by nodes_real.h. */

static inline void NAME(add)(double *sum, double *lost, double value)
{
    const double next = *sum + value;
    if (!IS_F32) {
        const double added = next - *sum;
        *lost += *sum - (next - added) + (value - added);
    }
    *sum = next;
}

/* Beyond the range of f64 the rounding error is a NaN. */
static inline double NAME(total)(double sum, double lost)
{
    return IS_F32 || !isfinite(sum) ? sum : sum + lost;
}

static void NAME(add_lost)(double *sum, const double *lost, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        sum[i] = NAME(total)(sum[i], lost[i]);
}

/* The reduction of x to sum[], with an element for each of y, which is dense like y. */
typedef struct NAME(reduction) {
    const trp__dnn_host_node *x;
    uint8_t mode;
    const double *factor; /* NULL, or a factor for the values of each element of y */
    double *sum, *lost;
    int axis;      /* iterated dimension that threads share, and */
    int64_t chunk; /* its elements per piece */
} NAME(reduction);

static inline double NAME(term)(uint8_t mode, double value)
{
    return mode == TRP_DNN_NORM1 ? fabs(value) : mode == TRP_DNN_NORM2 ? value * value : value;
}

/* Reduces consecutive elements of x: all to one element of y, or with `apart` each to a separate
 * one. */
static void NAME(reduce_line)(const NAME(reduction) * r, const T *in, int64_t at, int64_t count,
                              bool apart)
{
    double *restrict to = r->sum + at, *restrict lost = r->lost + at;
    const double *factor = r->factor ? r->factor + at : NULL;
    if (!trp__dnn_reduce_adds(r->mode)) {
        for (int64_t j = 0; j < count; j++) {
            const int64_t k = apart ? j : 0;
            to[k] = trp__dnn_reduce_next(r->mode, to[k], (double)in[j] * (factor ? factor[k] : 1));
        }
    } else if (apart && !factor && r->mode != TRP_DNN_NORM1 && r->mode != TRP_DNN_NORM2) {
        for (int64_t j = 0; j < count; j++)
            NAME(add)(&to[j], &lost[j], (double)in[j]);
    } else if (apart) {
        for (int64_t j = 0; j < count; j++) {
            const double value = (double)in[j] * (factor ? factor[j] : 1);
            NAME(add)(&to[j], &lost[j], NAME(term)(r->mode, value));
        }
    } else {
        double sum[LANES] = {0}, rest[LANES] = {0};
        const double by = factor ? *factor : 1;
        const int lanes = count < 8 * LANES ? 1 : LANES;
        int64_t j = 0;
        for (; lanes > 1 && j + LANES <= count; j += LANES) {
            for (int k = 0; k < LANES; k++)
                NAME(add)(&sum[k], &rest[k], NAME(term)(r->mode, (double)in[j + k] * by));
        }
        for (; j < count; j++)
            NAME(add)(&sum[0], &rest[0], NAME(term)(r->mode, (double)in[j] * by));
        for (int k = 0; k < lanes; k++) {
            NAME(add)(to, lost, sum[k]);
            *lost += rest[k];
        }
    }
}

/* Reduces elements of y in the order of x, independently of threads that reduce other elements. */
static void NAME(reduce_piece)(void *context, int64_t piece, int worker)
{
    const NAME(reduction) *r = context;
    const T *in = r->x->at[TRP__DNN_REDUCTION_X];
    trp__walk walk;
    (void)worker;
    trp__walk_begin(&walk, r->x->tensor[TRP__DNN_REDUCTION_X]);
    trp__walk_add(&walk, r->x->tensor[TRP__DNN_REDUCTION_X]);
    trp__walk_add(&walk, r->x->tensor[TRP__DNN_REDUCTION_Y]);
    if (walk.rank == 0) {
        NAME(reduce_line)(r, in, 0, 1, false);
        return;
    }
    const int64_t from = piece * r->chunk, rest = walk.dim[r->axis] - from;
    walk.dim[r->axis] = rest < r->chunk ? rest : r->chunk;
    for (int k = 0; k < walk.arrays; k++)
        walk.offset[k] = from * walk.step[k][r->axis];
    const int last = walk.rank - 1;
    const int64_t count = walk.dim[last];
    walk.dim[last] = 1;
    do
        NAME(reduce_line)(r, in + walk.offset[0], walk.offset[1], count, walk.step[1][last] != 0);
    while (trp__walk_next(&walk));
}

/* Reduces with threads that share a dimension of y, the first or the last of x. `lost` has as many
 * elements as sum[]. */
static void NAME(reduce)(const trp__dnn_host_node *x, uint8_t mode, const double *factor,
                         double *sum, double *lost)
{
    enum { SHARED = 1 << 14 }; /* least elements that are worth a thread */
    const trp__dnn_tensor *from = x->tensor[TRP__DNN_REDUCTION_X];
    const trp__dnn_tensor *to = x->tensor[TRP__DNN_REDUCTION_Y];
    const int64_t all = trp__dnn_elements(to);
    NAME(reduction)
    r = {.x = x, .mode = mode, .factor = factor, .sum = sum, .lost = lost, .chunk = INT64_MAX};
    int64_t pieces = 1;
    trp__walk walk;
    for (int64_t i = 0; i < all; i++) {
        sum[i] = trp__dnn_reduce_first(mode);
        lost[i] = 0;
    }
    if (!trp__walk_begin(&walk, from))
        return;
    trp__walk_add(&walk, to);
    if (walk.rank > 0) {
        const bool first = walk.step[0][0] != 0, last = walk.step[0][walk.rank - 1] != 0;
        r.axis = first ? 0 : walk.rank - 1;
        const int64_t size = walk.dim[r.axis], each = trp__dnn_elements(from) / size;
        if (first || last) {
            r.chunk = SHARED / each > (first ? 1 : 64) ? SHARED / each : first ? 1 : 64;
            pieces = (size + r.chunk - 1) / r.chunk;
        }
    }
    trp__team_run(NAME(reduce_piece), &r, pieces);
    if (trp__dnn_reduce_adds(mode))
        NAME(add_lost)(sum, lost, all);
}

static void NAME(run_reduction)(const trp__dnn_host_node *x)
{
    const uint8_t mode = x->n->mode;
    const int64_t count = trp__dnn_elements(x->tensor[TRP__DNN_REDUCTION_Y]);
    const int64_t all = trp__dnn_elements(x->tensor[TRP__DNN_REDUCTION_X]);
    double *sum = x->rest, *factor = sum + count, *lost = factor + count;
    bool again = false; /* sums of f32 stay within the range of f64 */
    NAME(reduce)(x, mode, NULL, sum, lost);
    for (int64_t i = 0; i < count; i++)
        again = again || (!IS_F32 && trp__dnn_reduce_left_range(mode, sum[i]));
    if (again) {
        NAME(reduce)(x, TRP_DNN_AMAX, NULL, factor, lost);
        for (int64_t i = 0; i < count; i++)
            factor[i] = trp__dnn_near_one(factor[i]);
        NAME(reduce)(x, mode, factor, sum, lost);
    }
    for (int64_t i = 0; i < count; i++)
        ((T *)x->at[TRP__DNN_REDUCTION_Y])[i] =
            (T)(trp__dnn_reduce_last(mode, sum[i], all / count) / (again ? factor[i] : 1));
}

static void NAME(run_statistics)(const trp__dnn_host_node *x)
{
    const trp__dnn_tensor *from = x->tensor[TRP__DNN_STATISTICS_X];
    const trp__dnn_tensor *to = x->tensor[TRP__DNN_STATISTICS_SUM];
    const T *in = x->at[TRP__DNN_STATISTICS_X];
    const int64_t count = trp__dnn_elements(to);
    double *sum = x->rest, *squares = sum + count, *lost = squares + count;
    trp__walk walk;
    memset(sum, 0, (size_t)count * 4 * sizeof *sum);
    if (trp__walk_begin(&walk, from)) {
        trp__walk_add(&walk, from);
        trp__walk_add(&walk, to);
        do {
            const int64_t to_one = walk.offset[1];
            const double value = (double)in[walk.offset[0]];
            NAME(add)(&sum[to_one], &lost[to_one], value);
            NAME(add)(&squares[to_one], &lost[count + to_one], value * value);
        } while (trp__walk_next(&walk));
    }
    NAME(add_lost)(sum, lost, 2 * count);
    for (int64_t i = 0; i < count; i++) {
        ((T *)x->at[TRP__DNN_STATISTICS_SUM])[i] = (T)sum[i];
        ((T *)x->at[TRP__DNN_STATISTICS_SQUARE_SUM])[i] = (T)squares[i];
    }
}

/* A normalisation: iterates over x's elements with those of statistics, scale and dy. */
typedef struct NAME(norm) {
    const trp__dnn_host_node *x;
    trp__dnn_tensor statistics;
    int64_t groups, group;          /* number of statistics and elements of each */
    double *mean, *inverse, *other; /* of each group */
    double *factor; /* per group, forward: a power of two; the arrays above are of x times it */
    const T *in, *scale;
    bool centred; /* the mean is subtracted */
} NAME(norm);

static NAME(norm) NAME(describe_norm)(const trp__dnn_host_node *x)
{
    NAME(norm)
    n = {.x = x,
         .statistics = trp__dnn_statistics_shape(x->n, x->tensor),
         .in = x->at[TRP__DNN_NORM_X],
         .scale = x->at[TRP__DNN_NORM_SCALE],
         .centred = x->n->mode != TRP_DNN_RMS};
    n.groups = trp__dnn_elements(&n.statistics);
    n.group = n.groups ? trp__dnn_elements(x->tensor[TRP__DNN_NORM_X]) / n.groups : 0;
    n.mean = x->rest;
    n.inverse = n.mean + n.groups;
    n.other = n.inverse + n.groups;
    n.factor = n.other + n.groups;
    return n;
}

static bool NAME(norm_walk)(const NAME(norm) * n, trp__walk *walk)
{
    const trp__dnn_tensor *in = n->x->tensor[TRP__DNN_NORM_X];
    bool any = trp__walk_begin(walk, in);
    trp__walk_add(walk, in);
    trp__walk_add(walk, &n->statistics);
    trp__walk_add(walk, n->x->tensor[TRP__DNN_NORM_SCALE]);
    return any;
}

/* Finds factors that bring the values of each group near 1, so that squares stay in f64's range;
 * values of f32 need no factor. */
static void NAME(take_factors)(const NAME(norm) * n)
{
    trp__walk walk;
    for (int64_t i = 0; i < n->groups; i++)
        n->factor[i] = IS_F32 ? 1 : 0;
    if (IS_F32 || !NAME(norm_walk)(n, &walk))
        return;
    do {
        double *amax = &n->factor[walk.offset[1]];
        *amax = trp__dnn_reduce_next(TRP_DNN_AMAX, *amax, (double)n->in[walk.offset[0]]);
    } while (trp__walk_next(&walk));
    for (int64_t i = 0; i < n->groups; i++)
        n->factor[i] = trp__dnn_norm_factor(n->factor[i]);
}

/* Computes means, and the mean of squared differences in `other`. */
static void NAME(take_statistics)(const NAME(norm) * n)
{
    double *lost = n->inverse; /* not used yet */
    trp__walk walk;
    memset(n->mean, 0, (size_t)n->groups * 3 * sizeof *n->mean);
    NAME(take_factors)(n);
    if (!NAME(norm_walk)(n, &walk))
        return;
    do {
        const int64_t s = walk.offset[1];
        if (n->centred)
            NAME(add)(&n->mean[s], &lost[s], (double)n->in[walk.offset[0]] * n->factor[s]);
    } while (trp__walk_next(&walk));
    NAME(add_lost)(n->mean, lost, n->groups);
    for (int64_t i = 0; i < n->groups; i++) {
        n->mean[i] /= (double)n->group;
        lost[i] = 0;
    }
    NAME(norm_walk)(n, &walk);
    do {
        const int64_t s = walk.offset[1];
        double away = (double)n->in[walk.offset[0]] * n->factor[s] - n->mean[s];
        NAME(add)(&n->other[s], &lost[s], away * away);
    } while (trp__walk_next(&walk));
    NAME(add_lost)(n->other, lost, n->groups);
    const double epsilon = (double)*(T *)n->x->at[TRP__DNN_NORM_EPSILON];
    for (int64_t i = 0; i < n->groups; i++) {
        n->other[i] /= (double)n->group;
        n->inverse[i] = trp__dnn_norm_inverse(n->other[i], epsilon, n->factor[i]);
    }
}

/* Reads the given statistics. `scaled`: as those of x times a factor that keeps x - mean finite. */
static void NAME(read_statistics)(const NAME(norm) * n, bool scaled)
{
    const T *mean = n->x->at[TRP__DNN_NORM_MEAN], *inverse = n->x->at[TRP__DNN_NORM_INV_VARIANCE];
    for (int64_t i = 0; i < n->groups; i++) {
        const double m = mean ? (double)mean[i] : 0;
        n->factor[i] = scaled ? trp__dnn_norm_factor_beside(m) : 1;
        n->mean[i] = m * n->factor[i];
        n->inverse[i] = (double)inverse[i] / n->factor[i];
    }
}

static void NAME(write_statistics)(const NAME(norm) * n)
{
    void *const *at = n->x->at;
    T *mean = at[TRP__DNN_NORM_MEAN], *inverse = at[TRP__DNN_NORM_INV_VARIANCE];
    const T *old_mean = at[TRP__DNN_NORM_RUNNING_MEAN];
    const T *old_variance = at[TRP__DNN_NORM_RUNNING_VARIANCE];
    for (int64_t i = 0; i < n->groups; i++) {
        const double by = n->factor[i], mean_of = n->mean[i] / by;
        if (mean)
            mean[i] = (T)mean_of;
        inverse[i] = (T)(n->inverse[i] * by);
        if (!old_mean)
            continue;
        double factor = (double)*(T *)at[TRP__DNN_NORM_AVERAGE_FACTOR];
        double others = n->group > 1 ? (double)(n->group - 1) : 1; /* a single value has variance
                                                                    * 0 */
        double variance = n->other[i] * ((double)n->group / others) / by / by;
        ((T *)at[TRP__DNN_NORM_NEW_RUNNING_MEAN])[i] =
            (T)((1 - factor) * (double)old_mean[i] + factor * mean_of);
        ((T *)at[TRP__DNN_NORM_NEW_RUNNING_VARIANCE])[i] =
            (T)((1 - factor) * (double)old_variance[i] + factor * variance);
    }
}

static void NAME(run_norm)(const trp__dnn_host_node *x)
{
    const NAME(norm) n = NAME(describe_norm)(x);
    const T *bias = x->at[TRP__DNN_NORM_BIAS];
    T *out = x->at[TRP__DNN_NORM_Y];
    trp__walk walk;
    if (x->at[TRP__DNN_NORM_EPSILON])
        NAME(take_statistics)(&n);
    else
        NAME(read_statistics)(&n, true);
    if (x->n->kind == TRP_DNN_NORM_TRAINING)
        NAME(write_statistics)(&n);
    if (!NAME(norm_walk)(&n, &walk))
        return;
    do {
        const int64_t i = walk.offset[0], s = walk.offset[1], c = walk.offset[2];
        double value =
            ((double)n.in[i] * n.factor[s] - n.mean[s]) * n.inverse[s] * (double)n.scale[c];
        out[i] = (T)(value + (bias ? (double)bias[c] : 0));
    } while (trp__walk_next(&walk));
}

/* With h = (x - mean) * inverse and g = dy * scale: dx = inverse * (g - mean of g - h * mean of
 * g h), the means over each group, that of g only where x was centred. */
static void NAME(run_norm_backward)(const trp__dnn_host_node *x)
{
    const NAME(norm) n = NAME(describe_norm)(x);
    const T *dy = x->at[TRP__DNN_NORM_Y];
    T *dx = x->at[TRP__DNN_NORM_DX], *dscale = x->at[TRP__DNN_NORM_DSCALE];
    T *dbias = x->at[TRP__DNN_NORM_BIAS];
    const int64_t scales = trp__dnn_elements(x->tensor[TRP__DNN_NORM_SCALE]);
    const int64_t sums = 2 * (n.groups + scales);
    double *g = n.other, *gh = g + n.groups, *sum = gh + n.groups, *sum_h = sum + scales;
    double *lost = g + sums; /* of g, then of the others */
    trp__walk walk;
    NAME(read_statistics)(&n, false);
    memset(g, 0, (size_t)(2 * sums) * sizeof *g);
    if (NAME(norm_walk)(&n, &walk)) {
        do {
            const int64_t i = walk.offset[0], s = walk.offset[1], c = walk.offset[2];
            double h = ((double)n.in[i] - n.mean[s]) * n.inverse[s], d = (double)dy[i];
            if (n.centred)
                NAME(add)(&g[s], &lost[s], d * (double)n.scale[c] / (double)n.group);
            NAME(add)(&gh[s], &lost[gh - g + s], d * (double)n.scale[c] * h / (double)n.group);
            NAME(add)(&sum[c], &lost[sum - g + c], d);
            NAME(add)(&sum_h[c], &lost[sum_h - g + c], d * h);
        } while (trp__walk_next(&walk));
        NAME(add_lost)(g, lost, sums);
        NAME(norm_walk)(&n, &walk);
        do {
            const int64_t i = walk.offset[0], s = walk.offset[1], c = walk.offset[2];
            double h = ((double)n.in[i] - n.mean[s]) * n.inverse[s];
            dx[i] = (T)(n.inverse[s] * ((double)dy[i] * (double)n.scale[c] - g[s] - h * gh[s]));
        } while (trp__walk_next(&walk));
    }
    for (int64_t c = 0; c < scales; c++) {
        dscale[c] = (T)sum_h[c];
        if (dbias)
            dbias[c] = (T)sum[c];
    }
}
