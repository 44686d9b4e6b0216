/* Layer, RMS and instance norm over rows that lie along the fastest dimension. */
#include "actors/dnn/kernels/norm.h"

#include "actors/dnn/functions.h"
#include "actors/dnn/kernels/kernels.h"
#include "actors/dnn/kernels/row_spaces.h"
#include "base/error.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCKS_MAX = 1 << 30, /* of a launch */
    ROWS_EACH = 1024,     /* rows of a block that adds up dscale, at most */
    RUNS_FORWARD = 4,
    RUNS_BACKWARD = 2,
};

/* A node, seen as rows. */
typedef struct norm {
    const trp__dnn_node *node;
    const trp__dnn_tensor *tensor[TRP__NORM_OPERANDS]; /* NULL: there is none */
    uint8_t number[TRP__NORM_OPERANDS];
    trp__rows rows;
    bool back, wide, each;
    int runs; /* of 8 elements, of a thread */
    trp__norm p;
    int64_t columns, column_stride[2]; /* backward: of dscale and dbias */
} norm;

static uint8_t port_of(const norm *m, int operand)
{
    static const uint8_t ports[TRP__NORM_OPERANDS] = {
        TRP__DNN_NORM_X,    TRP__DNN_NORM_Y,    TRP__DNN_NORM_DX,           TRP__DNN_NORM_SCALE,
        TRP__DNN_NORM_BIAS, TRP__DNN_NORM_MEAN, TRP__DNN_NORM_INV_VARIANCE,
    };
    if ((operand == TRP__NORM_DX && !m->back) || (operand == TRP__NORM_BIAS && m->back))
        return TRP__DNN_NO_PORT;
    return m->node->port[ports[operand]];
}

static bool find_operands(const trp__dnn_graph *g, norm *m)
{
    for (int o = 0; o < TRP__NORM_OPERANDS; o++) {
        const uint8_t number = m->number[o] = port_of(m, o);
        if (number == TRP__DNN_NO_PORT)
            continue;
        m->tensor[o] = &g->tensor[number];
        if (!trp__rows_takes_type(m->tensor[o]->type) || m->tensor[o]->role == TRP__DNN_VALUE)
            return false;
        if (o <= TRP__NORM_BIAS)
            m->wide = m->wide || m->tensor[o]->type == TRP_F64;
    }
    return true;
}

/* The rows that share their statistics. */
static void find_rows(norm *m)
{
    const trp__dnn_tensor *ports[TRP__DNN_PORTS] = {0}, *x = m->tensor[TRP__NORM_X];
    trp__dnn_tensor one = *x;
    ports[TRP__DNN_NORM_X] = x;
    ports[TRP__DNN_NORM_SCALE] = m->tensor[TRP__NORM_SCALE];
    ports[TRP__DNN_NORM_INV_VARIANCE] = m->tensor[TRP__NORM_INVERSE];
    const trp__dnn_tensor group = trp__dnn_statistics_shape(m->node, ports);
    for (int i = 0; i < one.rank; i++)
        one.dim[i] = 1;
    trp__rows_begin(&m->rows, x, &group);
    for (int o = 0; o < TRP__NORM_OPERANDS; o++)
        trp__rows_add(&m->rows, m->tensor[o] ? m->tensor[o] : &one);
    trp__rows_finish(&m->rows, TRP__NORM_X);
}

/* dscale has an element for each row of some that follow each other, and the same ones again. */
static bool find_columns(norm *m)
{
    const trp__space *kept = &m->rows.kept;
    int i = 0;
    m->columns = 1;
    for (; i < kept->rank && (kept->stride[TRP__NORM_SCALE][i] != 0 || kept->dim[i] == 1); i++)
        m->columns *= kept->dim[i];
    for (; i < kept->rank; i++) {
        if (kept->stride[TRP__NORM_SCALE][i] != 0)
            return false;
    }
    return true;
}

static bool is_dense(const norm *m, int operand)
{
    return !m->tensor[operand] || m->rows.reduced.stride[operand][0] == 1;
}

static bool is_vector(const norm *m, int operand)
{
    return !m->tensor[operand] ||
           (is_dense(m, operand) && trp__rows_is_aligned(m->tensor[operand]));
}

/* dscale and dbias are written where their elements lie in the order of scale's. A scale that is
 * one element for several says neither how many they have nor in which order. */
