#include "commands.h"

#include "ui/options.h"
#include "ui/spell.h"
#include "ui/ui.h"

#include <stdio.h>
#include <string.h>

const command_entry commands[] = {
    {"matmul", "multiply matrices in NumPy files", command_matmul, NULL, NULL},
    {"cutlass", "multiply, with an epilogue of one's own", NULL,
     "Matrix products and convolutions with an epilogue of one's own.", cutlass_commands},
    {"conv", "convolve arrays in NumPy files, or take gradients of it", command_conv, NULL, NULL},
    {"pool", "pool arrays in NumPy files, or take the gradient of it", command_pool, NULL, NULL},
    {"norm", "normalise arrays in NumPy files", command_norm, NULL, NULL},
    {"attention", "attention of arrays in NumPy files, and its gradient", command_attention, NULL,
     NULL},
    {"proofs", "what proofs have found about engines, algorithms and kernels", command_proofs, NULL,
     NULL},
    {"tune", "search for the fastest algorithms ahead of time", command_tune, NULL, NULL},
    {"cache", "the kernel cache: list, verify, prune, warm, pack, explain", NULL,
     "The kernel cache: what was compiled once, by any process of this user, and the packs\n"
     "that TROUPE_CACHE_PACKS names.",
     cache_commands},
    {"kernels", "compile Troupe's own kernels ahead", command_kernels, NULL, NULL},
    {"demo", "two products with a fault between them, each checked", command_demo, NULL, NULL},
    {"doctor", "what this machine has, what works, what to install", command_doctor, NULL, NULL},
    {"top", "what the devices of processes are doing", command_top, NULL, NULL},
    {"bench", "measure Troupe against the raw libraries", command_bench, NULL, NULL},
    {"completion", "print the completions of a shell", command_completion, NULL, NULL},
    {"version", "the version, and that of the libraries", command_version, NULL, NULL},
    {0},
};

static void show_table(const command_entry *table)
{
    for (const command_entry *e = table; e->name; e++)
        printf("  %-10s  %s\n", e->name, e->summary);
}

static int show_help(void)
{
    printf("usage: troupe COMMAND [options]\n\n"
           "Runs GPU libraries as supervised actors: a fault costs one request, never the program\n"
           "and never its data.\n\ncommands:\n");
    show_table(commands);
    printf("\n'troupe help COMMAND' shows a command's options; 'troupe --version' the version.\n"
           "A file of an array may be '-': standard input, standard output.\n"
           "exit status: 0 done, 1 failed, 2 wrong usage\n");
    return EXIT_DONE;
}

static int show_group_help(const command_entry *group)
{
    printf("usage: troupe %s SUBCOMMAND [options]\n\n%s\n\nsubcommands:\n", group->name,
           group->about);
    show_table(group->sub);
    printf("\n'troupe help %s SUBCOMMAND' shows its options, as does --help after it.\n",
           group->name);
    return EXIT_DONE;
}

static const command_entry *find(const command_entry *table, const char *name)
{
    for (const command_entry *e = table; e->name; e++) {
        if (!strcmp(e->name, name))
            return e;
    }
    return NULL;
}

static int reject(const command_entry *table, const char *group, const char *name)
{
    spell s = spell_begin(name, strlen(name));
    const char *what = name[0] == '-' ? "option" : group ? "subcommand" : "command";
    for (const command_entry *e = table; name[0] != '-' && e->name; e++)
        spell_try(&s, e->name);
    if (group)
        ui_error("%s: unknown %s '%s'%s (see 'troupe help %s')", group, what, name,
                 spell_hint(&s, "").s, group);
    else
        ui_error("unknown %s '%s'%s (see 'troupe --help')", what, name, spell_hint(&s, "").s);
    return EXIT_USAGE;
}

static bool wants_help(const char *word)
{
    return !strcmp(word, "--help") || !strcmp(word, "-h");
}

/* Runs the command that argv[0] names. */
static int run(int argc, char **argv)
{
    const command_entry *e = find(commands, argv[0]);
    if (!e)
        return reject(commands, NULL, argv[0]);
    if (e->run)
        return e->run(argc, argv);
    if (argc < 2) {
        ui_error("%s: expected a subcommand (see 'troupe help %s')", e->name, e->name);
        return EXIT_USAGE;
    }
    if (wants_help(argv[1]))
        return show_group_help(e);
    const command_entry *sub = find(e->sub, argv[1]);
    return sub ? sub->run(argc - 1, argv + 1) : reject(e->sub, e->name, argv[1]);
}

/* Shows the help of a command or subcommand. */
static int help_about(int argc, char **argv)
{
    char help[] = "--help";
    char *asked[] = {argv[0], argc > 1 ? argv[1] : help, argc > 1 ? help : NULL, NULL};
    return run(argc > 1 ? 3 : 2, asked);
}

int commands_run(int argc, char **argv)
{
    if (argc < 2) {
        ui_error("expected a command (see 'troupe --help')");
        return EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--version")) {
        char version[] = "version", brief[] = "--brief";
        char *asked[] = {version, brief, NULL};
        return command_version(2, asked);
    }
    if (!strcmp(argv[1], "help") && argc > 2)
        return help_about(argc - 2, argv + 2);
    if (!strcmp(argv[1], "help") || wants_help(argv[1]))
        return show_help();
    const int status = run(argc - 1, argv + 1);
    return status == EXIT_FAILED && ui_was_wrong() ? EXIT_USAGE : status;
}
