/* See attention_draw.h. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/attention_draw.h"

trp_dtype ad_type(void)
{
    static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_F32, TRP_F16, TRP_BF16};
    return types[dp_below(5)];
}

ad_shape ad_draw_shape(int64_t most)
{
    ad_shape s = {.batches = dp_from(1, 3),
                  .shared = dp_from(1, 3),
                  .rows = dp_from(1, most),
                  .columns = dp_from(1, most),
                  .depth = dp_from(1, 9),
                  .width = dp_from(1, 9)};
    if (dp_below(2)) { /* strides as cuDNN takes them */
        s.depth = 8 * dp_from(1, 2);
        s.width = 8 * dp_from(1, 2);
    }
    s.heads = s.shared * dp_from(1, 3);
    if (dp_below(3))
        s.columns = s.rows;
    return s;
}

ad_shape ad_draw_paged_shape(int64_t most)
{
    ad_shape s = ad_draw_shape(5);
    s.columns = dp_from(1, most);
    s.size = dp_from(1, 6);
    s.pages = dp_from(1, 12);
    return s;
}

uint32_t ad_memory(dp_problem *p, trp_dtype type, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return dp_memory(p, type, 4, (const int64_t[]){b, h, i, j});
}

uint32_t ad_lengths(dp_problem *p, int64_t batches, int64_t most)
{
    return dp_span(p, TRP_I32, 4, (const int64_t[]){batches, 1, 1, 1}, h_is_cuda() ? 1 : 0, most);
}

trp_dnn_node *ad_forward(dp_problem *p, const ad_shape *s, trp_dtype type)
{
    const trp_dtype sums = type == TRP_F64 ? TRP_F64 : TRP_F32;
    trp_dnn_node *n = dp_node(p, TRP_DNN_ATTENTION);
    n->q = ad_memory(p, type, s->batches, s->heads, s->rows, s->depth);
    n->k = ad_memory(p, type, s->batches, s->shared, s->columns, s->depth);
    n->v = ad_memory(p, type, s->batches, s->shared, s->columns, s->width);
    n->y = ad_memory(p, type, s->batches, s->heads, s->rows, s->width);
    n->stats = ad_memory(p, sums, s->batches, s->heads, s->rows, 1);
    return n;
}

static void add_bias(dp_problem *p, trp_dnn_node *n, const ad_shape *s, trp_dtype type)
{
    n->bias = ad_memory(p, type, dp_below(2) ? s->batches : 1, dp_below(2) ? s->heads : 1,
                        dp_below(3) ? s->rows : 1, dp_below(4) ? s->columns : 1);
}

uint64_t ad_bits(void)
{
    return (uint64_t)dp_below(INT64_C(1) << 32) << 32 | (uint64_t)dp_below(INT64_C(1) << 32);
}

static uint32_t add_integer(dp_problem *p, bool in_memory)
{
    if (in_memory)
        return dp_memory(p, TRP_I64, 1, (const int64_t[]){1});
    const uint32_t number = dp_value(p, 0);
    p->tensor[number] = trp_dnn_integer(ad_bits());
    return number;
}

static void add_dropout(dp_problem *p, trp_dnn_node *n, double probability)
{
    n->parameter[1] = trp_real(probability);
    const int64_t in_memory = dp_below(3); /* both would need one buffer too many */
    n->seed = add_integer(p, in_memory == 0);
    n->offset = dp_below(2) ? add_integer(p, in_memory == 1) : 0;
}

void ad_options(dp_problem *p, trp_dnn_node *n, const ad_shape *s, trp_dtype type)
{
    n->mask = (trp_dnn_mask)dp_below(3);
    n->window[0] = dp_below(3) == 0 ? dp_from(1, s->columns) : 0;
    if (dp_below(3) == 0)
        n->parameter[0] = trp_real(dp_below(2) ? 0.3 : -0.7);
    if (dp_below(3) == 0)
        add_bias(p, n, s, type);
    if (dp_below(4) == 0)
        n->slopes = ad_memory(p, type == TRP_F64 ? TRP_F64 : TRP_F32, 1, s->heads, 1, 1);
    if (dp_below(3) == 0) {
        n->seq_q = ad_lengths(p, s->batches, s->rows);
        n->seq_kv = ad_lengths(p, s->batches, s->columns);
    }
    if (dp_below(3) == 0)
        add_dropout(p, n, ref_rng_uniform(h_rng(), 0.05, 0.95));
}

