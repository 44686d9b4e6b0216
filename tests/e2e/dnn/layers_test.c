/* Graphs of several nodes, against a float64 reference. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_draw.h"
#include "support/label.h"

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("as fake-cudnn", "dnn", "FAKE_CUDNN_TAKES=all", "TROUPE_TEST_REGULAR=1");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

static h_world world;
static trp_actor *dnn;

/* The types between the nodes: the default, or what the graph rounds to there. */
static trp_dtype draw_between(void)
{
    static const trp_dtype types[] = {TRP_DTYPE_NONE, TRP_DTYPE_NONE, TRP_F32, TRP_F16, TRP_BF16};
    return types[dp_below(5)];
}

static trp_dtype draw_wide(void)
{
    static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_F16, TRP_BF16};
    return types[dp_below(4)];
}

/* What the node writes becomes virtual, of a type; returns the tensor that it would have had. */
static uint32_t intercept(dp_problem *p, uint32_t *field, trp_dtype type)
{
    uint32_t kept = *field;
    *field = dp_virtual(p, type);
    return kept;
}

/* A tensor of the dimensions of another one, 1 but at the channels. */
static uint32_t per_channel(dp_problem *p, trp_dtype type, uint32_t like, uint32_t axis)
{
    int64_t dim[TRP_DNN_RANK_MAX];
    for (uint32_t i = 0; i < p->tensor[like].rank; i++)
        dim[i] = i == axis ? p->tensor[like].dim[i] : 1;
    return dp_memory(p, type, p->tensor[like].rank, dim);
}

/* --- chains --- */

/* activation(conv(x, w) + bias) */
static void conv_chain(dp_problem *p)
{
    p->kind = "conv, bias, activation";
    trp_dnn_node *n = dp_node(p, TRP_DNN_CONV_FORWARD);
    trp_dtype type = draw_wide();
    dd_conv(p, n, type, 4);
    uint32_t y = intercept(p, &n->y, draw_between());
    uint32_t bias = per_channel(p, type, y, 1);
    uint32_t sum = dd_then(p, TRP_DNN_ADD, n->y, bias, draw_between());
    dd_activate(p, sum, y);
}

/* The sum is written too, and pooled. */
static void pool_chain(dp_problem *p)
{
    p->kind = "conv, pool";
    trp_dnn_node *n = dp_node(p, TRP_DNN_CONV_FORWARD);
    dd_conv(p, n, draw_wide(), 4);
    trp_dnn_node *pool = dp_node(p, TRP_DNN_RESAMPLE_FORWARD);
    const trp_dnn_tensor *x = &p->tensor[n->y];
    int64_t y[TRP_DNN_RANK_MAX] = {x->dim[0], x->dim[1]};
    pool->resample = (trp_dnn_resample)dp_below(3);
    for (uint32_t i = 0; i + 2 < x->rank; i++) {
        pool->window[i] = dp_from(1, x->dim[2 + i] < 3 ? x->dim[2 + i] : 3);
        y[2 + i] = x->dim[2 + i] - pool->window[i] + 1;
    }
    pool->x = n->y;
    pool->y = dp_memory(p, draw_wide(), x->rank, y);
}

/* log(sum(exp(a b))) along the rows, and what was summed. */
static void product_chain(dp_problem *p)
{
    const int64_t m = dp_from(1, 9), k = dp_from(1, 5), columns = dp_from(1, 9);
    const trp_dtype type = draw_wide();
    p->kind = "matmul, exp, sum, log";
    trp_dnn_node *n = dp_node(p, TRP_DNN_MATMUL);
    n->a = dp_memory(p, type, 3, (const int64_t[]){2, m, k});
    n->b = dp_memory(p, type, 3, (const int64_t[]){1, k, columns});
    n->y = dp_virtual(p, draw_between());
    uint32_t scaled = dd_then(p, TRP_DNN_MUL, n->y, dp_value(p, 0.25), draw_between());
    trp_dnn_node *power = dp_node(p, TRP_DNN_POINTWISE);
    power->pointwise = TRP_DNN_EXP;
    power->x = scaled;
    power->y = dp_memory(p, TRP_F32, 3, (const int64_t[]){2, m, columns});
    trp_dnn_node *sum = dp_node(p, TRP_DNN_REDUCTION);
    sum->x = power->y;
    sum->y = dp_virtual(p, TRP_DTYPE_NONE);
    p->tensor[sum->y].rank = 3;
    memcpy(p->tensor[sum->y].dim, (const int64_t[]){2, m, 1}, 3 * sizeof(int64_t));
    trp_dnn_node *log = dp_node(p, TRP_DNN_POINTWISE);
    log->pointwise = TRP_DNN_LOG;
    log->x = sum->y;
    log->y = dp_memory(p, type, 3, (const int64_t[]){2, m, 1});
}

/* activation(norm(x)), with a value that two nodes read. */
static void norm_chain(dp_problem *p)
{
    p->kind = "norm, scale, activation";
    dd_training(p, dd_wide(), (trp_dnn_norm)dp_below(4), false);
    trp_dnn_node *n = &p->node[0];
    uint32_t y = intercept(p, &n->y, draw_between()), twice = dp_value(p, 1.5);
    uint32_t more = dd_then(p, TRP_DNN_MUL, n->y, twice, draw_between());
    uint32_t sum = dd_then(p, TRP_DNN_SUB, more, twice, TRP_DTYPE_NONE);
    dd_activate(p, sum, y);
}

static void (*const chains[])(dp_problem *) = {conv_chain, pool_chain, product_chain, norm_chain};

static void chains_of_nodes(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(160); i++) {
        dp_problem p = {0};
        chains[i % 4](&p);
        dp_check(world.device, dnn, &p);
    }
    dp_close(&world);
}

/* The same graph, its tensors under other numbers. */
static void renumber(const dp_problem *p, dp_problem *q)
{
    uint32_t number[DP_TENSORS] = {0};
    *q = *p;
    for (uint32_t i = 1; i <= p->tensors; i++) {
        uint32_t at = 1 + (uint32_t)dp_below(i);
        number[i] = number[at];
        number[at] = i;
    }
    for (uint32_t i = 1; i <= p->tensors; i++)
        q->tensor[number[i]] = p->tensor[i];
    for (uint32_t i = 0; i < p->nodes; i++) {
        for (uint32_t *field = &q->node[i].x; field <= &q->node[i].square_sum; field++)
            *field = number[*field];
    }
}

static void order_of_tensors(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(24); i++) {
        dp_problem p = {0}, q;
        double *first[DP_TENSORS] = {NULL}, *second;
        chains[i % 4](&p);
        dp_make(world.device, &p);
        dp_compute(dnn, &p);
        for (uint32_t t = 1; t <= p.tensors; t++) {
            if (!p.written[t] || !p.memory[t])
                continue;
            first[t] = dp_read(&p, t);
            h_write(world.device, p.tensor[t].buffer, 0, p.data[t], p.bytes[t]);
        }
        renumber(&p, &q);
        dp_compute(dnn, &q);
        for (uint32_t t = 1; t <= p.tensors; t++) {
            if (!first[t])
                continue;
            second = dp_read(&p, t);
            H_SAME(second, first[t], p.value[t].count * sizeof *second);
            free(second);
            free(first[t]);
        }
        dp_drop(&p);
    }
    dp_close(&world);
}

H_CASES(H_CASE(chains_of_nodes), H_CASE(order_of_tensors))
