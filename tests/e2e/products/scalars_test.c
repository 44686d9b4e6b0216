/* Scalars that have a value but are not `given` are refused by whatever takes one, and what beta
 * stands for is the same everywhere. */
#include "support/harness.h"

#include <troupe/layers.h>
#include <troupe/training.h>

#include <math.h>

TROUPE_TEST_FAKE_GPU("no tsan", "dnn", "cutlass");

enum { SIDE = 4, COUNT = SIDE * SIDE, BYTES = COUNT * 4 };

/* As C programs write them by mistake. */
static const trp_scalar mistakes[] = {
    {.re = 0.5}, {.im = 1}, {.re = -INFINITY}, {.re = NAN}, {.re = 5e-324}};

typedef struct stage {
    h_world w;
    trp_actor *blas, *matmul, *cutlass, *dnn;
    trp_buffer buffer[4];
} stage;

static trp_actor *actor_if_any(trp_device *device, const char *kind)
{
    trp_actor *actor = NULL;
    trp_status status = trp_actor_create(device, &(trp_actor_options){.kind = kind}, &actor);
    H_CHECK(status == TRP_OK || status == TRP_E_MISSING);
    return actor;
}

static stage set_up(void)
{
    stage s = {.w = h_open(NULL)};
    s.blas = actor_if_any(s.w.device, "blas");
    s.matmul = actor_if_any(s.w.device, "matmul");
    s.cutlass = actor_if_any(s.w.device, "cutlass");
    s.dnn = actor_if_any(s.w.device, "dnn");
    for (int i = 0; i < 4; i++) {
        s.buffer[i] = h_buffer(s.w.device, BYTES);
        h_fill(s.w.device, s.buffer[i], 0x3f800000); /* ones */
    }
    return s;
}

static void check(const char *file, int line, trp_status status, const char *name)
{
    h_check_status(file, line, name, status, TRP_E_ARGUMENT);
    h_check_says(file, line, trp_error_message(), name);
    h_check_says(file, line, trp_error_message(), "trp_real()");
}

