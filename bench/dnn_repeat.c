/* What a request of a convolution that was run before costs the worker, beyond
 * cudnnBackendExecute: that is timed in this process, with the same plan. */
#include "dnn.h"
#include "repeat.h"

#include "actors/dnn/plan_cudnn.h"
#include "driver/cuda.h"

#include <stdio.h>
#include <stdlib.h>

/* One that keeps the device busy for a millisecond, and one that is nearly nothing. */
static const dnn_shape large = {32, 512, 1024, 56, 3, 1, 1, 1}, tiny = {1, 64, 64, 8, 3, 1, 1, 1};

/* The library itself. */

typedef struct direct {
    const trp__cudnn *lib;
    const trp__cuda *cu;
    trp__cudnn_handle handle;
    trp__cu_stream stream;
    trp__dnn_planner planner;
    trp_error error;
} direct;

enum { X, W, Y, TENSORS };

/* A convolution, with its memory. */
typedef struct direct_conv {
    trp__dnn_head head;
    trp__dnn_tensor tensor[TENSORS];
    trp__dnn_node node;
    trp__dnn_plan *plan;
    void *at[TRP__DNN_LOWERED_TENSORS], *workspace;
    trp__cu_address memory;
} direct_conv;

static uint64_t bytes_of(const trp__dnn_tensor *t)
{
    return (uint64_t)trp__dnn_elements(t) * trp_dtype_bits(TRP_BF16) / 8;
}

static trp__dnn_tensor tensor_of(int64_t n, int64_t c, int64_t size, bool written)
{
    trp__dnn_tensor t = {.type = TRP_BF16,
                         .rank = 4,
                         .role = TRP__DNN_BUFFER,
                         .written = written,
                         .alignment = 16,
                         .dim = {n, c, size, size, 1, 1, 1, 1},
                         .stride = {c * size * size, 1, c * size, c}};
    return t;
}

static void describe(direct_conv *d, const dnn_shape *x)
{
    const int32_t pad = (int32_t)x->filter / 2;
    *d = (direct_conv){.head = {.tensors = TENSORS, .nodes = 1, .workspace = UINT64_C(256) << 20},
                       .tensor = {[X] = tensor_of(x->images, x->channels, x->input, false),
                                  [W] = tensor_of(x->filters, x->channels, x->filter, false),
                                  [Y] = tensor_of(x->images, x->filters, x->input, true)},
                       .node = {.kind = TRP_DNN_CONV_FORWARD,
                                .compute = TRP_F32,
                                .spatial = 2,
                                .pre_pad = {pad, pad},
                                .post_pad = {pad, pad},
                                .stride = {1, 1},
                                .dilation = {1, 1}}};
    for (int i = 0; i < TRP__DNN_PORTS; i++)
        d->node.port[i] = TRP__DNN_NO_PORT;
    d->node.port[TRP__DNN_CONV_X] = X;
    d->node.port[TRP__DNN_CONV_W] = W;
    d->node.port[TRP__DNN_CONV_Y] = Y;
}

static bool begin(direct *l, direct_conv *d, const dnn_shape *x)
{
    static const double value[TENSORS];
    static const uint8_t access[TENSORS];
    describe(d, x);
    const trp__dnn_graph graph = {&d->head, d->tensor, &d->node, value, access};
    if (trp__dnn_plan_make(&l->planner, &graph, &d->plan, &l->error) != TRP_OK)
        return false;
    uint64_t place[TENSORS + 1] = {0}; /* multiples of 256 bytes, with shapes like these */
    for (int i = 0; i < TENSORS; i++)
        place[i + 1] = place[i] + bytes_of(&d->tensor[i]);
    uint64_t all = place[TENSORS] + d->plan->workspace;
    if (d->plan->steps != 1 || !d->plan->step[0].engine.plan ||
        l->cu->cuMemAlloc_v2(&d->memory, (size_t)all) != 0 ||
        l->cu->cuMemsetD8Async(d->memory, 0, (size_t)all, l->stream) != 0) {
        snprintf(l->error.message, sizeof l->error.message, "no memory, or no engine for it");
        return false;
    }
    for (int i = 0; i < TENSORS; i++)
        d->at[i] = (void *)(uintptr_t)(d->memory + place[i]);
    d->workspace = (void *)(uintptr_t)(d->memory + place[TENSORS]);
    return true;
}

static void end(const direct *l, direct_conv *d)
{
    trp__dnn_plan_drop(d->plan);
    if (d->memory)
        l->cu->cuMemFree_v2(d->memory);
}

static bool execute(direct *l, direct_conv *d)
{
    return trp__dnn_step_launch(d->plan, &d->plan->step[0], l->handle, d->at, d->workspace,
                                &l->error) == TRP_OK;
}

