/* Attention in the dnn actor: what is said of requests that make no sense.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_wrong.h"
#include "support/label.h"

#include <math.h>
#include <troupe/layers.h>

TROUPE_TEST("one isolation");

static h_world world;
static trp_actor *dnn;

enum { NONE, Q, K, V, Y, STATS, BIAS, SLOPES, SEQ_Q, SEQ_KV, DY, DQ, DK, DV, DBIAS, SEED, TENSORS };

/* All of it, backward. */
static void make_wrong(dw_graph *p, const trp_buffer buffer[])
{
    *p = (dw_graph){
        .tensor = {DW_TENSOR(Q, TRP_F32, 2, 4, 5, 8), DW_TENSOR(K, TRP_F32, 2, 2, 7, 8),
                   DW_TENSOR(V, TRP_F32, 2, 2, 7, 6), DW_TENSOR(Y, TRP_F32, 2, 4, 5, 6),
                   DW_TENSOR(STATS, TRP_F32, 2, 4, 5, 1), DW_TENSOR(BIAS, TRP_F32, 1, 4, 5, 7),
                   DW_TENSOR(SLOPES, TRP_F32, 1, 4, 1, 1), DW_TENSOR(SEQ_Q, TRP_I32, 2, 1, 1, 1),
                   DW_TENSOR(SEQ_KV, TRP_I32, 2, 1, 1, 1), DW_TENSOR(DY, TRP_F32, 2, 4, 5, 6),
                   DW_TENSOR(DQ, TRP_F32, 2, 4, 5, 8), DW_TENSOR(DK, TRP_F32, 2, 2, 7, 8),
                   DW_TENSOR(DV, TRP_F32, 2, 2, 7, 6), DW_TENSOR(DBIAS, TRP_F32, 1, 4, 5, 7),
                   [SEED] = {.type = TRP_I64, .rank = 1, .dim = {1}, .buffer = buffer[SEED]}},
        .node = {{.kind = TRP_DNN_ATTENTION_BACKWARD,
                  .q = Q,
                  .k = K,
                  .v = V,
                  .y = Y,
                  .stats = STATS,
                  .bias = BIAS,
                  .slopes = SLOPES,
                  .seq_q = SEQ_Q,
                  .seq_kv = SEQ_KV,
                  .dy = DY,
                  .dq = DQ,
                  .dk = DK,
                  .dv = DV,
                  .dbias = DBIAS,
                  .parameter[1] = trp_real(0.25),
                  .seed = SEED}}};
}

