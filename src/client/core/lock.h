/* The locks of this side. Each has a rank: a thread takes a lock only while it holds none of that
 * rank or of a later one. Builds with assertions check it whenever a lock is taken; in others a
 * lock is a mutex and no more.
 *
 * A request that fits its mailbox takes none of them on its way to the worker and back, except for
 * the last holder of a freed buffer, for queues, and for ranges that are not all of a buffer. */
#ifndef TRP_CLIENT_CORE_LOCK_H
#define TRP_CLIENT_CORE_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* In the order in which they may be taken. */
typedef enum trp__rank {
    TRP__RANK_COMPANIONS, /* held while actors are made */
    TRP__RANK_OPENING,    /* the pool of modules is made */
    TRP__RANK_REGISTRY,   /* devices by tag; held while the traces of all are written */
    TRP__RANK_SYSTEM,     /* devices and queues of a system; held while mailboxes are swept */
    TRP__RANK_JUDGING,    /* what becomes of a request that is cancelled, or whose worker died */
    TRP__RANK_TRACE,      /* waits for requests that are being ended, for which others take: */
    TRP__RANK_STREAM,     /* one direction of large copies */
    TRP__RANK_MEMORY,     /* sub-allocator, slots of buffers */
    TRP__RANK_DEVICE,     /* worker, actors, arenas, host segments */
    TRP__RANK_SEGMENT,    /* holders of host segments */
    TRP__RANK_WATCH,
    TRP__RANK_QUEUE,
    TRP__RANK_FAILURES,
    TRP__RANK_CONTENT, /* parts of one buffer */
    TRP__RANK_MODULE,
    TRP__RANK_KEPT,
    TRP__RANK_POOL,   /* pieces of the pool of modules */
    TRP__RANK_COPIER, /* starting and stopping copying threads */
} trp__rank;

typedef struct trp__lock {
    pthread_mutex_t mutex;
#ifndef NDEBUG
    trp__rank rank;
#endif
} trp__lock;

#ifdef NDEBUG
#define TRP__LOCK_INITIAL(of_rank)                                                                 \
    {                                                                                              \
        .mutex = PTHREAD_MUTEX_INITIALIZER                                                         \
    }
static inline void trp__lock_note(trp__lock *lock, bool ordered)
{
    (void)lock;
    (void)ordered;
}
static inline void trp__lock_forget(trp__lock *lock)
{
    (void)lock;
}
#else
#define TRP__LOCK_INITIAL(of_rank)                                                                 \
    {                                                                                              \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .rank = (of_rank)                                      \
    }
/* lock.c. This thread is about to hold it (ends the program if the order forbids that), and does
 * not any more. */
void trp__lock_note(trp__lock *lock, bool ordered);
void trp__lock_forget(trp__lock *lock);
#endif

void trp__lock_init(trp__lock *lock, trp__rank rank);
void trp__lock_destroy(trp__lock *lock);

static inline void trp__lock_take(trp__lock *lock)
{
    trp__lock_note(lock, true);
    pthread_mutex_lock(&lock->mutex);
}

static inline void trp__lock_drop(trp__lock *lock)
{
    trp__lock_forget(lock); /* before somebody else may free it */
    pthread_mutex_unlock(&lock->mutex);
}

/* False: somebody holds it. Never waits, so it may be tried in any order. */
static inline bool trp__lock_try(trp__lock *lock)
{
    if (pthread_mutex_trylock(&lock->mutex) != 0)
        return false;
    trp__lock_note(lock, false);
    return true;
}

/* Waits for a condition; the lock is held before and after. */
static inline void trp__lock_wait(trp__lock *lock, pthread_cond_t *condition)
{
    pthread_cond_wait(condition, &lock->mutex);
}

static inline void trp__lock_wait_until(trp__lock *lock, pthread_cond_t *condition,
                                        const struct timespec *until)
{
    pthread_cond_timedwait(condition, &lock->mutex, until);
}

#endif
