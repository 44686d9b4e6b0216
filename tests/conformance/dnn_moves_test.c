/* The dnn actor in the conformance suite: nodes that move data, draw random numbers, and convert to
 * 8 bits and back, alone and with other nodes. */
#include "conformance/dnn_graphs.h"

#include <math.h>

TROUPE_TEST("computes");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

/* ---- moves ---- */

static trp_dtype draw_output(trp_dtype type)
{
    static const trp_dtype others[] = {TRP_U8, TRP_BOOL};
    return dp_below(8) ? dd_output(type) : others[dp_below(2)];
}

static uint32_t draw_dims(int64_t *dim)
{
    const uint32_t rank = (uint32_t)dp_from(1, 5);
    for (uint32_t i = 0; i < rank; i++)
        dim[i] = dp_below(20) ? dp_from(1, 6) : 0;
    return rank;
}

static void concatenation(dp_problem *p, trp_dtype type, int way)
{
    (void)way;
    int64_t dim[TRP_DNN_RANK_MAX] = {0}, y[TRP_DNN_RANK_MAX];
    const uint32_t rank = draw_dims(dim);
    trp_dnn_node *n = dp_node(p, TRP_DNN_CONCATENATE);
    n->axis = (uint32_t)dp_below(rank);
    memcpy(y, dim, sizeof y);
    y[n->axis] = 0;
    for (int k = 0; k < dp_from(1, TRP_DNN_PARTS_MAX); k++) {
        dim[n->axis] = dp_below(6) ? dp_from(1, 5) : 0;
        if (k > 0 && dp_below(6) == 0) /* further nodes follow it */
            continue;
        n->part[k] = dp_memory(p, type, rank, dim);
        y[n->axis] += dim[n->axis];
    }
    n->y = dp_memory(p, draw_output(type), rank, y);
}

static void slice(dp_problem *p, trp_dtype type, int way)
{
    (void)way;
    int64_t x[TRP_DNN_RANK_MAX] = {0}, y[TRP_DNN_RANK_MAX] = {0};
    const uint32_t rank = draw_dims(x);
    trp_dnn_node *n = dp_node(p, TRP_DNN_SLICE);
    for (uint32_t i = 0; i < rank; i++) {
        n->start[i] = dp_below(x[i] + 1);
        n->step[i] = dp_from(0, 3);
        const int64_t step = n->step[i] ? n->step[i] : 1;
        const int64_t most = (x[i] - n->start[i] + step - 1) / step;
        y[i] = most > 0 ? dp_from(dp_below(8) != 0, most) : 0;
    }
    n->x = dp_memory(p, type, rank, x);
    n->y = dp_memory(p, draw_output(type), rank, y);
}

static void transposition(dp_problem *p, trp_dtype type, int way)
{
    (void)way;
    int64_t x[TRP_DNN_RANK_MAX] = {0}, y[TRP_DNN_RANK_MAX] = {0};
    const uint32_t rank = draw_dims(x);
    trp_dnn_node *n = dp_node(p, TRP_DNN_TRANSPOSE);
    for (uint32_t i = 0; i < rank; i++)
        n->order[i] = i;
    for (uint32_t i = rank; i-- > 1;) {
        const uint32_t other = (uint32_t)dp_below(i + 1), kept = n->order[i];
        n->order[i] = n->order[other];
        n->order[other] = kept;
    }
    for (uint32_t i = 0; i < rank; i++)
        y[i] = x[n->order[i]];
    n->x = dp_memory(p, type, rank, x);
    n->y = dp_memory(p, draw_output(type), rank, y);
}

/* The same product of dimensions, in another order. */
static void reshape(dp_problem *p, trp_dtype type, int way)
{
    (void)way;
    const int64_t factor[] = {dp_from(1, 4), dp_from(1, 4), dp_from(1, 4), dp_below(12) ? 2 : 0};
    int64_t x[TRP_DNN_RANK_MAX] = {0}, y[TRP_DNN_RANK_MAX] = {0};
    const uint32_t ranks[] = {(uint32_t)dp_from(1, 5), (uint32_t)dp_from(1, 5)};
    trp_dnn_node *n = dp_node(p, TRP_DNN_RESHAPE);
    for (int k = 0; k < 2; k++) {
        int64_t *dim = k ? y : x;
        for (uint32_t i = 0; i < ranks[k]; i++)
            dim[i] = 1;
        for (int i = 0; i < 4; i++)
            dim[dp_below(ranks[k])] *= factor[i];
    }
    n->x = dp_memory(p, type, ranks[0], x);
    n->y = dp_memory(p, draw_output(type), ranks[1], y);
}

