/* Interprets and formats the header of an .npy file, without reading a file. */
#include "io/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

enum {
    VERSION_END = 8,   /* magic and version */
    ALIGNMENT = 64,    /* of the first element, in written files */
    GROWTH_DIGITS = 21 /* NumPy keeps this room, so that a file can be appended to in place */
};

/* Interpretation. */

/* Returns the name of an unsupported dtype by its one-letter kind. */
static const char *kind_name(unsigned char kind)
{
    static const struct {
        char kind;
        const char *name;
    } names[] = {
        {'O', "object"},         {'i', "integer"},     {'u', "unsigned integer"},
        {'b', "boolean"},        {'?', "boolean"},     {'c', "complex"},
        {'S', "byte string"},    {'a', "byte string"}, {'U', "text"},
        {'V', "void"},           {'M', "date"},        {'m', "time difference"},
        {'f', "floating point"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if ((unsigned char)names[i].kind == kind)
            return names[i].name;
    }
    return "unknown";
}

#define NPY_DTYPES                                                                                 \
    "expected '<f8', '<f4', '<f2', '<c16', '<c8', '<i8', '<i4', '|i1', '|u1' or '|b1'"

/* '|' stands for single bytes, '<' for little-endian, '=' for the order of this machine, which is
 * little-endian too. */
static bool interpret_descr(const trp__npy_piece *descr, trp__npy *array, trp_error *error)
{
    const trp__io_quoted shown = trp__io_quote(descr->text, descr->len);
    for (size_t i = 0; i < trp__io_type_count; i++) {
        const char *name = trp__io_types[i].npy;
        if (name == NULL || descr->len != strlen(name) + 1 ||
            memcmp(descr->text + 1, name, descr->len - 1) != 0) {
            continue;
        }
        bool bytes = trp__io_types[i].bits == 8;
        if (memchr(bytes ? "|" : "<=", descr->text[0], bytes ? 1 : 2) != NULL) {
            array->type = &trp__io_types[i];
            snprintf(array->file_type, sizeof(array->file_type), "%c%s", bytes ? '|' : '<', name);
            return true;
        }
        if (descr->text[0] == '>' && !bytes)
            return unsupported(
                error, "big-endian dtype '%s': " NPY_DTYPES "; convert with a.astype('<%s')",
                shown.text, name);
    }
    size_t prefix = descr->len > 0 && memchr("<>=|", descr->text[0], 4) != NULL;
    unsigned char kind = prefix < descr->len ? descr->text[prefix] : 0;
    return unsupported(error, "%s dtype '%s': " NPY_DTYPES, kind_name(kind), shown.text);
}

static bool interpret_dict(const trp__npy_dict *d, trp__npy *array, trp_error *error)
{
    if (!interpret_descr(&d->descr, array, error))
        return false;
    const trp__io_quoted shape = trp__io_quote(d->shape.text, d->shape.len);
    if (d->rank > TRP_IO_RANK_MAX)
        return unsupported(error, "%zu-D array of shape %s: expected at most %d dimensions",
                           d->rank, shape.text, TRP_IO_RANK_MAX);
    array->rank = (uint32_t)d->rank;
    memcpy(array->dim, d->dim, d->rank * sizeof(*d->dim));
    array->fortran_order = d->fortran_order;
    if (!trp__io_count_bytes(array->dim, array->rank, array->type->bits, &array->data_bytes))
        return refuse(error, "bad shape: %s of %u-byte elements is more than 2^63 - 1 bytes",
                      shape.text, array->type->bits / 8);
    return true;
}

bool trp__npy_parse_preamble(const unsigned char *buf, size_t len, uint64_t file_size,
                             trp__npy_preamble *out, trp_error *error)
{
    if (file_size == 0)
        return refuse(error, "empty file: expected a .npy file");
    size_t compared = len < sizeof(magic) ? len : sizeof(magic);
    if (compared != 0 && memcmp(buf, magic, compared) != 0)
        return refuse(error, "not a .npy file: expected the first bytes \\x93NUMPY, got %s",
                      trp__io_quote(buf, compared).text);
    if (len < VERSION_END)
        return refuse(error, "truncated header: the file ends after %zu bytes, before the version",
                      len);
    unsigned major = buf[6], minor = buf[7];
    if (major < 1 || major > 3 || minor != 0)
        return refuse(error, "unknown .npy version %u.%u: expected 1.0, 2.0 or 3.0", major, minor);
    size_t begin = major == 1 ? TRP__NPY_PREAMBLE_V1 : TRP__NPY_PREAMBLE_V2;
    if (len < begin)
        return refuse(error,
                      "truncated header: the file ends after %zu bytes, in the header length", len);
    uint32_t header = buf[8] | (uint32_t)buf[9] << 8;
    if (major != 1)
        header |= (uint32_t)buf[10] << 16 | (uint32_t)buf[11] << 24;
    if (header > TRP__NPY_HEADER_LIMIT)
        return refuse(error, "header length of %" PRIu32 " bytes: expected at most %u", header,
                      TRP__NPY_HEADER_LIMIT);
    if (header > file_size - begin)
        return refuse(error,
                      "truncated header: expected %" PRIu32 " bytes after the first %zu, the file "
                      "has %" PRIu64,
                      header, begin, file_size - begin);
    *out = (trp__npy_preamble){begin, header};
    return true;
}

/* Parses the whole header without checking the length of the data. */
static bool parse_all(const unsigned char *buf, size_t len, uint64_t file_size, trp__npy *array,
                      trp_error *error)
{
    trp__npy_preamble pre;
    trp__npy_dict d;
    if (!trp__npy_parse_preamble(buf, len, file_size, &pre, error))
        return false;
    if (len - pre.begin < pre.len)
        return refuse(error, "truncated header: expected %zu bytes, got %zu", pre.begin + pre.len,
                      len);
    *array = (trp__npy){.data_offset = pre.begin + pre.len};
    return trp__npy_parse_dict(buf + pre.begin, pre.len, &d, error) &&
           interpret_dict(&d, array, error);
}

/* Room for the digits of all dimensions, and ", " behind each. */
typedef struct shape_text {
    char text[TRP_IO_RANK_MAX * 21 + 4];
} shape_text;

/* Formats the shape as a tuple of Python. */
static shape_text format_shape(const trp__npy *array)
{
    shape_text shape;
    size_t at = 0;
    shape.text[at++] = '(';
    for (uint32_t i = 0; i < array->rank; i++)
        at += (size_t)snprintf(shape.text + at, sizeof(shape.text) - at, "%s%" PRId64,
                               i == 0 ? "" : ", ", array->dim[i]);
    snprintf(shape.text + at, sizeof(shape.text) - at, array->rank == 1 ? ",)" : ")");
    return shape;
}

bool trp__npy_parse_head(const unsigned char *buf, size_t len, trp__npy *out, trp_error *error)
{
    trp__npy array;
    if (!parse_all(buf, len, UINT64_MAX, &array, error))
        return false;
    *out = array;
    return true;
}

bool trp__npy_parse(const unsigned char *buf, size_t len, uint64_t file_size, trp__npy *out,
                    trp_error *error)
{
    trp__npy array;
    if (len > file_size)
        len = (size_t)file_size;
    if (!parse_all(buf, len, file_size, &array, error))
        return false;
    uint64_t present = file_size - array.data_offset;
    if (present == array.data_bytes) {
        *out = array;
        return true;
    }
    const shape_text shape = format_shape(&array);
    const trp__io_quoted shown = trp__io_quote(shape.text, strlen(shape.text));
    if (present < array.data_bytes)
        return refuse(error,
                      "truncated data: shape %s of %u-byte elements is %" PRIu64
                      " bytes, the file has %" PRIu64 " after its header",
                      shown.text, array.type->bits / 8, array.data_bytes, present);
    return refuse(error,
                  "trailing bytes: shape %s of %u-byte elements is %" PRIu64
                  " bytes, the file has %" PRIu64 " more; expected one array alone",
                  shown.text, array.type->bits / 8, array.data_bytes, present - array.data_bytes);
}

/* Formatting. */

trp__npy_bytes trp__npy_format(const trp__npy *array)
{
    char dict_text[832];
    int text_len = snprintf(dict_text, sizeof(dict_text),
                            "{'descr': '%c%s', 'fortran_order': %s, 'shape': %s, }",
                            array->type->bits == 8 ? '|' : '<', array->type->npy,
                            array->fortran_order ? "True" : "False", format_shape(array).text);
    int growth = 0;
    if (array->rank != 0)
        growth = GROWTH_DIGITS - snprintf(NULL, 0, "%" PRId64,
                                          array->dim[array->fortran_order ? array->rank - 1 : 0]);
    size_t unpadded = TRP__NPY_PREAMBLE_V1 + (size_t)(text_len + growth) + 1;
    trp__npy_bytes header;
    header.len = unpadded + (ALIGNMENT - unpadded % ALIGNMENT);
    memset(header.bytes, ' ', sizeof(header.bytes));
    memcpy(header.bytes, magic, sizeof(magic));
    header.bytes[6] = 1;
    header.bytes[7] = 0;
    header.bytes[8] = (unsigned char)((header.len - TRP__NPY_PREAMBLE_V1) & 0xff);
    header.bytes[9] = (unsigned char)((header.len - TRP__NPY_PREAMBLE_V1) >> 8);
    memcpy(header.bytes + TRP__NPY_PREAMBLE_V1, dict_text, (size_t)text_len);
    header.bytes[header.len - 1] = '\n';
    return header;
}
