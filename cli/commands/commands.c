#include "commands.h"

#include "ui/options.h"
#include "ui/spell.h"
#include "ui/ui.h"

#include <stdio.h>
#include <string.h>

const command_entry commands[] = {
#define ROW(name, summary)          {#name, summary, command_##name, NULL, NULL},
#define GROUP(name, summary, about) {#name, summary, NULL, about, name##_commands},
    COMMANDS(ROW, GROUP)
#undef ROW
#undef GROUP
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
