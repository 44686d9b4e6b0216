/* Attention and its gradient in the dnn actor: against a float64 reference, against finite
 * differences, and what is said of wrong ones. SPDX-License-Identifier: Apache-2.0 */
#include "support/dnn_draw.h"

#include <math.h>
#include <troupe/layers.h>

static h_world world;
static trp_actor *dnn;

static void open_world(void)
{
    world = h_open(NULL);
    dnn = h_actor(world.device, "dnn");
}

static void close_world(void)
{
    dp_print_table();
    h_close(&world);
}

/* --- problems --- */

typedef struct shape {
    int64_t batches, heads, shared, rows, columns, depth, width;
} shape;

static trp_dtype draw_type(void)
{
    static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_F32, TRP_F16, TRP_BF16};
    return types[dp_below(5)];
}

static shape draw_shape(int64_t most)
{
    shape s = {.batches = dp_from(1, 3),
               .shared = dp_from(1, 3),
               .rows = dp_from(1, most),
               .columns = dp_from(1, most),
               .depth = dp_from(1, 9),
               .width = dp_from(1, 9)};
    if (dp_below(2)) { /* as cuDNN has them */
        s.depth = 8 * dp_from(1, 2);
        s.width = 8 * dp_from(1, 2);
    }
    s.heads = s.shared * dp_from(1, 3);
    if (dp_below(3))
        s.columns = s.rows;
    return s;
}

static uint32_t memory(dp_problem *p, trp_dtype type, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return dp_memory(p, type, 4, (const int64_t[]){b, h, i, j});
}

/* Forward, with options that the caller sets. */
static trp_dnn_node *forward(dp_problem *p, const shape *s, trp_dtype type)
{
    const trp_dtype sums = type == TRP_F64 ? TRP_F64 : TRP_F32;
    trp_dnn_node *n = dp_node(p, TRP_DNN_ATTENTION);
    n->q = memory(p, type, s->batches, s->heads, s->rows, s->depth);
    n->k = memory(p, type, s->batches, s->shared, s->columns, s->depth);
    n->v = memory(p, type, s->batches, s->shared, s->columns, s->width);
    n->y = memory(p, type, s->batches, s->heads, s->rows, s->width);
    n->stats = memory(p, sums, s->batches, s->heads, s->rows, 1);
    return n;
}

static void add_bias(dp_problem *p, trp_dnn_node *n, const shape *s, trp_dtype type)
{
    n->bias = memory(p, type, dp_below(2) ? s->batches : 1, dp_below(2) ? s->heads : 1,
                     dp_below(3) ? s->rows : 1, dp_below(4) ? s->columns : 1);
}

static void draw_options(dp_problem *p, trp_dnn_node *n, const shape *s, trp_dtype type)
{
    n->mask = (trp_dnn_mask)dp_below(3);
    n->window[0] = dp_below(3) == 0 ? dp_from(1, s->columns) : 0;
    if (dp_below(3) == 0)
        n->parameter[0] = trp_real(dp_below(2) ? 0.3 : -0.7);
    if (dp_below(3) == 0)
        add_bias(p, n, s, type);
    if (dp_below(4) == 0)
        n->slopes = memory(p, type == TRP_F64 ? TRP_F64 : TRP_F32, 1, s->heads, 1, 1);
    if (dp_below(3) == 0) {
        n->seq_q = memory(p, TRP_I32, s->batches, 1, 1, 1);
        n->seq_kv = memory(p, TRP_I32, s->batches, 1, 1, 1);
    }
}

