#include "tensor.h"

#include "ui/ui.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Shapes. */

tensor_text tensor_shape_text(const file_array *array)
{
    tensor_text text;
    size_t at = 0;
    for (uint32_t i = 0; i < array->rank; i++)
        at += (size_t)snprintf(text.s + at, sizeof text.s - at, "%s%" PRIu64, i ? " x " : "",
                               array->dim[i]);
    snprintf(text.s + at, sizeof text.s - at, " %s", trp_dtype_name(array->type));
    return text;
}

tensor_text tensor_describe(const tensor *t)
{
    tensor_text text;
    snprintf(text.s, sizeof text.s, "%.120s is %.190s", t->path, tensor_shape_text(&t->file).s);
    return text;
}

/* Limits dimensions so that window positions can't overflow. */
static bool expect_small(const tensor *t)
{
    for (uint32_t i = 0; i < t->file.rank; i++) {
        if (t->file.dim[i] > INT32_MAX) {
            ui_error("%s: expected dimensions below 2^31; %s", t->option, tensor_describe(t).s);
            return false;
        }
    }
    return true;
}

bool tensor_open_all(tensor *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const tensor *t = &all[i];
        if (t->use == OPERAND_OUTPUT && t->path && !array_file_try_write(t->path))
            return false;
    }
    for (size_t i = 0; i < count; i++) {
        tensor *t = &all[i];
        if (t->use != OPERAND_INPUT || !t->path)
            continue;
        t->source = array_file_open(t->path, &t->file);
        if (!t->source || !expect_small(t))
            return false;
    }
    return true;
}

bool tensor_expect_rank(const tensor *t, uint32_t least, uint32_t most, const char *what)
{
    char count[32];
    if (t->file.rank >= least && t->file.rank <= most)
        return true;
    snprintf(count, sizeof count, least == most ? "%u" : "%u to %u", least, most);
    ui_error("%s: expected %s dimensions, %s; %s", t->option, count, what, tensor_describe(t).s);
    return false;
}

bool tensor_expect_dims(const tensor *t, uint32_t rank, const int64_t *dim, const char *why)
{
    char wanted[160];
    size_t at = 0;
    bool same = t->file.rank == rank;
    for (uint32_t i = 0; i < rank; i++) {
        same = same && t->file.dim[i] == (uint64_t)dim[i];
        at +=
            (size_t)snprintf(wanted + at, sizeof wanted - at, "%s%" PRId64, i ? " x " : "", dim[i]);
    }
    if (!same)
        ui_error("%s: expected %s, %s; %s", t->option, wanted, why, tensor_describe(t).s);
    return same;
}

bool tensor_shape_output(tensor *t, trp_dtype type, uint32_t rank, const int64_t *dim)
{
    uint64_t bytes;
    t->file = (file_array){.type = operand_type_in_file(type), .rank = rank};
    bytes = 8; /* no type has more */
    for (uint32_t i = 0; i < rank; i++) {
        t->file.dim[i] = (uint64_t)dim[i];
        if (dim[i] > INT32_MAX || __builtin_mul_overflow(bytes, (uint64_t)dim[i], &bytes) ||
            bytes > INT64_MAX) {
            ui_error("a result of %s is too large for any memory", tensor_shape_text(&t->file).s);
            return false;
        }
    }
    t->file.data_bytes = tensor_elements(t) * (trp_dtype_bits(t->file.type) / 8);
    return true;
}

uint64_t tensor_elements(const tensor *t)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < t->file.rank; i++)
        count *= t->file.dim[i];
    return count;
}

/* Layouts: strides of packed elements. */

static void set_strides(trp_dnn_tensor *t, tensor_order order, bool fortran)
{
    int64_t next = 1;
    if (order == TENSOR_CHANNELS_LAST) {
        trp_dnn_channels_last(t);
        return;
    }
    for (uint32_t i = 0; i < t->rank; i++) {
        uint32_t at = fortran && order == TENSOR_AS_FILE ? i : t->rank - 1 - i;
        t->stride[at] = next;
        next *= t->dim[at];
    }
}

static trp_dnn_tensor in_file(const tensor *t)
{
    trp_dnn_tensor f = {.type = t->file.type, .rank = t->file.rank};
    for (uint32_t i = 0; i < f.rank; i++)
        f.dim[i] = (int64_t)t->file.dim[i];
    set_strides(&f, TENSOR_AS_FILE, t->file.fortran_order);
    return f;
}

bool tensor_lay_out(tensor *t, trp_dtype type, tensor_order order)
{
    trp_dnn_tensor *d = &t->device;
    *d = in_file(t);
    if (t->use == OPERAND_INPUT && t->path && !operand_can_convert(d->type, type)) {
        ui_error("%s: expected elements that can be made %s; %s; convert it with .astype(%s)",
                 t->option, trp_dtype_name(type), tensor_describe(t).s, array_file_numpy(type));
        return false;
    }
    d->type = type;
    set_strides(d, order, t->file.fortran_order);
    t->bytes = tensor_elements(t) * (trp_dtype_bits(type) / 8);
    return true;
}

/* Compares strides, except of dimensions of 1, where they don't matter. */
static bool same_places(const trp_dnn_tensor *a, const trp_dnn_tensor *b)
{
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->dim[i] != 1 && a->stride[i] != b->stride[i])
            return false;
    }
    return true;
}

bool tensor_is_converted(const tensor *t)
{
    trp_dnn_tensor f = in_file(t);
    return t->path && (f.type != t->device.type || !same_places(&f, &t->device));
}

/* Copies. */

