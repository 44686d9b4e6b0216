/* Payload of a transform: checked, with defaults applied. Dimensions of one element are left out,
 * and those that are not transformed are joined where both tensors have them behind each other. */
#ifndef TRP_ACTORS_FFT_WIRE_H
#define TRP_ACTORS_FFT_WIRE_H

#include "actors/fft/kernels/problem.h"
#include "actors/fft/kernels/trig.h"

#include <troupe/fft.h>

enum {
    TRP__FFT_DIMS = 6, /* in the payload; if there are more, all are in the piece of the request */
    TRP__FFT_NO_ACCESS = 0xff,
};

typedef struct trp__fft_dim {
    int64_t n;    /* length in the time domain, or of a dimension that is not transformed */
    int64_t have; /* elements that are read of x, at most n; of the last axis of C2R n / 2 + 1 */
    int64_t x_stride, y_stride; /* elements */
} trp__fft_dim;

typedef struct trp__fft {
    double scale;
    int64_t x_first, y_first; /* bytes from the begin of the access to the element of index 0 */
    uint8_t kind, inverse, wide;
    uint8_t rank;
    uint8_t axes; /* bit i: dimension i is transformed */
    uint8_t last; /* the dimension that the real kinds halve */
    uint8_t access_x, access_y;
    uint8_t x_format, y_format; /* trp__fft_format, of a real side */
    uint8_t x_shift, y_shift;   /* bit i: element 0 of dimension i is at n / 2 */
    uint8_t orthogonal;
    uint8_t reserved[3];
    trp__fft_dim dim[TRP__FFT_DIMS];
} trp__fft;

/* Cosine and sine transforms. The payload's kind is what is computed: the inverse of type II is
 * III. */
static inline bool trp__fft_is_trig(uint32_t kind)
{
    return kind >= TRP_FFT_DCT1;
}

static inline trp__fft_form trp__fft_form_of(const trp__fft *g, const trp__fft_dim *dim, int axis)
{
    return (trp__fft_form){.n = dim[axis].n,
                           .type = (uint8_t)((g->kind - TRP_FFT_DCT1) % 4 + 1),
                           .sine = g->kind >= TRP_FFT_DST1,
                           .orthogonal = g->orthogonal};
}

#endif
