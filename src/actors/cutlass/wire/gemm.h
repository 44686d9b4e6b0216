/* Payload of TRP_OP_CUTLASS_GEMM: checked, with defaults applied. With m or n 0 there is no access
 * and nothing to do. */
#ifndef TRP_ACTORS_CUTLASS_WIRE_GEMM_H
#define TRP_ACTORS_CUTLASS_WIRE_GEMM_H

#include "actors/cutlass/epilogue/tree.h"
#include "wire/record.h"

#include <stdint.h>

enum {
    TRP__GEMM_A,
    TRP__GEMM_B,
    TRP__GEMM_C, /* shares D's access if in D's place */
    TRP__GEMM_D,
    TRP__GEMM_MATRICES,
    /* Scale factors of A's and B's blocks. */
    TRP__GEMM_SCALE_A = TRP__GEMM_MATRICES,
    TRP__GEMM_SCALE_B, /* or of its groups of k */
    TRP__GEMM_ZERO_B,
    TRP__GEMM_OPERANDS
};
enum { TRP__GEMM_NO_ACCESS = 0xff };

/* A slot of the tree, from TRP__TREE_SLOT_FIRST on. */
typedef struct trp__gemm_slot {
    union {
        double value; /* of a scalar passed by value */
        int64_t ld;
    };
    int64_t stride;
    uint32_t access; /* TRP__GEMM_NO_ACCESS: not in memory */
    uint32_t reserved;
} trp__gemm_slot;

/* Returns the bytes of slots and tree. */
static inline uint32_t trp__gemm_rest_bytes(uint32_t slots, uint32_t tree_bytes)
{
    return slots * (uint32_t)sizeof(trp__gemm_slot) + tree_bytes;
}

#define TRP__GEMM_HEAD_BYTES 152u

typedef struct trp__cutlass_gemm {
    int64_t m, n, k, batch;
    int64_t ld[TRP__GEMM_MATRICES];     /* elements */
    int64_t stride[TRP__GEMM_MATRICES]; /* likewise */
    int32_t alpha, beta;                /* without a tree, where D is i32 */
    uint8_t type[TRP__GEMM_MATRICES];   /* trp_dtype; TRP_DTYPE_NONE for a C that is not read */
    uint8_t order[TRP__GEMM_MATRICES];  /* trp_order; C's is D's */
    uint8_t access[TRP__GEMM_OPERANDS]; /* index into the request's accesses */
    uint8_t scale[2];                   /* trp_scale_mode of A and B; TENSOR: no factors */
    uint8_t compute;                    /* trp_compute */
    uint8_t slots;                      /* number of slots that follow */
    uint16_t tree_bytes;                /* length of the canonical form after the slots; 0: no
                                         * tree */
    uint8_t reserved[2];
    int64_t group;           /* elements of k, at most k; 0: B has no groups */
    int64_t scale_stride[2]; /* batch strides of the factors of A and B */
    /* Slots and tree, or in a piece of staging memory if they are longer. */
    unsigned char rest[TRP__PAYLOAD_BYTES - TRP__GEMM_HEAD_BYTES];
} trp__cutlass_gemm;

_Static_assert(sizeof(trp__cutlass_gemm) == TRP__PAYLOAD_BYTES, "no padding");

#endif
