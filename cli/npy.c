#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are passed on as they are");

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

enum {
    VERSION_END = 8,         /* magic and version */
    PREAMBLE_V1 = 10,        /* with a length of 16 bits */
    PREAMBLE_V2 = 12,        /* with a length of 32 bits: versions 2.0 and 3.0 */
    QUOTE_SIZE = 80,         /* a piece of a file in a message */
    IO_CHUNK = 1 << 30,      /* Linux moves at most 2 GiB less a page in one call */
    ALIGNMENT = 64,          /* of the first element, in files that are written */
    GROWTH_DIGITS = 21,      /* what NumPy keeps free, so that a file can be appended to in place */
    TEMPORARY_ATTEMPTS = 100 /* names of temporaries that were left behind are passed over */
};

typedef struct error_text {
    char *text;
    size_t size;
} error_text;

static void set_error(error_text error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void set_error(error_text error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (error.size != 0) {
        vsnprintf(error.text, error.size, format, arguments);
    }
    va_end(arguments);
}

/* False, to be returned. A macro, so that static analysis sees that it is. */
#define refuse(...) (set_error(__VA_ARGS__), false)

typedef struct quoted {
    char text[QUOTE_SIZE];
} quoted;

/* Bytes of a file, made fit to be shown: printable, and shortened when long. */
static quoted quote(const unsigned char *bytes, size_t len)
{
    static const char ellipsis[] = "...";
    static const char digits[] = "0123456789abcdef";
    quoted q;
    size_t at = 0;
    for (size_t i = 0; i < len; i++) {
        if (at + 4 + sizeof(ellipsis) > sizeof(q.text)) {
            memcpy(q.text + at, ellipsis, sizeof(ellipsis) - 1);
            at += sizeof(ellipsis) - 1;
            break;
        }
        if (bytes[i] >= 0x20 && bytes[i] < 0x7f) {
            q.text[at++] = (char)bytes[i];
        } else {
            q.text[at++] = '\\';
            q.text[at++] = 'x';
            q.text[at++] = digits[bytes[i] >> 4];
            q.text[at++] = digits[bytes[i] & 15];
        }
    }
    q.text[at] = '\0';
    return q;
}

/* --- The dict literal: tokens --- */

typedef enum token_kind {
    TOKEN_PUNCTUATION, /* one of {}()[]:, */
    TOKEN_STRING,      /* text: without the quotes */
    TOKEN_INTEGER,     /* text: with a sign, without the L of Python 2 */
    TOKEN_NAME,
    TOKEN_END,
} token_kind;

typedef struct token {
    token_kind kind;
    const unsigned char *text;
    size_t len;
} token;

/* `next` is the token ahead: it is read and not used yet. */
typedef struct parser {
    const unsigned char *begin, *at, *end;
    token next;
    error_text error;
} parser;

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

static size_t offset_of(const parser *p, const unsigned char *at)
{
    return (size_t)(at - p->begin);
}

static bool read_string(parser *p)
{
    const unsigned char *text = p->at + 1, *at = text;
    while (at < p->end && *at != *p->at && *at != '\n' && *at != '\\') {
        at++;
    }
    if (at < p->end && *at == '\\') {
        return refuse(p->error, "bad header: backslash in the string at byte %zu, none is expected",
                      offset_of(p, p->at));
    }
    if (at == p->end || *at == '\n') {
        return refuse(p->error, "bad header: unterminated string at byte %zu: %s",
                      offset_of(p, p->at), quote(p->at, (size_t)(at - p->at)).text);
    }
    p->next = (token){TOKEN_STRING, text, (size_t)(at - text)};
    p->at = at + 1;
    return true;
}

/* A decimal integer as Python has them: no leading zeros. Python 2 wrote some with an L behind. */
static bool read_integer(parser *p)
{
    const unsigned char *text = p->at, *at = text;
    at += *at == '-' || *at == '+';
    const unsigned char *digits = at;
    while (at < p->end && is_digit(*at)) {
        at++;
    }
    size_t len = (size_t)(at - text);
    bool good = at > digits && (*digits != '0' || at == digits + 1);
    if (at < p->end && *at == 'L') {
        at++;
    }
    if (!good || (at < p->end && (is_name(*at) || *at == '.'))) {
        while (at < p->end && (is_name(*at) || *at == '.')) {
            at++;
        }
        return refuse(p->error, "bad header: expected a decimal integer at byte %zu, got %s",
                      offset_of(p, text), quote(text, (size_t)(at - text)).text);
    }
    p->next = (token){TOKEN_INTEGER, text, len};
    p->at = at;
    return true;
}

/* Reads the next token to p->next. */
static bool advance(parser *p)
{
    while (p->at < p->end && memchr(" \t\r\n", *p->at, 4) != NULL) {
        p->at++;
    }
    if (p->at == p->end) {
        p->next = (token){TOKEN_END, p->at, 0};
        return true;
    }
    unsigned char c = *p->at;
    if (c == '\'' || c == '"') {
        return read_string(p);
    }
    if (is_digit(c) || c == '-' || c == '+') {
        return read_integer(p);
    }
    if (memchr("{}()[]:,", c, 8) != NULL) {
        p->next = (token){TOKEN_PUNCTUATION, p->at, 1};
        p->at++;
        return true;
    }
    if (is_name(c)) {
        const unsigned char *text = p->at;
        while (p->at < p->end && is_name(*p->at)) {
            p->at++;
        }
        p->next = (token){TOKEN_NAME, text, (size_t)(p->at - text)};
        return true;
    }
    return refuse(p->error, "bad header: unexpected character %s at byte %zu", quote(p->at, 1).text,
                  offset_of(p, p->at));
}

static bool next_is(const parser *p, char punctuation)
{
    return p->next.kind == TOKEN_PUNCTUATION && *p->next.text == (unsigned char)punctuation;
}

static bool text_is(const token *t, const char *text)
{
    return t->len == strlen(text) && memcmp(t->text, text, t->len) == 0;
}

static bool unexpected(const parser *p, const char *expected)
{
    if (p->next.kind == TOKEN_END) {
        return refuse(p->error, "bad header: expected %s, got the end of the header", expected);
    }
    return refuse(p->error, "bad header: expected %s at byte %zu, got %s", expected,
                  offset_of(p, p->next.text), quote(p->next.text, p->next.len).text);
}

static bool expect(parser *p, char punctuation)
{
    if (!next_is(p, punctuation)) {
        return unexpected(p, (char[]){'\'', punctuation, '\'', '\0'});
    }
    return advance(p);
}

/* --- The dict literal: its three entries --- */

enum { KEY_DESCR, KEY_FORTRAN_ORDER, KEY_SHAPE, KEY_COUNT };

static const char *const key_names[KEY_COUNT] = {"descr", "fortran_order", "shape"};

typedef struct dict {
    bool seen[KEY_COUNT];
    token descr;
    bool fortran_order;
    token shape;                /* its whole text, for messages */
    uint64_t dim[NPY_RANK_MAX]; /* the first ones of: */
    size_t rank;
} dict;

/* All dtypes that are taken, as NumPy writes them. */
#define SUPPORTED "expected '<f8', '<f4', '<f2', '<c16', '<c8', '<i4', '|i1' or '|u1'"

static bool parse_descr(parser *p, dict *d)
{
    if (next_is(p, '[')) {
        return refuse(p->error, "structured dtype: " SUPPORTED);
    }
    if (p->next.kind != TOKEN_STRING) {
        return unexpected(p, "a string for 'descr'");
    }
    d->descr = p->next;
    return advance(p);
}

static bool parse_fortran_order(parser *p, dict *d)
{
    bool yes = p->next.kind == TOKEN_NAME && text_is(&p->next, "True");
    bool no = p->next.kind == TOKEN_NAME && text_is(&p->next, "False");
    if (!yes && !no) {
        return unexpected(p, "True or False for 'fortran_order'");
    }
    d->fortran_order = yes;
    return advance(p);
}

static bool parse_dimension(parser *p, uint64_t *out)
{
    const token t = p->next;
    if (t.kind != TOKEN_INTEGER) {
        return unexpected(p, "an integer in 'shape'");
    }
    if (*t.text == '-') {
        return refuse(p->error, "bad shape: dimension %s is negative", quote(t.text, t.len).text);
    }
    uint64_t value = 0;
    for (size_t i = *t.text == '+'; i < t.len; i++) {
        unsigned digit = (unsigned)t.text[i] - '0';
        if (value > ((uint64_t)INT64_MAX - digit) / 10u) {
            return refuse(p->error, "bad shape: dimension %s is larger than 2^63 - 1",
                          quote(t.text, t.len).text);
        }
        value = value * 10u + digit;
    }
    *out = value;
    return advance(p);
}

/* A tuple: (), (1,), (1, 2), (1, 2,) and so on; (1) is not one. */
static bool parse_shape(parser *p, dict *d)
{
    const unsigned char *text = p->next.text;
    if (!next_is(p, '(')) {
        return unexpected(p, "a tuple for 'shape'");
    }
    if (!advance(p)) {
        return false;
    }
    d->rank = 0;
    while (!next_is(p, ')')) {
        uint64_t dim = 0;
        if (!parse_dimension(p, &dim)) {
            return false;
        }
        if (d->rank < NPY_RANK_MAX) {
            d->dim[d->rank] = dim;
        }
        d->rank++;
        if (next_is(p, ')') && d->rank > 1) {
            break;
        }
        if (!expect(p, ',')) {
            return false;
        }
    }
    d->shape.text = text;
    d->shape.len = (size_t)(p->next.text + 1 - text);
    return advance(p);
}

static bool (*const value_parsers[KEY_COUNT])(parser *, dict *) = {parse_descr, parse_fortran_order,
                                                                   parse_shape};

static bool parse_entry(parser *p, dict *d)
{
    static const char expected[] = "a key 'descr', 'fortran_order' or 'shape'";
    if (p->next.kind != TOKEN_STRING) {
        return unexpected(p, expected);
    }
    for (int key = 0; key < KEY_COUNT; key++) {
        if (!text_is(&p->next, key_names[key])) {
            continue;
        }
        if (d->seen[key]) {
            return refuse(p->error, "bad header: key '%s' comes twice", key_names[key]);
        }
        d->seen[key] = true;
        return advance(p) && expect(p, ':') && value_parsers[key](p, d);
    }
    return unexpected(p, expected);
}

static bool parse_dict(const unsigned char *text, size_t len, dict *d, error_text error)
{
    parser p = {.begin = text, .at = text, .end = text + len, .error = error};
    *d = (dict){0};
    if (!advance(&p) || !expect(&p, '{')) {
        return false;
    }
    while (!next_is(&p, '}')) {
        if (!parse_entry(&p, d)) {
            return false;
        }
        if (next_is(&p, '}')) {
            break;
        }
        if (!next_is(&p, ',')) {
            return unexpected(&p, "',' or '}'");
        }
        if (!advance(&p)) {
            return false;
        }
    }
    if (!advance(&p)) {
        return false;
    }
    if (p.next.kind != TOKEN_END) {
        return unexpected(&p, "nothing after the '}'");
    }
    for (int key = 0; key < KEY_COUNT; key++) {
        if (!d->seen[key]) {
            return refuse(error, "bad header: key '%s' is missing", key_names[key]);
        }
    }
    return true;
}

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

static bool is_taken(char kind, uint32_t item_size)
{
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        if (dtypes[i].kind == kind && dtypes[i].item_size == item_size) {
            return true;
        }
    }
    return false;
}

