/* Computes convolutions on the host as products: parts of A and B are gathered into tiles that
 * OpenBLAS multiplies one after the other, so that they need no more memory than products. */
#include "actors/cutlass/host/host.h"

#include <stdlib.h>
#include <string.h>

enum { TILE = TRP__HOST_TILE, DIMS = TRP__CONV_DIMS };

/* An image and one of its pixels, or a filter position: number `index` of all. */
typedef struct position {
    int64_t n, at[DIMS];
} position;

static position position_of(int64_t index, const int32_t size[DIMS])
{
    position p;
    for (int i = DIMS - 1; i >= 0; i--) {
        p.at[i] = index % size[i];
        index /= size[i];
    }
    p.n = index;
    return p;
}

static int64_t offset_of(const position *p, const int64_t stride[1 + DIMS])
{
    return p->n * stride[0] + p->at[0] * stride[1] + p->at[1] * stride[2] + p->at[2] * stride[3];
}

/* Returns the offset of a filter position in dimension i. */
static int64_t reach(const trp__cutlass_conv *g, const position *f, int i)
{
    return (g->flip ? g->filter[i] - 1 - f->at[i] : f->at[i]) * g->dilation[i] - g->pad[i];
}

/* Finds the activation's pixel for a pixel of the output and a filter position; returns false if it
 * is outside. */
static bool activation_at(const trp__cutlass_conv *g, const position *p, const position *f,
                          position *out)
{
    out->n = p->n;
    for (int i = 0; i < DIMS; i++) {
        out->at[i] = p->at[i] * g->stride[i] + reach(g, f, i);
        if (out->at[i] < 0 || out->at[i] >= g->input[i])
            return false;
    }
    return true;
}

/* Finds the output's pixel for a pixel of the activation and a filter position. */
static bool output_at(const trp__cutlass_conv *g, const position *p, const position *f,
                      position *out)
{
    out->n = p->n;
    for (int i = 0; i < DIMS; i++) {
        int64_t from = p->at[i] - reach(g, f, i);
        out->at[i] = from / g->stride[i];
        if (from < 0 || from % g->stride[i] != 0 || out->at[i] >= g->output[i])
            return false;
    }
    return true;
}

/* Gathered lines of a tile are TILE elements apart, in the type of the sums. */

/* A or B. */
typedef struct source {
    const void *at;
    uint8_t type;
    bool wide;             /* f64 */
    const int64_t *stride; /* strides of its dimensions */
    int64_t channel;       /* first channel of the group */
    int64_t channels;      /* of the group */
} source;

static void take(const source *s, int64_t first, int64_t count, void *to)
{
    trp__host_widen(s->type, s->at, first, count, s->wide, to);
}

static size_t bytes_of(const source *s, int64_t count)
{
    return (size_t)count * (s->wide ? sizeof(double) : sizeof(float));
}

static void *element(const source *s, void *tile, int64_t index)
{
    return (char *)tile + bytes_of(s, index);
}

/* Gathers a line per pixel (of `size`), along filter positions and, innermost, channels: the
 * element for each pixel and filter position, 0 outside. */
static void gather_met(const trp__cutlass_conv *g, const source *s, const int32_t size[DIMS],
                       bool (*met)(const trp__cutlass_conv *, const position *, const position *,
                                   position *),
                       int64_t line, int64_t lines, int64_t first, int64_t length, void *tile)
{
    for (int64_t l = 0; l < lines; l++) {
        position p = position_of(line + l, size), at;
        for (int64_t i = 0, count; i < length; i += count) {
            position f = position_of((first + i) / s->channels, g->filter);
            int64_t channel = (first + i) % s->channels;
            void *to = element(s, tile, l * TILE + i);
            count = s->channels - channel < length - i ? s->channels - channel : length - i;
            if (met(g, &p, &f, &at))
                take(s, offset_of(&at, s->stride) + s->channel + channel, count, to);
            else
                memset(to, 0, bytes_of(s, count));
        }
    }
}

