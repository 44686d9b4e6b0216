/* Text files that people write, line by line, within bounds: a device that never ends, or a file of
 * something else, is refused and not read into memory. */
#ifndef TRP_CLI_UI_LINES_H
#define TRP_CLI_UI_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct line_reader {
    const char *path;
    FILE *file;
    char *line; /* the one that was read, with its end */
    size_t bytes;
    int number; /* from 1 */
    bool failed;
} line_reader;

/* False: it can't be opened, which is said. lines_end() in both cases. */
bool lines_begin(line_reader *l, const char *path);

/* The next one. False: there is none, or `failed`, which is said. */
bool lines_next(line_reader *l);

/* Whether all was read. */
bool lines_end(line_reader *l);

#endif
