/* Checks the tensors of GATHER and SCATTER_ADD, and runs GATHER on the host, which moves elements
 * unchanged. */
#include "actors/dnn/training/gather.h"
#include "actors/dnn/training/real.h"
#include "base/error.h"

#include <troupe/convert.h>

#include <math.h>
#include <string.h>

typedef trp__dnn_checked checked;

#define FAIL(c, at, ...) trp__dnn_shape_fail(c, at, __VA_ARGS__)

/* --- The sender's side --- */

/* Computes the dimensions of the slices gathered from `whole`. */
static trp_status slices_of(const checked *c, int *rank, int64_t dim[TRP__DNN_RANK])
{
    const trp__dnn_tensor *whole = trp__train_tensor(c, TRP__GATHER_WHOLE);
    const trp__dnn_tensor *index = trp__train_tensor(c, TRP__GATHER_INDEX);
    const int axis = trp__train_axis(c->n);
    const bool elements = c->n->mode == TRP_DNN_GATHER_ELEMENTS;
    if (axis >= whole->rank)
        return trp__error_set(c->m->error, TRP_E_ARGUMENT,
                              "nodes[%u].axis (%s): expected less than the %d dimensions, got %d",
                              c->index, c->kind->name, whole->rank, axis);
    if (!elements && whole->rank - 1 + index->rank > TRP__DNN_RANK)
        return FAIL(c, TRP__GATHER_INDEX,
                    "expected at most %d dimensions beside the other %d, "
                    "got %d",
                    TRP__DNN_RANK - whole->rank + 1, whole->rank - 1, index->rank);
    if (elements && index->rank != whole->rank)
        return FAIL(c, TRP__GATHER_INDEX, "expected %d dimensions, got %d", whole->rank,
                    index->rank);
    *rank = 0;
    for (int i = 0; i < whole->rank; i++) {
        if (elements && i != axis && index->dim[i] > whole->dim[i])
            return FAIL(c, TRP__GATHER_INDEX, "dimension %d: expected at most %lld, got %lld", i,
                        (long long)whole->dim[i], (long long)index->dim[i]);
        if (elements) {
            dim[(*rank)++] = index->dim[i];
        } else if (i != axis) {
            dim[(*rank)++] = whole->dim[i];
        } else {
            for (int k = 0; k < index->rank; k++)
                dim[(*rank)++] = index->dim[k];
        }
    }
    return TRP_OK;
}

static bool is_small(uint8_t type)
{
    return type == TRP_I8 || type == TRP_U8 || type == TRP_I32 || type == TRP_BOOL;
}

static trp_status check_types(const checked *c)
{
    const int to = c->n->kind == TRP_DNN_GATHER ? TRP__GATHER_SLICES : TRP__GATHER_WHOLE;
    const int from = c->n->kind == TRP_DNN_GATHER ? TRP__GATHER_WHOLE : TRP__GATHER_SLICES;
    const trp__dnn_tensor *x = trp__train_tensor(c, from);
    trp__dnn_tensor *y = trp__train_tensor(c, to);
    if (c->n->kind == TRP_DNN_GATHER && is_small(x->type) && x->role != TRP__DNN_VALUE) {
        if (y->type == TRP_DTYPE_NONE)
            y->type = x->type;
        return y->type == x->type
                   ? TRP_OK
                   : FAIL(c, to, "expected %s, as x has, got %s",
                          trp_dtype_name((trp_dtype)x->type), trp_dtype_name((trp_dtype)y->type));
    }
    trp_status status = trp__train_check_real(c, from, TRP_F32);
    if (status == TRP_OK)
        status = trp__train_check_real(c, to, (trp_dtype)x->type);
    return status == TRP_OK && c->n->kind == TRP_DNN_SCATTER_ADD
               ? trp__train_check_real(c, TRP__GATHER_BEFORE, (trp_dtype)y->type)
               : status;
}

static trp_status check(const checked *c)
{
    trp__dnn_tensor *whole = trp__train_tensor(c, TRP__GATHER_WHOLE);
    const trp__dnn_tensor *before =
        c->n->kind == TRP_DNN_SCATTER_ADD ? trp__train_tensor(c, TRP__GATHER_BEFORE) : NULL;
    int64_t dim[TRP__DNN_RANK];
    int rank = 0;
    trp_status status = trp__train_check_index(c, TRP__GATHER_INDEX);
    if (status == TRP_OK && before)
        status = trp__dnn_expect_dims(c, TRP__GATHER_WHOLE, before->rank, before->dim);
    if (status == TRP_OK && whole->rank == 0)
        return FAIL(c, TRP__GATHER_WHOLE, "expected dimensions: they do not follow from dy");
    if (status == TRP_OK)
        status = slices_of(c, &rank, dim);
    if (status == TRP_OK)
        status = trp__dnn_expect_dims(c, TRP__GATHER_SLICES, rank, dim);
    if (status == TRP_OK)
        status = check_types(c);
    return status == TRP_OK ? trp__train_set_compute(c, TRP__GATHER_WHOLE) : status;
}

