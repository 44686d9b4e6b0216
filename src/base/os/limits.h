/* Limits of the process (setrlimit(2)) that make a call of the system fail: their names for errors,
 * and the signals that come with an error of writing. */
#ifndef TRP_BASE_OS_LIMITS_H
#define TRP_BASE_OS_LIMITS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Returns `out`, set to " (RLIMIT_NOFILE is 12)" for the limits that may cause an errno, if they
 * are set; otherwise to "". */
const char *trp__limits_text(int code, char *out, size_t size);

/* A write past RLIMIT_FSIZE gives EFBIG and SIGXFSZ, one to a pipe without a reader EPIPE and
 * SIGPIPE; the signal would end the program. Between begin and end this thread gets neither. */
typedef struct trp__writing {
    sigset_t before, pending; /* pending: signals that came before, and stay pending */
    bool blocked;
} trp__writing;

trp__writing trp__writing_begin(void);

/* `code`: the errno of the calls in between, or 0. Leaves errno at it. */
void trp__writing_end(const trp__writing *writing, int code);

#endif
