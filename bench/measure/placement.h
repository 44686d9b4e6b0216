/* Where the threads of a comparison run. In a virtual machine one processor may be a tenth faster
 * than the next, for as long as a run lasts: what else its core does is not to be seen from here.
 * So a comparison goes over many processors, and the thread that gives work to the device runs on
 * the same ones on both sides: the program's own on the raw side, the worker's on Troupe's, with
 * the sender on another. */
#ifndef TRP_BENCH_MEASURE_PLACEMENT_H
#define TRP_BENCH_MEASURE_PLACEMENT_H

#include <troupe/troupe.h>

#include <sched.h>

typedef struct placement {
    trp_device *device;
    cpu_set_t before; /* what the calling thread may run on */
    size_t cpu[CPU_SETSIZE];
    uint32_t count; /* 0: threads stay where they are */
    bool both;      /* the raw side is Troupe's too */
} placement;

/* For the device's worker and the calling thread; does nothing if they can't have processors of
 * their own, with one to spare for each. */
void placement_begin(placement *p, trp_device *device, bool both);

/* Puts the threads where they belong in block `block` of the raw side, or of Troupe's. */
void placement_set(const placement *p, uint32_t block, bool troupe);

/* Lets all threads run where they ran before. */
void placement_end(const placement *p);

#endif
