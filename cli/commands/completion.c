/* troupe completion: generates completions of bash, zsh and fish from the tables that the commands
 * parse with. */
#include "commands.h"
#include "ui/options.h"
#include "ui/ui.h"

#include <stdio.h>
#include <string.h>

typedef enum complete {
    COMPLETE_NOTHING,
    COMPLETE_FILES,
    COMPLETE_FOLDERS,
    COMPLETE_WORDS, /* those of a|b|c */
} complete;

/* Returns how an argument is completed, by the first word of its name (ui/options.h). */
static complete kind_of(const char *argument)
{
    char word[128];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(argument, " "), argument);
    if (strstr(word, "FILE") || strstr(word, "PACK") || strchr(word, '.') == NULL) {
        if (strstr(word, "FILE") || strstr(word, "PACK"))
            return COMPLETE_FILES;
        if (strstr(word, "DIR"))
            return COMPLETE_FOLDERS;
        bool lower = strchr(word, '|') && word[strcspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")] == '\0';
        return lower ? COMPLETE_WORDS : COMPLETE_NOTHING;
    }
    return strstr(word, "...") ? COMPLETE_NOTHING : COMPLETE_FILES; /* C.npy */
}

/* Prints the words of a|b|c, separated by spaces. */
static void put_words(const char *list)
{
    for (const char *p = list; *p && *p != ' '; p++)
        putchar(*p == '|' ? ' ' : *p);
}

/* Prints the possible values of an option. */
static void put_choices(const option *o)
{
    if (!o->choices) {
        put_words(o->argument);
        return;
    }
    for (size_t i = 0, shown = 0; o->choices[i]; i++) {
        if (o->choices[i][0])
            printf("%s%s", shown++ ? " " : "", o->choices[i]);
    }
}

static complete kind_of_option(const option *o)
{
    return o->choices ? COMPLETE_WORDS : kind_of(o->argument);
}

/* Visits each command and subcommand. */
static void visit_commands(options_visitor visit)
{
    for (const command_entry *e = commands; e->name; e++) {
        if (e->run)
            options_visit(e->run, visit, NULL);
        for (const command_entry *s = e->sub; s && s->name; s++)
            options_visit(s->run, visit, NULL);
    }
}

/* Prints a text in single quotes, which all three shells read. */
static void put_quoted(const char *text)
{
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
    }
    putchar('\'');
}

/* bash. */

static void bash_option(const option *o)
{
    static const char *const actions[] = {[COMPLETE_NOTHING] = "",
                                          [COMPLETE_FILES] = "_troupe_files",
                                          [COMPLETE_FOLDERS] = "_troupe_folders"};
    complete kind = kind_of_option(o);
    printf("        ");
    if (o->letter)
        printf("-%c|", o->letter);
    printf("--%s) ", o->name);
    if (kind == COMPLETE_WORDS) {
        printf("_troupe_words '");
        put_choices(o);
        printf("'; ");
    } else if (*actions[kind]) {
        printf("%s; ", actions[kind]);
    }
    printf("return ;;\n");
}

static void bash_command(void *user, const struct command *c)
{
    (void)user;
    printf("    '%s')\n        case $prev in\n", c->name);
    for (size_t i = 0; i < c->option_count; i++) {
        if (c->options[i].kind != OPTION_FLAG)
            bash_option(&c->options[i]);
    }
    printf("        esac\n        options='--help");
    for (size_t i = 0; i < c->option_count; i++)
        printf(" --%s", c->options[i].name);
    printf("'\n");
    complete kind = *c->operands && *c->operands != '-' ? kind_of(c->operands) : COMPLETE_NOTHING;
    if (kind == COMPLETE_FILES) {
        printf("        operands=files\n");
    } else if (kind == COMPLETE_WORDS) {
        printf("        operands='");
        put_words(c->operands);
        printf("'\n");
    }
    printf("        ;;\n");
}

static void put_names(const command_entry *table)
{
    for (const command_entry *e = table; e->name; e++)
        printf("%s%s", e == table ? "" : " ", e->name);
}

