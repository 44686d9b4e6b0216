/* Products of the matmul and cutlass actors against cuBLASLt called directly with its heuristic's
 * first algorithm: shapes, a fused epilogue, what a request costs, and many problems. */
#include "suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 20, SAMPLE = 1 << 20, POISON = 0xff };

/* Copies of the operands: together more than twice the largest cache of a GPU, if so many do. */
enum { COLD = 128 << 20, COPIES = 16 };

/* m is what a transformer's layer writes for each token, n the tokens: in cuBLAS's column-major
 * terms D = A^T B, with the weights as A. */
typedef struct shape {
    int64_t m, n, k;
} shape;

static const int squares[] = {1024, 2048, 4096, 8192, 16384};
static const int64_t tokens[] = {1, 16, 128, 4096};
static const shape layers[] = {
    {1024, 0, 4096},  {4096, 0, 1024}, {4096, 0, 4096},  {6144, 0, 4096},  {4096, 0, 14336},
    {14336, 0, 4096}, {8192, 0, 8192}, {28672, 0, 4096}, {28672, 0, 8192}, {8192, 0, 28672},
};

typedef struct product {
    suite *suite;
    trp_actor *actor;
    raw_product what;
    bool raw, epilogue;
    bool cutlass; /* it is the cutlass actor */
    trp_cutlass_chosen chosen;
    trp_tune tune;
    uint32_t next; /* copy */
    trp_buffer a, b, d, bias, aux;
    void *piece;
} product;

/* Data. */

/* Small numbers of both types: fp8 of e4m3 from -1.875 to 1.875, bf16 from -2 to 2. */
static void fill_piece(trp_dtype type, unsigned char *piece, uint64_t seed)
{
    for (size_t i = 0; i < PIECE; i++) {
        uint64_t random = suite_random(seed, i);
        if (type == TRP_BF16 && i % 2 == 0) /* the lower byte: fraction */
            piece[i] = (unsigned char)random;
        else if (type == TRP_BF16) /* sign, exponents below that of 2 */
            piece[i] = (unsigned char)((random & 0x80) | 0x3f);
        else
            piece[i] = (unsigned char)((random & 0x80) | (random >> 8) % 0x3f);
    }
}

static bool make_buffer(product *p, uint64_t bytes, bool filled, trp_buffer *out)
{
    suite *s = p->suite;
    trp_completion done = {0};
    uint64_t at = bytes < PIECE ? bytes : PIECE;
    if (!suite_check(s, trp_buffer_create(s->device, bytes, out), "trp_buffer_create"))
        return false;
    if (!filled)
        return suite_await(s, trp_fill(s->device, *out, 0, bytes, POISON, 1, &done), &done,
                           "trp_fill");
    bool good =
        suite_await(s, trp_write(s->device, *out, 0, p->piece, at, &done), &done, "trp_write");
    while (good && at < bytes) {
        uint64_t some = bytes - at < at ? bytes - at : at;
        done = (trp_completion){0};
        good =
            suite_await(s, trp_copy(s->device, *out, 0, *out, at, some, &done), &done, "trp_copy");
        at += some;
    }
    return good;
}

static uint64_t bytes_of(trp_dtype type, int64_t rows, int64_t columns)
{
    return (uint64_t)rows * (uint64_t)columns * trp_dtype_bits(type) / 8;
}

static bool begin(product *p)
{
    const raw_product *w = &p->what;
    const suite *s = p->suite;
    uint64_t copies = w->copies;
    p->piece = malloc(PIECE);
    if (!p->piece)
        return false;
    fill_piece(w->type, p->piece, s->seed);
    bool good = make_buffer(p, copies * bytes_of(w->type, w->k, w->m), true, &p->a) &&
                make_buffer(p, copies * bytes_of(w->type, w->k, w->n), true, &p->b) &&
                make_buffer(p, copies * bytes_of(w->type_d, w->m, w->n), false, &p->d);
    if (good && p->epilogue)
        good = make_buffer(p, bytes_of(w->type_d, w->m, 1), true, &p->bias) &&
               make_buffer(p, copies * bytes_of(w->type_d, w->m, w->n), false, &p->aux);
    return good && (!p->raw || s->raw->api->matmul_begin(s->raw, w, p->piece, PIECE));
}

