/* Cleaning of untrusted text, and building of text in a caller's buffer. */
#ifndef TRP_BASE_TEXT_H
#define TRP_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>

/* Makes a string fit for terminals, JSON and the like: invalid UTF-8 and control characters (C0,
 * DEL, C1) become '?'. In place; never longer than before. */
void trp__text_clean(char *text);

/* A text in a buffer of `size` bytes, truncated and terminated there; `length` counts all of it.
 * Nothing allocates. */
typedef struct trp__text {
    char *out; /* may be NULL if size is 0 */
    size_t size;
    size_t length; /* of the whole text, without the end */
} trp__text;

void trp__text_add(trp__text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void trp__text_add_list(trp__text *text, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* Adds a string with a backslash before each quote and backslash, as both JSON and the labels of
 * Prometheus want it. It must be clean. */
void trp__text_add_quoted(trp__text *text, const char *string);

#endif
