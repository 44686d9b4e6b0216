/* What the host and the text of a kernel agree on: the arguments of a problem, what the module's
 * builder makes of them, and what the module says of itself. Read by the C compiler and by NVRTC.
 *
 * A module has these things, all with names as here:
 *
 *   trp_cutlass_kernel   the kernel. Its one parameter is a struct that only CUTLASS can fill.
 *   trp_cutlass_build    one thread that fills it: it is given a trp_cutlass_args by value, and the
 *                        address of a trp_cutlass_built with room behind it for the parameter.
 *   trp_cutlass_info     what is fixed: TRP_CUTLASS_INFO_WORDS numbers.
 *   trp_cutlass_prepare  of grouped products: makes arrays in the workspace of what the device
 * holds about groups, in the stream before each launch of the kernel. It is given the same
 * trp_cutlass_args, and the address of the table.
 *
 * To run a problem: launch the builder with the arguments (grid 1, block 1), copy what it has made
 * to the host, encode each tensor map that it has left there (below), and launch the kernel with
 * those bytes as its parameter. The bytes hold for this problem as long as no address changes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TRP_ACTORS_CUTLASS_TEMPLATES_ABI_H
#define TRP_ACTORS_CUTLASS_TEMPLATES_ABI_H

#ifdef __CUDACC__
#include "troupe_std.h"
#define TRP_CUTLASS_ASSERT static_assert
#else
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#define TRP_CUTLASS_ASSERT _Static_assert
#endif

#define TRP_CUTLASS_ABI         5   /* changes with anything in this file */
#define TRP_CUTLASS_SLOTS       48  /* arguments of an epilogue tree */
#define TRP_CUTLASS_ALIGN       128 /* of the parameter, behind what describes it */
#define TRP_CUTLASS_PARAMS_MAX  4096
#define TRP_CUTLASS_FLAGS       65536 /* bytes that kernels find zero and leave zero */
#define TRP_CUTLASS_RESULT_SIZE (TRP_CUTLASS_ALIGN + TRP_CUTLASS_PARAMS_MAX)

/* A problem. What a template has no use for is ignored. Addresses are the device's. A matrix has a
 * leading dimension (elements between its rows if it is row-major, its columns if not) and a
 * distance between batches, both in elements. */
typedef struct trp_cutlass_args {
    uint64_t a, b, c, d;
    int64_t lda, ldb, ldc, ldd;
    int64_t batch_a, batch_b, batch_c, batch_d;
    int32_t m, n, k, l; /* l: batches, at least 1; of grouped products the groups */

    double alpha, beta;           /* converted to the type that the epilogue computes in */
    uint64_t alpha_ptr, beta_ptr; /* addresses of such values instead; or 0 */

    uint64_t workspace; /* 0: only ask how much is needed */
    uint64_t workspace_bytes;
    uint64_t flags; /* TRP_CUTLASS_FLAGS bytes that are zero before and after each launch */

    int32_t sm_count;            /* of the device */
    int32_t blocks_per_sm;       /* of this kernel, for stream-K of sm_80 */
    int32_t max_active_clusters; /* of this kernel; 0: by sm_count */
    int32_t swizzle;             /* tiles that follow each other, as a power of two: 1, 2, 4, 8 */
    int32_t raster;              /* 0 whichever suits, 1 along m, 2 along n */
    int32_t splits;              /* of k; 0 and 1: none */
    int32_t stream_k;            /* 0 heuristic, 1 data-parallel, 2 split-k, 3 stream-k */
    int32_t reduction;           /* of stream-k: 0 deterministic, 1 not */

    /* Grouped products: m, n, k are the most that a group has, of the dimension that is cut all of
     * it; l groups. */
    uint64_t group_room[4]; /* bytes behind a, b, c and d that are the request's */
    int32_t grouping;       /* trp_cutlass_grouping */
    int32_t group_turned;   /* rows of a table are of the transposed problem: D' = B' A' */
    int32_t group_c;        /* 0 there is none, 1 in a place of its own, 2 in D's */
    int32_t group_reserved[5];

    /* Convolutions, in three dimensions, of which those that there are not come first, with size 1.
     * A and B have addresses above, and here their strides (elements): of images or filters, and of
     * each dimension; channels follow each other. A group is one of l: its channels and filters are
     * those of one, and begin batch_a, batch_b, .. behind those of the one before. m, n and k are
     * those of the product that it is. */
    int64_t conv_a[4], conv_b[4];
    int32_t conv_images, conv_channels, conv_filters;
    int32_t conv_flip; /* the filter is turned around */
    int32_t conv_input[3], conv_filter[3], conv_output[3];
    int32_t conv_pad[3], conv_stride[3], conv_dilation[3];
    int32_t conv_reserved[2];

    uint64_t scale_a, scale_b; /* factors of blocks of A and B */
    uint64_t zero_b;           /* zero points of groups of B; 0: none */
    int32_t group;             /* of k, that a factor of B is for */
    int32_t scale_reserved;
    /* From the factors of one of a batch to those of the next; zero points lie as b's. */
    int64_t batch_scale_a, batch_scale_b;

    uint64_t slot[TRP_CUTLASS_SLOTS]; /* of an epilogue tree: addresses, strides, bits of scalars */
} trp_cutlass_args;

