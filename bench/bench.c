/* Runs `troupe bench`: opens and closes both sides and calls the sections in order.
 * cli/commands/bench.c parses its options. */
#include "bench.h"

#include "bench/suite/suite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DISPATCH TRP_BENCH_DISPATCH
#define MATMUL   TRP_BENCH_MATMUL
#define CUTLASS  TRP_BENCH_CUTLASS
#define JIT      TRP_BENCH_JIT
#define DNN      TRP_BENCH_DNN
#define FFT      TRP_BENCH_FFT
#define RANDOM   TRP_BENCH_RANDOM

const char *const trp_bench_suites[] = {
    [DISPATCH] = "dispatch", [MATMUL] = "matmul", [CUTLASS] = "cutlass", [JIT] = "jit",
    [DNN] = "dnn",           [FFT] = "fft",       [RANDOM] = "random",   [TRP_BENCH_SUITES] = NULL,
};

/* The sections, in the order in which they run. */
static const struct {
    const char *name, *about;
    void (*run)(suite *s);
    trp_bench_suite suite;
} sections[] = {
    {"round-trip", "one empty kernel, sent and waited for", suite_round_trip, DISPATCH},
    {"sustained", "empty kernels, sent back to back", suite_sustained, DISPATCH},
    {"senders", "the same from 16 threads, and 10,000 in flight", suite_senders, DISPATCH},
    {"waiting", "a request of 100 ms: how late it is seen, and what waiting takes", suite_waiting,
     DISPATCH},
    {"trace", "the same with a trace against without", suite_trace, DISPATCH},
    {"alternate", "a product and a layer on its result, by turns of two actors", suite_alternate,
     DISPATCH},
    {"gemm", "matrix products from 16 to 8192, sent back to back", suite_gemm, DISPATCH},
    {"joined", "small products on buffers of their own, joined or not", suite_joined, DISPATCH},
    {"copy", "copies with memory that the device reaches directly", suite_copy, DISPATCH},
    {"pageable", "copies with ordinary memory", suite_pageable, DISPATCH},
    {"load", "weights from a file in the page cache into a sealed buffer", suite_load, DISPATCH},
    {"alloc", "buffers created and freed", suite_alloc, DISPATCH},
    {"shapes", "products of bf16 and fp8: squares, and shapes of transformers", suite_matmul_shapes,
     MATMUL},
    {"tuned", "the same after a full search", suite_matmul_tuned, MATMUL},
    {"searched", "products that no search was tried on: after one, against none",
     suite_matmul_searched, MATMUL},
    {"epilogue", "a product with bias, gelu and aux against one without", suite_matmul_epilogue,
     MATMUL},
    {"overhead", "what a request costs beyond the library's call", suite_matmul_overhead, MATMUL},
    {"plans", "1,000 distinct problems, twice", suite_matmul_plans, MATMUL},
    {"kernels", "squares of bf16 and fp8 by kernels of CUTLASS", suite_cutlass_kernels, CUTLASS},
    {"fused", "a product with an epilogue against one and a kernel behind it", suite_cutlass_fused,
     CUTLASS},
    {"repeat", "what a request of the same product again costs the worker", suite_cutlass_repeat,
     CUTLASS},
    {"first", "the first product of a worker, with a pack and without", suite_cutlass_first,
     CUTLASS},
    {"grouped", "grouped products of bf16: tokens times the weights of experts",
     suite_cutlass_grouped, CUTLASS},
    {"fprop", "convolutions of bf16 by kernels of CUTLASS", suite_conv_fprop, CUTLASS},
    {"dgrad", "their gradients by the activation", suite_conv_dgrad, CUTLASS},
    {"wgrad", "their gradients by the filter", suite_conv_wgrad, CUTLASS},
    {"warm", "a kernel compiled before: from disk, from a pack", suite_jit_warm, JIT},
    {"memory", "the same compile again in a process", suite_jit_memory, JIT},
    {"many", "100 new kernels, side by side", suite_jit_many, JIT},
    {"large", "10,000 entries against 10", suite_jit_large, JIT},
    {"processes", "64 processes that want the same 20 kernels", suite_jit_processes, JIT},
    {"convs", "single convolutions of bf16, all passes", suite_dnn_convs, DNN},
    {"resnet", "the convolutions of ResNet-50 at batch 64, all passes", suite_dnn_resnet, DNN},
    {"conv-fused", "with bias and relu against without", suite_dnn_fused, DNN},
    {"chains", "element-wise nodes as one graph against a request for each", suite_dnn_chains, DNN},
    {"attention", "attention of bf16, forward and backward", suite_dnn_attention, DNN},
    {"attention-raw", "forward, by turns with cuDNN alone", suite_dnn_attention_raw, DNN},
    {"rnn", "LSTM and GRU, forward and backward, f16, tf32 and f32", suite_dnn_rnn, DNN},
    {"elements", "functions, reductions, norms, pooling: bytes by time, against a copy",
     suite_dnn_elements, DNN},
    {"training", "losses, embeddings, optimizers and the like: bytes by time, against a copy",
     suite_dnn_training, DNN},
    {"conv-repeat", "what a request of the same convolution again costs the worker",
     suite_dnn_repeat, DNN},
    {"conv-first", "the first convolution of a worker, its plan from disk or new", suite_dnn_first,
     DNN},
    {"convs-quick", "as convs, after a quick search", suite_dnn_convs_quick, DNN},
    {"resnet-quick", "as resnet, after a quick search", suite_dnn_resnet_quick, DNN},
    {"convs-full", "as convs, after a full search", suite_dnn_convs_full, DNN},
    {"resnet-full", "as resnet, after a full search", suite_dnn_resnet_full, DNN},
    {"transforms", "1-D, 2-D, 3-D and prime lengths, against cuFFT", suite_fft, FFT},
    {"numbers", "every distribution and type, against a fill", suite_numbers, RANDOM},
};

