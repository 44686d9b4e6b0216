/* Cosine and sine transforms of length n by one discrete Fourier transform: what goes into it, and
 * what comes of it, element by element. The text of the host and of GPUs.
 *
 *     types 1, 2, and 4 of odd n    from real numbers, of length 2 (n - 1), 2 (n + 1) or n
 *     type 3                        to real numbers, of length n
 *     type 4 of even n              complex, of length n / 2
 *
 * Type 2 reorders (Makhoul 1980), type 3 is its transpose. Type 4 of even n pairs elements from
 * both ends. For odd n its elements, at odd multiples a of an angle, have one representative
 * a = n + 8 i (mod 8 n) each, since a, -a, 4 n - a and 4 n + a differ modulo 8; the products of
 * two such are n * n + 64 i j, which is a transform of length n at frequency 8 j. Sines are cosines
 * of x reversed or with alternating signs. Angles are whole multiples of a turn / (8 n). */
#ifndef TRP_ACTORS_FFT_KERNELS_TRIG_H
#define TRP_ACTORS_FFT_KERNELS_TRIG_H

#include <stdbool.h>
#include <stdint.h>

typedef struct trp__fft_form {
    int64_t n;
    uint8_t type;       /* 1 to 4 */
    uint8_t sine;       /* else cosine */
    uint8_t orthogonal; /* ends have a factor, so that with norm "ortho" the matrix is orthogonal */
    uint8_t reserved[5];
} trp__fft_form;

typedef enum trp__fft_core {
    TRP__FFT_CORE_R2C,
    TRP__FFT_CORE_C2R,
    TRP__FFT_CORE_C2C
} trp__fft_core;

static inline trp__fft_core trp__fft_form_core(const trp__fft_form *f)
{
    return f->type == 3                    ? TRP__FFT_CORE_C2R
           : f->type == 4 && f->n % 2 == 0 ? TRP__FFT_CORE_C2C
                                           : TRP__FFT_CORE_R2C;
}

/* The length of the Fourier transform. */
static inline int64_t trp__fft_form_length(const trp__fft_form *f)
{
    if (f->type == 1)
        return f->sine ? 2 * (f->n + 1) : 2 * (f->n - 1);
    return trp__fft_form_core(f) == TRP__FFT_CORE_C2C ? f->n / 2 : f->n;
}

/* Elements of a line that it reads and writes. */
static inline int64_t trp__fft_form_inputs(const trp__fft_form *f)
{
    const int64_t length = trp__fft_form_length(f);
    return trp__fft_form_core(f) == TRP__FFT_CORE_C2R ? length / 2 + 1 : length;
}

/* Complex numbers that a line has room for, whichever side is there. */
static inline int64_t trp__fft_form_room(const trp__fft_form *f)
{
    const int64_t length = trp__fft_form_length(f);
    return trp__fft_form_core(f) == TRP__FFT_CORE_C2C ? length : length / 2 + 1;
}

/* An element that goes into the Fourier transform: (a x[p] + i b x[q]) exp(2 pi i turn / (8 n)). */
typedef struct trp__fft_entry {
    int64_t p, q; /* -1: none */
    double a, b;
    int64_t turn; /* 0 to 8 n - 1 */
    bool real;    /* the imaginary part is 0 */
} trp__fft_entry;

/* An element of y: factor * (cos(turn) re + sin(turn) im) of element m of what comes out. */
typedef struct trp__fft_exit {
    int64_t m;
    double factor;
    int64_t turn;
} trp__fft_exit;

/* The element that an odd multiple of the angle of type 4 stands for; its sign is *sign. */
static inline int64_t trp__fft_fold(int64_t n, int64_t odd, double *sign)
{
    const int64_t half = odd > 4 * n ? 8 * n - odd : odd;
    *sign = half > 2 * n ? -1 : 1;
    return ((half > 2 * n ? 4 * n - half : half) - 1) / 2;
}

