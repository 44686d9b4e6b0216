/* Text files that people write, line by line, within bounds: a device that never ends, or a file of
 * something else, is refused and not read into memory. */
#ifndef TRP_CLI_UI_LINES_H
#define TRP_CLI_UI_LINES_H

#include <stdbool.h>
#include <stddef.h>

/* A line with its end, and its number from 1. False: `error` says what is wrong with it. */
typedef bool (*line_taker)(void *context, const char *line, int number, char *error, size_t size);

/* Hands over all lines of a file until one is wrong. False: that, or the file, was told. */
bool lines_read(const char *path, line_taker take, void *context);

/* Says what is wrong with a line; false. */
bool lines_wrong(char *error, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Room for one more item behind so many of that size; NULL: no memory, and they are as they were.
 */
void *lines_room(void *items, size_t count, size_t size);

#endif
