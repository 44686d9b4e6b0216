/* Text that comes from elsewhere, and text that is built in a buffer of somebody else's. */
#ifndef TRP_BASE_TEXT_H
#define TRP_BASE_TEXT_H

#include <stddef.h>

/* Makes a string fit for terminals, JSON and the like: what is no UTF-8, and each control character
 * (C0, DEL, C1), becomes '?'. In place; never longer than before. */
void trp__text_clean(char *text);

/* A text that is written to `out` as far as `size` bytes reach, its end included, and counted to
 * its whole length. Nothing allocates. */
typedef struct trp__text {
    char *out; /* may be NULL if size is 0 */
    size_t size;
    size_t length; /* of the whole text, without the end */
} trp__text;

void trp__text_add(trp__text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds a string with a backslash before each quote and backslash, as both JSON and the labels of
 * Prometheus want it. It must be clean. */
void trp__text_add_quoted(trp__text *text, const char *string);

#endif
