/* Ranks and drawn classes: the same text for the host and for kernels on GPUs, which get equal
 * bits. Products and sums that a compiler could fuse are written as fused. */
#ifndef TRP_ACTORS_DNN_MATH_PICK_H
#define TRP_ACTORS_DNN_MATH_PICK_H

#include "base/numbers/philox.h"
#include "actors/dnn/graph/train.h"

#include <math.h>
#include <string.h>

enum { TRP__PICK_SLOTS = 128 }; /* lines that a GPU processes at a time */

/* Tells whether element a of a line precedes element b among the largest, or smallest. */
static inline bool trp__pick_before(bool smallest, const double *v, int64_t a, int64_t b)
{
    const double x = v[a], y = v[b];
    if (x != x || y != y)
        return x != x && y != y ? a < b : (x != x) != smallest;
    if (x == y)
        return a < b;
    return smallest ? x < y : x > y;
}

static inline void trp__pick_sink(bool smallest, const double *v, int64_t *heap, int64_t at,
                                  int64_t count)
{
    const int64_t moved = heap[at];
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && trp__pick_before(smallest, v, heap[child + 1], heap[child]))
            child++;
        if (!trp__pick_before(smallest, v, heap[child], moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* Puts the first `some` of `count` elements in order at the end of the heap, the first last. */
static inline void trp__pick_sort(bool smallest, const double *v, int64_t *heap, int64_t count,
                                  int64_t some)
{
    for (int64_t i = 0; i < count; i++)
        heap[i] = i;
    for (int64_t i = count / 2 - 1; i >= 0; i--)
        trp__pick_sink(smallest, v, heap, i, count);
    for (int64_t i = 0; i < some; i++) {
        const int64_t last = count - 1 - i, top = heap[0];
        heap[0] = heap[last];
        heap[last] = top;
        trp__pick_sink(smallest, v, heap, 0, last);
    }
}

/* Returns element `rank` of the sorted ones. */
static inline int64_t trp__pick_ranked(const int64_t *heap, int64_t count, int64_t rank)
{
    return heap[count - 1 - rank];
}

/* Tells whether element a wins over element b; in ARG a NaN wins over all. */
static inline bool trp__pick_wins(bool smallest, double x, int64_t a, double y, int64_t b)
{
    if (x != x || y != y)
        return x != x && (y == y || a < b);
    return x == y ? a < b : smallest ? x < y : x > y;
}

static inline int64_t trp__pick_arg(bool smallest, const double *v, int64_t count)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++) {
        if (trp__pick_wins(smallest, v[i], i, v[best], best))
            best = i;
    }
    return best;
}

/* The parameters of SAMPLE. */
typedef struct trp__pick_sample {
    uint64_t seed, offset;
    double temperature, limit; /* limit 1: all */
    int64_t count;             /* 0: all */
    bool sorted;               /* count or limit were given */
} trp__pick_sample;

/* Shares are integer multiples of 2^-bits of the largest one, so that their sum is exact in 64 bits
 * and every order of summation gives the same class: 61 bits, less one for each doubling of the
 * number of classes. Rounding down changes a share of the total by less than 2^-60 times the square
 * of that number: for 2^18 classes at most 2^-24. u has steps of 2^-24. */
typedef struct trp__pick_shares {
    float inverse; /* of the temperature, in powers of two */
    int bits;
} trp__pick_shares;

static inline trp__pick_shares trp__pick_shares_of(double temperature, int64_t classes)
{
    trp__pick_shares s = {(float)fmin(1.4426950408889634074 / temperature, 0x1.fffffep+127), 61};
    for (int64_t n = 1; n < classes; n *= 2)
        s.bits--;
    return s;
}

/* Returns the share of a logit that lies `below` (0 or less) the largest one, in f32 with the same
 * bits everywhere and a relative error of 2^-22, plus 2^-23 per unit of distance: 2^n times 2^f,
 * which is a polynomial, |f| at most 1/2. */
static inline uint64_t trp__pick_share(const trp__pick_shares *s, float below)
{
    const float whole = 12582912.0F; /* 1.5 2^23: added to a number, it rounds that */
    const float x = fmaxf(below * s->inverse, (float)(-1 - s->bits)); /* at least 0 */
    const float shifted = x + whole, n = shifted - whole, f = x - n;
    uint32_t bits, steps;
    float p = 0x1.5bbac2p-10F;
    p = fmaf(p, f, 0x1.3cea80p-7F);
    p = fmaf(p, f, 0x1.c6b750p-5F);
    p = fmaf(p, f, 0x1.ebf9bcp-3F);
    p = fmaf(p, f, 0x1.62e42ap-1F);
    p = fmaf(p, f, 1.0F);
    memcpy(&bits, &p, sizeof bits);
    memcpy(&steps, &shifted, sizeof steps);
    bits += steps << 23; /* 2^n p: from here on its bits are shifted */
    const uint32_t digits = (bits << 7 & UINT32_C(0x3fffff80)) | UINT32_C(0x40000000);
    return (uint64_t)digits << 32 >> (189 - s->bits - (int)(bits >> 23));
}

/* Returns the value of u for a row. */
static inline double trp__pick_uniform(const trp__pick_sample *s, int64_t row)
{
    uint32_t word[TRP__PHILOX_WORDS];
    trp__philox_block(s->seed, s->offset, (uint64_t)(row / TRP__PHILOX_WORDS), word);
    return (double)trp__philox_uniform(word[row % TRP__PHILOX_WORDS]);
}

/* Tells whether the class is determined without drawing: that of ARG. */
static inline bool trp__pick_is_fixed(const trp__pick_sample *s, double most)
{
    return !(s->temperature > 0) || most - most != 0;
}

/* Returns the class of a row with the logits v, which are replaced by shares; `heap` has space for
 * as many numbers.
 */
static inline int64_t trp__pick_class(const trp__pick_sample *s, int64_t row, double *v,
                                      int64_t *heap, int64_t classes)
{
    const int64_t best = trp__pick_arg(false, v, classes);
    const double most = v[best];
    const trp__pick_shares shares = trp__pick_shares_of(s->temperature, classes);
    uint64_t total = 0, sum = 0;
    int64_t some = s->count > 0 && s->count < classes ? s->count : classes;
    if (trp__pick_is_fixed(s, most))
        return best;
    if (s->sorted)
        trp__pick_sort(false, v, heap, classes, some);
    for (int64_t i = 0; i < classes; i++) /* below 2^24 times a power of two: exact in f64 */
        v[i] = (double)trp__pick_share(&shares, (float)(v[i] - most));
    for (int64_t i = 0; i < some; i++)
        total += (uint64_t)v[s->sorted ? trp__pick_ranked(heap, classes, i) : i];
    if (s->limit < 1) {
        const double enough = s->limit * (double)total;
        int64_t i = 0;
        for (; i < some && (i == 0 || (double)sum < enough); i++)
            sum += (uint64_t)v[trp__pick_ranked(heap, classes, i)];
        some = i;
        total = sum;
        sum = 0;
    }
    const double reach = trp__pick_uniform(s, row) * (double)total;
    for (int64_t i = 0; i < some; i++) {
        const int64_t here = s->sorted ? trp__pick_ranked(heap, classes, i) : i;
        sum += (uint64_t)v[here];
        if ((double)sum > reach)
            return here;
    }
    return best; /* not reached: u is less than 1 */
}

#endif
