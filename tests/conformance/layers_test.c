/* Layers of a training step in the conformance suite: linear layers, norms with a residual, gated
 * units, rotary embedding. */
#include "conformance/calls.h"
#include "support/reference/elements.h"

#include <math.h>

TROUPE_TEST("one isolation", "computes");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

/* How many steps of f32 a result may be off if a value between two nodes is rounded to a narrow
 * type. */
static double between(trp_dtype type, double wide)
{
    return type == TRP_F16 ? 0x1p15 : type == TRP_BF16 ? 0x1p18 : wide;
}

/* --- Linear layers --- */

/* y[i][j] = the sum over k of a[i][k] b[k][j], each with strides of rows and columns. */
static void multiply(int64_t m, int64_t n, int64_t k, const double *a, int64_t ai, int64_t ak,
                     const double *b, int64_t bk, int64_t bj, double *y)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += a[i * ai + l * ak] * b[l * bk + j * bj];
            y[i * n + j] = sum;
        }
    }
}

/* An activation and its slope. */
static double activation_of(trp_dnn_pointwise mode, double g, double *slope)
{
    if (mode == TRP_DNN_GELU) {
        const double share = erfc(-g * sqrt(0.5)) / 2;
        *slope = share + g * exp(-g * g / 2) / sqrt(2 * acos(-1.0));
        return g * share;
    }
    const bool swish = mode == TRP_DNN_SWISH;
    const double c = 2 * sqrt(2 / acos(-1.0));
    const double y = swish ? g : c * (g + 0.044715 * g * g * g);
    const double bend = swish ? 1 : c * (1 + 3 * 0.044715 * g * g);
    const double share = 1 / (1 + exp(-y));
    *slope = share + g * bend * share * (1 / (1 + exp(y)));
    return g * share;
}

typedef struct linear_case {
    int64_t m, k, n, x[3], y[3], w[2];
} linear_case;

static linear_case draw_linear(void)
{
    const int64_t b = f_from(1, 3), s = f_from(1, 9), k = f_from(1, 40), n = f_from(1, 40);
    return (linear_case){.m = b * s, .k = k, .n = n, .x = {b, s, k}, .y = {b, s, n}, .w = {n, k}};
}

static bool linear_forward(cf_fields *p, trp_dtype type, unsigned way)
{
    const linear_case c = draw_linear();
    const bool acts = way & 1, more = way & 2, wide = type == TRP_F64;
    const double size = (double)c.k + 2, loose = between(type, 16);
    p->packed = true;
    const f_field *x = cf_in(p, type, 3, c.x, -1, 1), *w = cf_in(p, type, 2, c.w, -1, 1);
    const f_field *bias = cf_in(p, type, 1, &c.n, -1, 1), *res = cf_in(p, type, 3, c.y, -1, 1);
    const f_field *y = cf_out(p, type, 3, c.y), *z = cf_out(p, type, 3, c.y);
    double *ys = cf_want(p, y, size, loose, wide), *zs = cf_zeros(c.m * c.n), slope;
    multiply(c.m, c.n, c.k, x->v, c.k, 1, w->v, 1, c.k, zs);
    for (int64_t i = 0; i < c.m * c.n; i++) {
        zs[i] += bias->v[i % c.n] + (more ? res->v[i] : 0);
        ys[i] = acts ? activation_of(TRP_DNN_GELU_TANH, zs[i], &slope) : zs[i];
    }
    trp_linear_request *r = CF_REQUEST(p, linear);
    *r = (trp_linear_request){.x = x->t, .w = w->t, .bias = bias->t, .y = y->t};
    if (more)
        r->residual = res->t;
    if (acts) {
        r->activation.mode = TRP_DNN_GELU_TANH;
        r->z = z->t;
        memcpy(cf_want(p, z, size, loose, wide), zs, (size_t)(c.m * c.n) * sizeof *zs);
    }
    free(zs);
    return true;
}

