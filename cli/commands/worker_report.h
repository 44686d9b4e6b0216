/* What `troupe-worker --report` says of the libraries of this machine. */
#ifndef TRP_CLI_COMMANDS_WORKER_REPORT_H
#define TRP_CLI_COMMANDS_WORKER_REPORT_H

#include <troupe/troupe.h>

/* One line of it. Strings lie in the report. */
typedef struct report_line {
    const char *key;     /* "cublas" */
    const char *status;  /* "ok", "missing" or "error" */
    const char *version; /* may be empty */
    const char *text;    /* its path, or what is wrong and what to install */
} report_line;

enum { REPORT_BYTES = 16384 };

/* Runs "worker --report" into text. A driver that hangs must not take the command with it: the
 * report is given a minute. False after telling what is wrong. */
bool worker_report(const char *worker, char text[REPORT_BYTES]);

/* Takes the next line off a report: *rest is what is left of it. False: there is none. */
bool worker_report_next(char **rest, report_line *out);

#endif
