/* Threads that share pieces: each piece runs once, whoever calls, and from within a piece too. */
#include "support/unit.h"

#include "base/os/team.h"

#include <pthread.h>
#include <stdatomic.h>

enum { PIECES = 1000, CALLERS = 4, ROUNDS = 300 };

typedef struct count {
    _Atomic int of[PIECES];
    _Atomic int busy[TRP__TEAM_THREADS_MAX];
    _Atomic int wrong;
} count;

static void count_piece(void *context, int64_t piece, int worker)
{
    count *c = context;
    if (worker < 0 || worker >= trp__team_width() || atomic_fetch_add(&c->busy[worker], 1) != 0)
        atomic_fetch_add(&c->wrong, 1);
    atomic_fetch_add(&c->of[piece], 1);
    atomic_fetch_sub(&c->busy[worker], 1);
}

static void expect_each(const count *c, int64_t pieces, int times)
{
    assert_int_equal(atomic_load(&c->wrong), 0);
    for (int64_t i = 0; i < PIECES; i++)
        assert_int_equal(atomic_load(&c->of[i]), i < pieces ? times : 0);
}

static void each_piece_once(void **state)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 64, PIECES};
    (void)state;
    for (int open = 0; open < 2; open++) {
        if (open)
            trp__team_open();
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            static count c;
            memset(&c, 0, sizeof c);
            for (int round = 0; round < ROUNDS; round++)
                trp__team_run(count_piece, &c, sizes[i]);
            expect_each(&c, sizes[i], ROUNDS);
        }
    }
    trp__team_close();
}

static void *call(void *context)
{
    for (int i = 0; i < ROUNDS; i++) {
        static _Thread_local count c;
        memset(&c, 0, sizeof c);
        trp__team_run(count_piece, &c, PIECES);
        for (int k = 0; k < PIECES; k++)
            atomic_fetch_add((_Atomic int *)context, atomic_load(&c.of[k]) != 1);
        atomic_fetch_add((_Atomic int *)context, atomic_load(&c.wrong));
    }
    return NULL;
}

static void several_callers(void **state)
{
    pthread_t thread[CALLERS];
    _Atomic int wrong = 0;
    (void)state;
    trp__team_open();
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, call, &wrong), 0);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(thread[i], NULL);
    trp__team_close();
    assert_int_equal(atomic_load(&wrong), 0);
}

static count inner[8];

static void call_within(void *context, int64_t piece, int worker)
{
    (void)context;
    (void)worker;
    trp__team_run(count_piece, &inner[piece], PIECES);
}

static void calls_within_pieces(void **state)
{
    (void)state;
    trp__team_open();
    trp__team_open();
    trp__team_run(call_within, NULL, 8);
    trp__team_close();
    for (int i = 0; i < 8; i++)
        expect_each(&inner[i], PIECES, 1);
    trp__team_close();
}

UNIT_MAIN(UNIT(each_piece_once), UNIT(several_callers), UNIT(calls_within_pieces))
