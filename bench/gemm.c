/* Measures square matrix products sent back to back: direct library calls against the blas
 * actor. */
#include "bench/suite/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POISON = 0xff }; /* a NaN in every element type */

typedef struct element {
    trp_dtype type;
    size_t bytes;
    int largest;      /* n */
    double tolerance; /* bound of the distance between both sides' results, relative to their
                       * norm */
    bool quick;       /* also measured in a quick run */
} element;

static const element elements[] = {
    {TRP_F32, 4, 8192, 1e-5, true},
    {TRP_BF16, 2, 8192, 1e-2, true},
    {TRP_F64, 8, 4096, 1e-13, false},
};

static const struct {
    int n;
    bool quick;
} sizes[] = {{16, false}, {32, false},   {64, true},    {128, false}, {256, false},
             {512, true}, {1024, false}, {2048, false}, {4096, true}, {8192, false}};

typedef struct product {
    suite *suite;
    const element *element;
    int n;
    size_t bytes; /* of each matrix */
    void *host[2];
    bool raw; /* the raw side supports this type */
    trp_actor *blas;
    trp_buffer a, b, c;
    char note[40];
} product;

static double flop(int n)
{
    return 2.0 * n * n * n;
}

/* The sides. */

static bool run_raw(void *context, uint64_t count)
{
    const product *p = context;
    return p->suite->raw->api->gemm(p->suite->raw, count);
}

static bool run_troupe(void *context, uint64_t count)
{
    const product *p = context;
    const trp_gemm_request request = {
        .header = {.wait_ns = TRP_FOREVER},
        .type = p->element->type,
        .m = p->n,
        .n = p->n,
        .k = p->n,
        .a = p->a,
        .b = p->b,
        .c = p->c,
    };
    for (uint64_t i = 0; i < count; i++) {
        if (!suite_check(p->suite, trp_gemm(p->blas, &request, NULL), "trp_gemm"))
            return false;
    }
    return suite_drain(p->suite, TRP_FOREVER);
}

/* Data. */

/* Fills memory with numbers uniform in [-1, 1); bf16 takes the upper half of the f32. */
static void fill_random(const element *e, void *memory, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        int32_t integer = (int32_t)(suite_random(seed, i) >> 32);
        float f32 = (float)(integer >> 8) * 0x1p-23f;
        uint32_t bits;
        memcpy(&bits, &f32, sizeof bits);
        if (e->type == TRP_F64)
            ((double *)memory)[i] = integer * 0x1p-31;
        else if (e->type == TRP_F32)
            ((float *)memory)[i] = f32;
        else
            ((uint16_t *)memory)[i] = (uint16_t)(bits >> 16);
    }
}

static double value_at(const element *e, const void *memory, size_t i)
{
    if (e->type == TRP_F64)
        return ((const double *)memory)[i];
    if (e->type == TRP_F32)
        return ((const float *)memory)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)memory)[i] << 16;
    float f32;
    memcpy(&f32, &bits, sizeof f32);
    return f32;
}

/* Prepares equal random A and B on both sides, and a C of NaNs. */
static bool begin(product *p)
{
    suite *s = p->suite;
    size_t count = (size_t)p->n * (size_t)p->n;
    for (int i = 0; i < 2; i++) {
        p->host[i] = malloc(p->bytes);
        if (!p->host[i])
            return false;
        fill_random(p->element, p->host[i], count, suite_random(s->seed, 2 * count + (size_t)i));
    }
    if (p->raw && !s->raw->api->gemm_begin(s->raw, p->element->type, p->n, p->host[0], p->host[1],
                                           p->bytes, 1))
        return false;
    trp_buffer a = {0}, b = {0}, c = {0};
    bool ok = suite_upload(s, p->host[0], p->bytes, &a) &&
              suite_upload(s, p->host[1], p->bytes, &b) && suite_upload(s, NULL, p->bytes, &c);
    p->a = a;
    p->b = b;
    p->c = c;
    return ok;
}

static void end(product *p)
{
    suite *s = p->suite;
    trp_buffer buffers[] = {p->a, p->b, p->c};
    suite_free(s, buffers, sizeof buffers / sizeof *buffers);
    if (p->raw)
        s->raw->api->gemm_end(s->raw);
    free(p->host[0]);
    free(p->host[1]);
}

