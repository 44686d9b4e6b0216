/*
 * The sub-allocator by itself; suballoc_model_test.c has random runs. The source is included, not
 * linked, so that its own allocations can be made to fail and its bookkeeping be spoilt on purpose.
 */
#include "support/label.h"
#include "support/reference/random.h"
#include "support/unit.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

TROUPE_TEST("computes", "no tsan");

static long allocations_before_failure = -1; /* -1: never fail */

static bool allocation_fails(void)
{
    if (allocations_before_failure < 0) {
        return false;
    }
    return allocations_before_failure-- == 0;
}

static void *injected_calloc(size_t count, size_t size)
{
    return allocation_fails() ? NULL : calloc(count, size);
}

static void *injected_realloc(void *old, size_t size)
{
    return allocation_fails() ? NULL : realloc(old, size);
}

#define calloc injected_calloc

#define realloc injected_realloc

#include "client/core/suballoc.c"

#undef calloc

#undef realloc

#define GRANULE ((uint64_t)TRP__SUBALLOC_GRANULE)

#define MIB (UINT64_C(1) << 20)

static uint64_t rng;

static trp__suballoc *create(void)
{
    trp__suballoc *sa = trp__suballoc_create();
    assert_non_null(sa);
    return sa;
}

static trp__suballoc_block take(trp__suballoc *sa, uint64_t size)
{
    trp__suballoc_block block;
    assert_true(trp__suballoc_alloc(sa, size, &block));
    assert_true(block.node != 0 && block.size >= size && block.size - size < GRANULE);
    assert_true(block.size % GRANULE == 0 && block.offset % GRANULE == 0);
    return block;
}

/* Expects a refusal that changes nothing. */
static void refuse(trp__suballoc *sa, uint64_t size)
{
    uint64_t free_bytes = trp__suballoc_free_bytes(sa);
    trp__suballoc_block block = {1, 1, 1, 1};
    assert_false(trp__suballoc_alloc(sa, size, &block));
    assert_true(block.node == 0 && block.region == 0 && block.offset == 0 && block.size == 0);
    assert_true(trp__suballoc_free_bytes(sa) == free_bytes);
    assert_true(trp__suballoc_check(sa));
}

static void nothing_to_give_without_regions(void **state)
{
    (void)state;
    trp__suballoc *sa = create();
    refuse(sa, 1);
    refuse(sa, 0);
    refuse(sa, UINT64_MAX);
    assert_true(trp__suballoc_free_bytes(sa) == 0 && trp__suballoc_used_bytes(sa) == 0);
    assert_true(trp__suballoc_largest_free(sa) == 0);
    assert_false(trp__suballoc_region_empty(sa, 0));
    assert_false(trp__suballoc_remove_region(sa, 0));
    assert_true(trp__suballoc_check(sa));
    trp__suballoc_destroy(sa);
    trp__suballoc_destroy(NULL);
}

static void sizes_are_rounded_up(void **state)
{
    (void)state;
    trp__suballoc *sa = create();
    assert_true(trp__suballoc_add_region(sa, 3, MIB));
    const struct {
        uint64_t asked, got;
    } cases[] = {{1, 256}, {255, 256}, {256, 256}, {257, 512}, {511, 512}, {4097, 4352}};
    uint64_t offset = 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        trp__suballoc_block block = take(sa, cases[i].asked);
        assert_true(block.size == cases[i].got && block.offset == offset && block.region == 3);
        offset += block.size;
    }
    assert_true(trp__suballoc_used_bytes(sa) == offset);
    assert_true(trp__suballoc_free_bytes(sa) == MIB - offset);
    trp__suballoc_destroy(sa);
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    trp__suballoc *sa = create();
    assert_true(trp__suballoc_add_region(sa, 0, MIB));
    refuse(sa, 0);
    refuse(sa, MIB + 1);
    refuse(sa, UINT64_C(1) << 63);
    for (uint64_t below = 0; below < 3 * GRANULE; below++) {
        refuse(sa, UINT64_MAX - below);
    }
    take(sa, MIB);
    refuse(sa, 1);
    trp__suballoc_destroy(sa);
}

