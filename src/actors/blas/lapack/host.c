#include "actors/blas/lapack/host.h"

#include "actors/blas/lapack/wire.h"
#include "base/error.h"
#include "base/numbers/types.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A row-major matrix of each member. The routines, which take column-major ones, have its transpose
 * in scratch memory, where `operand` is then. */
typedef struct outside {
    char *first; /* NULL: there is none */
    int64_t ld, stride, columns;
    bool read, written;
} outside;

/* A request for the thread of the stream, which frees it. */
typedef struct work {
    trp__lapack l;
    void (*run)(const struct work *w, int64_t index); /* runs one member of the batch */
    void (*routine)(void);
    void (*factor)(void); /* getrf, for matinv */
    char *operand[TRP__LAPACK_OPERANDS];
    outside outside[2]; /* A and B */
    size_t element;
    int m, n, nrhs, lda, ldb; /* those of l, in the type of LAPACK */
    int scratch_elements;
    int *own_pivots; /* of matinv; after the scratch memory and the transposes */
    _Alignas(double _Complex) unsigned char scratch[];
} work;

/* The operands of one member of the batch. */

static char *matrix_a(const work *w, int64_t index)
{
    return w->operand[TRP__LAPACK_A] + (size_t)(index * w->l.a_stride) * w->element;
}

static char *matrix_b(const work *w, int64_t index)
{
    return w->operand[TRP__LAPACK_B] + (size_t)(index * w->l.b_stride) * w->element;
}

static int *pivots_of(const work *w, int64_t index)
{
    return (int *)w->operand[TRP__LAPACK_PIVOTS] + index * w->l.n;
}

static int *info_of(const work *w, int64_t index)
{
    return (int *)w->operand[TRP__LAPACK_INFO] + index;
}

/* With other pivots, LAPACK would exchange rows with memory outside of the matrix. */
static bool good_pivots(const int *pivots, int n)
{
    for (int i = 0; i < n; i++) {
        if (pivots[i] < 1 || pivots[i] > n)
            return false;
    }
    return true;
}

/* In every type, a number with all bits set is a NaN. */
static void make_nan(const work *w, char *b)
{
    for (int64_t j = 0; j < w->l.nrhs; j++)
        memset(b + (size_t)(j * w->l.ldb) * w->element, 0xff, (size_t)w->m * w->element);
}

static void copy_to_b(const work *w, int64_t index)
{
    const char *from = matrix_a(w, index);
    char *to = matrix_b(w, index);
    for (int64_t j = 0; j < w->l.n; j++)
        memcpy(to + (size_t)(j * w->l.ldb) * w->element, from + (size_t)(j * w->l.lda) * w->element,
               (size_t)w->m * w->element);
}

/* The operations. */

static void run_getrf(const work *w, int64_t index)
{
    ((trp__lapack_getrf)w->routine)(&w->n, &w->n, matrix_a(w, index), &w->lda, pivots_of(w, index),
                                    info_of(w, index));
}

static void run_getrs(const work *w, int64_t index)
{
    const char *trans = w->l.trans == TRP_N ? "N" : w->l.trans == TRP_T ? "T" : "C";
    const int *pivots = pivots_of(w, index);
    int wrong;
    if (good_pivots(pivots, w->n))
        ((trp__lapack_getrs)w->routine)(trans, &w->n, &w->nrhs, matrix_a(w, index), &w->lda, pivots,
                                        matrix_b(w, index), &w->ldb, &wrong, 1);
    else
        make_nan(w, matrix_b(w, index));
}

static void invert(const work *w, int64_t index, const int *pivots)
{
    ((trp__lapack_getri)w->routine)(&w->n, matrix_b(w, index), &w->ldb, pivots, (void *)w->scratch,
                                    &w->scratch_elements, info_of(w, index));
}

static void run_getri(const work *w, int64_t index)
{
    const int *pivots = pivots_of(w, index);
    if (good_pivots(pivots, w->n)) {
        copy_to_b(w, index);
        invert(w, index, pivots);
    } else {
        make_nan(w, matrix_b(w, index));
        *info_of(w, index) = 0;
    }
}

