/* Places the threads of a comparison on processors. In a virtual machine one processor may be a
 * tenth faster than the next for a whole run, because the load of its physical core is invisible
 * from inside. So a comparison rotates over many processors, and the thread that gives work to the
 * device runs on the same ones on both sides: the program's thread on the raw side, the worker's on
 * Troupe's, with the sender on another processor. */
#ifndef TRP_BENCH_MEASURE_PLACEMENT_H
#define TRP_BENCH_MEASURE_PLACEMENT_H

#include <troupe/troupe.h>

#include <sched.h>

typedef struct placement {
    trp_device *device;
    cpu_set_t before; /* the calling thread's original affinity */
    size_t cpu[CPU_SETSIZE];
    uint32_t count; /* 0: threads are not moved */
    bool both;      /* the raw side is also Troupe's */
} placement;

/* Chooses processors for the device's worker and the calling thread. Does nothing if there are too
 * few processors for each to have one and one to spare. */
void placement_begin(placement *p, trp_device *device, bool both);

/* Moves the threads to their processors for block `block` of the raw side or of Troupe's. */
void placement_set(const placement *p, uint32_t block, bool troupe);

/* Restores the affinity of all threads. */
void placement_end(const placement *p);

#endif
