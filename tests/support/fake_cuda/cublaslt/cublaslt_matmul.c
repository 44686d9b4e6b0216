/* The products of the fake cuBLASLt: sums in f64, rounded once to the type of the result. */
#include "support/fake_cuda/cublaslt/cublaslt.h"
#include "support/fake_cuda/settings.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define T(name) TRP__CUBLASLT_##name

enum { FAST_NS = 10000, SLOW_NS = 100000000 };

/* One call. */

typedef struct job {
    struct job *next; /* in the list of waiting jobs */
    lt_problem p;
    uint64_t a, b, c, d, workspace, workspace_bytes;
    uint32_t algo;           /* number of the algorithm; 0: none was given */
    fake_scalar alpha, beta; /* `at` is NULL for a scalar that is known; `type` is unused */
} job;

/* Jobs are too large for an operation of a stream, which holds a pointer. A job whose stream has
 * ended never runs; it stays in this list, so that leak checkers find it. */
static job *waiting;
static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER;

static void job_add(job *j)
{
    pthread_mutex_lock(&waiting_lock);
    j->next = waiting;
    waiting = j;
    pthread_mutex_unlock(&waiting_lock);
}

static void job_remove(job *j)
{
    pthread_mutex_lock(&waiting_lock);
    job **at = &waiting;
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    pthread_mutex_unlock(&waiting_lock);
}

/* State of one product of a batch. All memory that it uses is pinned. */
typedef struct work {
    const lt_problem *p;
    fake_pin pins[16];
    size_t pinned;
    bool failed;
    const char *a, *b, *c, *alpha;
    char *d, *bias, *aux;
    const char *a_scale, *b_scale;
    fake_number one_alpha, beta;
    double d_scale, aux_scale, d_amax, aux_amax;
    double *sums; /* sums of bias gradients */
    /* op(A), op(B) and a column of the sum: real and imaginary parts */
    double *planes_a[2], *planes_b[2], *sum[2];
} work;

/* Returns NULL if the address is 0, or if the stream has faulted, and then sets `failed`. */
static char *reach(work *w, uint64_t address, size_t bytes, bool write)
{
    if (address == 0 || w->failed)
        return NULL;
    if (!fake_cuda_reach(&w->pins[w->pinned], address, bytes, write)) {
        w->failed = true;
        return NULL;
    }
    return w->pins[w->pinned++].at;
}

static void let_go(work *w)
{
    while (w->pinned > 0)
        fake_cuda_let_go(&w->pins[--w->pinned]);
}

/* Reads an f32; `preset` if there is none. */
static double read_factor(work *w, uint64_t address, double preset)
{
    const char *at = reach(w, address, 4, false);
    return at ? fake_lt_load_real(T(R_32F), at) : preset;
}

static size_t span(const lt_layout *x)
{
    uint64_t lines = x->order == T(ORDER_COL) ? x->columns : x->rows;
    uint64_t line = x->order == T(ORDER_COL) ? x->rows : x->columns;
    return ((lines - 1) * (uint64_t)x->ld + line) * fake_lt_bytes((int)x->type);
}

static uint64_t matrix_at(const lt_layout *x, uint64_t base, int64_t index)
{
    return base + (uint64_t)(index * x->stride) * fake_lt_bytes((int)x->type);
}

static size_t place(const lt_layout *x, int64_t row, int64_t column)
{
    int64_t index = x->order == T(ORDER_COL) ? row + column * x->ld : column + row * x->ld;
    return (size_t)index * fake_lt_bytes((int)x->type);
}

/* Scale factors: `outer` is one of `count` rows of op(A) or columns of op(B). */

static int64_t blocks(int64_t count)
{
    return (count + 127) / 128;
}

/* Returns the index of a factor. Factors of 128x128 blocks follow each other along k, padded to a
 * multiple of 4; those of 1x128 blocks are grouped by their place in k. */
static size_t factor_place(int mode, int64_t outer, int64_t count, int64_t l, int64_t k)
{
    switch (mode) {
    case T(MATMUL_MATRIX_SCALE_SCALAR_32F):
        return 0;
    case T(MATMUL_MATRIX_SCALE_OUTER_VEC_32F):
        return (size_t)outer;
    case T(MATMUL_MATRIX_SCALE_VEC128_32F):
        return (size_t)(l / 128 * count + outer);
    default:
        return (size_t)(outer / 128 * ((blocks(k) + 3) / 4 * 4) + l / 128);
    }
}

