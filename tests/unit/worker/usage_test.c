/* What a request is found to come after, against the list of all requests before it. */
#include "worker/scheduler.h"

#include "support/reference/random.h"

#include "base/os/zeroed.h"

#include "support/unit.h"
#include <time.h>

enum { REQUESTS = 1500, SLOT = 5, FEW = 3 };

static trp__scheduler *s;
static trp__record *record;
static uint64_t bytes, seed;

static int set_up(void **state)
{
    (void)state;
    s = trp__zeroed(sizeof *s);
    s->reply = trp__zeroed(sizeof *s->reply);
    record = calloc(REQUESTS, sizeof *record);
    seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    trp__usages_free(s);
    trp__zeroed_free(s->reply, sizeof *s->reply);
    trp__zeroed_free(s, sizeof *s);
    free(record);
    return 0;
}

static trp__access random_access(uint64_t longest)
{
    static const uint8_t modes[] = {TRP__READ, TRP__READ, TRP__WRITE, TRP__READ | TRP__WRITE,
                                    TRP__WRITE | TRP__COVER};
    trp__access a = {.slot = SLOT + random_below(&seed, FEW),
                     .mode = modes[random_below(&seed, 5)]};
    if (random_below(&seed, 10) == 0) {
        a.bytes = bytes;
    } else {
        a.offset = random_below(&seed, (uint32_t)bytes);
        uint64_t most = bytes - a.offset < longest ? bytes - a.offset : longest;
        a.bytes = random_below(&seed, (uint32_t)most + 1);
    }
    a.whole = a.bytes == bytes;
    return a;
}

/* Whether two requests may not change places. */
static bool conflict(const trp__record *a, const trp__record *b)
{
    for (uint32_t i = 0; i < a->access_count; i++) {
        for (uint32_t k = 0; k < b->access_count; k++) {
            const trp__access *x = &a->access[i], *y = &b->access[k];
            if (((x->mode | y->mode) & TRP__WRITE) && x->slot == y->slot && x->bytes > 0 &&
                y->bytes > 0 && x->offset < y->offset + y->bytes &&
                y->offset < x->offset + x->bytes)
                return true;
        }
    }
    return false;
}

/* A request with a bit for each that it comes after, through any number of others. */
static uint8_t after[REQUESTS][REQUESTS];

static void note_after(uint32_t one, uint32_t before)
{
    for (uint32_t i = 0; i <= before; i++)
        after[one][i] |= i == before || after[before][i];
}

/* Requests at random, of `actors` actors: each comes after all those with which it conflicts. That
 * it waits for others, too, may be where there are many readers or ranges, as `exactly` says. */
static void play(uint32_t actors, uint64_t size, uint64_t longest, bool exactly)
{
    trp__pending *p = calloc(1, sizeof *p);
    uint32_t last[TRP__ACTORS] = {0}; /* of each actor, + 1 */
    bytes = size;
    memset(after, 0, sizeof after);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        trp__record *r = &record[i];
        *r = (trp__record){.ticket = i + 1,
                           .actor = (uint16_t)random_below(&seed, actors),
                           .access_count = (uint16_t)(1 + random_below(&seed, 3))};
        memset(p, 0, sizeof *p);
        for (uint32_t k = 0; k < r->access_count; k++) {
            r->access[k] = random_access(longest);
            trp__usage_note(s, p, r, &r->access[k]);
        }
        if (last[r->actor])
            note_after(i, last[r->actor] - 1);
        last[r->actor] = i + 1;
        assert_false(p->waits_for & trp__bit(r->actor));
        assert_true(p->follows < r->ticket && p->overwrites < r->ticket);
        for (uint64_t rest = p->waits_for; rest; rest &= rest - 1) {
            uint32_t actor = (uint32_t)__builtin_ctzll(rest), before = (uint32_t)p->ticket[actor];
            assert_in_range(before, 1, i);
            assert_int_equal(record[before - 1].actor, actor);
            assert_true(!exactly || conflict(r, &record[before - 1]));
            note_after(i, before - 1);
        }
        for (uint32_t k = 0; k < i; k++)
            assert_true(after[i][k] || !conflict(r, &record[k]));
    }
    free(p);
}

