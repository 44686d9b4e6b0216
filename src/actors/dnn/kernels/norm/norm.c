/* Plans and launches layer, RMS, instance and group norm of rows along the fastest dimension. */
#include "actors/dnn/kernels/norm/norm.h"

#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/launch/row_spaces.h"
#include "actors/dnn/kernels/norm/norm_node.h"

#include <stdio.h>
#include <string.h>

enum {
    ROWS_EACH = 1024,  /* groups of rows that a backward block walks over, about, at most */
    HELD_LEAST = 6144, /* loads of 16 bytes, at least, of a row with `each` that a cluster holds */
};

typedef trp__norm_node norm;

static uint32_t takes(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    norm m = {0};
    const uint32_t nodes = trp__norm_describe(g, first, most, &m);
    if (nodes == 1 && trp__batch_holds_planes(g, &g->node[first]))
        return 0;
    /* The reference kernel does f64, as it scales: squares overflow or underflow where the result
     * does not. */
    return m.wide ? 0 : nodes;
}

/* Steps. */

typedef struct step {
    trp__norm p;
    trp__norm_sum sum; /* backward */
    uint8_t number[TRP__NORM_OPERANDS], epsilon, out[2];
    bool back;
    uint64_t blocks;
    trp__kernel kernel, add;
} step;

/* Returns the rows of a block: as many as fit TRP__NORM_GROUP threads or, in backward kernels of
 * packs, TRP__NORM_BACK_THREADS. */
static uint32_t rows_of_block(const norm *m)
{
    const uint32_t threads = (uint32_t)m->p.threads;
    const uint32_t warp =
        threads < 32 ? 32 / threads : 1; /* rows of a warp; blocks have whole ones */
    uint32_t rows = TRP__NORM_BACK_THREADS / threads;
    if (m->p.bytes == 0)
        return threads <= 32 ? TRP__NORM_GROUP / threads : 1;
    if (threads > 32 && rows > TRP__NORM_BACK_GROUPS)
        rows = TRP__NORM_BACK_GROUPS;
    if (rows > (uint64_t)m->p.space.rows)
        rows = ((uint32_t)m->p.space.rows + warp - 1) / warp * warp;
    return rows;
}

/* Plans rows that a cluster of blocks holds in registers; false: it does not suit. An f32 row with
 * one scale stays with one block if the registers of that hold it, which is faster. */
static bool plan_held(norm *m, const trp__kernel_modules *modules)
{
    const int unit = m->p.io[TRP__NORM_X].type == TRP_F32 ? 4 : 8; /* elements of 16 bytes */
    const int64_t units = m->p.n / unit;
    int64_t blocks = 2, threads;
    if ((m->each ? units < HELD_LEAST : !m->even || (unit == 4 && !m->walks)) ||
        m->p.space.rows < modules->processors)
        return false;
    while (units > blocks * TRP__NORM_HELD_THREADS * TRP__NORM_HELD_PACKS)
        blocks *= 2;
    if (blocks > trp__kernel_cluster_most(modules))
        return false;
    threads = (units + blocks * TRP__NORM_HELD_PACKS - 1) / (blocks * TRP__NORM_HELD_PACKS);
    m->p.blocks = (int32_t)blocks;
    m->p.slice = (int32_t)((units + blocks - 1) / blocks) * unit;
    m->p.threads = (int32_t)(threads + 31) / 32 * 32;
    m->shared = 0;
    snprintf(m->kernel, sizeof m->kernel, "%s_%s_held", trp__row_packs_type(m->p.io, 2),
             m->each ? "each" : "row");
    return true;
}

/* Gives a row to a cluster of blocks where the registers of one block do not hold it, or where its
 * only block would take a whole multiprocessor, which idles while that block waits. */
static void plan_slices(norm *m, const trp__kernel_modules *modules)
{
    const int unit = m->p.io[TRP__NORM_X].type == TRP_F32 ? 4 : 8; /* elements of 16 bytes */
    trp__slices slices;
    if (!m->walks && !(m->whole && m->p.space.rows >= modules->processors))
        return;
    if (plan_held(m, modules) || !m->each)
        return;
    if (!trp__rows_slices(modules, m->p.space.rows, m->p.n / unit, 2, 4, 1, &slices))
        return;
    m->p.blocks = (int32_t)slices.cluster;
    m->p.slice = (int32_t)slices.each * unit;
    m->p.room = slices.room;
    m->p.threads = (int32_t)slices.threads;
    m->shared = slices.shared;
    snprintf(m->kernel, sizeof m->kernel, "%s_each_slices", trp__row_packs_type(m->p.io, 2));
}

/* Reduces the shared memory of a backward block of packs to what the device has; without any, plans
 * a kernel of runs instead. */
static void plan_shared(norm *m, const trp__kernel_modules *modules)
{
    const uint32_t most = trp__kernel_shared_most(modules) - TRP__NORM_STATIC_BYTES;
    while (m->p.bytes > 0 && rows_of_block(m) * (uint32_t)(m->p.threads * m->p.bytes) > most)
        m->p.bytes -= TRP__NORM_BACK_BYTES;
    if (m->back && m->runs == 0 && m->p.bytes == 0)
        trp__norm_plan_runs(m, false);
}

/* Chooses the number of backward blocks, and the layout of partial sums, whose bytes it returns. A
 * multiprocessor holds all its blocks at a time, unless a block would walk over more than about
 * ROWS_EACH groups of rows. */
