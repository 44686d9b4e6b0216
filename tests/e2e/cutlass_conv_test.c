/* Convolutions of the cutlass actor: each operation, of every type and layout, with small integers
 * as input, so that what must come out is known to the bit; and requests that are wrong.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/elements.h"
#include "support/harness.h"

#include <complex.h>
#include <math.h>

enum { A, B, C, D, TENSORS };
enum { DIMS = TRP_CONV_DIMS_MAX };

static h_world world;
static trp_actor *cutlass;

static void open_world(void)
{
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
}

static size_t below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

static size_t bytes_of(trp_dtype type, size_t elements)
{
    return elements * (trp_dtype_bits(type) / 8);
}

static trp_buffer upload(const void *data, size_t bytes)
{
    trp_buffer b = h_buffer(world.device, bytes);
    h_write(world.device, b, 0, data, bytes);
    return b;
}

/* --- problems --- */

typedef enum role { ACTIVATION, FILTER, OUTPUT } role;

/* A tensor as it lies in memory: extents and strides of all but the channels. */
typedef struct tensor {
    trp_dtype type;
    size_t extent[1 + DIMS], stride[1 + DIMS], channels;
    int64_t said[1 + DIMS]; /* strides of the request */
    size_t offset, span;    /* elements */
    unsigned char *data;
    trp_buffer buffer;
} tensor;

typedef struct problem {
    trp_conv_operation operation;
    size_t dims, images, channels, filters, groups;
    size_t input[DIMS], filter[DIMS], output[DIMS];
    size_t pad[DIMS], pad_after[DIMS], stride[DIMS], dilation[DIMS];
    bool flip, in_place, tree;
    double alpha, beta;
    tensor tensor[TENSORS];
    size_t rows, columns; /* of D */
} problem;

static role role_of(const problem *p, int which)
{
    static const role roles[][TENSORS] = {{ACTIVATION, FILTER, OUTPUT, OUTPUT},
                                          {OUTPUT, FILTER, ACTIVATION, ACTIVATION},
                                          {OUTPUT, ACTIVATION, FILTER, FILTER}};
    return roles[p->operation][which];
}

static void draw_sizes(problem *p, size_t most)
{
    p->dims = 1 + below(3);
    p->groups = below(3) ? 1 : 1 + below(3);
    p->images = below(8) == 0 ? 0 : 1 + below(3);
    p->channels = p->groups * (1 + below(most));
    p->filters = p->groups * (1 + below(most));
    for (size_t i = 0; i < p->dims; i++) {
        p->filter[i] = 1 + below(3);
        p->stride[i] = 1 + below(3);
        p->dilation[i] = 1 + below(3);
        p->pad[i] = below(3);
        p->pad_after[i] = below(3);
        size_t wide = (p->filter[i] - 1) * p->dilation[i] + 1, pads = p->pad[i] + p->pad_after[i];
        p->input[i] = (wide > pads ? wide - pads : 0) + below(6);
        p->input[i] += p->input[i] == 0;
        p->output[i] = (p->input[i] + pads - wide) / p->stride[i] + 1;
    }
}

/* Strides from the innermost dimension on; what has rows only of one distance is `even`. */
static void lay_out(const problem *p, tensor *t, role what, bool even)
{
    const size_t *sizes = what == ACTIVATION ? p->input : what == FILTER ? p->filter : p->output;
    size_t free = what == FILTER ? 0 : p->dims, packed, span;
    t->channels = what == ACTIVATION ? p->channels
                  : what == FILTER   ? p->channels / p->groups
                                     : p->filters;
    packed = span = t->channels;
    for (size_t i = p->dims + 1; i-- > 0;) {
        t->extent[i] = i > 0 ? sizes[i - 1] : what == FILTER ? p->filters : p->images;
        bool gap = even ? i == free && below(2) : below(4) == 0;
        t->stride[i] = gap ? (even ? packed : span) + below(4) : packed;
        t->said[i] = gap || below(3) == 0 ? (int64_t)t->stride[i] : 0;
        packed = t->stride[i] * t->extent[i];
        span += t->stride[i] * (t->extent[i] ? t->extent[i] - 1 : 0);
    }
    t->offset = below(4);
    t->span = t->offset + span + 3;
}

