/* Runs and parses `troupe-worker --report`, on this machine's libraries. */
#ifndef TRP_CLI_COMMANDS_WORKER_REPORT_H
#define TRP_CLI_COMMANDS_WORKER_REPORT_H

#include <troupe/troupe.h>

/* A line of the report. Strings point into it. */
typedef struct report_line {
    const char *key;     /* "cublas" */
    const char *status;  /* "ok", "missing" or "error" */
    const char *version; /* may be empty */
    const char *text;    /* its path, or what is wrong and how to install it */
} report_line;

enum { REPORT_BYTES = 16384 };

/* Runs "worker --report" into text. A minute's limit protects against a driver that hangs. False
 * after reporting an error. */
bool worker_report(const char *worker, char text[REPORT_BYTES]);

/* Takes the next line off a report; *rest is the remainder. False: there is none. */
bool worker_report_next(char **rest, report_line *out);

#endif
