/* Waiting without a wake-up: spin briefly, then sleep in steps that grow with the time waited, so
 * that a short wait ends at once and a long one costs little. */
#ifndef TRP_CLIENT_CORE_BACKOFF_H
#define TRP_CLIENT_CORE_BACKOFF_H

#include "base/os/clock.h"
#include "base/os/cpu.h"

#include <troupe/types.h>

#include <sched.h>
#include <stdbool.h>
#include <sys/prctl.h>

typedef struct trp__backoff {
    int64_t started;
    int64_t deadline;
    int64_t least_ns; /* the shortest nap, if more than TRP__NAP_MIN_NS */
    int64_t spin_ns;  /* how long to spin before the first nap */
    int64_t expected; /* the expected least duration of this wait; 0: unknown */
    int64_t waited;   /* when the clock was last read: the wait was not over then */
    uint32_t spins;
    int slack; /* the thread's timer slack before the first nap; 0: there was none */
} trp__backoff;

#define TRP__SPIN_NS     (100 * TRP__US)
#define TRP__NAP_MIN_NS  (20 * TRP__US)
#define TRP__NAP_MAX_NS  (500 * TRP__US)
#define TRP__NAP_SHARE   16              /* a nap is this part of the time waited; */
#define TRP__NAP_FAR     4               /* this, while the end is not expected yet, */
#define TRP__NAP_FAR_NS  (4 * TRP__MS)   /* and that at most */
#define TRP__NAP_NEAR_NS (40 * TRP__US)  /* around the expected end, */
#define TRP__NEAR_MIN_NS (200 * TRP__US) /* which is this much before it and after, */
#define TRP__NEAR_SHARE  256             /* or this part of the time expected */
/* Spins so long before and after the expected end: a sleeping processor wakes up late, up to 200 us
 * in a virtual machine, and `expected` is the last time at which an earlier wait was not over. */
#define TRP__END_BEFORE_NS (40 * TRP__US)
#define TRP__END_AFTER_NS  (200 * TRP__US)

static inline trp__backoff trp__backoff_begin(int64_t timeout_ns)
{
    bool polls = timeout_ns == 0 || timeout_ns == TRP_NOWAIT;
    return (trp__backoff){.deadline = polls ? INT64_MIN : trp__deadline(timeout_ns),
                          .spin_ns = TRP__SPIN_NS};
}

/* Between these two calls short sleeps of the thread end in time; the default timer slack may add
 * 50 us. */
static inline int trp__slack_begin(void)
{
    int before = prctl(PR_GET_TIMERSLACK);
    prctl(PR_SET_TIMERSLACK, 1000UL);
    return before;
}

static inline void trp__slack_end(int before)
{
    prctl(PR_SET_TIMERSLACK, before > 0 ? (unsigned long)before : 0UL);
}

/* Sets the timer slack once for a wait with many naps, before each; trp__backoff_end() resets
 * it. */
static inline void trp__backoff_doze(trp__backoff *b)
{
    if (b->slack == 0)
        b->slack = trp__slack_begin();
}

static inline void trp__backoff_end(trp__backoff *b)
{
    if (b->slack != 0)
        trp__slack_end(b->slack);
    b->slack = 0;
}

/* Sleeps for the time asked and no longer. */
static inline void trp__nap(int64_t ns)
{
    int slack = trp__slack_begin();
    trp__sleep_ns(ns);
    trp__slack_end(slack);
}

/* Returns whether to spin after having waited so long. */
static inline bool trp__backoff_spins(const trp__backoff *b, int64_t waited)
{
    return waited < b->spin_ns || (b->expected > 0 && waited > b->expected - TRP__END_BEFORE_NS &&
                                   waited < b->expected + TRP__END_AFTER_NS && trp__cpu_may_spin());
}

/* How long to sleep after having waited so long. */
static inline int64_t trp__backoff_nap(const trp__backoff *b, int64_t waited)
{
    int64_t nap = waited / TRP__NAP_SHARE;
    int64_t most = TRP__NAP_MAX_NS;
    int64_t near = b->expected / TRP__NEAR_SHARE;
    near = near < TRP__NEAR_MIN_NS ? TRP__NEAR_MIN_NS : near;
    if (b->expected > 0 && waited < b->expected + near) {
        nap = waited / TRP__NAP_FAR;
        most = b->expected - near - waited; /* until it may be over */
        most = most < TRP__NAP_NEAR_NS  ? TRP__NAP_NEAR_NS
               : most > TRP__NAP_FAR_NS ? TRP__NAP_FAR_NS
                                        : most;
    }
    nap = nap > most ? most : nap;
    const int64_t least = b->least_ns > TRP__NAP_MIN_NS ? b->least_ns : TRP__NAP_MIN_NS;
    return nap < least ? least : nap;
}

/* One step. Sets *nap_ns to how long to sleep now (0: do not). Returns false when the time has
 * passed. */
static inline bool trp__backoff_step(trp__backoff *b, int64_t *nap_ns)
{
    *nap_ns = 0;
    if (b->deadline == INT64_MIN)
        return false;
    trp__relax();
    if (++b->spins % 32 != 0)
        return true;
    int64_t now = trp__now_ns();
    if (b->started == 0)
        b->started = now;
    if (now >= b->deadline)
        return false;
    int64_t waited = b->waited = now - b->started;
    if (trp__backoff_spins(b, waited)) {
        if (!trp__cpu_may_spin()) {
            sched_yield();
            b->spins |= 31; /* look at the clock after each */
        }
        return true;
    }
    int64_t nap = trp__backoff_nap(b, waited);
    *nap_ns = nap < b->deadline - now ? nap : b->deadline - now;
    b->spins = 31; /* look at the clock again after the nap */
    return true;
}

#endif