/* Bytes have no order: '|'. Of the rest, '<' is little-endian and '=' is what this machine has. */
static bool interpret_descr(const token *descr, npy_array *array, error_text error)
{
    const quoted shown = quote(descr->text, descr->len);
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
                          "big-endian dtype '%s': " SUPPORTED "; convert with a.astype('<%s')",
                          shown.text, name);
        }
    }
    size_t prefix = descr->len > 0 && memchr("<>=|", descr->text[0], 4) != NULL;
    unsigned char kind = prefix < descr->len ? descr->text[prefix] : 0;
    return refuse(error, "%s dtype '%s': " SUPPORTED, kind_name(kind), shown.text);
}

/* The product of all dimensions and item_size; false when it does not fit in 63 bits, which is what
 * a file can have. */
static bool count_bytes(const npy_array *array, uint64_t *bytes)
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

/* What a caller can use. */
typedef struct ranks {
    size_t most;
    const char *expected;
} ranks;

static const ranks matrix_ranks = {2, "a matrix, 2-D, or a vector, 1-D"};
static const ranks array_ranks = {NPY_RANK_MAX, "1 to 8 dimensions"};

_Static_assert(NPY_RANK_MAX == 8, "as array_ranks says");

static bool interpret_dict(const dict *d, const ranks *taken, npy_array *array, error_text error)
{
    if (!interpret_descr(&d->descr, array, error)) {
        return false;
    }
    const quoted shape = quote(d->shape.text, d->shape.len);
    if (d->rank < 1 || d->rank > taken->most) {
        return refuse(error, "%zu-D array of shape %s: expected %s", d->rank, shape.text,
                      taken->expected);
    }
    array->rank = (uint32_t)d->rank;
    memcpy(array->dim, d->dim, d->rank * sizeof(*d->dim));
    array->fortran_order = d->fortran_order;
    if (!count_bytes(array, &array->data_bytes)) {
        return refuse(error, "bad shape: %s of %u-byte elements is more than 2^63 - 1 bytes",
                      shape.text, array->item_size);
    }
    return true;
}

