/* Graphs that are wrong: each error names the tensor or the node, what was expected and what came,
 * before anything is sent. And graphs that look odd and are right. SPDX-License-Identifier:
 * Apache-2.0 */
#include "support/problems/dnn_wrong.h"
#include "support/label.h"

#include <math.h>
#include <troupe/layers.h>

TROUPE_TEST_FAKE_GPU("no sanitizer", "dnn");

static h_world world;
static trp_actor *dnn;

enum { BYTES = 1 << 16 };

/* Rows of what is done to a good graph, and of what is said of it. */
#define BAD(says, change)      DW_APPLY(says, change)
#define BAD_NODE(says, change) DW_APPLY("nodes[0]." says, change)

/* --- a chain --- */

enum { X = 1, W, CONV, BIAS, SUM, LOW, Y, GRAPH_TENSORS };

/* relu(conv(x, w) + bias) of 2 x 4 x 7 x 5 with 6 filters of 3 x 3, padded by one. */
static void make_graph(dw_graph *p, const trp_buffer buffer[])
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

static const char *spoil_graph(dw_graph *p, int which)
{
    trp_dnn_node *const n = p->node;
    trp_dnn_tensor *const t = p->tensor;
    int at = 0;
    BAD("nodes: expected 1 to 32, got 0", p->request.node_count = 0);
    BAD("nodes: expected 1 to 32, got 33", p->request.node_count = 33);
    BAD("nodes: expected 1 to 32, got 3 at NULL", p->request.nodes = NULL);
    BAD("tensors: expected 2 to 64, got 65", p->request.tensor_count = 65);
    BAD("tensors: expected 2 to 64, got 8 at NULL", p->request.tensors = NULL);
    BAD("tensors[0]: expected all zero", t[0].rank = 1);
    BAD("heuristic: expected", p->request.options.heuristic = (trp_dnn_heuristic)3);
    BAD("tune: expected", p->request.options.tune = (trp_tune)3);
    BAD("tensors[1].type: expected f64", t[X].type = TRP_C64);
    BAD("got none (0)", t[X].type = TRP_DTYPE_NONE);
    BAD("tensors[1].rank: expected 1 to 8, got 0", t[X].rank = 0);
    BAD("tensors[1].rank: expected 1 to 8, got 9", t[X].rank = 9);
    BAD("tensors[1].dim[2]: expected 0 to", t[X].dim[2] = -1);
    BAD("tensors[1].dim[2]: expected 0 to", t[X].dim[2] = INT64_MAX);
    BAD("tensors[1].dim[5]: expected 0 to 0, got 1", t[X].dim[5] = 1);
    BAD("tensors[1].stride[0]: expected 0 to", t[X].stride[0] = -140);
    BAD("tensors[1].stride[4]: expected 0 to 0, got 1", t[X].stride[4] = 1);
    BAD("tensors[1]: expected less than 2^48", t[X].dim[0] = t[X].dim[1] = INT64_C(1) << 40);
    BAD("tensors[3]: expected less than 2^48",
        (t[X].dim[0] = t[Y].dim[0] = 1 << 20, t[W].dim[0] = INT64_C(1) << 30, t[BIAS].dim[1] = 1,
         t[Y].dim[1] = INT64_C(1) << 30));
    BAD("tensors[1].value: expected none", t[X].value = trp_real(1));
    BAD("tensors[6].value: expected a real", t[LOW].value = trp_complex(1, 1));
    BAD("tensors[6].dim[0]: expected 1 to 1, got 2", (t[LOW].rank = 1, t[LOW].dim[0] = 2));
    BAD("tensors[3].offset: expected 0", t[CONV].offset = 4);
    BAD_NODE("kind: expected a trp_dnn_kind", n->kind = TRP_DNN_NONE);
    BAD_NODE("kind: expected a trp_dnn_kind", n->kind = (trp_dnn_kind)99);
    BAD_NODE("x (conv_forward): expected a tensor, 1 to 7, got 0", n->x = 0);
    BAD_NODE("x (conv_forward): expected a tensor, 1 to 7, got 8", n->x = 8);
    BAD_NODE("x (conv_forward): expected a tensor", n->x = UINT32_MAX);
    BAD_NODE("scale: expected 0", n->scale = BIAS);
    BAD_NODE("x (conv_forward): tensors[5] has no buffer", n->x = SUM);
    BAD("nodes[2].y (pointwise): tensors[3] is written before", n[2].y = CONV);
    BAD("nodes[2].y (pointwise): tensors[1] is read before", n[2].y = X);
    BAD("nodes[2].y (pointwise): tensors[6] is a value", (n[2].y = LOW, n[2].b = BIAS));
    BAD("tensors[4]: no node names it", n[1].b = LOW);
    BAD_NODE("pre_pad[0] (conv_forward): expected 0 to", n->pre_pad[0] = -1);
    BAD_NODE("stride[1] (conv_forward): expected 0 to", n->stride[1] = INT64_MAX);
    BAD_NODE("window[0] (conv_forward): expected 0 to 0", n->window[0] = 2);
    BAD_NODE("stride[2] (conv_forward): expected 0, for there are 2", n->stride[2] = 1);
    BAD_NODE("pointwise (conv_forward): expected 0 to 0", n->pointwise = TRP_DNN_RELU);
    BAD("nodes[1].pointwise (pointwise): expected 0 to 41, got 42",
        n[1].pointwise = (trp_dnn_pointwise)42);
    BAD("nodes[1].flip (pointwise)", n[1].flip = true);
    BAD("nodes[1].b (pointwise): expected none for exp", n[1].pointwise = TRP_DNN_EXP);
    BAD("nodes[1].t (pointwise): expected a tensor for select", n[1].pointwise = TRP_DNN_SELECT);
    BAD("nodes[1].parameter[0]: expected none", n[1].parameter[0] = trp_real(1));
    BAD("nodes[1].b (pointwise): dimension 1: expected 6 or 1, got 5", t[BIAS].dim[1] = 5);
    BAD("nodes[1].b (pointwise): expected 4 dimensions, got 3",
        (t[BIAS].rank = 3, t[BIAS].dim[3] = 0));
    BAD_NODE("w (conv_forward): expected channels that divide", t[W].dim[1] = 3);
    BAD_NODE("w (conv_forward): expected 4 dimensions, got 3", (t[W].rank = 3, t[W].dim[3] = 0));
    BAD_NODE("w (conv_forward): expected a window that fits", t[W].dim[3] = 8);
    BAD_NODE("w (conv_forward): expected a window that fits",
             (t[W].dim[2] = INT64_C(1) << 40, n->dilation[0] = 1 << 28));
    BAD("nodes[2].y (pointwise): expected 2 x 6 x 7 x 5, got 2 x 6 x 7 x 4", t[Y].dim[3] = 4);
    BAD_NODE("compute (conv_forward): expected f32 or f64, got i32", n->compute = TRP_I32);
    BAD_NODE("compute (conv_forward): expected f64, for it reads f64",
             (t[X].type = TRP_F64, n->compute = TRP_F32));
    BAD("tensors[7]: it overlaps tensors[1]", t[Y].buffer = t[X].buffer);
    BAD("tensors[7].stride: expected a place for each element",
        (t[Y].stride[0] = 210, t[Y].stride[1] = 34, t[Y].stride[2] = 5, t[Y].stride[3] = 1));
    BAD("tensors[3].stride: expected a place for each element",
        (t[CONV] = t[Y], t[CONV].buffer.id = 0, t[CONV].stride[0] = t[CONV].stride[1] = 1));
    BAD("tensors[1]_offset: expected a multiple of 4", t[X].offset = 2);
    BAD("tensors[1]: the request needs bytes", t[X].offset = BYTES - 4);
    return NULL;
}

