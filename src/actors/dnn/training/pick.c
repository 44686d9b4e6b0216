/* Checks the tensors of ARG, TOP_K and SAMPLE, and runs them on the host. */
#include "actors/dnn/math/pick.h"
#include "actors/dnn/training/parts.h"
#include "base/error.h"

#include <string.h>

typedef trp__dnn_checked checked;

#define FAIL(c, at, ...) trp__dnn_shape_fail(c, at, __VA_ARGS__)

/* --- The sender's side --- */

static trp_status check_axis(const checked *c)
{
    const trp__dnn_tensor *x = trp__train_tensor(c, TRP__PICK_X);
    const int axis = trp__train_axis(c->n);
    if (axis >= x->rank)
        return trp__error_set(c->m->error, TRP_E_ARGUMENT,
                              "nodes[%u].axis (%s): expected less than the %d dimensions, got %d",
                              c->index, c->kind->name, x->rank, axis);
    if (x->dim[axis] < 1)
        return FAIL(c, TRP__PICK_X, "dimension %d: expected at least 1 element, got 0", axis);
    return TRP_OK;
}

static trp_status check_arg(const checked *c)
{
    const trp__dnn_tensor *x = trp__train_tensor(c, TRP__PICK_X);
    const bool small =
        x->type == TRP_I8 || x->type == TRP_U8 || x->type == TRP_I32 || x->type == TRP_BOOL;
    int64_t dim[TRP__DNN_RANK];
    trp_status status = small && x->role != TRP__DNN_VALUE
                            ? TRP_OK
                            : trp__train_check_real(c, TRP__PICK_X, TRP_F32);
    if (status == TRP_OK)
        status = check_axis(c);
    if (status != TRP_OK)
        return status;
    memcpy(dim, x->dim, sizeof dim);
    dim[trp__train_axis(c->n)] = 1;
    status = trp__dnn_expect_dims(c, TRP__PICK_INDEX, x->rank, dim);
    if (status == TRP_OK)
        status = trp__train_check_index(c, TRP__PICK_INDEX);
    return status == TRP_OK ? trp__train_set_compute(c, TRP__PICK_X) : status;
}

static trp_status check_top_k(const checked *c)
{
    const trp__dnn_tensor *x = trp__train_tensor(c, TRP__PICK_X);
    const trp__dnn_tensor *index = trp__train_tensor(c, TRP__PICK_INDEX);
    const int axis = trp__train_axis(c->n);
    int64_t dim[TRP__DNN_RANK];
    trp_status status = trp__train_check_real(c, TRP__PICK_X, TRP_F32);
    if (status == TRP_OK)
        status = check_axis(c);
    if (status != TRP_OK)
        return status;
    if (index->rank == 0)
        return FAIL(c, TRP__PICK_INDEX, "expected dimensions: they do not follow from x");
    memcpy(dim, x->dim, sizeof dim);
    if (axis < index->rank)
        dim[axis] = index->dim[axis];
    if (dim[axis] > x->dim[axis])
        return FAIL(c, TRP__PICK_INDEX, "dimension %d: expected at most %lld, got %lld", axis,
                    (long long)x->dim[axis], (long long)dim[axis]);
    status = trp__dnn_expect_dims(c, TRP__PICK_INDEX, x->rank, dim);
    if (status == TRP_OK && trp__train_tensor(c, TRP__PICK_Y))
        status = trp__dnn_expect_dims(c, TRP__PICK_Y, x->rank, dim);
    if (status == TRP_OK)
        status = trp__train_check_real(c, TRP__PICK_Y, (trp_dtype)x->type);
    if (status == TRP_OK)
        status = trp__train_check_index(c, TRP__PICK_INDEX);
    return status == TRP_OK ? trp__train_set_compute(c, TRP__PICK_X) : status;
}

/* Reads a number passed by value. */
static bool value_of(const checked *c, int at, double *value)
{
    const trp__dnn_tensor *t = trp__train_tensor(c, at);
    if (!t || t->role != TRP__DNN_VALUE)
        return false;
    *value = c->m->given[c->m->name[c->n->port[at]]].value.re;
    return true;
}

