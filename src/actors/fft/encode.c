/* The sender's side of transforms: checks a request and writes its record. */
#include "actors/fft/fft.h"
#include "actors/fft/fft_wire.h"
#include "base/error.h"
#include "base/numbers/types.h"
#include "base/overlap.h"

#include <math.h>
#include <string.h>

_Static_assert(sizeof(trp__fft) <= TRP__PAYLOAD_BYTES, "the payload fits into a record");
_Static_assert((int)TRP_FFT_RANK_MAX <= (int)TRP__OVERLAP_RANK, "overlaps can be told");

#define SPAN_MAX ((INT64_C(1) << 48) - 1)

enum { RANK = TRP_FFT_RANK_MAX };

#define FAIL(e, ...) trp__error_set((e)->error, TRP_E_ARGUMENT, __VA_ARGS__)

/* A tensor with defaults applied. */
typedef struct tensor {
    const char *name;
    const trp_fft_tensor *given;
    trp_dtype type;
    int64_t size; /* bytes of an element */
    int64_t dim[RANK], stride[RANK];
    int64_t elements;
    int64_t before, span; /* bytes: ahead of the element of index 0, and of all of it */
} tensor;

typedef struct encoding {
    trp_error *error;
    const trp_fft_request *r;
    int rank, last;
    bool axis[RANK], x_shift[RANK], y_shift[RANK];
    int64_t n[RANK]; /* lengths along axes, else dimensions */
    tensor x, y;
    bool in_place;
    trp__fft g;
    trp__fft_dim dim[RANK];
} encoding;

/* Options and types. */

static trp_status check_options(encoding *e)
{
    const trp_fft_request *r = e->r;
    if ((uint32_t)r->kind > TRP_FFT_C2R)
        return FAIL(e, "kind: expected a trp_fft_kind, got %d", (int)r->kind);
    if ((uint32_t)r->norm > TRP_FFT_FORWARD)
        return FAIL(e, "norm: expected a trp_fft_norm, got %d", (int)r->norm);
    if (r->rank < 1 || r->rank > RANK)
        return FAIL(e, "rank: expected 1 to %d, got %u", RANK, r->rank);
    if (r->axis_count > r->rank)
        return FAIL(e, "axis_count: expected at most %u, which is the rank, got %u", r->rank,
                    r->axis_count);
    trp_status status = trp__scalar_check(e->error, "scale", &r->scale);
    if (status == TRP_OK && r->scale.im != 0)
        return FAIL(e, "scale: expected a real number, got %g + %gi", r->scale.re, r->scale.im);
    if (status == TRP_OK && r->scale.given && r->norm != TRP_FFT_BACKWARD)
        return FAIL(e, "norm: expected TRP_FFT_BACKWARD with a scale, got %d", (int)r->norm);
    e->g.kind = (uint8_t)r->kind;
    e->g.inverse = r->inverse;
    e->rank = (int)r->rank;
    return status;
}

/* What is computed in f64, or in f32; NONE: other types. */
static trp_dtype arithmetic_of(trp_dtype type)
{
    switch (type) {
    case TRP_F64:
    case TRP_C128:
        return TRP_F64;
    case TRP_F32:
    case TRP_F16:
    case TRP_BF16:
    case TRP_C64:
        return TRP_F32;
    default:
        return TRP_DTYPE_NONE;
    }
}

static bool is_complex(trp_dtype type)
{
    return type == TRP_C64 || type == TRP_C128;
}

static bool is_floating(trp_dtype type)
{
    return type >= TRP_F64 && type <= TRP_F4E2M1;
}

static uint8_t format_of(trp_dtype type)
{
    return type == TRP_F16 ? TRP__FFT_F16 : type == TRP_BF16 ? TRP__FFT_BF16 : TRP__FFT_SAME;
}

