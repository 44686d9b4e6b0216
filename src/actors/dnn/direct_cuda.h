/* The kernels of direct.h on a GPU: compiled by NVRTC once for a kind of device, kept in the kernel
 * cache, launched node by node. */
#ifndef TRP_ACTORS_DNN_DIRECT_CUDA_H
#define TRP_ACTORS_DNN_DIRECT_CUDA_H

#include "actors/dnn/direct.h"
#include "cache/store.h"
#include "driver/cuda.h"

#include <troupe/worker.h>

enum { TRP__DIRECT_KERNELS = 26 };

/* Zero-initialised but for the first three. */
typedef struct trp__direct_kernels {
    const trp__cuda *cu;
    trp__store *store;  /* NULL: there is none */
    const char *target; /* "sm_90" */
    void *image;        /* NULL: not made yet */
    size_t image_bytes;
    trp__cu_module module;
    trp__cu_function function[TRP__DIRECT_KERNELS];
} trp__direct_kernels;

/* Whether there is a kernel for a node. */
bool trp__direct_takes(const trp__dnn_node *node);

/* Finds the image, or compiles it, which takes seconds. Needs no device; another thread than the
 * one that launches may call it before. TRP_E_MISSING: no NVRTC; TRP_E_LIBRARY; TRP_E_MEMORY. */
trp_status trp__direct_make(trp__direct_kernels *k, trp_error *error);

/* Enqueues a node. at[]: the address of each tensor of the graph that lies in memory; value[]: the
 * number that each other one is, as its type holds it. */
trp_status trp__direct_launch(trp__direct_kernels *k, trp_instance *instance,
                              const trp__dnn_graph *graph, uint32_t node, void *const at[],
                              const double value[], trp_error *error);

/* Some elements of a tensor: numbers in the order of its dimensions. */
typedef struct trp__direct_sample {
    const trp__dnn_tensor *tensor;
    const int64_t *number;
    size_t count;
    trp__cu_address room; /* device memory for `count` numbers */
} trp__direct_sample;

/* The same on a stream, for at least the elements of a sample of one tensor that the node writes;
 * NULL: all elements. Waits for the stream before `room` is written. The driver's result of a call
 * that fails is the error's code, domain "cuda". */
trp_status trp__direct_launch_on(trp__direct_kernels *k, trp__cu_stream stream,
                                 const trp__dnn_graph *graph, uint32_t node, void *const at[],
                                 const double value[], const trp__direct_sample *sample,
                                 trp_error *error);

/* Gives another thread kernels of its own from an image that is made: of its own module. */
trp_status trp__direct_share(const trp__direct_kernels *from, trp__direct_kernels *to,
                             trp_error *error);

/* The context must be current. */
void trp__direct_end(trp__direct_kernels *k, trp_instance *instance);

#endif
