/* Measures bf16 convolutions and their gradients by CUTLASS kernels against cuDNN's fastest engine
 * if cuDNN is available. */
#include "bench/suite/filled.h"
#include "raw_dnn.h"

#include <stdio.h>
#include <stdlib.h>

static const dnn_shape shapes[] = {
    {64, 256, 256, 56, 3, 1, 1, 1},
    {64, 64, 64, 56, 3, 1, 1, 1},
    {256, 512, 1024, 28, 1, 1, 1, 1},
};
static const dnn_shape small = {2, 16, 16, 12, 3, 1, 1, 1};

enum { A, B, D, TENSORS };

/* Both actors number the passes alike. */
_Static_assert((int)TRP_CONV_FPROP == (int)DNN_FORWARD, "passes");
_Static_assert((int)TRP_CONV_DGRAD == (int)DNN_DATA, "passes");
_Static_assert((int)TRP_CONV_WGRAD == (int)DNN_FILTER, "passes");

/* Results of one pass over all shapes. */
typedef struct passes {
    suite *suite;
    dnn_pass pass;
    trp_actor *actor;
    raw_dnn *lib; /* NULL: cuDNN is missing */
} passes;

typedef struct convolution {
    suite *suite;
    trp_actor *actor;
    raw_dnn *lib;
    raw_conv direct;
    dnn_shape what;
    dnn_pass pass;
    trp_buffer buffer[TENSORS];
    trp_cutlass_chosen chosen;
} convolution;

static uint64_t bytes_of(const convolution *c, int operand)
{
    static const int roles[DNN_PASSES][TENSORS] = {
        [DNN_FORWARD] = {RAW_CONV_X, RAW_CONV_W, RAW_CONV_Y},
        [DNN_DATA] = {RAW_CONV_Y, RAW_CONV_W, RAW_CONV_X},
        [DNN_FILTER] = {RAW_CONV_Y, RAW_CONV_X, RAW_CONV_W}};
    const dnn_shape *x = &c->what;
    const int64_t pixels = x->images * x->input * x->input;
    const int64_t elements[] = {[RAW_CONV_X] = pixels * x->channels,
                                [RAW_CONV_W] = x->filters * x->filter * x->filter * x->channels,
                                [RAW_CONV_Y] = pixels * x->filters};
    return (uint64_t)elements[roles[c->pass][operand]] * trp_dtype_bits(TRP_BF16) / 8;
}

static bool begin(convolution *c)
{
    suite *s = c->suite;
    unsigned char *piece = malloc(FILLED_PIECE);
    if (!piece)
        return false;
    filled_piece(TRP_BF16, piece, s->seed);
    bool good = true;
    for (int i = 0; good && i < TENSORS; i++)
        good = filled_buffer(s, i == D ? NULL : piece, bytes_of(c, i), &c->buffer[i]);
    if (good && c->lib) {
        c->direct = (raw_conv){.what = c->what, .pass = c->pass, .piece = piece, .best = true};
        good = raw_conv_begin(c->lib, &c->direct);
    }
    free(piece);
    return good;
}

static void end(convolution *c)
{
    suite_free(c->suite, c->buffer, TENSORS);
    if (c->lib)
        raw_conv_end(c->lib, &c->direct);
}

static trp_cutlass_conv_request request_of(convolution *c)
{
    const dnn_shape *x = &c->what;
    return (trp_cutlass_conv_request){
        .header.wait_ns = TRP_FOREVER,
        .operation = (trp_conv_operation)c->pass,
        .images = x->images,
        .channels = x->channels,
        .filters = x->filters,
        .input = {x->input, x->input},
        .filter = {x->filter, x->filter},
        .pad = {x->filter / 2, x->filter / 2},
        .pad_after = {x->filter / 2, x->filter / 2},
        .a = {.buffer = c->buffer[A], .type = TRP_BF16},
        .b = {.buffer = c->buffer[B], .type = TRP_BF16},
        .d = {.buffer = c->buffer[D], .type = TRP_BF16},
        .kernel = c->suite->kernel,
        .tune = c->suite->tune,
        .chosen = &c->chosen,
    };
}

static bool run(void *context, uint64_t count)
{
    convolution *c = context;
    const trp_cutlass_conv_request r = request_of(c);
    for (uint64_t i = 0; i < count; i++) {
        if (!suite_check(c->suite, trp_cutlass_conv(c->actor, &r, NULL), "a convolution"))
            return false;
    }
    return suite_drain(c->suite, TRP_FOREVER);
}

