/* Draws transforms and their tensors. SPDX-License-Identifier: Apache-2.0 */
#include "conformance/fft/problem.h"
#include "support/reference/blas_reference.h"

#include <complex.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum { INVERSE = 1, IN_PLACE = 2, RESIZED = 4, NORM = 8 /* to 4 norms */ };

static int64_t below(int64_t bound)
{
    return (int64_t)ref_rng_below(h_rng(), (size_t)bound);
}

int64_t cf_fft_size_of(const cf_fft_tensor *x)
{
    return trp_dtype_bits(x->type) / 8;
}

bool cf_fft_is_wave(const cf_fft *p)
{
    return p->kind >= TRP_FFT_DCT1;
}

int cf_fft_last_axis(const cf_fft *p)
{
    return p->axis[p->axes - 1];
}

/* Lengths of all classes: small, prime, composite, and those that need a convolution. */
static int64_t random_length(const cf_fft *p, cf_kind kind)
{
    static const int64_t special[] = {64, 67, 97, 128, 134, 169, 211, 240, 256, 360};
    if (kind == CF_TIGHT)
        return 2 + below(4);
    if (p->rank == 1 && below(2) == 0)
        return special[below(COUNT_OF(special))];
    if (p->rank == 2 && below(8) == 0)
        return special[below(COUNT_OF(special))];
    return 1 + below(p->rank <= 2 ? 40 : p->rank <= 4 ? 7 : 3);
}

