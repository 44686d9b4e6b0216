/* Convolutions of small integers, so that results are exact. */
#ifndef TESTS_CONV_PROBLEM_H
#define TESTS_CONV_PROBLEM_H

#include "support/harness.h"
#include "support/problems/block.h"

/* Buffers; those after D belong to a tree. */
enum {
    CV_A,
    CV_B,
    CV_C,
    CV_D,
    CV_TENSORS,
    CV_ROWS = CV_TENSORS,
    CV_COLUMNS,
    CV_KEEPS,
    CV_SUM,
    CV_BLOCKS
};
enum { CV_DIMS = TRP_CONV_DIMS_MAX };
enum {
    CV_NONE,
    CV_SUMS,
    CV_SCALED,
    CV_COLUMN,
    CV_BIASED,
    CV_RELU,
    CV_KEPT,
    CV_TOTAL,
    CV_OLD,
    CV_ROOT,
    CV_NODES
};

/* A tensor in memory: extents and strides of all dimensions but the channels. */
typedef struct cv_tensor {
    trp_dtype type;
    size_t extent[1 + CV_DIMS], stride[1 + CV_DIMS], channels;
    int64_t said[1 + CV_DIMS]; /* strides in the request */
    size_t offset, span;       /* in elements */
} cv_tensor;

typedef struct cv_problem {
    trp_conv_operation operation;
    size_t dims, images, channels, filters, groups;
    size_t input[CV_DIMS], filter[CV_DIMS], output[CV_DIMS];
    size_t pad[CV_DIMS], pad_after[CV_DIMS], stride[CV_DIMS], dilation[CV_DIMS];
    bool flip, in_place, tree;
    double alpha, beta;
    size_t unit; /* gaps and offsets are multiples of it, in elements */
    bool packed; /* no gaps, and nothing after a tensor */
    trp_compute compute;
    const char *kernel;
    trp_tune tune;
    trp_cutlass_first first;
    uint64_t deadline_ns;
    cv_tensor tensor[CV_TENSORS]; /* types are set by the caller */

    size_t rows, columns; /* of D */
    block blocks[CV_BLOCKS];
    /* stores relu(sums * row + column) and its reductions, then adds C */
    trp_epilogue_node node[CV_NODES];
    trp_cutlass_chosen chosen;
    trp_completion done;
} cv_problem;

/* Returns a number below the bound. */
size_t cv_below(size_t bound);

/* Sets the sizes that follow from the others. */
void cv_set_output(cv_problem *p);

/* Draws the contents and layouts of the tensors. */
void cv_draw(cv_problem *p);

/* Writes the request; the blocks have buffers by then. */
void cv_request(cv_problem *p, trp_cutlass_conv_request *out);

/* Returns whether D and the outputs of a tree are right, by the blocks' `after`; marks bytes that
 * may have changed. */
bool cv_right(cv_problem *p);

/* Draws a problem and uploads it. */
void cv_make(trp_device *device, cv_problem *p);

trp_status cv_send(trp_actor *cutlass, cv_problem *p);

/* Waits for it, fails unless it is right, and frees everything. */
void cv_check(trp_device *device, cv_problem *p);

/* Frees what cv_make() allocated, for a problem that was refused. */
void cv_drop(trp_device *device, cv_problem *p);

#endif