static void show_bash(void)
{
    printf("# Completion of the troupe command for bash; made by 'troupe completion bash'.\n"
           "_troupe_words() { mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\"); }\n"
           "_troupe_files() { compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "
           "\"$cur\"); }\n"
           "_troupe_folders() { compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "
           "\"$cur\"); }\n"
           "_troupe() {\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    local command=${COMP_WORDS[1]} options= operands=\n"
           "    COMPREPLY=()\n"
           "    # bash cuts --name=value at the equals sign.\n"
           "    if [[ $cur == = ]]; then cur=\n"
           "    elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
           "    if ((COMP_CWORD == 1)); then\n"
           "        _troupe_words 'help --help --version ");
    put_names(commands);
    printf("'\n        return\n    fi\n"
           "    if [[ $command == help ]]; then\n"
           "        if ((COMP_CWORD == 2)); then _troupe_words '");
    put_names(commands);
    printf("'; return; fi\n        command=${COMP_WORDS[2]}\n    fi\n    case $command in\n");
    for (const command_entry *e = commands; e->name; e++) {
        if (!e->sub)
            continue;
        printf("    %s)\n        if [[ $prev == %s ]]; then _troupe_words '", e->name, e->name);
        put_names(e->sub);
        printf("'; return; fi\n        command=\"%s ${COMP_WORDS[2]}\" ;;\n", e->name);
    }
    printf("    esac\n    if [[ ${COMP_WORDS[1]} == help ]]; then return; fi\n"
           "    case $command in\n");
    visit_commands(bash_command);
    printf("    esac\n"
           "    if [[ $cur == -?* ]]; then _troupe_words \"$options\"\n"
           "    elif [[ $operands == files ]]; then _troupe_files\n"
           "    else _troupe_words \"$operands\"; fi\n"
           "}\n"
           "complete -F _troupe troupe\n");
}

/* zsh. */

/* Prints a text inside a single-quoted specification of _arguments. */
static void zsh_text(const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr("[]:\\", *text))
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

static void zsh_action(complete kind, const option *o, const char *words)
{
    if (kind == COMPLETE_FILES)
        printf("_files");
    if (kind == COMPLETE_FOLDERS)
        printf("_files -/");
    if (kind != COMPLETE_WORDS)
        return;
    printf("(");
    if (o)
        put_choices(o);
    else
        put_words(words);
    printf(")");
}

static void zsh_option(const option *o)
{
    printf("            ");
    if (o->letter)
        printf("'(-%c --%s)'{-%c%s,--%s%s}'", o->letter, o->name, o->letter,
               o->kind == OPTION_FLAG ? "" : "+", o->name, o->kind == OPTION_FLAG ? "" : "=");
    else
        printf("'%s--%s%s", o->kind == OPTION_TEXTS ? "*" : "", o->name,
               o->kind == OPTION_FLAG ? "" : "=");
    printf("[");
    zsh_text(o->help);
    printf("]");
    if (o->kind != OPTION_FLAG) {
        printf(":");
        zsh_text(o->argument);
        printf(":");
        zsh_action(kind_of_option(o), o, NULL);
    }
    printf("' \\\n");
}

static void zsh_command(void *user, const struct command *c)
{
    (void)user;
    printf("    '%s')\n        _arguments -s -S \\\n", c->name);
    for (size_t i = 0; i < c->option_count; i++)
        zsh_option(&c->options[i]);
    complete kind = *c->operands && *c->operands != '-' ? kind_of(c->operands) : COMPLETE_NOTHING;
    if (kind != COMPLETE_NOTHING) {
        printf("            '*:operand:");
        zsh_action(kind, NULL, c->operands);
        printf("' \\\n");
    }
    printf("            '(-h --help)'{-h,--help}'[show the help]'\n        ;;\n");
}

static void zsh_describe(const command_entry *table, const char *what)
{
    printf("        names=(\n");
    for (const command_entry *e = table; e->name; e++) {
        printf("            '%s:", e->name);
        zsh_text(e->summary);
        printf("'\n");
    }
    printf("        )\n        _describe %s names\n", what);
}

static void show_zsh(void)
{
    printf("#compdef troupe\n"
           "# Completion of the troupe command for zsh; made by 'troupe completion zsh'.\n"
           "_troupe() {\n"
           "    local -a names\n"
           "    local command=$words[2]\n"
           "    if (( CURRENT == 2 )) || [[ $command == help && CURRENT -eq 3 ]]; then\n");
    zsh_describe(commands, "command");
    printf("        return\n    fi\n    shift words; (( CURRENT-- ))\n    case $command in\n");
    for (const command_entry *e = commands; e->name; e++) {
        if (!e->sub)
            continue;
        printf("    %s)\n        if (( CURRENT == 2 )); then\n", e->name);
        zsh_describe(e->sub, "subcommand");
        printf("        return\n        fi\n        command=\"%s $words[2]\"\n"
               "        shift words; (( CURRENT-- )) ;;\n",
               e->name);
    }
    printf("    esac\n    case $command in\n");
    visit_commands(zsh_command);
    printf("    esac\n}\nif [[ $funcstack[1] == _troupe ]]; then _troupe; else compdef _troupe "
           "troupe; fi\n");
}

