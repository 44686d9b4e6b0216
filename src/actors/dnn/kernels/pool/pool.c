/* Plans and launches the kernels of pool.h for a node. */
#include "actors/dnn/kernels/pool/pool.h"

#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/launch/row_spaces.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    COUNT_MAX = 1 << 30, /* threads or warps of a launch */
    ROWS_MIN = 4,        /* output rows of a band; with fewer, too many input rows are read twice */
    SHARED_MIN = 4 << 10, /* bytes of planes of a block, at least, if there are few blocks */
};

/* A node, or the part of it that one launch does. */
typedef struct pool {
    const trp__dnn_node *node;
    const trp__dnn_tensor *x, *y, *index, *old; /* x: the input of the windows, or its gradient */
    bool back, wide, large;
    bool typed; /* all tensors have one type that a kernel is made for */
    bool strip; /* backward: rows are written in strips */
    int run;    /* channels of a thread */
    int processors;
    trp__pool p;
} pool;

static trp__pool_operand operand_of(const pool *m, const trp__dnn_tensor *t)
{
    trp__pool_operand o = {.type = t->type, .batch = t->stride[0], .channel = t->stride[1]};
    const int missing = TRP__POOL_DIMS - m->node->spatial;
    for (int i = 0; i < m->node->spatial; i++)
        o.spatial[missing + i] = t->stride[2 + i];
    return o;
}

static void describe_window(pool *m)
{
    const int missing = TRP__POOL_DIMS - m->node->spatial;
    for (int k = 0; k < TRP__POOL_DIMS; k++) {
        const int i = k - missing;
        m->p.in[k] = i >= 0 ? (int32_t)m->x->dim[2 + i] : 1;
        m->p.out[k] = i >= 0 ? (int32_t)m->y->dim[2 + i] : 1;
        m->p.window[k] = i >= 0 ? m->node->window[i] : 1;
        m->p.pad[k] = i >= 0 ? m->node->pre_pad[i] : 0;
        m->p.end[k] = m->p.in[k] + (i >= 0 ? m->node->post_pad[i] : 0);
        m->p.stride[k] = i >= 0 ? m->node->stride[i] : 1;
        m->p.by_stride[k] = trp__map_divide_by((uint32_t)m->p.stride[k]);
    }
    m->p.mode = m->node->mode;
}

static bool fits_window(const pool *m)
{
    int64_t taps = 1;
    for (int i = 0; i < m->node->spatial; i++) {
        if (m->x->dim[2 + i] >= INT_MAX / 4 || m->y->dim[2 + i] >= INT_MAX / 4 ||
            m->node->window[i] >= INT_MAX / 4)
            return false;
        taps *= m->node->window[i];
        if (taps >= INT_MAX)
            return false;
    }
    return !m->index || m->index->type == (taps <= INT8_MAX + 1 ? TRP_I8 : TRP_I32);
}

/* Tells whether the channels of a tensor are neighbours, in aligned runs of `run`. */
static bool has_runs(const trp__dnn_tensor *t, int run)
{
    if (!t)
        return true;
    for (int i = 0; i < t->rank; i++) {
        if (i != 1 && t->dim[i] > 1 && t->stride[i] % run != 0)
            return false;
    }
    return t->stride[1] == 1 && t->dim[1] % run == 0 && trp__space_is_aligned(t, 16);
}

static bool is_one_type(const pool *m)
{
    const uint8_t type = m->x->type;
    return !m->wide && m->y->type == type && (!m->old || m->old->type == type);
}

/* Tells whether strips of 8 inputs of a row may be written by 16 bytes. */
static bool has_strip_runs(const trp__dnn_tensor *t)
{
    for (int i = 0; i < t->rank - 1; i++) {
        if (t->dim[i] > 1 && t->stride[i] % TRP__POOL_RUN != 0)
            return false;
    }
    return t->dim[t->rank - 1] % TRP__POOL_RUN == 0 && trp__space_is_aligned(t, 16);
}

static bool takes_tensor(const trp__dnn_tensor *t)
{
    return !t || (trp__rows_takes_type(t->type) && t->role != TRP__DNN_VALUE);
}

/* Sets the sizes that number the units of work of a launch. Returns the units of one element of
 * the batch; 0: too many. */
