/* The sender's side of convolutions: checks a request and writes its record. */
#include "actors/cutlass/encode/conv_run.h"
#include "actors/cutlass/encode/encode.h"
#include "actors/cutlass/request/request.h"
#include "actors/cutlass/wire/conv.h"
#include "actors/cutlass/wire/run.h"
#include "base/error.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#define FAIL(m, ...) trp__error_set((m)->encoder->error, TRP_E_ARGUMENT, __VA_ARGS__)

enum { DIMS = TRP__CONV_DIMS };

/* A request that is being encoded. */
typedef struct encoding {
    trp__encoder *encoder;
    const trp_cutlass_conv_request *r;
    int dims;
    int32_t pad_after[DIMS];
    trp__cutlass_conv g;
    trp__epilogue_encoding e;
    bool in_place;                           /* C is read where D is written */
    int64_t rows, columns;                   /* of D */
    trp__operand matrix[TRP__GEMM_MATRICES]; /* mode 0: there is none */
} encoding;

static const char *const names[] = {"a", "b", "c", "d"};

/* Numbers. */

static trp_status check_choices(encoding *m)
{
    const trp__choice choices[] = {
        {"operation", "a trp_conv_operation", m->r->operation, TRP_CONV_WGRAD},
        {"dims", "1 to 3, or 0", m->r->dims, TRP_CONV_DIMS_MAX},
        {"compute", "TRP_COMPUTE_DEFAULT, _TF32 or _PEDANTIC", m->r->compute, TRP_COMPUTE_PEDANTIC},
        {"first", "TRP_CUTLASS_FIRST_WAIT or _FALLBACK", m->r->first, TRP_CUTLASS_FIRST_FALLBACK},
        {"tune", "TRP_TUNE_OFF, _QUICK or _FULL", m->r->tune, TRP_TUNE_FULL},
    };
    m->dims = m->r->dims ? (int)m->r->dims : 2;
    m->g.operation = (uint8_t)m->r->operation;
    m->g.flip = m->r->flip;
    m->g.compute = (uint8_t)m->r->compute;
    return trp__check_choices(m->encoder, choices, COUNT_OF(choices));
}

static trp_status check_counts(encoding *m)
{
    const trp_cutlass_conv_request *r = m->r;
    int64_t groups = r->groups ? r->groups : 1;
    const struct {
        const char *name;
        int64_t value, least;
        int32_t *out;
    } counts[] = {{"images", r->images, 0, &m->g.images},
                  {"groups", groups, 1, &m->g.groups},
                  {"channels", r->channels, 1, &m->g.channels},
                  {"filters", r->filters, 1, &m->g.filters}};
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        if (counts[i].value < counts[i].least || counts[i].value > INT32_MAX)
            return FAIL(m, "%s: expected %lld to %d, got %lld", counts[i].name,
                        (long long)counts[i].least, INT32_MAX, (long long)counts[i].value);
        *counts[i].out = (int32_t)counts[i].value;
        if (i > 1 && counts[i].value % groups != 0)
            return FAIL(m, "%s: expected a multiple of groups, %lld, got %lld", counts[i].name,
                        (long long)groups, (long long)counts[i].value);
    }
    return TRP_OK;
}

/* One array of numbers, of which there is one for each dimension. 0 stands for `zero`; `out` has it
 * in three dimensions, the first ones filled with `fill`. */
static trp_status take(encoding *m, const char *name, const int64_t *values, int64_t least,
                       int64_t zero, int32_t fill, int32_t out[DIMS])
{
    for (int i = 0; i < DIMS; i++)
        out[i] = fill;
    for (int i = 0; i < TRP_CONV_DIMS_MAX; i++) {
        int64_t value = values[i] ? values[i] : zero;
        if (i >= m->dims && values[i] != 0)
            return FAIL(m, "%s[%d]: expected 0, for there are %d dimensions, got %lld", name, i,
                        m->dims, (long long)values[i]);
        if (i >= m->dims)
            continue;
        if (value < least || value > INT32_MAX)
            return FAIL(m, "%s[%d]: expected %lld to %d, got %lld", name, i, (long long)least,
                        INT32_MAX, (long long)value);
        out[DIMS - m->dims + i] = (int32_t)value;
    }
    return TRP_OK;
}

