#include "matmul_check.h"

#include "check/type.h"
#include "ui/ui.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A comparison in progress, shared by all threads. */
typedef struct job {
    const check_matmul *x;
    bool whole;       /* all rows are compared */
    double unit;      /* of the arithmetic */
    double tolerance; /* relative to the norms of row and column */
    double floor;     /* error of underflow in a sum */
    double overflow;  /* norms from which sums may overflow */
    check_type d;
    pthread_mutex_t lock;              /* guards the fields below */
    double *gradient, *gradient_bound; /* sums over the rows, for each column */
    double largest, largest_bound;     /* of |activation(X + bias)| */
    double error2, norm2;
    check_matmul_result *out;
} job;

/* Findings in one part, merged into the job at its end. */
typedef struct findings {
    uint64_t wrong;
    double worst; /* largest error relative to its bound */
    check_matmul_result at;
    double error2, norm2;
    double largest, largest_bound;
} findings;

/* A value in float64 and the allowed error. Infinite: any value is right, except a finite one where
 * an infinity is expected. */
typedef struct value {
    double re, im, bound;
} value;

static void compare_value(findings *f, const char *what, uint64_t row, uint64_t col, double got_re,
                          double got_im, value v)
{
    double off = hypot(got_re - v.re, got_im - v.im);
    double part = off <= 0 || isinf(v.bound) ? 0 : off / v.bound;
    if (isnan(v.re) && isnan(got_re))
        part = 0;
    if (isinf(v.re) && isfinite(got_re))
        part = INFINITY;
    bool right = part <= 1;
    f->wrong += !right;
    if (!right && !(part <= DBL_MAX)) /* not finite, or a bound of 0 */
        part = DBL_MAX;
    if (part <= f->worst)
        return;
    f->worst = part;
    f->at = (check_matmul_result){
        .what = what, .row = row, .col = col, .got = got_re, .expected = v.re, .bound = v.bound};
}

/* Rounds a value to a type and widens its bound. */
static value rounded_to(value v, check_type t, double scale)
{
    v.re *= scale;
    v.bound *= fabs(scale);
    v.bound += t.unit * (fabs(v.re) + fabs(v.im) + v.bound) + t.smallest;
    if (t.saturates)
        v.re = check_saturated(v.re, t);
    else if (!t.saturates && fabs(v.re) + fabs(v.im) + v.bound > t.largest)
        v.bound = INFINITY; /* may be infinite */
    return v;
}

/* Steps. */

static double part_of(const check_view *view, uint64_t row, uint64_t col, int part)
{
    return view->data ? check_element(view, row, col, part) : 0;
}

/* Computes alpha A B + beta C + bias. */
static value before_activation(const job *j, const check_part *part, uint64_t i)
{
    const check_matmul *x = j->x;
    uint64_t row = part->row, col = part->col0 + i;
    bool complex = x->a.type == TRP_C64 || x->a.type == TRP_C128;
    double s[2] = {part->sums[0][i], complex ? part->sums[1][i] : 0};
    double c[2] = {part_of(&x->c, row, col, 0), complex ? part_of(&x->c, row, col, 1) : 0};
    double bias = part_of(&x->bias, 0, col, 0);
    double alpha = hypot(x->alpha.re, x->alpha.im), beta = hypot(x->beta.re, x->beta.im);
    double norms = part->row_norm * part->col_norms[i];
    value v = {.re = x->alpha.re * s[0] - x->alpha.im * s[1] + x->beta.re * c[0] -
                     x->beta.im * c[1] + bias,
               .im = 0};
    if (complex) /* otherwise 0 times an infinity would make it NaN */
        v.im = x->alpha.re * s[1] + x->alpha.im * s[0] + x->beta.re * c[1] + x->beta.im * c[0];
    v.bound = alpha * (j->tolerance * norms + j->floor) +
              4 * j->unit * (alpha * hypot(s[0], s[1]) + beta * hypot(c[0], c[1]) + fabs(bias)) +
              j->floor;
    if (norms * (alpha + 1) >= j->overflow)
        v.bound = INFINITY;
    return v;
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    double u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x), t = tanh(u);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

