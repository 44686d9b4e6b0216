#include "actors/fft/route.h"
#include "actors/fft/route_parts.h"

#include "actors/fft/kernels/launch.h"
#include "base/error.h"

#include <string.h>

enum { RANK = TRP_FFT_RANK_MAX, AXES = TRP__FFT_AXES };

/* Calls of a plan for one request: fewer than FEW are better than a copy; between these, only such
 * with so many bytes each that the launch counts little. */
enum { FEW = 16, MOST = 4096 };
#define LARGE (INT64_C(1) << 20)

/* A tensor as a step sees it. */
typedef struct view {
    trp__fft_buffer buffer;
    bool real;
    int64_t stride[RANK]; /* elements */
} view;

typedef struct finding {
    trp__fft_route *route;
    const trp__fft *g;
    const trp__fft_dim *dim;
    bool same, odd_x, odd_y; /* x is y; a real side does not begin where a complex number could */
    int axes, axis[RANK];    /* that are more than one element, in the order of the passes */
    int group[RANK + 1];     /* pass i has axes group[i] to group[i + 1] */
    int groups;
    view x, y;
    bool pending; /* scale and conjugate are still to be applied */
} finding;

/* Lengths. */

static bool is_axis(const finding *f, int i)
{
    return f->g->axes >> i & 1;
}

static bool is_halved(const finding *f, int i)
{
    return f->g->kind != TRP_FFT_C2C && i == f->g->last;
}

static int64_t extent(const finding *f, int i, bool real)
{
    const int64_t n = f->dim[i].n;
    return is_halved(f, i) && !real ? n / 2 + 1 : n;
}

/* Views. Dense tensors have batches first and axes last, of which the halved one is the last: so
 * that one call of a plan does all batches. A real one has room for the complex one in each line.
 */

static view dense(const finding *f, trp__fft_buffer buffer, bool real)
{
    view v = {.buffer = buffer, .real = real};
    int64_t next = 1;
    for (int part = 0; part < 3; part++) {
        for (int i = f->g->rank - 1; i >= 0; i--) {
            const int of = is_halved(f, i) ? 0 : is_axis(f, i) ? 1 : 2;
            if (of != part)
                continue;
            v.stride[i] = real && !is_halved(f, i) ? 2 * next : next;
            next *= extent(f, i, false);
        }
    }
    return v;
}

static int64_t width(const finding *f, bool real)
{
    return (f->g->wide ? 8 : 4) * (real ? 1 : 2);
}

/* Steps. */

static trp__fft_step *add(finding *f, trp__fft_work work, const view *from, const view *to)
{
    trp__fft_step *s = &f->route->step[f->route->count++];
    memset(s, 0, sizeof *s);
    s->work = work;
    s->from = from->buffer;
    s->to = to->buffer;
    f->route->kernels = f->route->kernels || work != TRP__FFT_PLAN;
    if (from->buffer == TRP__FFT_DENSE || to->buffer == TRP__FFT_DENSE)
        f->route->dense_bytes = 1; /* its size follows */
    if (from->buffer == TRP__FFT_OTHER || to->buffer == TRP__FFT_OTHER)
        f->route->other_bytes = 1;
    return s;
}

/* The sizes of what the copies of x and to y are: dimensions of y, of which x has some. */
static void add_copy(finding *f, const view *from, const view *to, bool of_x, bool finish)
{
    const trp__fft *g = f->g;
    trp__fft_copy *c = &add(f, TRP__FFT_COPY, from, to)->copy;
    c->rank = g->rank;
    c->wide = g->wide;
    c->pairs = !from->real;
    c->scale = 1;
    c->x_format = from->buffer == TRP__FFT_X ? g->x_format : TRP__FFT_SAME;
    c->y_format = to->buffer == TRP__FFT_Y ? g->y_format : TRP__FFT_SAME;
    for (int i = 0; i < g->rank; i++) {
        c->dim[i] = extent(f, i, from->real);
        c->have[i] = of_x ? f->dim[i].have : c->dim[i];
        c->x_stride[i] = from->stride[i];
        c->y_stride[i] = to->stride[i];
        if (from->buffer == TRP__FFT_X && (g->x_shift >> i & 1))
            c->x_turn[i] = f->dim[i].n / 2;
        if (to->buffer == TRP__FFT_Y && from->buffer != TRP__FFT_Y && (g->y_shift >> i & 1))
            c->y_turn[i] = f->dim[i].n / 2;
        c->axes |= (uint8_t)((is_axis(f, i) && !is_halved(f, i)) << i);
    }
    if (finish) {
        c->scale = g->scale;
        c->conjugate = g->kind == TRP_FFT_R2C ? g->inverse : g->kind == TRP_FFT_C2R && !g->inverse;
        f->pending = false;
    }
    c->last = g->last;
    c->symmetric = of_x && g->kind == TRP_FFT_C2R;
    c->even = f->dim[g->last].n % 2 == 0;
    trp__fft_copy_settle(c);
}

