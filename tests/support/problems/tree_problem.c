#include "support/problems/tree_problem.h"

#include "support/reference/elements.h"
#include "support/reference/random.h"

enum { SIDE = 40 };

static int below(int bound)
{
    return (int)ref_rng_below(h_rng(), (size_t)bound);
}

static void add(tree_problem *p, int which, trp_dtype type, int64_t elements, bool written)
{
    p->type[which] = type;
    p->written[which] = written;
    p->bytes[which] = (size_t)elements * (trp_dtype_bits(type) / 8);
    p->data[which] = h_malloc(p->bytes[which]);
    for (int64_t i = 0; i < elements; i++)
        ref_element_store(type, p->data[which], i, below(9) - 4);
}

static trp_matmul_matrix matrix(tree_problem *p, int which, trp_dtype type, trp_order order,
                                int64_t rows, int64_t columns)
{
    trp_matmul_matrix x = {.type = type, .order = order};
    int64_t lines = order == TRP_ROW_MAJOR ? rows : columns;
    x.ld = (order == TRP_ROW_MAJOR ? columns : rows) + (below(3) ? 0 : 16);
    x.stride = lines * x.ld;
    add(p, which, type, x.stride * p->r.batch, which == TREE_D);
    return x;
}

static void place_node(tree_problem *p, uint32_t i)
{
    trp_epilogue_node *x = &p->tree.node[i];
    trp_dtype compute = p->tree.accumulator == TRP_F64 ? TRP_F64 : TRP_F32, type = x->type;
    int64_t count = 1;
    bool shared = below(3) == 0, written = epilogue_is_sink(x->kind);
    x->ld = x->stride = 0;
    x->offset = 0;
    if (x->kind == TRP_EPILOGUE_AUX_LOAD || x->kind == TRP_EPILOGUE_AUX_STORE) {
        x->ld = (x->order == TRP_ROW_MAJOR ? p->r.n : p->r.m) + (below(3) ? 0 : 16);
        count = x->ld * (x->order == TRP_ROW_MAJOR ? p->r.m : p->r.n);
        type = type ? type : p->tree.d;
        shared = shared && !written;
    } else if (x->kind == TRP_EPILOGUE_PER_ROW || x->kind == TRP_EPILOGUE_SCALE_ROWS ||
               x->kind == TRP_EPILOGUE_REDUCE_ROWS) {
        count = p->r.m;
    } else if (x->kind == TRP_EPILOGUE_PER_COLUMN || x->kind == TRP_EPILOGUE_SCALE_COLUMNS ||
               x->kind == TRP_EPILOGUE_REDUCE_COLUMNS) {
        count = p->r.n;
    }
    x->stride = shared ? 0 : count;
    add(p, (int)i, type ? type : compute, count * p->r.batch, written);
}

static int64_t size(bool aligned)
{
    int64_t some = 1 + below(SIDE);
    return aligned ? (some + 15) / 16 * 16 : some;
}

void tree_draw(uint64_t *rng, const tree_options *options, tree_problem *p)
{
    trp_order orders[2] = {TRP_ROW_MAJOR, TRP_COL_MAJOR};
    memset(p, 0, sizeof *p);
    do
        epilogue_draw(rng, options->limits, &p->tree);
    while (options->half_only && p->tree.accumulator != TRP_F32);
    p->r.m = size(options->aligned);
    p->r.n = size(options->aligned);
    p->r.k = size(options->aligned);
    p->r.batch = below(2) ? 1 : 1 + below(3);
    trp_dtype a = p->tree.accumulator == TRP_F64   ? TRP_F64
                  : p->tree.accumulator == TRP_I32 ? TRP_I8
                                                   : TRP_BF16;
    p->r.a = matrix(p, TREE_A, a, orders[below(2)], p->r.m, p->r.k);
    p->r.b = matrix(p, TREE_B, a, orders[below(2)], p->r.k, p->r.n);
    if (p->tree.c)
        p->r.c = matrix(p, TREE_C, p->tree.c, p->tree.order, p->r.m, p->r.n);
    p->r.d = matrix(p, TREE_D, p->tree.d, p->tree.order, p->r.m, p->r.n);
    for (uint32_t i = 1; i < p->tree.count; i++) {
        if (epilogue_has_memory(p->tree.node[i].kind) && p->tree.node[i].buffer.id)
            place_node(p, i);
    }
}

void tree_place(tree_side *s, const tree_problem *p)
{
    for (int i = 0; i < TREE_OPERANDS; i++) {
        s->buffer[i] = (trp_buffer){0};
        if (!p->data[i])
            continue;
        s->buffer[i] = h_buffer(s->device, p->bytes[i]);
        h_write(s->device, s->buffer[i], 0, p->data[i], p->bytes[i]);
    }
}

void tree_send(tree_side *s, tree_problem *p, const char *kernel)
{
    for (uint32_t i = 0; i < p->tree.count; i++) {
        if (p->data[i])
            p->tree.node[i].buffer = s->buffer[i];
    }
    p->r.a.buffer = s->buffer[TREE_A];
    p->r.b.buffer = s->buffer[TREE_B];
    p->r.c.buffer = s->buffer[TREE_C];
    p->r.d.buffer = s->buffer[TREE_D];
    p->r.epilogue = p->tree.node;
    p->r.epilogue_count = p->tree.count;
    p->r.kernel = kernel;
    s->done = (trp_completion){0};
    s->status = trp_cutlass_gemm(s->cutlass, &p->r, &s->done);
}

void tree_await(tree_side *s)
{
    if (s->status == TRP_OK)
        s->status = h_await_any(s->done);
}

unsigned char *tree_read(const tree_side *s, const tree_problem *p, int which)
{
    unsigned char *out = h_malloc(p->bytes[which]);
    h_read(s->device, s->buffer[which], 0, out, p->bytes[which]);
    return out;
}

void tree_free_side(tree_side *s, const tree_problem *p)
{
    for (int i = 0; i < TREE_OPERANDS; i++) {
        if (p->data[i])
            H_OK(trp_buffer_free(s->device, s->buffer[i]));
    }
}

void tree_free(tree_problem *p)
{
    for (int i = 0; i < TREE_OPERANDS; i++)
        free(p->data[i]);
}