/* The same options, and all that the gradient reads; from those that forward has written. */
static trp_dnn_node *backward(dp_problem *p, const trp_dnn_node *f)
{
    trp_dnn_node *n = dp_node(p, TRP_DNN_ATTENTION_BACKWARD);
    *n = *f;
    n->kind = TRP_DNN_ATTENTION_BACKWARD;
    n->dy = dp_memory(p, p->tensor[f->y].type, 4, p->tensor[f->y].dim);
    n->dq = dp_memory(p, p->tensor[f->q].type, 4, p->tensor[f->q].dim);
    n->dk = dp_memory(p, p->tensor[f->k].type, 4, p->tensor[f->k].dim);
    n->dv = dp_memory(p, p->tensor[f->v].type, 4, p->tensor[f->v].dim);
    if (f->bias && dp_below(2))
        n->dbias = dp_memory(p, p->tensor[f->bias].type, 4, p->tensor[f->bias].dim);
    return n;
}

/* Lengths of batches: in what order tensors are drawn, they are numbers that fit. */
static void put_lengths(dp_problem *p, uint32_t tensor, int64_t size)
{
    double length[8] = {0};
    if (!tensor)
        return;
    for (int64_t b = 0; b < p->tensor[tensor].dim[0]; b++)
        length[b] = (double)dp_from(h_is_cuda() ? 1 : 0, size);
    dp_put(p, tensor, length);
}

static void make(dp_problem *p, const shape *s)
{
    dp_make(world.device, p);
    put_lengths(p, p->node[0].seq_q, s->rows);
    put_lengths(p, p->node[0].seq_kv, s->columns);
}

static void compute(dp_problem *p)
{
    trp_completion done = {0};
    trp_status status = dp_send(dnn, p, &done);
    dp_await(p, status, done);
}

static void check(dp_problem *p, const shape *s)
{
    make(p, s);
    compute(p);
    dp_compare(p);
    dp_drop(p);
}

static void forwards(void)
{
    open_world();
    for (int i = 0; i < dp_rounds(100); i++) {
        dp_problem p = {.kind = "attention"};
        const shape s = draw_shape(i % 10 ? 9 : 40);
        const trp_dtype type = draw_type();
        trp_dnn_node *n = forward(&p, &s, type);
        draw_options(&p, n, &s, type);
        check(&p, &s);
    }
    close_world();
}

static void backwards(void)
{
    open_world();
    for (int i = 0; i < dp_rounds(80); i++) {
        dp_problem p = {.kind = "attention, backward"};
        const shape s = draw_shape(i % 10 ? 9 : 30);
        const trp_dtype type = draw_type();
        trp_dnn_node *n = forward(&p, &s, type);
        draw_options(&p, n, &s, type);
        backward(&p, n);
        check(&p, &s);
    }
    close_world();
}

/* More rows than are computed at once, and as they come from models. */
static void large(void)
{
    static const struct {
        shape s;
        trp_dnn_mask mask;
        int64_t window;
        bool bias, lengths;
    } all[] = {
        {{1, 2, 2, 130, 130, 64, 64}, TRP_DNN_MASK_CAUSAL, 0, false, false},
        {{2, 4, 1, 70, 199, 64, 64}, TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT, 0, false, false},
        {{1, 4, 2, 129, 160, 32, 64}, TRP_DNN_MASK_NONE, 0, true, false},
        {{1, 2, 2, 192, 192, 16, 16}, TRP_DNN_MASK_CAUSAL, 20, false, false},
        {{3, 2, 2, 100, 100, 32, 32}, TRP_DNN_MASK_CAUSAL, 0, false, true},
        {{3, 2, 1, 100, 150, 32, 32}, TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT, 33, false, true},
        {{2, 2, 2, 1, 140, 64, 64}, TRP_DNN_MASK_NONE, 0, false, true},
    };
    static const trp_dtype types[] = {TRP_F32, TRP_BF16, TRP_F16};
    open_world();
    for (size_t i = 0; i < 2 * sizeof all / sizeof *all; i++) {
        const bool gradient = i % 2;
        dp_problem p = {.kind = gradient ? "large, backward" : "large"};
        const shape *s = &all[i / 2].s;
        const trp_dtype type = types[dp_below(3)];
        trp_dnn_node *n = forward(&p, s, type);
        n->mask = all[i / 2].mask;
        n->window[0] = all[i / 2].window;
        if (all[i / 2].bias)
            n->bias = memory(&p, type, 1, s->heads, s->rows, s->columns);
        if (all[i / 2].lengths) {
            n->seq_q = memory(&p, TRP_I32, s->batches, 1, 1, 1);
            n->seq_kv = memory(&p, TRP_I32, s->batches, 1, 1, 1);
        }
        if (gradient)
            backward(&p, n);
        check(&p, s);
    }
    close_world();
}

