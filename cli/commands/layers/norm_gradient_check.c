/* Gradients of a normalisation in float64, by the computed statistics, which are compared first, or
 * by those read:
 *
 *     h = (x - mean) * inv_variance,  g = dy * scale
 *     dx = inv_variance * (g - mean(g) - h * mean(g * h)),  dscale = sum(dy * h),  dbias = sum(dy)
 *
 * where rms has no mean and no mean(g). */
#include "layer_check.h"
#include "norm.h"
#include "ui/ui.h"

#include <math.h>
#include <stdlib.h>

enum { X, SCALE, MEAN, INVERSE, DY, READ };

static const int read_from[READ] = {NORM_X, NORM_SCALE, NORM_MEAN, NORM_INV_VARIANCE, NORM_DY};

/* A sum, and the sum of its terms' sizes before cancellation. */
typedef struct sum {
    double x, size, count;
} sum;

typedef struct reference {
    const norm *job;
    double *value[READ]; /* mean: NULL for rms */
    sum *g, *gh, *x;     /* per group: sums of g, g * h and |x| */
    sum *dy, *dyh;       /* per element of scale */
    uint64_t groups, scales;
    double unit;
} reference;

static void add(sum *s, double x, double size)
{
    s->x += x;
    s->size += size;
    s->count++;
}

/* Bounds a sum of n terms by 16 + 4 sqrt(n) units of their sizes (Higham, Accuracy and Stability,
 * section 3.5). */
static check_number finish(const reference *r, const sum *s)
{
    return (check_number){s->x, r->unit * (16 + 4 * sqrt(s->count)) * s->size};
}

static check_number finish_mean(const reference *r, const sum *s)
{
    check_number v = finish(r, s);
    return (check_number){v.x / s->count, v.bound / s->count};
}

/* Returns h of an element, and in `bound` the size of the numbers it is the difference of. */
static check_number normal(const reference *r, uint64_t at, uint64_t group)
{
    double mean = r->value[MEAN] ? r->value[MEAN][group] : 0, inverse = r->value[INVERSE][group];
    return (check_number){(r->value[X][at] - mean) * inverse,
                          (fabs(r->value[X][at]) + fabs(mean)) * inverse};
}

static void take_sums(reference *r)
{
    const norm *job = r->job;
    const uint64_t count = tensor_elements(&job->layer.tensor[NORM_X]);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t group = norm_index(job, job->statistic, i);
        const uint64_t place = norm_index(job, job->scale, i);
        const check_number h = normal(r, i, group);
        const double dy = r->value[DY][i], g = dy * r->value[SCALE][place];
        add(&r->g[group], g, fabs(g));
        add(&r->gh[group], g * h.x, fabs(g) * h.bound);
        add(&r->x[group], r->value[X][i], fabs(r->value[X][i]));
        add(&r->dy[place], dy, fabs(dy));
        add(&r->dyh[place], dy * h.x, fabs(dy) * h.bound);
    }
}

static check_number dx_element(const void *user, uint64_t at)
{
    const reference *r = user;
    const norm *job = r->job;
    const uint64_t group = norm_index(job, job->statistic, at);
    const check_number h = normal(r, at, group), gh = finish_mean(r, &r->gh[group]);
    const double inverse = r->value[INVERSE][group];
    const double g = r->value[DY][at] * r->value[SCALE][norm_index(job, job->scale, at)];
    check_number mean = {0}, x = finish_mean(r, &r->x[group]);
    if (job->mode != TRP_DNN_RMS)
        mean = finish_mean(r, &r->g[group]);
    check_number v = {.x = inverse * (g - mean.x - h.x * gh.x)};
    /* The mean of h is 0 up to the error of the mean of x, which some algorithms keep. */
    v.bound = inverse * (mean.bound + h.bound * gh.bound + inverse * x.bound * fabs(gh.x) +
                         8 * r->unit * (fabs(g) + fabs(mean.x) + h.bound * fabs(gh.x)));
    return v;
}

static check_number dscale_element(const void *user, uint64_t at)
{
    const reference *r = user;
    return finish(r, &r->dyh[at]);
}

static check_number dbias_element(const void *user, uint64_t at)
{
    const reference *r = user;
    return finish(r, &r->dy[at]);
}

static bool fill(reference *r)
{
    const norm *job = r->job;
    const tensor *t = job->layer.tensor;
    bool ok = true;
    r->groups = r->scales = 1;
    for (uint32_t i = 0; i < t[NORM_X].file.rank; i++) {
        r->groups *= (uint64_t)job->statistic[i];
        r->scales *= (uint64_t)job->scale[i];
    }
    r->g = calloc(3 * r->groups + 2 * r->scales, sizeof *r->g);
    if (!r->g) {
        ui_error("check: out of memory");
        return false;
    }
    r->gh = r->g + r->groups;
    r->x = r->gh + r->groups;
    r->dy = r->x + r->groups;
    r->dyh = r->dy + r->scales;
    for (int i = 0; i < READ && ok; i++)
        ok = t[read_from[i]].use == OPERAND_ABSENT ||
             (r->value[i] = tensor_values(&t[read_from[i]], false));
    return ok;
}

static bool compare(const reference *r, int which,
                    check_number (*value)(const void *user, uint64_t at), uint64_t began)
{
    return check_result(&r->job->layer.tensor[which], 1, value, r, began);
}

bool norm_check_gradient(const norm *job, uint64_t began)
{
    reference r = {.job = job, .unit = check_unit(job->type)};
    bool ok = fill(&r);
    if (ok)
        take_sums(&r);
    ok = ok && compare(&r, NORM_DX, dx_element, began) &&
         compare(&r, NORM_DSCALE, dscale_element, began) &&
         compare(&r, NORM_DBIAS, dbias_element, began);
    for (int i = 0; i < READ; i++)
        free(r.value[i]);
    free(r.g);
    return ok;
}