static bool linear_backward(cf_fields *p, trp_dtype type, unsigned way)
{
    const linear_case c = draw_linear();
    const trp_dtype grad = type == TRP_F64 ? TRP_F64 : TRP_F32;
    const bool acts = way & 1, more = way & 2, in_place = way & 4, wide = type == TRP_F64;
    const double size = (double)(c.m > c.n ? c.m : c.n) + 4;
    double slope = 1;
    p->packed = true;
    const f_field *dy = cf_in(p, type, 3, c.y, -1, 1), *x = cf_in(p, type, 3, c.x, -1, 1);
    const f_field *w = cf_in(p, type, 2, c.w, -1, 1), *xz = cf_in(p, type, 3, c.x, -2, 2);
    const f_field *old = cf_in(p, grad, 2, c.w, -1, 1), *add = cf_in(p, type, 3, c.x, -1, 1);
    const f_field *db = in_place ? cf_in(p, grad, 1, &c.n, -1, 1) : cf_out(p, grad, 1, &c.n);
    const f_field *dx = cf_out(p, type, 3, c.x), *dw = in_place ? old : cf_out(p, grad, 2, c.w);
    double *dxs = cf_want(p, dx, size, between(type, 16), wide);
    double *dws = cf_want(p, dw, size, 64, wide), *dbs = cf_want(p, db, size, 64, wide);
    multiply(c.m, c.k, c.n, dy->v, c.n, 1, w->v, c.k, 1, dxs);
    multiply(c.n, c.k, c.m, dy->v, 1, c.n, x->v, c.k, 1, dws);
    for (int64_t i = 0; i < c.m * c.k; i++) {
        if (acts)
            activation_of(TRP_DNN_GELU_TANH, xz->v[i], &slope);
        dxs[i] = dxs[i] * slope + (more ? add->v[i] : 0);
    }
    for (int64_t i = 0; i < c.n * c.k && (more || in_place); i++)
        dws[i] += old->v[i];
    for (int64_t i = 0; i < c.n && in_place; i++)
        dbs[i] = db->v[i];
    for (int64_t i = 0; i < c.m * c.n; i++)
        dbs[i % c.n] += dy->v[i];
    trp_linear_request *r = CF_REQUEST(p, linear);
    *r = (trp_linear_request){
        .x = x->t, .w = w->t, .dy = dy->t, .dx = dx->t, .dw = dw->t, .dbias = db->t};
    if (acts) {
        r->x_activation.mode = TRP_DNN_GELU_TANH;
        r->x_z = xz->t;
    }
    if (more)
        r->add_dx = add->t;
    if (more || in_place)
        r->add_dw = old->t;
    if (in_place)
        r->add_dbias = db->t;
    p->may_fault = in_place;
    return true;
}

/* --- Norms --- */

typedef struct norm_case {
    int64_t m, c, x[3];
    bool rms, more;
    double epsilon;
} norm_case;

static norm_case draw_norm(unsigned way)
{
    const int64_t b = f_from(1, 3), s = f_from(1, 9), c = f_from(2, 50);
    return (norm_case){.m = b * s,
                       .c = c,
                       .x = {b, s, c},
                       .rms = way & 1,
                       .more = way & 2,
                       .epsilon = f_below(2) ? 1e-5 : 0.1};
}

/* Mean and 1 / sqrt(variance + epsilon) of a row. */
static void statistics(const norm_case *k, const double *row, double *mean, double *inv)
{
    double square = 0;
    *mean = 0;
    for (int64_t j = 0; j < k->c; j++)
        *mean += k->rms ? 0 : row[j] / (double)k->c;
    for (int64_t j = 0; j < k->c; j++)
        square += pow(row[j] - *mean, 2) / (double)k->c;
    *inv = 1 / sqrt(square + k->epsilon);
}