/* --- attention --- */

enum {
    Q = 1,
    K,
    V,
    RESULT,
    STATS,
    SCORES,
    SLOPES,
    SEQ_Q,
    SEQ_KV,
    DY,
    DQ,
    DK,
    DV,
    DBIAS,
    A_SEED,
    ATTENTION_TENSORS
};

/* All of it, backward. */
static void make_attention(dw_graph *p, const trp_buffer buffer[])
{
    *p = (dw_graph){
        .tensor = {DW_TENSOR(Q, TRP_F32, 2, 4, 5, 8), DW_TENSOR(K, TRP_F32, 2, 2, 7, 8),
                   DW_TENSOR(V, TRP_F32, 2, 2, 7, 6), DW_TENSOR(RESULT, TRP_F32, 2, 4, 5, 6),
                   DW_TENSOR(STATS, TRP_F32, 2, 4, 5, 1), DW_TENSOR(SCORES, TRP_F32, 1, 4, 5, 7),
                   DW_TENSOR(SLOPES, TRP_F32, 1, 4, 1, 1), DW_TENSOR(SEQ_Q, TRP_I32, 2, 1, 1, 1),
                   DW_TENSOR(SEQ_KV, TRP_I32, 2, 1, 1, 1), DW_TENSOR(DY, TRP_F32, 2, 4, 5, 6),
                   DW_TENSOR(DQ, TRP_F32, 2, 4, 5, 8), DW_TENSOR(DK, TRP_F32, 2, 2, 7, 8),
                   DW_TENSOR(DV, TRP_F32, 2, 2, 7, 6), DW_TENSOR(DBIAS, TRP_F32, 1, 4, 5, 7),
                   [A_SEED] = {.type = TRP_I64, .rank = 1, .dim = {1}, .buffer = buffer[A_SEED]}},
        .node = {{.kind = TRP_DNN_ATTENTION_BACKWARD,
                  .q = Q,
                  .k = K,
                  .v = V,
                  .y = RESULT,
                  .stats = STATS,
                  .bias = SCORES,
                  .slopes = SLOPES,
                  .seq_q = SEQ_Q,
                  .seq_kv = SEQ_KV,
                  .dy = DY,
                  .dq = DQ,
                  .dk = DK,
                  .dv = DV,
                  .dbias = DBIAS,
                  .parameter[1] = trp_real(0.25),
                  .seed = A_SEED}}};
}