static bool bit_at(const check_view *bits, uint64_t row, uint64_t col)
{
    const uint8_t *line = (const uint8_t *)bits->data + row * bits->row_step;
    return line[col / 8] >> (col % 8) & 1;
}

static value activated(const job *j, uint64_t row, uint64_t col, value v)
{
    const check_matmul *x = j->x;
    double curve = x->on_gpu ? 0x1p-10 : 16 * j->unit; /* relative error of an exponential */
    switch (x->activation) {
    case TRP_ACTIVATION_RELU:
        v.re = v.re > 0 ? v.re : 0;
        break;
    case TRP_ACTIVATION_GELU:
        v.bound = 1.2 * v.bound + curve * fabs(v.re);
        v.re = gelu(v.re);
        break;
    case TRP_ACTIVATION_SILU:
        v.bound = 1.2 * v.bound + curve * fabs(v.re);
        v.re = v.re / (1 + exp(-v.re));
        break;
    case TRP_ACTIVATION_DRELU:
        if (!bit_at(&x->aux, row, col))
            v = (value){0, 0, 0};
        break;
    case TRP_ACTIVATION_DGELU:
        v.bound = 1.2 * v.bound + curve * fabs(v.re);
        v.re *= gelu_slope(check_element(&x->aux, row, col, 0));
        break;
    default:
        return v;
    }
    if (isnan(v.re))
        v.bound = INFINITY;
    return v;
}

/* Computes an i32 result, which wraps; float64 holds the sums exactly. */
static double wrapped(const check_matmul *x, const check_part *part, uint64_t i)
{
    int64_t c = (int64_t)part_of(&x->c, part->row, part->col0 + i, 0);
    uint64_t sum = (uint64_t)(int64_t)x->alpha.re * (uint64_t)(int64_t)part->sums[0][i] +
                   (uint64_t)(int64_t)x->beta.re * (uint64_t)c;
    return (int32_t)(uint32_t)sum;
}

static void compare_aux(const job *j, findings *f, uint64_t row, uint64_t col, value v)
{
    const check_view *aux = &j->x->aux;
    if (!aux->data)
        return;
    if (j->x->activation == TRP_ACTIVATION_GELU)
        compare_value(f, "aux", row, col, check_element(aux, row, col, 0), 0,
                      rounded_to(v, check_type_of(aux->type), 1));
    /* Near 0 either bit is right. */
    if (j->x->activation == TRP_ACTIVATION_RELU && fabs(v.re) > v.bound)
        compare_value(f, "aux", row, col, bit_at(aux, row, col), 0, (value){v.re > 0, 0, 0});
}

/* Adds to the column sums, under lock. */
static void add_to_gradient(job *j, uint64_t col, value v)
{
    j->gradient[col] += v.re;
    j->gradient_bound[col] += v.bound + j->unit * (double)j->x->m * fabs(v.re);
}

static void merge(job *j, const findings *f)
{
    check_matmul_result *out = j->out;
    j->error2 += f->error2;
    j->norm2 += f->norm2;
    j->largest = f->largest > j->largest ? f->largest : j->largest;
    j->largest_bound = f->largest_bound > j->largest_bound ? f->largest_bound : j->largest_bound;
    out->wrong += f->wrong;
    if (f->worst > out->of_bound) {
        out->of_bound = f->worst;
        out->what = f->at.what;
        out->row = f->at.row;
        out->col = f->at.col;
        out->got = f->at.got;
        out->expected = f->at.expected;
        out->bound = f->at.bound;
    }
}

static void compare_d(const job *j, findings *f, uint64_t row, uint64_t col, value v)
{
    const check_view *d = &j->x->d;
    bool complex = d->type == TRP_C64 || d->type == TRP_C128;
    double re = check_element(d, row, col, 0), im = complex ? check_element(d, row, col, 1) : 0;
    compare_value(f, "D", row, col, re, im, v);
    if (isfinite(re) && isfinite(im) && isfinite(v.re) && isfinite(v.im)) {
        f->error2 += (re - v.re) * (re - v.re) + (im - v.im) * (im - v.im);
        f->norm2 += v.re * v.re + v.im * v.im;
    }
}

