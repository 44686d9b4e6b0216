/* The troupe command: finds the subcommand and runs it. */
#include "commands.h"
#include "options.h"
#include "ui.h"

#include "bench/bench.h"

#include <troupe/troupe.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"matmul", "multiply matrices in NumPy files", command_matmul},
    {"cutlass", "multiply, with an epilogue of one's own", command_cutlass},
    {"conv", "convolve arrays in NumPy files, or take gradients of it", command_conv},
    {"pool", "pool arrays in NumPy files, or take the gradient of it", command_pool},
    {"norm", "normalise arrays in NumPy files", command_norm},
    {"attention", "attention of arrays in NumPy files, and its gradient", command_attention},
    {"dnn", "what proofs have found about engines of libraries", command_dnn},
    {"tune", "search for the fastest algorithms ahead of time", command_tune},
    {"cache", "the kernel cache: list, verify, prune, warm, pack, explain", command_cache},
    {"kernels", "compile the dnn actor's own kernels ahead", command_kernels},
    {"demo", "two products with a fault between them, each checked", command_demo},
    {"doctor", "what this machine has, what works, what to install", command_doctor},
    {"top", "what the devices of another process are doing", command_top},
    {"bench", "measure Troupe against the raw libraries", trp_bench_main},
};

enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static int show_help(void)
{
    printf("usage: troupe COMMAND [options]\n\n"
           "Runs GPU libraries as supervised actors: a fault costs one request, never the program\n"
           "and never its data.\n\ncommands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  %-8s  %s\n", commands[i].name, commands[i].summary);
    printf("\n'troupe help COMMAND' shows a command's options; 'troupe --version' the version.\n"
           "exit status: 0 done, 1 failed, 2 wrong usage\n");
    return EXIT_DONE;
}

static int run_command(int argc, char **argv)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(argv[0], commands[i].name))
            return commands[i].run(argc, argv);
    ui_error("unknown %s '%s' (see 'troupe --help')", argv[0][0] == '-' ? "option" : "command",
             argv[0]);
    return EXIT_USAGE;
}

/* Of a command, or of a subcommand. */
static int help_about(int argc, char **argv)
{
    char help[] = "--help";
    char *asked[] = {argv[0], argc > 1 ? argv[1] : help, argc > 1 ? help : NULL, NULL};
    return run_command(argc > 1 ? 3 : 2, asked);
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        ui_error("expected a command (see 'troupe --help')");
        return EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("troupe %s\n", trp_version());
        return EXIT_DONE;
    }
    if (!strcmp(argv[1], "help") && argc > 2)
        return help_about(argc - 2, argv + 2);
    if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
        return show_help();
    return run_command(argc - 1, argv + 1);
}

/* Opens something for each standard stream that is closed, so that its use still fails: else its
 * number goes to a file of results, and what is printed lands there. */
static void fill_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* the lowest */
    }
}

int main(int argc, char **argv)
{
    fill_streams();
    ui_init();
    /* A closed pipe and a file past the size limit are failed writes, told by the exit status. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    int status = dispatch(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        ui_error("standard output could not be written");
        return status == EXIT_DONE ? EXIT_FAILED : status;
    }
    return status;
}
