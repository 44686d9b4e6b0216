#include "actors/fft/passes.h"

#include <string.h>

static bool is_axis(const trp__fft_passes *p, int dim)
{
    return p->g.axes >> dim & 1;
}

/* The real side is read by the first pass, or written by the last one. Other axes follow from the
 * last dimension to the first, as NumPy has them. */
static void order_axes(trp__fft_passes *p)
{
    if (p->g.kind == TRP_FFT_R2C)
        p->axis[p->count++] = p->g.last;
    for (int i = p->g.rank - 1; i >= 0; i--) {
        const bool halved =
            i == p->g.last && (p->g.kind == TRP_FFT_R2C || p->g.kind == TRP_FFT_C2R);
        if (is_axis(p, i) && !halved)
            p->axis[p->count++] = i;
    }
    if (p->g.kind == TRP_FFT_C2R)
        p->axis[p->count++] = p->g.last;
}

static int64_t lines_of(const trp__fft_passes *p, int axis)
{
    int64_t lines = 1;
    for (int i = 0; i < p->g.rank; i++)
        lines *= i == axis ? 1 : p->extent[i];
    return lines;
}

/* Real tensors; what lies between passes is in y, unless that has 16 bits. */
static bool set_trig(trp__fft_passes *p)
{
    uint64_t bytes = p->g.wide ? 8 : 4;
    for (int i = 0; i < p->g.rank; i++) {
        p->extent[i] = p->dim[i].n;
        if (__builtin_mul_overflow(bytes, (uint64_t)p->extent[i], &bytes))
            return false;
    }
    p->between_bytes = p->g.y_format != TRP__FFT_SAME && p->count > 1 ? bytes : 0;
    for (int i = 0; i < p->count; i++) {
        const trp__fft_form form = trp__fft_form_of(&p->g, p->dim, p->axis[i]);
        const uint64_t own = trp__fft_trig_bytes(&form, p->g.wide, lines_of(p, p->axis[i]));
        if (own == 0)
            return false;
        p->dense_bytes = own > p->dense_bytes ? own : p->dense_bytes;
    }
    return bytes < UINT64_C(1) << 61;
}

bool trp__fft_passes_set(trp__fft_passes *p, const trp__fft *g, const trp__fft_dim *dim)
{
    *p = (trp__fft_passes){.g = *g};
    memcpy(p->dim, dim, g->rank * sizeof *dim);
    order_axes(p);
    if (trp__fft_is_trig(g->kind))
        return set_trig(p);
    uint64_t bytes = g->wide ? 16 : 8;
    for (int i = 0; i < g->rank; i++) {
        p->extent[i] = i != g->last || g->kind == TRP_FFT_C2C ? dim[i].n
                       : g->kind == TRP_FFT_R2C               ? dim[i].n / 2 + 1
                                                              : dim[i].have;
        if (__builtin_mul_overflow(bytes, (uint64_t)p->extent[i], &bytes))
            return false;
    }
    p->between_bytes = g->kind == TRP_FFT_C2R && p->count > 1 ? bytes : 0;
    return bytes < UINT64_C(1) << 62;
}

static trp__fft_sides sides_of(const trp__fft_passes *p, int pass)
{
    if (p->g.kind == TRP_FFT_C2C || p->axis[pass] != p->g.last || trp__fft_is_trig(p->g.kind))
        return TRP__FFT_COMPLEX;
    return p->g.kind == TRP_FFT_R2C ? TRP__FFT_FROM_REAL : TRP__FFT_TO_REAL;
}

static trp__fft_key trig_key(const trp__fft_passes *p, int axis)
{
    const trp__fft_form form = trp__fft_form_of(&p->g, p->dim, axis);
    const int64_t lines = trp__fft_trig_lines(&form, lines_of(p, axis));
    const bool real = trp__fft_form_core(&form) != TRP__FFT_CORE_C2C;
    const int64_t n = trp__fft_form_length(&form);
    return (trp__fft_key){.n = n,
                          .waves = form.n,
                          .wide = p->g.wide,
                          .real = real,
                          .single = trp__fft_is_single(n, real, p->g.wide, lines)};
}

