/* Locks with ranks: a thread takes a lock only while it holds none of that rank or of a later one.
 * Builds with assertions check it whenever a lock is taken; in others a lock is a mutex and no
 * more. wire/rank.h has the ranks. */
#ifndef TRP_BASE_OS_LOCK_H
#define TRP_BASE_OS_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

typedef struct trp__lock {
    pthread_mutex_t mutex;
#ifndef NDEBUG
    uint32_t rank;
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
/* In lock.c. Note that this thread is about to take a lock, and end the program if the order
 * forbids it; and that this thread releases the lock. */
void trp__lock_note(trp__lock *lock, bool ordered);
void trp__lock_forget(trp__lock *lock);
#endif

void trp__lock_init(trp__lock *lock, uint32_t rank); /* below 32 */
void trp__lock_destroy(trp__lock *lock);

static inline void trp__lock_take(trp__lock *lock)
{
    trp__lock_note(lock, true);
    pthread_mutex_lock(&lock->mutex);
}

static inline void trp__lock_drop(trp__lock *lock)
{
    trp__lock_forget(lock); /* before another thread may free it */
    pthread_mutex_unlock(&lock->mutex);
}

/* False: another thread holds it. Never waits, so locks may be tried in any order. */
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
