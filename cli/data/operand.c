#include "operand.h"

#include "ui/ui.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Layouts. */

static uint64_t line_length(const layout *l)
{
    return l->row_major ? l->cols : l->rows;
}

static uint64_t line_count(const layout *l)
{
    return l->row_major ? l->rows : l->cols;
}

static uint64_t element_bytes(trp_dtype type)
{
    return trp_dtype_bits(type) / 8;
}

/* Returns bytes of whole lines: two 4-bit elements make a byte, and lines have even numbers of
 * them. */
static uint64_t bytes_of(trp_dtype type, uint64_t elements)
{
    return trp_dtype_bits(type) == 4 ? elements / 2 : elements * element_bytes(type);
}

static layout file_layout(const operand *o)
{
    layout l = {.type = o->file.type,
                .rows = o->file.rows,
                .cols = o->file.cols,
                .row_major = !o->file.fortran_order,
                .bytes = o->file.data_bytes};
    l.ld = line_length(&l);
    return l;
}

static bool is_vector(const layout *l)
{
    return l->rows <= 1 || l->cols <= 1;
}

/* Copies line by line, gathering elements where the orders differ. */
static bool copy_lines(const layout *from, const char *source, const layout *to, char *target)
{
    uint64_t length = line_length(to), size = element_bytes(from->type);
    bool same_order = from->row_major == to->row_major;
    char *line = same_order ? NULL : malloc(length * size + 1);
    bool ok = same_order || line;
    for (uint64_t i = 0; ok && i < line_count(to); i++) {
        const char *part = same_order ? source + i * from->ld * size : line;
        for (uint64_t j = 0; !same_order && j < length; j++)
            memcpy(line + j * size, source + (j * from->ld + i) * size, size);
        ok = trp_convert(from->type, part, to->type, target + bytes_of(to->type, i * to->ld),
                         length) == TRP_OK;
    }
    free(line);
    return ok;
}

static bool convert(const operand *o, const layout *from, const void *source, const layout *to,
                    void *target)
{
    if (copy_lines(from, source, to, target))
        return true;
    ui_error("%s: converting %s to %s: out of memory", o->path, trp_dtype_name(from->type),
             trp_dtype_name(to->type));
    return false;
}

/* Shapes. */

trp_dtype operand_named_type(const char *name)
{
    for (int type = TRP_F64; type < TRP_DTYPE_COUNT; type++) {
        if (strcmp(trp_dtype_name((trp_dtype)type), name) == 0)
            return (trp_dtype)type;
    }
    return TRP_DTYPE_NONE;
}

trp_dtype operand_chosen_type(const char *const *names, int choice)
{
    return choice < 0 ? TRP_DTYPE_NONE : operand_named_type(names[choice]);
}

operand_text operand_describe(const operand *o)
{
    operand_text text;
    const matrix m = {.shape = o->file};
    snprintf(text.s, sizeof text.s, "%.180s is %s", o->path, matrix_describe(&m).s);
    return text;
}

bool operand_open_all(operand *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const operand *o = &all[i];
        if (o->use == OPERAND_OUTPUT && o->path && !array_file_try_write(o->path))
            return false;
    }
    for (size_t i = 0; i < count; i++) {
        operand *o = &all[i];
        if (o->use != OPERAND_INPUT || !o->path)
            continue;
        o->source = array_file_open_matrix(o->path, &o->file);
        if (!o->source)
            return false;
    }
    return true;
}

static bool is_complex(trp_dtype type)
{
    return type == TRP_C64 || type == TRP_C128;
}

bool operand_can_convert(trp_dtype from, trp_dtype to)
{
    if (from == to)
        return true;
    if (from == TRP_U8 || to == TRP_U8 || is_complex(from) != is_complex(to))
        return false;
    return to != TRP_I32 || from == TRP_I8;
}

bool operand_lay_out(operand *o, trp_dtype type, bool row_major, uint64_t unit)
{
    layout *l = &o->layout;
    uint64_t ld, bytes;
    *l = (layout){.type = type, .rows = o->file.rows, .cols = o->file.cols, .row_major = row_major};
    if (o->use == OPERAND_INPUT && !operand_can_convert(o->file.type, type)) {
        ui_error("%s: expected elements that can be made %s; %s; convert it with .astype(%s)",
                 o->option, trp_dtype_name(type), operand_describe(o).s, array_file_numpy(type));
        return false;
    }
    if (__builtin_add_overflow(line_length(l), unit - 1, &ld) ||
        __builtin_mul_overflow(ld / unit * unit, line_count(l), &bytes) ||
        (element_bytes(type) && __builtin_mul_overflow(bytes, element_bytes(type), &bytes)) ||
        bytes > INT64_MAX) {
        ui_error("%s of %" PRIu64 " x %" PRIu64 " is too large for any memory", o->option, l->rows,
                 l->cols);
        return false;
    }
    l->ld = ld / unit * unit;
    l->bytes = !l->rows || !l->cols ? 0 : element_bytes(type) ? bytes : bytes_of(type, bytes);
    return true;
}

