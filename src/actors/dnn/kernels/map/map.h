/* A fused element-wise graph as a program, which the kernels of map.cuh run: the parameter of a
 * launch. Host and device share this file.
 *
 * A program runs over an iteration space of up to TRP__MAP_DIMS dimensions, the innermost first.
 * Each thread runs it for several elements at a time. Its instructions load elements of operands
 * into slots, compute slots from slots and numbers, and store slots. So one precompiled kernel
 * serves every graph: nothing is compiled when a new graph comes, and the cost of decoding an
 * instruction is shared by all elements of a thread. */
#ifndef TRP_ACTORS_DNN_KERNELS_MAP_MAP_H
#define TRP_ACTORS_DNN_KERNELS_MAP_MAP_H

#include <stdint.h>

enum {
    TRP__MAP_DIMS = 8,
    TRP__MAP_OPERANDS = 16,
    TRP__MAP_CODES = 96,
    TRP__MAP_NUMBERS = 48,
    TRP__MAP_SLOTS = 12,
    TRP__MAP_THREADS = 128,
    TRP__MAP_WIDTH = 8,     /* elements of a thread, computed in f32 */
    TRP__MAP_WIDTH_F64 = 4, /* computed in f64 */
    TRP__MAP_NUMBER = 0x80, /* an input at or above this is a number */
    /* of a thread block's slot, in f32 or f64 */
    TRP__MAP_SLOT_BYTES = TRP__MAP_THREADS * TRP__MAP_WIDTH * 4,
};

/* The operation of an instruction: a trp_dnn_pointwise, one plus TRP__MAP_SLOPE for the derivative
 * of an activation times dy, or one of these. */
enum {
    TRP__MAP_SLOPE = 64, /* a: x, b: dy */
    TRP__MAP_LOAD = 128, /* a: the operand */
    TRP__MAP_STORE,      /* a: the slot, b: the operand */
    TRP__MAP_ROUND,      /* a: the slot, b: the type that it is rounded to */
    TRP__MAP_RANDOM,     /* a: the operand that numbers elements, b: the seed, c: the offset (each a
                          * number, or an operand of one i64), mode, parameter */
    TRP__MAP_NARROW_GELU, /* TRP_DNN_GELU whose result is rounded to 16 bits next */
};

/* The mode of RANDOM: a trp_dnn_random, and: */
enum {
    TRP__MAP_RANDOM_MODES = 3, /* a mask */
    TRP__MAP_RANDOM_F64 = 4,   /* the node computes in f64 */
    TRP__MAP_RANDOM_F32 = 8,   /* UNIFORM: low + span u is exact in f64, so an fma of f32 gives
                                * the same bits */
};

/* The layout of an operand along the iteration space. */
enum {
    TRP__MAP_LINEAR,  /* element i of the space is element i of the operand */
    TRP__MAP_PACKED,  /* stride 1 along the innermost dimension */
    TRP__MAP_SPLAT,   /* stride 0 along that dimension: one element, repeated */
    TRP__MAP_STRIDED, /* any other: each element is found by itself */
};

typedef struct trp__map_code {
    uint8_t op, to, a, b, c;
    uint8_t parameter; /* the first of three numbers; activations, RANDOM */
    uint8_t mode;      /* RANDOM */
    uint8_t reserved;
} trp__map_code;

/* An operand in memory. That of RANDOM is not in memory: `at` is the number of its first element,
 * and the strides count numbers. */
typedef struct trp__map_operand {
    uint64_t at;
    int64_t stride[TRP__MAP_DIMS]; /* elements */
    uint8_t type;                  /* trp_dtype */
    uint8_t layout;
    uint8_t reserved[6];
} trp__map_operand;

/* Division of a number below 2^31 by `by`: (mulhi(n, factor) + n) >> shift. */
typedef struct trp__map_divisor {
    uint32_t by, factor, shift;
} trp__map_divisor;

typedef struct trp__map {
    uint32_t count; /* elements of the space, below 2^31 */
    uint8_t rank, codes, operands;
    uint8_t vector;                      /* threads take elements that follow each other */
    trp__map_divisor dim[TRP__MAP_DIMS]; /* sizes, the innermost first */
    double number[TRP__MAP_NUMBERS];
    trp__map_operand operand[TRP__MAP_OPERANDS];
    trp__map_code code[TRP__MAP_CODES];
} trp__map;

#ifndef __cplusplus
_Static_assert(sizeof(trp__map) <= 4096, "what a kernel takes");
#endif

static inline trp__map_divisor trp__map_divide_by(uint32_t by)
{
    trp__map_divisor d = {by, 0, 0};
    while ((UINT64_C(1) << d.shift) < by)
        d.shift++;
    d.factor = (uint32_t)(((UINT64_C(1) << 32) * ((UINT64_C(1) << d.shift) - by)) / by + 1);
    return d;
}

/* Returns n / d.by. */
static inline uint32_t trp__map_quotient(uint32_t n, const trp__map_divisor *d)
{
    return (uint32_t)(((uint64_t)n * d->factor >> 32) + n) >> d->shift;
}

#endif
