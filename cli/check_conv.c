/* Convolutions and their gradients in float64, element by element as they are defined. */
#include "check_layer.h"
#include "conv.h"
#include "ui.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { DIMS = TRP_DNN_SPATIAL_MAX };

/* An array of n x c x three sizes, those that are missing 1. */
typedef struct grid {
    double *value; /* NULL: of the result */
    int64_t n, c, size[DIMS];
} grid;

typedef struct reference {
    const conv *job;
    grid x, w, y;
    double *add, *bias;        /* NULL: none */
    int64_t channels, filters; /* of each group */
    int64_t pad[DIMS], stride[DIMS], dilation[DIMS];
    double unit;      /* of the sums; 0: exact */
    double unit_rest; /* of what comes behind them */
    double tolerance, floor;
} reference;

/* A sum of products, and of the squares of both sides of them. */
typedef struct sum {
    double value, left2, right2;
} sum;

static void add(sum *s, double left, double right)
{
    s->value += left * right;
    s->left2 += left * left;
    s->right2 += right * right;
}

static double at(const grid *g, int64_t n, int64_t c, const int64_t place[DIMS])
{
    int64_t i = n * g->c + c;
    for (int d = 0; d < DIMS; d++)
        i = i * g->size[d] + place[d];
    return g->value[i];
}

/* Counts through all places of a grid; false at the end. */
static bool next(const int64_t size[DIMS], int64_t place[DIMS])
{
    for (int d = DIMS; d-- > 0;) {
        if (++place[d] < size[d])
            return true;
        place[d] = 0;
    }
    return false;
}

/* The tap of a filter that lies `tap` steps from the first pixel of its window. */
static void tap_of(const reference *r, const int64_t tap[DIMS], int64_t out[DIMS])
{
    for (int d = 0; d < DIMS; d++)
        out[d] = r->job->request.flip ? r->w.size[d] - 1 - tap[d] : tap[d];
}

/* The pixel of x under a tap of y's pixel; false in the padding. */
static bool pixel_under(const reference *r, const int64_t y[DIMS], const int64_t tap[DIMS],
                        int64_t x[DIMS])
{
    bool inside = true;
    for (int d = 0; d < DIMS; d++) {
        x[d] = y[d] * r->stride[d] - r->pad[d] + tap[d] * r->dilation[d];
        inside = inside && x[d] >= 0 && x[d] < r->x.size[d];
    }
    return inside;
}

/* The pixel of y whose tap lies over x's pixel, if there is one. */
static bool pixel_over(const reference *r, const int64_t x[DIMS], const int64_t tap[DIMS],
                       int64_t y[DIMS])
{
    bool there = true;
    for (int d = 0; d < DIMS; d++) {
        int64_t from = x[d] + r->pad[d] - tap[d] * r->dilation[d];
        y[d] = from / r->stride[d];
        there = there && from >= 0 && from % r->stride[d] == 0 && y[d] < r->y.size[d];
    }
    return there;
}

static sum forward(const reference *r, int64_t n, int64_t k, const int64_t place[DIMS])
{
    sum s = {0};
    int64_t first = k / r->filters * r->channels, tap[DIMS] = {0}, x[DIMS], w[DIMS];
    do {
        tap_of(r, tap, w);
        if (!pixel_under(r, place, tap, x))
            continue;
        for (int64_t c = 0; c < r->channels; c++)
            add(&s, at(&r->x, n, first + c, x), at(&r->w, k, c, w));
    } while (next(r->w.size, tap));
    return s;
}

static sum backward_data(const reference *r, int64_t n, int64_t c, const int64_t place[DIMS])
{
    sum s = {0};
    int64_t first = c / r->channels * r->filters, tap[DIMS] = {0}, y[DIMS], w[DIMS];
    do {
        tap_of(r, tap, w);
        if (!pixel_over(r, place, tap, y))
            continue;
        for (int64_t k = 0; k < r->filters; k++)
            add(&s, at(&r->y, n, first + k, y), at(&r->w, first + k, c % r->channels, w));
    } while (next(r->w.size, tap));
    return s;
}

static sum backward_filter(const reference *r, int64_t k, int64_t c, const int64_t place[DIMS])
{
    sum s = {0};
    int64_t channel = k / r->filters * r->channels + c, tap[DIMS], x[DIMS], y[DIMS] = {0};
    tap_of(r, place, tap);
    do {
        if (!pixel_under(r, y, tap, x))
            continue;
        for (int64_t n = 0; n < r->x.n; n++)
            add(&s, at(&r->x, n, channel, x), at(&r->y, n, k, y));
    } while (next(r->y.size, y));
    return s;
}

/* A grid without places has no sum. */
static bool is_empty(const grid *g)
{
    return g->n == 0 || g->c == 0 || g->size[0] == 0 || g->size[1] == 0 || g->size[2] == 0;
}