#define B(text) "nodes[0]." text
#define BAD_CASES(BAD)                                                                             \
    BAD(B("q (attention_backward): expected a tensor, 1 to 15, got 0"), p->node->q = 0)            \
    BAD(B("q (attention_backward): expected 4 dimensions, batch, heads, rows and depth, got 3"),   \
        (p->tensor[Q].rank = 3, p->tensor[Q].dim[3] = 0))                                          \
    BAD(B("k (attention_backward): expected 2 x 2 x 7 x 8, got 2 x 2 x 7 x 9"),                    \
        p->tensor[K].dim[3] = 9)                                                                   \
    BAD(B("k (attention_backward): expected heads that divide the 4 of q, got 3"),                 \
        p->tensor[K].dim[1] = 3)                                                                   \
    BAD(B("k (attention_backward): expected heads that divide the 4 of q, got 0"),                 \
        p->tensor[K].dim[1] = 0)                                                                   \
    BAD(B("v (attention_backward): expected 2 x 2 x 7 x 6, got 2 x 4 x 7 x 6"),                    \
        p->tensor[V].dim[1] = 4)                                                                   \
    BAD(B("y (attention_backward): expected 2 x 4 x 5 x 6, got 2 x 4 x 5 x 8"),                    \
        p->tensor[Y].dim[3] = 8)                                                                   \
    BAD(B("dy (attention_backward): expected 2 x 4 x 5 x 6, got"), p->tensor[DY].dim[2] = 4)       \
    BAD(B("stats (attention_backward): expected 2 x 4 x 5 x 1, got"), p->tensor[STATS].dim[3] = 2) \
    BAD(B("stats (attention_backward): expected f64 or f32, got f16"),                             \
        p->tensor[STATS].type = TRP_F16)                                                           \
    BAD(B("bias (attention_backward): dimension 3: expected 7 or 1, got 6"),                       \
        p->tensor[BIAS].dim[3] = 6)                                                                \
    BAD(B("slopes (attention_backward): expected 1 x 4 x 1 x 1, got 1 x 1 x 1 x 4"),               \
        (p->tensor[SLOPES].dim[1] = 1, p->tensor[SLOPES].dim[3] = 4))                              \
    BAD(B("seq_q (attention_backward): expected i32, got f32"), p->tensor[SEQ_Q].type = TRP_F32)   \
    BAD(B("seq_kv (attention_backward): expected 2 x 1 x 1 x 1, got 1 x 1 x 1 x 1"),               \
        p->tensor[SEQ_KV].dim[0] = 1)                                                              \
    BAD(B("q (attention_backward): expected f64, f32, f16 or bf16, got i8"),                       \
        p->tensor[Q].type = TRP_I8)                                                                \
    BAD(B("dk (attention_backward): expected 2 x 2 x 7 x 8, got"), p->tensor[DK].dim[2] = 5)       \
    BAD(B("dbias (attention_backward): expected 1 x 4 x 5 x 7, got"), p->tensor[DBIAS].dim[0] = 2) \
    BAD(B("mask (attention_backward): expected 0 to 2, got 3"), p->node->mask = (trp_dnn_mask)3)   \
    BAD(B("window[0] (attention_backward): expected 0 to"), p->node->window[0] = -1)               \
    BAD(B("window[1] (attention_backward): expected 0, for there are 1"), p->node->window[1] = 2)  \
    BAD(B("stride[0] (attention_backward): expected 0 to 0, got 1"), p->node->stride[0] = 1)       \
    BAD(B("parameter[0]: expected a real finite number"), p->node->parameter[0] = trp_real(NAN))   \
    BAD(B("parameter[1]: expected the probability of dropout, 0 to less than 1, got 1"),           \
        p->node->parameter[1] = trp_real(1))                                                       \
    BAD(B("parameter[1]: expected the probability of dropout"),                                    \
        p->node->parameter[1] = trp_real(-0.1))                                                    \
    BAD(B("parameter[2]: expected none"), p->node->parameter[2] = trp_real(1))                     \
    BAD(B("seed (attention_backward): expected a tensor, for there is dropout"),                   \
        p->node->seed = 0)                                                                         \
    BAD(B("seed (attention_backward): expected one element, got 5"), p->tensor[SEED].dim[0] = 5)   \
    BAD(B("seed (attention_backward): expected i64, got i32"), p->tensor[SEED].type = TRP_I32)     \
    BAD(B("seed (attention_backward): expected whole numbers"),                                    \
        p->tensor[SEED] = ((trp_dnn_tensor){.type = TRP_I64, .value = trp_real(0.5)}))             \
    BAD(B("offset (attention_backward): expected none, for there is no seed"),                     \
        (p->node->offset = SEED, p->node->seed = 0, p->node->parameter[1] = (trp_scalar){0}))      \
    BAD(B("slopes (attention_backward): expected another type than i64"),                          \
        p->tensor[SLOPES].type = TRP_I64)                                                          \
    BAD(B("seed: expected 0, for pointwise has no such tensor"),                                   \
        p->node[0] = ((trp_dnn_node){.kind = TRP_DNN_POINTWISE, .x = Q, .y = DQ, .seed = SEED}))   \
    BAD(B("x: expected 0, for attention_backward has no such tensor"), p->node->x = Q)             \
    BAD(B("dy: expected 0, for attention has no such tensor"), p->node->kind = TRP_DNN_ATTENTION)  \
    BAD(B("dbias (attention_backward): expected none, for there is no bias"), p->node->bias = 0)   \
    BAD(B("mask (matmul): expected 0 to 0, got 1"),                                                \
        p->node[0] = ((trp_dnn_node){.kind = TRP_DNN_MATMUL, .a = Q, .b = K, .y = Y, .mask = 1}))  \
    BAD("tensors[11]: it overlaps tensors[1], and is written",                                     \
        p->tensor[DQ].buffer = p->tensor[Q].buffer)                                                \
    BAD("tensors[13].stride: expected a place for each element",                                   \
        (p->tensor[DV].stride[0] = p->tensor[DV].stride[1] = p->tensor[DV].stride[2] = 6,          \
         p->tensor[DV].stride[3] = 1))

static const char *spoil(dw_graph *p, int which)
{
    int at = 0;
    BAD_CASES(DW_APPLY)
    return NULL;
}

static void wrong_layers(const trp_buffer buffer[])
{
    dw_graph p;
    trp_completion c = {0};
    make_wrong(&p, buffer);
    trp_attention_request r = {
        .q = p.tensor[Q], .k = p.tensor[K], .v = p.tensor[V], .y = p.tensor[Y]};
    r.dq = p.tensor[DQ];
    H_IS(trp_attention_forward(dnn, &r, &c), TRP_E_ARGUMENT);
    H_SAYS("dq: expected none in this pass");
    H_IS(trp_attention_backward(dnn, &r, &c), TRP_E_ARGUMENT);
    H_SAYS("stats: expected a tensor with a buffer");
    r.dq = (trp_dnn_tensor){0};
    r.seq_kv = p.tensor[SEQ_KV];
    H_IS(trp_attention_forward(dnn, &r, &c), TRP_E_ARGUMENT);
    H_CHECK(strcmp(trp_error_message(), "seq_q: expected a tensor, for seq_kv is one") == 0);
}

static void wrong_nodes(void)
{
    trp_buffer buffer[TENSORS] = {0};
    const dw_table table = {TENSORS, 1, make_wrong, spoil, buffer};
    world = h_open(NULL);
    dnn = h_actor(world.device, "dnn");
    for (int i = 1; i < TENSORS; i++)
        buffer[i] = h_buffer(world.device, 1 << 14);
    DW_CHECK(dnn, &table);
    wrong_layers(buffer);
    h_close(&world);
}

static const h_case cases[] = {{"wrong_nodes", wrong_nodes}};

int main(int argc, char **argv)
{
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
