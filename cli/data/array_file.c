#include "array_file.h"

#include "io/file.h"
#include "pipe.h"
#include "ui/ui.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

array_shape_text array_file_shape(const int64_t *dim, uint32_t rank)
{
    array_shape_text text = {"("};
    size_t used = 1;
    for (uint32_t i = 0; i < rank && used < sizeof text.s; i++)
        used += (size_t)snprintf(text.s + used, sizeof text.s - used, "%s%" PRId64,
                                 i > 0 ? ", " : "", dim[i]);
    if (used < sizeof text.s)
        snprintf(text.s + used, sizeof text.s - used, rank == 1 ? ",)" : ")");
    return text;
}

static bool is_taken(trp_dtype type)
{
    static const trp_dtype taken[] = {TRP_F64, TRP_F32, TRP_F16, TRP_C128,
                                      TRP_C64, TRP_I32, TRP_I8,  TRP_U8};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (taken[i] == type)
            return true;
    }
    return false;
}

const char *array_file_numpy(trp_dtype type)
{
    static const struct {
        trp_dtype type;
        const char *name;
    } names[] = {{TRP_F64, "np.float64"},     {TRP_F32, "np.float32"},   {TRP_F16, "np.float16"},
                 {TRP_C128, "np.complex128"}, {TRP_C64, "np.complex64"}, {TRP_I32, "np.int32"},
                 {TRP_I8, "np.int8"},         {TRP_U8, "np.uint8"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].type == type)
            return names[i].name;
    }
    return "np.float32"; /* bf16 and fp8 are converted from it */
}

/* Returns the NumPy type to convert an unsupported one ("<i8", ">f4", "BF16") to. The kind of a
 * type is its first letter behind the byte order. */
static const char *nearest_type(const char *file_type)
{
    const char *kind = file_type + strspn(file_type, "<>=|");
    if (*kind == 'c')
        return array_file_numpy(!strcmp(kind, "c8") ? TRP_C64 : TRP_C128);
    return array_file_numpy(!strcmp(kind, "f8") || !strcmp(kind, "f16") ? TRP_F64 : TRP_F32);
}

/* Opens a path, or the content of a pipe. */
static trp_io_file *open_path(const char *path)
{
    trp_io_file *file = NULL;
    char memory[32];
    const bool pipe = pipe_is_one(path);
    const char *name = pipe_input_name(path);
    const int fd = pipe ? pipe_read(path) : -1;
    if (pipe && fd < 0)
        return NULL;
    snprintf(memory, sizeof memory, "/proc/self/fd/%d", fd);
    const trp_status status = trp_io_open(pipe ? memory : path, &file);
    if (pipe)
        close(fd);
    if (status != TRP_OK) {
        /* The library's message begins with the path. */
        const char *message = trp_error_message();
        const char *descr = status == TRP_E_UNSUPPORTED ? strstr(message, "dtype '") : NULL;
        char type[24] = "";
        if (pipe && !strncmp(message, memory, strlen(memory)))
            message += strlen(memory);
        else
            name = "";
        if (descr && !strstr(message, ".astype("))
            snprintf(type, sizeof type, "%.*s", (int)strcspn(descr + 7, "'"), descr + 7);
        ui_error("%s%s%s%s%s", name, message, *type ? "; convert it with .astype(" : "",
                 *type ? nearest_type(type) : "", *type ? ")" : "");
        return NULL;
    }
    char *own = pipe ? strdup(name) : NULL;
    if (own) { /* used in messages */
        free(file->path);
        file->path = own;
    }
    return file;
}

