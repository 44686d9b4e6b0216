/* Searches (tuning/search.h) on devices that are only thought of: ways of known speed, measured
 * with noise. A way that is slower than the first in any kind of measurement never wins, whatever
 * the draw. TROUPE_TEST_SEED repeats a random run. */
#include "support/unit.h"

#include "support/label.h"
#include "support/reference/random.h"
#include "tuning/search.h"

#include <time.h>
#include <unistd.h>

TROUPE_TEST("no tsan");

enum { ROOM = 40, NEVER = 1000000 };

/* A way: microseconds of a run by kind; it fails from its n-th measurement on. */
typedef struct way {
    double us[TRP__SEARCH_KINDS];
    uint32_t fails_at, measured;
} way;

typedef struct device {
    way way[ROOM];
    double noise;      /* a measurement is off by at most this share */
    double clock;      /* of everything: it falls while the search runs */
    double clock_step; /* by so much a measurement */
    uint64_t state;
    uint32_t steps, longest; /* measurements, and most runs of one */
    double busy_us;
} device;

static uint64_t seed;

static const trp__search_rules plain = {.finalists = 3,
                                        .rounds = 5,
                                        .kinds = TRP__SEARCH_KINDS,
                                        .most = 200,
                                        .length_us = 300,
                                        .final_us = 300,
                                        .enough = 0.98f};

static float measure(device *d, const trp__search *s, const trp__search_step *step)
{
    way *w = &d->way[s->entry[step->entry].what];
    const double off = (double)random_below(&d->state, 2000001) / 1e6 - 1;
    const double us = w->us[step->kind] * d->clock * (1 + off * d->noise);
    d->clock += d->clock_step;
    d->steps++;
    d->busy_us += us * step->runs;
    d->longest = step->runs > d->longest ? step->runs : d->longest;
    return ++w->measured >= w->fails_at ? -1 : (float)us;
}

static void run(device *d, trp__search *s)
{
    trp__search_step step;
    while (trp__search_next(s, &step))
        trp__search_add_time(s, measure(d, s, &step));
}

static device draw_device(uint32_t ways, double noise)
{
    device d = {.noise = noise, .clock = 1, .state = seed};
    for (uint32_t i = 0; i < ways; i++) {
        const double us = 2 + (double)random_below(&d.state, 100000) / 100;
        d.way[i] =
            (way){.us = {us, us * (0.5 + random_below(&d.state, 50) / 100.0)}, .fails_at = NEVER};
    }
    random_next(&seed);
    return d;
}

static uint32_t search_all(device *d, uint32_t ways, const trp__search_rules *rules, trp__search *s,
                           trp__search_entry *entry)
{
    trp__search_begin(s, rules, entry, ROOM);
    for (uint32_t i = 0; i < ways; i++)
        assert_true(trp__search_add(s, i));
    run(d, s);
    trp__search_final(s);
    run(d, s);
    assert_int_equal(s->phase, TRP__SEARCH_OVER);
    return s->failed ? 0 : s->entry[trp__search_winner(s)].what;
}

/* What wins is not slower than the first in any kind, and faster by enough in the mean. */
static void never_slower(void **state)
{
    (void)state;
    for (int round = 0; round < 2000; round++) {
        const uint32_t ways = 1 + random_below(&seed, 20);
        device d = draw_device(ways, 0.004);
        if (round % 2) { /* all of about one speed */
            for (uint32_t i = 1; i < ways; i++) {
                for (int kind = 0; kind < TRP__SEARCH_KINDS; kind++)
                    d.way[i].us[kind] =
                        d.way[0].us[kind] * (0.9 + random_below(&d.state, 200) / 1000.0);
            }
        }
        trp__search s;
        trp__search_entry entry[ROOM];
        const uint32_t won = search_all(&d, ways, &plain, &s, entry);
        double product = 1;
        for (int kind = 0; kind < TRP__SEARCH_KINDS; kind++) {
            const double share = d.way[won].us[kind] / d.way[0].us[kind];
            assert_true(share <= 1.01);
            product *= share;
        }
        assert_true(won == 0 || product <= 0.98 * 0.98 * 1.02);
    }
}