static bool residual_norm_forward(cf_fields *p, trp_dtype type, unsigned way)
{
    const norm_case k = draw_norm(way);
    const trp_dtype fine = type == TRP_F64 ? TRP_F64 : TRP_F32;
    const bool wide = type == TRP_F64;
    const double loose = between(type, 64);
    p->packed = true;
    const f_field *x = cf_in(p, type, 3, k.x, -1, 1), *res = cf_in(p, type, 3, k.x, -1, 1);
    const f_field *scale = cf_in(p, fine, 1, &k.c, 0.5, 2), *bias = cf_in(p, fine, 1, &k.c, -1, 1);
    const f_field *sum = cf_out(p, type, 3, k.x), *y = cf_out(p, type, 3, k.x);
    const f_field *mean = cf_out(p, fine, 2, k.x), *inv = cf_out(p, fine, 2, k.x);
    double *sums = k.more ? cf_want(p, sum, 0, 2, wide) : NULL, *row = cf_zeros(k.c), unused;
    double *ys = cf_want(p, y, 4, loose, wide), *invs = cf_want(p, inv, 1, loose, wide);
    double *means = k.rms ? NULL : cf_want(p, mean, 1, loose, wide);
    for (int64_t i = 0; i < k.m; i++) {
        for (int64_t j = 0; j < k.c; j++) {
            row[j] = x->v[i * k.c + j] + (k.more ? res->v[i * k.c + j] : 0);
            if (k.more) {
                sums[i * k.c + j] = row[j];
                row[j] = ref_element_round(type, row[j]);
            }
        }
        double *const at = means ? &means[i] : &unused;
        statistics(&k, row, at, &invs[i]);
        for (int64_t j = 0; j < k.c; j++)
            ys[i * k.c + j] = (row[j] - *at) * invs[i] * scale->v[j] + (k.rms ? 0 : bias->v[j]);
    }
    free(row);
    trp_residual_norm_request *r = CF_REQUEST(p, residual_norm);
    *r = (trp_residual_norm_request){.mode = k.rms ? TRP_DNN_RMS : TRP_DNN_LAYER,
                                     .x = x->t,
                                     .scale = scale->t,
                                     .y = y->t,
                                     .inv_variance = inv->t};
    if (k.epsilon != 1e-5)
        r->epsilon = trp_real(k.epsilon);
    if (!k.rms)
        r->bias = bias->t, r->mean = mean->t;
    if (k.more)
        r->residual = res->t, r->sum = sum->t;
    return true;
}

static bool residual_norm_backward(cf_fields *p, trp_dtype type, unsigned way)
{
    const norm_case k = draw_norm(way);
    const trp_dtype fine = type == TRP_F64 ? TRP_F64 : TRP_F32;
    const bool wide = type == TRP_F64;
    p->packed = true;
    const f_field *x = cf_in(p, type, 3, k.x, -1, 1), *scale = cf_in(p, fine, 1, &k.c, 0.5, 2);
    const f_field *dy = cf_in(p, type, 3, k.x, -1, 1), *add = cf_in(p, type, 3, k.x, -1, 1);
    f_field *mean = cf_in(p, fine, 2, k.x, 0, 0), *inv = cf_in(p, fine, 2, k.x, 0, 0);
    const f_field *dx = cf_out(p, type, 3, k.x), *db = cf_out(p, fine, 1, &k.c);
    const f_field *ds = k.more ? cf_in(p, fine, 1, &k.c, -1, 1) : cf_out(p, fine, 1, &k.c);
    double *dxs = cf_want(p, dx, 1000, between(type, 64), wide);
    double *dss = cf_want(p, ds, (double)k.m * 8, 256, wide);
    double *dbs = k.rms ? cf_zeros(k.c) : cf_want(p, db, (double)k.m * 8, 64, wide);
    for (int64_t i = 0; i < k.m; i++)
        statistics(&k, x->v + i * k.c, &mean->v[i], &inv->v[i]);
    f_encode(mean);
    f_encode(inv);
    for (int64_t i = 0; i < k.m; i++) {
        const double *row = x->v + i * k.c, *dys = dy->v + i * k.c;
        double g = 0, gh = 0;
        for (int64_t j = 0; j < k.c; j++) {
            const double h = (row[j] - mean->v[i]) * inv->v[i];
            g += k.rms ? 0 : dys[j] * scale->v[j] / (double)k.c;
            gh += dys[j] * scale->v[j] * h / (double)k.c;
            dss[j] += dys[j] * h;
            dbs[j] += dys[j];
        }
        for (int64_t j = 0; j < k.c; j++) {
            const double h = (row[j] - mean->v[i]) * inv->v[i];
            dxs[i * k.c + j] = inv->v[i] * (dys[j] * scale->v[j] - g - h * gh) +
                               (k.more ? add->v[i * k.c + j] : 0);
        }
    }
    for (int64_t j = 0; j < k.c && k.more; j++)
        dss[j] += ds->v[j];
    if (k.rms)
        free(dbs);
    trp_residual_norm_request *r = CF_REQUEST(p, residual_norm);
    *r = (trp_residual_norm_request){.mode = k.rms ? TRP_DNN_RMS : TRP_DNN_LAYER,
                                     .x = x->t,
                                     .scale = scale->t,
                                     .inv_variance = inv->t,
                                     .dy = dy->t,
                                     .dx = dx->t,
                                     .dscale = ds->t};
    if (!k.rms)
        r->mean = mean->t, r->dbias = db->t;
    if (k.more)
        r->add_dx = add->t, r->add_dscale = ds->t;
    p->may_fault = k.more;
    return true;
}

