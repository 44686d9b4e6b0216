/* The worker's entrance, for the program troupe-worker and for thread isolation. */
#ifndef TRP_WIRE_ENTRY_H
#define TRP_WIRE_ENTRY_H

#include <stdbool.h>

/* Exit status of a worker whose application is gone, or has closed the connection. */
enum { TRP__EXIT_ABANDONED = 71 };

/* Runs a worker that talks over `socket`, which it closes at the end. Returns the exit status that
 * a process should have. With own_process, a death of the application ends the process at once. */
int trp__worker_run(int socket, bool own_process);

/* Prints the worker's report for `troupe doctor`: a line for each library, key TAB ok|missing|error
 * TAB version TAB path or what to install. */
int trp__worker_report(void);

#endif
