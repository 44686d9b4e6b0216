/* What cuDNN is not asked for, of all that it takes: graphs of one node that differ in one thing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "actors/dnn/attention_cudnn.h"
#include "actors/dnn/trust.h"

#include <troupe/dnn.h>

#include <math.h>
#include <string.h>

enum { TENSORS = 6 };

typedef struct one {
    trp__dnn_head head;
    trp__dnn_tensor tensor[TENSORS];
    trp__dnn_node node, next; /* next: of some */
} one;

static void add(one *g, int port, uint8_t type, int64_t n, int64_t c, int64_t h, int64_t w)
{
    g->tensor[g->head.tensors] = (trp__dnn_tensor){.type = type,
                                                   .rank = 4,
                                                   .role = TRP__DNN_BUFFER,
                                                   .alignment = 16,
                                                   .dim = {n, c, h, w, 1, 1, 1, 1},
                                                   .stride = {c * h * w, h * w, w, 1}};
    g->node.port[port] = (uint8_t)g->head.tensors++;
}

static one begin(trp_dnn_kind kind)
{
    one g = {.head = {.nodes = 1},
             .node = {.kind = (uint8_t)kind,
                      .compute = TRP_F32,
                      .spatial = 2,
                      .stride = {1, 1},
                      .dilation = {1, 1}}};
    memset(g.node.port, TRP__DNN_NO_PORT, sizeof g.node.port);
    return g;
}

static void pad(one *g, int before, int behind)
{
    g->node.pre_pad[1] = before;
    g->node.post_pad[1] = behind;
}

static uint32_t trusted(const one *g)
{
    const double value[TENSORS] = {0};
    const uint8_t access[TENSORS] = {0};
    const trp__dnn_graph graph = {&g->head, g->tensor, &g->node, value, access};
    return trp__dnn_trusted(&graph, 0);
}

/* --- convolutions --- */

static bool trusts_groups(trp_dnn_kind kind, uint8_t type, int groups, int before, int behind,
                          bool flip)
{
    one g = begin(kind);
    const int width = 5 + before + behind - 2;
    add(&g, TRP__DNN_CONV_X, type, 1, 8, 5, 5);
    add(&g, TRP__DNN_CONV_W, type, 8, 8 / groups, 1, 3);
    add(&g, TRP__DNN_CONV_Y, type, 1, 8, 5, width);
    g.node.mode = flip;
    pad(&g, before, behind);
    return trusted(&g) == 1;
}

static bool trusts_conv(trp_dnn_kind kind, uint8_t type, int before, int behind, bool flip)
{
    return trusts_groups(kind, type, 1, before, behind, flip);
}

static void convolutions(void **state)
{
    (void)state;
    static const trp_dnn_kind kinds[] = {TRP_DNN_CONV_FORWARD, TRP_DNN_CONV_BACKWARD_DATA,
                                         TRP_DNN_CONV_BACKWARD_FILTER};
    for (int i = 0; i < 3; i++) {
        const bool filter = kinds[i] == TRP_DNN_CONV_BACKWARD_FILTER;
        assert_true(trusts_conv(kinds[i], TRP_F64, 1, 1, false));
        assert_int_equal(trusts_conv(kinds[i], TRP_F64, 0, 1, false), !filter);
        assert_int_equal(trusts_conv(kinds[i], TRP_F64, 2, 1, false), !filter);
        assert_int_equal(trusts_conv(kinds[i], TRP_BF16, 0, 1, false), !filter);
        assert_true(trusts_groups(kinds[i], TRP_BF16, 2, 1, 1, false));
        assert_int_equal(trusts_groups(kinds[i], TRP_F16, 4, 0, 1, false), !filter);
        assert_false(trusts_conv(kinds[i], TRP_BF16, 1, 1, true));
        assert_false(trusts_conv(kinds[i], TRP_I8, 1, 1, false));
    }
}

static bool trusts_channels(trp_dnn_kind kind, int in, int out, int before, int behind)
{
    one g = begin(kind);
    add(&g, TRP__DNN_CONV_X, TRP_F16, 2, in, 1, 5);
    add(&g, TRP__DNN_CONV_W, TRP_F16, out, in, 1, 3);
    add(&g, TRP__DNN_CONV_Y, TRP_F16, 2, out, 1, 5 + before + behind - 2);
    pad(&g, before, behind);
    return trusted(&g) == 1;
}

static void of_one_channel(void **state)
{
    (void)state;
    assert_true(trusts_channels(TRP_DNN_CONV_FORWARD, 1, 1, 1, 1));
    assert_false(trusts_channels(TRP_DNN_CONV_FORWARD, 1, 1, 1, 0));
    assert_false(trusts_channels(TRP_DNN_CONV_FORWARD, 8, 4, 1, 0));
    assert_true(trusts_channels(TRP_DNN_CONV_FORWARD, 8, 16, 1, 0));
    assert_true(trusts_channels(TRP_DNN_CONV_BACKWARD_DATA, 1, 1, 1, 1));
    assert_true(trusts_channels(TRP_DNN_CONV_BACKWARD_DATA, 2, 3, 1, 0));
    assert_false(trusts_channels(TRP_DNN_CONV_BACKWARD_DATA, 1, 3, 1, 0));
    assert_false(trusts_channels(TRP_DNN_CONV_BACKWARD_DATA, 2, 1, 0, 1));
}