static uint64_t plan_sums(const norm *m, int processors, step *s)
{
    const uint64_t size = m->wide ? 8 : 4, rows = s->blocks;
    const uint32_t resident = m->runs == 0               ? TRP__NORM_BACK_THREADS
                              : m->runs == 1 && !m->wide ? TRP__NORM_RESIDENT_1
                                                         : TRP__NORM_RESIDENT;
    uint64_t blocks = (uint64_t)(processors > 0 ? processors : 1) * (resident / s->kernel.threads);
    if (blocks < rows / ROWS_EACH)
        blocks = rows / ROWS_EACH;
    if (blocks > TRP__KERNEL_BLOCKS_MAX) /* one launch, since backward blocks do not read `first` */
        blocks = TRP__KERNEL_BLOCKS_MAX;
    s->blocks = blocks < rows ? blocks : rows;
    s->sum.columns = m->each ? m->p.n : m->columns;
    s->sum.out_step[0] = m->column_stride[0];
    s->sum.out_step[1] = m->column_stride[1];
    if (m->each) {
        s->sum.count = (int64_t)s->blocks;
        s->sum.pitch = 2 * m->p.n;
        s->sum.step = 1;
        s->sum.second = m->p.n;
        return s->blocks * 2 * (uint64_t)m->p.n * size;
    }
    s->sum.count = m->p.space.rows / m->columns;
    s->sum.pitch = 2 * m->columns;
    s->sum.step = 2;
    s->sum.second = 1;
    return (uint64_t)m->p.space.rows * 2 * size;
}

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void *state,
                       trp__text *engine, uint64_t *workspace, trp_error *error)
{
    const trp__dnn_graph *g = part->graph;
    norm m = {0};
    step *s = state;
    if (trp__norm_describe(g, part->first, part->count, &m) != part->count || !m.node)
        return trp__kernel_unfit(&trp__kernels_norm, error);
    const trp__dnn_node *n = m.node;
    plan_shared(&m, modules);
    plan_slices(&m, modules);
    s->p = m.p;
    s->back = m.back;
    memcpy(s->number, m.number, sizeof s->number);
    s->epsilon = m.back ? TRP__DNN_NO_PORT : n->port[TRP__DNN_NORM_EPSILON];
    const uint32_t rows = rows_of_block(&m);
    trp__kernel *k = &s->kernel;
    k->threads = rows * (uint32_t)s->p.threads;
    k->shared = k->threads * (uint32_t)s->p.bytes;
    s->blocks = ((uint64_t)s->p.space.rows + rows - 1) / rows;
    if (m.tiles)
        k->shared = rows * (uint32_t)s->p.n * (m.p.io[TRP__NORM_X].type == TRP_F32 ? 4 : 2);
    if (s->p.blocks > 0) {
        s->blocks = (uint64_t)s->p.space.rows * (uint64_t)s->p.blocks;
        *k = (trp__kernel){
            .shared = m.shared, .threads = (uint32_t)m.p.threads, .cluster = (uint32_t)s->p.blocks};
    }
    s->out[0] = m.back ? n->port[TRP__DNN_NORM_DSCALE] : TRP__DNN_NO_PORT;
    s->out[1] = m.back ? n->port[TRP__DNN_NORM_BIAS] : TRP__DNN_NO_PORT;
    for (int i = 0; i < 2; i++)
        s->sum.type[i] = s->out[i] != TRP__DNN_NO_PORT ? g->tensor[s->out[i]].type : TRP_F32;
    if (s->epsilon != TRP__DNN_NO_PORT)
        s->p.epsilon_type = g->tensor[s->epsilon].type;
    if (m.back)
        *workspace = plan_sums(&m, modules->processors, s);
    s->add = (trp__kernel){.threads = TRP__NORM_SUM_WARPS * 32};
    snprintf(s->add.name, sizeof s->add.name, "trp_norm_add_%s", m.wide ? "f64" : "f32");
    snprintf(k->name, sizeof k->name, "trp_norm_%s", m.kernel);
    trp__text_add(engine, "norm_%s%s", m.kernel, s->p.runs ? "" : "_loose");
    return TRP_OK;
}

static void set_addresses(step *s, const trp__kernel_launch *l)
{
    for (int o = 0; o < TRP__NORM_OPERANDS; o++)
        s->p.io[o].at = trp__kernel_address(l, s->number[o]);
    if (s->epsilon != TRP__DNN_NO_PORT) {
        s->p.epsilon = l->number[s->epsilon];
        s->p.epsilon_at = trp__kernel_address(l, s->epsilon);
    }
    s->p.sums = s->sum.sums = (uint64_t)(uintptr_t)l->workspace;
    for (int i = 0; i < 2; i++)
        s->sum.out[i] = trp__kernel_address(l, s->out[i]);
}

static trp_status launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    step *s = state;
    trp_status status = trp__kernel_find(l, TRP__MODULE_NORM, &s->kernel, error);
    if (status == TRP_OK && s->back)
        status = trp__kernel_find(l, TRP__MODULE_NORM, &s->add, error);
    set_addresses(s, l);
    if (status == TRP_OK)
        status =
            trp__kernel_run(l, TRP__MODULE_NORM, &s->kernel, s->blocks, &s->p, &s->p.first, error);
    if (status == TRP_OK && s->back)
        status = trp__kernel_run(l, TRP__MODULE_NORM, &s->add,
                                 (uint64_t)((s->sum.columns + 31) / 32), &s->sum, NULL, error);
    return status;
}

TRP__KERNEL_FAMILY(norm, "norm", NORM);
