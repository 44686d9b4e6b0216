/* GATHER and SCATTER_ADD, a part of kernels.h. */

/* Loads an element of i32 or i64. */
static int64_t load_integer(const trp__direct *d, int port, int64_t at)
{
    return d->tensor[port].type == TRP_I64 ? ((const int64_t *)d->at[port])[at]
                                           : ((const int32_t *)d->at[port])[at];
}

static void store_integer(const trp__direct *d, int port, int64_t at, int64_t value)
{
    if (d->tensor[port].type == TRP_I64)
        ((int64_t *)d->at[port])[at] = value;
    else
        ((int32_t *)d->at[port])[at] = (int32_t)value;
}

/* Returns the index for an element of the slices, and its number among all indices in order. */
static int64_t index_for(const trp__direct *d, const int64_t *at, int64_t *number)
{
    const trp__dnn_tensor *index = &d->tensor[TRP__GATHER_INDEX];
    const int first = d->node.mode == TRP_DNN_GATHER_ELEMENTS ? 0 : trp__train_axis(&d->node);
    int64_t where = 0;
    *number = 0;
    for (int i = 0; i < index->rank; i++) {
        *number = *number * index->dim[i] + at[first + i];
        where += at[first + i] * index->stride[i];
    }
    return load_integer(d, TRP__GATHER_INDEX, where);
}

/* One thread per element of y. */
TRP__KERNEL void trp_direct_gather(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__GATHER_WHOLE], *y = &d.tensor[TRP__GATHER_SLICES];
    const bool each = d.node.mode == TRP_DNN_GATHER_ELEMENTS;
    const int axis = trp__train_axis(&d.node);
    const int more = each ? 0 : d.tensor[TRP__GATHER_INDEX].rank - 1;
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK], number, from = 0;
        position(y, i, at);
        const int64_t to = offset(y, y->rank, at), value = index_for(&d, at, &number);
        for (int k = 0; k < x->rank; k++)
            from += x->stride[k] * (k == axis ? value : at[k < axis ? k : k + more]);
        const double none = y->type == TRP_BOOL ? 0 : NAN; /* NaN is true in a bool */
        store(&d, TRP__GATHER_SLICES, to,
              value >= 0 && value < x->dim[axis] ? load(&d, TRP__GATHER_WHOLE, from) : none);
    }
}

/* Stably sorts the numbers of indices by their targets, the keys, so that the next kernel finds
 * those of an element by a search and sums them in a fixed order. Invalid targets have the last
 * key. One block, four bits per pass; scratch: keys, numbers, and both again. */
TRP__KERNEL void trp_direct_scatter_sort(const trp__direct d)
{
    TRP__SHARED int64_t begin[16 * TRP__DIRECT_THREADS];
    const trp__dnn_tensor *y = &d.tensor[TRP__GATHER_WHOLE];
    const trp__dnn_tensor *index = &d.tensor[TRP__GATHER_INDEX];
    const int axis = trp__train_axis(&d.node);
    const bool each = d.node.mode == TRP_DNN_GATHER_ELEMENTS;
    const int64_t count = elements(index), nowhere = each ? elements(y) : y->dim[axis];
    const int64_t first = count * TRP__THREAD / TRP__THREADS;
    const int64_t end = count * (TRP__THREAD + 1) / TRP__THREADS;
    int64_t *key = (int64_t *)d.scratch, *number = key + count;
    int64_t *next_key = number + count, *next_number = next_key + count;
    if (TRP__BLOCK != 0)
        return;
    FOR_IN_BLOCK(i, count)
    {
        int64_t at[TRP__DNN_RANK], to = 0, where = 0;
        position(index, i, at);
        for (int k = 0; k < index->rank; k++)
            where += at[k] * index->stride[k];
        const int64_t value = load_integer(&d, TRP__GATHER_INDEX, where);
        const bool good = value >= 0 && value < y->dim[axis] && !trp__train_ignores(&d.node, value);
        for (int k = 0; k < y->rank && each; k++)
            to = to * y->dim[k] + (k == axis ? value : at[k]);
        key[i] = !good ? nowhere : each ? to : value;
        number[i] = i;
    }
    for (int shift = 0; shift < 64 && nowhere >> shift > 0; shift += 4) {
        int64_t *swapped;
        for (int digit = 0; digit < 16; digit++)
            begin[digit * TRP__THREADS + TRP__THREAD] = 0;
        TRP__SYNC();
        for (int64_t i = first; i < end; i++)
            begin[(key[i] >> shift & 15) * TRP__THREADS + TRP__THREAD]++;
        TRP__SYNC();
        if (TRP__THREAD == 0) {
            int64_t sum = 0;
            for (int i = 0; i < 16 * TRP__THREADS; i++) {
                const int64_t here = begin[i];
                begin[i] = sum;
                sum += here;
            }
        }
        TRP__SYNC();
        for (int64_t i = first; i < end; i++) {
            const int64_t to = begin[(key[i] >> shift & 15) * TRP__THREADS + TRP__THREAD]++;
            next_key[to] = key[i];
            next_number[to] = number[i];
        }
        TRP__SYNC();
        swapped = key, key = next_key, next_key = swapped;
        swapped = number, number = next_number, next_number = swapped;
    }
    if (key != (int64_t *)d.scratch) {
        FOR_IN_BLOCK(i, 2 * count) next_key[i] = key[i];
    }
}

/* One thread per element of y. */
TRP__KERNEL void trp_direct_scatter_sum(const trp__direct d)
{
    const trp__dnn_tensor *y = &d.tensor[TRP__GATHER_WHOLE], *dy = &d.tensor[TRP__GATHER_SLICES];
    const trp__dnn_tensor *index = &d.tensor[TRP__GATHER_INDEX];
    const int axis = trp__train_axis(&d.node);
    const bool each = d.node.mode == TRP_DNN_GATHER_ELEMENTS;
    const int64_t count = elements(index);
    const int64_t *key = (const int64_t *)d.scratch, *number = key + count;
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK] = {0}, low = 0, high = count;
        double sum = 0;
        position(y, i, at);
        const int64_t to = offset(y, y->rank, at), mine = each ? i : at[axis];
        if (d.used[TRP__GATHER_BEFORE])
            sum = load(&d, TRP__GATHER_BEFORE, offset(&d.tensor[TRP__GATHER_BEFORE], y->rank, at));
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (key[middle] < mine)
                low = middle + 1;
            else
                high = middle;
        }
        for (; low < count && key[low] == mine; low++) {
            int64_t in[TRP__DNN_RANK], from = 0;
            position(index, number[low], in);
            for (int k = 0; k < index->rank; k++)
                from += in[k] * dy->stride[each ? k : axis + k];
            for (int k = 0; k < y->rank && !each; k++) {
                if (k != axis)
                    from += at[k] * dy->stride[k < axis ? k : k - 1 + index->rank];
            }
            sum += load(&d, TRP__GATHER_SLICES, from);
        }
        store(&d, TRP__GATHER_WHOLE, to, sum);
    }
}