/* So many nodes of a convolution and a relu. */
static uint32_t with_relu(int before, int behind, int dilation)
{
    one g = begin(TRP_DNN_CONV_FORWARD);
    const int width = 5 + before + behind - 2 * dilation;
    add(&g, TRP__DNN_CONV_X, TRP_BF16, 1, 8, 5, 5);
    add(&g, TRP__DNN_CONV_W, TRP_BF16, 8, 8, 1, 3);
    add(&g, TRP__DNN_CONV_Y, TRP_BF16, 1, 8, 5, width);
    g.tensor[2].role = TRP__DNN_VIRTUAL;
    pad(&g, before, behind);
    g.node.dilation[1] = dilation;
    const trp__dnn_node conv = g.node;
    g.node = (trp__dnn_node){.kind = TRP_DNN_POINTWISE, .mode = TRP_DNN_RELU, .compute = TRP_F32};
    g.node.parameter[1] = INFINITY;
    memset(g.node.port, TRP__DNN_NO_PORT, sizeof g.node.port);
    g.node.port[TRP__DNN_POINTWISE_X] = 2;
    add(&g, TRP__DNN_POINTWISE_Y, TRP_BF16, 1, 8, 5, width);
    g.next = g.node;
    g.node = conv;
    g.head.nodes = 2;
    return trusted(&g);
}

static void fused(void **state)
{
    (void)state;
    assert_int_equal(with_relu(1, 1, 1), 2);
    assert_int_equal(with_relu(0, 0, 1), 2);
    assert_int_equal(with_relu(0, 1, 1), 1);
    assert_int_equal(with_relu(2, 1, 1), 1);
    assert_int_equal(with_relu(2, 2, 2), 1);
}

/* --- pooling --- */

static bool trusts_pool(trp_dnn_resample how, int before, int behind)
{
    one g = begin(TRP_DNN_RESAMPLE_FORWARD);
    add(&g, TRP__DNN_RESAMPLE_X, TRP_F32, 2, 4, 5, 5);
    add(&g, TRP__DNN_RESAMPLE_Y, TRP_F32, 2, 4, 5, 5 + before + behind - 2);
    g.node.mode = (uint8_t)how;
    g.node.window[0] = 1;
    g.node.window[1] = 3;
    pad(&g, before, behind);
    return trusted(&g) == 1;
}

static void pools(void **state)
{
    (void)state;
    for (int how = TRP_DNN_POOL_MAX; how <= TRP_DNN_POOL_AVERAGE_PADDED; how++) {
        assert_true(trusts_pool((trp_dnn_resample)how, 1, 1));
        assert_true(trusts_pool((trp_dnn_resample)how, 1, 0));
        assert_int_equal(trusts_pool((trp_dnn_resample)how, 0, 1),
                         how != TRP_DNN_POOL_AVERAGE_PADDED);
    }
}

/* --- attention --- */

/* Of two heads, eight rows and columns. */
static bool trusts_bias(trp_dnn_kind kind, int heads, int rows, int columns)
{
    one g = begin(kind);
    for (int port = TRP__DNN_ATTENTION_Q; port <= TRP__DNN_ATTENTION_Y; port++)
        add(&g, port, TRP_BF16, 1, 2, 8, 16);
    add(&g, TRP__DNN_ATTENTION_BIAS, TRP_BF16, 1, heads, rows, columns);
    g.node.parameter[0] = 0.25;
    return trp__dnn_attention_refusal(g.tensor, &g.node) == NULL;
}

static void biases(void **state)
{
    (void)state;
    assert_true(trusts_bias(TRP_DNN_ATTENTION, 1, 1, 8));
    assert_true(trusts_bias(TRP_DNN_ATTENTION, 1, 8, 8));
    assert_false(trusts_bias(TRP_DNN_ATTENTION, 2, 8, 1));
    assert_false(trusts_bias(TRP_DNN_ATTENTION, 1, 1, 1));
    assert_true(trusts_bias(TRP_DNN_ATTENTION_BACKWARD, 2, 8, 8));
    assert_true(trusts_bias(TRP_DNN_ATTENTION_BACKWARD, 1, 8, 8));
    assert_false(trusts_bias(TRP_DNN_ATTENTION_BACKWARD, 2, 1, 8));
    assert_false(trusts_bias(TRP_DNN_ATTENTION_BACKWARD, 2, 8, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions), cmocka_unit_test(of_one_channel), cmocka_unit_test(fused),
        cmocka_unit_test(pools),        cmocka_unit_test(biases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