static int64_t set_sizes(pool *m, const trp__dnn_tensor *over, const int32_t dim[TRP__POOL_DIMS],
                         bool strip)
{
    const int64_t channels = over->dim[1] / m->run;
    int64_t size[4], all = 1;
    int i = 0;
    m->p.channels_last = m->run > 1 || (over->stride[1] < over->stride[over->rank - 1]);
    if (m->p.channels_last)
        size[i++] = channels;
    for (int k = TRP__POOL_DIMS - 1; k >= 0; k--)
        size[i++] = strip && k == TRP__POOL_DIMS - 1 ? (dim[k] + TRP__POOL_RUN - 1) / TRP__POOL_RUN
                                                     : dim[k];
    if (!m->p.channels_last)
        size[i++] = channels;
    for (i = 0; i < 4; i++) {
        if (size[i] > COUNT_MAX || all > COUNT_MAX / size[i])
            return 0;
        all *= size[i];
        m->p.size[i] = trp__map_divide_by((uint32_t)size[i]);
    }
    return all;
}

/* Finds how many channels a thread has, and whether a kernel for the type takes the node. Kernels
 * for any type have one channel per thread; those with a warp for each output also have `run`. */
static void find_runs(pool *m)
{
    const int64_t taps = (int64_t)m->p.window[0] * m->p.window[1] * m->p.window[2];
    const trp__dnn_tensor *x = m->x;
    m->large = taps >= TRP__POOL_LARGE && !m->back;
    m->typed =
        is_one_type(m) && (m->back ? (!m->old && !m->index) || taps <= INT8_MAX + 1 : !m->large);
    const int run = m->typed && x->type == TRP_F32 ? TRP__POOL_RUN / 2 : TRP__POOL_RUN;
    if (!m->wide && (m->typed || m->large) && has_runs(x, run) && has_runs(m->y, run) &&
        has_runs(m->index, run) && has_runs(m->old, run))
        m->run = run;
    m->strip = m->back && m->typed && m->run == 1 && x->stride[x->rank - 1] == 1 &&
               x->stride[1] >= x->stride[x->rank - 1];
    m->p.strip_runs = m->strip && has_strip_runs(x);
}

static bool describe(const trp__dnn_graph *g, const trp__dnn_node *n, pool *m)
{
    *m = (pool){.node = n, .back = n->kind == TRP_DNN_RESAMPLE_BACKWARD, .run = 1};
    if ((n->kind != TRP_DNN_RESAMPLE_FORWARD && !m->back) ||
        (n->compute != TRP_F32 && n->compute != TRP_F64))
        return false;
    m->x = trp__dnn_tensor_at(g, n, TRP__DNN_RESAMPLE_X);
    m->y = trp__dnn_tensor_at(g, n, TRP__DNN_RESAMPLE_Y);
    m->index = trp__dnn_tensor_at(g, n, TRP__DNN_RESAMPLE_INDEX);
    m->old = m->back && n->mode == TRP_DNN_POOL_MAX && !m->index
                 ? trp__dnn_tensor_at(g, n, TRP__DNN_RESAMPLE_OLD_X)
                 : NULL;
    if (!m->x || !m->y || !takes_tensor(m->x) || !takes_tensor(m->y) || !takes_tensor(m->old) ||
        (m->index && m->index->role == TRP__DNN_VALUE) || !fits_window(m))
        return false;
    m->wide = n->compute == TRP_F64 || m->x->type == TRP_F64 || m->y->type == TRP_F64 ||
              (m->old && m->old->type == TRP_F64);
    describe_window(m);
    find_runs(m);
    return set_sizes(m, m->y, m->p.out, false) > 0 && set_sizes(m, m->x, m->p.in, m->strip) > 0;
}

static uint32_t takes(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    pool m;
    return most > 0 && describe(g, &g->node[first], &m) ? 1 : 0;
}

/* Steps. */

typedef struct pass {
    trp__pool p;
    int64_t each; /* units of work for each element of the batch */
    uint32_t of_block;
    uint64_t blocks; /* of the kernel of planes; 0: another kernel runs */
    trp__kernel kernel;
} pass;

typedef struct step {
    pass find; /* backward: finds the places of maxima, if none are given */
    pass pool;
    bool finds;
    int64_t batch;
    uint8_t x, y, index, old; /* tensors */
} step;

