/* Saves arrays: checks everything before a file is touched, then writes the elements from memory of
 * the program, or from buffers through pinned memory. */
#include "io/save.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 2 << 20, SLOTS = 2, PINNED_LEAST = 1 << 20 };

static const char *const format_names[] = {"", ".npy", ".npz", "safetensors"};

/* Checks. */

static trp_status find_format(trp__io_saver *s, const char *path)
{
    static const struct {
        const char *ending;
        trp_io_format format;
    } endings[] = {
        {".npy", TRP_IO_NPY}, {".npz", TRP_IO_NPZ}, {".safetensors", TRP_IO_SAFETENSORS}};
    const size_t length = strlen(path);
    s->format = s->options->format;
    if ((unsigned)s->format > TRP_IO_SAFETENSORS)
        return trp__fail(TRP_E_ARGUMENT, "options->format is %d: expected a trp_io_format",
                         (int)s->format);
    for (size_t i = 0; i < 3 && s->format == TRP_IO_BY_NAME; i++) {
        const size_t n = strlen(endings[i].ending);
        if (length >= n && strcmp(path + length - n, endings[i].ending) == 0)
            s->format = endings[i].format;
    }
    if (s->format == TRP_IO_BY_NAME)
        return trp__fail(TRP_E_ARGUMENT,
                         "path ends with neither .npy, .npz nor .safetensors: options->format must "
                         "name the format");
    return TRP_OK;
}

static trp_status check_options(const trp__io_saver *s)
{
    const trp_io_save_options *o = s->options;
    if (!trp__io_is_zero(o->reserved))
        return trp__fail(TRP_E_ARGUMENT, "options->reserved must be 0");
    if (o->metadata_count > 0 && s->format != TRP_IO_SAFETENSORS)
        return trp__fail(TRP_E_UNSUPPORTED, "metadata: expected safetensors, %s has none",
                         format_names[s->format]);
    if (o->metadata_count > 0 && !o->metadata)
        return trp__fail(TRP_E_ARGUMENT, "options->metadata must not be NULL");
    for (uint64_t i = 0; i < o->metadata_count; i++) {
        const trp_io_pair *p = &o->metadata[i];
        if (!p->key || !p->value || !trp__io_is_utf8(p->key) || !trp__io_is_utf8(p->value))
            return trp__fail(TRP_E_ARGUMENT,
                             "options->metadata[%" PRIu64 "]: expected a key and a value in UTF-8",
                             i);
    }
    if (s->format == TRP_IO_NPY && s->count != 1)
        return trp__fail(TRP_E_ARGUMENT, "count is %" PRIu64 ": .npy holds 1 array", s->count);
    return TRP_OK;
}

static trp_status check_name(const trp__io_saver *s, const trp_io_array *a, uint64_t number)
{
    enum { NAME_LIMIT = 60000 }; /* ZIP limits a name with its extra field to 65535 */
    const bool named = a->name && *a->name;
    if (s->format == TRP_IO_NPY) {
        if (named)
            return trp__fail(TRP_E_ARGUMENT, "items[%" PRIu64 "]: an array of .npy has no name",
                             number);
        return TRP_OK;
    }
    if (!named || !trp__io_is_utf8(a->name) || strnlen(a->name, NAME_LIMIT) == NAME_LIMIT ||
        (s->format == TRP_IO_SAFETENSORS && strcmp(a->name, "__metadata__") == 0))
        return trp__fail(
            TRP_E_ARGUMENT,
            "items[%" PRIu64 "]: expected a name in UTF-8 of 1 to %d bytes%s, got '%s'", number,
            NAME_LIMIT - 1, s->format == TRP_IO_SAFETENSORS ? " that is not __metadata__" : "",
            named ? trp__io_quote_name(a->name).text : "");
    return TRP_OK;
}