/* The search rounds a request up to the next class, so a block of just the right size needs care.
 */
static void whole_region_of_any_size(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6000; i++) {
        uint64_t size = i < 3000 ? (i + 1) * GRANULE : random_bits(&rng, 1, 64);
        size = size < GRANULE ? GRANULE : size;
        trp__suballoc *sa = create();
        assert_true(trp__suballoc_add_region(sa, 7, size));
        uint64_t usable = size - size % GRANULE;
        assert_true(trp__suballoc_largest_free(sa) == usable);
        refuse(sa, usable + 1);
        trp__suballoc_block block = take(sa, usable);
        assert_true(block.offset == 0 && block.size == usable && block.region == 7);
        refuse(sa, 1);
        assert_true(trp__suballoc_largest_free(sa) == 0);
        trp__suballoc_free(sa, block.node);
        assert_true(trp__suballoc_region_empty(sa, 7));
        assert_true(trp__suballoc_largest_free(sa) == usable);
        /* One granule short of it, and with the rest still of use. */
        if (usable > GRANULE) {
            take(sa, usable - GRANULE);
            take(sa, GRANULE);
            refuse(sa, 1);
        }
        assert_true(trp__suballoc_check(sa));
        trp__suballoc_destroy(sa);
    }
}

/* The one block that fits, at each place of a list of too small ones of its class. */
static void the_only_fit_of_a_class_is_found(void **state)
{
    (void)state;
    enum { REGIONS = 200 };
    const uint64_t small = 1024 * GRANULE, large = small + 5 * GRANULE;
    for (uint32_t at = 0; at < REGIONS; at += 13) {
        trp__suballoc *sa = create();
        for (uint32_t r = 0; r < REGIONS; r++) {
            assert_true(trp__suballoc_add_region(sa, r, r == at ? large : small));
        }
        assert_true(trp__suballoc_largest_free(sa) == large);
        trp__suballoc_block block = take(sa, large);
        assert_true(block.region == at);
        refuse(sa, large);
        trp__suballoc_destroy(sa);
    }
}

static void neighbours_merge(void **state)
{
    (void)state;
    /* Each order in which three neighbours between two used blocks can be freed. */
    const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int order = 0; order < 6; order++) {
        trp__suballoc *sa = create();
        assert_true(trp__suballoc_add_region(sa, 0, 5 * 4096));
        trp__suballoc_block block[5];
        for (int i = 0; i < 5; i++) {
            block[i] = take(sa, 4096);
        }
        assert_true(trp__suballoc_free_bytes(sa) == 0);
        for (int i = 0; i < 3; i++) {
            trp__suballoc_free(sa, block[1 + orders[order][i]].node);
            assert_true(trp__suballoc_check(sa));
            assert_true(trp__suballoc_free_bytes(sa) == (uint64_t)(i + 1) * 4096);
        }
        assert_true(trp__suballoc_largest_free(sa) == UINT64_C(3) * 4096);
        trp__suballoc_block middle = take(sa, UINT64_C(3) * 4096);
        assert_true(middle.offset == 4096);
        assert_false(trp__suballoc_region_empty(sa, 0));
        trp__suballoc_free(sa, block[0].node);
        trp__suballoc_free(sa, block[4].node);
        trp__suballoc_free(sa, middle.node);
        assert_true(trp__suballoc_region_empty(sa, 0) && trp__suballoc_check(sa));
        trp__suballoc_destroy(sa);
    }
}

