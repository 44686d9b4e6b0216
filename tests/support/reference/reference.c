#include "support/reference/reference.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/numbers/half.h"
#include "support/reference/random.h"

__attribute__((format(printf, 1, 2), noreturn)) static void misuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("reference: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count == 0 ? 1 : count, size);
    if (memory == NULL) {
        misuse("no memory for %zu x %zu bytes", count, size);
    }
    return memory;
}

/* ---- random numbers ---- */

static uint64_t rotate_left(uint64_t x, unsigned by)
{
    return (x << by) | (x >> (64u - by));
}

uint64_t ref_seed(void)
{
    uint64_t seed;
    const char *text = getenv("TROUPE_TEST_SEED");
    if (text != NULL && text[0] != '\0') {
        char *end;
        const bool hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
        errno = 0;
        seed = strtoull(text, &end, hexadecimal ? 16 : 10);
        /* strtoull() accepts blanks and a minus sign, which would not repeat the intended run. */
        if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0) {
            misuse("TROUPE_TEST_SEED=%s is not a 64-bit number", text);
        }
    } else {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        uint64_t mix = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
        mix ^= (uint64_t)getpid() << 40;
        seed = random_next(&mix);
    }
    fprintf(stderr, "TROUPE_TEST_SEED=0x%" PRIx64 "\n", seed);
    return seed;
}

void ref_rng_init(ref_rng *rng, uint64_t seed)
{
    for (size_t i = 0; i < 4; i++) {
        rng->state[i] = random_next(&seed);
    }
}

