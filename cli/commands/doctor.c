/* troupe doctor: what this machine has, what works, and what to install. */
#include "commands.h"

#include "matmul_check.h"
#include "drill.h"
#include "ui/ui.h"
#include "worker_report.h"

#include "io/file.h"

#include <stdio.h>
#include <string.h>

#define MAX_DEVICES 64
#define SAMPLE      64 /* size of the matrices of the isolation test */

static ui_mark mark_of(const char *status)
{
    if (!strcmp(status, "ok"))
        return UI_GOOD;
    return strcmp(status, "missing") ? UI_BAD : UI_ABSENT;
}

/* The cost of a missing or outdated library. */
static const struct {
    const char *key, *lost;
    int major, minor; /* oldest version that does not cost this; 0: any version */
} losses[] = {
    {"cuda", "no GPU is used; devices are this machine's processors alone", 0, 0},
    {"cublas", "GPUs have no blas actor", 0, 0},
    {"cublaslt",
     "GPUs have no matmul actor; products in graphs of the dnn actor, and those that no kernel of "
     "the cutlass actor takes, lose their algorithms",
     0, 0},
    {"cudnn",
     "GPUs have no dnn actor: no convolutions, attention, norms, pooling, recurrent networks", 0,
     0},
    {"cudnn", "it has no attention before 9.16: that is left to Troupe's own kernels", 9, 16},
    {"cufft", "GPUs have no fft actor", 0, 0},
    {"nvrtc",
     "nothing is compiled: kernels of the jit, dnn and cutlass actors are those of packs and of "
     "the cache",
     0, 0},
    {"nvjitlink", "the jit actor links nothing, and makes no cubin of LTO-IR", 0, 0},
    {"openblas", "the host has no blas, matmul, cutlass and dnn actors", 0, 0},
    {"onednn", "the host's convolutions, pooling, norms and functions take longer", 0, 0},
    {"cutlass", "the cutlass actor has the kernels of packs and of the cache alone", 0, 0},
    {"zlib", "compressed .npz files are not read", 0, 0},
};

static void show_losses(const report_line *line)
{
    int major = 0, minor = 0;
    const bool there = strcmp(line->status, "ok") == 0;
    const bool known = there && sscanf(line->version, "%d.%d", &major, &minor) == 2;
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        const int wanted = losses[i].major;
        const bool lost =
            !wanted ? !there
                    : known && (major < wanted || (major == wanted && minor < losses[i].minor));
        if (lost && !strcmp(losses[i].key, line->key))
            ui_line("  %s %-14s  %s: %s", ui_mark_text(UI_NONE), "",
                    wanted ? "outdated" : "without it", losses[i].lost);
    }
}

static void show_library(const report_line *line)
{
    ui_line(*line->text ? "  %s %-14s  %-14s  %s" : "  %s %-14s  %s%s",
            ui_mark_text(mark_of(line->status)), line->key,
            *line->version ? line->version : line->status, line->text);
    show_losses(line);
}

/* zlib is opened by the program that reads files, not by a worker. */
static void show_zlib(void)
{
    trp_error error = {0};
    const char *path = "";
    const trp_status status = trp__io_zlib(&path, &error);
    const report_line line = {.key = "zlib",
                              .status = status == TRP_OK ? "ok" : "missing",
                              .version = "",
                              .text = status == TRP_OK ? path : error.message};
    show_library(&line);
}

static bool show_libraries(trp_system *system)
{
    char worker[4096], text[REPORT_BYTES];
    ui_heading("\nworker and libraries");
    if (!run_check(trp_system_worker_path(system, worker, sizeof worker), "finding the worker")) {
        ui_line("  %s %-14s  %-14s  install troupe-worker, or set TROUPE_WORKER to its path",
                ui_mark_text(UI_BAD), "troupe-worker", "missing");
        return false;
    }
    ui_progress("asking the worker");
    bool ok = worker_report(worker, text);
    ui_line("  %s %-14s  %-14s  %s", ui_mark_text(ok ? UI_GOOD : UI_BAD), "troupe-worker",
            ok ? "ok" : "error", worker);
    report_line line;
    for (char *rest = ok ? text : NULL; worker_report_next(&rest, &line);)
        show_library(&line);
    show_zlib();
    return ok;
}

static void show_device(const trp_device_info *info)
{
    char what[128];
    if (info->backend == TRP_BACKEND_CUDA)
        snprintf(what, sizeof what, "compute %u.%u, %s", info->compute_major, info->compute_minor,
                 ui_plural(info->processors, "multiprocessor").s);
    else
        snprintf(what, sizeof what, "%s", ui_plural(info->processors, "core").s);
    ui_line("  %s %s, %s, %s", ui_mark_text(UI_GOOD), run_device_text(info).s, what,
            ui_bytes(info->memory_total).s);
}

/* Drops log lines: the drill's faults are intended. */
static void drop_log(void *user_data, int level, const char *line)
{
    (void)user_data;
    (void)level;
    (void)line;
}

