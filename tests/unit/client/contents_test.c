/* What is known of a buffer's bytes, against an array with a word for each byte. */
#include "client/memory/memory.h"

#include "support/reference/random.h"

#include "support/unit.h"
#include <time.h>

enum { SLOT = 3, MOST = 30000 };

static trp_device *device;
static uint64_t word[TRP__WORDS][MOST];
static uint64_t bytes, seed;

static int set_up(void **state)
{
    (void)state;
    device = calloc(1, sizeof *device);
    device->memory.meta = calloc(SLOT + 1, sizeof *device->memory.meta);
    device->memory.buffers_made = SLOT + 1;
    atomic_init(&device->incarnation, 1);
    trp__contents_init(device);
    memset(word, 0, sizeof word);
    seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    trp__contents_destroy(device);
    free(device->memory.meta);
    free(device);
    return 0;
}

static trp__access range_of(uint64_t begin, uint64_t end)
{
    return (trp__access){
        .slot = SLOT, .offset = begin, .bytes = end - begin, .whole = begin == 0 && end == bytes};
}

static trp__access random_range(uint64_t longest)
{
    if (random_below(&seed, 8) == 0)
        return range_of(0, bytes);
    uint64_t begin = random_below(&seed, (uint32_t)bytes);
    uint64_t most = bytes - begin < longest ? bytes - begin : longest;
    return range_of(begin, begin + random_below(&seed, (uint32_t)most + 1));
}

static void raise(const trp__access *access, trp__word which, uint64_t ticket)
{
    trp__contents_raise(device, access, which, ticket);
    for (uint64_t i = access->offset; i < access->offset + access->bytes; i++)
        word[which][i] = word[which][i] > ticket ? word[which][i] : ticket;
}

static void check_exactly(const trp__access *access)
{
    uint64_t reached = access->offset;
    trp__walk walk = trp__walk_access(device, access);
    for (const trp__part *part; (part = trp__walk_next(&walk));) {
        assert_int_equal(part->range.begin, reached);
        assert_true(part->range.end > reached);
        for (; reached < part->range.end; reached++) {
            for (int i = 0; i < TRP__WORDS; i++)
                assert_int_equal(part->word[i], word[i][reached]);
        }
    }
    assert_int_equal(reached, access->offset + access->bytes);
}

/* Tickets come in any order, as ends do. */
static void as_every_byte_by_itself(void **state)
{
    (void)state;
    bytes = 500;
    for (int step = 0; step < 4000; step++) {
        trp__access access = random_range(60);
        raise(&access, (trp__word)random_below(&seed, TRP__WORDS),
              1 + random_below(&seed, 100 + (uint32_t)step));
        access = random_range(500);
        check_exactly(&access);
    }
    assert_true(atomic_load(&device->memory.meta[SLOT].contents.parts) > 50);
    trp__contents_reset(device, SLOT);
    memset(word, 0, sizeof word);
    trp__access all = range_of(0, bytes);
    check_exactly(&all);
    assert_false(trp__is_damaged(&device->memory.meta[SLOT].contents));
}

static void nothing_of_nothing(void **state)
{
    (void)state;
    bytes = 100;
    trp__access none = range_of(7, 7), all = range_of(0, bytes);
    raise(&none, TRP__LOST, 5);
    check_exactly(&none);
    check_exactly(&all);
    assert_int_equal(atomic_load(&device->memory.meta[SLOT].contents.parts), 0);
}

/* Where there are more ranges than are kept, what is said is never better than what is true. */
static void never_too_good(void **state)
{
    (void)state;
    bytes = MOST;
    for (uint64_t ticket = 1; ticket < 40000; ticket++) {
        trp__access access = random_range(5);
        trp__word which = (trp__word)random_below(&seed, TRP__WORDS);
        if (access.whole && which != TRP__COVERED)
            continue;
        raise(&access, which, ticket);
        assert_true(atomic_load(&device->memory.meta[SLOT].contents.parts) <= TRP__PARTS_MAX);
    }
    trp__access all = range_of(0, bytes);
    trp__walk walk = trp__walk_access(device, &all);
    for (const trp__part *part; (part = trp__walk_next(&walk));) {
        for (uint64_t i = part->range.begin; i < part->range.end; i++) {
            bool untold = word[TRP__POISON][i] > word[TRP__ACCEPTED][i];
            assert_true(part->word[TRP__COVERED] <= word[TRP__COVERED][i]);
            assert_true(part->word[TRP__GOOD] <= word[TRP__GOOD][i]);
            if (word[TRP__LOST][i] > word[TRP__GOOD][i])
                assert_true(part->word[TRP__LOST] > part->word[TRP__GOOD]);
            if (untold && word[TRP__POISON][i] > word[TRP__GOOD][i])
                assert_true(part->word[TRP__POISON] > part->word[TRP__ACCEPTED]);
        }
    }
}

/* Parts that tell of nothing any more make room; what they told stays true. */
static void parts_that_are_over_go(void **state)
{
    (void)state;
    bytes = MOST;
    for (uint64_t i = 0; i < bytes - 1; i += 2) {
        trp__access access = range_of(i, i + 1);
        raise(&access, TRP__LOST, 2 * i + 1);
        raise(&access, TRP__COVERED, 2 * i + 2);
        raise(&access, TRP__GOOD, 2 * i + 2);
    }
    trp__access last = range_of(100, 200);
    raise(&last, TRP__LOST, UINT32_MAX);
    trp__access all = range_of(0, bytes);
    trp__walk walk = trp__walk_access(device, &all);
    for (const trp__part *part; (part = trp__walk_next(&walk));) {
        bool lost = part->word[TRP__LOST] > part->word[TRP__GOOD];
        assert_int_equal(lost, part->range.begin >= 100 && part->range.begin < 200);
    }
}

UNIT_MAIN(cmocka_unit_test_setup_teardown(as_every_byte_by_itself, set_up, tear_down),
          cmocka_unit_test_setup_teardown(nothing_of_nothing, set_up, tear_down),
          cmocka_unit_test_setup_teardown(never_too_good, set_up, tear_down),
          cmocka_unit_test_setup_teardown(parts_that_are_over_go, set_up, tear_down))