/* Splits the channels, convolves one half, joins the halves and splits them into rows; all tensors
 * between are virtual. */
static void split(dp_problem *p, trp_dtype type, int way)
{
    (void)way;
    const int64_t images = dp_from(1, 3), half = dp_from(1, 3), side = dp_from(2, 5);
    const int64_t x[] = {images, 2 * half, side, side}, each[] = {images, half, side, side};
    const int64_t w[] = {half, half, 3, 3}, rows[] = {images * side, 2 * half * side};
    const int64_t turned[] = {images, side, 2 * half, side};
    const uint32_t image = dp_memory(p, type, 4, x), filter = dp_memory(p, type, 4, w);
    uint32_t part[2];
    for (int k = 0; k < 2; k++) {
        trp_dnn_node *n = dp_node(p, TRP_DNN_SLICE);
        n->x = image;
        n->start[1] = k * half;
        part[k] = n->y = dp_shape(p, dp_virtual(p, type), 4, each);
    }
    trp_dnn_node *conv = dp_node(p, TRP_DNN_CONV_FORWARD), *n = dp_node(p, TRP_DNN_CONCATENATE);
    conv->x = part[1];
    conv->w = filter;
    conv->pre_pad[0] = conv->pre_pad[1] = conv->post_pad[0] = conv->post_pad[1] = 1;
    n->part[0] = conv->y = dp_virtual(p, type);
    n->part[5] = part[0];
    n->axis = 1;
    const uint32_t joined = n->y = dp_shape(p, dp_virtual(p, type), 4, x);
    n = dp_node(p, TRP_DNN_TRANSPOSE);
    n->x = joined;
    memcpy(n->order, (const uint32_t[]){0, 2, 1, 3}, 4 * sizeof *n->order);
    const uint32_t last = n->y = dp_shape(p, dp_virtual(p, type), 4, turned);
    n = dp_node(p, TRP_DNN_RESHAPE);
    n->x = last;
    n->y = dp_memory(p, type, 2, rows);
}

/* ---- random numbers ---- */

static void random_numbers(dp_problem *p, trp_dtype type, trp_dnn_random random)
{
    int64_t dim[TRP_DNN_RANK_MAX];
    trp_dnn_node *n = dd_random(p, random);
    const uint32_t rank = (uint32_t)dp_from(1, 5);
    for (uint32_t k = 0; k < rank; k++)
        dim[k] = dp_below(20) ? dp_from(1, rank == 1 ? 3000 : 7) : 0;
    n->y = dp_memory(p, type, rank, dim);
    if (dp_below(4) == 0)
        n->compute = dp_below(2) ? TRP_F64 : TRP_F32;
}

static void uniform_or_normal(dp_problem *p, trp_dtype type, int way)
{
    random_numbers(p, type, (trp_dnn_random)way);
}

static void bernoulli(dp_problem *p, trp_dtype type, int way)
{
    (void)way;
    random_numbers(p, type, TRP_DNN_BERNOULLI);
}

/* y = x * mask / (1 - p). The mask is virtual, or kept for the gradient; otherwise the gradient
 * draws the same numbers again. */
static void dropout(dp_problem *p, trp_dtype type, int way)
{
    (void)way;
    const int64_t dim[] = {dp_from(1, 3), dp_from(1, 5), dp_from(1, 9)};
    const double keep = ref_rng_uniform(h_rng(), 0.1, 1);
    const uint32_t scale = dp_value(p, 1 / keep);
    uint32_t words[2] = {0, 0};
    for (int pass = 0; pass < 2; pass++) {
        trp_dnn_node *n = pass ? dp_node(p, TRP_DNN_RANDOM) : dd_random(p, TRP_DNN_BERNOULLI);
        if (pass) {
            n->seed = words[0];
            n->offset = words[1];
            n->random = TRP_DNN_BERNOULLI;
        }
        words[0] = n->seed;
        words[1] = n->offset;
        n->parameter[0] = trp_real(keep);
        const uint32_t mask = n->y =
            dp_below(2) ? dp_memory(p, TRP_BOOL, 3, dim) : dp_shape(p, dp_virtual(p, 0), 3, dim);
        n = dp_node(p, TRP_DNN_POINTWISE);
        n->pointwise = TRP_DNN_MUL;
        n->x = dp_memory(p, type, 3, dim);
        n->b = mask;
        const uint32_t dropped = n->y = dp_virtual(p, type);
        n = dp_node(p, TRP_DNN_POINTWISE);
        n->pointwise = TRP_DNN_MUL;
        n->x = dropped;
        n->b = scale;
        n->y = dp_memory(p, type, 3, dim);
    }
}

/* ---- numbers of 8 bits in blocks, with a scale each ---- */

