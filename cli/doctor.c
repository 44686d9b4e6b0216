/* troupe doctor: what this machine has, what works, and what to install. */
#include "commands.h"

#include "check.h"
#include "drill.h"
#include "ui.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_DEVICES      64
#define REPORT_MAX       16384
#define REPORT_WITHIN_MS 60000
#define SAMPLE           64 /* rows of the matrices of the isolation test */

static ui_mark mark_of(const char *status)
{
    if (!strcmp(status, "ok"))
        return UI_GOOD;
    return strcmp(status, "missing") ? UI_BAD : UI_ABSENT;
}

/* One "key<TAB>status<TAB>version<TAB>path or hint" of the worker's report. */
static void show_report_line(char *line)
{
    char *fields[4] = {NULL};
    for (int i = 0; i < 4; i++)
        fields[i] = i < 3 ? strsep(&line, "\t") : line;
    if (!fields[0] || !*fields[0])
        return;
    const char *status = fields[1] ? fields[1] : "error";
    const char *version = fields[2] && *fields[2] ? fields[2] : status;
    const char *path = fields[3] ? fields[3] : "";
    ui_line(*path ? "  %s %-14s  %-14s  %s" : "  %s %-14s  %s%s", ui_mark_text(mark_of(status)),
            fields[0], version, path);
}

/* Reads until the end of the pipe, at most `size` - 1 bytes, and not past the deadline. */
static bool read_all(int fd, char *text, size_t size)
{
    size_t length = 0;
    uint64_t deadline = ui_now() + REPORT_WITHIN_MS * UINT64_C(1000000);
    bool ended = false;
    while (!ended && length < size - 1) {
        uint64_t now = ui_now();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (now >= deadline || poll(&p, 1, (int)((deadline - now) / 1000000) + 1) == 0)
            break;
        ssize_t n = read(fd, text + length, size - 1 - length);
        if (n < 0 && errno != EINTR)
            break;
        ended = n == 0;
        length += n > 0 ? (size_t)n : 0;
    }
    text[length] = '\0';
    return ended;
}

/* Runs "worker --report" into text. A driver that hangs must not take the doctor with it: the
 * report is given a minute. */
static bool get_report(const char *worker, char *text, size_t size)
{
    int ends[2], status = 0;
    pid_t pid;
    char *argv[] = {(char *)(uintptr_t)worker, (char[]){"--report"}, NULL};
    posix_spawn_file_actions_t actions;

    if (pipe(ends) != 0) {
        ui_error("pipe: %s", strerror(errno));
        return false;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    int failed = posix_spawn(&pid, worker, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    bool ended = !failed && read_all(ends[0], text, size);
    close(ends[0]);
    if (failed) {
        ui_error("%s: %s", worker, strerror(failed));
        return false;
    }
    if (!ended)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (!ended)
        ui_error("%s --report did not end within %d s", worker, REPORT_WITHIN_MS / 1000);
    else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        ui_error("%s --report %s %d", worker, WIFEXITED(status) ? "exited with" : "died of signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool show_libraries(trp_system *system)
{
    char worker[4096], text[REPORT_MAX];
    ui_heading("\nworker and libraries");
    if (!run_check(trp_system_worker_path(system, worker, sizeof worker), "finding the worker")) {
        ui_line("  %s %-14s  %-14s  install troupe-worker, or set TROUPE_WORKER to its path",
                ui_mark_text(UI_BAD), "troupe-worker", "missing");
        return false;
    }
    ui_progress("asking the worker");
    bool ok = get_report(worker, text, sizeof text);
    ui_line("  %s %-14s  %-14s  %s", ui_mark_text(ok ? UI_GOOD : UI_BAD), "troupe-worker",
            ok ? "ok" : "error", worker);
    if (ok)
        for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;)
            show_report_line(line);
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

/* The drill's faults are meant: nobody needs to be told of them. */
static void drop_log(void *user_data, int level, const char *line)
{
    (void)user_data;
    (void)level;
    (void)line;
}

static bool sample_operand(struct run *run, matrix *m, uint64_t seed)
{
    if (!matrix_shape(m, sizeof(float), SAMPLE, SAMPLE) || !matrix_place(run, m))
        return false;
    matrix_randomise(&m->shape, m->data, seed);
    return matrix_upload(run, m);
}

/* A small product, checked against float64. */
static bool product_is_right(struct run *run, const matrix *a, const matrix *b)
{
    matrix c = {0};
    check_result result = {0};
    bool ok = matrix_shape(&c, sizeof(float), SAMPLE, SAMPLE) && matrix_place(run, &c) &&
              matrix_multiply(run, a, b, &c, TRP_COMPUTE_DEFAULT) && matrix_download(run, &c) &&
              check_product(a, b, &c, TRP_COMPUTE_DEFAULT, CHECK_MAX_STEPS, &result);
    if (ok && result.wrong)
        ui_error("a product of %d x %d matrices came out wrong", SAMPLE, SAMPLE);
    matrix_release(run, &c);
    return ok && !result.wrong;
}

/* Product, fault, product: the second one runs on what the first one's operands left behind. */
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
    bool ok = run_open(&run, &choice, &options) && drill_device(&run, &drill);
    run_close(&run);
    if (ok)
        ui_line("  %s %-14s  works: a fault (%s: %s) cost its request only; a new worker was ready "
                "after %s, and the next product was right",
                ui_mark_text(UI_GOOD), name, trp_probe_action_name(drill.action),
                drill_cause(&drill).s, ui_duration(drill.told_ns + drill.ready_ns).s);
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
        .options = options,
        .option_count = sizeof options / sizeof *options,
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
