/* Iteration spaces: the dimensions over which a kernel runs, and where the elements of its operands
 * lie along them. */
#ifndef TRP_ACTORS_DNN_KERNELS_LAUNCH_SPACE_H
#define TRP_ACTORS_DNN_KERNELS_LAUNCH_SPACE_H

#include "actors/dnn/graph/graph.h"

enum { TRP__SPACE_OPERANDS = 16 };

/* Dimensions, the innermost first; none of 1 element once they are ordered, but for a single one.
 */
typedef struct trp__space {
    int rank; /* at least 1 */
    int64_t dim[TRP__DNN_RANK];
    int operands;
    int64_t stride[TRP__SPACE_OPERANDS][TRP__DNN_RANK]; /* elements; 0: repeated */
} trp__space;

/* Begins the space of all elements of `shape`. */
void trp__space_begin(trp__space *s, const trp__dnn_tensor *shape);

/* Adds an operand, each of whose dimensions is that of the shape or 1; an operand of another rank
 * is a single element. Returns its number. Call this before trp__space_order(). */
int trp__space_add(trp__space *s, const trp__dnn_tensor *shape, const trp__dnn_tensor *operand);

/* Sorts the dimensions by the strides of operand `by`, the smallest first, and removes those of 1.
 */
void trp__space_order(trp__space *s, int by);

/* Merges neighbouring dimensions between which no operand has a gap. */
void trp__space_merge(trp__space *s);

int64_t trp__space_elements(const trp__space *s);

/* Returns the bytes of an element of a type. */
static inline uint64_t trp__space_element_bytes(uint8_t type)
{
    return trp_dtype_bits((trp_dtype)type) / 8;
}

/* Returns a / b, rounded up. */
static inline int64_t trp__space_parts(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Tells whether a tensor begins at a multiple of `bytes`, or of 16 if that is less. */
bool trp__space_is_aligned(const trp__dnn_tensor *t, uint64_t bytes);

/* Tells whether the kernels that load and store elements one by one take a type: all but i64. */
bool trp__space_takes_type(uint8_t type);

#endif
