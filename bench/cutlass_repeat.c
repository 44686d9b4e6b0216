/* Measures the worker's cost of a repeated product request, apart from the launch itself. */
#include "bench/suite/product.h"
#include "bench/suite/repeat.h"

#include <stdio.h>

enum {
    LARGE = 8192,  /* unless the suite sets a size */
    OTHERS = 2048, /* more distinct products than a worker caches launches for */
};

/* Identical requests. */
typedef struct fixed {
    suite *suite;
    trp_actor *actor;
    const trp_request *wait, *request;
} fixed;

static bool send_fixed(void *context, bool wait)
{
    const fixed *f = context;
    return suite_check(f->suite, trp_submit(f->actor, wait ? f->wait : f->request, NULL),
                       "trp_submit");
}

static bool measure_launches(suite *s, const repeat_gate *g, stats_summary *out)
{
    trp_actor *probe = suite_actor(s, "probe");
    const trp_request head = {
        .op = TRP_OP_PROBE, .size = sizeof(trp_probe_request), .wait_ns = TRP_FOREVER};
    const trp_probe_request wait = {
        .header = head, .action = TRP_PROBE_SPIN, .duration_ns = 2000000, .inputs = {g->buffer}};
    const trp_probe_request nothing = {.header = head, .action = TRP_PROBE_NOP};
    fixed requests = {s, probe, &wait.header, &nothing.header};
    const repeat_sequence q = {send_fixed, &requests, "probe"};
    bool good = probe && repeat_run(s, g, &q, out);
    trp_actor_destroy(probe);
    return good;
}

static trp_cutlass_gemm_request request_of(product *p, uint32_t copy)
{
    const trp_matmul_request same = product_request(p, copy);
    trp_cutlass_gemm_request r = product_kernel_request(p, &same);
    r.header.op = TRP_OP_CUTLASS_GEMM;
    r.header.size = (uint32_t)sizeof r;
    r.chosen = NULL;
    return r;
}

/* Requests of one product whose operands have other addresses each time. */
typedef struct moving {
    suite *suite;
    trp_actor *actor;
    const trp_request *wait;
    product *product;
    uint32_t next;
} moving;

static bool send_moving(void *context, bool wait)
{
    moving *m = context;
    const trp_cutlass_gemm_request r = request_of(m->product, m->next);
    m->next = wait ? m->next : (m->next + 1) % m->product->what.copies;
    return suite_check(m->suite, trp_submit(m->actor, wait ? m->wait : &r.header, NULL),
                       "trp_submit");
}

/* Measures `products` distinct products in rotation. */
static bool measure_products(suite *s, const repeat_gate *g, uint32_t copies, stats_summary *out)
{
    trp_actor *actor = suite_actor(s, "cutlass");
    int64_t n = s->size ? s->size : LARGE;
    product large = product_of(s, actor, TRP_BF16, (shape){n, n, n});
    product small = product_of(s, actor, TRP_BF16, (shape){64, 64, 64});
    large.cutlass = small.cutlass = true;
    large.raw = small.raw = false;
    large.what.copies = 1;
    small.what.copies = copies;
    bool good = actor && product_begin(&large) && product_begin(&small) &&
                product_run_first(&large) && product_run_first(&small);
    if (good) {
        trp_cutlass_gemm_request wait = request_of(&large, 0);
        wait.a.buffer = g->buffer;
        moving requests = {s, actor, &wait.header, &small, 0};
        const repeat_sequence q = {send_moving, &requests, "cutlass gemm"};
        good = repeat_run(s, g, &q, out);
    } else if (actor) {
        suite_fail(s, "a product");
    }
    product_end(&large);
    product_end(&small);
    trp_actor_destroy(actor);
    trp_device_trim(s->device);
    return good;
}

void suite_cutlass_repeat(suite *s)
{
    if (!suite_on_gpu(s))
        return; /* the host backend has no launches */
    report_section(s->report, "A product again: what it costs the worker",
                   "how fast requests are handed over while the device is busy; raw: empty kernels "
                   "of the probe actor; Troupe: the same small product, and one whose operands are "
                   "elsewhere each time");
    const struct {
        const char *name;
        uint32_t copies;
    } rows[] = {{"from one request to the next", 1}, {"to one with other addresses", OTHERS}};
    repeat_gate g = {0};
    stats_summary raw_ns;
    bool good = repeat_open(s, &g) && measure_launches(s, &g, &raw_ns);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && good; i++) {
        report_row row = {.raw = "an empty kernel", .unit = "us", .raw_ns = raw_ns, .scale = 1e-3};
        snprintf(row.name, sizeof row.name, "%s", rows[i].name);
        good = measure_products(s, &g, rows[i].copies, &row.troupe_ns);
        if (good)
            repeat_show(s, &row, "beyond a launch", 2.0);
    }
    repeat_close(s, &g);
}
