/* Plans and launches the kernels of batch.h: batch norm, and instance norm whose rows registers do
 * not hold. */
#include "actors/dnn/kernels/norm/batch.h"

#include "actors/dnn/kernels/launch/launch.h"
#include "actors/dnn/kernels/launch/row_spaces.h"
#include "actors/dnn/kernels/norm/norm_node.h"
#include "actors/dnn/math/functions.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    BLOCKS_EACH = 8,     /* rows: blocks per multiprocessor */
    BLOCKS_SUMS = 2,     /* columns: blocks per multiprocessor for sums, all resident */
    BLOCKS_COLUMNS = 32, /* columns: blocks per multiprocessor for elements */
    RUN_MAX = 1 << 30,   /* elements of one of several runs, and of a part of rows, at most */
    SMALL_BLOCKS = 8,    /* resident blocks of a multiprocessor with a group each, at most */
    PLANE_LEAST = 2048,  /* elements, at least, of a plane whose gradient is computed here */
    BYTES_CYCLE = 13,    /* bytes that a multiprocessor moves in a cycle, about */
    ALIGNMENT = 256,     /* of arrays in the workspace, in bytes */
};

typedef struct batch {
    const trp__dnn_node *node;
    const trp__dnn_tensor *tensor[TRP__BATCH_OPERANDS]; /* NULL: absent */
    uint8_t number[TRP__BATCH_OPERANDS];
    trp__rows rows;
    bool back, columns;
    int unit; /* elements of a load; 1: their types may be any */
    trp__batch p;
    int64_t totals; /* elements of dscale, which divide the number of groups */
} batch;

/* Returns the port of an operand. TRAINING and INFERENCE number ports alike; BACKWARD has the first
 * of these, with other meanings. */
static uint8_t port_of(const batch *m, int operand)
{
    static const uint8_t ports[TRP__BATCH_OPERANDS] = {
        [TRP__BATCH_X] = TRP__DNN_NORM_X,
        [TRP__BATCH_Y] = TRP__DNN_NORM_Y,
        [TRP__BATCH_DX] = TRP__DNN_NORM_DX,
        [TRP__BATCH_SCALE] = TRP__DNN_NORM_SCALE,
        [TRP__BATCH_BIAS] = TRP__DNN_NORM_BIAS,
        [TRP__BATCH_MEAN] = TRP__DNN_NORM_MEAN,
        [TRP__BATCH_INVERSE] = TRP__DNN_NORM_INV_VARIANCE,
        [TRP__BATCH_RUNNING_MEAN] = TRP__DNN_NORM_RUNNING_MEAN,
        [TRP__BATCH_RUNNING_VARIANCE] = TRP__DNN_NORM_RUNNING_VARIANCE,
        [TRP__BATCH_NEW_MEAN] = TRP__DNN_NORM_NEW_RUNNING_MEAN,
        [TRP__BATCH_NEW_VARIANCE] = TRP__DNN_NORM_NEW_RUNNING_VARIANCE,
    };
    const bool training = m->node->kind == TRP_DNN_NORM_TRAINING;
    if ((operand == TRP__BATCH_DX && !m->back) || (operand == TRP__BATCH_BIAS && m->back) ||
        (operand >= TRP__BATCH_RUNNING_MEAN && !training))
        return TRP__DNN_NO_PORT;
    return m->node->port[ports[operand]];
}

static bool find_operands(const trp__dnn_graph *g, batch *m)
{
    for (int o = 0; o < TRP__BATCH_OPERANDS; o++) {
        const uint8_t number = m->number[o] = port_of(m, o);
        if (number == TRP__DNN_NO_PORT)
            continue;
        m->tensor[o] = &g->tensor[number];
        if (!trp__rows_takes_type(m->tensor[o]->type) || m->tensor[o]->role == TRP__DNN_VALUE ||
            (o <= TRP__BATCH_DX && m->tensor[o]->type == TRP_F64))
            return false;
    }
    return true;
}