static void exhaustion_and_back(void **state)
{
    (void)state;
    enum { BLOCKS = 5000 };
    trp__suballoc *sa = create();
    assert_true(trp__suballoc_add_region(sa, 0, BLOCKS * GRANULE));
    uint32_t *nodes = calloc(BLOCKS, sizeof(*nodes));
    assert_non_null(nodes);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < BLOCKS; i++) {
            nodes[i] = take(sa, 1).node;
        }
        refuse(sa, 1);
        for (uint32_t i = BLOCKS - 1; i > 0; i--) {
            uint32_t other = random_below(&rng, i + 1), kept = nodes[i];
            nodes[i] = nodes[other];
            nodes[other] = kept;
        }
        for (uint32_t i = 0; i < BLOCKS; i++) {
            trp__suballoc_free(sa, nodes[i]);
        }
        assert_true(trp__suballoc_region_empty(sa, 0) && trp__suballoc_check(sa));
        assert_true(trp__suballoc_largest_free(sa) == BLOCKS * GRANULE);
        /* Nodes are used again: no more of them than blocks at the peak. */
        assert_true(sa->node_count <= BLOCKS + 1);
    }
    free(nodes);
    trp__suballoc_destroy(sa);
}

static void regions_come_and_go(void **state)
{
    (void)state;
    trp__suballoc *sa = create();
    assert_false(trp__suballoc_add_region(sa, TRP__SUBALLOC_REGION_LIMIT, MIB));
    assert_false(trp__suballoc_add_region(sa, UINT32_MAX, MIB));
    assert_false(trp__suballoc_add_region(sa, 0, 0));
    assert_false(trp__suballoc_add_region(sa, 0, GRANULE - 1));
    assert_true(trp__suballoc_add_region(sa, TRP__SUBALLOC_REGION_LIMIT - 1, 2 * GRANULE - 1));
    assert_true(trp__suballoc_free_bytes(sa) == GRANULE);
    assert_false(trp__suballoc_add_region(sa, TRP__SUBALLOC_REGION_LIMIT - 1, MIB));
    assert_true(trp__suballoc_add_region(sa, 0, MIB));
    assert_true(trp__suballoc_check(sa));

    trp__suballoc_block block = take(sa, MIB);
    assert_true(block.region == 0);
    assert_false(trp__suballoc_region_empty(sa, 0));
    assert_false(trp__suballoc_remove_region(sa, 0));
    assert_true(trp__suballoc_remove_region(sa, TRP__SUBALLOC_REGION_LIMIT - 1));
    assert_false(trp__suballoc_remove_region(sa, TRP__SUBALLOC_REGION_LIMIT - 1));
    assert_false(trp__suballoc_region_empty(sa, TRP__SUBALLOC_REGION_LIMIT - 1));
    refuse(sa, 1);
    trp__suballoc_free(sa, block.node);
    assert_true(trp__suballoc_remove_region(sa, 0));
    assert_true(trp__suballoc_free_bytes(sa) == 0);
    refuse(sa, 1);

    /* The id is free again, also for another size; the node too. */
    uint32_t nodes = sa->node_count;
    assert_true(trp__suballoc_add_region(sa, 0, 2 * MIB));
    assert_true(sa->node_count == nodes);
    assert_true(take(sa, 2 * MIB).region == 0);
    assert_false(trp__suballoc_region_empty(sa, 1u << 20));
    assert_true(trp__suballoc_check(sa));
    trp__suballoc_destroy(sa);
}

static void region_of_all_64_bits(void **state)
{
    (void)state;
    trp__suballoc *sa = create();
    const uint64_t all = UINT64_MAX - UINT64_MAX % GRANULE;
    assert_true(trp__suballoc_add_region(sa, 0, UINT64_MAX));
    assert_false(trp__suballoc_add_region(sa, 1, GRANULE)); /* the sum would overflow */
    assert_true(trp__suballoc_free_bytes(sa) == all);
    trp__suballoc_block block = take(sa, all);
    assert_false(trp__suballoc_add_region(sa, 1, GRANULE));
    trp__suballoc_free(sa, block.node);
    assert_true(take(sa, UINT64_C(1) << 63).offset == 0);
    assert_true(take(sa, (UINT64_C(1) << 63) - GRANULE).offset == UINT64_C(1) << 63);
    refuse(sa, 1);
    assert_true(trp__suballoc_check(sa));
    trp__suballoc_destroy(sa);
}