/* Of a matrix or a vector. */
static npy_info info_of(const npy_array *array)
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

static npy_array array_of(const npy_info *info)
{
    return (npy_array){.kind = info->kind,
                       .item_size = info->item_size,
                       .fortran_order = info->fortran_order,
                       .rank = info->vector ? 1 : 2,
                       .dim = {info->rows, info->vector ? 0 : info->cols},
                       .data_offset = info->data_offset,
                       .data_bytes = info->data_bytes};
}

/* Where the dict is. */
typedef struct preamble {
    size_t begin, len;
} preamble;

/* Reads what comes before the dict, at most PREAMBLE_V2 bytes. */
static bool parse_preamble(const unsigned char *buf, size_t len, uint64_t file_size, preamble *out,
                           error_text error)
{
    if (file_size == 0) {
        return refuse(error, "empty file: expected a .npy file");
    }
    size_t compared = len < sizeof(magic) ? len : sizeof(magic);
    if (compared != 0 && memcmp(buf, magic, compared) != 0) {
        return refuse(error, "not a .npy file: expected the first bytes \\x93NUMPY, got %s",
                      quote(buf, compared).text);
    }
    if (len < VERSION_END) {
        return refuse(error, "truncated header: the file ends after %zu bytes, before the version",
                      len);
    }
    unsigned major = buf[6], minor = buf[7];
    if (major < 1 || major > 3 || minor != 0) {
        return refuse(error, "unknown .npy version %u.%u: expected 1.0, 2.0 or 3.0", major, minor);
    }
    size_t begin = major == 1 ? PREAMBLE_V1 : PREAMBLE_V2;
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
    *out = (preamble){begin, header};
    return true;
}

