/* The table of plans against a list that is searched from end to end. */
#include "cache/lru.h"

#include "support/reference/random.h"
#include "support/label.h"

#include "support/unit.h"
#include <time.h>

TROUPE_TEST("no tsan");

enum { CAPACITY = 7, KEYS = 20 };

typedef struct key {
    uint64_t word[3];
} key;

static key key_of(uint32_t number)
{
    return (key){{number % 3, 0, number}};
}

static uint64_t dropped_sum, dropped_count;

static void drop(void *context, void *value)
{
    assert_ptr_equal(context, &dropped_sum);
    dropped_sum += *(uint64_t *)value;
    dropped_count++;
}

static trp__lru *create(void)
{
    trp__lru *lru = NULL;
    trp_error error = {0};
    dropped_sum = dropped_count = 0;
    assert_int_equal(
        trp__lru_create(sizeof(key), sizeof(uint64_t), CAPACITY, drop, &dropped_sum, &lru, &error),
        TRP_OK);
    return lru;
}

static void against_a_list(void **state)
{
    (void)state;
    uint64_t random = (uint64_t)time(NULL), next_value = 1, live = 0, added = 0;
    print_message("seed %llu\n", (unsigned long long)random);
    uint32_t order[CAPACITY], count = 0; /* oldest first */
    uint64_t value_of[KEYS];
    trp__lru *lru = create();
    for (int step = 0; step < 100000; step++) {
        uint32_t number = random_below(&random, KEYS), at = 0;
        key k = key_of(number);
        while (at < count && order[at] != number)
            at++;
        uint64_t *value = trp__lru_find(lru, &k);
        assert_true((value != NULL) == (at < count));
        if (value)
            assert_true(*value == value_of[number]);
        if (at < count) { /* it was asked for: the newest */
            memmove(order + at, order + at + 1, (count - at - 1) * sizeof *order);
            order[count - 1] = number;
        }
        if (value && random_below(&random, 8) == 0) {
            live -= *value;
            trp__lru_remove(lru, value);
            count--;
        } else if (!value) {
            value = trp__lru_add(lru, &k);
            assert_true(*value == 0);
            if (count == CAPACITY) {
                live -= value_of[order[0]];
                memmove(order, order + 1, --count * sizeof *order);
            }
            value_of[number] = *value = next_value++;
            live += *value;
            added += *value;
            order[count++] = number;
        }
        assert_true(dropped_sum == added - live);
    }
    trp__lru_destroy(lru);
    assert_true(dropped_sum == added && dropped_count == next_value - 1);
}

static void nothing(void **state)
{
    (void)state;
    trp__lru_destroy(NULL);
    trp__lru *lru = create();
    key k = key_of(1);
    assert_null(trp__lru_find(lru, &k));
    trp__lru_destroy(lru);
    assert_true(dropped_count == 0);
}

UNIT_MAIN(UNIT(against_a_list), UNIT(nothing))
