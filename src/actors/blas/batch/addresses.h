/* Batches whose routine of cuBLAS takes the addresses of their members, which the device reads. */
#ifndef TRP_ACTORS_BLAS_BATCH_ADDRESSES_H
#define TRP_ACTORS_BLAS_BATCH_ADDRESSES_H

#include <troupe/worker.h>

enum { TRP__BLAS_LISTED = 1 << 16 };

/* Of an actor: room for TRP__BLAS_LISTED addresses, in memory of the host that the device reads.
 * They are used from the first on, and again when the stream is idle. */
typedef struct trp__blas_addresses {
    void **list; /* NULL: none could be had */
    uint32_t used;
} trp__blas_addresses;

/* A batch, of up to two arrays of matrices or of vectors. */
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

/* Does a batch: in parts, if it is large, and as far as addresses can be written down that the
 * device does not need any more; TRP_AGAIN, with the rest for another call, where it does. */
trp_status trp__blas_batch_do(trp_instance *instance, trp_job *job, trp__blas_addresses *addresses,
                              const trp__blas_batch *batch, trp_error *error);

#endif