/* All of the header, without regard to the length of the data. */
static bool parse_all(const unsigned char *buf, size_t len, uint64_t file_size, const ranks *taken,
                      npy_array *array, error_text error)
{
    preamble pre;
    dict d;
    if (!parse_preamble(buf, len, file_size, &pre, error)) {
        return false;
    }
    if (len - pre.begin < pre.len) {
        return refuse(error, "truncated header: expected %zu bytes, got %zu", pre.begin + pre.len,
                      len);
    }
    *array = (npy_array){.data_offset = pre.begin + pre.len};
    return parse_dict(buf + pre.begin, pre.len, &d, error) &&
           interpret_dict(&d, taken, array, error);
}

/* Room for the digits of all dimensions, and ", " behind each. */
typedef struct shape_text {
    char text[NPY_RANK_MAX * 22 + 4];
} shape_text;

/* The shape as a tuple of Python. */
static shape_text format_shape(const npy_array *array)
{
    shape_text shape;
    size_t at = 0;
    shape.text[at++] = '(';
    for (uint32_t i = 0; i < array->rank; i++) {
        at += (size_t)snprintf(shape.text + at, sizeof(shape.text) - at, "%s%" PRIu64,
                               i == 0 ? "" : ", ", array->dim[i]);
    }
    snprintf(shape.text + at, sizeof(shape.text) - at, array->rank == 1 ? ",)" : ")");
    return shape;
}

