#include "support/problems/conv_problem.h"

#include "support/reference/elements.h"

#include <complex.h>
#include <math.h>

typedef enum role { ACTIVATION, FILTER, OUTPUT } role;

size_t cv_below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

static size_t bytes_of(trp_dtype type, size_t elements)
{
    return elements * (trp_dtype_bits(type) / 8);
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

/* Sets strides from the innermost dimension on; `even`: rows of the tensor have one distance. */
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
    t->span = t->offset + span + (p->packed ? 0 : 3);
}

static size_t at(const cv_problem *p, const cv_tensor *t, size_t outer, const size_t *inner,
                 size_t c)
{
    size_t index = t->offset + outer * t->stride[0] + c;
    for (size_t i = 0; i < p->dims; i++)
        index += inner[i] * t->stride[1 + i];
    return index;
}

/* Fills a tensor with integers from -most to most, which all types hold. */
static void fill(cv_problem *p, int which, trp_dtype type, size_t elements, size_t most)
{
    const size_t bytes = bytes_of(type, elements);
    block *b = &p->blocks[which];
    *b = block_make(bytes, h_random_block(h_rng(), bytes));
    for (size_t i = 0; i < elements; i++)
        ref_element_store(type, b->before, (int64_t)i,
                          (double)cv_below(2 * most + 1) - (double)most);
}

static double load(const cv_problem *p, int which, trp_dtype type, size_t index)
{
    return creal(ref_element_load(type, p->blocks[which].before, (int64_t)index));
}

static double element(const cv_problem *p, int which, size_t index)
{
    return load(p, which, p->tensor[which].type, index);
}

/* --- expected results --- */

/* Steps to the next position within `size`; false after the last. */
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

/* Adds the products of a pixel of the output and one of the filter for one image, all channels. */
static void add(const cv_problem *p, double *sums, size_t n, const size_t *o, const size_t *f,
                const size_t *in)
{
    const cv_tensor *a = &p->tensor[CV_A], *b = &p->tensor[CV_B];
    size_t channels = p->channels / p->groups, filters = p->filters / p->groups;
    size_t output = n * volume(p, p->output) + number(p, p->output, o);
    size_t input = n * volume(p, p->input) + number(p, p->input, in);
    for (size_t k = 0; k < p->filters; k++) {
        for (size_t c = 0; c < channels; c++) {
            size_t all = k / filters * channels + c; /* of the activation */
            size_t weight = number(p, p->filter, f) * channels + c;
            if (p->operation == TRP_CONV_FPROP)
                sums[output * p->columns + k] +=
                    element(p, CV_A, at(p, a, n, in, all)) * element(p, CV_B, at(p, b, k, f, c));
            else if (p->operation == TRP_CONV_DGRAD)
                sums[input * p->columns + all] +=
                    element(p, CV_A, at(p, a, n, o, k)) * element(p, CV_B, at(p, b, k, f, c));
            else
                sums[k * p->columns + weight] +=
                    element(p, CV_A, at(p, a, n, o, k)) * element(p, CV_B, at(p, b, n, in, all));
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
                    inside = inside && in[i] < p->input[i]; /* numbers below 0 become large */
                }
                if (inside)
                    add(p, sums, n, o, f, in);
            } while (next(p, p->filter, f));
        } while (next(p, p->output, o));
    }
    return sums;
}

/* Rows of C and D are at a constant distance. */
static size_t place(const cv_problem *p, const cv_tensor *t, size_t row, size_t column)
{
    return t->offset + row * t->stride[p->operation == TRP_CONV_WGRAD ? 0 : p->dims] + column;
}

/* --- sending --- */

static trp_dtype type_of_sums(const cv_problem *p)
{
    return p->tensor[CV_A].type == TRP_F64 ? TRP_F64 : TRP_F32;
}

static trp_conv_tensor tensor_of(const cv_problem *p, int which)
{
    const cv_tensor *t = &p->tensor[which];
    trp_conv_tensor x = {
        .buffer = p->blocks[which].buffer, .offset = bytes_of(t->type, t->offset), .type = t->type};
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
                                  .a = tensor_of(p, CV_A),
                                  .b = tensor_of(p, CV_B),
                                  .c = tensor_of(p, p->in_place ? CV_D : CV_C),
                                  .d = tensor_of(p, CV_D)};
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