/* What lies behind a batch's last row and column is never used: it may be no numbers. */
static void padding(void)
{
    open_world();
    for (int i = 0; i < dp_rounds(6); i++) {
        const shape s = {2, 2, 1, dp_from(2, 9), dp_from(2, 9), 4, 5};
        const double rows[] = {(double)dp_from(1, s.rows - 1), (double)s.rows};
        const double columns[] = {(double)dp_from(1, s.columns - 1), (double)s.columns};
        dp_problem p = {.kind = "padding", .packed = true};
        trp_dnn_node *n = forward(&p, &s, TRP_F32);
        n->mask = (trp_dnn_mask)(i % 2);
        n->seq_q = memory(&p, TRP_I32, 2, 1, 1, 1);
        n->seq_kv = memory(&p, TRP_I32, 2, 1, 1, 1);
        trp_dnn_node *back = backward(&p, n);
        const uint32_t spoilt[] = {n->q, n->k, n->v, back->dy};
        make(&p, &s);
        dp_put(&p, n->seq_q, rows);
        dp_put(&p, n->seq_kv, columns);
        for (int t = 0; t < 4; t++) {
            const dr_tensor *value = &p.value[spoilt[t]];
            const double used = value->dim[2] == s.rows && t % 3 == 0 ? rows[0] : columns[0];
            double *v = h_malloc(value->count * sizeof *v);
            memcpy(v, value->v, value->count * sizeof *v);
            for (int64_t h = 0; h < value->dim[1]; h++) {
                for (int64_t r = (int64_t)used; r < value->dim[2]; r++) {
                    for (int64_t d = 0; d < value->dim[3]; d++)
                        v[(h * value->dim[2] + r) * value->dim[3] + d] = NAN;
                }
            }
            dp_put(&p, spoilt[t], v);
            free(v);
        }
        compute(&p);
        dp_compare(&p);
        dp_drop(&p);
    }
    close_world();
}

static void layers(void)
{
    open_world();
    for (int i = 0; i < dp_rounds(20); i++) {
        dp_problem p = {.kind = "attention layer"};
        const shape s = draw_shape(9);
        const trp_dtype type = draw_type();
        trp_completion done = {0};
        trp_dnn_node *n = forward(&p, &s, type);
        draw_options(&p, n, &s, type);
        const trp_dnn_node *b = backward(&p, n);
        make(&p, &s);
        trp_attention_request r = {.q = p.tensor[n->q],
                                   .k = p.tensor[n->k],
                                   .v = p.tensor[n->v],
                                   .y = p.tensor[n->y],
                                   .stats = p.tensor[n->stats],
                                   .bias = p.tensor[n->bias],
                                   .slopes = p.tensor[n->slopes],
                                   .seq_q = p.tensor[n->seq_q],
                                   .seq_kv = p.tensor[n->seq_kv],
                                   .scale = n->parameter[0],
                                   .mask = n->mask,
                                   .window = n->window[0]};
        trp_status status = trp_attention_forward(dnn, &r, &done);
        dp_await(&p, status, done);
        r.dy = p.tensor[b->dy];
        r.dq = p.tensor[b->dq];
        r.dk = p.tensor[b->dk];
        r.dv = p.tensor[b->dv];
        r.dbias = p.tensor[b->dbias];
        done = (trp_completion){0};
        status = trp_attention_backward(dnn, &r, &done);
        dp_await(&p, status, done);
        dp_compare(&p);
        dp_drop(&p);
    }
    close_world();
}

/* --- finite differences --- */

