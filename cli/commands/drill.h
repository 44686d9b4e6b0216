/* A fault drill: brings the worker down by a request of its own and records what came of it. */
#ifndef TRP_CLI_COMMANDS_DRILL_H
#define TRP_CLI_COMMANDS_DRILL_H

#include "data/run.h"

struct drill {
    trp_probe_action action;
    trp_error error; /* what the sender of the faulting request was told */
    trp_device_info before, after;
    uint64_t told_ns;  /* from sending it to its sender being told */
    uint64_t ready_ns; /* from being told to the next worker being ready */
    bool output_lost;  /* its output is marked lost: reading it gives TRP_E_LOST */
};

/* Injects the fault that is natural to the device's backend (GPU: a kernel writes to an illegal
 * address; host: SIGSEGV), with an output buffer of its own, and waits for the next worker. False
 * after telling an error that is none of the fault's. */
bool drill_run(struct run *run, struct drill *out);

/* The fault, in a few words: "signal 11", "cuda error 700". */
run_text drill_cause(const struct drill *d);

/* Whether all went as designed: a fault reported, a new worker, the output lost. */
bool drill_good(const struct drill *d);

#endif
