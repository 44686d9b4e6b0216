/* Transforms in the conformance suite: tensors of up to eight dimensions in any layout, padded,
 * cropped and in place, compared with plain sums in long double. Memory outside the tensors holds
 * NaN. */
#include "conformance/conformance.h"
#include "support/reference/blas_reference.h"

#include <complex.h>
#include <math.h>

TROUPE_TEST("one isolation", "no tsan", "computes");
TROUPE_TEST_FAKE_GPU("no sanitizer");

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

typedef long double _Complex number;

enum { RANK = TRP_FFT_RANK_MAX, X = 0, Y = 1, ALWAYS = 1, HAS_X = 2, HAS_Y = 4, WAVES = 8 };
enum { WAYS = 32, INVERSE = 1, IN_PLACE = 2, RESIZED = 4, NORM = 8 /* to 4 norms */ };

/* ---- the request ---- */

#define BUFFER(x, bit)                                                                             \
    {                                                                                              \
#x, offsetof(trp_fft_request, x.buffer), offsetof(trp_fft_request, x.offset), bit, bit,    \
            TRP_E_STALE                                                                            \
    }
static const cf_operand operands[] = {BUFFER(x, HAS_X), BUFFER(y, HAS_Y)};

static const cf_field fields[] = {
    {"x.type", CF_TYPE, offsetof(trp_fft_request, x.type), ALWAYS, 0, 0, 0},
    {"kind", CF_OPTION, offsetof(trp_fft_request, kind), ALWAYS, TRP_FFT_DST4 + 1, 0, 0},
    {"orthogonalize", CF_OPTION, offsetof(trp_fft_request, orthogonalize), WAVES, 3, 0, 0},
    {"norm", CF_OPTION, offsetof(trp_fft_request, norm), ALWAYS, 3, 0, 0},
    {"scale", CF_SCALAR, offsetof(trp_fft_request, scale), ALWAYS, 0, ALWAYS, 0},
};

/* ---- problems ---- */

typedef struct operand {
    /* strides in elements; `first`: the offset of index 0 in the buffer */
    int64_t dim[RANK], stride[RANK], first;
    trp_dtype type;
    bool packed; /* the request gives no strides */
} operand;

typedef struct fft {
    trp_fft_kind kind;
    bool wide, inverse, in_place;
    int norm; /* 3: a scale given by the request */
    trp_fft_orthogonalize orthogonalize;
    double scale;
    int rank, axes, axis[RANK];
    int64_t n[RANK];           /* the length along each dimension */
    bool named[RANK];          /* the request gives the length of axis i */
    bool all, backwards;       /* no axes are named; they are counted from the end */
    uint32_t shift_x, shift_y; /* bit i: along dimension i */
    operand x, y;
    block blocks[2];
} fft;

static int64_t below(int64_t bound)
{
    return (int64_t)ref_rng_below(h_rng(), (size_t)bound);
}

static int64_t size_of(const operand *x)
{
    return trp_dtype_bits(x->type) / 8;
}

static bool is_wave(const fft *p)
{
    return p->kind >= TRP_FFT_DCT1;
}

static int last_axis(const fft *p)
{
    return p->axis[p->axes - 1];
}

/* Lengths of all classes: small, prime, composite, and those that need a convolution. */
static int64_t random_length(const fft *p, cf_kind kind)
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

