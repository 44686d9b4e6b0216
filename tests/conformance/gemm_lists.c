/* Lists of gemms of the blas actor. Each item is a problem of gemm, with the types, reference and
 * bounds of gemm. */
#include "conformance/blas_levels.h"

enum { ITEMS = 48, TIGHT_ITEMS = 3 };

typedef struct list {
    int count;
    trp_joining joining;
    problem item[ITEMS];
    block blocks[CF_BLOCKS]; /* of all items */
} list;

/* The request with its items, so that bad_input finds their fields. */
typedef struct request {
    trp_gemm_list_request list;
    trp_gemm_item item[ITEMS];
} request;

/* Bits of cf_has. */
enum { ALWAYS = 1, READS = 2, WRITES = 4, ONE_SIZE = 8, OWN_SIZES = 16 };

/* ---- problems ---- */

/* Finds the next block of the items; false after the last. */
static bool next_block(list *l, int *item, int *place, block **out)
{
    for (; *item < l->count; ++*item, *place = 0) {
        while (*place < PLACES) {
            *out = &l->item[*item].blocks[(*place)++];
            if ((*out)->before)
                return true;
        }
    }
    return false;
}

static bool draw(cf_problem *p, unsigned way, cf_kind kind)
{
    problem options;
    block *b;
    if (!cf_blas_options(p, way, &options))
        return false;
    list *l = h_malloc(sizeof *l);
    l->count = kind == CF_TIGHT    ? TIGHT_ITEMS
               : blas_below(8) > 0 ? 1 + (int)blas_below(8)
                                   : 1 + (int)blas_below(ITEMS);
    l->item[0] = options;
    blas_draw_list(l->item, l->count, p->operation->has & OWN_SIZES, kind == CF_TIGHT);
    for (int item = 0, place = 0; next_block(l, &item, &place, &b);)
        l->blocks[p->block_count++] = *b;
    for (int i = 0; i < l->count; i++) {
        p->may_fault = p->may_fault || !blas_runs_again(&l->item[i]);
        p->may_refuse = p->may_refuse ? p->may_refuse : cf_gemm_may_refuse(&l->item[i]);
    }
    if (kind == CF_TIGHT && options.step > 0) /* bad_input changes a size or an offset */
        p->may_refuse = "expected a multiple of 4";
    p->in_parts = true;
    l->joining = (trp_joining)blas_below(2);
    p->any_bits = l->joining == TRP_JOINING_DEFAULT && h_backend() == TRP_BACKEND_CUDA;
    p->own = l;
    p->blocks = l->blocks;
    return true;
}

static void make_request(const cf_problem *p, void *out)
{
    list *l = p->own;
    request *r = out;
    blas_request one = {0};
    block *b;
    const block *from = l->blocks;
    for (int item = 0, place = 0; next_block(l, &item, &place, &b);)
        b->buffer = from++->buffer;
    r->list = (trp_gemm_list_request){.header.wait_ns = H_LONG,
                                      .own_sizes = p->operation->has & OWN_SIZES,
                                      .count = l->count,
                                      .item = r->item};
    const bool own_sizes = r->list.own_sizes;
    /* the scalars are those of the first item, which is made last */
    for (int i = l->count - 1; i >= 0; i--) {
        blas_make_request(&l->item[i], &one);
        const trp_gemm_request *g = &one.gemm;
        trp_gemm_item *x = &r->item[i];
        *x = (trp_gemm_item){g->a, g->b, g->c, g->a_offset, g->b_offset, g->c_offset,
                             g->m, g->n, g->k, g->lda,      g->ldb,      g->ldc};
        if (!own_sizes)
            x->m = x->n = x->k = x->lda = x->ldb = x->ldc = 0;
    }
    trp_gemm_request *c = &r->list.common;
    *c = one.gemm;
    c->joining = l->joining;
    c->a = c->b = c->c = (trp_buffer){0};
    c->a_offset = c->b_offset = c->c_offset = 0;
    c->a_stride = c->b_stride = c->c_stride = c->batch = 0;
    if (own_sizes)
        c->m = c->n = c->k = c->lda = c->ldb = c->ldc = 0;
}

static trp_status send(trp_actor *blas, const cf_problem *p, trp_completion *done)
{
    request r;
    make_request(p, &r);
    trp_status status = trp_gemm_list(blas, &r.list, done);
    memset(&r, 0xff, sizeof r); /* the call has read it */
    return status;
}

/* Submits a changed copy of the request, with the items of the copy. */
static trp_status submit(trp_actor *blas, const cf_problem *p, void *out, trp_completion *done)
{
    request *r = out;
    (void)p;
    if (r->list.item)
        r->list.item = r->item;
    return trp_submit(blas, &r->list.header, done);
}

