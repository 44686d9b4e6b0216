#include "actors/fft/host/roots.h"

#include <math.h>
#include <stdlib.h>

/* The angle pi / 4 * at / n, at most an eighth of a turn. */
static trp__fft_root angle(int64_t at, int64_t n)
{
    const long double x =
        0.785398163397448309615660845819875721L * (long double)at / (long double)n;
    return (trp__fft_root){cosl(x), sinl(x)};
}

bool trp__fft_roots_make(trp__fft_roots *roots, int64_t n)
{
    int shift = 0;
    while (INT64_C(1) << 2 * shift < n)
        shift++;
    const int64_t low = INT64_C(1) << shift, high = (n >> shift) + 1;
    *roots = (trp__fft_roots){.n = n, .shift = shift};
    roots->low = malloc((size_t)low * sizeof *roots->low);
    roots->high = malloc((size_t)high * sizeof *roots->high);
    if (!roots->low || !roots->high) {
        trp__fft_roots_free(roots);
        return false;
    }
    for (int64_t i = 0; i < low; i++)
        roots->low[i] = angle(i, n);
    for (int64_t i = 0; i < high; i++)
        roots->high[i] = angle(i << shift, n);
    return true;
}

void trp__fft_roots_free(trp__fft_roots *roots)
{
    free(roots->low);
    free(roots->high);
    *roots = (trp__fft_roots){0};
}

trp__fft_root trp__fft_roots_at(const trp__fft_roots *roots, int64_t k)
{
    const int64_t n = roots->n, eighths = k % n * 8, octant = eighths / n;
    /* The distance to the nearest multiple of a quarter turn, in steps of 1 / (8 n) of a turn. */
    const int64_t rest = eighths - octant * n, at = octant & 1 ? n - rest : rest;
    const trp__fft_root a = roots->low[at & ((INT64_C(1) << roots->shift) - 1)];
    const trp__fft_root b = roots->high[at >> roots->shift];
    const long double c = a.re * b.re - a.im * b.im, s = a.re * b.im + a.im * b.re;
    switch (octant) {
    case 0:
        return (trp__fft_root){c, -s};
    case 1:
        return (trp__fft_root){s, -c};
    case 2:
        return (trp__fft_root){-s, -c};
    case 3:
        return (trp__fft_root){-c, -s};
    case 4:
        return (trp__fft_root){-c, s};
    case 5:
        return (trp__fft_root){-s, c};
    case 6:
        return (trp__fft_root){s, c};
    default:
        return (trp__fft_root){c, s};
    }
}