static trp_status check_types(encoding *e)
{
    const bool real_x = e->r->kind == TRP_FFT_R2C, real_y = e->r->kind == TRP_FFT_C2R;
    const trp_dtype x = e->r->x.type, given = e->r->y.type, arithmetic = arithmetic_of(x);
    const bool wide = arithmetic == TRP_F64;
    if (arithmetic == TRP_DTYPE_NONE || is_complex(x) == real_x)
        return trp__error_set(
            e->error, is_floating(x) && !arithmetic ? TRP_E_UNSUPPORTED : TRP_E_ARGUMENT,
            "x.type: expected %s for this kind, got %s (%d)",
            real_x ? "f64, f32, f16 or bf16" : "c64 or c128", trp_dtype_name(x), (int)x);
    trp_dtype y = real_y ? arithmetic : wide ? TRP_C128 : TRP_C64;
    if (real_y && !is_complex(given) && arithmetic_of(given) == arithmetic)
        y = given;
    if (given != TRP_DTYPE_NONE && given != y)
        return FAIL(e, "y.type: expected %s, which goes with x.type, got %s (%d)",
                    real_y && !wide ? "f32, f16 or bf16" : trp_dtype_name(y), trp_dtype_name(given),
                    (int)given);
    e->x = (tensor){.name = "x", .given = &e->r->x, .type = x, .size = trp_dtype_bits(x) / 8};
    e->y = (tensor){.name = "y", .given = &e->r->y, .type = y, .size = trp_dtype_bits(y) / 8};
    e->g.wide = wide;
    e->g.x_format = format_of(x);
    e->g.y_format = format_of(y);
    return TRP_OK;
}

/* Axes and lengths. */

static trp_status check_dims(encoding *e)
{
    for (int i = 0; i < RANK; i++) {
        const int64_t dim = e->r->x.dim[i], most = i < e->rank ? SPAN_MAX : 0;
        if (dim < 0 || dim > most)
            return FAIL(e, "x.dim[%d]: expected 0 to %lld, got %lld", i, (long long)most,
                        (long long)dim);
        e->x.dim[i] = e->n[i] = dim;
    }
    return TRP_OK;
}

/* The length along an axis; 0: there is none. */
static int64_t default_length(const encoding *e, int axis, bool last)
{
    if (e->r->kind == TRP_FFT_C2R && last)
        return e->x.dim[axis] > 1 ? 2 * (e->x.dim[axis] - 1) : 0;
    return e->x.dim[axis];
}

static trp_status check_axes(encoding *e)
{
    const trp_fft_request *r = e->r;
    const int count = r->axis_count ? (int)r->axis_count : e->rank;
    for (int i = 0; i < RANK; i++) {
        const int given = r->axis_count ? r->axis[i] : i,
                  axis = given < 0 ? given + e->rank : given;
        const bool last = i == count - 1;
        if (i >= count) {
            if ((r->axis_count && r->axis[i] != 0) || r->n[i] != 0)
                return FAIL(e, "%s[%d]: expected 0 behind the %d axes, got %lld",
                            r->n[i] ? "n" : "axis", i, count,
                            (long long)(r->n[i] ? r->n[i] : r->axis[i]));
            continue;
        }
        if (axis < 0 || axis >= e->rank)
            return FAIL(e, "axis[%d]: expected %d to %d, got %d", i, -e->rank, e->rank - 1, given);
        if (e->axis[axis])
            return FAIL(e, "axis[%d]: expected an axis that was not named before, got %d", i,
                        given);
        e->axis[axis] = true;
        e->n[axis] = r->n[i] ? r->n[i] : default_length(e, axis, last);
        if (e->n[axis] < 1 || e->n[axis] > SPAN_MAX)
            return FAIL(e, "n[%d]: expected a length of 1 to 2^48 - 1 along axis %d, got %lld%s", i,
                        axis, (long long)e->n[axis], r->n[i] ? "" : ", which follows from x.dim");
        e->last = last ? axis : e->last;
    }
    for (int i = 0; i < RANK && !r->axis_count; i++) {
        if (r->axis[i] != 0)
            return FAIL(e, "axis[%d]: expected 0 without an axis_count, got %d", i, r->axis[i]);
    }
    return TRP_OK;
}

