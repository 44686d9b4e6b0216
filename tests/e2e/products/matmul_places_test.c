/* Where the operands of the matmul actor may lie: sizes up to overflow, the ends of buffers,
 * and operands that overlap. */
#include "support/problems/matmul/requests.h"
#include "support/label.h"

TROUPE_TEST_FAKE_GPU("no sanitizer");

static const int64_t huge[] = {INT64_MAX,        INT64_MAX - 1,    INT64_MAX - 127,
                               INT64_C(1) << 62, INT64_C(1) << 61, (INT64_C(1) << 61) - 1,
                               INT64_C(1) << 58, INT64_C(1) << 33, INT64_C(3) << 31};
enum { HUGE = sizeof huge / sizeof *huge };

static trp_matmul_request (*const makers[])(void) = {plain, biased, in_buffer, relu, gelu, drelu,
                                                     dgelu, of_a,   fp8,       fp4,  c64,  i8};
enum { MAKERS = sizeof makers / sizeof *makers };

/* Any of the numbers of any request, huge: it is refused, whatever the message names. */
static void sizes(void)
{
    mq_open();
    BAD("k:", plain, r.m = r.n = 0; r.k = -1);
    TAKEN(plain, r.k = 0);
    TAKEN(plain, r.k = 0; r.a.buffer = r.b.buffer = none);
    /* One that only the padding of aux takes too far. */
    for (int i = 0; i < 2; i++) {
        trp_matmul_request r = fp8();
        r.activation = i ? TRP_ACTIVATION_GELU : TRP_ACTIVATION_RELU;
        r.trans_a = TRP_N;
        r.n = r.k = 1;
        r.beta = trp_real(0);
        r.aux.scale.buffer = r.amax_aux = none;
        r.m = INT64_MAX;
        mq_refused(__LINE__, "2^63 - 1 rows", &r, TRP_E_ARGUMENT, "m:");
        r.m = INT64_MAX - 1;
        mq_refused(__LINE__, "2^63 - 2 rows", &r, TRP_E_ARGUMENT, "m:");
    }
    for (int i = 0; i < HUGE; i++) {
        for (int make = 0; make < MAKERS; make++) {
            for (int which = 0; which < 64; which++) {
                trp_matmul_request r = makers[make]();
                int64_t *const numbers[] = {&r.m, &r.n, &r.k, &r.a.ld, &r.b.ld, &r.d.ld};
                for (int b = 0; b < 6; b++) {
                    if (which >> b & 1)
                        *numbers[b] = huge[i];
                }
                if (which & 7 || (which & 56) == 56)
                    mq_refused(__LINE__, "a huge size", &r, TRP_E_ARGUMENT, "");
            }
            trp_matmul_request r = makers[make]();
            r.d.order = r.c.order = r.aux.order = TRP_ROW_MAJOR;
            r.m = huge[i];
            mq_refused(__LINE__, "a huge size", &r, TRP_E_ARGUMENT, "");
        }
        BAD("a", plain, r.a.ld = huge[i]);
        BAD("b", plain, r.b.ld = huge[i]);
        BAD("c", plain, r.c.ld = huge[i]);
        BAD("d", plain, r.d.ld = huge[i]);
        BAD("", plain, r.batch = huge[i]);
        BAD("d.stride", of_a, r.batch = huge[i]; r.d.order = r.c.order = TRP_ROW_MAJOR);
        BAD("d", plain, r.batch = 2; r.d.stride = huge[i]);
        BAD("a", plain, r.batch = huge[i]; r.a.stride = huge[i]);
        BAD("d", plain, r.batch = huge[i]; r.d.stride = M * N);
        BAD("", biased, r.batch = 2; r.d.stride = huge[i]; r.bias.stride = huge[i]);
    }
    mq_close();
}

static void leading_dimensions(void)
{
    mq_open();
    BAD("a.ld", plain, r.a.ld = M - 1);
    BAD("a.ld", plain, r.a.ld = -M);
    BAD("b.ld", plain, r.b.ld = K - 1);
    BAD("c.ld", plain, r.c.ld = M - 1);
    BAD("d.ld", plain, r.d.ld = INT64_MIN);
    BAD("a.ld", plain, r.a.ld = M; r.trans_a = TRP_T);
    BAD("b.ld", plain, r.b.ld = N - 1; r.trans_b = TRP_T);
    BAD("a.ld", plain, r.a.ld = K - 1; r.a.order = TRP_ROW_MAJOR);
    BAD("b.ld", plain, r.b.ld = N - 1; r.b.order = TRP_ROW_MAJOR);
    BAD("d.ld", plain, r.d.ld = N - 1; r.d.order = r.c.order = TRP_ROW_MAJOR);
    BAD("a.ld", plain, r.a.ld = M - 1; r.d.order = r.c.order = TRP_ROW_MAJOR);
    BAD("a:", fp4, r.a.ld = 2 * SIDE + 1);
    BAD("a:", fp4, r.k = 2 * SIDE - 1);
    BAD("a:", fp4, r.k = 2 * SIDE - 1; r.a.ld = r.b.ld = 2 * SIDE);
    BAD("a:", fp4, r.trans_a = TRP_N; r.m = SIDE - 1);
    BAD("b:", fp4, r.batch = 2; r.b.stride = 3);
    TAKEN(fp4, r.m = SIDE - 1);
    TAKEN(plain, r.c = (trp_matmul_matrix){.ld = -1}; r.beta = trp_real(0));
    mq_close();
}

