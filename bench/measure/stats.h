/* Measures samples, percentiles, and two sides in turns. */
#ifndef TRP_BENCH_MEASURE_STATS_H
#define TRP_BENCH_MEASURE_STATS_H

#include "placement.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Returns nanoseconds of the monotonic clock that all measurements use. */
static inline int64_t stats_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Nanoseconds per operation. For samples of single operations, p99 is the median of the blocks'
 * 99th percentiles: a hypervisor takes virtual processors away for milliseconds in a few blocks,
 * which characterises neither side. */
typedef struct stats_summary {
    uint64_t samples;    /* 0: not measured */
    uint64_t operations; /* timed operations in all samples */
    double min, p50, p90, p99, max, mean;
} stats_summary;

/* Sorts the samples in place. */
stats_summary stats_summarise(double *samples, uint64_t count);

/* One side of a comparison: performs `count` operations, sequential or concurrent, and returns when
 * all are done. Returns false after it has reported a failure, which ends the comparison. */
typedef struct stats_side {
    bool (*run)(void *context, uint64_t count);
    void *context;
} stats_side;

typedef struct stats_plan {
    uint32_t blocks; /* blocks per side; the sides alternate, so that drift and the lower clock of a
                      * busy GPU affect both alike */
    uint64_t count;  /* timed operations per block */
    uint64_t warm;   /* untimed operations at the start of each block */
    bool each;       /* a sample is one operation run by itself; otherwise it is a block's mean */
    const placement *placement; /* NULL: threads are not moved */
} stats_plan;

/* Runs the blocks. A side without a function is left out. Returns false if a side fails or memory
 * for the samples is missing. */
bool stats_compare(const stats_plan *plan, stats_side raw, stats_side troupe,
                   stats_summary *raw_out, stats_summary *troupe_out);

/* Returns the least mean time of an operation in some blocks of 2 ms in nanoseconds, or a negative
 * number if the side fails. The first blocks load the kernel and determine the count. */
double stats_least(stats_side side);

/* Returns the number of operations that takes about target_ns, from 1 to `most`, or 0 if the side
 * fails. Warms up.
 */
uint64_t stats_calibrate(stats_side side, double target_ns, uint64_t most);

#endif
