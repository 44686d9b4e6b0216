/* Levels 1 to 3 except gemm on NVIDIA GPUs. Each family of routines has a function that passes the
 * arguments from the payload. */
#include "actors/blas/levels_cuda.h"

#include "actors/blas/levels_wire.h"
#include "base/error.h"
#include "base/numbers/half.h"
#include "base/numbers/types.h"

#include <troupe/blas.h>

#include <string.h>

/* A scalar of any type, as cuBLAS takes it. */
typedef union scalar {
    uint16_t half[2];
    float f32[2];
    double f64[2];
} scalar;

/* The arguments of a call. Scalars are on the host or on the device, according to the pointer mode.
 */
typedef struct call {
    trp__cublas_handle handle;
    void (*routine)(void);
    trp__levels g;
    void *operand[TRP__BLAS_OPERANDS];
    const void *alpha, *beta; /* c and s of rot */
    void *result;
    uint32_t real; /* bytes of a real number of the type; for f16 and bf16, of a scalar */
} call;

#define TYPE(family) typedef trp__cublas_status(*family##_routine) TRP__CUBLAS_##family(void, void);
TYPE(AXPY)
TYPE(SCAL)
TYPE(COPY)
TYPE(SWAP)
TYPE(ROT)
TYPE(ROTG)
TYPE(ROTM)
TYPE(ROTMG)
TYPE(DOT)
TYPE(NORM)
TYPE(INDEX)
TYPE(GEMV)
TYPE(GEMV_BATCHED)
TYPE(GBMV)
TYPE(GER)
TYPE(SYMV)
TYPE(TRMV)
TYPE(SBMV)
TYPE(TBMV)
TYPE(SPMV)
TYPE(TPMV)
TYPE(SPR)
TYPE(HPR)
TYPE(SPR2)
TYPE(SYR)
TYPE(HER)
TYPE(SYR2)
TYPE(GEMM)
TYPE(SYMM)
TYPE(SYRK)
TYPE(HERK)
TYPE(SYR2K)
TYPE(HER2K)
TYPE(TRMM)
TYPE(TRSM)
TYPE(TRSM_BATCHED)
TYPE(GEAM)
TYPE(DGMM)
TYPE(AXPY_EX)
TYPE(SCAL_EX)
TYPE(ROT_EX)
TYPE(DOT_EX)
TYPE(NRM2_EX)
#undef TYPE

static trp__cublas_side side(const call *c)
{
    return c->g.side == TRP_LEFT ? TRP__CUBLAS_LEFT : TRP__CUBLAS_RIGHT;
}

static trp__cublas_fill fill(const call *c)
{
    return c->g.uplo == TRP_LOWER ? TRP__CUBLAS_LOWER : TRP__CUBLAS_UPPER;
}

static trp__cublas_diag diag(const call *c)
{
    return c->g.diag == TRP_UNIT ? TRP__CUBLAS_UNIT : TRP__CUBLAS_NON_UNIT;
}

static trp__cublas_type half(const call *c)
{
    return c->g.type == TRP_F16 ? TRP__CUDA_R_16F : TRP__CUDA_R_16BF;
}

static uint32_t element_bytes(const call *c)
{
    return c->real * (trp__is_complex(c->g.type) ? 2 : 1);
}

/* Returns the address of an element of X, a vector of real numbers. */
static void *element(const call *c, int64_t index)
{
    return (char *)c->operand[TRP__BLAS_X] + index * c->g.ld[TRP__BLAS_X] * c->real;
}

/* The arguments of the families. */
#define CALL(family) ((family##_routine)c->routine)
#define HANDLE       c->handle
#define M            c->g.m
#define N            c->g.n
#define K            c->g.k
#define ALPHA        c->alpha
#define BETA         c->beta
#define OP           trp__cublas_trans(c->g.trans)
#define A            c->operand[TRP__BLAS_A], c->g.ld[TRP__BLAS_A]
#define PACKED       c->operand[TRP__BLAS_A]
#define X            c->operand[TRP__BLAS_X], c->g.ld[TRP__BLAS_X]
#define Y            c->operand[TRP__BLAS_Y], c->g.ld[TRP__BLAS_Y]

#define HALF_X c->operand[TRP__BLAS_X], half(c), c->g.ld[TRP__BLAS_X]
#define HALF_Y c->operand[TRP__BLAS_Y], half(c), c->g.ld[TRP__BLAS_Y]

#define FAMILY(name, ...)                                                                          \
    static trp__cublas_status call_##name(const call *c)                                           \
    {                                                                                              \
        return CALL(name)(HANDLE, __VA_ARGS__);                                                    \
    }
