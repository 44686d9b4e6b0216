#include "base/os/lock.h"

#include <stdio.h>
#include <stdlib.h>

#ifndef NDEBUG
/* The ranks of which this thread holds a lock, as bits. */
static _Thread_local uint32_t held;

void trp__lock_note(trp__lock *lock, bool ordered)
{
    if (ordered && held >> lock->rank != 0) {
        fprintf(stderr, "troupe: a lock of rank %u is taken while locks of ranks %#x are held\n",
                (unsigned)lock->rank, (unsigned)held);
        abort();
    }
    held |= 1U << lock->rank;
}

void trp__lock_forget(trp__lock *lock)
{
    held &= ~(1U << lock->rank);
}
#endif

void trp__lock_init(trp__lock *lock, uint32_t rank)
{
    pthread_mutex_init(&lock->mutex, NULL);
#ifndef NDEBUG
    lock->rank = rank;
#else
    (void)rank;
#endif
}

void trp__lock_destroy(trp__lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}
