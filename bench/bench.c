/* `troupe bench`: options, opening and closing, and the order of the sections. */
#include "bench.h"

#include "suite.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DONE = 0, FAILED = 1, USAGE = 2 };

enum { LIMIT_SECONDS = 60 };

typedef enum suite_name { DISPATCH, MATMUL, CUTLASS, JIT, DNN, SUITES } suite_name;

static const char *const suite_names[] = {[DISPATCH] = "dispatch",
                                          [MATMUL] = "matmul",
                                          [CUTLASS] = "cutlass",
                                          [JIT] = "jit",
                                          [DNN] = "dnn"};

#define SUITE_LIST "dispatch, matmul, cutlass, jit or dnn"

/* The sections, in the order in which they run. */
static const struct {
    const char *name, *about;
    void (*run)(suite *s);
    suite_name suite;
} sections[] = {
    {"round-trip", "one empty kernel, sent and waited for", suite_round_trip, DISPATCH},
    {"sustained", "empty kernels, sent back to back", suite_sustained, DISPATCH},
    {"senders", "the same from 16 threads, and 10,000 in flight", suite_senders, DISPATCH},
    {"waiting", "a request of 100 ms: how late it is seen, and what waiting takes", suite_waiting,
     DISPATCH},
    {"trace", "the same with a trace against without", suite_trace, DISPATCH},
    {"gemm", "matrix products from 16 to 8192, sent back to back", suite_gemm, DISPATCH},
    {"joined", "small products on buffers of their own, joined or not", suite_joined, DISPATCH},
    {"copy", "copies with memory that the device reaches directly", suite_copy, DISPATCH},
    {"pageable", "copies with ordinary memory", suite_pageable, DISPATCH},
    {"alloc", "buffers created and freed", suite_alloc, DISPATCH},
    {"shapes", "products of bf16 and fp8: squares, and shapes of transformers", suite_matmul_shapes,
     MATMUL},
    {"tuned", "the same after a full search", suite_matmul_tuned, MATMUL},
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
};

enum { SECTION_COUNT = sizeof sections / sizeof *sections };

typedef struct choice {
    trp_backend backend;
    uint32_t gpu;
    bool gpu_given;
    bool quick;
    bool no_standby;
    bool help;
    const char *json;   /* NULL: none */
    uint32_t size;      /* of the cutlass suite: 0 all */
    const char *kernel; /* likewise: NULL the actor's choice */
    trp_tune tune;      /* likewise */
    const char *plot;   /* likewise: NULL none */
    const char *torch;  /* of the dnn suite: NULL none */
    uint32_t limit;     /* likewise */
    suite_name suite;
    uint64_t chosen; /* bit i: sections[i]; 0: all of the suite */
} choice;

/* Options. */

static bool __attribute__((format(printf, 1, 2))) reject(const char *format, ...)
{
    va_list args;
    fputs("troupe: bench: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs(" (see 'troupe help bench')\n", stderr);
    return false;
}

static bool parse_backend(choice *c, const char *text)
{
    static const trp_backend all[] = {TRP_BACKEND_BEST, TRP_BACKEND_CUDA, TRP_BACKEND_HOST};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!strcmp(text, trp_backend_name(all[i]))) {
            c->backend = all[i];
            return true;
        }
    }
    return reject("--device: expected best|cuda|host, got '%s'", text);
}

static bool parse_number(const char *option, const char *text, uint32_t *out)
{
    char *end;
    errno = 0;
    unsigned long number = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || number > UINT16_MAX)
        return reject("%s: expected N, got '%s'", option, text);
    *out = (uint32_t)number;
    return true;
}

static bool parse_gpu(choice *c, const char *text)
{
    c->gpu_given = true;
    return parse_number("--gpu", text, &c->gpu);
}

static bool parse_size(choice *c, const char *text)
{
    return parse_number("--size", text, &c->size);
}

static bool parse_kernel(choice *c, const char *text)
{
    c->kernel = text;
    return true;
}

static bool parse_tune(choice *c, const char *text)
{
    static const char *const names[] = {"off", "quick", "full"};
    for (int i = TRP_TUNE_OFF; i <= TRP_TUNE_FULL; i++) {
        if (!strcmp(text, names[i])) {
            c->tune = (trp_tune)i;
            return true;
        }
    }
    return reject("--tune: expected off|quick|full, got '%s'", text);
}

