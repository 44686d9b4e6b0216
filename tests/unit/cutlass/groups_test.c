/* What a kernel makes of numbers that nobody has looked at: never a place outside of the request's
 * matrices, and the same groups that the host takes. */
#include "support/unit.h"

#include "actors/cutlass/wire/grouped.h"
#include "actors/cutlass/templates/groups.h"
#include "support/reference/reference.h"
#include "support/label.h"

TROUPE_TEST("no tsan");

enum { GROUPS = 4, MATRICES = 4, WIDTH = 2 };

static ref_rng rng;

static size_t below(size_t bound)
{
    return ref_rng_below(&rng, bound);
}

/* A number of any size, but often a small one. */
static int64_t wild(int64_t small)
{
    int64_t x = (int64_t)((uint64_t)ref_rng_below(&rng, UINT32_MAX) << 32 |
                          ref_rng_below(&rng, UINT32_MAX));
    switch (below(8)) {
    case 0:
        return x;
    case 1:
        return x >> below(64);
    case 2:
        return INT64_MAX - (int64_t)below(3);
    case 3:
        return -(int64_t)below(3);
    default:
        return (int64_t)below((size_t)small + 1);
    }
}

typedef struct asked {
    trp__cutlass_grouped g; /* as the host has it */
    trp_cutlass_args args;
    trp_group_kind kind;
    uint64_t room[MATRICES]; /* elements */
} asked;

static asked draw(void)
{
    asked x;
    memset(&x, 0, sizeof x);
    x.g.grouping = (uint8_t)(1 + below(4));
    x.g.groups = GROUPS;
    x.g.m = 1 + (int64_t)below(20);
    x.g.n = 1 + (int64_t)below(20);
    x.g.k = (int64_t)below(20);
    x.g.alignment = 1;
    x.g.in_place = below(3) == 0;
    bool c = x.g.in_place || below(2);
    uint64_t address[MATRICES];
    for (int i = 0; i < MATRICES; i++) {
        address[i] = (uint64_t)1 << (20 + i);
        x.g.type[i] = i == 2 && !c ? TRP_DTYPE_NONE : TRP_BF16;
        x.g.order[i] = i < 2 && below(2) ? TRP_COL_MAJOR : TRP_ROW_MAJOR;
        x.g.ld[i] =
            x.g.grouping == TRP_CUTLASS_GROUPS_BY_TABLE && below(2) ? 0 : 20 + (int64_t)below(5);
        x.g.stride[i] = trp__grouped_is_cut(x.g.grouping, i) ? 0 : 600;
        x.room[i] = x.g.grouping == TRP_CUTLASS_GROUPS_BY_TABLE ? below(700) : 4000;
        x.kind.row_major[i] = x.g.order[i] == TRP_ROW_MAJOR;
        x.kind.element[i] = x.g.type[i] ? WIDTH : 0;
        x.kind.align[i] = below(2) ? WIDTH : 1;
        x.kind.vector[i] = 1;
        x.args.group_room[i] = x.room[i] * WIDTH;
    }
    if (x.g.in_place) {
        x.g.ld[2] = x.g.ld[3];
        x.g.stride[2] = x.g.stride[3];
        address[2] = address[3];
    }
    x.args.a = address[0];
    x.args.b = address[1];
    x.args.c = address[2];
    x.args.d = address[3];
    x.args.lda = x.g.ld[0];
    x.args.ldb = x.g.ld[1];
    x.args.ldc = x.g.ld[2];
    x.args.ldd = x.g.ld[3];
    x.args.batch_a = x.g.stride[0];
    x.args.batch_b = x.g.stride[1];
    x.args.batch_c = x.g.stride[2];
    x.args.batch_d = x.g.stride[3];
    x.args.m = (int32_t)x.g.m;
    x.args.n = (int32_t)x.g.n;
    x.args.k = (int32_t)x.g.k;
    x.args.l = GROUPS;
    x.args.grouping = x.g.grouping;
    x.args.group_c = !c ? 0 : x.g.in_place ? 2 : 1;
    x.args.workspace = 1 << 10;
    return x;
}

static trp_cutlass_group draw_row(void)
{
    return (trp_cutlass_group){.m = wild(20),
                               .n = wild(20),
                               .k = wild(20),
                               .a = wild(300),
                               .b = wild(300),
                               .c = wild(300),
                               .d = wild(300),
                               .lda = wild(40),
                               .ldb = wild(40),
                               .ldc = wild(40),
                               .ldd = wild(40)};
}

