/* A thread of an actor's own: each piece of work is done once, whether the thread spins, sleeps or
 * was told that something comes. */
#include "worker/side.h"

#include "base/os/clock.h"

#include "support/unit.h"

enum { PIECES = 2000 };

typedef struct work {
    uint32_t entered, done;
} work;

static void enter(void *argument)
{
    ((work *)argument)->entered++;
}

static void count(void *argument)
{
    ((work *)argument)->done++;
}

static void await(const trp__side *side)
{
    while (trp__side_busy(side))
        trp__relax();
}

/* `pause` is how long nothing comes: between two pieces of one request, or so long that the thread
 * has fallen asleep. */
static void run_pieces(uint32_t pieces, int64_t pause_ns, bool expect)
{
    trp__side *side = NULL;
    trp_error error;
    work w = {0};
    assert_int_equal(trp__side_start(&side, enter, &w, &error), TRP_OK);
    for (uint32_t i = 0; i < pieces; i++) {
        if (pause_ns > 0)
            trp__sleep_ns(pause_ns);
        if (expect)
            trp__side_expect(side);
        trp__side_run(side, count, &w);
        assert_true(trp__side_busy(side) || i + 1 == w.done);
        await(side);
        assert_int_equal(w.done, i + 1);
    }
    trp__side_stop(side);
    assert_int_equal(w.entered, 1);
    assert_int_equal(w.done, pieces);
}

static void one_behind_the_other(void **state)
{
    (void)state;
    run_pieces(PIECES, 0, false);
    run_pieces(PIECES, 0, true);
}

static void with_pauses(void **state)
{
    (void)state;
    run_pieces(50, TRP__MS, false);
    run_pieces(50, TRP__MS, true);
    run_pieces(PIECES / 4, 190 * TRP__US, true); /* about when it stops spinning */
}

/* What was announced and does not come costs nothing but a spin; and the end is not missed. */
static void nothing_comes(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        trp__side *side = NULL;
        trp_error error;
        work w = {0};
        assert_int_equal(trp__side_start(&side, NULL, NULL, &error), TRP_OK);
        for (int k = 0; k < i % 3; k++)
            trp__side_expect(side);
        if (i % 2)
            trp__side_run(side, count, &w);
        trp__side_stop(side); /* does what there is first */
        assert_int_equal(w.done, i % 2);
    }
    trp__side_stop(NULL);
}

UNIT_MAIN(UNIT(one_behind_the_other), UNIT(with_pauses), UNIT(nothing_comes))
