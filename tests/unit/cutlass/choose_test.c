/* The choice of kernels for random problems: every row that applies, the cheapest first, each with
 * text that is the same again and settings that differ. SPDX-License-Identifier: Apache-2.0 */
#include "actors/cutlass/catalogue/catalogue.h"
#include "support/label.h"
#include "support/problems/epilogue_draw.h"
#include "support/reference/random.h"
#include "support/reference/reference.h"
#include "support/unit.h"

#include <math.h>

TROUPE_TEST("no tsan");

enum { TEXT_MAX = 1 << 17, ROWS_MAX = TRP__CUTLASS_ROWS_MAX };

static trp_error error;
static char text[TEXT_MAX], again[TEXT_MAX];
static trp__tree tree;

static void render(const trp__cutlass_row *row, const trp__cutlass_problem *p, char *to)
{
    trp__text out = {.out = to, .size = TEXT_MAX};
    if (trp__cutlass_row_render(row, p, &out, &error) != TRP_OK)
        fail_msg("%s: %s", row->name, error.message);
    assert_in_range(out.length, 1, TEXT_MAX - 1);
}

static int64_t draw_size(uint64_t *rng)
{
    return random_below(rng, 20) == 0 ? (int64_t)INT32_MAX - random_below(rng, 3)
                                      : (int64_t)random_bits(rng, 1, 14) + 1;
}

static void draw_problem(uint64_t *rng, trp__cutlass_problem *p)
{
    static const trp_dtype halves[] = {TRP_F16, TRP_BF16}, eights[] = {TRP_F8E4M3, TRP_F8E5M2};
    static const uint32_t capabilities[] = {80, 86, 89, 90, 90, 90};
    epilogue_tree drawn;
    epilogue_draw(rng, (epilogue_limits){.one_order = random_below(rng, 2)}, &drawn);
    drawn.order = TRP_ROW_MAJOR;
    const trp__tree_types types = {
        .accumulator = drawn.accumulator, .c = drawn.c, .d = drawn.d, .order = TRP_ROW_MAJOR};
    if (trp__tree_build(drawn.node, drawn.count, &types, &tree, &error) != TRP_OK)
        fail_msg("%s", error.message);
    *p = (trp__cutlass_problem){.d = tree.d, .divides = {16, 16, 16}, .align_scales = 16};
    p->m = draw_size(rng);
    p->n = draw_size(rng);
    p->k = draw_size(rng);
    p->batch = random_below(rng, 3) ? 1 : (int64_t)random_bits(rng, 1, 18) + 1;
    p->tree = &tree;
    p->c = tree.c;
    p->accumulator = tree.accumulator;
    uint32_t kind = random_below(rng, 3);
    p->a = p->accumulator == TRP_F64   ? TRP_F64
           : p->accumulator == TRP_I32 ? TRP_I8
           : kind == 0                 ? TRP_F32
           : kind == 1                 ? (uint8_t)halves[random_below(rng, 2)]
                                       : (uint8_t)eights[random_below(rng, 2)];
    p->b = p->accumulator == TRP_F32 && kind == 2 ? (uint8_t)eights[random_below(rng, 2)] : p->a;
    p->compute = p->a == TRP_F32 ? (uint8_t)random_below(rng, 3) : TRP_COMPUTE_DEFAULT;
    p->a_row = random_below(rng, 2);
    p->b_row = random_below(rng, 2);
    const uint8_t of[] = {p->a, p->b, p->c, p->d, TRP_F32};
    for (int i = 0; i < 5; i++) {
        uint32_t least = of[i] ? trp_dtype_bits((trp_dtype)of[i]) / 8 : 16;
        uint32_t align = random_below(rng, 2) ? 16 : 1u << random_below(rng, 5);
        p->align[i] = align > least ? align : least;
    }
    p->capability = capabilities[random_below(rng, 6)];
    p->shared_bytes = p->capability == 90 ? 232448 : p->capability == 80 ? 166912 : 101376;
    p->processors = 1 + random_below(rng, 200);
}

/* The first are those without a search; all differ, and none divides sums but of stream-K. */
static void check_variants(const trp__cutlass_row *row, const trp__cutlass_problem *p)
{
    trp__cutlass_settings all[TRP__CUTLASS_VARIANTS_MAX];
    const uint32_t count = trp__cutlass_row_variants(row, p, all);
    trp_cutlass_args args = {0};
    assert_in_range(count, 1, TRP__CUTLASS_VARIANTS_MAX);
    trp__cutlass_set(&all[0], &args);
    assert_int_equal(args.raster, 0);
    if (p->operation != TRP__CUTLASS_CONV) {
        assert_int_equal(args.splits, 1);
        assert_int_equal(args.stream_k, 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_in_range(all[i].swizzle, 1, 8);
        assert_in_range(all[i].raster, 0, 2);
        assert_in_range(all[i].splits, 1,
                        !row->stream_k                      ? 1
                        : p->operation == TRP__CUTLASS_CONV ? 32
                                                            : 4);
        for (uint32_t k = 0; k < i; k++)
            assert_memory_not_equal(&all[i], &all[k], sizeof all[i]);
    }
    assert_true(count == 1 || row->family == TRP__CUTLASS_SM90 || row->stream_k);
}

static void test_random_problems(void **state)
{
    (void)state;
    uint64_t rng = ref_seed();
    uint32_t found = 0;
    for (uint32_t i = 0; i < 3000; i++) {
        trp__cutlass_problem p;
        const trp__cutlass_row *row[ROWS_MAX], *first = NULL;
        draw_problem(&rng, &p);
        memset(&error, 0, sizeof error);
        const uint32_t count = trp__cutlass_choose(&p, row, ROWS_MAX, &error);
        uint32_t applying = 0;
        for (uint32_t r = 0; r < trp__cutlass_row_count(); r++) {
            const trp__cutlass_row *any = trp__cutlass_row_at(r);
            applying += !any->fast && trp__cutlass_row_applies(any, &p, NULL) == TRP_OK;
        }
        assert_int_equal(count, applying);
        if (count == 0) {
            assert_int_equal(error.status, TRP_E_UNSUPPORTED);
            assert_true(error.message[0] != '\0');
            continue;
        }
        found++;
        for (uint32_t r = 0; r < count; r++) {
            assert_int_equal(trp__cutlass_row_applies(row[r], &p, &error), TRP_OK);
            const double cost = trp__cutlass_row_cost(row[r], &p);
            assert_true(isfinite(cost) && cost > 0);
            assert_true(r == 0 || cost >= trp__cutlass_row_cost(row[r - 1], &p));
        }
        render(row[0], &p, text);
        render(row[0], &p, again);
        assert_string_equal(text, again);
        assert_int_equal(trp__cutlass_choose(&p, &first, 1, &error), 1);
        assert_ptr_equal(first, row[0]);
        check_variants(row[0], &p);
    }
    assert_true(found > 1000);
}

UNIT_MAIN(UNIT(test_random_problems))