static void end(product *p)
{
    suite *s = p->suite;
    trp_buffer all[] = {p->a, p->b, p->d, p->bias, p->aux};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].id)
            trp_buffer_free(s->device, all[i]);
    }
    if (p->raw)
        s->raw->api->matmul_end(s->raw);
    free(p->piece);
}

/* The sides. */

static bool run_raw(void *context, uint64_t count)
{
    const product *p = context;
    return p->suite->raw->api->matmul(p->suite->raw, count);
}

static trp_matmul_request request_of(const product *p, uint32_t copy)
{
    const raw_product *w = &p->what;
    uint64_t d_offset = copy * bytes_of(w->type_d, w->m, w->n);
    trp_matmul_request r = {
        .header = {.wait_ns = TRP_FOREVER},
        .m = w->m,
        .n = w->n,
        .k = w->k,
        .trans_a = TRP_T,
        .a = {.buffer = p->a, .type = w->type, .offset = copy * bytes_of(w->type, w->k, w->m)},
        .b = {.buffer = p->b, .offset = copy * bytes_of(w->type, w->k, w->n)},
        .d = {.buffer = p->d, .type = w->type_d, .offset = d_offset},
        .tune = p->tune,
    };
    if (p->epilogue) {
        r.activation = TRP_ACTIVATION_GELU;
        r.bias.buffer = p->bias;
        r.aux.buffer = p->aux;
        r.aux.offset = d_offset;
    }
    return r;
}

/* The same product for the cutlass actor, whose matrices have orders and are not transposed. */
static trp_cutlass_gemm_request kernel_request_of(product *p, const trp_matmul_request *m)
{
    trp_cutlass_gemm_request r = {
        .header = m->header, .m = m->m, .n = m->n, .k = m->k, .a = m->a, .b = m->b, .d = m->d};
    r.a.order = TRP_ROW_MAJOR;
    r.kernel = p->suite->kernel;
    r.chosen = &p->chosen;
    return r;
}

static bool run_troupe(void *context, uint64_t count)
{
    product *p = context;
    trp_matmul_request of_copy[COPIES];
    trp_cutlass_gemm_request kernel_of_copy[COPIES];
    for (uint32_t i = 0; i < p->what.copies; i++) {
        of_copy[i] = request_of(p, i);
        kernel_of_copy[i] = kernel_request_of(p, &of_copy[i]);
    }
    for (uint64_t i = 0; i < count; i++, p->next = p->next + 1 < p->what.copies ? p->next + 1 : 0) {
        trp_status status = p->cutlass ? trp_cutlass_gemm(p->actor, &kernel_of_copy[p->next], NULL)
                                       : trp_matmul(p->actor, &of_copy[p->next], NULL);
        if (!suite_check(p->suite, status, "a product"))
            return false;
    }
    return suite_check(p->suite, trp_device_drain(p->suite->device, TRP_FOREVER),
                       "trp_device_drain");
}

/* Makes the plan, with its search if one was asked for, and says if the library can't do it. */
static bool run_first(product *p)
{
    trp_completion done = {0};
    trp_matmul_request request = request_of(p, 0);
    trp_cutlass_gemm_request kernel = kernel_request_of(p, &request);
    trp_status status = p->cutlass ? trp_cutlass_gemm(p->actor, &kernel, &done)
                                   : trp_matmul(p->actor, &request, &done);
    return suite_await(p->suite, status, &done, "a product");
}

/* Whether both sides have the same numbers at the start of D. Algorithms may differ in how they add
 * up, so bits may too. */