/* As a round of requests: something long, and those that are timed. */
static double run_round(direct *l, direct_conv *wait, direct_conv *d)
{
    static double times[REPEAT_REQUESTS];
    bool good = true;
    for (int i = 0; good && i < 2; i++)
        good = execute(l, wait);
    for (int i = 0; good && i < REPEAT_REQUESTS; i++) {
        good = execute(l, d);
        times[i] = (double)stats_now();
    }
    good = l->cu->cuStreamSynchronize(l->stream) == 0 && good;
    return good ? repeat_between(times, REPEAT_REQUESTS) : 0;
}

static bool run_rounds(direct *l, stats_summary *out)
{
    static direct_conv wait, d;
    double ns[REPEAT_ROUNDS];
    bool good = begin(l, &wait, &large) && begin(l, &d, &tiny) && execute(l, &wait) &&
                execute(l, &d) && l->cu->cuStreamSynchronize(l->stream) == 0;
    for (int i = 0; good && i < REPEAT_ROUNDS; i++) {
        ns[i] = run_round(l, &wait, &d);
        good = ns[i] > 0;
    }
    if (good)
        *out = stats_summarise(ns, REPEAT_ROUNDS);
    end(l, &wait);
    end(l, &d);
    return good;
}

/* In this process's context, which the raw side has made. */
static bool measure_library(suite *s, stats_summary *out)
{
    direct l = {0};
    bool good =
        trp__cudnn_load(&l.lib, &l.error) == TRP_OK && trp__cuda_load(&l.cu, &l.error) == TRP_OK;
    if (good && (l.cu->cuStreamCreate(&l.stream, TRP__CU_STREAM_NON_BLOCKING) != 0 ||
                 l.lib->cudnnCreate(&l.handle) != TRP__CUDNN_STATUS_SUCCESS ||
                 l.lib->cudnnSetStream(l.handle, l.stream) != TRP__CUDNN_STATUS_SUCCESS)) {
        snprintf(l.error.message, sizeof l.error.message, "cuDNN could not be opened");
        good = false;
    }
    l.planner = (trp__dnn_planner){.lib = l.lib, .handle = l.handle};
    good = good && run_rounds(&l, out);
    if (l.handle)
        l.lib->cudnnDestroy(l.handle);
    if (l.stream)
        l.cu->cuStreamDestroy_v2(l.stream);
    if (!good) {
        snprintf(s->error, sizeof s->error, "%.300s", l.error.message);
        suite_fail(s, "conv-repeat", "cudnnBackendExecute");
    }
    return good;
}

/* The actor. */

typedef struct requests {
    suite *suite;
    dnn_conv wait, small;
} requests;

static bool send(void *context, bool wait)
{
    requests *r = context;
    return suite_check(r->suite, dnn_send(wait ? &r->wait : &r->small, NULL, NULL),
                       "a convolution");
}

static bool measure_requests(suite *s, stats_summary *out)
{
    trp_actor *actor = suite_actor(s, "dnn", "conv-repeat");
    requests r = {.suite = s,
                  .wait = {.suite = s, .actor = actor, .what = large},
                  .small = {.suite = s, .actor = actor, .what = tiny}};
    const repeat_sequence q = {send, &r, "dnn graph"};
    repeat_gate g = {0};
    bool good = actor && repeat_open(s, &g) && dnn_begin(&r.wait) && dnn_begin(&r.small) &&
                dnn_run_first(&r.wait) && dnn_run_first(&r.small);
    if (good) {
        trp_buffer own = r.wait.x;
        r.wait.x = g.buffer; /* is no smaller */
        good = repeat_run(s, "conv-repeat", &g, &q, out);
        r.wait.x = own;
    } else if (actor) {
        suite_fail(s, "conv-repeat", "a convolution");
    }
    dnn_end(&r.wait);
    dnn_end(&r.small);
    repeat_close(s, &g);
    trp_actor_destroy(actor);
    return good;
}

void suite_dnn_repeat(suite *s)
{
    dnn_place place;
    report_row row = {.section = "conv-repeat",
                      .raw = "cudnnBackendExecute",
                      .unit = "us",
                      .name = "from one request to the next",
                      .scale = 1e-3};
    report_section(s->report, "A convolution again: what it costs the worker",
                   suite_on_gpu(s)
                       ? "how fast requests are handed over while the device is busy; raw: "
                         "cudnnBackendExecute, in this process; Troupe: the same small convolution"
                       : "needs a GPU");
    if (!suite_on_gpu(s))
        return;
    bool good = dnn_open(s, &place);
    if (!good)
        suite_fail(s, row.section, "a device of its own");
    if (good && measure_requests(s, &row.troupe_ns) && measure_library(s, &row.raw_ns))
        repeat_show(s, &row, "beyond cudnnBackendExecute", 2.0);
    dnn_close(s, &place);
}