/* <dy, y> with x a step away. */
static double along(dp_problem *p, uint32_t x, const double *direction, double step)
{
    const uint32_t y = p->node[0].y, dy = p->node[1].dy;
    const dr_tensor *value = &p->value[x];
    double *old = h_malloc((value->count + 1) * sizeof *old), *result, sum = 0;
    double *moved = h_malloc((value->count + 1) * sizeof *moved);
    memcpy(old, value->v, value->count * sizeof *old);
    for (size_t i = 0; i < value->count; i++)
        moved[i] = old[i] + step * direction[i];
    dp_put(p, x, moved);
    compute(p);
    result = dp_read(p, y);
    for (size_t i = 0; i < p->value[y].count; i++)
        sum += result[i] * p->value[dy].v[i];
    dp_put(p, x, old);
    free(result);
    free(moved);
    free(old);
    return sum;
}

static void check_slope(dp_problem *p, uint32_t x, uint32_t gradient)
{
    const double step = 1e-5;
    const size_t count = p->value[x].count;
    double slope = 0, size = 1;
    compute(p);
    if (p->refused)
        return;
    double *direction = h_malloc((count + 1) * sizeof *direction);
    double *g = dp_read(p, gradient);
    for (size_t i = 0; i < count; i++) {
        direction[i] = ref_rng_uniform(h_rng(), -1, 1);
        slope += g[i] * direction[i];
        size += fabs(g[i] * direction[i]);
    }
    double difference = (along(p, x, direction, step) - along(p, x, direction, -step)) / (2 * step);
    if (!(fabs(difference - slope) <= 1e-6 * size))
        h_fail(__FILE__, __LINE__, "tensor %u: slope %.12g, difference %.12g", x, slope,
               difference);
    free(g);
    free(direction);
}

static void differences(void)
{
    open_world();
    for (int i = 0; i < dp_rounds(10); i++) {
        dp_problem p = {.kind = "differences", .packed = true};
        const shape s = draw_shape(9);
        trp_dnn_node *n = forward(&p, &s, TRP_F64);
        draw_options(&p, n, &s, TRP_F64);
        trp_dnn_node *b = backward(&p, n);
        if (n->bias && !b->dbias)
            b->dbias = dp_memory(&p, TRP_F64, 4, p.tensor[n->bias].dim);
        make(&p, &s);
        check_slope(&p, n->q, b->dq);
        check_slope(&p, n->k, b->dk);
        check_slope(&p, n->v, b->dv);
        if (n->bias)
            check_slope(&p, n->bias, b->dbias);
        dp_drop(&p);
    }
    close_world();
}

/* --- wrong ones --- */

enum { NONE, Q, K, V, Y, STATS, BIAS, SLOPES, SEQ_Q, SEQ_KV, DY, DQ, DK, DV, DBIAS, TENSORS };

typedef struct wrong_one {
    trp_dnn_tensor tensor[TENSORS];
    trp_dnn_node node;
} wrong_one;

#define TENSOR(number, of, ...)                                                                    \
    [number] = {.type = of, .rank = 4, .dim = {__VA_ARGS__}, .buffer = buffer[number]}

/* All of it, backward. */
static void make_wrong(wrong_one *p, const trp_buffer buffer[])
{
    *p = (wrong_one){
        .tensor = {TENSOR(Q, TRP_F32, 2, 4, 5, 8), TENSOR(K, TRP_F32, 2, 2, 7, 8),
                   TENSOR(V, TRP_F32, 2, 2, 7, 6), TENSOR(Y, TRP_F32, 2, 4, 5, 6),
                   TENSOR(STATS, TRP_F32, 2, 4, 5, 1), TENSOR(BIAS, TRP_F32, 1, 4, 5, 7),
                   TENSOR(SLOPES, TRP_F32, 1, 4, 1, 1), TENSOR(SEQ_Q, TRP_I32, 2, 1, 1, 1),
                   TENSOR(SEQ_KV, TRP_I32, 2, 1, 1, 1), TENSOR(DY, TRP_F32, 2, 4, 5, 6),
                   TENSOR(DQ, TRP_F32, 2, 4, 5, 8), TENSOR(DK, TRP_F32, 2, 2, 7, 8),
                   TENSOR(DV, TRP_F32, 2, 2, 7, 6), TENSOR(DBIAS, TRP_F32, 1, 4, 5, 7)},
        .node = {.kind = TRP_DNN_ATTENTION_BACKWARD,
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
                 .dbias = DBIAS}};
}

