/* Attention and its gradient in the dnn actor: against a float64 reference and against
 * finite differences. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_draw.h"
#include "support/label.h"

#include <math.h>
#include <troupe/layers.h>

TROUPE_TEST("one isolation", "no tsan");
TROUPE_TEST_FAKE_GPU(
    "no tsan", "dnn",
    "cases forwards backwards large padding hidden shifted dropout layers differences wrong_nodes");

static h_world world;
static trp_actor *dnn;

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

static uint64_t draw_bits(void)
{
    return (uint64_t)dp_below(INT64_C(1) << 32) << 32 | (uint64_t)dp_below(INT64_C(1) << 32);
}

static uint32_t add_integer(dp_problem *p, bool in_memory)
{
    if (in_memory)
        return dp_memory(p, TRP_I64, 1, (const int64_t[]){1});
    const uint32_t number = dp_value(p, 0);
    p->tensor[number] = trp_dnn_integer(draw_bits());
    return number;
}

static void add_dropout(dp_problem *p, trp_dnn_node *n, double probability)
{
    n->parameter[1] = trp_real(probability);
    const int64_t in_memory = dp_below(3); /* both are one buffer too many, with all the rest */
    n->seed = add_integer(p, in_memory == 0);
    n->offset = dp_below(2) ? add_integer(p, in_memory == 1) : 0;
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
    if (dp_below(3) == 0)
        add_dropout(p, n, ref_rng_uniform(h_rng(), 0.05, 0.95));
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

static void check(dp_problem *p, const shape *s)
{
    make(p, s);
    dp_compute(dnn, p);
    dp_compare(p);
    dp_drop(p);
}

static void forwards(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(100); i++) {
        dp_problem p = {.kind = "attention"};
        const shape s = draw_shape(i % 10 ? 9 : 40);
        const trp_dtype type = draw_type();
        trp_dnn_node *n = forward(&p, &s, type);
        draw_options(&p, n, &s, type);
        check(&p, &s);
    }
    dp_close(&world);
}

static void backwards(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(80); i++) {
        dp_problem p = {.kind = "attention, backward"};
        const shape s = draw_shape(i % 10 ? 9 : 30);
        const trp_dtype type = draw_type();
        trp_dnn_node *n = forward(&p, &s, type);
        draw_options(&p, n, &s, type);
        backward(&p, n);
        check(&p, &s);
    }
    dp_close(&world);
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
    world = dp_open(&dnn);
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
    dp_close(&world);
}

/* What lies behind a batch's last row and column is never used: it may be no numbers. */
static void padding(void)
{
    world = dp_open(&dnn);
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
        dp_compute(dnn, &p);
        dp_compare(&p);
        dp_drop(&p);
    }
    dp_close(&world);
}

/* Columns that a diagonal or a window hides from some rows, and rows that see none, may be no
 * numbers, too: the others are as if there were zeros. */
static void hidden(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(6) && h_is_cuda(); i++) {
        const int64_t rows = i % 2 ? dp_from(2, 9) : dp_from(66, 90);
        const shape s = {1, 2, 1, rows, rows, 4, 5};
        dp_problem p = {.kind = "hidden", .packed = true};
        trp_dnn_node *n = forward(&p, &s, i % 3 ? TRP_F32 : TRP_F64);
        n->mask = TRP_DNN_MASK_CAUSAL;
        trp_dnn_node *back = backward(&p, n);
        make(&p, &s);
        dp_compute(dnn, &p);
        double *y = dp_read(&p, n->y), *dq = dp_read(&p, back->dq);
        const int64_t from = dp_from(1, rows - 1);
        const uint32_t spoilt[] = {n->k, n->v};
        for (int t = 0; t < 2; t++) { /* the last columns: rows before do not see them */
            const dr_tensor *value = &p.value[spoilt[t]];
            double *v = h_malloc(value->count * sizeof *v);
            memcpy(v, value->v, value->count * sizeof *v);
            for (int64_t e = from * value->dim[3]; e < rows * value->dim[3]; e++)
                v[e] = e % 2 ? NAN : INFINITY;
            dp_put(&p, spoilt[t], v);
            free(v);
        }
        dp_compute(dnn, &p);
        double *y_again = dp_read(&p, n->y), *dq_again = dp_read(&p, back->dq);
        for (int64_t h = 0; h < 2; h++) {
            H_CHECK(memcmp(y + h * rows * s.width, y_again + h * rows * s.width,
                           (size_t)(from * s.width) * sizeof *y) == 0);
            for (int64_t e = 0; e < from * s.depth; e++)
                H_CHECK(isfinite(dq_again[h * rows * s.depth + e]) &&
                        fabs(dq_again[h * rows * s.depth + e] - dq[h * rows * s.depth + e]) < 1e-5);
        }
        free(y);
        free(y_again);
        free(dq);
        free(dq_again);
        dp_drop(&p);
    }
    dp_close(&world);
}

static void fill(dp_problem *p, uint32_t tensor, double value)
{
    const size_t count = p->value[tensor].count;
    double *v = h_malloc(count * sizeof *v);
    for (size_t i = 0; i < count; i++)
        v[i] = value;
    dp_put(p, tensor, v);
    free(v);
}

/* Scores that are all shifted so far that stats hold nothing but the shift weigh as much as without
 * it, in gradients too. Their products are 0: what else f32 loses is no matter. */
