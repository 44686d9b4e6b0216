/* What cuDNN is not asked for: graphs that differ in one thing.
 */
#include "support/unit.h"

#include "actors/dnn/lower/quirks.h"
#include "support/label.h"

#include <troupe/dnn.h>

TROUPE_TEST("no tsan");

enum { TENSORS = 8, NODES = 3 };

typedef struct graph {
    trp__dnn_head head;
    trp__dnn_tensor tensor[TENSORS];
    trp__dnn_node node[NODES];
} graph;

static uint8_t add(graph *g, int64_t n, int64_t c, int64_t h, int64_t w)
{
    g->tensor[g->head.tensors] = (trp__dnn_tensor){.type = TRP_F16,
                                                   .rank = 4,
                                                   .role = TRP__DNN_BUFFER,
                                                   .alignment = 16,
                                                   .dim = {n, c, h, w, 1, 1, 1, 1},
                                                   .stride = {c * h * w, h * w, w, 1}};
    return (uint8_t)g->head.tensors++;
}

static trp__dnn_node *node(graph *g, trp_dnn_kind kind)
{
    trp__dnn_node *n = &g->node[g->head.nodes++];
    *n = (trp__dnn_node){.kind = (uint8_t)kind,
                         .compute = TRP_F32,
                         .spatial = 2,
                         .stride = {1, 1},
                         .dilation = {1, 1}};
    memset(n->port, TRP__DNN_NO_PORT, sizeof n->port);
    return n;
}

static uint32_t asked(const graph *g, uint32_t first)
{
    const double value[TENSORS] = {0};
    const uint8_t access[TENSORS] = {0};
    const trp__dnn_graph whole = {&g->head, g->tensor, g->node, value, access};
    return trp__dnn_asked(&whole, first);
}

/* relu(conv(x, w)), then a copy of it in another shape. */
static graph make(void)
{
    graph g = {0};
    trp__dnn_node *conv = node(&g, TRP_DNN_CONV_FORWARD);
    conv->port[TRP__DNN_CONV_X] = add(&g, 2, 8, 5, 5);
    conv->port[TRP__DNN_CONV_W] = add(&g, 8, 8, 1, 1);
    conv->port[TRP__DNN_CONV_Y] = add(&g, 2, 8, 5, 5);
    trp__dnn_node *relu = node(&g, TRP_DNN_POINTWISE);
    relu->mode = TRP_DNN_RELU;
    relu->port[TRP__DNN_POINTWISE_X] = conv->port[TRP__DNN_CONV_Y];
    relu->port[TRP__DNN_POINTWISE_Y] = add(&g, 2, 8, 5, 5);
    trp__dnn_node *reshape = node(&g, TRP_DNN_RESHAPE);
    reshape->port[TRP__DNN_MOVE_X] = relu->port[TRP__DNN_POINTWISE_Y];
    reshape->port[TRP__DNN_MOVE_Y] = add(&g, 2, 200, 1, 1);
    return g;
}

static void moves(void **state)
{
    (void)state;
    const graph g = make();
    assert_int_equal(asked(&g, 0), 2);
    assert_int_equal(asked(&g, 1), 1);
    assert_int_equal(asked(&g, 2), 0);
}

/* Whatever is computed: proofs judge it. */
static void all_else(void **state)
{
    (void)state;
    graph g = make();
    g.node[0].mode = 1; /* the filter is turned around */
    g.node[0].pre_pad[0] = 1;
    g.node[0].dilation[0] = 2;
    g.tensor[0].type = g.tensor[1].type = TRP_I8;
    assert_int_equal(asked(&g, 0), 2);
}

/* What is compiled for a second, to be refused. */
static void rare(void **state)
{
    (void)state;
    graph g = make();
    g.tensor[3].type = TRP_I32;
    assert_int_equal(asked(&g, 0), 1);
    g = make(); /* repeated behind the convolution */
    g.tensor[3].dim[0] = 4;
    assert_int_equal(asked(&g, 0), 1);
    g = make(); /* in another layout */
    trp__dnn_tensor *y = &g.tensor[3];
    y->stride[1] = 1;
    y->stride[2] = 40;
    y->stride[3] = 8;
    assert_int_equal(asked(&g, 0), 1);
    g = make();
    g.node[1].kind = TRP_DNN_REDUCTION;
    g.node[2] = make().node[1];
    g.node[2].port[TRP__DNN_POINTWISE_X] = 3;
    assert_int_equal(asked(&g, 0), 2);
}

