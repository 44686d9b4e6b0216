/* The interface between the host and the text of a kernel: the arguments of a problem, what the
 * module's builder computes from them, and the module's description of itself. Read by the C
 * compiler and by NVRTC.
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
 * To run a problem: launch the builder with the arguments (grid 1, block 1), copy its output to the
 * host, encode each tensor map that it has left there (below), and launch the kernel with those
 * bytes as its parameter. The bytes are valid for this problem as long as no address changes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TRP_ACTORS_CUTLASS_TEMPLATES_ABI_H
#define TRP_ACTORS_CUTLASS_TEMPLATES_ABI_H

#if defined __CUDACC__ && !defined TRP_CUTLASS_PLAIN
#include "troupe_std.h"
#define TRP_CUTLASS_ASSERT static_assert
#else
#include <stddef.h>
#include <stdint.h>
#define TRP_CUTLASS_ASSERT _Static_assert
#endif

#define TRP_CUTLASS_ABI         5   /* change it with anything in this file */
#define TRP_CUTLASS_SLOTS       48  /* arguments of an epilogue tree */
#define TRP_CUTLASS_ALIGN       128 /* alignment of the parameter after its description */
#define TRP_CUTLASS_PARAMS_MAX  4096
#define TRP_CUTLASS_FLAGS       65536 /* bytes that kernels find zero and leave zero */
#define TRP_CUTLASS_RESULT_SIZE (TRP_CUTLASS_ALIGN + TRP_CUTLASS_PARAMS_MAX)

/* A problem. Templates ignore the fields that they do not use. Addresses are the device's. A matrix
 * has a leading dimension (elements between its rows if it is row-major, else its columns) and a
 * distance between batches, both in elements. */
typedef struct trp_cutlass_args {
    uint64_t a, b, c, d;
    int64_t lda, ldb, ldc, ldd;
    int64_t batch_a, batch_b, batch_c, batch_d;
    int32_t m, n, k, l; /* l: batches, at least 1; groups of grouped products */

    double alpha, beta;           /* converted to the type that the epilogue computes in */
    uint64_t alpha_ptr, beta_ptr; /* addresses of such values instead, or 0 */

    uint64_t workspace; /* 0: only compute the required size */
    uint64_t workspace_bytes;
    uint64_t flags; /* TRP_CUTLASS_FLAGS bytes that are zero before and after each launch */

    int32_t sm_count;            /* of the device */
    int32_t blocks_per_sm;       /* of this kernel, for stream-K of sm_80 */
    int32_t max_active_clusters; /* of this kernel; 0: by sm_count */
    int32_t swizzle;             /* consecutive tiles in a group: 1, 2, 4, 8 */
    int32_t raster;              /* 0 automatic, 1 along m, 2 along n */
    int32_t splits;              /* parts of k; 0 and 1: no split */
    int32_t stream_k;            /* 0 heuristic, 1 data-parallel, 2 split-k, 3 stream-k */
    int32_t reduction;           /* of stream-k: 0 deterministic, 1 not */

    /* Grouped products of l groups: m, n, k are maxima over the groups, or the total for the
     * divided dimension. */
    uint64_t group_room[4]; /* bytes available at a, b, c and d */
    int32_t grouping;       /* trp_cutlass_grouping */
    int32_t group_turned;   /* rows of a table describe the transposed problem: D' = B' A' */
    int32_t group_c;        /* 0 none, 1 separate, 2 in D's memory */
    int32_t group_reserved[5];

    /* Convolutions in three dimensions; missing dimensions come first and have size 1. A and B have
     * addresses above and their strides (elements) here: of images or filters, and of each
     * dimension; channels are contiguous. There are l groups: channels and filters are counted per
     * group, and groups are batch_a, batch_b, ... apart. m, n and k are those of the equivalent
     * product. */
    int64_t conv_a[4], conv_b[4];
    int32_t conv_images, conv_channels, conv_filters;
    int32_t conv_flip; /* the filter is flipped */
    int32_t conv_input[3], conv_filter[3], conv_output[3];
    int32_t conv_pad[3], conv_stride[3], conv_dilation[3];
    int32_t conv_reserved[2];

    uint64_t scale_a, scale_b; /* scale factors of A's and B's blocks */
    uint64_t zero_b;           /* zero points of groups of B; 0: none */
    int32_t group;             /* elements of k per factor of B */
    int32_t scale_reserved;
    /* Distance between the factors of consecutive batches; */
    int64_t batch_scale_a, batch_scale_b;

    uint64_t slot[TRP_CUTLASS_SLOTS]; /* of an epilogue tree: addresses, strides, bits of scalars */
} trp_cutlass_args;

/* The result of building. */
enum {
    TRP_CUTLASS_BUILT = 1,     /* success; not 0, which unwritten memory contains */
    TRP_CUTLASS_WORKSPACE = 2, /* the workspace is smaller than `workspace_bytes` */
    TRP_CUTLASS_REFUSED = 3,   /* the kernel cannot compute this problem (alignment, sizes) */
};

/* The builder's output; the parameter follows at offset TRP_CUTLASS_ALIGN. */
typedef struct trp_cutlass_built {
    uint32_t abi;
    uint32_t status;
    uint32_t params_bytes;
    uint32_t tensor_maps; /* tensor maps to encode in the parameter */
    uint32_t grid[3];     /* blocks */
    uint32_t reserved;
    uint64_t workspace_bytes;
    uint64_t zero_at, zero_bytes; /* part of the workspace that must be zero at each launch */
} trp_cutlass_built;

/* Replaces each CUtensorMap in the parameter, at a multiple of 64 bytes: the arguments of
 * cuTensorMapEncodeTiled() or cuTensorMapEncodeIm2col() for it. 128 bytes, like the map. */
#define TRP_CUTLASS_TILED  UINT64_C(0x64656c6974707274) /* "trptiled" */
#define TRP_CUTLASS_IM2COL UINT64_C(0x326d69312d707274)

typedef struct trp_cutlass_map {
    uint64_t tag;
    uint64_t address;
    uint64_t stride[4]; /* bytes; rank - 1 of them */
    uint32_t size[5];   /* size minus one: a dimension may have 2^32 elements */
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
    TRP_CUTLASS_INFO_CLUSTER = 5, /* 5, 6, 7: blocks of a cluster; 1, 1, 1 without clusters */
    TRP_CUTLASS_INFO_TILE = 8,    /* 8, 9, 10: m, n, k of a block's tile */
    TRP_CUTLASS_INFO_STAGES = 11,
    TRP_CUTLASS_INFO_ALIGNMENT = 12, /* of the parameter */
    TRP_CUTLASS_INFO_PREPARE = 13, /* 13, 14: threads per block and maximum of blocks of prepare */
    /* The kernel itself waits for the previous kernel in the stream and may be launched while that
     * computes its last tiles (programmatic stream serialization). */
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