/* Plans. */

typedef struct batch {
    int64_t n, x, y; /* strides in elements */
} batch;

/* Dimensions that a plan leaves alone, joined where both sides go on. */
static int find_batches(const finding *f, const bool in_group[], const view *x, const view *y,
                        batch out[])
{
    int count = 0;
    for (int i = 0; i < f->g->rank; i++) {
        const int64_t n = extent(f, i, false);
        if (!in_group[i] && n > 1)
            out[count++] = (batch){n, x->stride[i], y->stride[i]};
    }
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < count; k++) {
            if (i == k || out[i].x != out[k].x * out[k].n || out[i].y != out[k].y * out[k].n)
                continue;
            out[k].n *= out[i].n;
            out[i] = out[--count];
            i = -1;
            break;
        }
    }
    return count;
}

/* Removes the longest batch that a plan can have, or gives one element. */
static batch take_batch(batch of[], int *count)
{
    int best = -1;
    for (int i = 0; i < *count; i++) {
        if (of[i].x > 0 && of[i].y > 0 && (best < 0 || of[i].n > of[best].n))
            best = i;
    }
    if (best < 0)
        return (batch){1, 0, 0};
    const batch taken = of[best];
    of[best] = of[--*count];
    return taken;
}

/* Orders axes from the slowest to the fastest; the halved one is always the last. */
static void order_axes(const finding *f, const int axis[], int count, const view *x, int out[])
{
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at > 0 && (is_halved(f, out[at - 1]) ||
                          (!is_halved(f, axis[i]) && x->stride[out[at - 1]] < x->stride[axis[i]]));
             at--)
            out[at] = out[at - 1];
        out[at] = axis[i];
    }
}

/* False: the axes are not nested in this side. */
static bool describe_side(const finding *f, const int axis[], int count, const view *v,
                          int64_t distance, trp__fft_layout *out)
{
    int64_t inner = v->stride[axis[count - 1]];
    out->stride = inner;
    for (int i = count - 2; i >= 0; i--) {
        const int64_t stride = v->stride[axis[i]];
        if (inner <= 0 || stride <= 0 || stride % inner != 0)
            return false;
        out->embed[i + 1] = stride / inner;
        if (out->embed[i + 1] < extent(f, axis[i + 1], v->real))
            return false;
        inner = stride;
    }
    out->embed[0] = extent(f, axis[0], v->real);
    out->distance = distance ? distance : inner * out->embed[0];
    return inner > 0;
}

static bool set_loops(const finding *f, const batch of[], int count, const view *x, const view *y,
                      int64_t elements, trp__fft_step *s)
{
    int64_t calls = 1;
    for (int i = 0; i < count; i++) {
        if ((x->real && of[i].x % 2 != 0) || (y->real && of[i].y % 2 != 0))
            return false;
        s->loop[s->loops++] =
            (trp__fft_loop){of[i].n, of[i].x * width(f, x->real), of[i].y * width(f, y->real)};
        if (__builtin_mul_overflow(calls, of[i].n, &calls) || calls > MOST)
            return false;
    }
    const bool free_to_copy = x->buffer < TRP__FFT_DENSE || y->buffer < TRP__FFT_DENSE;
    return calls <= FEW || !free_to_copy || elements * width(f, false) >= LARGE;
}

/* Describes the transform along axes of a pass by one plan. False: there is none for this layout.
 */
static bool describe(const finding *f, int pass, const view *x, const view *y, trp__fft_step *s)
{
    const int first = f->group[pass], count = f->group[pass + 1] - first;
    trp__fft_problem *p = &s->problem;
    bool in_group[RANK] = {0};
    int axis[RANK];
    batch batches[RANK];
    int64_t elements = 1;
    if ((x->buffer == TRP__FFT_X && f->odd_x) || (y->buffer == TRP__FFT_Y && f->odd_y))
        return false;
    order_axes(f, f->axis + first, count, x, axis);
    for (int i = 0; i < count; i++) {
        in_group[axis[i]] = true;
        p->n[i] = f->dim[axis[i]].n;
        elements *= extent(f, axis[i], false);
    }
    int left = find_batches(f, in_group, x, y, batches);
    const batch own = take_batch(batches, &left);
    p->rank = (uint8_t)count;
    p->wide = f->g->wide;
    p->kind = x->real ? TRP_FFT_R2C : y->real ? TRP_FFT_C2R : TRP_FFT_C2C;
    p->batch = own.n;
    p->inverse = p->kind == TRP_FFT_C2C
                     ? f->g->kind == TRP_FFT_C2C ? f->g->inverse : f->g->kind == TRP_FFT_C2R
                     : p->kind == TRP_FFT_C2R;
    p->in_place =
        x->buffer == y->buffer || (x->buffer == TRP__FFT_X && y->buffer == TRP__FFT_Y && f->same);
    return describe_side(f, axis, count, x, own.x, &p->x) &&
           describe_side(f, axis, count, y, own.y, &p->y) &&
           set_loops(f, batches, left, x, y, elements * own.n, s);
}