/* --- Gated units --- */

static const trp_dnn_pointwise modes[] = {TRP_DNN_SWISH, TRP_DNN_GELU, TRP_DNN_GELU_TANH};
enum { MODES = 3, GLU_WAYS = 4 * MODES };

/* Gate and up in arrays of their own, for which the pack has kernels, of about the sizes of a
 * thread and a block; in the last of four ways, halves of one array. */
typedef struct glu_case {
    trp_dnn_pointwise mode;
    int64_t rows, n, dim[2], both[2];
    bool halves;
    double far, loose;
} glu_case;

static glu_case draw_glu(const cf_fields *p, trp_dtype type, unsigned way)
{
    const bool halves = way / MODES == 3 && !p->tight;
    glu_case c = {.mode = modes[way % MODES],
                  .rows = f_from(1, 9),
                  .n = way / MODES == 1 ? 8 * f_from(1, 40) : f_from(1, halves ? 40 : 400),
                  .halves = halves,
                  .far = way / MODES == 2 ? 60 : 4,
                  .loose = halves ? between(type, 64) : 64};
    c.dim[0] = c.both[0] = c.rows;
    c.dim[1] = c.n;
    c.both[1] = 2 * c.n;
    return c;
}

/* Gate and up as tensors, and their elements. */
typedef struct gated {
    trp_dnn_tensor gate, up;
    const f_field *first, *second;
    int64_t step, behind; /* from one row to the next, and from gate to up */
} gated;

static gated views(const glu_case *c, const f_field *first, const f_field *second)
{
    gated g = {first->t, second->t, first, second, c->n, 0};
    if (!c->halves)
        return g;
    g.step = 2 * c->n;
    g.behind = c->n;
    g.gate.dim[1] = c->n;
    g.gate.stride[0] = g.step;
    g.gate.stride[1] = 1;
    g.up = g.gate;
    g.up.offset += (uint64_t)c->n * (trp_dtype_bits(first->t.type) / 8);
    return g;
}

static gated draw_gated(cf_fields *p, const glu_case *c, trp_dtype type)
{
    const f_field *gate = cf_in(p, type, 2, c->halves ? c->both : c->dim, -c->far, c->far);
    return views(c, gate, c->halves ? gate : cf_in(p, type, 2, c->dim, -3, 3));
}

static bool glu_forward(cf_fields *p, trp_dtype type, unsigned way)
{
    const glu_case c = draw_glu(p, type, way);
    p->packed = true;
    const gated g = draw_gated(p, &c, type);
    const bool in_place = !c.halves && f_below(4) == 0;
    const f_field *y = in_place ? g.first : cf_out(p, type, 2, c.dim);
    double *ys = cf_want(p, y, c.far > 9 ? c.far : 9, c.loose, type == TRP_F64), slope;
    for (int64_t i = 0; i < y->count; i++) {
        const int64_t at = i / c.n * g.step + i % c.n;
        ys[i] = activation_of(c.mode, g.first->v[at], &slope) * g.second->v[at + g.behind];
    }
    *CF_REQUEST(p, glu) =
        (trp_glu_request){.activation.mode = c.mode, .gate = g.gate, .up = g.up, .y = y->t};
    p->may_fault = in_place;
    return true;
}