static trp_status check_type(const trp__io_saver *s, const trp_io_array *a, uint64_t number,
                             trp__io_out *out)
{
    out->type = trp__io_type_of(a->type);
    if (!out->type)
        return trp__fail(TRP_E_ARGUMENT, "items[%" PRIu64 "]: type %d is no type of elements",
                         number, (int)a->type);
    const bool safetensors = s->format == TRP_IO_SAFETENSORS;
    if (!(safetensors ? out->type->safetensors : out->type->npy))
        return trp__fail(TRP_E_UNSUPPORTED, "items[%" PRIu64 "]: %s has no %s; %s", number,
                         format_names[s->format], trp_dtype_name(a->type),
                         !safetensors && out->type->safetensors
                             ? "safetensors have, or trp_convert() makes f32 of it"
                             : "convert it, or save its bytes as u8");
    if (safetensors && a->fortran_order && a->rank > 1)
        return trp__fail(TRP_E_UNSUPPORTED,
                         "items[%" PRIu64 "]: safetensors have no Fortran order; name the "
                         "dimensions in reverse",
                         number);
    return TRP_OK;
}

static trp_status check_shape(const trp_io_array *a, uint64_t number, trp__io_out *out)
{
    if (a->rank > TRP_IO_RANK_MAX)
        return trp__fail(TRP_E_ARGUMENT, "items[%" PRIu64 "]: rank is %u: expected at most %d",
                         number, a->rank, TRP_IO_RANK_MAX);
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->dim[i] < 0)
            return trp__fail(TRP_E_ARGUMENT,
                             "items[%" PRIu64 "]: dim[%u] is %" PRId64 ": expected 0 or more",
                             number, i, a->dim[i]);
    }
    if (!trp__io_is_zero(a->reserved))
        return trp__fail(TRP_E_ARGUMENT, "items[%" PRIu64 "]: reserved must be 0", number);
    if (!trp__io_count_bytes(a->dim, a->rank, out->type->bits, &out->bytes))
        return trp__fail(TRP_E_ARGUMENT,
                         "items[%" PRIu64 "]: the shape makes no number of bytes below 2^63",
                         number);
    return TRP_OK;
}

static trp_status check_place(const trp__io_saver *s, const trp_io_item *item, uint64_t number,
                              const trp__io_out *out)
{
    trp_buffer_info info;
    if (item->data || out->bytes == 0)
        return TRP_OK;
    if (item->buffer.id == 0 || !s->options->device)
        return trp__fail(TRP_E_ARGUMENT,
                         "items[%" PRIu64 "]: %" PRIu64
                         " bytes: expected data, or a buffer and options->device",
                         number, out->bytes);
    trp_status status = trp_buffer_get_info(s->options->device, item->buffer, &info);
    if (status != TRP_OK)
        return status;
    if (item->offset > info.bytes || out->bytes > info.bytes - item->offset)
        return trp__fail(TRP_E_ARGUMENT,
                         "items[%" PRIu64 "]: %" PRIu64 " bytes at offset %" PRIu64
                         " do not lie in its buffer of %" PRIu64,
                         number, out->bytes, item->offset, info.bytes);
    return TRP_OK;
}