static const char *type_name(const pool *m)
{
    return trp_dtype_name((trp_dtype)m->x->type);
}

/* Tells whether the elements of an operand follow each other in order. */
static bool is_packed(const pool *m, const trp__pool_operand *o, const int32_t size[TRP__POOL_DIMS])
{
    const int64_t channels = m->y->dim[1], plane = (int64_t)size[1] * size[2];
    return (size[2] == 1 || o->spatial[2] == 1) && (size[1] == 1 || o->spatial[1] == size[2]) &&
           (channels == 1 || o->channel == plane) &&
           (m->y->dim[0] == 1 || o->batch == channels * plane);
}

/* Shares planes among blocks that hold `bytes` bytes of them each. False: a band of a plane would
 * have fewer than ROWS_MIN rows of output, or all. */
static bool share_planes(const pool *m, int64_t bytes, pass *out)
{
    trp__pool *p = &out->p;
    const int64_t row = p->in[2] * (m->x->type == TRP_F32 ? 4 : 2), plane = row * p->in[1];
    if (plane <= bytes) {
        p->group = (uint32_t)(bytes / plane);
        p->bands = 1;
        p->rows = (uint32_t)p->out[1];
    } else {
        const int64_t rows = (bytes / row - p->window[1]) / p->stride[1] + 1;
        if (bytes / row < p->window[1] || rows < ROWS_MIN || rows >= p->out[1])
            return false;
        p->group = 1;
        p->bands = (uint32_t)((p->out[1] + rows - 1) / rows);
        p->rows = ((uint32_t)p->out[1] + p->bands - 1) / p->bands;
        p->bands = ((uint32_t)p->out[1] + p->rows - 1) / p->rows;
    }
    out->blocks = (uint64_t)((p->planes + p->group - 1) / p->group) * p->bands;
    out->kernel.shared = (uint32_t)bytes + 16 + 2 * TRP__POOL_MARGIN;
    return true;
}

/* Tells whether each window has an element of the input. */
static bool has_inputs(const trp__pool *p)
{
    for (int k = 1; k < TRP__POOL_DIMS; k++) {
        if (p->pad[k] >= p->window[k] || (p->out[k] - 1) * p->stride[k] - p->pad[k] >= p->in[k])
            return false;
    }
    return true;
}

/* Tells whether there are kernels of planes for the window. Those of large windows do not write
 * places of maxima. */
static bool is_made(const trp__pool *p)
{
    static const uint8_t made[][2] = {{2, 2}, {3, 1}, {3, 2}, {5, 1}, {7, 1}, {9, 1}, {13, 1}};
    if (p->index.type && (p->index.type != TRP_I8 || p->mode != TRP_DNN_POOL_MAX))
        return false;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        if (p->window[1] == made[i][0] && p->window[2] == made[i][0] &&
            p->stride[1] == made[i][1] && p->stride[2] == made[i][1])
            return true;
    }
    return false;
}

/* Returns the share of a block's threads that have outputs, where a row of outputs takes `across`
 * threads. */
static double busy_share(const trp__pool *p, uint32_t across)
{
    const uint32_t deep = TRP__POOL_DEEP(p->window[1]);
    const uint32_t all = p->group * ((p->rows + deep - 1) / deep) * across;
    const uint32_t rounds = (all + TRP__POOL_THREADS - 1) / TRP__POOL_THREADS;
    return (double)all / (rounds * TRP__POOL_THREADS);
}

/* Plans the kernel of planes; false: it does not take the node. It is made for some windows, and
 * needs operands whose planes follow each other and enough rows in shared memory. */