static trp_status check_sample(const checked *c)
{
    const trp__dnn_tensor *x = trp__train_tensor(c, TRP__PICK_X);
    const trp__dnn_tensor *index = trp__train_tensor(c, TRP__PICK_INDEX);
    int64_t rows[TRP__DNN_RANK];
    double value;
    trp_status status = trp__train_check_real(c, TRP__PICK_X, TRP_F32);
    if (status == TRP_OK && x->dim[x->rank - 1] < 1)
        return FAIL(c, TRP__PICK_X, "expected at least 1 class, got 0");
    for (int at = TRP__PICK_SEED; at <= TRP__PICK_LIMIT && status == TRP_OK; at++)
        status = trp__train_check_one(c, at, at <= TRP__PICK_OFFSET || at == TRP__PICK_COUNT);
    if (status == TRP_OK && value_of(c, TRP__PICK_SCALE, &value) && !(value >= 0))
        return FAIL(c, TRP__PICK_SCALE, "expected a temperature of at least 0, got %g", value);
    if (status == TRP_OK && value_of(c, TRP__PICK_LIMIT, &value) && !(value >= 0 && value <= 1))
        return FAIL(c, TRP__PICK_LIMIT, "expected a share, 0 to 1, got %g", value);
    if (status != TRP_OK)
        return status;
    memcpy(rows, x->dim, sizeof rows);
    rows[x->rank - 1] = 1;
    status = trp__dnn_expect_dims(
        c, TRP__PICK_INDEX, index->rank > 0 && index->rank == x->rank - 1 ? index->rank : x->rank,
        rows);
    if (status == TRP_OK)
        status = trp__train_check_index(c, TRP__PICK_INDEX);
    return status == TRP_OK ? trp__train_set_compute(c, TRP__PICK_X) : status;
}

/* --- The host's side --- */

enum { THREADS = 32 };

typedef struct pick {
    const trp__train_node *x;
    trp__train_walk walk; /* iterates over lines */
    int axis;
    int64_t length, some;
    trp__pick_sample sample;
} pick;

/* Returns the memory of one thread: a line as f64, and as many indices. */
static size_t line_bytes(const trp__dnn_node *n, const trp__dnn_tensor *const t[])
{
    const trp__dnn_tensor *x = t[TRP__PICK_X];
    const int axis = n->kind == TRP_DNN_SAMPLE ? x->rank - 1 : trp__train_axis(n);
    return (size_t)x->dim[axis] * (sizeof(double) + sizeof(int64_t));
}

static size_t host_bytes(const trp__dnn_node *n, const trp__dnn_tensor *const t[])
{
    return THREADS * line_bytes(n, t);
}

static uint64_t device_bytes(const trp__dnn_node *n, const trp__dnn_tensor *const t[])
{
    return TRP__PICK_SLOTS * (uint64_t)line_bytes(n, t);
}

static void pick_line(const pick *p, int64_t line, double *v, int64_t *heap)
{
    const trp__train_node *x = p->x;
    const trp__dnn_tensor *in = x->t[TRP__PICK_X], *index = x->t[TRP__PICK_INDEX];
    const trp__dnn_tensor *y = x->t[TRP__PICK_Y];
    const bool smallest = x->n->mode == TRP_DNN_SMALLEST;
    trp__train_walk w = p->walk;
    trp__train_walk_to(&w, line);
    const double *from = trp__train_view_f64(in, x->at[TRP__PICK_X], trp__train_walk_offset(&w, in),
                                             in->stride[p->axis], p->length, v);
    const int64_t to = trp__train_walk_offset(&w, index);
    if (x->n->kind == TRP_DNN_ARG) {
        trp__train_put_index(index, x->at[TRP__PICK_INDEX], to,
                             trp__pick_arg(smallest, from, p->length));
        return;
    }
    if (x->n->kind == TRP_DNN_SAMPLE) {
        if (from != v)
            memcpy(v, from, (size_t)p->length * sizeof *v);
        trp__train_put_index(index, x->at[TRP__PICK_INDEX], to,
                             trp__pick_class(&p->sample, line, v, heap, p->length));
        return;
    }
    trp__pick_sort(smallest, from, heap, p->length, p->some);
    for (int64_t i = 0; i < p->some; i++) {
        const int64_t ranked = trp__pick_ranked(heap, p->length, i);
        trp__train_put_index(index, x->at[TRP__PICK_INDEX], to + i * index->stride[p->axis],
                             ranked);
        if (y)
            trp__train_put_f64(y, x->at[TRP__PICK_Y],
                               trp__train_walk_offset(&w, y) + i * y->stride[p->axis], 1, 1,
                               &from[ranked]);
    }
}

