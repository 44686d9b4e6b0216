#include "check.h"

#include "ui.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_THREADS 16
#define PANEL_BYTES (UINT64_C(2) << 20) /* of B as f64, in one thread: stays in its cache */
#define PANEL_COLS  128

/* The work of all threads: each takes the next panel of columns until none is left. */
typedef struct check_job {
    const matrix *a, *b, *c;
    uint64_t rows; /* compared */
    uint64_t panel_cols;
    double tolerance, floor;
    double overflow; /* norms' product from which on a partial sum may be infinite */
    _Atomic uint64_t next_col;
    atomic_bool failed; /* no memory */
    pthread_mutex_t lock;
    double error2, norm2; /* sums of squares; under lock, as is out */
    double worst;
    check_result *out;
} check_job;

static double element(const matrix *m, uint64_t row, uint64_t col)
{
    uint64_t i = m->shape.fortran_order ? col * m->shape.rows + row : row * m->shape.cols + col;
    return m->shape.item_size == 8 ? ((const double *)m->data)[i]
                                   : (double)((const float *)m->data)[i];
}

/* The i-th of `count` rows spread evenly over all of them, first and last included. */
static uint64_t sampled_row(const check_job *job, uint64_t i)
{
    uint64_t all = job->c->shape.rows;
    if (job->rows == all || job->rows < 2)
        return i;
    return (uint64_t)((double)i * (double)(all - 1) / (double)(job->rows - 1));
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

static void compare_row(check_job *job, uint64_t row, uint64_t col0, uint64_t cols,
                        const double *sums, double a_norm, const double *b_norms)
{
    double error2 = 0, norm2 = 0, worst = 0;
    uint64_t wrong = 0, worst_col = col0;
    for (uint64_t j = 0; j < cols; j++) {
        double c = element(job->c, row, col0 + j);
        double x = excess(job, c, sums[j], a_norm * b_norms[j]);
        if (isfinite(c) && isfinite(sums[j])) {
            error2 += (c - sums[j]) * (c - sums[j]);
            norm2 += sums[j] * sums[j];
        }
        wrong += !(x <= 1);
        if (!(x <= worst)) {
            worst = x;
            worst_col = col0 + j;
        }
    }
    pthread_mutex_lock(&job->lock);
    job->error2 += error2;
    job->norm2 += norm2;
    job->out->wrong += wrong;
    if (wrong > 0 && worst > job->worst) {
        job->worst = worst;
        job->out->row = row;
        job->out->col = worst_col;
        job->out->got = element(job->c, row, worst_col);
        job->out->expected = sums[worst_col - col0];
    }
    pthread_mutex_unlock(&job->lock);
}

/* sums = row of A times panel; returns the norm of the row. */
static double multiply_row(const check_job *job, uint64_t row, uint64_t cols, const double *panel,
                           double *sums)
{
    uint64_t k = job->a->shape.cols;
    double norm2 = 0;
    memset(sums, 0, cols * sizeof *sums);
    for (uint64_t p = 0; p < k; p++) {
        double a = element(job->a, row, p);
        const double *b = panel + p * cols;
        norm2 += a * a;
        for (uint64_t j = 0; j < cols; j++)
            sums[j] += a * b[j];
    }
    return sqrt(norm2);
}

/* Columns col0 ... of B, row after row as f64; their norms. */
static void pack_panel(const check_job *job, uint64_t col0, uint64_t cols, double *panel,
                       double *norms)
{
    uint64_t k = job->b->shape.rows;
    memset(norms, 0, cols * sizeof *norms);
    for (uint64_t p = 0; p < k; p++) {
        for (uint64_t j = 0; j < cols; j++) {
            double b = element(job->b, p, col0 + j);
            panel[p * cols + j] = b;
            norms[j] += b * b;
        }
    }
    for (uint64_t j = 0; j < cols; j++)
        norms[j] = sqrt(norms[j]);
}

static void *check_thread(void *argument)
{
    check_job *job = argument;
    uint64_t width = job->panel_cols, n = job->c->shape.cols;
    double *panel = calloc(width * (job->b->shape.rows + 2), sizeof *panel);
    if (!panel) {
        atomic_store(&job->failed, true);
        return NULL;
    }
    double *norms = panel + width * job->b->shape.rows;
    double *sums = norms + width;
    for (;;) {
        uint64_t col0 = atomic_fetch_add(&job->next_col, width);
        if (col0 >= n)
            break;
        uint64_t cols = n - col0 < width ? n - col0 : width;
        pack_panel(job, col0, cols, panel, norms);
        for (uint64_t i = 0; i < job->rows; i++) {
            uint64_t row = sampled_row(job, i);
            double a_norm = multiply_row(job, row, cols, panel, sums);
            compare_row(job, row, col0, cols, sums, a_norm, norms);
        }
    }
    free(panel);
    return NULL;
}

/* Unit roundoffs: f32 2^-24, f64 2^-53; an input rounded or cut to tf32 is off by at most 2^-10. */
static void set_tolerance(check_job *job, trp_compute compute)
{
    bool f64 = job->c->shape.item_size == 8;
    double k = (double)job->a->shape.cols;
    job->tolerance = (f64 ? 0x1p-53 : 0x1p-24) * (16 + 4 * sqrt(k));
    if (compute == TRP_COMPUTE_TF32)
        job->tolerance += 0x1p-9;
    job->floor = (f64 ? DBL_MIN : (double)FLT_MIN) * (k + 1); /* what underflow may take away */
    job->overflow = (f64 ? DBL_MAX : (double)FLT_MAX) / 2;
}

static uint64_t rows_to_compare(const matrix *a, const matrix *c, double max_steps)
{
    double row_steps = (double)a->shape.cols * (double)c->shape.cols;
    double rows = max_steps / (row_steps > 1 ? row_steps : 1);
    if (rows >= (double)c->shape.rows)
        return c->shape.rows;
    return rows < 1 ? 1 : (uint64_t)rows;
}

static uint64_t panel_width(uint64_t k)
{
    uint64_t fits = PANEL_BYTES / sizeof(double) / (k ? k : 1);
    return fits < 8 ? 8 : fits < PANEL_COLS ? fits : PANEL_COLS;
}

bool check_product(const matrix *a, const matrix *b, const matrix *c, trp_compute compute,
                   double max_steps, check_result *out)
{
    check_job job = {.a = a, .b = b, .c = c, .out = out};
    pthread_t threads[MAX_THREADS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int count = cores < 2 ? 1 : cores > MAX_THREADS ? MAX_THREADS : (int)cores;
    int started = 0;
    uint64_t began = ui_now();

    memset(out, 0, sizeof *out);
    set_tolerance(&job, compute);
    job.rows = out->rows = rows_to_compare(a, c, max_steps);
    job.panel_cols = panel_width(b->shape.rows);
    out->tolerance = job.tolerance;
    pthread_mutex_init(&job.lock, NULL);
    while (c->shape.data_bytes > 0 && started < count - 1 &&
           pthread_create(&threads[started], NULL, check_thread, &job) == 0)
        started++;
    if (c->shape.data_bytes > 0)
        check_thread(&job);
    while (started > 0)
        pthread_join(threads[--started], NULL);
    pthread_mutex_destroy(&job.lock);
    out->error = job.norm2 > 0 ? sqrt(job.error2 / job.norm2) : sqrt(job.error2);
    out->ns = ui_now() - began;
    return !atomic_load(&job.failed);
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