/* Tells whether x, y and dx have a stride along `dim` of 1 or, for `by` above 1, of multiples of
 * `by`. */
static bool strides(const batch *m, const trp__space *s, int dim, int by)
{
    for (int o = TRP__BATCH_X; o <= TRP__BATCH_DX; o++) {
        if (m->tensor[o] && (by == 1 ? s->stride[o][dim] != 1 : s->stride[o][dim] % by != 0))
            return false;
    }
    return true;
}

/* Tells whether x, y and dx have one type and are aligned for loads of `unit` elements: at their
 * beginning, and after any step along the kept dimensions from `from` on. */
static bool all_aligned(const batch *m, int from, int unit)
{
    const uint8_t type = m->tensor[TRP__BATCH_X]->type;
    for (int o = TRP__BATCH_X; o <= TRP__BATCH_DX; o++) {
        const trp__dnn_tensor *t = m->tensor[o];
        if (t && (t->type != type ||
                  !trp__space_is_aligned(t, (uint64_t)(type == TRP_F32 ? 4 : 2) * (uint64_t)unit)))
            return false;
    }
    for (int i = from; i < m->rows.kept.rank; i++) {
        if (m->rows.kept.dim[i] > 1 && !strides(m, &m->rows.kept, i, unit))
            return false;
    }
    return true;
}

static bool describe_rows(batch *m)
{
    static const int units[] = {8, 4};
    const trp__space *r = &m->rows.reduced;
    if (r->rank > 2 || !strides(m, r, 0, 1))
        return false;
    const int64_t run = r->dim[0];
    if (r->rank > 1 && run > RUN_MAX)
        return false;
    m->p.n = run * (r->rank > 1 ? r->dim[1] : 1);
    m->p.columns = 1;
    m->p.run = trp__map_divide_by((uint32_t)(r->rank > 1 ? run : RUN_MAX));
    for (int o = TRP__BATCH_X; o <= TRP__BATCH_DX; o++)
        m->p.again[o] = r->rank > 1 ? r->stride[o][1] : RUN_MAX;
    m->unit = 1;
    for (int i = m->tensor[TRP__BATCH_X]->type == TRP_F32; i < 2 && m->unit == 1; i++) {
        if (run % units[i] == 0 && all_aligned(m, 0, units[i]) &&
            (r->rank == 1 || strides(m, r, 1, units[i])))
            m->unit = units[i];
    }
    return true;
}

static bool describe_columns(batch *m)
{
    const trp__space *r = &m->rows.reduced, *kept = &m->rows.kept;
    const int unit = m->tensor[TRP__BATCH_X]->type == TRP_F32 ? 4 : 8;
    if (r->rank != 1 || kept->dim[0] == 1 || !strides(m, kept, 0, 1))
        return false;
    m->columns = true;
    m->p.n = r->dim[0];
    m->p.columns = kept->dim[0];
    for (int o = 0; o < TRP__BATCH_OPERANDS; o++)
        m->p.column_step[o] = kept->stride[o][0];
    m->unit = m->p.columns % unit == 0 && all_aligned(m, 1, unit) &&
                      (m->p.n == 1 || strides(m, r, 0, unit))
                  ? unit
                  : 1;
    return true;
}

/* Finds the strides of dscale and dbias, which have an element per channel. False: channels are not
 * the innermost dimension of groups, or share one element of scale. */
static bool find_totals(const trp__dnn_graph *g, batch *m, int64_t step[2])
{
    const uint8_t ports[2] = {TRP__DNN_NORM_DSCALE, TRP__DNN_NORM_BIAS};
    const trp__dnn_tensor *scale = m->tensor[TRP__BATCH_SCALE];
    const trp__space *kept = &m->rows.kept;
    m->totals = scale->dim[1];
    if (m->totals > 1 && (kept->dim[0] != m->totals || kept->stride[TRP__BATCH_SCALE][0] == 0))
        return false;
    for (int i = 0; i < 2; i++) {
        if (m->node->port[ports[i]] == TRP__DNN_NO_PORT)
            continue;
        const trp__dnn_tensor *t = &g->tensor[m->node->port[ports[i]]];
        if (t->role == TRP__DNN_VALUE || !trp__rows_takes_type(t->type))
            return false;
        step[i] = t->stride[1];
    }
    return true;
}

