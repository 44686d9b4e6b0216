/* The header of an .npy file: what it means, how it is written. Nothing here touches a file. */
#include "npy_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

enum {
    VERSION_END = 8,   /* magic and version */
    ALIGNMENT = 64,    /* of the first element, in files that are written */
    GROWTH_DIGITS = 21 /* what NumPy keeps free, so that a file can be appended to in place */
};

/* --- What the header means --- */

/* What a dtype that is not taken is called; its one-letter kind is the key. */
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
        if ((unsigned char)names[i].kind == kind) {
            return names[i].name;
        }
    }
    return "unknown";
}

typedef struct dtype {
    char kind;
    uint32_t item_size;
} dtype;

static const dtype dtypes[] = {{'f', 8}, {'f', 4}, {'f', 2}, {'c', 16},
                               {'c', 8}, {'i', 4}, {'i', 1}, {'u', 1}};

bool npy_is_taken(char kind, uint32_t item_size)
{
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        if (dtypes[i].kind == kind && dtypes[i].item_size == item_size) {
            return true;
        }
    }
    return false;
}

/* Bytes have no order: '|'. Of the rest, '<' is little-endian and '=' is what this machine has. */
static bool interpret_descr(const npy_piece *descr, npy_array *array, npy_error error)
{
    const npy_quoted shown = npy_quote(descr->text, descr->len);
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        char name[16];
        snprintf(name, sizeof(name), "%c%" PRIu32, dtypes[i].kind, dtypes[i].item_size);
        if (descr->len != strlen(name) + 1 || memcmp(descr->text + 1, name, descr->len - 1) != 0) {
            continue;
        }
        bool bytes = dtypes[i].item_size == 1;
        if (memchr(bytes ? "|" : "<=", descr->text[0], bytes ? 1 : 2) != NULL) {
            array->kind = dtypes[i].kind;
            array->item_size = dtypes[i].item_size;
            return true;
        }
        if (descr->text[0] == '>' && !bytes) {
            return refuse(error,
                          "big-endian dtype '%s': " NPY_DTYPES "; convert with a.astype('<%s')",
                          shown.text, name);
        }
    }
    size_t prefix = descr->len > 0 && memchr("<>=|", descr->text[0], 4) != NULL;
    unsigned char kind = prefix < descr->len ? descr->text[prefix] : 0;
    return refuse(error, "%s dtype '%s': " NPY_DTYPES, kind_name(kind), shown.text);
}

bool npy_count_bytes(const npy_array *array, uint64_t *bytes)
{
    *bytes = 0;
    for (uint32_t i = 0; i < array->rank; i++) {
        if (array->dim[i] == 0) {
            return true;
        }
    }
    *bytes = array->item_size;
    for (uint32_t i = 0; i < array->rank; i++) {
        if (__builtin_mul_overflow(*bytes, array->dim[i], bytes)) {
            return false;
        }
    }
    return *bytes <= INT64_MAX;
}

const npy_ranks npy_matrix_ranks = {2, "a matrix, 2-D, or a vector, 1-D"};
const npy_ranks npy_array_ranks = {NPY_RANK_MAX, "1 to 8 dimensions"};

_Static_assert(NPY_RANK_MAX == 8, "as npy_array_ranks says");

static bool interpret_dict(const npy_dict *d, const npy_ranks *taken, npy_array *array,
                           npy_error error)
{
    if (!interpret_descr(&d->descr, array, error)) {
        return false;
    }
    const npy_quoted shape = npy_quote(d->shape.text, d->shape.len);
    if (d->rank < 1 || d->rank > taken->most) {
        return refuse(error, "%zu-D array of shape %s: expected %s", d->rank, shape.text,
                      taken->expected);
    }
    array->rank = (uint32_t)d->rank;
    memcpy(array->dim, d->dim, d->rank * sizeof(*d->dim));
    array->fortran_order = d->fortran_order;
    if (!npy_count_bytes(array, &array->data_bytes)) {
        return refuse(error, "bad shape: %s of %u-byte elements is more than 2^63 - 1 bytes",
                      shape.text, array->item_size);
    }
    return true;
}

npy_info npy_info_of(const npy_array *array)
{
    return (npy_info){.kind = array->kind,
                      .item_size = array->item_size,
                      .vector = array->rank == 1,
                      .fortran_order = array->fortran_order,
                      .rows = array->dim[0],
                      .cols = array->rank == 1 ? 1 : array->dim[1],
                      .data_offset = array->data_offset,
                      .data_bytes = array->data_bytes};
}

npy_array npy_array_of(const npy_info *info)
{
    return (npy_array){.kind = info->kind,
                       .item_size = info->item_size,
                       .fortran_order = info->fortran_order,
                       .rank = info->vector ? 1 : 2,
                       .dim = {info->rows, info->vector ? 0 : info->cols},
                       .data_offset = info->data_offset,
                       .data_bytes = info->data_bytes};
}