static void run_matinv(const work *w, int64_t index)
{
    copy_to_b(w, index);
    ((trp__lapack_getrf)w->factor)(&w->n, &w->n, matrix_b(w, index), &w->ldb, w->own_pivots,
                                   info_of(w, index));
    if (*info_of(w, index) == 0)
        invert(w, index, w->own_pivots);
}

static void run_geqrf(const work *w, int64_t index)
{
    char *tau =
        w->operand[TRP__LAPACK_TAU] + (size_t)(index * trp__lapack_reflectors(&w->l)) * w->element;
    int wrong;
    ((trp__lapack_geqrf)w->routine)(&w->m, &w->n, matrix_a(w, index), &w->lda, tau,
                                    (void *)w->scratch, &w->scratch_elements, &wrong);
}

static bool is_zero(const work *w, const char *element)
{
    const int parts = trp__is_complex(w->l.type) ? 2 : 1;
    bool zero = true;
    for (int i = 0; i < parts; i++)
        zero = zero && (w->l.type == TRP_F32 || w->l.type == TRP_C64
                            ? ((const float *)(const void *)element)[i] == 0
                            : ((const double *)(const void *)element)[i] == 0);
    return zero;
}

/* gels does not check the factor of a matrix of zeros, so it is checked here for every matrix. */
static void run_gels(const work *w, int64_t index)
{
    const char *a = matrix_a(w, index);
    int *info = info_of(w, index);
    ((trp__lapack_gels)w->routine)("N", &w->m, &w->n, &w->nrhs, (void *)a, &w->lda,
                                   matrix_b(w, index), &w->ldb, (void *)w->scratch,
                                   &w->scratch_elements, info, 1);
    for (int64_t i = 0; i < w->l.n && *info == 0; i++) {
        if (is_zero(w, a + (size_t)(i * (w->l.lda + 1)) * w->element))
            *info = (int)i + 1;
    }
}

static const struct {
    void (*run)(const work *w, int64_t index);
    const char *name[4];
} methods[TRP__BLAS_PLACES] = {
#define HOST_LAPACK(op, family, s, d, c, z) [TRP_OP_##op & 0xff] = {run_##family, {#s, #d, #c, #z}},
#include "libs/blas/routines.def"
};

static inline void transpose(const outside *x, char *first, char *inside, int64_t rows, bool back,
                             size_t element)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < x->columns; j++) {
            char *row_major = first + (size_t)(i * x->ld + j) * element;
            char *column_major = inside + (size_t)(j * rows + i) * element;
            memcpy(back ? row_major : column_major, back ? column_major : row_major, element);
        }
    }
}

/* Copies the row-major matrices of a member into scratch memory, or back. */
static void turn(const work *w, int64_t index, bool back)
{
    for (int i = 0; i < 2; i++) {
        const outside *x = &w->outside[i];
        char *first = x->first + (size_t)(index * x->stride) * w->element;
        char *inside = w->operand[i == 0 ? TRP__LAPACK_A : TRP__LAPACK_B];
        if (!x->first || !(back ? x->written : x->read))
            continue;
        /* Constant sizes make each memcpy() one move. */
        if (w->element == 4)
            transpose(x, first, inside, w->l.m, back, 4);
        else if (w->element == 8)
            transpose(x, first, inside, w->l.m, back, 8);
        else
            transpose(x, first, inside, w->l.m, back, 16);
    }
}

static void run(void *arguments)
{
    work *w = *(work **)arguments;
    for (int64_t i = 0; i < w->l.batch; i++) {
        turn(w, i, false);
        w->run(w, i);
        turn(w, i, true);
    }
    free(w);
}

static bool fits_32_bits(const trp__lapack *l)
{
    return l->m <= INT_MAX && l->n <= INT_MAX && l->nrhs <= INT_MAX && l->lda <= INT_MAX &&
           l->ldb <= INT_MAX;
}

/* Returns the scratch elements for blocks of 64 columns, which LAPACK's routines process at a time.
 */
static int64_t scratch_elements(const trp__lapack *l)
{
    enum { BLOCK = 64 };
    int64_t most = l->n > l->nrhs ? l->n : l->nrhs;
    return l->n + most * BLOCK < INT_MAX ? l->n + most * BLOCK : INT_MAX;
}