static double factor(const char *scales, int mode, int64_t outer, int64_t count, int64_t l,
                     int64_t k)
{
    return scales ? fake_lt_load_real(T(R_32F), scales + 4 * factor_place(mode, outer, count, l, k))
                  : 1;
}

static size_t factor_bytes(int mode, int64_t count, int64_t k)
{
    return 4 * (factor_place(mode, count - 1, count, k - 1, k) + 1);
}

/* Inputs of the product. */

static void unpack_a(work *w)
{
    const lt_problem *p = w->p;
    int op = p->desc.trans_a;
    for (int64_t l = 0, to = 0; l < p->k; l++) {
        for (int64_t i = 0; i < p->m; i++, to++) {
            size_t at = op == 0 ? place(&p->a, i, l) : place(&p->a, l, i);
            fake_number value = fake_lt_load((int)p->a.type, w->a + at);
            double by = factor(w->a_scale, p->desc.a_mode, i, p->m, l, p->k);
            w->planes_a[0][to] = creal(value) * by;
            w->planes_a[1][to] = op == TRP__CUBLAS_OP_C ? -cimag(value) : cimag(value);
        }
    }
}

static void unpack_b(work *w)
{
    const lt_problem *p = w->p;
    int op = p->desc.trans_b;
    for (int64_t j = 0, to = 0; j < p->n; j++) {
        for (int64_t l = 0; l < p->k; l++, to++) {
            size_t at = op == 0 ? place(&p->b, l, j) : place(&p->b, j, l);
            fake_number value = fake_lt_load((int)p->b.type, w->b + at);
            double by = factor(w->b_scale, p->desc.b_mode, j, p->n, l, p->k);
            w->planes_b[0][to] = creal(value) * by;
            w->planes_b[1][to] = op == TRP__CUBLAS_OP_C ? -cimag(value) : cimag(value);
        }
    }
}

static void add(double *restrict sum, const double *restrict x, double by, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        sum[i] += x[i] * by;
}

static void sum_column(const work *w, int64_t j)
{
    const lt_problem *p = w->p;
    bool complex_sum = fake_lt_complex((int)p->a.type);
    memset(w->sum[0], 0, (size_t)p->m * sizeof(double));
    memset(w->sum[1], 0, (size_t)p->m * sizeof(double));
    for (int64_t l = 0; l < p->k; l++) {
        int64_t at = l * p->m, by = j * p->k + l;
        add(w->sum[0], w->planes_a[0] + at, w->planes_b[0][by], p->m);
        if (!complex_sum)
            continue;
        add(w->sum[0], w->planes_a[1] + at, -w->planes_b[1][by], p->m);
        add(w->sum[1], w->planes_a[0] + at, w->planes_b[1][by], p->m);
        add(w->sum[1], w->planes_a[1] + at, w->planes_b[0][by], p->m);
    }
}

/* Epilogues. */

#define GELU_A 0.79788456080286535588 /* the square root of 2 / pi */
#define GELU_B 0.044715

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(GELU_A * (x + GELU_B * x * x * x)));
}

