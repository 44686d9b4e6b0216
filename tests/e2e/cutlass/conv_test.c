/* What the cutlass actor's sender refuses of convolutions, beside tests/conformance.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/harness.h"

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "cutlass");

static h_world world;
static trp_actor *cutlass;

static void open_world(void)
{
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
}

typedef struct setting {
    trp_cutlass_conv_request r;
    trp_epilogue_node nodes[3];
    uint32_t count;
} setting;

static trp_buffer buffer_a, buffer_b, buffer_c, buffer_d;

/* 2 images of 7 x 5 with 4 channels, 6 filters of 3 x 3: 7 x 5. */
static setting right(void)
{
    return (setting){.r = {.images = 2,
                           .channels = 4,
                           .filters = 6,
                           .input = {7, 5},
                           .filter = {3, 3},
                           .pad = {1, 1},
                           .pad_after = {1, 1},
                           .a = {.buffer = buffer_a, .type = TRP_BF16},
                           .b = {.buffer = buffer_b},
                           .c = {.buffer = buffer_c},
                           .d = {.buffer = buffer_d}}};
}

static trp_status send_setting(setting *s)
{
    trp_completion done = {0};
    if (s->count) {
        s->nodes[1].kind = TRP_EPILOGUE_ACCUMULATOR;
        s->r.epilogue = s->nodes;
        s->r.epilogue_count = s->count;
    } else if (!s->r.beta.given && s->r.c.buffer.id) {
        s->r.beta = trp_real(0);
    }
    trp_status status = trp_cutlass_conv(cutlass, &s->r, &done);
    return status == TRP_OK ? h_await_any(done) : status;
}

#define REFUSE(change, status, word)                                                               \
    do {                                                                                           \
        setting s = right();                                                                       \
        change;                                                                                    \
        H_IS(send_setting(&s), status);                                                            \
        H_SAYS(word);                                                                              \
    } while (0)

static void refused_numbers(void)
{
    REFUSE(s.r.channels = 0, TRP_E_ARGUMENT, "channels: expected 1 to");
    REFUSE(s.r.filters = INT64_C(1) << 31, TRP_E_ARGUMENT, "filters: expected 1 to");
    REFUSE(s.r.groups = 4, TRP_E_ARGUMENT, "filters: expected a multiple of groups, 4, got 6");
    REFUSE(s.r.groups = 3, TRP_E_ARGUMENT, "channels: expected a multiple of groups, 3, got 4");
    REFUSE(s.r.input[1] = 0, TRP_E_ARGUMENT, "input[1]: expected 1 to 2147483647, got 0");
    REFUSE(s.r.input[2] = 1, TRP_E_ARGUMENT,
           "input[2]: expected 0, for there are 2 dimensions, got 1");
    REFUSE(s.r.dilation[0] = INT64_MAX, TRP_E_ARGUMENT, "dilation[0]: expected 1 to");
    REFUSE(s.r.output[1] = 4, TRP_E_ARGUMENT, "output[1]: expected 5, which follows from input");
    REFUSE(s.r.output[2] = 4, TRP_E_ARGUMENT, "output[2]: expected 0, for there are 2");
    REFUSE(s.r.dilation[1] = 4, TRP_E_ARGUMENT,
           "output[1]: expected 1 or more, got 0: a filter that reaches over 9 with its dilation "
           "does not fit into 1 + 5 + 1");
    REFUSE((s.r.dims = 3, s.r.input[2] = 1, s.r.filter[2] = 2), TRP_E_ARGUMENT, "output[2]: ");
    REFUSE((s.r.input[0] = s.r.input[1] = INT32_MAX, s.r.images = INT32_MAX), TRP_E_ARGUMENT,
           "d: it spans more than 2^63 bytes");
    REFUSE((s.r.dims = 3, s.r.operation = TRP_CONV_WGRAD, s.r.images = 0,
            s.r.input[0] = s.r.input[1] = s.r.input[2] = INT32_MAX, s.r.filter[2] = 1),
           TRP_E_ARGUMENT, "input: expected less than 2^63 pixels");
    REFUSE(s.r.pad[0] = s.r.pad_after[0] = INT32_MAX, TRP_E_ARGUMENT,
           "output[0]: expected less than 2^31");
}

