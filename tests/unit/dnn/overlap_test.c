/* Whether strided tensors share an element (actors/dnn/graph/overlap.h), against counting bytes. */
#include "actors/dnn/graph/overlap.h"

#include "support/unit.h"

enum { BYTES = 1 << 14 };

static uint64_t seed = 7;

static int64_t below(int64_t bound)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)(seed >> 33) % bound;
}

/* Marks the bytes of all elements, or finds one that is marked. */
static bool touch(const trp__dnn_tensor *t, int64_t offset, bool *bytes, bool mark)
{
    const int64_t size = trp_dtype_bits((trp_dtype)t->type) / 8;
    int64_t at[TRP__DNN_RANK] = {0};
    if (trp__dnn_elements(t) == 0)
        return false;
    for (;;) {
        int64_t place = offset;
        int i = t->rank - 1;
        for (int k = 0; k < t->rank; k++)
            place += at[k] * t->stride[k] * size;
        for (int64_t k = 0; k < size; k++) {
            assert_in_range(place + k, 0, BYTES - 1);
            if (!mark && bytes[place + k])
                return true;
            bytes[place + k] = bytes[place + k] || mark;
        }
        for (; i >= 0 && ++at[i] == t->dim[i]; i--)
            at[i] = 0;
        if (i < 0)
            return false;
    }
}

static trp__dnn_tensor draw(int rank, int64_t stride_most)
{
    static const trp_dtype types[] = {TRP_F32, TRP_F64, TRP_BF16, TRP_I8};
    trp__dnn_tensor t = {.type = (uint8_t)types[below(4)], .rank = (uint8_t)rank};
    for (int i = 0; i < TRP__DNN_RANK; i++)
        t.dim[i] = 1;
    for (int i = 0; i < rank; i++) {
        t.dim[i] = below(40) ? 1 + below(4) : 0;
        t.stride[i] = below(stride_most);
    }
    return t;
}

static void compare(const trp__dnn_tensor *a, int64_t a_offset, const trp__dnn_tensor *b,
                    int64_t b_offset)
{
    static bool bytes[BYTES];
    memset(bytes, 0, sizeof bytes);
    touch(a, a_offset, bytes, true);
    const bool shared = touch(b, b_offset, bytes, false);
    assert_int_equal(trp__dnn_overlap(a, (uint64_t)a_offset, b, (uint64_t)b_offset),
                     shared ? TRP__OVERLAP_SOME : TRP__OVERLAP_NONE);
    assert_int_equal(trp__dnn_overlap(b, (uint64_t)b_offset, a, (uint64_t)a_offset),
                     shared ? TRP__OVERLAP_SOME : TRP__OVERLAP_NONE);
}

/* Any strides, also such as do not nest. */
static void any_strides(void **unused)
{
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        const trp__dnn_tensor a = draw((int)(1 + below(4)), 1 + below(40));
        const trp__dnn_tensor b = draw((int)(1 + below(4)), 1 + below(40));
        compare(&a, below(600), &b, below(600));
    }
}

/* Views of one box of 2 x 3 x 4 x 5, in any order of their dimensions, each with a part of some of
 * them and a step. */
static void views_of_one(void **unused)
{
    static const int64_t box[] = {2, 3, 4, 5}, dense[] = {60, 20, 5, 1};
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        trp__dnn_tensor t[2];
        int64_t offset[2] = {0, 0};
        for (int k = 0; k < 2; k++) {
            t[k] = (trp__dnn_tensor){.type = TRP_F32, .rank = 4};
            const int turn = (int)below(4);
            for (int d = 0; d < TRP__DNN_RANK; d++)
                t[k].dim[d] = 1;
            for (int d = 0; d < 4; d++) {
                const int64_t step = 1 + below(2), first = below(box[d]);
                const int64_t left = (box[d] - first - 1) / step + 1;
                t[k].dim[(d + turn) % 4] = 1 + below(left);
                t[k].stride[(d + turn) % 4] = dense[d] * step;
                offset[k] += first * dense[d] * 4;
            }
        }
        compare(&t[0], offset[0], &t[1], offset[1]);
    }
}

/* As large as tensors are: dq, dk and dv in rows of one buffer, and what overlaps by one element.
 */
static void large_views(void **unused)
{
    (void)unused;
    const int64_t heads = 12, depth = 64, row = 3 * heads * depth, rows = 4096;
    trp__dnn_tensor q = {.type = TRP_BF16,
                         .rank = 4,
                         .dim = {32, heads, rows, depth, 1, 1, 1, 1},
                         .stride = {rows * row, depth, row, 1}};
    for (int64_t i = 1; i < 3; i++)
        assert_int_equal(trp__dnn_overlap(&q, 0, &q, (uint64_t)(i * heads * depth * 2)),
                         TRP__OVERLAP_NONE);
    assert_int_equal(trp__dnn_overlap(&q, 0, &q, (uint64_t)(heads * depth * 2 - 2)),
                     TRP__OVERLAP_SOME);
    trp__dnn_tensor turned = q; /* another order of dimensions, of the elements between */
    turned.dim[1] = rows;
    turned.stride[1] = row;
    turned.dim[2] = heads;
    turned.stride[2] = depth;
    assert_int_equal(trp__dnn_overlap(&q, 0, &turned, (uint64_t)(heads * depth * 2)),
                     TRP__OVERLAP_NONE);
    assert_int_equal(trp__dnn_overlap(&q, 0, &turned, 0), TRP__OVERLAP_SOME);
    /* Strides that were made to be hard to tell: it ends, and does not say that there is none. */
    trp__dnn_tensor a = {.type = TRP_F32, .rank = 8}, b = a;
    static const int64_t odd[] = {999983, 999979, 999961, 999959, 999953, 999931, 999917, 999907};
    for (int i = 0; i < 8; i++) {
        a.dim[i] = b.dim[i] = 50;
        a.stride[i] = odd[i];
        b.stride[i] = odd[i] - 2;
    }
    assert_int_not_equal(trp__dnn_overlap(&a, 0, &b, 4 * 123456791), TRP__OVERLAP_NONE);
}

UNIT_MAIN(UNIT(any_strides), UNIT(views_of_one), UNIT(large_views))
