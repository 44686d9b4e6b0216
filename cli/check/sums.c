#include "sums.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_THREADS 16
#define PANEL_BYTES (UINT64_C(2) << 20) /* of B as f64, in one thread: stays in its cache */
#define PANEL_COLS  128

/* Values of the small floating types, by their definition. */
static double f16_values[1u << 16], e4m3_values[1u << 8], e5m2_values[1u << 8];
static pthread_once_t values_once = PTHREAD_ONCE_INIT;

static void fill_values(double *values, int exponent_bits, int fraction_bits, bool infinities)
{
    unsigned fractions = 1u << fraction_bits, exponents = 1u << exponent_bits;
    int bias = (int)exponents / 2 - 1;
    for (unsigned bits = 0; bits < exponents * fractions; bits++) {
        int exponent = (int)(bits / fractions);
        double fraction = (double)(bits % fractions) / fractions;
        double value =
            exponent == 0 ? ldexp(fraction, 1 - bias) : ldexp(1 + fraction, exponent - bias);
        if (infinities && exponent == (int)exponents - 1)
            value = bits % fractions ? (double)NAN : (double)INFINITY;
        if (!infinities && bits == exponents * fractions - 1)
            value = NAN;
        values[bits] = value;
        values[bits + exponents * fractions] = -value;
    }
}

static void fill_all_values(void)
{
    fill_values(f16_values, 5, 10, true);
    fill_values(e4m3_values, 4, 3, false);
    fill_values(e5m2_values, 5, 2, true);
}

