/* Convolutions of bf16 and their gradients by kernels of CUTLASS: rates alone, for cuDNN is not
 * called. */
#include "suite.h"

#include <stdio.h>
#include <string.h>

enum { A, B, D, TENSORS };

/* Square images and filters, padded so that the output is as large as the input. */
typedef struct shape {
    int64_t images, channels, filters, input, filter;
} shape;

static const shape shapes[] = {
    {64, 256, 256, 56, 3},
    {64, 64, 64, 56, 3},
    {256, 512, 1024, 28, 1},
};
static const shape small = {2, 16, 16, 12, 3};

typedef struct convolution {
    suite *suite;
    trp_actor *actor;
    shape what;
    trp_conv_operation operation;
    trp_buffer buffer[TENSORS];
    trp_cutlass_chosen chosen;
} convolution;

/* Elements of the activation, the filter and the output. */
static uint64_t elements(const convolution *c, int role)
{
    const shape *x = &c->what;
    int64_t pixels = x->images * x->input * x->input;
    return (uint64_t)(role == 0   ? pixels * x->channels
                      : role == 1 ? x->filters * x->filter * x->filter * x->channels
                                  : pixels * x->filters);
}

static bool begin(convolution *c)
{
    static const int roles[][TENSORS] = {{0, 1, 2}, {2, 1, 0}, {2, 0, 1}};
    suite *s = c->suite;
    unsigned char piece[4096];
    for (size_t i = 0; i < sizeof piece; i += 2) { /* from -2 to 2 */
        uint64_t random = suite_random(s->seed, i);
        piece[i] = (unsigned char)random;
        piece[i + 1] = (unsigned char)((random >> 8 & 0x80) | 0x3f);
    }
    for (int i = 0; i < TENSORS; i++) {
        uint64_t bytes = 2 * elements(c, roles[c->operation][i]), at = sizeof piece;
        trp_completion done = {0};
        bool good =
            suite_check(s, trp_buffer_create(s->device, bytes, &c->buffer[i]), "trp_buffer_create");
        at = at < bytes ? at : bytes;
        good = good && suite_await(s, trp_write(s->device, c->buffer[i], 0, piece, at, &done),
                                   &done, "trp_write");
        while (good && at < bytes) {
            uint64_t some = bytes - at < at ? bytes - at : at;
            done = (trp_completion){0};
            good =
                suite_await(s, trp_copy(s->device, c->buffer[i], 0, c->buffer[i], at, some, &done),
                            &done, "trp_copy");
            at += some;
        }
        if (!good)
            return false;
    }
    return true;
}

static void end(convolution *c)
{
    for (int i = 0; i < TENSORS; i++) {
        if (c->buffer[i].id)
            trp_buffer_free(c->suite->device, c->buffer[i]);
    }
}

static trp_cutlass_conv_request request_of(convolution *c)
{
    const shape *x = &c->what;
    return (trp_cutlass_conv_request){
        .header.wait_ns = TRP_FOREVER,
        .operation = c->operation,
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
    return suite_check(c->suite, trp_device_drain(c->suite->device, TRP_FOREVER),
                       "trp_device_drain");
}

static bool run_first(convolution *c)
{
    trp_completion done = {0};
    const trp_cutlass_conv_request r = request_of(c);
    return suite_await(c->suite, trp_cutlass_conv(c->actor, &r, &done), &done, "a convolution");
}

static void measure(suite *s, trp_actor *actor, const char *section, trp_conv_operation operation,
                    const shape *x)
{
    convolution c = {.suite = s, .actor = actor, .what = *x, .operation = operation};
    const stats_side none = {0}, side = {.run = run, .context = &c};
    stats_plan plan = {.blocks = s->quick ? 3 : 5};
    placement where;
    bool tera = suite_on_gpu(s);
    double flop = 2.0 * (double)elements(&c, 2) * (double)(x->filter * x->filter * x->channels);
    report_row row = {.section = section,
                      .type = trp_dtype_name(TRP_BF16),
                      .unit = tera ? "TFLOP/s" : "GFLOP/s",
                      .rate = true,
                      .scale = flop / (tera ? 1e3 : 1)};
    snprintf(row.name, sizeof row.name, "%lldx%lld, %lld to %lld, %lld of %lldx%lld",
             (long long)x->filter, (long long)x->filter, (long long)x->channels,
             (long long)x->filters, (long long)x->images, (long long)x->input, (long long)x->input);
    if (begin(&c) && run_first(&c)) {
        plan.count = stats_calibrate(side, s->quick ? 20e6 : 60e6, 10000);
        plan.warm = plan.count / 8 + 1;
        placement_begin(&where, s->device, false);
        plan.placement = &where;
        if (plan.count > 0)
            suite_measure(s, &plan, none, side, &row);
        else
            suite_fail(s, section, row.name);
        placement_end(&where);
        printf("  %s\n", c.chosen.kernel);
    } else {
        suite_fail(s, section, row.name);
    }
    end(&c);
}

static void run_section(suite *s, const char *section, const char *title,
                        trp_conv_operation operation)
{
    report_section(s->report, title, "Troupe: the cutlass actor's choice");
    trp_actor *actor = suite_actor(s, "cutlass", section);
    for (size_t i = 0; actor && suite_on_gpu(s) && i < sizeof shapes / sizeof *shapes; i++) {
        if (s->size == 0 || s->size == shapes[i].channels)
            measure(s, actor, section, operation, &shapes[i]);
    }
    if (actor && !suite_on_gpu(s))
        measure(s, actor, section, operation, &small);
    trp_actor_destroy(actor);
    trp_device_trim(s->device);
}

void suite_conv_fprop(suite *s)
{
    run_section(s, "fprop", "Convolutions by kernels of CUTLASS, bf16", TRP_CONV_FPROP);
}

void suite_conv_dgrad(suite *s)
{
    run_section(s, "dgrad", "Their gradients by the activation", TRP_CONV_DGRAD);
}

void suite_conv_wgrad(suite *s)
{
    run_section(s, "wgrad", "Their gradients by the filter", TRP_CONV_WGRAD);
}