static bool glu_backward(cf_fields *p, trp_dtype type, unsigned way)
{
    const glu_case c = draw_glu(p, type, way);
    const bool wide = type == TRP_F64;
    const double size = c.far > 9 ? c.far : 9;
    p->packed = true;
    const gated g = draw_gated(p, &c, type);
    const f_field *dy = cf_in(p, type, 2, c.dim, -1, 1);
    const bool in_place = !c.halves && f_below(4) == 0;
    const f_field *first = in_place ? g.first : cf_out(p, type, 2, c.halves ? c.both : c.dim);
    const gated d = views(&c, first, c.halves ? first : cf_out(p, type, 2, c.dim));
    double *dgates = cf_want(p, d.first, size, c.loose, wide);
    double *dups = c.halves ? dgates : cf_want(p, d.second, size, c.loose, wide), slope;
    for (int64_t i = 0; i < dy->count; i++) {
        const int64_t at = i / c.n * g.step + i % c.n, up = at + g.behind;
        dups[up] = dy->v[i] * activation_of(c.mode, g.first->v[at], &slope);
        dgates[at] = dy->v[i] * g.second->v[up] * slope;
    }
    *CF_REQUEST(p, glu) = (trp_glu_request){.activation.mode = c.mode,
                                            .gate = g.gate,
                                            .up = g.up,
                                            .dy = dy->t,
                                            .dgate = d.gate,
                                            .dup = d.up};
    p->may_fault = in_place;
    return true;
}

/* --- Softmax --- */

/* The dimensions around an axis. */
typedef struct line_case {
    int64_t dim[3], length, inner;
    uint32_t axis;
} line_case;

static line_case draw_lines(unsigned way)
{
    line_case c = {.dim = {f_from(1, 4), f_from(1, 7), f_from(1, 9)}, .axis = way / 2 % 3};
    if (way >= 6)
        c.dim[c.axis] = f_from(100, 3000);
    c.length = c.dim[c.axis];
    c.inner = c.axis == 2 ? 1 : c.axis == 1 ? c.dim[2] : c.dim[1] * c.dim[2];
    return c;
}

static bool softmax_forward(cf_fields *p, trp_dtype type, unsigned way)
{
    const line_case c = draw_lines(way);
    const bool log = way % 2;
    p->packed = f_below(2);
    const f_field *x = cf_in(p, type, 3, c.dim, -4, 4), *y = cf_out(p, type, 3, c.dim);
    double *ys = cf_want(p, y, log ? 8 : 1, 64, type == TRP_F64);
    for (int64_t line = 0; line < x->count / c.length; line++) {
        const int64_t at = line / c.inner * c.length * c.inner + line % c.inner;
        double sum = 0;
        for (int64_t i = 0; i < c.length; i++)
            sum += exp(x->v[at + i * c.inner]);
        for (int64_t i = 0; i < c.length; i++) {
            const double v = x->v[at + i * c.inner];
            ys[at + i * c.inner] = log ? v - log1p(sum - 1) : exp(v) / sum;
        }
    }
    *CF_REQUEST(p, softmax) =
        (trp_softmax_request){.axis = c.axis, .log = log, .x = x->t, .y = y->t};
    return true;
}

/* The gradient for any y, since its formula does not need y to be a softmax. */
static bool softmax_backward(cf_fields *p, trp_dtype type, unsigned way)
{
    const line_case c = draw_lines(way);
    const bool log = way % 2;
    p->packed = f_below(2);
    const f_field *y = cf_in(p, type, 3, c.dim, log ? -2 : 0, log ? 0 : 1);
    const f_field *dy = cf_in(p, type, 3, c.dim, -1, 1), *dx = cf_out(p, type, 3, c.dim);
    double *dxs = cf_want(p, dx, (double)c.length, 64, type == TRP_F64);
    for (int64_t line = 0; line < y->count / c.length; line++) {
        const int64_t at = line / c.inner * c.length * c.inner + line % c.inner;
        double sum = 0;
        for (int64_t i = at; i < at + c.length * c.inner; i += c.inner)
            sum += dy->v[i] * (log ? 1 : y->v[i]);
        for (int64_t i = at; i < at + c.length * c.inner; i += c.inner)
            dxs[i] = log ? dy->v[i] - exp(y->v[i]) * sum : y->v[i] * (dy->v[i] - sum);
    }
    *CF_REQUEST(p, softmax) =
        (trp_softmax_request){.axis = c.axis, .log = log, .y = y->t, .dy = dy->t, .dx = dx->t};
    return true;
}