/* Computes the output's shape, and compares it with the request's. */
static trp_status set_output(encoding *m)
{
    trp__cutlass_conv *g = &m->g;
    const int32_t *pad_after = m->pad_after;
    for (int i = 0; i < DIMS; i++) {
        int name = i - (DIMS - m->dims);
        int64_t given = name >= 0 ? m->r->output[name] : 0;
        int64_t wide = (int64_t)(g->filter[i] - 1) * g->dilation[i] + 1;
        int64_t padded = (int64_t)g->input[i] + g->pad[i] + pad_after[i];
        if (wide > padded)
            return FAIL(m,
                        "output[%d]: expected 1 or more, got 0: a filter that reaches over %lld "
                        "with its dilation does not fit into %d + %d + %d",
                        name, (long long)wide, g->pad[i], g->input[i], pad_after[i]);
        int64_t output = (padded - wide) / g->stride[i] + 1;
        if (output > INT32_MAX)
            return FAIL(m, "output[%d]: expected less than 2^31, got %lld", name,
                        (long long)output);
        if (given != 0 && given != output)
            return FAIL(m,
                        "output[%d]: expected %lld, which follows from input, pad, filter, stride "
                        "and dilation, got %lld",
                        name, (long long)output, (long long)given);
        g->output[i] = (int32_t)output;
    }
    for (int i = m->dims; i < TRP_CONV_DIMS_MAX; i++) {
        if (m->r->output[i] != 0)
            return FAIL(m, "output[%d]: expected 0, for there are %d dimensions, got %lld", i,
                        m->dims, (long long)m->r->output[i]);
    }
    return TRP_OK;
}

/* Whether all pixels can be counted. */
static trp_status check_volume(encoding *m, const char *name, const int32_t size[DIMS])
{
    int64_t volume;
    if (!__builtin_mul_overflow((int64_t)size[0] * size[1], (int64_t)size[2], &volume))
        return TRP_OK;
    return FAIL(m, "%s: expected less than 2^63 pixels, got %d x %d x %d", name, size[0], size[1],
                size[2]);
}

static trp_status check_sizes(encoding *m)
{
    const trp_cutlass_conv_request *r = m->r;
    trp__cutlass_conv *g = &m->g;
    trp_status status = take(m, "input", r->input, 1, 0, 1, g->input);
    if (status == TRP_OK)
        status = take(m, "filter", r->filter, 1, 0, 1, g->filter);
    if (status == TRP_OK)
        status = take(m, "pad", r->pad, 0, 0, 0, g->pad);
    if (status == TRP_OK)
        status = take(m, "pad_after", r->pad_after, 0, 0, 0, m->pad_after);
    if (status == TRP_OK)
        status = take(m, "stride", r->stride, 1, 1, 1, g->stride);
    if (status == TRP_OK)
        status = take(m, "dilation", r->dilation, 1, 1, 1, g->dilation);
    if (status == TRP_OK)
        status = set_output(m);
    if (status == TRP_OK)
        status = check_volume(m, "input", g->input);
    if (status == TRP_OK)
        status = check_volume(m, "filter", g->filter);
    return status == TRP_OK ? check_volume(m, "output", g->output) : status;
}

/* Types and epilogue. */

static trp_status set_epilogue(encoding *m)
{
    const trp_cutlass_conv_request *r = m->r;
    m->e = (trp__epilogue_encoding){
        .encoder = m->encoder, TRP__EPILOGUE_OF(r), .order = TRP_ROW_MAJOR};
    trp_status status = trp__epilogue_check(&m->e);
    memcpy(m->g.type, m->e.type, sizeof m->g.type);
    return status;
}

/* Places. */

/* Dimensions of a tensor: three besides the channels, and these. */
typedef struct shape {
    int64_t extent[1 + DIMS];
    int64_t channels;
} shape;

typedef enum role { ACTIVATION, FILTER, OUTPUT } role;

static role role_of(const encoding *m, int which)
{
    static const role roles[][3] = {
        [TRP_CONV_FPROP] = {ACTIVATION, FILTER, OUTPUT},
        [TRP_CONV_DGRAD] = {OUTPUT, FILTER, ACTIVATION},
        [TRP_CONV_WGRAD] = {OUTPUT, ACTIVATION, FILTER},
    };
    return roles[m->r->operation][which == TRP__GEMM_D ? 2 : which];
}

static shape shape_of(const encoding *m, role what)
{
    const trp__cutlass_conv *g = &m->g;
    const int32_t *sizes = what == ACTIVATION ? g->input : what == FILTER ? g->filter : g->output;
    return (shape){
        .extent = {what == FILTER ? g->filters : g->images, sizes[0], sizes[1], sizes[2]},
        .channels = what == ACTIVATION ? g->channels
                    : what == FILTER   ? g->channels / g->groups
                                       : g->filters};
}

/* Place i of the sender's strides among the four. */
static int place_of(const encoding *m, int i)
{
    return i == 0 ? 0 : DIMS - m->dims + i;
}

static trp_status check_surplus(encoding *m, int which, const trp_conv_tensor *t)
{
    for (int i = 1 + m->dims; i < 1 + TRP_CONV_DIMS_MAX; i++) {
        if (t->stride[i] != 0)
            return FAIL(m, "%s.stride[%d]: expected 0, for there are %d dimensions, got %lld",
                        names[which], i, m->dims, (long long)t->stride[i]);
    }
    return TRP_OK;
}

