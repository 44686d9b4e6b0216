#include "support/problems/conv_problem.h"

#include "support/reference/elements.h"

#include <complex.h>
#include <math.h>

typedef enum role { ACTIVATION, FILTER, OUTPUT } role;

static trp_device *device; /* of the call in hand */

size_t cv_below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

static size_t bytes_of(trp_dtype type, size_t elements)
{
    return elements * (trp_dtype_bits(type) / 8);
}

static trp_buffer upload(const void *data, size_t bytes)
{
    trp_buffer b = h_buffer(device, bytes);
    h_write(device, b, 0, data, bytes);
    return b;
}

/* --- problems --- */

static role role_of(const cv_problem *p, int which)
{
    static const role roles[][CV_TENSORS] = {{ACTIVATION, FILTER, OUTPUT, OUTPUT},
                                             {OUTPUT, FILTER, ACTIVATION, ACTIVATION},
                                             {OUTPUT, ACTIVATION, FILTER, FILTER}};
    return roles[p->operation][which];
}

static size_t round_up(const cv_problem *p, size_t elements)
{
    size_t unit = p->unit ? p->unit : 1;
    return (elements + unit - 1) / unit * unit;
}

/* Strides from the innermost dimension on; what has rows only of one distance is `even`. */
static void lay_out(const cv_problem *p, cv_tensor *t, role what, bool even)
{
    const size_t *sizes = what == ACTIVATION ? p->input : what == FILTER ? p->filter : p->output;
    size_t free = what == FILTER ? 0 : p->dims, unit = p->unit ? p->unit : 1, packed, span;
    t->channels = what == ACTIVATION ? p->channels
                  : what == FILTER   ? p->channels / p->groups
                                     : p->filters;
    packed = span = t->channels;
    for (size_t i = p->dims + 1; i-- > 0;) {
        t->extent[i] = i > 0 ? sizes[i - 1] : what == FILTER ? p->filters : p->images;
        bool gap = even ? i == free && cv_below(2) : cv_below(4) == 0;
        gap = gap && !p->packed;
        t->stride[i] = gap ? round_up(p, (even ? packed : span) + cv_below(4 * unit)) : packed;
        t->said[i] = gap || cv_below(3) == 0 ? (int64_t)t->stride[i] : 0;
        packed = t->stride[i] * t->extent[i];
        span += t->stride[i] * (t->extent[i] ? t->extent[i] - 1 : 0);
    }
    t->offset = p->packed ? 0 : cv_below(4) * unit;
    t->span = t->offset + span + 3;
}

static size_t at(const cv_problem *p, const cv_tensor *t, size_t outer, const size_t *inner,
                 size_t c)
{
    size_t index = t->offset + outer * t->stride[0] + c;
    for (size_t i = 0; i < p->dims; i++)
        index += inner[i] * t->stride[1 + i];
    return index;
}

/* Small integers, which all types have. */
static void fill(cv_tensor *t)
{
    t->data = h_malloc(bytes_of(t->type, t->span));
    h_random_bytes(h_rng(), t->data, bytes_of(t->type, t->span));
    for (size_t i = 0; i < t->span; i++)
        ref_element_store(t->type, t->data, (int64_t)i, (double)cv_below(9) - 4);
    t->buffer = upload(t->data, bytes_of(t->type, t->span));
}

static double load(const cv_tensor *t, size_t index)
{
    return creal(ref_element_load(t->type, t->data, (int64_t)index));
}

void cv_drop(trp_device *on, cv_problem *p)
{
    for (int i = 0; i < CV_TENSORS; i++) {
        H_OK(trp_buffer_free(on, p->tensor[i].buffer));
        free(p->tensor[i].data);
    }
}

/* --- what must come of them --- */

/* The next position within `size`; false after the last. */
static bool next(const cv_problem *p, const size_t *size, size_t *position)
{
    for (size_t i = p->dims; i-- > 0;) {
        if (++position[i] < size[i])
            return true;
        position[i] = 0;
    }
    return false;
}

static size_t number(const cv_problem *p, const size_t *size, const size_t *position)
{
    size_t index = 0;
    for (size_t i = 0; i < p->dims; i++)
        index = index * size[i] + position[i];
    return index;
}

static size_t volume(const cv_problem *p, const size_t *size)
{
    size_t all = 1;
    for (size_t i = 0; i < p->dims; i++)
        all *= size[i];
    return all;
}

