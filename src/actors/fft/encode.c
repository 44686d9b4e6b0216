/* The sender's side of transforms: checks a request and writes its record. */
#include "actors/fft/fft.h"
#include "actors/fft/fft_wire.h"
#include "base/error.h"
#include "base/numbers/types.h"
#include "base/view.h"

#include <math.h>
#include <string.h>

_Static_assert(sizeof(trp__fft) <= TRP__PAYLOAD_BYTES, "the payload fits into a record");
_Static_assert((int)TRP_FFT_RANK_MAX == (int)TRP__VIEW_RANK, "views have the ranks of requests");

#define SPAN_MAX (TRP__VIEW_ELEMENTS - 1)

enum { RANK = TRP_FFT_RANK_MAX };

#define FAIL(e, ...) trp__error_set((e)->error, TRP_E_ARGUMENT, __VA_ARGS__)

/* A tensor with defaults applied. */
typedef struct tensor {
    trp__view view;
    const trp_fft_tensor *given;
    trp_dtype type;
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

static trp_fft_kind effective_kind(const trp_fft_request *r)
{
    if (!r->inverse)
        return r->kind;
    switch (r->kind) {
    case TRP_FFT_DCT2:
        return TRP_FFT_DCT3;
    case TRP_FFT_DCT3:
        return TRP_FFT_DCT2;
    case TRP_FFT_DST2:
        return TRP_FFT_DST3;
    case TRP_FFT_DST3:
        return TRP_FFT_DST2;
    default:
        return r->kind;
    }
}

static trp_status check_options(encoding *e)
{
    const trp_fft_request *r = e->r;
    if ((uint32_t)r->kind > TRP_FFT_DST4)
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
    if ((uint32_t)r->orthogonalize > TRP_FFT_ORTHOGONALIZE_OFF ||
        (r->orthogonalize && !trp__fft_is_trig(r->kind)))
        return FAIL(e, "orthogonalize: expected %s, got %d",
                    trp__fft_is_trig(r->kind) ? "a trp_fft_orthogonalize"
                                              : "0, but for cosine and sine transforms",
                    (int)r->orthogonalize);
    e->g.kind = (uint8_t)effective_kind(r);
    e->g.orthogonal = r->orthogonalize ? r->orthogonalize == TRP_FFT_ORTHOGONALIZE_ON
                                       : trp__fft_is_trig(r->kind) && r->norm == TRP_FFT_ORTHO;
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
    const bool trig = trp__fft_is_trig(e->r->kind), real_x = trig || e->r->kind == TRP_FFT_R2C,
               real_y = trig || e->r->kind == TRP_FFT_C2R;
    const trp_dtype x = e->r->x.type, given = e->r->y.type, arithmetic = arithmetic_of(x);
    const bool wide = arithmetic == TRP_F64;
    if (arithmetic == TRP_DTYPE_NONE || is_complex(x) == real_x)
        return trp__error_set(
            e->error, is_floating(x) && !arithmetic ? TRP_E_UNSUPPORTED : TRP_E_ARGUMENT,
            "x.type: expected %s for this kind, got %s (%d)",
            real_x ? "f64, f32, f16 or bf16" : "c64 or c128", trp_dtype_name(x), (int)x);
    trp_dtype y = trig ? x : real_y ? arithmetic : wide ? TRP_C128 : TRP_C64;
    if (real_y && !is_complex(given) && arithmetic_of(given) == arithmetic)
        y = given;
    if (given != TRP_DTYPE_NONE && given != y)
        return FAIL(e, "y.type: expected %s, which goes with x.type, got %s (%d)",
                    real_y && !wide ? "f32, f16 or bf16" : trp_dtype_name(y), trp_dtype_name(given),
                    (int)given);
    e->x = (tensor){.view = {.name = "x", .size = trp_dtype_bits(x) / 8, .offset = e->r->x.offset},
                    .given = &e->r->x,
                    .type = x};
    e->y = (tensor){.view = {.name = "y", .size = trp_dtype_bits(y) / 8, .offset = e->r->y.offset},
                    .given = &e->r->y,
                    .type = y};
    e->g.wide = wide;
    e->g.x_format = format_of(x);
    e->g.y_format = format_of(y);
    return TRP_OK;
}

/* Axes and lengths. */

static trp_status check_dims(encoding *e)
{
    e->x.view.rank = e->y.view.rank = e->rank;
    memcpy(e->n, e->r->x.dim, sizeof e->n);
    return trp__view_set_dims(&e->x.view, e->r->x.dim, e->error);
}

/* The length along an axis; 0: there is none. */
static int64_t default_length(const encoding *e, int axis, bool last)
{
    if (e->r->kind == TRP_FFT_C2R && last)
        return e->x.view.dim[axis] > 1 ? 2 * (e->x.view.dim[axis] - 1) : 0;
    return e->x.view.dim[axis];
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
        const int64_t least = e->g.kind == TRP_FFT_DCT1 ? 2 : 1;
        if (e->n[axis] < least || e->n[axis] > SPAN_MAX)
            return FAIL(e, "n[%d]: expected a length of %lld to 2^48 - 1 along axis %d, got %lld%s",
                        i, (long long)least, axis, (long long)e->n[axis],
                        r->n[i] ? "" : ", which follows from x.dim");
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
        if (shift && trp__fft_is_trig(r->kind))
            return FAIL(e, "%s: expected 0 for cosine and sine transforms, got 0x%x", name,
                        (unsigned)shift);
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
            if (!side && e->x.view.dim[axis] != e->n[axis])
                return FAIL(e, "shift_x: expected no bit %d, since axis %d is %s, got 0x%x", i,
                            axis, e->x.view.dim[axis] < e->n[axis] ? "padded" : "cropped",
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
        e->y.view.dim[i] = half ? e->n[i] / 2 + 1 : e->n[i];
        given = given || e->r->y.dim[i] != 0;
    }
    for (int i = 0; i < RANK && given; i++) {
        if (e->r->y.dim[i] != e->y.view.dim[i])
            return FAIL(e, "y.dim[%d]: expected %lld, got %lld", i, (long long)e->y.view.dim[i],
                        (long long)e->r->y.dim[i]);
    }
    return TRP_OK;
}

/* Places. */

/* Whether lines along the last axis begin at the same bytes in both and need no others. */
static bool same_lines(const encoding *e)
{
    const bool trig = trp__fft_is_trig(e->r->kind), real = !trig && e->r->kind != TRP_FFT_C2C;
    bool same = e->x.given->offset == e->y.given->offset && (!trig || e->x.type == e->y.type);
    for (int i = 0; i < e->rank; i++) {
        const int64_t x = e->x.view.stride[i], y = e->y.view.stride[i];
        if (real && i == e->last) {
            const bool whole = e->r->kind == TRP_FFT_R2C ? e->x.view.dim[i] == e->n[i]
                                                         : e->x.view.dim[i] == e->n[i] / 2 + 1;
            same = same && whole && x == 1 && y == 1;
        } else {
            same = same && e->x.view.dim[i] == e->y.view.dim[i] &&
                   (e->x.view.dim[i] == 1 || x * e->x.view.size == y * e->y.view.size);
        }
    }
    return same;
}

static trp_status check_places(encoding *e)
{
    const trp_fft_tensor *x = &e->r->x, *y = &e->r->y;
    trp_status status = trp__view_check_apart(&e->y.view, e->error);
    if (status != TRP_OK || x->buffer.id != y->buffer.id || e->x.view.elements == 0)
        return status;
    e->in_place = same_lines(e);
    if (e->in_place) /* complex lines are the longer ones */
        return e->r->kind == TRP_FFT_C2R ? trp__view_check_apart(&e->x.view, e->error) : TRP_OK;
    const uint64_t x_begin = x->offset - (uint64_t)e->x.view.before,
                   y_begin = y->offset - (uint64_t)e->y.view.before;
    if (x_begin >= y_begin + (uint64_t)e->y.view.span ||
        y_begin >= x_begin + (uint64_t)e->x.view.span)
        return TRP_OK;
    const trp__strided of_x = trp__view_strided(&e->x.view), of_y = trp__view_strided(&e->y.view);
    const trp__overlap found = trp__overlap_between(&of_x, &of_y, (int64_t)(y_begin - x_begin));
    if (found == TRP__OVERLAP_NONE)
        return TRP_OK;
    return FAIL(e, "y: it %s x, and is not at its place line by line",
                found == TRP__OVERLAP_UNKNOWN ? "may overlap" : "overlaps");
}

/* The record. */

static double length_of_norm(const encoding *e, int axis)
{
    const double n = (double)e->n[axis];
    return !trp__fft_is_trig(e->g.kind) ? n
           : e->g.kind == TRP_FFT_DCT1  ? 2 * (n - 1)
           : e->g.kind == TRP_FFT_DST1  ? 2 * (n + 1)
                                        : 2 * n;
}

static double scale_of(const encoding *e)
{
    double n = 1;
    if (e->r->scale.given)
        return e->r->scale.re;
    for (int i = 0; i < e->rank; i++)
        n *= e->axis[i] ? length_of_norm(e, i) : 1;
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
    return d->n == 1 && d->have == 1 && at != e->last &&
           !(e->axis[at] && trp__fft_is_trig(e->g.kind));
}

/* Dimensions for the payload. From here on, rank, axis and last are those of the payload. */
static void set_payload_dims(encoding *e)
{
    for (int i = 0; i < e->rank; i++) {
        const bool half = e->r->kind == TRP_FFT_C2R && i == e->last;
        const int64_t most = half ? e->n[i] / 2 + 1 : e->n[i];
        e->dim[i] = (trp__fft_dim){.n = e->n[i],
                                   .have = e->x.view.dim[i] < most ? e->x.view.dim[i] : most,
                                   .x_stride = e->x.view.stride[i],
                                   .y_stride = e->y.view.stride[i]};
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
    return trp__encode_access(encoder, t->view.name, t->given->buffer,
                              t->given->offset - (uint64_t)t->view.before, (uint64_t)t->view.span,
                              1, mode);
}

static trp_status add_accesses(encoding *e, trp__encoder *encoder)
{
    const bool covers = e->y.view.elements * e->y.view.size == e->y.view.span;
    trp__fft *g = &e->g;
    g->access_x = g->access_y = TRP__FFT_NO_ACCESS;
    g->x_first = e->x.view.before;
    g->y_first = e->y.view.before;
    if (e->y.view.elements == 0)
        return TRP_OK;
    if (e->in_place) {
        const tensor *longer = e->r->kind == TRP_FFT_C2R ? &e->x : &e->y;
        trp_status status = add_access(encoder, longer, TRP__READ | TRP__WRITE, &g->access_y);
        g->x_first = g->y_first = longer->view.before;
        g->access_x = g->access_y;
        return status;
    }
    trp_status status = TRP_OK;
    if (e->x.view.elements > 0)
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
        tensor *t = i ? &e.y : &e.x;
        status = trp__view_set_strides(&t->view, t->given->stride, e.error);
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