static void many_regions_never_merge_with_each_other(void **state)
{
    (void)state;
    trp__suballoc *sa = create();
    for (uint32_t r = 0; r < 1000; r++) {
        assert_true(trp__suballoc_add_region(sa, r * 65, 4096));
    }
    assert_true(trp__suballoc_check(sa));
    refuse(sa, 4097);
    uint32_t nodes[1000];
    for (uint32_t r = 0; r < 1000; r++) {
        nodes[r] = take(sa, 4096).node;
    }
    refuse(sa, 1);
    for (uint32_t r = 0; r < 1000; r++) {
        trp__suballoc_free(sa, nodes[r]);
    }
    assert_true(trp__suballoc_largest_free(sa) == 4096);
    for (uint32_t r = 0; r < 1000; r++) {
        assert_true(trp__suballoc_remove_region(sa, r * 65));
    }
    assert_true(trp__suballoc_free_bytes(sa) == 0 && trp__suballoc_check(sa));
    trp__suballoc_destroy(sa);
}

/* One pass that needs every kind of bookkeeping memory; false when a step was refused for want of
 * it, after which the same step must do. */
static bool pass_with_failure(long fail_at)
{
    enum { BLOCKS = 300 };
    uint32_t nodes[BLOCKS];
    bool clean = true;
    allocations_before_failure = fail_at;
    trp__suballoc *sa = trp__suballoc_create();
    if (sa == NULL) {
        clean = false;
        sa = create();
    }
    const uint32_t regions[] = {0, 5, 900};
    for (size_t i = 0; i < 3; i++) {
        if (!trp__suballoc_add_region(sa, regions[i], 100 * GRANULE)) {
            clean = false;
            assert_true(trp__suballoc_check(sa));
            assert_true(trp__suballoc_free_bytes(sa) == i * 100 * GRANULE);
            assert_true(trp__suballoc_add_region(sa, regions[i], 100 * GRANULE));
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        trp__suballoc_block block;
        uint64_t free_bytes = trp__suballoc_free_bytes(sa);
        if (!trp__suballoc_alloc(sa, 1, &block)) {
            clean = false;
            assert_true(trp__suballoc_check(sa) && block.node == 0);
            assert_true(trp__suballoc_free_bytes(sa) == free_bytes);
            assert_true(trp__suballoc_alloc(sa, 1, &block));
        }
        nodes[i] = block.node;
    }
    for (int i = 0; i < BLOCKS; i++) {
        trp__suballoc_free(sa, nodes[i]);
    }
    assert_true(trp__suballoc_check(sa) && trp__suballoc_region_empty(sa, 900));
    trp__suballoc_destroy(sa);
    allocations_before_failure = -1;
    return clean;
}

static void each_failed_allocation_is_reported_and_harmless(void **state)
{
    (void)state;
    long points = 0;
    while (!pass_with_failure(points)) {
        points++;
    }
    /* The allocator itself; the table of regions twice; 301 nodes from 64 by doubling. */
    assert_int_equal(points, 1 + 2 + 4);
}

static void free_in_child(uint32_t bad_node)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        trp__suballoc *sa = trp__suballoc_create();
        trp__suballoc_block block;
        if (sa == NULL || !trp__suballoc_add_region(sa, 0, MIB) ||
            !trp__suballoc_alloc(sa, 4096, &block)) {
            _exit(1);
        }
        if (bad_node == 1) {
            trp__suballoc_free(sa, block.node); /* makes the free below the second */
        }
        trp__suballoc_free(sa, bad_node == 1 ? block.node : bad_node);
        _exit(trp__suballoc_check(sa) ? 0 : 2);
    }
    int status = 0;
    assert_true(waitpid(child, &status, 0) == child);
