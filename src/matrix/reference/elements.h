/* Shared by reference kernels of products: sums of a block's threads. The including file defines
 * the macros that kernels.h lists. */
#ifndef TRP_MATRIX_REFERENCE_ELEMENTS_H
#define TRP_MATRIX_REFERENCE_ELEMENTS_H

#define TRP__ELEMENTS_OF_4_BITS
#include "base/numbers/elements.h"
#include "matrix/reference/problem.h"

typedef struct product_number {
    double re, im;
} product_number;

/* Adds up the numbers of a block's threads. */
static product_number product_sum_of_block(product_number x)
{
    TRP__SHARED product_number part[TRP__PRODUCT_THREADS];
    TRP__SYNC(); /* the previous result has been read */
    part[TRP__THREAD] = x;
    TRP__SYNC();
    for (int half = TRP__THREADS / 2; half > 0; half /= 2) {
        if (TRP__THREAD < half) {
            part[TRP__THREAD].re += part[TRP__THREAD + half].re;
            part[TRP__THREAD].im += part[TRP__THREAD + half].im;
        }
        TRP__SYNC();
    }
    return part[0];
}

#endif
