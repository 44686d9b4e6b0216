/* Normalisation in float64: first the statistics of each group, then its elements. */
#include "layer_check.h"
#include "norm.h"
#include "ui/ui.h"

#include <math.h>
#include <stdlib.h>

/* Statistics of one group with their bounds. */
typedef struct statistic {
    double sum, size, squares; /* of all x, of |x|, of (x - mean)^2 */
    double count;
    check_number mean, inv_variance;
} statistic;

typedef struct reference {
    const norm *job;
    double *x, *scale, *bias;    /* bias: NULL, if there is none */
    double *mean, *inv_variance; /* as read; NULL: computed */
    statistic *group;
    uint64_t groups;
    double unit;
} reference;

/* Bounds statistics: a sum of n terms is off by 16 + 4 sqrt(n) units of their sizes (Higham,
 * Accuracy and Stability, section 3.5); a variance by as much of the squares it may be computed
 * from, and by the error of the mean. */
static void finish(const reference *r, statistic *s)
{
    double off = r->unit * (16 + 4 * sqrt(s->count));
    bool rms = r->job->mode == TRP_DNN_RMS;
    double mean = rms ? 0 : s->sum / s->count;
    double variance = s->squares / s->count + norm_epsilon(r->job);
    s->mean = (check_number){mean, rms ? 0 : off * s->size / s->count};
    s->inv_variance.x = 1 / sqrt(variance);
    double of_variance = off * (s->squares / s->count + mean * mean) / variance;
    s->inv_variance.bound = s->inv_variance.x * (of_variance < 1 ? of_variance : INFINITY);
    s->inv_variance.bound += 8 * r->unit * s->inv_variance.x;
}

static void take_statistics(reference *r)
{
    const norm *job = r->job;
    uint64_t count = tensor_elements(&job->layer.tensor[NORM_X]);
    for (uint64_t i = 0; i < count; i++) {
        statistic *s = &r->group[norm_index(job, job->statistic, i)];
        s->sum += r->x[i];
        s->size += fabs(r->x[i]);
        s->count++;
    }
    for (uint64_t i = 0; i < count; i++) {
        statistic *s = &r->group[norm_index(job, job->statistic, i)];
        double off = r->x[i] - (job->mode == TRP_DNN_RMS ? 0 : s->sum / s->count);
        s->squares += off * off;
    }
    for (uint64_t i = 0; i < r->groups; i++) {
        if (r->mean) {
            r->group[i].mean = (check_number){r->mean[i], 0};
            r->group[i].inv_variance = (check_number){r->inv_variance[i], 0};
        } else {
            finish(r, &r->group[i]);
        }
    }
}

static check_number element(const void *user, uint64_t at)
{
    const reference *r = user;
    const norm *job = r->job;
    const statistic *s = &r->group[norm_index(job, job->statistic, at)];
    uint64_t place = norm_index(job, job->scale, at);
    double scale = r->scale[place], bias = r->bias ? r->bias[place] : 0;
    double off = r->x[at] - s->mean.x, inverse = s->inv_variance.x;
    check_number v = {.x = off * inverse * scale + bias};
    v.bound = fabs(scale) * (s->mean.bound * (inverse + s->inv_variance.bound) +
                             fabs(off) * s->inv_variance.bound);
    /* It may be computed as x * (inv_variance * scale) + (bias - mean * inv_variance * scale). */
    v.bound +=
        8 * r->unit * (fabs(scale * inverse) * (fabs(r->x[at]) + fabs(s->mean.x)) + fabs(bias));
    return check_activation(&job->activation, v, r->unit);
}

static check_number mean_of(const void *user, uint64_t at)
{
    const reference *r = user;
    return r->group[at].mean;
}

static check_number inv_variance_of(const void *user, uint64_t at)
{
    const reference *r = user;
    return r->group[at].inv_variance;
}

static bool fill(reference *r)
{
    const norm *job = r->job;
    const tensor *t = job->layer.tensor;
    bool read = t[NORM_MEAN].use == OPERAND_INPUT;
    r->groups = 1;
    for (uint32_t i = 0; i < t[NORM_X].file.rank; i++)
        r->groups *= (uint64_t)job->statistic[i];
    r->group = calloc(r->groups, sizeof *r->group);
    if (!r->group)
        ui_error("check: out of memory");
    return r->group && (r->x = tensor_values(&t[NORM_X], false)) &&
           (r->scale = tensor_values(&t[NORM_SCALE], false)) &&
           (t[NORM_BIAS].use == OPERAND_ABSENT ||
            (r->bias = tensor_values(&t[NORM_BIAS], false))) &&
           (!read || ((r->mean = tensor_values(&t[NORM_MEAN], false)) &&
                      (r->inv_variance = tensor_values(&t[NORM_INV_VARIANCE], false))));
}

static bool compare(const reference *r, int which,
                    check_number (*value)(const void *user, uint64_t at), uint64_t began)
{
    return check_result(&r->job->layer.tensor[which], 1, value, r, began);
}

bool norm_check(norm *job)
{
    const bool backward = job->layer.tensor[NORM_DY].use != OPERAND_ABSENT;
    uint64_t began = ui_now();
    ui_progress("checking against float64");
    reference r = {.job = job, .unit = check_unit(job->type)};
    bool ok = check_inputs(&job->layer) && fill(&r) &&
              (!backward || (layer_fetch_one(&job->layer, NORM_MEAN) &&
                             layer_fetch_one(&job->layer, NORM_INV_VARIANCE)));
    if (ok)
        take_statistics(&r);
    ok = ok && compare(&r, NORM_Y, element, began) && compare(&r, NORM_MEAN, mean_of, began) &&
         compare(&r, NORM_INV_VARIANCE, inv_variance_of, began) &&
         (!backward || norm_check_gradient(job, began));
    free(r.x);
    free(r.scale);
    free(r.bias);
    free(r.mean);
    free(r.inv_variance);
    free(r.group);
    return ok;
}
