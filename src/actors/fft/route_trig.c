/* Cosine and sine transforms on a GPU: for each axis a kernel that gathers what a Fourier transform
 * works on into dense scratch memory, line by line, a plan there, and a kernel that spreads. */
#include "actors/fft/route.h"
#include "actors/fft/route_parts.h"

#include "base/error.h"

#include <string.h>

enum { RANK = TRP_FFT_RANK_MAX };

/* A real tensor: x, y, or what lies between two axes. */
typedef struct side {
    trp__fft_buffer buffer;
    int64_t stride[RANK], have[RANK];
} side;

typedef struct finding {
    trp__fft_route *route;
    const trp__fft *g;
    const trp__fft_dim *dim;
    bool plain;
} finding;

static trp__fft_step *add(finding *f, trp__fft_work work, trp__fft_buffer from, trp__fft_buffer to)
{
    trp__fft_step *s = &f->route->step[f->route->count++];
    memset(s, 0, sizeof *s);
    s->work = work;
    s->from = from;
    s->to = to;
    return s;
}

static int64_t lines(const finding *f, int axis)
{
    int64_t count = 1;
    for (int i = 0; i < f->g->rank; i++)
        count *= i == axis ? 1 : f->dim[i].n;
    return count;
}

/* One of the kernels: dense lines are `room` elements apart. */
static void add_kernel(finding *f, int axis, const side *s, trp__fft_buffer dense, bool before,
                       double scale)
{
    const trp__fft *g = f->g;
    const trp__fft_form form = trp__fft_form_of(g, f->dim, axis);
    const trp__fft_core core = trp__fft_form_core(&form);
    const bool real = core == (before ? TRP__FFT_CORE_R2C : TRP__FFT_CORE_C2R);
    int64_t next = trp__fft_form_room(&form) * (real ? 2 : 1);
    trp__fft_trig *t = &add(f, before ? TRP__FFT_BEFORE : TRP__FFT_BEHIND,
                            before ? s->buffer : dense, before ? dense : s->buffer)
                            ->trig;
    t->form = form;
    t->scale = scale;
    t->wide = g->wide;
    t->per_line = before ? trp__fft_form_inputs(&form) : form.n;
    t->have = s->have[axis];
    t->x_stride = before ? s->stride[axis] : 1;
    t->y_stride = before ? 1 : s->stride[axis];
    t->x_format = s->buffer == TRP__FFT_X ? g->x_format : TRP__FFT_SAME;
    t->y_format = s->buffer == TRP__FFT_Y ? g->y_format : TRP__FFT_SAME;
    t->count = t->per_line * lines(f, axis);
    t->others = (uint8_t)(g->rank - 1);
    for (int i = g->rank - 1, to = t->others; i >= 0; i--) {
        if (i == axis)
            continue;
        to--;
        t->other[to] = f->dim[i].n;
        t->other_have[to] = before ? s->have[i] : f->dim[i].n;
        t->other_x[to] = before ? s->stride[i] : next;
        t->other_y[to] = before ? next : s->stride[i];
        next *= f->dim[i].n;
    }
}

static void add_plan(finding *f, int axis)
{
    const trp__fft_form form = trp__fft_form_of(f->g, f->dim, axis);
    const int64_t room = trp__fft_form_room(&form), length = trp__fft_form_length(&form);
    const trp__fft_core core = trp__fft_form_core(&form);
    trp__fft_problem *p = &add(f, TRP__FFT_PLAN, TRP__FFT_DENSE, TRP__FFT_DENSE)->problem;
    const trp__fft_layout complex = {.embed = {room}, .stride = 1, .distance = room},
                          real = {.embed = {length}, .stride = 1, .distance = 2 * room};
    p->n[0] = length;
    p->rank = 1;
    p->kind = core == TRP__FFT_CORE_R2C   ? TRP_FFT_R2C
              : core == TRP__FFT_CORE_C2R ? TRP_FFT_C2R
                                          : TRP_FFT_C2C;
    p->x = core == TRP__FFT_CORE_R2C ? real : complex;
    p->y = core == TRP__FFT_CORE_C2R ? real : complex;
    p->batch = lines(f, axis);
    p->wide = f->g->wide;
    p->in_place = true;
}

