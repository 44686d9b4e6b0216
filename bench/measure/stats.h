/* Measuring: samples, percentiles, and two sides measured in turns. */
#ifndef TRP_BENCH_MEASURE_STATS_H
#define TRP_BENCH_MEASURE_STATS_H

#include "placement.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Nanoseconds of a clock that never goes back: the one clock of every measurement. */
static inline int64_t stats_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Nanoseconds for one operation. Of samples of one operation each, p99 is the median of what the
 * blocks have: where the processors are virtual, they are taken away for milliseconds in a few
 * blocks, which says nothing of either side. */
typedef struct stats_summary {
    uint64_t samples;    /* 0: not measured */
    uint64_t operations; /* timed, all samples together */
    double min, p50, p90, p99, max, mean;
} stats_summary;

/* Sorts the samples in place. */
stats_summary stats_summarise(double *samples, uint64_t count);

/* One side of a comparison: does `count` operations, one after the other or in flight together, and
 * returns when all are done. False: it has failed and has told why; nothing more is run. */
typedef struct stats_side {
    bool (*run)(void *context, uint64_t count);
    void *context;
} stats_side;

typedef struct stats_plan {
    uint32_t blocks; /* for each side; the sides take turns, so that drift hits both alike, and what
                      * a GPU that lowers its clock has done before */
    uint64_t count;  /* timed operations in a block */
    uint64_t warm;   /* untimed operations before them, in each block */
    bool each;       /* a sample is one operation, run by itself; else it is a block's mean */
    const placement *placement; /* NULL: threads stay where they are */
} stats_plan;

/* Runs the blocks. A side with no function is left out. False if a side has failed, or there is no
 * memory for the samples. */
bool stats_compare(const stats_plan *plan, stats_side raw, stats_side troupe,
                   stats_summary *raw_out, stats_summary *troupe_out);

/* How many operations take about target_ns, from 1 to `most`; 0 if the side has failed. Warms up.
 */
uint64_t stats_calibrate(stats_side side, double target_ns, uint64_t most);

#endif