/* All of what a group reads and writes, in 128 bits. */
static void check_inside(const asked *x, const trp_group *group)
{
    const uint64_t base[MATRICES] = {x->args.a, x->args.b, x->args.c, x->args.d};
    for (int i = 0; i < MATRICES; i++) {
        int64_t rows = group->size[i == 1 ? 2 : 0], columns = group->size[i == 0 ? 2 : 1];
        int64_t length = x->kind.row_major[i] ? columns : rows;
        int64_t count = x->kind.row_major[i] ? rows : columns;
        if ((i == 2 && x->args.group_c == 0) || length == 0 || count == 0)
            continue;
        int limit = i == 2 && x->args.group_c == 2 ? 3 : i;
        assert_true(group->ld[i] >= length || count == 1);
        __int128 end =
            (__int128)group->at[i] + ((__int128)(count - 1) * group->ld[i] + length) * WIDTH;
        assert_true(group->at[i] >= base[i]);
        assert_true(end <= (__int128)base[i] + (__int128)x->args.group_room[limit]);
    }
}

static bool is_there(const trp_group *group)
{
    return group->size[0] > 0 && group->size[1] > 0;
}

/* What both say of one group. */
static void compare(const asked *x, bool good, const trp__group *host, const trp_group *device)
{
    const uint64_t base[MATRICES] = {x->args.a, x->args.b, x->args.c, x->args.d};
    assert_int_equal(good && host->m > 0 && host->n > 0, is_there(device));
    if (!is_there(device))
        return;
    assert_int_equal(host->m, device->size[0]);
    assert_int_equal(host->n, device->size[1]);
    assert_int_equal(host->k, device->size[2]);
    for (int i = 0; i < MATRICES; i++) {
        int64_t length, count;
        trp__group_lines(&x->g, host, i, &length, &count);
        if (x->g.type[i] == TRP_DTYPE_NONE || length == 0 || count == 0)
            continue;
        assert_int_equal(base[i] + (uint64_t)host->at[i] * WIDTH, device->at[i]);
        if (count > 1)
            assert_int_equal(host->ld[i], device->ld[i]);
    }
}

static void rows_and_ends(void **state)
{
    uint32_t there = 0;
    (void)state;
    for (int round = 0; round < 200000; round++) {
        asked x = draw();
        trp_cutlass_group row[GROUPS];
        int32_t ends[GROUPS];
        trp_error error;
        bool table = x.g.grouping == TRP_CUTLASS_GROUPS_BY_TABLE;
        int64_t begin = 0;
        for (int i = 0; i < GROUPS; i++) {
            row[i] = draw_row();
            ends[i] = (int32_t)(below(4) ? begin + (int64_t)below(8) : wild(20));
            begin = ends[i];
        }
        for (int i = 0; i < GROUPS; i++) {
            trp__group host = {0};
            const trp_group group =
                trp_group_at(&x.args, &x.kind, table ? (void *)row : (void *)ends, i);
            int64_t from = i > 0 ? ends[i - 1] : 0;
            bool good = table ? trp__group_from_row(&x.g, (uint32_t)i, &row[i], x.room, &host,
                                                    &error) == TRP_OK
                              : from >= 0 && trp__group_from_ends(&x.g, (uint32_t)i, from, ends[i],
                                                                  &host, &error) == TRP_OK;
            check_inside(&x, &group);
            compare(&x, good, &host, &group);
            there += is_there(&group);
        }
    }
    assert_true(there > 10000);
}

/* What a kernel can't take is left out, by each of the reasons. */
static void alignment(void **state)
{
    (void)state;
    asked x = draw();
    memset(&x.g, 0, sizeof x.g);
    trp_cutlass_group row = {.m = 8, .n = 8, .k = 16};
    x.args.grouping = TRP_GROUPED_BY_TABLE;
    x.args.group_turned = 0;
    x.args.group_c = 0;
    x.args.m = x.args.n = x.args.k = 20;
    x.args.lda = x.args.ldb = x.args.ldc = x.args.ldd = 0;
    for (int i = 0; i < MATRICES; i++) {
        x.args.group_room[i] = 4000;
        x.kind = (trp_group_kind){.row_major = {1, 0, 1, 1},
                                  .element = {2, 2, 0, 2},
                                  .align = {16, 16, 16, 16},
                                  .vector = {1, 1, 1, 8}};
    }
#define LEFT_OUT(change, yes)                                                                      \
    do {                                                                                           \
        trp_cutlass_group one = row;                                                               \
        change;                                                                                    \
        const trp_group group = trp_group_at(&x.args, &x.kind, &one, 0);                           \
        assert_int_equal(is_there(&group), !(yes));                                                \
    } while (0)
    LEFT_OUT((void)one, false);
    LEFT_OUT(one.a = 4, true);
    LEFT_OUT(one.a = 8, false);
    LEFT_OUT(one.lda = 17, true);
    LEFT_OUT(one.lda = 24, false);
    LEFT_OUT(one.b = 1, true);
    LEFT_OUT(one.d = 2, true);
    LEFT_OUT(one.n = 12, true);                 /* lines of D in whole vectors */
    LEFT_OUT((one.m = 1, one.lda = 17), false); /* one line lies apart from none */
    LEFT_OUT((one.k = 0, one.a = 3, one.lda = 1), false);
#undef LEFT_OUT
}

int main(void)
{
    const struct CMUnitTest tests[] = {UNIT(rows_and_ends), UNIT(alignment)};
    ref_rng_init(&rng, ref_seed());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
