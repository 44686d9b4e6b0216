/* Convolutions of the cutlass actor: each operation, of every type and layout, with small integers
 * as input, so that what must come out is known to the bit; and requests that are wrong.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/conv_problem.h"
#include "support/harness.h"

TROUPE_TEST("computes", "one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "cutlass");

static h_world world;
static trp_actor *cutlass;

static void open_world(void)
{
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
}

static void draw_sizes(cv_problem *p, size_t most)
{
    p->dims = 1 + cv_below(3);
    p->groups = cv_below(3) ? 1 : 1 + cv_below(3);
    p->images = cv_below(8) == 0 ? 0 : 1 + cv_below(3);
    p->channels = p->groups * (1 + cv_below(most));
    p->filters = p->groups * (1 + cv_below(most));
    for (size_t i = 0; i < p->dims; i++) {
        p->filter[i] = 1 + cv_below(3);
        p->stride[i] = 1 + cv_below(3);
        p->dilation[i] = 1 + cv_below(3);
        p->pad[i] = cv_below(3);
        p->pad_after[i] = cv_below(3);
        size_t wide = (p->filter[i] - 1) * p->dilation[i] + 1, pads = p->pad[i] + p->pad_after[i];
        p->input[i] = (wide > pads ? wide - pads : 0) + cv_below(6);
        p->input[i] += p->input[i] == 0;
    }
    cv_set_output(p);
}

static cv_problem draw(trp_conv_operation operation, size_t most)
{
    static const trp_dtype inputs[] = {TRP_F64,  TRP_F32,  TRP_F16,    TRP_F16,
                                       TRP_BF16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2};
    static const trp_dtype narrow[] = {TRP_F32, TRP_F16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2, TRP_I8};
    static const double alphas[] = {1, 1, -2, 3}, betas[] = {0, 1, -3, 2};
    cv_problem p = {.operation = operation,
                    .flip = cv_below(2),
                    .in_place = cv_below(3) == 0,
                    .tree = cv_below(2),
                    .alpha = alphas[cv_below(4)],
                    .beta = betas[cv_below(4)]};
    trp_dtype a = inputs[cv_below(8)];
    bool fp8 = a == TRP_F8E4M3 || a == TRP_F8E5M2, wide = a == TRP_F64;
    p.tensor[CV_A].type = a;
    p.tensor[CV_B].type = fp8 ? (cv_below(2) ? TRP_F8E4M3 : TRP_F8E5M2) : a;
    p.tensor[CV_D].type = wide ? (cv_below(2) ? TRP_F64 : TRP_F32) : narrow[cv_below(6)];
    p.tensor[CV_C].type = wide ? (cv_below(2) ? TRP_F64 : TRP_F32) : narrow[cv_below(6)];
    draw_sizes(&p, most);
    return p;
}

static void check(cv_problem *p)
{
    cv_make(world.device, p);
    H_OK(cv_send(world.device, cutlass, p));
    cv_check(world.device, p);
}

/* What kernels that gather by TMA can have. */
static void align(cv_problem *p)
{
    p->unit = 16;
    p->channels = p->groups * 64;
    p->filters = p->groups * (p->operation == TRP_CONV_DGRAD ? 64 : 16);
    for (size_t i = 0; i < p->dims && p->operation == TRP_CONV_DGRAD; i++)
        p->stride[i] = 1;
    cv_set_output(p);
}

static void convolutions(void)
{
    const int count = H_SANITIZED ? 150 : 450;
    const int least = h_is_cuda() ? 5 : 0; /* of a kind that is not drawn often */
    int gathered = 0;
    open_world();
    for (int i = 0; i < count || (gathered < least && i < 10 * count); i++) {
        cv_problem p = draw((trp_conv_operation)(i % 3), i % 9 == 0 ? 12 : 4);
        if (i % 7 == 0)
            align(&p);
        check(&p);
        gathered += strncmp(p.chosen.kernel, "s90_", 4) == 0;
    }
    H_CHECK(gathered >= least);
    h_close(&world);
}

/* More than a tile of pixels, of channels, and of what is summed. */
static void large(void)
{
    static const size_t sizes[][3] = {/* width, channels, filters */
                                      {1100, 3, 2},
                                      {3, 600, 2},
                                      {3, 2, 600}};
    open_world();
    for (int i = 0; i < 9; i++) {
        cv_problem p = {.operation = (trp_conv_operation)(i % 3), .alpha = 1};
        const size_t *size = sizes[i / 3];
        p.dims = p.images = p.groups = p.stride[0] = p.dilation[0] = p.pad[0] = 1;
        p.input[0] = size[0];
        p.channels = size[1];
        p.filters = size[2];
        p.filter[0] = 2;
        cv_set_output(&p);
        for (int t = 0; t < CV_TENSORS; t++)
            p.tensor[t].type = TRP_F32;
        check(&p);
    }
    h_close(&world);
}

/* --- what is refused --- */

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
    REFUSE(s.r.operation = (trp_conv_operation)3, TRP_E_ARGUMENT, "operation: expected");
    REFUSE(s.r.dims = 4, TRP_E_ARGUMENT, "dims: expected 1 to 3, or 0, got 4");
    REFUSE(s.r.compute = TRP_COMPUTE_EMULATED, TRP_E_ARGUMENT, "compute: expected");
    REFUSE(s.r.images = -1, TRP_E_ARGUMENT, "images: expected 0 to 2147483647, got -1");
    REFUSE(s.r.channels = 0, TRP_E_ARGUMENT, "channels: expected 1 to");
    REFUSE(s.r.filters = INT64_C(1) << 31, TRP_E_ARGUMENT, "filters: expected 1 to");
    REFUSE(s.r.groups = -2, TRP_E_ARGUMENT, "groups: expected 1 to");
    REFUSE(s.r.groups = 4, TRP_E_ARGUMENT, "filters: expected a multiple of groups, 4, got 6");
    REFUSE(s.r.groups = 3, TRP_E_ARGUMENT, "channels: expected a multiple of groups, 3, got 4");
    REFUSE(s.r.input[1] = 0, TRP_E_ARGUMENT, "input[1]: expected 1 to 2147483647, got 0");
    REFUSE(s.r.input[2] = 1, TRP_E_ARGUMENT,
           "input[2]: expected 0, for there are 2 dimensions, got 1");
    REFUSE(s.r.filter[0] = -3, TRP_E_ARGUMENT, "filter[0]: expected 1 to");
    REFUSE(s.r.pad[0] = -1, TRP_E_ARGUMENT, "pad[0]: expected 0 to");
    REFUSE(s.r.pad_after[1] = INT64_MIN, TRP_E_ARGUMENT, "pad_after[1]: expected 0 to");
    REFUSE(s.r.stride[1] = -1, TRP_E_ARGUMENT, "stride[1]: expected 1 to");
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
    REFUSE(s.r.a.offset = 1, TRP_E_ARGUMENT, "a.offset: expected a multiple of 2 bytes");
    REFUSE(s.r.a.offset = 4096, TRP_E_ARGUMENT, "a: the request needs bytes");
    REFUSE(s.r.b.buffer.id = 0, TRP_E_STALE, "b: no buffer given");
    REFUSE(s.r.d.buffer = buffer_a, TRP_E_ARGUMENT, "overlap those of a");
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

H_CASES(H_CASE(convolutions), H_CASE(large), H_CASE(refused))
