#include "options.h"

#include "spell.h"
#include "ui.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    options_visitor visit; /* NULL: options are parsed */
    void *user;
} visit_all;

void options_visit(int (*run)(int argc, char **argv), options_visitor visit, void *user)
{
    char name[] = "";
    char *argv[] = {name, NULL};
    visit_all.visit = visit;
    visit_all.user = user;
    run(1, argv);
    visit_all.visit = NULL;
}

int options_reject(const struct command *command, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    ui_error("%s: %s (see 'troupe help %s')", command->name, message, command->name);
    return EXIT_USAGE;
}

enum { HELP_COLUMN = 28 };

static void show_option(char letter, const char *name, const char *argument, const char *help)
{
    char left[128];
    snprintf(left, sizeof left, "%c%c%s --%s%s%s", letter ? '-' : ' ', letter ? letter : ' ',
             letter ? "," : " ", name, argument ? " " : "", argument ? argument : "");
    if (strlen(left) > HELP_COLUMN)
        printf("  %s\n  %-*s  %s\n", left, HELP_COLUMN, "", help);
    else
        printf("  %-*s  %s\n", HELP_COLUMN, left, help);
}

static void show_help(const struct command *command)
{
    printf("usage: troupe %s %s%s[options]\n\n%s\n\noptions:\n", command->name, command->operands,
           *command->operands ? " " : "", command->about);
    for (size_t i = 0; i < command->option_count; i++) {
        const option *o = &command->options[i];
        show_option(o->letter, o->name, o->argument, o->help);
    }
    show_option('h', "help", NULL, "show this");
    if (command->show_more)
        command->show_more();
}

/* Returns ", did you mean '--check'?" for an unknown option. */
static spell_text option_hint(const struct command *command, const char *arg)
{
    const size_t dashes = strspn(arg, "-");
    spell s = spell_begin(arg + dashes, strcspn(arg + dashes, "="));
    for (size_t i = 0; i < command->option_count; i++)
        spell_try(&s, command->options[i].name);
    spell_try(&s, "help");
    return spell_hint(&s, "--");
}

static spell_text value_hint(const option *o, const char *value)
{
    spell s = spell_begin(value, strlen(value));
    if (o->choices)
        spell_try_all(&s, o->choices);
    return spell_hint(&s, "");
}

/* Finds the option that an argument names, and sets *value if it contains one ("--name=value",
 * "-lvalue"). */
static const option *find_option(const struct command *command, const char *arg, const char **value)
{
    const char *equals = strchr(arg, '=');
    size_t length = equals ? (size_t)(equals - arg) : strlen(arg);
    *value = NULL;
    for (size_t i = 0; i < command->option_count; i++) {
        const option *o = &command->options[i];
        if (arg[1] == '-' && strlen(o->name) == length - 2 &&
            !strncmp(arg + 2, o->name, length - 2)) {
            *value = equals ? equals + 1 : NULL;
            return o;
        }
        if (o->letter && arg[1] == o->letter && (o->kind != OPTION_FLAG || !arg[2])) {
            *value = arg[2] ? arg + 2 : NULL;
            return o;
        }
    }
    return NULL;
}

bool options_number(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    *out = number;
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

/* Parses the number at the beginning of a text; *end is the rest. */
static bool leading_real(const char *text, double *out, char **end)
{
    *out = strtod(text, end);
    return *end != text && isfinite(*out) && *text != ' ' && *text != '\t';
}

bool options_real(const char *text, double *out)
{
    char *end;
    return leading_real(text, out, &end) && *end == '\0';
}

/* Parses "re" or "re,im". */
static bool parse_scalar(const char *text, trp_scalar *out)
{
    double re, im = 0;
    char *end;
    if (!leading_real(text, &re, &end) ||
        (*end != '\0' && (*end != ',' || !options_real(end + 1, &im))))
        return false;
    *out = trp_complex(re, im);
    return true;
}

static bool parse_choice(const option *o, const char *value, int *out)
{
    for (*out = 0; o->choices[*out]; (*out)++)
        if (!strcmp(o->choices[*out], value))
            return true;
    return false;
}

static bool add_text(option_texts *texts, const char *value)
{
    if (*value == '\0' || texts->count == OPTION_TEXTS_MAX)
        return false;
    texts->text[texts->count++] = value;
    return true;
}

static bool store(const option *o, const char *value)
{
    switch (o->kind) {
    case OPTION_FLAG:
        *(bool *)o->target = true;
        return true;
    case OPTION_TEXT:
        *(const char **)o->target = value;
        return *value != '\0';
    case OPTION_TEXTS:
        return add_text(o->target, value);
    case OPTION_NUMBER:
        return options_number(value, o->target);
    case OPTION_CHOICE:
        return parse_choice(o, value, o->target);
    case OPTION_SCALAR:
        return parse_scalar(value, o->target);
    }
    return false;
}

/* Parses an option and its value; moves *i to the last argument that belongs to it. */
static bool parse_option(const struct command *command, int argc, char **argv, int *i, int *status)
{
    const char *arg = argv[*i];
    if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) {
        show_help(command);
        *status = EXIT_DONE;
        return false;
    }
    const char *value;
    const option *o = find_option(command, arg, &value);
    if (!o) {
        *status =
            options_reject(command, "unknown option '%s'%s", arg, option_hint(command, arg).s);
        return false;
    }
    if (o->kind == OPTION_FLAG && value) {
        *status = options_reject(command, "--%s takes no value", o->name);
        return false;
    }
    if (o->kind != OPTION_FLAG && !value) {
        if (*i + 1 >= argc) {
            *status = options_reject(command, "--%s needs a value: %s", o->name, o->argument);
            return false;
        }
        value = argv[++*i];
    }
    if (!store(o, value)) {
        *status = options_reject(command, "--%s: expected %s, got '%s'%s", o->name, o->argument,
                                 value, value_hint(o, value).s);
        return false;
    }
    return true;
}

bool options_parse(const struct command *command, int argc, char **argv, int *status)
{
    int operands = 0;
    bool options_over = false;
    if (visit_all.visit) {
        visit_all.visit(visit_all.user, command);
        *status = EXIT_DONE;
        return false;
    }
    for (int i = 1; i < argc; i++) {
        if (!options_over && !strcmp(argv[i], "--")) {
            options_over = true;
        } else if (options_over || argv[i][0] != '-' || !argv[i][1]) {
            argv[++operands] = argv[i];
        } else if (!parse_option(command, argc, argv, &i, status)) {
            return false;
        }
    }
    int most = command->operand_count + command->optional_count;
    if (operands < command->operand_count || operands > most) {
        *status = options_reject(command, "expected %s%s, got %d",
                                 command->optional_count ? "at most " : "",
                                 ui_plural((uint64_t)most, "operand").s, operands);
        return false;
    }
    argv[operands + 1] = NULL;
    return true;
}
