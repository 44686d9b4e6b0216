/* The sender's side of grouped products and convolutions: what a record says of what is accepted,
 * the overlap rule against a brute-force search, and numbers of every size, of which none may
 * overflow or lead outside of a buffer. */
#include "support/unit.h"

#include "actors/cutlass/wire/conv.h"
#include "actors/cutlass/cutlass.h"
#include "actors/cutlass/wire/grouped.h"
#include "base/error.h"
#include "support/reference/reference.h"
#include "support/label.h"

#include <troupe/troupe.h>

TROUPE_TEST("no tsan");

static trp__record record;
static trp_error error;
static uint64_t buffer_bytes = 1 << 20;
static unsigned char piece[64 << 10];
static ref_rng rng;

static size_t below(size_t bound)
{
    return ref_rng_below(&rng, bound);
}

static trp_status acquire(trp__encoder *encoder, const char *name, trp_buffer buffer,
                          trp__access *access, uint64_t *bytes)
{
    if (buffer.id == 0)
        return trp__error_set(encoder->error, TRP_E_STALE, "%s: stale", name);
    access->slot = (uint32_t)buffer.id;
    access->generation = 1;
    *bytes = buffer_bytes;
    return TRP_OK;
}

static trp_status input(trp__encoder *encoder, uint32_t bytes, void **room)
{
    (void)encoder;
    assert_true(bytes <= sizeof piece);
    *room = piece;
    return TRP_OK;
}

static trp_status pack_on(trp_backend backend, const trp_request *request, uint32_t op)
{
    trp__encoder p = {
        .record = &record, .error = &error, .backend = backend, .acquire = acquire, .input = input};
    memset(&record, 0, sizeof record);
    memset(&error, 0, sizeof error);
    trp_status status = trp__op_class_find(&trp__cutlass_class, op)->encode(&p, request);
    assert_int_equal(status, error.status);
    return status;
}

static trp_status grouped(const trp_cutlass_grouped_gemm_request *r)
{
    return pack_on(TRP_BACKEND_HOST, &r->header, TRP_OP_CUTLASS_GROUPED_GEMM);
}

static trp_status conv(const trp_cutlass_conv_request *r)
{
    return pack_on(TRP_BACKEND_HOST, &r->header, TRP_OP_CUTLASS_CONV);
}

static trp_cutlass_grouped_gemm_request sample(trp_cutlass_grouping grouping)
{
    return (trp_cutlass_grouped_gemm_request){.groups = 3,
                                              .grouping = grouping,
                                              .m = 8,
                                              .n = 4,
                                              .k = 6,
                                              .a = {.buffer = {1}, .type = TRP_BF16},
                                              .b = {.buffer = {2}},
                                              .d = {.buffer = {4}},
                                              .table = {5}};
}

static const trp_cutlass_conv_request sample_conv = {.images = 2,
                                                     .channels = 4,
                                                     .filters = 6,
                                                     .input = {7, 5},
                                                     .filter = {3, 3},
                                                     .a = {.buffer = {1}, .type = TRP_BF16},
                                                     .b = {.buffer = {2}},
                                                     .d = {.buffer = {4}}};

/* --- records --- */

static void the_host_alone_has_them(void **state)
{
    (void)state;
    assert_int_equal(record.access_count, 0);
}

static uint32_t mode_of(uint32_t slot)
{
    for (uint32_t i = 0; i < record.access_count; i++) {
        if (record.access[i].slot == slot)
            return record.access[i].mode;
    }
    return 0;
}