static bool takes_number(const trp__dnn_graph *g, uint8_t tensor)
{
    return tensor == TRP__DNN_NO_PORT || trp__rows_takes_type(g->tensor[tensor].type);
}

static bool describe(const trp__dnn_graph *g, const trp__dnn_node *n, batch *m, int64_t step[2])
{
    *m = (batch){.node = n};
    if ((n->kind != TRP_DNN_NORM_TRAINING && n->kind != TRP_DNN_NORM_INFERENCE &&
         n->kind != TRP_DNN_NORM_BACKWARD) ||
        (n->mode != TRP_DNN_BATCH && n->mode != TRP_DNN_INSTANCE) || n->compute != TRP_F32)
        return false;
    m->back = n->kind == TRP_DNN_NORM_BACKWARD;
    if (!find_operands(g, m) || (!m->back && !takes_number(g, n->port[TRP__DNN_NORM_EPSILON])) ||
        (n->kind == TRP_DNN_NORM_TRAINING &&
         !takes_number(g, n->port[TRP__DNN_NORM_AVERAGE_FACTOR])))
        return false;
    trp__norm_rows(n, m->tensor, TRP__BATCH_OPERANDS, m->tensor[TRP__BATCH_SCALE],
                   m->tensor[TRP__BATCH_INVERSE], &m->rows);
    if (!describe_columns(m) && !describe_rows(m))
        return false;
    m->p.back = m->back;
    m->p.given = !m->back && n->port[TRP__DNN_NORM_EPSILON] == TRP__DNN_NO_PORT;
    for (int o = 0; o < TRP__BATCH_OPERANDS; o++)
        trp__rows_operand_of(&m->rows, o, m->columns, m->tensor[o] ? m->tensor[o]->type : TRP_F32,
                             &m->p.io[o]);
    trp__rows_space_of(&m->rows.kept, m->columns, &m->p.space);
    return !m->back || find_totals(g, m, step);
}

static uint32_t takes(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    batch m;
    int64_t step[2] = {0};
    /* The reference kernel does f64, as for norm.c. */
    return most > 0 && describe(g, &g->node[first], &m, step) &&
                   g->tensor[g->node[first].port[TRP__DNN_NORM_X]].type != TRP_F64
               ? 1
               : 0;
}

bool trp__batch_holds_planes(const trp__dnn_graph *g, const trp__dnn_node *n)
{
    batch m;
    int64_t step[2] = {0};
    return n->kind == TRP_DNN_NORM_BACKWARD && n->mode == TRP_DNN_INSTANCE &&
           describe(g, n, &m, step) && !m.columns && m.unit > 1 && m.p.n >= PLANE_LEAST;
}

/* Steps. */

/* Passes, in the order of their launches. */
enum { PREPARE, PARTS, FINISH, APPLY, PASSES };

typedef struct step {
    trp__batch p;
    int64_t part[PASSES], parts[PASSES]; /* APPLY has its own; FINISH needs those of PARTS */
    trp__norm_sum sum;
    uint8_t number[TRP__BATCH_OPERANDS], epsilon, average, out[2];
    bool back;
    uint64_t blocks[PASSES];
    uint64_t factors, totals;        /* offsets in the workspace, in bytes */
    trp__kernel kernel[PASSES], add; /* an empty name: no such pass */
    uint32_t cluster; /* blocks of a cluster that does a group in one pass; 0: several passes */
    int64_t bytes;    /* that a multiprocessor moves while each of its blocks does a group */
} step;