#define B(text) "nodes[0]." text
#define BAD_CASES(BAD)                                                                             \
    BAD(B("q (attention_backward): expected a tensor, 1 to 14, got 0"), p->node.q = 0)             \
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
    BAD(B("mask (attention_backward): expected 0 to 2, got 3"), p->node.mask = (trp_dnn_mask)3)    \
    BAD(B("window[0] (attention_backward): expected 0 to"), p->node.window[0] = -1)                \
    BAD(B("window[1] (attention_backward): expected 0, for there are 1"), p->node.window[1] = 2)   \
    BAD(B("stride[0] (attention_backward): expected 0 to 0, got 1"), p->node.stride[0] = 1)        \
    BAD(B("parameter[0]: expected a real finite number"), p->node.parameter[0] = trp_real(NAN))    \
    BAD(B("parameter[1]: expected none"), p->node.parameter[1] = trp_real(1))                      \
    BAD(B("x: expected 0, for attention_backward has no such tensor"), p->node.x = Q)              \
    BAD(B("dy: expected 0, for attention has no such tensor"), p->node.kind = TRP_DNN_ATTENTION)   \
    BAD(B("dbias (attention_backward): expected none, for there is no bias"), p->node.bias = 0)    \
    BAD(B("mask (matmul): expected 0 to 0, got 1"),                                                \
        p->node = ((trp_dnn_node){.kind = TRP_DNN_MATMUL, .a = Q, .b = K, .y = Y, .mask = 1}))     \
    BAD("tensors[11]: it overlaps tensors[1], and is written",                                     \
        p->tensor[DQ].buffer = p->tensor[Q].buffer)                                                \
    BAD("tensors[13].stride: expected a place for each element",                                   \
        (p->tensor[DV].stride[0] = p->tensor[DV].stride[1] = p->tensor[DV].stride[2] = 6,          \
         p->tensor[DV].stride[3] = 1))

static const char *spoil(wrong_one *p, int which)
{
    int at = 0;
#define APPLY(says, change)                                                                        \
    if (at++ == which) {                                                                           \
        change;                                                                                    \
        return says;                                                                               \
    }
    BAD_CASES(APPLY)
#undef APPLY
    return NULL;
}

static void wrong_layers(const trp_buffer buffer[])
{
    wrong_one p;
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
    H_SAYS("nodes[0].seq_q (attention): expected a tensor, for seq_kv is one");
}

static void wrong_nodes(void)
{
    wrong_one p;
    const char *says;
    trp_buffer buffer[TENSORS] = {0};
    trp_completion c = {.future = {7}};
    open_world();
    for (int i = 1; i < TENSORS; i++)
        buffer[i] = h_buffer(world.device, 1 << 14);
    for (int i = 0; make_wrong(&p, buffer), (says = spoil(&p, i)); i++) {
        const trp_dnn_graph_request r = {
            .tensors = p.tensor, .tensor_count = TENSORS, .nodes = &p.node, .node_count = 1};
        H_IS(trp_dnn_graph(dnn, &r, &c), TRP_E_ARGUMENT);
        H_SAYS(says);
        H_EQUAL(c.future.id, 7);
    }
    wrong_layers(buffer);
    h_close(&world);
}

static const h_case cases[] = {
    {"forwards", forwards},       {"backwards", backwards}, {"large", large},
    {"padding", padding},         {"layers", layers},       {"differences", differences},
    {"wrong_nodes", wrong_nodes},
};

int main(int argc, char **argv)
{
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