/* D is only said to be written whole where it is. */
static void modes_say_what_is_written(void **state)
{
    (void)state;
    trp_cutlass_grouped_gemm_request r = sample(TRP_CUTLASS_GROUPS_OF_M);
    assert_int_equal(grouped(&r), TRP_OK);
    assert_int_equal(mode_of(1), TRP__READ);
    assert_int_equal(mode_of(4), TRP__WRITE);
    assert_int_equal(mode_of(5), TRP__READ);
    r.beta = trp_real(1);
    r.c = r.d;
    assert_int_equal(grouped(&r), TRP_OK);
    assert_int_equal(mode_of(4), TRP__READ | TRP__WRITE);

    r = sample(TRP_CUTLASS_GROUPS_OF_K);
    r.d.stride = 32;
    assert_int_equal(grouped(&r), TRP_OK);
    assert_int_equal(mode_of(4), TRP__WRITE | TRP__COVER);
    r.d.stride = 33;
    assert_int_equal(grouped(&r), TRP_OK);
    assert_int_equal(mode_of(4), TRP__WRITE);

    r = sample(TRP_CUTLASS_GROUPS_BY_TABLE);
    r.a.offset = 64;
    assert_int_equal(grouped(&r), TRP_OK);
    assert_int_equal(mode_of(4), TRP__WRITE);
    assert_int_equal(record.access[0].bytes, buffer_bytes - 64);

    assert_int_equal(conv(&sample_conv), TRP_OK);
    assert_int_equal(mode_of(4), TRP__WRITE | TRP__COVER);
    trp_cutlass_conv_request c = sample_conv;
    c.d.stride[2] = 7;
    assert_int_equal(conv(&c), TRP_OK);
    assert_int_equal(mode_of(4), TRP__WRITE);
    c.operation = TRP_CONV_WGRAD;
    c.d.stride[2] = 0;
    c.images = 0;
    assert_int_equal(conv(&c), TRP_OK);
    assert_int_equal(mode_of(1), 0);
    assert_int_equal(mode_of(4), TRP__WRITE | TRP__COVER);
}

/* --- overlap --- */

enum { GROUPS = 4, PLACES = 256 };

static int64_t place_of(const trp_cutlass_group *g, bool by_row, int64_t i, int64_t j)
{
    int64_t least = by_row ? g->n : g->m, ld = g->ldd ? g->ldd : least;
    return g->d + (by_row ? i * ld + j : j * ld + i);
}

/* How often the most used place is written; how many places are. */
static int most_written(const trp_cutlass_group *group, bool by_row, int *written)
{
    int count[PLACES] = {0}, most = 0;
    *written = 0;
    for (int g = 0; g < GROUPS; g++) {
        for (int64_t i = 0; i < group[g].m; i++) {
            for (int64_t j = 0; j < group[g].n; j++) {
                int *c = &count[place_of(&group[g], by_row, i, j)];
                *written += (*c)++ == 0;
                most = *c > most ? *c : most;
            }
        }
    }
    return most;
}

static void groups_do_not_overlap(void **state)
{
    (void)state;
    int accepted = 0, refused = 0;
    for (int round = 0; round < 20000; round++) {
        trp_cutlass_group group[GROUPS];
        trp_cutlass_grouped_gemm_request r = sample(TRP_CUTLASS_GROUPS_BY_VALUE);
        bool by_row = below(2), one_ld = below(2);
        int64_t ld = 6 + (int64_t)below(8), end = 0;
        int written;
        r.groups = GROUPS;
        r.m = r.n = r.k = 0;
        r.table.id = 0;
        r.group = group;
        r.d.order = by_row ? TRP_ROW_MAJOR : TRP_COL_MAJOR;
        for (int g = 0; g < GROUPS; g++) {
            group[g] = (trp_cutlass_group){.m = (int64_t)below(6),
                                           .n = (int64_t)below(6),
                                           .k = (int64_t)below(3),
                                           .d = (int64_t)below(80),
                                           .ldd = one_ld ? ld : 6 + (int64_t)below(8)};
            if (group[g].m > 0 && group[g].n > 0) {
                int64_t last = place_of(&group[g], by_row, group[g].m - 1, group[g].n - 1) + 1;
                end = last > end ? last : end;
            }
        }
        bool apart = most_written(group, by_row, &written) <= 1;
        trp_status status = grouped(&r);
        assert_true(status == TRP_OK || status == TRP_E_ARGUMENT);
        assert_true(apart || status != TRP_OK);
        if (one_ld)
            assert_true(apart == (status == TRP_OK));
        if (status == TRP_OK && written > 0)
            assert_int_equal((mode_of(4) & TRP__COVER) != 0, written == end);
        accepted += status == TRP_OK && written > 0;
        refused += status != TRP_OK;
    }
    assert_true(accepted > 500 && refused > 500);
}

