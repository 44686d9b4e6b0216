#include "lines.h"

#include "ui.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MOST = 1 << 20, BYTES_MOST = 64 << 20 };

typedef struct line_reader {
    const char *path;
    FILE *file;
    char *line; /* the current line, with its newline */
    size_t bytes;
    int number; /* from 1 */
    bool failed;
} line_reader;

static bool fail(line_reader *l, const char *what)
{
    l->failed = true;
    if (l->number > 0)
        ui_error("%s:%d: %s", l->path, l->number, what);
    else
        ui_error("%s: %s", l->path, what);
    return false;
}

/* Opens a file. False after reporting an error. */
static bool begin(line_reader *l, const char *path)
{
    *l = (line_reader){.path = path, .file = fopen(path, "re")};
    if (!l->file)
        return fail(l, strerror(errno));
    l->line = malloc(LINE_MOST + 1);
    return l->line || fail(l, "out of memory");
}

/* Reads the next line. False: the end, or `failed`, which is reported. */
static bool next(line_reader *l)
{
    size_t length = 0;
    int c = '\0';
    l->number++;
    while (c != '\n' && (c = getc(l->file)) != EOF) {
        if (c == '\0')
            return fail(l, "expected text, got a zero byte in it");
        if (length == LINE_MOST)
            return fail(l, "expected lines of at most 1 MiB");
        if (++l->bytes > BYTES_MOST)
            return fail(l, "expected a file of at most 64 MiB");
        l->line[length++] = (char)c;
    }
    l->line[length] = '\0';
    if (ferror(l->file)) {
        l->number = 0;
        return fail(l, strerror(errno));
    }
    return length > 0;
}

bool lines_read(const char *path, line_taker take, void *context)
{
    char error[512];
    line_reader l;
    for (bool open = begin(&l, path); open && next(&l);) {
        if (!take(context, l.line, l.number, error, sizeof error))
            open = fail(&l, error);
    }
    free(l.line);
    if (l.file)
        fclose(l.file);
    return !l.failed;
}

bool lines_wrong(char *error, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error, size, format, args);
    va_end(args);
    return false;
}

void *lines_room(void *items, size_t count, size_t size)
{
    const bool full = (count & (count - 1)) == 0; /* 0 or a power of two */
    return full ? realloc(items, (count ? 2 * count : 1) * size) : items;
}