static bool parse_file(const unsigned char *buf, size_t len, uint64_t file_size, const ranks *taken,
                       npy_array *out, error_text error)
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
                      format_shape(&array).text, array.item_size, array.data_bytes, present);
    }
    if (present > array.data_bytes) {
        return refuse(error,
                      "trailing bytes: shape %s of %u-byte elements is %" PRIu64
                      " bytes, the file has %" PRIu64 " more; expected one array alone",
                      format_shape(&array).text, array.item_size, array.data_bytes,
                      present - array.data_bytes);
    }
    *out = array;
    return true;
}

bool npy_parse_array(const unsigned char *buf, size_t len, uint64_t file_size, npy_array *out,
                     char *error, size_t error_size)
{
    return parse_file(buf, len, file_size, &array_ranks, out, (error_text){error, error_size});
}

bool npy_parse_header(const unsigned char *buf, size_t len, uint64_t file_size, npy_info *out,
                      char *error, size_t error_size)
{
    npy_array array;
    if (!parse_file(buf, len, file_size, &matrix_ranks, &array, (error_text){error, error_size})) {
        return false;
    }
    *out = info_of(&array);
    return true;
}

/* --- Files --- */

/* Reads `bytes` bytes at `offset`. `what` is for messages. */
static bool read_at(int fd, uint64_t offset, void *dst, uint64_t bytes, const char *what,
                    error_text error)
{
    uint64_t done = 0;
    while (done < bytes) {
        size_t chunk = bytes - done < IO_CHUNK ? (size_t)(bytes - done) : (size_t)IO_CHUNK;
        ssize_t got = pread(fd, (char *)dst + done, chunk, (off_t)(offset + done));
        if (got > 0) {
            done += (uint64_t)got;
        } else if (got == 0) {
            return refuse(error,
                          "truncated %s: the file ends after %" PRIu64 " bytes, expected %" PRIu64,
                          what, offset + done, offset + bytes);
        } else if (errno != EINTR) {
            return refuse(error, "reading the %s: %m", what);
        }
    }
    return true;
}

static bool read_header(int fd, const ranks *taken, npy_array *out, error_text error)
{
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return refuse(error, "reading the header: %m");
    }
    if (!S_ISREG(status.st_mode)) {
        return refuse(error, "not a regular file");
    }
    const uint64_t file_size = (uint64_t)status.st_size;
    unsigned char first[PREAMBLE_V2];
    size_t len = file_size < sizeof(first) ? (size_t)file_size : sizeof(first);
    preamble pre;
    if (!read_at(fd, 0, first, len, "header", error) ||
        !parse_preamble(first, len, file_size, &pre, error)) {
        return false;
    }
    /* At most PREAMBLE_V2 + NPY_HEADER_LIMIT, and no more than the file has. */
    len = pre.begin + pre.len;
    unsigned char *header = malloc(len);
    if (header == NULL) {
        return refuse(error, "reading the header: out of memory");
    }
    bool ok = read_at(fd, 0, header, len, "header", error) &&
              parse_file(header, len, file_size, taken, out, error);
    free(header);
    return ok;
}

bool npy_read_array(int fd, npy_array *out, char *error, size_t error_size)
{
    return read_header(fd, &array_ranks, out, (error_text){error, error_size});
}