static uint64_t align(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Cuts a group into parts of multiples of `unit` elements, at most `wanted` unless RUN_MAX asks for
 * more. */
static void cut(const step *s, int64_t unit, int64_t wanted, int64_t *part, int64_t *parts)
{
    const int64_t units = (s->p.n + unit - 1) / unit;
    const int64_t most = wanted < units ? wanted : units;
    *part = (units + most - 1) / most * unit;
    if (s->p.columns == 1 && *part > RUN_MAX) /* an index in it is below 2^31 */
        *part = RUN_MAX / unit * unit;
    *parts = (s->p.n + *part - 1) / *part;
}

/* Plans the parts of groups, the blocks of passes, and the workspace, whose bytes it returns. */
static uint64_t plan_parts(const batch *m, int processors, step *s)
{
    const int64_t groups = s->p.space.rows * s->p.columns;
    const int64_t loads = m->columns ? s->p.columns / m->unit : 1;
    int64_t tiles = (loads + TRP__BATCH_ACROSS - 1) / TRP__BATCH_ACROSS;
    s->p.across = (int32_t)((loads + tiles - 1) / tiles); /* tiles of nearly one width */
    tiles = (loads + s->p.across - 1) / s->p.across;
    const int64_t unit =
        m->columns ? TRP__BATCH_THREADS / s->p.across * TRP__BATCH_DEEP : TRP__BATCH_TILE;
    const int64_t others = s->p.space.rows * (m->columns ? tiles : 1);
    const int64_t all = processors > 0 ? processors : 1;
    for (int pass = 0; pass < PASSES; pass++) {
        const int64_t each = !m->columns     ? BLOCKS_EACH
                             : pass == APPLY ? BLOCKS_COLUMNS
                                             : BLOCKS_SUMS;
        cut(s, unit, (all * each + others - 1) / others, &s->part[pass], &s->parts[pass]);
    }
    s->blocks[PREPARE] = (uint64_t)((groups + TRP__BATCH_THREADS - 1) / TRP__BATCH_THREADS);
    s->blocks[PARTS] = (uint64_t)(others * s->parts[PARTS]);
    s->blocks[APPLY] = (uint64_t)(others * s->parts[APPLY]);
    s->blocks[FINISH] = (uint64_t)((groups + TRP__BATCH_WARPS - 1) / TRP__BATCH_WARPS);
    s->p.last = (int64_t)s->blocks[APPLY] - 1;
    s->p.pitch = (groups + 3) / 4 * 4;
    s->factors = align((uint64_t)(groups * s->parts[PARTS]) * 2 * sizeof(double));
    s->totals = align(s->factors + (uint64_t)s->p.pitch * TRP__BATCH_FACTORS * sizeof(float));
    return s->totals + (m->back ? (uint64_t)groups * 2 * sizeof(double) : 0);
}

/* Shares groups out to single blocks, several resident on a multiprocessor, if the shared memory of
 * one holds six sevenths of a group; the rest is read again. Else to clusters of blocks of half a
 * multiprocessor or a whole one. */
static bool find_slices(const batch *m, const trp__kernel_modules *modules, int64_t rows, int loads,
                        trp__slices *out)
{
    const int64_t units = m->p.n / m->unit;
    for (uint32_t each = SMALL_BLOCKS; each > 1; each /= 2) {
        if (trp__rows_slices(modules, rows, units - units / 7, loads, each, each, out) &&
            out->cluster == 1) {
            out->each = units;
            return true;
        }
    }
    return trp__rows_slices(modules, rows, units, loads, 2, 1, out);
}

/* Plans clusters that do one group after the other. Shared memory that a group does not need holds
 * tiles of the next. */
static void plan_slices(const batch *m, const trp__kernel_modules *modules, step *s)
{
    const int size = m->tensor[TRP__BATCH_X]->type == TRP_F32 ? 4 : 2;
    const int loads = TRP__SLICE_BYTES / (m->unit * size) / (m->back ? 2 : 1);
    trp__slices slices;
    if (m->columns || m->unit == 1 || m->p.given || s->p.space.rows > INT32_MAX / 2 ||
        !find_slices(m, modules, s->p.space.rows, loads, &slices))
        return;
    s->cluster = slices.cluster;
    s->kernel[APPLY].cluster = slices.cluster;
    s->kernel[APPLY].shared = slices.threads * (uint32_t)(TRP__SLICE_BYTES * slices.most);
    s->kernel[APPLY].threads = slices.threads;
    s->p.room = slices.most;
    s->parts[APPLY] = slices.cluster;
    s->part[APPLY] = slices.each * m->unit;
    s->bytes = s->part[APPLY] * size * (m->back ? 3 : 2) * TRP__SLICE_THREADS / slices.threads;
}

/* Names the kernels of the passes, by layout, type, and elements of a load. */
static void plan_names(const batch *m, step *s)
{
    const uint8_t type = m->tensor[TRP__BATCH_X]->type;
    const char *way = m->columns ? "columns" : "rows";
    const char *name = m->unit == 1      ? "any"
                       : type == TRP_F32 ? "f32"
                       : type == TRP_F16 ? "f16"
                                         : "bf16";
    size_t size = sizeof s->add.name;
    if (s->cluster > 0) {
        snprintf(s->kernel[APPLY].name, size, "trp_batch_%s_%s_%d_%sslices", way, name, m->unit,
                 m->back ? "back_" : "");
        return;
    }
    if (m->back || m->p.given)
        snprintf(s->kernel[PREPARE].name, size, "trp_batch_prepare");
    if (!m->p.given) {
        snprintf(s->kernel[PARTS].name, size, "trp_batch_%s_%s_%d_%s", way, name, m->unit,
                 m->back ? "sums" : "moments");
        snprintf(s->kernel[FINISH].name, size, "trp_batch_finish");
    }
    snprintf(s->kernel[APPLY].name, size, "trp_batch_%s_%s_%d_%s", way, name, m->unit,
             m->back ? "back" : "apply");
}

static void plan_totals(const trp__dnn_graph *g, const batch *m, const int64_t steps[2], step *s)
{
    const trp__dnn_node *n = m->node;
    s->out[0] = m->back ? n->port[TRP__DNN_NORM_DSCALE] : TRP__DNN_NO_PORT;
    s->out[1] = m->back ? n->port[TRP__DNN_NORM_BIAS] : TRP__DNN_NO_PORT;
    for (int i = 0; i < 2; i++) {
        s->sum.out_step[i] = steps[i];
        s->sum.type[i] = s->out[i] != TRP__DNN_NO_PORT ? g->tensor[s->out[i]].type : TRP_F32;
    }
    if (!m->back)
        return;
    s->sum.columns = m->totals;
    s->sum.count = s->p.space.rows * s->p.columns / m->totals;
    s->sum.pitch = 2 * m->totals;
    s->sum.step = 2;
    s->sum.second = 1;
}

static void plan_numbers(const trp__dnn_graph *g, const batch *m, step *s)
{
    const trp__dnn_node *n = m->node;
    s->epsilon = m->back ? TRP__DNN_NO_PORT : n->port[TRP__DNN_NORM_EPSILON];
    s->average =
        n->kind == TRP_DNN_NORM_TRAINING ? n->port[TRP__DNN_NORM_AVERAGE_FACTOR] : TRP__DNN_NO_PORT;
    if (s->epsilon != TRP__DNN_NO_PORT)
        s->p.epsilon.type = g->tensor[s->epsilon].type;
    if (s->average != TRP__DNN_NO_PORT)
        s->p.average.type = g->tensor[s->average].type;
}

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void *state,
                       trp__text *engine, uint64_t *workspace, trp_error *error)
{
    const trp__dnn_graph *g = part->graph;
    int64_t steps[2] = {0};
    batch m;
    step *s = state;
    if (!describe(g, &g->node[part->first], &m, steps))
        return trp__kernel_unfit(&trp__kernels_batch, error);
    s->p = m.p;
    s->back = m.back;
    memcpy(s->number, m.number, sizeof s->number);
    for (int pass = 0; pass < PASSES; pass++)
        s->kernel[pass].threads = TRP__BATCH_THREADS;
    s->add = (trp__kernel){.name = "trp_batch_add", .threads = TRP__NORM_SUM_WARPS * 32};
    plan_numbers(g, &m, s);
    *workspace = plan_parts(&m, modules->processors, s);
    plan_slices(&m, modules, s);
    plan_totals(g, &m, steps, s);
    plan_names(&m, s);
    trp__text_add(engine, "norm_batch_%s%s",
                  s->cluster > 0 ? "slices"
                  : m.columns    ? "columns"
                                 : "rows",
                  m.unit > 1 ? "" : "_loose");
    return TRP_OK;
}

