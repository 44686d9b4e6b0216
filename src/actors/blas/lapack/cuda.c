#include "actors/blas/lapack/cuda.h"

#include "actors/blas/lapack/wire.h"
#include "base/error.h"

#include <limits.h>
#include <string.h>

/* The arguments of a call for a batch. */
typedef struct call {
    trp_instance *instance;
    const trp__cuda *cu;
    const trp__cublas *blas;
    trp__cublas_handle handle;
    void (*routine)(void);
    trp__cublas_status (*family)(const struct call *c, void **const list[], int64_t first,
                                 int count, int *wrong);
    const char *name;
    trp__lapack l;
    int64_t element; /* bytes */
    const trp_job *job;
    int *pivots, *info;
} call;

/* Index of an array in a batch: A is the first, B or tau the second. */
enum { LIST_A = 0, LIST_OTHER = 1 };

#define HANDLE c->handle
#define OP     trp__cublas_trans(c->l.trans)
#define M      (int)c->l.m
#define N      (int)c->l.n
#define NRHS   (int)c->l.nrhs
#define A      list[LIST_A], (int)c->l.lda
#define B      list[LIST_OTHER], (int)c->l.ldb
#define READ_A (const void *const *)list[LIST_A], (int)c->l.lda
#define PIVOTS c->pivots + first * c->l.n
#define INFO   c->info + first

