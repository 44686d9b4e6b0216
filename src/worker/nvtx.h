/* NVTX ranges: what a profiler shows around each request, "blas gemm #1000" in the domain "troupe".
 *
 * On where a tool is: as NVIDIA's own headers do it, the library that NVTX_INJECTION64_PATH names
 * is loaded; profilers set it. Without it all of this is one branch. */
#ifndef TRP_WORKER_NVTX_H
#define TRP_WORKER_NVTX_H

#include "worker/actor.h"

/* Whether there is a tool; loads it at the first call in this process. Any thread. */
bool trp__nvtx_wanted(void);

/* Begins and ends a range of the calling thread. Only if it is wanted. */
void trp__nvtx_push(const trp__instance *instance, const trp__record *record);
void trp__nvtx_pop(void);

#endif
