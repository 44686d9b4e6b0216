/* PAGED_LOAD's kernel, a part of kernels.h. Invalid table entries are not followed; their rows
 * become NaN. */
TRP__KERNEL void trp_direct_paged_load(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_PAGED_X], *y = &d.tensor[TRP__DNN_PAGED_Y];
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        position(y, i, at);
        const int64_t to = offset(y, 4, at), row = at[2];
        const int64_t batch[4] = {at[0], 0, 0, 0}, entry[4] = {at[0], 0, row / x->dim[2], 0};
        const double length = load_at(&d, TRP__DNN_PAGED_SEQ_KV, 4, batch);
        double value = 0;
        if ((double)row < length) {
            const double page = load_at(&d, TRP__DNN_PAGED_TABLE, 4, entry);
            const bool inside = page >= 0 && page < (double)x->dim[0];
            at[0] = inside ? (int64_t)page : 0;
            at[2] = row % x->dim[2];
            value = inside ? load_at(&d, TRP__DNN_PAGED_X, 4, at) : NAN;
        }
        store(&d, TRP__DNN_PAGED_Y, to, value);
    }
}
