/* What a request of a product that was run before costs the worker, beyond the launch itself: the
 * times at which the worker hands requests over, which a trace has. All of them are in the mailbox
 * before the first can go, for it waits for a copy that takes its time; and the device is busy with
 * something long when they go. So the worker alone decides how fast they follow each other. */
#include "product.h"
#include "scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    REQUESTS = 320,
    FIRST = 32, /* that are not looked at: what they need is not in the processor's cache */
    ROUNDS = 9,
    LARGE = 8192, /* unless the suite has a size */
    HELD = 128 << 20,
    LINE = 1024,
};

/* What all wait for: memory, and a buffer that it is copied to. */
typedef struct gate {
    void *memory;
    trp_buffer buffer;
} gate;

static bool open_gate(suite *s, gate *g)
{
    g->memory = calloc(1, HELD);
    if (!g->memory)
        return false;
    memset(g->memory, 1, HELD); /* so that it has pages */
    memset(g->memory, 0, HELD);
    return suite_check(s, trp_buffer_create(s->device, HELD, &g->buffer), "trp_buffer_create");
}

static void close_gate(suite *s, gate *g)
{
    if (g->buffer.id)
        trp_buffer_free(s->device, g->buffer);
    free(g->memory);
}

/* Reading the trace: events of an operation have ended being queued when they were issued. */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median time between requests of that name, in ns; 0: there are too few. */
static double between(FILE *file, const char *name)
{
    static double ts[REQUESTS];
    char line[LINE], wanted[64];
    int count = 0;
    snprintf(wanted, sizeof wanted, "\"name\":\"%s\"", name);
    while (fgets(line, sizeof line, file) && count < REQUESTS) {
        const char *at = strstr(line, "\"ts\":");
        if (at && strstr(line, "\"ph\":\"e\"") && strstr(line, wanted))
            ts[count++] = strtod(at + 5, NULL) * 1e3;
    }
    qsort(ts, (size_t)count, sizeof *ts, compare);
    for (int i = FIRST; i + 1 < count; i++)
        ts[i] = ts[i + 1] - ts[i];
    if (count < 2 * FIRST)
        return 0;
    qsort(ts + FIRST, (size_t)(count - 1 - FIRST), sizeof *ts, compare);
    return ts[FIRST + (count - 1 - FIRST) / 2];
}

/* The requests of a round: what waits for the copy and is long, and those behind it. */
typedef struct sequence {
    trp_actor *actor;
    const trp_request *wait, *request;
    const char *name; /* of the operation */
} sequence;

static bool send_round(suite *s, const gate *g, const sequence *q)
{
    trp_completion copied = {0};
    bool good =
        suite_check(s, trp_write(s->device, g->buffer, 0, g->memory, HELD, &copied), "trp_write");
    for (int i = 0; i < 2 && good; i++)
        good = suite_check(s, trp_submit(q->actor, q->wait, NULL), "trp_submit");
    for (int i = 0; i < REQUESTS && good; i++)
        good = suite_check(s, trp_submit(q->actor, q->request, NULL), "trp_submit");
    good = suite_await(s, TRP_OK, &copied, "trp_write") && good;
    return suite_check(s, trp_device_drain(s->device, TRP_FOREVER), "trp_device_drain") && good;
}

static double run_round(suite *s, const gate *g, const sequence *q)
{
    char path[SCRATCH_FOLDER];
    int file = scratch_file(s, path);
    double ns = 0;
    if (file < 0)
        return 0;
    bool good = suite_check(s, trp_device_trace_start(s->device, NULL), "trp_device_trace_start") &&
                send_round(s, g, q) &&
                suite_check(s, trp_device_trace_stop(s->device), "trp_device_trace_stop") &&
                suite_check(s, trp_device_trace_write(s->device, path), "trp_device_trace_write");
    FILE *trace = good ? fdopen(file, "r") : NULL;
    if (trace)
        ns = between(trace, q->name);
    if (trace)
        fclose(trace);
    else
        close(file);
    unlink(path);
    return ns;
}

static bool run_rounds(suite *s, const gate *g, const sequence *q, stats_summary *out)
{
    double ns[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        ns[i] = run_round(s, g, q);
        if (ns[i] <= 0) {
            suite_fail(s, "repeat", q->name);
            return false;
        }
    }
    *out = stats_summarise(ns, ROUNDS);
    return true;
}

static bool measure_launches(suite *s, const gate *g, stats_summary *out)
{
    trp_actor *probe = suite_actor(s, "probe", "repeat");
    const trp_request head = {
        .op = TRP_OP_PROBE, .size = sizeof(trp_probe_request), .wait_ns = TRP_FOREVER};
    const trp_probe_request wait = {
        .header = head, .action = TRP_PROBE_SPIN, .duration_ns = 2000000, .inputs = {g->buffer}};
    const trp_probe_request nothing = {.header = head, .action = TRP_PROBE_NOP};
    const sequence q = {probe, &wait.header, &nothing.header, "probe"};
    bool good = probe && run_rounds(s, g, &q, out);
    trp_actor_destroy(probe);
    return good;
}

static bool measure_products(suite *s, const gate *g, stats_summary *out)
{
    trp_actor *actor = suite_actor(s, "cutlass", "repeat");
    int64_t n = s->size ? s->size : LARGE;
    product large = product_of(s, actor, TRP_BF16, (shape){n, n, n});
    product small = product_of(s, actor, TRP_BF16, (shape){64, 64, 64});
    large.cutlass = small.cutlass = true;
    large.raw = small.raw = false;
    large.what.copies = small.what.copies = 1;
    bool good = actor && product_begin(&large) && product_begin(&small) &&
                product_run_first(&large) && product_run_first(&small);
    if (good) {
        const trp_matmul_request of_large = product_request(&large, 0),
                                 of_small = product_request(&small, 0);
        trp_cutlass_gemm_request wait = product_kernel_request(&large, &of_large),
                                 request = product_kernel_request(&small, &of_small);
        wait.header.op = request.header.op = TRP_OP_CUTLASS_GEMM;
        wait.header.size = request.header.size = (uint32_t)sizeof request;
        wait.chosen = request.chosen = NULL;
        wait.a.buffer = g->buffer;
        const sequence q = {actor, &wait.header, &request.header, "cutlass gemm"};
        good = run_rounds(s, g, &q, out);
    } else if (actor) {
        suite_fail(s, "repeat", "a product");
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
        return; /* there are no launches */
    report_section(s->report, "A product again: what it costs the worker",
                   "how fast requests are handed over while the device is busy; raw: empty kernels "
                   "of the probe actor; Troupe: the same small product");
    report_row row = {.section = "repeat",
                      .raw = "an empty kernel",
                      .unit = "us",
                      .name = "from one request to the next",
                      .scale = 1e-3};
    gate g = {0};
    bool good = open_gate(s, &g) && measure_launches(s, &g, &row.raw_ns) &&
                measure_products(s, &g, &row.troupe_ns);
    close_gate(s, &g);
    if (!good)
        return;
    report_add(s->report, &row);
    report_row beyond = row;
    double more = row.troupe_ns.p50 - row.raw_ns.p50;
    beyond.raw = NULL;
    beyond.raw_ns = (stats_summary){0};
    beyond.troupe_ns.p50 = more > 0 ? more : 0;
    snprintf(beyond.name, sizeof beyond.name, "beyond a launch");
    suite_bound(s, &beyond, REPORT_VALUE_AT_MOST, 2.0);
    report_add(s->report, &beyond);
}
