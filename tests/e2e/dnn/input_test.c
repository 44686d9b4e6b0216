/* Graphs that are wrong: each error names the tensor or the node, what was expected and what came,
 * before anything is sent. And graphs that look odd and are right.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_wrong.h"
#include "support/label.h"

#include <troupe/layers.h>

TROUPE_TEST_FAKE_GPU("no sanitizer", "dnn");

enum { NONE, X, W, CONV, BIAS, SUM, LOW, Y, TENSORS };
enum { NODES = 3, BYTES = 1 << 16 };

/* relu(conv(x, w) + bias) of 2 x 4 x 7 x 5 with 6 filters of 3 x 3, padded by one. */
static void make(dw_graph *p, const trp_buffer buffer[])
{
    *p = (dw_graph){
        .tensor = {DW_TENSOR(X, TRP_F32, 2, 4, 7, 5), DW_TENSOR(W, TRP_F32, 6, 4, 3, 3),
                   DW_TENSOR(BIAS, TRP_F32, 1, 6, 1, 1), [LOW] = {.value = trp_real(0)},
                   DW_TENSOR(Y, TRP_F32, 2, 6, 7, 5)},
        .node = {
            {.kind = TRP_DNN_CONV_FORWARD,
             .x = X,
             .w = W,
             .y = CONV,
             .pre_pad = {1, 1},
             .post_pad = {1, 1}},
            {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_ADD, .x = CONV, .b = BIAS, .y = SUM},
            {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_MAX, .x = SUM, .b = LOW, .y = Y}}};
}

