/* Arrays through pipes: standard input and output ("-") and FIFOs. */
#ifndef TRP_CLI_DATA_PIPE_H
#define TRP_CLI_DATA_PIPE_H

#include <stdbool.h>

/* Tells whether a path is "-" or names a FIFO. */
bool pipe_is_one(const char *path);

/* Return "standard input" and "standard output" for "-", otherwise the path. */
const char *pipe_input_name(const char *path);
const char *pipe_output_name(const char *path);

/* Reads a pipe into a file in memory and returns its descriptor; -1 after reporting an error. An
 * .npy ends where its header says, and surplus data is an error; other data that is no array is
 * given up after its first bytes; data that would fill the machine's memory is refused. */
int pipe_read(const char *path);

/* Checks that an array may be written: not to a terminal, and only one to standard output, whose
 * reports then go to standard error. Reports errors. */
bool pipe_try_write(const char *path);

/* Opens a pipe for writing; -1 after reporting an error. The caller closes it. */
int pipe_open(const char *path);

#endif