static void few_actors(void **state)
{
    (void)state;
    play(4, 300, 40, true);
}

static void many_actors(void **state)
{
    (void)state;
    play(60, 300, 40, false);
}

static void wide_ranges(void **state)
{
    (void)state;
    play(4, 50, 50, true);
}

/* More ranges than are kept. */
static void many_ranges(void **state)
{
    (void)state;
    bytes = 1 << 20;
    trp__pending *p = calloc(1, sizeof *p);
    trp__record r = {.access_count = 1};
    for (uint64_t i = 0; i < 10000; i++) {
        r.ticket++;
        r.actor = (uint16_t)(i % 2);
        r.access[0] = (trp__access){.slot = SLOT, .mode = TRP__WRITE, .offset = 2 * i, .bytes = 1};
        trp__usage_note(s, p, &r, &r.access[0]);
        assert_true(s->usage[SLOT].parts.count <= 4096);
    }
    for (uint64_t i = 0; i < 10000; i++) { /* each comes after the one that has written there */
        memset(p, 0, sizeof *p);
        r.ticket++;
        r.actor = 2;
        r.access[0] = (trp__access){.slot = SLOT, .mode = TRP__READ, .offset = 2 * i, .bytes = 1};
        trp__usage_note(s, p, &r, &r.access[0]);
        assert_true(p->waits_for & 3);
        assert_true((p->waits_for & 1 ? p->ticket[0] : 0) >= i + 1 ||
                    (p->waits_for & 2 ? p->ticket[1] : 0) >= i + 1);
    }
    free(p);
}

/* The last request of the same actor that reads what this one writes, which must be known to be
 * done before; of other ranges it does not matter. */
static void overwrites(void **state)
{
    (void)state;
    bytes = 100;
    const struct {
        uint8_t mode;
        uint64_t offset, bytes, overwrites, follows;
    } row[] = {
        {TRP__READ, 0, 10, 0, 0},   {TRP__WRITE, 10, 10, 0, 0}, {TRP__WRITE, 5, 3, 1, 0},
        {TRP__READ, 9, 2, 0, 2},    {TRP__WRITE, 0, 12, 4, 3},  {TRP__READ, 50, 50, 0, 0},
        {TRP__WRITE, 0, 100, 6, 5}, {TRP__READ, 0, 1, 0, 7},    {TRP__WRITE, 40, 1, 0, 7},
        {TRP__WRITE, 0, 1, 8, 7},
    };
    trp__pending *p = calloc(1, sizeof *p);
    for (uint64_t i = 0; i < sizeof row / sizeof *row; i++) {
        trp__record r = {.ticket = i + 1, .access_count = 1};
        r.access[0] = (trp__access){.slot = SLOT,
                                    .mode = row[i].mode,
                                    .offset = row[i].offset,
                                    .bytes = row[i].bytes,
                                    .whole = row[i].bytes == bytes};
        memset(p, 0, sizeof *p);
        trp__usage_note(s, p, &r, &r.access[0]);
        assert_int_equal(p->overwrites, row[i].overwrites);
        assert_int_equal(p->follows, row[i].follows);
    }
    free(p);
}

UNIT_MAIN(cmocka_unit_test_setup_teardown(few_actors, set_up, tear_down),
          cmocka_unit_test_setup_teardown(many_actors, set_up, tear_down),
          cmocka_unit_test_setup_teardown(wide_ranges, set_up, tear_down),
          cmocka_unit_test_setup_teardown(many_ranges, set_up, tear_down),
          cmocka_unit_test_setup_teardown(overwrites, set_up, tear_down))