static bool can(const finding *f, int pass, const view *x, const view *y)
{
    trp__fft_step ignored = {0};
    return describe(f, pass, x, y, &ignored);
}

static bool add_plan(finding *f, int pass, const view *x, const view *y)
{
    return describe(f, pass, x, y, add(f, TRP__FFT_PLAN, x, y));
}

/* Passes. */

/* The real side is read first, or written last. Other axes follow from the last dimension to the
 * first. Axes of one element are not transformed, but for the halved one. */
static void list_axes(finding *f)
{
    const trp__fft *g = f->g;
    if (g->kind == TRP_FFT_R2C)
        f->axis[f->axes++] = g->last;
    for (int i = g->rank - 1; i >= 0; i--) {
        if (is_axis(f, i) && !is_halved(f, i) && f->dim[i].n > 1)
            f->axis[f->axes++] = i;
    }
    if (g->kind == TRP_FFT_C2R)
        f->axis[f->axes++] = g->last;
}

/* Cuts the axes into groups: the first is the short one of C2R, whose last axes belong together. */
static void group_axes(finding *f, int most)
{
    int at = 0;
    for (f->groups = 0; at < f->axes; f->groups++) {
        const int left = f->axes - at, rest = left % most;
        f->group[f->groups] = at;
        at += f->g->kind == TRP_FFT_C2R && rest ? rest : left < most ? left : most;
    }
    f->group[f->groups] = f->axes;
}

static bool is_resized(const finding *f)
{
    for (int i = 0; i < f->g->rank; i++) {
        if (f->dim[i].have != extent(f, i, f->x.real))
            return true;
    }
    return false;
}

/* Applies what is still to be applied to y in its place. */
static void finish_in_place(finding *f)
{
    const bool conjugate = f->g->kind == TRP_FFT_R2C && f->g->inverse;
    if (f->pending && (f->g->scale != 1 || conjugate))
        add_copy(f, &f->y, &f->y, false, true);
}

/* Complex to real: all in scratch memory, since cuFFT overwrites what it reads. */
static bool route_to_real(finding *f)
{
    const view d = dense(f, TRP__FFT_DENSE, false), real = dense(f, TRP__FFT_DENSE, true);
    const int last = f->groups - 1;
    add_copy(f, &f->x, &d, true, true);
    for (int i = 0; i < last; i++) {
        if (!add_plan(f, i, &d, &d))
            return false;
    }
    const bool direct =
        f->g->y_format == TRP__FFT_SAME && f->g->y_shift == 0 && can(f, last, &d, &f->y);
    if (!add_plan(f, last, &d, direct ? &f->y : &real))
        return false;
    if (!direct)
        add_copy(f, &real, &f->y, false, false);
    return true;
}

/* The first pass from x or from its copy, to y or to scratch memory; the others there. */
static bool route_to_complex(finding *f)
{
    const view d = dense(f, TRP__FFT_DENSE, false), copy = dense(f, TRP__FFT_DENSE, f->x.real);
    bool in_y = f->g->y_shift == 0;
    for (int i = 1; i < f->groups; i++)
        in_y = in_y && can(f, i, &f->y, &f->y);
    const bool copied = is_resized(f) || f->g->x_format != TRP__FFT_SAME || f->g->x_shift;
    const bool direct = !copied && in_y && can(f, 0, &f->x, &f->y);
    in_y = direct || (in_y && can(f, 0, &copy, &f->y));
    const bool reads_x = direct || (!copied && !in_y && can(f, 0, &f->x, &d));
    const view *from = reads_x ? &f->x : &copy, *to = in_y ? &f->y : &d;
    const bool conjugate_last = f->g->kind == TRP_FFT_R2C && f->g->inverse;
    if (!reads_x)
        add_copy(f, &f->x, &copy, true, in_y && !conjugate_last);
    for (int i = 0; i < f->groups; i++) {
        if (!add_plan(f, i, i == 0 ? from : to, to))
            return false;
    }
    if (in_y)
        finish_in_place(f);
    else
        add_copy(f, &d, &f->y, false, true);
    return true;
}

/* Plain sums. */

trp_status trp__fft_no_way(trp_error *error, int64_t length)
{
    return trp__error_set(error, TRP_E_UNSUPPORTED,
                          "cuFFT has no plan that computes this transform right; without one, "
                          "lengths up to 2^20 are supported, and one is %lld",
                          (long long)length);
}

