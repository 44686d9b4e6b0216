/* Vectors of T, and pairs of them: the real and imaginary parts of one element of W lines. The
 * includer defines T, NAME and IS_F32. */
#include "actors/fft/host/kernels.h"
#include "base/numbers/half.h"
#include "base/os/team.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define W      (TRP__FFT_VECTOR_BYTES / (int)sizeof(T))

typedef T NAME(vector) __attribute__((vector_size(TRP__FFT_VECTOR_BYTES)));
typedef NAME(vector) NAME(unaligned) __attribute__((aligned(sizeof(T)), may_alias));
typedef struct NAME(pair) {
    NAME(vector) re, im;
} NAME(pair);

#define VECTOR NAME(vector)
#define PAIR   NAME(pair)

INLINE VECTOR NAME(load)(const T *at)
{
    return *(const NAME(unaligned) *)at;
}

INLINE void NAME(store)(T *at, VECTOR v)
{
    *(NAME(unaligned) *)at = v;
}

INLINE PAIR NAME(add)(PAIR a, PAIR b)
{
    return (PAIR){a.re + b.re, a.im + b.im};
}

INLINE PAIR NAME(subtract)(PAIR a, PAIR b)
{
    return (PAIR){a.re - b.re, a.im - b.im};
}

/* Times -i. */
INLINE PAIR NAME(turn)(PAIR a)
{
    return (PAIR){a.im, -a.re};
}

INLINE PAIR NAME(times)(PAIR a, PAIR b)
{
    return (PAIR){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* Times one complex number at `w`. */
INLINE PAIR NAME(scaled)(PAIR a, const T *w)
{
    return (PAIR){a.re * w[0] - a.im * w[1], a.re * w[1] + a.im * w[0]};
}

#define MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

#if IS_F32
/* W complex numbers in memory, as a pair, and back. */
INLINE PAIR NAME(part)(VECTOR a, VECTOR b)
{
    return (PAIR){MIX(a, b, 0, 2, 4, 6, 8, 10, 12, 14), MIX(a, b, 1, 3, 5, 7, 9, 11, 13, 15)};
}

INLINE void NAME(join)(PAIR x, VECTOR *a, VECTOR *b)
{
    *a = MIX(x.re, x.im, 0, 8, 1, 9, 2, 10, 3, 11);
    *b = MIX(x.re, x.im, 4, 12, 5, 13, 6, 14, 7, 15);
}

INLINE void NAME(transpose)(VECTOR r[W])
{
    VECTOR s[8], t[8];
    for (int i = 0; i < 8; i += 2) {
        s[i] = MIX(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        s[i + 1] = MIX(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4) {
        for (int k = 0; k < 2; k++) {
            t[i + 2 * k] = MIX(s[i + k], s[i + k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            t[i + 2 * k + 1] = MIX(s[i + k], s[i + k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    for (int i = 0; i < 4; i++) {
        r[i] = MIX(t[i], t[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = MIX(t[i], t[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}
#else
INLINE PAIR NAME(part)(VECTOR a, VECTOR b)
{
    return (PAIR){MIX(a, b, 0, 2, 4, 6), MIX(a, b, 1, 3, 5, 7)};
}

INLINE void NAME(join)(PAIR x, VECTOR *a, VECTOR *b)
{
    *a = MIX(x.re, x.im, 0, 4, 1, 5);
    *b = MIX(x.re, x.im, 2, 6, 3, 7);
}

INLINE void NAME(transpose)(VECTOR r[W])
{
    const VECTOR a = MIX(r[0], r[1], 0, 4, 2, 6), b = MIX(r[0], r[1], 1, 5, 3, 7);
    const VECTOR c = MIX(r[2], r[3], 0, 4, 2, 6), d = MIX(r[2], r[3], 1, 5, 3, 7);
    r[0] = MIX(a, c, 0, 1, 4, 5);
    r[1] = MIX(b, d, 0, 1, 4, 5);
    r[2] = MIX(a, c, 2, 3, 6, 7);
    r[3] = MIX(b, d, 2, 3, 6, 7);
}
#endif