/* --- The host's side --- */

trp__gather trp__gather_of(const trp__train_node *x)
{
    const trp__dnn_tensor *whole = x->t[TRP__GATHER_WHOLE], *index = x->t[TRP__GATHER_INDEX];
    trp__gather g = {.axis = trp__train_axis(x->n),
                     .elements = x->n->mode == TRP_DNN_GATHER_ELEMENTS,
                     .count = trp__dnn_elements(index)};
    g.rank = whole->rank;
    g.index_rank = index->rank;
    g.line = 1;
    g.lines = 1;
    if (g.elements)
        return g;
    /* All dimensions except the axis; the last one after it is the line. */
    for (int i = 0; i < whole->rank; i++) {
        if (i == g.axis)
            continue;
        if (i == whole->rank - 1) {
            g.line = whole->dim[i];
            g.whole_step = whole->stride[i];
            g.slices_step = x->t[TRP__GATHER_SLICES]->stride[i - 1 + index->rank];
        } else {
            g.lines *= whole->dim[i];
        }
    }
    return g;
}

static void unfold(const trp__dnn_tensor *t, int64_t number, int64_t at[TRP__DNN_RANK])
{
    for (int i = t->rank - 1; i >= 0; i--) {
        at[i] = number % t->dim[i];
        number /= t->dim[i];
    }
}