static void set_number(trp__batch_number *n, uint8_t tensor, const trp__kernel_launch *l)
{
    if (tensor == TRP__DNN_NO_PORT)
        return;
    n->value = l->number[tensor];
    n->at = trp__kernel_address(l, tensor);
}

static void set_addresses(step *s, const trp__kernel_launch *l)
{
    for (int o = 0; o < TRP__BATCH_OPERANDS; o++)
        s->p.io[o].at = trp__kernel_address(l, s->number[o]);
    for (int i = 0; i < 2; i++)
        s->sum.out[i] = trp__kernel_address(l, s->out[i]);
    set_number(&s->p.epsilon, s->epsilon, l);
    set_number(&s->p.average, s->average, l);
    s->p.precise = s->p.epsilon.at || s->p.epsilon.value < 1e-20;
    s->p.sums = (uint64_t)(uintptr_t)l->workspace;
    s->p.factors = s->p.sums + s->factors;
    s->p.totals = s->sum.sums = s->p.sums + s->totals;
}

/* Returns the blocks of the clusters that the device holds at a time; each does about as many
 * groups as the others. */
static uint64_t count_blocks(step *s, const trp__kernel_launch *l, const trp__kernel *k)
{
    const uint64_t groups = (uint64_t)s->p.space.rows;
    const uint64_t clusters = trp__kernel_resident_clusters(l, k);
    /* Without a pause all clusters would wait for sums, and then for memory, at the same time. */
    if (groups > clusters && s->cluster > 1)
        s->p.pause = (int32_t)(s->bytes / BYTES_CYCLE / 4);
    return (groups < clusters ? groups : clusters) * s->cluster;
}

