/* Convolutions and their gradients in float64, element by element by definition. */
#include "layer_check.h"
#include "window.h"
#include "conv.h"
#include "ui/ui.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

typedef struct reference {
    const conv *job;
    check_grid x, w, y;
    check_window window;
    double *add, *bias;        /* NULL: none */
    int64_t channels, filters; /* of each group */
    double unit;               /* unit of the sums; 0: exact */
    double unit_rest;          /* unit of alpha, beta, bias and activation */
    double tolerance, floor;
} reference;

/* A sum of products, and the sums of squares of both factors. */
typedef struct sum {
    double value, left2, right2;
} sum;

static void add(sum *s, double left, double right)
{
    s->value += left * right;
    s->left2 += left * left;
    s->right2 += right * right;
}

static double at(const check_grid *g, int64_t n, int64_t c, const int64_t *place)
{
    return g->value[check_grid_index(g, n, c, place)];
}

/* Returns the filter's element at a tap of the window. */
static void tap_of(const reference *r, const int64_t tap[CHECK_DIMS], int64_t out[CHECK_DIMS])
{
    for (int d = 0; d < CHECK_DIMS; d++)
        out[d] = r->job->request.flip ? r->w.size[d] - 1 - tap[d] : tap[d];
}

static sum forward(const reference *r, int64_t n, int64_t k, const int64_t place[CHECK_DIMS])
{
    sum s = {0};
    int64_t first = k / r->filters * r->channels, tap[CHECK_DIMS] = {0}, x[CHECK_DIMS],
            w[CHECK_DIMS];
    do {
        tap_of(r, tap, w);
        if (!check_under(&r->window, place, tap, x))
            continue;
        for (int64_t c = 0; c < r->channels; c++)
            add(&s, at(&r->x, n, first + c, x), at(&r->w, k, c, w));
    } while (check_next(r->w.size, tap));
    return s;
}

static sum backward_data(const reference *r, int64_t n, int64_t c, const int64_t place[CHECK_DIMS])
{
    sum s = {0};
    int64_t first = c / r->channels * r->filters, tap[CHECK_DIMS] = {0}, y[CHECK_DIMS],
            w[CHECK_DIMS];
    do {
        tap_of(r, tap, w);
        if (!check_over(&r->window, place, tap, y))
            continue;
        for (int64_t k = 0; k < r->filters; k++)
            add(&s, at(&r->y, n, first + k, y), at(&r->w, first + k, c % r->channels, w));
    } while (check_next(r->w.size, tap));
    return s;
}

static sum backward_filter(const reference *r, int64_t k, int64_t c,
                           const int64_t place[CHECK_DIMS])
{
    sum s = {0};
    int64_t channel = k / r->filters * r->channels + c, tap[CHECK_DIMS], x[CHECK_DIMS],
            y[CHECK_DIMS] = {0};
    tap_of(r, place, tap);
    do {
        if (!check_under(&r->window, y, tap, x))
            continue;
        for (int64_t n = 0; n < r->x.n; n++)
            add(&s, at(&r->x, n, channel, x), at(&r->y, n, k, y));
    } while (check_next(r->y.size, y));
    return s;
}

static check_number element(const void *user, uint64_t index)
{
    const reference *r = user;
    const conv *job = r->job;
    const check_grid *to = job->pass == CONV_FORWARD ? &r->y
                           : job->pass == CONV_DATA  ? &r->x
                                                     : &r->w;
    int64_t place[CHECK_DIMS], n, c;
    check_grid_place(to, index, &n, &c, place);
    sum s = {0};
    if (job->pass == CONV_FORWARD && !check_grid_is_empty(&r->x))
        s = forward(r, n, c, place);
    else if (job->pass == CONV_DATA && !check_grid_is_empty(&r->y))
        s = backward_data(r, n, c, place);
    else if (job->pass == CONV_FILTER && !check_grid_is_empty(&r->x) && !check_grid_is_empty(&r->y))
        s = backward_filter(r, n, c, place);
    double alpha = job->request.alpha.given ? job->request.alpha.re : 1;
    double beta = job->request.beta.re;
    double added = r->add ? beta * r->add[index] : 0, bias = r->bias ? r->bias[c] : 0;
    check_number v = {.x = alpha * s.value + added + bias};
    v.bound = fabs(alpha) * (r->tolerance * sqrt(s.left2) * sqrt(s.right2) + r->floor);
    if (alpha != 1 || r->add || r->bias || r->unit == 0)
        v.bound += 4 * r->unit_rest * (fabs(alpha * s.value) + fabs(added) + fabs(bias));
    if (r->unit == 0 && job->layer.tensor[CONV_Y].device.type == TRP_I32)
        v.bound = 0; /* exact */
    return check_activation(&job->request.activation, v, r->unit_rest);
}

static double terms(const conv *job, const reference *r)
{
    const int64_t *size = job->pass == CONV_FILTER ? r->y.size : r->w.size;
    double inner = job->pass == CONV_FORWARD ? (double)r->channels
                   : job->pass == CONV_DATA  ? (double)r->filters
                                             : (double)r->x.n;
    return inner * (double)size[0] * (double)size[1] * (double)size[2];
}

/* Sets the bound of a sum, as for products (commands/matmul_check.h). cuDNN may compute small
 * filters by Winograd's transforms, which lose a few bits more. */
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

bool conv_check(const conv *job)
{
    const layer *l = &job->layer;
    const tensor *t = l->tensor, *result = &t[conv_result(job)];
    uint64_t began = ui_now();
    check_tally tally = {0};
    ui_progress("checking against float64");
    reference r = {.job = job,
                   .x = check_grid_of(&t[CONV_X]),
                   .w = check_grid_of(&t[CONV_W]),
                   .y = check_grid_of(&t[CONV_Y])};
    int64_t groups = r.x.c / r.w.c;
    const trp_conv_request *q = &job->request;
    r.window = check_window_of(&r.x, &r.y, job->dims, q->pre_pad, q->stride, q->dilation);
    r.channels = r.w.c;
    r.filters = r.w.n / groups;
    bool ok = (result == &t[CONV_X] || check_grid_fill(&r.x, &t[CONV_X])) &&
              (result == &t[CONV_W] || check_grid_fill(&r.w, &t[CONV_W])) &&
              (result == &t[CONV_Y] || check_grid_fill(&r.y, &t[CONV_Y]));
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
