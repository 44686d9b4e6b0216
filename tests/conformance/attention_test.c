/* Attention in the conformance suite: forward, its gradient, and keys and values in pages. */
#include "conformance/dnn_graphs.h"
#include "support/problems/attention_draw.h"

TROUPE_TEST("long", "computes", "no tsan");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

/* Shapes as in models; most have several tiles of rows or columns. */
static const struct {
    ad_shape s;
    trp_dnn_mask mask;
    int64_t window;
    bool bias, lengths;
} large[] = {
    {{1, 2, 2, 130, 130, 64, 64, 0, 0}, TRP_DNN_MASK_CAUSAL, 0, false, false},
    {{2, 4, 1, 70, 199, 64, 64, 0, 0}, TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT, 0, false, false},
    {{1, 4, 2, 129, 160, 32, 64, 0, 0}, TRP_DNN_MASK_NONE, 0, true, false},
    {{1, 2, 2, 192, 192, 16, 16, 0, 0}, TRP_DNN_MASK_CAUSAL, 20, false, false},
    {{3, 2, 2, 100, 100, 32, 32, 0, 0}, TRP_DNN_MASK_CAUSAL, 0, false, true},
    {{3, 2, 1, 100, 150, 32, 32, 0, 0}, TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT, 33, false, true},
    {{2, 2, 2, 1, 140, 64, 64, 0, 0}, TRP_DNN_MASK_NONE, 0, false, true},
};
enum { LARGE = sizeof large / sizeof *large, WAYS = 24 };

static trp_dnn_node *draw(dp_problem *p, trp_dtype type, int way)
{
    if (way >= LARGE || type == TRP_F64) {
        const ad_shape s = ad_draw_shape(way % 10 ? 9 : 40);
        trp_dnn_node *n = ad_forward(p, &s, type);
        ad_options(p, n, &s, type);
        return n;
    }
    const ad_shape *s = &large[way].s;
    trp_dnn_node *n = ad_forward(p, s, type);
    n->mask = large[way].mask;
    n->window[0] = large[way].window;
    if (large[way].bias)
        n->bias = ad_memory(p, type, 1, s->heads, s->rows, s->columns);
    if (large[way].lengths) {
        n->seq_q = ad_lengths(p, s->batches, s->rows);
        n->seq_kv = ad_lengths(p, s->batches, s->columns);
    }
    return n;
}

static void attention(dp_problem *p, trp_dtype type, int way)
{
    draw(p, type, way);
}

static void attention_backward(dp_problem *p, trp_dtype type, int way)
{
    ad_backward(p, draw(p, type, way));
}

static void paged_load(dp_problem *p, trp_dtype type, int way)
{
    (void)way;
    const ad_shape s = ad_draw_paged_shape(20);
    ad_load(p, &s, type, s.depth, 0, false);
}

static void paged_attention(dp_problem *p, trp_dtype type, int way)
{
    const ad_shape s = ad_draw_paged_shape(way % 10 ? 20 : 60);
    trp_dnn_node *n = ad_paged(p, &s, type);
    if (dp_below(3) == 0) {
        n->parameter[1] = trp_real(0.25);
        n->seed = dp_value(p, 0);
        p->tensor[n->seed] = trp_dnn_integer(ad_bits());
    }
}

static void paged_backward(dp_problem *p, trp_dtype type, int way)
{
    (void)way;
    const ad_shape s = ad_draw_paged_shape(20);
    ad_backward(p, ad_paged(p, &s, type));
}

static const cf_graph rows[] = {
    CF_GRAPH("attention", attention, CF_WIDE, WAYS),
    CF_GRAPH("attention_backward", attention_backward, CF_WIDE, WAYS),
    CF_GRAPH("paged_load", paged_load, CF_WIDE, 1),
    CF_GRAPH("paged_attention", paged_attention, CF_WIDE, 10),
    CF_GRAPH("paged_backward", paged_backward, CF_WIDE, 1),
};

int main(int argc, char **argv)
{
    return cf_graphs_main(argc, argv, "dnn: attention", rows, sizeof rows / sizeof *rows);
}