static bool run_first(convolution *c)
{
    trp_completion done = {0};
    const trp_cutlass_conv_request r = request_of(c);
    return suite_await(c->suite, trp_cutlass_conv(c->actor, &r, &done), &done, "a convolution");
}

static bool run_direct(void *context, uint64_t count)
{
    convolution *c = context;
    return raw_conv_run(c->lib, &c->direct, count);
}

static bool read_direct(void *context, void *out, size_t bytes)
{
    convolution *c = context;
    return raw_conv_result(c->lib, &c->direct, out, bytes);
}

static bool compare(convolution *c, char note[40])
{
    return run_direct(c, 1) &&
           filled_compare_with(c->suite, read_direct, c, c->buffer[D], bytes_of(c, D), note);
}

static report_row row_of(const passes *p, const dnn_shape *x)
{
    suite *s = p->suite;
    report_row row = {.raw = p->lib ? "cudnnBackendExecute" : NULL,
                      .type = trp_dtype_name(TRP_BF16)};
    suite_set_flop(s, &row, dnn_flop(x));
    snprintf(row.name, sizeof row.name, "%lldx%lld, %lld to %lld, %lld of %lldx%lld",
             (long long)x->filter, (long long)x->filter, (long long)x->channels,
             (long long)x->filters, (long long)x->images, (long long)x->input, (long long)x->input);
    if (p->lib && x == &shapes[0])
        suite_bound(s, &row, REPORT_RATIO_AT_LEAST, 0.95);
    return row;
}

static void measure(const passes *p, const dnn_shape *x)
{
    suite *s = p->suite;
    convolution c = {.suite = s, .actor = p->actor, .lib = p->lib, .what = *x, .pass = p->pass};
    const stats_side side = {.run = run, .context = &c};
    const stats_side raw_side = {.run = p->lib ? run_direct : NULL, .context = &c};
    stats_plan plan = {.blocks = s->quick ? 3 : 5};
    report_row row = row_of(p, x);
    bool good = begin(&c) && run_first(&c) && (!p->lib || compare(&c, row.note));
    if (good)
        suite_plan_blocks(s, p->lib ? raw_side : side, &plan);
    if (plan.count > 0) {
        suite_measure_placed(s, false, plan, raw_side, side, &row);
        printf("  %s%s%s%s\n", c.chosen.kernel, c.chosen.tuned ? ", found by a search" : "",
               p->lib ? "; cuDNN's " : "", p->lib ? c.direct.plan->step[0].engine.name : "");
    } else {
        suite_fail(s, row.name);
    }
    end(&c);
}

static void run_section(suite *s, const char *title, dnn_pass pass)
{
    passes p = {.suite = s, .pass = pass};
    raw_dnn lib = {0};
    report_section(s->report, title,
                   "raw: cudnnBackendExecute with the fastest engine of its heuristic's first, "
                   "then synchronize; Troupe: the cutlass actor's choice");
    trp_status opened = suite_on_gpu(s) ? raw_dnn_open(&lib, s->raw->error) : TRP_E_MISSING;
    if (opened == TRP_OK)
        p.lib = &lib;
    else if (opened != TRP_E_MISSING)
        suite_fail(s, "cuDNN");
    s->raw->error[0] = '\0'; /* without the library there is no raw side, which is no error */
    p.actor = suite_actor(s, "cutlass");
    for (size_t i = 0; p.actor && suite_on_gpu(s) && i < sizeof shapes / sizeof *shapes; i++) {
        if (s->size == 0 || s->size == shapes[i].channels)
            measure(&p, &shapes[i]);
    }
    if (p.actor && !suite_on_gpu(s))
        measure(&p, &small);
    trp_actor_destroy(p.actor);
    trp_device_trim(s->device);
    raw_dnn_close(&lib);
}

void suite_conv_fprop(suite *s)
{
    run_section(s, "Convolutions by kernels of CUTLASS, bf16", DNN_FORWARD);
}

void suite_conv_dgrad(suite *s)
{
    run_section(s, "Their gradients by the activation", DNN_DATA);
}

void suite_conv_wgrad(suite *s)
{
    run_section(s, "Their gradients by the filter", DNN_FILTER);
}