static void choose_axes(fft *p, cf_kind kind)
{
    int order[RANK];
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
static void set_dims(fft *p, bool resized)
{
    const int last = last_axis(p);
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
static void choose_shifts(fft *p)
{
    const int last = last_axis(p);
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
static int64_t lay_out(const fft *p, operand *x, cf_kind kind)
{
    int order[RANK];
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
static void lay_out_in_place(fft *p)
{
    operand *longer = p->kind == TRP_FFT_C2R ? &p->x : &p->y,
            *other = p->kind == TRP_FFT_C2R ? &p->y : &p->x;
    const int last = last_axis(p);
    const int64_t ratio = size_of(longer) / size_of(other);
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

static int64_t place(const operand *x, int rank, const int64_t index[RANK])
{
    int64_t at = x->first;
    for (int i = 0; i < rank; i++)
        at += index[i] * x->stride[i];
    return at;
}

static number load(const operand *x, const char *memory, int64_t at)
{
    return ref_blas_load(x->type, memory, at);
}

/* Steps to the next index of a box; false after the last. */
static bool next_index(int rank, const int64_t dim[RANK], int64_t index[RANK])
{
    int i = rank - 1;
    for (; i >= 0 && ++index[i] >= dim[i]; i--)
        index[i] = 0;
    return i >= 0;
}

static int64_t elements(int rank, const int64_t dim[RANK])
{
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= dim[i];
    return count;
}

static void fill(const fft *p, const operand *x, char *memory)
{
    int64_t index[RANK] = {0};
    if (elements(p->rank, x->dim) == 0)
        return;
    do {
        const double re = ref_rng_uniform(h_rng(), -1, 1), im = ref_rng_uniform(h_rng(), -1, 1);
        ref_blas_store(x->type, memory, place(x, p->rank, index), re + im * I);
    } while (next_index(p->rank, x->dim, index));
}

static void mark(const fft *p, block *b)
{
    int64_t index[RANK] = {0};
    const size_t size = (size_t)size_of(&p->y);
    if (elements(p->rank, p->y.dim) == 0)
        return;
    do
        memset(b->writable + (size_t)place(&p->y, p->rank, index) * size, true, size);
    while (next_index(p->rank, p->y.dim, index));
}

static void make_blocks(fft *p, cf_kind kind)
{
    const int64_t of_x = lay_out(p, &p->x, kind), of_y = lay_out(p, &p->y, kind);
    int64_t bytes = of_x * size_of(&p->x), bytes_y = of_y * size_of(&p->y);
    if (p->in_place && (p->kind == TRP_FFT_C2C || is_wave(p))) {
        p->y = p->x;
    } else if (p->in_place) {
        const operand *longer = p->kind == TRP_FFT_C2R ? &p->x : &p->y;
        lay_out_in_place(p);
        int64_t most = longer->first + 1;
        for (int i = 0; i < p->rank; i++)
            most += (longer->dim[i] - 1) * longer->stride[i];
        bytes = (most + below(4)) * size_of(longer);
        p->x.packed = p->y.packed = false;
    }
    if (kind == CF_TIGHT) {
        bytes = elements(p->rank, p->x.dim) * size_of(&p->x);
        bytes_y = elements(p->rank, p->y.dim) * size_of(&p->y);
    }
    p->blocks[X] = block_make((size_t)bytes, NULL);
    fill(p, &p->x, p->blocks[X].before);
    if (!p->in_place)
        p->blocks[Y] = block_make((size_t)bytes_y, NULL);
    mark(p, &p->blocks[p->in_place ? X : Y]);
}

/* Of the real side of each variant; those of C2C have the same precision. */
static const trp_dtype types[] = {TRP_F32, TRP_F64, TRP_F16, TRP_BF16};

static bool draw(cf_problem *problem, unsigned way, cf_kind kind)
{
    const trp_fft_kind of = *(const trp_fft_kind *)problem->operation->row;
    const bool in_place = way & IN_PLACE, resized = way & RESIZED;
    if ((in_place && (resized || kind == CF_TIGHT)) || (resized && kind == CF_TIGHT))
        return false;
    fft *p = h_malloc(sizeof *p);
    *p = (fft){.kind = of,
               .wide = types[problem->variant] == TRP_F64,
               .inverse = way & INVERSE,
               .in_place = in_place,
               .norm = (int)(way / NORM),
               .scale = ref_rng_uniform(h_rng(), -2, 2)};
    p->rank = kind == CF_TIGHT ? 2 + (int)below(2) : below(12) == 0 ? RANK : 1 + (int)below(4);
    p->x.type = of == TRP_FFT_R2C || is_wave(p) ? types[problem->variant]
                : p->wide                       ? TRP_C128
                                                : TRP_C64;
    p->y.type = of == TRP_FFT_C2R ? types[problem->variant] : p->wide ? TRP_C128 : TRP_C64;
    if (is_wave(p))
        p->y.type = p->wide || in_place || kind == CF_TIGHT || below(2)
                        ? p->x.type
                        : (const trp_dtype[]){TRP_F32, TRP_F16, TRP_BF16}[below(3)];
    choose_axes(p, kind);
    for (int i = 0; i < p->rank; i++)
        p->n[i] = random_length(p, kind);
    for (int i = 0; i < p->axes && of == TRP_FFT_DCT1; i++)
        p->n[p->axis[i]] += p->n[p->axis[i]] == 1;
    set_dims(p, resized);
    if (kind == CF_RANDOM && !is_wave(p))
        choose_shifts(p);
    if (is_wave(p))
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

static void set_tensor(const fft *p, const operand *from, trp_buffer buffer, bool dims,
                       trp_fft_tensor *to)
{
    to->buffer = buffer;
    to->offset = (uint64_t)(from->first * size_of(from));
    for (int i = 0; i < p->rank; i++) {
        to->dim[i] = dims ? from->dim[i] : 0;
        to->stride[i] = from->packed ? 0 : from->stride[i];
    }
}

static trp_dtype default_type(const fft *p)
{
    return is_wave(p)               ? p->x.type
           : p->kind != TRP_FFT_C2R ? p->y.type
           : p->wide                ? TRP_F64
                                    : TRP_F32;
}

static void make_request(const cf_problem *problem, void *out)
{
    const fft *p = problem->own;
    trp_fft_request r = {.kind = p->kind,
                         .inverse = p->inverse,
                         .norm = p->norm < 3 ? (trp_fft_norm)p->norm : TRP_FFT_BACKWARD,
                         .orthogonalize = p->orthogonalize,
                         .rank = (uint32_t)p->rank,
                         .axis_count = p->all ? 0 : (uint32_t)p->axes,
                         .x.type = p->x.type,
                         .y.type = p->backwards || p->y.type != default_type(p) ? p->y.type
                                                                                : TRP_DTYPE_NONE};
    if (p->norm == 3)
        r.scale = trp_real(p->scale);
    for (int i = 0; i < p->axes; i++) {
        r.axis[i] = p->all ? 0 : p->backwards ? p->axis[i] - p->rank : p->axis[i];
        r.shift_x |= (p->shift_x >> p->axis[i] & 1) << i;
        r.shift_y |= (p->shift_y >> p->axis[i] & 1) << i;
        r.n[i] = p->named[i] ? p->n[p->axis[i]] : 0;
    }
    set_tensor(p, &p->x, p->blocks[X].buffer, true, &r.x);
    set_tensor(p, &p->y, p->blocks[p->in_place ? X : Y].buffer, p->backwards, &r.y);
    *(trp_fft_request *)out = r;
}

static trp_status send(trp_actor *fft_actor, const cf_problem *p, trp_completion *done)
{
    trp_fft_request r;
    make_request(p, &r);
    return trp_fft(fft_actor, &r, done);
}

/* ---- what is right ---- */

/* A packed box of numbers. */
typedef struct box {
    int64_t dim[RANK];
    number *at;
} box;

static int64_t packed_place(const box *b, int rank, const int64_t index[RANK])
{
    int64_t at = 0;
    for (int i = 0; i < rank; i++)
        at = at * b->dim[i] + index[i];
    return at;
}

/* The place of an element: from an index of the transform. */
static int64_t shifted_place(const fft *p, const operand *x, const int64_t index[RANK],
                             uint32_t shift)
{
    int64_t at[RANK] = {0};
    for (int i = 0; i < p->rank; i++)
        at[i] = shift >> i & 1 ? (index[i] + p->n[i] / 2) % p->n[i] : index[i];
    return place(x, p->rank, at);
}

/* Copies x, cropped and padded, to a box; half a spectrum stays half. */
static box take_x(const fft *p)
{
    box b;
    int64_t index[RANK] = {0};
    memcpy(b.dim, p->n, sizeof b.dim);
    if (p->kind == TRP_FFT_C2R)
        b.dim[last_axis(p)] = p->n[last_axis(p)] / 2 + 1;
    b.at = h_malloc((size_t)elements(p->rank, b.dim) * sizeof *b.at);
    do {
        bool there = true;
        for (int i = 0; i < p->rank; i++)
            there = there && index[i] < p->x.dim[i];
        b.at[packed_place(&b, p->rank, index)] =
            there ? load(&p->x, p->blocks[X].before, shifted_place(p, &p->x, index, p->shift_x))
                  : 0;
    } while (next_index(p->rank, b.dim, index));
    return b;
}

/* Completes a half spectrum along its last axis. */
static void complete(const fft *p, box *b)
{
    const int last = last_axis(p);
    const int64_t n = p->n[last];
    box whole = {.at = NULL};
    int64_t index[RANK] = {0};
    memcpy(whole.dim, p->n, sizeof whole.dim);
    whole.at = h_malloc((size_t)elements(p->rank, whole.dim) * sizeof *whole.at);
    do {
        int64_t from[RANK];
        const int64_t k = index[last];
        memcpy(from, index, sizeof from);
        from[last] = k <= n / 2 ? k : n - k;
        number value = b->at[packed_place(b, p->rank, from)];
        if (k == 0 || 2 * k == n)
            value = creall(value);
        whole.at[packed_place(&whole, p->rank, index)] = k <= n / 2 ? value : conjl(value);
    } while (next_index(p->rank, whole.dim, index));
    free(b->at);
    *b = whole;
}

static void transform(const fft *p, box *b, int axis)
{
    const int64_t n = b->dim[axis];
    number *line = h_malloc((size_t)n * sizeof *line), *root = h_malloc((size_t)n * sizeof *root);
    int64_t dim[RANK], index[RANK] = {0}, step = 1;
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
    } while (next_index(p->rank, dim, index));
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

static void transform_wave(const fft *p, box *b, int axis)
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
    int64_t dim[RANK], index[RANK] = {0}, step = 1;
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
    } while (next_index(p->rank, dim, index));
    free(table);
    free(line);
}

static long double scale_of(const fft *p)
{
    long double n = 1;
    if (p->norm == 3)
        return p->scale;
    for (int i = 0; i < p->axes; i++) {
        const long double length = (long double)p->n[p->axis[i]];
        n *= p->kind == TRP_FFT_DCT1   ? 2 * (length - 1)
             : p->kind == TRP_FFT_DST1 ? 2 * (length + 1)
             : is_wave(p)              ? 2 * length
                                       : length;
    }
    return p->norm == TRP_FFT_ORTHO                     ? 1 / sqrtl(n)
           : (p->norm == TRP_FFT_FORWARD) != p->inverse ? 1 / n
                                                        : 1;
}

static bool check(cf_problem *problem, cf_tally *tally)
{
    const fft *p = problem->own;
    const long double scale = scale_of(p), unit = p->wide ? 0x1p-52L : 0x1p-23L;
    long double error = 0, size = 0, logs = 0;
    box b = take_x(p);
    for (int i = 0; i < p->axes; i++) {
        const int axis = p->axis[i];
        logs += p->n[axis] > 2 ? log2l((long double)p->n[axis]) : 1;
        if (i == p->axes - 1 && p->kind == TRP_FFT_C2R)
            complete(p, &b);
        (is_wave(p) ? transform_wave : transform)(p, &b, axis);
    }
    int64_t index[RANK] = {0};
    const char *after = p->blocks[p->in_place ? X : Y].after;
    do {
        const number wanted = b.at[packed_place(&b, p->rank, index)] * scale;
        const number off = load(&p->y, after, shifted_place(p, &p->y, index, p->shift_y)) - wanted;
        error += creall(off) * creall(off) + cimagl(off) * cimagl(off);
        size += creall(wanted) * creall(wanted) + cimagl(wanted) * cimagl(wanted);
    } while (next_index(p->rank, p->y.dim, index));
    free(b.at);
    /* y in 16 bits is rounded, to steps of the smallest one near 0. */
    const double half = ref_blas_size(p->y.type) == 2 ? ref_blas_unit(p->y.type) : 0;
    const long double bound = sqrtl(size) * (4 * unit * logs + half) +
                              sqrtl((long double)elements(p->rank, p->y.dim)) * half * 0x1p-14L;
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

static void drop(cf_problem *problem)
{
    free(problem->own);
}

/* ---- mistakes ---- */

typedef struct mistake {
    const char *word;
    void (*make)(const fft *p, trp_fft_request *r);
} mistake;

#define MISTAKE(name, ...)                                                                         \
    static void name(const fft *p, trp_fft_request *r)                                             \
    {                                                                                              \
        (void)p;                                                                                   \
        __VA_ARGS__;                                                                               \
    }
MISTAKE(no_rank, r->rank = 0)
MISTAKE(large_rank, r->rank = RANK + 1)
MISTAKE(many_axes, r->axis_count = r->rank + 1)
MISTAKE(axis_twice, r->axis[1] = r->axis[0])
MISTAKE(axis_twice_backwards,
        r->axis[1] = r->axis[0] < 0 ? r->axis[0] + (int)r->rank : r->axis[0] - (int)r->rank)
MISTAKE(axis_beyond, r->axis[0] = (int)r->rank)
MISTAKE(axis_before, r->axis[0] = -(int)r->rank - 1)
MISTAKE(axis_behind, r->axis[RANK - 1] = 1)
MISTAKE(axis_uncounted, r->axis_count = 0; r->axis[0] = 1)
MISTAKE(negative_length, r->n[0] = -1)
MISTAKE(huge_length, r->n[0] = INT64_C(1) << 48)
MISTAKE(longest_length, r->n[1] = INT64_MAX)
MISTAKE(longer_result, r->n[0] = p->n[p->axis[0]] + 3; memset(r->y.dim, 0, sizeof r->y.dim))
MISTAKE(length_behind, r->n[RANK - 1] = 3)
MISTAKE(no_length, r->x.dim[p->axis[0]] = 0; r->n[0] = 0; memset(r->y.dim, 0, sizeof r->y.dim))
MISTAKE(negative_dim, r->x.dim[0] = -1)
MISTAKE(huge_dim, r->x.dim[0] = INT64_MAX)
MISTAKE(dim_behind, r->x.dim[RANK - 1] = 2)
MISTAKE(many_elements, for (int i = 0; i < p->rank; i++) r->x.dim[i] = INT64_C(1) << 40;
        memset(r->n, 0, sizeof r->n); memset(r->y.dim, 0, sizeof r->y.dim))
MISTAKE(other_dim_of_y, memcpy(r->y.dim, p->y.dim, sizeof r->y.dim); r->y.dim[0]++)
MISTAKE(one_place, for (int i = 0; i < p->rank; i++) r->y.stride[i] = 1)
MISTAKE(broadcast_result, r->y.stride[p->rank - 1] = 1)
MISTAKE(huge_stride, r->x.stride[0] = INT64_MAX)
MISTAKE(smallest_stride, r->y.stride[0] = INT64_MIN)
MISTAKE(far_apart, r->x.stride[0] = (INT64_C(1) << 48) - 1)
MISTAKE(stride_behind, r->x.stride[RANK - 1] = 1)
MISTAKE(backwards_at_begin, r->x.stride[0] = -1)
MISTAKE(integers, r->y.type = TRP_I32)
MISTAKE(other_precision, r->y.type = p->wide ? TRP_C64 : TRP_C128)
MISTAKE(eight_bits, r->y.type = TRP_F8E4M3)
MISTAKE(half_of_f64, r->y.type = p->wide ? TRP_F16 : TRP_F64)
MISTAKE(shift_behind, r->shift_x = 1u << r->axis_count)
MISTAKE(shift_far_behind, r->shift_y = 1u << 31)
MISTAKE(shift_halved, if (p->kind == TRP_FFT_C2R) r->shift_x = 2; else r->shift_y = 2;
        if (p->kind == TRP_FFT_C2C) r->shift_y = 4)
MISTAKE(shift_padded, r->n[0] = p->n[p->axis[0]] + 1; r->shift_x = 1;
        memset(r->y.dim, 0, sizeof r->y.dim))
MISTAKE(norm_and_scale, r->norm = TRP_FFT_ORTHO; r->scale = trp_real(2))
MISTAKE(scale_not_given, r->norm = TRP_FFT_BACKWARD; r->scale = (trp_scalar){.re = 2})

static bool spoil(const cf_problem *problem, unsigned which, const cf_wrong *wrong, void *request)
{
    static const mistake mistakes[] = {
        {"rank", no_rank},
        {"rank", large_rank},
        {"axis_count", many_axes},
        {"axis[1]", axis_twice},
        {"axis[1]", axis_twice_backwards},
        {"axis[0]", axis_beyond},
        {"axis[0]", axis_before},
        {"axis[7]", axis_behind},
        {"axis[0]", axis_uncounted},
        {"n[0]", negative_length},
        {"n[0]", huge_length},
        {"n[1]", longest_length},
        {"y", longer_result},
        {"n[7]", length_behind},
        {"n[0]", no_length},
        {"x.dim[0]", negative_dim},
        {"x.dim[0]", huge_dim},
        {"x.dim[7]", dim_behind},
        {"x.dim", many_elements},
        {"y.dim[0]", other_dim_of_y},
        {"y.stride", one_place},
        {"y.stride", broadcast_result},
        {"x.stride[0]", huge_stride},
        {"y.stride[0]", smallest_stride},
        {"x", far_apart},
        {"x.stride[7]", stride_behind},
        {"x.offset", backwards_at_begin},
        {"y.type", integers},
        {"y.type", other_precision},
        {"y.type", eight_bits},
        {"y.type", half_of_f64},
        {"shift_x", shift_behind},
        {"shift_y", shift_far_behind},
        {"shift_", shift_halved},
        {"shift_x", shift_padded},
        {"norm", norm_and_scale},
        {"scale", scale_not_given},
    };
    if (which >= COUNT_OF(mistakes))
        return false;
    mistakes[which].make(problem->own, request);
    *wrong->word = mistakes[which].word;
    return true;
}

/* ---- the family ---- */

static const cf_family family = {
    .operands = operands,
    .operand_count = COUNT_OF(operands),
    .fields = fields,
    .field_count = COUNT_OF(fields),
    .request_bytes = sizeof(trp_fft_request),
    .draw = draw,
    .request = make_request,
    .send = send,
    .check = check,
    .drop = drop,
    .spoil = spoil,
};

static const trp_fft_kind kinds[] = {TRP_FFT_C2C,  TRP_FFT_R2C,  TRP_FFT_C2R,  TRP_FFT_DCT1,
                                     TRP_FFT_DCT2, TRP_FFT_DCT3, TRP_FFT_DCT4, TRP_FFT_DST1,
                                     TRP_FFT_DST2, TRP_FFT_DST3, TRP_FFT_DST4};
static const cf_variant complex_variants[] = {
    {.name = "c64", .type = TRP_C64, .is_complex = true},
    {.name = "c128", .type = TRP_C128, .is_complex = true},
};
static const cf_variant real_variants[] = {
    {.name = "f32", .type = TRP_F32},
    {.name = "f64", .type = TRP_F64},
    {.name = "f16", .type = TRP_F16},
    {.name = "bf16", .type = TRP_BF16},
};
static const cf_variant to_real_variants[] = {
    {.name = "c64", .type = TRP_C64, .is_complex = true},
    {.name = "c128", .type = TRP_C128, .is_complex = true},
    {.name = "c64 to f16", .type = TRP_C64, .is_complex = true},
    {.name = "c64 to bf16", .type = TRP_C64, .is_complex = true},
};

int main(int argc, char **argv)
{
#define OPERATION(title, kind, of, ...)                                                            \
    {                                                                                              \
        .name = title, .op = TRP_OP_FFT, .family = &family, .row = &kinds[kind], .variants = of,   \
        .variant_count = COUNT_OF(of), .ways = WAYS, .writes = HAS_Y, __VA_ARGS__                  \
    }
#define FOURIER (ALWAYS | HAS_X | HAS_Y)
#define WAVE(title, kind)                                                                          \
    OPERATION(title, kind, real_variants, .has = FOURIER | WAVES, .in_place = HAS_X | HAS_Y)
    static const cf_operation operations[] = {
        OPERATION("c2c", TRP_FFT_C2C, complex_variants, .has = FOURIER, .in_place = HAS_X | HAS_Y),
        OPERATION("r2c", TRP_FFT_R2C, real_variants, .has = FOURIER, .in_place = 0),
        OPERATION("c2r", TRP_FFT_C2R, to_real_variants, .has = FOURIER, .in_place = 0),
        WAVE("dct type I", TRP_FFT_DCT1),
        WAVE("dct type II", TRP_FFT_DCT2),
        WAVE("dct type III", TRP_FFT_DCT3),
        WAVE("dct type IV", TRP_FFT_DCT4),
        WAVE("dst type I", TRP_FFT_DST1),
        WAVE("dst type II", TRP_FFT_DST2),
        WAVE("dst type III", TRP_FFT_DST3),
        WAVE("dst type IV", TRP_FFT_DST4),
    };
    const cf_actor actor = {
        .kind = "fft", .operations = operations, .count = COUNT_OF(operations), .rounds = 200};
    return cf_main(argc, argv, &actor);
}