/* To the last byte, and one element further. */
static void ends(void)
{
    mq_open();
    BAD("a:", plain, r.a.offset = 4);
    BAD("b:", plain, r.b.offset = 4);
    BAD("c:", plain, r.c.offset = 4);
    BAD("d:", plain, r.d.offset = 4);
    BAD("a:", plain, r.a.offset = UINT64_MAX - 3);
    BAD("d:", plain, r.d.offset = (uint64_t)INT64_MAX - 3);
    BAD("a:", fp4, r.a.offset = 1);
    BAD("a.offset", plain, r.a.offset = 1);
    BAD("b.offset", plain, r.b.offset = 2);
    BAD("c.offset", plain, r.c.offset = 3);
    BAD("d.offset", plain, r.d.offset = 2);
    BAD("a.offset", c64, r.a.offset = 4);
    BAD("", plain, r.m = M + 1);
    BAD("", plain, r.n = N + 1);
    BAD("", plain, r.k = K + 1);
    BAD("a:", plain, r.a.ld = M + 1);
    BAD("d:", plain, r.d.ld = M + 1);
    BAD("d.stride", plain, r.batch = 2);
    BAD("d.stride", plain, r.batch = 2; r.d.buffer = large; r.d.stride = M * N - 1);
    BAD("d.stride", plain, r.batch = 2; r.d.buffer = large; r.d.stride = -1);
    BAD("a.stride", plain, r.batch = 2; r.d.buffer = large; r.d.stride = M * N; r.a.stride = -1);
    BAD("a:", plain, r.batch = 2; r.d.buffer = large; r.d.stride = M * N; r.a.stride = 1);
    BAD("c:", plain, r.batch = 2; r.d.buffer = large; r.d.stride = M * N; r.c.stride = 1);
    BAD("bias:", biased, r.batch = 2; r.d.buffer = large; r.d.stride = M * N; r.bias.stride = 1);
    BAD("bias.stride", biased, r.batch = 2; r.d.buffer = large; r.d.stride = M * N;
        r.bias.stride = -1);
    BAD("gradient.stride", of_a, r.batch = 2; r.d.buffer = large; r.d.stride = M * N);
    BAD("gradient.stride", of_a, r.batch = 2; r.d.buffer = large; r.d.stride = M * N;
        r.gradient.stride = M - 1);
    TAKEN(plain, r.batch = 2; r.d.buffer = large; r.d.stride = M * N);
    TAKEN(plain, r.batch = 2; r.d.buffer = large; r.d.offset = 65536 - 2 * M * N * 4;
          r.d.stride = M * N);
    TAKEN(plain, r.batch = 2; r.d.buffer = large; r.d.stride = M; r.d.ld = 2 * M);
    BAD("d.stride", plain, r.batch = 3; r.d.buffer = large; r.d.stride = M; r.d.ld = 3 * M - 1);
    mq_close();
}

/* ---- handles ---- */

/* All buffers of a request, and what messages call them. */
enum { FIELDS = 15 };
typedef struct field {
    trp_buffer *buffer;
    const char *name;
} field;

static void list_fields(trp_matmul_request *r, field out[FIELDS])
{
    const field all[FIELDS] = {
        {&r->a.buffer, "a"},
        {&r->b.buffer, "b"},
        {&r->c.buffer, "c"},
        {&r->d.buffer, "d"},
        {&r->aux.buffer, "aux"},
        {&r->bias.buffer, "bias"},
        {&r->gradient.buffer, "gradient"},
        {&r->scalars, "scalars"},
        {&r->a.scale.buffer, "a.scale"},
        {&r->b.scale.buffer, "b.scale"},
        {&r->d.scale.buffer, "d.scale"},
        {&r->aux.scale.buffer, "aux.scale"},
        {&r->amax_d, "amax_d"},
        {&r->amax_aux, "amax_aux"},
        {&r->c.scale.buffer, "c.scale"},
    };
    memcpy(out, all, sizeof all);
}

