#include "actors/blas/levels_host.h"

#include "actors/blas/levels_wire.h"
#include "actors/blas/routines.h"
#include "base/error.h"
#include "base/numbers/half.h"
#include "worker/backend.h"

#include <troupe/blas.h>

#include <float.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

/* An operation that the thread of the stream runs. */
typedef struct operation {
    void (*run)(const struct operation *o);
    void (*routine)(void); /* of CBLAS; NULL: a loop of Troupe */
    void *a, *x, *y;
    const void *scalars; /* NULL: they are in l */
    void *result;
    int m, n, k, ku, lda, ldx, ldy;  /* those of l, in the type of CBLAS */
    uint8_t side, uplo, trans, diag; /* likewise */
    trp__levels l;
} operation;

_Static_assert(sizeof(operation) <= TRP_ACTOR_ENQUEUE_MAX, "an operation's arguments fit");

#define COLUMN_MAJOR TRP__CBLAS_COLUMN_MAJOR

/* Returns whether X or Y is written, and so conjugated in place. */
static bool written(const operation *o, int operand)
{
    return o->l.conjugate &
           (operand == TRP__BLAS_X ? TRP__BLAS_CONJUGATES_X : TRP__BLAS_CONJUGATES_Y);
}

/* The largest increment with which the element behind a vector is still in the margin of an arena.
 */
#define LARGEST_INCREMENT ((int64_t)(TRP__HOST_MARGIN / sizeof(double _Complex)))

/* The exponent of the square of any f64 fits in a long double. */
_Static_assert(LDBL_MAX_EXP > 2 * DBL_MAX_EXP + 2, "long double is wider than double");

#define T       float
#define R       float
#define W       double
#define LEAST   FLT_MIN
#define NAME(x) x##_f32
#define COMPLEX 0
#include "actors/blas/levels_host_type.h"

#define T       double
#define R       double
#define W       long double
#define LEAST   DBL_MIN
#define NAME(x) x##_f64
#define COMPLEX 0
#include "actors/blas/levels_host_type.h"

#define T       float _Complex
#define R       float
#define W       double
#define LEAST   FLT_MIN
#define NAME(x) x##_c64
#define COMPLEX 1
#include "actors/blas/levels_host_type.h"

#define T       double _Complex
#define R       double
#define W       long double
#define LEAST   DBL_MIN
#define NAME(x) x##_c128
#define COMPLEX 1
#include "actors/blas/levels_host_type.h"

#include "actors/blas/levels_host_half.h"

/* The function for an operation and a type, and the routine of CBLAS that it calls. */
typedef struct method {
    void (*run)(const operation *o);
    const char *routine; /* NULL: none */
} method;

static const method methods[TRP__BLAS_PLACES][TRP__BLAS_TYPES] = {
#define METHOD(op, type, function, name) [TRP_OP_##op & 0xff][type] = {function, name},
#define CBLAS_REAL(op, family, s, d)     METHOD(op, 0, family##_f32, #s) METHOD(op, 1, family##_f64, #d)
#define CBLAS_COMPLEX(op, family, c, z)                                                            \
    METHOD(op, 2, family##_c64, #c) METHOD(op, 3, family##_c128, #z)
#define HOST_REAL(op, loop)    METHOD(op, 0, loop##_f32, NULL) METHOD(op, 1, loop##_f64, NULL)
#define HOST_COMPLEX(op, loop) METHOD(op, 2, loop##_c64, NULL) METHOD(op, 3, loop##_c128, NULL)
#define HOST_HALF(op, loop)    METHOD(op, 4, loop, NULL) METHOD(op, 5, loop, NULL)
#include "libs/blas/routines.def"
#undef METHOD
};

/* The properties of an operation, by its place. */
static const struct {
    uint8_t level;
    uint32_t uses; /* flags of routines.h */
} routines[TRP__BLAS_PLACES] = {
#define ROUTINE(level_, op, name, uses_, ...) [TRP_OP_##op & 0xff] = {(level_), (uses_)},
#include "libs/blas/routines.def"
};

enum { C64 = 2 }; /* index of a column */

static const method *find_method(uint32_t op, uint8_t type, uint32_t *place, uint32_t *column)
{
    static const uint8_t columns[TRP_DTYPE_COUNT] = {
        [TRP_F32] = 1, [TRP_F64] = 2, [TRP_C64] = 3, [TRP_C128] = 4, [TRP_F16] = 5, [TRP_BF16] = 6};
    *place = op & 0xff;
    *column = type < TRP_DTYPE_COUNT ? columns[type] - UINT32_C(1) : UINT32_MAX;
    if (op >> 8 != TRP_OP_GEMM >> 8 || *place >= TRP__BLAS_PLACES || *column >= TRP__BLAS_TYPES)
        return NULL;
    const method *found = &methods[*place][*column];
    return found->run ? found : NULL;
}

/* Sets sizes that the operation does not have to 0, since they may have any value. */
static void drop_unused_sizes(trp__levels *l, uint32_t uses)
{
    if (!(uses & SIZE_M))
        l->m = 0;
    if (!(uses & (SIZE_K | BAND | DIAGONALS)))
        l->k = 0;
    if (!(uses & BAND))
        l->ku = 0;
}

/* gemm3m is not part of CBLAS, and OpenBLAS has it only for some processors. gemm has the same
 * parameters and replaces it. */
static void (*find_routine(const trp__openblas *blas, uint32_t place, uint32_t column))(void)
{
    void (*routine)(void) = blas->routine[place][column];
    if (!routine && place == (TRP_OP_GEMM3M & 0xff))
        routine =
            column == C64 ? (void (*)(void))blas->cblas_cgemm : (void (*)(void))blas->cblas_zgemm;
    return routine;
}

static bool fits_32_bits(const trp__levels *l)
{
    const int64_t all[] = {l->m, l->n, l->k, l->ku, l->ld[0], l->ld[1], l->ld[2]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i] > INT_MAX || all[i] < -INT_MAX)
            return false;
    }
    return true;
}

