/* Payload of TRP_OP_CUTLASS_CONV: checked, with defaults applied, in three dimensions; missing
 * dimensions come first and have size 1. With 0 images (except for TRP_CONV_WGRAD) there is no
 * access and nothing to do. */
#ifndef TRP_ACTORS_CUTLASS_WIRE_CONV_H
#define TRP_ACTORS_CUTLASS_WIRE_CONV_H

#include "actors/cutlass/wire/gemm.h"

enum { TRP__CONV_DIMS = TRP_CONV_DIMS_MAX };

#define TRP__CONV_HEAD_BYTES 184u

typedef struct trp__cutlass_conv {
    int32_t images, channels, filters, groups;
    int32_t input[TRP__CONV_DIMS], filter[TRP__CONV_DIMS], output[TRP__CONV_DIMS];
    int32_t pad[TRP__CONV_DIMS], stride[TRP__CONV_DIMS], dilation[TRP__CONV_DIMS];
    int64_t a_stride[1 + TRP__CONV_DIMS]; /* elements; unspecified for dimensions of size 1 */
    int64_t b_stride[1 + TRP__CONV_DIMS];
    int64_t c_ld, d_ld; /* elements between rows */
    uint8_t operation;  /* trp_conv_operation */
    uint8_t flip;
    uint8_t type[TRP__GEMM_MATRICES]; /* trp_dtype; TRP_DTYPE_NONE for a C that is not read */
    uint8_t
        access[TRP__GEMM_MATRICES]; /* index into the accesses; without images none of A and B */
    uint8_t compute;                /* trp_compute */
    uint8_t slots;
    uint16_t tree_bytes;
    uint16_t reserved;
    /* Slots and tree, or in a piece of staging memory if they are longer. */
    unsigned char rest[TRP__PAYLOAD_BYTES - TRP__CONV_HEAD_BYTES];
} trp__cutlass_conv;

_Static_assert(sizeof(trp__cutlass_conv) == TRP__PAYLOAD_BYTES, "no padding");

/* Returns the product of three sizes, which cannot overflow in a checked record. */
static inline int64_t trp__conv_volume(const int32_t size[TRP__CONV_DIMS])
{
    return (int64_t)size[0] * size[1] * size[2];
}

/* The dimensions of D as a matrix. */
static inline int64_t trp__conv_rows(const trp__cutlass_conv *g)
{
    return g->operation == TRP_CONV_FPROP   ? g->images * trp__conv_volume(g->output)
           : g->operation == TRP_CONV_DGRAD ? g->images * trp__conv_volume(g->input)
                                            : g->filters;
}

static inline int64_t trp__conv_columns(const trp__cutlass_conv *g)
{
    return g->operation == TRP_CONV_FPROP ? g->filters
           : g->operation == TRP_CONV_DGRAD
               ? g->channels
               : trp__conv_volume(g->filter) * (g->channels / g->groups);
}

#endif