static trp_status too_large(encoding *m, int which)
{
    return FAIL(m, "%s: it spans more than 2^63 bytes", names[which]);
}

/* Strides of A or B from the innermost on, and how many elements the tensor spans. */
static trp_status set_strides(encoding *m, int which, const trp_conv_tensor *t, const shape *s,
                              int64_t stride[1 + DIMS], int64_t *elements)
{
    int64_t packed = s->channels, span = s->channels, more;
    for (int i = m->dims; i >= 0; i--) {
        int at = place_of(m, i);
        if (t->stride[i] != 0 && t->stride[i] < span)
            return FAIL(m, "%s.stride[%d]: expected at least %lld, or 0, got %lld", names[which], i,
                        (long long)span, (long long)t->stride[i]);
        stride[at] = t->stride[i] ? t->stride[i] : packed;
        if (__builtin_mul_overflow(stride[at], s->extent[at], &packed) ||
            __builtin_mul_overflow(stride[at], s->extent[at] - 1, &more) ||
            __builtin_add_overflow(span, more, &span))
            return too_large(m, which);
    }
    *elements = span;
    return TRP_OK;
}

static trp__operand operand_of(const encoding *m, int which, const trp_conv_tensor *t,
                               uint32_t mode)
{
    return (trp__operand){.name = names[which],
                          .fields = true,
                          .buffer = t->buffer,
                          .offset = t->offset,
                          .columns = 1,
                          .element = trp_dtype_bits((trp_dtype)m->g.type[which]) / 8,
                          .mode = mode};
}

/* A or B, as one line from its first element to its last. */
static trp_status set_input(encoding *m, int which)
{
    const trp_conv_tensor *t = which == TRP__GEMM_A ? &m->r->a : &m->r->b;
    const shape s = shape_of(m, role_of(m, which));
    int64_t *stride = which == TRP__GEMM_A ? m->g.a_stride : m->g.b_stride;
    trp__operand *x = &m->matrix[which];
    trp_status status = check_surplus(m, which, t);
    if (status != TRP_OK || s.extent[0] == 0)
        return status;
    *x = operand_of(m, which, t, TRP__READ);
    status = set_strides(m, which, t, &s, stride, &x->rows);
    x->ld = x->rows;
    return status == TRP_OK ? trp__operand_measure(m->encoder, x, 1) : status;
}

/* Elements between the rows of C or D. */
static trp_status set_ld(encoding *m, int which, const trp_conv_tensor *t, int64_t *ld)
{
    const role what = role_of(m, TRP__GEMM_D);
    const shape s = shape_of(m, what);
    int free = what == FILTER ? 0 : m->dims; /* the stride that may be anything */
    trp_status status = check_surplus(m, which, t);
    if (status != TRP_OK)
        return status;
    *ld = t->stride[free] ? t->stride[free] : m->columns;
    if (*ld < m->columns)
        return FAIL(m, "%s.stride[%d]: expected at least %lld, or 0, got %lld", names[which], free,
                    (long long)m->columns, (long long)*ld);
    int64_t packed = s.channels;
    for (int i = m->dims; i >= 0; i--) {
        if (i == free)
            packed = *ld;
        if (t->stride[i] != 0 && t->stride[i] != packed)
            return trp__error_set(m->encoder->error, TRP_E_UNSUPPORTED,
                                  "%s.stride[%d]: expected 0 or %lld, since rows of %s follow each "
                                  "other evenly, got %lld",
                                  names[which], i, (long long)packed, names[which],
                                  (long long)t->stride[i]);
        if (__builtin_mul_overflow(packed, s.extent[place_of(m, i)], &packed))
            return too_large(m, which);
    }
    return TRP_OK;
}

/* C or D, a row-major matrix. */
static trp_status set_result(encoding *m, int which, uint32_t mode)
{
    const trp_conv_tensor *t = which == TRP__GEMM_C ? &m->r->c : &m->r->d;
    int64_t *ld = which == TRP__GEMM_C ? &m->g.c_ld : &m->g.d_ld;
    trp__operand *x = &m->matrix[which];
    trp_status status = set_ld(m, which, t, ld);
    if (status != TRP_OK)
        return status;
    *x = operand_of(m, which, t, mode);
    x->rows = m->columns;
    x->columns = m->rows;
    x->ld = *ld;
    return trp__operand_check_extent(m->encoder, x, 1);
}

static bool same_place(const encoding *m)
{
    const trp_conv_tensor *c = &m->r->c, *d = &m->r->d;
    int free = role_of(m, TRP__GEMM_D) == FILTER ? 0 : m->dims;
    int64_t c_ld = c->stride[free], d_ld = d->stride[free];
    return c->buffer.id == d->buffer.id && c->offset == d->offset &&
           (c_ld ? c_ld : m->columns) == (d_ld ? d_ld : m->columns) &&
           m->g.type[TRP__GEMM_C] == m->g.type[TRP__GEMM_D];
}

