/* Sums of exponentials relative to the largest element so far. */
#ifndef TRP_ACTORS_DNN_KERNELS_SOFTMAX_SOFTMAX_SUMS_CUH
#define TRP_ACTORS_DNN_KERNELS_SOFTMAX_SOFTMAX_SUMS_CUH

#include "actors/dnn/kernels/common/functions.cuh"
#include "actors/dnn/kernels/common/rows.cuh"
#include "actors/dnn/kernels/softmax/softmax.h"

/* Returns the base of exponents: `most`, or 0 where all elements are -infinity. Terms of such a
 * part are 0, and results of a row of such parts are NaN. */
template <typename T> TRP__DEVICE T trp__softmax_base(T most)
{
    return most == -INFINITY ? T(0) : most;
}

/* The sum of a thread's elements, and then of a part of a row: sum - lost, where `lost` is a
 * rounding error. Backward `most` is unused. */
template <typename T> struct trp__softmax_sum {
    T most, sum, lost;

    TRP__DEVICE void begin()
    {
        most = T(-INFINITY);
        sum = lost = 0;
    }
    /* Makes the sum relative to a larger maximum. */
    TRP__DEVICE void rise(T next)
    {
        const T factor = trp__exp(most - trp__softmax_base(next));
        sum *= factor;
        lost *= factor;
        most = next;
    }
    TRP__DEVICE void add(T x)
    {
        trp__exact_sum<T> s = {sum, lost};
        s.add(x);
        sum = s.sum;
        lost = s.lost;
    }
    /* Adds `count` elements or, backward, terms of the sum. */
    TRP__DEVICE void add_all(const T *v, int count, bool back)
    {
        T top = most;
        if (!back) {
            for (int i = 0; i < count; i++)
                top = fmax(top, v[i]);
            if (top > most)
                rise(top);
            top = trp__softmax_base(most);
        }
        T some = 0;
        for (int i = 0; i < count; i++)
            some += back ? v[i] : trp__exp(v[i] - top);
        add(some);
    }
    /* Adds the sum of other elements, which is relative to their largest one. */
    TRP__DEVICE void join(T other_most, T other_sum, bool back)
    {
        if (!back && other_most > most)
            rise(other_most);
        add(back ? other_sum : other_sum * trp__exp(other_most - trp__softmax_base(most)));
    }
};

/* Combines the sums of all threads of a block. */
template <typename T> TRP__DEVICE void trp__softmax_together(trp__softmax_sum<T> *s, bool back)
{
    const int threads = (int)blockDim.x;
    if (!back) {
        const T most = trp__rows_together<trp__rows_most, T>(s->most, threads, T(-INFINITY));
        if (most > s->most)
            s->rise(most);
    }
    s->sum = trp__rows_together<trp__rows_sum, T>(s->sum - s->lost, threads, T(0));
    s->lost = 0;
}

#endif