/* --- Rotary embedding --- */

static bool rotary(cf_fields *p, trp_dtype type, bool backward)
{
    const bool packed = f_below(2), tables = f_below(2), indexed = f_below(2), pairs = f_below(2);
    const bool in_place = backward && f_below(2);
    const int64_t dim[] = {f_from(1, 3), f_from(1, 6), f_from(1, 20),
                           packed ? 16 * f_from(1, 8) : f_from(1, 300)};
    const int64_t turning = f_below(2) ? dim[3] / 2 * 2 : f_below(dim[3] / 2 + 1) * 2;
    const int64_t half = turning / 2, positions = 50, table[] = {positions, half};
    const int64_t index_dim[] = {f_below(2) ? dim[0] : 1, 1, dim[2], 1};
    const int64_t start = f_below(2) ? f_below(20) : 0;
    if (turning == 0) /* 0 stands for the default, and tables need elements */
        return false;
    p->packed = packed;
    const f_field *x = cf_in(p, type, 4, dim, -2, 2);
    const f_field *y = in_place ? x : cf_out(p, f_below(2) ? type : f_real(), 4, dim);
    p->packed = false;
    const f_field *index = cf_in(p, TRP_I32, 4, index_dim, 0, (double)positions - 1);
    const f_field *c = cf_in(p, TRP_F32, 2, table, -1, 1), *s = cf_in(p, TRP_F32, 2, table, -1, 1);
    /* two libraries differ at angles of some hundreds */
    double *ys = cf_want(p, y, 2, 128, type == TRP_F64);
    memcpy(ys, x->v, (size_t)x->count * sizeof *ys);
    for (int64_t i = 0; i < x->count; i += dim[3]) {
        const int64_t row = i / dim[3] % dim[2], batch = i / (dim[3] * dim[2] * dim[1]);
        const int64_t at = indexed
                               ? (int64_t)index->v[(index_dim[0] == 1 ? 0 : batch) * dim[2] + row]
                               : row + start;
        for (int64_t k = 0; k < half; k++) {
            const int64_t a = i + (pairs ? 2 * k : k), b = i + (pairs ? 2 * k + 1 : k + half);
            const double angle = (double)at * pow(10000, -2.0 * (double)k / (double)turning);
            const double cosine = tables ? c->v[at * half + k] : cos(angle);
            const double sine = (backward ? -1 : 1) * (tables ? s->v[at * half + k] : sin(angle));
            ys[a] = x->v[a] * cosine - x->v[b] * sine;
            ys[b] = x->v[a] * sine + x->v[b] * cosine;
        }
    }
    trp_rotary_request *r = CF_REQUEST(p, rotary);
    r->mode = pairs ? TRP_DNN_ROTARY_PAIRS : TRP_DNN_ROTARY_HALVES;
    *(backward ? &r->dy : &r->x) = x->t;
    *(backward ? &r->dx : &r->y) = y->t;
    if (tables)
        r->cosines = c->t, r->sines = s->t;
    else
        r->turning = turning;
    if (indexed)
        r->positions = index->t;
    else if (start)
        r->start = trp_dnn_integer((uint64_t)start);
    p->may_fault = in_place;
    return true;
}

static bool rotary_forward(cf_fields *p, trp_dtype type, unsigned way)
{
    (void)way;
    return rotary(p, type, false);
}

static bool rotary_backward(cf_fields *p, trp_dtype type, unsigned way)
{
    (void)way;
    return rotary(p, type, true);
}

/* --- Operations --- */

