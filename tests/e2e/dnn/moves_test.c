/* Concatenations, slices, transpositions and reshapes of the dnn actor, of every type and layout,
 * alone and beside other nodes, against a float64 reference; and what is wrong with them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_draw.h"
#include "support/label.h"

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static h_world world;
static trp_actor *dnn;

static trp_dtype draw_type(void)
{
    static const trp_dtype all[] = {TRP_I8, TRP_U8, TRP_I32, TRP_BOOL};
    return dp_below(3) ? dd_float() : all[dp_below(COUNT_OF(all))];
}

static trp_dtype draw_output(trp_dtype type)
{
    static const trp_dtype others[] = {TRP_U8, TRP_BOOL};
    return dp_below(8) ? dd_output(type) : others[dp_below(COUNT_OF(others))];
}

static uint32_t draw_dims(int64_t *dim)
{
    const uint32_t rank = (uint32_t)dp_from(1, 5);
    for (uint32_t i = 0; i < rank; i++)
        dim[i] = dp_below(20) ? dp_from(1, 6) : 0;
    return rank;
}

static void draw_concatenation(dp_problem *p)
{
    int64_t dim[TRP_DNN_RANK_MAX] = {0}, y[TRP_DNN_RANK_MAX];
    const trp_dtype type = draw_type();
    const uint32_t rank = draw_dims(dim);
    trp_dnn_node *n = dp_node(p, TRP_DNN_CONCATENATE);
    n->axis = (uint32_t)dp_below(rank);
    memcpy(y, dim, sizeof y);
    y[n->axis] = 0;
    for (int k = 0; k < dp_from(1, TRP_DNN_PARTS_MAX); k++) {
        dim[n->axis] = dp_below(6) ? dp_from(1, 5) : 0;
        if (k > 0 && dp_below(6) == 0) /* the others go on behind it */
            continue;
        n->part[k] = dp_memory(p, type, rank, dim);
        y[n->axis] += dim[n->axis];
    }
    n->y = dp_memory(p, draw_output(type), rank, y);
}

