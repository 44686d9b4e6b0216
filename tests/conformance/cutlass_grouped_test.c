/* Grouped products of the cutlass actor in the conformance suite: every grouping, type and
 * layout. */
#include "conformance/conformance.h"
#include "support/problems/grouped_problem.h"

TROUPE_TEST("computes", "one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "cutlass");

static void make_request(const cf_problem *problem, void *out)
{
    gp_request(problem->own, out);
}

static trp_status send(trp_actor *cutlass, const cf_problem *problem, trp_completion *done)
{
    trp_cutlass_grouped_gemm_request r;
    make_request(problem, &r);
    return trp_cutlass_grouped_gemm(cutlass, &r, done);
}

/* --- the family --- */

static const cf_variant variants[] = {
    {.name = "f64", .type = TRP_F64},       {.name = "f32", .type = TRP_F32},
    {.name = "f16", .type = TRP_F16},       {.name = "bf16", .type = TRP_BF16},
    {.name = "f8e4m3", .type = TRP_F8E4M3}, {.name = "f8e5m2", .type = TRP_F8E5M2},
};
enum { WAYS = 25 };

static void drop(cf_problem *problem)
{
    gp_problem *p = problem->own;
    free(p->wanted);
    free(p);
}

static bool draw(cf_problem *problem, unsigned way, cf_kind kind)
{
    const trp_dtype type = variants[problem->variant].type;
    gp_problem *p = h_malloc(sizeof *p);
    *p = (gp_problem){.grouping = *(const trp_cutlass_grouping *)problem->operation->row,
                      .tight = kind == CF_TIGHT};
    if (!p->tight && p->grouping == TRP_CUTLASS_GROUPS_OF_M && type == TRP_BF16 && way < 3)
        gp_draw_large(p, way);
    else
        gp_draw(p, type, way == WAYS - 1 ? 60 : 12);
    problem->own = p;
    problem->blocks = p->blocks;
    problem->block_count = GP_BLOCKS;
    problem->may_fault = p->in_place && (p->tree || p->beta != 0);
    /* D is lost after a fault even if the request writes none of it. */
    if (problem->may_fault && !memchr(p->blocks[GP_D].writable, true, p->blocks[GP_D].bytes)) {
        for (int i = 0; i < GP_BLOCKS; i++)
            block_free(&p->blocks[i]);
        drop(problem);
        return false;
    }
    problem->may_refuse = kind == CF_TIGHT ? "" : NULL;
    return true;
}

static bool check(cf_problem *problem, cf_tally *tally)
{
    const gp_problem *p = problem->own;
    const block *d = &p->blocks[GP_D];
    (void)tally;
    for (size_t i = 0; i < d->bytes; i++) {
        if ((unsigned char)d->after[i] == p->wanted[i])
            continue;
        fprintf(stderr,
                "%zu groups, %s x %s + %s -> %s, request %zu x %zu x %zu%s%s: byte %zu of %zu is "
                "%#x, expected %#x\n",
                p->groups, trp_dtype_name(p->matrix[GP_A].type),
                trp_dtype_name(p->matrix[GP_B].type), trp_dtype_name(p->matrix[GP_C].type),
                trp_dtype_name(p->matrix[GP_D].type), p->m, p->n, p->k, p->tree ? ", a tree" : "",
                p->in_place ? ", in place" : "", i, d->bytes, (unsigned char)d->after[i],
                p->wanted[i]);
        return false;
    }
    return true;
}

/* --- bad input --- */

/* Fields that only some groupings have. Matrices that are cut have no stride. */
enum {
    ALL = 1,
    HAS_C = 2,
    HAS_D = 4,
    BY_VALUE = 8,
    BY_TABLE = 16,
    CUT = 32, /* cut along m, n or k */
    STRIDE_A = 64,
    STRIDE_B = 128,
    STRIDE_D = 256,
};

#define AT(field) offsetof(trp_cutlass_grouped_gemm_request, field)
#define MATRIX(x, bits)                                                                            \
    {                                                                                              \
        .name = #x, .buffer = AT(x.buffer), .offset = AT(x.offset), .has = bits,                   \
        .needed = (bits) & ~HAS_C, .missing = TRP_E_STALE                                          \
    }
#define NO_SCALE(x)                                                                                \
    {                                                                                              \
        .name = #x ".scale", .buffer = AT(x.scale.buffer), .offset = AT(x.scale.offset)            \
    }
#define FIELD(field, what, bits, ...)                                                              \
    {                                                                                              \
        .name = #field, .role = what, .at = AT(field), .has = bits, __VA_ARGS__                    \
    }
static const cf_operand operands[] = {
    MATRIX(a, ALL),
    MATRIX(b, ALL),
    MATRIX(c, HAS_C),
    MATRIX(d, HAS_D),
    {.name = "table",
     .buffer = AT(table),
     .offset = AT(table_offset),
     .has = BY_TABLE | CUT,
     .needed = BY_TABLE | CUT,
     .missing = TRP_E_STALE},
    NO_SCALE(a),
    NO_SCALE(b),
    NO_SCALE(c),
    NO_SCALE(d),
};
static const cf_field fields[] = {
    FIELD(a.type, CF_TYPE, ALL),
    FIELD(grouping, CF_OPTION, ALL, .limit = 5),
    FIELD(compute, CF_OPTION, ALL, .limit = TRP_COMPUTE_PEDANTIC + 1),
    FIELD(a.order, CF_OPTION, ALL, .limit = 2),
    FIELD(b.order, CF_OPTION, ALL, .limit = 2),
    FIELD(c.order, CF_OPTION, ALL, .limit = 2),
    FIELD(d.order, CF_OPTION, ALL, .limit = 2),
    FIELD(alignment, CF_OPTION, BY_TABLE | CUT, .limit = 32),
    FIELD(first, CF_OPTION, ALL, .limit = 2),
    FIELD(tune, CF_OPTION, ALL, .limit = 3),
    FIELD(groups, CF_FORWARD, ALL),
    FIELD(groups, CF_COUNT, BY_TABLE | CUT),
    FIELD(m, CF_FORWARD, ALL),
    FIELD(n, CF_FORWARD, ALL),
    FIELD(k, CF_FORWARD, ALL),
    FIELD(m, CF_COUNT, CUT),
    FIELD(n, CF_COUNT, CUT),
    FIELD(k, CF_COUNT, CUT),
    FIELD(a.ld, CF_FORWARD, ALL),
    FIELD(b.ld, CF_FORWARD, ALL),
    FIELD(c.ld, CF_FORWARD, ALL),
    FIELD(d.ld, CF_FORWARD, ALL),
    FIELD(a.ld, CF_LD, CUT),
    FIELD(b.ld, CF_LD, CUT),
    FIELD(c.ld, CF_LD, CUT),
    FIELD(d.ld, CF_LD, CUT),
    FIELD(a.stride, CF_UNUSED0, STRIDE_A),
    FIELD(b.stride, CF_UNUSED0, STRIDE_B),
    FIELD(c.stride, CF_UNUSED0, STRIDE_D),
    FIELD(d.stride, CF_UNUSED0, STRIDE_D),
    FIELD(alpha, CF_SCALAR, ALL),
    FIELD(beta, CF_SCALAR, ALL),
};

/* Mistakes in the rows of groups by value, and in fields that belong to tables. */
static bool spoil(const cf_problem *problem, unsigned which, const cf_wrong *wrong, void *request)
{
    static trp_cutlass_group row[GP_GROUPS_MOST];
    static const struct {
        const char *word;
        size_t at;
        int64_t value;
    } rows[] = {
#define ROW(field, wrong) {"group[1]." #field, offsetof(trp_cutlass_group, field), wrong}
        ROW(m, -1),
        ROW(n, INT64_MIN),
        ROW(k, -1),
        ROW(a, -1),
        ROW(b, INT64_MIN),
        ROW(c, -1),
        ROW(d, -1),
        ROW(a, INT64_C(1) << 61), /* in bytes 0, modulo 2^64 */
        ROW(b, INT64_C(1) << 62),
        ROW(c, INT64_MAX),
        ROW(d, 100000),
        ROW(lda, 1),
        ROW(ldb, -1),
        ROW(ldc, INT64_MIN),
        ROW(ldd, 1),
        ROW(reserved, 1),
#undef ROW
        {"overlap", offsetof(trp_cutlass_group, d), 0},
    };
    enum { ROWS_WRONG = sizeof rows / sizeof *rows };
    const gp_problem *p = problem->own;
    trp_cutlass_grouped_gemm_request *r = request;
    if (p->grouping != TRP_CUTLASS_GROUPS_BY_VALUE) {
        r->group = row;
        *wrong->word = "group: ";
        return which == 0;
    }
    if (which < ROWS_WRONG) {
        memcpy(row, p->row, sizeof row);
        memcpy((char *)&row[1] + rows[which].at, &rows[which].value, sizeof rows[which].value);
        r->group = row;
        *wrong->word = rows[which].word;
        return true;
    }
    int64_t *const none[] = {&r->m, &r->n, &r->k};
    static const char *const names[] = {"m: ", "n: ", "k: "};
    if (which - ROWS_WRONG < 3) {
        *none[which - ROWS_WRONG] = 1;
        *wrong->word = names[which - ROWS_WRONG];
        return true;
    }
    r->group = NULL;
    *wrong->word = "group: ";
    return which == ROWS_WRONG + 3;
}

static const cf_family family = {
    .operands = operands,
    .operand_count = sizeof operands / sizeof *operands,
    .fields = fields,
    .field_count = sizeof fields / sizeof *fields,
    .request_bytes = sizeof(trp_cutlass_grouped_gemm_request),
    .draw = draw,
    .request = make_request,
    .send = send,
    .check = check,
    .drop = drop,
    .spoil = spoil,
};

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        trp_cutlass_grouping grouping;
        cf_has has;
    } rows[] = {{"groups_by_value", TRP_CUTLASS_GROUPS_BY_VALUE, BY_VALUE},
                {"groups_by_table", TRP_CUTLASS_GROUPS_BY_TABLE, BY_TABLE},
                {"groups_of_m", TRP_CUTLASS_GROUPS_OF_M, CUT | STRIDE_B},
                {"groups_of_n", TRP_CUTLASS_GROUPS_OF_N, CUT | STRIDE_A},
                {"groups_of_k", TRP_CUTLASS_GROUPS_OF_K, CUT | STRIDE_D}};
    enum { COUNT = sizeof rows / sizeof *rows };
    static cf_operation operations[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        operations[i] = (cf_operation){.name = rows[i].name,
                                       .op = TRP_OP_CUTLASS_GROUPED_GEMM,
                                       .family = &family,
                                       .row = &rows[i].grouping,
                                       .variants = variants,
                                       .variant_count = sizeof variants / sizeof *variants,
                                       .ways = WAYS,
                                       .has = ALL | HAS_C | HAS_D | rows[i].has,
                                       .writes = HAS_D,
                                       .in_place = HAS_C | HAS_D,
                                       .rest = rows[i].has == BY_TABLE ? ALL | HAS_C | HAS_D : 0};
    const cf_actor cutlass = {.kind = "cutlass",
                              .title = "cutlass: groups",
                              .operations = operations,
                              .count = COUNT,
                              .rounds = WAYS,
                              .keeps = true};
    if (h_is_gpu())
        return H_EXIT_SKIPPED; /* hundreds of kernels; gpu/cutlass_grouped runs a few */
    return cf_main(argc, argv, &cutlass);
}