/* How many rows and columns D has. */
static trp_status set_matrix(encoding *m)
{
    const role what = role_of(m, TRP__GEMM_D);
    const shape s = shape_of(m, what);
    int64_t *inner = what == FILTER ? &m->columns : &m->rows;
    m->rows = s.extent[0];
    m->columns = s.channels;
    for (int i = 1; i <= DIMS; i++) {
        if (__builtin_mul_overflow(*inner, s.extent[i], inner))
            return too_large(m, TRP__GEMM_D);
    }
    return TRP_OK;
}

static trp_status set_matrices(encoding *m)
{
    bool reads_c = m->g.type[TRP__GEMM_C] != TRP_DTYPE_NONE;
    trp_status status = set_input(m, TRP__GEMM_A);
    m->in_place = reads_c && same_place(m);
    if (status == TRP_OK)
        status = set_input(m, TRP__GEMM_B);
    if (status == TRP_OK && reads_c)
        status = set_result(m, TRP__GEMM_C, TRP__READ);
    if (status == TRP_OK)
        status = set_result(m, TRP__GEMM_D, m->in_place ? TRP__READ | TRP__WRITE : TRP__WRITE);
    if (m->in_place)
        m->matrix[TRP__GEMM_C].mode = 0;
    for (int i = TRP__GEMM_A; i <= TRP__GEMM_C && status == TRP_OK; i++) {
        if (m->matrix[i].mode)
            status =
                trp__operand_check_apart(m->encoder, &m->matrix[TRP__GEMM_D], &m->matrix[i], 1);
    }
    return status;
}

/* The places of all operands, of which there may be so many. */
static trp_status place_all(encoding *m)
{
    uint32_t matrices = 0;
    trp_status status =
        trp__tree_place_operands(m->encoder, m->e.nodes, &m->e.tree, m->rows, m->columns, 1,
                                 m->matrix, TRP__GEMM_MATRICES, &m->e.operands);
    for (int i = 0; i < TRP__GEMM_MATRICES; i++)
        matrices += m->matrix[i].mode != 0;
    return status == TRP_OK ? trp__epilogue_check_count(&m->e, matrices) : status;
}

/* Adds all operands, and puts slots and tree behind the head. */
static trp_status put_all(encoding *m)
{
    uint32_t access;
    void *room = NULL;
    trp_status status = trp__epilogue_reserve(&m->e, m->g.rest, sizeof m->g.rest, 0, &room);
    for (int i = 0; i < TRP__GEMM_MATRICES && status == TRP_OK; i++) {
        status = trp__add_operand(m->encoder, &m->matrix[i], &access);
        m->g.access[i] = (uint8_t)access;
    }
    if (m->in_place)
        m->g.access[TRP__GEMM_C] = m->g.access[TRP__GEMM_D];
    m->g.slots = (uint8_t)m->e.slots;
    m->g.tree_bytes = (uint16_t)m->e.tree_bytes;
    return status == TRP_OK ? trp__epilogue_put(&m->e, room) : status;
}

/* The same for a GPU, with a kernel. */
static trp_status run_all(encoding *m)
{
    const trp__cutlass_convolving x = {.g = &m->g,
                                       .pad_after = m->pad_after,
                                       .tree = &m->e.tree,
                                       .matrix = m->matrix,
                                       .operands = &m->e.operands,
                                       .in_place = m->in_place,
                                       .request = m->r};
    return trp__cutlass_encode_convolution(m->encoder, &x);
}

trp_status trp__cutlass_encode_conv(trp__encoder *encoder, const trp_request *request)
{
    encoding m = {.encoder = encoder, .r = (const trp_cutlass_conv_request *)request};
    bool host = encoder->backend == TRP_BACKEND_HOST;
    trp_status status = check_choices(&m);
    if (status == TRP_OK)
        status = trp__check_kernel(encoder, m.r->kernel, m.r->chosen, m.r->ran);
    if (status == TRP_OK)
        status = check_counts(&m);
    if (status == TRP_OK)
        status = check_sizes(&m);
    if (status == TRP_OK)
        status = set_epilogue(&m);
    if (status == TRP_OK)
        status = set_matrix(&m);
    if (status == TRP_OK && m.rows > 0) {
        status = set_matrices(&m);
        if (status == TRP_OK)
            status = place_all(&m);
        if (status == TRP_OK)
            status = host ? put_all(&m) : run_all(&m);
    } else if (!host) {
        memset(encoder->record->payload, 0, sizeof(trp__cutlass_run));
    }
    if (status == TRP_OK && host)
        memcpy(encoder->record->payload, &m.g, sizeof m.g);
    return status;
}
