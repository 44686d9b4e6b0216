/* The catalogue of kernels that the cutlass actor can compile: one row per tile, cluster, schedule,
 * number of stages, group of types and alignment. Layouts, the types of C and D and the tree belong
 * to the problem. Nothing here needs a GPU. */
#ifndef TRP_ACTORS_CUTLASS_CATALOGUE_CATALOGUE_H
#define TRP_ACTORS_CUTLASS_CATALOGUE_CATALOGUE_H

#include "actors/cutlass/epilogue/tree.h"
#include "actors/cutlass/templates/abi.h"
#include "base/text.h"

typedef enum trp__cutlass_operation {
    TRP__CUTLASS_GEMM,    /* one product, or a batch */
    TRP__CUTLASS_GROUPED, /* many products with sizes and addresses in device memory */
    TRP__CUTLASS_CONV,    /* an implicit-GEMM convolution; its groups are the batch */
} trp__cutlass_operation;

enum { TRP__CUTLASS_GEOMETRY = 20 };

/* Properties of a convolution beyond those of its product. */
typedef struct trp__cutlass_convolution {
    uint8_t operation; /* trp_conv_operation */
    uint8_t dims;      /* 2 or 3; one dimension is two with height 1 */
    bool divided;      /* DGRAD with strides other than 1 */
    bool tma;          /* tensor maps can describe A and B */
    /* Channels or filters of a group for each filter position: along k, for WGRAD along n. */
    int32_t inner;
    /* Determines a kernel's speed but is not used by estimates: images, whether the filter is
     * flipped, and for each dimension input, filter, output, padding, stride and dilation. */
    int32_t geometry[TRP__CUTLASS_GEOMETRY];
    const char *why_not_tma; /* or NULL */
} trp__cutlass_convolution;

/* The properties that the choice of a kernel depends on. D is row-major: a column-major problem and
 * its tree have been replaced by their transposes (D' = B' A'). */
typedef struct trp__cutlass_problem {
    uint8_t operation; /* trp__cutlass_operation */
    uint8_t grouping;  /* grouped products: trp_cutlass_grouping of the transposed problem */
    /* For grouped products the mean of the known m, n and k, and the number of groups. */
    int64_t m, n, k, batch;
    /* For grouped products the largest power of two up to 16 that divides m, n and k of all groups,
     * or 1 if unknown. */
    uint32_t divides[3];
    uint8_t a, b, c, d, accumulator; /* trp_dtype; c: TRP_DTYPE_NONE if it is not read */
    bool a_row, b_row;               /* row-major */
    uint8_t compute;                 /* trp_compute */
    uint8_t scale_a, scale_b;        /* trp_scale_mode; TRP_SCALE_TENSOR: no factors */
    bool zeros;                      /* groups have zero points */
    int64_t group;                   /* elements of k per group of the narrower matrix; 0: no
                                      * groups */
    bool fast;                       /* fp8 sums may be less exact */
    /* The largest power of two up to 16 bytes that divides the address, leading dimension and batch
     * stride in bytes of A, B, C (16 without C), D, and of all auxiliary matrices and vectors along
     * n of the tree (16 without any). For grouped products the minimum over all groups. */
    uint32_t align[5];
    uint32_t align_scales;         /* the same for block scale factors (16 without any) */
    trp__cutlass_convolution conv; /* of TRP__CUTLASS_CONV */
    const trp__tree *tree;         /* NULL: alpha * sums + beta * C in integers (D is i32) */
    uint32_t capability;           /* 90 */
    uint32_t processors;           /* SMs */
    uint32_t shared_bytes;         /* maximum per block: 232448 on 9.0 */
} trp__cutlass_problem;

typedef enum trp__cutlass_family {
    TRP__CUTLASS_SM80,  /* CUTLASS 2.x: mma.sync or SIMT; gemm_, mixed_, grouped_ and conv_sm80.cuh
                         */
    TRP__CUTLASS_SM90,  /* 3.x: TMA and wgmma; gemm_sm90.cuh */
    TRP__CUTLASS_SM100, /* 3.x: TMA and tcgen05, 10.0 and 10.3; gemm_sm100.cuh */
    TRP__CUTLASS_SM120, /* 3.x: TMA and mma.sync, 12.0 and 12.1; gemm_sm100.cuh */
} trp__cutlass_family;