trp_dtype operand_type_in_file(trp_dtype type)
{
    static const trp_dtype taken[] = {TRP_F64, TRP_F16,  TRP_I64, TRP_I32, TRP_I8,
                                      TRP_U8,  TRP_BOOL, TRP_C64, TRP_C128};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (taken[i] == type)
            return type;
    }
    return TRP_F32; /* also for types that are widened to it */
}

bool operand_shape_output(operand *o, trp_dtype type, uint64_t rows, uint64_t cols, bool vector)
{
    matrix m;
    if (!matrix_shape(&m, operand_type_in_file(type), rows, cols))
        return false;
    o->file = m.shape;
    o->file.vector = vector;
    return true;
}

void operand_set_number(operand *o, operand_use use, const char *name, double value)
{
    *o = (operand){.use = use, .option = name, .number = value};
    o->layout =
        (layout){.type = TRP_F32, .rows = 1, .cols = 1, .row_major = true, .ld = 1, .bytes = 4};
}

bool operand_is_converted(const operand *o)
{
    layout f = file_layout(o);
    const layout *l = &o->layout;
    if (!o->path)
        return false;
    if (f.type != l->type || f.bytes != l->bytes)
        return true;
    return !is_vector(l) && (f.row_major != l->row_major || f.ld != l->ld);
}

/* Memory and files. */

bool operand_place(struct run *run, operand *o)
{
    if (o->use == OPERAND_ABSENT || o->layout.bytes == 0)
        return true;
    if (!run_check(trp_buffer_create(run->device, o->layout.bytes, &o->buffer),
                   "getting device memory") ||
        !run_check(trp_host_alloc(run->device, o->layout.bytes, &o->data), "getting host memory"))
        return false;
    if (!operand_is_converted(o))
        return true;
    o->file_data = malloc(o->file.data_bytes);
    if (!o->file_data)
        ui_error("%s: no memory for %s", o->path, ui_bytes(o->file.data_bytes).s);
    return o->file_data != NULL;
}

void operand_release(struct run *run, operand *o)
{
    trp_io_close(o->source);
    if (o->buffer.id)
        run_check(trp_buffer_free(run->device, o->buffer), "giving device memory back");
    if (o->data)
        run_check(trp_host_free(run->device, o->data), "giving host memory back");
    free(o->file_data);
    *o = (operand){0};
}

bool operand_read(operand *o)
{
    void *to = o->file_data ? o->file_data : o->data;
    return !to || array_file_read(o->source, to, o->file.data_bytes);
}

bool operand_convert(operand *o)
{
    layout f = file_layout(o);
    float number = (float)o->number;
    if (!o->path && o->data)
        memcpy(o->data, &number, sizeof number);
    if (!o->file_data || !o->data)
        return true;
    memset(o->data, 0, o->layout.bytes); /* zero the padding */
    return convert(o, &f, o->file_data, &o->layout, o->data);
}

bool operand_upload(struct run *run, const operand *o)
{
    return run_upload(run, o->buffer, o->data, o->layout.bytes, "a matrix");
}

bool operand_download(struct run *run, const operand *o)
{
    return run_download(run, o->buffer, o->data, o->layout.bytes);
}

bool operand_write(operand *o)
{
    layout f = file_layout(o);
    if (o->file_data && !convert(o, &o->layout, o->data, &f, o->file_data))
        return false;
    return array_file_write_matrix(o->path, &o->file, o->file_data ? o->file_data : o->data);
}

/* Views. */

static check_view view_of(const layout *l, const void *data)
{
    return (check_view){.data = data,
                        .type = l->type,
                        .row_step = l->row_major ? l->ld : 1,
                        .col_step = l->row_major ? 1 : l->ld};
}

check_view operand_view(const operand *o)
{
    return view_of(&o->layout, o->data);
}

check_view operand_file_view(const operand *o)
{
    layout f = file_layout(o);
    return view_of(&f, o->file_data);
}
