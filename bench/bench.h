/* The benchmarks behind `troupe bench`. */
#ifndef TRP_BENCH_BENCH_H
#define TRP_BENCH_BENCH_H

#include <troupe/troupe.h>

typedef enum trp_bench_suite {
    TRP_BENCH_DISPATCH,
    TRP_BENCH_MATMUL,
    TRP_BENCH_CUTLASS,
    TRP_BENCH_JIT,
    TRP_BENCH_DNN,
    TRP_BENCH_SUITES
} trp_bench_suite;

extern const char *const trp_bench_suites[]; /* their names, by number; ends with NULL */

/* The name of a section, in the order in which they run; NULL: there are no more. */
const char *trp_bench_section(size_t index, trp_bench_suite *of, const char **about);

/* What is measured, and how. Files are NULL where there is none. */
typedef struct trp_bench_choice {
    trp_bench_suite suite;
    uint64_t chosen; /* bit i: the section of that index; 0: all of the suite */
    trp_backend backend;
    uint32_t gpu;
    bool quick, no_standby;
    const char *json;   /* a file for all figures */
    uint32_t size;      /* of the cutlass suite: 0 all */
    const char *kernel; /* likewise: NULL the actor's choice */
    trp_tune tune;      /* likewise */
    const char *plot;   /* likewise: a file to draw to */
    const char *torch;  /* of the dnn suite: a file to compare with */
    uint32_t limit;     /* likewise: seconds of a section */
} trp_bench_choice;

/* Measures; the arguments are for the report. False: something could not be measured, which is said
 * on standard error. A bound that is missed is no failure. */
bool trp_bench_run(const trp_bench_choice *choice, int argc, char **argv);

/* A process that a section has started for a step of its own: true, and *done is whether the step
 * succeeded. */
bool trp_bench_step(int argc, char **argv, bool *done);

#endif
