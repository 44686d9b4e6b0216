/* The fake cuBLAS's batched routines of LAPACK: each matrix is read, worked on in f64, and written
 * back. */
#include "support/fake_cuda/cublas/cublas.h"

#include "libs/cublas/cublas_lapack.h"

#include <stdlib.h>
#include <string.h>

typedef enum family {
    GETRF_BATCHED,
    GETRS_BATCHED,
    GETRI_BATCHED,
    MATINV_BATCHED,
    GEQRF_BATCHED,
    GELS_BATCHED,
} family;

typedef struct call {
    family family;
    trp__cublas_type type;
    trp__cublas_operation trans;
    int m, n, nrhs, lda, ldb, batch; /* A is m x n, B m x nrhs */
    const void *a, *b, *tau;         /* arrays of addresses, one for each member of the batch */
    const int *pivots;
    int *info, *wrong;
} call;

_Static_assert(sizeof(call) <= FAKE_ARGUMENT_BYTES, "a call fits into an operation");

/* Reach elements of batch members in device memory. */

static bool reach_int(fake_pin *pin, const int *array, int64_t index, int count, bool write)
{
    return fake_cuda_reach(pin, (uintptr_t)(array + index), (size_t)count * sizeof *array, write);
}

/* A matrix without gaps, column by column. */
typedef struct matrix {
    fake_pin pin;
    trp__cublas_type type;
    int rows, columns, ld;
    fake_number *number; /* NULL: its memory is not mapped */
} matrix;

static char *element(const matrix *x, int i, int j)
{
    return (char *)x->pin.at + ((size_t)j * (size_t)x->ld + (size_t)i) * fake_bytes(x->type);
}

static matrix open_matrix(const call *q, const void *list, int64_t index, int rows, int columns,
                          int ld, bool write)
{
    matrix x = {.type = q->type, .rows = rows, .columns = columns, .ld = ld};
    size_t elements = (size_t)(columns - 1) * (size_t)ld + (size_t)rows;
    fake_pin entry = {0};
    uint64_t at;
    if (!fake_cuda_reach(&entry, (uintptr_t)list + (uint64_t)index * sizeof at, sizeof at, false))
        return x;
    memcpy(&at, entry.at, sizeof at);
    fake_cuda_let_go(&entry);
    if (!fake_cuda_reach(&x.pin, at, elements * fake_bytes(q->type), write))
        return x;
    x.number = calloc((size_t)rows * (size_t)columns, sizeof *x.number);
    if (!x.number)
        abort();
    for (int j = 0; j < columns; j++) {
        for (int i = 0; i < rows; i++)
            x.number[j * rows + i] = fake_load(x.type, element(&x, i, j));
    }
    return x;
}

static void close_matrix(matrix *x, bool write)
{
    for (int j = 0; x->number && write && j < x->columns; j++) {
        for (int i = 0; i < x->rows; i++)
            fake_store(x->type, element(x, i, j), x->number[j * x->rows + i]);
    }
    free(x->number);
    fake_cuda_let_go(&x->pin);
}

/* LU factors. */

static double size_of(fake_number x)
{
    double re = creal(x), im = cimag(x);
    return (re < 0 ? -re : re) + (im < 0 ? -im : im);
}

static void exchange(fake_number *a, int n, int columns, int first, int second)
{
    for (int j = 0; j < columns; j++) {
        fake_number kept = a[j * n + first];
        a[j * n + first] = a[j * n + second];
        a[j * n + second] = kept;
    }
}

/* Returns the number of the first pivot that is 0. */
static int factor(fake_number *a, int n, int *pivots)
{
    int info = 0;
    for (int k = 0; k < n; k++) {
        int best = k;
        for (int i = k + 1; i < n; i++)
            best = size_of(a[k * n + i]) > size_of(a[k * n + best]) ? i : best;
        pivots[k] = best + 1;
        exchange(a, n, n, k, best);
        if (a[k * n + k] == 0) {
            info = info ? info : k + 1;
            continue;
        }
        for (int i = k + 1; i < n; i++) {
            a[k * n + i] /= a[k * n + k];
            for (int j = k + 1; j < n; j++)
                a[j * n + i] -= fake_times(a[k * n + i], a[j * n + k]);
        }
    }
    return info;
}

static fake_number entry(const fake_number *a, int n, trp__cublas_operation op, int i, int j)
{
    if (op == TRP__CUBLAS_OP_N)
        return a[j * n + i];
    return op == TRP__CUBLAS_OP_C ? conj(a[i * n + j]) : a[i * n + j];
}

