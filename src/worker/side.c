#include "worker/side.h"

#include "base/os/clock.h"
#include "base/os/cpu.h"
#include "base/error.h"
#include "base/os/service_thread.h"
#include "base/os/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>

/* The next part of work follows at once, and a sleeping thread wakes up late, up to 200 us in a
 * virtual machine: so it spins for so long, if there are cores for it. */
#define SPIN_NS (200 * TRP__US)

struct trp__side {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void (*enter)(void *argument);
    void *enter_argument;
    void (*work)(void *argument); /* under the lock; NULL: none */
    void *argument;
    bool ending;   /* under the lock */
    bool expected; /* under the lock: work is about to come */
    atomic_bool busy;
};

static void spin(const trp__side *side)
{
    int64_t until = trp__now_ns() + SPIN_NS;
    while (!trp__side_busy(side) && trp__now_ns() < until) {
        for (int i = 0; i < 32 && !trp__side_busy(side); i++)
            trp__relax();
    }
}

static void *side_main(void *argument)
{
    trp__side *side = argument;
    trp__is_service_thread = true;
    prctl(PR_SET_NAME, "trp-side");
    if (side->enter)
        side->enter(side->enter_argument);
    pthread_mutex_lock(&side->lock);
    while (side->work || !side->ending) {
        void (*work)(void *) = side->work;
        void *its_argument = side->argument;
        if (!work && side->expected) {
            side->expected = false;
            pthread_mutex_unlock(&side->lock);
            spin(side);
            pthread_mutex_lock(&side->lock);
            continue;
        }
        if (!work) {
            pthread_cond_wait(&side->changed, &side->lock);
            continue;
        }
        side->work = NULL;
        side->expected = false;
        pthread_mutex_unlock(&side->lock);
        work(its_argument);
        atomic_store_explicit(&side->busy, false, memory_order_release);
        if (trp__cpu_may_spin())
            spin(side);
        pthread_mutex_lock(&side->lock);
    }
    pthread_mutex_unlock(&side->lock);
    return NULL;
}

trp_status trp__side_start(trp__side **out, void (*enter)(void *argument), void *argument,
                           trp_error *error)
{
    trp__side *side = calloc(1, sizeof *side);
    if (!side)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a thread of an actor");
    side->enter = enter;
    side->enter_argument = argument;
    /* The thread spins for the lock, which is held for some instructions only. */
    pthread_mutexattr_t spinning;
    pthread_mutexattr_init(&spinning);
    pthread_mutexattr_settype(&spinning, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&side->lock, &spinning);
    pthread_mutexattr_destroy(&spinning);
    pthread_cond_init(&side->changed, NULL);
    int code = trp__thread_start(&side->thread, TRP__SIGNALS_BLOCKED, side_main, side);
    if (code != 0) {
        pthread_cond_destroy(&side->changed);
        pthread_mutex_destroy(&side->lock);
        free(side);
        errno = code;
        return trp__error_set_errno(error, "a thread of an actor");
    }
    *out = side;
    return TRP_OK;
}

void trp__side_stop(trp__side *side)
{
    if (!side)
        return;
    pthread_mutex_lock(&side->lock);
    side->ending = true;
    pthread_cond_signal(&side->changed);
    pthread_mutex_unlock(&side->lock);
    pthread_join(side->thread, NULL);
    pthread_cond_destroy(&side->changed);
    pthread_mutex_destroy(&side->lock);
    free(side);
}

bool trp__side_busy(const trp__side *side)
{
    return atomic_load_explicit(&side->busy, memory_order_acquire);
}

void trp__side_expect(trp__side *side)
{
    if (!trp__cpu_may_spin())
        return;
    pthread_mutex_lock(&side->lock);
    side->expected = true;
    pthread_cond_signal(&side->changed);
    pthread_mutex_unlock(&side->lock);
}

void trp__side_run(trp__side *side, void (*work)(void *argument), void *argument)
{
    pthread_mutex_lock(&side->lock);
    side->work = work;
    side->argument = argument;
    atomic_store_explicit(&side->busy, true, memory_order_relaxed);
    pthread_cond_signal(&side->changed);
    pthread_mutex_unlock(&side->lock);
}