static trp_status add_sums(finding *f, int axis, trp_error *error)
{
    const trp__fft_form form = trp__fft_form_of(f->g, f->dim, axis);
    const int64_t room = trp__fft_form_room(&form), length = trp__fft_form_length(&form);
    const trp__fft_core core = trp__fft_form_core(&form);
    if (length > TRP__FFT_PLAIN_MAX)
        return trp__fft_no_way(error, length);
    trp__fft_sums *s = &add(f, TRP__FFT_SUMS, TRP__FFT_DENSE, TRP__FFT_OTHER)->sums;
    *s = (trp__fft_sums){.n = {length},
                         .x_stride = {1},
                         .y_stride = {1},
                         .other = {lines(f, axis)},
                         .other_x = {core == TRP__FFT_CORE_R2C ? 2 * room : room},
                         .other_y = {core == TRP__FFT_CORE_C2R ? 2 * room : room},
                         .axes = 1,
                         .others = 1,
                         .half = core == TRP__FFT_CORE_R2C   ? TRP__FFT_HALF_Y
                                 : core == TRP__FFT_CORE_C2R ? TRP__FFT_HALF_X
                                                             : TRP__FFT_HALF_NONE,
                         .inverse = core == TRP__FFT_CORE_C2R,
                         .wide = f->g->wide};
    s->count = lines(f, axis) * (core == TRP__FFT_CORE_R2C ? room : length);
    return TRP_OK;
}

/* Bytes of the dense lines of all axes, and of a real tensor. */
static trp_status set_bytes(const finding *f, int axes, trp_error *error)
{
    const uint64_t width = f->g->wide ? 8 : 4;
    trp__fft_route *r = f->route;
    uint64_t all = width, most = 0;
    bool fits = true;
    for (int i = 0; i < f->g->rank; i++)
        fits = fits && !__builtin_mul_overflow(all, (uint64_t)f->dim[i].n, &all);
    fits = fits && all < UINT64_MAX >> 6;
    for (int i = 0; i < f->g->rank && fits; i++) {
        const trp__fft_form form = trp__fft_form_of(f->g, f->dim, i);
        const uint64_t room = 2 * (uint64_t)trp__fft_form_room(&form);
        const uint64_t bytes = all / (uint64_t)form.n * room;
        if (f->g->axes >> i & 1)
            most = bytes > most ? bytes : most;
    }
    if (!fits)
        return trp__error_set(error, TRP_E_MEMORY,
                              "no memory for what lies between parts of the transform");
    r->dense_bytes = most;
    r->other_bytes = f->plain ? most : 0;
    r->middle_bytes = axes > 1 && f->g->y_format != TRP__FFT_SAME ? all : 0;
    return TRP_OK;
}

static side side_of(const finding *f, trp__fft_buffer buffer)
{
    side s = {.buffer = buffer};
    int64_t next = 1;
    for (int i = f->g->rank - 1; i >= 0; i--) {
        s.stride[i] = buffer == TRP__FFT_X   ? f->dim[i].x_stride
                      : buffer == TRP__FFT_Y ? f->dim[i].y_stride
                                             : next;
        s.have[i] = buffer == TRP__FFT_X ? f->dim[i].have : f->dim[i].n;
        next *= f->dim[i].n;
    }
    return s;
}

trp_status trp__fft_route_trig(trp__fft_route *route, trp__fft_way way, const trp__fft *g,
                               const trp__fft_dim *dim, trp_error *error)
{
    finding f = {.route = route, .g = g, .dim = dim, .plain = way == TRP__FFT_PLAIN};
    const int axes = __builtin_popcount(g->axes);
    const side x = side_of(&f, TRP__FFT_X), y = side_of(&f, TRP__FFT_Y);
    const side middle = g->y_format == TRP__FFT_SAME ? y : side_of(&f, TRP__FFT_MIDDLE);
    const trp__fft_buffer result = f.plain ? TRP__FFT_OTHER : TRP__FFT_DENSE;
    trp_status status = set_bytes(&f, axes, error);
    route->kernels = true;
    for (int axis = g->rank - 1, done = 0; axis >= 0 && status == TRP_OK; axis--) {
        if (!(g->axes >> axis & 1))
            continue;
        const bool last = ++done == axes;
        add_kernel(&f, axis, done == 1 ? &x : &middle, TRP__FFT_DENSE, true, 1);
        if (f.plain)
            status = add_sums(&f, axis, error);
        else
            add_plan(&f, axis);
        add_kernel(&f, axis, last ? &y : &middle, result, false, last ? g->scale : 1);
    }
    return status;
}