/* Kernels of 2.x store matrices in D's order, and reduce to vectors. */
static trp_order order_kept(void)
{
    return h_is_cuda() ? TRP_ROW_MAJOR : TRP_COL_MAJOR;
}

static void set_nodes(cv_problem *p)
{
    trp_epilogue_node *x = p->node;
    memset(x, 0, sizeof p->node);
    x[CV_SUMS].kind = TRP_EPILOGUE_ACCUMULATOR;
    x[CV_SCALED] = (trp_epilogue_node){
        .kind = TRP_EPILOGUE_SCALE_ROWS, .input = {CV_SUMS}, .buffer = p->blocks[CV_ROWS].buffer};
    x[CV_COLUMN] = (trp_epilogue_node){.kind = TRP_EPILOGUE_PER_COLUMN,
                                       .buffer = p->blocks[CV_COLUMNS].buffer};
    x[CV_BIASED] =
        (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY, .input = {CV_SCALED, CV_COLUMN}};
    x[CV_RELU] = (trp_epilogue_node){
        .kind = TRP_EPILOGUE_ACTIVATION, .activation = TRP_ACTIVATION_RELU, .input = {CV_BIASED}};
    x[CV_KEPT] = (trp_epilogue_node){.kind = TRP_EPILOGUE_AUX_STORE,
                                     .input = {CV_RELU},
                                     .type = type_of_sums(p),
                                     .order = order_kept(),
                                     .buffer = p->blocks[CV_KEEPS].buffer};
    x[CV_TOTAL] = (trp_epilogue_node){.kind = h_is_cuda() ? TRP_EPILOGUE_REDUCE_COLUMNS
                                                          : TRP_EPILOGUE_REDUCE_ALL,
                                      .input = {CV_RELU},
                                      .buffer = p->blocks[CV_SUM].buffer};
    x[CV_OLD].kind = TRP_EPILOGUE_C;
    x[CV_ROOT] = (trp_epilogue_node){.kind = TRP_EPILOGUE_BINARY, .input = {CV_KEPT, CV_OLD}};
}

void cv_request(cv_problem *p, trp_cutlass_conv_request *out)
{
    *out = request_of(p);
    out->chosen = &p->chosen;
    if (p->tree) {
        set_nodes(p);
        out->epilogue = p->node;
        out->epilogue_count = CV_NODES;
    } else {
        out->alpha = trp_real(p->alpha);
        out->beta = trp_real(p->beta);
    }
}

/* --- interface --- */

void cv_set_output(cv_problem *p)
{
    for (size_t i = 0; i < p->dims; i++)
        p->output[i] = (p->input[i] + p->pad[i] + p->pad_after[i] -
                        ((p->filter[i] - 1) * p->dilation[i] + 1)) /
                           p->stride[i] +
                       1;
}

void cv_draw(cv_problem *p)
{
    if (p->in_place)
        p->tensor[CV_C].type = p->tensor[CV_D].type;
    for (int i = 0; i < CV_TENSORS; i++) {
        cv_tensor *t = &p->tensor[i];
        lay_out(p, t, role_of(p, i), i >= CV_C);
        if (i != CV_C || !p->in_place)
            fill(p, i, t->type, t->span, 4);
    }
    const cv_tensor *d = &p->tensor[CV_D];
    p->rows = d->extent[0];
    p->columns = d->channels;
    for (size_t i = 1; i <= p->dims; i++)
        *(p->operation == TRP_CONV_WGRAD ? &p->columns : &p->rows) *= d->extent[i];
    const size_t sizes[] = {p->rows, p->columns, p->rows * p->columns,
                            h_is_cuda() ? p->columns : 1};
    for (int i = CV_ROWS; i < CV_BLOCKS && p->tree; i++)
        fill(p, i, type_of_sums(p), sizes[i - CV_ROWS] + 1, 2);
}