static void compare_part(void *user, const check_part *part)
{
    job *j = user;
    const check_matmul *x = j->x;
    findings f = {0};
    value line[256]; /* a panel has fewer columns */
    for (uint64_t i = 0; i < part->cols; i++) {
        uint64_t row = part->row, col = part->col0 + i;
        if (x->d.type == TRP_I32) {
            line[i] = (value){wrapped(x, part, i), 0, 0};
            compare_d(j, &f, row, col, line[i]);
            continue;
        }
        value v = before_activation(j, part, i);
        compare_aux(j, &f, row, col, v);
        v = line[i] = activated(j, row, col, v);
        f.largest = fabs(v.re) > f.largest ? fabs(v.re) : f.largest;
        f.largest_bound = v.bound > f.largest_bound ? v.bound : f.largest_bound;
        compare_d(j, &f, row, col, rounded_to(v, j->d, x->scale_d));
    }
    pthread_mutex_lock(&j->lock);
    merge(j, &f);
    for (uint64_t i = 0; j->gradient && i < part->cols; i++)
        add_to_gradient(j, part->col0 + i, line[i]);
    pthread_mutex_unlock(&j->lock);
}

/* Comparisons at the end. */

/* Sums a line of op(A) or op(B) over k. */
static value input_sum(const job *j, uint64_t line)
{
    const check_matmul *x = j->x;
    bool of_a = x->gradient_of == TRP_BIAS_GRADIENT_A;
    value v = {0};
    for (uint64_t p = 0; p < x->k; p++) {
        double e = of_a ? check_element(&x->a, line, p, 0) : check_element(&x->b, p, line, 0);
        v.re += e;
        v.bound += fabs(e) * j->unit * (double)x->k;
    }
    return v;
}

static void compare_gradient(job *j)
{
    const check_matmul *x = j->x;
    findings f = {0};
    bool of_d = x->gradient_of == TRP_BIAS_GRADIENT_D;
    uint64_t count = x->gradient_of == TRP_BIAS_GRADIENT_A ? x->m : x->n;
    if (x->gradient_of == TRP_BIAS_GRADIENT_NONE || (of_d && !j->whole))
        return;
    for (uint64_t i = 0; i < count; i++) {
        value v = of_d ? (value){j->gradient[i], 0, j->gradient_bound[i]} : input_sum(j, i);
        /* The sum may be of the rounded D. */
        if (of_d)
            v.bound += j->d.unit * j->gradient_bound[i] / (j->unit * (double)x->m);
        compare_value(&f, "gradient", 0, i, check_element(&x->gradient, 0, i, 0), 0,
                      rounded_to(v, check_type_of(x->gradient.type), 1));
    }
    merge(j, &f);
}

static void compare_amax(job *j)
{
    findings f = {0};
    double got = j->x->amax ? (double)*j->x->amax : 0;
    value v = {j->largest, 0, j->largest_bound + 0x1p-23 * j->largest};
    if (!j->x->amax || (!j->whole && got >= v.re))
        return;
    compare_value(&f, "amax", 0, 0, got, 0, v);
    merge(j, &f);
}

static void set_tolerance(job *j)
{
    const check_matmul *x = j->x;
    trp_dtype type = x->a.type;
    double k = (double)x->k, steps = 16 + 4 * sqrt(k);
    bool f64 = type == TRP_F64 || type == TRP_C128;
    bool complex = type == TRP_C64 || type == TRP_C128;
    j->unit = f64 ? 0x1p-53 : 0x1p-24;
    if (x->on_gpu && trp_dtype_bits(type) == 16 && 16 + k / 16 > steps)
        steps = 16 + k / 16;
    j->tolerance = type == TRP_I8 ? j->unit : j->unit * steps * (complex ? 2 : 1);
    if (x->compute == TRP_COMPUTE_TF32)
        j->tolerance += 0x1p-9;
    if (x->on_gpu && trp_dtype_bits(type) == 8 && type != TRP_I8)
        j->tolerance += 0x1p-10 + (x->fast_accumulation ? k / 32 * 0x1p-13 : 0);
    j->floor = (f64 ? DBL_MIN : (double)FLT_MIN) * (k + 1);
    j->overflow = (f64 ? DBL_MAX : (double)FLT_MAX) / 2;
    j->d = check_type_of(x->d.type);
}

