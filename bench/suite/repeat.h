/* Measures the worker's cost per request from the times in a trace at which it issues requests. All
 * requests of a round are in the mailbox before the first can start, because the first waits for a
 * long copy, and the device is busy with a long operation when they are issued. So only the worker
 * limits the rate. */
#ifndef TRP_BENCH_SUITE_REPEAT_H
#define TRP_BENCH_SUITE_REPEAT_H

#include "suite.h"

enum {
    REPEAT_REQUESTS = 320,
    REPEAT_FIRST = 32, /* first requests of a round, ignored because their data is not in the
                        * processor's cache */
    REPEAT_ROUNDS = 9,
    REPEAT_HELD = 128 << 20,
};

/* The gate before all requests: the copy of REPEAT_HELD bytes of zeros from memory to a buffer. */
typedef struct repeat_gate {
    void *memory;
    trp_buffer buffer;
} repeat_gate;

bool repeat_open(suite *s, repeat_gate *g);
void repeat_close(suite *s, repeat_gate *g);

/* The requests of a round: a long one that reads the gate's buffer, and the timed ones. `send`
 * sends one of either kind. */
typedef struct repeat_sequence {
    bool (*send)(void *context, bool wait);
    void *context;
    const char *name; /* name of the operation in a trace */
} repeat_sequence;

/* Returns false after it has reported the failure under the section's name. */
bool repeat_run(suite *s, const repeat_gate *g, const repeat_sequence *q, stats_summary *out);

/* Returns the median of the differences of `count` times without the first ones, or 0 if there are
 * too few. */
double repeat_between(double *times, int count);

/* Adds rows for both sides and for the difference, which must be at most `limit_us`. */
void repeat_show(suite *s, report_row *row, const char *beyond, double limit_us);

#endif
