#include "lines.h"

#include "ui.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MOST = 1 << 20, BYTES_MOST = 64 << 20 };

static bool fail(line_reader *l, const char *what)
{
    l->failed = true;
    if (l->number > 0)
        ui_error("%s:%d: %s", l->path, l->number, what);
    else
        ui_error("%s: %s", l->path, what);
    return false;
}

bool lines_begin(line_reader *l, const char *path)
{
    *l = (line_reader){.path = path, .file = fopen(path, "re")};
    if (!l->file)
        return fail(l, strerror(errno));
    l->line = malloc(LINE_MOST + 1);
    return l->line || fail(l, "out of memory");
}

bool lines_next(line_reader *l)
{
    size_t length = 0;
    int c = '\0';
    l->number++;
    while (c != '\n' && (c = getc(l->file)) != EOF) {
        if (c == '\0')
            return fail(l, "expected text, and it has a zero byte");
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

bool lines_end(line_reader *l)
{
    free(l->line);
    if (l->file)
        fclose(l->file);
    return !l->failed;
}