/* Handles of what is not looked at. */
static void not_looked_at(void)
{
    mq_open();
    const trp_buffer stale = {UINT64_MAX};
    TAKEN(plain, r.c.buffer = stale; r.beta = trp_real(0));
    TAKEN(gelu, r.m = 0; r.a.buffer = r.b.buffer = r.aux.buffer = stale);
    mq_close();
}

/* ---- overlaps ---- */

/* Moves every operand into one buffer, each to a place of its own. */
static void spread(trp_matmul_request *r, uint64_t *offset[FIELDS])
{
    field fields[FIELDS];
    uint64_t *const all[FIELDS] = {
        &r->a.offset,       &r->b.offset,        &r->c.offset,        &r->d.offset,
        &r->aux.offset,     &r->bias.offset,     &r->gradient.offset, &r->scalars_offset,
        &r->a.scale.offset, &r->b.scale.offset,  &r->d.scale.offset,  &r->aux.scale.offset,
        &r->amax_d_offset,  &r->amax_aux_offset, &r->c.scale.offset,
    };
    list_fields(r, fields);
    for (int i = 0; i < FIELDS; i++) {
        offset[i] = fields[i].buffer->id ? all[i] : NULL;
        if (!offset[i])
            continue;
        *fields[i].buffer = large;
        *offset[i] = (uint64_t)i * 4096;
    }
}

static bool is_output(const trp_matmul_request *r, int i)
{
    bool derivative =
        r->activation == TRP_ACTIVATION_DRELU || r->activation == TRP_ACTIVATION_DGELU;
    return i == 3 || (i == 4 && !derivative) || i == 6 || i == 12 || i == 13;
}

/* Every two operands of which one is written, in one place. C may be where D is. */
static void overlaps(void)
{
    mq_open();
    for (int make = 0; make < MAKERS; make++) {
        uint64_t *offset[FIELDS];
        trp_matmul_request r = makers[make]();
        spread(&r, offset);
        mq_taken(__LINE__, "operands apart in one buffer", &r);
        for (int i = 0; i < FIELDS; i++) {
            for (int j = 0; j < FIELDS; j++) {
                r = makers[make]();
                spread(&r, offset);
                if (i == j || !offset[i] || !offset[j])
                    continue;
                *offset[i] = *offset[j];
                bool same = (i == 2 && j == 3) || (i == 3 && j == 2);
                if (same && r.d.type == r.c.type && r.a.type == TRP_F32)
                    mq_taken(__LINE__, "C in D's place", &r);
                else if (is_output(&r, i) || is_output(&r, j))
                    mq_refused(__LINE__, "an overlap", &r, TRP_E_ARGUMENT, "");
                else
                    mq_taken(__LINE__, "inputs in one place", &r);
            }
        }
    }
    mq_close();
}

/* C and D in one place that are not quite the same. */
static void almost_in_place(void)
{
    mq_open();
    TAKEN(plain, r.c = r.d = (trp_matmul_matrix){.buffer = large});
    BAD("d:", plain, r.c = r.d = (trp_matmul_matrix){.buffer = large}; r.c.ld = M + 1);
    BAD("d:", plain, r.c = r.d = (trp_matmul_matrix){.buffer = large}; r.c.offset = 4);
    BAD("d:", plain, r.c = r.d = (trp_matmul_matrix){.buffer = large}; r.batch = 2;
        r.d.stride = M * N; r.c.stride = M * N + 1);
    BAD("d:", plain, r.c = r.d = (trp_matmul_matrix){.buffer = large}; r.batch = 2;
        r.d.stride = M * N; r.c.stride = 0);
    BAD("d:", fp8, r.c.buffer = r.d.buffer = large);
    TAKEN(plain, r.c = r.d = (trp_matmul_matrix){.buffer = large}; r.batch = 2;
          r.d.stride = r.c.stride = M * N);
    TAKEN(plain, r.c = r.d = (trp_matmul_matrix){.buffer = large}; r.c.ld = M);
    /* Next to each other, and between each other's columns. */
    TAKEN(plain, r.c.buffer = r.d.buffer = large; r.c.offset = M * N * 4);
    TAKEN(plain, r.c.buffer = r.d.buffer = large; r.c.ld = r.d.ld = 2 * M; r.c.offset = M * 4);
    BAD("d:", plain, r.c.buffer = r.d.buffer = large; r.c.ld = r.d.ld = 2 * M;
        r.c.offset = (M + 1) * 4);
    /* Not read, it may lie anywhere. */
    TAKEN(plain, r.c = r.d; r.c.ld = M + 3; r.c.order = TRP_ROW_MAJOR; r.beta = trp_real(0));
    mq_close();
}

H_CASES(H_CASE(sizes), H_CASE(leading_dimensions), H_CASE(ends), H_CASE(not_looked_at),
        H_CASE(overlaps), H_CASE(almost_in_place))
