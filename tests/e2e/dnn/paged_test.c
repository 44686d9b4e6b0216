/* Keys and values in pages: PAGED_LOAD, attention and its gradient behind it, and tables that lead
 * nowhere. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_draw.h"
#include "support/problems/dnn_wrong.h"
#include "support/label.h"

#include <math.h>
#include <troupe/layers.h>

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

static h_world world;
static trp_actor *dnn;

/* --- problems --- */

typedef struct shape {
    int64_t batches, heads, shared, rows, columns, depth, width;
    int64_t size, pages; /* rows of a page, pages in all */
} shape;

static trp_dtype draw_type(void)
{
    static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_F16, TRP_BF16};
    return types[dp_below(4)];
}

static shape draw_shape(int64_t most)
{
    shape s = {.batches = dp_from(1, 3),
               .shared = dp_from(1, 3),
               .rows = dp_from(1, 5),
               .columns = dp_from(1, most),
               .depth = dp_from(1, 9),
               .width = dp_from(1, 9),
               .size = dp_from(1, 6),
               .pages = dp_from(1, 12)};
    if (dp_below(2)) { /* as cuDNN has them */
        s.depth = 8 * dp_from(1, 2);
        s.width = 8 * dp_from(1, 2);
    }
    s.heads = s.shared * dp_from(1, 3);
    return s;
}

static int64_t pages_of(const shape *s)
{
    return (s->columns + s->size - 1) / s->size;
}

static uint32_t memory(dp_problem *p, trp_dtype type, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return dp_memory(p, type, 4, (const int64_t[]){b, h, i, j});
}

/* One node, whose result is virtual if `inside`; of the lengths there is one tensor. */
static trp_dnn_node *load(dp_problem *p, const shape *s, trp_dtype type, int64_t depth,
                          uint32_t lengths, bool inside)
{
    trp_dnn_node *n = dp_node(p, TRP_DNN_PAGED_LOAD);
    n->x = memory(p, type, s->pages, s->shared, s->size, depth);
    n->table = memory(p, TRP_I32, s->batches, 1, pages_of(s), 1);
    n->seq_kv = lengths ? lengths : memory(p, TRP_I32, s->batches, 1, 1, 1);
    n->y = inside ? dp_virtual(p, type) : memory(p, type, s->batches, s->shared, s->columns, depth);
    if (inside) {
        trp_dnn_tensor *y = &p->tensor[n->y];
        const int64_t dim[] = {s->batches, s->shared, s->columns, depth};
        y->rank = 4;
        memcpy(y->dim, dim, sizeof dim);
    }
    return n;
}

/* A table; false: it has something else than pages where that is looked at, for several entries may
 * share a place. */
static bool put_table(dp_problem *p, uint32_t table, const double *length, const shape *s,
                      bool garbage)
{
    const int64_t all = pages_of(s);
    double entry[3 * 64];
    bool good = true;
    for (int64_t e = 0; e < s->batches * all; e++) {
        const bool looked_at = (double)(e % all * s->size) < length[e / all];
        const double nowhere = dp_below(2) ? -1 - (double)dp_below(9) : INT32_MAX;
        entry[e] = looked_at || !garbage ? (double)dp_below(s->pages) : nowhere;
    }
    dp_put(p, table, entry);
    for (int64_t e = 0; e < s->batches * all; e++) {
        const double page = p->value[table].v[e];
        const bool looked_at = (double)(e % all * s->size) < length[e / all];
        good = good && (!looked_at || (page >= 0 && page < (double)s->pages));
    }
    return good;
}

/* Lengths, and tables of which all that those allow are pages; the rest is not looked at. */
static void put_tables(dp_problem *p, const shape *s)
{
    const uint32_t lengths = p->node[0].seq_kv;
    double length[4] = {0};
    for (int64_t b = 0; b < s->batches; b++)
        length[b] = (double)dp_from(h_is_cuda() ? 1 : 0, s->columns);
    if (dp_below(3) == 0)
        length[0] = (double)s->columns;
    dp_put(p, lengths, length);
    for (uint32_t i = 0; i < p->nodes; i++) {
        const trp_dnn_node *n = &p->node[i];
        if (n->kind == TRP_DNN_PAGED_LOAD && !put_table(p, n->table, p->value[lengths].v, s, true))
            H_CHECK(put_table(p, n->table, p->value[lengths].v, s, false));
    }
}

static void make(dp_problem *p, const shape *s)
{
    dp_make(world.device, p);
    put_tables(p, s);
}

static void check(dp_problem *p, const shape *s)
{
    make(p, s);
    dp_compute(dnn, p);
    dp_compare(p);
    dp_drop(p);
}

static void loads(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(60); i++) {
        dp_problem p = {.kind = "pages"};
        const shape s = draw_shape(20);
        load(&p, &s, draw_type(), s.depth, 0, false);
        check(&p, &s);
    }
    dp_close(&world);
}

