/* Parser of the header of safetensors: 8 bytes that hold a length, and a JSON object of that
 * length,
 *
 *     {"__metadata__": {"key": "value", ...},
 *      "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 *
 * perhaps followed by spaces. The elements follow at the given offsets, without holes and overlaps,
 * to the end of the file; the reference implementation demands this, so that a file can't contain
 * hidden data. Strings remain in the text and are terminated in place. */
#include "base/bytes.h"

#include "io/file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8 };

/* `at` is the beginning of a token; space before it has been skipped. */
typedef struct parser {
    trp_io_file *file;
    char *text, *at, *end; /* *end is 0 */
    trp_error *error;
} parser;

__attribute__((format(printf, 2, 3))) static bool refuse(parser *p, const char *format, ...)
{
    char message[192];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    trp__error_set(p->error, TRP_E_ARGUMENT, "bad header: %s", message);
    return false;
}

static bool no_memory(parser *p)
{
    trp__error_set(p->error, TRP_E_MEMORY, "reading the header: out of memory");
    return false;
}

static void skip_space(parser *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')
        p->at++;
}

static bool unexpected(parser *p, const char *expected)
{
    if (p->at == p->end)
        return refuse(p, "expected %s, got its end", expected);
    return refuse(p, "expected %s at byte %td, got %s", expected, p->at - p->text,
                  trp__io_quote(p->at, 1).text);
}

static bool take(parser *p, char c)
{
    if (*p->at != c || p->at == p->end)
        return false;
    p->at++;
    skip_space(p);
    return true;
}

static bool expect(parser *p, char c)
{
    return take(p, c) || unexpected(p, (char[]){'\'', c, '\'', '\0'});
}

/* Strings. */

static bool read_hex(const char *at, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++) {
        const char c = at[i];
        const bool digit = c >= '0' && c <= '9', letter = (c | 32) >= 'a' && (c | 32) <= 'f';
        if (!digit && !letter)
            return false;
        *out = *out << 4 | (uint32_t)(digit ? c - '0' : (c | 32) - 'a' + 10);
    }
    return true;
}

/* Converts an escape after "\u", of 4 or 10 bytes, to UTF-8 at *to. */
static bool unescape_unicode(char **from, char **to)
{
    uint32_t c, low;
    unsigned char *out = (unsigned char *)*to;
    if (!read_hex(*from, &c) || c == 0 || (c >= 0xdc00 && c < 0xe000))
        return false;
    *from += 4;
    if (c >= 0xd800 && c < 0xdc00) {
        if ((*from)[0] != '\\' || (*from)[1] != 'u' || !read_hex(*from + 2, &low) || low < 0xdc00 ||
            low >= 0xe000)
            return false;
        *from += 6;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    if (c < 0x80) {
        *out++ = (unsigned char)c;
    } else if (c < 0x800) {
        *out++ = (unsigned char)(0xc0 | c >> 6);
    } else if (c < 0x10000) {
        *out++ = (unsigned char)(0xe0 | c >> 12);
        *out++ = (unsigned char)(0x80 | (c >> 6 & 63));
    } else {
        *out++ = (unsigned char)(0xf0 | c >> 18);
        *out++ = (unsigned char)(0x80 | (c >> 12 & 63));
        *out++ = (unsigned char)(0x80 | (c >> 6 & 63));
    }
    if (c >= 0x80)
        *out++ = (unsigned char)(0x80 | (c & 63));
    *to = (char *)out;
    return true;
}

static bool unescape(char **from, char **to)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char c = *(*from)++;
    const char *which = c ? strchr(escapes, c) : NULL;
    if (c == 'u')
        return unescape_unicode(from, to);
    if (!which)
        return false;
    *(*to)++ = meanings[which - escapes];
    return true;
}

/* The terminating zero of the text ends the loop, since a string can't contain one. */
static bool read_string(parser *p, const char *what, char **out)
{
    const ptrdiff_t begin = p->at - p->text;
    *out = p->at;
    if (*p->at != '"')
        return unexpected(p, what);
    char *from = p->at + 1, *to = from;
    *out = to;
    while (*from != '"') {
        const size_t length = trp__io_utf8_length(from);
        if (*from == '\\') {
            from++;
            if (!unescape(&from, &to))
                return refuse(p, "a wrong escape in the string at byte %td", begin);
        } else if ((unsigned char)*from < 0x20 || length == 0) {
            return refuse(p, "the string at byte %td %s", begin,
                          from >= p->end ? "does not end"
                          : length == 0  ? "is not UTF-8"
                                         : "has a control character");
        } else {
            memmove(to, from, length);
            from += length;
            to += length;
        }
    }
    *to = '\0'; /* at the closing quote or before it */
    p->at = from + 1;
    skip_space(p);
    return true;
}