#define FAMILY(name, ...)                                                                          \
    typedef trp__cublas_status(*name##_routine) TRP__CUBLAS_##name(void, void);                    \
    static trp__cublas_status call_##name(const call *c, void **const list[], int64_t first,       \
                                          int count, int *wrong)                                   \
    {                                                                                              \
        (void)first;                                                                               \
        (void)wrong;                                                                               \
        return ((name##_routine)c->routine)(HANDLE, __VA_ARGS__, count);                           \
    }
FAMILY(GETRF_BATCHED, N, A, PIVOTS, INFO)
FAMILY(GETRS_BATCHED, OP, N, NRHS, READ_A, PIVOTS, B, wrong)
FAMILY(GETRI_BATCHED, N, READ_A, PIVOTS, B, INFO)
FAMILY(MATINV_BATCHED, N, READ_A, B, INFO)
FAMILY(GEQRF_BATCHED, M, N, A, list[LIST_OTHER], wrong)
FAMILY(GELS_BATCHED, TRP__CUBLAS_OP_N, M, N, NRHS, A, B, wrong, INFO)
#undef FAMILY

static const struct {
    trp__cublas_status (*call)(const call *c, void **const list[], int64_t first, int count,
                               int *wrong);
    const char *name[4];
} families[TRP__BLAS_PLACES] = {
#define CUBLAS_LAPACK(op, family, s, d, c, z)                                                      \
    [TRP_OP_##op & 0xff] = {call_##family, {#s, #d, #c, #z}},
#include "libs/blas/routines.def"
};

/* Calls the routine for a part of the batch. */
static trp_status do_part(const void *context, void **const list[], int64_t first, uint32_t count,
                          trp_error *error)
{
    const call *c = context;
    int parameter = 0;
    trp_status status = trp__cublas_check(
        c->blas, c->family(c, list, first, (int)count, &parameter), c->name, error);
    if (status == TRP_OK && parameter != 0)
        status = trp__error_set(error, TRP_E_LIBRARY, "%s refused its parameter %d", c->name,
                                -parameter);
    return status;
}

/* Row-major order. cuBLAS takes column-major matrices, and the factors of a matrix are not those of
 * its transpose: the matrices of a part of the batch are transposed into scratch memory, worked on
 * there, and transposed back. */

/* A row-major matrix of each member, and its place in scratch memory: there the column-major
 * matrices lie one below the other in one with `members` times as many rows. So matrices that also
 * follow each other outside are transposed by one call. */
typedef struct turned {
    char *outside, *inside;
    int64_t rows, columns, ld, stride; /* elements; outside */
    int64_t members;                   /* 1: one for all */
    trp_access_mode mode;
} turned;

/* B, in a list of LIST_OTHER, follows A. */
static void find_turned(const call *c, int64_t first, uint32_t count, turned x[2])
{
    const trp__lapack *l = &c->l;
    const int64_t stride[] = {l->a_stride, l->b_stride};
    for (int i = 0; i < 2; i++) {
        const uint8_t access = l->access[i == LIST_A ? TRP__LAPACK_A : TRP__LAPACK_B];
        x[i] = (turned){.rows = l->m,
                        .columns = i == LIST_A ? l->n : l->nrhs,
                        .ld = i == LIST_A ? l->lda : l->ldb,
                        .stride = stride[i]};
        if (access == TRP__LAPACK_NO_ACCESS)
            continue;
        x[i].outside = (char *)c->job->access[access].address + first * stride[i] * c->element;
        x[i].mode = c->job->access[access].mode;
        x[i].members = stride[i] == 0 ? 1 : count;
    }
}

/* Copies a matrix of each member into scratch memory, or back. */
static trp_status turn(const call *c, const turned *x, bool back, trp_error *error)
{
    typedef trp__cublas_status(*geam_routine) TRP__CUBLAS_GEAM(void, void);
    static const float one_f32[2] = {1}, zero_f32[2];
    static const double one_f64[2] = {1}, zero_f64[2];
    const bool f64 = c->l.type == TRP_F64 || c->l.type == TRP_C128;
    const void *one = f64 ? (const void *)one_f64 : one_f32;
    const void *zero = f64 ? (const void *)zero_f64 : zero_f32;
    const bool joined = x->members == 1 || x->stride == x->rows * x->ld;
    const int64_t tall = x->members * x->rows, rows = joined ? tall : x->rows;
    const geam_routine geam =
        (geam_routine)c->blas->routine[TRP_OP_GEAM & 0xff][trp__lapack_column(&c->l)];
    trp_status status = TRP_OK;
    if (!geam)
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "this cuBLAS has no geam, which transposes row-major matrices");
    for (int64_t k = 0; k < (joined ? 1 : x->members) && status == TRP_OK; k++) {
        char *outside = x->outside + k * x->stride * c->element;
        char *inside = x->inside + k * x->rows * c->element;
        char *from = back ? inside : outside, *to = back ? outside : inside;
        const int64_t ld_from = back ? tall : x->ld, ld_to = back ? x->ld : tall;
        status = trp__cublas_check(c->blas,
                                   geam(HANDLE, TRP__CUBLAS_OP_T, TRP__CUBLAS_OP_T,
                                        back ? x->columns : rows, back ? rows : x->columns, one,
                                        from, ld_from, zero, from, ld_from, to, ld_to),
                                   "cublas?geam", error);
    }
    return status;
}

/* Calls the routine for a part of which the matrices are in scratch memory. */
static trp_status do_turned(const call *whole, turned x[2], void **const list[], int64_t first,
                            uint32_t count, trp_error *error)
{
    call c = *whole;
    trp_status status = TRP_OK;
    for (int i = 0; i < 2 && status == TRP_OK; i++) {
        if (!x[i].outside)
            continue;
        for (uint32_t k = 0; k < count; k++)
            list[i][k] = x[i].inside + (x[i].members == 1 ? 0 : k) * x[i].rows * c.element;
        if (x[i].mode & TRP_ACCESS_READ)
            status = turn(&c, &x[i], false, error);
    }
    c.l.lda = x[LIST_A].members * x[LIST_A].rows;
    c.l.ldb = x[LIST_OTHER].members * x[LIST_OTHER].rows;
    if (status == TRP_OK)
        status = do_part(&c, list, first, count, error);
    for (int i = 0; i < 2 && status == TRP_OK; i++) {
        if (x[i].outside && x[i].mode & TRP_ACCESS_WRITE)
            status = turn(&c, &x[i], true, error);
    }
    return status;
}

static trp_status do_row_major(const void *context, void **const list[], int64_t first,
                               uint32_t count, trp_error *error)
{
    const call *c = context;
    turned x[2];
    uint64_t bytes[2];
    trp__cu_address scratch = 0;
    if (c->l.m * count > INT_MAX)
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "%u row-major matrices have 2^31 or more rows together, which %s "
                              "can't take",
                              (unsigned)count, c->name);
    find_turned(c, first, count, x);
    for (int i = 0; i < 2; i++)
        bytes[i] = (uint64_t)(x[i].members * x[i].rows * x[i].columns * c->element + 255) & ~255ull;
    trp_status status = trp_cuda_check(
        c->instance, c->cu->cuMemAllocAsync(&scratch, bytes[0] + bytes[1], c->instance->stream),
        "cuMemAllocAsync", error);
    if (status != TRP_OK)
        return status;
    x[LIST_A].inside = (char *)(uintptr_t)scratch;
    x[LIST_OTHER].inside = x[LIST_A].inside + bytes[LIST_A];
    status = do_turned(c, x, list, first, count, error);
    trp_status freed =
        trp_cuda_check(c->instance, c->cu->cuMemFreeAsync(scratch, c->instance->stream),
                       "cuMemFreeAsync", status == TRP_OK ? error : NULL);
    return status == TRP_OK ? freed : status;
}

static bool fits_32_bits(const trp__lapack *l)
{
    return l->m <= INT_MAX && l->n <= INT_MAX && l->nrhs <= INT_MAX && l->lda <= INT_MAX &&
           l->ldb <= INT_MAX;
}

static void *address(const trp_job *job, const trp__lapack *l, int operand)
{
    const uint8_t access = l->access[operand];
    return access == TRP__LAPACK_NO_ACCESS ? NULL : job->access[access].address;
}

trp_status trp__lapack_cuda(trp_instance *instance, trp_job *job, const trp__cuda *cu,
                            const trp__cublas *blas, trp__cublas_handle handle,
                            trp__blas_addresses *addresses, trp_error *error)
{
    const uint32_t place = job->op & 0xff;
    call c = {.instance = instance,
              .cu = cu,
              .blas = blas,
              .handle = handle,
              .job = job,
              .family = families[place].call};
    memcpy(&c.l, job->payload, sizeof c.l);
    const uint32_t column = trp__lapack_column(&c.l);
    c.element = trp_dtype_bits((trp_dtype)c.l.type) / 8;
    c.name = families[place].name[column];
    c.routine = blas->routine[place][column];
    c.pivots = address(job, &c.l, TRP__LAPACK_PIVOTS);
    c.info = address(job, &c.l, TRP__LAPACK_INFO);
    char *a = address(job, &c.l, TRP__LAPACK_A), *b = address(job, &c.l, TRP__LAPACK_B);
    char *tau = address(job, &c.l, TRP__LAPACK_TAU);
    if (!a)
        return c.info ? instance->services->fill(instance, c.info, 0, sizeof *c.info,
                                                 (uint64_t)c.l.batch, error)
                      : TRP_OK;
    if (!c.routine)
        return trp__error_set(error, TRP_E_UNSUPPORTED, "this cuBLAS has no %s", c.name);
    if (!fits_32_bits(&c.l))
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "a size or a leading dimension is 2^31 or more, which %s can't take",
                              c.name);
    const trp__blas_batch batch = {
        .count = c.l.batch,
        .arrays = b || tau ? 2 : 1,
        .first = {a, b ? b : tau},
        .stride = {c.l.a_stride * c.element,
                   (b ? c.l.b_stride : trp__lapack_reflectors(&c.l)) * c.element},
        .call = c.l.turned ? do_row_major : do_part,
        .context = &c,
    };
    return trp__blas_batch_do(instance, job, addresses, &batch, error);
}