/* What a pixel of the output and one of the filter add for one image, all channels. */
static void add(const cv_problem *p, double *sums, size_t n, const size_t *o, const size_t *f,
                const size_t *in)
{
    const cv_tensor *a = &p->tensor[CV_A], *b = &p->tensor[CV_B];
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

static double *sums_of(const cv_problem *p)
{
    double *sums = calloc(p->rows * p->columns + 1, sizeof *sums);
    H_CHECK(sums);
    for (size_t n = 0; n < p->images; n++) {
        size_t o[CV_DIMS] = {0}, in[CV_DIMS];
        do {
            size_t f[CV_DIMS] = {0};
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
static size_t place(const cv_problem *p, const cv_tensor *t, size_t row, size_t column)
{
    return t->offset + row * t->stride[p->operation == TRP_CONV_WGRAD ? 0 : p->dims] + column;
}

/* --- sending --- */

static trp_conv_tensor tensor_of(const cv_tensor *t)
{
    trp_conv_tensor x = {
        .buffer = t->buffer, .offset = bytes_of(t->type, t->offset), .type = t->type};
    memcpy(x.stride, t->said, sizeof x.stride);
    return x;
}

static int64_t maybe(size_t value, size_t standard)
{
    return value == standard && cv_below(2) ? 0 : (int64_t)value;
}

static trp_cutlass_conv_request request_of(const cv_problem *p)
{
    trp_cutlass_conv_request r = {.operation = p->operation,
                                  .dims = p->dims == 2 && cv_below(2) ? 0 : (uint32_t)p->dims,
                                  .images = (int64_t)p->images,
                                  .compute = p->compute,
                                  .kernel = p->kernel,
                                  .tune = p->tune,
                                  .first = p->first,
                                  .header = {.deadline_ns = p->deadline_ns},
                                  .channels = (int64_t)p->channels,
                                  .filters = (int64_t)p->filters,
                                  .groups = maybe(p->groups, 1),
                                  .flip = p->flip,
                                  .a = tensor_of(&p->tensor[CV_A]),
                                  .b = tensor_of(&p->tensor[CV_B]),
                                  .c = tensor_of(&p->tensor[p->in_place ? CV_D : CV_C]),
                                  .d = tensor_of(&p->tensor[CV_D])};
    for (size_t i = 0; i < p->dims; i++) {
        r.input[i] = (int64_t)p->input[i];
        r.filter[i] = (int64_t)p->filter[i];
        r.output[i] = cv_below(2) ? (int64_t)p->output[i] : 0;
        r.pad[i] = (int64_t)p->pad[i];
        r.pad_after[i] = (int64_t)p->pad_after[i];
        r.stride[i] = maybe(p->stride[i], 1);
        r.dilation[i] = maybe(p->dilation[i], 1);
    }
    return r;
}

static double *random_vector(size_t count)
{
    double *x = h_malloc((count + 1) * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = (double)cv_below(5) - 2;
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

/* Kernels of 2.x store matrices as they store D, and reduce to vectors. */
static trp_order order_kept(void)
{
    return h_is_cuda() ? TRP_ROW_MAJOR : TRP_COL_MAJOR;
}

static cv_side side_of(const cv_problem *p, trp_dtype type)
{
    cv_side s = {.rows = random_vector(p->rows), .columns = random_vector(p->columns)};
    size_t bytes = bytes_of(type, p->rows * p->columns + 1);
    s.kept = calloc(p->rows * p->columns + 1, sizeof *s.kept);
    H_CHECK(s.kept);
    s.node[CV_SUMS].kind = TRP_EPILOGUE_ACCUMULATOR;
    s.node[CV_SCALED] = (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALE_ROWS,
                                            .input = {CV_SUMS},
                                            .buffer = upload_as(type, s.rows, p->rows)};
    s.node[CV_COLUMN] = (trp_epilogue_node){.kind = TRP_EPILOGUE_PER_COLUMN,
                                            .buffer = upload_as(type, s.columns, p->columns)};
    s.node[CV_BIASED] =
        (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY, .input = {CV_SCALED, CV_COLUMN}};
    s.node[CV_RELU] = (trp_epilogue_node){
        .kind = TRP_EPILOGUE_ACTIVATION, .activation = TRP_ACTIVATION_RELU, .input = {CV_BIASED}};
    s.node[CV_KEPT] = (trp_epilogue_node){.kind = TRP_EPILOGUE_AUX_STORE,
                                          .input = {CV_RELU},
                                          .type = type,
                                          .order = order_kept(),
                                          .buffer = h_buffer(device, bytes)};
    s.node[CV_TOTAL] = (trp_epilogue_node){.kind = h_is_cuda() ? TRP_EPILOGUE_REDUCE_COLUMNS
                                                               : TRP_EPILOGUE_REDUCE_ALL,
                                           .input = {CV_RELU},
                                           .buffer = h_buffer(device, bytes_of(type, p->columns))};
    s.node[CV_OLD].kind = TRP_EPILOGUE_C;
    s.node[CV_ROOT] = (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY, .input = {CV_KEPT, CV_OLD}};
    return s;
}

static void check_side(const cv_problem *p, cv_side *s, trp_dtype type)
{
    size_t count = p->rows * p->columns, bytes = bytes_of(type, count + 1);
    unsigned char *kept = h_malloc(bytes);
    size_t totals = h_is_cuda() ? p->columns : 1, total_bytes = bytes_of(type, totals);
    unsigned char *total = h_malloc(total_bytes);
    double *want = calloc(totals, sizeof *want);
    H_CHECK(want);
    h_read(device, s->node[CV_KEPT].buffer, 0, kept, bytes);
    h_read(device, s->node[CV_TOTAL].buffer, 0, total, total_bytes);
    for (size_t i = 0; i < count; i++) {
        size_t at = order_kept() == TRP_ROW_MAJOR ? i : i % p->columns * p->rows + i / p->columns;
        H_CHECK(creal(ref_element_load(type, kept, (int64_t)at)) == s->kept[i]);
        want[i % p->columns % totals] += s->kept[i];
    }
    for (size_t i = 0; i < totals && count > 0; i++)
        H_CHECK(creal(ref_element_load(type, total, (int64_t)i)) == want[i]);
    free(total);
    free(want);
    for (int i = CV_SCALED; i < CV_NODES; i++) {
        if (s->node[i].buffer.id)
            H_OK(trp_buffer_free(device, s->node[i].buffer));
    }
    free(kept);
    free(s->rows);
    free(s->columns);
    free(s->kept);
}

/* D as it must be, gaps and all. */
static unsigned char *expected(const cv_problem *p, cv_side *s)
{
    const cv_tensor *d = &p->tensor[CV_D], *c = &p->tensor[p->in_place ? CV_D : CV_C];
    unsigned char *want = h_malloc(bytes_of(d->type, d->span));
    double *sums = sums_of(p);
    memcpy(want, d->data, bytes_of(d->type, d->span));
    for (size_t i = 0; i < p->rows * p->columns; i++) {
        size_t row = i / p->columns, column = i % p->columns;
        double old = load(c, place(p, c, row, column)), value;
        if (s) {
            s->kept[i] = fmax(sums[i] * s->rows[row] + s->columns[column], 0);
            value = s->kept[i] + old;
        } else {
            value = p->beta != 0 ? fma(p->alpha, sums[i], p->beta * old) : p->alpha * sums[i];
        }
        ref_element_store(d->type, want, (int64_t)place(p, d, row, column), value);
    }
    free(sums);
    return want;
}

/* --- all of it --- */

static trp_dtype type_of_sums(const cv_problem *p)
{
    return p->tensor[CV_A].type == TRP_F64 ? TRP_F64 : TRP_F32;
}

void cv_set_output(cv_problem *p)
{
    for (size_t i = 0; i < p->dims; i++)
        p->output[i] = (p->input[i] + p->pad[i] + p->pad_after[i] -
                        ((p->filter[i] - 1) * p->dilation[i] + 1)) /
                           p->stride[i] +
                       1;
}

void cv_make(trp_device *on, cv_problem *p)
{
    device = on;
    for (int i = 0; i < CV_TENSORS; i++) {
        lay_out(p, &p->tensor[i], role_of(p, i), i >= CV_C);
        fill(&p->tensor[i]);
    }
    const cv_tensor *d = &p->tensor[CV_D];
    p->rows = d->extent[0];
    p->columns = d->channels;
    for (size_t i = 1; i <= p->dims; i++)
        *(p->operation == TRP_CONV_WGRAD ? &p->columns : &p->rows) *= d->extent[i];
}

trp_status cv_send(trp_device *on, trp_actor *cutlass, cv_problem *p)
{
    device = on;
    if (p->in_place)
        p->tensor[CV_C].type = p->tensor[CV_D].type;
    trp_cutlass_conv_request r = request_of(p);
    r.chosen = &p->chosen;
    if (p->tree) {
        p->side = side_of(p, type_of_sums(p));
        r.epilogue = p->side.node;
        r.epilogue_count = CV_NODES;
    } else {
        r.alpha = trp_real(p->alpha);
        if (p->beta != 0 || r.c.buffer.id)
            r.beta = trp_real(p->beta);
    }
    return trp_cutlass_conv(cutlass, &r, &p->done);
}

void cv_check(trp_device *on, cv_problem *p)
{
    const cv_tensor *d = &p->tensor[CV_D];
    size_t bytes = bytes_of(d->type, d->span);
    device = on;
    H_OK(h_await_any(p->done));
    unsigned char *after = h_malloc(bytes), *want = expected(p, p->tree ? &p->side : NULL);
    h_read(device, d->buffer, 0, after, bytes);
    for (size_t i = 0; i < bytes; i++) {
        if (after[i] != want[i])
            h_fail(__FILE__, __LINE__,
                   "%s: operation %d, %zu dims, %s x %s -> %s, %zu x %zu of %zu images, %zu "
                   "channels, %zu filters, %zu groups%s%s%s: byte %zu of %zu is %#x, expected %#x",
                   p->chosen.kernel, (int)p->operation, p->dims,
                   trp_dtype_name(p->tensor[CV_A].type), trp_dtype_name(p->tensor[CV_B].type),
                   trp_dtype_name(d->type), p->rows, p->columns, p->images, p->channels, p->filters,
                   p->groups, p->flip ? ", flipped" : "", p->tree ? ", a tree" : "",
                   p->in_place ? ", in place" : "", i, bytes, after[i], want[i]);
    }
    if (p->tree)
        check_side(p, &p->side, type_of_sums(p));
    free(after);
    free(want);
    cv_drop(on, p);
}
