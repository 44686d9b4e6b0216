/* What a test tells the fakes in other processes, and they tell it: files of the folder that
 * FAKE_CUTLASS names. README.md lists them. */
#ifndef TESTS_FAKE_CUDA_TOLD_H
#define TESTS_FAKE_CUDA_TOLD_H

#include <stdbool.h>
#include <stddef.h>

/* The beginning of a file; false: there is none, and `out` is empty. */
bool fake_told(const char *name, char *out, size_t size);

/* Whether a file lists a number: "0,2". */
bool fake_told_of(const char *name, int number);

/* The number that a file begins with; 0: there is none. */
unsigned long fake_told_number(const char *name);

/* Adds a line to a file. */
void fake_tell(const char *name, const char *line);
/* The same to NAME_PID, a file of this process alone. */
void fake_tell_mine(const char *name, const char *line);

#endif
