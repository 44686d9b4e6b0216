/* A run of `troupe bench`: both sides open on one device, and what its sections share. */
#ifndef TRP_BENCH_SUITE_SUITE_H
#define TRP_BENCH_SUITE_SUITE_H

#include "plot_svg.h"
#include "bench/raw/raw.h"
#include "report.h"

#include <troupe/troupe.h>

typedef struct suite {
    report *report;
    raw *raw;
    trp_system *system;
    trp_device *device;
    trp_device_info info; /* as it was when opened */
    int size;             /* of products by kernels of CUTLASS, or channels; 0: all */
    const char *kernel;   /* that they are to run; NULL: the actor's choice */
    trp_tune tune;        /* whether they search */
    plot *plot;           /* that they are drawn in; NULL: none */
    const char *torch;    /* a file with what PyTorch takes for convolutions; NULL: none */
    double limit;         /* seconds that a section of the dnn suite may take */
    bool quick;
    uint64_t seed;
    char error[320]; /* of Troupe's side, in the row that is being measured */
} suite;

/* The sections. Each shows its rows, and tells in the report what could not be measured. */
void suite_round_trip(suite *s);
void suite_sustained(suite *s);
void suite_senders(suite *s);
void suite_waiting(suite *s);
void suite_trace(suite *s);
void suite_alternate(suite *s);
void suite_gemm(suite *s);
void suite_joined(suite *s);
void suite_copy(suite *s);
void suite_pageable(suite *s);
void suite_load(suite *s);
void suite_alloc(suite *s);
void suite_matmul_shapes(suite *s);
void suite_matmul_tuned(suite *s);
void suite_matmul_searched(suite *s);
void suite_matmul_epilogue(suite *s);
void suite_matmul_overhead(suite *s);
void suite_matmul_plans(suite *s);
void suite_cutlass_kernels(suite *s);
void suite_cutlass_fused(suite *s);
void suite_cutlass_repeat(suite *s);
void suite_cutlass_first(suite *s);
void suite_cutlass_grouped(suite *s);
void suite_conv_fprop(suite *s);
void suite_conv_dgrad(suite *s);
void suite_conv_wgrad(suite *s);
void suite_dnn_resnet(suite *s);
void suite_dnn_resnet_quick(suite *s);
void suite_dnn_resnet_full(suite *s);
void suite_dnn_convs(suite *s);
void suite_dnn_convs_quick(suite *s);
void suite_dnn_convs_full(suite *s);
void suite_dnn_fused(suite *s);
void suite_dnn_chains(suite *s);
void suite_dnn_attention(suite *s);
void suite_dnn_attention_raw(suite *s);
void suite_dnn_rnn(suite *s);
void suite_dnn_elements(suite *s);
void suite_dnn_training(suite *s);
void suite_dnn_repeat(suite *s);
void suite_dnn_first(suite *s);
void suite_jit_warm(suite *s);
void suite_jit_memory(suite *s);
void suite_jit_many(suite *s);
void suite_jit_large(suite *s);
void suite_jit_processes(suite *s);

/* `troupe bench --first-load IMAGE GPU`, which the bench starts itself: loads a file with an image
 * and launches its kernel "warm" in a process that has done nothing before; prints what that took
 * in nanoseconds. */
#define SUITE_FIRST_LOAD "--first-load"
bool suite_first_load(const char *path, const char *gpu);

/* `troupe bench --first-conv GPU FILE HOW`, likewise: opens cuDNN and runs a convolution, and
 * prints what each phase of that took in nanoseconds, in a line. HOW: "make" the plan, and leave
 * its record in the file; "read" it from there; "warm-make" and "warm-read" once the library has
 * planned something else. */
#define SUITE_FIRST_CONV "--first-conv"
typedef enum suite_phase {
    SUITE_PHASE_LIBRARY,
    SUITE_PHASE_HANDLE,
    SUITE_PHASE_PROPERTIES,
    SUITE_PHASE_WARM,
    SUITE_PHASE_PLAN,
    SUITE_PHASE_LAUNCH,
    SUITE_PHASE_NEXT,
    SUITE_PHASES
} suite_phase;
bool suite_first_conv(const char *gpu, const char *path, const char *how);

/* The report's header; the arguments are those of the command. */
void suite_describe(suite *s, int argc, char **argv);

/* Runs the command itself with these arguments, up to a NULL, and what it prints dropped. */
bool suite_run(suite *s, const char *const *arguments);

/* The same, with what it prints in a file. */
bool suite_run_into(suite *s, const char *const *arguments, const char *output);

/* True for TRP_OK; else keeps what failed, and why. */
bool suite_check(suite *s, trp_status status, const char *call);

/* Frees those of the buffers that there are. */
void suite_free(suite *s, const trp_buffer *buffers, size_t count);

/* False: keeps that a call of the system has failed, and why (errno). */
bool suite_failed(suite *s, const char *what);

/* Waits for a request that was sent with a future, which gave `sent`. */
bool suite_await(suite *s, trp_status sent, const trp_completion *completion, const char *call);

trp_actor *suite_actor(suite *s, const char *kind, const char *section);

/* Tells that a section or a row of it has failed, with the error that either side has kept. */
void suite_fail(suite *s, const char *section, const char *what);

/* Measures both sides. Checks that no request has failed meanwhile. False: what failed is kept. */
bool suite_time(suite *s, const stats_plan *plan, stats_side raw_side, stats_side troupe_side,
                report_row *row);

/* How many operations make a block. What keeps a GPU busy makes it lower its clock, each operation
 * by as much as it takes power: sides that take turns in less than a tenth of a second have the
 * other one's clock in part, so that blocks of what lasts are longer, and less of their beginning
 * counts. */
void suite_plan_blocks(suite *s, stats_side side, stats_plan *plan);

/* The same, and adds the row with what came out. False: it has failed and is told. */
bool suite_measure(suite *s, const stats_plan *plan, stats_side raw_side, stats_side troupe_side,
                   report_row *row);

/* A bound of the project's for its reference GPU; none elsewhere. */
void suite_bound(const suite *s, report_row *row, report_bound bound, double limit);

static inline bool suite_on_gpu(const suite *s)
{
    return s->info.backend == TRP_BACKEND_CUDA;
}

/* Element `index` of a random sequence. (The finalizer of SplitMix64.) */
static inline uint64_t suite_random(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* "64 KiB"; `out` has room for 24 bytes. */
void suite_size_text(char *out, uint64_t bytes);

#endif
