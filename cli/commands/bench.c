/* troupe bench: its options; bench/ measures. */
#include "commands.h"
#include "data/run.h"
#include "ui/spell.h"
#include "ui/ui.h"

#include "bench/bench.h"

#include <stdio.h>
#include <string.h>

enum { LIMIT_SECONDS = 60 };

#define SUITES "dispatch|matmul|cutlass|jit|dnn|fft|random"

static void show_sections(void)
{
    trp_bench_suite suite;
    const char *name, *about;
    printf("\nsections:\n");
    for (size_t i = 0; (name = trp_bench_section(i, &suite, &about)); i++)
        printf("      %-8s  %-14s  %s\n", trp_bench_suites[suite], name, about);
}

/* Parses "gemm,copy" into bits of sections, all of one suite. */
static int read_sections(const struct command *command, const char *text, trp_bench_choice *c)
{
    for (bool more = text != NULL; more;) {
        const size_t length = strcspn(text, ",");
        const char *name, *about;
        trp_bench_suite suite;
        spell s = spell_begin(text, length);
        size_t i = 0;
        while ((name = trp_bench_section(i, &suite, &about)) &&
               (strlen(name) != length || strncmp(text, name, length) != 0)) {
            spell_try(&s, name);
            i++;
        }
        if (!name)
            return options_reject(command, "--only: there is no section '%.*s'%s", (int)length,
                                  text, spell_hint(&s, "").s);
        if (suite != c->suite)
            return options_reject(command, "--only: '%s' is a section of %s, not of %s", name,
                                  trp_bench_suites[suite], trp_bench_suites[c->suite]);
        c->chosen |= UINT64_C(1) << i;
        more = text[length] != '\0';
        text += length + more;
    }
    return EXIT_DONE;
}

static bool draws(const trp_bench_choice *c)
{
    const char *name, *about;
    trp_bench_suite suite;
    for (size_t i = 0; (name = trp_bench_section(i, &suite, &about)); i++) {
        if (!strcmp(name, "kernels"))
            return c->suite == TRP_BENCH_CUTLASS && (!c->chosen || (c->chosen >> i & 1));
    }
    return false;
}

static int read_suite(const struct command *command, const char *text, trp_bench_choice *c)
{
    spell s = spell_begin(text ? text : "", text ? strlen(text) : 0);
    spell_try_all(&s, trp_bench_suites);
    if (!text)
        return options_reject(command, "expected a suite: dispatch, matmul, cutlass, jit, dnn, "
                                       "fft or random");
    for (c->suite = 0; c->suite < TRP_BENCH_SUITES; c->suite++) {
        if (!strcmp(trp_bench_suites[c->suite], text))
            return EXIT_DONE;
    }
    return options_reject(command,
                          "there is no suite '%s': expected dispatch, matmul, cutlass, jit, "
                          "dnn, fft or random%s",
                          text, spell_hint(&s, "").s);
}

int command_bench(int argc, char **argv)
{
    static const char *const tunes[] = {"off", "quick", "full", NULL};
    trp_bench_choice c = {0};
    run_choice choice = RUN_CHOICE_INIT;
    int64_t size = 0, limit = LIMIT_SECONDS;
    int tune = TRP_TUNE_OFF;
    const char *only = NULL;
    bool done;
    const option options[] = {
        RUN_DEVICE_OPTIONS(choice),
        {0, "json", "FILE", "write all figures to a file too", OPTION_TEXT, &c.json, NULL},
        {0, "only", "NAME,NAME,...", "only these of the sections below", OPTION_TEXT, &only, NULL},
        {0, "size", "N",
         "of the cutlass suite, products of N x N x N, convolutions of N channels only",
         OPTION_NUMBER, &size, NULL},
        {0, "kernel", "NAME",
         "of the cutlass suite, a kernel of the catalogue in place of its choice", OPTION_TEXT,
         &c.kernel, NULL},
        {0, "tune", "off|quick|full",
         "of the cutlass suite, and of conv-fused and attention: search for the fastest (default "
         "off)",
         OPTION_CHOICE, &tune, tunes},
        {0, "plot", "FILE.svg", "of the cutlass suite, draw the squares, and more sizes",
         OPTION_TEXT, &c.plot, NULL},
        {0, "torch", "FILE",
         "of the dnn suite: the output of bench/peers/torch_dnn.py (elements: "
         "torch_elementwise.py)",
         OPTION_TEXT, &c.torch, NULL},
        {0, "limit", "SECONDS", "of the dnn and fft suites, so long a section goes on (default 60)",
         OPTION_NUMBER, &limit, NULL},
        {0, "quick", NULL, "fewer sizes and repetitions", OPTION_FLAG, &c.quick, NULL},
        {0, "no-standby", NULL, "without the standby worker", OPTION_FLAG, &c.no_standby, NULL},
    };
    const struct command command = {
        .name = "bench",
        .operands = SUITES,
        .about = "Measures, in one run and in turns, what work costs through Troupe's worker "
                 "process and\n"
                 "what the same work costs with the driver and the library called directly.",
        OPTIONS_OF(options),
        .optional_count = 1,
        .show_more = show_sections,
    };
    int status;
    if (trp_bench_step(argc, argv, &done))
        return done ? EXIT_DONE : EXIT_FAILED;
    /* Copied for the report: parsing moves operands to the front. */
    char *line[64];
    const int words = argc < 64 ? argc : 64;
    memcpy(line, argv, (size_t)words * sizeof *line);
    if (!options_parse(&command, argc, argv, &status))
        return status;
    status = read_suite(&command, argc > 1 ? argv[1] : NULL, &c);
    if (status == EXIT_DONE)
        status = read_sections(&command, only, &c);
    if (status != EXIT_DONE)
        return status;
    if (size > UINT16_MAX || limit > UINT16_MAX)
        return options_reject(&command, "--%s: expected at most %d, got %lld",
                              size > UINT16_MAX ? "size" : "limit", UINT16_MAX,
                              (long long)(size > UINT16_MAX ? size : limit));
    if (c.plot && !draws(&c))
        return options_reject(&command, "--plot: draws the section 'kernels' of cutlass");
    if (c.torch && c.suite != TRP_BENCH_DNN)
        return options_reject(&command, "--torch: is for the dnn suite");
    if (!run_choice_resolve(&command, &choice))
        return EXIT_USAGE;
    c.backend = (trp_backend)choice.backend;
    c.gpu = (uint32_t)choice.gpu;
    c.size = (uint32_t)size;
    c.limit = (uint32_t)limit;
    c.tune = (trp_tune)tune;
    return trp_bench_run(&c, words, line) ? EXIT_DONE : EXIT_FAILED;
}