int64_t trp__gather_target(const trp__train_node *x, const trp__gather *g, int64_t number)
{
    const trp__dnn_tensor *index = x->t[TRP__GATHER_INDEX], *whole = x->t[TRP__GATHER_WHOLE];
    int64_t at[TRP__DNN_RANK], offset = 0, target = 0;
    unfold(index, number, at);
    for (int i = 0; i < index->rank; i++)
        offset += at[i] * index->stride[i];
    const int64_t value = trp__train_index(index, x->at[TRP__GATHER_INDEX], offset);
    if (value < 0 || value >= whole->dim[g->axis] || trp__train_ignores(x->n, value))
        return -1;
    if (!g->elements)
        return value;
    for (int i = 0; i < g->rank; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
        target = target * whole->dim[i] + (i == g->axis ? value : at[i]);
    return target;
}

int64_t trp__gather_whole(const trp__gather *g, const trp__dnn_tensor *t, int64_t target,
                          int64_t line)
{
    int64_t at[TRP__DNN_RANK], offset = 0;
    if (g->elements) {
        unfold(t, target, at);
        for (int i = 0; i < g->rank; i++)
            offset += at[i] * t->stride[i];
        return offset;
    }
    for (int i = g->rank - 1; i >= 0; i--) {
        if (i == g->axis) {
            offset += target * t->stride[i];
        } else if (i != g->rank - 1) { /* the line runs along the last one */
            offset += line % t->dim[i] * t->stride[i];
            line /= t->dim[i];
        }
    }
    return offset;
}

int64_t trp__gather_slice(const trp__train_node *x, const trp__gather *g, int64_t number,
                          int64_t line)
{
    const trp__dnn_tensor *w = x->t[TRP__GATHER_WHOLE], *s = x->t[TRP__GATHER_SLICES];
    int64_t at[TRP__DNN_RANK], offset = 0;
    const int first = g->elements ? 0 : g->axis;
    unfold(x->t[TRP__GATHER_INDEX], number, at);
    for (int i = 0; i < g->index_rank; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
        offset += at[i] * s->stride[first + i];
    for (int i = g->rank - 1; i >= 0 && !g->elements; i--) {
        if (i == g->axis || i == g->rank - 1)
            continue;
        offset += line % w->dim[i] * s->stride[i < g->axis ? i : i - 1 + g->index_rank];
        line /= w->dim[i];
    }
    return offset;
}

#define COPY(type)                                                                                 \
    do {                                                                                           \
        for (int64_t i = 0; i < count; i++)                                                        \
            ((type *)to)[i * to_step] = ((const type *)from)[i * from_step];                       \
    } while (0)

static void copy_elements(const char *from, int64_t from_step, char *to, int64_t to_step,
                          int64_t size, int64_t count)
{
    if (from_step == 1 && to_step == 1)
        memcpy(to, from, (size_t)(count * size));
    else if (size == 1)
        COPY(uint8_t);
    else if (size == 2)
        COPY(uint16_t);
    else if (size == 4)
        COPY(uint32_t);
    else
        COPY(uint64_t);
}

static void gather_line(const trp__train_node *x, const trp__gather *g, int64_t from, int64_t to)
{
    enum { BLOCK = 256 };
    const trp__dnn_tensor *w = x->t[TRP__GATHER_WHOLE], *s = x->t[TRP__GATHER_SLICES];
    const int64_t size = trp_dtype_bits((trp_dtype)w->type) / 8;
    double block[BLOCK];
    if (w->type == s->type) {
        copy_elements((const char *)x->at[TRP__GATHER_WHOLE] + from * size, g->whole_step,
                      (char *)x->at[TRP__GATHER_SLICES] + to * size, g->slices_step, size, g->line);
        return;
    }
    for (int64_t i = 0, count; i < g->line; i += count) {
        count = g->line - i < BLOCK ? g->line - i : BLOCK;
        const double *v = trp__train_view_f64(w, x->at[TRP__GATHER_WHOLE], from + i * g->whole_step,
                                              g->whole_step, count, block);
        trp__train_put_f64(s, x->at[TRP__GATHER_SLICES], to + i * g->slices_step, g->slices_step,
                           count, v);
    }
}

/* Stores the result of an index out of range: NaN, or 0. */
static void put_none(const trp__train_node *x, const trp__gather *g, int64_t to)
{
    static const double none = NAN;
    const trp__dnn_tensor *s = x->t[TRP__GATHER_SLICES];
    const int64_t size = trp_dtype_bits((trp_dtype)s->type) / 8;
    unsigned char bytes[8] = {0};
    if (!is_small(s->type))
        (void)trp_convert(TRP_F64, &none, (trp_dtype)s->type, bytes, 1);
    copy_elements((const char *)bytes, 0, (char *)x->at[TRP__GATHER_SLICES] + to * size,
                  g->slices_step, size, g->line);
}

typedef struct gathering {
    const trp__train_node *x;
    const trp__gather *g;
} gathering;

static void gather_part(void *context, int64_t first, int64_t end)
{
    const gathering *all = context;
    const trp__gather *g = all->g;
    for (int64_t i = first; i < end; i++) {
        const int64_t target = trp__gather_target(all->x, g, i / g->lines), line = i % g->lines;
        const int64_t to = trp__gather_slice(all->x, g, i / g->lines, line);
        if (target < 0)
            put_none(all->x, g, to);
        else
            gather_line(all->x, g, trp__gather_whole(g, all->x->t[TRP__GATHER_WHOLE], target, line),
                        to);
    }
}

static void run_gather(const trp__train_node *x)
{
    const trp__gather g = trp__gather_of(x);
    gathering all = {x, &g};
    if (trp__dnn_elements(x->t[TRP__GATHER_SLICES]) > 0)
        trp__train_share(g.count * g.lines, (1 << 16) / g.line + 1, gather_part, &all);
}

/* Returns the bytes for target numbers and for indices sorted by target, see gather_real.h. */
static size_t scatter_bytes(const trp__dnn_node *n, const trp__dnn_tensor *const t[])
{
    const trp__dnn_tensor *whole = t[TRP__GATHER_WHOLE];
    const int64_t targets = n->mode == TRP_DNN_GATHER_ELEMENTS ? trp__dnn_elements(whole)
                                                               : whole->dim[trp__train_axis(n)];
    return (size_t)(targets + 1 + 2 * trp__dnn_elements(t[TRP__GATHER_INDEX])) * sizeof(int64_t);
}

/* Returns the bytes on a GPU for keys and numbers, twice, see reference/gather.h. */
static uint64_t scatter_device_bytes(const trp__dnn_node *n, const trp__dnn_tensor *const t[])
{
    (void)n;
    return (uint64_t)trp__dnn_elements(t[TRP__GATHER_INDEX]) * 4 * sizeof(int64_t);
}

const trp__train_op trp__train_gather = {
    .kind = {.name = "gather",
             .port = {[TRP__GATHER_WHOLE] = TRP__PORT_IN(x),
                      [TRP__GATHER_INDEX] = TRP__PORT_IN(index),
                      [TRP__GATHER_SLICES] = TRP__PORT_OUT(y)}},
    .check = check,
    .run_f32 = run_gather,
    .run_f64 = run_gather,
};

const trp__train_op trp__train_scatter = {
    .kind = {.name = "scatter_add",
             .port = {[TRP__GATHER_SLICES] = TRP__PORT_IN(dy),
                      [TRP__GATHER_INDEX] = TRP__PORT_IN(index),
                      [TRP__GATHER_BEFORE] = TRP__PORT_MAY(x),
                      [TRP__GATHER_WHOLE] = TRP__PORT_OUT(y)}},
    .check = check,
    .host_bytes = scatter_bytes,
    .run_f32 = trp__train_scatter_f32,
    .run_f64 = trp__train_scatter_f64,
    .device_bytes = scatter_device_bytes,
};