/* Opens a file with one array. */
static trp_io_file *open_file(const char *path, uint32_t most, const char *expected,
                              trp_io_array *out)
{
    trp_io_file *file = open_path(path);
    if (!file)
        return NULL;
    const uint64_t count = trp_io_count(file);
    path = pipe_input_name(path);
    if (count != 1)
        ui_error("%s: expected one array alone, got %s", path, ui_plural(count, "array").s);
    else if (trp_io_get(file, 0, out) != TRP_OK)
        ui_error("%s", trp_error_message());
    else if (!is_taken(out->type))
        ui_error("%s: dtype '%s': expected f64, f32, f16, c128, c64, i32, i8 or u8; convert it "
                 "with .astype(%s)",
                 path, out->file_type, nearest_type(out->file_type));
    else if (out->rank < 1 || out->rank > most)
        ui_error("%s: %u-D array of shape %s: expected %s", path, out->rank,
                 array_file_shape(out->dim, out->rank).s, expected);
    else
        return file;
    trp_io_close(file);
    return NULL;
}

trp_io_file *array_file_open(const char *path, file_array *out)
{
    trp_io_array array;
    trp_io_file *file = open_file(path, FILE_RANK_MAX, "1 to 8 dimensions", &array);
    if (!file)
        return NULL;
    *out = (file_array){.type = array.type,
                        .fortran_order = array.fortran_order,
                        .rank = array.rank,
                        .data_bytes = array.bytes};
    for (uint32_t i = 0; i < array.rank; i++)
        out->dim[i] = (uint64_t)array.dim[i];
    return file;
}

trp_io_file *array_file_open_matrix(const char *path, file_matrix *out)
{
    trp_io_array array;
    trp_io_file *file = open_file(path, 2, "a matrix, 2-D, or a vector, 1-D", &array);
    if (!file)
        return NULL;
    *out = (file_matrix){.type = array.type,
                         .vector = array.rank == 1,
                         .fortran_order = array.fortran_order,
                         .rows = (uint64_t)array.dim[0],
                         .cols = array.rank == 1 ? 1 : (uint64_t)array.dim[1],
                         .data_bytes = array.bytes};
    return file;
}

static bool show_part(void *user_data, uint64_t done, uint64_t total)
{
    (void)user_data;
    ui_progress_part(done, total);
    return true;
}

bool array_file_read(trp_io_file *file, void *target, uint64_t bytes)
{
    static const trp_io_options options = {.progress = show_part};
    if (trp_io_read(file, 0, target, bytes, &options) == TRP_OK)
        return true;
    ui_error("%s", trp_error_message());
    return false;
}

bool array_file_try_write(const char *path)
{
    trp__io_replacement r;
    trp_error error = {0};
    if (pipe_is_one(path))
        return pipe_try_write(path);
    const trp_status status = trp__io_replace_begin(&r, path, &error);
    trp__io_replace_end(&r);
    if (status != TRP_OK)
        ui_error("writing %s: %s", path, error.message);
    return status == TRP_OK;
}

bool array_file_write(const char *path, const file_array *array, const void *data)
{
    static const trp_io_save_options npy = {.format = TRP_IO_NPY, .progress = show_part};
    trp_io_item item = {
        .data = data,
        .array = {.type = array->type, .rank = array->rank, .fortran_order = array->fortran_order}};
    for (uint32_t i = 0; i < array->rank; i++)
        item.array.dim[i] = (int64_t)array->dim[i];
    trp_status status;
    if (pipe_is_one(path)) {
        const int fd = pipe_open(path);
        if (fd < 0)
            return false;
        status = trp__io_save_stream(fd, pipe_output_name(path), &item, &npy);
        close(fd);
    } else {
        status = trp_io_save(path, &item, 1, &npy);
    }
    if (status != TRP_OK)
        ui_error("%s", trp_error_message());
    return status == TRP_OK;
}

bool array_file_write_matrix(const char *path, const file_matrix *matrix, const void *data)
{
    const file_array array = {.type = matrix->type,
                              .fortran_order = matrix->fortran_order,
                              .rank = matrix->vector ? 1 : 2,
                              .dim = {matrix->rows, matrix->cols}};
    return array_file_write(path, &array, data);
}
