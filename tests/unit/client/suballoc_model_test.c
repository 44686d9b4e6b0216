/* The sub-allocator, against a model that keeps one byte for each granule. TROUPE_TEST_SEED repeats
 * a random run. SPDX-License-Identifier: Apache-2.0 */
#include "client/core/suballoc.h"
#include "support/label.h"
#include "support/reference/random.h"
#include "support/unit.h"

#include <inttypes.h>
#include <stdbool.h>
#include <time.h>

TROUPE_TEST("computes", "no tsan");

#define GRANULE ((uint64_t)TRP__SUBALLOC_GRANULE)

static uint64_t rng;

enum {
    MODEL_REGIONS = 5,
    MODEL_GRANULES = 6000, /* of the largest region */
    MODEL_LIVE = 4000,
};

typedef struct model {
    trp__suballoc *sa;
    uint32_t id[MODEL_REGIONS];
    uint32_t granules[MODEL_REGIONS]; /* 0: the region is not there */
    unsigned char taken[MODEL_REGIONS][MODEL_GRANULES];
    trp__suballoc_block live[MODEL_LIVE];
    uint32_t live_count;
    uint64_t used;
} model;

/* Granules of the longest free run of all regions, or of one. */
static uint32_t model_longest(const model *m)
{
    uint32_t longest = 0;
    for (uint32_t r = 0; r < MODEL_REGIONS; r++) {
        uint32_t run = 0;
        for (uint32_t g = 0; g < m->granules[r]; g++) {
            run = m->taken[r][g] ? 0 : run + 1;
            longest = run > longest ? run : longest;
        }
    }
    return longest;
}

static bool model_empty(const model *m, uint32_t r)
{
    return m->granules[r] != 0 && memchr(m->taken[r], 1, m->granules[r]) == NULL;
}

static uint64_t model_random_size(void)
{
    switch (random_below(&rng, 8)) {
    case 0:
        return 1 + random_below(&rng, 256);
    case 1:
        return (1 + random_below(&rng, MODEL_GRANULES)) * GRANULE;
    case 2:
        return 1 + random_bits(&rng, 1, 63);
    default:
        return 1 + random_below(&rng, 1u << (8 + random_below(&rng, 8)));
    }
}

static void model_alloc(model *m, uint64_t size)
{
    trp__suballoc_block block;
    if (!trp__suballoc_alloc(m->sa, size, &block)) {
        if ((size + GRANULE - 1) / GRANULE <= model_longest(m)) {
            fail_msg("refused %" PRIu64 " bytes, which fit", size);
        }
        return;
    }
    uint32_t r = 0;
    while (r < MODEL_REGIONS && (m->granules[r] == 0 || m->id[r] != block.region)) {
        r++;
    }
    if (r == MODEL_REGIONS || block.size < size || block.size - size >= GRANULE ||
        block.offset % GRANULE != 0 || block.size % GRANULE != 0 ||
        block.offset + block.size > m->granules[r] * GRANULE) {
        fail_msg("bad block: region %u offset %" PRIu64 " size %" PRIu64 " for %" PRIu64,
                 block.region, block.offset, block.size, size);
    }
    unsigned char *taken = m->taken[r] + block.offset / GRANULE;
    if (memchr(taken, 1, block.size / GRANULE) != NULL) {
        fail_msg("overlap: region %u offset %" PRIu64, block.region, block.offset);
    }
    memset(taken, 1, block.size / GRANULE);
    m->used += block.size;
    m->live[m->live_count++] = block;
}

static void model_free(model *m, uint32_t which)
{
    trp__suballoc_block block = m->live[which];
    m->live[which] = m->live[--m->live_count];
    uint32_t r = 0;
    while (m->granules[r] == 0 || m->id[r] != block.region) {
        r++;
    }
    trp__suballoc_free(m->sa, block.node);
    memset(m->taken[r] + block.offset / GRANULE, 0, block.size / GRANULE);
    m->used -= block.size;
}

static void model_toggle_region(model *m, uint32_t r)
{
    if (m->granules[r] != 0) {
        bool empty = model_empty(m, r);
        assert_true(trp__suballoc_region_empty(m->sa, m->id[r]) == empty);
        assert_true(trp__suballoc_remove_region(m->sa, m->id[r]) == empty);
        if (empty) {
            m->granules[r] = 0;
        }
        return;
    }
    m->id[r] = r + MODEL_REGIONS * random_below(&rng, 4000);
    uint32_t granules = 1 + random_below(&rng, MODEL_GRANULES);
    assert_true(
        trp__suballoc_add_region(m->sa, m->id[r], granules * GRANULE + random_below(&rng, 256)));
    m->granules[r] = granules;
}

static void model_compare(const model *m)
{
    uint64_t total = 0;
    for (uint32_t r = 0; r < MODEL_REGIONS; r++) {
        total += m->granules[r] * GRANULE;
    }
    assert_true(trp__suballoc_check(m->sa));
    assert_true(trp__suballoc_used_bytes(m->sa) == m->used);
    assert_true(trp__suballoc_free_bytes(m->sa) == total - m->used);
    assert_true(trp__suballoc_largest_free(m->sa) == model_longest(m) * GRANULE);
}

static void random_run(uint64_t seed, uint32_t steps)
{
    printf("random run with seed %" PRIu64 "\n", seed);
    rng = seed;
    model *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    m->sa = trp__suballoc_create();
    assert_non_null(m->sa);
    uint32_t pressure = 50; /* per cent of steps that allocate: drifts, to fill and to drain */
    for (uint32_t step = 0; step < steps; step++) {
        if (step % 2000 == 0) {
            pressure = 20 + random_below(&rng, 70);
        }
        if (random_below(&rng, 200) == 0) {
            model_toggle_region(m, random_below(&rng, MODEL_REGIONS));
        } else if (m->live_count < MODEL_LIVE && random_below(&rng, 100) < pressure) {
            model_alloc(m, model_random_size());
        } else if (m->live_count > 0) {
            model_free(m, random_below(&rng, m->live_count));
        }
        if (step % 64 == 0) {
            model_compare(m);
        }
    }
    while (m->live_count > 0) {
        model_free(m, random_below(&rng, m->live_count));
    }
    model_compare(m);
    for (uint32_t r = 0; r < MODEL_REGIONS; r++) {
        if (m->granules[r] != 0) {
            assert_true(trp__suballoc_region_empty(m->sa, m->id[r]));
            assert_true(trp__suballoc_remove_region(m->sa, m->id[r]));
        }
    }
    assert_true(trp__suballoc_check(m->sa) && trp__suballoc_free_bytes(m->sa) == 0);
    trp__suballoc_destroy(m->sa);
    free(m);
}

static void random_runs_against_the_model(void **state)
{
    (void)state;
    const char *wanted = getenv("TROUPE_TEST_SEED");
    if (wanted != NULL) {
        random_run(strtoull(wanted, NULL, 0), 40000);
        return;
    }
    for (uint64_t seed = 1; seed <= 8; seed++) {
        random_run(seed, 20000);
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    random_run((uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec, 40000);
}

UNIT_MAIN(UNIT(random_runs_against_the_model))