/* Reads an integer below 2^63 without sign, fraction and exponent. */
static bool read_number(parser *p, const char *what, const char *name, int64_t *out)
{
    const char *begin = p->at;
    int64_t value = 0;
    bool fits = true;
    while (*p->at >= '0' && *p->at <= '9') {
        fits = fits && !__builtin_mul_overflow(value, (int64_t)10, &value) &&
               !__builtin_add_overflow(value, *p->at - '0', &value);
        p->at++;
    }
    const bool digits = p->at > begin && (*begin != '0' || p->at == begin + 1);
    if (!digits || !fits || strchr(".eE", *p->at ? *p->at : ' ')) {
        const size_t shown = strcspn(begin, ",]} \t\r\n");
        return refuse(p, "tensor '%s': %s: expected an integer from 0 to 2^63 - 1, got %s",
                      trp__io_quote_name(name).text, what, trp__io_quote(begin, shown).text);
    }
    *out = value;
    skip_space(p);
    return true;
}

/* Entries. */

static bool read_dtype(parser *p, trp__io_entry *entry)
{
    char *name;
    if (!read_string(p, "a string for \"dtype\"", &name))
        return false;
    for (size_t i = 0; i < trp__io_type_count && !entry->type; i++) {
        if (trp__io_types[i].safetensors && strcmp(trp__io_types[i].safetensors, name) == 0)
            entry->type = &trp__io_types[i];
    }
    if (!entry->type) {
        trp__error_set(p->error, TRP_E_UNSUPPORTED,
                       "tensor '%s' has the dtype '%s': expected F32, BF16 or another of "
                       "safetensors 0.7",
                       trp__io_quote_name(entry->name).text, trp__io_quote_name(name).text);
        return false;
    }
    trp__copy_string(entry->file_type, sizeof entry->file_type, name);
    return true;
}

static bool read_shape(parser *p, trp__io_entry *entry)
{
    int64_t dim;
    if (!expect(p, '['))
        return false;
    if (take(p, ']'))
        return true;
    do {
        if (!read_number(p, "shape", entry->name, &dim))
            return false;
        if (entry->rank == TRP_IO_RANK_MAX) {
            trp__error_set(p->error, TRP_E_UNSUPPORTED,
                           "tensor '%s': expected at most %d dimensions, got more",
                           trp__io_quote_name(entry->name).text, TRP_IO_RANK_MAX);
            return false;
        }
        if (!trp__io_add_dim(p->file, entry, dim))
            return no_memory(p);
    } while (take(p, ','));
    return expect(p, ']');
}

static bool read_offsets(parser *p, const char *name, int64_t range[2])
{
    return expect(p, '[') && read_number(p, "data_offsets", name, &range[0]) && expect(p, ',') &&
           read_number(p, "data_offsets", name, &range[1]) && expect(p, ']');
}

/* Checks that the size by type and shape is the size of the range. */
static bool check_tensor(parser *p, trp__io_entry *entry, const int64_t range[2])
{
    uint64_t bytes;
    const trp__io_quoted name = trp__io_quote_name(entry->name);
    if (!trp__io_count_bytes(p->file->dim + entry->dims, entry->rank, entry->type->bits, &bytes))
        return refuse(p, "tensor '%s': its shape of %s elements is no number of bytes below 2^63",
                      name.text, entry->file_type);
    if (range[0] > range[1])
        return refuse(p,
                      "tensor '%s': data_offsets end at %" PRId64 ", before they begin at %" PRId64,
                      name.text, range[1], range[0]);
    if ((uint64_t)(range[1] - range[0]) != bytes)
        return refuse(p,
                      "tensor '%s': dtype and shape make %" PRIu64
                      " bytes, data_offsets are %" PRId64 " apart",
                      name.text, bytes, range[1] - range[0]);
    entry->offset = (uint64_t)range[0]; /* data_begin is added after all checks */
    entry->bytes = bytes;
    return true;
}

enum { KEY_DTYPE, KEY_SHAPE, KEY_OFFSETS, KEYS };
static const char *const key_names[KEYS] = {"dtype", "shape", "data_offsets"};

static bool read_member(parser *p, trp__io_entry *entry, bool seen[KEYS], int64_t range[2])
{
    char *key;
    if (!read_string(p, "\"dtype\", \"shape\" or \"data_offsets\"", &key) || !expect(p, ':'))
        return false;
    for (int i = 0; i < KEYS; i++) {
        if (strcmp(key, key_names[i]) != 0)
            continue;
        if (seen[i])
            return refuse(p, "tensor '%s' has \"%s\" twice", trp__io_quote_name(entry->name).text,
                          key);
        seen[i] = true;
        return i == KEY_DTYPE   ? read_dtype(p, entry)
               : i == KEY_SHAPE ? read_shape(p, entry)
                                : read_offsets(p, entry->name, range);
    }
    return refuse(p, "tensor '%s' has the key '%s': expected dtype, shape and data_offsets",
                  trp__io_quote_name(entry->name).text, trp__io_quote_name(key).text);
}

static bool read_tensor(parser *p, const char *name)
{
    bool seen[KEYS] = {false};
    int64_t range[2] = {0};
    trp__io_entry *entry = trp__io_add_entry(p->file);
    if (!entry)
        return no_memory(p);
    entry->name = name;
    if (!expect(p, '{'))
        return false;
    do {
        if (!read_member(p, entry, seen, range))
            return false;
    } while (take(p, ','));
    if (!expect(p, '}'))
        return false;
    for (int i = 0; i < KEYS; i++) {
        if (!seen[i])
            return refuse(p, "tensor '%s' has no \"%s\"", trp__io_quote_name(name).text,
                          key_names[i]);
    }
    return check_tensor(p, entry, range);
}