#ifdef NDEBUG
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#else
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#endif
}

static void a_wrong_free_stops_at_an_assertion(void **state)
{
    (void)state;
    free_in_child(0);          /* no node */
    free_in_child(1);          /* freed twice */
    free_in_child(2);          /* the free rest of the region */
    free_in_child(3);          /* not used yet */
    free_in_child(UINT32_MAX); /* out of range */
}

/* The checker must see damage, or the other tests prove little. */
static void the_checker_sees_damage(void **state)
{
    (void)state;
    trp__suballoc *sa = create();
    assert_true(trp__suballoc_add_region(sa, 0, MIB));
    trp__suballoc_block a = take(sa, 4096), b = take(sa, 8192), c = take(sa, 8192);
    trp__suballoc_block gone = take(sa, 4096);
    trp__suballoc_free(sa, gone.node); /* leaves a spare node */
    trp__suballoc_free(sa, b.node);
    assert_true(trp__suballoc_check(sa));
    assert_true(sa->spare_head != 0);

#define DAMAGE(field, value)                                                                       \
    do {                                                                                           \
        __typeof__(field) kept = (field);                                                          \
        (field) = (__typeof__(field))(value);                                                      \
        assert_false(trp__suballoc_check(sa));                                                     \
        (field) = kept;                                                                            \
        assert_true(trp__suballoc_check(sa));                                                      \
    } while (0)

    DAMAGE(sa->nodes[a.node].offset, 1);
    DAMAGE(sa->nodes[a.node].size, 15);
    DAMAGE(sa->nodes[a.node].size, UINT64_MAX);
    DAMAGE(sa->nodes[a.node].state, NODE_FREE);
    DAMAGE(sa->nodes[a.node].region, 1);
    DAMAGE(sa->nodes[a.node].phys_next, c.node);
    DAMAGE(sa->nodes[a.node].phys_next, UINT32_MAX);
    DAMAGE(sa->nodes[c.node].phys_prev, a.node);
    DAMAGE(sa->nodes[c.node].phys_next, 0);
    DAMAGE(sa->nodes[b.node].state, NODE_USED);
    DAMAGE(sa->nodes[b.node].list_next, b.node);
    DAMAGE(sa->nodes[b.node].list_prev, a.node);
    DAMAGE(sa->heads[class_of(sa->nodes[b.node].size)], 0);
    DAMAGE(sa->fl_map, 0);
    DAMAGE(sa->fl_map, UINT64_MAX);
    DAMAGE(sa->sl_map[3], 1);
    DAMAGE(sa->free_granules, 0);
    DAMAGE(sa->used_granules, sa->used_granules + 1);
    DAMAGE(sa->spare_head, 0);
    DAMAGE(sa->spare_head, b.node);
    DAMAGE(sa->regions[0].size, sa->regions[0].size + 1);
    DAMAGE(sa->regions[0].first, b.node);
    DAMAGE(sa->node_count, sa->node_count + 1);
#undef DAMAGE
    trp__suballoc_destroy(sa);
}

UNIT_MAIN(UNIT(nothing_to_give_without_regions), UNIT(sizes_are_rounded_up),
          UNIT(impossible_sizes_are_refused), UNIT(whole_region_of_any_size),
          UNIT(the_only_fit_of_a_class_is_found), UNIT(neighbours_merge), UNIT(exhaustion_and_back),
          UNIT(regions_come_and_go), UNIT(region_of_all_64_bits),
          UNIT(many_regions_never_merge_with_each_other),
          UNIT(each_failed_allocation_is_reported_and_harmless),
          UNIT(a_wrong_free_stops_at_an_assertion), UNIT(the_checker_sees_damage))