/* Solves with a triangle of op(A) in place; the triangle has the first n of `rows` rows. */
static void solve_triangle(const fake_number *a, int lda, trp__cublas_operation op, bool upper,
                           bool unit, int n, fake_number *x)
{
    bool backward = upper == (op == TRP__CUBLAS_OP_N);
    for (int step = 0; step < n; step++) {
        int k = backward ? n - 1 - step : step;
        if (!unit)
            x[k] /= entry(a, lda, op, k, k);
        for (int i = backward ? 0 : k + 1; i < (backward ? k : n); i++)
            x[i] -= fake_times(entry(a, lda, op, i, k), x[k]);
    }
}

static void solve(const fake_number *a, int n, const int *pivots, trp__cublas_operation op,
                  fake_number *b, int nrhs)
{
    bool plain = op == TRP__CUBLAS_OP_N;
    for (int k = 0; plain && k < n; k++)
        exchange(b, n, nrhs, k, pivots[k] - 1);
    for (int j = 0; j < nrhs; j++) {
        solve_triangle(a, n, op, !plain, plain, n, b + j * n);
        solve_triangle(a, n, op, plain, !plain, n, b + j * n);
    }
    for (int k = n - 1; !plain && k >= 0; k--)
        exchange(b, n, nrhs, k, pivots[k] - 1);
}

/* Inverts a matrix. Returns the number of the first pivot that is 0; there is no inverse then. */
static int invert(const fake_number *a, int n, const int *pivots, fake_number *inverse)
{
    for (int k = 0; k < n; k++) {
        if (a[k * n + k] == 0)
            return k + 1;
    }
    for (int i = 0; i < n * n; i++)
        inverse[i] = i % (n + 1) == 0;
    solve(a, n, pivots, TRP__CUBLAS_OP_N, inverse, n);
    return 0;
}

/* QR factors. */

/* x = H^H x for the reflector of column k. */
static void reflect(const fake_number *a, int m, int k, fake_number tau, fake_number *x)
{
    fake_number sum = x[k];
    for (int i = k + 1; i < m; i++)
        sum += fake_times(conj(a[k * m + i]), x[i]);
    sum = fake_times(conj(tau), sum);
    x[k] -= sum;
    for (int i = k + 1; i < m; i++)
        x[i] -= fake_times(a[k * m + i], sum);
}

static void factor_orthogonally(fake_number *a, int m, int n, fake_number *tau)
{
    for (int k = 0; k < m && k < n; k++) {
        fake_number *column = a + k * m, first = column[k];
        double rest = 0;
        for (int i = k + 1; i < m; i++)
            rest += creal(column[i]) * creal(column[i]) + cimag(column[i]) * cimag(column[i]);
        tau[k] = 0;
        if (rest == 0 && cimag(first) == 0)
            continue;
        double norm = cabs(csqrt(rest + creal(first) * creal(first) + cimag(first) * cimag(first)));
        double beta = creal(first) > 0 ? -norm : norm;
        tau[k] = fake_pair((beta - creal(first)) / beta, -cimag(first) / beta);
        for (int i = k + 1; i < m; i++)
            column[i] /= first - beta;
        column[k] = beta;
        for (int j = k + 1; j < n; j++)
            reflect(a, m, k, tau[k], a + j * m);
    }
}

/* Solves a least squares problem. Returns the number of the first diagonal element of R that is 0.
 */
static int solve_least_squares(fake_number *a, int m, int n, fake_number *tau, fake_number *b,
                               int nrhs)
{
    factor_orthogonally(a, m, n, tau);
    for (int k = 0; k < n; k++) {
        if (a[k * m + k] == 0)
            return k + 1;
    }
    for (int j = 0; j < nrhs; j++) {
        for (int k = 0; k < n; k++)
            reflect(a, m, k, tau[k], b + j * m);
        solve_triangle(a, m, TRP__CUBLAS_OP_N, true, false, n, b + j * m);
    }
    return 0;
}

/* One member of a batch. */

typedef struct member {
    const call *call;
    fake_number *a, *b, *tau;
    int *pivots, *info;
} member;

static void work(const member *x)
{
    const call *q = x->call;
    int n = q->n, own[TRP__CUBLAS_MATINV_MOST];
    switch (q->family) {
    case GETRF_BATCHED:
        *x->info = factor(x->a, n, x->pivots);
        break;
    case GETRS_BATCHED:
        solve(x->a, n, x->pivots, q->trans, x->b, q->nrhs);
        break;
    case GETRI_BATCHED:
        *x->info = invert(x->a, n, x->pivots, x->b);
        break;
    case MATINV_BATCHED:
        *x->info = factor(x->a, n, own);
        if (*x->info == 0)
            *x->info = invert(x->a, n, own, x->b);
        break;
    case GEQRF_BATCHED:
        factor_orthogonally(x->a, q->m, n, x->tau);
        break;
    case GELS_BATCHED:
        *x->info = solve_least_squares(x->a, q->m, n, x->tau, x->b, q->nrhs);
        break;
    }
}

static bool writes_a(const call *q)
{
    return q->family == GETRF_BATCHED || q->family == GEQRF_BATCHED || q->family == GELS_BATCHED;
}

