#include "base/os/team.h"

#include "base/os/clock.h"
#include "base/os/cpu.h"
#include "base/os/futex.h"
#include "base/os/thread.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/prctl.h>

/* The shared job. The high half of `ticket` is its number, the low half the count of unclaimed
 * pieces. A thread that claims a piece, by exchanging the ticket, keeps the job from ending until
 * it has counted the piece in `finished`, and may read the other members only in between. So a
 * thread that wakes up too late finds another number, or no piece, and touches nothing. */
static struct {
    _Atomic uint64_t ticket;
    _Atomic uint32_t finished; /* pieces; a futex of the caller */
    uint32_t pieces;
    trp__team_piece *run;
    void *context;
} work;

static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the next three */
static int users;
static int started; /* threads beside a caller's */
static pthread_t thread[TRP__TEAM_THREADS_MAX];

static pthread_mutex_t sharing =
    PTHREAD_MUTEX_INITIALIZER;  /* held by the caller whose job is shared */
static _Atomic uint32_t number; /* number of the last job; a futex of the threads */
static _Atomic uint32_t stopping;

/* Spins of a thread before it sleeps, if that takes no processor away from others. */
enum { SPINS = 2000 };

static bool claim(uint32_t of, uint32_t *piece)
{
    uint64_t ticket = atomic_load(&work.ticket);
    while ((uint32_t)(ticket >> 32) == of && (uint32_t)ticket != 0) {
        if (atomic_compare_exchange_weak(&work.ticket, &ticket, ticket - 1)) {
            *piece = (uint32_t)ticket - 1;
            return true;
        }
    }
    return false;
}

/* Runs pieces until none is left. */
static void share(uint32_t of, int worker)
{
    uint32_t piece;
    while (claim(of, &piece)) {
        const uint32_t pieces = work.pieces;
        work.run(work.context, (int64_t)(pieces - 1 - piece), worker);
        if (atomic_fetch_add(&work.finished, 1) + 1 == pieces)
            trp__futex_wake(&work.finished, 1);
    }
}

/* Returns early, too. */
static void sleep_until_changed(_Atomic uint32_t *word, uint32_t seen)
{
    for (int i = 0; i < SPINS && trp__cpu_may_spin() && atomic_load(word) == seen; i++)
        trp__relax();
    if (atomic_load(word) == seen)
        trp__futex_wait(word, seen, -1);
}

static void *team_main(void *argument)
{
    const int worker = (int)(intptr_t)argument;
    uint32_t seen = 0;
    prctl(PR_SET_NAME, "trp-team");
    while (!atomic_load(&stopping)) {
        sleep_until_changed(&number, seen);
        seen = atomic_load(&number);
        share(seen, worker); /* no piece is left after an early return */
    }
    return NULL;
}

/* Starts the threads that are missing. */
static void start_threads(int wanted)
{
    while (started < wanted - 1 &&
           trp__thread_start(&thread[started], TRP__SIGNALS_OF_FAULTS, team_main,
                             (void *)(intptr_t)(started + 1)) == 0)
        started++;
}

static int width_of_process(void)
{
    const unsigned int count = trp__cpu_threads();
    return count < TRP__TEAM_THREADS_MAX ? (int)count : TRP__TEAM_THREADS_MAX;
}

void trp__team_open(void)
{
    pthread_mutex_lock(&users_lock);
    users++;
    pthread_mutex_unlock(&users_lock);
}

void trp__team_close(void)
{
    pthread_mutex_lock(&users_lock);
    if (--users == 0 && started > 0) {
        atomic_store(&stopping, 1);
        atomic_fetch_add(&number, 1);
        trp__futex_wake(&number, INT_MAX);
        for (int i = 0; i < started; i++)
            pthread_join(thread[i], NULL);
        started = 0;
        atomic_store(&stopping, 0);
    }
    pthread_mutex_unlock(&users_lock);
}

int trp__team_width(void)
{
    static _Atomic int known; /* 0: not yet */
    int width = atomic_load_explicit(&known, memory_order_relaxed);
    if (width == 0) {
        width = width_of_process();
        atomic_store_explicit(&known, width, memory_order_relaxed);
    }
    return width;
}

/* Returns whether there are threads to share with. */
static bool ready(int width)
{
    pthread_mutex_lock(&users_lock);
    if (users > 0 && started < width - 1)
        start_threads(width);
    const bool any = users > 0 && started > 0;
    pthread_mutex_unlock(&users_lock);
    return any;
}

static void share_with_all(trp__team_piece *run, void *context, uint32_t pieces)
{
    const uint32_t next = atomic_load(&number) + 1;
    uint32_t finished;
    work.run = run;
    work.context = context;
    work.pieces = pieces;
    atomic_store(&work.finished, 0);
    atomic_store(&work.ticket, (uint64_t)next << 32 | pieces);
    atomic_store(&number, next);
    trp__futex_wake(&number, INT_MAX);
    share(next, 0);
    while ((finished = atomic_load(&work.finished)) != pieces)
        sleep_until_changed(&work.finished, finished);
}

void trp__team_run(trp__team_piece *run, void *context, int64_t pieces)
{
    const int width = trp__team_width();
    if (pieces > 1 && width > 1 && pthread_mutex_trylock(&sharing) == 0) {
        const bool shared = ready(width);
        if (shared)
            share_with_all(run, context, (uint32_t)pieces);
        pthread_mutex_unlock(&sharing);
        if (shared)
            return;
    }
    for (int64_t i = 0; i < pieces; i++)
        run(context, i, 0);
}
