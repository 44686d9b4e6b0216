/* The matmul actor in the conformance suite. */
#include "conformance/conformance.h"
#include "support/problems/matmul/problem.h"

TROUPE_TEST("long");
TROUPE_TEST_FAKE_GPU("no sanitizer");

/* ---- the request ---- */

enum {
    ALWAYS = 1 << 0,
    HAS_C = 1 << 1,
    HAS_D = 1 << 2,
    OTHER = 1 << 3,   /* operands that some problems have */
    RESULTS = 1 << 4, /* outputs besides D */
};

#define AT(field) offsetof(trp_matmul_request, field)
#define MATRIX(x, has, needed)                                                                     \
    {                                                                                              \
#x, AT(x.buffer), AT(x.offset), has, needed, TRP_E_STALE                                   \
    }
#define BUFFER(x, has)                                                                             \
    {                                                                                              \
#x, AT(x), AT(x##_offset), has, 0, TRP_E_STALE                                             \
    }
#define FIELD(field, what, ...)                                                                    \
    {                                                                                              \
        .name = #field, .role = what, .at = AT(field), .has = ALWAYS, __VA_ARGS__                  \
    }

static const cf_operand operands[] = {
    MATRIX(a, ALWAYS, ALWAYS),       MATRIX(b, ALWAYS, ALWAYS),   MATRIX(c, HAS_C, 0),
    MATRIX(d, HAS_D, ALWAYS),        MATRIX(aux, OTHER, 0),       MATRIX(bias, OTHER, 0),
    MATRIX(gradient, RESULTS, 0),    MATRIX(a.scale, OTHER, 0),   MATRIX(b.scale, OTHER, 0),
    MATRIX(d.scale, OTHER, 0),       MATRIX(aux.scale, OTHER, 0), BUFFER(amax_d, RESULTS),
    BUFFER(amax_aux, RESULTS),       BUFFER(scalars, OTHER),      MATRIX(alphas, OTHER, 0),
    MATRIX(d_out_scale, RESULTS, 0),
};
static const cf_field fields[] = {
    FIELD(a.type, CF_TYPE),
    FIELD(a.order, CF_OPTION, .limit = 2),
    FIELD(b.order, CF_OPTION, .limit = 2),
    FIELD(d.order, CF_OPTION, .limit = 2),
    FIELD(trans_a, CF_OPTION, .limit = 3),
    FIELD(trans_b, CF_OPTION, .limit = 3),
    FIELD(compute, CF_OPTION, .limit = 4),
    FIELD(activation, CF_OPTION, .limit = 6),
    FIELD(gradient_of, CF_OPTION, .limit = 4),
    FIELD(tune, CF_OPTION, .limit = 77),
    FIELD(a.ld, CF_LD),
    FIELD(b.ld, CF_LD),
    FIELD(d.ld, CF_LD),
    FIELD(m, CF_COUNT),
    FIELD(n, CF_COUNT),
    FIELD(k, CF_COUNT),
    FIELD(batch, CF_BATCH),
    FIELD(alpha, CF_SCALAR),
    FIELD(beta, CF_SCALAR),
};

/* ---- problems ---- */

static bool draw(cf_problem *p, unsigned way, cf_kind kind)
{
    const mm_types *types = &mm_rows[p->variant];
    mm_problem problem;
    if (kind == CF_TIGHT)
        problem = mm_draw_tight(types);
    else if (!mm_draw_way(types, way, &problem))
        return false;
    mm_work *w = mm_make(problem);
    p->own = w;
    p->blocks = mm_blocks(w);
    p->block_count = MM_POOLS;
    p->may_fault = !mm_runs_again(w);
    p->may_refuse = h_is_cuda() ? "" : NULL; /* cuBLASLt may have no algorithm */
    return true;
}

static void make_request(const cf_problem *p, void *out)
{
    mm_make_request(p->own, out);
}

static trp_status send(trp_actor *matmul, const cf_problem *p, trp_completion *done)
{
    trp_matmul_request r;
    mm_make_request(p->own, &r);
    return trp_matmul(matmul, &r, done);
}

static bool check(cf_problem *p, cf_tally *tally)
{
    mm_check(p->own, &tally->worst);
    return true;
}

static void drop(cf_problem *p)
{
    mm_free(p->own);
}

static const cf_family family = {
    .operands = operands,
    .operand_count = sizeof operands / sizeof *operands,
    .fields = fields,
    .field_count = sizeof fields / sizeof *fields,
    .request_bytes = sizeof(trp_matmul_request),
    .scalars = AT(scalars),
    .draw = draw,
    .request = make_request,
    .send = send,
    .check = check,
    .drop = drop,
};

/* ---- the operation ---- */

