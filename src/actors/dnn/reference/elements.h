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

static double to_integer(double value, double least, double most)
{
    double nearest = rint(value);
    return nearest != nearest ? 0 : nearest < least ? least : nearest > most ? most : nearest;
}

static double load(const trp__direct *d, int port, int64_t at)
{
    const void *from = d->at[port];
    if (!from)
        return d->value[port];
    switch (d->tensor[port].type) {
    case TRP_F64:
        return ((const double *)from)[at];
    case TRP_F32:
        return (double)((const float *)from)[at];
    case TRP_F16:
        return (double)trp__f16_to_f32(((const uint16_t *)from)[at]);
    case TRP_BF16:
        return (double)trp__bf16_to_f32(((const uint16_t *)from)[at]);
    case TRP_F8E4M3:
        return (double)trp__f8e4m3_to_f32(((const uint8_t *)from)[at]);
    case TRP_F8E5M2:
        return (double)trp__f8e5m2_to_f32(((const uint8_t *)from)[at]);
    case TRP_F8E8M0:
        return (double)trp__ue8m0_to_f32(((const uint8_t *)from)[at]);
    case TRP_I8:
        return ((const int8_t *)from)[at];
    case TRP_I32:
        return ((const int32_t *)from)[at];
    case TRP_BOOL:
        return ((const uint8_t *)from)[at] != 0;
    default: /* u8 */
        return ((const uint8_t *)from)[at];
    }
}

static void store(const trp__direct *d, int port, int64_t at, double value)
{
    void *to = d->at[port];
    switch (d->tensor[port].type) {
    case TRP_F64:
        ((double *)to)[at] = value;
        break;
    case TRP_F32:
        ((float *)to)[at] = (float)value;
        break;
    case TRP_F16:
        ((uint16_t *)to)[at] = trp__f64_to_f16(value);
        break;
    case TRP_BF16:
        ((uint16_t *)to)[at] = trp__f64_to_bf16(value);
        break;
    case TRP_F8E4M3:
        ((uint8_t *)to)[at] = trp__f32_to_f8e4m3(trp__f64_to_f32_odd(value));
        break;
    case TRP_F8E5M2:
        ((uint8_t *)to)[at] = trp__f32_to_f8e5m2(trp__f64_to_f32_odd(value));
        break;
    case TRP_F8E8M0: /* only powers of two are stored exactly */
        ((uint8_t *)to)[at] = trp__f32_to_ue8m0((float)value);
        break;
    case TRP_I8:
        ((int8_t *)to)[at] = (int8_t)to_integer(value, INT8_MIN, INT8_MAX);
        break;
    case TRP_I32:
        ((int32_t *)to)[at] = (int32_t)to_integer(value, INT32_MIN, INT32_MAX);
        break;
    case TRP_BOOL:
        ((uint8_t *)to)[at] = value != 0; /* as in AND, OR and SELECT; also NaN */
        break;
    default: /* u8 */
        ((uint8_t *)to)[at] = (uint8_t)to_integer(value, 0, UINT8_MAX);
    }
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