static bool find_steps(const trp__dnn_graph *g, norm *m)
{
    const uint8_t ports[2] = {TRP__DNN_NORM_DSCALE, TRP__DNN_NORM_BIAS};
    const trp__dnn_tensor *scale = m->tensor[TRP__NORM_SCALE];
    for (int i = 0; i < scale->rank; i++) {
        if (scale->dim[i] > 1 && scale->stride[i] == 0)
            return false;
    }
    for (int i = 0; i < 2; i++) {
        const uint8_t number = m->node->port[ports[i]];
        trp__space s;
        if (number == TRP__DNN_NO_PORT)
            continue;
        const trp__dnn_tensor *t = &g->tensor[number];
        if (t->role == TRP__DNN_VALUE || !trp__rows_takes_type(t->type))
            return false;
        trp__space_begin(&s, scale);
        trp__space_add(&s, scale, t);
        trp__space_add(&s, scale, scale); /* whose order is that of columns */
        trp__space_order(&s, 0);
        trp__space_merge(&s);
        if (s.rank != 1)
            return false;
        m->column_stride[i] = s.dim[0] == 1 ? 1 : s.stride[0][0];
    }
    return true;
}

static bool plan_rows(norm *m)
{
    const trp__space *kept = &m->rows.kept;
    const int most = m->wide ? 1 : m->back ? RUNS_BACKWARD : RUNS_FORWARD;
    bool ragged = false, vector = true;
    if (m->rows.reduced.rank != 1)
        return false;
    for (int o = TRP__NORM_X; o <= TRP__NORM_DX; o++) {
        vector = vector && is_vector(m, o);
        if (!is_dense(m, o))
            return false;
    }
    /* The first three are those of rows; a missing one lies nowhere. */
    trp__space moved = *kept;
    for (int i = 0; i < kept->rank && !m->tensor[TRP__NORM_DX]; i++)
        moved.stride[TRP__NORM_DX][i] = kept->stride[TRP__NORM_X][i];
    m->p.runs =
        vector && trp__rows_are_runs(&moved, 0, 3, &ragged) && !(m->back && m->each && ragged);
    m->p.n = m->rows.reduced.dim[0];
    m->p.each = m->each;
    m->p.each_runs =
        m->each && !ragged && is_vector(m, TRP__NORM_SCALE) && is_vector(m, TRP__NORM_BIAS);
    m->p.centred = m->node->mode != TRP_DNN_RMS;
    m->runs = trp__rows_share(m->p.n + (m->p.runs && ragged ? TRP__ROWS_RUN - 1 : 0), most,
                              TRP__NORM_THREADS, &m->p.threads);
    for (int o = 0; o < TRP__NORM_OPERANDS; o++)
        trp__rows_operand_of(&m->rows, o, 0, m->tensor[o] ? m->tensor[o]->type : TRP_F32,
                             &m->p.io[o]);
    trp__rows_space_of(kept, 0, &m->p.space);
    return m->runs > 0;
}

static bool describe(const trp__dnn_graph *g, const trp__dnn_node *n, norm *m)
{
    *m = (norm){.node = n};
    const uint8_t epsilon = n->port[TRP__DNN_NORM_EPSILON];
    if ((n->kind != TRP_DNN_NORM_TRAINING && n->kind != TRP_DNN_NORM_INFERENCE &&
         n->kind != TRP_DNN_NORM_BACKWARD) ||
        n->mode == TRP_DNN_BATCH || (n->compute != TRP_F32 && n->compute != TRP_F64))
        return false;
    m->back = n->kind == TRP_DNN_NORM_BACKWARD;
    m->wide = n->compute == TRP_F64;
    m->each = n->mode != TRP_DNN_INSTANCE;
    if (epsilon != TRP__DNN_NO_PORT && !trp__rows_takes_type(g->tensor[epsilon].type))
        return false;
    if (!find_operands(g, m))
        return false;
    find_rows(m);
    return plan_rows(m) && (!m->back || ((m->each || find_columns(m)) && find_steps(g, m)));
}

static uint32_t takes(const trp__dnn_graph *g, uint32_t first, uint32_t most)
{
    norm m;
    /* Squares of f64 leave its range where the result does not: the reference kernel scales them.
     */
    return most > 0 && describe(g, &g->node[first], &m) && !m.wide ? 1 : 0;
}

/* Steps. */

typedef struct step {
    trp__norm p;
    trp__norm_sum sum; /* backward */
    uint8_t number[TRP__NORM_OPERANDS], epsilon, out[2];
    bool back;
    uint64_t blocks;
    uint32_t threads;
    const char *type;
    char name[48];
    trp__cu_function function, add;
} step;

/* Blocks of the backward pass, no more than the device has at a time, and where they leave their
 * sums. */