FAMILY(AXPY, N, ALPHA, X, Y)
FAMILY(SCAL, N, ALPHA, X)
FAMILY(COPY, N, X, Y)
FAMILY(SWAP, N, X, Y)
FAMILY(ROT, N, X, Y, ALPHA, BETA)
FAMILY(ROTG, c->operand[TRP__BLAS_X], c->operand[TRP__BLAS_Y], c->result,
       (char *)c->result + element_bytes(c))
FAMILY(ROTM, N, X, Y, ALPHA)
FAMILY(ROTMG, element(c, 0), element(c, 1), element(c, 2), c->operand[TRP__BLAS_Y], c->result)
FAMILY(DOT, N, X, Y, c->result)
FAMILY(NORM, N, X, c->result)
FAMILY(INDEX, N, X, c->result)
FAMILY(GEMV, OP, M, N, ALPHA, A, X, BETA, Y)
FAMILY(GEMV_BATCHED, OP, M, N, ALPHA, A, c->g.stride[TRP__BLAS_A], X, c->g.stride[TRP__BLAS_X],
       BETA, Y, c->g.stride[TRP__BLAS_Y], c->g.batch)
FAMILY(GBMV, OP, M, N, K, c->g.ku, ALPHA, A, X, BETA, Y)
FAMILY(GER, M, N, ALPHA, X, Y, A)
FAMILY(SYMV, fill(c), N, ALPHA, A, X, BETA, Y)
FAMILY(TRMV, fill(c), OP, diag(c), N, A, X)
FAMILY(SBMV, fill(c), N, K, ALPHA, A, X, BETA, Y)
FAMILY(TBMV, fill(c), OP, diag(c), N, K, A, X)
FAMILY(SPMV, fill(c), N, ALPHA, PACKED, X, BETA, Y)
FAMILY(TPMV, fill(c), OP, diag(c), N, PACKED, X)
FAMILY(SPR, fill(c), N, ALPHA, X, PACKED)
FAMILY(HPR, fill(c), N, ALPHA, X, PACKED)
FAMILY(SPR2, fill(c), N, ALPHA, X, Y, PACKED)
FAMILY(SYR, fill(c), N, ALPHA, X, A)
FAMILY(HER, fill(c), N, ALPHA, X, A)
FAMILY(SYR2, fill(c), N, ALPHA, X, Y, A)
FAMILY(GEMM, OP, trp__cublas_trans(c->g.trans_b), M, N, K, ALPHA, A, X, BETA, Y)
FAMILY(SYMM, side(c), fill(c), M, N, ALPHA, A, X, BETA, Y)
FAMILY(SYRK, fill(c), OP, N, K, ALPHA, A, BETA, Y)
FAMILY(HERK, fill(c), OP, N, K, ALPHA, A, BETA, Y)
FAMILY(SYR2K, fill(c), OP, N, K, ALPHA, A, X, BETA, Y)
FAMILY(HER2K, fill(c), OP, N, K, ALPHA, A, X, BETA, Y)
FAMILY(TRMM, side(c), fill(c), OP, diag(c), M, N, ALPHA, A, X, Y)
FAMILY(TRSM, side(c), fill(c), OP, diag(c), M, N, ALPHA, A, X)
FAMILY(TRSM_BATCHED, side(c), fill(c), OP, diag(c), M, N, ALPHA, A, X, c->g.batch)
FAMILY(GEAM, OP, trp__cublas_trans(c->g.trans_b), M, N, ALPHA, A, BETA, X, Y)
FAMILY(DGMM, side(c), M, N, A, X, Y)
FAMILY(AXPY_EX, N, ALPHA, TRP__CUDA_R_32F, HALF_X, HALF_Y, TRP__CUDA_R_32F)
FAMILY(SCAL_EX, N, ALPHA, TRP__CUDA_R_32F, HALF_X, TRP__CUDA_R_32F)
FAMILY(ROT_EX, N, HALF_X, HALF_Y, ALPHA, BETA, half(c), TRP__CUDA_R_32F)
FAMILY(DOT_EX, N, HALF_X, HALF_Y, c->result, half(c), TRP__CUDA_R_32F)
FAMILY(NRM2_EX, N, HALF_X, c->result, half(c), TRP__CUDA_R_32F)
#undef FAMILY

