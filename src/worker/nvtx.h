/* NVTX ranges: a profiler shows one around each request, "blas gemm #1000" in the domain "troupe".
 * As in NVIDIA's own headers, the tool is the library in NVTX_INJECTION64_PATH, which profilers
 * set. Without a tool the cost is one branch. */
#ifndef TRP_WORKER_NVTX_H
#define TRP_WORKER_NVTX_H

#include "worker/actor.h"

/* Returns whether there is a tool; loads it at the first call in this process. Any thread. */
bool trp__nvtx_wanted(void);

/* Begins and ends a range of the calling thread. Only if trp__nvtx_wanted(). */
void trp__nvtx_push(const trp__instance *instance, const trp__record *record);
void trp__nvtx_pop(void);

#endif
