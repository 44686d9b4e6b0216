/* troupe version: versions of the command, its library, and the libraries that the worker finds. */
#include "commands.h"
#include "ui/options.h"
#include "data/run.h"
#include "ui/ui.h"
#include "worker_report.h"

#include "base/build_id.h"
#include "wire/layout.h"

#include <troupe/worker.h>
#include <string.h>

/* Shows the program's build ID, which is the library's: it is linked statically. */
static void show_build(void)
{
    char id[TRP__BUILD_ID_TEXT];
    if (trp__build_id_of_file("/proc/self/exe", id))
        ui_line("  %-14s  %s", "build", id);
    else
        ui_line("  %-14s  none was linked in", "build");
#if defined __clang__
    ui_line("  %-14s  Clang %s", "compiler", __clang_version__);
#else
    ui_line("  %-14s  GCC %s", "compiler", __VERSION__);
#endif
}

static bool show_worker(void)
{
    trp_system *system = NULL;
    char worker[4096], text[REPORT_BYTES];
    bool ok =
        run_check(trp_system_create(NULL, &system), "starting") &&
        run_check(trp_system_worker_path(system, worker, sizeof worker), "finding the worker");
    run_check(trp_system_destroy(system), "ending");
    if (!ok)
        return false;
    ui_line("  %-14s  %s", "worker", worker);
    ui_progress("asking the worker");
    if (!worker_report(worker, text))
        return false;
    report_line line;
    ui_line("libraries");
    for (char *rest = text; worker_report_next(&rest, &line);)
        ui_line("  %-14s  %-14s  %s", line.key, *line.version ? line.version : line.status,
                strcmp(line.status, "ok") == 0 ? line.text : "");
    return true;
}

int command_version(int argc, char **argv)
{
    bool brief = false;
    const option options[] = {
        {0, "brief", NULL, "the version alone, in one line", OPTION_FLAG, &brief, NULL},
    };
    const struct command command = {
        .name = "version",
        .operands = "",
        .about =
            "Shows the version of Troupe, its interfaces, this build of it, and the libraries\n"
            "that its worker finds; 'troupe doctor' says what is missing and what that costs.",
        OPTIONS_OF(options),
    };
    int exit_status;
    if (!options_parse(&command, argc, argv, &exit_status))
        return exit_status;
    ui_line("troupe %s", trp_version());
    if (brief)
        return EXIT_DONE;
    ui_line("  %-14s  %u, of the processes among themselves", "ABI", TRP__ABI);
    ui_line("  %-14s  %u, of libraries with actors", "actor ABI", TRP_ACTOR_ABI);
    show_build();
    return show_worker() ? EXIT_DONE : EXIT_FAILED;
}