/* fish. */

static void fish_command(void *user, const struct command *c)
{
    (void)user;
    for (size_t i = 0; i < c->option_count; i++) {
        const option *o = &c->options[i];
        complete kind = o->kind == OPTION_FLAG ? COMPLETE_NOTHING : kind_of_option(o);
        printf("complete -c troupe -n '__troupe_at %s' -l %s", c->name, o->name);
        if (o->letter)
            printf(" -s %c", o->letter);
        if (o->kind != OPTION_FLAG)
            printf(kind == COMPLETE_FILES || kind == COMPLETE_FOLDERS ? " -r -F" : " -x");
        if (kind == COMPLETE_WORDS) {
            printf(" -a '");
            put_choices(o);
            printf("'");
        }
        printf(" -d ");
        put_quoted(o->help);
        printf("\n");
    }
    printf("complete -c troupe -n '__troupe_at %s' -l help -s h -d 'show the help'\n", c->name);
    complete kind = *c->operands && *c->operands != '-' ? kind_of(c->operands) : COMPLETE_NOTHING;
    if (kind == COMPLETE_FILES)
        printf("complete -c troupe -n '__troupe_at %s' -F\n", c->name);
    if (kind == COMPLETE_WORDS) {
        printf("complete -c troupe -n '__troupe_at %s' -a '", c->name);
        put_words(c->operands);
        printf("'\n");
    }
}

static void fish_names(const command_entry *table, const char *condition)
{
    for (const command_entry *e = table; e->name; e++) {
        printf("complete -c troupe -n '%s' -a %s -d ", condition, e->name);
        put_quoted(e->summary);
        printf("\n");
    }
}

static void show_fish(void)
{
    printf(
        "# Completion of the troupe command for fish; made by 'troupe completion fish'.\n"
        "# Whether the words before the cursor begin with a command; with nothing behind it for\n"
        "# __troupe_just.\n"
        "function __troupe_at\n"
        "    set -l words (commandline -opc)\n"
        "    set -l count (count $argv)\n"
        "    test (count $words) -gt $count; or return 1\n"
        "    test $count -eq 0; and return\n"
        "    set -l last (math $count + 1)\n"
        "    test \"$words[2..$last]\" = \"$argv\"\n"
        "end\n"
        "function __troupe_just\n"
        "    __troupe_at $argv; and test (count (commandline -opc)) -eq (math (count $argv) + "
        "1)\n"
        "end\n"
        "complete -c troupe -f\n"
        "complete -c troupe -n __troupe_just -l help -s h -d 'show the commands'\n"
        "complete -c troupe -n __troupe_just -l version -d 'show the version'\n"
        "complete -c troupe -n __troupe_just -a help -d 'the help of a command'\n");
    fish_names(commands, "__troupe_just");
    fish_names(commands, "__troupe_just help");
    for (const command_entry *e = commands; e->name; e++) {
        char condition[64];
        if (!e->sub)
            continue;
        snprintf(condition, sizeof condition, "__troupe_just %s", e->name);
        fish_names(e->sub, condition);
    }
    visit_commands(fish_command);
}

int command_completion(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*show)(void);
    } shells[] = {{"bash", show_bash}, {"zsh", show_zsh}, {"fish", show_fish}};
    const struct command command = {
        .name = "completion",
        .operands = "bash|zsh|fish",
        .about = "Prints a shell's completions of troupe's commands, options and values. They are\n"
                 "installed with the command; by hand:\n\n"
                 "    bash: source <(troupe completion bash)\n"
                 "    zsh:  source <(troupe completion zsh)\n"
                 "    fish: troupe completion fish | source",
        .operand_count = 1,
    };
    int exit_status;
    if (!options_parse(&command, argc, argv, &exit_status))
        return exit_status;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (!strcmp(argv[1], shells[i].name)) {
            shells[i].show();
            return EXIT_DONE;
        }
    }
    return options_reject(&command, "expected bash, zsh or fish, got '%s'", argv[1]);
}
