/* Reads text files line by line, within bounds: an endless device or a binary file is refused
 * instead of read into memory. */
#ifndef TRP_CLI_UI_LINES_H
#define TRP_CLI_UI_LINES_H

#include <stdbool.h>
#include <stddef.h>

/* Takes a line with its newline, and its number from 1. False: `error` describes a mistake. */
typedef bool (*line_taker)(void *context, const char *line, int number, char *error, size_t size);

/* Passes all lines of a file until one is wrong. False: reported. */
bool lines_read(const char *path, line_taker take, void *context);

/* Formats an error of a line; returns false. */
bool lines_wrong(char *error, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns room for one more item of that size; NULL: no memory, the items are unchanged. */
void *lines_room(void *items, size_t count, size_t size);

#endif
