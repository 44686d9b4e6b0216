/* The bound on what is in a stream: when it is full, and that it is so until the timeline has
 * passed what was noted, also when the numbers of the marks begin anew. TROUPE_TEST_SEED repeats a
 * random run. */
#include "support/unit.h"

#include "support/reference/random.h"
#include "worker/window.h"
#include "support/label.h"

#include <inttypes.h>
#include <time.h>

TROUPE_TEST("no tsan");

enum { LIMIT = TRP__WINDOW_LIMIT, MARKS = TRP__WINDOW_MARKS };

static trp__window w;

static int setup(void **unused)
{
    (void)unused;
    memset(&w, 0, sizeof w);
    return 0;
}

/* So many operations, the last of which writes `ticket`. */
static void enqueue(uint64_t operations, uint64_t ticket)
{
    trp__window_add(&w, operations - 1);
    trp__window_mark(&w, ticket);
}

static void full_at_the_limit(void **unused)
{
    (void)unused;
    assert_false(trp__window_seems_full(&w));
    assert_false(trp__window_full(&w, 0));
    for (uint32_t i = 0; i < LIMIT; i++) {
        assert_false(trp__window_seems_full(&w));
        assert_false(trp__window_full(&w, UINT64_MAX));
        trp__window_add(&w, 1);
    }
    assert_true(trp__window_seems_full(&w));
    /* Whatever the timeline says: nobody knows yet which ticket these are behind. */
    assert_true(trp__window_full(&w, UINT64_MAX));
}

static void a_write_is_an_operation(void **unused)
{
    (void)unused;
    trp__window_add(&w, LIMIT - 1);
    assert_false(trp__window_seems_full(&w));
    trp__window_mark(&w, 1);
    assert_true(trp__window_seems_full(&w));
    assert_true(trp__window_full(&w, 0));
    assert_false(trp__window_full(&w, 1));
}

static void the_last_may_bring_more(void **unused)
{
    (void)unused;
    enqueue(LIMIT - 1, 1);
    trp__window_add(&w, 64);
    assert_true(trp__window_full(&w, 0));
    assert_false(trp__window_full(&w, 1));
    trp__window_add(&w, LIMIT - 64 - 1);
    assert_false(trp__window_seems_full(&w));
    trp__window_add(&w, 1);
    assert_true(trp__window_full(&w, 1));
}

static void done_when_the_timeline_has_passed(void **unused)
{
    (void)unused;
    enqueue(100, 10);
    enqueue(200, 20);
    enqueue(212, 30);
    assert_true(trp__window_full(&w, 0));
    assert_true(trp__window_full(&w, 9));
    assert_false(trp__window_full(&w, 10));
    trp__window_add(&w, 99); /* 100 are done, no more */
    assert_false(trp__window_full(&w, 19));
    trp__window_add(&w, 1);
    assert_true(trp__window_full(&w, 19));
    assert_false(trp__window_full(&w, 29)); /* a ticket between two */
    trp__window_add(&w, 200);
    assert_true(trp__window_full(&w, 29));
    assert_false(trp__window_full(&w, 30));
    trp__window_add(&w, LIMIT - 300); /* those 300 were behind the last write */
    assert_true(trp__window_full(&w, 30));
    assert_true(trp__window_full(&w, UINT64_MAX));
}

static void several_at_once(void **unused)
{
    (void)unused;
    for (uint64_t ticket = 1; ticket <= 4; ticket++)
        enqueue(LIMIT / 4, ticket);
    assert_true(trp__window_full(&w, 0));
    assert_false(trp__window_full(&w, 3));
    trp__window_add(&w, LIMIT - LIMIT / 4 - 1);
    assert_false(trp__window_seems_full(&w));
    trp__window_add(&w, 1);
    assert_true(trp__window_full(&w, 3));
    assert_false(trp__window_full(&w, 4));
}

/* It is looked up only on demand; and what was done stays so if an older timeline is seen. */
static void seems_full_until_looked_up(void **unused)
{
    (void)unused;
    enqueue(LIMIT, 1);
    assert_true(trp__window_seems_full(&w));
    assert_false(trp__window_full(&w, 1));
    assert_false(trp__window_seems_full(&w));
    assert_false(trp__window_full(&w, 0));
}

/* As many writes as can be out at a time, each with one operation, over and over. */
static void run_with_most_marks(uint32_t start)
{
    uint64_t ticket = 0, done = 0;
    w.first = w.last = start;
    while (!trp__window_seems_full(&w))
        enqueue(2, ++ticket);
    assert_int_equal(ticket, LIMIT / 2);
    for (uint32_t i = 0; i < 5 * MARKS; i++) {
        assert_true(w.last - w.first <= MARKS);
        assert_true(trp__window_full(&w, done));
        assert_false(trp__window_full(&w, ++done));
        enqueue(2, ++ticket); /* in its place */
    }
}