static void add_sums(finding *f, int axis, const view *x, const view *y)
{
    trp__fft_sums *s = &add(f, TRP__FFT_SUMS, x, y)->sums;
    *s = (trp__fft_sums){.count = extent(f, axis, y->real),
                         .n = {f->dim[axis].n},
                         .x_stride = {x->stride[axis]},
                         .y_stride = {y->stride[axis]},
                         .axes = 1,
                         .half = x->real   ? TRP__FFT_HALF_Y
                                 : y->real ? TRP__FFT_HALF_X
                                           : TRP__FFT_HALF_NONE,
                         .inverse =
                             f->g->kind == TRP_FFT_C2C ? f->g->inverse : f->g->kind == TRP_FFT_C2R,
                         .wide = f->g->wide};
    for (int i = 0; i < f->g->rank; i++) {
        if (i == axis)
            continue;
        s->other[s->others] = extent(f, i, false);
        s->other_x[s->others] = x->stride[i];
        s->other_y[s->others] = y->stride[i];
        s->count *= s->other[s->others++];
    }
}

static trp_status route_plain(finding *f, trp_error *error)
{
    static const trp__fft_buffer buffers[] = {TRP__FFT_DENSE, TRP__FFT_OTHER};
    const bool before = f->g->kind == TRP_FFT_C2R;
    view at = dense(f, TRP__FFT_DENSE, f->x.real);
    add_copy(f, &f->x, &at, true, before);
    for (int i = 0; i < f->axes; i++) {
        const int axis = f->axis[i];
        const bool real = f->g->kind == TRP_FFT_C2R && i == f->axes - 1;
        const view next = dense(f, buffers[(i + 1) % 2], real);
        if (f->dim[axis].n > TRP__FFT_PLAIN_MAX)
            return trp__fft_no_way(error, f->dim[axis].n);
        add_sums(f, axis, &at, &next);
        at = next;
    }
    add_copy(f, &at, &f->y, false, !before);
    return TRP_OK;
}

/* The route. */

static bool is_odd(const finding *f, const view *v, const void *address)
{
    return v->real && (uintptr_t)address % (uintptr_t)width(f, false) != 0;
}

static trp_status set_bytes(const finding *f, trp_error *error)
{
    trp__fft_route *r = f->route;
    uint64_t bytes = (uint64_t)width(f, false);
    for (int i = 0; i < f->g->rank; i++) {
        if (__builtin_mul_overflow(bytes, (uint64_t)extent(f, i, false), &bytes) ||
            bytes > UINT64_MAX / 4)
            return trp__error_set(error, TRP_E_MEMORY,
                                  "no memory for what lies between parts of the transform");
    }
    r->dense_bytes = r->dense_bytes ? bytes : 0;
    r->other_bytes = r->other_bytes ? bytes : 0;
    return TRP_OK;
}

trp_status trp__fft_route_find(trp__fft_route *route, trp__fft_way way, const trp__fft *g,
                               const trp__fft_dim *dim, const void *x, const void *y,
                               trp_error *error)
{
    finding f = {.route = route,
                 .g = g,
                 .dim = dim,
                 .same = x == y,
                 .x = {.buffer = TRP__FFT_X, .real = g->kind == TRP_FFT_R2C},
                 .y = {.buffer = TRP__FFT_Y, .real = g->kind == TRP_FFT_C2R},
                 .pending = true};
    route->count = 0;
    route->dense_bytes = route->other_bytes = route->middle_bytes = 0;
    route->kernels = false;
    if (trp__fft_is_trig(g->kind))
        return trp__fft_route_trig(route, way, g, dim, error);
    for (int i = 0; i < g->rank; i++) {
        f.x.stride[i] = dim[i].x_stride;
        f.y.stride[i] = dim[i].y_stride;
    }
    f.odd_x = is_odd(&f, &f.x, x);
    f.odd_y = is_odd(&f, &f.y, y);
    list_axes(&f);
    group_axes(&f, way == TRP__FFT_JOINT ? AXES : 1);
    bool good = true;
    trp_status status = TRP_OK;
    if (f.axes == 0 && f.same)
        finish_in_place(&f);
    else if (f.axes == 0)
        add_copy(&f, &f.x, &f.y, true, true);
    else if (way == TRP__FFT_PLAIN)
        status = route_plain(&f, error);
    else
        good = g->kind == TRP_FFT_C2R ? route_to_real(&f) : route_to_complex(&f);
    if (!good)
        return trp__error_set(error, TRP_E_UNSUPPORTED, "more than %d calls of a plan", MOST);
    return status == TRP_OK ? set_bytes(&f, error) : status;
}