static bool plan_planes(const pool *m, const trp__dnn_tensor *x, pass *out)
{
    trp__pool *p = &out->p;
    if (!is_one_type(m) || p->channels_last || p->in[0] > 1 || p->window[0] > 1 || p->pad[0] > 0 ||
        !is_made(p) || !has_inputs(p) || !is_packed(m, &p->x, p->in) ||
        !is_packed(m, &p->y, p->out) || (p->index.type && !is_packed(m, &p->index, p->out)))
        return false;
    const bool words = x->type != TRP_F32 && !p->index.type && p->in[2] % 2 == 0 &&
                       p->out[2] % 2 == 0 && trp__space_is_aligned(x, 16) &&
                       trp__space_is_aligned(m->y, 16);
    const uint32_t across = (uint32_t)p->out[2] / (words ? 2 : 1);
    const uint32_t deep = TRP__POOL_DEEP(p->window[1]);
    p->planes = m->y->dim[0] * m->y->dim[1];
    /* Small blocks are faster, as more of them are resident, unless many of their threads idle. */
    const bool idles = p->window[1] > 2;
    int64_t bytes = TRP__POOL_SHARED / (idles ? 4 : 2);
    while (bytes < TRP__POOL_SHARED &&
           (!share_planes(m, bytes, out) || (idles && busy_share(p, across) < 0.9)))
        bytes *= 2;
    out->blocks = 0; /* else a failure here would leave those of fewer bytes */
    if (!share_planes(m, bytes, out))
        return false;
    while (bytes > SHARED_MIN && out->blocks < (uint64_t)m->processors * 2 &&
           share_planes(m, bytes / 2, out))
        bytes /= 2;
    p->size[0] = trp__map_divide_by(across);
    p->size[1] = trp__map_divide_by(((uint32_t)p->out[1] + deep - 1) / deep);
    snprintf(out->kernel.name, sizeof out->kernel.name, "trp_pool_%s_%s%s_%d_%d",
             p->index.type ? "places"
             : words       ? "words"
                           : "planes",
             type_name(m),
             p->index.type                 ? ""
             : p->mode == TRP_DNN_POOL_MAX ? "_max"
                                           : "_mean",
             p->window[1], p->stride[1]);
    return true;
}

/* Plans the kernel of small planes, each of which is one window; false: it does not take the node.
 */
static bool plan_whole(const pool *m, pass *out)
{
    trp__pool *p = &out->p;
    for (int k = 0; k < TRP__POOL_DIMS; k++) {
        if (p->out[k] != 1 || p->pad[k] != 0 || p->window[k] != p->in[k])
            return false;
    }
    p->planes = m->y->dim[0] * m->y->dim[1];
    if (!is_one_type(m) || m->large || p->in[0] > 1 || p->index.type ||
        !is_packed(m, &p->x, p->in) || !is_packed(m, &p->y, p->out) ||
        !share_planes(m, TRP__POOL_SHARED, out))
        return false;
    if (p->group > TRP__POOL_THREADS)
        p->group = TRP__POOL_THREADS;
    out->blocks = (uint64_t)((p->planes + p->group - 1) / p->group);
    snprintf(out->kernel.name, sizeof out->kernel.name, "trp_pool_whole_%s_%s", type_name(m),
             p->mode == TRP_DNN_POOL_MAX ? "max" : "mean");
    return true;
}

/* Plans a forward pass over x. `index`: the places of maxima to write; type 0: none. */
static void plan_forward(pool *m, const trp__dnn_tensor *x, const trp__pool_operand *index,
                         pass *out)
{
    out->each = set_sizes(m, m->y, m->p.out, false);
    out->p = m->p;
    out->p.x = operand_of(m, x);
    out->p.y = operand_of(m, m->y);
    out->p.index = *index;
    if (plan_whole(m, out) || plan_planes(m, x, out))
        return;
    const bool large = (int64_t)m->p.window[0] * m->p.window[1] * m->p.window[2] >= TRP__POOL_LARGE;
    out->of_block = large ? TRP__POOL_THREADS / 32 : TRP__POOL_THREADS;
    if (m->typed && !large)
        snprintf(out->kernel.name, sizeof out->kernel.name, "trp_pool_typed_%s_%d_forward",
                 type_name(m), m->run);
    else
        snprintf(out->kernel.name, sizeof out->kernel.name, "trp_pool_%s%s_%d",
                 large ? "warp_" : "", m->wide ? "f64" : "f32", m->run);
}

static void plan_backward(pool *m, pass *out)
{
    out->each = set_sizes(m, m->x, m->p.in, m->strip);
    out->p = m->p;
    out->p.x = operand_of(m, m->x);
    out->p.y = operand_of(m, m->y);
    if (m->index)
        out->p.index = operand_of(m, m->index);
    out->of_block = TRP__POOL_THREADS;
    if (m->strip)
        snprintf(out->kernel.name, sizeof out->kernel.name, "trp_pool_strip_%s_back", type_name(m));
    else if (m->typed)
        snprintf(out->kernel.name, sizeof out->kernel.name, "trp_pool_typed_%s_%d_back",
                 type_name(m), m->run);
    else
        snprintf(out->kernel.name, sizeof out->kernel.name, "trp_pool_back_%s_%d",
                 m->wide ? "f64" : "f32", m->run);
}