static check_number element(const void *user, uint64_t index)
{
    const reference *r = user;
    const conv *job = r->job;
    const grid *to = job->pass == CONV_FORWARD ? &r->y : job->pass == CONV_DATA ? &r->x : &r->w;
    int64_t place[DIMS], rest = (int64_t)index;
    for (int d = DIMS; d-- > 0;) {
        place[d] = rest % to->size[d];
        rest /= to->size[d];
    }
    int64_t n = rest / to->c, c = rest % to->c;
    sum s = {0};
    if (job->pass == CONV_FORWARD && !is_empty(&r->x))
        s = forward(r, n, c, place);
    else if (job->pass == CONV_DATA && !is_empty(&r->y))
        s = backward_data(r, n, c, place);
    else if (job->pass == CONV_FILTER && !is_empty(&r->x) && !is_empty(&r->y))
        s = backward_filter(r, n, c, place);
    double alpha = job->request.alpha.given ? job->request.alpha.re : 1;
    double beta = job->request.beta.given ? job->request.beta.re : 1;
    double added = r->add ? beta * r->add[index] : 0, bias = r->bias ? r->bias[c] : 0;
    check_number v = {.x = alpha * s.value + added + bias};
    v.bound = fabs(alpha) * (r->tolerance * sqrt(s.left2) * sqrt(s.right2) + r->floor);
    if (alpha != 1 || r->add || r->bias || r->unit == 0)
        v.bound += 4 * r->unit_rest * (fabs(alpha * s.value) + fabs(added) + fabs(bias));
    if (r->unit == 0 && job->layer.tensor[CONV_Y].device.type == TRP_I32)
        v.bound = 0; /* exact */
    return check_activation(&job->request.activation, v, r->unit_rest);
}

static grid grid_of(const conv *job, const int64_t *dim, int which)
{
    grid g = {.n = dim[0], .c = dim[1], .size = {1, 1, 1}};
    for (uint32_t i = 0; i < job->dims; i++)
        g.size[DIMS - job->dims + i] = dim[2 + i];
    if (which != conv_result(job))
        g.value = tensor_values(&job->layer.tensor[which], false);
    return g;
}

static double terms(const conv *job, const reference *r)
{
    const int64_t *size = job->pass == CONV_FILTER ? r->y.size : r->w.size;
    double inner = job->pass == CONV_FORWARD ? (double)r->channels
                   : job->pass == CONV_DATA  ? (double)r->filters
                                             : (double)r->x.n;
    return inner * (double)size[0] * (double)size[1] * (double)size[2];
}

/* The bound of a sum as of products (check_matmul.h). cuDNN may compute small filters by Winograd's
 * transforms, which lose a few bits more. */
static void set_tolerance(reference *r, double k)
{
    const conv *job = r->job;
    trp_dtype type = job->layer.tensor[job->pass == CONV_DATA ? CONV_W : CONV_X].device.type;
    trp_dtype compute = job->request.compute ? job->request.compute
                        : type == TRP_F64    ? TRP_F64
                                             : TRP_F32;
    bool gpu = job->layer.run.info.backend != TRP_BACKEND_HOST;
    double steps = 16 + 4 * sqrt(k);
    r->unit = compute == TRP_I32 ? 0 : check_unit(compute);
    r->unit_rest = check_unit(compute);
    if (gpu && trp_dtype_bits(type) == 16 && 16 + k / 16 > steps)
        steps = 16 + k / 16;
    r->tolerance = r->unit * steps * (gpu ? 4 : 1);
    if (job->layer.tf32 && type == TRP_F32)
        r->tolerance += 0x1p-9;
    if (gpu && trp_dtype_bits(type) == 8 && compute != TRP_I32)
        r->tolerance += 0x1p-10;
    r->floor = compute == TRP_I32 ? 0 : (compute == TRP_F64 ? DBL_MIN : (double)FLT_MIN) * (k + 1);
}

static void set_geometry(reference *r)
{
    const conv *job = r->job;
    for (uint32_t d = 0; d < DIMS; d++) {
        uint32_t i = d + job->dims - DIMS; /* wraps where there is no such dimension */
        bool there = i < job->dims;
        r->pad[d] = there ? job->request.pre_pad[i] : 0;
        r->stride[d] = there && job->request.stride[i] ? job->request.stride[i] : 1;
        r->dilation[d] = there && job->request.dilation[i] ? job->request.dilation[i] : 1;
    }
    r->channels = r->w.c;
    r->filters = r->w.n / (r->x.c / r->w.c > 0 ? r->x.c / r->w.c : 1);
}

bool conv_check(const conv *job)
{
    const layer *l = &job->layer;
    const tensor *t = l->tensor, *result = &t[conv_result(job)];
    uint64_t began = ui_now();
    check_tally tally = {0};
    ui_progress("checking against float64");
    reference r = {.job = job,
                   .x = grid_of(job, job->x, CONV_X),
                   .w = grid_of(job, job->w, CONV_W),
                   .y = grid_of(job, job->y, CONV_Y)};
    bool ok = (r.x.value != NULL) + (r.w.value != NULL) + (r.y.value != NULL) == 2;
    set_geometry(&r);
    if (ok && t[CONV_ADD].use != OPERAND_ABSENT)
        ok = (r.add = tensor_values(&t[CONV_ADD], false)) != NULL;
    if (ok && t[CONV_BIAS].use != OPERAND_ABSENT)
        ok = (r.bias = tensor_values(&t[CONV_BIAS], false)) != NULL;
    set_tolerance(&r, terms(job, &r));
    ok = ok && check_inputs(l) && check_elements(&tally, result, terms(job, &r), element, &r) &&
         check_show(&tally, result, began);
    free(r.x.value);
    free(r.w.value);
    free(r.y.value);
    free(r.add);
    free(r.bias);
    return ok;
}