static uint64_t plan_sums(const norm *m, int processors, step *s)
{
    const uint64_t size = m->wide ? 8 : 4, rows = s->blocks;
    const uint32_t resident = m->runs == 1 && !m->wide ? TRP__NORM_RESIDENT_1 : TRP__NORM_RESIDENT;
    uint64_t blocks = (uint64_t)(processors > 0 ? processors : 1) * (resident / s->threads);
    if (blocks < rows / ROWS_EACH)
        blocks = rows / ROWS_EACH;
    if (blocks > BLOCKS_MAX)
        blocks = BLOCKS_MAX;
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

static trp_status make(const trp__dnn_part *part, const trp__kernel_modules *modules, void **out,
                       char engine[TRP_DNN_ENGINE_SIZE], uint64_t *workspace, trp_error *error)
{
    const trp__dnn_graph *g = part->graph;
    const trp__dnn_node *n = &g->node[part->first];
    norm m;
    step *s = calloc(1, sizeof *s);
    if (!s)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a norm");
    if (!describe(g, n, &m)) {
        free(s);
        return trp__error_set(error, TRP_E_INTERNAL, "a norm that does not fit");
    }
    s->p = m.p;
    s->back = m.back;
    s->type = m.wide ? "f64" : "f32";
    memcpy(s->number, m.number, sizeof s->number);
    s->epsilon = m.back ? TRP__DNN_NO_PORT : n->port[TRP__DNN_NORM_EPSILON];
    s->threads = s->p.threads <= 32 ? TRP__NORM_GROUP : (uint32_t)s->p.threads;
    const uint64_t rows = s->threads / (uint32_t)s->p.threads;
    s->blocks = ((uint64_t)s->p.space.rows + rows - 1) / rows;
    s->out[0] = m.back ? n->port[TRP__DNN_NORM_DSCALE] : TRP__DNN_NO_PORT;
    s->out[1] = m.back ? n->port[TRP__DNN_NORM_BIAS] : TRP__DNN_NO_PORT;
    for (int i = 0; i < 2; i++)
        s->sum.type[i] = s->out[i] != TRP__DNN_NO_PORT ? g->tensor[s->out[i]].type : TRP_F32;
    if (s->epsilon != TRP__DNN_NO_PORT)
        s->p.epsilon_type = g->tensor[s->epsilon].type;
    *workspace = m.back ? plan_sums(&m, modules->processors, s) : 0;
    snprintf(s->name, sizeof s->name, "trp_norm_%s%s_%d", m.back ? "back_" : "", s->type, m.runs);
    trp__text name = {.out = engine, .size = TRP_DNN_ENGINE_SIZE};
    trp__text_add(&name, "%s%s", s->name + strlen("trp_"), s->p.runs ? "" : "_loose");
    *out = s;
    return TRP_OK;
}

static void set_addresses(step *s, const trp__kernel_launch *l)
{
    for (int o = 0; o < TRP__NORM_OPERANDS; o++)
        s->p.io[o].at =
            s->number[o] == TRP__DNN_NO_PORT ? 0 : (uint64_t)(uintptr_t)l->at[s->number[o]];
    if (s->epsilon != TRP__DNN_NO_PORT) {
        s->p.epsilon = l->number[s->epsilon];
        s->p.epsilon_at = (uint64_t)(uintptr_t)l->at[s->epsilon];
    }
    s->p.sums = s->sum.sums = (uint64_t)(uintptr_t)l->workspace;
    for (int i = 0; i < 2; i++)
        s->sum.out[i] = s->out[i] == TRP__DNN_NO_PORT ? 0 : (uint64_t)(uintptr_t)l->at[s->out[i]];
}

static trp_status launch(void *state, const trp__kernel_launch *l, trp_error *error)
{
    step *s = state;
    char add[48];
    trp_status status = TRP_OK;
    snprintf(add, sizeof add, "trp_norm_add_%s", s->type);
    if (!s->function)
        status = trp__kernels_function(l->modules, l->instance, TRP__MODULE_NORM, s->name,
                                       &s->function, error);
    if (status == TRP_OK && s->back && !s->add)
        status =
            trp__kernels_function(l->modules, l->instance, TRP__MODULE_NORM, add, &s->add, error);
    set_addresses(s, l);
    for (uint64_t first = 0; first < s->blocks && status == TRP_OK; first += BLOCKS_MAX) {
        const uint64_t left = s->blocks - first;
        s->p.first = (int64_t)first;
        status = trp__kernel_enqueue(l, s->function, left < BLOCKS_MAX ? left : BLOCKS_MAX,
                                     s->threads, 0, &s->p, error);
    }
    if (status == TRP_OK && s->back)
        status = trp__kernel_enqueue(l, s->add, (uint64_t)((s->sum.columns + 31) / 32),
                                     TRP__NORM_SUM_WARPS * 32, 0, &s->sum, error);
    return status;
}

const trp__kernel_family trp__kernels_norm = {
    .name = "norm",
    .takes = takes,
    .make = make,
    .launch = launch,
    .module = TRP__MODULE_NORM,
};