static bool compare(product *p, char note[40])
{
    suite *s = p->suite;
    trp_completion done = {0};
    uint64_t bytes = bytes_of(p->what.type_d, p->what.m, p->what.n);
    bytes = bytes < SAMPLE ? bytes : SAMPLE;
    uint16_t *ours = malloc(bytes), *theirs = malloc(bytes);
    double norm = 0, distance = 0;
    bool good = ours && theirs && run_raw(p, 1) &&
                s->raw->api->matmul_result(s->raw, theirs, bytes) &&
                suite_await(s, trp_read(s->device, p->d, 0, ours, bytes, &done), &done, "trp_read");
    for (size_t i = 0; good && i < bytes / 2; i++) {
        uint32_t x = (uint32_t)ours[i] << 16, y = (uint32_t)theirs[i] << 16;
        float a, b;
        memcpy(&a, &x, sizeof a);
        memcpy(&b, &y, sizeof b);
        norm += (double)b * b;
        distance += ((double)a - b) * ((double)a - b);
    }
    double relative = sqrt(distance / norm);
    if (good)
        snprintf(note, 40, distance == 0 ? "same bits" : "differ by %.1e", relative);
    if (good && !(relative <= 1e-2)) {
        snprintf(s->error, sizeof s->error, "the two sides differ by %.2e of their norm", relative);
        good = false;
    }
    free(ours);
    free(theirs);
    return good;
}

/* Rows. */

static product product_of(suite *s, trp_actor *actor, trp_dtype type, shape x)
{
    uint64_t bytes =
        bytes_of(type, x.k, x.m) + bytes_of(type, x.k, x.n) + bytes_of(TRP_BF16, x.m, x.n);
    uint64_t copies = COLD / bytes + 1;
    return (product){.suite = s,
                     .actor = actor,
                     .what = {.type = type,
                              .type_d = TRP_BF16,
                              .m = x.m,
                              .n = x.n,
                              .k = x.k,
                              .copies = copies < COPIES ? (uint32_t)copies : COPIES},
                     .raw = s->raw->api->matmul_begin != NULL};
}

/* False: it was not measured, which is told. */
static bool measure(product *p, report_row *row)
{
    suite *s = p->suite;
    stats_side raw_side = {.run = p->raw ? run_raw : NULL, .context = p};
    stats_side troupe_side = {.run = run_troupe, .context = p};
    stats_plan plan = {.blocks = s->quick ? 3 : 5};
    placement where;
    row->raw = p->raw ? s->raw->api->matmul_label : NULL;
    bool good = begin(p) && run_first(p) && (!p->raw || p->epilogue || compare(p, row->note));
    if (good) {
        plan.count =
            stats_calibrate(p->raw ? raw_side : troupe_side, s->quick ? 20e6 : 60e6, 10000);
        plan.warm = plan.count / 8 + 1;
        placement_begin(&where, s->device, false);
        plan.placement = &where;
        good = plan.count > 0 && suite_measure(s, &plan, raw_side, troupe_side, row);
        placement_end(&where);
    } else {
        suite_fail(s, row->section, row->name);
    }
    end(p);
    return good;
}

static report_row row_of(const suite *s, const char *section, const product *p)
{
    const raw_product *w = &p->what;
    double flop = 2.0 * (double)w->m * (double)w->n * (double)w->k;
    bool tera = suite_on_gpu(s);
    report_row row = {.section = section,
                      .type = trp_dtype_name(w->type),
                      .unit = tera ? "TFLOP/s" : "GFLOP/s",
                      .rate = true,
                      .scale = flop / (tera ? 1e3 : 1)};
    snprintf(row.name, sizeof row.name, "%s %lld x %lld x %lld", row.type, (long long)w->m,
             (long long)w->n, (long long)w->k);
    return row;
}

/* The geometric mean of Troupe's speed to the raw side's. */
typedef struct mean {
    double logarithms, least;
    int count;
} mean;

static void add_to(mean *sum, const report_row *row)
{
    double speed = row->raw_ns.p50 / row->troupe_ns.p50;
    sum->least = sum->count == 0 || speed < sum->least ? speed : sum->least;
    sum->logarithms += log(speed);
    sum->count++;
}

