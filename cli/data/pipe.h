/* Arrays through pipes: standard input and output, which "-" stands for, and FIFOs. */
#ifndef TRP_CLI_DATA_PIPE_H
#define TRP_CLI_DATA_PIPE_H

#include <stdbool.h>

/* Whether a path is "-". */
bool pipe_is_standard(const char *path);

/* Whether a path is "-", or names a FIFO. */
bool pipe_is_one(const char *path);

/* "standard input", "standard output" for "-"; else the path. */
const char *pipe_input_name(const char *path);
const char *pipe_output_name(const char *path);

/* Reads all that comes out of a pipe into a file in memory, and returns its descriptor; -1 after
 * telling what is wrong. An .npy is read to the end that its header says, and what follows is
 * refused; what is no array at all is given up after its first bytes; and a pipe that would fill
 * the memory of the machine is refused. */
int pipe_read(const char *path);

/* Whether an array may be written there, as far as that is known before there is one: not to a
 * terminal, and one array to standard output. What commands report goes to standard error from then
 * on. Says what is wrong. */
bool pipe_try_write(const char *path);

/* Opens it for writing; -1 after telling what is wrong. The caller closes it. */
int pipe_open(const char *path);

#endif