/* The input types of a row. */
typedef enum trp__cutlass_inputs {
    TRP__CUTLASS_HALF, /* f16 or bf16 */
    TRP__CUTLASS_TF32, /* f32 rounded to tf32, if the request allows it */
    TRP__CUTLASS_F32,
    TRP__CUTLASS_F64,
    TRP__CUTLASS_I8,
    TRP__CUTLASS_MIXED,      /* f16 or bf16, and i8, f8e4m3 or f8e5m2 */
    TRP__CUTLASS_MIXED_I4,   /* f16 or bf16, and i4 */
    TRP__CUTLASS_FP8,        /* f8e4m3, f8e5m2, mixed */
    TRP__CUTLASS_FP8_BLOCKS, /* fp8 with scale factors per block of 128 */
    TRP__CUTLASS_MXFP8,      /* fp8 with scale factors per block of 32 */
    TRP__CUTLASS_NVFP4,      /* f4e2m1 with scale factors per block of 16 */
} trp__cutlass_inputs;

typedef struct trp__cutlass_row {
    const char *name;
    uint8_t operation; /* trp__cutlass_operation */
    uint8_t family;    /* trp__cutlass_family */
    uint8_t inputs;    /* trp__cutlass_inputs */
    uint16_t tile[3];
    uint16_t warp[3];        /* 2.x: tile of a warp */
    uint16_t instruction[3]; /* 2.x; 1, 1, x: SIMT */
    uint8_t cluster[2];      /* 3.x */
    uint8_t stages;          /* 0: as many as fit */
    uint8_t align;           /* elements of A and B per load */
    uint8_t lines;           /* bytes of D, C and auxiliary lines per access; 0: */
    uint8_t efficiency;      /* percent of the peak of the row's instructions, in large products */
    bool pingpong;           /* 3.x: two tiles alternate; otherwise two warp groups share one
                              * tile */
    bool single;             /* 3.x: one warp group computes one tile and the block ends */
    bool stream_k;
    bool fast; /* fp8: less exact sums, for problems that allow them or by name */
} trp__cutlass_row;

/* Tells whether the row uses SIMT instead of tensor cores. */
static inline bool trp__cutlass_row_simt(const trp__cutlass_row *row)
{
    return row->family == TRP__CUTLASS_SM80 && row->instruction[0] == 1;
}

/* Tells whether the row uses CUTLASS 3.x, whose TMA clips lines at their ends. */
static inline bool trp__cutlass_row_3x(const trp__cutlass_row *row)
{
    return row->family != TRP__CUTLASS_SM80;
}

enum { TRP__CUTLASS_ROWS_MAX = 256 };

uint32_t trp__cutlass_row_count(void); /* at most TRP__CUTLASS_ROWS_MAX */
const trp__cutlass_row *trp__cutlass_row_at(uint32_t i);

/* Returns the row of that name, or NULL. */
const trp__cutlass_row *trp__cutlass_row_find(const char *name);

/* Returns TRP_OK if the row can compute the problem, else TRP_E_UNSUPPORTED with the row's name and
 * the reason in `error`. */
trp_status trp__cutlass_row_applies(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                    trp_error *error);

/* Estimates the seconds on the device for a problem that the row applies to. Only good for ordering
 * rows. */
double trp__cutlass_row_cost(const trp__cutlass_row *row, const trp__cutlass_problem *p);

/* Stores the applicable rows, best first, and returns their number, at most `room`. If none
 * applies, `why_none` has a reason. */
uint32_t trp__cutlass_choose(const trp__cutlass_problem *p, const trp__cutlass_row **out,
                             uint32_t room, trp_error *why_none);

/* Appends the source of a row's kernel for a problem that it applies to. The source depends on the
 * row, the types, the layouts of A and B, the tree, and with auxiliary matrices on align[4], but
 * not on sizes, addresses, other alignments or scalars. */
trp_status trp__cutlass_row_render(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                   trp__text *out, trp_error *error);

/* Returns the target architecture of the source: the device's, for a row of 3.x with its
 * architecture-specific features ("sm_90a"). */
void trp__cutlass_row_architecture(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                   char out[16]);

/* The arguments that change a kernel's speed but not its result: see templates/abi.h.
 */
typedef struct trp__cutlass_settings {
    int32_t swizzle, raster, splits, stream_k, reduction;
} trp__cutlass_settings;

enum { TRP__CUTLASS_VARIANTS_MAX = 16 };

/* Stores the settings that a search tries for a row and problem; the first are those used without a
 * search. Returns their number, at least 1. */
uint32_t trp__cutlass_row_variants(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                   trp__cutlass_settings out[TRP__CUTLASS_VARIANTS_MAX]);

/* Stores the settings in the arguments. */
void trp__cutlass_set(const trp__cutlass_settings *settings, trp_cutlass_args *args);

#endif
