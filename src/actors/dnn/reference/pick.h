/* ARG, TOP_K and SAMPLE, a part of kernels.h. */
#include "actors/dnn/math/pick.h"

/* One block per line. */
TRP__KERNEL void trp_direct_arg(const trp__direct d)
{
    TRP__SHARED double value[TRP__DIRECT_THREADS];
    TRP__SHARED int64_t number[TRP__DIRECT_THREADS];
    const trp__dnn_tensor *x = &d.tensor[TRP__PICK_X], *s = &d.tensor[TRP__DIRECT_STATISTICS];
    const trp__dnn_tensor *index = &d.tensor[TRP__PICK_INDEX];
    const int axis = trp__train_axis(&d.node);
    const bool smallest = d.node.mode == TRP_DNN_SMALLEST;
    FOR_BLOCKS(line, d.count)
    {
        int64_t at[TRP__DNN_RANK], best = 0;
        position(s, line, at);
        const int64_t from = offset(x, x->rank, at), step = x->stride[axis];
        double most = load(&d, TRP__PICK_X, from);
        FOR_IN_BLOCK(i, x->dim[axis])
        {
            const double v = load(&d, TRP__PICK_X, from + i * step);
            if (trp__pick_wins(smallest, v, i, most, best)) {
                most = v;
                best = i;
            }
        }
        TRP__SYNC();
        value[TRP__THREAD] = most;
        number[TRP__THREAD] = best;
        TRP__SYNC();
        if (TRP__THREAD != 0)
            continue;
        for (int i = 1; i < TRP__THREADS; i++) {
            if (trp__pick_wins(smallest, value[i], number[i], most, best)) {
                most = value[i];
                best = number[i];
            }
        }
        store_integer(&d, TRP__PICK_INDEX, offset(index, index->rank, at), best);
    }
}

/* Returns a slot's memory: a line as f64, and as many indices. */
static double *slot_of(const trp__direct *d, int64_t slot, int64_t length, int64_t **heap)
{
    double *v = (double *)d->scratch + 2 * slot * length;
    *heap = (int64_t *)(v + length);
    return v;
}

static void load_line(const trp__direct *d, const int64_t *at, int axis, double *v)
{
    const trp__dnn_tensor *x = &d->tensor[TRP__PICK_X];
    const int64_t from = offset(x, x->rank, at);
    for (int64_t i = 0; i < x->dim[axis]; i++)
        v[i] = load(d, TRP__PICK_X, from + i * x->stride[axis]);
}

/* One thread per slot, which iterates over lines, to limit the memory. */
TRP__KERNEL void trp_direct_top_k(const trp__direct d)
{
    const trp__dnn_tensor *s = &d.tensor[TRP__DIRECT_STATISTICS];
    const trp__dnn_tensor *index = &d.tensor[TRP__PICK_INDEX], *y = &d.tensor[TRP__PICK_Y];
    const int axis = trp__train_axis(&d.node);
    const int64_t length = d.tensor[TRP__PICK_X].dim[axis], some = index->dim[axis];
    FOR_BLOCKS(slot, d.count)
    {
        int64_t *heap;
        double *v = slot_of(&d, slot, length, &heap);
        for (int64_t line = slot; line < elements(s) && TRP__THREAD == 0; line += d.count) {
            int64_t at[TRP__DNN_RANK];
            position(s, line, at);
            load_line(&d, at, axis, v);
            trp__pick_sort(d.node.mode == TRP_DNN_SMALLEST, v, heap, length, some);
            for (int64_t i = 0; i < some; i++) {
                const int64_t ranked = trp__pick_ranked(heap, length, i);
                at[axis] = i;
                int64_t to = 0;
                for (int k = 0; k < index->rank; k++)
                    to += at[k] * index->stride[k];
                store_integer(&d, TRP__PICK_INDEX, to, ranked);
                to = 0;
                for (int k = 0; k < y->rank && d.used[TRP__PICK_Y]; k++)
                    to += at[k] * y->stride[k];
                if (d.used[TRP__PICK_Y])
                    store(&d, TRP__PICK_Y, to, v[ranked]);
            }
        }
    }
}

TRP__KERNEL void trp_direct_sample(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__PICK_X], *s = &d.tensor[TRP__DIRECT_STATISTICS];
    const trp__dnn_tensor *index = &d.tensor[TRP__PICK_INDEX];
    const int64_t classes = x->dim[x->rank - 1];
    trp__pick_sample what;
    what.seed = word_at(&d, TRP__PICK_SEED);
    what.offset = word_at(&d, TRP__PICK_OFFSET);
    what.temperature = d.used[TRP__PICK_SCALE] ? load(&d, TRP__PICK_SCALE, 0) : 1;
    what.limit = d.used[TRP__PICK_LIMIT] ? load(&d, TRP__PICK_LIMIT, 0) : 1;
    what.count = (int64_t)word_at(&d, TRP__PICK_COUNT);
    what.sorted = d.used[TRP__PICK_COUNT] || d.used[TRP__PICK_LIMIT];
    FOR_BLOCKS(slot, d.count)
    {
        int64_t *heap;
        double *v = slot_of(&d, slot, classes, &heap);
        for (int64_t row = slot; row < elements(s) && TRP__THREAD == 0; row += d.count) {
            int64_t at[TRP__DNN_RANK];
            position(s, row, at);
            load_line(&d, at, x->rank - 1, v);
            store_integer(&d, TRP__PICK_INDEX, offset(index, index->rank, at),
                          trp__pick_class(&what, row, v, heap, classes));
        }
    }
}