static double gelu_slope(double x)
{
    double t = tanh(GELU_A * (x + GELU_B * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * GELU_A * (1 + 3 * GELU_B * x * x);
}

static double larger(double most, double value)
{
    return fabs(value) > most || isnan(value) ? fabs(value) : most;
}

/* Returns the activation of an element, or its gradient; writes or reads `aux`. */
static double activate(work *w, int64_t i, int64_t j, double x)
{
    const lt_problem *p = w->p;
    uint32_t e = p->desc.epilogue;
    size_t place_in_aux = (size_t)(i + j * p->desc.aux_ld);
    size_t byte = place_in_aux / 8;
    unsigned bit = 1u << (place_in_aux % 8);
    char *at = w->aux ? w->aux + place_in_aux * fake_lt_bytes(p->aux_type) : NULL;
    if (e & LT_DRELU)
        return (unsigned char)w->aux[byte] & bit ? x : 0;
    if (e & LT_DGELU)
        return x * gelu_slope(fake_lt_load_real(p->aux_type, at));
    if (e & LT_RELU && w->aux)
        w->aux[byte] = (char)(((unsigned char)w->aux[byte] & ~bit) | (x > 0 ? bit : 0));
    if (e & LT_RELU)
        return x < 0 ? 0 : x;
    if (e & LT_GELU && w->aux) {
        w->aux_amax = larger(w->aux_amax, x);
        fake_lt_store_real(p->aux_type, at, x * w->aux_scale);
    }
    return e & LT_GELU ? gelu(x) : x;
}

/* Arithmetic of 32-bit integers wraps. */
static void finish_integer(work *w, int64_t i, int64_t j, double alpha)
{
    const lt_problem *p = w->p;
    uint64_t value = (uint64_t)(int64_t)alpha * (uint64_t)(int64_t)w->sum[0][i];
    if (w->beta != 0) {
        double c = fake_lt_load_real((int)p->c.type, w->c + place(&p->c, i, j));
        value += (uint64_t)(int64_t)creal(w->beta) * (uint64_t)(int64_t)c;
    }
    int32_t wrapped = (int32_t)(uint32_t)value;
    memcpy(w->d + place(&p->d, i, j), &wrapped, sizeof wrapped);
}

static void finish(work *w, int64_t i, int64_t j)
{
    const lt_problem *p = w->p;
    uint32_t e = p->desc.epilogue;
    int scalar = p->desc.scale_type;
    fake_number alpha =
        w->alpha ? fake_times(w->one_alpha,
                              fake_lt_load(scalar, w->alpha + (size_t)i * fake_lt_bytes(scalar)))
                 : w->one_alpha;
    if ((int)p->d.type == T(R_32I)) {
        finish_integer(w, i, j, creal(alpha));
        return;
    }
    fake_number value = fake_times(alpha, fake_pair(w->sum[0][i], w->sum[1][i]));
    if (w->beta != 0)
        value += fake_times(w->beta, fake_lt_load((int)p->c.type, w->c + place(&p->c, i, j)));
    if (e & LT_BIAS)
        value += fake_lt_load_real(p->bias_type, w->bias + (size_t)i * fake_lt_bytes(p->bias_type));
    if (e & (LT_RELU | LT_GELU | LT_DRELU | LT_DGELU))
        value = fake_pair(activate(w, i, j, creal(value)), 0);
    if (e & LT_BGRAD)
        w->sums[i] += creal(value);
    if (fake_lt_is_f8((int)p->d.type)) {
        w->d_amax = larger(w->d_amax, creal(value));
        value = fake_pair(creal(value) * w->d_scale, 0);
    }
    fake_lt_store((int)p->d.type, w->d + place(&p->d, i, j), value);
}

/* Sums op(A) or op(B) over k. */
static void sum_operand(work *w)
{
    const lt_problem *p = w->p;
    for (int64_t l = 0; l < p->k; l++) {
        if (p->desc.epilogue & LT_BGRADA)
            add(w->sums, w->planes_a[0] + l * p->m, 1, p->m);
        for (int64_t j = 0; p->desc.epilogue & LT_BGRADB && j < p->n; j++)
            w->sums[j] += w->planes_b[0][j * p->k + l];
    }
}

static int64_t bias_length(const lt_problem *p)
{
    return p->desc.epilogue & LT_BGRADB ? p->n : p->m;
}

/* Pins the operands of product `index` of the batch. */
static void reach_operands(work *w, const job *j, int64_t index)
{
    const lt_problem *p = w->p;
    const lt_desc *d = &p->desc;
    uint32_t e = d->epilogue;
    size_t scalar = fake_lt_bytes(d->scale_type);
    w->a = reach(w, matrix_at(&p->a, j->a, index), span(&p->a), false);
    w->b = reach(w, matrix_at(&p->b, j->b, index), span(&p->b), false);
    if (w->beta != 0)
        w->c = reach(w, matrix_at(&p->c, j->c, index), span(&p->c), false);
    w->d = reach(w, matrix_at(&p->d, j->d, index), span(&p->d), true);
    if (d->pointer_mode > T(POINTER_MODE_DEVICE_VECTOR))
        w->alpha = reach(w, (uintptr_t)j->alpha.at + (uint64_t)(index * d->alpha_stride) * scalar,
                         (size_t)p->m * scalar, false);
    if (e & (LT_BIAS | LT_BGRAD | LT_BGRADA | LT_BGRADB)) {
        size_t bytes = fake_lt_bytes(p->bias_type);
        w->bias = reach(w, d->bias + (uint64_t)(index * d->bias_stride) * bytes,
                        (size_t)bias_length(p) * bytes, !(e & LT_BIAS));
    }
    if (e & LT_AUX) {
        bool mask = e & (LT_RELU | LT_DRELU);
        size_t lines = (size_t)((p->n - 1) * d->aux_ld + p->m),
               stride = (size_t)(index * d->aux_stride);
        size_t bytes = fake_lt_bytes(p->aux_type);
        w->aux = reach(w, d->aux + (mask ? stride / 8 : stride * bytes),
                       mask ? (lines + 7) / 8 : lines * bytes, !(e & (LT_DRELU | LT_DGELU)));
    }
    if (d->a_scale)
        w->a_scale = reach(w, d->a_scale, factor_bytes(d->a_mode, p->m, p->k), false);
    if (d->b_scale)
        w->b_scale = reach(w, d->b_scale, factor_bytes(d->b_mode, p->n, p->k), false);
    w->d_scale = read_factor(w, d->d_scale, 1);
    w->aux_scale = read_factor(w, d->aux_scale, 1);
}

static void run_one(work *w, const job *j, int64_t index)
{
    const lt_problem *p = w->p;
    w->alpha = NULL;
    reach_operands(w, j, index);
    if (!w->failed) {
        unpack_a(w);
        unpack_b(w);
        memset(w->sums, 0, (size_t)(p->m + p->n) * sizeof(double));
        for (int64_t column = 0; column < p->n && !fake_cuda_stopping(); column++) {
            sum_column(w, column);
            for (int64_t i = 0; i < p->m; i++)
                finish(w, i, column);
        }
        sum_operand(w);
        for (int64_t i = 0; w->bias && !(p->desc.epilogue & LT_BIAS) && i < bias_length(p); i++)
            fake_lt_store_real(p->bias_type, w->bias + (size_t)i * fake_lt_bytes(p->bias_type),
                               w->sums[i]);
    }
    let_go(w);
}

/* Writes the largest absolute value as f32. */
static void write_amax(work *w, uint64_t address, double value)
{
    char *at = reach(w, address, 4, true);
    if (at)
        fake_lt_store_real(T(R_32F), at, value);
    let_go(w);
}

/* Reads alpha and beta from the device, and writes garbage to the workspace, as an algorithm would.
 */
static void begin(work *w, const job *j)
{
    int scalar = j->p.desc.scale_type;
    bool device = j->p.desc.pointer_mode == T(POINTER_MODE_DEVICE);
    w->one_alpha = j->p.desc.pointer_mode > T(POINTER_MODE_DEVICE_VECTOR) ? 1 : j->alpha.value;
    w->beta = j->beta.value;
    if (device) {
        const char *alpha = reach(w, (uintptr_t)j->alpha.at, fake_lt_bytes(scalar), false);
        const char *beta = reach(w, (uintptr_t)j->beta.at, fake_lt_bytes(scalar), false);
        w->one_alpha = alpha ? fake_lt_load(scalar, alpha) : 0;
        w->beta = beta ? fake_lt_load(scalar, beta) : 0;
    }
    if (j->workspace_bytes > 0) {
        char *workspace = reach(w, j->workspace, j->workspace_bytes, true);
        if (workspace)
            memset(workspace, 0xa5, j->workspace_bytes);
    }
    if (fake_setting_has("cublaslt_wrong", (int)j->algo))
        w->one_alpha *= 3;
    let_go(w);
}

/* Takes the time that a test sets, on the device's clock. */
static void take_time(const job *j)
{
    char text[64];
    snprintf(text, sizeof text, "algorithm %u", j->algo);
    fake_report("cublaslt_runs", text);
    if (fake_setting("fast_cublaslt", text, sizeof text))
        fake_cuda_took((uint32_t)atoi(text) == j->algo ? FAST_NS : SLOW_NS);
}

static void run_job(void *arguments)
{
    job *j;
    memcpy(&j, arguments, sizeof j);
    job_remove(j);
    const lt_problem *p = &j->p;
    size_t a = (size_t)(p->m * p->k), b = (size_t)(p->k * p->n), m = (size_t)p->m;
    double *scratch = malloc((2 * (a + b + m) + m + (size_t)p->n) * sizeof *scratch);
    if (!scratch)
        abort();
    work w = {.p = p, .planes_a = {scratch, scratch + a}};
    w.planes_b[0] = scratch + 2 * a;
    w.planes_b[1] = w.planes_b[0] + b;
    w.sum[0] = w.planes_b[1] + b;
    w.sum[1] = w.sum[0] + m;
    w.sums = w.sum[1] + m;
    begin(&w, j);
    take_time(j);
    for (int64_t i = 0; i < p->d.batch && !w.failed && !fake_cuda_stopping(); i++)
        run_one(&w, j, i);
    write_amax(&w, p->desc.amax_d, w.d_amax);
    write_amax(&w, p->desc.aux_amax, w.aux_amax);
    free(scratch);
    free(j);
}

/* The call. */

static bool take_scalars(job *j, const void *alpha, const void *beta)
{
    int scalar = j->p.desc.scale_type, mode = j->p.desc.pointer_mode;
    bool alpha_on_host = mode == T(POINTER_MODE_HOST);
    bool beta_is_zero = mode == T(POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO);
    if (!alpha || (!beta && !beta_is_zero))
        return false;
    if (alpha_on_host)
        j->alpha.value = fake_lt_load(scalar, alpha);
    else
        j->alpha.at = alpha;
    if (mode == T(POINTER_MODE_DEVICE))
        j->beta.at = beta;
    else if (!beta_is_zero)
        j->beta.value = fake_lt_load(scalar, beta);
    return true;
}

static bool same_layout(const lt_layout *x, const lt_layout *y)
{
    return x->type == y->type && x->order == y->order && x->ld == y->ld && x->stride == y->stride;
}

/* Checks the pointers and the workspace that the algorithm needs. NULL: an algorithm without
 * requirements. */
static trp__cublas_status check_algo(job *j, const trp__cublaslt_algo *algo, size_t workspace_bytes)
{
    const uint64_t pointers[] = {j->a, j->b, j->c, j->d};
    lt_algo content = {0};
    if (algo) {
        trp__cublas_status status = fake_lt_read_algo(algo, &j->p, &content);
        if (status != SUCCESS)
            return status;
    }
    uint32_t given[4];
    for (int i = 0; i < 4; i++) {
        given[i] = (uint32_t)(pointers[i] & -pointers[i] & 0xffff);
        if (given[i] == 0)
            given[i] = 0x10000;
        if (given[i] < content.alignment[i])
            return INVALID_VALUE;
    }
    j->workspace_bytes = content.workspace_bytes;
    j->algo = content.id;
    if (content.workspace_bytes > workspace_bytes ||
        (workspace_bytes > 0 && (j->workspace == 0 || j->workspace % 256 != 0)))
        return INVALID_VALUE;
    return fake_lt_aligned_enough(&j->p, given) ? SUCCESS : NOT_SUPPORTED;
}

/* Runs at every launch of a graph. */
static void run_again(void *argument)
{
    job *j = malloc(sizeof *j);
    if (!j)
        abort();
    memcpy(j, argument, sizeof *j);
    job_add(j);
    run_job(&j);
}

static trp__cublas_status start(const job *filled, trp__cu_stream stream)
{
    job *j = malloc(sizeof *j);
    if (!j)
        return ALLOC_FAILED;
    *j = *filled;
    if (fake_cuda_record(stream, run_again, free, j))
        return SUCCESS;
    job_add(j);
    if (fake_cuda_enqueue(stream, run_job, &j, sizeof j) == 0)
        return SUCCESS;
    job_remove(j);
    free(j);
    return EXECUTION_FAILED;
}

trp__cublas_status cublasLtMatmul(trp__cublaslt_handle handle, trp__cublaslt_desc desc,
                                  const void *alpha, const void *a, trp__cublaslt_layout a_layout,
                                  const void *b, trp__cublaslt_layout b_layout, const void *beta,
                                  const void *c, trp__cublaslt_layout c_layout, void *d,
                                  trp__cublaslt_layout d_layout, const trp__cublaslt_algo *algo,
                                  void *workspace, size_t workspace_bytes, trp__cu_stream stream)
{
    job j = {.a = (uintptr_t)a,
             .b = (uintptr_t)b,
             .c = (uintptr_t)c,
             .d = (uintptr_t)d,
             .workspace = (uintptr_t)workspace};
    trp__cublas_status status = fake_lt_called(FAKE_CUBLASLT_MATMUL);
    if (status == SUCCESS)
        status = fake_lt_check(handle, desc, a_layout, b_layout, c_layout, d_layout, &j.p);
    if (status != SUCCESS)
        return status;
    if (!a || !b || !d || (c == d && !same_layout(&j.p.c, &j.p.d)) ||
        !take_scalars(&j, alpha, beta) || (!c && (j.beta.at || j.beta.value != 0)))
        return INVALID_VALUE;
    status = check_algo(&j, algo, workspace_bytes);
    /* If the library sees that alpha and beta make D equal to C, it takes D for C. */
    bool nothing_to_do = !j.alpha.at && !j.beta.at && j.alpha.value == 0 && j.beta.value == 1;
    return status == SUCCESS && !nothing_to_do ? start(&j, stream) : status;
}
