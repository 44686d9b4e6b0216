/* Attention in the dnn actor beside what tests/conformance compares: what it must not look at, what
 * it drops, calls of layers, and gradients against finite differences. SPDX-License-Identifier:
 * Apache-2.0 */
#include "support/problems/attention_draw.h"
#include "support/label.h"

#include <math.h>
#include <troupe/layers.h>

TROUPE_TEST("one isolation", "no tsan");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn",
                     "cases padding hidden shifted dropout layers differences wrong_nodes");

static h_world world;
static trp_actor *dnn;

static void fill(dp_problem *p, uint32_t tensor, double value)
{
    const size_t count = p->value[tensor].count;
    double *v = h_malloc(count * sizeof *v);
    for (size_t i = 0; i < count; i++)
        v[i] = value;
    dp_put(p, tensor, v);
    free(v);
}

/* What lies behind a batch's last row and column is never used: it may be no numbers. */
static void padding(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(6); i++) {
        const ad_shape s = {2, 2, 1, dp_from(2, 9), dp_from(2, 9), 4, 5, 0, 0};
        const double rows[] = {(double)dp_from(1, s.rows - 1), (double)s.rows};
        const double columns[] = {(double)dp_from(1, s.columns - 1), (double)s.columns};
        dp_problem p = {.kind = "padding", .packed = true};
        trp_dnn_node *n = ad_forward(&p, &s, TRP_F32);
        n->mask = (trp_dnn_mask)(i % 2);
        n->seq_q = ad_memory(&p, TRP_I32, 2, 1, 1, 1);
        n->seq_kv = ad_memory(&p, TRP_I32, 2, 1, 1, 1);
        trp_dnn_node *back = ad_backward(&p, n);
        const uint32_t spoilt[] = {n->q, n->k, n->v, back->dy};
        dp_make(world.device, &p);
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
        const ad_shape s = {1, 2, 1, rows, rows, 4, 5, 0, 0};
        dp_problem p = {.kind = "hidden", .packed = true};
        trp_dnn_node *n = ad_forward(&p, &s, i % 3 ? TRP_F32 : TRP_F64);
        n->mask = TRP_DNN_MASK_CAUSAL;
        trp_dnn_node *back = ad_backward(&p, n);
        dp_make(world.device, &p);
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

/* Scores that are all shifted so far that stats hold nothing but the shift weigh as much as without
 * it, in gradients too. Their products are 0: what else f32 loses is no matter. */
static void shifted(void)
{
    static const double by[] = {-1e9, -3e38, 1e9};
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(6) && h_is_cuda(); i++) {
        const int64_t most = i % 2 ? 9 : 80;
        const ad_shape s = {2, 2, 1, dp_from(2, most), dp_from(2, most), 8, 8, 0, 0};
        dp_problem p = {.kind = "shifted", .packed = true};
        trp_dnn_ran ran = {0};
        trp_dnn_node *n = ad_forward(&p, &s, TRP_F32);
        n->bias = ad_memory(&p, TRP_F32, i % 4 ? 1 : 2, 1, s.rows, s.columns);
        const trp_dnn_node *b = ad_backward(&p, n);
        dp_make(world.device, &p);
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
        const ad_shape s = {2, 4, 2, dp_from(65, 90), dp_from(65, 90), 8, 8, 0, 0};
        const uint64_t seed = ad_bits(), offset = ad_bits();
        dp_problem p = {.kind = "dropout"};
        trp_dnn_ran ran = {0};
        trp_dnn_node *n = ad_forward(&p, &s, i % 2 ? TRP_BF16 : TRP_F32);
        const uint32_t at = dp_value(&p, 0), from = dp_value(&p, 0);
        n->seed = at;
        n->offset = from;
        p.tensor[at] = trp_dnn_integer(seed);
        p.tensor[from] = trp_dnn_integer(offset);
        trp_dnn_node *b = ad_backward(&p, n);
        dp_make(world.device, &p);
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
        const ad_shape s = ad_draw_shape(9);
        const trp_dtype type = ad_type();
        trp_completion done = {0};
        trp_dnn_node *n = ad_forward(&p, &s, type);
        ad_options(&p, n, &s, type);
        const trp_dnn_node *b = ad_backward(&p, n);
        dp_make(world.device, &p);
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
        const ad_shape s = ad_draw_shape(9);
        trp_dnn_node *n = ad_forward(&p, &s, TRP_F64);
        ad_options(&p, n, &s, TRP_F64);
        trp_dnn_node *b = ad_backward(&p, n);
        if (n->bias && !b->dbias)
            b->dbias = dp_memory(&p, TRP_F64, 4, p.tensor[n->bias].dim);
        dp_make(world.device, &p);
        CHECK_SLOPE(n->q, b->dq);
        CHECK_SLOPE(n->k, b->dk);
        CHECK_SLOPE(n->v, b->dv);
        if (n->bias)
            CHECK_SLOPE(n->bias, b->dbias);
        dp_drop(&p);
    }
    dp_close(&world);
}

H_CASES(H_CASE(padding), H_CASE(hidden), H_CASE(shifted), H_CASE(dropout), H_CASE(layers),
        H_CASE(differences))