/* Each mistake in a field of the request `r`, which `call` sends. */
#define REFUSED(r, field, call)                                                                    \
    for (size_t i_ = 0; i_ < sizeof mistakes / sizeof *mistakes; i_++) {                           \
        trp_scalar before_ = (r).field;                                                            \
        (r).field = mistakes[i_];                                                                  \
        check(__FILE__, __LINE__, (call), #field);                                                 \
        (r).field = before_;                                                                       \
    }

static void blas(const stage *s)
{
    trp_buffer a = s->buffer[0], b = s->buffer[1], c = s->buffer[2];
    trp_gemm_request gemm = {
        .type = TRP_F32, .m = SIDE, .n = SIDE, .k = SIDE, .a = a, .b = b, .c = c};
    REFUSED(gemm, alpha, trp_gemm(s->blas, &gemm, NULL));
    REFUSED(gemm, beta, trp_gemm(s->blas, &gemm, NULL));
    gemm.type = TRP_C64;
    gemm.m = gemm.n = gemm.k = 2;
    REFUSED(gemm, beta, trp_gemm(s->blas, &gemm, NULL));
    gemm.scalars = s->buffer[3];
    REFUSED(gemm, alpha, trp_gemm(s->blas, &gemm, NULL));
    trp_gemm_item item = {.a = a, .b = b, .c = c};
    trp_gemm_list_request list = {
        .common = {.type = TRP_F32, .m = SIDE, .n = SIDE, .k = SIDE}, .count = 1, .item = &item};
    list.common.alpha = mistakes[0];
    check(__FILE__, __LINE__, trp_gemm_list(s->blas, &list, NULL), "alpha");
    trp_blas1_request one = {.type = TRP_F32, .n = SIDE, .x = a, .y = b};
    REFUSED(one, alpha, trp_axpy(s->blas, &one, NULL));
    REFUSED(one, alpha,
            trp_scal(s->blas,
                     &(trp_blas1_request){.type = TRP_F32, .n = SIDE, .x = a, .alpha = one.alpha},
                     NULL));
    one.c = one.s = trp_real(1);
    REFUSED(one, c, trp_rot(s->blas, &one, NULL));
    REFUSED(one, s, trp_rot(s->blas, &one, NULL));
    trp_blas2_request two = {.type = TRP_F32, .m = SIDE, .n = SIDE, .a = a, .x = b, .y = c};
    REFUSED(two, alpha, trp_gemv(s->blas, &two, NULL));
    REFUSED(two, beta, trp_gemv(s->blas, &two, NULL));
    trp_blas3_request three = {
        .type = TRP_F32, .m = SIDE, .n = SIDE, .k = SIDE, .a = a, .b = b, .c = c};
    REFUSED(three, alpha, trp_symm(s->blas, &three, NULL));
    REFUSED(three, beta, trp_symm(s->blas, &three, NULL));
}

static void products(const stage *s)
{
    const trp_matmul_matrix a = {.buffer = s->buffer[0], .type = TRP_F32},
                            b = {.buffer = s->buffer[1], .type = TRP_F32},
                            d = {.buffer = s->buffer[2], .type = TRP_F32};
    trp_matmul_request r = {.m = SIDE, .n = SIDE, .k = SIDE, .a = a, .b = b, .d = d};
    if (s->matmul) {
        REFUSED(r, alpha, trp_matmul(s->matmul, &r, NULL));
        REFUSED(r, beta, trp_matmul(s->matmul, &r, NULL));
    }
    if (!s->cutlass)
        return;
    trp_cutlass_gemm_request x = {.m = SIDE, .n = SIDE, .k = SIDE, .a = a, .b = b, .d = d};
    REFUSED(x, alpha, trp_cutlass_gemm(s->cutlass, &x, NULL));
    REFUSED(x, beta, trp_cutlass_gemm(s->cutlass, &x, NULL));
    trp_epilogue_node tree[] = {{0},
                                {.kind = TRP_EPILOGUE_ACCUMULATOR},
                                {.kind = TRP_EPILOGUE_SCALAR},
                                {.kind = TRP_EPILOGUE_BINARY, .input = {1, 2}}};
    x.epilogue = tree;
    x.epilogue_count = 4;
    REFUSED(tree[2], value, trp_cutlass_gemm(s->cutlass, &x, NULL));
}

static trp_dnn_tensor matrix(trp_buffer buffer, trp_dtype type)
{
    return (trp_dnn_tensor){.type = type, .rank = 2, .dim = {SIDE, SIDE}, .buffer = buffer};
}

static trp_dnn_tensor image(trp_buffer buffer)
{
    return (trp_dnn_tensor){
        .type = TRP_F32, .rank = 4, .dim = {1, 1, SIDE, SIDE}, .buffer = buffer};
}

static void layers(const stage *s)
{
    trp_actor *dnn = s->dnn;
    const trp_dnn_tensor x = image(s->buffer[0]), y = image(s->buffer[1]), z = image(s->buffer[2]),
                         m = matrix(s->buffer[0], TRP_F32), index = matrix(s->buffer[1], TRP_I32),
                         to = matrix(s->buffer[2], TRP_F32);
    trp_dnn_tensor w = x, one = x;
    w.dim[2] = w.dim[3] = 1;
    one.dim[2] = one.dim[3] = 1;
    trp_conv_request conv = {.x = x, .w = w, .y = y, .z = z, .beta = trp_real(1)};
    REFUSED(conv, alpha, trp_conv_forward(dnn, &conv, NULL));
    REFUSED(conv, beta, trp_conv_forward(dnn, &conv, NULL));
    conv.activation.mode = TRP_DNN_ELU;
    REFUSED(conv, activation.parameter[0], trp_conv_forward(dnn, &conv, NULL));
    trp_norm_request norm = {.x = x, .scale = one, .y = y, .mean = one, .inv_variance = one};
    REFUSED(norm, epsilon, trp_norm_training(dnn, &norm, NULL));
    REFUSED(norm, average_factor, trp_norm_training(dnn, &norm, NULL));
    trp_attention_request attention = {.q = x, .k = x, .v = x, .y = y};
    REFUSED(attention, scale, trp_attention_forward(dnn, &attention, NULL));
    REFUSED(attention, seed.value, trp_attention_forward(dnn, &attention, NULL));
    trp_embedding_request embedding = {.dy = m, .index = index, .dtable = to};
    REFUSED(embedding, padding, trp_embedding_backward(dnn, &embedding, NULL));
    trp_gather_request gather = {.dy = m, .index = index, .dx = to};
    REFUSED(gather, ignore, trp_gather_backward(dnn, &gather, NULL));
    trp_cross_entropy_request entropy = {.logits = m, .labels = index, .loss = to};
    REFUSED(entropy, ignore, trp_cross_entropy(dnn, &entropy, NULL));
    trp_loss_request loss = {.mode = TRP_DNN_SMOOTH_L1, .x = m, .target = to, .dx = to};
    REFUSED(loss, beta, trp_loss(dnn, &loss, NULL));
    trp_residual_norm_request residual = {
        .mode = TRP_DNN_RMS, .x = m, .scale = one, .y = to, .inv_variance = one};
    REFUSED(residual, epsilon, trp_residual_norm_forward(dnn, &residual, NULL));
    trp_rotary_request rotary = {.x = x, .y = y};
    REFUSED(rotary, base, trp_rotary_forward(dnn, &rotary, NULL));
    trp_sample_request sample = {.logits = m, .index = index, .seed = trp_dnn_integer(1)};
    REFUSED(sample, temperature, trp_sample(dnn, &sample, NULL));
    REFUSED(sample, top_p, trp_sample(dnn, &sample, NULL));
    trp_optimizer_request step = {.optimizer = TRP_DNN_SGD, .w = m, .dw = to, .step = 1};
    REFUSED(step, rate, trp_optimizer(dnn, &step, NULL));
    step.rate = trp_real(1);
    REFUSED(step, decay, trp_optimizer(dnn, &step, NULL));
    REFUSED(step, momentum, trp_optimizer(dnn, &step, NULL));
    REFUSED(step, max_norm, trp_optimizer(dnn, &step, NULL));
    trp_parameter_segment segment = {.count = SIDE};
    step.segments = &segment;
    step.segment_count = 1;
    REFUSED(segment, rate, trp_optimizer(dnn, &step, NULL));
    REFUSED(segment, decay, trp_optimizer(dnn, &step, NULL));
}

static void graphs(const stage *s)
{
    trp_dnn_tensor tensor[] = {
        {0}, matrix(s->buffer[0], TRP_F32), {.value = trp_real(2)}, matrix(s->buffer[1], TRP_F32)};
    trp_dnn_node node = {
        .kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_MUL, .x = 1, .b = 2, .y = 3};
    trp_dnn_graph_request r = {
        .tensors = tensor, .tensor_count = 4, .nodes = &node, .node_count = 1};
    REFUSED(tensor[2], value, trp_dnn_graph(s->dnn, &r, NULL));
    REFUSED(node, ignore, trp_dnn_graph(s->dnn, &r, NULL));
    REFUSED(node, parameter[0], trp_dnn_graph(s->dnn, &r, NULL));
    REFUSED(node, parameter[2], trp_dnn_graph(s->dnn, &r, NULL));
    H_OK(trp_dnn_graph(s->dnn, &r, NULL));
}

static void not_given(void)
{
    stage s = set_up();
    blas(&s);
    products(&s);
    if (s.dnn) {
        layers(&s);
        graphs(&s);
    }
    h_close(&s.w);
}

static float first_of(const stage *s, trp_buffer buffer)
{
    float value;
    h_read(s->w.device, buffer, 0, &value, sizeof value);
    return value;
}

/* What is added needs a beta; with 0 it is not read, whatever is there. */
static void beta(void)
{
    stage s = set_up();
    h_fill(s.w.device, s.buffer[3], 0x7fc00000); /* NaN */
    const trp_matmul_matrix a = {.buffer = s.buffer[0], .type = TRP_F32},
                            b = {.buffer = s.buffer[1], .type = TRP_F32},
                            d = {.buffer = s.buffer[2], .type = TRP_F32},
                            c = {.buffer = s.buffer[0], .type = TRP_F32},
                            nan = {.buffer = s.buffer[3], .type = TRP_F32};
    trp_completion done = {0};
    for (int actor = 0; actor < 3; actor++) {
        trp_matmul_request r = {.m = SIDE, .n = SIDE, .k = SIDE, .a = a, .b = b, .c = c, .d = d};
        trp_cutlass_gemm_request x = {
            .m = SIDE, .n = SIDE, .k = SIDE, .a = a, .b = b, .c = c, .d = d};
        trp_conv_request y = {.x = image(s.buffer[0]),
                              .w = image(s.buffer[1]),
                              .y = image(s.buffer[2]),
                              .z = image(s.buffer[0])};
        y.w.dim[2] = y.w.dim[3] = 1;
        const float product = actor == 2 ? 1 : SIDE;
        if ((actor == 0 && !s.matmul) || (actor == 1 && !s.cutlass) || (actor == 2 && !s.dnn))
            continue;
#define SEND()                                                                                     \
    (actor == 0   ? trp_matmul(s.matmul, &r, &done)                                                \
     : actor == 1 ? trp_cutlass_gemm(s.cutlass, &x, &done)                                         \
                  : trp_conv_forward(s.dnn, &y, &done))
        H_IS(SEND(), TRP_E_ARGUMENT);
        H_SAYS("beta: expected one with");
        r.beta = x.beta = y.beta = trp_real(2);
        H_OK(SEND());
        if (h_await_any(done) == TRP_OK) /* a fake GPU may have no compiler */
            H_CHECK(first_of(&s, s.buffer[2]) == product + 2);
        r.beta = x.beta = y.beta = trp_real(0);
        r.c = x.c = nan;
        y.z = image(s.buffer[3]);
        H_OK(SEND());
        if (h_await_any(done) == TRP_OK)
            H_CHECK(first_of(&s, s.buffer[2]) == product);
#undef SEND
    }
    h_close(&s.w);
}

H_CASES(H_CASE(not_given), H_CASE(beta))