/* Allocates a request; NULL: out of memory. */
static work *make_work(const trp__lapack *l, trp_error *error)
{
    const size_t element = trp_dtype_bits((trp_dtype)l->type) / 8;
    const int64_t elements = scratch_elements(l);
    const size_t scratch = (size_t)(elements + (l->turned ? l->m * (l->n + l->nrhs) : 0)) * element;
    work *w = malloc(sizeof *w + scratch + (size_t)l->n * sizeof *w->own_pivots);
    if (!w) {
        trp__error_set(error, TRP_E_MEMORY, "no memory for %zu bytes of LAPACK's work", scratch);
        return NULL;
    }
    memset(w, 0, sizeof *w);
    w->l = *l;
    w->element = element;
    w->m = (int)l->m;
    w->n = (int)l->n;
    w->nrhs = (int)l->nrhs;
    w->lda = (int)l->lda;
    w->ldb = (int)l->ldb;
    w->scratch_elements = (int)elements;
    w->own_pivots = (int *)(void *)(w->scratch + scratch);
    return w;
}

/* Makes the routines work on the transposes of row-major matrices, behind the scratch memory. */
static void set_outside(work *w, const trp_job *job)
{
    const trp__lapack *l = &w->l;
    const outside all[] = {{.ld = l->lda, .stride = l->a_stride, .columns = l->n},
                           {.ld = l->ldb, .stride = l->b_stride, .columns = l->nrhs}};
    char *inside = (char *)w->scratch + (size_t)w->scratch_elements * w->element;
    for (int i = 0; i < 2; i++) {
        const int operand = i == 0 ? TRP__LAPACK_A : TRP__LAPACK_B;
        if (!w->operand[operand])
            continue;
        const trp_access_mode mode = job->access[l->access[operand]].mode;
        w->outside[i] = all[i];
        w->outside[i].first = w->operand[operand];
        w->outside[i].read = mode & TRP_ACCESS_READ;
        w->outside[i].written = mode & TRP_ACCESS_WRITE;
        w->operand[operand] = inside;
        inside += (size_t)(l->m * all[i].columns) * w->element;
    }
    w->lda = w->ldb = w->m;
    w->l.lda = w->l.ldb = l->m;
    w->l.a_stride = w->l.b_stride = 0;
}

trp_status trp__lapack_host(trp_instance *instance, const trp_job *job, const trp__openblas *blas,
                            trp_error *error)
{
    const uint32_t place = job->op & 0xff;
    trp__lapack l;
    memcpy(&l, job->payload, sizeof l);
    const uint32_t column = trp__lapack_column(&l);
    const uint8_t info = l.access[TRP__LAPACK_INFO];
    if (l.access[TRP__LAPACK_A] == TRP__LAPACK_NO_ACCESS)
        return info == TRP__LAPACK_NO_ACCESS
                   ? TRP_OK
                   : instance->services->fill(instance, job->access[info].address, 0, sizeof(int),
                                              (uint64_t)l.batch, error);
    void (*routine)(void) = blas->routine[place][column];
    void (*factor)(void) = blas->routine[TRP_OP_GETRF & 0xff][column];
    if (!routine || (job->op == TRP_OP_MATINV && !factor))
        return trp__error_set(error, TRP_E_UNSUPPORTED, "this OpenBLAS has no %s",
                              methods[routine ? TRP_OP_GETRF & 0xff : place].name[column]);
    if (!fits_32_bits(&l))
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "a size or a leading dimension is 2^31 or more, which OpenBLAS with "
                              "32-bit integers can't take");
    work *w = make_work(&l, error);
    if (!w)
        return TRP_E_MEMORY;
    w->run = methods[place].run;
    w->routine = routine;
    w->factor = factor;
    for (int i = 0; i < TRP__LAPACK_OPERANDS; i++)
        w->operand[i] =
            l.access[i] == TRP__LAPACK_NO_ACCESS ? NULL : job->access[l.access[i]].address;
    if (l.turned)
        set_outside(w, job);
    const trp_status status = instance->services->enqueue(instance, run, &w, sizeof(void *), error);
    if (status != TRP_OK)
        free(w);
    return status;
}
