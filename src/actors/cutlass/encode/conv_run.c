/* A convolution as the product that its kernels compute: D is row-major, rows and columns are those
 * of trp_cutlass_conv_request, and groups are a batch, of which each has its part of the rows
 * (WGRAD) or columns of D. */
#include "actors/cutlass/encode/conv_run.h"

#include "actors/cutlass/fallback/cudnn.h"
#include "actors/cutlass/plan/run.h"
#include "base/error.h"

#include <stddef.h>
#include <string.h>

enum { DIMS = TRP__CONV_DIMS };
/* Bounds rows, columns and terms of a sum: kernels count a tile further in 32 bits. */
enum { SIZE_MAX_PRODUCT = INT32_MAX - 1023 };

typedef struct encoding {
    trp__cutlass_running w;
    const trp__cutlass_convolving *x;
    trp__tree_operands operands;       /* with strides from group to group */
    int64_t channels, filters;         /* of a group */
    int64_t stride[2][1 + DIMS];       /* of A and B; those of dimensions that are not there too */
    int64_t batch[TRP__GEMM_MATRICES]; /* from group to group, elements */
} encoding;

/* Sizes. */

static trp_status check_sizes(const encoding *m)
{
    const trp__cutlass_conv *g = m->x->g;
    trp_error *error = m->w.encoder->error;
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"rows of D", m->w.problem.m},
                 {"columns of D", m->w.problem.n},
                 {"terms of a sum", m->w.problem.k}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value > SIZE_MAX_PRODUCT)
            return trp__error_set(error, TRP_E_UNSUPPORTED,
                                  "%s: on a GPU expected at most %d, got %lld", sizes[i].name,
                                  SIZE_MAX_PRODUCT, (long long)sizes[i].value);
    }
    for (int i = 0; i < DIMS; i++) {
        int64_t padded = (int64_t)g->input[i] + g->pad[i] + m->x->pad_after[i];
        if (padded > SIZE_MAX_PRODUCT)
            return trp__error_set(error, TRP_E_UNSUPPORTED,
                                  "input and pad: on a GPU expected at most %d together, got %lld",
                                  SIZE_MAX_PRODUCT, (long long)padded);
    }
    return TRP_OK;
}

/* A stride of a dimension that the request has not is as if it were packed. */
static void set_strides(encoding *m)
{
    const trp__cutlass_conv *g = m->x->g;
    const int64_t *from[] = {g->a_stride, g->b_stride};
    for (int which = 0; which < 2; which++) {
        for (int i = DIMS; i >= 0; i--)
            m->stride[which][i] =
                from[which][i] || i == DIMS ? from[which][i] : m->stride[which][i + 1];
    }
}

static void set_groups(encoding *m)
{
    const trp__cutlass_conv *g = m->x->g;
    int64_t *batch = m->batch;
    m->channels = g->channels / g->groups;
    m->filters = g->filters / g->groups;
    if (g->groups == 1)
        return;
    batch[TRP__GEMM_A] = g->operation == TRP_CONV_FPROP ? m->channels : m->filters;
    batch[TRP__GEMM_B] =
        g->operation == TRP_CONV_WGRAD ? m->channels : m->filters * m->stride[1][0];
    batch[TRP__GEMM_D] = g->operation == TRP_CONV_FPROP   ? m->filters
                         : g->operation == TRP_CONV_DGRAD ? m->channels
                                                          : m->filters * g->d_ld;
    batch[TRP__GEMM_C] = g->operation == TRP_CONV_WGRAD ? m->filters * g->c_ld : batch[TRP__GEMM_D];
}

/* Where a group's part of what a node has in memory begins, from the one before. */
static void set_tree_strides(encoding *m)
{
    bool by_rows = m->x->g->operation == TRP_CONV_WGRAD;
    int64_t step = by_rows ? m->filters : m->batch[TRP__GEMM_D];
    m->operands = *m->x->operands;
    m->w.operands = &m->operands;
    if (m->x->g->groups == 1)
        return;
    for (uint32_t i = 0; i < m->x->tree->count; i++) {
        const trp__tree_node *n = &m->x->tree->node[i];
        trp__tree_place *place = &m->operands.place[n->slot];
        bool rows = n->op == TRP__TREE_PER_ROW || n->op == TRP__TREE_REDUCE_ROWS;
        bool columns = n->op == TRP__TREE_PER_COLUMN || n->op == TRP__TREE_REDUCE_COLUMNS;
        if (n->op == TRP__TREE_LOAD || n->op == TRP__TREE_STORE)
            place->stride = (n->detail == TRP_ROW_MAJOR) == by_rows ? step * place->ld : step;
        else if (n->slot)
            place->stride = (by_rows && rows) || (!by_rows && columns) ? step : 0;
    }
}

