/* Pooling and its gradient in float64, element by element by definition. */
#include "layer_check.h"
#include "window.h"
#include "pool.h"
#include "ui/ui.h"

#include <math.h>
#include <stdlib.h>

typedef struct reference {
    const pool *job;
    check_grid x, y, dy; /* dimensions of y; values of x and dy */
    check_window window;
    int64_t taps[CHECK_DIMS];
    double unit;
} reference;

/* Summary of a window's elements. */
typedef struct window_sum {
    double largest, sum, size; /* size: of absolute values */
    int64_t inside, same;      /* taps outside of the padding; how many of them are the largest */
    bool nan;
} window_sum;

static window_sum look(const reference *r, int64_t n, int64_t c, const int64_t *place)
{
    window_sum s = {.largest = -INFINITY};
    int64_t tap[CHECK_DIMS] = {0}, in[CHECK_DIMS];
    do {
        if (!check_under(&r->window, place, tap, in))
            continue;
        double x = r->x.value[check_grid_index(&r->x, n, c, in)];
        s.same = x > s.largest ? 1 : s.same + (x == s.largest);
        s.largest = x > s.largest ? x : s.largest;
        s.sum += x;
        s.size += fabs(x);
        s.inside++;
        s.nan = s.nan || isnan(x);
    } while (check_next(r->taps, tap));
    return s;
}

/* The divisor of a mean: padding counts, elements beyond it do not. */
static double divisor(const reference *r, const window_sum *s, const int64_t *place)
{
    const check_window *w = &r->window;
    double by = 1;
    if (r->job->mode == TRP_DNN_POOL_AVERAGE)
        return (double)s->inside;
    for (int i = 0; i < CHECK_DIMS; i++) {
        const int from = i - (CHECK_DIMS - (int)r->job->dims);
        const int64_t after = from >= 0 ? r->job->request.post_pad[from] : 0;
        const int64_t rest = w->in[i] + w->pad[i] + after - place[i] * w->stride[i];
        by *= (double)(r->taps[i] < rest ? r->taps[i] : rest);
    }
    return by;
}

static check_number forward(const void *user, uint64_t index)
{
    const reference *r = user;
    int64_t n, c, place[CHECK_DIMS];
    check_grid_place(&r->y, index, &n, &c, place);
    window_sum s = look(r, n, c, place);
    if (r->job->mode == TRP_DNN_POOL_MAX)
        return (check_number){s.largest, s.nan ? INFINITY : 0};
    double by = divisor(r, &s, place);
    return (check_number){s.sum / by, r->unit * (16 + 4 * sqrt(by)) * s.size / by};
}

/* If several elements of a window are the largest, any may get its gradient: the right result lies
 * between two sums. */
static check_number backward(const void *user, uint64_t index)
{
    const reference *r = user;
    int64_t n, c, place[CHECK_DIMS], tap[CHECK_DIMS] = {0}, out[CHECK_DIMS];
    double least = 0, most = 0, size = 0, terms = 0;
    bool nan = false;
    check_grid_place(&r->x, index, &n, &c, place);
    double x = r->x.value[index];
    do {
        if (!check_over(&r->window, place, tap, out))
            continue;
        double dy = r->dy.value[check_grid_index(&r->dy, n, c, out)];
        window_sum s = look(r, n, c, out);
        if (r->job->mode != TRP_DNN_POOL_MAX) {
            dy /= divisor(r, &s, out);
        } else if (x != s.largest) {
            nan = nan || s.nan;
            continue;
        }
        bool sure = r->job->mode != TRP_DNN_POOL_MAX || s.same == 1;
        least += sure || dy < 0 ? dy : 0;
        most += sure || dy > 0 ? dy : 0;
        size += fabs(dy);
        terms++;
        nan = nan || (r->job->mode == TRP_DNN_POOL_MAX && s.nan);
    } while (check_next(r->taps, tap));
    double bound = (most - least) / 2 + r->unit * (16 + 4 * sqrt(terms)) * size;
    return (check_number){(least + most) / 2, nan ? INFINITY : bound};
}

bool pool_check(const pool *job)
{
    const tensor *t = job->layer.tensor, *result = &t[job->backward ? POOL_DX : POOL_Y];
    const tensor *y = &t[job->backward ? POOL_DY : POOL_Y];
    const trp_pool_request *q = &job->request;
    uint64_t began = ui_now();
    check_tally tally = {0};
    ui_progress("checking against float64");
    reference r = {.job = job,
                   .x = check_grid_of(&t[POOL_X]),
                   .y = check_grid_of(y),
                   .dy = check_grid_of(y),
                   .taps = {1, 1, 1},
                   .unit = check_unit(job->type)};
    r.window = check_window_of(&r.x, &r.y, job->dims, q->pre_pad, q->stride, NULL);
    for (uint32_t i = 0; i < job->dims; i++)
        r.taps[CHECK_DIMS - job->dims + i] = q->window[i];
    double taps = (double)(r.taps[0] * r.taps[1] * r.taps[2]);
    bool ok = check_inputs(&job->layer) && check_grid_fill(&r.x, &t[POOL_X]) &&
              (!job->backward || check_grid_fill(&r.dy, y)) &&
              check_elements(&tally, result, job->backward ? taps * taps : taps,
                             job->backward ? backward : forward, &r) &&
              check_show(&tally, result, began);
    free(r.x.value);
    free(r.dy.value);
    return ok;
}
