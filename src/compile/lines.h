/* A text that grows line by line. */
#ifndef TRP_COMPILE_LINES_H
#define TRP_COMPILE_LINES_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct trp__jit_lines {
    char *text;
    size_t bytes, room;
    bool no_memory;
} trp__jit_lines;

static inline void trp__jit_add_line(trp__jit_lines *l, const char *first, const char *second)
{
    size_t more = strlen(first) + strlen(second) + 1;
    if (l->bytes + more + 1 > l->room) {
        size_t room = 2 * (l->room + more + 1);
        char *larger = realloc(l->text, room);
        if (!larger) {
            l->no_memory = true;
            return;
        }
        l->text = larger;
        l->room = room;
    }
    snprintf(l->text + l->bytes, more + 1, "%s%s\n", first, second);
    l->bytes += more;
}

#endif
