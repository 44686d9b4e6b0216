/* Roots of unity, exact to the last bits of a double: the octant of an angle is found in whole
 * numbers, so that symmetric roots have equal parts, and the rest is computed in long double. */
#ifndef TRP_ACTORS_FFT_HOST_ROOTS_H
#define TRP_ACTORS_FFT_HOST_ROOTS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct trp__fft_root {
    long double re, im;
} trp__fft_root;

/* Two tables of about sqrt(n) roots, of which any root of order n is one product. */
typedef struct trp__fft_roots {
    int64_t n;
    int shift;
    trp__fft_root *low, *high;
} trp__fft_roots;

/* n is at most 2^56. False: no memory. */
bool trp__fft_roots_make(trp__fft_roots *roots, int64_t n);
void trp__fft_roots_free(trp__fft_roots *roots);

/* exp(-2 pi i k / n) for any k from 0 on. */
trp__fft_root trp__fft_roots_at(const trp__fft_roots *roots, int64_t k);

#endif