static double bf16_value(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

double check_value(trp_dtype type, const void *data, uint64_t i, int part)
{
    uint64_t at = 2 * i + (uint64_t)part;
    switch (type) {
    case TRP_F64:
        return ((const double *)data)[i];
    case TRP_F32:
        return (double)((const float *)data)[i];
    case TRP_C128:
        return ((const double *)data)[at];
    case TRP_C64:
        return (double)((const float *)data)[at];
    case TRP_BF16:
        return bf16_value(((const uint16_t *)data)[i]);
    case TRP_I32:
        return ((const int32_t *)data)[i];
    case TRP_I8:
        return ((const int8_t *)data)[i];
    case TRP_U8:
        return ((const uint8_t *)data)[i];
    default:
        break;
    }
    pthread_once(&values_once, fill_all_values);
    return type == TRP_F16      ? f16_values[((const uint16_t *)data)[i]]
           : type == TRP_F8E4M3 ? e4m3_values[((const uint8_t *)data)[i]]
           : type == TRP_F8E5M2 ? e5m2_values[((const uint8_t *)data)[i]]
                                : (double)NAN;
}

double check_element(const check_view *view, uint64_t row, uint64_t col, int part)
{
    double value =
        check_value(view->type, view->data, row * view->row_step + col * view->col_step, part);
    return part && view->conjugate ? -value : value;
}

static double factor(const check_view *view, uint64_t line)
{
    return view->scale ? (double)view->scale[view->scale_each ? line : 0] : 1;
}

/* Work shared by all threads: each takes the next panel of columns until none is left. */
typedef struct work {
    const check_sums *sums;
    uint64_t rows; /* rows to compute */
    uint64_t panel_cols;
    int planes; /* 2: complex */
    _Atomic uint64_t next_col;
    atomic_bool failed; /* no memory */
} work;

/* Memory of one thread. */
typedef struct panel {
    uint64_t col0, cols;
    double *plane[2]; /* columns col0 ... of B, row after row */
    double *norms, *sums[2];
} panel;

/* Returns the i-th of `rows` rows, spread evenly from first to last. */
static uint64_t sampled_row(const work *w, uint64_t i)
{
    uint64_t all = w->sums->m;
    if (w->rows == all || w->rows < 2)
        return i;
    return (uint64_t)((double)i * (double)(all - 1) / (double)(w->rows - 1));
}

static void add_products(double *to, double a, const double *b, uint64_t count)
{
    for (uint64_t j = 0; j < count; j++)
        to[j] += a * b[j];
}

/* sums = row of A times panel; returns the norm of the row. */
static double multiply_row(const work *w, uint64_t row, const panel *x)
{
    const check_view *a = &w->sums->a;
    double norm2 = 0, scale = factor(a, row);
    memset(x->sums[0], 0, x->cols * sizeof(double));
    memset(x->sums[1], 0, x->cols * sizeof(double));
    for (uint64_t p = 0; p < w->sums->k; p++) {
        double re = check_element(a, row, p, 0) * scale, im = 0;
        add_products(x->sums[0], re, x->plane[0] + p * x->cols, x->cols);
        if (w->planes == 2) {
            im = check_element(a, row, p, 1) * scale;
            add_products(x->sums[0], -im, x->plane[1] + p * x->cols, x->cols);
            add_products(x->sums[1], re, x->plane[1] + p * x->cols, x->cols);
            add_products(x->sums[1], im, x->plane[0] + p * x->cols, x->cols);
        }
        norm2 += re * re + im * im;
    }
    return sqrt(norm2);
}

static void pack_panel(const work *w, const panel *x)
{
    memset(x->norms, 0, x->cols * sizeof *x->norms);
    for (uint64_t p = 0; p < w->sums->k; p++) {
        for (int part = 0; part < w->planes; part++) {
            double *to = x->plane[part] + p * x->cols;
            for (uint64_t j = 0; j < x->cols; j++) {
                to[j] = check_element(&w->sums->b, p, x->col0 + j, part) *
                        factor(&w->sums->b, x->col0 + j);
                x->norms[j] += to[j] * to[j];
            }
        }
    }
    for (uint64_t j = 0; j < x->cols; j++)
        x->norms[j] = sqrt(x->norms[j]);
}

static void *run_thread(void *argument)
{
    work *w = argument;
    uint64_t width = w->panel_cols, n = w->sums->n, plane = width * w->sums->k;
    double *memory = calloc(2 * plane + 3 * width, sizeof *memory);
    if (!memory) {
        atomic_store(&w->failed, true);
        return NULL;
    }
    double *norms = memory + 2 * plane;
    panel x = {.plane = {memory, memory + plane},
               .norms = norms,
               .sums = {norms + width, norms + 2 * width}};
    for (;;) {
        x.col0 = atomic_fetch_add(&w->next_col, width);
        if (x.col0 >= n)
            break;
        x.cols = n - x.col0 < width ? n - x.col0 : width;
        pack_panel(w, &x);
        for (uint64_t i = 0; i < w->rows; i++) {
            check_part part = {.row = sampled_row(w, i),
                               .col0 = x.col0,
                               .cols = x.cols,
                               .sums = {x.sums[0], x.sums[1]},
                               .col_norms = x.norms};
            part.row_norm = multiply_row(w, part.row, &x);
            w->sums->compare(w->sums->user, &part);
        }
    }
    free(memory);
    return NULL;
}

uint64_t check_sums_rows(const check_sums *sums)
{
    double row_steps = (double)sums->k * (double)sums->n;
    double rows = sums->max_steps / (row_steps > 1 ? row_steps : 1);
    if (rows >= (double)sums->m)
        return sums->m;
    return rows < 1 ? 1 : (uint64_t)rows;
}

static uint64_t panel_width(uint64_t k)
{
    uint64_t fits = PANEL_BYTES / sizeof(double) / (k ? k : 1);
    return fits < 8 ? 8 : fits < PANEL_COLS ? fits : PANEL_COLS;
}

bool check_sums_run(const check_sums *sums)
{
    work w = {.sums = sums,
              .rows = check_sums_rows(sums),
              .panel_cols = panel_width(sums->k),
              .planes = sums->a.type == TRP_C64 || sums->a.type == TRP_C128 ? 2 : 1};
    pthread_t threads[MAX_THREADS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int count = cores < 2 ? 1 : cores > MAX_THREADS ? MAX_THREADS : (int)cores;
    int started = 0;
    if (sums->m == 0 || sums->n == 0)
        return true;
    while (started < count - 1 && pthread_create(&threads[started], NULL, run_thread, &w) == 0)
        started++;
    run_thread(&w);
    while (started > 0)
        pthread_join(threads[--started], NULL);
    return !atomic_load(&w.failed);
}