static const trp_dtype narrows[] = {TRP_F8E4M3, TRP_F8E5M2},
                       scales[] = {TRP_F8E8M0, TRP_F8E4M3, TRP_F32};

/* Chooses any axis, and lines whose last block is whole or not. */
static uint32_t block_dims(trp_dnn_node *n, int64_t *dim)
{
    const uint32_t rank = (uint32_t)dp_from(1, 4);
    for (uint32_t i = 0; i < rank; i++)
        dim[i] = dp_below(25) ? dp_from(1, 4) : 0;
    n->axis = (uint32_t)dp_below(rank);
    n->block = 16 * (uint32_t)dp_below(3);
    dim[n->axis] = dp_below(4) ? dp_from(1, 100) : 32 * dp_below(4);
    n->compute = dp_below(4) ? TRP_DTYPE_NONE : TRP_F64;
    return rank;
}

static void quantize(dp_problem *p, trp_dtype type, int way)
{
    int64_t dim[TRP_DNN_RANK_MAX];
    trp_dnn_node *n = dp_node(p, TRP_DNN_BLOCK_SCALE_QUANTIZE);
    const uint32_t rank = block_dims(n, dim);
    n->x = dp_memory(p, type, rank, dim);
    n->y = dp_memory(p, narrows[way % 2], rank, dim);
    n->scale = dd_scale_of(p, scales[way / 2], n, n->x);
    p->fill[n->x] = dp_below(2) ? DP_WIDE : DP_ANY;
}

static void dequantize(dp_problem *p, trp_dtype type, int way)
{
    int64_t dim[TRP_DNN_RANK_MAX];
    trp_dnn_node *n = dp_node(p, TRP_DNN_BLOCK_SCALE_DEQUANTIZE);
    const uint32_t rank = block_dims(n, dim);
    n->x = dp_memory(p, narrows[way % 2], rank, dim);
    n->scale = dd_scale_of(p, scales[way / 2], n, n->x);
    n->y = dp_memory(p, type, rank, dim);
}

/* Converts random numbers to 8 bits and back through virtual tensors, and writes the error. */
static void there_and_back(dp_problem *p, trp_dtype type, int way)
{
    const int64_t rows = dp_from(1, 5), columns = dp_from(1, 80), dim[] = {rows, columns};
    const bool second = dp_below(2);
    const int64_t each[] = {second ? rows : (rows + 15) / 16,
                            second ? (columns + 15) / 16 : columns};
    trp_dnn_node *n = dd_random(p, (trp_dnn_random)(2 * dp_below(2)));
    const uint32_t x = n->y = dp_memory(p, type, 2, dim);
    n = dp_node(p, TRP_DNN_BLOCK_SCALE_QUANTIZE);
    n->axis = second;
    n->block = 16;
    n->x = x;
    const uint32_t few = n->y = dp_virtual(p, narrows[way % 2]);
    const uint32_t scale = n->scale = dp_shape(p, dp_virtual(p, scales[way / 2]), 2, each);
    n = dp_node(p, TRP_DNN_BLOCK_SCALE_DEQUANTIZE);
    n->axis = second;
    n->block = 16;
    n->x = few;
    n->scale = scale;
    const uint32_t again = n->y = dp_virtual(p, type);
    n = dp_node(p, TRP_DNN_POINTWISE);
    n->pointwise = TRP_DNN_SUB;
    n->x = again;
    n->b = x;
    n->y = dp_memory(p, type, 2, dim);
}

/* ---- operations ---- */

static const cf_graph rows[] = {
    CF_GRAPH("concatenate", concatenation, CF_ALL_TYPES, 1),
    CF_GRAPH("slice", slice, CF_ALL_TYPES, 1),
    CF_GRAPH("transpose", transposition, CF_ALL_TYPES, 1),
    CF_GRAPH("reshape", reshape, CF_ALL_TYPES, 1),
    CF_GRAPH("split", split, 2, 1),
    CF_GRAPH("random", uniform_or_normal, CF_FLOATS, 2),
    CF_GRAPH("bernoulli", bernoulli, CF_ALL_TYPES, 1),
    CF_GRAPH("dropout", dropout, CF_FLOATS, 1),
    CF_GRAPH("quantize", quantize, 3, 6, .first = 1),
    CF_GRAPH("dequantize", dequantize, 3, 6, .first = 1),
    CF_GRAPH("there_and_back", there_and_back, 1, 6, .first = 1),
};

int main(int argc, char **argv)
{
    return cf_graphs_main(argc, argv, "dnn: moves, random numbers, blocks", rows,
                          sizeof rows / sizeof *rows);
}