static bool check(cf_problem *p, cf_tally *tally)
{
    list *l = p->own;
    for (int i = 0; i < l->count; i++) {
        if (!blas_check_outputs(&l->item[i], &tally->worst)) {
            fprintf(stderr, "  that was item %d of %d\n", i, l->count);
            return false;
        }
    }
    return true;
}

static void drop(cf_problem *p)
{
    free(p->own);
}

/* ---- bad input ---- */

#define COMMON(field) offsetof(request, list.common.field)
#define ITEM(field)   offsetof(request, item[1].field)

static const cf_operand operands[] = {
    {"item[1]: a", ITEM(a), ITEM(a_offset), READS, READS, TRP_E_STALE},
    {"item[1]: b", ITEM(b), ITEM(b_offset), READS, READS, TRP_E_STALE},
    {"item[1]: c", ITEM(c), ITEM(c_offset), WRITES, WRITES, TRP_E_STALE},
    {"scalars", COMMON(scalars), COMMON(scalars_offset), READS, 0, TRP_E_ARGUMENT},
};

#define FIELD(field, what, ...)                                                                    \
    {                                                                                              \
        .name = #field, .role = what, .at = COMMON(field), .has = ALWAYS, __VA_ARGS__              \
    }
#define OPTION(field, values) FIELD(field, CF_OPTION, .limit = values)
#define SIZE(field, what)                                                                          \
    {.name = #field, .role = what, .at = COMMON(field), .has = ONE_SIZE},                          \
    {                                                                                              \
        .name = "item[1]: " #field, .role = what, .at = ITEM(field), .has = OWN_SIZES              \
    }
static const cf_field fields[] = {
    FIELD(type, CF_TYPE),   OPTION(type_c, TRP_DTYPE_COUNT),
    OPTION(compute, 4),     OPTION(order, 2),
    OPTION(trans_a, 3),     OPTION(trans_b, 3),
    OPTION(joining, 2),     FIELD(alpha, CF_SCALAR),
    FIELD(beta, CF_SCALAR), SIZE(m, CF_COUNT),
    SIZE(n, CF_COUNT),      SIZE(k, CF_COUNT),
    SIZE(lda, CF_LD),       SIZE(ldb, CF_LD),
    SIZE(ldc, CF_LD),
};

/* Fields that a list must leave 0, and impossible counts of items. */
static bool spoil(const cf_problem *p, unsigned which, const cf_wrong *wrong, void *out)
{
#define ZERO(at, name)                                                                             \
    {at, 16, name ": expected 0"},                                                                 \
    {                                                                                              \
        at, INT64_MIN, name ": expected 0"                                                         \
    }
#define EACH(name) ZERO(COMMON(name), "common." #name)
    const bool own = p->operation->has & OWN_SIZES;
    const struct {
        size_t at;
        int64_t value;
        const char *word;
    } mistakes[] = {
        {offsetof(request, list.count), 0, "count: expected 1 or more, got 0"},
        {offsetof(request, list.count), INT64_MAX, "count: expected 1 or more"},
        {offsetof(request, list.count), INT32_MAX, "count: expected 1 to"},
        {offsetof(request, list.item), 0, "item: expected a pointer"},
        EACH(a),
        EACH(b),
        EACH(c),
        EACH(a_offset),
        EACH(b_offset),
        EACH(c_offset),
        EACH(a_stride),
        EACH(b_stride),
        EACH(c_stride),
        EACH(batch),
        ZERO(COMMON(header.wait_ns), "common.header"),
        {own ? COMMON(m) : ITEM(m), 2, own ? "common.m: expected 0" : "item[1]: m: expected 0"},
        {own ? COMMON(ldc) : ITEM(ldc), 9, own ? "common.ldc: exp" : "item[1]: ldc: exp"},
    };
    if (which >= sizeof mistakes / sizeof *mistakes)
        return false;
    memcpy((char *)out + mistakes[which].at, &mistakes[which].value, sizeof(int64_t));
    *wrong->word = mistakes[which].word;
    return true;
}

static const cf_family family = {
    .operands = operands,
    .operand_count = sizeof operands / sizeof *operands,
    .fields = fields,
    .field_count = sizeof fields / sizeof *fields,
    .request_bytes = sizeof(trp_gemm_list_request),
    .scalars = COMMON(scalars),
    .draw = draw,
    .request = make_request,
    .send = send,
    .submit = submit,
    .check = check,
    .drop = drop,
    .spoil = spoil,
};

void cf_gemm_lists(cf_operation *out, const cf_operation *gemm)
{
    out[0] = *gemm;
    out[0].name = "gemm_list";
    out[0].op = TRP_OP_GEMM_LIST;
    out[0].family = &family;
    out[0].has = ALWAYS | READS | WRITES | ONE_SIZE;
    out[0].writes = WRITES;
    out[1] = out[0];
    out[1].name = "gemm_list_of_sizes";
    out[1].has ^= ONE_SIZE | OWN_SIZES;
}