static trp_status launch_pass(step *s, int pass, const trp__kernel_launch *l, trp_error *error)
{
    trp__kernel *k = &s->kernel[pass];
    const bool is_new = !k->function;
    if (!k->name[0])
        return TRP_OK;
    trp_status status = trp__kernel_find(l, TRP__MODULE_BATCH, k, error);
    if (status == TRP_OK && is_new && s->cluster > 0)
        s->blocks[pass] = count_blocks(s, l, k);
    s->p.part = s->part[pass];
    s->p.parts = s->parts[pass];
    return status == TRP_OK ? trp__kernel_run(l, TRP__MODULE_BATCH, k, s->blocks[pass], &s->p,
                                              &s->p.first, error)
                            : status;
}

static trp_status launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    step *s = state;
    trp_status status = s->back ? trp__kernel_find(l, TRP__MODULE_BATCH, &s->add, error) : TRP_OK;
    set_addresses(s, l);
    for (int pass = 0; pass < PASSES && status == TRP_OK; pass++)
        status = launch_pass(s, pass, l, error);
    if (status == TRP_OK && s->back)
        status = trp__kernel_run(l, TRP__MODULE_BATCH, &s->add,
                                 (uint64_t)((s->sum.columns + 31) / 32), &s->sum, NULL, error);
    return status;
}

TRP__KERNEL_FAMILY(batch, "norm_batch", BATCH);