static inline void trp__fft_enter_type_4(const trp__fft_form *f, int64_t e, trp__fft_entry *out)
{
    const int64_t n = f->n;
    if (n % 2 != 0) {
        out->p = trp__fft_fold(n, (n + 8 * e) % (8 * n), &out->a);
        out->p = f->sine ? n - 1 - out->p : out->p;
        return;
    }
    out->p = f->sine ? n - 1 - 2 * e : 2 * e;
    out->q = n - 1 - out->p;
    out->b = 1;
    out->turn = (8 * n - 4 * e) % (8 * n);
    out->real = false;
}

static inline trp__fft_entry trp__fft_enter(const trp__fft_form *f, int64_t e)
{
    const int64_t n = f->n, length = trp__fft_form_length(f);
    trp__fft_entry out = {-1, -1, 1, 0, 0, true};
    if (f->type == 1 && !f->sine) {
        out.p = e < n ? e : length - e;
    } else if (f->type == 1) {
        out.p = e == 0 || e == n + 1 ? -1 : e <= n ? e - 1 : length - e - 1;
        out.a = e <= n ? 1 : -1;
    } else if (f->type == 2) {
        out.p = 2 * e < n ? 2 * e : 2 * (n - e) - 1;
        out.a = f->sine && out.p % 2 != 0 ? -1 : 1;
    } else if (f->type == 3) {
        out.p = f->sine ? n - 1 - e : e;
        out.q = e == 0 ? -1 : f->sine ? e - 1 : n - e;
        out.b = -1;
        out.turn = 2 * e;
        out.real = e == 0 || 2 * e == n;
    } else {
        trp__fft_enter_type_4(f, e, &out);
    }
    if (f->orthogonal && out.p >= 0 &&
        ((f->type == 1 && !f->sine && (out.p == 0 || out.p == n - 1)) || (f->type == 3 && e == 0)))
        out.a *= 1.4142135623730950488;
    return out;
}

static inline void trp__fft_leave_type_4(const trp__fft_form *f, int64_t k, trp__fft_exit *out)
{
    const int64_t n = f->n;
    double sign = 1;
    if (n % 2 == 0) {
        out->m = k % 2 == 0 ? k / 2 : (n - 1 - k) / 2;
        out->turn = (4 * out->m + 1 + (k % 2 == 0 ? 0 : 6 * n)) % (8 * n);
    } else {
        const int64_t b = 2 * k + 1, c = n % 8;
        const int64_t odd = b % 8 == c             ? b
                            : (8 * n - b) % 8 == c ? 8 * n - b
                            : (4 * n - b) % 8 == c ? 4 * n - b
                                                   : 4 * n + b;
        sign = odd == b || odd == 8 * n - b ? 1 : -1;
        out->m = odd % n;
        out->turn = n * c;
        if (out->m > n / 2) {
            out->m = n - out->m;
            out->turn = (8 * n - out->turn) % (8 * n);
        }
    }
    out->factor = f->sine && k % 2 != 0 ? -2 * sign : 2 * sign;
}

static inline trp__fft_exit trp__fft_leave(const trp__fft_form *f, int64_t k)
{
    const int64_t n = f->n;
    trp__fft_exit out = {k, 1, 0};
    if (f->type == 1 && f->sine) {
        out.m = k + 1;
        out.factor = -1;
        out.turn = 2 * n;
    } else if (f->type == 2) {
        const int64_t at = f->sine ? n - 1 - k : k;
        out.m = at > n / 2 ? n - at : at;
        out.factor = 2;
        out.turn = at > n / 2 ? 8 * n - 2 * at : 2 * at;
    } else if (f->type == 3) {
        out.m = k % 2 == 0 ? k / 2 : n - (k + 1) / 2;
        out.factor = f->sine && k % 2 != 0 ? -1 : 1;
    } else if (f->type == 4) {
        trp__fft_leave_type_4(f, k, &out);
    }
    if (f->orthogonal && ((f->type == 1 && !f->sine && (k == 0 || k == n - 1)) ||
                          (f->type == 2 && k == (f->sine ? n - 1 : 0))))
        out.factor *= 0.70710678118654752440;
    return out;
}

#endif
