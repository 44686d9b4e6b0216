/* Batches for which the cuBLAS routine takes a list of addresses of the members, which the device
 * reads. */
#ifndef TRP_ACTORS_BLAS_BATCH_ADDRESSES_H
#define TRP_ACTORS_BLAS_BATCH_ADDRESSES_H

#include <troupe/worker.h>

enum { TRP__BLAS_LISTED = 1 << 16 };

/* Room of an actor for TRP__BLAS_LISTED addresses, in host memory that the device reads. It is used
 * from the beginning, and reused when the stream is idle. */
typedef struct trp__blas_addresses {
    void **list; /* NULL: no memory */
    uint32_t used;
} trp__blas_addresses;

/* A batch with up to two arrays of matrices or vectors. */
typedef struct trp__blas_batch {
    int64_t count;
    uint32_t arrays;
    char *first[2];    /* member 0 of each array */
    int64_t stride[2]; /* bytes */
    /* Enqueues the work of `count` members from number `first` on, whose addresses are listed. */
    trp_status (*call)(const void *context, void **const list[], int64_t first, uint32_t count,
                       trp_error *error);
    const void *context;
} trp__blas_batch;

/* Enqueues a batch, in parts if it is large. TRP_AGAIN: the device still needs the addresses in the
 * list, so the rest must wait for another call. */
trp_status trp__blas_batch_do(trp_instance *instance, trp_job *job, trp__blas_addresses *addresses,
                              const trp__blas_batch *batch, trp_error *error);

#endif
