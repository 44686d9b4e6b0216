/* A small option parser: one table drives both the parsing and the help text. */
#ifndef TRP_CLI_UI_OPTIONS_H
#define TRP_CLI_UI_OPTIONS_H

#include <troupe/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit statuses of every command. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef enum option_kind {
    OPTION_FLAG,   /* target: bool */
    OPTION_TEXT,   /* target: const char * */
    OPTION_TEXTS,  /* target: option_texts; may be given several times */
    OPTION_NUMBER, /* target: int64_t; not negative */
    OPTION_CHOICE, /* target: int, an index into choices */
    OPTION_SCALAR, /* target: trp_scalar; "re" or "re,im", finite */
} option_kind;

enum { OPTION_TEXTS_MAX = 32 };

typedef struct option_texts {
    const char *text[OPTION_TEXTS_MAX];
    size_t count;
} option_texts;

/* The name of an argument also says what shells complete it with: files for FILE, PACK, or a name
 * with an ending (C.npy); folders for DIR; the words of a|b|c; else nothing. */
typedef struct option {
    char letter; /* 0: none */
    const char *name;
    const char *argument; /* its name in the help text; NULL for a flag */
    const char *help;
    option_kind kind;
    void *target;
    const char *const *choices; /* ends with NULL */
} option;

/* A command, as its help text shows it. */
struct command {
    const char *name;
    const char
        *operands;     /* "A.npy B.npy -o C.npy"; completed by its first word, as arguments are */
    const char *about; /* lines of text */
    const option *options;
    size_t option_count;
    int operand_count; /* at least so many; parsing moves them to argv[1] ..., with a NULL behind */
    int optional_count;      /* so many more may follow */
    void (*show_more)(void); /* prints what the help text has behind the options; NULL: nothing */
};

/* In the initializer of a command: its options. */
#define OPTIONS_OF(table) .options = (table), .option_count = sizeof(table) / sizeof *(table)

/* Has options_parse() hand the table to a visitor, in place of parsing. `run` is the function of a
 * command; what it returns is of no account. */
typedef void (*options_visitor)(void *user, const struct command *command);
void options_visit(int (*run)(int argc, char **argv), options_visitor visit, void *user);

/* Parses "--name value", "--name=value", "-l value", "-lvalue", "--" and --help. If it returns
 * false the command ends with *status: the help was shown, or a mistake told on standard error. */
bool options_parse(const struct command *command, int argc, char **argv, int *status);

/* A number as options take it: decimal, not negative, and nothing else. */
bool options_number(const char *text, int64_t *out);

/* A finite number, and nothing else. */
bool options_real(const char *text, double *out);

/* "re" or "re,im". */
bool options_scalar(const char *text, trp_scalar *out);

/* For what a table can't express: tells it on standard error, points to the help. Returns
 * EXIT_USAGE. */
int options_reject(const struct command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
