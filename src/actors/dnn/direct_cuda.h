/* The kernels of direct.h on a GPU: compiled by NVRTC once for a kind of device, kept in the kernel
 * cache, launched node by node. */
#ifndef TRP_ACTORS_DNN_DIRECT_CUDA_H
#define TRP_ACTORS_DNN_DIRECT_CUDA_H

#include "actors/dnn/direct.h"
#include "cache/store.h"
#include "driver/cuda.h"

#include <troupe/worker.h>

#define TRP__DIRECT_COUNT_KERNEL(...) +1
enum { TRP__DIRECT_KERNELS = 26 TRP__TRAIN_KERNELS(TRP__DIRECT_COUNT_KERNEL) };

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

/* Bytes of scratch memory that a node needs beside its tensors. */
uint64_t trp__direct_workspace(const trp__dnn_graph *graph, const trp__dnn_node *node);

/* Enqueues a node. at[]: the address of each tensor of the graph that lies in memory; value[]: the
 * number that each other one is, as its type holds it; scratch: trp__direct_workspace() bytes. */
trp_status trp__direct_launch(trp__direct_kernels *k, trp_instance *instance,
                              const trp__dnn_graph *graph, uint32_t node, void *const at[],
                              const double value[], void *scratch, trp_error *error);

/* The context must be current. */
void trp__direct_end(trp__direct_kernels *k, trp_instance *instance);

#endif