/* Indexed by the place of the operation, like the loaded routines. */
static const struct {
    trp__cublas_status (*call)(const call *c);
    const char *name[TRP__BLAS_TYPES];
} families[TRP__BLAS_PLACES] = {
#define CUBLAS_ALL(op, family, s, d, c, z)                                                         \
    [(TRP_OP_##op) & 0xff] = {call_##family, {#s, #d, #c, #z}},
#define CUBLAS_REAL(op, family, s, d)    [(TRP_OP_##op) & 0xff] = {call_##family, {#s, #d, "", ""}},
#define CUBLAS_COMPLEX(op, family, c, z) [(TRP_OP_##op) & 0xff] = {call_##family, {"", "", #c, #z}},
#include "libs/blas/routines.def"
};

/* The same for f16 and bf16. */
static const struct {
    trp__cublas_status (*call)(const call *c);
    const char *name;
} half_families[TRP__BLAS_PLACES] = {
#define CUBLAS_HALF(op, family, name) [(TRP_OP_##op) & 0xff] = {call_##family, #name},
#include "libs/blas/routines.def"
};

/* `on_device`: the device writes results and reads scalars from a buffer. */
static trp_status do_call(const trp__cublas *blas, const call *c, bool on_device, const char *name,
                          trp__cublas_status (*family)(const call *c), trp_error *error)
{
    trp_status status = TRP_OK;
    if (on_device)
        status = trp__cublas_check(
            blas, blas->cublasSetPointerMode_v2(c->handle, TRP__CUBLAS_POINTER_MODE_DEVICE),
            "cublasSetPointerMode", error);
    if (status == TRP_OK)
        status = trp__cublas_check(blas, family(c), name, error);
    if (on_device) {
        trp__cublas_status after =
            blas->cublasSetPointerMode_v2(c->handle, TRP__CUBLAS_POINTER_MODE_HOST);
        if (status == TRP_OK)
            status = trp__cublas_check(blas, after, "cublasSetPointerMode", error);
    }
    return status;
}

static scalar to_scalar(const call *c, const double value[2])
{
    if (c->real == sizeof(uint16_t))
        return (scalar){.half = {c->g.type == TRP_F16 ? trp__f64_to_f16(value[0])
                                                      : trp__f64_to_bf16(value[0])}};
    if (c->real == sizeof(double))
        return (scalar){.f64 = {value[0], value[1]}};
    return (scalar){.f32 = {(float)value[0], (float)value[1]}};
}

static void *address(const trp_job *job, uint8_t access)
{
    return access == TRP__BLAS_NO_ACCESS ? NULL : job->access[access].address;
}

/* cuBLAS refuses NULL also for operands that it does not read, so these get the address of another
 * one. An input is preferred to the output: if an input of geam is at the address of the output,
 * geam demands that it has the same layout. */
static void find_operands(call *c, const trp_job *job)
{
    void *any = NULL;
    for (int i = 0; i < TRP__BLAS_OPERANDS; i++) {
        c->operand[i] = address(job, c->g.access[i]);
        any = any ? any : c->operand[i];
    }
    for (int i = 0; i < TRP__BLAS_OPERANDS; i++)
        c->operand[i] = c->operand[i] ? c->operand[i] : any;
    c->result = address(job, c->g.result);
}

/* Returns the offset of the second scalar in a buffer. */
static uint32_t first_scalar_bytes(const call *c, uint32_t op)
{
    return op == TRP_OP_HERK ? c->real : element_bytes(c);
}

/* Returns the place of an operation, or that of the separate cuBLAS routine for batches. */
static uint32_t place_of(uint32_t op, int64_t batch)
{
    return batch > 1 && op == TRP_OP_GEMV   ? TRP_OP_GEMV_BATCHED
           : batch > 1 && op == TRP_OP_TRSM ? TRP_OP_TRSM_BATCHED
                                            : op & 0xff;
}

/* A batch of trsm, whose matrices are passed as a list of addresses. */
typedef struct listed {
    const trp__cublas *blas;
    const call *whole;
    bool on_device;
    const char *name;
} listed;

static trp_status do_part(const void *context, void **const list[], int64_t first, uint32_t count,
                          trp_error *error)
{
    const listed *l = context;
    call part = *l->whole;
    (void)first;
    part.g.batch = count;
    part.operand[TRP__BLAS_A] = list[0];
    part.operand[TRP__BLAS_X] = list[1];
    return do_call(l->blas, &part, l->on_device, l->name, families[TRP_OP_TRSM_BATCHED].call,
                   error);
}

static trp_status do_listed(trp_instance *instance, trp_job *job, trp__blas_state *s, const call *c,
                            bool on_device, const char *name, trp_error *error)
{
    const int64_t size = element_bytes(c);
    const listed context = {s->blas, c, on_device, name};
    const trp__blas_batch batch = {
        .count = c->g.batch,
        .arrays = 2,
        .first = {c->operand[TRP__BLAS_A], c->operand[TRP__BLAS_X]},
        .stride = {c->g.stride[TRP__BLAS_A] * size, c->g.stride[TRP__BLAS_X] * size},
        .call = do_part,
        .context = &context,
    };
    return trp__blas_batch_do(instance, job, &s->addresses, &batch, error);
}

/* Conjugation. cuBLAS conjugates matrices only when it transposes them. */

enum { F32 = 0, C64 = 2 };

/* Conjugates a vector in place: scales the vector of its imaginary parts by -1. */
static trp_status conjugate(const trp__cublas *blas, const call *c, void *vector, int64_t n,
                            int64_t step, trp_error *error)
{
    const scalar minus_one = to_scalar(c, (const double[2]){-1, 0});
    SCAL_routine scal =
        (SCAL_routine)blas->routine[TRP_OP_SCAL & 0xff][F32 + (c->real == sizeof(double))];
    if (!scal)
        return trp__error_set(error, TRP_E_UNSUPPORTED, "this cuBLAS has no scal");
    return trp__cublas_check(blas,
                             scal(c->handle, n, &minus_one, (char *)vector + c->real, 2 * step),
                             "cublas?scal", error);
}

/* Copies a vector in the order of memory and conjugates the copy, which has no gaps. */
static trp_status conjugate_copy(const trp__cublas *blas, const call *c, void *to, const void *from,
                                 int64_t n, int64_t step, trp_error *error)
{
    COPY_routine copy =
        (COPY_routine)blas->routine[TRP_OP_VCOPY & 0xff][C64 + (c->real == sizeof(double))];
    if (!copy)
        return trp__error_set(error, TRP_E_UNSUPPORTED, "this cuBLAS has no copy");
    trp_status status =
        trp__cublas_check(blas, copy(c->handle, n, from, step, to, 1), "cublas?copy", error);
    return status == TRP_OK ? conjugate(blas, c, to, n, 1, error) : status;
}

static int64_t distance(int64_t increment)
{
    return increment < 0 ? -increment : increment;
}

static bool in_place(const call *c, int operand)
{
    return c->g.conjugate &
           (operand == TRP__BLAS_X ? TRP__BLAS_CONJUGATES_X : TRP__BLAS_CONJUGATES_Y);
}

/* Conjugates the vectors that the operation writes. */
static trp_status conjugate_outputs(const trp__cublas *blas, const call *c, trp_error *error)
{
    trp_status status = TRP_OK;
    for (int i = TRP__BLAS_X; i <= TRP__BLAS_Y; i++) {
        char *vector = c->operand[i];
        int64_t bytes = c->g.stride[i] * 2 * c->real;
        for (int64_t k = 0; in_place(c, i) && k < c->g.batch && status == TRP_OK; k++)
            status =
                conjugate(blas, c, vector + k * bytes, c->g.length[i], distance(c->g.ld[i]), error);
    }
    return status;
}

/* Returns whether X or Y is read and not written. */
static bool is_input(const call *c, int operand)
{
    return c->g.access[operand] != TRP__BLAS_NO_ACCESS && !in_place(c, operand);
}

/* Writes conjugated copies of the inputs to `scratch`, and makes the call read them. */
static trp_status conjugate_inputs(const trp__cublas *blas, call *c, char *scratch,
                                   trp_error *error)
{
    trp_status status = TRP_OK;
    int64_t element_bytes = 2 * c->real;
    if (c->g.conjugate & TRP__BLAS_CONJUGATE_SCALARS) {
        status = conjugate_copy(blas, c, scratch, c->alpha, 2, 1, error);
        c->alpha = scratch;
        c->beta = scratch + element_bytes;
        scratch += 2 * element_bytes;
    }
    for (int i = TRP__BLAS_X; i <= TRP__BLAS_Y; i++) {
        if (!is_input(c, i))
            continue;
        const char *from = c->operand[i];
        int64_t bytes = c->g.length[i] * element_bytes;
        for (int64_t k = 0; k < c->g.batch && status == TRP_OK; k++)
            status = conjugate_copy(blas, c, scratch + k * bytes,
                                    from + k * c->g.stride[i] * element_bytes, c->g.length[i],
                                    distance(c->g.ld[i]), error);
        c->operand[i] = scratch;
        c->g.ld[i] = c->g.ld[i] < 0 ? -1 : 1;
        c->g.stride[i] = c->g.length[i];
        scratch += c->g.batch * bytes;
    }
    return status;
}

static trp_status do_conjugated(trp_instance *instance, const trp__blas_state *s, call *c,
                                bool on_device, const char *name,
                                trp__cublas_status (*family)(const call *c), trp_error *error)
{
    trp__cu_address scratch = 0;
    uint64_t elements = 2;
    for (int i = TRP__BLAS_X; i <= TRP__BLAS_Y; i++)
        elements += is_input(c, i) ? (uint64_t)(c->g.batch * c->g.length[i]) : 0;
    trp_status status = trp_cuda_check(
        instance, s->cu->cuMemAllocAsync(&scratch, elements * 2 * c->real, instance->stream),
        "cuMemAllocAsync", error);
    if (status != TRP_OK)
        return status;
    status = conjugate_inputs(s->blas, c, (char *)(uintptr_t)scratch, error);
    if (status == TRP_OK)
        status = conjugate_outputs(s->blas, c, error);
    if (status ==
        TRP_OK) { /* a refused call does not change its output, which is conjugated back */
        trp_error ignored;
        status = do_call(s->blas, c, on_device, name, family, error);
        trp_status back = conjugate_outputs(s->blas, c, status == TRP_OK ? error : &ignored);
        status = status == TRP_OK ? back : status;
    }
    trp_status freed = trp_cuda_check(instance, s->cu->cuMemFreeAsync(scratch, instance->stream),
                                      "cuMemFreeAsync", status == TRP_OK ? error : NULL);
    return status == TRP_OK ? freed : status;
}

trp_status trp__levels_cuda(trp_instance *instance, trp_job *job, trp__blas_state *s,
                            trp_error *error)
{
    const trp__cublas *blas = s->blas;
    call c = {.handle = s->handle};
    memcpy(&c.g, job->payload, sizeof c.g);
    uint32_t place = place_of(job->op, c.g.batch);
    static const uint8_t columns[] = {
        [TRP_F32] = 0, [TRP_F64] = 1, [TRP_C64] = 2, [TRP_C128] = 3, [TRP_F16] = 4, [TRP_BF16] = 5};
    uint32_t type = c.g.type < sizeof columns ? columns[c.g.type] : 0;
    bool known = job->op >> 8 == TRP_OP_GEMM >> 8 && job->op != TRP_OP_GEMM_LIST;
    trp__cublas_status (*family)(const call *c) = NULL;
    const char *name = "";
    if (known && place < TRP__BLAS_PLACES) {
        family = type < 4 ? families[place].call : half_families[place].call;
        name = type < 4 ? families[place].name[type] : half_families[place].name;
    }
    if (!family)
        return trp__error_set(error, TRP_E_INTERNAL, "operation %#x is not one of blas", job->op);
    c.real = type < 4 && type % 2    ? sizeof(double)
             : type < 4              ? sizeof(float)
             : job->op == TRP_OP_ROT ? sizeof(uint16_t)
                                     : sizeof(float);
    c.routine = blas->routine[place][type];
    if (!c.routine)
        return trp__error_set(error, TRP_E_UNSUPPORTED, "this cuBLAS has no %s", name);
    find_operands(&c, job);
    if (!c.operand[TRP__BLAS_A]) { /* nothing to compute, but an empty sum is 0 */
        if (!c.result)
            return TRP_OK;
        return instance->services->fill(instance, c.result, 0, 1, job->access[c.g.result].bytes,
                                        error);
    }
    scalar alpha = to_scalar(&c, c.g.alpha);
    scalar beta = to_scalar(&c, c.g.beta);
    const char *scalars = address(job, c.g.scalars);
    c.alpha = scalars ? (const void *)scalars : &alpha;
    c.beta = scalars ? (const void *)(scalars + first_scalar_bytes(&c, job->op)) : &beta;
    bool on_device = scalars || c.result;
    trp_status status = TRP_OK;
    if (job->op == TRP_OP_ROTMG) /* rotmg writes only the elements that the flag does not imply */
        status = instance->services->fill(instance, c.result, 0, 1, job->access[c.g.result].bytes,
                                          error);
    if (status != TRP_OK)
        return status;
    if (c.g.conjugate)
        return do_conjugated(instance, s, &c, on_device, name, family, error);
    return place == TRP_OP_TRSM_BATCHED ? do_listed(instance, job, s, &c, on_device, name, error)
                                        : do_call(blas, &c, on_device, name, family, error);
}