/* Iterates over all dimensions but one, tracking offsets in two layouts. */
typedef struct lines {
    const trp_dnn_tensor *from, *to;
    uint32_t along;
    int64_t at[TRP_DNN_RANK_MAX], source, target;
} lines;

static bool next_line(lines *l)
{
    for (uint32_t i = l->to->rank; i-- > 0;) {
        if (i == l->along)
            continue;
        l->source += l->from->stride[i];
        l->target += l->to->stride[i];
        if (++l->at[i] < l->to->dim[i])
            return true;
        l->source -= l->from->stride[i] * l->to->dim[i];
        l->target -= l->to->stride[i] * l->to->dim[i];
        l->at[i] = 0;
    }
    return false;
}

/* Returns the dimension along which elements are adjacent. */
static uint32_t fastest(const trp_dnn_tensor *t)
{
    uint32_t found = t->rank - 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->stride[i] == 1 && (t->dim[i] != 1 || t->dim[found] == 1))
            found = i;
    }
    return found;
}

static void gather(const char *source, int64_t stride, int64_t count, size_t size, char *line)
{
    for (int64_t i = 0; i < count; i++)
        memcpy(line + (size_t)i * size, source + (size_t)(i * stride) * size, size);
}

static bool copy_lines(const trp_dnn_tensor *from, const char *source, const trp_dnn_tensor *to,
                       char *target)
{
    lines l = {.from = from, .to = to, .along = fastest(to)};
    int64_t count = to->dim[l.along], stride = from->stride[l.along];
    size_t size = trp_dtype_bits(from->type) / 8, made = trp_dtype_bits(to->type) / 8;
    char *line = malloc((size_t)count * size + 1);
    bool ok = line != NULL;
    bool more = ok;
    while (ok && more) {
        gather(source + (size_t)l.source * size, stride, count, size, line);
        char *at = target + (size_t)l.target * made;
        if (from->type == to->type)
            memcpy(at, line, (size_t)count * size);
        else
            ok = trp_convert(from->type, line, to->type, at, (size_t)count) == TRP_OK;
        more = next_line(&l);
    }
    free(line);
    return ok;
}

static bool convert(const tensor *t, const trp_dnn_tensor *from, const void *source,
                    const trp_dnn_tensor *to, void *target)
{
    if (tensor_elements(t) == 0 || copy_lines(from, source, to, target))
        return true;
    ui_error("%s: converting %s to %s: out of memory", t->path, trp_dtype_name(from->type),
             trp_dtype_name(to->type));
    return false;
}

double *tensor_values(const tensor *t, bool of_file)
{
    trp_dnn_tensor from = of_file ? in_file(t) : t->device, to = t->device;
    const void *source = of_file && t->file_data ? t->file_data : t->data;
    uint64_t count = tensor_elements(t);
    double *values = count < SIZE_MAX / 8 ? malloc(count * sizeof *values + 1) : NULL;
    if (!values) {
        ui_error("%s: no memory for %s as float64", t->option, ui_bytes(count * 8).s);
        return NULL;
    }
    set_strides(&to, TENSOR_CHANNELS_FIRST, false);
    lines l = {.from = &from, .to = &to, .along = to.rank - 1};
    for (bool more = count > 0; more; more = next_line(&l)) {
        for (int64_t i = 0; i < to.dim[l.along]; i++)
            values[l.target + i] =
                check_value(from.type, source, (uint64_t)(l.source + i * from.stride[l.along]), 0);
    }
    return values;
}

/* Memory and files. An empty tensor has a buffer, too: requests take a tensor without one as
 * absent. */

bool tensor_place(struct run *run, tensor *t)
{
    if (t->use == OPERAND_ABSENT)
        return true;
    if (!run_check(trp_buffer_create(run->device, t->bytes ? t->bytes : 8, &t->device.buffer),
                   "getting device memory"))
        return false;
    if (t->bytes == 0 || !t->path)
        return true;
    if (!run_check(trp_host_alloc(run->device, t->bytes, &t->data), "getting host memory"))
        return false;
    if (!tensor_is_converted(t))
        return true;
    t->file_data = malloc(t->file.data_bytes);
    if (!t->file_data)
        ui_error("%s: no memory for %s", t->path, ui_bytes(t->file.data_bytes).s);
    return t->file_data != NULL;
}

void tensor_release(struct run *run, tensor *t)
{
    trp_io_close(t->source);
    if (t->device.buffer.id)
        run_check(trp_buffer_free(run->device, t->device.buffer), "giving device memory back");
    if (t->data)
        run_check(trp_host_free(run->device, t->data), "giving host memory back");
    free(t->file_data);
    *t = (tensor){0};
}

bool tensor_read(tensor *t)
{
    void *to = t->file_data ? t->file_data : t->data;
    return !to || array_file_read(t->source, to, t->file.data_bytes);
}

bool tensor_convert(tensor *t)
{
    trp_dnn_tensor f = in_file(t);
    return !t->file_data || convert(t, &f, t->file_data, &t->device, t->data);
}

bool tensor_upload(struct run *run, const tensor *t)
{
    return run_upload(run, t->device.buffer, t->data, t->data ? t->bytes : 0, "an array");
}

bool tensor_download(struct run *run, const tensor *t)
{
    return run_download(run, t->device.buffer, t->data, t->data ? t->bytes : 0);
}

bool tensor_write(tensor *t)
{
    trp_dnn_tensor f = in_file(t);
    if (t->file_data && !convert(t, &t->device, t->data, &f, t->file_data))
        return false;
    return array_file_write(t->path, &t->file, t->file_data ? t->file_data : t->data);
}