/* Keys and values from pages of a pool each. */
static trp_dnn_node *attention(dp_problem *p, const shape *s, trp_dtype type)
{
    const trp_dtype sums = type == TRP_F64 ? TRP_F64 : TRP_F32;
    const trp_dnn_node *k = load(p, s, type, s->depth, 0, true);
    const uint32_t lengths = k->seq_kv, keys = k->y;
    const uint32_t values = load(p, s, type, s->width, lengths, true)->y;
    trp_dnn_node *n = dp_node(p, TRP_DNN_ATTENTION);
    n->q = memory(p, type, s->batches, s->heads, s->rows, s->depth);
    n->k = keys;
    n->v = values;
    n->y = memory(p, type, s->batches, s->heads, s->rows, s->width);
    n->stats = memory(p, sums, s->batches, s->heads, s->rows, 1);
    n->seq_q = memory(p, TRP_I32, s->batches, 1, 1, 1);
    n->seq_kv = lengths;
    n->mask = (trp_dnn_mask)dp_below(3);
    n->window[0] = dp_below(3) == 0 ? dp_from(1, s->columns) : 0;
    return n;
}

static void put_rows(dp_problem *p, uint32_t tensor, const shape *s)
{
    double rows[4] = {0};
    for (int64_t b = 0; b < s->batches; b++)
        rows[b] = (double)dp_from(h_is_cuda() ? 1 : 0, s->rows);
    dp_put(p, tensor, rows);
}

static void attentions(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(40); i++) {
        dp_problem p = {.kind = "attention to pages"};
        const shape s = draw_shape(i % 10 ? 20 : 60);
        trp_dnn_node *n = attention(&p, &s, draw_type());
        if (dp_below(3) == 0) {
            n->parameter[1] = trp_real(0.25);
            n->seed = dp_value(&p, 0);
            p.tensor[n->seed] = trp_dnn_integer((uint64_t)dp_below(INT64_MAX));
        }
        make(&p, &s);
        put_rows(&p, n->seq_q, &s);
        dp_compute(dnn, &p);
        dp_compare(&p);
        dp_drop(&p);
    }
    dp_close(&world);
}

static void gradients(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(20); i++) {
        dp_problem p = {.kind = "gradient, from pages"};
        const shape s = draw_shape(20);
        const trp_dtype type = draw_type();
        const trp_dnn_node *f = attention(&p, &s, type);
        const uint32_t rows = f->seq_q;
        trp_dnn_node *n = dp_node(&p, TRP_DNN_ATTENTION_BACKWARD);
        *n = *f;
        n->kind = TRP_DNN_ATTENTION_BACKWARD;
        n->dy = memory(&p, type, s.batches, s.heads, s.rows, s.width);
        n->dq = memory(&p, type, s.batches, s.heads, s.rows, s.depth);
        n->dk = memory(&p, type, s.batches, s.shared, s.columns, s.depth);
        n->dv = memory(&p, type, s.batches, s.shared, s.columns, s.width);
        make(&p, &s);
        put_rows(&p, rows, &s);
        dp_compute(dnn, &p);
        dp_compare(&p);
        dp_drop(&p);
    }
    dp_close(&world);
}

