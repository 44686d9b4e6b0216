/* Keys and values in pages, beside what tests/conformance compares: calls of layers, tables that
 * lead nowhere, and those that are made right before. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/attention_draw.h"
#include "support/label.h"

#include <math.h>
#include <troupe/layers.h>

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

static h_world world;
static trp_actor *dnn;

static void layers(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(20); i++) {
        dp_problem p = {.kind = "attention layer, pages"};
        ad_shape s = ad_draw_paged_shape(20);
        const bool whole = dp_below(2);
        if (whole)
            s.columns = ad_pages_of(&s) * s.size;
        trp_completion done = {0};
        const trp_dnn_node *n = ad_paged(&p, &s, ad_type());
        const trp_dnn_node *k = &p.node[0], *v = &p.node[1];
        dp_make(world.device, &p);
        const trp_attention_request r = {.q = p.tensor[n->q],
                                         .k = p.tensor[k->x],
                                         .v = p.tensor[v->x],
                                         .y = p.tensor[n->y],
                                         .stats = p.tensor[n->stats],
                                         .seq_q = p.tensor[n->seq_q],
                                         .seq_kv = p.tensor[n->seq_kv],
                                         .mask = n->mask,
                                         .window = n->window[0],
                                         .table_k = p.tensor[k->table],
                                         .table_v = p.tensor[v->table],
                                         .columns = whole ? 0 : s.columns};
        trp_status status = trp_attention_forward(dnn, &r, &done);
        dp_await(&p, status, done);
        dp_compare(&p);
        dp_drop(&p);
    }
    dp_close(&world);
}

/* --- tables that lead nowhere --- */

/* Of an entry that is no page nothing is read: a host says so, and writes nothing; a GPU writes
 * what is no number, and goes on. */
static void nowhere(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(8); i++) {
        dp_problem p = {.kind = "no page", .packed = true};
        ad_shape s = ad_draw_paged_shape(20);
        s.batches = 2;
        const trp_dnn_node *n = ad_load(&p, &s, ad_type(), s.depth, 0, false);
        dp_make(world.device, &p);
        const double length[] = {(double)s.columns, (double)s.columns};
        const int64_t all = ad_pages_of(&s), bad = dp_below(2 * all);
        static const double bads[] = {-1, INT32_MIN, INT32_MAX};
        const double page = dp_below(4) ? bads[dp_below(3)] : (double)s.pages;
        double entry[2 * 64];
        char says[128];
        for (int64_t e = 0; e < 2 * all; e++)
            entry[e] = e == bad ? page : (double)dp_below(s.pages);
        dp_put(&p, n->seq_kv, length);
        dp_put(&p, n->table, entry);
        trp_completion done = {0};
        trp_error error = {0};
        H_OK(dp_send(dnn, &p, &done));
        const trp_status status = h_await(done.future, &error);
        double *y = dp_read(&p, n->y);
        if (!h_is_cuda()) {
            H_IS(status, TRP_E_ARGUMENT);
            snprintf(says, sizeof says,
                     "nodes[0].table (paged_load): entry %d of batch %d: expected a page, 0 to %d, "
                     "got %.0f",
                     (int)(bad % all), (int)(bad / all), (int)s.pages - 1, page);
            if (strcmp(error.message, says) != 0)
                h_fail(__FILE__, __LINE__, "'%s', expected '%s'", error.message, says);
        }
        for (size_t at = 0; at < p.value[n->y].count; at++) {
            const int64_t row = (int64_t)at / s.depth;
            const int64_t own = row / (s.columns * s.shared) * all + row % s.columns / s.size;
            H_CHECK(isnan(y[at]) == (own == bad || !h_is_cuda())); /* which it was before, too */
        }
        free(y);
        entry[bad] = 0;
        dp_put(&p, n->table, entry);
        dp_compute(dnn, &p); /* nothing is left of it */
        dp_compare(&p);
        dp_drop(&p);
    }
    dp_close(&world);
}

/* A table that comes of a request sent right before, and one of the same graph. */
static void tables_that_are_made(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(8); i++) {
        dp_problem p = {.kind = "tables that are made"}, copy = {.kind = "copies"};
        const ad_shape s = ad_draw_paged_shape(20);
        trp_completion first = {0}, second = {0};
        if (i % 2) {
            const uint32_t from = ad_memory(&p, TRP_I32, s.batches, 1, ad_pages_of(&s), 1);
            trp_dnn_node *n = ad_load(&p, &s, TRP_F32, s.depth, 0, false);
            p.packed = true;
            trp_dnn_node node = *n;
            *n = (trp_dnn_node){.kind = TRP_DNN_POINTWISE, .x = from, .y = node.table};
            *dp_node(&p, TRP_DNN_PAGED_LOAD) = node;
            dp_make(world.device, &p);
            double entry[3 * 64], length[4];
            for (int64_t e = 0; e < 3 * 64; e++)
                entry[e] = (double)dp_below(s.pages);
            for (int64_t b = 0; b < s.batches; b++)
                length[b] = (double)dp_from(1, s.columns);
            dp_put(&p, from, entry);
            dp_put(&p, node.seq_kv, length);
            dp_compute(dnn, &p);
            dp_compare(&p);
            dp_drop(&p);
            continue;
        }
        const trp_dnn_node *n = ad_load(&p, &s, TRP_F32, s.depth, 0, false);
        const int64_t dim[] = {s.batches, 1, ad_pages_of(&s), 1};
        trp_dnn_node *c = dp_node(&copy, TRP_DNN_POINTWISE);
        c->x = dp_memory(&copy, TRP_I32, 4, dim);
        c->y = dp_memory(&copy, TRP_I32, 4, dim);
        copy.packed = p.packed = true;
        dp_make(world.device, &p);
        dp_make(world.device, &copy);
        dp_put(&copy, c->x, p.value[n->table].v);
        const trp_buffer old = p.tensor[n->table].buffer;
        p.tensor[n->table].buffer = copy.tensor[c->y].buffer; /* 0xff, which is no page */
        H_OK(dp_send(dnn, &copy, &first));
        H_OK(dp_send(dnn, &p, &second));
        H_OK(h_await(first.future, NULL));
        dp_await(&p, TRP_OK, second);
        p.tensor[n->table].buffer = old;
        dp_compare(&p);
        dp_drop(&p);
        dp_drop(&copy);
    }
    dp_close(&world);
}

H_CASES(H_CASE(layers), H_CASE(nowhere), H_CASE(tables_that_are_made))