static void draw_slice(dp_problem *p)
{
    int64_t x[TRP_DNN_RANK_MAX] = {0}, y[TRP_DNN_RANK_MAX] = {0};
    const trp_dtype type = draw_type();
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

static void draw_transposition(dp_problem *p)
{
    int64_t x[TRP_DNN_RANK_MAX] = {0}, y[TRP_DNN_RANK_MAX] = {0};
    const trp_dtype type = draw_type();
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

/* Factors of the same number, in another order. */
static void draw_reshape(dp_problem *p)
{
    const int64_t factor[] = {dp_from(1, 4), dp_from(1, 4), dp_from(1, 4), dp_below(12) ? 2 : 0};
    int64_t x[TRP_DNN_RANK_MAX] = {0}, y[TRP_DNN_RANK_MAX] = {0};
    const trp_dtype type = draw_type();
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

static void alone(void)
{
    static void (*const draws[])(dp_problem *) = {draw_concatenation, draw_slice,
                                                  draw_transposition, draw_reshape};
    static const char *const names[] = {"concatenate", "slice", "transpose", "reshape"};
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(100); i++) {
        dp_problem p = {.kind = names[i % 4]};
        draws[i % 4](&p);
        dp_check(world.device, dnn, &p);
    }
    dp_close(&world);
}

/* Two halves of the channels, one of them convolved, put together again and taken apart into rows:
 * all that lies between is virtual. */
static void among_others(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(10); i++) {
        dp_problem p = {.kind = "split, convolve, concatenate"};
        const int64_t images = dp_from(1, 3), half = dp_from(1, 3), side = dp_from(2, 5);
        const int64_t x[] = {images, 2 * half, side, side}, each[] = {images, half, side, side};
        const int64_t w[] = {half, half, 3, 3}, rows[] = {images * side, 2 * half * side};
        const int64_t turned[] = {images, side, 2 * half, side};
        const trp_dtype type = dp_below(2) ? TRP_F32 : TRP_F64;
        const uint32_t image = dp_memory(&p, type, 4, x), filter = dp_memory(&p, type, 4, w);
        uint32_t part[2], last;
        for (int k = 0; k < 2; k++) {
            trp_dnn_node *n = dp_node(&p, TRP_DNN_SLICE);
            n->x = image;
            n->start[1] = k * half;
            part[k] = n->y = dp_virtual(&p, type);
            p.tensor[n->y].rank = 4;
            memcpy(p.tensor[n->y].dim, each, sizeof each);
        }
        trp_dnn_node *n = dp_node(&p, TRP_DNN_CONV_FORWARD);
        n->x = part[1];
        n->w = filter;
        n->pre_pad[0] = n->pre_pad[1] = n->post_pad[0] = n->post_pad[1] = 1;
        last = n->y = dp_virtual(&p, type);
        n = dp_node(&p, TRP_DNN_CONCATENATE);
        n->part[0] = last;
        n->part[5] = part[0];
        n->axis = 1;
        last = n->y = dp_virtual(&p, type);
        p.tensor[last].rank = 4;
        memcpy(p.tensor[last].dim, x, sizeof x);
        n = dp_node(&p, TRP_DNN_TRANSPOSE);
        n->x = last;
        n->order[0] = 0;
        n->order[1] = 2;
        n->order[2] = 1;
        n->order[3] = 3;
        last = n->y = dp_virtual(&p, type);
        p.tensor[last].rank = 4;
        memcpy(p.tensor[last].dim, turned, sizeof turned);
        n = dp_node(&p, TRP_DNN_RESHAPE);
        n->x = last;
        n->y = dp_memory(&p, type, 2, rows);
        dp_check(world.device, dnn, &p);
    }
    dp_close(&world);
}

/* What is done to good nodes (1: a concatenation of tensors 1 and 2; 2: a slice of 1; 3: a
 * transposition of it, 4: a reshape), and what is said of it. */
#define BAD_CASES(BAD)                                                                             \
    BAD(0, "nodes[0].axis (concatenate): expected 0 to 7, got 8", n->axis = 8)                     \
    BAD(0, "nodes[0].axis (concatenate): expected less than the 3 dimensions, got 3", n->axis = 3) \
    BAD(0, "nodes[0].part[0] (concatenate): expected a tensor, 1 to 3, got 0", n->part[0] = 0)     \
    BAD(0, "nodes[0].x: expected 0, for concatenate has no such tensor, got 1", n->x = 1)          \
    BAD(0, "nodes[0].part[1] (concatenate): dimension 2: expected 4, got 5", t[2].dim[2] = 5)      \
    BAD(0, "nodes[0].part[1] (concatenate): expected 3 dimensions, got 2",                         \
        (t[2].rank = 2, t[2].dim[2] = 0))                                                          \
    BAD(0, "nodes[0].part[1] (concatenate): expected a tensor with elements, got a number",        \
        t[2] = (trp_dnn_tensor){.value = trp_real(1)})                                             \
    BAD(0, "nodes[0].y (concatenate): dimension 1: expected 6, got 5", t[3].dim[1] = 5)            \
    BAD(0, "nodes[0].y (concatenate): expected 3 dimensions, got 2",                               \
        (t[3].rank = 2, t[3].dim[2] = 0))                                                          \
    BAD(0, "nodes[0].start[1] (concatenate): expected 0 to 0, got 1", n->start[1] = 1)             \
    BAD(0, "nodes[0].order[0] (concatenate): expected 0 to 0, got 2", n->order[0] = 2)             \
    BAD(1, "nodes[0].axis (slice): expected 0, got 1", n->axis = 1)                                \
    BAD(1, "nodes[0].start[2] (slice): expected 0 to 4, got 5", n->start[2] = 5)                   \
    BAD(1, "nodes[0].start[0] (slice): expected 0 to 2147483647, got -1", n->start[0] = -1)        \
    BAD(1, "nodes[0].start[3] (slice): expected 0 to 0, got 1", n->start[3] = 1)                   \
    BAD(1, "nodes[0].step[4] (slice): expected 0, for x has 3 dimensions, got 2", n->step[4] = 2)  \
    BAD(1, "nodes[0].y (slice): dimension 1: expected 0 to 2, got 3",                              \
        (n->step[1] = 2, t[3].dim[1] = 3))                                                         \
    BAD(1, "nodes[0].compute (slice): expected f64, for it reads f64 or i32, got f32",             \
        (t[1].type = TRP_I32, n->compute = TRP_F32))                                               \
    BAD(1, "nodes[0].compute (slice): expected f32 or f64, got i32", n->compute = TRP_I32)         \
    BAD(2, "nodes[0].order[1] (transpose): expected each of the 3 dimensions once, then 0, got 2", \
        n->order[1] = 2)                                                                           \
    BAD(2, "nodes[0].order[2] (transpose): expected each of the 3 dimensions once, then 0, got 3", \
        n->order[2] = 3)                                                                           \
    BAD(2, "nodes[0].order[3] (transpose): expected each of the 3 dimensions once, then 0, got 1", \
        n->order[3] = 1)                                                                           \
    BAD(2, "nodes[0].y (transpose): dimension 0: expected 4, got 2", t[3].dim[0] = 2)              \
    BAD(3, "nodes[0].y (reshape): expected the 24 elements of x, got 12", t[3].dim[0] = 3)         \
    BAD(3, "nodes[0].step[0] (reshape): expected 0 to 0, got 1", n->step[0] = 1)                   \
    BAD(3, "nodes[0].kind: expected a trp_dnn_kind", n->kind = (trp_dnn_kind)99)

static void make(int which, trp_dnn_tensor *t, trp_dnn_node *n)
{
    static const int64_t y[4][3] = {{2, 6, 4}, {2, 3, 4}, {4, 2, 3}, {6, 4}};
    for (int i = 1; i <= 3; i++)
        t[i] =
            (trp_dnn_tensor){.type = TRP_F32, .rank = 3, .dim = {2, 3, 4}, .buffer = t[i].buffer};
    memcpy(t[3].dim, y[which], sizeof y[which]);
    if (which == 3)
        t[3].rank = 2;
    *n = (trp_dnn_node){.kind = (trp_dnn_kind)(TRP_DNN_CONCATENATE + which), .y = 3};
    if (which == 0) {
        n->part[0] = 1;
        n->part[1] = 2;
        n->axis = 1;
    } else {
        n->x = 1;
    }
    if (which == 2) {
        n->order[0] = 2;
        n->order[2] = 1;
    }
}

static void wrong_ones(void)
{
    trp_dnn_tensor t[4] = {{0}};
    trp_dnn_node node, *const n = &node;
    trp_buffer kept[4] = {{0}};
    world = dp_open(&dnn);
    for (int i = 1; i <= 3; i++)
        kept[i] = h_buffer(world.device, 4096);
#define TRY(which, says, change)                                                                   \
    {                                                                                              \
        memset(t, 0, sizeof t);                                                                    \
        for (int i = 1; i <= 3; i++)                                                               \
            t[i].buffer = kept[i];                                                                 \
        make(which, t, n);                                                                         \
        change;                                                                                    \
        const trp_dnn_graph_request r = {                                                          \
            .tensors = t, .tensor_count = 4, .nodes = n, .node_count = 1};                         \
        H_IS(trp_dnn_graph(dnn, &r, NULL), TRP_E_ARGUMENT);                                        \
        H_SAYS(says);                                                                              \
    }
    BAD_CASES(TRY)
#undef TRY
    dp_close(&world);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {
        {"alone", alone}, {"among_others", among_others}, {"wrong_ones", wrong_ones}};
    return h_main(argc, argv, cases, COUNT_OF(cases));
}
