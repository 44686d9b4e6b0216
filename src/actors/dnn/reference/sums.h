/* REDUCTION, STATISTICS and MATMUL: a part of kernels.h. */

/* A block reduces all values times a factor to the element of y at a given position. */
static double reduced(const trp__direct *d, uint8_t mode, int64_t group, int64_t *at, double factor)
{
    const trp__dnn_tensor *x = &d->tensor[TRP__DNN_REDUCTION_X];
    const trp__dnn_tensor *y = &d->tensor[TRP__DNN_REDUCTION_Y];
    double sum = trp__dnn_reduce_first(mode);
    FOR_IN_BLOCK(i, group)
    {
        position_within(x, y, i, at);
        const double value = load(d, TRP__DNN_REDUCTION_X, offset(x, x->rank, at));
        sum = trp__dnn_reduce_next(mode, sum, value * factor);
    }
    return of_block(mode, sum);
}

/* One block per element of y. f64 represents the sums of all other types. */
TRP__KERNEL void trp_direct_reduction(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_REDUCTION_X];
    const trp__dnn_tensor *y = &d.tensor[TRP__DNN_REDUCTION_Y];
    const uint8_t mode = d.node.mode;
    const int64_t group = elements(x) / elements(y);
    FOR_BLOCKS(b, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        double factor = 1;
        position(y, b, at);
        double sum = reduced(&d, mode, group, at, factor);
        if (x->type == TRP_F64 && trp__dnn_reduce_left_range(mode, sum)) {
            factor = trp__dnn_near_one(reduced(&d, TRP_DNN_AMAX, group, at, 1));
            sum = reduced(&d, mode, group, at, factor);
        }
        position(y, b, at);
        if (TRP__THREAD == 0)
            store(&d, TRP__DNN_REDUCTION_Y, offset(y, y->rank, at),
                  trp__dnn_reduce_last(mode, sum, group) / factor);
    }
}

TRP__KERNEL void trp_direct_statistics(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_STATISTICS_X];
    const trp__dnn_tensor *y = &d.tensor[TRP__DNN_STATISTICS_SUM];
    const int64_t group = elements(x) / elements(y);
    FOR_BLOCKS(b, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        double sum = 0, squares = 0;
        position(y, b, at);
        FOR_IN_BLOCK(i, group)
        {
            position_within(x, y, i, at);
            double value = load(&d, TRP__DNN_STATISTICS_X, offset(x, x->rank, at));
            sum += value;
            squares += value * value;
        }
        sum = sum_of_block(sum);
        squares = sum_of_block(squares);
        position(y, b, at);
        if (TRP__THREAD == 0) {
            store(&d, TRP__DNN_STATISTICS_SUM, offset(y, y->rank, at), sum);
            store(&d, TRP__DNN_STATISTICS_SQUARE_SUM,
                  offset(&d.tensor[TRP__DNN_STATISTICS_SQUARE_SUM], y->rank, at), squares);
        }
    }
}

TRP__KERNEL void trp_direct_matmul(const trp__direct d)
{
    const trp__dnn_tensor *a = &d.tensor[TRP__DNN_MATMUL_A], *b = &d.tensor[TRP__DNN_MATMUL_B];
    const trp__dnn_tensor *y = &d.tensor[TRP__DNN_MATMUL_Y];
    const int rank = y->rank;
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        double sum = 0;
        position(y, i, at);
        const int64_t row = at[rank - 2], column = at[rank - 1];
        at[rank - 1] = 0;
        int64_t of_a = offset(a, rank, at);
        at[rank - 2] = 0;
        at[rank - 1] = column;
        int64_t of_b = offset(b, rank, at);
        for (int64_t k = 0; k < a->dim[rank - 1]; k++)
            sum += load(&d, TRP__DNN_MATMUL_A, of_a + k * a->stride[rank - 1]) *
                   load(&d, TRP__DNN_MATMUL_B, of_b + k * b->stride[rank - 2]);
        at[rank - 2] = row;
        store(&d, TRP__DNN_MATMUL_Y, offset(y, rank, at), sum);
    }
}
