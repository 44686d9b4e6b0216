#include "dnn.h"

#include "bench/suite/filled.h"

#include <stdio.h>
#include <stdlib.h>

int64_t dnn_output(const dnn_shape *x)
{
    return (x->input + 2 * (x->filter / 2) - x->filter) / x->stride + 1;
}

double dnn_flop(const dnn_shape *x)
{
    double pixels = (double)(x->images * dnn_output(x) * dnn_output(x));
    double terms = (double)(x->filter * x->filter * x->channels) / (double)x->groups;
    return 2.0 * pixels * (double)x->filters * terms;
}

void dnn_name(const dnn_shape *x, dnn_pass pass, char *out, size_t size)
{
    static const char *const passes[] = {"fwd", "dgrad", "wgrad"};
    char stride[16] = "", groups[24] = "";
    if (x->stride > 1)
        snprintf(stride, sizeof stride, "/%d", (int)x->stride);
    if (x->groups > 1)
        snprintf(groups, sizeof groups, " g%d", (int)x->groups);
    snprintf(out, size, "%dx%d%s %d-%d %d n%d%s %s", (int)x->filter, (int)x->filter, stride,
             (int)x->channels, (int)x->filters, (int)x->input, (int)x->images, groups,
             passes[pass]);
}

static uint64_t bytes_of(int64_t images, int64_t size, int64_t channels)
{
    return (uint64_t)(images * size * size * channels) * trp_dtype_bits(TRP_BF16) / 8;
}

bool dnn_begin(dnn_conv *c)
{
    const dnn_shape *x = &c->what;
    suite *s = c->suite;
    const uint64_t bytes[] = {bytes_of(x->images, x->input, x->channels),
                              bytes_of(x->filters, x->filter, x->channels / x->groups),
                              bytes_of(x->images, dnn_output(x), x->filters)};
    uint64_t most = bytes[0] > bytes[2] ? bytes[0] : bytes[2];
    unsigned char *piece = malloc(FILLED_PIECE);
    if (!piece)
        return false;
    filled_piece(TRP_BF16, piece, s->seed);
    bool good = filled_buffer(s, piece, bytes[0], &c->x) &&
                filled_buffer(s, piece, bytes[1], &c->w) &&
                filled_buffer(s, piece, bytes[2], &c->y) &&
                filled_buffer(s, piece, bytes_of(1, 1, x->filters), &c->bias) &&
                filled_buffer(s, NULL, bytes[1] > most ? bytes[1] : most, &c->out);
    free(piece);
    return good;
}

void dnn_end(dnn_conv *c)
{
    const trp_buffer all[] = {c->x, c->w, c->y, c->out, c->bias};
    suite_free(c->suite, all, sizeof all / sizeof *all);
}

static trp_dnn_tensor tensor_of(trp_buffer buffer, int64_t n, int64_t c, int64_t size)
{
    trp_dnn_tensor t = {.type = TRP_BF16, .rank = 4, .dim = {n, c, size, size}, .buffer = buffer};
    trp_dnn_channels_last(&t);
    return t;
}

trp_status dnn_send(dnn_conv *c, trp_dnn_ran *ran, trp_completion *completion)
{
    static trp_status (*const calls[])(trp_actor *, const trp_conv_request *, trp_completion *) = {
        trp_conv_forward, trp_conv_backward_data, trp_conv_backward_filter};
    const dnn_shape *x = &c->what;
    const int64_t pad = x->filter / 2;
    trp_conv_request r = {
        .header = {.wait_ns = TRP_FOREVER, .deadline_ns = completion ? DNN_LONGEST_NS : 0},
        .x = tensor_of(c->pass == DNN_DATA ? c->out : c->x, x->images, x->channels, x->input),
        .w = tensor_of(c->pass == DNN_FILTER ? c->out : c->w, x->filters, x->channels / x->groups,
                       x->filter),
        .y =
            tensor_of(c->pass == DNN_FORWARD ? c->out : c->y, x->images, x->filters, dnn_output(x)),
        .pre_pad = {pad, pad},
        .post_pad = {pad, pad},
        .stride = {x->stride, x->stride},
        .options = {.tune = c->tune, .ran = ran}};
    if (c->fused) {
        r.bias = (trp_dnn_tensor){.type = TRP_BF16, .buffer = c->bias};
        r.activation.mode = TRP_DNN_RELU;
    }
    return calls[c->pass](c->actor, &r, completion);
}

bool dnn_run_first(dnn_conv *c)
{
    trp_completion done = {0};
    return suite_await(c->suite, dnn_send(c, &c->ran, &done), &done, "a convolution");
}

bool dnn_run(void *context, uint64_t count)
{
    dnn_conv *c = context;
    for (uint64_t i = 0; i < count; i++) {
        if (!suite_check(c->suite, dnn_send(c, NULL, NULL), "a convolution"))
            return false;
    }
    return suite_drain(c->suite, DNN_LONGEST_NS);
}

bool dnn_open(suite *s, dnn_place *p)
{
    trp_device *own = NULL;
    *p = (dnn_place){.before = s->device};
    if (!scratch_begin(s, &p->files) || !suite_open(s, &own))
        return false;
    s->device = own;
    return true;
}

void dnn_close(suite *s, dnn_place *p)
{
    if (s->device != p->before)
        trp_device_close(s->device);
    s->device = p->before;
    scratch_end(&p->files);
}