enum { MOST = 64 };
static char names[MOST][48];
static cf_variant variants[MOST];

/* Names include the type of C if it differs from that of D. */
static void make_variants(void)
{
    H_CHECK(mm_row_count <= MOST);
    for (size_t i = 0; i < mm_row_count; i++) {
        const mm_types *t = &mm_rows[i];
        snprintf(names[i], sizeof *names, "%s x %s to %s%s%s", trp_dtype_name(t->a),
                 trp_dtype_name(t->b), trp_dtype_name(t->d), t->c == t->d ? "" : " with C of ",
                 t->c == t->d ? "" : trp_dtype_name(t->c));
        variants[i] = (cf_variant){.name = names[i],
                                   .type = t->a,
                                   .is_complex = ref_blas_complex(t->a),
                                   .by_device = trp_dtype_bits(t->a) < 8};
    }
}

/* With m or n 0 a request writes nothing and checks no handle. */
static void empty(void)
{
    h_world world = h_open(NULL);
    trp_actor *matmul = h_actor(world.device, "matmul");
    trp_buffer d = h_buffer(world.device, 64), stale = {UINT64_MAX};
    char before[64], after[64];
    h_random_bytes(h_rng(), before, sizeof before);
    h_write(world.device, d, 0, before, sizeof before);
    for (size_t row = 0; row < mm_row_count; row++) {
        for (int way = 0; way < 3; way++) {
            const mm_types *t = &mm_rows[row];
            trp_matmul_request r = {
                .m = way == 1 ? 4 : 0, .n = way == 0 ? 4 : 0, .k = 4, .batch = way};
            r.a = (trp_matmul_matrix){.type = t->a, .buffer = stale};
            r.b = (trp_matmul_matrix){.type = t->b, .buffer = stale};
            r.c = (trp_matmul_matrix){.type = t->c, .buffer = stale};
            r.d = (trp_matmul_matrix){.type = t->d, .buffer = d};
            r.beta = trp_real(1);
            trp_completion done = {0};
            H_OK(trp_matmul(matmul, &r, &done));
            H_OK(h_await_any(done));
        }
    }
    h_read(world.device, d, 0, after, sizeof after);
    H_SAME(after, before, sizeof after);
    h_close(&world);
}

/* Results have the same bits before and after a search for the problem, and in another actor. */
static void deterministic(void)
{
    enum { M = 64, N = 48, K = 4096, TIMES = 4 };
    static uint16_t a[M * K], b[K * N];
    static float got[TIMES][M * N];
    h_world world = h_open(NULL);
    trp_actor *actors[] = {h_actor(world.device, "matmul"), h_actor(world.device, "matmul")};
    ref_fill_uniform(REF_BF16, a, M * K, h_rng());
    ref_fill_uniform(REF_BF16, b, K * N, h_rng());
    trp_matmul_request r = {.m = M, .n = N, .k = K, .trans_a = TRP_T};
    r.a = (trp_matmul_matrix){.type = TRP_BF16, .buffer = h_buffer(world.device, sizeof a)};
    r.b = (trp_matmul_matrix){.type = TRP_BF16, .buffer = h_buffer(world.device, sizeof b)};
    r.d = (trp_matmul_matrix){.type = TRP_F32, .buffer = h_buffer(world.device, sizeof got[0])};
    h_write(world.device, r.a.buffer, 0, a, sizeof a);
    h_write(world.device, r.b.buffer, 0, b, sizeof b);
    for (int i = 0; i < TIMES; i++) {
        r.deterministic = i != 1;
        r.tune = i == 1 ? TRP_TUNE_QUICK : TRP_TUNE_OFF;
        H_OK(trp_matmul(actors[i / 3], &r, NULL));
        h_read(world.device, r.d.buffer, 0, got[i], sizeof got[i]);
    }
    H_SAME(got[2], got[0], sizeof got[0]);
    H_SAME(got[3], got[0], sizeof got[0]);
    h_close(&world);
}

int main(int argc, char **argv)
{
    static const h_case more[] = {H_CASE(empty), H_CASE(deterministic)};
    make_variants();
    const cf_operation matmul = {.name = "matmul",
                                 .op = TRP_OP_MATMUL,
                                 .family = &family,
                                 .variants = variants,
                                 .variant_count = (unsigned)mm_row_count,
                                 .ways = MM_WAYS,
                                 .has = ALWAYS | HAS_C | HAS_D | OTHER | RESULTS,
                                 .writes = HAS_D | RESULTS,
                                 .in_place = HAS_C | HAS_D};
    const cf_actor actor = {.kind = "matmul",
                            .operations = &matmul,
                            .count = 1,
                            .more = more,
                            .more_count = 2,
                            .few_proofs = true};
    return cf_main(argc, argv, &actor);
}
