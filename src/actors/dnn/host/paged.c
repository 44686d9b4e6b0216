#include "actors/dnn/host/paged.h"

#include "actors/dnn/graph/train_op.h"
#include "base/error.h"

#include <troupe/convert.h>

#include <math.h>
#include <string.h>

/* A node with its tensors in memory. */
typedef struct paged {
    const trp__dnn_tensor *x, *table, *lengths, *y;
    const char *from;
    const int32_t *page, *length;
    char *to;
} paged;

static const trp__dnn_tensor *tensor_at(const trp__dnn_graph *g, const trp__dnn_node *n, int port)
{
    return &g->tensor[n->port[port]];
}

static paged describe(const trp__dnn_host_run *run, const trp__dnn_node *n)
{
    const trp__dnn_graph *g = &run->graph;
    return (paged){.x = tensor_at(g, n, TRP__DNN_PAGED_X),
                   .table = tensor_at(g, n, TRP__DNN_PAGED_TABLE),
                   .lengths = tensor_at(g, n, TRP__DNN_PAGED_SEQ_KV),
                   .y = tensor_at(g, n, TRP__DNN_PAGED_Y),
                   .from = run->place[n->port[TRP__DNN_PAGED_X]],
                   .page = run->place[n->port[TRP__DNN_PAGED_TABLE]],
                   .length = run->place[n->port[TRP__DNN_PAGED_SEQ_KV]],
                   .to = run->place[n->port[TRP__DNN_PAGED_Y]]};
}

/* Returns the existing rows of a batch. */
static int64_t rows_of(const paged *p, int64_t batch)
{
    const int64_t length = p->length[batch * p->lengths->stride[0]], most = p->y->dim[2];
    return length < 0 ? 0 : length < most ? length : most;
}

static int64_t page_of(const paged *p, int64_t batch, int64_t entry)
{
    return p->page[batch * p->table->stride[0] + entry * p->table->stride[2]];
}

static bool is_known(const trp__dnn_tensor *t)
{
    return t->role == TRP__DNN_BUFFER && !t->written;
}

static bool can_be_looked_at(const trp__dnn_graph *g, const trp__dnn_node *n)
{
    return n->kind == TRP_DNN_PAGED_LOAD && is_known(tensor_at(g, n, TRP__DNN_PAGED_TABLE)) &&
           is_known(tensor_at(g, n, TRP__DNN_PAGED_SEQ_KV)) &&
           trp__dnn_elements(tensor_at(g, n, TRP__DNN_PAGED_Y)) > 0;
}

bool trp__dnn_host_has_tables(const trp__dnn_graph *graph)
{
    bool any = false;
    for (int i = 0; i < graph->head->nodes; i++)
        any = any || can_be_looked_at(graph, &graph->node[i]) ||
              trp__train_has_indices(graph, &graph->node[i]);
    return any;
}

static trp_status look_at(const paged *p, int index, trp_error *error)
{
    for (int64_t b = 0; b < p->y->dim[0]; b++) {
        const int64_t rows = rows_of(p, b), size = p->x->dim[2];
        for (int64_t e = 0; e * size < rows; e++) {
            const int64_t page = page_of(p, b, e);
            if (page < 0 || page >= p->x->dim[0])
                return trp__error_set(error, TRP_E_ARGUMENT,
                                      "nodes[%d].table (paged_load): entry %lld of batch %lld: "
                                      "expected a page, 0 to %lld, got %lld",
                                      index, (long long)e, (long long)b,
                                      (long long)p->x->dim[0] - 1, (long long)page);
        }
    }
    return TRP_OK;
}

trp_status trp__dnn_host_look(const trp__dnn_host_run *run, trp_error *error)
{
    const trp__dnn_graph *g = &run->graph;
    trp_status status = TRP_OK;
    for (int i = 0; i < g->head->nodes && status == TRP_OK; i++) {
        if (can_be_looked_at(g, &g->node[i])) {
            const paged p = describe(run, &g->node[i]);
            status = look_at(&p, i, error);
        }
        if (trp__train_has_indices(g, &g->node[i]))
            status = trp__train_look(run, i, error);
    }
    return status;
}

static void put_row(const paged *p, const char *from, int64_t from_step, char *to, size_t size)
{
    const int64_t depth = p->y->dim[3], to_step = p->y->stride[3] * (int64_t)size;
    if (from_step == (int64_t)size && to_step == from_step) {
        memcpy(to, from, (size_t)depth * size);
        return;
    }
    for (int64_t d = 0; d < depth; d++)
        memcpy(to + d * to_step, from + d * from_step, size);
}

static int64_t offset_of(const trp__dnn_tensor *t, int64_t b, int64_t h, int64_t row)
{
    return b * t->stride[0] + h * t->stride[1] + row * t->stride[2];
}

static void put_head(const paged *p, int64_t b, int64_t h, const void *zero, const void *nan)
{
    const size_t size = trp_dtype_bits((trp_dtype)p->y->type) / 8;
    const int64_t rows = rows_of(p, b), each = p->x->dim[2];
    for (int64_t row = 0; row < p->y->dim[2]; row++) {
        char *to = p->to + offset_of(p->y, b, h, row) * (int64_t)size;
        const int64_t page = row < rows ? page_of(p, b, row / each) : 0;
        if (row >= rows)
            put_row(p, zero, 0, to, size);
        else if (page < 0 || page >= p->x->dim[0])
            put_row(p, nan, 0, to, size);
        else
            put_row(p, p->from + offset_of(p->x, page, h, row % each) * (int64_t)size,
                    p->x->stride[3] * (int64_t)size, to, size);
    }
}

void trp__dnn_host_paged_load(const trp__dnn_host_run *run, const trp__dnn_node *n)
{
    static const double none = 0, bad = NAN;
    const paged p = describe(run, n);
    unsigned char zero[sizeof none], nan[sizeof bad];
    (void)trp_convert(TRP_F64, &none, (trp_dtype)p.y->type, zero, 1);
    (void)trp_convert(TRP_F64, &bad, (trp_dtype)p.y->type, nan, 1);
    for (int64_t b = 0; b < p.y->dim[0] && trp__dnn_elements(p.y) > 0; b++) {
        for (int64_t h = 0; h < p.y->dim[1]; h++)
            put_head(&p, b, h, zero, nan);
    }
}
