/* Lines for an operator. */
#ifndef TRP_BASE_LOG_H
#define TRP_BASE_LOG_H

#include <troupe/types.h>

#include <stdbool.h>

enum { TRP__LOG_INFO = 0, TRP__LOG_WARNING = 1, TRP__LOG_ERROR = 2 };

typedef struct trp__log {
    void (*sink)(void *user_data, int level, const char *line); /* NULL: standard error */
    void *user_data;
} trp__log;

/* Sends lines of callers without a log (NULL) to `sink` until trp__log_divert_end() of the same
 * user_data, after which the sink is not called any more. The first sink wins: that of a worker,
 * whose lines belong to its application. The sink must not write a line itself. */
void trp__log_divert(void (*sink)(void *user_data, int level, const char *line), void *user_data);
void trp__log_divert_end(const void *user_data);

/* Returns whether a line of that level would be shown on standard error: not if $TROUPE_LOG is
 * "off", and information only if that is "info". */
bool trp__log_shows(int level);

/* Writes one line, at most 400 bytes, to the sink; without one, to standard error if
 * trp__log_shows() allows it. */
void trp__log_line(const trp__log *log, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