/* --- numbers of every size --- */

static int64_t any_number(void)
{
    int64_t x = (int64_t)ref_rng_next(&rng) >> below(64);
    static const int64_t edges[] = {0, 0, 1, 1, 2, 3, INT32_MAX, INT64_MAX, INT64_MIN, -1};
    return below(3) ? edges[below(10)] : x;
}

/* What is accepted lies where the room is, counted in 128 bits. */
static void places_of_groups_are_inside(void **state)
{
    (void)state;
    int accepted = 0;
    for (int round = 0; round < 200000; round++) {
        trp__cutlass_grouped g = {.m = any_number() & INT64_MAX,
                                  .n = any_number() & INT64_MAX,
                                  .k = any_number() & INT64_MAX,
                                  .type = {TRP_F32, TRP_F32, TRP_F32, TRP_F32},
                                  .in_place = below(4) == 0};
        uint64_t room[TRP__GEMM_MATRICES];
        union {
            int64_t number[12];
            trp_cutlass_group row;
        } x;
        trp__group group;
        for (int i = 0; i < 12; i++)
            x.number[i] = any_number();
        for (int i = 0; i < TRP__GEMM_MATRICES; i++) {
            room[i] = (uint64_t)any_number() & INT64_MAX;
            g.ld[i] = any_number() & INT64_MAX;
            g.order[i] = (uint8_t)below(2);
        }
        g.order[TRP__GEMM_C] = g.order[TRP__GEMM_D];
        x.row.reserved = 0;
        if (trp__group_from_row(&g, 0, &x.row, room, &group, &error) != TRP_OK)
            continue;
        accepted++;
        assert_in_range(group.m, 0, g.m);
        for (int i = 0; i < TRP__GEMM_MATRICES; i++) {
            int64_t length, count;
            trp__group_lines(&g, &group, i, &length, &count);
            if (group.m == 0 || group.n == 0 || length == 0 || count == 0)
                continue;
            __extension__ typedef __int128 wide;
            wide last = (wide)group.at[i] + (wide)(count - 1) * group.ld[i] + length;
            assert_true(group.at[i] >= 0 && group.ld[i] >= length);
            assert_true(last <= (wide)room[g.in_place && i == TRP__GEMM_C ? TRP__GEMM_D : i]);
        }
    }
    assert_true(accepted > 1000);
}

static void requests_of_any_numbers(void **state)
{
    (void)state;
    for (int round = 0; round < 100000; round++) {
        static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_BF16, TRP_F8E4M3};
        trp_cutlass_group group[GROUPS];
        trp_cutlass_grouped_gemm_request r = sample((trp_cutlass_grouping)below(5));
        int64_t *numbers[] = {&r.m,    &r.n,        &r.k,        &r.a.ld,     &r.b.ld,
                              &r.d.ld, &r.a.stride, &r.b.stride, &r.d.stride, &r.groups};
        buffer_bytes = below(2) ? INT64_MAX : 1 << 20;
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            *numbers[i] = below(2) ? any_number() : *numbers[i];
        for (size_t i = 0; i < sizeof group / (sizeof(int64_t)); i++)
            ((int64_t *)group)[i] = any_number();
        r.a.offset = below(2) ? (uint64_t)any_number() : 0;
        r.d.offset = below(2) ? (uint64_t)any_number() : 0;
        r.d.buffer.id = 1 + below(4);
        r.a.type = types[below(4)];
        if (r.grouping == TRP_CUTLASS_GROUPS_BY_VALUE) {
            r.groups = (int64_t)below(GROUPS + 1);
            r.group = r.groups ? group : NULL;
            r.m = r.n = r.k = 0;
            r.table.id = 0;
        }
        trp_status status = grouped(&r);
        assert_true(status == TRP_OK || error.message[0]);

        trp_cutlass_conv_request c = sample_conv;
        c.operation = (trp_conv_operation)below(3);
        c.dims = (uint32_t)below(4);
        c.flip = false;
        int64_t *sizes[] = {c.input,  c.filter,  c.pad,       c.pad_after, c.stride, c.dilation,
                            c.output, &c.images, &c.channels, &c.filters,  &c.groups};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (size_t j = 0; j < (i < 7 ? 3 : 1); j++)
                sizes[i][j] = below(4)   ? sizes[i][j]
                              : below(2) ? any_number()
                                         : (int64_t)below(INT32_MAX);
        }
        for (int i = 0; i < 4; i++) {
            c.a.stride[i] = below(4) ? 0 : any_number();
            c.d.stride[i] = below(4) ? 0 : any_number();
        }
        c.a.type = types[below(4)];
        c.d.offset = below(2) ? (uint64_t)any_number() : 0;
        status = conv(&c);
        assert_true(status == TRP_OK || error.message[0]);
    }
    buffer_bytes = 1 << 20;
}