static void layers(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(20); i++) {
        dp_problem p = {.kind = "attention layer, pages"};
        shape s = draw_shape(20);
        const bool whole = dp_below(2);
        if (whole)
            s.columns = pages_of(&s) * s.size;
        trp_completion done = {0};
        const trp_dnn_node *n = attention(&p, &s, draw_type());
        const trp_dnn_node *k = &p.node[0], *v = &p.node[1];
        make(&p, &s);
        put_rows(&p, n->seq_q, &s);
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
        shape s = draw_shape(20);
        s.batches = 2;
        const trp_dnn_node *n = load(&p, &s, draw_type(), s.depth, 0, false);
        make(&p, &s);
        const double length[] = {(double)s.columns, (double)s.columns};
        const int64_t all = pages_of(&s), bad = dp_below(2 * all);
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
        const shape s = draw_shape(20);
        trp_completion first = {0}, second = {0};
        if (i % 2) {
            const uint32_t from = memory(&p, TRP_I32, s.batches, 1, pages_of(&s), 1);
            trp_dnn_node *n = load(&p, &s, TRP_F32, s.depth, 0, false);
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
        const trp_dnn_node *n = load(&p, &s, TRP_F32, s.depth, 0, false);
        const int64_t dim[] = {s.batches, 1, pages_of(&s), 1};
        trp_dnn_node *c = dp_node(&copy, TRP_DNN_POINTWISE);
        c->x = dp_memory(&copy, TRP_I32, 4, dim);
        c->y = dp_memory(&copy, TRP_I32, 4, dim);
        copy.packed = p.packed = true;
        make(&p, &s);
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

/* --- wrong ones --- */

enum { NONE, X, TABLE, LENGTHS, Y, TENSORS };

static void make_wrong(dw_graph *p, const trp_buffer buffer[])
{
    *p = (dw_graph){
        .tensor = {DW_TENSOR(X, TRP_F32, 9, 2, 4, 8), DW_TENSOR(TABLE, TRP_I32, 3, 1, 5, 1),
                   DW_TENSOR(LENGTHS, TRP_I32, 3, 1, 1, 1), DW_TENSOR(Y, TRP_F32, 3, 2, 18, 8)},
        .node = {{.kind = TRP_DNN_PAGED_LOAD, .x = X, .table = TABLE, .seq_kv = LENGTHS, .y = Y}}};
}

#define B(text) "nodes[0]." text " (paged_load): "
#define BAD_CASES(BAD)                                                                             \
    BAD(B("x") "expected a tensor, 1 to 4, got 0", p->node->x = 0)                                 \
    BAD(B("table") "expected a tensor, 1 to 4, got 0", p->node->table = 0)                         \
    BAD(B("seq_kv") "expected a tensor, 1 to 4, got 0", p->node->seq_kv = 0)                       \
    BAD(B("x") "expected 4 dimensions, pages, heads, rows and depth, got 3",                       \
        (p->tensor[X].rank = 3, p->tensor[X].dim[3] = 0))                                          \
    BAD(B("x") "dimension 2: expected pages of at least 1 row, got 0", p->tensor[X].dim[2] = 0)    \
    BAD(B("x") "dimension 0: expected at least 1 page, got 0", p->tensor[X].dim[0] = 0)            \
    BAD(B("x") "expected f64, f32, f16 or bf16, got i8", p->tensor[X].type = TRP_I8)               \
    BAD(B("table") "expected batches x 1 x pages x 1, got 3 x 2 x 5 x 1",                          \
        p->tensor[TABLE].dim[1] = 2)                                                               \
    BAD(B("table") "expected batches x 1 x pages x 1, got 3 x 5 x 1 x 1",                          \
        (p->tensor[TABLE].rank = 2, p->tensor[TABLE].dim[1] = 5, p->tensor[TABLE].dim[2] = 0,      \
         p->tensor[TABLE].dim[3] = 0))                                                             \
    BAD(B("table") "dimension 2: expected 5, for 18 rows in pages of 4, got 4",                    \
        p->tensor[TABLE].dim[2] = 4)                                                               \
    BAD(B("table") "expected i32, got f32", p->tensor[TABLE].type = TRP_F32)                       \
    BAD(B("table") "expected another type than i64", p->tensor[TABLE].type = TRP_I64)              \
    BAD(B("seq_kv") "expected i32, got u8", p->tensor[LENGTHS].type = TRP_U8)                      \
    BAD(B("seq_kv") "expected 3 x 1 x 1 x 1, got 2 x 1 x 1 x 1", p->tensor[LENGTHS].dim[0] = 2)    \
    BAD(B("y") "expected 3 x 2 x 18 x 8, got 3 x 3 x 18 x 8", p->tensor[Y].dim[1] = 3)             \
    BAD(B("y") "expected 3 x 2 x 18 x 8, got 4 x 2 x 18 x 8", p->tensor[Y].dim[0] = 4)             \
    BAD(B("y") "expected f32, as x has, got f16", p->tensor[Y].type = TRP_F16)                     \
    BAD(B("y") "expected 4 dimensions, got 3", (p->tensor[Y].rank = 3, p->tensor[Y].dim[3] = 0))   \
    BAD("nodes[0].table: expected 0, for pointwise has no such tensor",                            \
        p->node[0] = ((trp_dnn_node){.kind = TRP_DNN_POINTWISE, .x = X, .y = Y, .table = TABLE}))  \
    BAD("tensors[4]: it overlaps tensors[1], and is written",                                      \
        p->tensor[Y].buffer = p->tensor[X].buffer)

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
    trp_attention_request r = {.q = p.tensor[Y],
                               .k = p.tensor[X],
                               .v = p.tensor[X],
                               .y = p.tensor[Y],
                               .table_k = p.tensor[TABLE]};
    H_IS(trp_attention_forward(dnn, &r, &c), TRP_E_ARGUMENT);
    H_SAYS("seq_kv: expected a tensor with a buffer, for table_k is there");
    H_IS(trp_attention_backward(dnn, &r, &c), TRP_E_UNSUPPORTED);
    H_SAYS("table_k: the gradient of attention knows no pages");
    r.seq_kv = p.tensor[LENGTHS];
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

static void wrong_nodes(void)
{
    trp_buffer buffer[TENSORS] = {0};
    const dw_table table = {TENSORS, 1, make_wrong, spoil, buffer};
    world = dp_open(&dnn);
    for (int i = 1; i < TENSORS; i++)
        buffer[i] = h_buffer(world.device, 1 << 14);
    DW_CHECK(dnn, &table);
    wrong_layers(buffer);
    h_close(&world);
}

static const h_case cases[] = {
    {"loads", loads},
    {"attentions", attentions},
    {"gradients", gradients},
    {"layers", layers},
    {"nowhere", nowhere},
    {"tables_that_are_made", tables_that_are_made},
    {"wrong_nodes", wrong_nodes},
};

int main(int argc, char **argv)
{
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