typedef struct picks {
    const pick *p;
    int64_t lines, parts;
} picks;

/* Processes a part of the lines with separate memory. */
static void pick_parts(void *context, int64_t first, int64_t end)
{
    const picks *all = context;
    const pick *p = all->p;
    for (int64_t part = first; part < end; part++) {
        double *v = (double *)(void *)(p->x->scratch + (size_t)part * line_bytes(p->x->n, p->x->t));
        int64_t *heap = (int64_t *)(void *)(v + p->length);
        for (int64_t i = all->lines * part / all->parts; i < all->lines * (part + 1) / all->parts;
             i++)
            pick_line(p, i, v, heap);
    }
}

static void run(const trp__train_node *x)
{
    const trp__dnn_tensor *in = x->t[TRP__PICK_X];
    pick p = {.x = x, .axis = x->n->kind == TRP_DNN_SAMPLE ? in->rank - 1 : trp__train_axis(x->n)};
    const int64_t lines = trp__train_walk_begin(&p.walk, in, p.axis, 1);
    p.length = in->dim[p.axis];
    if (x->n->kind == TRP_DNN_TOP_K)
        p.some = x->t[TRP__PICK_INDEX]->dim[p.axis];
    if (x->n->kind == TRP_DNN_SAMPLE)
        p.sample =
            (trp__pick_sample){.seed = (uint64_t)trp__train_integer(x, TRP__PICK_SEED, 0),
                               .offset = (uint64_t)trp__train_integer(x, TRP__PICK_OFFSET, 0),
                               .temperature = trp__train_number(x, TRP__PICK_SCALE, 1),
                               .limit = trp__train_number(x, TRP__PICK_LIMIT, 1),
                               .count = trp__train_integer(x, TRP__PICK_COUNT, 0),
                               .sorted = x->t[TRP__PICK_COUNT] || x->t[TRP__PICK_LIMIT]};
    picks all = {&p, lines, lines < THREADS ? lines : THREADS};
    if (lines > 0)
        trp__train_share(all.parts, (1 << 14) / (p.length * (lines / all.parts)) + 1, pick_parts,
                         &all);
}

const trp__train_op trp__train_arg = {
    .kind = {.name = "arg",
             .port = {[TRP__PICK_X] = TRP__PORT_IN(x), [TRP__PICK_INDEX] = TRP__PORT_OUT(index)}},
    .check = check_arg,
    .host_bytes = host_bytes,
    .run_f32 = run,
    .run_f64 = run,
};

const trp__train_op trp__train_top_k = {
    .kind = {.name = "top_k",
             .port = {[TRP__PICK_X] = TRP__PORT_IN(x),
                      [TRP__PICK_Y] = TRP__PORT_GET(y),
                      [TRP__PICK_INDEX] = TRP__PORT_OUT(index)}},
    .check = check_top_k,
    .host_bytes = host_bytes,
    .run_f32 = run,
    .run_f64 = run,
    .device_bytes = device_bytes,
};

const trp__train_op trp__train_sample = {
    .kind = {.name = "sample",
             .port = {[TRP__PICK_X] = TRP__PORT_IN(x),
                      [TRP__PICK_INDEX] = TRP__PORT_OUT(index),
                      [TRP__PICK_SEED] = TRP__PORT_IN(seed),
                      [TRP__PICK_OFFSET] = TRP__PORT_MAY(offset),
                      [TRP__PICK_SCALE] = TRP__PORT_MAY(scale),
                      [TRP__PICK_COUNT] = TRP__PORT_MAY(count),
                      [TRP__PICK_LIMIT] = TRP__PORT_MAY(limit)}},
    .check = check_sample,
    .host_bytes = host_bytes,
    .run_f32 = run,
    .run_f64 = run,
    .device_bytes = device_bytes,
};