/* One that is clearly the fastest wins, however the clock falls meanwhile. */
static void finds_the_fastest(void **state)
{
    (void)state;
    for (int round = 0; round < 500; round++) {
        const uint32_t ways = 2 + random_below(&seed, 20);
        device d = draw_device(ways, 0.004);
        const uint32_t fastest = random_below(&seed, ways);
        for (int kind = 0; kind < TRP__SEARCH_KINDS; kind++)
            d.way[fastest].us[kind] = 1;
        d.clock_step = 1e-4;
        trp__search s;
        trp__search_entry entry[ROOM];
        assert_int_equal(search_all(&d, ways, &plain, &s, entry), fastest);
        assert_true(d.longest <= plain.most);
    }
}

/* Faster with operands that are in no cache, slower with those that are: the first stays. */
static void slower_when_hot(void **state)
{
    (void)state;
    device d = {.way = {{{10, 8}, NEVER, 0}, {{6, 9}, NEVER, 0}}, .clock = 1, .state = seed};
    trp__search s;
    trp__search_entry entry[ROOM];
    assert_int_equal(search_all(&d, 2, &plain, &s, entry), 0);
    trp__search_rules cold = plain;
    cold.kinds = 1;
    assert_int_equal(search_all(&d, 2, &cold, &s, entry), 1);
    assert_true(trp__search_median(&s, 1) == 6 && trp__search_median(&s, 0) == 10);
}

/* A measurement that varies more than the difference decides nothing. */
static void noise(void **state)
{
    (void)state;
    trp__search s;
    trp__search_entry entry[ROOM];
    trp__search_begin(&s, &plain, entry, ROOM);
    assert_true(trp__search_add(&s, 0) && trp__search_add(&s, 1));
    trp__search_step step;
    for (uint32_t n = 0; trp__search_next(&s, &step) || s.phase == TRP__SEARCH_ALONE; n++) {
        if (s.phase == TRP__SEARCH_ALONE && s.at == s.entries) {
            trp__search_final(&s);
            continue;
        }
        /* Medians of 10 and 9, each one round in three off. */
        const float us =
            (step.entry ? 9.0f : 10.0f) + (s.round % 3 == 1 ? (step.entry ? 2 : -2) : 0);
        trp__search_add_time(&s, us);
    }
    assert_int_equal(trp__search_winner(&s), 0);
}

/* Ways that fail are left out, whenever they do; without the first there is no search. */
static void failures(void **state)
{
    (void)state;
    for (uint32_t at = 1; at <= 14; at++) {
        for (uint32_t who = 0; who < 3; who++) {
            device d = {.way = {{{10, 10}, NEVER, 0}, {{5, 5}, NEVER, 0}, {{7, 7}, NEVER, 0}},
                        .clock = 1,
                        .state = seed};
            trp__search s;
            trp__search_entry entry[ROOM];
            d.way[who].fails_at = at;
            const uint32_t won = search_all(&d, 3, &plain, &s, entry);
            const bool alone = at <= 3, in_final = at > 3 && at <= 3 + 10;
            assert_int_equal(s.failed, in_final || (alone && who == 0));
            assert_int_equal(won, s.failed ? 0 : alone && who == 1 ? 2 : 1);
        }
    }
}

/* Entries may be added when all are known, in the order of their speed; those that are hopeless are
 * not measured for long. */
