/* Nodes other than convolutions by oneDNN: pooling. */
#include "actors/dnn/host/onednn/api.h"

#if TRP__ONEDNN

#include <string.h>

/* Elements below which own loops are faster than creating and calling a primitive. */
enum { WORTH = 1 << 15 };

bool trp__onednn_dense(const trp__onednn_engine *dnn, int rank, const int64_t *dims,
                       dnnl_memory_desc_t *out)
{
    dnnl_dims_t size, strides;
    int64_t next = 1;
    for (int i = rank - 1; i >= 0; i--) {
        size[i] = dims[i];
        strides[i] = next;
        next *= dims[i];
    }
    return next > 0 && dnn->f->dnnl_memory_desc_init_by_strides(out, rank, size, dnnl_f32,
                                                                strides) == dnnl_success;
}

void trp__onednn_describe(const trp__onednn_engine *dnn, dnnl_status_t status,
                          const void *operation, const trp__onednn_call *forward,
                          trp__onednn_call *out)
{
    const char *name = "";
    *out = (trp__onednn_call){.dnn = dnn};
    out->good =
        status == dnnl_success && (!forward || forward->good) &&
        dnn->f->dnnl_primitive_desc_create(&out->what, operation, NULL, dnn->engine,
                                           forward ? forward->what : NULL) == dnnl_success &&
        dnn->f->dnnl_primitive_desc_query(out->what, dnnl_query_impl_info_str, 0, &name) ==
            dnnl_success &&
        !strstr(name, "ref");
}

void trp__onednn_give(trp__onednn_call *c, int name, const dnnl_memory_desc_t *md, const void *at)
{
    dnnl_exec_arg_t *a = &c->argument[c->count];
    c->good = c->good && c->count < TRP__ONEDNN_ARGUMENTS && md &&
              c->dnn->f->dnnl_memory_create(&a->memory, md, c->dnn->engine,
                                            (void *)(uintptr_t)at) == dnnl_success;
    if (c->good)
        c->argument[c->count++].arg = name;
}

/* Passes the first memory of another call, which ends later. */
static void lend(trp__onednn_call *c, int name, const trp__onednn_call *other)
{
    c->good = c->good && c->count < TRP__ONEDNN_ARGUMENTS && other->count > 0;
    if (!c->good)
        return;
    c->lent[c->count] = true;
    c->argument[c->count++] = (dnnl_exec_arg_t){name, other->argument[0].memory};
}

bool trp__onednn_execute(trp__onednn_call *c)
{
    const trp__onednn *f = c->dnn->f;
    dnnl_primitive_t primitive = NULL;
    c->good = c->good && f->dnnl_primitive_create(&primitive, c->what) == dnnl_success &&
              f->dnnl_primitive_execute(primitive, c->dnn->stream, c->count, c->argument) ==
                  dnnl_success &&
              f->dnnl_stream_wait(c->dnn->stream) == dnnl_success;
    if (primitive)
        f->dnnl_primitive_destroy(primitive);
    return c->good;
}

void trp__onednn_end(trp__onednn_call *c)
{
    for (int i = 0; i < c->count; i++) {
        if (!c->lent[i])
            c->dnn->f->dnnl_memory_destroy(c->argument[i].memory);
    }
    if (c->what)
        c->dnn->f->dnnl_primitive_desc_destroy(c->what);
}

bool trp__onednn_within(const float *x, int64_t count, float most)
{
    enum { BLOCK = 512 }; /* a constant length, so that loops are vectorised */
    uint32_t limit, bits[BLOCK];
    memcpy(&limit, &most, sizeof limit);
    for (int64_t at = 0; at < count; at += BLOCK) {
        int64_t some = count - at < BLOCK ? count - at : BLOCK;
        uint32_t beyond = 0;
        if (some < BLOCK)
            memset(bits, 0, sizeof bits);
        memcpy(bits, x + at, (size_t)some * sizeof *bits);
        for (int i = 0; i < BLOCK; i++)
            beyond |= (bits[i] & INT32_MAX) > limit;
        if (beyond)
            return false;
    }
    return true;
}

/* Pooling. oneDNN's index format differs from ours. */

typedef struct pool {
    const trp__onednn_engine *dnn;
    const trp__dnn_node *n;
    dnnl_memory_desc_t in, out;
    dnnl_alg_kind_t kind;
    dnnl_dims_t stride, window, left, right;
} pool;

/* A mean over more elements exceeds the promised error of a tree of sums: oneDNN adds one by one in
 * f32.
 */
enum { EXACT_TAPS = 8192 };