static trp_status check_shifts(encoding *e)
{
    const trp_fft_request *r = e->r;
    const int count = r->axis_count ? (int)r->axis_count : e->rank;
    for (int side = 0; side < 2; side++) {
        const uint32_t shift = side ? r->shift_y : r->shift_x;
        const char *name = side ? "shift_y" : "shift_x";
        if (shift >> count)
            return FAIL(e, "%s: expected bits of %d axes, got 0x%x", name, count, (unsigned)shift);
        for (int i = 0; i < count; i++) {
            const int given = r->axis_count ? r->axis[i] : i,
                      axis = given < 0 ? given + e->rank : given;
            if (!(shift >> i & 1))
                continue;
            if (axis == e->last && r->kind == (side ? TRP_FFT_R2C : TRP_FFT_C2R))
                return FAIL(e, "%s: expected no bit %d, since axis %d is halved, got 0x%x", name, i,
                            axis, (unsigned)shift);
            if (!side && e->x.dim[axis] != e->n[axis])
                return FAIL(e, "shift_x: expected no bit %d, since axis %d is %s, got 0x%x", i,
                            axis, e->x.dim[axis] < e->n[axis] ? "padded" : "cropped",
                            (unsigned)shift);
            *(side ? &e->y_shift[axis] : &e->x_shift[axis]) = true;
        }
    }
    return TRP_OK;
}

static trp_status set_dims_of_y(encoding *e)
{
    bool given = false;
    for (int i = 0; i < RANK; i++) {
        const bool half = e->r->kind == TRP_FFT_R2C && i == e->last;
        e->y.dim[i] = half ? e->n[i] / 2 + 1 : e->n[i];
        given = given || e->r->y.dim[i] != 0;
    }
    for (int i = 0; i < RANK && given; i++) {
        if (e->r->y.dim[i] != e->y.dim[i])
            return FAIL(e, "y.dim[%d]: expected %lld, got %lld", i, (long long)e->y.dim[i],
                        (long long)e->r->y.dim[i]);
    }
    return TRP_OK;
}

/* Places. */

static trp_status set_strides(encoding *e, tensor *t)
{
    bool packed = true;
    int64_t next = 1;
    for (int i = 0; i < RANK; i++) {
        const int64_t most = i < e->rank ? SPAN_MAX : 0, stride = t->given->stride[i];
        if (stride > most || stride < -most)
            return FAIL(e, "%s.stride[%d]: expected %lld to %lld, got %lld", t->name, i,
                        (long long)-most, (long long)most, (long long)stride);
        t->stride[i] = stride;
        packed = packed && stride == 0;
    }
    for (int i = e->rank - 1; i >= 0 && packed; i--) {
        t->stride[i] = next;
        if (t->dim[i] > 1 && (__builtin_mul_overflow(next, t->dim[i], &next) || next > SPAN_MAX))
            return FAIL(e, "%s.dim: expected less than 2^48 elements", t->name);
    }
    return TRP_OK;
}

static trp_status measure(encoding *e, tensor *t)
{
    int64_t before = 0, behind = 0;
    t->elements = 1;
    for (int i = 0; i < e->rank; i++) {
        int64_t reach;
        const int64_t dim = t->dim[i] ? t->dim[i] : 1;
        if (__builtin_mul_overflow(t->elements, dim, &t->elements) || t->elements > SPAN_MAX ||
            __builtin_mul_overflow(dim - 1, t->stride[i], &reach) || reach > SPAN_MAX ||
            reach < -SPAN_MAX)
            return FAIL(e, "%s.dim: expected less than 2^48 elements, and not further apart",
                        t->name);
        behind += reach > 0 ? reach : 0;
        before -= reach < 0 ? reach : 0;
    }
    for (int i = 0; i < e->rank; i++)
        t->elements = t->dim[i] ? t->elements : 0;
    t->before = before * t->size;
    t->span = t->elements ? (before + behind + 1) * t->size : 0;
    if (t->given->offset % (uint64_t)t->size != 0)
        return FAIL(e, "%s.offset: expected a multiple of %lld, got %llu", t->name,
                    (long long)t->size, (unsigned long long)t->given->offset);
    if (t->given->offset < (uint64_t)t->before)
        return FAIL(e,
                    "%s.offset: expected at least %lld, for there are negative strides, got %llu",
                    t->name, (long long)t->before, (unsigned long long)t->given->offset);
    return TRP_OK;
}

/* Overlaps. */

static trp__strided strided(const encoding *e, const tensor *t)
{
    trp__strided s = {.rank = e->rank, .size = t->size};
    for (int i = 0; i < e->rank; i++) {
        s.dim[i] = t->dim[i];
        s.stride[i] = (t->stride[i] < 0 ? -t->stride[i] : t->stride[i]) * t->size;
    }
    return s;
}

