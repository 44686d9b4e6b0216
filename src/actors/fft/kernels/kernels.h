/* The fft actor's kernels: a copy between layouts, and plain sums, with which proofs compare plans
 * and which compute where no plan does. NVRTC compiles them for GPUs; tests compile them as C,
 * where each block has one thread. The including file defines
 *
 *     TRP__KERNEL                          qualifiers of a kernel
 *     TRP__SHARED                          qualifiers of memory that the threads of a block share
 *     TRP__SYNC()                          waits for all threads of the block
 *     TRP__THREAD, TRP__THREADS            number of this thread, and threads of a block
 *     TRP__BLOCK, TRP__BLOCKS
 *     TRP__TURN(part, re, im)              *re, *im: cosine and sine of `part` of a full turn
 */
#ifndef TRP_ACTORS_FFT_KERNELS_KERNELS_H
#define TRP_ACTORS_FFT_KERNELS_KERNELS_H

#include "actors/fft/kernels/problem.h"
#include "base/numbers/half.h"

#include <stdbool.h>

typedef struct fft_number {
    double re, im;
} fft_number;

static fft_number fft_times(fft_number x, fft_number y)
{
    const fft_number z = {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
    return z;
}

static double fft_load_half(int format, const void *from, int64_t at)
{
    const uint16_t bits = ((const uint16_t *)from)[at];
    return (double)(format == TRP__FFT_F16 ? trp__f16_to_f32(bits) : trp__bf16_to_f32(bits));
}

static void fft_store_half(int format, void *to, int64_t at, double x)
{
    ((uint16_t *)to)[at] = format == TRP__FFT_F16 ? trp__f64_to_f16(x) : trp__f64_to_bf16(x);
}

static fft_number fft_load(bool wide, bool pairs, const void *from, int64_t at)
{
    fft_number x = {0, 0};
    if (pairs && wide) {
        x.re = ((const double *)from)[2 * at];
        x.im = ((const double *)from)[2 * at + 1];
    } else if (pairs) {
        x.re = (double)((const float *)from)[2 * at];
        x.im = (double)((const float *)from)[2 * at + 1];
    } else {
        x.re = wide ? ((const double *)from)[at] : (double)((const float *)from)[at];
    }
    return x;
}

static void fft_store(bool wide, bool pairs, void *to, int64_t at, fft_number x)
{
    if (pairs && wide) {
        ((double *)to)[2 * at] = x.re;
        ((double *)to)[2 * at + 1] = x.im;
    } else if (pairs) {
        ((float *)to)[2 * at] = (float)x.re;
        ((float *)to)[2 * at + 1] = (float)x.im;
    } else if (wide) {
        ((double *)to)[at] = x.re;
    } else {
        ((float *)to)[at] = (float)x.re;
    }
}

/* --- The copy --- */

/* Where an element of y and what it comes from are. No arrays of coordinates: these would lie in
 * local memory, whose traffic is several times that of the tensors. */
typedef struct fft_spot {
    int64_t x, y, mirror; /* places; `mirror` is that of the mirror image in x */
    bool there, mirror_there;
    bool edge; /* it becomes the mean of itself and its mirror image */
} fft_spot;

/* Divides; small tensors in 32 bits, which is faster. Returns the remainder. */
static int64_t fft_next(bool small, int64_t dim, int64_t *rest)
{
    const int64_t was = *rest;
    *rest = small ? (int64_t)((uint32_t)was / (uint32_t)dim) : was / dim;
    return was - *rest * dim;
}

static int64_t fft_turned(int64_t at, int64_t by, int64_t dim)
{
    return at + by < dim ? at + by : at + by - dim;
}

static fft_spot fft_find_spot(const trp__fft_copy *r, int64_t rest)
{
    fft_spot s = {0, 0, 0, true, true, false};
    const bool small = r->count <= INT32_MAX;
    for (int i = r->rank - 1; i >= 0; i--) {
        const int64_t dim = r->dim[i], at = i > 0 ? fft_next(small, dim, &rest) : rest;
        s.there = s.there && at < r->have[i];
        s.x += (r->turned ? fft_turned(at, r->x_turn[i], dim) : at) * r->x_stride[i];
        s.y += (r->turned ? fft_turned(at, r->y_turn[i], dim) : at) * r->y_stride[i];
        if (r->symmetric) {
            const int64_t other = (r->axes >> i & 1) && at > 0 ? dim - at : at;
            s.mirror_there = s.mirror_there && other < r->have[i];
            s.mirror += (r->turned ? fft_turned(other, r->x_turn[i], dim) : other) * r->x_stride[i];
            s.edge = i == r->last ? at == 0 || (r->even && at == dim - 1) : s.edge;
        }
    }
    return s;
}

static fft_number fft_element(const trp__fft_copy *r, bool there, int64_t place)
{
    fft_number x = {0, 0};
    if (there && r->x_format)
        x.re = fft_load_half(r->x_format, r->x, place);
    else if (there)
        x = fft_load(r->wide, r->pairs, r->x, place);
    return x;
}

/* Bits as they are: `words` of 8 bytes, or one of 4. */
static void fft_move(const trp__fft_copy *r, const fft_spot *s)
{
    const int words = (r->wide ? 1 : 0) + (r->pairs ? 1 : 0);
    if (words == 0) {
        ((uint32_t *)r->y)[s->y] = s->there ? ((const uint32_t *)r->x)[s->x] : 0;
    } else if (words == 1) {
        ((uint64_t *)r->y)[s->y] = s->there ? ((const uint64_t *)r->x)[s->x] : 0;
    } else {
        const uint64_t *x = (const uint64_t *)r->x + 2 * s->x;
        uint64_t *y = (uint64_t *)r->y + 2 * s->y;
        y[0] = s->there ? x[0] : 0;
        y[1] = s->there ? x[1] : 0;
    }
}

static void fft_copy_one(const trp__fft_copy *r, const fft_spot *s)
{
    fft_number x = fft_element(r, s->there, s->x);
    if (s->edge) {
        const fft_number other = fft_element(r, s->mirror_there, s->mirror);
        x.re = 0.5 * x.re + 0.5 * other.re;
        x.im = 0.5 * x.im - 0.5 * other.im;
    }
    x.re *= r->scale;
    x.im *= r->conjugate ? -r->scale : r->scale;
    if (r->y_format)
        fft_store_half(r->y_format, r->y, s->y, x.re);
    else
        fft_store(r->wide, r->pairs, r->y, s->y, x);
}

TRP__KERNEL void trp_fft_copy(const trp__fft_copy r)
{
    const int64_t step = (int64_t)TRP__BLOCKS * TRP__THREADS;
    const bool same = r.scale == 1 && !r.conjugate && !r.x_format && !r.y_format;
    for (int64_t i = (int64_t)TRP__BLOCK * TRP__THREADS + TRP__THREAD; i < r.count; i += step) {
        const fft_spot s = fft_find_spot(&r, i);
        if (same && !s.edge)
            fft_move(&r, &s);
        else
            fft_copy_one(&r, &s);
    }
}

/* --- Plain sums --- */

enum { FFT_RUN = 32 /* elements that a thread adds up before it adds them to its sum */ };

/* A sum with what its additions have lost. */
typedef struct fft_sum {
    fft_number sum, lost;
} fft_sum;

static void fft_add_exactly(double x, double *sum, double *lost)
{
    const double next = *sum + x, of_x = next - *sum;
    *lost += (*sum - (next - of_x)) + (x - of_x);
    *sum = next;
}

static void fft_add(fft_number x, fft_sum *s)
{
    fft_add_exactly(x.re, &s->sum.re, &s->lost.re);
    fft_add_exactly(x.im, &s->sum.im, &s->lost.im);
}

/* Adds up the numbers of a block's threads. */
static fft_number fft_sum_of_block(fft_number x)
{
    TRP__SHARED fft_number part[TRP__FFT_KERNEL_THREADS];
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

/* The element that a block computes: its place in y, that of its batch in x, and its frequencies.
 */
typedef struct fft_place {
    int64_t x, y, k[TRP__FFT_KERNEL_AXES];
} fft_place;

static int64_t fft_length(const trp__fft_sums *r, int axis, trp__fft_half half)
{
    return axis == r->axes - 1 && r->half == half ? r->n[axis] / 2 + 1 : r->n[axis];
}

static fft_place fft_find(const trp__fft_sums *r, int64_t number)
{
    fft_place p = {0, 0, {0, 0, 0}};
    for (int i = r->axes - 1; i >= 0; i--) {
        const int64_t n = fft_length(r, i, TRP__FFT_HALF_Y);
        p.k[i] = number % n;
        p.y += p.k[i] * r->y_stride[i];
        number /= n;
    }
    for (int i = r->others - 1; i >= 0; i--) {
        const int64_t at = number % r->other[i];
        p.x += at * r->other_x[i];
        p.y += at * r->other_y[i];
        number /= r->other[i];
    }
    return p;
}

/* The root of j k / n for one axis, as a part of a turn. */
static double fft_part(const trp__fft_sums *r, const fft_place *p, int axis, int64_t j)
{
    return (double)(j * p->k[axis] % r->n[axis]) / (double)r->n[axis];
}

static fft_number fft_root(const trp__fft_sums *r, double part)
{
    fft_number w;
    TRP__TURN(part, &w.re, &w.im);
    w.im = r->inverse ? w.im : -w.im;
    return w;
}

/* Adds up a run of neighbours along the last axis, from element `begin` of the line `line`. Roots
 * of f32 follow from the one before. */
static fft_number fft_run(const trp__fft_sums *r, const fft_place *p, int64_t line, int64_t begin)
{
    const int last = r->axes - 1;
    const int64_t length = fft_length(r, last, TRP__FFT_HALF_X);
    const int64_t end = begin + FFT_RUN < length ? begin + FFT_RUN : length;
    const fft_number step = fft_root(r, fft_part(r, p, last, 1));
    int64_t at = p->x + begin * r->x_stride[last];
    double part = 0;
    fft_number sum = {0, 0};
    for (int i = last - 1; i >= 0; i--) {
        const int64_t j = line % r->n[i];
        line /= r->n[i];
        part += fft_part(r, p, i, j);
        at += j * r->x_stride[i];
    }
    fft_number w = fft_root(r, part + fft_part(r, p, last, begin));
    for (int64_t j = begin; j < end; j++) {
        const bool twice = r->half == TRP__FFT_HALF_X && j > 0 && 2 * j != r->n[last];
        const fft_number term =
            fft_times(fft_load(r->wide, r->half != TRP__FFT_HALF_Y, r->x, at), w);
        sum.re += twice ? 2 * term.re : term.re;
        sum.im += term.im;
        at += r->x_stride[last];
        w = r->wide ? fft_root(r, part + fft_part(r, p, last, j + 1)) : fft_times(w, step);
    }
    return sum;
}

TRP__KERNEL void trp_fft_sums(const trp__fft_sums r)
{
    const int64_t length = fft_length(&r, r.axes - 1, TRP__FFT_HALF_X);
    const int64_t runs = (length + FFT_RUN - 1) / FFT_RUN;
    int64_t lines = 1;
    for (int i = 0; i < r.axes - 1; i++)
        lines *= r.n[i];
    for (int64_t at = TRP__BLOCK; at < r.count; at += TRP__BLOCKS) {
        const fft_place p = fft_find(&r, r.sample ? r.sample[at] : at);
        fft_sum sum = {{0, 0}, {0, 0}};
        for (int64_t i = TRP__THREAD; i < lines * runs; i += TRP__THREADS)
            fft_add(fft_run(&r, &p, i / runs, i % runs * FFT_RUN), &sum);
        sum.sum.re += sum.lost.re;
        sum.sum.im += sum.lost.im;
        const fft_number all = fft_sum_of_block(sum.sum);
        if (TRP__THREAD == 0)
            fft_store(r.wide, r.half != TRP__FFT_HALF_X, r.y, p.y, all);
    }
}

/* --- Cosine and sine transforms --- */

typedef struct fft_line {
    int64_t x, y; /* places of its first elements */
    bool there;
} fft_line;

static fft_line fft_find_line(const trp__fft_trig *r, int64_t line)
{
    fft_line l = {0, 0, true};
    for (int i = r->others - 1; i >= 0; i--) {
        const int64_t at = i > 0 ? line % r->other[i] : line;
        line /= r->other[i];
        l.there = l.there && at < r->other_have[i];
        l.x += at * r->other_x[i];
        l.y += at * r->other_y[i];
    }
    return l;
}

static double fft_real(const trp__fft_trig *r, const fft_line *l, int64_t at)
{
    const int64_t place = l->x + at * r->x_stride;
    if (!l->there || at < 0 || at >= r->have)
        return 0;
    return r->x_format ? fft_load_half(r->x_format, r->x, place)
                       : fft_load(r->wide, false, r->x, place).re;
}

static void fft_turn(const trp__fft_form *f, int64_t turn, double *c, double *s)
{
    TRP__TURN((double)turn / (double)(8 * f->n), c, s);
}

TRP__KERNEL void trp_fft_before(const trp__fft_trig r)
{
    const int64_t step = (int64_t)TRP__BLOCKS * TRP__THREADS;
    const bool pairs = trp__fft_form_core(&r.form) != TRP__FFT_CORE_R2C;
    for (int64_t i = (int64_t)TRP__BLOCK * TRP__THREADS + TRP__THREAD; i < r.count; i += step) {
        const int64_t e = i % r.per_line;
        const fft_line l = fft_find_line(&r, i / r.per_line);
        const trp__fft_entry in = trp__fft_enter(&r.form, e);
        fft_number x = {in.a * fft_real(&r, &l, in.p), 0};
        if (pairs) {
            fft_number w;
            x.im = in.b * fft_real(&r, &l, in.q);
            fft_turn(&r.form, in.turn, &w.re, &w.im);
            x = fft_times(x, w);
            x.im = in.real ? 0 : x.im;
        }
        fft_store(r.wide, pairs, r.y, l.y + e * r.y_stride, x);
    }
}

TRP__KERNEL void trp_fft_behind(const trp__fft_trig r)
{
    const int64_t step = (int64_t)TRP__BLOCKS * TRP__THREADS;
    const bool pairs = trp__fft_form_core(&r.form) != TRP__FFT_CORE_C2R;
    for (int64_t i = (int64_t)TRP__BLOCK * TRP__THREADS + TRP__THREAD; i < r.count; i += step) {
        const int64_t k = i % r.per_line;
        const fft_line l = fft_find_line(&r, i / r.per_line);
        const trp__fft_exit out = trp__fft_leave(&r.form, k);
        const fft_number x = fft_load(r.wide, pairs, r.x, l.x + out.m * r.x_stride);
        fft_number y = {x.re, 0}, w;
        if (pairs) {
            fft_turn(&r.form, out.turn, &w.re, &w.im);
            y.re = w.re * x.re + w.im * x.im;
        }
        y.re *= out.factor * r.scale;
        if (r.y_format)
            fft_store_half(r.y_format, r.y, l.y + k * r.y_stride, y.re);
        else
            fft_store(r.wide, false, r.y, l.y + k * r.y_stride, y);
    }
}

#endif