static const char *spoil_attention(dw_graph *p, int which)
{
    trp_dnn_node *const n = p->node;
    trp_dnn_tensor *const t = p->tensor;
    int at = 0;
    BAD_NODE("q (attention_backward): expected a tensor, 1 to 15, got 0", n->q = 0);
    BAD_NODE("q (attention_backward): expected 4 dimensions, batch, heads, rows and depth, got 3",
             (t[Q].rank = 3, t[Q].dim[3] = 0));
    BAD_NODE("k (attention_backward): expected 2 x 2 x 7 x 8, got 2 x 2 x 7 x 9", t[K].dim[3] = 9);
    BAD_NODE("k (attention_backward): expected heads that divide the 4 of q, got 3",
             t[K].dim[1] = 3);
    BAD_NODE("k (attention_backward): expected heads that divide the 4 of q, got 0",
             t[K].dim[1] = 0);
    BAD_NODE("v (attention_backward): expected 2 x 2 x 7 x 6, got 2 x 4 x 7 x 6", t[V].dim[1] = 4);
    BAD_NODE("y (attention_backward): expected 2 x 4 x 5 x 6, got 2 x 4 x 5 x 8",
             t[RESULT].dim[3] = 8);
    BAD_NODE("dy (attention_backward): expected 2 x 4 x 5 x 6, got", t[DY].dim[2] = 4);
    BAD_NODE("stats (attention_backward): expected 2 x 4 x 5 x 1, got", t[STATS].dim[3] = 2);
    BAD_NODE("stats (attention_backward): expected f64 or f32, got f16", t[STATS].type = TRP_F16);
    BAD_NODE("bias (attention_backward): dimension 3: expected 7 or 1, got 6",
             t[SCORES].dim[3] = 6);
    BAD_NODE("slopes (attention_backward): expected 1 x 4 x 1 x 1, got 1 x 1 x 1 x 4",
             (t[SLOPES].dim[1] = 1, t[SLOPES].dim[3] = 4));
    BAD_NODE("seq_q (attention_backward): expected i32, got f32", t[SEQ_Q].type = TRP_F32);
    BAD_NODE("seq_kv (attention_backward): expected 2 x 1 x 1 x 1, got 1 x 1 x 1 x 1",
             t[SEQ_KV].dim[0] = 1);
    BAD_NODE("q (attention_backward): expected f64, f32, f16 or bf16, got i8", t[Q].type = TRP_I8);
    BAD_NODE("dk (attention_backward): expected 2 x 2 x 7 x 8, got", t[DK].dim[2] = 5);
    BAD_NODE("dbias (attention_backward): expected 1 x 4 x 5 x 7, got", t[DBIAS].dim[0] = 2);
    BAD_NODE("mask (attention_backward): expected 0 to 2, got 3", n->mask = (trp_dnn_mask)3);
    BAD_NODE("window[0] (attention_backward): expected 0 to", n->window[0] = -1);
    BAD_NODE("window[1] (attention_backward): expected 0, for there are 1", n->window[1] = 2);
    BAD_NODE("stride[0] (attention_backward): expected 0 to 0, got 1", n->stride[0] = 1);
    BAD_NODE("parameter[0]: expected a real finite number", n->parameter[0] = trp_real(NAN));
    BAD_NODE("parameter[1]: expected the probability of dropout, 0 to less than 1, got 1",
             n->parameter[1] = trp_real(1));
    BAD_NODE("parameter[1]: expected the probability of dropout", n->parameter[1] = trp_real(-0.1));
    BAD_NODE("parameter[2]: expected none", n->parameter[2] = trp_real(1));
    BAD_NODE("seed (attention_backward): expected a tensor, for there is dropout", n->seed = 0);
    BAD_NODE("seed (attention_backward): expected one element, got 5", t[A_SEED].dim[0] = 5);
    BAD_NODE("seed (attention_backward): expected i64, got i32", t[A_SEED].type = TRP_I32);
    BAD_NODE("seed (attention_backward): expected whole numbers",
             t[A_SEED] = ((trp_dnn_tensor){.type = TRP_I64, .value = trp_real(0.5)}));
    BAD_NODE("offset (attention_backward): expected none, for there is no seed",
             (n->offset = A_SEED, n->seed = 0, n->parameter[1] = (trp_scalar){0}));
    BAD_NODE("slopes (attention_backward): expected another type than i64",
             t[SLOPES].type = TRP_I64);
    BAD_NODE("seed: expected 0, for pointwise has no such tensor",
             *n = ((trp_dnn_node){.kind = TRP_DNN_POINTWISE, .x = Q, .y = DQ, .seed = A_SEED}));
    BAD_NODE("x: expected 0, for attention_backward has no such tensor", n->x = Q);
    BAD_NODE("dy: expected 0, for attention has no such tensor", n->kind = TRP_DNN_ATTENTION);
    BAD_NODE("dbias (attention_backward): expected none, for there is no bias", n->bias = 0);
    BAD_NODE("mask (matmul): expected 0 to 0, got 1",
             *n = ((trp_dnn_node){.kind = TRP_DNN_MATMUL, .a = Q, .b = K, .y = RESULT, .mask = 1}));
    BAD("tensors[11]: it overlaps tensors[1], and is written", t[DQ].buffer = t[Q].buffer);
    BAD("tensors[13].stride: expected a place for each element",
        (t[DV].stride[0] = t[DV].stride[1] = t[DV].stride[2] = 6, t[DV].stride[3] = 1));
    return NULL;
}