uint64_t ref_rng_next(ref_rng *rng)
{
    uint64_t *s = rng->state;
    const uint64_t result = rotate_left(s[0] + s[3], 23) + s[0];
    const uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

double ref_rng_uniform(ref_rng *rng, double low, double high)
{
    for (;;) {
        const double unit = (double)(ref_rng_next(rng) >> 11) * 0x1p-53;
        const double value = low + (high - low) * unit;
        if (value < high || !(low < high)) { /* the sum may round up to `high` */
            return value;
        }
    }
}

size_t ref_rng_below(ref_rng *rng, size_t bound)
{
    if (bound == 0) {
        misuse("ref_rng_below: nothing is below 0");
    }
    /* Discards draws from the last, incomplete run of `bound` values, so that all are equally
     * likely. */
    const uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t drawn;
    do {
        drawn = ref_rng_next(rng);
    } while (drawn >= limit);
    return (size_t)(drawn % bound);
}

/* ---- elements ---- */

const char *ref_dtype_name(ref_dtype dtype)
{
    static const char *const names[REF_DTYPE_COUNT] = {"f16", "bf16", "f32", "f64"};
    return names[dtype];
}

size_t ref_dtype_size(ref_dtype dtype)
{
    static const size_t sizes[REF_DTYPE_COUNT] = {2, 2, 4, 8};
    return sizes[dtype];
}

double ref_load(ref_dtype dtype, const void *array, size_t index)
{
    const unsigned char *from = (const unsigned char *)array + index * ref_dtype_size(dtype);
    uint16_t half;
    float single;
    double value = NAN;
    switch (dtype) {
    case REF_F16:
        memcpy(&half, from, sizeof half);
        value = (double)trp__f16_to_f32(half);
        break;
    case REF_BF16:
        memcpy(&half, from, sizeof half);
        value = (double)trp__bf16_to_f32(half);
        break;
    case REF_F32:
        memcpy(&single, from, sizeof single);
        value = (double)single;
        break;
    case REF_F64:
        memcpy(&value, from, sizeof value);
        break;
    }
    return value;
}

void ref_store(ref_dtype dtype, void *array, size_t index, double value)
{
    unsigned char *to = (unsigned char *)array + index * ref_dtype_size(dtype);
    uint16_t half;
    float single;
    switch (dtype) {
    case REF_F16:
        half = trp__f64_to_f16(value);
        memcpy(to, &half, sizeof half);
        break;
    case REF_BF16:
        half = trp__f64_to_bf16(value);
        memcpy(to, &half, sizeof half);
        break;
    case REF_F32:
        single = (float)value;
        memcpy(to, &single, sizeof single);
        break;
    case REF_F64:
        memcpy(to, &value, sizeof value);
        break;
    }
}

void ref_fill_uniform(ref_dtype dtype, void *array, size_t count, ref_rng *rng)
{
    for (size_t i = 0; i < count; i++) {
        do {
            ref_store(dtype, array, i, ref_rng_uniform(rng, -1.0, 1.0));
        } while (ref_load(dtype, array, i) >= 1.0);
    }
}

void ref_poison(void *bytes, size_t byte_count)
{
    memset(bytes, 0xff, byte_count);
}

/* ---- matrices in an array ---- */

static size_t at(const ref_matrix *matrix, size_t row, size_t column, size_t batch)
{
    return matrix->offset + batch * matrix->stride + column * matrix->ld + row;
}

size_t ref_matrix_span(const ref_matrix *matrix, size_t rows, size_t columns, size_t batch)
{
    if (rows == 0 || columns == 0 || batch == 0) {
        return matrix->offset;
    }
    return at(matrix, rows - 1, columns - 1, batch - 1) + 1;
}

static void check_ld(const char *name, const ref_matrix *matrix, size_t rows)
{
    if (matrix->ld < rows) {
        misuse("ld of %s is %zu, below its %zu rows", name, matrix->ld, rows);
    }
}

/* ---- matrix product ---- */

static bool reads_product(const ref_gemm_problem *p)
{
    return p->alpha != 0.0 && p->k != 0;
}

static void check_problem(const ref_gemm_problem *p)
{
    if (reads_product(p)) {
        check_ld("a", &p->a, p->transpose_a ? p->k : p->m);
        check_ld("b", &p->b, p->transpose_b ? p->n : p->k);
    }
    if (p->beta != 0.0) {
        check_ld("c", &p->c, p->m);
    }
}

/* Element (row, column) of op(matrix). */
static double load_op(const ref_matrix *matrix, bool transpose, size_t row, size_t column,
                      size_t batch)
{
    const size_t index =
        transpose ? at(matrix, column, row, batch) : at(matrix, row, column, batch);
    return ref_load(matrix->dtype, matrix->data, index);
}

static double finish(const ref_gemm_problem *p, double sum, size_t row, size_t column, size_t batch)
{
    double value = reads_product(p) ? p->alpha * sum : 0.0;
    if (p->beta != 0.0) {
        value += p->beta * load_op(&p->c, false, row, column, batch);
    }
    return value;
}

void ref_gemm(const ref_gemm_problem *p, double *out)
{
    const size_t batch_count = p->batch == 0 ? 1 : p->batch;
    const size_t m = p->m, n = p->n, k = reads_product(p) ? p->k : 0;
    check_problem(p);

    /* op(A) widened once, column by column, so that the inner loop below runs over adjacent
     * elements. */
    double *a = allocate(m * k, sizeof *a);
    for (size_t batch = 0; batch < batch_count; batch++) {
        for (size_t q = 0; q < k; q++) {
            for (size_t i = 0; i < m; i++) {
                a[q * m + i] = load_op(&p->a, p->transpose_a, i, q, batch);
            }
        }
        for (size_t j = 0; j < n; j++) {
            double *column = out + (batch * n + j) * m;
            for (size_t i = 0; i < m; i++) {
                column[i] = 0.0;
            }
            for (size_t q = 0; q < k; q++) {
                const double b = load_op(&p->b, p->transpose_b, q, j, batch);
                for (size_t i = 0; i < m; i++) {
                    column[i] += a[q * m + i] * b;
                }
            }
            for (size_t i = 0; i < m; i++) {
                column[i] = finish(p, column[i], i, j, batch);
            }
        }
    }
    free(a);
}

void ref_gemm_sample(const ref_gemm_problem *p, ref_rng *rng, size_t count, ref_sample *out)
{
    const size_t batch_count = p->batch == 0 ? 1 : p->batch;
    const size_t k = reads_product(p) ? p->k : 0;
    check_problem(p);
    if (p->m == 0 || p->n == 0) {
        misuse("ref_gemm_sample: C is empty");
    }
    for (size_t s = 0; s < count; s++) {
        ref_sample *sample = &out[s];
        if (s < 8) {
            sample->row = (s & 1u) != 0 ? p->m - 1 : 0;
            sample->column = (s & 2u) != 0 ? p->n - 1 : 0;
            sample->batch = (s & 4u) != 0 ? batch_count - 1 : 0;
        } else {
            sample->row = ref_rng_below(rng, p->m);
            sample->column = ref_rng_below(rng, p->n);
            sample->batch = ref_rng_below(rng, batch_count);
        }
        double sum = 0.0;
        for (size_t q = 0; q < k; q++) {
            sum += load_op(&p->a, p->transpose_a, sample->row, q, sample->batch) *
                   load_op(&p->b, p->transpose_b, q, sample->column, sample->batch);
        }
        sample->value = finish(p, sum, sample->row, sample->column, sample->batch);
    }
}

/* ---- comparison ---- */

/* Squares in long double, so that float64 values near either end of their range neither overflow
 * nor vanish. */
typedef struct comparison {
    long double difference, norm; /* sums of squares */
    double worst;                 /* largest absolute difference */
    size_t count;
    bool poisoned;
} comparison;

static void compare(comparison *c, double actual, double expected)
{
    if (!isfinite(actual) || !isfinite(expected)) {
        c->poisoned = true;
        return;
    }
    const long double difference = (long double)actual - (long double)expected;
    c->difference += difference * difference;
    c->norm += (long double)expected * (long double)expected;
    c->worst = fmax(c->worst, fabs(actual - expected));
    c->count++;
}

static comparison compare_matrices(const ref_matrix *out, size_t m, size_t n, size_t batch_count,
                                   const double *reference)
{
    comparison c = {.poisoned = false};
    check_ld("the result", out, m);
    for (size_t batch = 0; batch < (batch_count == 0 ? 1 : batch_count); batch++) {
        for (size_t j = 0; j < n; j++) {
            for (size_t i = 0; i < m; i++) {
                compare(&c, load_op(out, false, i, j, batch), reference[(batch * n + j) * m + i]);
            }
        }
    }
    return c;
}

static double quotient(const comparison *c, long double error, long double scale)
{
    if (c->poisoned) {
        return INFINITY;
    }
    if (scale == 0.0L) {
        return error == 0.0L ? 0.0 : INFINITY;
    }
    return (double)(error / scale);
}

static double relative_norm(const comparison *c)
{
    return quotient(c, sqrtl(c->difference), sqrtl(c->norm));
}

double ref_relative_error(const ref_matrix *out, size_t m, size_t n, size_t batch,
                          const double *reference)
{
    const comparison c = compare_matrices(out, m, n, batch, reference);
    return relative_norm(&c);
}

double ref_relative_error_sample(const ref_matrix *out, const ref_sample *samples, size_t count)
{
    comparison c = {.poisoned = false};
    for (size_t s = 0; s < count; s++) {
        compare(&c, load_op(out, false, samples[s].row, samples[s].column, samples[s].batch),
                samples[s].value);
    }
    return relative_norm(&c);
}

double ref_worst_error(const ref_matrix *out, size_t m, size_t n, size_t batch,
                       const double *reference)
{
    const comparison c = compare_matrices(out, m, n, batch, reference);
    const long double count = c.count == 0 ? 1.0L : (long double)c.count;
    return quotient(&c, (long double)c.worst, sqrtl(c.norm / count));
}

/*
 * With products of zero mean the partial sums grow as sqrt(k), and so does the final sum: rounding
 * k partial sums, at random, leaves about 0.2 sqrt(k) unit roundoffs relative to it. Two for each
 * sqrt(k) leaves room for other orders of summation and, in float64, for the reference's own error.
 *
 * A tensor core cuts off instead of rounding, which does not average out: up to a unit of 2^-22 for
 * each step of at least 16 products, so k / 16 of them. That is for 16-bit inputs; for TF32 the
 * rounding of the inputs dominates: each factor moves by up to 2^-10 (cut off), so each product by
 * up to 2^-9.
 */
double ref_gemm_tolerance(ref_dtype dtype, size_t k, bool tf32)
{
    static const double roundoff[REF_DTYPE_COUNT] = {0x1p-11, 0x1p-8, 0x1p-24, 0x1p-53};
    const double terms = (double)k;
    const double accumulator = dtype == REF_F64 ? 0x1p-53 : 0x1p-24;
    double tolerance = 2.0 * roundoff[dtype] + 2.0 * (1.0 + sqrt(terms)) * accumulator;
    if (dtype == REF_F16 || dtype == REF_BF16 || (dtype == REF_F32 && tf32)) {
        tolerance += terms / 16.0 * 0x1p-22;
    }
    if (dtype == REF_F32 && tf32) {
        tolerance += 0x1p-9;
    }
    return tolerance;
}

double ref_gemm_cancellation(size_t k, double alpha, double beta, const double *reference,
                             size_t count)
{
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += reference[i] * reference[i];
    if (squares == 0)
        return 1; /* the error is infinite, or there is none */
    /* The variance of a uniform value is 1/3, that of a product of two is 1/9. */
    double typical = alpha * alpha * (double)k / 9 + beta * beta / 3;
    double ratio = sqrt(typical / (squares / (double)count));
    return ratio > 1 ? ratio : 1;
}

/* ---- guards ---- */

bool ref_guards_intact(const void *before, const void *after, size_t byte_count,
                       const ref_matrix *written, size_t m, size_t n, size_t batch_count,
                       size_t *first_bad)
{
    const unsigned char *old = before, *new = after;
    const size_t size = ref_dtype_size(written->dtype);
    if (batch_count == 0) {
        batch_count = 1;
    }
    check_ld("the result", written, m);
    if (m != 0 && n != 0 && ref_matrix_span(written, m, n, batch_count) > byte_count / size) {
        misuse("ref_guards_intact: the result ends behind the array");
    }

    /* A flag for each byte that may change: the matrices of a batch may be in any order, even
     * interleaved. */
    unsigned char *may_change = allocate(byte_count, 1);
    for (size_t batch = 0; batch < batch_count; batch++) {
        for (size_t j = 0; j < n && m != 0; j++) {
            memset(may_change + at(written, 0, j, batch) * size, 1, m * size);
        }
    }
    size_t bad = 0;
    while (bad < byte_count && (may_change[bad] != 0 || old[bad] == new[bad])) {
        bad++;
    }
    free(may_change);
    if (bad < byte_count && first_bad != NULL) {
        *first_bad = bad;
    }
    return bad == byte_count;
}