static size_t at(const problem *p, const tensor *t, size_t outer, const size_t *inner, size_t c)
{
    size_t index = t->offset + outer * t->stride[0] + c;
    for (size_t i = 0; i < p->dims; i++)
        index += inner[i] * t->stride[1 + i];
    return index;
}

/* Small integers, which all types have. */
static void fill(tensor *t)
{
    t->data = h_malloc(bytes_of(t->type, t->span));
    h_random_bytes(h_rng(), t->data, bytes_of(t->type, t->span));
    for (size_t i = 0; i < t->span; i++)
        ref_element_store(t->type, t->data, (int64_t)i, (double)below(9) - 4);
    t->buffer = upload(t->data, bytes_of(t->type, t->span));
}

static double load(const tensor *t, size_t index)
{
    return creal(ref_element_load(t->type, t->data, (int64_t)index));
}

static problem draw(trp_conv_operation operation, size_t most)
{
    static const trp_dtype inputs[] = {TRP_F64,  TRP_F32,  TRP_F16,    TRP_F16,
                                       TRP_BF16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2};
    static const trp_dtype narrow[] = {TRP_F32, TRP_F16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2, TRP_I8};
    static const double alphas[] = {1, 1, -2, 3}, betas[] = {0, 1, -3, 2};
    problem p = {.operation = operation,
                 .flip = below(2),
                 .in_place = below(3) == 0,
                 .tree = below(2),
                 .alpha = alphas[below(4)],
                 .beta = betas[below(4)]};
    trp_dtype a = inputs[below(8)];
    bool fp8 = a == TRP_F8E4M3 || a == TRP_F8E5M2, wide = a == TRP_F64;
    p.tensor[A].type = a;
    p.tensor[B].type = fp8 ? (below(2) ? TRP_F8E4M3 : TRP_F8E5M2) : a;
    p.tensor[D].type = wide ? (below(2) ? TRP_F64 : TRP_F32) : narrow[below(6)];
    p.tensor[C].type = wide ? (below(2) ? TRP_F64 : TRP_F32) : narrow[below(6)];
    draw_sizes(&p, most);
    for (int i = 0; i < TENSORS; i++) {
        lay_out(&p, &p.tensor[i], role_of(&p, i), i >= C);
        fill(&p.tensor[i]);
    }
    const tensor *d = &p.tensor[D];
    p.rows = d->extent[0];
    p.columns = d->channels;
    for (size_t i = 1; i <= p.dims; i++)
        *(operation == TRP_CONV_WGRAD ? &p.columns : &p.rows) *= d->extent[i];
    return p;
}

static void drop(problem *p)
{
    for (int i = 0; i < TENSORS; i++) {
        H_OK(trp_buffer_free(world.device, p->tensor[i].buffer));
        free(p->tensor[i].data);
    }
}

/* --- what must come of them --- */

/* The next position within `size`; false after the last. */
static bool next(const problem *p, const size_t *size, size_t *position)
{
    for (size_t i = p->dims; i-- > 0;) {
        if (++position[i] < size[i])
            return true;
        position[i] = 0;
    }
    return false;
}

static size_t number(const problem *p, const size_t *size, const size_t *position)
{
    size_t index = 0;
    for (size_t i = 0; i < p->dims; i++)
        index = index * size[i] + position[i];
    return index;
}

static size_t volume(const problem *p, const size_t *size)
{
    size_t all = 1;
    for (size_t i = 0; i < p->dims; i++)
        all *= size[i];
    return all;
}

/* What a pixel of the output and one of the filter add for one image, all channels. */
static void add(const problem *p, double *sums, size_t n, const size_t *o, const size_t *f,
                const size_t *in)
{
    const tensor *a = &p->tensor[A], *b = &p->tensor[B];
    size_t channels = p->channels / p->groups, filters = p->filters / p->groups;
    size_t output = n * volume(p, p->output) + number(p, p->output, o);
    size_t input = n * volume(p, p->input) + number(p, p->input, in);
    for (size_t k = 0; k < p->filters; k++) {
        for (size_t c = 0; c < channels; c++) {
            size_t all = k / filters * channels + c; /* of the activation's */
            size_t weight = number(p, p->filter, f) * channels + c;
            if (p->operation == TRP_CONV_FPROP)
                sums[output * p->columns + k] +=
                    load(a, at(p, a, n, in, all)) * load(b, at(p, b, k, f, c));
            else if (p->operation == TRP_CONV_DGRAD)
                sums[input * p->columns + all] +=
                    load(a, at(p, a, n, o, k)) * load(b, at(p, b, k, f, c));
            else
                sums[k * p->columns + weight] +=
                    load(a, at(p, a, n, o, k)) * load(b, at(p, b, n, in, all));
        }
    }
}