static bool describe_pool(const trp__onednn_engine *dnn, const trp__dnn_host_node *x, pool *p)
{
    static const dnnl_alg_kind_t kinds[] = {
        [TRP_DNN_POOL_MAX] = dnnl_pooling_max,
        [TRP_DNN_POOL_AVERAGE] = dnnl_pooling_avg_exclude_padding,
        [TRP_DNN_POOL_AVERAGE_PADDED] = dnnl_pooling_avg_include_padding};
    const trp__dnn_tensor *in = x->tensor[TRP__DNN_RESAMPLE_X];
    const trp__dnn_tensor *out = x->tensor[TRP__DNN_RESAMPLE_Y];
    const trp__dnn_node *n = x->n;
    int64_t taps = 1;
    *p = (pool){.dnn = dnn, .n = n, .kind = kinds[n->mode]};
    for (int i = 0; i < n->spatial; i++) {
        if (n->pre_pad[i] >= n->window[i] || n->post_pad[i] >= n->window[i])
            return false; /* windows in the padding only */
        p->stride[i] = n->stride[i];
        p->window[i] = n->window[i];
        taps *= n->window[i];
        p->left[i] = n->pre_pad[i];
        p->right[i] = n->post_pad[i] + trp__dnn_beyond(n, i, in->dim[2 + i], out->dim[2 + i]);
        if (p->right[i] >= n->window[i] ||
            (p->right[i] > n->post_pad[i] && n->mode == TRP_DNN_POOL_AVERAGE_PADDED))
            return false; /* it would count excluded padding */
    }
    if (n->mode != TRP_DNN_POOL_MAX && taps > EXACT_TAPS)
        return false;
    return trp__dnn_elements(in) >= WORTH && !x->at[TRP__DNN_RESAMPLE_INDEX] &&
           trp__onednn_dense(dnn, in->rank, in->dim, &p->in) &&
           trp__onednn_dense(dnn, out->rank, out->dim, &p->out);
}

static void describe_forward(const pool *p, dnnl_prop_kind_t kind, trp__onednn_call *c)
{
    dnnl_pooling_desc_t what;
    dnnl_status_t status = p->dnn->f->dnnl_pooling_forward_desc_init(
        &what, kind, p->kind, &p->in, &p->out, p->stride, p->window, p->left, p->right);
    trp__onednn_describe(p->dnn, status, &what, NULL, c);
}

static bool run_pool(const pool *p, const trp__dnn_host_node *x)
{
    const float *in = x->at[TRP__DNN_RESAMPLE_X];
    trp__onednn_call c;
    if (!trp__onednn_within(in, trp__dnn_elements(x->tensor[TRP__DNN_RESAMPLE_X]), 1e36F))
        return false; /* its maximum ignores NaN, and its sums are in f32 */
    describe_forward(p, dnnl_forward_inference, &c);
    trp__onednn_give(&c, DNNL_ARG_SRC, &p->in, in);
    trp__onednn_give(&c, DNNL_ARG_DST, &p->out, x->at[TRP__DNN_RESAMPLE_Y]);
    bool good = trp__onednn_execute(&c);
    trp__onednn_end(&c);
    return good;
}

/* The positions of maxima are in the workspace of a forward pass, which is repeated for it. */
static bool run_pool_backward(const pool *p, const trp__dnn_host_node *x)
{
    const trp__onednn *f = p->dnn->f;
    const float *old = x->at[TRP__DNN_RESAMPLE_OLD_X];
    const bool max = p->n->mode == TRP_DNN_POOL_MAX;
    dnnl_pooling_desc_t what;
    trp__onednn_call forward, c;
    if (max && !trp__onednn_within(old, trp__dnn_elements(x->tensor[TRP__DNN_RESAMPLE_X]), 3.0e38F))
        return false;
    describe_forward(p, dnnl_forward_training, &forward);
    dnnl_status_t status = f->dnnl_pooling_backward_desc_init(
        &what, p->kind, &p->in, &p->out, p->stride, p->window, p->left, p->right);
    trp__onednn_describe(p->dnn, status, &what, &forward, &c);
    if (max && c.good) {
        trp__onednn_give(&forward, DNNL_ARG_WORKSPACE,
                         f->dnnl_primitive_desc_query_md(forward.what, dnnl_query_workspace_md, 0),
                         DNNL_MEMORY_ALLOCATE);
        trp__onednn_give(&forward, DNNL_ARG_SRC, &p->in, old);
        trp__onednn_give(&forward, DNNL_ARG_DST, &p->out, DNNL_MEMORY_ALLOCATE);
        c.good = trp__onednn_execute(&forward);
        lend(&c, DNNL_ARG_WORKSPACE, &forward);
    }
    trp__onednn_give(&c, DNNL_ARG_DIFF_DST, &p->out, x->at[TRP__DNN_RESAMPLE_Y]);
    trp__onednn_give(&c, DNNL_ARG_DIFF_SRC, &p->in, x->at[TRP__DNN_RESAMPLE_X]);
    bool good = trp__onednn_execute(&c);
    trp__onednn_end(&c);
    trp__onednn_end(&forward);
    return good;
}

bool trp__onednn_pool(const trp__onednn_engine *dnn, const trp__dnn_host_node *x)
{
    pool p;
    if (!describe_pool(dnn, x, &p))
        return false;
    return x->n->kind == TRP_DNN_RESAMPLE_FORWARD ? run_pool(&p, x) : run_pool_backward(&p, x);
}

bool trp__onednn_node(const trp__onednn_engine *dnn, const trp__dnn_host_node *x)
{
    switch (x->n->kind) {
    case TRP_DNN_RESAMPLE_FORWARD:
    case TRP_DNN_RESAMPLE_BACKWARD:
        return trp__onednn_pool(dnn, x);
    case TRP_DNN_NORM_TRAINING:
    case TRP_DNN_NORM_INFERENCE:
        return trp__onednn_norm(dnn, x);
    case TRP_DNN_NORM_BACKWARD:
        return trp__onednn_norm_backward(dnn, x);
    default:
        return false;
    }
}

#endif