static void *address(const trp_job *job, uint8_t access)
{
    return access == TRP__BLAS_NO_ACCESS ? NULL : job->access[access].address;
}

/* Fills the members that follow from l. */
static void resolve(operation *o, const trp_job *job)
{
    const trp__levels *l = &o->l;
    o->a = address(job, l->access[TRP__BLAS_A]);
    o->x = address(job, l->access[TRP__BLAS_X]);
    o->y = address(job, l->access[TRP__BLAS_Y]);
    o->scalars = address(job, l->scalars);
    o->result = address(job, l->result);
    o->m = (int)l->m;
    o->n = (int)l->n;
    o->k = (int)l->k;
    o->ku = (int)l->ku;
    o->lda = (int)l->ld[TRP__BLAS_A];
    o->ldx = (int)l->ld[TRP__BLAS_X];
    o->ldy = (int)l->ld[TRP__BLAS_Y];
    o->side = l->side == TRP_LEFT ? TRP__CBLAS_LEFT : TRP__CBLAS_RIGHT;
    o->uplo = l->uplo == TRP_UPPER ? TRP__CBLAS_UPPER : TRP__CBLAS_LOWER;
    o->trans = trp__cblas_trans(l->trans);
    o->diag = l->diag == TRP_UNIT ? TRP__CBLAS_UNIT : TRP__CBLAS_NON_UNIT;
}

static void run(void *arguments)
{
    const operation *o = arguments;
    o->run(o);
}

/* An operation with conjugated vectors, which is too large for enqueue(). */
typedef struct conjugated {
    operation o;
    _Alignas(double _Complex) unsigned char scratch[];
} conjugated;

static void run_conjugated(void *arguments)
{
    conjugated *c = *(conjugated **)arguments;
    if (c->o.l.type == TRP_C64)
        run_conjugated_c64(&c->o, c->scratch);
    else
        run_conjugated_c128(&c->o, c->scratch);
    free(c);
}

static trp_status enqueue_conjugated(trp_instance *instance, const operation *o, trp_error *error)
{
    size_t element = trp_dtype_bits((trp_dtype)o->l.type) / 8, elements = 0;
    for (int i = TRP__BLAS_X; i <= TRP__BLAS_Y; i++) {
        if (!written(o, i))
            elements += (size_t)(o->l.length[i] * o->l.batch);
    }
    conjugated *c = malloc(sizeof *c + elements * element);
    if (!c)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for the conjugates of %zu elements",
                              elements);
    c->o = *o;
    trp_status status =
        instance->services->enqueue(instance, run_conjugated, &c, sizeof(void *), error);
    if (status != TRP_OK)
        free(c);
    return status;
}

trp_status trp__levels_host_handle(trp_instance *instance, trp_job *job, const trp__openblas *blas,
                                   trp_error *error)
{
    operation o;
    uint32_t place, column;
    memcpy(&o.l, job->payload, sizeof o.l);
    const method *found = find_method(job->op, o.l.type, &place, &column);
    if (!found)
        return trp__error_set(error, TRP_E_INTERNAL, "operation %#x for type %u is not one of blas",
                              job->op, o.l.type);
    const uint32_t uses = routines[place].uses;
    drop_unused_sizes(&o.l, uses);
    /* A result is written even if the vectors are empty. */
    if (!(uses & GIVES) && (o.l.n == 0 || (uses & SIZE_M && o.l.m == 0)))
        return TRP_OK;
    o.run = found->run;
    o.routine = find_routine(blas, place, column);
    if (found->routine && !o.routine)
        return trp__error_set(error, TRP_E_UNSUPPORTED, "this OpenBLAS has no %s", found->routine);
    if (found->routine && !fits_32_bits(&o.l))
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "a size, a leading dimension or an increment is 2^31 or more, which "
                              "OpenBLAS with 32-bit integers can't take");
    bool vectors = routines[place].level < 3; /* rather than matrices */
    for (int i = TRP__BLAS_X; vectors && found->routine && i <= TRP__BLAS_Y; i++) {
        int64_t inc = o.l.ld[i] < 0 ? -o.l.ld[i] : o.l.ld[i];
        if (inc > LARGEST_INCREMENT)
            return trp__error_set(error, TRP_E_UNSUPPORTED,
                                  "an increment of %lld: OpenBLAS may read one element beyond the "
                                  "last, so the increment can be at most %lld",
                                  (long long)inc, (long long)LARGEST_INCREMENT);
    }
    resolve(&o, job);
    return o.l.conjugate ? enqueue_conjugated(instance, &o, error)
                         : instance->services->enqueue(instance, run, &o, sizeof o, error);
}