bool npy_parse_preamble(const unsigned char *buf, size_t len, uint64_t file_size, npy_preamble *out,
                        npy_error error)
{
    if (file_size == 0) {
        return refuse(error, "empty file: expected a .npy file");
    }
    size_t compared = len < sizeof(magic) ? len : sizeof(magic);
    if (compared != 0 && memcmp(buf, magic, compared) != 0) {
        return refuse(error, "not a .npy file: expected the first bytes \\x93NUMPY, got %s",
                      npy_quote(buf, compared).text);
    }
    if (len < VERSION_END) {
        return refuse(error, "truncated header: the file ends after %zu bytes, before the version",
                      len);
    }
    unsigned major = buf[6], minor = buf[7];
    if (major < 1 || major > 3 || minor != 0) {
        return refuse(error, "unknown .npy version %u.%u: expected 1.0, 2.0 or 3.0", major, minor);
    }
    size_t begin = major == 1 ? NPY_PREAMBLE_V1 : NPY_PREAMBLE_V2;
    if (len < begin) {
        return refuse(error,
                      "truncated header: the file ends after %zu bytes, in the header length", len);
    }
    uint32_t header = buf[8] | (uint32_t)buf[9] << 8;
    if (major != 1) {
        header |= (uint32_t)buf[10] << 16 | (uint32_t)buf[11] << 24;
    }
    if (header > NPY_HEADER_LIMIT) {
        return refuse(error, "header length of %" PRIu32 " bytes: expected at most %u", header,
                      NPY_HEADER_LIMIT);
    }
    if (header > file_size - begin) {
        return refuse(error,
                      "truncated header: expected %" PRIu32 " bytes after the first %zu, the file "
                      "has %" PRIu64,
                      header, begin, file_size - begin);
    }
    *out = (npy_preamble){begin, header};
    return true;
}

/* All of the header, without regard to the length of the data. */
static bool parse_all(const unsigned char *buf, size_t len, uint64_t file_size,
                      const npy_ranks *taken, npy_array *array, npy_error error)
{
    npy_preamble pre;
    npy_dict d;
    if (!npy_parse_preamble(buf, len, file_size, &pre, error)) {
        return false;
    }
    if (len - pre.begin < pre.len) {
        return refuse(error, "truncated header: expected %zu bytes, got %zu", pre.begin + pre.len,
                      len);
    }
    *array = (npy_array){.data_offset = pre.begin + pre.len};
    return npy_parse_dict(buf + pre.begin, pre.len, &d, error) &&
           interpret_dict(&d, taken, array, error);
}

npy_shape_text npy_format_shape(const npy_array *array)
{
    npy_shape_text shape;
    size_t at = 0;
    shape.text[at++] = '(';
    for (uint32_t i = 0; i < array->rank; i++) {
        at += (size_t)snprintf(shape.text + at, sizeof(shape.text) - at, "%s%" PRIu64,
                               i == 0 ? "" : ", ", array->dim[i]);
    }
    snprintf(shape.text + at, sizeof(shape.text) - at, array->rank == 1 ? ",)" : ")");
    return shape;
}

bool npy_parse_file(const unsigned char *buf, size_t len, uint64_t file_size,
                    const npy_ranks *taken, npy_array *out, npy_error error)
{
    npy_array array;
    if (len > file_size) {
        len = (size_t)file_size;
    }
    if (!parse_all(buf, len, file_size, taken, &array, error)) {
        return false;
    }
    uint64_t present = file_size - array.data_offset;
    if (present < array.data_bytes) {
        return refuse(error,
                      "truncated data: shape %s of %u-byte elements is %" PRIu64
                      " bytes, the file has %" PRIu64 " after its header",
                      npy_format_shape(&array).text, array.item_size, array.data_bytes, present);
    }
    if (present > array.data_bytes) {
        return refuse(error,
                      "trailing bytes: shape %s of %u-byte elements is %" PRIu64
                      " bytes, the file has %" PRIu64 " more; expected one array alone",
                      npy_format_shape(&array).text, array.item_size, array.data_bytes,
                      present - array.data_bytes);
    }
    *out = array;
    return true;
}

bool npy_parse_array(const unsigned char *buf, size_t len, uint64_t file_size, npy_array *out,
                     char *error, size_t error_size)
{
    return npy_parse_file(buf, len, file_size, &npy_array_ranks, out,
                          (npy_error){error, error_size});
}

bool npy_parse_header(const unsigned char *buf, size_t len, uint64_t file_size, npy_info *out,
                      char *error, size_t error_size)
{
    npy_array array;
    if (!npy_parse_file(buf, len, file_size, &npy_matrix_ranks, &array,
                        (npy_error){error, error_size})) {
        return false;
    }
    *out = npy_info_of(&array);
    return true;
}

/* --- The header that is written --- */

npy_header_bytes npy_format_header(const npy_array *shape)
{
    char dict_text[288], dimension[24];
    int text_len = snprintf(dict_text, sizeof(dict_text),
                            "{'descr': '%c%c%u', 'fortran_order': %s, 'shape': %s, }",
                            shape->item_size == 1 ? '|' : '<', shape->kind, shape->item_size,
                            shape->fortran_order ? "True" : "False", npy_format_shape(shape).text);
    int growing = snprintf(dimension, sizeof(dimension), "%" PRIu64,
                           shape->dim[shape->fortran_order ? shape->rank - 1 : 0]);
    size_t unpadded = NPY_PREAMBLE_V1 + (size_t)(text_len + GROWTH_DIGITS - growing) + 1;
    npy_header_bytes header;
    header.len = unpadded + (ALIGNMENT - unpadded % ALIGNMENT);
    memset(header.bytes, ' ', sizeof(header.bytes));
    memcpy(header.bytes, magic, sizeof(magic));
    header.bytes[6] = 1;
    header.bytes[7] = 0;
    header.bytes[8] = (unsigned char)((header.len - NPY_PREAMBLE_V1) & 0xff);
    header.bytes[9] = (unsigned char)((header.len - NPY_PREAMBLE_V1) >> 8);
    memcpy(header.bytes + NPY_PREAMBLE_V1, dict_text, (size_t)text_len);
    header.bytes[header.len - 1] = '\n';
    return header;
}