trp_dnn_node *ad_backward(dp_problem *p, const trp_dnn_node *f)
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

/* ---- pages ---- */

int64_t ad_pages_of(const ad_shape *s)
{
    return (s->columns + s->size - 1) / s->size;
}

/* Sets a table. The lengths allow only entries that are pages; other entries may hold anything.
 * False: an entry that is read is no page, as entries may share memory. */
static bool set_table(dp_problem *p, const trp_dnn_node *n, bool garbage)
{
    const int64_t *table = p->tensor[n->table].dim, count = table[0] * table[2];
    const double pages = (double)p->tensor[n->x].dim[0], size = (double)p->tensor[n->x].dim[2];
    double *entry = h_malloc((size_t)count * sizeof *entry);
    bool good = true;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t e = 0; e < count; e++) {
            const double length = p->value[n->seq_kv].v[e / table[2]];
            const bool looked_at = (double)(e % table[2]) * size < length;
            const double page = p->value[n->table].v[e];
            if (pass > 0)
                good = good && (!looked_at || (page >= 0 && page < pages));
            else if (looked_at || !garbage)
                entry[e] = (double)dp_below((int64_t)pages);
            else
                entry[e] = dp_below(2) ? -1 - (double)dp_below(9) : INT32_MAX;
        }
        if (pass == 0)
            dp_set(p, n->table, entry);
    }
    free(entry);
    return good;
}

static void set_tables(dp_problem *p)
{
    for (uint32_t i = 0; i < p->nodes; i++) {
        const trp_dnn_node *n = &p->node[i];
        if (n->kind == TRP_DNN_PAGED_LOAD && !p->written[n->table] && !set_table(p, n, true))
            H_CHECK(set_table(p, n, false));
    }
}

trp_dnn_node *ad_load(dp_problem *p, const ad_shape *s, trp_dtype type, int64_t depth,
                      uint32_t lengths, bool inside)
{
    const int64_t dim[] = {s->batches, s->shared, s->columns, depth};
    trp_dnn_node *n = dp_node(p, TRP_DNN_PAGED_LOAD);
    p->settle = set_tables;
    n->x = ad_memory(p, type, s->pages, s->shared, s->size, depth);
    n->table = ad_memory(p, TRP_I32, s->batches, 1, ad_pages_of(s), 1);
    n->seq_kv = lengths ? lengths : ad_lengths(p, s->batches, s->columns);
    n->y = inside ? dp_shape(p, dp_virtual(p, type), 4, dim) : dp_memory(p, type, 4, dim);
    return n;
}

trp_dnn_node *ad_paged(dp_problem *p, const ad_shape *s, trp_dtype type)
{
    const trp_dtype sums = type == TRP_F64 ? TRP_F64 : TRP_F32;
    const trp_dnn_node *k = ad_load(p, s, type, s->depth, 0, true);
    const uint32_t lengths = k->seq_kv, keys = k->y;
    const uint32_t values = ad_load(p, s, type, s->width, lengths, true)->y;
    trp_dnn_node *n = dp_node(p, TRP_DNN_ATTENTION);
    n->q = ad_memory(p, type, s->batches, s->heads, s->rows, s->depth);
    n->k = keys;
    n->v = values;
    n->y = ad_memory(p, type, s->batches, s->heads, s->rows, s->width);
    n->stats = ad_memory(p, sums, s->batches, s->heads, s->rows, 1);
    n->seq_q = ad_lengths(p, s->batches, s->rows);
    n->seq_kv = lengths;
    n->mask = (trp_dnn_mask)dp_below(3);
    n->window[0] = dp_below(3) == 0 ? dp_from(1, s->columns) : 0;
    return n;
}
