/* troupe tune: the problems of a text file, one a line. */
#ifndef TRP_CLI_COMMANDS_TUNE_H
#define TRP_CLI_COMMANDS_TUNE_H

#include <troupe/matmul.h>

#include <stdbool.h>
#include <stddef.h>

/* What a problem works on. */
enum {
    TUNE_A,
    TUNE_B,
    TUNE_C,
    TUNE_D,
    TUNE_AUX,
    TUNE_VECTOR, /* the bias or the sums */
    TUNE_SCALE_A,
    TUNE_SCALE_B,
    TUNE_SCALE_D,
    TUNE_AMAX,
    TUNE_OPERANDS
};

typedef struct tune_problem {
    int line;                      /* in the file, from 1 */
    char text[160];                /* the line without its comment, one space between words */
    trp_matmul_request request;    /* without buffers */
    bool in_place;                 /* C is D */
    uint64_t bytes[TUNE_OPERANDS]; /* of the buffers; 0: it has none */
} tune_problem;

/* Reads a line without its newline. *out has line 0 if there is no problem in it. False if it can't
 * be understood; `error` then names the word and what was expected. */
bool tune_parse_line(const char *line, tune_problem *out, char *error, size_t error_size);

/* A whole file; the caller frees *out. Tells what is wrong with it, with file and line. */
bool tune_read_file(const char *path, tune_problem **out, size_t *count);

#endif