/* Limits of tensor maps. */

/* The corners and offsets of a map of im2col have 16 bits for all dimensions together. */
static const char *why_not_tma(const trp__cutlass_conv *g, int dims)
{
    const int most_corner = dims == 2 ? 127 : 15, most_offset = dims == 2 ? 255 : 31;
    if (g->images == 0)
        return "has no images";
    for (int i = 0; i < DIMS; i++) {
        bool data = g->operation == TRP_CONV_DGRAD;
        int64_t wide = (int64_t)(g->filter[i] - 1) * g->dilation[i];
        int64_t stride = data ? 1 : g->stride[i];
        int64_t count = data ? g->input[i] : g->output[i];
        int64_t size = data ? g->output[i] : g->input[i];
        int64_t lower = data ? g->pad[i] - wide : -(int64_t)g->pad[i];
        int64_t upper = lower + (count - 1) * stride + 1 - size;
        if (data && g->stride[i] != 1)
            return "is a DGRAD with strides";
        if (stride > 8)
            return "has a stride above 8";
        if (wide > most_offset)
            return "has a filter that reaches too far";
        if (lower < -most_corner || lower > most_corner || upper < -most_corner ||
            upper > most_corner)
            return "has too much padding";
    }
    return NULL;
}

static void set_geometry(const trp__cutlass_conv *g, int32_t out[TRP__CUTLASS_GEOMETRY])
{
    const int32_t *const parts[] = {g->input, g->filter, g->output, g->pad, g->stride, g->dilation};
    enum { PARTS = sizeof parts / sizeof *parts };
    _Static_assert(2 + PARTS * (int)DIMS == (int)TRP__CUTLASS_GEOMETRY, "all of it");
    out[0] = g->images;
    out[1] = g->flip;
    for (int i = 0; i < PARTS; i++)
        memcpy(out + 2 + i * DIMS, parts[i], DIMS * sizeof *out);
}

static trp__cutlass_convolution describe(const encoding *m)
{
    const trp__cutlass_conv *g = m->x->g;
    trp__cutlass_convolution c = {
        .operation = g->operation,
        .dims =
            g->input[0] == 1 && g->filter[0] == 1 && g->output[0] == 1 && g->pad[0] == 0 ? 2 : 3,
        .inner = (int32_t)(g->operation == TRP_CONV_DGRAD ? m->filters : m->channels)};
    for (int i = 0; i < DIMS; i++)
        c.divided = c.divided || (g->operation == TRP_CONV_DGRAD && g->stride[i] != 1);
    set_geometry(g, c.geometry);
    c.why_not_tma = why_not_tma(g, c.dims);
    c.tma = !c.why_not_tma;
    return c;
}

/* The problem and its arguments. */

/* Returns the alignment of A or B, whose lines are channels of one pixel. */
static uint32_t alignment_of(const encoding *m, int which)
{
    const trp__cutlass_conv *g = m->x->g;
    const int64_t *stride = m->stride[which];
    bool filters = which == TRP__GEMM_A && g->operation != TRP_CONV_FPROP;
    const int64_t distances[] = {
        stride[0],      stride[1], stride[2], stride[3], filters ? m->filters : m->channels,
        m->batch[which]};
    return trp__run_alignment(&m->x->matrix[which], distances,
                              sizeof distances / sizeof *distances);
}

static uint32_t alignment_of_result(const encoding *m, int which)
{
    const int64_t distances[] = {m->x->matrix[which].ld, m->batch[which]};
    return trp__run_alignment(&m->x->matrix[which], distances, 2);
}

