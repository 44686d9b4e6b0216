/* Iterates over the elements of a shape in order, with the offsets in dense arrays of the same or
 * of broadcast shapes. */
#ifndef TRP_ACTORS_DNN_HOST_ARRAYS_WALK_H
#define TRP_ACTORS_DNN_HOST_ARRAYS_WALK_H

#include "actors/dnn/graph/graph.h"

enum { TRP__WALK_ARRAYS = 4 };

typedef struct trp__walk {
    int shape_rank;
    int rank; /* number of dimensions other than 1, which are iterated */
    int axis[TRP__DNN_RANK];
    int64_t dim[TRP__DNN_RANK], at[TRP__DNN_RANK];
    int64_t step[TRP__WALK_ARRAYS][TRP__DNN_RANK];
    int64_t offset[TRP__WALK_ARRAYS]; /* of the element in each array */
    int arrays;
} trp__walk;

/* Begins at the first element of the shape. Returns false if it has none. */
static inline bool trp__walk_begin(trp__walk *w, const trp__dnn_tensor *shape)
{
    *w = (trp__walk){.shape_rank = shape->rank};
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i] == 1)
            continue;
        w->axis[w->rank] = i;
        w->dim[w->rank++] = shape->dim[i];
    }
    return trp__dnn_elements(shape) > 0;
}

/* Adds a dense array of the shape with dimensions of 1 broadcast. One of another rank has one
 * element. NULL: an unused array. */
static inline void trp__walk_add(trp__walk *w, const trp__dnn_tensor *t)
{
    int64_t *step = w->step[w->arrays++], next = 1;
    for (int i = w->rank - 1; i >= 0 && t && t->rank == w->shape_rank; i--) {
        const int64_t size = t->dim[w->axis[i]]; /* where the shape has 1, the array has it too */
        step[i] = size == 1 ? 0 : next;
        next *= size;
    }
}

/* Adds an array with the given strides along each dimension of the shape. */
static inline void trp__walk_add_steps(trp__walk *w, const int64_t apart[TRP__DNN_RANK])
{
    int64_t *step = w->step[w->arrays++];
    for (int i = 0; i < w->rank; i++)
        step[i] = apart[w->axis[i]];
}

static inline bool trp__walk_next(trp__walk *w)
{
    for (int i = w->rank - 1; i >= 0; i--) {
        bool inside = ++w->at[i] < w->dim[i];
        for (int k = 0; k < w->arrays; k++)
            w->offset[k] += inside ? w->step[k][i] : -w->step[k][i] * (w->dim[i] - 1);
        if (inside)
            return true;
        w->at[i] = 0;
    }
    return false;
}

#endif
