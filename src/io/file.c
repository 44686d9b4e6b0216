/* Opens files, and answers questions about their arrays. */
#include "io/file.h"

#include "base/os/descriptor.h"
#include "io/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int trp__io_cancel_disable(void)
{
    int state = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

void trp__io_cancel_restore(int state)
{
    pthread_setcancelstate(state, &state);
}

trp_status trp__io_pread(int fd, uint64_t offset, void *target, uint64_t bytes, const char *what,
                         trp_error *error)
{
    char doing[64];
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t left = bytes - done;
        ssize_t got =
            pread(fd, (char *)target + done, left < TRP__IO_CALL_BYTES ? left : TRP__IO_CALL_BYTES,
                  (off_t)(offset + done));
        if (got > 0) {
            done += (uint64_t)got;
        } else if (got == 0) {
            return trp__error_set(error, TRP_E_ARGUMENT,
                                  "truncated %s: the file ends after %" PRIu64
                                  " bytes, expected %" PRIu64,
                                  what, offset + done, offset + bytes);
        } else if (errno != EINTR) {
            snprintf(doing, sizeof doing, "reading the %s", what);
            return trp__io_errno(error, doing);
        }
    }
    return TRP_OK;
}

/* Entries. */

bool trp__io_grow(void **array, uint64_t count, uint64_t *room, size_t size)
{
    const uint64_t more = *room < 8 ? 8 : *room * 2;
    void *grown;
    if (count < *room)
        return true;
    grown = more > SIZE_MAX / size ? NULL : realloc(*array, (size_t)more * size);
    if (!grown)
        return false;
    *array = grown;
    *room = more;
    return true;
}

trp__io_entry *trp__io_add_entry(trp_io_file *file)
{
    if (!trp__io_grow((void **)&file->entry, file->count, &file->room, sizeof *file->entry))
        return NULL;
    trp__io_entry *entry = &file->entry[file->count++];
    memset(entry, 0, sizeof *entry);
    entry->dims = file->dim_count;
    return entry;
}

bool trp__io_add_dim(trp_io_file *file, trp__io_entry *entry, int64_t dim)
{
    if (!trp__io_grow((void **)&file->dim, file->dim_count, &file->dim_room, sizeof *file->dim))
        return false;
    file->dim[file->dim_count++] = dim;
    entry->rank++;
    return true;
}

bool trp__npy_describe(trp_io_file *file, trp__io_entry *entry, const trp__npy *array)
{
    entry->type = array->type;
    memcpy(entry->file_type, array->file_type, sizeof entry->file_type);
    entry->fortran_order = array->fortran_order;
    entry->offset = array->data_offset;
    entry->bytes = array->data_bytes;
    entry->dims = file->dim_count;
    for (uint32_t i = 0; i < array->rank; i++) {
        if (!trp__io_add_dim(file, entry, array->dim[i]))
            return false;
    }
    return true;
}

bool trp__io_is_zero(const uint64_t reserved[4])
{
    return (reserved[0] | reserved[1] | reserved[2] | reserved[3]) == 0;
}

uint64_t *trp__io_order(trp_io_file *file, int (*compare)(const void *, const void *, void *))
{
    uint64_t *order = malloc((size_t)(file->count + 1) * sizeof *order);
    if (!order)
        return NULL;
    for (uint64_t i = 0; i < file->count; i++)
        order[i] = i;
    qsort_r(order, (size_t)file->count, sizeof *order, compare, file);
    return order;
}

static int compare_names(const void *a, const void *b, void *context)
{
    const trp_io_file *file = context;
    const uint64_t *i = a, *j = b;
    return strcmp(file->entry[*i].name, file->entry[*j].name);
}

trp_status trp__io_sort_names(trp_io_file *file, const char *what, trp_error *error)
{
    const uint64_t *order = file->by_name = trp__io_order(file, compare_names);
    if (!order)
        return trp__error_set(error, TRP_E_MEMORY, "out of memory");
    for (uint64_t i = 1; i < file->count; i++) {
        if (strcmp(file->entry[order[i - 1]].name, file->entry[order[i]].name) == 0)
            return trp__error_set(error, TRP_E_ARGUMENT, "%s '%s' comes twice", what,
                                  trp__io_quote_name(file->entry[order[i]].name).text);
    }
    return TRP_OK;
}

void trp__io_forget(trp_io_file *file)
{
    for (uint64_t i = 0; i < file->count; i++) {
        free(file->entry[i].refusal);
        if (file->format == TRP_IO_NPZ)
            free((char *)(uintptr_t)file->entry[i].name);
    }
    free(file->entry);
    free(file->dim);
    free(file->by_name);
    free(file->text);
    free(file->metadata);
    free(file->path);
}

/* Opening. */

trp_status trp__io_open_npy(trp_io_file *file, trp_error *error)
{
    unsigned char first[TRP__NPY_PREAMBLE_V2];
    size_t length = file->size < sizeof first ? (size_t)file->size : sizeof first;
    trp__npy_preamble pre;
    trp__npy array;
    trp_status status = trp__io_pread(file->fd, 0, first, length, "header", error);
    if (status != TRP_OK)
        return status;
    if (!trp__npy_parse_preamble(first, length, file->size, &pre, error))
        return error->status;
    length = pre.begin + pre.len; /* bounded, and no more than the file has */
    unsigned char *header = malloc(length);
    if (!header)
        return trp__error_set(error, TRP_E_MEMORY, "reading the header: out of memory");
    status = trp__io_pread(file->fd, 0, header, length, "header", error);
    if (status == TRP_OK && !trp__npy_parse(header, length, file->size, &array, error))
        status = error->status;
    free(header);
    if (status != TRP_OK)
        return status;
    trp__io_entry *entry = trp__io_add_entry(file);
    if (!entry || !trp__npy_describe(file, entry, &array))
        return trp__error_set(error, TRP_E_MEMORY, "out of memory");
    entry->name = "";
    return trp__io_sort_names(file, "array", error);
}

