/* Computes transforms by plain sums in long double. SPDX-License-Identifier: Apache-2.0 */
#include "conformance/fft/problem.h"
#include "support/reference/blas_reference.h"

#include <complex.h>
#include <math.h>

typedef long double _Complex number;

static number load(const cf_fft_tensor *x, const char *memory, int64_t at)
{
    return ref_blas_load(x->type, memory, at);
}

/* A packed box of numbers. */
typedef struct box {
    int64_t dim[CF_FFT_RANK];
    number *at;
} box;

static int64_t packed_place(const box *b, int rank, const int64_t index[CF_FFT_RANK])
{
    int64_t at = 0;
    for (int i = 0; i < rank; i++)
        at = at * b->dim[i] + index[i];
    return at;
}

/* The place of an element: from an index of the transform. */
static int64_t shifted_place(const cf_fft *p, const cf_fft_tensor *x,
                             const int64_t index[CF_FFT_RANK], uint32_t shift)
{
    int64_t at[CF_FFT_RANK] = {0};
    for (int i = 0; i < p->rank; i++)
        at[i] = shift >> i & 1 ? (index[i] + p->n[i] / 2) % p->n[i] : index[i];
    return cf_fft_place(x, p->rank, at);
}

/* Copies x, cropped and padded, to a box; half a spectrum stays half. */
static box take_x(const cf_fft *p)
{
    box b;
    int64_t index[CF_FFT_RANK] = {0};
    memcpy(b.dim, p->n, sizeof b.dim);
    if (p->kind == TRP_FFT_C2R)
        b.dim[cf_fft_last_axis(p)] = p->n[cf_fft_last_axis(p)] / 2 + 1;
    b.at = h_malloc((size_t)cf_fft_elements(p->rank, b.dim) * sizeof *b.at);
    do {
        bool there = true;
        for (int i = 0; i < p->rank; i++)
            there = there && index[i] < p->x.dim[i];
        b.at[packed_place(&b, p->rank, index)] =
            there ? load(&p->x, p->blocks[CF_FFT_X].before,
                         shifted_place(p, &p->x, index, p->shift_x))
                  : 0;
    } while (cf_fft_next_index(p->rank, b.dim, index));
    return b;
}

/* Completes a half spectrum along its last axis. */
static void complete(const cf_fft *p, box *b)
{
    const int last = cf_fft_last_axis(p);
    const int64_t n = p->n[last];
    box whole = {.at = NULL};
    int64_t index[CF_FFT_RANK] = {0};
    memcpy(whole.dim, p->n, sizeof whole.dim);
    whole.at = h_malloc((size_t)cf_fft_elements(p->rank, whole.dim) * sizeof *whole.at);
    do {
        int64_t from[CF_FFT_RANK];
        const int64_t k = index[last];
        memcpy(from, index, sizeof from);
        from[last] = k <= n / 2 ? k : n - k;
        number value = b->at[packed_place(b, p->rank, from)];
        if (k == 0 || 2 * k == n)
            value = creall(value);
        whole.at[packed_place(&whole, p->rank, index)] = k <= n / 2 ? value : conjl(value);
    } while (cf_fft_next_index(p->rank, whole.dim, index));
    free(b->at);
    *b = whole;
}

static void transform(const cf_fft *p, box *b, int axis)
{
    const int64_t n = b->dim[axis];
    number *line = h_malloc((size_t)n * sizeof *line), *root = h_malloc((size_t)n * sizeof *root);
    int64_t dim[CF_FFT_RANK], index[CF_FFT_RANK] = {0}, step = 1;
    memcpy(dim, b->dim, sizeof dim);
    dim[axis] = 1;
    for (int i = axis + 1; i < p->rank; i++)
        step *= b->dim[i];
    for (int64_t i = 0; i < n; i++) {
        const long double angle = 6.283185307179586476925286766559005768L * (long double)i /
                                  (long double)n * (p->inverse ? 1 : -1);
        root[i] = cosl(angle) + sinl(angle) * (number)I;
    }
    do {
        number *at = b->at + packed_place(b, p->rank, index);
        for (int64_t k = 0; k < n; k++) {
            line[k] = 0;
            for (int64_t i = 0; i < n; i++)
                line[k] += at[i * step] * root[i * k % n];
        }
        for (int64_t k = 0; k < n; k++)
            at[k * step] = line[k];
    } while (cf_fft_next_index(p->rank, dim, index));
    free(line);
    free(root);
}

/* SciPy's definitions, by the letter; `table` has 2 * period(type, sine, n) cosines or sines. */
static int64_t period(int type, bool sine, int64_t n)
{
    return type == 1 ? n + (sine ? 1 : -1) : type == 4 ? 4 * n : 2 * n;
}

static long double wave(const long double *table, int type, bool sine, int64_t n, int64_t j,
                        int64_t k)
{
    const int64_t first = type == 1 || type == 3 ? j + sine : 2 * j + 1;
    const int64_t second = type == 1 || type == 2 ? k + sine : 2 * k + 1;
    const bool end =
        type == 1 ? !sine && (j == 0 || j == n - 1) : type == 3 && j == (sine ? n - 1 : 0);
    return (end ? 1 : 2) * table[first * second % (2 * period(type, sine, n))];
}