static void shifted(void)
{
    static const double by[] = {-1e9, -3e38, 1e9};
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(6) && h_is_cuda(); i++) {
        const int64_t most = i % 2 ? 9 : 80;
        const shape s = {2, 2, 1, dp_from(2, most), dp_from(2, most), 8, 8};
        dp_problem p = {.kind = "shifted", .packed = true};
        trp_dnn_ran ran = {0};
        trp_dnn_node *n = forward(&p, &s, TRP_F32);
        n->bias = memory(&p, TRP_F32, i % 4 ? 1 : 2, 1, s.rows, s.columns);
        const trp_dnn_node *b = backward(&p, n);
        make(&p, &s);
        fill(&p, n->q, 0);
        fill(&p, n->bias, 0);
        p.options.ran = &ran;
        dp_compute(dnn, &p);
        dp_compare(&p);
        H_CHECK(strncmp(ran.engine, "attention_f32_64", 16) == 0);
        const uint32_t results[] = {n->y, b->dq, b->dk, b->dv};
        double *before[4];
        for (int t = 0; t < 4; t++)
            before[t] = dp_read(&p, results[t]);
        fill(&p, n->bias, by[i % 3]);
        dp_compute(dnn, &p);
        for (int t = 0; t < 4; t++) {
            double *after = dp_read(&p, results[t]);
            for (size_t e = 0; e < p.value[results[t]].count; e++)
                H_CHECK(fabs(after[e] - before[t][e]) <= 1e-5 * (1 + fabs(before[t][e])));
            free(after);
            free(before[t]);
        }
        dp_drop(&p);
    }
    dp_close(&world);
}

/* Sends it again, with what was changed; whether tensor `number` comes out the same, to the bit. */
static bool comes_out_the_same(dp_problem *p, uint32_t number)
{
    double *before = dp_read(p, number), *after;
    const size_t bytes = p->value[number].count * sizeof *before;
    dp_compute(dnn, p);
    after = dp_read(p, number);
    const bool same = memcmp(before, after, bytes) == 0;
    free(before);
    free(after);
    return same;
}

/* What is dropped follows from seed and offset alone, which are no part of the plan; a probability
 * of 0 is that of attention without dropout. */
static void dropout(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(4); i++) {
        const shape s = {2, 4, 2, dp_from(65, 90), dp_from(65, 90), 8, 8};
        const uint64_t seed = draw_bits(), offset = draw_bits();
        dp_problem p = {.kind = "dropout"};
        trp_dnn_ran ran = {0};
        trp_dnn_node *n = forward(&p, &s, i % 2 ? TRP_BF16 : TRP_F32);
        const uint32_t at = dp_value(&p, 0), from = dp_value(&p, 0);
        n->seed = at;
        n->offset = from;
        p.tensor[at] = trp_dnn_integer(seed);
        p.tensor[from] = trp_dnn_integer(offset);
        trp_dnn_node *b = backward(&p, n);
        make(&p, &s);
        dp_compute(dnn, &p);
        for (int k = 0; k < 2; k++)
            p.node[k].parameter[1] = trp_real(0);
        H_CHECK(comes_out_the_same(&p, n->y));
        for (int k = 0; k < 2; k++)
            p.node[k].parameter[1] = trp_real(0.5);
        H_CHECK(!comes_out_the_same(&p, n->y));
        H_CHECK(comes_out_the_same(&p, b->dq));
        dp_compare(&p);
        p.options.ran = &ran;
        p.tensor[from] = trp_dnn_integer(offset ^ UINT64_C(1) << dp_below(64));
        H_CHECK(!comes_out_the_same(&p, n->y));
        H_CHECK(!h_is_cuda() || (ran.found && strncmp(ran.engine, "attention_", 10) == 0));
        p.tensor[from] = trp_dnn_integer(offset);
        p.tensor[at] = trp_dnn_integer(seed ^ UINT64_C(1) << dp_below(64));
        H_CHECK(!comes_out_the_same(&p, b->dk));
        dp_drop(&p);
    }
    dp_close(&world);
}

static void layers(void)
{
    world = dp_open(&dnn);
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
                                   .window = n->window[0],
                                   .dropout = n->parameter[1].re,
                                   .seed = p.tensor[n->seed],
                                   .offset = p.tensor[n->offset]};
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
    dp_close(&world);
}

/* --- finite differences --- */

#define CHECK_SLOPE(x, dx)                                                                         \
    dp_check_slope(__FILE__, __LINE__, dnn, &p, (dp_slope){x, dx, n->y, b->dy})

static void differences(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(10); i++) {
        dp_problem p = {.kind = "differences", .packed = true};
        const shape s = draw_shape(9);
        trp_dnn_node *n = forward(&p, &s, TRP_F64);
        draw_options(&p, n, &s, TRP_F64);
        trp_dnn_node *b = backward(&p, n);
        if (n->bias && !b->dbias)
            b->dbias = dp_memory(&p, TRP_F64, 4, p.tensor[n->bias].dim);
        make(&p, &s);
        CHECK_SLOPE(n->q, b->dq);
        CHECK_SLOPE(n->k, b->dk);
        CHECK_SLOPE(n->v, b->dv);
        if (n->bias)
            CHECK_SLOPE(n->bias, b->dbias);
        dp_drop(&p);
    }
    dp_close(&world);
}

static const h_case cases[] = {
    {"forwards", forwards}, {"backwards", backwards}, {"large", large},
    {"padding", padding},   {"hidden", hidden},       {"shifted", shifted},
    {"dropout", dropout},   {"layers", layers},       {"differences", differences},
};

int main(int argc, char **argv)
{
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