/* Determines the format by the first bytes. An unknown format is taken for .npy, whose reader says
 * what is wrong. Byte 8 is '{' in safetensors, and 0 or 8 in a ZIP archive. */
static trp_io_format format_of(const unsigned char first[12], size_t length)
{
    if (length >= 9 && first[8] == '{' && memcmp(first, "\x93NUMPY", 6) != 0)
        return TRP_IO_SAFETENSORS;
    if (length >= 4 && (memcmp(first, "PK\3\4", 4) == 0 || memcmp(first, "PK\5\6", 4) == 0))
        return TRP_IO_NPZ;
    return TRP_IO_NPY;
}

static trp_status open_descriptor(trp_io_file *file, trp_error *error)
{
    struct stat status;
    file->fd = trp__descriptor_apart(open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file->fd < 0)
        return trp__io_errno(error, NULL);
    if (fstat(file->fd, &status) != 0)
        return trp__io_errno(error, "asking for its size");
    if (!S_ISREG(status.st_mode))
        return trp__error_set(error, TRP_E_ARGUMENT, "not a regular file");
    file->size = (uint64_t)status.st_size;
    return TRP_OK;
}

static trp_status open_file(trp_io_file *file, trp_error *error)
{
    unsigned char first[12] = {0};
    trp_status status = open_descriptor(file, error);
    size_t length = file->size < sizeof first ? (size_t)file->size : sizeof first;
    if (status == TRP_OK)
        status = trp__io_pread(file->fd, 0, first, length, "header", error);
    if (status != TRP_OK)
        return status;
    file->format = format_of(first, length);
    return file->format == TRP_IO_NPZ           ? trp__io_open_npz(file, error)
           : file->format == TRP_IO_SAFETENSORS ? trp__io_open_safetensors(file, error)
                                                : trp__io_open_npy(file, error);
}

trp_status trp_io_open(const char *path, trp_io_file **out)
{
    trp_error error = {0};
    if (!path || !out)
        return trp__fail(TRP_E_ARGUMENT, "%s must not be NULL", path ? "out" : "path");
    *out = NULL;
    const int state = trp__io_cancel_disable();
    trp_io_file *file = calloc(1, sizeof *file);
    char *name = strdup(path);
    if (!file || !name) {
        free(file);
        free(name);
        trp__io_cancel_restore(state);
        return trp__fail(TRP_E_MEMORY, "out of memory");
    }
    file->fd = -1;
    file->path = name;
    if (open_file(file, &error) != TRP_OK) {
        trp__io_prefix(&error, path);
        trp_io_close(file);
        trp__io_cancel_restore(state);
        return trp__error_raise(&error);
    }
    *out = file;
    trp__io_cancel_restore(state);
    return TRP_OK;
}

void trp_io_close(trp_io_file *file)
{
    if (!file)
        return;
    const int state = trp__io_cancel_disable();
    if (file->fd >= 0)
        close(file->fd);
    trp__io_cancel_restore(state);
    trp__io_forget(file);
    free(file);
}

/* Questions. */

trp_io_format trp_io_file_format(const trp_io_file *file)
{
    return file ? file->format : TRP_IO_BY_NAME;
}

uint64_t trp_io_count(const trp_io_file *file)
{
    return file ? file->count : 0;
}

trp_status trp_io_get(const trp_io_file *file, uint64_t index, trp_io_array *out)
{
    if (!file || !out)
        return trp__fail(TRP_E_ARGUMENT, "%s must not be NULL", file ? "out" : "file");
    if (index >= file->count)
        return trp__fail(TRP_E_ARGUMENT, "index is %" PRIu64 ": the file has %" PRIu64 " arrays",
                         index, file->count);
    const trp__io_entry *e = &file->entry[index];
    *out = (trp_io_array){.name = e->name,
                          .type = e->type ? e->type->type : TRP_DTYPE_NONE,
                          .rank = e->rank,
                          .bytes = e->bytes,
                          .fortran_order = e->fortran_order};
    if (e->rank > 0)
        memcpy(out->dim, file->dim + e->dims, e->rank * sizeof *out->dim);
    memcpy(out->file_type, e->file_type, sizeof out->file_type);
    return TRP_OK;
}

trp_status trp_io_find(const trp_io_file *file, const char *name, uint64_t *index)
{
    trp_error error;
    if (!file || !name || !index)
        return trp__fail(TRP_E_ARGUMENT, "%s must not be NULL",
                         !file   ? "file"
                         : !name ? "name"
                                 : "index");
    for (uint64_t low = 0, high = file->count; low < high;) {
        const uint64_t middle = low + (high - low) / 2;
        const int order = strcmp(name, file->entry[file->by_name[middle]].name);
        if (order == 0) {
            *index = file->by_name[middle];
            return TRP_OK;
        }
        low = order > 0 ? middle + 1 : low;
        high = order > 0 ? high : middle;
    }
    trp__error_set(&error, TRP_E_ARGUMENT, "no array is named '%s'", trp__io_quote_name(name).text);
    trp__io_prefix(&error, file->path);
    return trp__error_raise(&error);
}

const char *trp_io_metadata(const trp_io_file *file, const char *key)
{
    for (uint64_t i = 0; file && key && i < file->metadata_count; i++) {
        if (strcmp(file->metadata[i].key, key) == 0)
            return file->metadata[i].value;
    }
    return NULL;
}