static void transform_wave(const cf_fft *p, box *b, int axis)
{
    const int given = (int)(p->kind - TRP_FFT_DCT1) % 4 + 1;
    const int type = p->inverse && (given == 2 || given == 3) ? 5 - given : given;
    const bool sine = p->kind >= TRP_FFT_DST1;
    const bool ends =
        p->orthogonalize ? p->orthogonalize == TRP_FFT_ORTHOGONALIZE_ON : p->norm == TRP_FFT_ORTHO;
    const int64_t n = b->dim[axis], end = sine ? n - 1 : 0, half = period(type, sine, n);
    number *line = h_malloc((size_t)n * sizeof *line);
    long double *table = h_malloc(2 * (size_t)half * sizeof *table);
    for (int64_t i = 0; i < 2 * half; i++) {
        const long double turn =
            3.141592653589793238462643383279502884L * (long double)i / (long double)half;
        table[i] = sine ? sinl(turn) : cosl(turn);
    }
    int64_t dim[CF_FFT_RANK], index[CF_FFT_RANK] = {0}, step = 1;
    memcpy(dim, b->dim, sizeof dim);
    dim[axis] = 1;
    for (int i = axis + 1; i < p->rank; i++)
        step *= b->dim[i];
    do {
        number *at = b->at + packed_place(b, p->rank, index);
        for (int64_t k = 0; k < n; k++) {
            line[k] = 0;
            for (int64_t j = 0; j < n; j++) {
                const bool in = ends && ((type == 1 && !sine && (j == 0 || j == n - 1)) ||
                                         (type == 3 && j == end));
                line[k] += at[j * step] * wave(table, type, sine, n, j, k) * (in ? sqrtl(2) : 1);
            }
            if (ends && ((type == 1 && !sine && (k == 0 || k == n - 1)) || (type == 2 && k == end)))
                line[k] /= sqrtl(2);
        }
        for (int64_t k = 0; k < n; k++)
            at[k * step] = line[k];
    } while (cf_fft_next_index(p->rank, dim, index));
    free(table);
    free(line);
}

static long double scale_of(const cf_fft *p)
{
    long double n = 1;
    if (p->norm == 3)
        return p->scale;
    for (int i = 0; i < p->axes; i++) {
        const long double length = (long double)p->n[p->axis[i]];
        n *= p->kind == TRP_FFT_DCT1   ? 2 * (length - 1)
             : p->kind == TRP_FFT_DST1 ? 2 * (length + 1)
             : cf_fft_is_wave(p)       ? 2 * length
                                       : length;
    }
    return p->norm == TRP_FFT_ORTHO                     ? 1 / sqrtl(n)
           : (p->norm == TRP_FFT_FORWARD) != p->inverse ? 1 / n
                                                        : 1;
}

bool cf_fft_check(cf_problem *problem, cf_tally *tally)
{
    const cf_fft *p = problem->own;
    const long double scale = scale_of(p), unit = p->wide ? 0x1p-52L : 0x1p-23L;
    long double error = 0, size = 0, logs = 0;
    box b = take_x(p);
    for (int i = 0; i < p->axes; i++) {
        const int axis = p->axis[i];
        logs += p->n[axis] > 2 ? log2l((long double)p->n[axis]) : 1;
        if (i == p->axes - 1 && p->kind == TRP_FFT_C2R)
            complete(p, &b);
        (cf_fft_is_wave(p) ? transform_wave : transform)(p, &b, axis);
    }
    int64_t index[CF_FFT_RANK] = {0};
    const char *after = p->blocks[p->in_place ? CF_FFT_X : CF_FFT_Y].after;
    do {
        const number wanted = b.at[packed_place(&b, p->rank, index)] * scale;
        const number off = load(&p->y, after, shifted_place(p, &p->y, index, p->shift_y)) - wanted;
        error += creall(off) * creall(off) + cimagl(off) * cimagl(off);
        size += creall(wanted) * creall(wanted) + cimagl(wanted) * cimagl(wanted);
    } while (cf_fft_next_index(p->rank, p->y.dim, index));
    free(b.at);
    /* y in 16 bits is rounded, to steps of the smallest one near 0. */
    const double half = ref_blas_size(p->y.type) == 2 ? ref_blas_unit(p->y.type) : 0;
    const long double bound =
        sqrtl(size) * (4 * unit * logs + half) +
        sqrtl((long double)cf_fft_elements(p->rank, p->y.dim)) * half * 0x1p-14L;
    const double share = bound > 0    ? (double)(sqrtl(error) / bound)
                         : error == 0 ? 0
                                      : (double)INFINITY;
    tally->worst = share > tally->worst ? share : tally->worst;
    if (share <= 1)
        return true;
    fprintf(stderr, "fft kind %d%s%s, norm %d, %s to %s, error %g of the bound:", p->kind,
            p->inverse ? ", inverse" : "", p->in_place ? ", in place" : "", p->norm,
            trp_dtype_name(p->x.type), trp_dtype_name(p->y.type), share);
    for (int i = 0; i < p->rank; i++)
        fprintf(stderr, " %lld(%lld; %lld to %lld)", (long long)p->n[i], (long long)p->x.dim[i],
                (long long)p->x.stride[i], (long long)p->y.stride[i]);
    fprintf(stderr, ", axes");
    for (int i = 0; i < p->axes; i++)
        fprintf(stderr, " %d", p->axis[i]);
    fprintf(stderr, "\n");
    return false;
}