static double *sums_of(const problem *p)
{
    double *sums = calloc(p->rows * p->columns + 1, sizeof *sums);
    H_CHECK(sums);
    for (size_t n = 0; n < p->images; n++) {
        size_t o[DIMS] = {0}, in[DIMS];
        do {
            size_t f[DIMS] = {0};
            do {
                bool inside = true;
                for (size_t i = 0; i < p->dims; i++) {
                    size_t tap = p->flip ? p->filter[i] - 1 - f[i] : f[i];
                    in[i] = o[i] * p->stride[i] + tap * p->dilation[i] - p->pad[i];
                    inside = inside && in[i] < p->input[i]; /* below 0 is large */
                }
                if (inside)
                    add(p, sums, n, o, f, in);
            } while (next(p, p->filter, f));
        } while (next(p, p->output, o));
    }
    return sums;
}

/* Rows of C and D follow each other evenly. */
static size_t place(const problem *p, const tensor *t, size_t row, size_t column)
{
    return t->offset + row * t->stride[p->operation == TRP_CONV_WGRAD ? 0 : p->dims] + column;
}

/* --- sending --- */

static trp_conv_tensor tensor_of(const tensor *t)
{
    trp_conv_tensor x = {
        .buffer = t->buffer, .offset = bytes_of(t->type, t->offset), .type = t->type};
    memcpy(x.stride, t->said, sizeof x.stride);
    return x;
}

static int64_t maybe(size_t value, size_t standard)
{
    return value == standard && below(2) ? 0 : (int64_t)value;
}

static trp_cutlass_conv_request request_of(const problem *p)
{
    trp_cutlass_conv_request r = {.operation = p->operation,
                                  .dims = p->dims == 2 && below(2) ? 0 : (uint32_t)p->dims,
                                  .images = (int64_t)p->images,
                                  .channels = (int64_t)p->channels,
                                  .filters = (int64_t)p->filters,
                                  .groups = maybe(p->groups, 1),
                                  .flip = p->flip,
                                  .a = tensor_of(&p->tensor[A]),
                                  .b = tensor_of(&p->tensor[B]),
                                  .c = tensor_of(&p->tensor[p->in_place ? D : C]),
                                  .d = tensor_of(&p->tensor[D])};
    for (size_t i = 0; i < p->dims; i++) {
        r.input[i] = (int64_t)p->input[i];
        r.filter[i] = (int64_t)p->filter[i];
        r.output[i] = below(2) ? (int64_t)p->output[i] : 0;
        r.pad[i] = (int64_t)p->pad[i];
        r.pad_after[i] = (int64_t)p->pad_after[i];
        r.stride[i] = maybe(p->stride[i], 1);
        r.dilation[i] = maybe(p->dilation[i], 1);
    }
    return r;
}

enum { NONE, SUMS, SCALED, COLUMN, BIASED, RELU, KEPT, TOTAL, OLD, ROOT, NODES };

/* relu(sums * row + column) is kept and added up; then C. */
typedef struct side {
    double *rows, *columns, *kept, total;
    trp_epilogue_node node[NODES];
} side;