static bool parse_file(const char *option, const char *text, const char **out)
{
    *out = text;
    return *text || reject("%s: expected FILE, got ''", option);
}

static bool parse_json(choice *c, const char *text)
{
    return parse_file("--json", text, &c->json);
}

static bool parse_plot(choice *c, const char *text)
{
    return parse_file("--plot", text, &c->plot);
}

static bool parse_torch(choice *c, const char *text)
{
    return parse_file("--torch", text, &c->torch);
}

static bool parse_limit(choice *c, const char *text)
{
    return parse_number("--limit", text, &c->limit);
}

static size_t section_of(const char *name)
{
    size_t i = 0;
    while (strcmp(sections[i].name, name) != 0)
        i++;
    return i;
}

static bool parse_only(choice *c, const char *text)
{
    c->chosen = 0;
    for (;;) {
        size_t length = strcspn(text, ",");
        size_t i = 0;
        while (i < SECTION_COUNT &&
               (strlen(sections[i].name) != length || strncmp(text, sections[i].name, length) != 0))
            i++;
        if (i == SECTION_COUNT)
            return reject("--only: there is no section '%.*s'", (int)length, text);
        c->chosen |= UINT64_C(1) << i;
        if (!text[length])
            return true;
        text += length + 1;
    }
}

static const struct {
    const char *name, *argument, *help;
    bool (*parse)(choice *c, const char *text);
} options[] = {
    {"--device", "best|cuda|host", "where to run (default best: a GPU if there is one)",
     parse_backend},
    {"--gpu", "N", "which GPU, as CUDA numbers them (default 0)", parse_gpu},
    {"--json", "FILE", "write all figures to a file too", parse_json},
    {"--only", "NAME,NAME,...", "some sections only, of those below", parse_only},
    {"--size", "N", "of the cutlass suite, products of N x N x N, convolutions of N channels only",
     parse_size},
    {"--kernel", "NAME", "of the cutlass suite, a kernel of the catalogue in place of its choice",
     parse_kernel},
    {"--tune", "off|quick|full",
     "of the cutlass suite, and of conv-fused and attention: search for the fastest (default off)",
     parse_tune},
    {"--plot", "FILE.svg", "of the cutlass suite, draw the squares, some more of them", parse_plot},
    {"--torch", "FILE",
     "of the dnn suite, what bench/torch_dnn.py has written (elements: torch_elementwise.py)",
     parse_torch},
    {"--limit", "SECONDS", "of the dnn suite, so long a section goes on (default 60)", parse_limit},
};

static void show_help(void)
{
    printf(
        "usage: troupe bench dispatch|matmul|cutlass|jit|dnn [options]\n\n"
        "Measures, in one run and in turns, what work costs through Troupe's worker process and\n"
        "what the same work costs with the driver and the library called directly.\n\n"
        "options:\n");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char left[40];
        snprintf(left, sizeof left, "%s %s", options[i].name, options[i].argument);
        printf("      %-24s  %s\n", left, options[i].help);
    }
    printf("      %-24s  %s\n", "--quick", "fewer sizes and repetitions");
    printf("      %-24s  %s\n", "--no-standby", "without the standby worker");
    printf("  -h, %-24s  %s\n\nsections:\n", "--help", "show this");
    for (size_t i = 0; i < SECTION_COUNT; i++)
        printf("      %-8s  %-14s  %s\n", suite_names[sections[i].suite], sections[i].name,
               sections[i].about);
}

/* "--name value" or "--name=value". */
static bool parse_option(choice *c, int argc, char **argv, int *i)
{
    const char *arg = argv[*i];
    if (!strcmp(arg, "--help") || !strcmp(arg, "-h"))
        return c->help = true;
    if (!strcmp(arg, "--quick"))
        return c->quick = true;
    if (!strcmp(arg, "--no-standby"))
        return c->no_standby = true;
    size_t length = strcspn(arg, "=");
    for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
        if (strlen(options[k].name) != length || strncmp(arg, options[k].name, length) != 0)
            continue;
        if (arg[length])
            return options[k].parse(c, arg + length + 1);
        if (*i + 1 >= argc)
            return reject("%s needs a value: %s", arg, options[k].argument);
        return options[k].parse(c, argv[++*i]);
    }
    return reject("unknown option '%s'", arg);
}