static void choose_axes(cf_fft *p, cf_kind kind)
{
    int order[CF_FFT_RANK];
    for (int i = 0; i < p->rank; i++)
        order[i] = i;
    p->axes = kind == CF_TIGHT ? 2 : 1 + (int)below(p->rank);
    p->all = kind == CF_RANDOM && p->axes == p->rank && below(2) == 0;
    p->backwards = below(2);
    for (int i = p->rank - 1; i > 0 && !p->all; i--) {
        const int k = (int)below(i + 1), was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
    for (int i = 0; i < p->axes; i++)
        p->axis[i] = order[i];
}

/* Sets the dimensions of x and y from the lengths. */
static void set_dims(cf_fft *p, bool resized)
{
    const int last = cf_fft_last_axis(p);
    for (int i = 0; i < p->rank; i++)
        p->x.dim[i] = p->y.dim[i] = p->n[i];
    if (p->kind == TRP_FFT_R2C)
        p->y.dim[last] = p->n[last] / 2 + 1;
    if (p->kind == TRP_FFT_C2R)
        p->x.dim[last] = p->n[last] / 2 + 1;
    for (int i = 0; i < p->axes; i++) {
        int64_t *dim = &p->x.dim[p->axis[i]];
        p->named[i] = below(3) == 0;
        if (resized && below(2)) {
            *dim = below(*dim + 4);
            p->named[i] = true;
        }
        if (p->kind == TRP_FFT_C2R && i == p->axes - 1 && p->n[last] != 2 * (*dim - 1))
            p->named[i] = true; /* an odd length, or 1 */
    }
}

/* Element 0 in the middle, along such axes as may be. */
static void choose_shifts(cf_fft *p)
{
    const int last = cf_fft_last_axis(p);
    for (int i = 0; i < p->axes; i++) {
        const int axis = p->axis[i];
        const bool half_x = p->kind == TRP_FFT_C2R && axis == last,
                   half_y = p->kind == TRP_FFT_R2C && axis == last;
        if (below(6) == 0 && !half_x && p->x.dim[axis] == p->n[axis])
            p->shift_x |= 1u << axis;
        if (below(6) == 0 && !half_y)
            p->shift_y |= 1u << axis;
    }
}

/* Strides in any order of the dimensions, with gaps, and some backwards. */
static int64_t lay_out(const cf_fft *p, cf_fft_tensor *x, cf_kind kind)
{
    int order[CF_FFT_RANK];
    int64_t next = 1 + (kind == CF_RANDOM && below(4) == 0 ? below(3) : 0);
    x->packed = kind == CF_TIGHT || below(3) == 0;
    for (int i = 0; i < p->rank; i++)
        order[i] = p->rank - 1 - i;
    for (int i = p->rank - 1; i > 0 && !x->packed; i--) {
        const int k = (int)below(i + 1), was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
    next = x->packed ? 1 : next;
    x->first = kind == CF_TIGHT ? 0 : below(5);
    for (int i = 0; i < p->rank; i++) {
        const int d = order[i];
        const bool back = !x->packed && below(8) == 0;
        x->stride[d] = back ? -next : next;
        x->first += back && x->dim[d] > 0 ? next * (x->dim[d] - 1) : 0;
        next *= x->dim[d] ? x->dim[d] : 1;
        next += x->packed || below(3) ? 0 : below(4);
    }
    return next + x->first + (kind == CF_TIGHT ? 0 : below(5));
}

/* Lays out real lines with room for complex ones. */
static void lay_out_in_place(cf_fft *p)
{
    cf_fft_tensor *longer = p->kind == TRP_FFT_C2R ? &p->x : &p->y,
                  *other = p->kind == TRP_FFT_C2R ? &p->y : &p->x;
    const int last = cf_fft_last_axis(p);
    const int64_t ratio = cf_fft_size_of(longer) / cf_fft_size_of(other);
    longer->first = other->first = below(3);
    longer->stride[last] = other->stride[last] = 1;
    int64_t next = longer->dim[last] + below(3);
    for (int i = p->rank - 1; i >= 0; i--) {
        if (i == last)
            continue;
        longer->stride[i] = next;
        other->stride[i] = ratio * next;
        next *= longer->dim[i];
        next += below(3);
    }
    other->first *= ratio;
}

int64_t cf_fft_place(const cf_fft_tensor *x, int rank, const int64_t index[CF_FFT_RANK])
{
    int64_t at = x->first;
    for (int i = 0; i < rank; i++)
        at += index[i] * x->stride[i];
    return at;
}

bool cf_fft_next_index(int rank, const int64_t dim[CF_FFT_RANK], int64_t index[CF_FFT_RANK])
{
    int i = rank - 1;
    for (; i >= 0 && ++index[i] >= dim[i]; i--)
        index[i] = 0;
    return i >= 0;
}

int64_t cf_fft_elements(int rank, const int64_t dim[CF_FFT_RANK])
{
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= dim[i];
    return count;
}

static void fill(const cf_fft *p, const cf_fft_tensor *x, char *memory)
{
    int64_t index[CF_FFT_RANK] = {0};
    if (cf_fft_elements(p->rank, x->dim) == 0)
        return;
    do {
        const double re = ref_rng_uniform(h_rng(), -1, 1), im = ref_rng_uniform(h_rng(), -1, 1);
        ref_blas_store(x->type, memory, cf_fft_place(x, p->rank, index), re + im * I);
    } while (cf_fft_next_index(p->rank, x->dim, index));
}

static void mark(const cf_fft *p, block *b)
{
    int64_t index[CF_FFT_RANK] = {0};
    const size_t size = (size_t)cf_fft_size_of(&p->y);
    if (cf_fft_elements(p->rank, p->y.dim) == 0)
        return;
    do
        memset(b->writable + (size_t)cf_fft_place(&p->y, p->rank, index) * size, true, size);
    while (cf_fft_next_index(p->rank, p->y.dim, index));
}

static void make_blocks(cf_fft *p, cf_kind kind)
{
    const int64_t of_x = lay_out(p, &p->x, kind), of_y = lay_out(p, &p->y, kind);
    int64_t bytes = of_x * cf_fft_size_of(&p->x), bytes_y = of_y * cf_fft_size_of(&p->y);
    if (p->in_place && (p->kind == TRP_FFT_C2C || cf_fft_is_wave(p))) {
        p->y = p->x;
    } else if (p->in_place) {
        const cf_fft_tensor *longer = p->kind == TRP_FFT_C2R ? &p->x : &p->y;
        lay_out_in_place(p);
        int64_t most = longer->first + 1;
        for (int i = 0; i < p->rank; i++)
            most += (longer->dim[i] - 1) * longer->stride[i];
        bytes = (most + below(4)) * cf_fft_size_of(longer);
        p->x.packed = p->y.packed = false;
    }
    if (kind == CF_TIGHT) {
        bytes = cf_fft_elements(p->rank, p->x.dim) * cf_fft_size_of(&p->x);
        bytes_y = cf_fft_elements(p->rank, p->y.dim) * cf_fft_size_of(&p->y);
    }
    p->blocks[CF_FFT_X] = block_make((size_t)bytes, NULL);
    fill(p, &p->x, p->blocks[CF_FFT_X].before);
    if (!p->in_place)
        p->blocks[CF_FFT_Y] = block_make((size_t)bytes_y, NULL);
    mark(p, &p->blocks[p->in_place ? CF_FFT_X : CF_FFT_Y]);
}

/* Of the real side of each variant; those of C2C have the same precision. */
static const trp_dtype types[] = {TRP_F32, TRP_F64, TRP_F16, TRP_BF16};

bool cf_fft_draw(cf_problem *problem, unsigned way, cf_kind kind)
{
    const trp_fft_kind of = *(const trp_fft_kind *)problem->operation->row;
    const bool in_place = way & IN_PLACE, resized = way & RESIZED;
    if ((in_place && (resized || kind == CF_TIGHT)) || (resized && kind == CF_TIGHT))
        return false;
    cf_fft *p = h_malloc(sizeof *p);
    *p = (cf_fft){.kind = of,
                  .wide = types[problem->variant] == TRP_F64,
                  .inverse = way & INVERSE,
                  .in_place = in_place,
                  .norm = (int)(way / NORM),
                  .scale = ref_rng_uniform(h_rng(), -2, 2)};
    p->rank = kind == CF_TIGHT ? 2 + (int)below(2)
              : below(12) == 0 ? CF_FFT_RANK
                               : 1 + (int)below(4);
    p->x.type = of == TRP_FFT_R2C || cf_fft_is_wave(p) ? types[problem->variant]
                : p->wide                              ? TRP_C128
                                                       : TRP_C64;
    p->y.type = of == TRP_FFT_C2R ? types[problem->variant] : p->wide ? TRP_C128 : TRP_C64;
    if (cf_fft_is_wave(p))
        p->y.type = p->wide || in_place || kind == CF_TIGHT || below(2)
                        ? p->x.type
                        : (const trp_dtype[]){TRP_F32, TRP_F16, TRP_BF16}[below(3)];
    choose_axes(p, kind);
    for (int i = 0; i < p->rank; i++)
        p->n[i] = random_length(p, kind);
    for (int i = 0; i < p->axes && of == TRP_FFT_DCT1; i++)
        p->n[p->axis[i]] += p->n[p->axis[i]] == 1;
    set_dims(p, resized);
    if (kind == CF_RANDOM && !cf_fft_is_wave(p))
        choose_shifts(p);
    if (cf_fft_is_wave(p))
        p->orthogonalize = (trp_fft_orthogonalize)below(3);
    make_blocks(p, kind);
    problem->own = p;
    problem->blocks = p->blocks;
    problem->block_count = in_place ? 1 : 2;
    problem->may_fault = in_place;
    if (kind == CF_TIGHT) /* bad_input tries other types */
        problem->may_refuse = "";
    return true;
}

void cf_fft_drop(cf_problem *problem)
{
    free(problem->own);
}