trp__fft_key trp__fft_passes_key(const trp__fft_passes *p, int pass)
{
    const int axis = p->axis[pass];
    if (trp__fft_is_trig(p->g.kind))
        return trig_key(p, axis);
    const bool real = sides_of(p, pass) != TRP__FFT_COMPLEX;
    int64_t lines = 1;
    for (int i = 0; i < p->g.rank && lines < 64; i++)
        lines *= i == axis ? 1 : p->extent[i];
    return (trp__fft_key){
        .n = p->dim[axis].n,
        .wide = p->g.wide,
        .real = real,
        .single = trp__fft_is_single(p->dim[axis].n, real, p->g.wide, lines),
    };
}

/* One end of a pass; strides count elements. */
typedef struct end {
    void *at;
    bool complex;
    uint8_t format; /* trp__fft_format */
    int64_t stride[TRP_FFT_RANK_MAX], extent[TRP_FFT_RANK_MAX];
} end;

static end end_x(const trp__fft_passes *p)
{
    end e = {.at = p->x,
             .complex = p->g.kind == TRP_FFT_C2C || p->g.kind == TRP_FFT_C2R,
             .format = p->g.x_format};
    for (int i = 0; i < p->g.rank; i++) {
        e.stride[i] = p->dim[i].x_stride;
        e.extent[i] = p->dim[i].have;
    }
    return e;
}

static end end_y(const trp__fft_passes *p)
{
    end e = {.at = p->y,
             .complex = p->g.kind == TRP_FFT_C2C || p->g.kind == TRP_FFT_R2C,
             .format = p->g.y_format};
    for (int i = 0; i < p->g.rank; i++) {
        e.stride[i] = p->dim[i].y_stride;
        e.extent[i] = p->extent[i];
    }
    return e;
}

static end end_between(const trp__fft_passes *p)
{
    end e = {.at = p->between, .complex = !trp__fft_is_trig(p->g.kind)};
    int64_t next = 1;
    for (int i = p->g.rank - 1; i >= 0; i--) {
        e.stride[i] = next;
        e.extent[i] = p->extent[i];
        next *= p->extent[i];
    }
    return e;
}

static void run_pass(const trp__fft_passes *p, int pass, const end *x, const end *y)
{
    const int axis = p->axis[pass];
    const int64_t of_x = x->complex ? 2 : 1, of_y = y->complex ? 2 : 1;
    trp__fft_job job = {.plan = p->plan[pass],
                        .sides = sides_of(p, pass),
                        .inverse = p->g.inverse,
                        .scale = pass == p->count - 1 ? p->g.scale : 1,
                        .x = x->at,
                        .y = y->at,
                        .x_format = x->complex ? TRP__FFT_SAME : x->format,
                        .y_format = y->complex ? TRP__FFT_SAME : y->format,
                        .x_step = x->stride[axis] * of_x,
                        .y_step = y->stride[axis] * of_y,
                        .x_turn = p->g.x_shift >> axis & 1 ? p->dim[axis].n / 2 : 0,
                        .y_turn = p->g.y_shift >> axis & 1 ? p->dim[axis].n / 2 : 0,
                        .have = x->extent[axis],
                        .scratch = p->scratch};
    for (int i = 0; i < p->g.rank; i++) {
        if (i != axis)
            job.other[job.others++] = (trp__fft_other){p->extent[i], x->extent[i],
                                                       x->stride[i] * of_x, y->stride[i] * of_y};
    }
    trp__fft_job_settle(&job);
    if (trp__fft_is_trig(p->g.kind)) {
        const trp__fft_trig_job trig = {
            .form = trp__fft_form_of(&p->g, p->dim, axis), .outer = job, .dense = p->dense};
        trp__fft_run_trig(&trig);
        return;
    }
    trp__fft_run(&job);
}

void trp__fft_passes_run(const trp__fft_passes *p)
{
    const end first = end_x(p), last = end_y(p);
    const end middle = p->between_bytes ? end_between(p) : last;
    for (int i = 0; i < p->count; i++)
        run_pass(p, i, i == 0 ? &first : &middle, i == p->count - 1 ? &last : &middle);
}
