/* Lines for an operator. */
#ifndef TRP_BASE_LOG_H
#define TRP_BASE_LOG_H

#include <troupe/types.h>

enum { TRP__LOG_INFO = 0, TRP__LOG_WARNING = 1, TRP__LOG_ERROR = 2 };

typedef struct trp__log {
    void (*sink)(void *user_data, int level, const char *line); /* NULL: standard error */
    void *user_data;
} trp__log;

/* Writes one line, at most 400 bytes. With no sink, information is dropped and the rest goes to
 * standard error unless $TROUPE_LOG is "off" ("info" shows everything). */
void trp__log_line(const trp__log *log, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