static void refused_places(void)
{
    REFUSE(s.r.a.stride[2] = 3, TRP_E_ARGUMENT, "a.stride[2]: expected at least 4, or 0, got 3");
    REFUSE(s.r.a.stride[1] = 19, TRP_E_ARGUMENT, "a.stride[1]: expected at least 20, or 0, got 19");
    REFUSE(s.r.b.stride[0] = -1, TRP_E_ARGUMENT, "b.stride[0]: expected at least 36");
    REFUSE(s.r.a.stride[3] = 7, TRP_E_ARGUMENT, "a.stride[3]: expected 0, for there are 2");
    REFUSE(s.r.a.stride[0] = INT64_MAX, TRP_E_ARGUMENT, "a: ");
    REFUSE(s.r.a.stride[0] = INT64_MAX / 2, TRP_E_ARGUMENT, "a: ");
    REFUSE(s.r.d.stride[2] = 5, TRP_E_ARGUMENT, "d.stride[2]: expected at least 6, or 0, got 5");
    REFUSE(s.r.d.stride[1] = 31, TRP_E_UNSUPPORTED,
           "d.stride[1]: expected 0 or 30, since rows of d follow each other evenly, got 31");
    REFUSE((s.r.operation = TRP_CONV_WGRAD, s.r.d.stride[2] = 5), TRP_E_UNSUPPORTED,
           "d.stride[2]: expected 0 or 4");
    REFUSE((s.r.operation = TRP_CONV_WGRAD, s.r.d.stride[0] = 35), TRP_E_ARGUMENT,
           "d.stride[0]: expected at least 36");
    REFUSE((s.r.beta = trp_real(1), s.r.c.stride[3] = 5), TRP_E_ARGUMENT, "c.stride[3]");
    REFUSE((s.r.beta = trp_real(1), s.r.c.buffer = buffer_d, s.r.c.offset = 2), TRP_E_ARGUMENT,
           "overlap those of c");
    REFUSE((s.count = 3, s.nodes[2] = (trp_epilogue_node){.kind = TRP_EPILOGUE_AUX_STORE,
                                                          .input = {1},
                                                          .buffer = buffer_d}),
           TRP_E_ARGUMENT, "overlap");
    REFUSE((s.count = 3, s.nodes[2] = (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALE_ROWS,
                                                          .input = {1},
                                                          .offset = 4096 - 69 * 4,
                                                          .buffer = buffer_b}),
           TRP_E_ARGUMENT, "nodes[2]: the request needs bytes 3820 to 3820 + 280");
}

static void refused_types(void)
{
    REFUSE(s.r.a.type = TRP_I8, TRP_E_UNSUPPORTED, "a.type: expected f64, f32");
    REFUSE(s.r.b.type = TRP_F16, TRP_E_UNSUPPORTED, "b.type: expected bf16 where A is bf16");
    REFUSE(s.r.d.type = TRP_F64, TRP_E_UNSUPPORTED, "d.type: expected f32");
    REFUSE(s.r.compute = TRP_COMPUTE_TF32, TRP_E_ARGUMENT, "compute: TRP_COMPUTE_TF32 goes with");
    REFUSE((s.r.beta = trp_real(1), s.r.c.buffer.id = 0), TRP_E_ARGUMENT, "c.buffer: expected one");
    REFUSE((s.count = 2, s.r.beta = trp_real(1)), TRP_E_ARGUMENT, "beta: expected none beside");
}

static void refused(void)
{
    open_world();
    buffer_a = h_buffer(world.device, 4096);
    buffer_b = h_buffer(world.device, 4096);
    buffer_c = h_buffer(world.device, 4096);
    buffer_d = h_buffer(world.device, 4096);
    h_fill(world.device, buffer_a, 0);
    h_fill(world.device, buffer_b, 0);
    setting s = right();
    H_OK(send_setting(&s));
    refused_numbers();
    refused_places();
    refused_types();
    s = right();
    s.r.images = 0; /* nothing to do, and nothing looked at */
    s.r.d.buffer.id = 0;
    H_OK(send_setting(&s));
    H_EQUAL(h_info(world.device).incarnation, 1);
    h_close(&world);
}

H_CASES(H_CASE(refused))
