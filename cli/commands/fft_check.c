/* The check of `troupe fft`: elements of the result as plain sums over x. */
#include "fft.h"

#include "check/sums.h"
#include "ui/ui.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Terms of all sums together; a large result is checked in a sample. */
#define STEPS 1e8

enum { RANK = TRP_FFT_RANK_MAX, LEAST = 16 };

typedef struct checking {
    const fft *job;
    long double *roots;  /* cosines and sines, n of each for each axis */
    int64_t first[RANK]; /* where those of an axis begin */
    double terms;
    /* State of the current sum. */
    int64_t index[RANK]; /* of the result */
    long double re, im, size;
} checking;

static bool make_roots(checking *c)
{
    int64_t numbers = 0;
    for (int i = 0; i < c->job->count; i++) {
        c->first[i] = numbers;
        numbers += 2 * c->job->length[i];
    }
    c->roots = malloc((size_t)(numbers + 1) * sizeof *c->roots);
    if (!c->roots)
        return false;
    for (int i = 0; i < c->job->count; i++) {
        long double *root = c->roots + c->first[i];
        const int64_t n = c->job->length[i];
        for (int64_t k = 0; k < n; k++) {
            const long double angle = 6.283185307179586476925286766559005768L * (long double)k /
                                      (long double)n * (c->job->inverse ? 1 : -1);
            root[2 * k] = cosl(angle);
            root[2 * k + 1] = sinl(angle);
        }
    }
    return true;
}

static void add_term(checking *c, const int64_t at[RANK], long double w_re, long double w_im)
{
    const trp_dnn_tensor *x = &c->job->x.device;
    int64_t place = 0;
    for (uint32_t d = 0; d < x->rank; d++) {
        if (at[d] >= x->dim[d])
            return; /* padding */
        place += at[d] * x->stride[d];
    }
    const long double re = check_value(x->type, c->job->x.data, (uint64_t)place, 0);
    const long double im = c->job->request.kind == TRP_FFT_R2C
                               ? 0
                               : check_value(x->type, c->job->x.data, (uint64_t)place, 1);
    c->re += re * w_re - im * w_im;
    c->im += re * w_im + im * w_re;
    c->size += re * re + im * im;
}

/* Adds all terms that differ in the axes from number `i` on. An element that C2R does not read is
 * the conjugate of that with all indices mirrored; only the real part of the sum counts then. */
static void add_terms(checking *c, int i, int64_t at[RANK], long double w_re, long double w_im)
{
    const fft *job = c->job;
    if (i == job->count) {
        add_term(c, at, w_re, w_im);
        return;
    }
    const int axis = job->axis[i];
    const int64_t n = job->length[i];
    const bool half = job->request.kind == TRP_FFT_C2R && i == job->count - 1;
    for (int64_t k = 0; k < (half ? n / 2 + 1 : n); k++) {
        const int64_t turn = (int64_t)((__int128)k * c->index[axis] % n);
        const long double *root = c->roots + c->first[i] + 2 * turn, a = root[0], b = root[1];
        /* Both halves have the same real part. */
        const long double twice = half && k > 0 && 2 * k != n ? 2 : 1;
        at[axis] = k;
        add_terms(c, i + 1, at, (w_re * a - w_im * b) * twice, (w_re * b + w_im * a) * twice);
    }
}

typedef struct outcome {
    double worst; /* error as a share of its bound */
    long double error, norm;
    uint64_t compared, wrong;
} outcome;

static double scale_of(const fft *job)
{
    long double n = 1;
    for (int i = 0; i < job->count; i++)
        n *= (long double)job->length[i];
    if (job->request.norm == TRP_FFT_ORTHO)
        return (double)(1 / sqrtl(n));
    return (double)((job->request.norm == TRP_FFT_FORWARD) != job->inverse ? 1 / n : 1);
}

/* The error of an element grows with the root of the sum of squares of all its terms. */
static void compare(checking *c, uint64_t number, outcome *o)
{
    const fft *job = c->job;
    const trp_dnn_tensor *y = &job->y.device;
    const bool real = job->request.kind == TRP_FFT_C2R,
               wide = y->type == TRP_F64 || y->type == TRP_C128;
    int64_t at[RANK] = {0}, place = 0;
    double logs = 0;
    for (uint32_t d = y->rank; d-- > 0; number /= (uint64_t)y->dim[d]) {
        c->index[d] = at[d] = (int64_t)(number % (uint64_t)y->dim[d]);
        place += c->index[d] * y->stride[d];
    }
    c->re = c->im = c->size = 0;
    add_terms(c, 0, at, 1, 0);
    for (int i = 0; i < job->count; i++)
        logs += job->length[i] > 2 ? log2((double)job->length[i]) : 1;
    const long double scale = scale_of(job);
    const long double off_re =
        check_value(y->type, job->y.data, (uint64_t)place, 0) - c->re * scale;
    const long double off_im =
        real ? 0 : check_value(y->type, job->y.data, (uint64_t)place, 1) - c->im * scale;
    const long double size = sqrtl((real ? 2 : 1) * c->size) * scale;
    const long double off = hypotl(off_re, off_im);
    const double bound = (double)(8 * (wide ? 0x1p-52L : 0x1p-23L) * logs * size);
    const double share = off == 0 ? 0 : (double)(off / bound);
    o->error += off * off;
    o->norm += c->re * c->re * scale * scale + (real ? 0 : c->im * c->im * scale * scale);
    o->worst = share <= o->worst ? o->worst : share;
    o->wrong += !(share <= 1);
    o->compared++;
}

static bool show(const fft *job, const outcome *o, uint64_t began)
{
    const double error = (double)sqrtl(o->norm > 0 ? o->error / o->norm : o->error);
    ui_step(o->wrong ? UI_BAD : UI_GOOD, "check", ui_now() - began,
            "against float64: relative error %.2g, %.2g of the bound at most; %" PRIu64
            " of %" PRIu64 " elements compared",
            error, o->worst, o->compared, tensor_elements(&job->y));
    if (o->wrong)
        ui_error("the result is wrong: %s beyond its bound", ui_plural(o->wrong, "element").s);
    return o->wrong == 0;
}

bool fft_check(const fft *job)
{
    checking c = {.job = job, .terms = 1};
    outcome o = {0};
    const uint64_t all = tensor_elements(&job->y), began = ui_now();
    for (int i = 0; i < job->count; i++)
        c.terms *= (double)job->length[i];
    if (all == 0)
        return true;
    const double most = STEPS / c.terms > LEAST ? STEPS / c.terms : LEAST;
    const uint64_t count = (double)all > most ? (uint64_t)most : all;
    const bool roots = make_roots(&c);
    if (!roots)
        ui_error("no memory for the check");
    for (uint64_t i = 0; roots && i < count; i++) {
        ui_progress_part(i, count);
        compare(&c,
                count == all ? i : (uint64_t)((double)i * (double)(all - 1) / (double)(count - 1)),
                &o);
    }
    free(c.roots);
    return roots && show(job, &o, began);
}