static void set_problem(encoding *m)
{
    const trp__cutlass_conv *g = m->x->g;
    const trp__tree *tree = m->x->tree;
    bool forward = g->operation == TRP_CONV_FPROP, by_filter = g->operation == TRP_CONV_WGRAD;
    int64_t taps = trp__conv_volume(g->filter);
    int c = m->x->in_place ? TRP__GEMM_D : TRP__GEMM_C;
    m->w.problem = (trp__cutlass_problem){
        .operation = TRP__CUTLASS_CONV,
        .m = by_filter ? m->filters : trp__conv_rows(g),
        .n = forward     ? m->filters
             : by_filter ? taps * m->channels
                         : m->channels,
        .k = forward     ? taps * m->channels
             : by_filter ? g->images * trp__conv_volume(g->output)
                         : taps * m->filters,
        .batch = g->groups,
        .a = g->type[TRP__GEMM_A],
        .b = g->type[TRP__GEMM_B],
        .c = g->type[TRP__GEMM_C],
        .d = g->type[TRP__GEMM_D],
        .accumulator = tree->accumulator,
        .a_row = !by_filter,
        .b_row = !forward,
        .compute = g->compute,
        .align = {alignment_of(m, TRP__GEMM_A), alignment_of(m, TRP__GEMM_B),
                  g->type[TRP__GEMM_C] != TRP_DTYPE_NONE ? alignment_of_result(m, c) : 16,
                  alignment_of_result(m, TRP__GEMM_D),
                  trp__run_alignment_of_tree(&m->w, g->groups)},
        .conv = describe(m),
        .tree = tree,
        .capability = m->w.encoder->compute,
        .processors = m->w.encoder->processors,
        .shared_bytes = trp__run_shared_bytes(m->w.encoder->compute),
    };
    if (m->w.problem.k == 0) /* no images: a sum of nothing */
        m->w.problem.k = 1;
}

static void set_arguments(encoding *m)
{
    const trp__cutlass_conv *g = m->x->g;
    const trp__cutlass_problem *p = &m->w.problem;
    m->w.args = (trp_cutlass_args){
        .ldc = g->type[TRP__GEMM_C] != TRP_DTYPE_NONE ? g->c_ld : g->d_ld,
        .ldd = g->d_ld,
        .batch_a = m->batch[TRP__GEMM_A],
        .batch_b = m->batch[TRP__GEMM_B],
        .batch_c = m->batch[TRP__GEMM_C],
        .batch_d = m->batch[TRP__GEMM_D],
        .m = (int32_t)p->m,
        .n = (int32_t)p->n,
        .k = (int32_t)p->k,
        .l = (int32_t)p->batch,
        .conv_images = g->images,
        .conv_channels = (int32_t)m->channels,
        .conv_filters = (int32_t)m->filters,
        .conv_flip = g->flip,
    };
    trp_cutlass_args *a = &m->w.args;
    memcpy(a->conv_a, m->stride[0], sizeof a->conv_a);
    memcpy(a->conv_b, m->stride[1], sizeof a->conv_b);
    memcpy(a->conv_input, g->input, sizeof a->conv_input);
    memcpy(a->conv_filter, g->filter, sizeof a->conv_filter);
    memcpy(a->conv_output, g->output, sizeof a->conv_output);
    memcpy(a->conv_pad, g->pad, sizeof a->conv_pad);
    memcpy(a->conv_stride, g->stride, sizeof a->conv_stride);
    memcpy(a->conv_dilation, g->dilation, sizeof a->conv_dilation);
}

/* The record. */

static trp_status add_matrices(encoding *m)
{
    static const size_t at[] = {offsetof(trp_cutlass_args, a), offsetof(trp_cutlass_args, b),
                                offsetof(trp_cutlass_args, c), offsetof(trp_cutlass_args, d)};
    trp_status status = TRP_OK;
    for (int i = 0; i < TRP__GEMM_MATRICES && status == TRP_OK; i++) {
        if (m->x->matrix[i].mode)
            status = trp__run_add_operand(&m->w, &m->x->matrix[i], at[i]);
    }
    if (!m->x->matrix[TRP__GEMM_C].mode) /* in D's place, or what is not read */
        trp__run_note_address(&m->w, at[TRP__GEMM_C], m->w.encoder->record->access_count - 1);
    return status;
}

trp_status trp__cutlass_encode_convolution(trp__encoder *encoder, const trp__cutlass_convolving *x)
{
    encoding m = {.w = {.encoder = encoder,
                        .tree = x->tree,
                        .kernel = x->request->kernel,
                        .first = x->request->first,
                        .tune = x->request->tune,
                        .library = &trp__by_cudnn,
                        .asked = x,
                        .in_place = x->in_place,
                        .chosen = x->request->chosen,
                        .ran = x->request->ran},
                  .x = x};
    set_strides(&m);
    set_groups(&m);
    set_tree_strides(&m);
    trp_status status = trp__run_check_offsets(&m.w, x->matrix, TRP__GEMM_MATRICES);
    if (status != TRP_OK)
        return status;
    set_problem(&m);
    set_arguments(&m);
    status = check_sizes(&m);
    if (status == TRP_OK)
        status = trp__run_add_kernel(&m.w);
    if (status == TRP_OK && m.w.by_library)
        return trp__by_cudnn_encode(encoder, x);
    if (status == TRP_OK)
        status = add_matrices(&m);
    if (status == TRP_OK)
        status = trp__run_add_slots(&m.w);
    return status == TRP_OK ? trp__run_write(&m.w) : status;
}
