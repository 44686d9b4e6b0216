/* Ranks, and classes that are drawn: the same text for the host and for kernels on GPUs, so that
 * both give the same. Products and sums that a compiler could make one of are written as one. */
#ifndef TRP_ACTORS_DNN_TRAIN_PICK_H
#define TRP_ACTORS_DNN_TRAIN_PICK_H

#include "actors/dnn/philox.h"
#include "actors/dnn/train.h"

#include <math.h>
#include <string.h>

enum { TRP__PICK_SLOTS = 128 }; /* lines that a GPU works on at a time */

/* Whether element a of a line comes before element b among the largest, or smallest. */
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

/* Puts the first `some` of `count` elements, in order, at the end of the heap, the first last. */
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

/* Element `rank` of what was sorted so. */
static inline int64_t trp__pick_ranked(const int64_t *heap, int64_t count, int64_t rank)
{
    return heap[count - 1 - rank];
}

/* Whether element a wins over element b: of ARG a NaN wins over all. */
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

/* exp(x) times a power of two, for x from -43 to 0, to a unit in the last place or two, the same
 * bits everywhere: 2^(n / 32), of which 32 are in a table, times a polynomial. */
static inline double trp__pick_exp(double x, double scale)
{
    enum { STEPS = 32 };
    static const double root[STEPS] = {
        0x1.0000000000000p+0, 0x1.059b0d3158574p+0, 0x1.0b5586cf9890fp+0, 0x1.11301d0125b51p+0,
        0x1.172b83c7d517bp+0, 0x1.1d4873168b9aap+0, 0x1.2387a6e756238p+0, 0x1.29e9df51fdee1p+0,
        0x1.306fe0a31b715p+0, 0x1.371a7373aa9cbp+0, 0x1.3dea64c123422p+0, 0x1.44e086061892dp+0,
        0x1.4bfdad5362a27p+0, 0x1.5342b569d4f82p+0, 0x1.5ab07dd485429p+0, 0x1.6247eb03a5585p+0,
        0x1.6a09e667f3bcdp+0, 0x1.71f75e8ec5f74p+0, 0x1.7a11473eb0187p+0, 0x1.82589994cce13p+0,
        0x1.8ace5422aa0dbp+0, 0x1.93737b0cdc5e5p+0, 0x1.9c49182a3f090p+0, 0x1.a5503b23e255dp+0,
        0x1.ae89f995ad3adp+0, 0x1.b7f76f2fb5e47p+0, 0x1.c199bdd85529cp+0, 0x1.cb720dcef9069p+0,
        0x1.d5818dcfba487p+0, 0x1.dfc97337b9b5fp+0, 0x1.ea4afa2a490dap+0, 0x1.f50765b6e4540p+0,
    };
    const double whole = 6755399441055744.0; /* 1.5 2^52: added to a number, it rounds that */
    const double shifted = fma(x, 46.166241308446828384, whole), n = shifted - whole;
    double p = 1.0 / 720.0, r = fma(n, -6.93147180369123816490e-01 / STEPS, x);
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    const int32_t steps = (int32_t)(uint32_t)bits;
    r = fma(n, -1.90821492927058770002e-10 / STEPS, r);
    p = fma(p, r, 1.0 / 120.0);
    p = fma(p, r, 1.0 / 24.0);
    p = fma(p, r, 1.0 / 6.0);
    p = fma(p, r, 0.5);
    p = fma(p, r, 1.0);
    p = fma(p, r, 1.0);
    memcpy(&bits, &scale, sizeof bits);
    bits += (uint64_t)(int64_t)(steps >> 5) << 52;
    memcpy(&scale, &bits, sizeof scale);
    return p * root[steps & (STEPS - 1)] * scale;
}

/* What SAMPLE is asked for. */
typedef struct trp__pick_sample {
    uint64_t seed, offset;
    double temperature, limit; /* limit 1: all */
    int64_t count;             /* 0: all */
    bool sorted;               /* count or limit were given */
} trp__pick_sample;

/* Shares are whole multiples of 1 / scale of the largest one, so that their sum is exact in 64 bits
 * and every order of summation gives the same class. The scale is a power of two: 2^61 divided by
 * the number of classes, rounded up to one. Rounding down moves a share of the whole by less than
 * 2^-60 times the square of that number: for 2^18 classes 2^-24 at the very worst. u has steps of
 * 2^-24. */
static inline double trp__pick_scale(int64_t classes)
{
    double scale = 2305843009213693952.0;
    for (int64_t n = 1; n < classes; n *= 2)
        scale /= 2;
    return scale;
}

/* The share of a logit that lies `below` (0 or less) the largest one; inverse: 1 / temperature. */
static inline uint64_t trp__pick_share(double below, double inverse, double scale)
{
    const double x = below * inverse;
    if (!(x > -43)) /* less than 2^-61, or 0 times an infinite inverse */
        return below == 0 ? (uint64_t)scale : 0;
    return (uint64_t)trp__pick_exp(x, scale);
}

/* The number that u of a row is. */
static inline double trp__pick_uniform(const trp__pick_sample *s, int64_t row)
{
    uint32_t word[TRP__PHILOX_WORDS];
    trp__philox_block(s->seed, s->offset, (uint64_t)(row / TRP__PHILOX_WORDS), word);
    return (double)trp__philox_uniform(word[row % TRP__PHILOX_WORDS]);
}

/* Whether there is nothing to draw: the class is the one that ARG gives. */
static inline bool trp__pick_is_fixed(const trp__pick_sample *s, double most)
{
    return !(s->temperature > 0) || most - most != 0;
}

/* The class of a row whose logits are v, which become shares; `heap` is room for as many numbers.
 */
static inline int64_t trp__pick_class(const trp__pick_sample *s, int64_t row, double *v,
                                      int64_t *heap, int64_t classes)
{
    const int64_t best = trp__pick_arg(false, v, classes);
    const double most = v[best], scale = trp__pick_scale(classes);
    uint64_t total = 0, sum = 0;
    int64_t some = s->count > 0 && s->count < classes ? s->count : classes;
    if (trp__pick_is_fixed(s, most))
        return best;
    if (s->sorted)
        trp__pick_sort(false, v, heap, classes, some);
    for (int64_t i = 0; i < classes; i++) /* below 2^53 times a power of two: exact in f64 */
        v[i] = (double)trp__pick_share(v[i] - most, 1 / s->temperature, scale);
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