static check_view view_of(const matrix *m)
{
    const bool fortran = m->shape.fortran_order;
    return (check_view){.data = m->data,
                        .type = m->shape.type,
                        .row_step = fortran ? 1 : m->shape.cols,
                        .col_step = fortran ? m->shape.rows : 1};
}

check_matmul check_matmul_of(const matrix *a, const matrix *b, const matrix *c)
{
    return (check_matmul){.a = view_of(a),
                          .b = view_of(b),
                          .m = c->shape.rows,
                          .n = c->shape.cols,
                          .k = a->shape.cols,
                          .alpha = trp_real(1),
                          .scale_d = 1,
                          .d = view_of(c)};
}

bool check_matmul_run(const check_matmul *check, double max_steps, check_matmul_result *out)
{
    job j = {.x = check, .out = out};
    check_sums sums = {.a = check->a,
                       .b = check->b,
                       .m = check->m,
                       .n = check->n,
                       .k = check->k,
                       .max_steps = max_steps,
                       .compare = compare_part,
                       .user = &j};
    uint64_t began = ui_now();
    memset(out, 0, sizeof *out);
    set_tolerance(&j);
    out->rows = check_sums_rows(&sums);
    j.whole = out->rows == check->m;
    if (j.whole && check->gradient_of == TRP_BIAS_GRADIENT_D) {
        j.gradient = calloc(2 * check->n + 1, sizeof *j.gradient);
        if (!j.gradient)
            return false;
        j.gradient_bound = j.gradient + check->n;
    }
    pthread_mutex_init(&j.lock, NULL);
    bool ok = check_sums_run(&sums);
    pthread_mutex_destroy(&j.lock);
    if (ok && check->m > 0 && check->n > 0) {
        compare_gradient(&j);
        compare_amax(&j);
    }
    free(j.gradient);
    out->error = j.norm2 > 0 ? sqrt(j.error2 / j.norm2) : sqrt(j.error2);
    out->ns = ui_now() - began;
    return ok;
}

bool check_matmul_and_show(const char *label, const check_matmul *check)
{
    check_matmul_result r;
    char compared[64];
    ui_progress("checking against a float64 product");
    if (!check_matmul_run(check, CHECK_MAX_STEPS, &r)) {
        ui_error("%s: out of memory", label);
        return false;
    }
    if (r.rows < check->m)
        snprintf(compared, sizeof compared, "a sample: %" PRIu64 " of %" PRIu64 " rows", r.rows,
                 check->m);
    else
        snprintf(compared, sizeof compared, "%s compared",
                 ui_plural(check->m * check->n, "element").s);
    if (r.wrong == 0)
        ui_step(UI_GOOD, label, r.ns,
                "against float64: relative error %.2g, %.2g of the bound at most; %s", r.error,
                r.of_bound, compared);
    else
        ui_step(UI_BAD, label, r.ns, "against float64: relative error %.2g; %s", r.error, compared);
    if (r.wrong)
        ui_error("the result is wrong: %s beyond its bound; the worst is %s[%" PRIu64 ", %" PRIu64
                 "]: %.9g, expected %.9g within %.2g",
                 ui_plural(r.wrong, "value").s, r.what, r.row, r.col, r.got, r.expected, r.bound);
    return r.wrong == 0;
}

uint64_t check_conversion(const check_view *from, const check_view *to, uint64_t rows,
                          uint64_t cols, uint64_t *row, uint64_t *col)
{
    int parts = to->type == TRP_C64 || to->type == TRP_C128 ? 2 : 1;
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < rows; i++) {
        for (uint64_t j = 0; j < cols * (uint64_t)parts; j++) {
            int part = (int)(j % (uint64_t)parts);
            uint64_t at = j / (uint64_t)parts;
            double x = check_element(from, i, at, part), y = check_element(to, i, at, part);
            if (!check_is_nearest(x, y, to->type) && wrong++ == 0) {
                *row = i;
                *col = at;
            }
        }
    }
    return wrong;
}
