/* The rows and columns of a batch that are in use and see each other. */
#ifndef TRP_ACTORS_DNN_KERNELS_ATTENTION_SPAN_CUH
#define TRP_ACTORS_DNN_KERNELS_ATTENTION_SPAN_CUH

#include "actors/dnn/kernels/attention/arithmetic.cuh"

struct trp__attention_span {
    int32_t rows, columns; /* that are in use */
    int64_t shift, window; /* shift: of the diagonal; window: columns that a row sees, 0: all */
    bool causal;

    /* A row sees the columns from first() to below end(); both grow with the row. */
    TRP__DEVICE int32_t first(int32_t row) const
    {
        const int64_t from = row + shift + 1 - window;
        return window > 0 && from > 0 ? (int32_t)(from < columns ? from : columns) : 0;
    }
    TRP__DEVICE int32_t end(int32_t row) const
    {
        const int64_t to = row + shift + 1;
        if (row >= rows)
            return 0;
        return causal && to < columns ? (int32_t)(to > 0 ? to : 0) : columns;
    }
    TRP__DEVICE bool sees(int32_t row, int32_t column) const
    {
        return column >= first(row) && column < end(row);
    }
    /* Tells whether all rows of a tile see all of its columns. */
    TRP__DEVICE bool whole(int32_t row, int32_t row_count, int32_t column, int32_t count) const
    {
        return row + row_count <= rows && first(row + row_count - 1) <= column &&
               end(row) >= column + count;
    }
    /* The rows from first_row() to below end_row() see any of some columns. */
    TRP__DEVICE int32_t first_row(int32_t column) const
    {
        const int64_t from = column - shift;
        return causal && from > 0 ? (int32_t)(from < rows ? from : rows) : 0;
    }
    TRP__DEVICE int32_t end_row(int32_t last_column) const
    {
        const int64_t to = last_column - shift + window;
        return window > 0 && to < rows ? (int32_t)(to > 0 ? to : 0) : rows;
    }
};

TRP__DEVICE int32_t trp__used_length(const trp__attention_tensor &t, int32_t batch, int32_t size)
{
    if (!t.at)
        return size;
    const int32_t length = trp__at<int32_t>(t.at, batch * t.stride[0]);
    return length <= 0 ? 0 : length < size ? length : size;
}

TRP__DEVICE trp__attention_span trp__span_of(const trp__attention &p, int32_t batch)
{
    trp__attention_span s;
    s.rows = trp__used_length(p.tensor[TRP__ATTENTION_SEQ_Q], batch, p.rows);
    s.columns = trp__used_length(p.tensor[TRP__ATTENTION_SEQ_KV], batch, p.columns);
    s.shift = p.bottom_right ? (int64_t)s.columns - s.rows : 0;
    s.window = p.window;
    s.causal = p.causal != 0;
    return s;
}

/* Writes the elements of a product that a thread holds to the block's scratch memory. */
template <typename E>
TRP__DEVICE void trp__attention_spread(const E &e, const typename E::T s[E::RM][E::RN],
                                       typename E::T *scratch)
{
    TRP__EACH(i, E::RM) {
        TRP__EACH(j, E::RN)
            scratch[e.row(i) * E::SCRATCH + e.column(j)] = s[i][j];
    }
}

#endif
