#include "actors/blas/lapack/cuda.h"

#include "actors/blas/lapack/wire.h"
#include "base/error.h"

#include <limits.h>
#include <string.h>

/* The arguments of a call for a batch. */
typedef struct call {
    const trp__cublas *blas;
    trp__cublas_handle handle;
    void (*routine)(void);
    trp__cublas_status (*family)(const struct call *c, void **const list[], int64_t first,
                                 int count, int *wrong);
    const char *name;
    trp__lapack l;
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

trp_status trp__lapack_cuda(trp_instance *instance, trp_job *job, const trp__cublas *blas,
                            trp__cublas_handle handle, trp__blas_addresses *addresses,
                            trp_error *error)
{
    const uint32_t place = job->op & 0xff;
    call c = {.blas = blas, .handle = handle, .family = families[place].call};
    memcpy(&c.l, job->payload, sizeof c.l);
    const uint32_t column = trp__lapack_column(&c.l);
    const int64_t bytes = trp_dtype_bits((trp_dtype)c.l.type) / 8;
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
        .stride = {c.l.a_stride * bytes, (b ? c.l.b_stride : trp__lapack_reflectors(&c.l)) * bytes},
        .call = do_part,
        .context = &c,
    };
    return trp__blas_batch_do(instance, job, addresses, &batch, error);
}
