/* Elements, their positions, and reductions in a block: */

/* Returns the index of item `n`: a proof needs only some. */
static int64_t picked(const trp__direct *d, int64_t n)
{
    return d->sample ? d->sample[n] : n;
}

/* Distributes `count` items over threads, or over blocks, of a kernel whose parameter is d. */
#define FOR_THREADS(i, count)                                                                      \
    for (int64_t i##_at = (int64_t)TRP__BLOCK * TRP__THREADS + TRP__THREAD, i = 0;                 \
         i##_at < (count) && (i = picked(&d, i##_at), true);                                       \
         i##_at += (int64_t)TRP__BLOCKS * TRP__THREADS)
#define FOR_BLOCKS(i, count)                                                                       \
    for (int64_t i##_at = TRP__BLOCK, i = 0; i##_at < (count) && (i = picked(&d, i##_at), true);   \
         i##_at += TRP__BLOCKS)
#define FOR_IN_BLOCK(i, count) for (int64_t i = TRP__THREAD; i < (count); i += TRP__THREADS)

/* --- Elements --- */

static double load(const trp__direct *d, int port, int64_t at)
{
    const void *from = d->at[port];
    return from ? trp__element_load(d->tensor[port].type, from, at) : d->value[port];
}

static void store(const trp__direct *d, int port, int64_t at, double value)
{
    trp__element_store(d->tensor[port].type, d->at[port], at, value);
}

/* --- Places --- */

/* Computes the position of the element with a given index in a shape. */
static void position(const trp__dnn_tensor *shape, int64_t number, int64_t *at)
{
    for (int i = shape->rank - 1; i >= 0; i--) {
        at[i] = number % shape->dim[i];
        number /= shape->dim[i];
    }
}

/* The same for those dimensions that are 1 in another tensor; leaves the others. */
static void position_within(const trp__dnn_tensor *shape, const trp__dnn_tensor *group,
                            int64_t number, int64_t *at)
{
    for (int i = shape->rank - 1; i >= 0; i--) {
        if (group->dim[i] != 1)
            continue;
        at[i] = number % shape->dim[i];
        number /= shape->dim[i];
    }
}

/* Returns an element's offset. Dimensions of 1 are broadcast, and a tensor of another rank has one
 * element. */
static int64_t offset(const trp__dnn_tensor *t, int rank, const int64_t *at)
{
    int64_t sum = 0;
    for (int i = 0; i < rank && t->rank == rank; i++)
        sum += t->dim[i] == 1 ? 0 : at[i] * t->stride[i];
    return sum;
}

static int64_t elements(const trp__dnn_tensor *t)
{
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++)
        count *= t->dim[i];
    return count;
}

/* --- What a block finds together --- */

static double combine(uint8_t mode, double x, double y)
{
    return mode == TRP_DNN_LEAST || mode == TRP_DNN_MOST || mode == TRP_DNN_AMAX ||
                   mode == TRP_DNN_PRODUCT
               ? trp__dnn_reduce_next(mode, x, y)
               : x + y;
}

static double of_block(uint8_t mode, double x)
{
    TRP__SHARED double part[TRP__DIRECT_THREADS];
    TRP__SYNC(); /* the previous result has been read */
    part[TRP__THREAD] = x;
    TRP__SYNC();
    for (int half = TRP__THREADS / 2; half > 0; half /= 2) {
        if (TRP__THREAD < half)
            part[TRP__THREAD] = combine(mode, part[TRP__THREAD], part[TRP__THREAD + half]);
        TRP__SYNC();
    }
    return part[0];
}

static double sum_of_block(double x)
{
    return of_block(TRP_DNN_SUM, x);
}