static double *random_vector(size_t count)
{
    double *x = h_malloc((count + 1) * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = (double)below(5) - 2;
    return x;
}

/* In the type that sums are computed in. */
static trp_buffer upload_as(trp_dtype type, const double *values, size_t count)
{
    void *data = h_malloc(bytes_of(type, count + 1));
    for (size_t i = 0; i < count; i++)
        ref_element_store(type, data, (int64_t)i, values[i]);
    trp_buffer b = upload(data, bytes_of(type, count + 1));
    free(data);
    return b;
}

static side side_of(const problem *p, trp_dtype type)
{
    side s = {.rows = random_vector(p->rows), .columns = random_vector(p->columns)};
    size_t bytes = bytes_of(type, p->rows * p->columns + 1);
    s.kept = calloc(p->rows * p->columns + 1, sizeof *s.kept);
    H_CHECK(s.kept);
    s.node[SUMS].kind = TRP_EPILOGUE_ACCUMULATOR;
    s.node[SCALED] = (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALE_ROWS,
                                         .input = {SUMS},
                                         .buffer = upload_as(type, s.rows, p->rows)};
    s.node[COLUMN] = (trp_epilogue_node){.kind = TRP_EPILOGUE_PER_COLUMN,
                                         .buffer = upload_as(type, s.columns, p->columns)};
    s.node[BIASED] = (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY, .input = {SCALED, COLUMN}};
    s.node[RELU] = (trp_epilogue_node){
        .kind = TRP_EPILOGUE_ACTIVATION, .activation = TRP_ACTIVATION_RELU, .input = {BIASED}};
    s.node[KEPT] = (trp_epilogue_node){.kind = TRP_EPILOGUE_AUX_STORE,
                                       .input = {RELU},
                                       .type = type,
                                       .buffer = h_buffer(world.device, bytes)};
    s.node[TOTAL] = (trp_epilogue_node){
        .kind = TRP_EPILOGUE_REDUCE_ALL, .input = {RELU}, .buffer = h_buffer(world.device, 8)};
    s.node[OLD].kind = TRP_EPILOGUE_C;
    s.node[ROOT] = (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY, .input = {KEPT, OLD}};
    return s;
}

static void check_side(const problem *p, side *s, trp_dtype type)
{
    size_t count = p->rows * p->columns, bytes = bytes_of(type, count + 1);
    unsigned char *kept = h_malloc(bytes);
    double total[1] = {0};
    h_read(world.device, s->node[KEPT].buffer, 0, kept, bytes);
    h_read(world.device, s->node[TOTAL].buffer, 0, total, sizeof total);
    for (size_t i = 0; i < count; i++) /* column-major */
        H_CHECK(creal(ref_element_load(type, kept,
                                       (int64_t)(i % p->columns * p->rows + i / p->columns))) ==
                s->kept[i]);
    H_CHECK(count == 0 || creal(ref_element_load(type, total, 0)) == s->total);
    for (int i = SCALED; i < NODES; i++) {
        if (s->node[i].buffer.id)
            H_OK(trp_buffer_free(world.device, s->node[i].buffer));
    }
    free(kept);
    free(s->rows);
    free(s->columns);
    free(s->kept);
}

/* D as it must be, gaps and all. */
static unsigned char *expected(const problem *p, side *s)
{
    const tensor *d = &p->tensor[D], *c = &p->tensor[p->in_place ? D : C];
    unsigned char *want = h_malloc(bytes_of(d->type, d->span));
    double *sums = sums_of(p);
    memcpy(want, d->data, bytes_of(d->type, d->span));
    for (size_t i = 0; i < p->rows * p->columns; i++) {
        size_t row = i / p->columns, column = i % p->columns;
        double old = load(c, place(p, c, row, column)), value;
        if (s) {
            s->kept[i] = fmax(sums[i] * s->rows[row] + s->columns[column], 0);
            s->total += s->kept[i];
            value = s->kept[i] + old;
        } else {
            value = p->beta != 0 ? fma(p->alpha, sums[i], p->beta * old) : p->alpha * sums[i];
        }
        ref_element_store(d->type, want, (int64_t)place(p, d, row, column), value);
    }
    free(sums);
    return want;
}

static void check(problem *p)
{
    const tensor *d = &p->tensor[D];
    trp_dtype type = p->tensor[A].type == TRP_F64 ? TRP_F64 : TRP_F32;
    if (p->in_place) {
        p->tensor[C].type = d->type;
    }
    side s;
    trp_cutlass_conv_request r = request_of(p);
    if (p->tree) {
        s = side_of(p, type);
        r.epilogue = s.node;
        r.epilogue_count = NODES;
    } else {
        r.alpha = trp_real(p->alpha);
        if (p->beta != 0)
            r.beta = trp_real(p->beta);
    }
    trp_completion done = {0};
    H_OK(trp_cutlass_conv(cutlass, &r, &done));
    H_OK(h_await_any(done));
    size_t bytes = bytes_of(d->type, d->span);
    unsigned char *after = h_malloc(bytes), *want = expected(p, p->tree ? &s : NULL);
    h_read(world.device, d->buffer, 0, after, bytes);
    for (size_t i = 0; i < bytes; i++) {
        if (after[i] != want[i])
            h_fail(__FILE__, __LINE__,
                   "operation %d, %zu dims, %s x %s -> %s, %zu x %zu of %zu images, %zu channels, "
                   "%zu filters, %zu groups%s%s%s: byte %zu of %zu is %#x, expected %#x",
                   (int)p->operation, p->dims, trp_dtype_name(p->tensor[A].type),
                   trp_dtype_name(p->tensor[B].type), trp_dtype_name(d->type), p->rows, p->columns,
                   p->images, p->channels, p->filters, p->groups, p->flip ? ", flipped" : "",
                   p->tree ? ", a tree" : "", p->in_place ? ", in place" : "", i, bytes, after[i],
                   want[i]);
    }
    if (p->tree)
        check_side(p, &s, type);
    free(after);
    free(want);
    drop(p);
}

static void convolutions(void)
{
    open_world();
    for (int i = 0; i < (H_SANITIZED ? 150 : 450); i++) {
        problem p = draw((trp_conv_operation)(i % 3), i % 9 == 0 ? 12 : 4);
        check(&p);
    }
    h_close(&world);
}

/* More than a tile of pixels, of channels, and of what is summed. */
static void large(void)
{
    static const size_t sizes[][3] = {/* width, channels, filters */
                                      {1100, 3, 2},
                                      {3, 600, 2},
                                      {3, 2, 600}};
    open_world();
    for (int i = 0; i < 9; i++) {
        problem p = {.operation = (trp_conv_operation)(i % 3), .alpha = 1};
        const size_t *size = sizes[i / 3];
        p.dims = p.images = p.groups = p.stride[0] = p.dilation[0] = p.pad[0] = 1;
        p.input[0] = size[0];
        p.channels = size[1];
        p.filters = size[2];
        p.filter[0] = 2;
        p.output[0] = p.input[0];
        for (int t = 0; t < TENSORS; t++) {
            p.tensor[t].type = TRP_F32;
            lay_out(&p, &p.tensor[t], role_of(&p, t), t >= C);
            fill(&p.tensor[t]);
        }
        p.rows = p.operation == TRP_CONV_WGRAD ? p.filters : p.input[0];
        p.columns = p.operation == TRP_CONV_FPROP   ? p.filters
                    : p.operation == TRP_CONV_DGRAD ? p.channels
                                                    : 2 * p.channels;
        check(&p);
    }
    h_close(&world);
}

/* --- what is refused --- */

typedef struct setting {
    trp_cutlass_conv_request r;
    trp_epilogue_node nodes[3];
    uint32_t count;
} setting;

static trp_buffer buffer_a, buffer_b, buffer_c, buffer_d;

/* 2 images of 7 x 5 with 4 channels, 6 filters of 3 x 3: 7 x 5. */
static setting right(void)
{
    return (setting){.r = {.images = 2,
                           .channels = 4,
                           .filters = 6,
                           .input = {7, 5},
                           .filter = {3, 3},
                           .pad = {1, 1},
                           .pad_after = {1, 1},
                           .a = {.buffer = buffer_a, .type = TRP_BF16},
                           .b = {.buffer = buffer_b},
                           .c = {.buffer = buffer_c},
                           .d = {.buffer = buffer_d}}};
}

static trp_status send_setting(setting *s)
{
    trp_completion done = {0};
    if (s->count) {
        s->nodes[1].kind = TRP_EPILOGUE_ACCUMULATOR;
        s->r.epilogue = s->nodes;
        s->r.epilogue_count = s->count;
    }
    trp_status status = trp_cutlass_conv(cutlass, &s->r, &done);
    return status == TRP_OK ? h_await_any(done) : status;
}

#define REFUSE(change, status, word)                                                               \
    do {                                                                                           \
        setting s = right();                                                                       \
        change;                                                                                    \
        H_IS(send_setting(&s), status);                                                            \
        H_SAYS(word);                                                                              \
    } while (0)

static void refused_numbers(void)
{
    REFUSE(s.r.operation = (trp_conv_operation)3, TRP_E_ARGUMENT, "operation: expected");
    REFUSE(s.r.dims = 4, TRP_E_ARGUMENT, "dims: expected 1 to 3, or 0, got 4");
    REFUSE(s.r.compute = TRP_COMPUTE_EMULATED, TRP_E_ARGUMENT, "compute: expected");
    REFUSE(s.r.images = -1, TRP_E_ARGUMENT, "images: expected 0 to 2147483647, got -1");
    REFUSE(s.r.channels = 0, TRP_E_ARGUMENT, "channels: expected 1 to");
    REFUSE(s.r.filters = INT64_C(1) << 31, TRP_E_ARGUMENT, "filters: expected 1 to");
    REFUSE(s.r.groups = -2, TRP_E_ARGUMENT, "groups: expected 1 to");
    REFUSE(s.r.groups = 4, TRP_E_ARGUMENT, "filters: expected a multiple of groups, 4, got 6");
    REFUSE(s.r.groups = 3, TRP_E_ARGUMENT, "channels: expected a multiple of groups, 3, got 4");
    REFUSE(s.r.input[1] = 0, TRP_E_ARGUMENT, "input[1]: expected 1 to 2147483647, got 0");
    REFUSE(s.r.input[2] = 1, TRP_E_ARGUMENT,
           "input[2]: expected 0, for there are 2 dimensions, got 1");
    REFUSE(s.r.filter[0] = -3, TRP_E_ARGUMENT, "filter[0]: expected 1 to");
    REFUSE(s.r.pad[0] = -1, TRP_E_ARGUMENT, "pad[0]: expected 0 to");
    REFUSE(s.r.pad_after[1] = INT64_MIN, TRP_E_ARGUMENT, "pad_after[1]: expected 0 to");
    REFUSE(s.r.stride[1] = -1, TRP_E_ARGUMENT, "stride[1]: expected 1 to");
    REFUSE(s.r.dilation[0] = INT64_MAX, TRP_E_ARGUMENT, "dilation[0]: expected 1 to");
    REFUSE(s.r.output[1] = 4, TRP_E_ARGUMENT, "output[1]: expected 5, which follows from input");
    REFUSE(s.r.output[2] = 4, TRP_E_ARGUMENT, "output[2]: expected 0, for there are 2");
    REFUSE(s.r.dilation[1] = 4, TRP_E_ARGUMENT,
           "output[1]: expected 1 or more, got 0: a filter that reaches over 9 with its dilation "
           "does not fit into 1 + 5 + 1");
    REFUSE((s.r.dims = 3, s.r.input[2] = 1, s.r.filter[2] = 2), TRP_E_ARGUMENT, "output[2]: ");
    REFUSE((s.r.input[0] = s.r.input[1] = INT32_MAX, s.r.images = INT32_MAX), TRP_E_ARGUMENT,
           "d: it spans more than 2^63 bytes");
    REFUSE((s.r.dims = 3, s.r.operation = TRP_CONV_WGRAD, s.r.images = 0,
            s.r.input[0] = s.r.input[1] = s.r.input[2] = INT32_MAX, s.r.filter[2] = 1),
           TRP_E_ARGUMENT, "input: expected less than 2^63 pixels");
    REFUSE(s.r.pad[0] = s.r.pad_after[0] = INT32_MAX, TRP_E_ARGUMENT,
           "output[0]: expected less than 2^31");
}

static void refused_places(void)
{
    REFUSE(s.r.a.stride[2] = 3, TRP_E_ARGUMENT, "a.stride[2]: expected at least 4, or 0, got 3");
    REFUSE(s.r.a.stride[1] = 19, TRP_E_ARGUMENT, "a.stride[1]: expected at least 20, or 0, got 19");
    REFUSE(s.r.b.stride[0] = -1, TRP_E_ARGUMENT, "b.stride[0]: expected at least 36");
    REFUSE(s.r.a.stride[3] = 7, TRP_E_ARGUMENT, "a.stride[3]: expected 0, for there are 2");
    REFUSE(s.r.a.stride[0] = INT64_MAX, TRP_E_ARGUMENT, "a: ");
    REFUSE(s.r.a.stride[0] = INT64_MAX / 2, TRP_E_ARGUMENT, "a: ");
    REFUSE(s.r.d.stride[2] = 5, TRP_E_ARGUMENT, "d.stride[2]: expected at least 6, or 0, got 5");
    REFUSE(s.r.d.stride[1] = 31, TRP_E_UNSUPPORTED,
           "d.stride[1]: expected 0 or 30, since rows of d follow each other evenly, got 31");
    REFUSE((s.r.operation = TRP_CONV_WGRAD, s.r.d.stride[2] = 5), TRP_E_UNSUPPORTED,
           "d.stride[2]: expected 0 or 4");
    REFUSE((s.r.operation = TRP_CONV_WGRAD, s.r.d.stride[0] = 35), TRP_E_ARGUMENT,
           "d.stride[0]: expected at least 36");
    REFUSE((s.r.beta = trp_real(1), s.r.c.stride[3] = 5), TRP_E_ARGUMENT, "c.stride[3]");
    REFUSE(s.r.a.offset = 1, TRP_E_ARGUMENT, "a.offset: expected a multiple of 2 bytes");
    REFUSE(s.r.a.offset = 4096, TRP_E_ARGUMENT, "a: the request needs bytes");
    REFUSE(s.r.b.buffer.id = 0, TRP_E_STALE, "b: no buffer given");
    REFUSE(s.r.d.buffer = buffer_a, TRP_E_ARGUMENT, "overlap those of a");
    REFUSE((s.r.beta = trp_real(1), s.r.c.buffer = buffer_d, s.r.c.offset = 2), TRP_E_ARGUMENT,
           "overlap those of c");
    REFUSE((s.count = 3, s.nodes[2] = (trp_epilogue_node){.kind = TRP_EPILOGUE_AUX_STORE,
                                                          .input = {1},
                                                          .buffer = buffer_d}),
           TRP_E_ARGUMENT, "overlap");
    REFUSE((s.count = 3, s.nodes[2] = (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALE_ROWS,
                                                          .input = {1},
                                                          .offset = 4096 - 69 * 4,
                                                          .buffer = buffer_b}),
           TRP_E_ARGUMENT, "nodes[2]: the request needs bytes 3820 to 3820 + 280");
}

static void refused_types(void)
{
    REFUSE(s.r.a.type = TRP_I8, TRP_E_UNSUPPORTED, "a.type: expected f64, f32");
    REFUSE(s.r.b.type = TRP_F16, TRP_E_UNSUPPORTED, "b.type: expected bf16 where A is bf16");
    REFUSE(s.r.d.type = TRP_F64, TRP_E_UNSUPPORTED, "d.type: expected f32");
    REFUSE(s.r.compute = TRP_COMPUTE_TF32, TRP_E_ARGUMENT, "compute: TRP_COMPUTE_TF32 goes with");
    REFUSE((s.r.beta = trp_real(1), s.r.c.buffer.id = 0), TRP_E_ARGUMENT, "c.buffer: expected one");
    REFUSE((s.count = 2, s.r.beta = trp_real(1)), TRP_E_ARGUMENT, "beta: expected none beside");
}

static void refused(void)
{
    open_world();
    buffer_a = h_buffer(world.device, 4096);
    buffer_b = h_buffer(world.device, 4096);
    buffer_c = h_buffer(world.device, 4096);
    buffer_d = h_buffer(world.device, 4096);
    h_fill(world.device, buffer_a, 0);
    h_fill(world.device, buffer_b, 0);
    setting s = right();
    H_OK(send_setting(&s));
    refused_numbers();
    refused_places();
    refused_types();
    s = right();
    s.r.images = 0; /* nothing to do, and nothing looked at */
    s.r.d.buffer.id = 0;
    H_OK(send_setting(&s));
    H_EQUAL(h_info(world.device).incarnation, 1);
    h_close(&world);
}

static const h_case cases[] = {
    {"convolutions", convolutions}, {"large", large}, {"refused", refused}};

int main(int argc, char **argv)
{
    if (h_is_cuda())
        return H_EXIT_SKIPPED; /* not there yet */
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