static int compare_names(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static trp_status check_duplicates(const trp__io_saver *s)
{
    const char **names = malloc((size_t)(s->count + 1) * sizeof *names);
    if (!names)
        return trp__fail(TRP_E_MEMORY, "out of memory");
    trp_status status = TRP_OK;
    for (uint64_t i = 0; i < s->count; i++)
        names[i] = s->out[i].item->array.name;
    qsort(names, (size_t)s->count, sizeof *names, compare_names);
    for (uint64_t i = 1; status == TRP_OK && i < s->count; i++) {
        if (strcmp(names[i - 1], names[i]) == 0)
            status = trp__fail(TRP_E_ARGUMENT, "two items have the name '%s'",
                               trp__io_quote_name(names[i]).text);
    }
    free(names);
    return status;
}

static trp_status check_items(trp__io_saver *s, const trp_io_item *items)
{
    trp_status status = TRP_OK;
    for (uint64_t i = 0; status == TRP_OK && i < s->count; i++) {
        const trp_io_item *item = &items[i];
        trp__io_out *out = &s->out[i];
        out->item = item;
        status = check_name(s, &item->array, i);
        if (status == TRP_OK)
            status = check_type(s, &item->array, i, out);
        if (status == TRP_OK)
            status = check_shape(&item->array, i, out);
        if (status == TRP_OK)
            status = check_place(s, item, i, out);
        if (status == TRP_OK && __builtin_add_overflow(s->total, out->bytes, &s->total))
            status = trp__fail(TRP_E_ARGUMENT, "the items have more than 2^64 bytes");
    }
    if (status == TRP_OK && s->format != TRP_IO_NPY)
        status = check_duplicates(s);
    return status;
}

/* Elements. */

trp_status trp__io_put(trp__io_saver *s, const void *data, uint64_t bytes, trp_error *error)
{
    if (s->format == TRP_IO_NPZ)
        s->crc = trp__io_crc(s->crc, data, (size_t)bytes);
    s->written += bytes;
    return trp__io_replace_write(&s->file, data, bytes, error);
}

static trp_status put_piece(trp__io_saver *s, const void *data, uint64_t bytes, trp_error *error)
{
    const trp_io_save_options *o = s->options;
    trp_status status = trp__io_put(s, data, bytes, error);
    s->done += bytes;
    if (status != TRP_OK || !o->progress || s->done == s->total ||
        o->progress(o->user_data, s->done, s->total))
        return status;
    return trp__error_set(error, TRP_E_CANCELLED,
                          "stopped by the progress callback after %" PRIu64 " of %" PRIu64 " bytes",
                          s->done, s->total);
}

/* Reads each piece of a buffer while the previous one is written. */
static trp_status put_buffer(trp__io_saver *s, const trp__io_out *out, trp_error *error)
{
    trp_completion done[SLOTS] = {{0}};
    trp_status status = TRP_OK;
    const uint64_t pieces = (out->bytes + s->piece - 1) / s->piece;
    for (uint64_t i = 0; status == TRP_OK && i <= pieces; i++) {
        trp_completion *next = &done[i % SLOTS], *last = &done[(i + 1) % SLOTS];
        const uint64_t at = i * s->piece, left = i < pieces ? out->bytes - at : 0;
        if (left > 0) {
            status = trp_read(s->options->device, out->item->buffer, out->item->offset + at,
                              s->staging + i % SLOTS * s->piece, left < s->piece ? left : s->piece,
                              next);
            if (status != TRP_OK)
                *error = *trp_error_last();
        }
        if (i == 0 || status != TRP_OK)
            continue;
        status = trp_await(last->future, TRP_FOREVER, error);
        last->future.id = 0;
        if (status == TRP_OK)
            status = put_piece(s, s->staging + (i + 1) % SLOTS * s->piece,
                               i < pieces ? s->piece : out->bytes - (i - 1) * s->piece, error);
    }
    for (int i = 0; i < SLOTS; i++) { /* the caller frees the staging memory */
        if (done[i].future.id != 0)
            trp_await(done[i].future, TRP_FOREVER, NULL);
    }
    return status;
}

trp_status trp__io_put_elements(trp__io_saver *s, const trp__io_out *out, trp_error *error)
{
    trp_status status = TRP_OK;
    if (!out->item->data && out->bytes > 0)
        return put_buffer(s, out, error);
    for (uint64_t at = 0, n; status == TRP_OK && at < out->bytes; at += n) {
        n = out->bytes - at < PIECE ? out->bytes - at : PIECE;
        status = put_piece(s, (const char *)out->item->data + at, n, error);
    }
    return status;
}

/* Allocates the staging memory: pinned if PINNED_LEAST bytes or more go through it. */
static trp_status take_staging(trp__io_saver *s, bool *pinned, trp_error *error)
{
    uint64_t through = 0;
    void *memory = NULL;
    for (uint64_t i = 0; i < s->count; i++) {
        if (!s->out[i].item->data)
            through += s->out[i].bytes;
    }
    *pinned = through >= PINNED_LEAST;
    s->piece = through < PIECE ? through : PIECE;
    if (through == 0)
        return TRP_OK;
    if (*pinned && trp_host_alloc(s->options->device, SLOTS * s->piece, &memory) != TRP_OK)
        *error = *trp_error_last();
    else if (!*pinned && !(memory = malloc(SLOTS * s->piece)))
        trp__error_set(error, TRP_E_MEMORY, "out of memory");
    s->staging = memory;
    return memory ? TRP_OK : error->status;
}

/* Writes the file `path`, or to the descriptor of s->file if `path` is NULL. */
static trp_status save(trp__io_saver *s, const char *path, trp_error *error)
{
    const trp_io_save_options *o = s->options;
    bool pinned = false;
    trp_status status = path ? trp__io_replace_begin(&s->file, path, error) : TRP_OK;
    if (status == TRP_OK)
        status = take_staging(s, &pinned, error);
    if (status == TRP_OK)
        status = s->format == TRP_IO_NPY   ? trp__io_save_npy(s, error)
                 : s->format == TRP_IO_NPZ ? trp__io_save_npz(s, error)
                                           : trp__io_save_safetensors(s, error);
    if (status == TRP_OK && o->progress && !o->progress(o->user_data, s->total, s->total))
        status = trp__error_set(error, TRP_E_CANCELLED, "stopped by the progress callback");
    if (status == TRP_OK && path)
        status = trp__io_replace_commit(&s->file, error);
    if (pinned)
        trp_host_free(o->device, s->staging);
    else
        free(s->staging);
    if (path)
        trp__io_replace_end(&s->file);
    return status;
}

/* Checks and saves items. Messages call the destination `name`. */
static trp_status save_items(trp__io_saver *s, const char *path, const char *name,
                             const trp_io_item *items)
{
    trp_error error = {0};
    trp_status status = check_options(s);
    if (status != TRP_OK)
        return status;
    const int state = trp__io_cancel_disable();
    s->out =
        s->count < SIZE_MAX / sizeof *s->out ? calloc((size_t)s->count + 1, sizeof *s->out) : NULL;
    status = s->out
                 ? check_items(s, items)
                 : trp__fail(TRP_E_MEMORY, "no memory for a list of %" PRIu64 " items", s->count);
    if (status == TRP_OK && s->out && save(s, path, &error) != TRP_OK) {
        char message[sizeof error.message];
        trp__io_prefix(&error, name);
        trp__copy_string(message, sizeof message, error.message);
        snprintf(error.message, sizeof error.message, "writing %.247s", message);
        status = trp__error_raise(&error);
    }
    free(s->out);
    trp__io_cancel_restore(state);
    return status;
}

trp_status trp_io_save(const char *path, const trp_io_item *items, uint64_t count,
                       const trp_io_save_options *options)
{
    static const trp_io_save_options none = {0};
    trp__io_saver s = {.options = options ? options : &none, .count = count};
    if (!path || (!items && count > 0))
        return trp__fail(TRP_E_ARGUMENT, "%s must not be NULL", path ? "items" : "path");
    trp_status status = find_format(&s, path);
    return status == TRP_OK ? save_items(&s, path, path, items) : status;
}

trp_status trp__io_save_stream(int fd, const char *name, const trp_io_item *item,
                               const trp_io_save_options *options)
{
    trp__io_saver s = {.options = options, .format = TRP_IO_NPY, .count = 1, .file = {.fd = fd}};
    return save_items(&s, NULL, name, item);
}