static void additions(void **state)
{
    (void)state;
    device d = draw_device(ROOM, 0);
    trp__search s;
    trp__search_entry entry[ROOM];
    trp__search_begin(&s, &plain, entry, 30);
    for (uint32_t i = 0; i < 10; i++)
        assert_true(trp__search_add(&s, i));
    run(&d, &s);
    trp__search_sort(&s);
    s.rules.hopeless = 1.3f;
    for (uint32_t i = 10; i < 20; i++)
        assert_true(trp__search_add(&s, i));
    d.way[15].us[0] = 0.5;
    d.way[16].us[0] = 0.7; /* 1.4 times as long */
    run(&d, &s);
    assert_int_equal(d.way[16].measured, 2);
    assert_int_equal(d.way[15].measured, 3);
    trp__search_sort(&s);
    assert_int_equal(entry[0].what, 0);
    for (uint32_t i = 2; i < s.entries; i++)
        assert_true(entry[i - 1].us <= entry[i].us);
    assert_int_equal(entry[1].what, 15);
    for (uint32_t i = s.entries; i < 30; i++)
        assert_true(trp__search_add(&s, i));
    assert_false(trp__search_add(&s, 31)); /* no room */
    run(&d, &s);
    trp__search_final(&s);
    assert_false(trp__search_add(&s, 31)); /* too late */
    run(&d, &s);
    assert_int_equal(s.phase, TRP__SEARCH_OVER);
}

/* Whenever there is no time left, the search ends, and what is known decides. */
static void hurry(void **state)
{
    (void)state;
    for (uint32_t after = 1; after < 80; after++) {
        device d = {.way = {{{10, 10}, NEVER, 0}, {{5, 5}, NEVER, 0}, {{7, 7}, NEVER, 0}},
                    .clock = 1,
                    .state = seed};
        trp__search s;
        trp__search_entry entry[ROOM];
        trp__search_step step;
        trp__search_begin(&s, &plain, entry, ROOM);
        for (uint32_t i = 0; i < 3; i++)
            assert_true(trp__search_add(&s, i));
        while (s.phase != TRP__SEARCH_OVER) {
            if (!trp__search_next(&s, &step)) {
                trp__search_final(&s);
                continue;
            }
            trp__search_add_time(&s, measure(&d, &s, &step));
            if (d.steps >= after)
                trp__search_hurry(&s);
        }
        assert_false(s.failed);
        assert_int_equal(entry[trp__search_winner(&s)].what, after < 6 ? 0 : 1);
        assert_true(d.steps <= (after < 9 ? 9 + 6 : after + 6));
    }
}

/* Ways that need long are measured after heat, and longer. */
static void lasting(void **state)
{
    (void)state;
    trp__search_rules rules = plain;
    rules.kinds = 1;
    rules.lasting_us = 50;
    rules.heat_us = 20000;
    rules.lasting_final_us = 10000;
    rules.lasting_rounds = 3;
    rules.lasting_most = 800;
    for (int hot = 0; hot < 2; hot++) {
        const double us = hot ? 60 : 40;
        device d = {.way = {{{us, us}, NEVER, 0}, {{30, 30}, NEVER, 0}}, .clock = 1, .state = seed};
        trp__search s;
        trp__search_entry entry[ROOM];
        assert_int_equal(search_all(&d, 2, &rules, &s, entry), 1);
        assert_int_equal(s.round, hot ? 3 : 5);
        assert_int_equal(d.way[0].measured, hot ? 1 + 1 + 1 + 1 + 3 : 1 + 1 + 1 + 5);
        assert_int_equal(d.longest, hot ? (uint32_t)(20000 / us) : (uint32_t)(300 / 30));
    }
}

int main(void)
{
    const char *given = getenv("TROUPE_TEST_SEED");
    seed = given ? strtoull(given, NULL, 0) : ((uint64_t)getpid() << 32) ^ (uint64_t)time(NULL);
    printf("TROUPE_TEST_SEED=0x%llx\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        UNIT(never_slower), UNIT(finds_the_fastest), UNIT(slower_when_hot), UNIT(noise),
        UNIT(failures),     UNIT(additions),         UNIT(hurry),           UNIT(lasting)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
