/* troupe tune: reads problems from a text file, one per line. */
#ifndef TRP_CLI_COMMANDS_TUNE_H
#define TRP_CLI_COMMANDS_TUNE_H

#include <troupe/matmul.h>

#include <stdbool.h>
#include <stddef.h>

/* Operands of a problem. */
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
    char text[160];                /* the line without its comment, with single spaces */
    trp_matmul_request request;    /* without buffers */
    bool in_place;                 /* C is D */
    uint64_t bytes[TUNE_OPERANDS]; /* sizes of buffers; 0: absent */
} tune_problem;

/* Parses a line without its newline. *out has line 0 for an empty line. False: a mistake; `error`
 * names the word and what was expected. */
bool tune_parse_line(const char *line, tune_problem *out, char *error, size_t error_size);

/* Reads a file; the caller frees *out. Reports mistakes with file and line. */
bool tune_read_file(const char *path, tune_problem **out, size_t *count);

#endif
