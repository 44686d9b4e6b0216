/* Launches of the fft actor's kernels (kernels.h). */
#ifndef TRP_ACTORS_FFT_KERNELS_PROBLEM_H
#define TRP_ACTORS_FFT_KERNELS_PROBLEM_H

#include "actors/fft/kernels/trig.h"

#include <stdint.h>

enum {
    TRP__FFT_KERNEL_DIMS = 8,
    TRP__FFT_KERNEL_AXES = 3,
    TRP__FFT_KERNEL_THREADS = 128, /* of a block: a power of two */
};

/* The other half of a spectrum, which is the conjugate of this one. */
typedef enum trp__fft_half {
    TRP__FFT_HALF_NONE, /* both sides are complex */
    TRP__FFT_HALF_Y,    /* x is real, y is half a spectrum */
    TRP__FFT_HALF_X,    /* x is half a spectrum, y is real */
} trp__fft_half;

/* The format of real numbers in memory; arithmetic is in f32 or f64. */
typedef enum trp__fft_format {
    TRP__FFT_SAME, /* that of the arithmetic */
    TRP__FFT_F16,
    TRP__FFT_BF16,
} trp__fft_format;

/* y = scale * x, cropped and padded with zeros. Dimensions from the slowest to the fastest. */
typedef struct trp__fft_copy {
    const void *x;
    void *y;                            /* x itself with equal strides, or apart from it */
    int64_t count;                      /* of y: all dimensions multiplied */
    int64_t dim[TRP__FFT_KERNEL_DIMS];  /* of y */
    int64_t have[TRP__FFT_KERNEL_DIMS]; /* of x, the rest is zero */
    int64_t x_stride[TRP__FFT_KERNEL_DIMS], y_stride[TRP__FFT_KERNEL_DIMS]; /* elements */
    /* Elements lie so much further around a dimension, which has all of x then. */
    int64_t x_turn[TRP__FFT_KERNEL_DIMS], y_turn[TRP__FFT_KERNEL_DIMS];
    double scale;
    uint8_t rank;
    uint8_t turned;    /* some x_turn or y_turn is not 0 */
    uint8_t wide;      /* f64 */
    uint8_t pairs;     /* elements are complex */
    uint8_t conjugate; /* of x */
    /* Half a spectrum whose missing half is to be the conjugate, as C2R takes it: elements 0 and
     * n / 2 of dimension `last` become the means of themselves and of the conjugates of their
     * mirror images along `axes`. */
    uint8_t symmetric;
    uint8_t last, axes; /* axes: bit i is set for a dimension that is transformed; not for `last` */
    uint8_t even;       /* n is even: dim[last] - 1 is n / 2 */
    uint8_t x_format, y_format; /* trp__fft_format; of pairs always the same */
} trp__fft_copy;

/* What goes before the Fourier transform that computes a cosine or sine transform along an axis,
 * and what goes behind it. One of the sides is what the transform works on. */
typedef struct trp__fft_trig {
    const void *x;
    void *y;
    int64_t count;    /* lines, each times what a line of y has */
    int64_t per_line; /* that */
    int64_t have;     /* elements of lines of x, the rest is zero: before */
    int64_t x_stride, y_stride;
    int64_t other[TRP__FFT_KERNEL_DIMS], other_have[TRP__FFT_KERNEL_DIMS];
    int64_t other_x[TRP__FFT_KERNEL_DIMS], other_y[TRP__FFT_KERNEL_DIMS]; /* strides */
    trp__fft_form form;
    double scale; /* behind */
    uint8_t others, wide;
    uint8_t x_format, y_format; /* trp__fft_format, of a real side outside */
    uint8_t reserved[4];
} trp__fft_trig;

/* Plain sums: y[k] = sum over j of x[j] exp(-+2 pi i j k / n), in f64. */
typedef struct trp__fft_sums {
    const void *x;
    void *y;
    /* The numbers of the elements to compute, row-major over the others and then the axes; NULL:
     * all. */
    const int64_t *sample;
    int64_t count;                   /* elements; a block for each */
    int64_t n[TRP__FFT_KERNEL_AXES]; /* below 2^31 */
    int64_t x_stride[TRP__FFT_KERNEL_AXES], y_stride[TRP__FFT_KERNEL_AXES]; /* elements */
    int64_t other[TRP__FFT_KERNEL_DIMS]; /* dimensions that are not transformed */
    int64_t other_x[TRP__FFT_KERNEL_DIMS], other_y[TRP__FFT_KERNEL_DIMS]; /* their strides */
    uint8_t axes, others;
    uint8_t half; /* trp__fft_half, along the last axis */
    uint8_t inverse, wide;
    uint8_t reserved[3];
} trp__fft_sums;

#endif
