/* A thread of an actor for slow work: planning, tuning, compiling. It does one piece at a time,
 * while handle() returns TRP_AGAIN. */
#ifndef TRP_WORKER_SIDE_H
#define TRP_WORKER_SIDE_H

#include <troupe/status.h>

typedef struct trp__side trp__side;

/* Starts the thread, which calls enter(argument) first, if there is one: to make a context current.
 * TRP_E_SYSTEM, TRP_E_MEMORY. */
trp_status trp__side_start(trp__side **out, void (*enter)(void *argument), void *argument,
                           trp_error *error);

/* Waits for the work to end, and ends the thread. NULL is ignored. */
void trp__side_stop(trp__side *side);

/* Returns whether it works. The results may be read once it does not. */
bool trp__side_busy(const trp__side *side);

/* Announces work: wakes the thread ahead, if it sleeps. */
void trp__side_expect(trp__side *side);

/* Runs work(argument) in the thread, which must not be busy. */
void trp__side_run(trp__side *side, void (*work)(void *argument), void *argument);

#endif