static void wrong_attention(const trp_buffer buffer[])
{
    dw_graph p;
    trp_completion c = {0};
    make_attention(&p, buffer);
    trp_attention_request r = {
        .q = p.tensor[Q], .k = p.tensor[K], .v = p.tensor[V], .y = p.tensor[RESULT]};
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

/* --- pages --- */

enum { POOL = 1, TABLE, COUNTS, ROWS, PAGED_TENSORS };

static void make_paged(dw_graph *p, const trp_buffer buffer[])
{
    *p = (dw_graph){
        .tensor = {DW_TENSOR(POOL, TRP_F32, 9, 2, 4, 8), DW_TENSOR(TABLE, TRP_I32, 3, 1, 5, 1),
                   DW_TENSOR(COUNTS, TRP_I32, 3, 1, 1, 1), DW_TENSOR(ROWS, TRP_F32, 3, 2, 18, 8)},
        .node = {
            {.kind = TRP_DNN_PAGED_LOAD, .x = POOL, .table = TABLE, .seq_kv = COUNTS, .y = ROWS}}};
}

static const char *spoil_paged(dw_graph *p, int which)
{
    trp_dnn_node *const n = p->node;
    trp_dnn_tensor *const t = p->tensor;
    int at = 0;
    BAD_NODE("x (paged_load): expected a tensor, 1 to 4, got 0", n->x = 0);
    BAD_NODE("table (paged_load): expected a tensor, 1 to 4, got 0", n->table = 0);
    BAD_NODE("seq_kv (paged_load): expected a tensor, 1 to 4, got 0", n->seq_kv = 0);
    BAD_NODE("x (paged_load): expected 4 dimensions, pages, heads, rows and depth, got 3",
             (t[POOL].rank = 3, t[POOL].dim[3] = 0));
    BAD_NODE("x (paged_load): dimension 2: expected pages of at least 1 row, got 0",
             t[POOL].dim[2] = 0);
    BAD_NODE("x (paged_load): dimension 0: expected at least 1 page, got 0", t[POOL].dim[0] = 0);
    BAD_NODE("x (paged_load): expected f64, f32, f16 or bf16, got i8", t[POOL].type = TRP_I8);
    BAD_NODE("table (paged_load): expected batches x 1 x pages x 1, got 3 x 2 x 5 x 1",
             t[TABLE].dim[1] = 2);
    BAD_NODE("table (paged_load): expected batches x 1 x pages x 1, got 3 x 5 x 1 x 1",
             (t[TABLE].rank = 2, t[TABLE].dim[1] = 5, t[TABLE].dim[2] = 0, t[TABLE].dim[3] = 0));
    BAD_NODE("table (paged_load): dimension 2: expected 5, for 18 rows in pages of 4, got 4",
             t[TABLE].dim[2] = 4);
    BAD_NODE("table (paged_load): expected i32, got f32", t[TABLE].type = TRP_F32);
    BAD_NODE("table (paged_load): expected another type than i64", t[TABLE].type = TRP_I64);
    BAD_NODE("seq_kv (paged_load): expected i32, got u8", t[COUNTS].type = TRP_U8);
    BAD_NODE("seq_kv (paged_load): expected 3 x 1 x 1 x 1, got 2 x 1 x 1 x 1",
             t[COUNTS].dim[0] = 2);
    BAD_NODE("y (paged_load): expected 3 x 2 x 18 x 8, got 3 x 3 x 18 x 8", t[ROWS].dim[1] = 3);
    BAD_NODE("y (paged_load): expected 3 x 2 x 18 x 8, got 4 x 2 x 18 x 8", t[ROWS].dim[0] = 4);
    BAD_NODE("y (paged_load): expected f32, as x has, got f16", t[ROWS].type = TRP_F16);
    BAD_NODE("y (paged_load): expected 4 dimensions, got 3",
             (t[ROWS].rank = 3, t[ROWS].dim[3] = 0));
    BAD_NODE("table: expected 0, for pointwise has no such tensor",
             *n =
                 ((trp_dnn_node){.kind = TRP_DNN_POINTWISE, .x = POOL, .y = ROWS, .table = TABLE}));
    BAD("tensors[4]: it overlaps tensors[1], and is written", t[ROWS].buffer = t[POOL].buffer);
    return NULL;
}

static void wrong_paged(const trp_buffer buffer[])
{
    dw_graph p;
    trp_completion c = {0};
    make_paged(&p, buffer);
    trp_attention_request r = {.q = p.tensor[ROWS],
                               .k = p.tensor[POOL],
                               .v = p.tensor[POOL],
                               .y = p.tensor[ROWS],
                               .table_k = p.tensor[TABLE]};
    H_IS(trp_attention_forward(dnn, &r, &c), TRP_E_ARGUMENT);
    H_SAYS("seq_kv: expected a tensor with a buffer, for table_k is there");
    H_IS(trp_attention_backward(dnn, &r, &c), TRP_E_UNSUPPORTED);
    H_SAYS("table_k: the gradient of attention knows no pages");
    r.seq_kv = p.tensor[COUNTS];
    r.columns = -1;
    H_IS(trp_attention_forward(dnn, &r, &c), TRP_E_ARGUMENT);
    H_SAYS("columns: expected 0 or more, got -1");
    r.columns = 21;
    H_IS(trp_attention_forward(dnn, &r, &c), TRP_E_ARGUMENT);
    H_SAYS("table_k: dimension 2: expected 6, for 21 rows in pages of 4, got 5");
    r.table_k = (trp_dnn_tensor){0};
    H_IS(trp_attention_forward(dnn, &r, &c), TRP_E_ARGUMENT);
    H_SAYS("columns: expected 0, for there is no table, got 21");
}

/* --- moves --- */

enum { MOVE_TENSORS = 4 };

static void make_move(dw_graph *p, const trp_buffer buffer[])
{
    *p = (dw_graph){.node = {{.y = 3}}};
    for (int i = 1; i < MOVE_TENSORS; i++)
        p->tensor[i] =
            (trp_dnn_tensor){.type = TRP_F32, .rank = 3, .dim = {2, 3, 4}, .buffer = buffer[i]};
}

/* The good one of a kind: a concatenation of tensors 1 and 2, or of 1. */
static void move(dw_graph *p, trp_dnn_kind kind)
{
    static const int64_t y[4][3] = {{2, 6, 4}, {2, 3, 4}, {4, 2, 3}, {6, 4}};
    trp_dnn_node *n = p->node;
    memcpy(p->tensor[3].dim, y[kind - TRP_DNN_CONCATENATE], sizeof *y);
    n->kind = kind;
    n->x = kind != TRP_DNN_CONCATENATE;
    if (kind == TRP_DNN_CONCATENATE) {
        n->part[0] = n->axis = 1;
        n->part[1] = 2;
    }
    if (kind == TRP_DNN_TRANSPOSE) {
        n->order[0] = 2;
        n->order[2] = 1;
    }
    if (kind == TRP_DNN_RESHAPE)
        p->tensor[3].rank = 2;
}

#define BAD_MOVE(kind, says, change) DW_APPLY("nodes[0]." says, (move(p, kind), change))
static const char *spoil_move(dw_graph *p, int which)
{
    trp_dnn_node *const n = p->node;
    trp_dnn_tensor *const t = p->tensor;
    int at = 0;
    BAD_MOVE(TRP_DNN_CONCATENATE, "axis (concatenate): expected 0 to 7, got 8", n->axis = 8);
    BAD_MOVE(TRP_DNN_CONCATENATE, "axis (concatenate): expected less than the 3 dimensions, got 3",
             n->axis = 3);
    BAD_MOVE(TRP_DNN_CONCATENATE, "part[0] (concatenate): expected a tensor, 1 to 3, got 0",
             n->part[0] = 0);
    BAD_MOVE(TRP_DNN_CONCATENATE, "x: expected 0, for concatenate has no such tensor, got 1",
             n->x = 1);
    BAD_MOVE(TRP_DNN_CONCATENATE, "part[1] (concatenate): dimension 2: expected 4, got 5",
             t[2].dim[2] = 5);
    BAD_MOVE(TRP_DNN_CONCATENATE, "part[1] (concatenate): expected 3 dimensions, got 2",
             (t[2].rank = 2, t[2].dim[2] = 0));
    BAD_MOVE(TRP_DNN_CONCATENATE,
             "part[1] (concatenate): expected a tensor with elements, got a number",
             (t[2] = (trp_dnn_tensor){.value = trp_real(1)}));
    BAD_MOVE(TRP_DNN_CONCATENATE, "y (concatenate): dimension 1: expected 6, got 5",
             t[3].dim[1] = 5);
    BAD_MOVE(TRP_DNN_CONCATENATE, "y (concatenate): expected 3 dimensions, got 2",
             (t[3].rank = 2, t[3].dim[2] = 0));
    BAD_MOVE(TRP_DNN_CONCATENATE, "start[1] (concatenate): expected 0 to 0, got 1",
             n->start[1] = 1);
    BAD_MOVE(TRP_DNN_CONCATENATE, "order[0] (concatenate): expected 0 to 0, got 2",
             n->order[0] = 2);
    BAD_MOVE(TRP_DNN_SLICE, "axis (slice): expected 0, got 1", n->axis = 1);
    BAD_MOVE(TRP_DNN_SLICE, "start[2] (slice): expected 0 to 4, got 5", n->start[2] = 5);
    BAD_MOVE(TRP_DNN_SLICE, "start[0] (slice): expected 0 to 2147483647, got -1", n->start[0] = -1);
    BAD_MOVE(TRP_DNN_SLICE, "start[3] (slice): expected 0 to 0, got 1", n->start[3] = 1);
    BAD_MOVE(TRP_DNN_SLICE, "step[4] (slice): expected 0, for x has 3 dimensions, got 2",
             n->step[4] = 2);
    BAD_MOVE(TRP_DNN_SLICE, "y (slice): dimension 1: expected 0 to 2, got 3",
             (n->step[1] = 2, t[3].dim[1] = 3));
    BAD_MOVE(TRP_DNN_SLICE, "compute (slice): expected f64, for it reads f64 or i32, got f32",
             (t[1].type = TRP_I32, n->compute = TRP_F32));
    BAD_MOVE(TRP_DNN_SLICE, "compute (slice): expected f32 or f64, got i32", n->compute = TRP_I32);
    BAD_MOVE(TRP_DNN_TRANSPOSE,
             "order[1] (transpose): expected each of the 3 dimensions once, then 0, got 2",
             n->order[1] = 2);
    BAD_MOVE(TRP_DNN_TRANSPOSE,
             "order[2] (transpose): expected each of the 3 dimensions once, then 0, got 3",
             n->order[2] = 3);
    BAD_MOVE(TRP_DNN_TRANSPOSE,
             "order[3] (transpose): expected each of the 3 dimensions once, then 0, got 1",
             n->order[3] = 1);
    BAD_MOVE(TRP_DNN_TRANSPOSE, "y (transpose): dimension 0: expected 4, got 2", t[3].dim[0] = 2);
    BAD_MOVE(TRP_DNN_RESHAPE, "y (reshape): expected the 24 elements of x, got 12",
             t[3].dim[0] = 3);
    BAD_MOVE(TRP_DNN_RESHAPE, "step[0] (reshape): expected 0 to 0, got 1", n->step[0] = 1);
    BAD_MOVE(TRP_DNN_RESHAPE, "kind: expected a trp_dnn_kind", n->kind = (trp_dnn_kind)99);
    return NULL;
}

/* --- random numbers --- */

enum { SEED = 1, OFFSET, DRAWN, OTHER, RANDOM_TENSORS = 6 };

/* Draws f32, and adds another tensor to itself. */
static void make_random(dw_graph *p, const trp_buffer buffer[])
{
    *p = (dw_graph){
        .node = {
            {.kind = TRP_DNN_RANDOM, .seed = SEED, .offset = OFFSET, .y = DRAWN},
            {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_ADD, .x = OTHER, .b = OTHER, .y = 5}}};
    p->tensor[SEED] =
        (trp_dnn_tensor){.type = TRP_I64, .rank = 1, .dim = {1}, .buffer = buffer[SEED]};
    p->tensor[OFFSET] = trp_dnn_integer(UINT64_MAX);
    for (int i = DRAWN; i < RANDOM_TENSORS; i++)
        p->tensor[i] =
            (trp_dnn_tensor){.type = TRP_F32, .rank = 1, .dim = {64}, .buffer = buffer[i]};
}

static const char *spoil_random(dw_graph *p, int which)
{
    trp_dnn_node *const n = p->node;
    trp_dnn_tensor *const t = p->tensor;
    int at = 0;
    BAD_NODE("seed (random): expected a tensor, 1 to 5, got 0", n->seed = 0);
    BAD_NODE("seed (random): expected i64, got f32", t[SEED].type = TRP_F32);
    BAD_NODE("seed (random): expected one element, got 2", t[SEED].dim[0] = 2);
    BAD_NODE("offset (random): expected i64, got i32",
             (t[OFFSET].type = TRP_I32, t[OFFSET].value = trp_real(1)));
    BAD_NODE("offset (random): expected whole numbers", t[OFFSET].value = trp_real(0.5));
    BAD_NODE("offset (random): expected whole numbers", t[OFFSET].value = trp_real(-1));
    BAD_NODE("offset (random): expected whole numbers", t[OFFSET].value = trp_real(0x1p54));
    BAD_NODE("offset (random): expected whole numbers", t[OFFSET].value = trp_real(NAN));
    BAD_NODE("offset (random): expected whole numbers", t[OFFSET].value = trp_complex(0, 0x1p32));
    BAD_NODE("offset (random): expected less than 2^64",
             t[OFFSET].value = trp_complex(0x1p32, UINT32_MAX));
    BAD("tensors[2].value: expected a real finite number",
        (t[OFFSET].type = TRP_DTYPE_NONE, t[OFFSET].value = trp_complex(0, 1)));
    BAD_NODE("y (random): expected dimensions",
             (t[DRAWN] = (trp_dnn_tensor){0}, n[1].x = n[1].b = DRAWN));
    BAD_NODE("y (random): expected a floating type, got i32", t[DRAWN].type = TRP_I32);
    BAD_NODE("y (random): expected a floating type, got bool",
             (n->random = TRP_DNN_NORMAL, t[DRAWN].type = TRP_BOOL));
    BAD_NODE("y (random): expected a floating type, i8, u8, i32 or bool, got i64",
             (n->random = TRP_DNN_BERNOULLI, t[DRAWN].type = TRP_I64));
    BAD_NODE("y (random): expected a floating type, i8, u8, i32 or bool, got f8e8m0",
             (n->random = TRP_DNN_BERNOULLI, t[DRAWN].type = TRP_F8E8M0));
    BAD_NODE("random (random): expected 0 to 2, got 3", n->random = (trp_dnn_random)3);
    BAD("nodes[1].random (pointwise): expected 0 to 0, got 1", n[1].random = TRP_DNN_NORMAL);
    BAD("nodes[1].seed: expected 0, for pointwise has no such tensor", n[1].seed = SEED);
    BAD_NODE("x: expected 0, for random has no such tensor", n->x = OTHER);
    BAD_NODE("parameter[1] (random): expected more than the low end, 1 in f32",
             n->parameter[0] = trp_real(1));
    BAD_NODE("parameter[1] (random): expected more than the low end",
             (t[DRAWN].type = TRP_F16, n->parameter[1] = trp_real(1e-9)));
    BAD_NODE("parameter[1] (random): expected a number that f16 holds, got 70000",
             (t[DRAWN].type = TRP_F16, n->parameter[1] = trp_real(70000)));
    BAD_NODE("parameter[0] (random): expected a number that f8e4m3 holds, got -500",
             (t[DRAWN].type = TRP_F8E4M3, n->parameter[0] = trp_real(-500)));
    BAD_NODE("parameter[1] (random): expected more than the low end",
             (t[DRAWN].type = TRP_F64, n->parameter[0] = trp_real(-1e308),
              n->parameter[1] = trp_real(1e308)));
    BAD_NODE("parameter[1] (random): expected a number that f32 holds, got 1e+300",
             (t[DRAWN].type = TRP_F64, n->compute = TRP_F32, n->parameter[1] = trp_real(1e300)));
    BAD_NODE("parameter[1] (random): expected more than the low end, 0.7 in f32",
             (t[DRAWN].type = TRP_F64, n->compute = TRP_F32, n->parameter[0] = trp_real(0.7),
              n->parameter[1] = trp_real(0.7 + 1e-9)));
    BAD_NODE("parameter[0]: expected a real finite number", n->parameter[0] = trp_real(NAN));
    BAD_NODE("parameter[1] (random): expected at least 0, got -1",
             (n->random = TRP_DNN_NORMAL, n->parameter[1] = trp_real(-1)));
    BAD_NODE("parameter[0] (random): expected 0 to 1, got 1.5",
             (n->random = TRP_DNN_BERNOULLI, n->parameter[0] = trp_real(1.5)));
    BAD_NODE("parameter[1]: expected none",
             (n->random = TRP_DNN_BERNOULLI, n->parameter[1] = trp_real(1)));
    BAD_NODE("parameter[2]: expected none", n->parameter[2] = trp_real(1));
    BAD_NODE("compute (random): expected f32 or f64, got i32", n->compute = TRP_I32);
    BAD("nodes[1].b (pointwise): expected another type than i64", n[1].b = SEED);
    BAD_NODE("kind: expected a trp_dnn_kind", n->kind = (trp_dnn_kind)99);
    return NULL;
}

/* --- blocks --- */

enum { BLOCK_TENSORS = 4 };

static void make_block(dw_graph *p, const trp_buffer buffer[])
{
    *p = (dw_graph){.node = {{.x = 1, .y = 2, .scale = 3, .axis = 1}}};
    for (int i = 1; i < BLOCK_TENSORS; i++)
        p->tensor[i] = (trp_dnn_tensor){
            .type = TRP_F8E8M0, .rank = 2, .dim = {3, i == 3 ? 3 : 70}, .buffer = buffer[i]};
}

/* The good one, there or back. */
static void block(dw_graph *p, bool back)
{
    p->node->kind = back ? TRP_DNN_BLOCK_SCALE_DEQUANTIZE : TRP_DNN_BLOCK_SCALE_QUANTIZE;
    p->tensor[1].type = back ? TRP_F8E4M3 : TRP_F32;
    p->tensor[2].type = back ? TRP_F32 : TRP_F8E4M3;
}

#define BAD_BLOCK(back, says, change) DW_APPLY("nodes[0]." says, (block(p, back), change))
static const char *spoil_block(dw_graph *p, int which)
{
    trp_dnn_node *const n = p->node;
    trp_dnn_tensor *const t = p->tensor;
    int at = 0;
    BAD_BLOCK(0, "block (block_scale_quantize): expected 16 or 32, got 8", n->block = 8);
    BAD_BLOCK(1, "block (block_scale_dequantize): expected 16 or 32, got 64", n->block = 64);
    BAD_BLOCK(0, "axis (block_scale_quantize): expected 0 to 7, got 8", n->axis = 8);
    BAD_BLOCK(0, "axis (block_scale_quantize): expected less than the 2 dimensions, got 2",
              n->axis = 2);
    BAD_BLOCK(0, "x (block_scale_quantize): expected f32, f16 or bf16, got i8", t[1].type = TRP_I8);
    BAD_BLOCK(0, "x (block_scale_quantize): expected f32, f16 or bf16, got f64",
              t[1].type = TRP_F64);
    BAD_BLOCK(0, "x (block_scale_quantize): expected a tensor with elements, got a number",
              (t[1] = (trp_dnn_tensor){.value = trp_real(1)}));
    BAD_BLOCK(0, "y (block_scale_quantize): expected f8e4m3 or f8e5m2, got f16",
              t[2].type = TRP_F16);
    BAD_BLOCK(0, "scale (block_scale_quantize): expected f8e8m0, f8e4m3 or f32, got f8e5m2",
              t[3].type = TRP_F8E5M2);
    BAD_BLOCK(0, "scale (block_scale_quantize): expected 3 x 3, got 3 x 2", t[3].dim[1] = 2);
    BAD_BLOCK(0, "scale (block_scale_quantize): expected 3 x 5, got 3 x 3", n->block = 16);
    BAD_BLOCK(0, "y (block_scale_quantize): expected 3 x 70, got 3 x 69", t[2].dim[1] = 69);
    BAD_BLOCK(0, "scale (block_scale_quantize): expected a tensor, 1 to 3, got 0", n->scale = 0);
    BAD_BLOCK(0, "mean: expected 0, for block_scale_quantize has no such tensor", n->mean = 3);
    BAD_BLOCK(0, "window[0] (block_scale_quantize): expected 0 to 0, got 32", n->window[0] = 32);
    BAD_BLOCK(0, "compute (block_scale_quantize): expected f32 or f64, got i32",
              n->compute = TRP_I32);
    BAD_BLOCK(0, "parameter[0]: expected none", n->parameter[0] = trp_real(1));
    BAD_BLOCK(1, "x (block_scale_dequantize): expected f8e4m3 or f8e5m2, got u8",
              t[1].type = TRP_U8);
    BAD_BLOCK(1, "scale (block_scale_dequantize): expected f8e8m0, f8e4m3 or f32, got f16",
              t[3].type = TRP_F16);
    BAD_BLOCK(1, "y (block_scale_dequantize): expected f32, f16 or bf16, got f8e8m0",
              t[2].type = TRP_F8E8M0);
    BAD_BLOCK(1, "scale (block_scale_dequantize): expected 1 x 70, got 3 x 3", n->axis = 0);
    BAD_BLOCK(1, "x (pointwise): expected another type than f8e8m0",
              *n = ((trp_dnn_node){
                  .kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_ADD, .x = 3, .b = 1, .y = 2}));
    BAD_BLOCK(1, "x (slice): expected another type than f8e8m0",
              *n = ((trp_dnn_node){.kind = TRP_DNN_SLICE, .x = 3, .y = 2}));
    BAD_BLOCK(1, "block (pointwise): expected 0, got 32",
              *n = ((trp_dnn_node){.kind = TRP_DNN_POINTWISE, .x = 1, .y = 2, .block = 32}));
    return NULL;
}

/* --- all of them --- */

static void wrong_graphs(void)
{
    dw_graph p;
    trp_completion c = {0};
    trp_buffer buffer[DW_TENSORS] = {0};
    world = h_open(NULL);
    dnn = h_actor(world.device, "dnn");
    for (int i = 1; i < DW_TENSORS; i++)
        buffer[i] = h_buffer(world.device, BYTES);
    const dw_table tables[] = {
        {GRAPH_TENSORS, 3, make_graph, spoil_graph, buffer},
        {ATTENTION_TENSORS, 1, make_attention, spoil_attention, buffer},
        {PAGED_TENSORS, 1, make_paged, spoil_paged, buffer},
        {MOVE_TENSORS, 1, make_move, spoil_move, buffer},
        {RANDOM_TENSORS, 2, make_random, spoil_random, buffer},
        {BLOCK_TENSORS, 1, make_block, spoil_block, buffer},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        DW_CHECK(dnn, &tables[i]);
    wrong_attention(buffer);
    wrong_paged(buffer);
    dw_good(&tables[0], &p);
    H_OK(trp_buffer_free(world.device, buffer[X]));
    H_IS(trp_dnn_graph(dnn, &p.request, &c), TRP_E_STALE);
    H_SAYS("tensors[1]");
    h_close(&world);
}

H_CASES(H_CASE(wrong_graphs))