bool npy_read_info(int fd, npy_info *out, char *error, size_t error_size)
{
    npy_array array;
    if (!read_header(fd, &matrix_ranks, &array, (error_text){error, error_size})) {
        return false;
    }
    *out = info_of(&array);
    return true;
}

bool npy_read_data(int fd, const npy_info *info, void *dst, char *error, size_t error_size)
{
    return read_at(fd, info->data_offset, dst, info->data_bytes, "data",
                   (error_text){error, error_size});
}

bool npy_read_array_data(int fd, const npy_array *array, void *dst, char *error, size_t error_size)
{
    return read_at(fd, array->data_offset, dst, array->data_bytes, "data",
                   (error_text){error, error_size});
}

/* Room for the header that is written: the dict below, and the padding. */
typedef struct header_bytes {
    unsigned char bytes[448];
    size_t len;
} header_bytes;

/* Version 1.0, padded as NumPy pads it, so that files can be compared with its own. */
static header_bytes format_header(const npy_array *shape)
{
    char dict_text[288], dimension[24];
    int text_len = snprintf(dict_text, sizeof(dict_text),
                            "{'descr': '%c%c%u', 'fortran_order': %s, 'shape': %s, }",
                            shape->item_size == 1 ? '|' : '<', shape->kind, shape->item_size,
                            shape->fortran_order ? "True" : "False", format_shape(shape).text);
    int growing = snprintf(dimension, sizeof(dimension), "%" PRIu64,
                           shape->dim[shape->fortran_order ? shape->rank - 1 : 0]);
    size_t unpadded = PREAMBLE_V1 + (size_t)(text_len + GROWTH_DIGITS - growing) + 1;
    header_bytes header;
    header.len = unpadded + (ALIGNMENT - unpadded % ALIGNMENT);
    memset(header.bytes, ' ', sizeof(header.bytes));
    memcpy(header.bytes, magic, sizeof(magic));
    header.bytes[6] = 1;
    header.bytes[7] = 0;
    header.bytes[8] = (unsigned char)((header.len - PREAMBLE_V1) & 0xff);
    header.bytes[9] = (unsigned char)((header.len - PREAMBLE_V1) >> 8);
    memcpy(header.bytes + PREAMBLE_V1, dict_text, (size_t)text_len);
    header.bytes[header.len - 1] = '\n';
    return header;
}