/* Gathers a line per filter from number `line` on, along filter positions and channels. */
static void gather_filters(const trp__cutlass_conv *g, const source *s, int64_t line, int64_t lines,
                           int64_t first, int64_t length, void *tile)
{
    for (int64_t l = 0; l < lines; l++) {
        for (int64_t i = 0, count; i < length; i += count) {
            position f = position_of((first + i) / s->channels, g->filter);
            int64_t channel = (first + i) % s->channels;
            count = s->channels - channel < length - i ? s->channels - channel : length - i;
            f.n = line + l;
            take(s, offset_of(&f, s->stride) + channel, count, element(s, tile, l * TILE + i));
        }
    }
}

/* Gathers a line per filter position and, innermost, each of a group's `filters` from number
 * `filter` on; along channels. */
static void gather_channels(const trp__cutlass_conv *g, const source *s, int64_t filter,
                            int64_t filters, int64_t line, int64_t lines, int64_t first,
                            int64_t length, void *tile)
{
    for (int64_t l = 0; l < lines; l++) {
        position f = position_of((line + l) / filters, g->filter);
        f.n = filter + (line + l) % filters;
        take(s, offset_of(&f, s->stride) + first, length, element(s, tile, l * TILE));
    }
}

/* Gathers a line per pixel of the output, along channels. */
static void gather_pixels(const trp__cutlass_conv *g, const source *s, int64_t line, int64_t lines,
                          int64_t first, int64_t length, void *tile)
{
    for (int64_t l = 0; l < lines; l++) {
        position p = position_of(line + l, g->output);
        take(s, offset_of(&p, s->stride) + first, length, element(s, tile, l * TILE));
    }
}

/* One group's part of the work. */
typedef struct part {
    const trp__conv_run *x;
    source a, b;
    int64_t row, rows, column, columns; /* of D */
    int64_t depth;                      /* of the sums */
    int64_t filter, filters;            /* of the group */
} part;

static part part_of(const trp__conv_run *x, int64_t group)
{
    const trp__cutlass_conv *g = &x->g;
    int64_t channels = g->channels / g->groups, filters = g->filters / g->groups;
    bool wide = g->type[TRP__GEMM_A] == TRP_F64;
    part p = {.x = x,
              .a = {x->a, g->type[TRP__GEMM_A], wide, g->a_stride, 0, filters},
              .b = {x->b, g->type[TRP__GEMM_B], wide, g->b_stride, 0, channels},
              .rows = trp__conv_rows(g),
              .columns = trp__conv_columns(g),
              .filter = group * filters,
              .filters = filters};
    if (g->operation == TRP_CONV_FPROP) {
        p.a.channels = channels;
        p.a.channel = group * channels;
        p.column = group * filters;
        p.columns = filters;
        p.depth = trp__conv_volume(g->filter) * channels;
    } else if (g->operation == TRP_CONV_DGRAD) {
        p.a.channel = group * filters;
        p.column = group * channels;
        p.columns = channels;
        p.depth = trp__conv_volume(g->filter) * filters;
    } else {
        p.b.channel = group * channels;
        p.row = group * filters;
        p.rows = filters;
        p.depth = g->images * trp__conv_volume(g->output);
    }
    return p;
}

/* Gathers `depth` terms of a tile's sums from number `first` on: A into `a` and B into `b`, in
 * layouts that depend on the operation. */
static void gather(const part *p, const trp__tree_tile *t, int64_t first, int64_t depth, void *a,
                   void *b)
{
    const trp__cutlass_conv *g = &p->x->g;
    int64_t column = t->column - p->column;
    switch (g->operation) {
    case TRP_CONV_FPROP:
        gather_met(g, &p->a, g->output, activation_at, t->row, t->rows, first, depth, a);
        gather_filters(g, &p->b, t->column, t->columns, first, depth, b);
        break;
    case TRP_CONV_DGRAD:
        gather_met(g, &p->a, g->input, output_at, t->row, t->rows, first, depth, a);
        gather_channels(g, &p->b, p->filter, p->filters, first, depth, column, t->columns, b);
        break;
    default:
        gather_pixels(g, &p->a, first, depth, t->row, t->rows, a);
        gather_met(g, &p->b, g->output, activation_at, first, depth, t->column, t->columns, b);
    }
}

