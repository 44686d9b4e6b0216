#include "product_check.h"

#include "check/sums.h"
#include "ui/ui.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

/* A comparison under way, shared by all threads. */
typedef struct check_job {
    const matrix *c;
    double tolerance, floor;
    double overflow; /* norms' product from which on a partial sum may be infinite */
    pthread_mutex_t lock;
    double error2, norm2; /* sums of squares; under lock, as is out */
    double worst;
    check_result *out;
} check_job;

static check_view view_of(const matrix *m)
{
    bool fortran = m->shape.fortran_order;
    return (check_view){.data = m->data,
                        .type = m->shape.type,
                        .row_step = fortran ? 1 : m->shape.cols,
                        .col_step = fortran ? m->shape.rows : 1};
}

/* How far c is from r, in units of what is allowed: more than 1 is wrong. What is not finite is so
 * by the inputs, or by a partial sum that went past the largest number. */
static double excess(const check_job *job, double c, double r, double norms)
{
    if (c == r)
        return 0;
    if (isfinite(c) && isfinite(r))
        return fabs(c - r) / (job->tolerance * norms + job->floor);
    if (isnan(norms))
        return isnan(c) && isnan(r) ? 0 : INFINITY;
    return norms >= job->overflow && !isfinite(c) ? 0 : INFINITY;
}

static void compare(void *user, const check_part *part)
{
    check_job *job = user;
    const check_view c = view_of(job->c);
    const double *sums = part->sums[0];
    double error2 = 0, norm2 = 0, worst = 0;
    uint64_t wrong = 0, worst_at = 0;
    for (uint64_t j = 0; j < part->cols; j++) {
        double got = check_element(&c, part->row, part->col0 + j, 0);
        double x = excess(job, got, sums[j], part->row_norm * part->col_norms[j]);
        if (isfinite(got) && isfinite(sums[j])) {
            error2 += (got - sums[j]) * (got - sums[j]);
            norm2 += sums[j] * sums[j];
        }
        wrong += !(x <= 1);
        if (!(x <= worst)) {
            worst = x;
            worst_at = j;
        }
    }
    pthread_mutex_lock(&job->lock);
    job->error2 += error2;
    job->norm2 += norm2;
    job->out->wrong += wrong;
    if (wrong > 0 && worst > job->worst) {
        job->worst = worst;
        job->out->row = part->row;
        job->out->col = part->col0 + worst_at;
        job->out->got = check_element(&c, part->row, job->out->col, 0);
        job->out->expected = sums[worst_at];
    }
    pthread_mutex_unlock(&job->lock);
}

/* Unit roundoffs: f32 2^-24, f64 2^-53; an input rounded or cut to tf32 is off by at most 2^-10. */
static void set_tolerance(check_job *job, uint64_t terms, trp_compute compute)
{
    bool f64 = job->c->shape.type == TRP_F64;
    double k = (double)terms;
    job->tolerance = (f64 ? 0x1p-53 : 0x1p-24) * (16 + 4 * sqrt(k));
    if (compute == TRP_COMPUTE_TF32)
        job->tolerance += 0x1p-9;
    job->floor = (f64 ? DBL_MIN : (double)FLT_MIN) * (k + 1); /* what underflow may take away */
    job->overflow = (f64 ? DBL_MAX : (double)FLT_MAX) / 2;
}

bool check_product(const matrix *a, const matrix *b, const matrix *c, trp_compute compute,
                   double max_steps, check_result *out)
{
    check_job job = {.c = c, .out = out};
    check_sums sums = {.a = view_of(a),
                       .b = view_of(b),
                       .m = c->shape.rows,
                       .n = c->shape.cols,
                       .k = a->shape.cols,
                       .max_steps = max_steps,
                       .compare = compare,
                       .user = &job};
    uint64_t began = ui_now();
    memset(out, 0, sizeof *out);
    set_tolerance(&job, sums.k, compute);
    out->rows = check_sums_rows(&sums);
    out->tolerance = job.tolerance;
    pthread_mutex_init(&job.lock, NULL);
    bool ok = check_sums_run(&sums);
    pthread_mutex_destroy(&job.lock);
    out->error = job.norm2 > 0 ? sqrt(job.error2 / job.norm2) : sqrt(job.error2);
    out->ns = ui_now() - began;
    return ok;
}

bool check_and_show(const char *label, const matrix *a, const matrix *b, const matrix *c,
                    trp_compute compute)
{
    check_result result;
    ui_progress("checking against a float64 product");
    if (!check_product(a, b, c, compute, CHECK_MAX_STEPS, &result)) {
        ui_error("%s: out of memory", label);
        return false;
    }
    if (result.rows < c->shape.rows)
        ui_step(result.wrong ? UI_BAD : UI_GOOD, label, result.ns,
                "against float64: relative error %.2g (a sample: %" PRIu64 " of %" PRIu64 " rows)",
                result.error, result.rows, c->shape.rows);
    else
        ui_step(result.wrong ? UI_BAD : UI_GOOD, label, result.ns,
                "against float64: relative error %.2g, %s compared", result.error,
                ui_plural(c->shape.rows * c->shape.cols, "element").s);
    if (result.wrong)
        ui_error(
            "the result is wrong: %s beyond the tolerance, %.2g of the norms of row and column; "
            "the worst is C[%" PRIu64 ", %" PRIu64 "]: %.9g, expected %.9g",
            ui_plural(result.wrong, "element").s, result.tolerance, result.row, result.col,
            result.got, result.expected);
    return result.wrong == 0;
}
