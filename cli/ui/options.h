/* An option parser: one table drives both the parsing and the help text. */
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

/* The name of an argument also determines its completion in shells: files for FILE, PACK, or a name
 * with an extension (C.npy); folders for DIR; the words of a|b|c; otherwise nothing. */
typedef struct option {
    char letter; /* 0: none */
    const char *name;
    const char *argument; /* its name in the help text; NULL for a flag */
    const char *help;
    option_kind kind;
    void *target;
    const char *const *choices; /* ends with NULL */
} option;

/* A command, as its help text describes it. */
struct command {
    const char *name;
    const char
        *operands;     /* "A.npy B.npy -o C.npy"; completed by its first word, as arguments are */
    const char *about; /* lines of text */
    const option *options;
    size_t option_count;
    int operand_count; /* required operands; parsing moves operands to argv[1] ..., followed by NULL
                        */
    int optional_count;      /* additional operands */
    void (*show_more)(void); /* prints more help behind the options; NULL: nothing */
};

/* Options in the initializer of a command. */
#define OPTIONS_OF(table) .options = (table), .option_count = sizeof(table) / sizeof *(table)

/* Makes options_parse() pass the table to a visitor instead of parsing. `run` is the function of a
 * command; its result is ignored. */
typedef void (*options_visitor)(void *user, const struct command *command);
void options_visit(int (*run)(int argc, char **argv), options_visitor visit, void *user);

/* Parses "--name value", "--name=value", "-l value", "-lvalue", "--" and --help. False: the command
 * ends with *status, after the help or an error message. */
bool options_parse(const struct command *command, int argc, char **argv, int *status);

/* Parses a decimal, nonnegative integer. */
bool options_number(const char *text, int64_t *out);

/* Parses a finite number. */
bool options_real(const char *text, double *out);

/* Reports a mistake that a table can't express, and points to the help. Returns EXIT_USAGE. */
int options_reject(const struct command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
