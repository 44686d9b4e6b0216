/* Measures memory-bound operations: element-wise functions, conversions, reductions, softmax,
 * normalisation, pooling, permutations, and an optimiser step. Each row sends one request back to
 * back, in turns with a device copy of as many bytes, both read and written. */
#include "elements.h"
#include "bench/suite/filled.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

typedef elements_work work;

/* "softmax fwd bf16 4096x8192", "batch norm fwd f32 64x256x56x56 nhwc" */
static void name_of(size_t row, trp_dtype type, const int64_t *dim, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "%s %s ", elements_rows[row].name, trp_dtype_name(type));
    for (int i = 0; i < 4 && dim[i] > 0 && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%lld", i ? "x" : "", (long long)dim[i]);
    if (elements_rows[row].rank == IMAGES_LAST && n < size)
        snprintf(out + n, size - n, " nhwc");
}

/* --- both sides --- */

static trp_status send(work *w, trp_dnn_ran *ran, trp_completion *completion)
{
    const trp_request header = {.wait_ns = TRP_FOREVER,
                                .deadline_ns = completion ? DNN_LONGEST_NS : 0};
    const trp_dnn_options options = {
        .ran = ran, .tune = suite_on_gpu(w->suite) ? w->suite->tune : TRP_TUNE_OFF};
    w->activation.header = w->softmax.header = w->norm.header = w->pool.header = header;
    w->activation.options = w->softmax.options = w->norm.options = w->pool.options = options;
    switch (w->call) {
    case ACTIVATION_BACKWARD:
        return trp_activation_backward(w->actor, &w->activation, completion);
    case SOFTMAX_FORWARD:
        return trp_softmax_forward(w->actor, &w->softmax, completion);
    case SOFTMAX_BACKWARD:
        return trp_softmax_backward(w->actor, &w->softmax, completion);
    case NORM_TRAINING:
        return trp_norm_training(w->actor, &w->norm, completion);
    case NORM_BACKWARD:
        return trp_norm_backward(w->actor, &w->norm, completion);
    case POOL_FORWARD:
        return trp_pool_forward(w->actor, &w->pool, completion);
    case POOL_BACKWARD:
        return trp_pool_backward(w->actor, &w->pool, completion);
    default:
        break;
    }
    const trp_dnn_graph_request r = {.header = header,
                                     .tensors = w->tensors,
                                     .tensor_count = w->tensor_count,
                                     .nodes = w->nodes,
                                     .node_count = w->node_count,
                                     .options = options};
    return trp_dnn_graph(w->actor, &r, completion);
}

static bool run(void *context, uint64_t count)
{
    work *w = context;
    for (uint64_t i = 0; i < count; i++) {
        if (!suite_check(w->suite, send(w, NULL, NULL), "a request"))
            return false;
    }
    return suite_check(w->suite, trp_device_drain(w->suite->device, DNN_LONGEST_NS),
                       "trp_device_drain");
}

static bool run_copy(void *context, uint64_t count)
{
    enum { MAILBOX = 512 }; /* a copy request does not wait for mailbox space */
    work *w = context;
    for (uint64_t i = 0; i < count; i++) {
        if (i % MAILBOX == MAILBOX - 1 &&
            !suite_check(w->suite, trp_device_drain(w->suite->device, DNN_LONGEST_NS),
                         "trp_device_drain"))
            return false;
        if (!suite_check(w->suite,
                         trp_copy(w->suite->device, w->copied[0], 0, w->copied[1], 0,
                                  (uint64_t)(w->bytes / 2), NULL),
                         "trp_copy"))
            return false;
    }
    return suite_check(w->suite, trp_device_drain(w->suite->device, DNN_LONGEST_NS),
                       "trp_device_drain");
}

/* The figure is bytes per second and the ratio compares it with the copy; PyTorch's figure is in
 * the note. */