static void measure_shape(suite *s, trp_actor *actor, const char *section, trp_tune tune,
                          trp_dtype type, shape x, mean *sum)
{
    product p = product_of(s, actor, type, x);
    p.tune = tune;
    report_row row = row_of(s, section, &p);
    suite_bound(s, &row, REPORT_RATIO_AT_LEAST, 0.98);
    if (!measure(&p, &row) || !p.raw)
        return;
    add_to(sum, &row);
}

static void add_mean(suite *s, const char *section, const mean *sum, double limit)
{
    if (sum->count == 0)
        return;
    double speed = exp(sum->logarithms / sum->count);
    report_row row = {.section = section,
                      .raw = "1",
                      .unit = "of raw",
                      .rate = true,
                      .scale = 1,
                      .raw_ns = {.samples = 1, .operations = 1, .p50 = 1},
                      .troupe_ns = {.samples = 1, .operations = 1, .p50 = 1 / speed}};
    snprintf(row.name, sizeof row.name, "geometric mean of %d", sum->count);
    snprintf(row.note, sizeof row.note, "least %.3f", sum->least);
    suite_bound(s, &row, REPORT_RATIO_AT_LEAST, limit);
    report_add(s->report, &row);
}

static void measure_shapes(suite *s, const char *section, trp_tune tune, double limit)
{
    static const trp_dtype types[] = {TRP_BF16, TRP_F8E4M3};
    mean sum = {0};
    trp_actor *actor = suite_actor(s, "matmul", section);
    for (size_t t = 0; actor && t < sizeof types / sizeof *types; t++) {
        for (size_t i = 0; i < sizeof squares / sizeof *squares; i++) {
            int n = squares[i];
            if (n <= (suite_on_gpu(s) ? s->quick ? 4096 : 16384 : 1024))
                measure_shape(s, actor, section, tune, types[t], (shape){n, n, n}, &sum);
        }
        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
            for (size_t k = 0; k < sizeof tokens / sizeof *tokens; k++) {
                shape x = {layers[i].m, tokens[k], layers[i].k};
                bool small = x.m * x.n * x.k <= INT64_C(1) << 26;
                bool chosen = s->quick || !suite_on_gpu(s) ? i < 1 && small : true;
                /* cuBLASLt wants multiples of 16 of fp8 in every direction. */
                if (chosen && (types[t] == TRP_BF16 || x.n % 16 == 0))
                    measure_shape(s, actor, section, tune, types[t], x, &sum);
            }
        }
    }
    add_mean(s, section, &sum, limit);
    trp_actor_destroy(actor);
    trp_device_trim(s->device);
}

void suite_matmul_shapes(suite *s)
{
    report_section(s->report, "Products of transformers, D in bf16",
                   "raw: cublasLtMatmul with the heuristic's first algorithm, then synchronize; "
                   "Troupe: submit all, then drain");
    measure_shapes(s, "shapes", TRP_TUNE_OFF, 1.0);
}

void suite_matmul_tuned(suite *s)
{
    if (!suite_on_gpu(s))
        return; /* nothing to search */
    report_section(s->report, "The same after a full search",
                   "raw: as before; Troupe: tune = TRP_TUNE_FULL");
    measure_shapes(s, "tuned", TRP_TUNE_FULL, 1.03);
}

void suite_matmul_epilogue(suite *s)
{
    int64_t n = suite_on_gpu(s) ? 8192 : 512;
    report_section(s->report, "A fused epilogue: bias, gelu and aux",
                   "raw: the product without them; Troupe: with them");
    trp_actor *actor = suite_actor(s, "matmul", "epilogue");
    if (!actor)
        return;
    product p = product_of(s, actor, TRP_BF16, (shape){n, n, n});
    p.epilogue = true;
    report_row row = row_of(s, "epilogue", &p);
    suite_bound(s, &row, REPORT_RATIO_AT_LEAST, 0.93);
    measure(&p, &row);
    trp_actor_destroy(actor);
    trp_device_trim(s->device);
}