static bool sample_operand(struct run *run, matrix *m, uint64_t seed)
{
    if (!matrix_shape(m, TRP_F32, SAMPLE, SAMPLE) || !matrix_place(run, m))
        return false;
    matrix_randomise(&m->shape, m->data, seed);
    return matrix_upload(run, m);
}

/* A small product, checked against float64. */
static bool product_is_right(struct run *run, const matrix *a, const matrix *b)
{
    matrix c = {0};
    check_matmul_result result = {0};
    bool ok = matrix_shape(&c, TRP_F32, SAMPLE, SAMPLE) && matrix_place(run, &c) &&
              matrix_multiply(run, a, b, &c, TRP_COMPUTE_DEFAULT) && matrix_download(run, &c);
    const check_matmul checked = check_matmul_of(a, b, &c);
    ok = ok && check_matmul_run(&checked, CHECK_MAX_STEPS, &result);
    if (ok && result.wrong)
        ui_error("a product of %d x %d matrices came out wrong", SAMPLE, SAMPLE);
    matrix_release(run, &c);
    return ok && !result.wrong;
}

/* Runs product, fault, product; the second product uses the operands of the first. */
static bool drill_device(struct run *run, struct drill *drill)
{
    matrix a = {0}, b = {0};
    bool ok = sample_operand(run, &a, 1) && sample_operand(run, &b, 2) &&
              product_is_right(run, &a, &b) && drill_run(run, drill) && drill_good(drill) &&
              product_is_right(run, &a, &b);
    matrix_release(run, &a);
    matrix_release(run, &b);
    return ok;
}

static bool show_isolation(const trp_device_info *device)
{
    const trp_system_options options = {.log = drop_log};
    run_choice choice = {.backend = (int)device->backend, .gpu = device->ordinal, .standby = true};
    struct run run;
    struct drill drill = {0};
    char name[32];
    snprintf(name, sizeof name, "%s %u", trp_backend_name(device->backend), device->ordinal);
    ui_progress("testing %s", name);
    bool ok = run_open(&run, &choice, "blas", &options) && drill_device(&run, &drill);
    run_close(&run);
    if (ok)
        ui_line("  %s %-14s  works: a fault (%s: %s) cost its request only; a new worker was ready "
                "after %s, and the next product was right",
                ui_mark_text(UI_GOOD), name, trp_probe_action_name(drill.action),
                drill_cause(&drill).s, ui_duration(drill.failed_ns + drill.ready_ns).s);
    else if (drill.error.status && !drill_good(&drill))
        ui_line("  %s %-14s  does not work: a fault (%s) ended as %s: %s, worker %u -> %u, %s",
                ui_mark_text(UI_BAD), name, trp_probe_action_name(drill.action),
                trp_status_name(drill.error.status), drill.error.message, drill.before.incarnation,
                drill.after.incarnation,
                drill.output_lost ? "output marked lost" : "output not marked lost");
    else
        ui_line("  %s %-14s  does not work: see the message", ui_mark_text(UI_BAD), name);
    return ok;
}

static int examine(trp_system *system, bool quick)
{
    trp_device_info devices[MAX_DEVICES];
    size_t count = 0;
    int working = 0;

    ui_heading("devices");
    if (!run_check(trp_system_list_devices(system, devices, MAX_DEVICES, &count),
                   "listing devices"))
        count = 0;
    if (count > MAX_DEVICES)
        count = MAX_DEVICES;
    for (size_t i = 0; i < count; i++)
        show_device(&devices[i]);
    if (count == 0)
        ui_line("  %s none", ui_mark_text(UI_BAD));

    bool worker = show_libraries(system);
    if (quick) {
        working = worker ? (int)count : 0;
    } else {
        ui_heading("\nisolation");
        for (size_t i = 0; i < count; i++)
            working += show_isolation(&devices[i]);
    }
    ui_heading(quick ? "\ndevices that may work: %d of %zu" : "\ndevices that work: %d of %zu",
               working, count);
    return working > 0 ? EXIT_DONE : EXIT_FAILED;
}

int command_doctor(int argc, char **argv)
{
    bool quick = false;
    const option options[] = {
        {0, "quick", NULL, "do not try the devices", OPTION_FLAG, &quick, NULL},
    };
    const struct command command = {
        .name = "doctor",
        .operands = "",
        .about = "Lists devices, driver and libraries, with what to install where one is missing;\n"
                 "then tries each device: a product in a worker process, a fault, and a product\n"
                 "again. Exit status 0 if at least one device works.",
        OPTIONS_OF(options),
    };
    int exit_status;
    if (!options_parse(&command, argc, argv, &exit_status))
        return exit_status;

    trp_system *system = NULL;
    ui_heading("Troupe %s\n", trp_version());
    if (!run_check(trp_system_create(NULL, &system), "starting"))
        return EXIT_FAILED;
    int status = examine(system, quick);
    run_check(trp_system_destroy(system), "ending");
    return status;
}
