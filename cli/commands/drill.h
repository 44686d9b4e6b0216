/* A fault drill: kills the worker by a request of its own and records the consequences. */
#ifndef TRP_CLI_COMMANDS_DRILL_H
#define TRP_CLI_COMMANDS_DRILL_H

#include "data/run.h"

struct drill {
    trp_probe_action action;
    trp_error error; /* the error of the faulting request */
    trp_device_info before, after;
    uint64_t failed_ns; /* from sending it to its completion */
    uint64_t ready_ns;  /* from its completion to the next worker being ready */
    bool output_lost;   /* the output is marked lost: reading it gives TRP_E_LOST */
};

/* Injects a fault typical of the backend (GPU: a kernel writes to an illegal address; host:
 * SIGSEGV) with an output buffer of its own, and waits for the next worker. False after reporting
 * an error other than the fault. */
bool drill_run(struct run *run, struct drill *out);

/* Describes the fault briefly: "signal 11", "cuda error 700". */
run_text drill_cause(const struct drill *d);

/* Tells whether recovery worked: a fault reported, a new worker, the output lost. */
bool drill_good(const struct drill *d);

#endif
