/* Calls of the program: the guard at the beginning of each public function that takes a lock or
 * waits.
 *
 * No thread is cancelled (pthread_cancel) inside a call, since that would leave a lock held for
 * ever; it is cancelled at the next cancellation point after the call. Most calls disable
 * cancellation from the beginning (TRP__CALL). Calls that a program makes for each request have no
 * cancellation point on their common path, and disabling cancellation would double their cost: they
 * begin with TRP__CALL_QUICK, and their rare paths call trp__call_shield() before the first
 * cancellation point: in trp__sleep_ns(), the log, wake-ups by descriptors, the return of memory,
 * and sending to actors whose requests need other requests.
 *
 * A signal handler that interrupts a call of its own thread would wait for the locks of that call;
 * its own call is refused instead. For the same reason no guarded function of the library calls
 * another one. */
#ifndef TRP_BASE_CALL_H
#define TRP_BASE_CALL_H

#include <troupe/status.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* State of the thread. Not of the TLS model initial-exec: its little static memory is shared by all
 * libraries that a program loads later. */
typedef struct trp__call_state {
    bool inside;    /* a call */
    bool shielded;  /* the call has disabled cancellation */
    int cancelling; /* with `shielded`: the program's own state */
} trp__call_state;

extern _Thread_local trp__call_state trp__call_here __attribute__((visibility("hidden")));

/* The state of the thread; NULL: the call is refused. */
static inline trp__call_state *trp__call_begin(void)
{
    trp__call_state *here = &trp__call_here;
    __asm__("" : "+r"(here)); /* found once: in a shared library each look-up is a call */
    if (here->inside)
        return NULL;
    here->inside = true;
    atomic_signal_fence(memory_order_seq_cst);
    return here;
}

/* Disables cancellation from here to the end of the call. Does nothing outside of calls, as in
 * threads of the library. */
static inline void trp__call_shield(void)
{
    trp__call_state *here = &trp__call_here;
    if (!here->inside || here->shielded)
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &here->cancelling);
    here->shielded = true;
}

static inline void trp__call_end(trp__call_state *const *call)
{
    trp__call_state *here = *call;
    if (!here)
        return;
    if (__builtin_expect(here->shielded, 0)) {
        here->shielded = false;
        pthread_setcancelstate(here->cancelling, NULL);
    }
    atomic_signal_fence(memory_order_seq_cst);
    here->inside = false;
}

/* TRP_E_UNSUPPORTED. The last error of the thread stays: it belongs to the call that was
 * interrupted. Meanwhile trp_error_message() says why. */
trp_status trp__call_refused(void);

/* First statement of a public function. `...`: the return value of a refused call. */
#define TRP__CALL_QUICK(...)                                                                       \
    trp__call_state *call_of_program __attribute__((cleanup(trp__call_end))) = trp__call_begin();  \
    if (!call_of_program)                                                                          \
    return __VA_ARGS__

#define TRP__CALL(...)                                                                             \
    TRP__CALL_QUICK(__VA_ARGS__);                                                                  \
    trp__call_shield()

#endif
