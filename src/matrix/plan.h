/* How cuBLASLt does one problem: its descriptors, and the algorithm that was chosen. */
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

/* What a plan depends on: of the payload all but the scalars, which are 0 here (of alpha 0 with
 * beta 1, which takes a plan of its own, beta is 1); and how operands are aligned, as a power of
 * two up to 256, for an algorithm may rely on it. */
typedef struct trp__matmul_key {
    trp__matmul problem;
    uint8_t alignment[TRP__MATMUL_ALIGNED]; /* exponents */
    uint8_t loses_gradient;
    uint8_t deterministic; /* parts of sums are added up in a step of their own */
} trp__matmul_key;

_Static_assert(sizeof(trp__matmul_key) % 8 == 0, "a key for a trp__lru");

typedef struct trp__matmul_plan {
    bool blind; /* alpha is 0 and beta is 1, and the library must not see it */
    trp__cublaslt_desc desc;
    trp__cublaslt_layout layout[TRP__MATMUL_LAYOUTS];
    trp__cublaslt_algo algo;
    size_t workspace; /* bytes that it needs */
    bool own;         /* no algorithm may serve: the reference kernel does */
    bool proven;      /* what serves was proven, or is the reference kernel */
} trp__matmul_plan;

/* Where and with what problems are planned. */
typedef struct trp__matmul_planner {
    const trp__cublaslt *lt;
    trp__cublaslt_handle handle;
    int major, minor;          /* compute capability */
    uint64_t l2_bytes;         /* of the device's cache */
    trp__cu_address constants; /* trp__matmul_constants() in the device's memory */
    /* Whether the algorithm that a search has found may serve; NULL: it may. */
    bool (*serves)(void *context, const trp__matmul_key *key, const trp__matmul_plan *plan);
    void *context;
} trp__matmul_planner;

/* Byte by byte: its scalars are 0, and there is no padding. */
static inline bool trp__matmul_same_key(const trp__matmul_key *x, const trp__matmul_key *y)
{
    return memcmp((const unsigned char *)x, (const unsigned char *)y, sizeof *x) == 0;
}

/* What planner->constants must point to. */
const void *trp__matmul_constants(size_t *bytes);

trp__matmul_key trp__matmul_key_of(const trp__matmul *problem, void *const at[]);

/* Bytes by which an operand must lie beside a multiple of 256, to be aligned no better than in the
 * problem. */
uint32_t trp__matmul_skew(const trp__matmul_key *key, int operand);

/* The library's constant for a problem's epilogue: its bits are put together as the library's own
 * constants are. */
uint32_t trp__matmul_epilogue(const trp__matmul *g);

/* Whether the library leaves D as it is, if alpha is 0 and beta is 1: where D is a vector and C is
 * apart or there is an epilogue. With `scalars` they may be. */
bool trp__matmul_may_be_skipped(const trp__matmul *problem);

/* Makes a plan from an empty one, with the first algorithm that the library's heuristic proposes.
 * at[] has the operands' addresses (NULL: not there); they are not used but for their alignment.
 * TRP_E_UNSUPPORTED names the part of the problem that the library can't do, as far as leaving out
 * one part shows it. On an error the plan is empty again. Any thread. */
trp_status trp__matmul_plan_make(const trp__matmul_planner *planner, const trp__matmul_key *key,
                                 void *const at[], trp__matmul_plan *plan, trp_error *error);

/* The same, with the library's own reason. */
trp_status trp__matmul_plan_try(const trp__matmul_planner *planner, const trp__matmul_key *key,
                                void *const at[], trp__matmul_plan *plan, trp_error *error);

/* The algorithms that the library proposes for a plan that is made, the best by its heuristic
 * first; returns how many, at most `room`. */
int trp__matmul_plan_candidates(const trp__matmul_planner *planner, const trp__matmul_key *key,
                                const trp__matmul_plan *plan, trp__cublaslt_result *out, int room);

/* Empties a plan. */
void trp__matmul_plan_drop(const trp__cublaslt *lt, trp__matmul_plan *plan);

/* Enqueues a product of the plan's problem, whose scalars are those given here. Plans are for one
 * thread at a time. */
trp_status trp__matmul_plan_launch(const trp__matmul_planner *planner, const trp__matmul_plan *plan,
                                   const trp__matmul *problem, void *const at[], void *workspace,
                                   size_t workspace_bytes, trp__cu_stream stream, trp_error *error);

#endif