/* Computes the sums of a tile, column-major. */
static const void *sums_of(const part *p, const trp__tree_tile *t)
{
    const trp__conv_run *x = p->x;
    const size_t bytes = (size_t)TILE * TILE * sizeof(double);
    void *a = x->scratch, *b = (char *)a + bytes, *sums = (char *)b + bytes;
    int trans_a = x->g.operation == TRP_CONV_WGRAD ? TRP__CBLAS_NO_TRANS : TRP__CBLAS_TRANS;
    int trans_b = x->g.operation == TRP_CONV_FPROP ? TRP__CBLAS_NO_TRANS : TRP__CBLAS_TRANS;
    if (p->depth == 0)
        memset(sums, 0, bytes);
    for (int64_t first = 0; first < p->depth; first += TILE) {
        int64_t depth = trp__at_most_a_tile(p->depth - first);
        gather(p, t, first, depth, a, b);
        if (p->a.wide)
            x->blas->cblas_dgemm(TRP__CBLAS_COLUMN_MAJOR, trans_a, trans_b, (int)t->rows,
                                 (int)t->columns, (int)depth, 1, a, TILE, b, TILE, first > 0, sums,
                                 TILE);
        else
            x->blas->cblas_sgemm(TRP__CBLAS_COLUMN_MAJOR, trans_a, trans_b, (int)t->rows,
                                 (int)t->columns, (int)depth, 1, a, TILE, b, TILE, first > 0, sums,
                                 TILE);
    }
    return sums;
}

static void run_part(const part *p, const trp__tree_eval *eval)
{
    trp__tree_tile t = {
        .acc_type = (trp_dtype)eval->tree->accumulator, .acc_order = TRP_COL_MAJOR, .acc_ld = TILE};
    int64_t last_row = p->row + p->rows, last_column = p->column + p->columns;
    for (t.row = p->row; t.row < last_row; t.row += TILE) {
        t.rows = trp__at_most_a_tile(last_row - t.row);
        for (t.column = p->column; t.column < last_column; t.column += TILE) {
            t.columns = trp__at_most_a_tile(last_column - t.column);
            t.acc = sums_of(p, &t);
            trp__tree_eval_tile(eval, &t);
        }
    }
}

static void run(void *arguments)
{
    trp__conv_run *x = *(trp__conv_run **)arguments; /* in the ring */
    const trp__tree_eval eval = {.tree = &x->epilogue.tree,
                                 .m = trp__conv_rows(&x->g),
                                 .n = trp__conv_columns(&x->g),
                                 .batch = 1,
                                 .slot = x->epilogue.slot,
                                 .sums = x->epilogue.sums};
    trp__tree_eval_begin(&eval);
    for (int64_t group = 0; group < x->g.groups; group++) {
        const part p = part_of(x, group);
        run_part(&p, &eval);
    }
    trp__tree_eval_end(&eval);
    free(x->epilogue.sums);
}

trp_status trp__cutlass_host_conv(trp_instance *instance, trp_job *job, trp__conv_run *x,
                                  trp_error *error)
{
    const trp__cutlass_room *s = instance->state;
    const trp__cutlass_conv *g = &x->g;
    memcpy(&x->g, job->payload, sizeof x->g);
    if (trp__conv_rows(g) == 0)
        return TRP_OK;
    const unsigned char *rest = trp__job_rest(job, g->rest, sizeof g->rest,
                                              trp__gemm_rest_bytes(g->slots, g->tree_bytes), error);
    if (!rest)
        return TRP_E_INTERNAL;
    trp_status status = trp__epilogue_read(&x->epilogue, job, rest, g->slots, g->tree_bytes, error);
    if (status == TRP_OK)
        status = trp__epilogue_make_sums(&x->epilogue, trp__conv_rows(g), trp__conv_columns(g), 1,
                                         error);
    if (status != TRP_OK)
        return status;
    x->blas = s->host.blas;
    x->scratch = s->host.scratch;
    x->a = trp__job_address(job, g->access[TRP__GEMM_A]);
    x->b = trp__job_address(job, g->access[TRP__GEMM_B]);
    x->epilogue.slot[TRP__TREE_SLOT_C] =
        (trp__tree_data){.at = trp__job_address(job, g->access[TRP__GEMM_C]), .ld = g->c_ld};
    x->epilogue.slot[TRP__TREE_SLOT_D] =
        (trp__tree_data){.at = trp__job_address(job, g->access[TRP__GEMM_D]), .ld = g->d_ld};
    status = instance->services->enqueue(instance, run, &x, sizeof(void *), error);
    if (status != TRP_OK)
        free(x->epilogue.sums);
    return status;
}