CF_SEND(linear_forward, linear)
CF_SEND(linear_backward, linear)
CF_SEND(residual_norm_forward, residual_norm)
CF_SEND(residual_norm_backward, residual_norm)
CF_SEND(glu_forward, glu)
CF_SEND(glu_backward, glu)
CF_SEND(rotary_forward, rotary)
CF_SEND(softmax_forward, softmax)
CF_SEND(softmax_backward, softmax)
CF_SEND(rotary_backward, rotary)

#define LINEAR(use, x)  CF_TENSOR(linear, CF_##use, x)
#define NORM(use, x)    CF_TENSOR(residual_norm, CF_##use, x)
#define GLU(use, x)     CF_TENSOR(glu, CF_##use, x)
#define ROTARY(use, x)  CF_TENSOR(rotary, CF_##use, x)
#define SOFTMAX(use, x) CF_TENSOR(softmax, CF_##use, x)

static const cf_call calls[] = {
    {CF_CALL(linear_forward, linear), .types = 4, .ways = 4, .runs_again = true,
     .tensor = {LINEAR(READ, x), LINEAR(READ, w), LINEAR(SHARED, bias), LINEAR(SHARED, residual),
                LINEAR(UPDATE, y), LINEAR(UPDATE, z)}},
    {CF_CALL(linear_backward, linear), .types = 4, .ways = 8,
     .tensor = {LINEAR(READ, dy), LINEAR(READ, x), LINEAR(READ, w), LINEAR(SHARED, x_z),
                LINEAR(UPDATE, dx), LINEAR(UPDATE, dw), LINEAR(UPDATE, dbias),
                LINEAR(SHARED, add_dx), LINEAR(SHARED, add_dw), LINEAR(SHARED, add_dbias)}},
    {CF_CALL(residual_norm_forward, residual_norm), .types = 4, .ways = 4, .runs_again = true,
     .tensor = {NORM(SHARED, x), NORM(SHARED, residual), NORM(READ, scale), NORM(READ, bias),
                NORM(UPDATE, sum), NORM(WRITE, y), NORM(WRITE, mean), NORM(WRITE, inv_variance)}},
    {CF_CALL(residual_norm_backward, residual_norm), .types = 4, .ways = 4,
     .tensor = {NORM(READ, x), NORM(READ, scale), NORM(READ, mean), NORM(READ, inv_variance),
                NORM(READ, dy), NORM(UPDATE, dx), NORM(UPDATE, dscale), NORM(UPDATE, dbias),
                NORM(SHARED, add_dx), NORM(SHARED, add_dscale)}},
    {CF_CALL(glu_forward, glu), .types = 4, .ways = GLU_WAYS, .runs_again = true,
     .tensor = {GLU(SHARED, gate), GLU(SHARED, up), GLU(UPDATE, y)}},
    {CF_CALL(glu_backward, glu), .types = 4, .ways = GLU_WAYS, .runs_again = true,
     .tensor = {GLU(SHARED, gate), GLU(SHARED, up), GLU(SHARED, dy), GLU(UPDATE, dgate),
                GLU(WRITE, dup)}},
    {CF_CALL(softmax_forward, softmax), .types = 4, .ways = 12, .runs_again = true,
     .tensor = {SOFTMAX(READ, x), SOFTMAX(WRITE, y)}},
    {CF_CALL(softmax_backward, softmax), .types = 4, .ways = 12, .runs_again = true,
     .tensor = {SOFTMAX(READ, y), SOFTMAX(READ, dy), SOFTMAX(WRITE, dx)}},
    {CF_CALL(rotary_forward, rotary), .types = 4, .ways = 1, .runs_again = true,
     .tensor = {ROTARY(SHARED, x), ROTARY(UPDATE, y), ROTARY(READ, positions),
                ROTARY(READ, cosines), ROTARY(READ, sines)}},
    {CF_CALL(rotary_backward, rotary), .types = 4, .ways = 1,
     .tensor = {ROTARY(SHARED, dy), ROTARY(UPDATE, dx), ROTARY(READ, positions),
                ROTARY(READ, cosines), ROTARY(READ, sines)}},
};

int main(int argc, char **argv)
{
    return cf_calls_main(argc, argv, "dnn: layers of training", calls,
                         sizeof calls / sizeof *calls);
}