/* Tells whether both sides computed the same C. An unwritten C contains NaNs and differs. */
static bool compare(product *p)
{
    suite *s = p->suite;
    void *theirs = p->host[0];
    void *ours = p->host[1];
    trp_completion done = {0};
    memset(ours, POISON, p->bytes);
    if (!suite_await(s, trp_read(s->device, p->c, 0, ours, p->bytes, &done), &done, "trp_read"))
        return false;
    memcpy(theirs, ours, p->bytes);
    if (p->raw && !s->raw->api->gemm_result(s->raw, theirs, p->bytes))
        return false;

    size_t count = (size_t)p->n * (size_t)p->n;
    double norm = 0;
    double distance = 0;
    for (size_t i = 0; i < count; i++) {
        double x = value_at(p->element, theirs, i);
        double y = value_at(p->element, ours, i);
        norm += x * x;
        distance += (x - y) * (x - y);
    }
    double relative = sqrt(distance / norm);
    if (p->raw && !memcmp(theirs, ours, p->bytes))
        snprintf(p->note, sizeof p->note, "same bits");
    else if (p->raw)
        snprintf(p->note, sizeof p->note, "differ by %.1e", relative);
    if (relative <= p->element->tolerance)
        return true;
    snprintf(s->error, sizeof s->error, "the two sides' results differ by %.2e of their norm",
             relative);
    return false;
}

/* Rows. */

static void describe(const product *p, report_row *row)
{
    const suite *s = p->suite;
    *row = (report_row){
        .raw = p->raw ? s->raw->api->gemm_label : NULL,
        .type = trp_dtype_name(p->element->type),
        .size = (uint64_t)p->n,
    };
    suite_set_flop(s, row, flop(p->n));
    snprintf(row->name, sizeof row->name, "%s %d x %d x %d", row->type, p->n, p->n, p->n);
    if (p->n == 4096 && p->element->type != TRP_F64)
        suite_bound(s, row, REPORT_RATIO_AT_LEAST, 0.99);
}

/* Returns the time of one product in ns, or 0 if unknown. */
static double measure(suite *s, trp_actor *blas, const element *e, int n)
{
    product p = {
        .suite = s,
        .element = e,
        .n = n,
        .bytes = (size_t)n * (size_t)n * e->bytes,
        .raw = s->raw->api->gemm_supports(e->type),
        .blas = blas,
    };
    stats_side raw_side = {.run = p.raw ? run_raw : NULL, .context = &p};
    stats_side troupe_side = {.run = run_troupe, .context = &p};
    stats_plan plan = {.blocks = s->quick ? 3 : 9};
    placement where;
    report_row row;
    describe(&p, &row);

    bool ok = begin(&p);
    if (ok) {
        /* Uses long blocks to amortise the wait at the end of each. */
        plan.count = stats_calibrate(p.raw ? raw_side : troupe_side, s->quick ? 40e6 : 60e6, 50000);
        ok = plan.count > 0 && (!p.raw || run_troupe(&p, 1)) && compare(&p);
    }
    if (ok) {
        plan.warm = plan.count / 8 + 1;
        memcpy(row.note, p.note, sizeof row.note);
        placement_begin(&where, s->device, false);
        plan.placement = suite_on_gpu(s) ? &where : NULL; /* a CPU library has threads of its own */
        ok = suite_measure(s, &plan, raw_side, troupe_side, &row);
        placement_end(&where);
    } else {
        suite_fail(s, row.name);
    }
    end(&p);
    return ok ? row.troupe_ns.p50 : 0;
}

void suite_gemm(suite *s)
{
    /* The host backend skips sizes at which one product takes longer than this. */
    const double longest_ns = s->quick ? 50e6 : 400e6;
    report_section(s->report, "Matrix products, sent back to back",
                   "raw: the library called directly, same settings, then synchronize; Troupe: "
                   "submit all, then drain");
    trp_actor *blas = suite_actor(s, "blas");
    for (size_t e = 0; blas && e < sizeof elements / sizeof *elements; e++) {
        double ns = 0; /* time of one product of the previous size */
        int before = 1;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            bool wanted = !s->quick || (elements[e].quick && sizes[i].quick);
            if (!wanted || sizes[i].n > elements[e].largest)
                continue;
            if (!suite_on_gpu(s) && ns * flop(sizes[i].n) / flop(before) > longest_ns)
                break;
            ns = measure(s, blas, &elements[e], sizes[i].n);
            before = sizes[i].n;
            if (ns == 0)
                break;
        }
    }
    trp_actor_destroy(blas);
    trp_device_trim(s->device);
}