static trp_status check_apart(encoding *e, const tensor *t)
{
    const trp__strided s = strided(e, t);
    const trp__overlap found = trp__overlap_within(&s);
    if (found == TRP__OVERLAP_NONE)
        return TRP_OK;
    return FAIL(e, "%s.stride: expected strides that put no two elements of %s at one place%s",
                t->name, t->name,
                found == TRP__OVERLAP_UNKNOWN ? "; these are too irregular to tell" : "");
}

/* Whether lines along the last axis begin at the same bytes in both and need no others. */
static bool same_lines(const encoding *e)
{
    const bool real = e->r->kind != TRP_FFT_C2C;
    bool same = e->x.given->offset == e->y.given->offset;
    for (int i = 0; i < e->rank; i++) {
        const int64_t x = e->x.stride[i], y = e->y.stride[i];
        if (real && i == e->last) {
            const bool whole =
                e->r->kind == TRP_FFT_R2C ? e->x.dim[i] == e->n[i] : e->x.dim[i] == e->n[i] / 2 + 1;
            same = same && whole && x == 1 && y == 1;
        } else {
            same = same && e->x.dim[i] == e->y.dim[i] &&
                   (e->x.dim[i] == 1 || x * e->x.size == y * e->y.size);
        }
    }
    return same;
}

static trp_status check_places(encoding *e)
{
    const trp_fft_tensor *x = &e->r->x, *y = &e->r->y;
    trp_status status = check_apart(e, &e->y);
    if (status != TRP_OK || x->buffer.id != y->buffer.id || e->x.elements == 0)
        return status;
    e->in_place = same_lines(e);
    if (e->in_place) /* complex lines are the longer ones */
        return e->r->kind == TRP_FFT_C2R ? check_apart(e, &e->x) : TRP_OK;
    const uint64_t x_begin = x->offset - (uint64_t)e->x.before,
                   y_begin = y->offset - (uint64_t)e->y.before;
    if (x_begin >= y_begin + (uint64_t)e->y.span || y_begin >= x_begin + (uint64_t)e->x.span)
        return TRP_OK;
    const trp__strided of_x = strided(e, &e->x), of_y = strided(e, &e->y);
    const trp__overlap found = trp__overlap_between(&of_x, &of_y, (int64_t)(y_begin - x_begin));
    if (found == TRP__OVERLAP_NONE)
        return TRP_OK;
    return FAIL(e, "y: it %s x, and is not at its place line by line",
                found == TRP__OVERLAP_UNKNOWN ? "may overlap" : "overlaps");
}

/* The record. */

static double scale_of(const encoding *e)
{
    double n = 1;
    if (e->r->scale.given)
        return e->r->scale.re;
    for (int i = 0; i < e->rank; i++)
        n *= e->axis[i] ? (double)e->n[i] : 1;
    if (e->r->norm == TRP_FFT_ORTHO)
        return 1 / sqrt(n);
    return (e->r->norm == TRP_FFT_FORWARD) != e->r->inverse ? 1 / n : 1;
}

/* Joins two dimensions that are not transformed, if `outer` goes on where `inner` ends. */
static bool join(encoding *e, int outer, int inner)
{
    trp__fft_dim *a = &e->dim[outer], *b = &e->dim[inner];
    if (e->axis[outer] || e->axis[inner] || a->x_stride != b->x_stride * b->n ||
        a->y_stride != b->y_stride * b->n)
        return false;
    b->n = b->have = b->n * a->n;
    return true;
}

static void remove_dim(encoding *e, int at)
{
    e->rank--;
    e->last -= e->last > at;
    for (int i = at; i < e->rank; i++) {
        e->dim[i] = e->dim[i + 1];
        e->axis[i] = e->axis[i + 1];
        e->x_shift[i] = e->x_shift[i + 1];
        e->y_shift[i] = e->y_shift[i + 1];
    }
}

static bool removable(const encoding *e, int at)
{
    const trp__fft_dim *d = &e->dim[at];
    return d->n == 1 && d->have == 1 && at != e->last;
}

