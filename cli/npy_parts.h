/*
 * What the parts of npy.h share: messages and the dict literal (npy_dict.c), the header that it is
 * in (npy_header.c), reading (npy_read.c) and writing files (npy_write.c).
 */
#ifndef TRP_CLI_NPY_PARTS_H
#define TRP_CLI_NPY_PARTS_H

#include "npy.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are passed on as they are");

enum {
    NPY_PREAMBLE_V1 = 10,   /* magic, version and a length of 16 bits */
    NPY_PREAMBLE_V2 = 12,   /* with a length of 32 bits: versions 2.0 and 3.0 */
    NPY_IO_CHUNK = 1 << 30, /* Linux moves at most 2 GiB less a page in one call */
    NPY_QUOTE_SIZE = 80     /* a piece of a file in a message */
};

/* Messages. */

typedef struct npy_error {
    char *text;
    size_t size;
} npy_error;

void npy_set_error(npy_error error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* False, to be returned. A macro, so that static analysis sees that it is. */
#define refuse(...) (npy_set_error(__VA_ARGS__), false)

typedef struct npy_quoted {
    char text[NPY_QUOTE_SIZE];
} npy_quoted;

/* Bytes of a file, made fit to be shown: printable, and shortened when long. */
npy_quoted npy_quote(const unsigned char *bytes, size_t len);

/* All dtypes that are taken, as NumPy writes them. */
#define NPY_DTYPES "expected '<f8', '<f4', '<f2', '<c16', '<c8', '<i4', '|i1' or '|u1'"

/* The dict literal. */

/* A part of it. */
typedef struct npy_piece {
    const unsigned char *text;
    size_t len;
} npy_piece;

typedef struct npy_dict {
    npy_piece descr; /* without the quotes */
    bool fortran_order;
    npy_piece shape;            /* its whole text, for messages */
    uint64_t dim[NPY_RANK_MAX]; /* the first ones of: */
    size_t rank;
} npy_dict;

bool npy_parse_dict(const unsigned char *text, size_t len, npy_dict *d, npy_error error);

/* The header. */

/* What a caller can use. */
typedef struct npy_ranks {
    size_t most;
    const char *expected;
} npy_ranks;

extern const npy_ranks npy_matrix_ranks, npy_array_ranks;

/* Where the dict is. */
typedef struct npy_preamble {
    size_t begin, len;
} npy_preamble;

/* Reads what comes before the dict, at most NPY_PREAMBLE_V2 bytes. */
bool npy_parse_preamble(const unsigned char *buf, size_t len, uint64_t file_size, npy_preamble *out,
                        npy_error error);

/* The whole header, and that the file is as long as it says. *out is written on success only. */
bool npy_parse_file(const unsigned char *buf, size_t len, uint64_t file_size,
                    const npy_ranks *taken, npy_array *out, npy_error error);

bool npy_is_taken(char kind, uint32_t item_size);

/* The product of all dimensions and item_size; false when it does not fit in 63 bits, which is what
 * a file can have. */
bool npy_count_bytes(const npy_array *array, uint64_t *bytes);

/* Of a matrix or a vector. */
npy_info npy_info_of(const npy_array *array);
npy_array npy_array_of(const npy_info *info);

/* Room for the digits of all dimensions, and ", " behind each. */
typedef struct npy_shape_text {
    char text[NPY_RANK_MAX * 22 + 4];
} npy_shape_text;

/* The shape as a tuple of Python. */
npy_shape_text npy_format_shape(const npy_array *array);

/* Room for the header that is written: the dict, and the padding. */
typedef struct npy_header_bytes {
    unsigned char bytes[448];
    size_t len;
} npy_header_bytes;

/* Version 1.0, padded as NumPy pads it, so that files can be compared with its own. */
npy_header_bytes npy_format_header(const npy_array *shape);

#endif