/* Products with factors of blocks and of groups. */
static void products_of_any_numbers(void **state)
{
    (void)state;
    static const trp_dtype types[] = {TRP_BF16, TRP_F8E4M3, TRP_F4E2M1, TRP_I8};
    int accepted = 0;
    for (int round = 0; round < 200000; round++) {
        trp_cutlass_gemm_request r = {.m = 8,
                                      .n = 4,
                                      .k = 6,
                                      .a = {.buffer = {1}, .type = types[below(4)]},
                                      .b = {.buffer = {2}},
                                      .d = {.buffer = {4}}};
        int64_t *numbers[] = {&r.m,    &r.n,        &r.k,        &r.a.ld,     &r.b.ld,
                              &r.d.ld, &r.a.stride, &r.b.stride, &r.d.stride, &r.groups.size};
        buffer_bytes = below(2) ? INT64_MAX : 1 << 20;
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            *numbers[i] = below(4) == 0 ? any_number() : *numbers[i];
        if (below(3)) {
            r.a.scale = (trp_scale){.buffer = {5}, .mode = (trp_scale_mode)below(7)};
            r.b.scale = (trp_scale){.buffer = {6}, .mode = (trp_scale_mode)below(7)};
        }
        if (below(3) == 0) {
            r.a.type = TRP_BF16;
            r.b.type = below(2) ? TRP_I8 : TRP_I4;
            r.a.scale = r.b.scale = (trp_scale){.mode = TRP_SCALE_TENSOR};
            r.groups.scale.id = 1 + below(8);
            r.groups.zero.id = below(8);
        }
        r.batch = below(3) == 0 ? any_number() : (int64_t)below(4);
        if (r.batch > 1 && below(2))
            r.d.stride = 32;
        r.a.scale.stride = below(3) ? 0 : any_number();
        r.b.scale.stride = below(3) ? 0 : any_number();
        r.groups.stride = below(3) ? 0 : any_number();
        r.a.scale.offset = below(4) ? 0 : (uint64_t)any_number();
        r.groups.scale_offset = below(4) ? 0 : (uint64_t)any_number();
        trp_status status = pack_on(TRP_BACKEND_HOST, &r.header, TRP_OP_CUTLASS_GEMM);
        assert_true(status == TRP_OK || error.message[0]);
        accepted += status == TRP_OK && record.access_count > 3;
    }
    assert_true(accepted > 500);
    buffer_bytes = 1 << 20;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(the_host_alone_has_them), UNIT(modes_say_what_is_written),
        UNIT(groups_do_not_overlap),   UNIT(places_of_groups_are_inside),
        UNIT(requests_of_any_numbers), UNIT(products_of_any_numbers),
    };
    ref_rng_init(&rng, ref_seed());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
