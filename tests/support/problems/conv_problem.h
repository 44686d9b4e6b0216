/* Convolutions with small integers as input, so that what must come out is known to the bit. */
#ifndef TESTS_CONV_PROBLEM_H
#define TESTS_CONV_PROBLEM_H

#include "support/harness.h"
#include "support/problems/block.h"

/* Buffers; those behind D are a tree's. */
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

/* A tensor as it lies in memory: extents and strides of all but the channels. */
typedef struct cv_tensor {
    trp_dtype type;
    size_t extent[1 + CV_DIMS], stride[1 + CV_DIMS], channels;
    int64_t said[1 + CV_DIMS]; /* strides of the request */
    size_t offset, span;       /* elements */
} cv_tensor;

typedef struct cv_problem {
    trp_conv_operation operation;
    size_t dims, images, channels, filters, groups;
    size_t input[CV_DIMS], filter[CV_DIMS], output[CV_DIMS];
    size_t pad[CV_DIMS], pad_after[CV_DIMS], stride[CV_DIMS], dilation[CV_DIMS];
    bool flip, in_place, tree;
    double alpha, beta;
    size_t unit; /* elements: gaps and offsets are multiples of it */
    bool packed; /* there are none, nor anything behind a tensor */
    trp_compute compute;
    const char *kernel;
    trp_tune tune;
    trp_cutlass_first first;
    uint64_t deadline_ns;
    cv_tensor tensor[CV_TENSORS]; /* their types are given */

    size_t rows, columns; /* of D */
    block blocks[CV_BLOCKS];
    trp_epilogue_node node[CV_NODES]; /* relu(sums * row + column) is kept and added up; then C */
    trp_cutlass_chosen chosen;
    trp_completion done;
} cv_problem;

/* A number below the bound. */
size_t cv_below(size_t bound);

/* Follows from the rest. */
void cv_set_output(cv_problem *p);

/* Draws what the tensors hold and where they lie. */
void cv_draw(cv_problem *p);

/* Once the blocks have buffers. */
void cv_request(cv_problem *p, trp_cutlass_conv_request *out);

/* Whether D and what a tree writes are what they must be, by the blocks' `after`; marks what may
 * have changed. */
bool cv_right(cv_problem *p);

/* Draws a problem and uploads it. */
void cv_make(trp_device *device, cv_problem *p);

trp_status cv_send(trp_actor *cutlass, cv_problem *p);

/* Waits for it, and fails the test unless it is right; frees all. */
void cv_check(trp_device *device, cv_problem *p);

/* Frees what cv_make() made, of a problem that was refused. */
void cv_drop(trp_device *device, cv_problem *p);

#endif