static bool read_metadata(parser *p)
{
    trp_io_file *f = p->file;
    if (f->metadata_room > 0)
        return refuse(p, "\"__metadata__\" comes twice");
    if (!trp__io_grow((void **)&f->metadata, 0, &f->metadata_room, sizeof *f->metadata))
        return no_memory(p);
    if (!expect(p, '{') || take(p, '}'))
        return p->error->status == TRP_OK;
    do {
        char *key, *value;
        if (!read_string(p, "a key of \"__metadata__\"", &key) || !expect(p, ':') ||
            !read_string(p, "a string in \"__metadata__\"", &value))
            return false;
        if (!trp__io_grow((void **)&f->metadata, f->metadata_count, &f->metadata_room,
                          sizeof *f->metadata))
            return no_memory(p);
        f->metadata[f->metadata_count++] = (trp__io_text_pair){key, value};
    } while (take(p, ','));
    return expect(p, '}');
}

static bool read_header(parser *p)
{
    skip_space(p);
    if (!expect(p, '{'))
        return false;
    if (!take(p, '}')) {
        do {
            char *name;
            if (!read_string(p, "the name of a tensor", &name) || !expect(p, ':') ||
                !(strcmp(name, "__metadata__") == 0 ? read_metadata(p) : read_tensor(p, name)))
                return false;
        } while (take(p, ','));
        if (!expect(p, '}'))
            return false;
    }
    return p->at == p->end || unexpected(p, "nothing behind the '}'");
}

/* The whole file. */

static int compare_ranges(const void *a, const void *b, void *context)
{
    const trp_io_file *file = context;
    const uint64_t *i = a, *j = b;
    const trp__io_entry *x = &file->entry[*i], *y = &file->entry[*j];
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Checks that each tensor begins where the previous one ends, and that the last one ends with the
 * file. */
static bool check_ranges(parser *p, uint64_t data_bytes)
{
    trp_io_file *f = p->file;
    uint64_t end = 0, *order = trp__io_order(f, compare_ranges);
    bool good = order || no_memory(p);
    for (uint64_t i = 0; good && i < f->count; i++) {
        const trp__io_entry *e = &f->entry[order[i]];
        const trp__io_quoted name = trp__io_quote_name(e->name);
        if (e->offset > data_bytes || e->bytes > data_bytes - e->offset)
            good =
                refuse(p, "tensor '%s' ends at byte %" PRIu64 " of the data: the file has %" PRIu64,
                       name.text, e->offset + e->bytes, data_bytes);
        else if (e->offset != end)
            good = refuse(p, "tensor '%s' begins at byte %" PRIu64 ": expected %" PRIu64 ", %s",
                          name.text, e->offset, end,
                          e->offset < end ? "they overlap" : "there is a hole");
        end = good ? e->offset + e->bytes : 0;
    }
    free(order);
    if (good && end != data_bytes)
        return refuse(p, "the tensors end at byte %" PRIu64 " of the data: the file has %" PRIu64,
                      end, data_bytes);
    return good;
}

trp_status trp__io_parse_safetensors(trp_io_file *file, char *text, size_t length,
                                     uint64_t data_begin, uint64_t data_bytes, trp_error *error)
{
    parser p = {.file = file, .text = text, .at = text, .end = text + length, .error = error};
    text[length] = '\0';
    *error = (trp_error){0};
    if (!read_header(&p) || !check_ranges(&p, data_bytes))
        return error->status;
    for (uint64_t i = 0; i < file->count; i++)
        file->entry[i].offset += data_begin;
    return trp__io_sort_names(file, "tensor", error);
}

trp_status trp__io_open_safetensors(trp_io_file *file, trp_error *error)
{
    unsigned char bytes[LENGTH_BYTES] = {0};
    trp_status status = trp__io_pread(file->fd, 0, bytes, sizeof bytes, "header", error);
    const uint64_t length = trp__get64(bytes), present = file->size - LENGTH_BYTES;
    if (status != TRP_OK)
        return status;
    if (length > TRP__IO_SAFETENSORS_LIMIT)
        return trp__error_set(error, TRP_E_ARGUMENT,
                              "header length of %" PRIu64 " bytes: expected at most %d", length,
                              TRP__IO_SAFETENSORS_LIMIT);
    if (length > present)
        return trp__error_set(error, TRP_E_ARGUMENT,
                              "truncated header: expected %" PRIu64
                              " bytes behind its length, the file has %" PRIu64,
                              length, present);
    file->text = malloc((size_t)length + 1);
    if (!file->text)
        return trp__error_set(error, TRP_E_MEMORY, "reading the header: out of memory");
    status = trp__io_pread(file->fd, LENGTH_BYTES, file->text, length, "header", error);
    if (status != TRP_OK)
        return status;
    return trp__io_parse_safetensors(file, file->text, (size_t)length, LENGTH_BYTES + length,
                                     present - length, error);
}