static bool time_both(suite *s, work *w, report_row *row)
{
    const stats_side ours = {run, w}, copy = {run_copy, w};
    stats_plan plan = {.blocks = s->quick ? 3 : 5};
    placement where;
    plan.count = stats_calibrate(ours, s->quick ? 3e6 : 10e6, 10000);
    plan.warm = plan.count / 8 + 1;
    plan.placement = &where;
    placement_begin(&where, s->device, false);
    bool good = plan.count > 0 && suite_time(s, &plan, copy, ours, row);
    placement_end(&where);
    return good;
}

static void measure(const dnn_rows *section, work *w, const char *name)
{
    suite *s = w->suite;
    trp_completion done = {0};
    report_row row = {.section = section->section,
                      .raw = "a copy of as many bytes",
                      .type = trp_dtype_name(w->type),
                      .unit = "GB/s",
                      .rate = true,
                      .scale = w->bytes};
    snprintf(row.name, sizeof row.name, "%s", name);
    for (int i = 0; i < 2 && w->good; i++)
        w->good = filled_buffer(s, w->piece, (uint64_t)(w->bytes / 2) + 1, &w->copied[i]);
    if (!w->good || !suite_await(s, send(w, &w->ran, &done), &done, "the first request") ||
        !time_both(s, w, &row)) {
        suite_fail(s, row.section, row.name);
        return;
    }
    const double torch = dnn_torch_ns(s, row.name);
    char beside[16] = "";
    if (torch > 0)
        snprintf(beside, sizeof beside, "torch %.2fx ", torch / row.troupe_ns.p50);
    snprintf(row.note, sizeof row.note, "%s%s%.16s", beside, w->ran.parts > 1 ? "pieces " : "",
             w->ran.engine);
    report_add(s->report, &row);
}

typedef struct section {
    dnn_rows rows;
    unsigned char *piece, *positive;
} section;

/* Runs all types and shapes of a row. */
static void run_row(void *context, trp_actor *actor, size_t i)
{
    static const trp_dtype types[] = {TRP_F32, TRP_BF16};
    const section *c = context;
    suite *s = c->rows.suite;
    const size_t count = suite_on_gpu(s) ? SHAPES : 1;
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        for (size_t k = suite_on_gpu(s) ? (elements_rows[i].rank != FLAT) : 0; k < count; k++) {
            const int64_t *dim = elements_shapes[elements_rows[i].rank][k];
            if (dim[0] == 0 || (elements_rows[i].only && elements_rows[i].only != types[t]) ||
                dnn_rows_late(&c->rows))
                continue;
            char name[sizeof((report_row *)0)->name];
            work w = {.suite = s,
                      .actor = actor,
                      .type = types[t],
                      .last = elements_rows[i].rank == IMAGES_LAST,
                      .dim = dim,
                      .piece = c->piece,
                      .positive = c->positive,
                      .good = true,
                      .tensor_count = 1};
            name_of(i, types[t], dim, name, sizeof name);
            elements_rows[i].build(&w, elements_rows[i].what);
            measure(&c->rows, &w, name);
            suite_free(s, w.buffers, w.buffer_count);
            suite_free(s, w.copied, COUNT_OF(w.copied));
        }
    }
}

void suite_dnn_elements(suite *s)
{
    section c = {.rows = dnn_rows_begin(s, "elements"),
                 .piece = malloc(FILLED_PIECE),
                 .positive = malloc(FILLED_PIECE)};
    report_section(s->report, "By element, by row, by image: bytes that must move by time",
                   "raw: a device copy of as many bytes, by turns; Troupe: submit all, then drain; "
                   "behind: PyTorch's time to Troupe's, of --torch FILE");
    if (c.piece && c.positive) {
        filled_piece(TRP_BF16, c.piece, s->seed); /* two of them form an f32 of similar magnitude */
        for (size_t i = 0; i < FILLED_PIECE; i++)
            c.positive[i] = c.piece[i] & 0x7f;
        dnn_rows_run(&c.rows, elements_row_count, run_row, &c);
    } else {
        suite_fail(s, "elements", "no memory");
    }
    free(c.piece);
    free(c.positive);
}
