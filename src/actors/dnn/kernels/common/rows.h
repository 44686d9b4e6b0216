/* Tensors as rows: the elements that share a sum or a statistic are a row, whichever dimensions
 * they lie along. Host and device share this file. */
#ifndef TRP_ACTORS_DNN_KERNELS_COMMON_ROWS_H
#define TRP_ACTORS_DNN_KERNELS_COMMON_ROWS_H

#include <stdint.h>

enum {
    TRP__ROWS_DIMS = 8,
    TRP__ROWS_RUN = 8, /* elements that a thread reads at a time */
    TRP__ROWS_THREADS_MAX = 1024,
};

/* Slices of rows, see slices.cuh. */
enum {
    TRP__SLICE_THREADS = 1024, /* threads of a multiprocessor, in one block or several */
    TRP__SLICE_BYTES = 32,     /* bytes of a tile per thread */
    TRP__SLICE_STATIC = 1024,  /* bytes of shared memory beside tiles, at most */
    TRP__CLUSTER_MOST = 8,     /* blocks of a cluster, as all devices with clusters have */
};

/* An operand: the address of its first element, and its strides in elements to the next element of
 * a row and to the next row along each dimension that numbers rows. */
typedef struct trp__rows_operand {
    uint64_t at;
    int64_t step;
    int64_t stride[TRP__ROWS_DIMS];
    uint8_t type; /* trp_dtype */
    uint8_t reserved[7];
} trp__rows_operand;

/* The dimensions that number the rows, the innermost first. */
typedef struct trp__rows_space {
    int64_t dim[TRP__ROWS_DIMS];
    int64_t rows;
    int32_t rank;
    int32_t reserved;
} trp__rows_space;

#endif