/* Plans a pass that finds the places of maxima, which go into the workspace, packed in y's order.
 */
static uint64_t plan_find(pool *m, step *s)
{
    const bool narrow = (int64_t)m->p.window[0] * m->p.window[1] * m->p.window[2] <= INT8_MAX + 1;
    trp__pool_operand index = {.type = narrow ? TRP_I8 : TRP_I32};
    int64_t next = m->y->dim[1];
    set_sizes(m, m->y, m->p.out, false);
    index.channel = 1;
    for (int k = TRP__POOL_DIMS - 1; k >= 0; k--) {
        index.spatial[k] = next;
        next *= m->p.out[k];
    }
    if (!m->p.channels_last) {
        next = 1;
        for (int k = TRP__POOL_DIMS - 1; k >= 0; k--) {
            index.spatial[k] = next;
            next *= m->p.out[k];
        }
        index.channel = next;
        next *= m->y->dim[1];
    }
    index.batch = next;
    plan_forward(m, m->old, &index, &s->find);
    s->pool.p.index = index;
    s->finds = true;
    return (uint64_t)next * (uint64_t)m->y->dim[0] * (narrow ? 1 : 4);
}

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void *state,
                       trp__text *engine, uint64_t *workspace, trp_error *error)
{
    const trp__dnn_node *n = &part->graph->node[part->first];
    pool m;
    step *s = state;
    if (!describe(part->graph, n, &m))
        return trp__kernel_unfit(&trp__kernels_pool, error);
    m.processors = modules->processors;
    s->batch = m.x->dim[0];
    s->x = n->port[TRP__DNN_RESAMPLE_X];
    s->y = n->port[TRP__DNN_RESAMPLE_Y];
    s->index = n->port[TRP__DNN_RESAMPLE_INDEX];
    s->old = m.old ? n->port[TRP__DNN_RESAMPLE_OLD_X] : TRP__DNN_NO_PORT;
    const trp__pool_operand index = m.index ? operand_of(&m, m.index) : (trp__pool_operand){0};
    s->pool.kernel.threads = s->find.kernel.threads = TRP__POOL_THREADS;
    if (m.back)
        plan_backward(&m, &s->pool);
    else
        plan_forward(&m, m.x, &index, &s->pool);
    if (m.old)
        *workspace = plan_find(&m, s);
    trp__text_add(engine, "%s", s->pool.kernel.name + strlen("trp_"));
    return TRP_OK;
}

static trp_status launch_pass(pass *p, int64_t batch, const trp__kernel_launch *l, trp_error *error)
{
    const int64_t most = COUNT_MAX / p->each;
    trp_status status = TRP_OK;
    if (p->blocks > 0)
        return trp__kernel_run(l, TRP__MODULE_POOL, &p->kernel, p->blocks, &p->p, NULL, error);
    for (int64_t first = 0; first < batch && status == TRP_OK; first += most) {
        const int64_t here = batch - first < most ? batch - first : most;
        p->p.batch = first;
        p->p.count = (uint32_t)(here * p->each);
        status = trp__kernel_run(l, TRP__MODULE_POOL, &p->kernel,
                                 ((uint64_t)p->p.count + p->of_block - 1) / p->of_block, &p->p,
                                 NULL, error);
    }
    return status;
}

static trp_status launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    step *s = state;
    trp_status status = TRP_OK;
    s->pool.p.x.at = trp__kernel_address(l, s->x);
    s->pool.p.y.at = trp__kernel_address(l, s->y);
    s->pool.p.index.at = trp__kernel_address(l, s->index);
    if (s->finds) {
        s->find.p.x.at = trp__kernel_address(l, s->old);
        s->find.p.y.at = 0;
        s->find.p.index.at = s->pool.p.index.at = (uint64_t)(uintptr_t)l->workspace;
        status = launch_pass(&s->find, s->batch, l, error);
    }
    return status == TRP_OK ? launch_pass(&s->pool, s->batch, l, error) : status;
}

TRP__KERNEL_FAMILY(pool, "pool", POOL);