/* errno tells why not. */
static bool write_all(int fd, const void *data, uint64_t bytes)
{
    uint64_t done = 0;
    while (done < bytes) {
        size_t chunk = bytes - done < IO_CHUNK ? (size_t)(bytes - done) : (size_t)IO_CHUNK;
        ssize_t put = write(fd, (const char *)data + done, chunk);
        if (put > 0) {
            done += (uint64_t)put;
        } else if (put == 0) {
            errno = EIO;
            return false;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* What is at `path` now. A rename would replace even /dev/null, so this refuses all but regular
 * files and nothing at all. */
typedef struct target {
    char *path;    /* symbolic links followed; owned */
    size_t folder; /* length of the part up to and with the last slash; 0: none */
    bool exists;
    mode_t mode;
} target;

static bool find_target(const char *path, target *out, error_text error)
{
    struct stat status;
    *out = (target){0};
    if (lstat(path, &status) == 0) {
        out->exists = true;
        out->path = S_ISLNK(status.st_mode) ? realpath(path, NULL) : strdup(path);
        if (out->path == NULL || lstat(out->path, &status) != 0) {
            return refuse(error, "writing %s: %m", path);
        }
        if (!S_ISREG(status.st_mode)) {
            return refuse(error, "writing %s: it exists and is not a regular file", path);
        }
        out->mode = status.st_mode & 0777;
    } else if (errno == ENOENT) {
        out->path = strdup(path);
        if (out->path == NULL) {
            return refuse(error, "writing %s: out of memory", path);
        }
    } else {
        return refuse(error, "writing %s: %m", path);
    }
    const char *slash = strrchr(out->path, '/');
    out->folder = slash == NULL ? 0 : (size_t)(slash + 1 - out->path);
    if (out->path[out->folder] == '\0') {
        return refuse(error, "writing %s: expected the name of a file", path);
    }
    return true;
}

/* A new file next to the target, open, with its name in *name, which the caller owns; or -1, errno.
 */
static int open_temporary(const target *to, char **name)
{
    for (int attempt = 0; attempt < TEMPORARY_ATTEMPTS; attempt++) {
        if (asprintf(name, "%.*s.npy-%ld-%d.tmp", (int)to->folder, to->path, (long)getpid(),
                     attempt) < 0) {
            *name = NULL;
            errno = ENOMEM;
            return -1;
        }
        int fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0) {
            return fd;
        }
        int cause = errno;
        free(*name);
        *name = NULL;
        errno = cause;
        if (cause != EEXIST) {
            return -1;
        }
    }
    return -1;
}

/* Makes the rename last through a loss of power, where the file system can. The file is whole and
 * in its place whatever comes of this, so there is nothing to report. */
static void sync_folder(const target *to)
{
    char *folder = to->folder == 0 ? strdup(".") : strndup(to->path, to->folder);
    int fd = folder == NULL ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(folder);
}

static bool check_written(const char *path, const npy_array *shape, const void *data,
                          uint64_t *bytes, error_text error)
{
    if (!is_taken(shape->kind, shape->item_size)) {
        return refuse(error, "writing %s: dtype %s%u: expected f8, f4, f2, c16, c8, i4, i1 or u1",
                      path, quote((const unsigned char *)&shape->kind, 1).text, shape->item_size);
    }
    if (shape->rank < 1 || shape->rank > NPY_RANK_MAX) {
        return refuse(error, "writing %s: %u-D array: expected %s", path, shape->rank,
                      array_ranks.expected);
    }
    bool good = count_bytes(shape, bytes);
    for (uint32_t i = 0; i < shape->rank; i++) {
        good = good && shape->dim[i] <= INT64_MAX;
    }
    if (!good) {
        return refuse(error, "writing %s: shape %s is more than 2^63 - 1 bytes", path,
                      format_shape(shape).text);
    }
    if (data == NULL && *bytes != 0) {
        return refuse(error, "writing %s: no data for %" PRIu64 " bytes", path, *bytes);
    }
    return true;
}

bool npy_write_array(const char *path, const npy_array *shape, const void *data, char *error_buf,
                     size_t error_size)
{
    const error_text error = {error_buf, error_size};
    uint64_t bytes = 0;
    if (!check_written(path, shape, data, &bytes, error)) {
        return false;
    }

    bool ok = false;
    int fd = -1;
    char *temporary = NULL;
    const header_bytes header = format_header(shape);
    target to;
    if (!find_target(path, &to, error)) {
        goto out;
    }
    fd = open_temporary(&to, &temporary);
    if (fd < 0) {
        set_error(error, "writing %s: making a temporary file in its folder: %m", path);
        goto out;
    }
    if ((to.exists && fchmod(fd, to.mode) != 0) || !write_all(fd, header.bytes, header.len) ||
        !write_all(fd, data, bytes) || fsync(fd) != 0) {
        set_error(error, "writing %s: %m", path);
        goto out;
    }
    int closed = close(fd);
    fd = -1;
    if (closed != 0 || rename(temporary, to.path) != 0) {
        set_error(error, "writing %s: %m", path);
        goto out;
    }
    ok = true;
    sync_folder(&to);
out:
    if (fd >= 0) {
        close(fd);
    }
    if (temporary != NULL && !ok) {
        unlink(temporary);
    }
    free(temporary);
    free(to.path);
    return ok;
}

bool npy_write(const char *path, const npy_info *shape, const void *data, char *error,
               size_t error_size)
{
    if (shape->vector && shape->cols != 1) {
        return refuse(((error_text){error, error_size}),
                      "writing %s: a vector of %" PRIu64 " columns: expected 1", path, shape->cols);
    }
    const npy_array array = array_of(shape);
    return npy_write_array(path, &array, data, error, error_size);
}