/* Dimensions for the payload. From here on, rank, axis and last are those of the payload. */
static void set_payload_dims(encoding *e)
{
    for (int i = 0; i < e->rank; i++) {
        const bool half = e->r->kind == TRP_FFT_C2R && i == e->last;
        const int64_t most = half ? e->n[i] / 2 + 1 : e->n[i];
        e->dim[i] = (trp__fft_dim){.n = e->n[i],
                                   .have = e->x.dim[i] < most ? e->x.dim[i] : most,
                                   .x_stride = e->x.stride[i],
                                   .y_stride = e->y.stride[i]};
    }
    for (int i = e->rank - 1; i >= 0; i--) {
        if (removable(e, i))
            remove_dim(e, i);
    }
    for (int i = 0; i < e->rank; i++) {
        for (int k = 0; k < e->rank; k++) {
            if (i != k && join(e, i, k)) {
                remove_dim(e, i);
                i = -1;
                break;
            }
        }
    }
    e->g.rank = (uint8_t)e->rank;
    e->g.last = (uint8_t)e->last;
    for (int i = 0; i < e->rank; i++) {
        e->g.axes |= (uint8_t)(e->axis[i] << i);
        e->g.x_shift |= (uint8_t)(e->x_shift[i] << i);
        e->g.y_shift |= (uint8_t)(e->y_shift[i] << i);
    }
}

static trp_status add_access(trp__encoder *encoder, const tensor *t, uint32_t mode, uint8_t *access)
{
    *access = (uint8_t)encoder->record->access_count;
    return trp__encode_access(encoder, t->name, t->given->buffer,
                              t->given->offset - (uint64_t)t->before, (uint64_t)t->span, 1, mode);
}

static trp_status add_accesses(encoding *e, trp__encoder *encoder)
{
    const bool covers = e->y.elements * e->y.size == e->y.span;
    trp__fft *g = &e->g;
    g->access_x = g->access_y = TRP__FFT_NO_ACCESS;
    g->x_first = e->x.before;
    g->y_first = e->y.before;
    if (e->y.elements == 0)
        return TRP_OK;
    if (e->in_place) {
        const tensor *longer = e->r->kind == TRP_FFT_C2R ? &e->x : &e->y;
        trp_status status = add_access(encoder, longer, TRP__READ | TRP__WRITE, &g->access_y);
        g->x_first = g->y_first = longer->before;
        g->access_x = g->access_y;
        return status;
    }
    trp_status status = TRP_OK;
    if (e->x.elements > 0)
        status = add_access(encoder, &e->x, TRP__READ, &g->access_x);
    if (status == TRP_OK)
        status = add_access(encoder, &e->y, TRP__WRITE | (covers ? TRP__COVER : 0), &g->access_y);
    return status;
}

static trp_status write_payload(encoding *e, trp__encoder *encoder)
{
    void *room = e->g.dim;
    const size_t bytes = e->g.rank * sizeof *e->dim;
    trp_status status = TRP_OK;
    if (e->g.rank > TRP__FFT_DIMS)
        status = encoder->input(encoder, (uint32_t)bytes, &room);
    if (status != TRP_OK)
        return status;
    memcpy(room, e->dim, bytes);
    memcpy(encoder->record->payload, &e->g, sizeof e->g);
    return TRP_OK;
}

trp_status trp__fft_encode(trp__encoder *encoder, const trp_request *request)
{
    encoding e = {.error = encoder->error, .r = (const trp_fft_request *)request};
    trp_status status = check_options(&e);
    if (status == TRP_OK)
        status = check_types(&e);
    if (status == TRP_OK)
        status = check_dims(&e);
    if (status == TRP_OK)
        status = check_axes(&e);
    if (status == TRP_OK)
        status = check_shifts(&e);
    if (status == TRP_OK)
        status = set_dims_of_y(&e);
    for (int i = 0; i < 2 && status == TRP_OK; i++) {
        status = set_strides(&e, i ? &e.y : &e.x);
        if (status == TRP_OK)
            status = measure(&e, i ? &e.y : &e.x);
    }
    if (status == TRP_OK)
        status = check_places(&e);
    if (status != TRP_OK)
        return status;
    e.g.scale = scale_of(&e);
    set_payload_dims(&e);
    status = add_accesses(&e, encoder);
    return status == TRP_OK ? write_payload(&e, encoder) : status;
}
