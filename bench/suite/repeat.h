/* What a request costs the worker: the times at which it hands requests over, which a trace has.
 * All of them are in the mailbox before the first can go, for it waits for a copy that takes its
 * time; and the device is busy with something long when they go. So the worker alone decides how
 * fast they follow each other. */
#ifndef TRP_BENCH_SUITE_REPEAT_H
#define TRP_BENCH_SUITE_REPEAT_H

#include "suite.h"

enum {
    REPEAT_REQUESTS = 320,
    REPEAT_FIRST = 32, /* that are not looked at: what they need is not in the processor's cache */
    REPEAT_ROUNDS = 9,
    REPEAT_HELD = 128 << 20,
};

/* What all wait for: memory, and a buffer of REPEAT_HELD bytes that it is copied to: zeros. */
typedef struct repeat_gate {
    void *memory;
    trp_buffer buffer;
} repeat_gate;

bool repeat_open(suite *s, repeat_gate *g);
void repeat_close(suite *s, repeat_gate *g);

/* The requests of a round: what reads the gate's buffer and is long, and those behind it. `send`
 * sends one of either. */
typedef struct repeat_sequence {
    bool (*send)(void *context, bool wait);
    void *context;
    const char *name; /* of the operation, in a trace */
} repeat_sequence;

/* False: it is told, in the section's name. */
bool repeat_run(suite *s, const char *section, const repeat_gate *g, const repeat_sequence *q,
                stats_summary *out);

/* The median of the differences of so many times, without the first ones; 0: there are too few. */
double repeat_between(double *times, int count);

/* Adds both sides, and what Troupe's takes beyond the raw one: at most `limit_us`. */
void repeat_show(suite *s, report_row *row, const char *beyond, double limit_us);

#endif