enum { SECTION_COUNT = sizeof sections / sizeof *sections };

const char *trp_bench_section(size_t index, trp_bench_suite *of, const char **about)
{
    if (index >= SECTION_COUNT)
        return NULL;
    *of = sections[index].suite;
    *about = sections[index].about;
    return sections[index].name;
}

static bool succeeded(trp_status status, const char *doing)
{
    if (status != TRP_OK)
        fprintf(stderr, "troupe: bench: %s: %s (%s)\n", doing, trp_error_message(),
                trp_status_name(status));
    return status == TRP_OK;
}

static bool open_suite(suite *s, const trp_bench_choice *c)
{
    char message[320];
    trp_device_options device = {.backend = c->backend,
                                 .ordinal = c->gpu,
                                 .standby = c->no_standby ? TRP_STANDBY_OFF : TRP_STANDBY_ON};
    if (!succeeded(trp_system_create(NULL, &s->system), "starting") ||
        !succeeded(trp_device_open(s->system, &device, &s->device), "opening the device") ||
        !succeeded(trp_device_get_info(s->device, &s->info), "opening the device"))
        return false;
    /* Starts the worker before this process creates its own CUDA context. */
    s->raw = suite_on_gpu(s) ? raw_cuda_open(s->info.ordinal, message, sizeof message)
                             : raw_host_open(message, sizeof message);
    if (!s->raw)
        fprintf(stderr, "troupe: bench: the raw side: %s\n", message);
    return s->raw != NULL;
}

static void close_suite(suite *s)
{
    if (s->raw)
        s->raw->api->close(s->raw);
    trp_device_close(s->device);
    succeeded(trp_system_destroy(s->system), "ending");
}

static bool run_sections(suite *s, const trp_bench_choice *c, int argc, char **argv)
{
    suite_describe(s, argc, argv);
    for (size_t i = 0; i < SECTION_COUNT; i++) {
        bool chosen = c->chosen ? c->chosen >> i & 1 : sections[i].suite == c->suite;
        if (!chosen)
            continue;
        report_begin(s->report, sections[i].name);
        sections[i].run(s);
    }
    report_finish(s->report);
    if (s->plot && !plot_write_file(s->plot, c->plot)) {
        fprintf(stderr, "troupe: bench: %s could not be written: %s\n", c->plot, strerror(errno));
        return false;
    }
    if (c->json && !report_write_json(s->report, c->json)) {
        fprintf(stderr, "troupe: bench: %s could not be written: %s\n", c->json, strerror(errno));
        return false;
    }
    return report_failures(s->report) == 0;
}

/* Checks before the measurements that the file can be written. */
static bool can_write(const char *path)
{
    FILE *file = path ? fopen(path, "a") : NULL;
    if (path && !file)
        fprintf(stderr, "troupe: bench: %s can't be written: %s\n", path, strerror(errno));
    return !path || (file && fclose(file) == 0);
}

static bool can_read(const char *path)
{
    FILE *file = path ? fopen(path, "r") : NULL;
    if (path && !file)
        fprintf(stderr, "troupe: bench: %s can't be read: %s\n", path, strerror(errno));
    return !path || (file && fclose(file) == 0);
}

bool trp_bench_step(int argc, char **argv, bool *done)
{
    if (argc == 4 && !strcmp(argv[1], SUITE_FIRST_LOAD))
        *done = suite_first_load(argv[2], argv[3]);
    else if (argc == 5 && !strcmp(argv[1], SUITE_FIRST_CONV))
        *done = suite_first_conv(argv[2], argv[3], argv[4]);
    else
        return false;
    return true;
}

bool trp_bench_run(const trp_bench_choice *c, int argc, char **argv)
{
    static plot drawing = {
        .title = "Square products, D in bf16", .x_label = "m = n = k", .y_label = "TFLOP/s"};
    suite s = {.quick = c->quick,
               .size = (int)c->size,
               .kernel = c->kernel,
               .tune = c->tune,
               .plot = c->plot ? &drawing : NULL,
               .torch = c->torch,
               .limit = c->limit,
               .seed = (uint32_t)stats_now()};
    if (!can_write(c->json) || !can_write(c->plot) || !can_read(c->torch))
        return false;
    s.report = report_create();
    bool ok = s.report && open_suite(&s, c) && run_sections(&s, c, argc, argv);
    close_suite(&s);
    report_destroy(s.report);
    return ok;
}
