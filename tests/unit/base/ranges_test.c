/* A vector of ranges against an array of bytes. */
#include "base/ranges.h"

#include "support/reference/random.h"

#include "support/unit.h"
#include <time.h>

enum { BYTES = 300, ROUNDS = 300, STEPS = 200 };

typedef struct element {
    trp__range range;
    uint64_t value;
    char more[9];
} element;

static element *element_at(const trp__ranges *r, uint32_t i)
{
    return trp__ranges_at(r, sizeof(element), i);
}

static void check(const trp__ranges *r, const uint64_t value[BYTES])
{
    uint64_t reached = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        const element *e = element_at(r, i);
        assert_true(e->range.begin >= reached && e->range.begin < e->range.end);
        for (; reached < e->range.begin; reached++)
            assert_int_equal(value[reached], 0);
        for (; reached < e->range.end; reached++)
            assert_int_equal(value[reached], e->value);
    }
    for (; reached < BYTES; reached++)
        assert_int_equal(value[reached], 0);
}

static void check_find(const trp__ranges *r, uint64_t offset)
{
    uint32_t i = trp__ranges_find(r, sizeof(element), offset);
    assert_true(i == r->count || element_at(r, i)->range.end > offset);
    assert_true(i == 0 || element_at(r, i - 1)->range.end <= offset);
}

static void cuts_what_it_says(void **state)
{
    (void)state;
    uint64_t rng = (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)rng);
    for (int round = 0; round < ROUNDS; round++) {
        trp__ranges r = {0};
        uint64_t value[BYTES] = {0};
        for (int step = 0; step < STEPS; step++) {
            uint64_t begin = random_below(&rng, BYTES + 1);
            uint64_t end = begin + random_below(&rng, step % 2 ? 6 : BYTES + 1);
            uint32_t first, last;
            end = end > BYTES ? BYTES : end;
            assert_true(
                trp__ranges_cut(&r, sizeof(element), begin, end, UINT32_MAX, &first, &last));
            assert_int_equal(last == first, begin == end);
            if (first < last) {
                assert_int_equal(element_at(&r, first)->range.begin, begin);
                assert_int_equal(element_at(&r, last - 1)->range.end, end);
            }
            for (uint32_t i = first; i < last; i++)
                element_at(&r, i)->value += (uint64_t)step + 1;
            for (uint64_t k = begin; k < end; k++)
                value[k] += (uint64_t)step + 1;
            check_find(&r, random_below(&rng, BYTES + 9));
        }
        check(&r, value);
        trp__ranges_free(&r);
        assert_null(r.at);
    }
}

/* A cut that would make too many changes nothing. */
static void keeps_the_bound(void **state)
{
    (void)state;
    trp__ranges r = {0};
    uint32_t first, last;
    for (uint64_t i = 0; i < 8; i++)
        assert_true(trp__ranges_cut(&r, sizeof(element), 10 * i, 10 * i + 5, 8, &first, &last));
    assert_int_equal(r.count, 8);
    assert_false(trp__ranges_cut(&r, sizeof(element), 6, 7, 8, &first, &last));
    assert_false(trp__ranges_cut(&r, sizeof(element), 0, 100, 15, &first, &last));
    assert_false(trp__ranges_cut(&r, sizeof(element), 11, 12, 9, &first, &last));
    assert_true(trp__ranges_cut(&r, sizeof(element), 10, 15, 8, &first, &last));
    assert_int_equal(last - first, 1);
    assert_true(trp__ranges_cut(&r, sizeof(element), 0, 100, 16, &first, &last));
    assert_int_equal(last - first, 16);
    trp__ranges_free(&r);
}

/* Offsets of buffers go up to 2^64 - 1. */
static void goes_to_the_end(void **state)
{
    (void)state;
    trp__ranges r = {0};
    uint32_t first, last;
    assert_true(trp__ranges_cut(&r, sizeof(element), UINT64_MAX - 1, UINT64_MAX, 9, &first, &last));
    assert_true(trp__ranges_cut(&r, sizeof(element), 0, UINT64_MAX, 9, &first, &last));
    assert_int_equal(r.count, 2);
    assert_int_equal(trp__ranges_find(&r, sizeof(element), UINT64_MAX), 2);
    trp__ranges_free(&r);
}

UNIT_MAIN(UNIT(cuts_what_it_says), UNIT(keeps_the_bound), UNIT(goes_to_the_end))