/* Marks an element as written, and returns whether it is right. */
static bool same(cv_problem *p, int which, size_t index, trp_dtype type, double wanted)
{
    char want[8];
    block *b = &p->blocks[which];
    const size_t bytes = bytes_of(type, 1), from = bytes * index;
    ref_element_store(type, want, 0, wanted);
    memset(b->writable + from, true, bytes);
    if (memcmp(b->after + from, want, bytes) == 0)
        return true;
    fprintf(stderr,
            "%s: operation %d, %zu dims, %s x %s -> %s, %zu x %zu of %zu images, %zu channels, %zu "
            "filters, %zu groups%s%s%s: element %zu of block %d is %g, expected %g\n",
            p->chosen.kernel, (int)p->operation, p->dims, trp_dtype_name(p->tensor[CV_A].type),
            trp_dtype_name(p->tensor[CV_B].type), trp_dtype_name(p->tensor[CV_D].type), p->rows,
            p->columns, p->images, p->channels, p->filters, p->groups, p->flip ? ", flipped" : "",
            p->tree ? ", a tree" : "", p->in_place ? ", in place" : "", index, which,
            creal(ref_element_load(type, b->after, (int64_t)index)), wanted);
    return false;
}

bool cv_right(cv_problem *p)
{
    const trp_dtype type = type_of_sums(p);
    const int from = p->in_place ? CV_D : CV_C;
    const cv_tensor *d = &p->tensor[CV_D], *c = &p->tensor[from];
    double *sums = sums_of(p), *totals = calloc(p->columns, sizeof *totals);
    bool right = totals != NULL;
    for (size_t i = 0; i < p->rows * p->columns && right; i++) {
        const size_t row = i / p->columns, column = i % p->columns;
        const double old = element(p, from, place(p, c, row, column));
        double value = p->beta != 0 ? fma(p->alpha, sums[i], p->beta * old) : p->alpha * sums[i];
        if (p->tree) {
            const double kept =
                fmax(sums[i] * load(p, CV_ROWS, type, row) + load(p, CV_COLUMNS, type, column), 0);
            const size_t at = order_kept() == TRP_ROW_MAJOR ? i : column * p->rows + row;
            right = same(p, CV_KEEPS, at, type, kept);
            totals[h_is_cuda() ? column : 0] += kept;
            value = kept + old;
        }
        right = same(p, CV_D, place(p, d, row, column), d->type, value) && right;
    }
    for (size_t i = 0; p->tree && p->rows > 0 && i < (h_is_cuda() ? p->columns : 1); i++)
        right = same(p, CV_SUM, i, type, totals[i]) && right;
    free(sums);
    free(totals);
    return right;
}

void cv_make(trp_device *device, cv_problem *p)
{
    cv_draw(p);
    for (int i = 0; i < CV_BLOCKS; i++) {
        block *b = &p->blocks[i];
        if (!b->before)
            continue;
        b->buffer = h_buffer(device, b->bytes);
        h_write(device, b->buffer, 0, b->before, b->bytes);
    }
}

trp_status cv_send(trp_actor *cutlass, cv_problem *p)
{
    trp_cutlass_conv_request r;
    cv_request(p, &r);
    return trp_cutlass_conv(cutlass, &r, &p->done);
}

void cv_drop(trp_device *device, cv_problem *p)
{
    for (int i = 0; i < CV_BLOCKS; i++) {
        block *b = &p->blocks[i];
        if (!b->before)
            continue;
        H_OK(trp_buffer_free(device, b->buffer));
        block_free(b);
    }
}

void cv_check(trp_device *device, cv_problem *p)
{
    H_OK(h_await_any(p->done));
    for (int i = 0; i < CV_BLOCKS; i++) {
        if (p->blocks[i].before)
            h_read(device, p->blocks[i].buffer, 0, p->blocks[i].after, p->blocks[i].bytes);
    }
    H_CHECK(cv_right(p));
    const block *d = &p->blocks[CV_D];
    for (size_t i = 0; i < d->bytes; i++)
        H_CHECK(d->writable[i] || d->after[i] == d->before[i]);
    cv_drop(device, p);
}
