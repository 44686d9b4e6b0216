/* A run of `troupe bench`: both sides opened on one device, and functions that its sections
 * share. */
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
    trp_device_info info; /* at the time of opening */
    int size;             /* --size of CUTLASS products, or channels; 0: all */
    const char *kernel;   /* --kernel of CUTLASS products; NULL: the actor selects it */
    trp_tune tune;        /* --tune of CUTLASS products */
    plot *plot;           /* plot of CUTLASS products or NULL */
    const char *torch;    /* file with PyTorch's figures or NULL */
    double limit;         /* seconds per section of the dnn and fft suites */
    bool quick;
    uint64_t seed;
    char error[320]; /* error of Troupe's side in the current row */
} suite;

/* The sections. Each adds its rows and reports failed measurements. */
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
void suite_fft(suite *s);
void suite_numbers(suite *s);
void suite_jit_warm(suite *s);
void suite_jit_memory(suite *s);
void suite_jit_many(suite *s);
void suite_jit_large(suite *s);
void suite_jit_processes(suite *s);

/* a child process of the bench: loads an image from a file and launches its kernel "warm" in a new
 * process; prints the duration in nanoseconds. */
#define SUITE_FIRST_LOAD "--first-load"
bool suite_first_load(const char *path, const char *gpu);

/* also a child process: opens cuDNN, runs a convolution, and prints the nanoseconds of each phase
 * on one line. HOW: "make" creates the plan and writes its record to the file; "read" creates it
 * from that file; "warm-make" and "warm-read" do so after the library has created another plan. */
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

/* Writes the report's header; the arguments are those of the command. */
void suite_describe(suite *s, int argc, char **argv);

/* Runs this command as a process with these arguments up to a NULL and drops its output. */
bool suite_run(suite *s, const char *const *arguments);

/* Runs this command with its output in a file. */
bool suite_run_into(suite *s, const char *const *arguments, const char *output);

/* Returns true for TRP_OK; otherwise records the failed call and the reason. */
bool suite_check(suite *s, trp_status status, const char *call);

/* Frees the buffers that exist. */
void suite_free(suite *s, const trp_buffer *buffers, size_t count);

/* Records that a system call failed and the reason (errno). Returns false. */
bool suite_failed(suite *s, const char *what);

/* Waits for a request sent with a future; `sent` is the status of sending. */
bool suite_await(suite *s, trp_status sent, const trp_completion *completion, const char *call);

/* Creates an actor. Returns NULL after it has reported the failure. */
trp_actor *suite_actor(suite *s, const char *kind);

/* Opens the same device again, without a standby. */
bool suite_open(suite *s, trp_device **out);

/* Waits for all requests of the device. */
bool suite_drain(suite *s, int64_t timeout_ns);

/* Allocates a buffer and writes `bytes` bytes to it, or fills it with poison, NaNs in every type,
 * if `from` is NULL. */
bool suite_upload(suite *s, const void *from, uint64_t bytes, trp_buffer *out);

/* Makes the figure of a row the rate of an operation of so many floating-point operations. */
void suite_set_flop(const suite *s, report_row *row, double flop);

/* Reports the failed section or row with the recorded error of either side. */
void suite_fail(suite *s, const char *what);

/* Measures both sides and checks that no request failed meanwhile. Returns false after it has
 * recorded the error. */
bool suite_time(suite *s, const stats_plan *plan, stats_side raw_side, stats_side troupe_side,
                report_row *row);

/* The same with `blocks` blocks of about `target_ns`, fewer and shorter in a quick run, across the
 * machine's processors. `both`: both sides are Troupe's, and the raw one determines the number of
 * operations. */
bool suite_time_blocks(suite *s, uint32_t blocks, double target_ns, bool both, stats_side raw_side,
                       stats_side troupe_side, report_row *row);

/* Chooses the number of operations per block. A busy GPU lowers its clock according to the power of
 * each operation: sides that alternate in less than a tenth of a second partly run at the other
 * side's clock. So blocks of GPU operations are longer, which also reduces the weight of their
 * start. */
void suite_plan_blocks(suite *s, stats_side side, stats_plan *plan);

/* Measures both sides and adds the row. Returns false after it has reported the failure. */
bool suite_measure(suite *s, const stats_plan *plan, stats_side raw_side, stats_side troupe_side,
                   report_row *row);

/* The same across the machine's processors. `both`: both sides are Troupe's. */
bool suite_measure_placed(suite *s, bool both, stats_plan plan, stats_side raw_side,
                          stats_side troupe_side, report_row *row);

/* Sets a bound that the project requires on its reference GPU, and only there. */
void suite_bound(const suite *s, report_row *row, report_bound bound, double limit);

static inline bool suite_on_gpu(const suite *s)
{
    return s->info.backend == TRP_BACKEND_CUDA;
}

/* Returns element `index` of a random sequence (the finalizer of SplitMix64). */
static inline uint64_t suite_random(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Formats a size such as "64 KiB"; `out` has 24 bytes. */
void suite_size_text(char *out, uint64_t bytes);

#endif
