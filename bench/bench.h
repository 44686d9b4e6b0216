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
    TRP_BENCH_FFT,
    TRP_BENCH_RANDOM,
    TRP_BENCH_SUITES
} trp_bench_suite;

extern const char *const trp_bench_suites[]; /* names by suite number, terminated by NULL */

/* Returns the name of section `index` in order of execution, or NULL after the last. */
const char *trp_bench_section(size_t index, trp_bench_suite *of, const char **about);

/* Selects what to measure and how. File names may be NULL. */
typedef struct trp_bench_choice {
    trp_bench_suite suite;
    uint64_t chosen; /* bit i selects section i; 0: the whole suite */
    trp_backend backend;
    uint32_t gpu;
    bool quick, no_standby;
    const char *json;   /* output file of all figures */
    uint32_t size;      /* size in the cutlass suite; 0: all sizes */
    const char *kernel; /* kernel in the cutlass suite; NULL: the actor selects it */
    trp_tune tune;      /* likewise */
    const char *plot;   /* output file of the cutlass suite's plot */
    const char *torch;  /* PyTorch's figures for the dnn suite */
    uint32_t limit;     /* seconds per section of the dnn and fft suites */
} trp_bench_choice;

/* Runs the chosen sections; `argc` and `argv` are recorded in the report. Returns false when a
 * section failed, after it has written the reason to standard error. A missed bound is not a
 * failure. */
bool trp_bench_run(const trp_bench_choice *choice, int argc, char **argv);

/* Runs a step of a section in a child process. Returns true if the arguments name such a step;
 * *done is then its success. */
bool trp_bench_step(int argc, char **argv, bool *done);

#endif