static bool parse_suite(choice *c, const char *text)
{
    for (c->suite = 0; c->suite < SUITES; c->suite++) {
        if (!strcmp(suite_names[c->suite], text))
            return true;
    }
    return false;
}

static bool parse(choice *c, int argc, char **argv)
{
    int operands = 0;
    for (int i = 1; i < argc && !c->help; i++) {
        if (argv[i][0] == '-') {
            if (!parse_option(c, argc, argv, &i))
                return false;
        } else if (operands++ > 0) {
            return reject("one suite at a time, got '%s' too", argv[i]);
        } else if (!parse_suite(c, argv[i])) {
            return reject("there is no suite '%s': expected " SUITE_LIST, argv[i]);
        }
    }
    if (c->help)
        return true;
    if (operands == 0)
        return reject("expected a suite: " SUITE_LIST);
    for (size_t i = 0; i < SECTION_COUNT; i++) {
        if ((c->chosen >> i & 1) && sections[i].suite != c->suite)
            return reject("--only: '%s' is a section of %s, not of %s", sections[i].name,
                          suite_names[sections[i].suite], suite_names[c->suite]);
    }
    bool draws = !c->chosen || (c->chosen >> section_of("kernels") & 1);
    if (c->plot && (c->suite != CUTLASS || !draws))
        return reject("--plot: draws the section 'kernels' of cutlass");
    if (c->torch && c->suite != DNN)
        return reject("--torch: is for the dnn suite");
    if (!c->gpu_given)
        return true;
    if (c->backend == TRP_BACKEND_HOST)
        return reject("--gpu and --device host contradict each other");
    c->backend = TRP_BACKEND_CUDA; /* who names a GPU doesn't want the host instead */
    return true;
}

/* The run. */

static bool told(trp_status status, const char *doing)
{
    if (status != TRP_OK)
        fprintf(stderr, "troupe: bench: %s: %s (%s)\n", doing, trp_error_message(),
                trp_status_name(status));
    return status == TRP_OK;
}

static bool open_suite(suite *s, const choice *c)
{
    char message[320];
    trp_device_options device = {.backend = c->backend,
                                 .ordinal = c->gpu,
                                 .standby = c->no_standby ? TRP_STANDBY_OFF : TRP_STANDBY_ON};
    if (!told(trp_system_create(NULL, &s->system), "starting") ||
        !told(trp_device_open(s->system, &device, &s->device), "opening the device") ||
        !told(trp_device_get_info(s->device, &s->info), "opening the device"))
        return false;
    /* The worker is there before this process gets a CUDA context of its own. */
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
    told(trp_system_destroy(s->system), "ending");
}

static bool run_sections(suite *s, const choice *c, int argc, char **argv)
{
    suite_describe(s, argc, argv);
    for (size_t i = 0; i < SECTION_COUNT; i++) {
        bool chosen = c->chosen ? c->chosen >> i & 1 : sections[i].suite == c->suite;
        if (chosen)
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

/* Whether the file can be written, told before the measuring and not after it. */
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

int trp_bench_main(int argc, char **argv)
{
    choice c = {.backend = TRP_BACKEND_BEST, .limit = LIMIT_SECONDS};
    if (argc == 4 && !strcmp(argv[1], SUITE_FIRST_LOAD))
        return suite_first_load(argv[2], argv[3]) ? DONE : FAILED;
    if (argc == 5 && !strcmp(argv[1], SUITE_FIRST_CONV))
        return suite_first_conv(argv[2], argv[3], argv[4]) ? DONE : FAILED;
    if (!parse(&c, argc, argv))
        return USAGE;
    if (c.help) {
        show_help();
        return DONE;
    }
    static plot drawing = {
        .title = "Square products, D in bf16", .x_label = "m = n = k", .y_label = "TFLOP/s"};
    suite s = {.quick = c.quick,
               .size = (int)c.size,
               .kernel = c.kernel,
               .tune = c.tune,
               .plot = c.plot ? &drawing : NULL,
               .torch = c.torch,
               .limit = c.limit,
               .seed = (uint32_t)stats_now()};
    if (!can_write(c.json) || !can_write(c.plot) || !can_read(c.torch))
        return FAILED;
    s.report = report_create();
    bool ok = s.report && open_suite(&s, &c) && run_sections(&s, &c, argc, argv);
    close_suite(&s);
    report_destroy(s.report);
    return ok ? DONE : FAILED;
}
