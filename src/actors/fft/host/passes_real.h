/* The passes of a transform of W lines beside each other: Stockham's algorithm, decimation in
 * frequency. A pass reads one buffer and writes the other one. */

/* exp(-2 pi i / 8) has two equal parts. */
#define HALF_ROOT ((T)0.707106781186547524400844362104849039)

INLINE void NAME(butterfly_4)(PAIR v[4])
{
    const PAIR a = NAME(add)(v[0], v[2]), b = NAME(subtract)(v[0], v[2]);
    const PAIR c = NAME(add)(v[1], v[3]), d = NAME(turn)(NAME(subtract)(v[1], v[3]));
    v[0] = NAME(add)(a, c);
    v[1] = NAME(add)(b, d);
    v[2] = NAME(subtract)(a, c);
    v[3] = NAME(subtract)(b, d);
}

INLINE void NAME(butterfly_8)(PAIR v[8])
{
    PAIR even[4], odd[4];
    for (int i = 0; i < 4; i++) {
        even[i] = NAME(add)(v[i], v[i + 4]);
        odd[i] = NAME(subtract)(v[i], v[i + 4]);
    }
    const PAIR a = odd[1], b = odd[3];
    odd[1] = (PAIR){(a.re + a.im) * HALF_ROOT, (a.im - a.re) * HALF_ROOT};
    odd[2] = NAME(turn)(odd[2]);
    odd[3] = (PAIR){(b.im - b.re) * HALF_ROOT, -(b.re + b.im) * HALF_ROOT};
    NAME(butterfly_4)(even);
    NAME(butterfly_4)(odd);
    for (int i = 0; i < 4; i++) {
        v[2 * i] = even[i];
        v[2 * i + 1] = odd[i];
    }
}

/* Any odd radix: sums and differences of the two inputs at equal distances from the first one, with
 * cosines and sines. */
INLINE void NAME(butterfly_odd)(const int radix, PAIR *v, const T *roots)
{
    const int half = radix / 2;
    PAIR sum[TRP__FFT_PRIME_MAX / 2], difference[TRP__FFT_PRIME_MAX / 2], all = v[0];
#pragma GCC unroll 6
    for (int j = 0; j < half; j++) {
        sum[j] = NAME(add)(v[j + 1], v[radix - 1 - j]);
        difference[j] = NAME(subtract)(v[j + 1], v[radix - 1 - j]);
        all = NAME(add)(all, sum[j]);
    }
    const PAIR first = v[0];
    v[0] = all;
#pragma GCC unroll 6
    for (int k = 1; k <= half; k++) {
        PAIR a = first, b = {{0}, {0}};
        int at = 0;
#pragma GCC unroll 6
        for (int j = 0; j < half; j++) {
            at = at + k < radix ? at + k : at + k - radix;
            a.re += sum[j].re * roots[2 * at];
            a.im += sum[j].im * roots[2 * at];
            b.re -= difference[j].im * roots[2 * at + 1];
            b.im += difference[j].re * roots[2 * at + 1];
        }
        v[k] = NAME(add)(a, b);
        v[radix - k] = NAME(subtract)(a, b);
    }
}

INLINE void NAME(butterfly)(const int radix, PAIR *v, const T *roots)
{
    if (radix == 2) {
        const PAIR a = v[0], b = v[1];
        v[0] = NAME(add)(a, b);
        v[1] = NAME(subtract)(a, b);
    } else if (radix == 4) {
        NAME(butterfly_4)(v);
    } else if (radix == 8) {
        NAME(butterfly_8)(v);
    } else {
        NAME(butterfly_odd)(radix, v, roots);
    }
}

INLINE void NAME(any_pass)(const int radix, const trp__fft_pass *p, const PAIR *x, PAIR *y)
{
    const T *roots = p->roots, *w = p->twiddles;
    const int64_t stride = p->stride, apart = p->stride * p->groups;
    PAIR v[TRP__FFT_PRIME_MAX];
    for (int64_t q = 0; q < stride; q++) { /* the first group, whose twiddles are 1 */
        for (int k = 0; k < radix; k++)
            v[k] = x[q + apart * k];
        NAME(butterfly)(radix, v, roots);
        for (int k = 0; k < radix; k++)
            y[q + stride * k] = v[k];
    }
    for (int64_t g = 1; g < p->groups; g++, w += 2 * (radix - 1)) {
        const PAIR *from = x + g * stride;
        PAIR *to = y + g * stride * radix;
        for (int64_t q = 0; q < stride; q++) {
            for (int k = 0; k < radix; k++)
                v[k] = from[q + apart * k];
            NAME(butterfly)(radix, v, roots);
            to[q] = v[0];
            for (int k = 1; k < radix; k++)
                to[q + stride * k] = NAME(scaled)(v[k], w + 2 * (k - 1));
        }
    }
}

#define PASS(radix, name)                                                                          \
    static void NAME(pass_##name)(const trp__fft_pass *p, const PAIR *x, PAIR *y)                  \
    {                                                                                              \
        NAME(any_pass)(radix, p, x, y);                                                            \
    }
PASS(2, 2)
PASS(3, 3)
PASS(4, 4)
PASS(5, 5)
PASS(7, 7)
PASS(8, 8)
PASS(11, 11)
PASS(13, 13)
PASS(p->radix, prime)
#undef PASS

/* Transforms W lines in buffer a; returns the buffer with the result, a or b. */
static PAIR *NAME(transform)(const trp__fft_smooth *s, PAIR *a, PAIR *b)
{
    for (int i = 0; i < s->count; i++) {
        const trp__fft_pass *p = &s->pass[i];
        switch (p->radix) {
#define PASS(radix)                                                                                \
    case radix:                                                                                    \
        NAME(pass_##radix)(p, a, b);                                                               \
        break
            PASS(2);
            PASS(3);
            PASS(4);
            PASS(5);
            PASS(7);
            PASS(8);
            PASS(11);
            PASS(13);
#undef PASS
        default:
            NAME(pass_prime)(p, a, b);
        }
        PAIR *other = a;
        a = b;
        b = other;
    }
    return a;
}
