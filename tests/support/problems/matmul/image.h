/* The operands of a matmul problem in memory, for the files of this folder.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_MATMUL_IMAGE_H
#define TESTS_SUPPORT_PROBLEMS_MATMUL_IMAGE_H

#include "support/problems/matmul/problem.h"

enum {
    MM_A,
    MM_B,
    MM_C,
    MM_D,
    MM_AUX,
    MM_MATRICES,
    MM_VECTOR = MM_MATRICES, /* the bias or the gradient */
    MM_SCALARS,
    MM_ALPHAS,
    MM_SCALE_A,
    MM_SCALE_B,
    MM_SCALE_D,
    MM_SCALE_AUX,
    MM_AMAX_D,
    MM_AMAX_AUX,
    MM_OUT_SCALE,
    MM_OPERANDS
};
_Static_assert((int)MM_OPERANDS <= (int)MM_POOLS, "each can have a pool of its own");

/* An operand in memory: `count` times `lines` runs of `run` elements, which lie `ld` and `stride`
 * elements apart, from byte `head` on. */
typedef struct mm_image {
    bool there, written;
    trp_dtype type; /* NONE: bits */
    int64_t run, lines, ld, stride, count;
    size_t head, bytes;
    uint8_t *before, *after;
    uint8_t *may_change; /* a flag for each byte */
    int pool;
    uint64_t base; /* in the pool */
} mm_image;

/* A settled problem with its operands. */
typedef struct mm_scene {
    mm_problem p;
    mm_image at[MM_OPERANDS];
} mm_scene;

/* Allocates all operands of the problem, with gaps if it has them; fills inputs with random values
 * and everything else with poison. mm_scene_free() frees them. */
void mm_scene_make(mm_scene *s);
void mm_scene_free(mm_scene *s);

/* Returns the index of an element, counted from `head`. */
static inline int64_t mm_place(const mm_image *x, int64_t batch, int64_t line, int64_t i)
{
    return batch * x->stride + line * x->ld + i;
}

#endif