/* Why nothing was built. */
enum {
    TRP_CUTLASS_BUILT = 1,     /* all is there. 0 is what memory says that was never written to */
    TRP_CUTLASS_WORKSPACE = 2, /* the workspace is too small: `workspace_bytes` are needed */
    TRP_CUTLASS_REFUSED = 3,   /* the kernel does not do this problem (alignment, sizes) */
};

/* What the builder writes; the parameter is at TRP_CUTLASS_ALIGN bytes behind the beginning. */
typedef struct trp_cutlass_built {
    uint32_t abi;
    uint32_t status;
    uint32_t params_bytes;
    uint32_t tensor_maps; /* that are to be encoded in it */
    uint32_t grid[3];     /* blocks */
    uint32_t reserved;
    uint64_t workspace_bytes;
    uint64_t zero_at, zero_bytes; /* of the workspace, what is to be zero at each launch */
} trp_cutlass_built;

/* In the parameter, at a multiple of 64 bytes, in place of each CUtensorMap: the arguments of
 * cuTensorMapEncodeTiled() or cuTensorMapEncodeIm2col() that make it. 128 bytes, as the map. */
#define TRP_CUTLASS_TILED  UINT64_C(0x64656c6974707274) /* "trptiled" */
#define TRP_CUTLASS_IM2COL UINT64_C(0x326d69312d707274)

typedef struct trp_cutlass_map {
    uint64_t tag;
    uint64_t address;
    uint64_t stride[4]; /* bytes; rank - 1 of them */
    uint32_t size[5];   /* less one: a dimension may have 2^32 */
    uint16_t box[5];    /* tiled: elements of the box. im2col: 0 and 1 are pixels and channels */
    uint8_t type;       /* CUtensorMapDataType */
    uint8_t rank;
    uint8_t step[5]; /* element strides */
    uint8_t interleave;
    uint8_t swizzle;
    uint8_t l2;
    uint8_t fill;
    uint8_t reserved0;
    int8_t lower[3], upper[3]; /* corners, im2col */
    uint8_t reserved[32];
} trp_cutlass_map;

/* The words of trp_cutlass_info. */
enum {
    TRP_CUTLASS_INFO_ABI = 0,
    TRP_CUTLASS_INFO_PARAMS = 1,  /* bytes of the kernel's parameter */
    TRP_CUTLASS_INFO_ARGS = 2,    /* sizeof(trp_cutlass_args): both sides agree */
    TRP_CUTLASS_INFO_SHARED = 3,  /* bytes of dynamic shared memory */
    TRP_CUTLASS_INFO_THREADS = 4, /* of a block */
    TRP_CUTLASS_INFO_CLUSTER = 5, /* 5, 6, 7: blocks of a cluster; 1, 1, 1 where there is none */
    TRP_CUTLASS_INFO_TILE = 8,    /* 8, 9, 10: m, n, k of a block's tile */
    TRP_CUTLASS_INFO_STAGES = 11,
    TRP_CUTLASS_INFO_ALIGNMENT = 12, /* of the parameter */
    TRP_CUTLASS_INFO_PREPARE = 13, /* 13, 14: threads of a block, and blocks at most, of prepare */
    /* The kernel waits by itself for the one before it in the stream, and may be launched while
     * that is still at its last tiles (programmatic stream serialization). */
    TRP_CUTLASS_INFO_OVERLAPS = 15,
    TRP_CUTLASS_INFO_WORDS = 16,
};

TRP_CUTLASS_ASSERT(sizeof(trp_cutlass_map) == 128, "a tensor map");
TRP_CUTLASS_ASSERT(sizeof(trp_cutlass_built) == 56, "what a builder writes");
TRP_CUTLASS_ASSERT(sizeof(trp_cutlass_args) == 856, "arguments of a problem");
#ifndef __CUDACC__
TRP_CUTLASS_ASSERT(offsetof(trp_cutlass_args, slot) == 472, "arguments of a problem");
#endif

#endif