static void most_marks(void **unused)
{
    (void)unused;
    run_with_most_marks(0);
    setup(NULL);
    run_with_most_marks(UINT32_MAX - 2 * MARKS);
}

static uint64_t rng;

/* A stream that runs at random, with a list of all its operations: the ticket of the first write
 * behind each, 0 as long as there is none. */
static void run_at_random(uint64_t operations)
{
    static uint64_t behind[1 << 16];
    const uint64_t base = w.enqueued;
    uint64_t enqueued = 0, unmarked = 0, ticket = 0, timeline = 0, done = 0;
    uint32_t full = 0, room = 0;
    memset(behind, 0, sizeof behind);
    while (enqueued + MARKS < operations) {
        uint32_t what = random_below(&rng, 40);
        if (what == 0) {
            timeline += random_below(&rng, (uint32_t)(ticket - timeline) + 1);
        } else if (!trp__window_seems_full(&w) || !trp__window_full(&w, timeline)) {
            uint32_t some = 1 + random_below(&rng, what < 5 ? 70 : 3);
            trp__window_add(&w, some);
            enqueued += some;
            if (random_below(&rng, 3) == 0) {
                ticket += 1 + random_below(&rng, 3);
                trp__window_mark(&w, ticket);
                enqueued++;
                for (; unmarked < enqueued; unmarked++)
                    behind[unmarked] = ticket;
            }
        } else if (unmarked < enqueued) { /* as the scheduler does for a lane that it holds */
            trp__window_mark(&w, ++ticket);
            enqueued++;
            for (; unmarked < enqueued; unmarked++)
                behind[unmarked] = ticket;
        }
        while (done < enqueued && behind[done] != 0 && behind[done] <= timeline)
            done++;
        assert_true(w.enqueued - base == enqueued);
        assert_true(w.last - w.first <= MARKS);
        /* Whatever was looked up, it is never less full than it is. */
        assert_true(trp__window_seems_full(&w) || enqueued - done < LIMIT);
        if (random_below(&rng, 4) == 0) {
            bool wanted = enqueued - done >= LIMIT;
            assert_int_equal(trp__window_full(&w, timeline), wanted);
            full += wanted;
            room += !wanted;
        }
    }
    assert_true(full > 100 && room > 100);
}

/* From where the numbers of the marks begin anew in the middle of it; and from 0. */
static void counters_wrap(void **unused)
{
    (void)unused;
    const char *given = getenv("TROUPE_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    const uint32_t starts[] = {
        0, 1, UINT32_MAX, UINT32_MAX - 1, UINT32_MAX - MARKS, UINT32_MAX - 1000, INT32_MAX};
    print_message("seed %" PRIu64 "\n", seed);
    rng = seed;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        setup(NULL);
        w.first = w.last = starts[i];
        w.enqueued = w.done = i % 2 ? UINT64_MAX - 5000 : 0;
        run_at_random(1 << 16);
        assert_true(w.last - starts[i] > 2000); /* far enough */
    }
}

/* The same step by step: marks on both sides of the place. */
static void across_the_wrap(void **unused)
{
    (void)unused;
    w.first = w.last = UINT32_MAX - 1;
    for (uint64_t ticket = 1; ticket <= 4; ticket++)
        enqueue(LIMIT / 4, ticket);
    assert_int_equal(w.last, 2);
    for (uint64_t ticket = 1; ticket <= 4; ticket++) {
        assert_true(trp__window_full(&w, ticket - 1));
        assert_false(trp__window_full(&w, ticket));
        trp__window_add(&w, LIMIT / 4);
    }
    assert_int_equal(w.first, 2);
}

UNIT_MAIN(cmocka_unit_test_setup(full_at_the_limit, setup),
          cmocka_unit_test_setup(a_write_is_an_operation, setup),
          cmocka_unit_test_setup(the_last_may_bring_more, setup),
          cmocka_unit_test_setup(done_when_the_timeline_has_passed, setup),
          cmocka_unit_test_setup(several_at_once, setup),
          cmocka_unit_test_setup(seems_full_until_looked_up, setup),
          cmocka_unit_test_setup(most_marks, setup), cmocka_unit_test_setup(across_the_wrap, setup),
          cmocka_unit_test_setup(counters_wrap, setup))
