/* Whether strided arrays share a byte (base/overlap.h), against counting bytes. */
#include "base/overlap.h"

#include "support/unit.h"

#include <stdbool.h>

enum { BYTES = 1 << 14 };

static uint64_t seed = 7;

static int64_t below(int64_t bound)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)(seed >> 33) % bound;
}

/* Marks the bytes of all elements, or finds one that is marked; `within` does both. */
static bool touch(const trp__strided *t, int64_t offset, bool *bytes, bool find, bool mark)
{
    int64_t at[TRP__OVERLAP_RANK] = {0};
    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] == 0)
            return false;
    }
    for (;;) {
        int64_t place = offset;
        int i = t->rank - 1;
        for (int k = 0; k < t->rank; k++)
            place += at[k] * t->stride[k];
        for (int64_t k = 0; k < t->size; k++) {
            assert_in_range(place + k, 0, BYTES - 1);
            if (find && bytes[place + k])
                return true;
            bytes[place + k] = bytes[place + k] || mark;
        }
        for (; i >= 0 && ++at[i] == t->dim[i]; i--)
            at[i] = 0;
        if (i < 0)
            return false;
    }
}

/* Strides are multiples of the size of an element. */
static trp__strided draw(int rank, int64_t stride_most)
{
    static const int64_t sizes[] = {4, 8, 2, 1};
    trp__strided t = {.rank = rank, .size = sizes[below(4)]};
    for (int i = 0; i < rank; i++) {
        t.dim[i] = below(40) ? 1 + below(4) : 0;
        t.stride[i] = below(stride_most) * t.size;
    }
    return t;
}

static trp__overlap as_overlap(bool shared)
{
    return shared ? TRP__OVERLAP_SOME : TRP__OVERLAP_NONE;
}

static void compare(const trp__strided *a, int64_t a_offset, const trp__strided *b,
                    int64_t b_offset)
{
    static bool bytes[BYTES];
    memset(bytes, 0, sizeof bytes);
    touch(a, a_offset, bytes, false, true);
    const trp__overlap shared = as_overlap(touch(b, b_offset, bytes, true, false));
    assert_int_equal(trp__overlap_between(a, b, b_offset - a_offset), shared);
    assert_int_equal(trp__overlap_between(b, a, a_offset - b_offset), shared);
}

/* Any strides, also such as do not nest. */
static void any_strides(void **unused)
{
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        const trp__strided a = draw((int)(1 + below(4)), 1 + below(40));
        const trp__strided b = draw((int)(1 + below(4)), 1 + below(40));
        compare(&a, below(600), &b, below(600));
    }
}

static void within_one(void **unused)
{
    static bool bytes[BYTES];
    int shared = 0;
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        trp__strided a = draw((int)(1 + below(4)), 1 + below(60));
        a.size += below(4) == 0 ? below(3) : 0; /* bytes of neighbours, too */
        memset(bytes, 0, sizeof bytes);
        const trp__overlap found = as_overlap(touch(&a, 0, bytes, true, true));
        assert_int_equal(trp__overlap_within(&a), found);
        shared += found == TRP__OVERLAP_SOME;
    }
    assert_in_range(shared, 2000, 18000);
}

/* Views of one box of 2 x 3 x 4 x 5, in any order of their dimensions, each with a part of some of
 * them and a step. */
static void views_of_one(void **unused)
{
    static const int64_t box[] = {2, 3, 4, 5}, dense[] = {60, 20, 5, 1};
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        trp__strided t[2];
        int64_t offset[2] = {0, 0};
        for (int k = 0; k < 2; k++) {
            t[k] = (trp__strided){.size = 4, .rank = 4};
            const int turn = (int)below(4);
            for (int d = 0; d < 4; d++) {
                const int64_t step = 1 + below(2), first = below(box[d]);
                const int64_t left = (box[d] - first - 1) / step + 1;
                t[k].dim[(d + turn) % 4] = 1 + below(left);
                t[k].stride[(d + turn) % 4] = dense[d] * step * 4;
                offset[k] += first * dense[d] * 4;
            }
        }
        compare(&t[0], offset[0], &t[1], offset[1]);
        assert_int_equal(trp__overlap_within(&t[0]), TRP__OVERLAP_NONE);
    }
}

/* As large as tensors are: dq, dk and dv in rows of one buffer, and what overlaps by one element.
 */
static void large_views(void **unused)
{
    (void)unused;
    const int64_t heads = 12, depth = 64, row = 3 * heads * depth, rows = 4096;
    const trp__strided q = {.size = 2,
                            .rank = 4,
                            .dim = {32, heads, rows, depth},
                            .stride = {rows * row * 2, depth * 2, row * 2, 2}};
    for (int64_t i = 1; i < 3; i++)
        assert_int_equal(trp__overlap_between(&q, &q, i * heads * depth * 2), TRP__OVERLAP_NONE);
    assert_int_equal(trp__overlap_between(&q, &q, heads * depth * 2 - 2), TRP__OVERLAP_SOME);
    assert_int_equal(trp__overlap_within(&q), TRP__OVERLAP_NONE);
    trp__strided turned = q; /* another order of dimensions, of the elements between */
    turned.dim[1] = rows;
    turned.stride[1] = row * 2;
    turned.dim[2] = heads;
    turned.stride[2] = depth * 2;
    assert_int_equal(trp__overlap_between(&q, &turned, heads * depth * 2), TRP__OVERLAP_NONE);
    assert_int_equal(trp__overlap_between(&q, &turned, 0), TRP__OVERLAP_SOME);
    /* Strides that were made to be hard to tell: it ends, and does not say that there is none. */
    trp__strided a = {.size = 4, .rank = 8}, b = a;
    static const int64_t odd[] = {999983, 999979, 999961, 999959, 999953, 999931, 999917, 999907};
    for (int i = 0; i < 8; i++) {
        a.dim[i] = b.dim[i] = 50;
        a.stride[i] = odd[i] * 4;
        b.stride[i] = (odd[i] - 2) * 4;
    }
    assert_int_not_equal(trp__overlap_between(&a, &b, 4 * 123456791), TRP__OVERLAP_NONE);
}

UNIT_MAIN(UNIT(any_strides), UNIT(within_one), UNIT(views_of_one), UNIT(large_views))
