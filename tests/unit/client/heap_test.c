/* The heap of objects: extents that never overlap, come together again when they are given back,
 * and a cache for each class. SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include "client/memory/heap.h"
#include "support/label.h"

#include <sys/mman.h>

TROUPE_TEST("no tsan");

enum { PAGE = 4096, PAGES = 64, BYTES = PAGE * PAGES, SEGMENT = 7 };

static trp__heap heap;
static _Atomic uint32_t incarnation;
static char *memory;

static int begin(void **state)
{
    (void)state;
    memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    memset(&heap, 0, sizeof heap);
    trp__heap_init(&heap, NULL, &incarnation, NULL);
    assert_true(trp__heap_reserve(&heap));
    trp__heap_begin(&heap, memory, BYTES, SEGMENT);
    assert_int_equal(trp__heap_segment(&heap), SEGMENT);
    return 0;
}

static int end(void **state)
{
    (void)state;
    trp__heap_end(&heap);
    return munmap(memory, BYTES);
}

static void extents(void **state)
{
    (void)state;
    uint64_t a_at, b_at, c_at, at;
    trp__extent *a = trp__heap_take(&heap, 3 * PAGE, &a_at);
    trp__extent *b = trp__heap_take(&heap, 1, &b_at);
    trp__extent *c = trp__heap_take(&heap, 0, &c_at); /* which takes a page, too */
    assert_true(a && b && c);
    assert_true(a_at == 0 && b_at == (uint64_t)3 * PAGE && c_at == (uint64_t)4 * PAGE);
    assert_null(trp__heap_take(&heap, BYTES - 4 * PAGE, &at));
    assert_ptr_equal(trp__heap_at(&heap, b_at), memory + b_at);
    /* What is cut off, or given back, is the next one's, and its pages were given up. */
    memset(memory, 1, 3 * PAGE);
    trp__heap_cut(&heap, a, PAGE + 1);
    assert_true(memory[2 * PAGE - 1] == 1 && memory[2 * PAGE] == 0);
    assert_non_null(trp__heap_take(&heap, PAGE, &at));
    assert_int_equal(at, 2 * PAGE);
    trp__heap_return(&heap, b);
    trp__heap_return(&heap, a);
    trp__heap_return(&heap, c); /* with what lies before and behind */
    c = trp__heap_take(&heap, BYTES - 3 * PAGE, &c_at);
    assert_non_null(c);
    assert_int_equal(c_at, 3 * PAGE);
    trp__heap_return(&heap, c);
}

/* Random extents: each has its own bytes in it until it is given back. */
static void extents_at_random(void **state)
{
    (void)state;
    enum { HELD = 16 };
    trp__extent *held[HELD] = {0};
    uint64_t at[HELD], bytes[HELD], whole;
    srand(1);
    for (int round = 0; round < 20000; round++) {
        const int i = rand() % HELD;
        if (held[i]) {
            for (uint64_t k = 0; k < bytes[i]; k += 512)
                assert_int_equal(memory[at[i] + k], i + 1);
            if (bytes[i] > 1 && rand() % 3 == 0) {
                bytes[i] /= 2;
                trp__heap_cut(&heap, held[i], bytes[i]);
                continue;
            }
            trp__heap_return(&heap, held[i]);
            held[i] = NULL;
            continue;
        }
        bytes[i] = 1 + (uint64_t)rand() % (BYTES / 8);
        held[i] = trp__heap_take(&heap, bytes[i], &at[i]);
        if (held[i])
            memset(memory + at[i], i + 1, bytes[i]);
    }
    for (int i = 0; i < HELD; i++) {
        if (held[i])
            trp__heap_return(&heap, held[i]);
    }
    assert_non_null(trp__heap_take(&heap, BYTES, &whole));
}

static int made, ended;

static void *cache_make(trp__heap *h)
{
    assert_ptr_equal(h, &heap);
    made++;
    return &made;
}

static void cache_end(void *cache)
{
    assert_ptr_equal(cache, &made);
    ended++;
}

static void caches(void **state)
{
    (void)state;
    static const trp__object_class with = {.cache_make = cache_make, .cache_end = cache_end},
                                   without = {0}, other = {0};
    made = ended = 0;
    for (int i = 0; i < 2; i++) {
        trp__heap_add_class(&heap, &with);
        trp__heap_add_class(&heap, &without);
    }
    assert_int_equal(made, 1);
    assert_ptr_equal(trp__heap_cache(&heap, &with), &made);
    assert_null(trp__heap_cache(&heap, &without));
    assert_null(trp__heap_cache(&heap, &other));
    atomic_store(&incarnation, 3);
    assert_int_equal(trp__heap_incarnation(&heap), 3);
}

static int caches_ended(void **state)
{
    end(state);
    assert_int_equal(ended, 1);
    return 0;
}

UNIT_MAIN(cmocka_unit_test_setup_teardown(extents, begin, end),
          cmocka_unit_test_setup_teardown(extents_at_random, begin, end),
          cmocka_unit_test_setup_teardown(caches, begin, caches_ended))
