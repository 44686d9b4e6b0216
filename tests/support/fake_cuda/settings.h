/* Settings that a test gives to fakes in other processes, and their reports: files in the folder
 * that FAKE_CUTLASS names. README.md lists them. */
#ifndef TESTS_FAKE_CUDA_SETTINGS_H
#define TESTS_FAKE_CUDA_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

/* Reads the beginning of a file; false: there is none, and `out` is empty. */
bool fake_setting(const char *name, char *out, size_t size);

/* Returns whether a file lists a number, as "0,2". */
bool fake_setting_has(const char *name, int number);

/* Returns the number that a file begins with; 0: there is none. */
unsigned long fake_setting_number(const char *name);

/* Appends a line to a file. */
void fake_report(const char *name, const char *line);
/* Appends it to NAME_PID, a file of this process alone. */
void fake_report_mine(const char *name, const char *line);

#endif