static void gaps(void **state)
{
    (void)state;
    graph g = make();
    g.tensor[0].stride[0] += 8;
    assert_int_equal(asked(&g, 0), 0);
    g = make();
    g.tensor[3].stride[0] += 8;
    assert_int_equal(asked(&g, 0), 1);
}

static void attention(void **state)
{
    (void)state;
    graph g = make();
    g.node[1].kind = TRP_DNN_ATTENTION;
    assert_int_equal(asked(&g, 0), 1);
    assert_int_equal(asked(&g, 1), 1);
}

static void index_of_maxima(void **state)
{
    (void)state;
    graph g = {0};
    trp__dnn_node *pool = node(&g, TRP_DNN_RESAMPLE_BACKWARD);
    pool->mode = TRP_DNN_POOL_MAX;
    pool->window[0] = pool->window[1] = 1;
    pool->port[TRP__DNN_RESAMPLE_X] = add(&g, 2, 8, 5, 5);
    pool->port[TRP__DNN_RESAMPLE_Y] = add(&g, 2, 8, 5, 5);
    pool->port[TRP__DNN_RESAMPLE_OLD_X] = add(&g, 2, 8, 5, 5);
    pool->port[TRP__DNN_RESAMPLE_OLD_Y] = add(&g, 2, 8, 5, 5);
    assert_int_equal(asked(&g, 0), 1);
    pool->port[TRP__DNN_RESAMPLE_INDEX] = add(&g, 2, 8, 5, 5);
    assert_int_equal(asked(&g, 0), 0);
}

/* A forward pass that may end in a misaligned access. */
static void misaligned(void **state)
{
    (void)state;
    graph g = make();
    g.node[0].post_pad[1] = 1;
    assert_int_equal(asked(&g, 0), 2);
    g.tensor[0].dim[1] = g.tensor[1].dim[1] = 4;
    g.tensor[0].stride[0] = 100;
    g.tensor[1].stride[0] = 4;
    assert_int_equal(asked(&g, 0), 0);
    g.node[0].pre_pad[1] = 1;
    assert_int_equal(asked(&g, 0), 2);
    g.node[0].pre_pad[1] = 0;
    g.tensor[0].type = TRP_F32;
    assert_int_equal(asked(&g, 0), 2);
}

static void beyond(void **state)
{
    (void)state;
    graph g = {0};
    trp__dnn_node *pool = node(&g, TRP_DNN_RESAMPLE_FORWARD);
    pool->mode = TRP_DNN_POOL_MAX;
    pool->window[0] = pool->window[1] = 2;
    pool->stride[0] = pool->stride[1] = 2;
    pool->port[TRP__DNN_RESAMPLE_X] = add(&g, 2, 8, 6, 6);
    pool->port[TRP__DNN_RESAMPLE_Y] = add(&g, 2, 8, 3, 3);
    assert_int_equal(asked(&g, 0), 1);
    g.tensor[0] = g.tensor[2];
    g.head.tensors = 0;
    pool->port[TRP__DNN_RESAMPLE_X] = add(&g, 2, 8, 5, 6);
    assert_int_equal(asked(&g, 0), 0);
}

static void range(void **state)
{
    (void)state;
    static const struct {
        uint8_t mode;
        uint32_t count;
    } rows[] = {{TRP_DNN_SUM, 1}, {TRP_DNN_MEAN, 0}, {TRP_DNN_NORM2, 0}, {TRP_DNN_MOST, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        graph g = {0};
        trp__dnn_node *sum = node(&g, TRP_DNN_REDUCTION);
        sum->mode = rows[i].mode;
        sum->port[TRP__DNN_REDUCTION_X] = add(&g, 2, 8, 5, 5);
        sum->port[TRP__DNN_REDUCTION_Y] = add(&g, 1, 8, 1, 1);
        assert_int_equal(asked(&g, 0), rows[i].count);
    }
}

UNIT_MAIN(UNIT(moves), UNIT(all_else), UNIT(rare), UNIT(gaps), UNIT(attention),
          UNIT(index_of_maxima), UNIT(misaligned), UNIT(beyond), UNIT(range))