/* What is done to a good problem, and what is said of it. */
#define BAD_CASES(BAD)                                                                             \
    BAD("nodes: expected 1 to 32, got 0", p->request.node_count = 0)                               \
    BAD("nodes: expected 1 to 32, got 33", p->request.node_count = 33)                             \
    BAD("nodes: expected 1 to 32, got 3 at NULL", p->request.nodes = NULL)                         \
    BAD("tensors: expected 2 to 64, got 65", p->request.tensor_count = 65)                         \
    BAD("tensors: expected 2 to 64, got 8 at NULL", p->request.tensors = NULL)                     \
    BAD("tensors[0]: expected all zero", p->tensor[0].rank = 1)                                    \
    BAD("heuristic: expected", p->request.options.heuristic = (trp_dnn_heuristic)3)                \
    BAD("tune: expected", p->request.options.tune = (trp_tune)3)                                   \
    BAD("tensors[1].type: expected f64", p->tensor[X].type = TRP_C64)                              \
    BAD("got none (0)", p->tensor[X].type = TRP_DTYPE_NONE)                                        \
    BAD("tensors[1].rank: expected 1 to 8, got 0", p->tensor[X].rank = 0)                          \
    BAD("tensors[1].rank: expected 1 to 8, got 9", p->tensor[X].rank = 9)                          \
    BAD("tensors[1].dim[2]: expected 0 to", p->tensor[X].dim[2] = -1)                              \
    BAD("tensors[1].dim[2]: expected 0 to", p->tensor[X].dim[2] = INT64_MAX)                       \
    BAD("tensors[1].dim[5]: expected 0 to 0, got 1", p->tensor[X].dim[5] = 1)                      \
    BAD("tensors[1].stride[0]: expected 0 to", p->tensor[X].stride[0] = -140)                      \
    BAD("tensors[1].stride[4]: expected 0 to 0, got 1", p->tensor[X].stride[4] = 1)                \
    BAD("tensors[1]: expected less than 2^48",                                                     \
        p->tensor[X].dim[0] = p->tensor[X].dim[1] = INT64_C(1) << 40)                              \
    BAD("tensors[3]: expected less than 2^48",                                                     \
        (p->tensor[X].dim[0] = p->tensor[Y].dim[0] = 1 << 20,                                      \
         p->tensor[W].dim[0] = INT64_C(1) << 30, p->tensor[BIAS].dim[1] = 1,                       \
         p->tensor[Y].dim[1] = INT64_C(1) << 30))                                                  \
    BAD("tensors[1].value: expected none", p->tensor[X].value = trp_real(1))                       \
    BAD("tensors[6].value: expected a real", p->tensor[LOW].value = trp_complex(1, 1))             \
    BAD("tensors[6].dim[0]: expected 1 to 1, got 2",                                               \
        (p->tensor[LOW].rank = 1, p->tensor[LOW].dim[0] = 2))                                      \
    BAD("tensors[3].offset: expected 0", p->tensor[CONV].offset = 4)                               \
    BAD("nodes[0].kind: expected a trp_dnn_kind", p->node[0].kind = TRP_DNN_NONE)                  \
    BAD("nodes[0].kind: expected a trp_dnn_kind", p->node[0].kind = (trp_dnn_kind)99)              \
    BAD("nodes[0].x (conv_forward): expected a tensor, 1 to 7, got 0", p->node[0].x = 0)           \
    BAD("nodes[0].x (conv_forward): expected a tensor, 1 to 7, got 8", p->node[0].x = 8)           \
    BAD("nodes[0].x (conv_forward): expected a tensor", p->node[0].x = UINT32_MAX)                 \
    BAD("nodes[0].scale: expected 0", p->node[0].scale = BIAS)                                     \
    BAD("nodes[0].x (conv_forward): tensors[5] has no buffer", p->node[0].x = SUM)                 \
    BAD("nodes[2].y (pointwise): tensors[3] is written before", p->node[2].y = CONV)               \
    BAD("nodes[2].y (pointwise): tensors[1] is read before", p->node[2].y = X)                     \
    BAD("nodes[2].y (pointwise): tensors[6] is a value",                                           \
        (p->node[2].y = LOW, p->node[2].b = BIAS))                                                 \
    BAD("tensors[4]: no node names it", p->node[1].b = LOW)                                        \
    BAD("nodes[0].pre_pad[0] (conv_forward): expected 0 to", p->node[0].pre_pad[0] = -1)           \
    BAD("nodes[0].stride[1] (conv_forward): expected 0 to", p->node[0].stride[1] = INT64_MAX)      \
    BAD("nodes[0].window[0] (conv_forward): expected 0 to 0", p->node[0].window[0] = 2)            \
    BAD("nodes[0].stride[2] (conv_forward): expected 0, for there are 2",                          \
        p->node[0].stride[2] = 1)                                                                  \
    BAD("nodes[0].pointwise (conv_forward): expected 0 to 0", p->node[0].pointwise = TRP_DNN_RELU) \
    BAD("nodes[1].pointwise (pointwise): expected 0 to 41, got 42",                                \
        p->node[1].pointwise = (trp_dnn_pointwise)42)                                              \
    BAD("nodes[1].flip (pointwise)", p->node[1].flip = true)                                       \
    BAD("nodes[1].b (pointwise): expected none for exp", p->node[1].pointwise = TRP_DNN_EXP)       \
    BAD("nodes[1].t (pointwise): expected a tensor for select",                                    \
        p->node[1].pointwise = TRP_DNN_SELECT)                                                     \
    BAD("nodes[1].parameter[0]: expected none", p->node[1].parameter[0] = trp_real(1))             \
    BAD("nodes[1].b (pointwise): dimension 1: expected 6 or 1, got 5", p->tensor[BIAS].dim[1] = 5) \
    BAD("nodes[1].b (pointwise): expected 4 dimensions, got 3",                                    \
        (p->tensor[BIAS].rank = 3, p->tensor[BIAS].dim[3] = 0))                                    \
    BAD("nodes[0].w (conv_forward): expected channels that divide", p->tensor[W].dim[1] = 3)       \
    BAD("nodes[0].w (conv_forward): expected 4 dimensions, got 3",                                 \
        (p->tensor[W].rank = 3, p->tensor[W].dim[3] = 0))                                          \
    BAD("nodes[0].w (conv_forward): expected a window that fits", p->tensor[W].dim[3] = 8)         \
    BAD("nodes[0].w (conv_forward): expected a window that fits",                                  \
        (p->tensor[W].dim[2] = INT64_C(1) << 40, p->node[0].dilation[0] = 1 << 28))                \
    BAD("nodes[2].y (pointwise): expected 2 x 6 x 7 x 5, got 2 x 6 x 7 x 4",                       \
        p->tensor[Y].dim[3] = 4)                                                                   \
    BAD("nodes[0].compute (conv_forward): expected f32 or f64, got i32",                           \
        p->node[0].compute = TRP_I32)                                                              \
    BAD("nodes[0].compute (conv_forward): expected f64, for it reads f64",                         \
        (p->tensor[X].type = TRP_F64, p->node[0].compute = TRP_F32))                               \
    BAD("tensors[7]: it overlaps tensors[1]", p->tensor[Y].buffer = p->tensor[X].buffer)           \
    BAD("tensors[7].stride: expected a place for each element",                                    \
        (p->tensor[Y].stride[0] = 210, p->tensor[Y].stride[1] = 34, p->tensor[Y].stride[2] = 5,    \
         p->tensor[Y].stride[3] = 1))                                                              \
    BAD("tensors[3].stride: expected a place for each element",                                    \
        (p->tensor[CONV] = p->tensor[Y], p->tensor[CONV].buffer.id = 0,                            \
         p->tensor[CONV].stride[0] = p->tensor[CONV].stride[1] = 1))                               \
    BAD("tensors[1]_offset: expected a multiple of 4", p->tensor[X].offset = 2)                    \
    BAD("tensors[1]: the request needs bytes", p->tensor[X].offset = BYTES - 4)

static const char *spoil(dw_graph *p, int which)
{
    int at = 0;
    BAD_CASES(DW_APPLY)
    return NULL;
}

static void wrong_graphs(void)
{
    dw_graph p;
    trp_completion c = {0};
    trp_buffer buffer[TENSORS] = {0};
    h_world world = h_open(NULL);
    trp_actor *dnn = h_actor(world.device, "dnn");
    const dw_table table = {TENSORS, NODES, make, spoil, buffer};
    for (int i = 1; i < TENSORS; i++)
        buffer[i] = h_buffer(world.device, BYTES);
    DW_CHECK(dnn, &table);
    dw_good(&table, &p);
    H_OK(trp_buffer_free(world.device, buffer[X]));
    H_IS(trp_dnn_graph(dnn, &p.request, &c), TRP_E_STALE);
    H_SAYS("tensors[1]");
    h_close(&world);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {
        {"wrong_graphs", wrong_graphs},
    };
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