static void run_one(const call *q, int64_t index)
{
    int reflectors = q->m < q->n ? q->m : q->n;
    bool reached = true;
    fake_pin pivots = {0}, info = {0};
    matrix a = open_matrix(q, q->a, index, q->m, q->n, q->lda, writes_a(q)), b = {0}, tau = {0};
    fake_number *own = calloc((size_t)reflectors, sizeof *own);
    if (!own)
        abort();
    if (q->b)
        b = open_matrix(q, q->b, index, q->m, q->nrhs, q->ldb, true);
    if (q->tau)
        tau = open_matrix(q, q->tau, index, reflectors, 1, reflectors, true);
    if (q->pivots)
        reached = reach_int(&pivots, q->pivots, index * q->n, q->n, q->family == GETRF_BATCHED);
    if (q->info && reached)
        reached = reach_int(&info, q->info, index, 1, true);
    if (reached && a.number && (!q->b || b.number) && (!q->tau || tau.number))
        work(&(const member){.call = q,
                             .a = a.number,
                             .b = b.number,
                             .tau = q->tau ? tau.number : own,
                             .pivots = pivots.at,
                             .info = info.at});
    close_matrix(&a, writes_a(q));
    close_matrix(&b, true);
    close_matrix(&tau, true);
    fake_cuda_let_go(&pivots);
    fake_cuda_let_go(&info);
    free(own);
}

static void run(void *arguments)
{
    const call *q = arguments;
    for (int64_t i = 0; i < q->batch && !fake_cuda_stopping(); i++)
        run_one(q, i);
}

/* Calls. */

static trp__cublas_status launch(trp__cublas_handle handle, const call *q)
{
    trp__cublas_pointer_mode mode;
    if (!fake_cublas_mode(handle, &mode))
        return NOT_INITIALIZED;
    if (q->wrong)
        *q->wrong = 0;
    if (!FAKE_ONE_OF_3(q->trans) || q->m < 0 || q->n < 0 || q->nrhs < 0 || q->batch < 0 ||
        q->lda < (q->m > 1 ? q->m : 1) || (q->b && q->ldb < (q->m > 1 ? q->m : 1)))
        return INVALID_VALUE;
    if (q->family == MATINV_BATCHED && q->n > TRP__CUBLAS_MATINV_MOST)
        return INVALID_VALUE;
    if (q->family == GELS_BATCHED && (q->m < q->n || q->trans != TRP__CUBLAS_OP_N))
        return NOT_SUPPORTED;
    if (q->m == 0 || q->n == 0 || q->nrhs == 0 || q->batch == 0)
        return SUCCESS;
    return fake_cublas_enqueue(handle, run, q, sizeof *q);
}

/* Fields of a call that each family sets from its parameters. */
#define SQUARE             .m = n, .n = n, .nrhs = n
#define CALL_GETRF_BATCHED SQUARE, .a = a, .lda = lda, .pivots = pivots, .info = info
#define CALL_GETRS_BATCHED                                                                         \
    .m = n, .n = n, .nrhs = nrhs, .trans = trans, .a = a, .lda = lda, .pivots = pivots, .b = b,    \
    .ldb = ldb, .wrong = wrong
#define CALL_GETRI_BATCHED                                                                         \
    SQUARE, .a = a, .lda = lda, .pivots = pivots, .b = b, .ldb = ldb, .info = info
#define CALL_MATINV_BATCHED SQUARE, .a = a, .lda = lda, .b = b, .ldb = ldb, .info = info
#define CALL_GEQRF_BATCHED  .m = m, .n = n, .nrhs = n, .a = a, .lda = lda, .tau = tau, .wrong = wrong
#define CALL_GELS_BATCHED                                                                          \
    .m = m, .n = n, .nrhs = nrhs, .trans = trans, .a = a, .lda = lda, .b = b, .ldb = ldb,          \
    .info = info, .wrong = wrong

/* The lists of the families omit the name of the handle. */
#define trp__cublas_handle trp__cublas_handle handle
#define DEFINE(family_, name, type_)                                                               \
    FAKE_API trp__cublas_status name TRP__CUBLAS_##family_(void, void);                            \
    trp__cublas_status name TRP__CUBLAS_##family_(void, void)                                      \
    {                                                                                              \
        return launch(                                                                             \
            handle,                                                                                \
            &(const call){.family = family_, .type = type_, .batch = batch, CALL_##family_});      \
    }
#define CUBLAS_LAPACK(op, family, s, d, c, z)                                                      \
    DEFINE(family, s, TRP__CUDA_R_32F)                                                             \
    DEFINE(family, d, TRP__CUDA_R_64F)                                                             \
    DEFINE(family, c, TRP__CUDA_C_32F) DEFINE(family, z, TRP__CUDA_C_64F)
#include "libs/blas/routines.def"