/* So small that launching is all there is to it: what Troupe's side takes longer is its own. */
void suite_matmul_overhead(suite *s)
{
    report_section(s->report, "What a request costs beyond the library's call",
                   "raw: cublasLtMatmul, back to back, of the smallest product; Troupe: the same");
    trp_actor *actor = suite_actor(s, "matmul", "overhead");
    if (!actor)
        return;
    product p = product_of(s, actor, TRP_BF16, (shape){64, 64, 64});
    report_row row = row_of(s, "overhead", &p);
    row.rate = false;
    row.scale = 1e-3;
    row.unit = "us";
    if (measure(&p, &row) && p.raw)
        printf("  %.3f us more than the library's call (at most 1)\n",
               (row.troupe_ns.p50 - row.raw_ns.p50) * 1e-3);
    trp_actor_destroy(actor);
}

/* The second pass finds the plans of the first. */
void suite_matmul_plans(suite *s)
{
    enum { PROBLEMS = 1000 };
    report_section(s->report, "1,000 distinct problems, one after the other",
                   "raw: the first pass, which makes a plan for each; Troupe: the second");
    trp_actor *actor = suite_actor(s, "matmul", "plans");
    if (!actor)
        return;
    product p = product_of(s, actor, TRP_BF16, (shape){64 + PROBLEMS, 64, 64});
    report_row row = {.section = "plans", .unit = "us", .scale = 1e-3, .raw = "first pass"};
    double *ns[2] = {calloc(PROBLEMS, sizeof(double)), calloc(PROBLEMS, sizeof(double))};
    p.raw = false;
    snprintf(row.name, sizeof row.name, "a product of a problem of its own");
    bool good = ns[0] && ns[1] && begin(&p);
    for (int pass = 0; good && pass < 2; pass++) {
        for (int i = 0; good && i < PROBLEMS; i++) {
            p.what.m = 64 + i;
            int64_t from = stats_now();
            good = run_first(&p);
            ns[pass][i] = (double)(stats_now() - from);
        }
    }
    if (good) {
        row.raw_ns = stats_summarise(ns[0], PROBLEMS);
        row.troupe_ns = stats_summarise(ns[1], PROBLEMS);
        report_add(s->report, &row);
    } else {
        suite_fail(s, row.section, row.name);
    }
    end(&p);
    free(ns[0]);
    free(ns[1]);
    trp_actor_destroy(actor);
}

/* Kernels of CUTLASS by the actor's choice, against cuBLASLt's. */
void suite_cutlass_shapes(suite *s)
{
    static const trp_dtype types[] = {TRP_BF16, TRP_F8E4M3};
    mean sum = {0};
    report_section(s->report, "Products by kernels of CUTLASS, D in bf16",
                   "raw: cublasLtMatmul with the heuristic's first algorithm, then synchronize; "
                   "Troupe: the cutlass actor's choice");
    trp_actor *actor = suite_actor(s, "cutlass", "cutlass");
    for (size_t t = 0; actor && t < sizeof types / sizeof *types; t++) {
        for (size_t i = 0; i < sizeof squares / sizeof *squares; i++) {
            int n = squares[i];
            bool chosen =
                s->size ? n == s->size : n <= (suite_on_gpu(s) ? s->quick ? 4096 : 16384 : 1024);
            if (!chosen)
                continue;
            product p = product_of(s, actor, types[t], (shape){n, n, n});
            p.cutlass = true;
            report_row row = row_of(s, "cutlass", &p);
            suite_bound(s, &row, REPORT_RATIO_AT_LEAST, n == 4096 || n == 8192 ? 1.0 : 0.95);
            if (measure(&p, &row) && p.raw)
                add_to(&sum, &row);
            printf("  %s\n", p.chosen.kernel);
        }
    }
    add_mean(s, "cutlass", &sum, 1.0);
    trp_actor_destroy(actor);
    trp_device_trim(s->device);
}
