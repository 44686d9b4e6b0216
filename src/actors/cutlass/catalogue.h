/* The kernels that the cutlass actor knows how to have compiled: one row for each tile, cluster,
 * schedule, number of stages, group of types and alignment. Layouts, the types of C and D and the
 * tree belong to the problem. Nothing here needs a GPU. */
#ifndef TRP_ACTORS_CUTLASS_CATALOGUE_H
#define TRP_ACTORS_CUTLASS_CATALOGUE_H

#include "actors/cutlass/abi.h"
#include "actors/cutlass/tree.h"
#include "base/text.h"

/* What the choice of a kernel depends on. D is row-major: a column-major problem has been turned
 * into its transpose (D' = B' A') before, and so has its tree. */
typedef struct trp__cutlass_problem {
    int64_t m, n, k, batch;
    uint8_t a, b, c, d, accumulator; /* trp_dtype; c: TRP_DTYPE_NONE if it is not read */
    bool a_row, b_row;               /* row-major */
    uint8_t compute;                 /* trp_compute */
    /* The largest power of two up to 16 of bytes that divides the address, the leading dimension
     * and the distance between batches (in bytes) of each: A, B, C (16 if there is none), D, and
     * the least of all auxiliary matrices and vectors along n of the tree (16 if there is none). */
    uint32_t align[5];
    const trp__tree *tree; /* NULL: alpha * sums + beta * C in integers (D is i32) */
    uint32_t capability;   /* 90 */
    uint32_t processors;   /* SMs */
    uint32_t shared_bytes; /* of a block, at most: 232448 on 9.0 */
} trp__cutlass_problem;

typedef enum trp__cutlass_family {
    TRP__CUTLASS_SM80, /* CUTLASS 2.x: mma.sync or SIMT; gemm_sm80.cuh */
    TRP__CUTLASS_SM90, /* 3.x: TMA and wgmma; gemm_sm90.cuh */
} trp__cutlass_family;

/* The inputs that a row takes. */
typedef enum trp__cutlass_inputs {
    TRP__CUTLASS_HALF, /* f16 or bf16 */
    TRP__CUTLASS_TF32, /* f32, rounded; only if the request allows it */
    TRP__CUTLASS_F32,
    TRP__CUTLASS_F64,
    TRP__CUTLASS_I8,
    TRP__CUTLASS_FP8, /* f8e4m3, f8e5m2, mixed */
} trp__cutlass_inputs;

typedef struct trp__cutlass_row {
    const char *name;
    uint8_t family; /* trp__cutlass_family */
    uint8_t inputs; /* trp__cutlass_inputs */
    uint16_t tile[3];
    uint16_t warp[3];        /* 2.x: of a warp */
    uint16_t instruction[3]; /* 2.x; 1, 1, x: SIMT */
    uint8_t cluster[2];      /* 3.x */
    uint8_t stages;          /* 0: as many as fit */
    uint8_t align;           /* elements of A and B that are loaded at once */
    uint8_t lines;           /* bytes of D, C and auxiliary lines likewise; 0: single elements */
    uint8_t efficiency;      /* percent of the peak of the row's instructions, in large products */
    bool pingpong;           /* 3.x: two tiles take turns; else two warp groups share one */
    bool stream_k;
    bool by_name; /* never chosen: its results are less exact than asked for */
} trp__cutlass_row;

/* By SIMT instead of tensor cores. */
static inline bool trp__cutlass_row_simt(const trp__cutlass_row *row)
{
    return row->family == TRP__CUTLASS_SM80 && row->instruction[0] == 1;
}

uint32_t trp__cutlass_row_count(void);
const trp__cutlass_row *trp__cutlass_row_at(uint32_t i);

/* The row of that name, or NULL. */
const trp__cutlass_row *trp__cutlass_row_find(const char *name);

/* TRP_OK if the row can compute the problem; else TRP_E_UNSUPPORTED with the row's name and the
 * reason in `error`. */
trp_status trp__cutlass_row_applies(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                    trp_error *error);

/* Estimated seconds on the device, of a problem that the row applies to. Good for the order of rows
 * and nothing else. */
double trp__cutlass_row_cost(const trp__cutlass_row *row, const trp__cutlass_problem *p);

/* The rows that apply, best first; how many, at most `room`. With none, `why_none` has a reason. */
uint32_t trp__cutlass_choose(const trp__cutlass_problem *p, const trp__cutlass_row **out,
                             uint32_t room, trp_error *why_none);

/* Appends the source of a row's kernel for a problem that it applies to. It depends on the row, the
 * types, A's and B's layouts, the tree, and with auxiliary matrices on align[4]: not on sizes,
 * addresses, other alignments or scalars. */
trp_status trp__cutlass_row_render(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                   trp__text *out, trp_error *error);

/* What the source is to be compiled for: "sm_90a" for a row of 3.x, else the device's own. */
void trp__cutlass_row_architecture(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                   char out[16]);

/* Sets swizzle, raster, splits, stream_k and reduction of the arguments. */
void trp__cutlass_row_settings(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                               trp_cutlass_args *args);

#endif
