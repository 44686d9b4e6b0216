/* How long a wait spins and naps, by what it has waited and what it expects. */
#include "client/core/backoff.h"

#include <troupe/troupe.h>

#include "support/unit.h"

static void nothing_is_known(void **unused)
{
    (void)unused;
    trp__backoff b = trp__backoff_begin(TRP_FOREVER);
    assert_true(trp__backoff_spins(&b, 0));
    assert_true(trp__backoff_spins(&b, TRP__SPIN_NS - 1));
    for (int64_t waited = TRP__SPIN_NS; waited < 100 * TRP__SECOND; waited += waited / 7) {
        int64_t nap = trp__backoff_nap(&b, waited);
        assert_false(trp__backoff_spins(&b, waited));
        assert_in_range(nap, TRP__NAP_MIN_NS, TRP__NAP_MAX_NS);
        /* What is waited in vain at the end is a small part of the whole. */
        assert_true(nap <= waited / TRP__NAP_SHARE || nap == TRP__NAP_MIN_NS);
    }
}

/* A wait that ends when expected is seen to end at once; one that ends sooner or later, not much
 * later than without. */
static void an_end_is_expected(void **unused)
{
    (void)unused;
    const int64_t expected[] = {1, 50 * TRP__US, 2 * TRP__MS, 100 * TRP__MS, 20 * TRP__SECOND};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        trp__backoff b = {.deadline = INT64_MAX, .expected = expected[i]};
        int64_t naps = 0;
        for (int64_t waited = TRP__SPIN_NS; waited < 2 * expected[i] + TRP__MS;) {
            int64_t nap = trp__backoff_nap(&b, waited);
            bool near =
                waited > expected[i] - TRP__NEAR_MIN_NS && waited < expected[i] + TRP__NEAR_MIN_NS;
            bool spins = trp__backoff_spins(&b, waited);
            bool may_spin = trp__cpu_may_spin() && near;
            assert_true(!spins || may_spin);
            if (may_spin && waited > expected[i] - TRP__END_BEFORE_NS &&
                waited < expected[i] + TRP__END_AFTER_NS)
                assert_true(spins);
            assert_in_range(nap, TRP__NAP_MIN_NS, TRP__NAP_FAR_NS);
            assert_true(nap <= waited / TRP__NAP_FAR || nap == TRP__NAP_MIN_NS);
            if (near)
                assert_true(nap <= TRP__NAP_NEAR_NS);
            if (waited >= expected[i] + expected[i] / TRP__NEAR_SHARE + TRP__NEAR_MIN_NS)
                assert_true(nap == TRP__NAP_MIN_NS ||
                            (nap <= TRP__NAP_MAX_NS && nap <= waited / TRP__NAP_SHARE));
            /* No nap goes past the moment from which the end may come. */
            if (waited < expected[i] - TRP__NEAR_MIN_NS)
                assert_true(waited + nap <= expected[i] - TRP__NEAR_MIN_NS + TRP__NAP_NEAR_NS);
            waited += spins ? TRP__US : nap;
            naps += !spins;
        }
        assert_true(naps > 0);
    }
}

static void a_step_at_a_time(void **unused)
{
    (void)unused;
    int64_t nap = -1;
    trp__backoff b = trp__backoff_begin(0);
    assert_false(trp__backoff_step(&b, &nap));
    assert_int_equal(nap, 0);
    b = trp__backoff_begin(30 * TRP__MS);
    int64_t start = trp__now_ns(), slept = 0;
    while (trp__backoff_step(&b, &nap)) {
        assert_in_range(nap, 0, 30 * TRP__MS);
        if (nap > 0) {
            trp__backoff_doze(&b);
            trp__sleep_ns(nap);
            slept += nap;
        }
    }
    trp__backoff_end(&b);
    assert_int_equal(b.slack, 0);
    assert_true(trp__now_ns() - start >= 30 * TRP__MS);
    assert_true(slept > 0);
}

UNIT_MAIN(UNIT(nothing_is_known), UNIT(an_end_is_expected), UNIT(a_step_at_a_time))
