/* Plans of products by cuBLASLt: descriptors, and the chosen algorithm. */
#ifndef TRP_MATRIX_PLAN_H
#define TRP_MATRIX_PLAN_H

#include "driver/cuda.h"
#include "libs/cublaslt/cublaslt.h"
#include "matrix/product.h"

#include <troupe/matmul.h>

#include <stdbool.h>
#include <string.h>

/* Operands that have a layout, and those whose alignment an algorithm may rely on. */
enum { TRP__MATMUL_LAYOUTS = TRP__MATMUL_D + 1, TRP__MATMUL_ALIGNED = TRP__MATMUL_VECTOR + 1 };

static inline bool trp__matmul_has(const trp__matmul *g, int operand)
{
    return g->access[operand] != TRP__MATMUL_NO_ACCESS;
}

/* Whether the epilogue multiplies by the derivative of an activation, which reads AUX. */
static inline bool trp__matmul_is_derivative(const trp__matmul *g)
{
    return g->activation == TRP_ACTIVATION_DRELU || g->activation == TRP_ACTIVATION_DGELU;
}

/* Everything that a plan depends on: the payload without the scalars, which are 0 here (alpha 0
 * with beta 1 needs a separate plan and has beta 1 here; a stride of alphas is no scalar); and the
 * alignment of operands, as a power of two up to 256, since an algorithm may rely on it. */
typedef struct trp__matmul_key {
    trp__matmul problem;
    uint8_t alignment[TRP__MATMUL_ALIGNED]; /* exponents */
    uint8_t loses_gradient;
    uint8_t deterministic; /* parts of sums are added in a separate step */
} trp__matmul_key;

_Static_assert(sizeof(trp__matmul_key) % 8 == 0, "a key for a trp__lru");

typedef struct trp__matmul_plan {
    bool blind; /* alpha is 0 and beta is 1, and the library must read them from the device */
    trp__cublaslt_desc desc;
    trp__cublaslt_layout layout[TRP__MATMUL_LAYOUTS];
    trp__cublaslt_algo algo;
    size_t workspace; /* bytes that the algorithm needs */
    bool own;         /* the reference kernel is used, since no algorithm is accepted */
    bool proven;      /* the algorithm was proven, or the reference kernel is used */
} trp__matmul_plan;

/* The device and the library for which problems are planned. */
typedef struct trp__matmul_planner {
    const trp__cublaslt *lt;
    trp__cublaslt_handle handle;
    int major, minor;          /* compute capability */
    uint64_t l2_bytes;         /* size of the cache */
    trp__cu_address constants; /* trp__matmul_constants() in device memory */
    /* Returns whether the algorithm that a search has found may be used; NULL: all may. */
    bool (*serves)(void *context, const trp__matmul_key *key, const trp__matmul_plan *plan);
    void *context;
} trp__matmul_planner;

/* Compares bytes, since there is no padding and the scalars are 0. */
static inline bool trp__matmul_same_key(const trp__matmul_key *x, const trp__matmul_key *y)
{
    return memcmp((const unsigned char *)x, (const unsigned char *)y, sizeof *x) == 0;
}

/* Returns the data that planner->constants must point to. */
const void *trp__matmul_constants(size_t *bytes);

trp__matmul_key trp__matmul_key_of(const trp__matmul *problem, void *const at[]);

/* Bytes by which an operand must lie beside a multiple of 256, to be aligned no better than in the
 * problem. */
uint32_t trp__matmul_skew(const trp__matmul_key *key, int operand);

/* Returns the epilogue constant of the library for a problem. */
uint32_t trp__matmul_epilogue(const trp__matmul *g);

/* Returns whether the library would not write D although it must: D is a vector, C is another
 * matrix or there is an epilogue, and alpha is 0 and beta is 1, or may be, in a buffer. */
bool trp__matmul_may_be_skipped(const trp__matmul *problem);

/* Fills an empty plan, with the first algorithm that the library's heuristic proposes. at[] has the
 * addresses of the operands (NULL: not there); only their alignment is used. The message of
 * TRP_E_UNSUPPORTED names the part of the problem that the library does not support, if it supports
 * the problem without this part. After an error, the plan is empty. Any thread may call this. */
trp_status trp__matmul_plan_make(const trp__matmul_planner *planner, const trp__matmul_key *key,
                                 void *const at[], trp__matmul_plan *plan, trp_error *error);

/* The same, but an error has the library's reason. */
trp_status trp__matmul_plan_try(const trp__matmul_planner *planner, const trp__matmul_key *key,
                                void *const at[], trp__matmul_plan *plan, trp_error *error);

/* Gets at most `room` algorithms that the library proposes for a plan, the best by its heuristic
 * first; returns their number. */
int trp__matmul_plan_candidates(const trp__matmul_planner *planner, const trp__matmul_key *key,
                                const trp__matmul_plan *plan, trp__cublaslt_result *out, int room);

/* Empties a plan. */
void trp__matmul_plan_drop(const trp__cublaslt *lt, trp__matmul_plan *plan);

/* Enqueues a product of the plan's problem, with the scalars of `problem`. Only one thread may use
 * a plan at a time. */
trp_status trp__matmul_plan_launch(const trp__matmul_planner *planner, const trp__matmul_plan *plan,
                                   const trp__matmul *problem, void *const at[], void *workspace,
                                   size_t workspace_bytes, trp__cu_stream stream, trp_error *error);

#endif
