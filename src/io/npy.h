/* The header of an .npy file, as defined by numpy/lib/format.py: a magic string, a version, a
 * length, and a dict literal of Python of that length. */
#ifndef TRP_IO_NPY_H
#define TRP_IO_NPY_H

#include "io/file.h"

enum {
    TRP__NPY_HEADER_LIMIT = 1 << 20, /* of the dict, in bytes; NumPy writes 118 for a matrix */
    TRP__NPY_PREAMBLE_V1 = 10,       /* magic, version and a length of 16 bits */
    TRP__NPY_PREAMBLE_V2 = 12        /* with a length of 32 bits: versions 2.0 and 3.0 */
};

/* Set an error and yield false, to be returned. They are macros, so that static analysis sees the
 * value. */
#define refuse(error, ...)      (trp__error_set(error, TRP_E_ARGUMENT, __VA_ARGS__), false)
#define unsupported(error, ...) (trp__error_set(error, TRP_E_UNSUPPORTED, __VA_ARGS__), false)

/* A part of the text of the dict. */
typedef struct trp__npy_piece {
    const unsigned char *text;
    size_t len;
} trp__npy_piece;

typedef struct trp__npy_dict {
    trp__npy_piece descr; /* without the quotes */
    bool fortran_order;
    trp__npy_piece shape;         /* its text, for messages */
    int64_t dim[TRP_IO_RANK_MAX]; /* of the `rank` dimensions, the first ones */
    size_t rank;
} trp__npy_dict;

bool trp__npy_parse_dict(const unsigned char *text, size_t len, trp__npy_dict *d, trp_error *error);

/* The position of the dict. */
typedef struct trp__npy_preamble {
    size_t begin, len;
} trp__npy_preamble;

/* Parses the bytes before the dict, at most TRP__NPY_PREAMBLE_V2. */
bool trp__npy_parse_preamble(const unsigned char *buf, size_t len, uint64_t file_size,
                             trp__npy_preamble *out, trp_error *error);

/* The properties of an array in a file. */
typedef struct trp__npy {
    const trp__io_type *type;
    char file_type[24]; /* "<f4" */
    bool fortran_order;
    uint32_t rank;
    int64_t dim[TRP_IO_RANK_MAX];
    uint64_t data_offset, data_bytes;
} trp__npy;

/* Parses the whole header, and checks that the file is as long as the header says. `buf` holds the
 * first `len` bytes of a file of `file_size` bytes, at least to the end of the header. *out is
 * written on success only. */
bool trp__npy_parse(const unsigned char *buf, size_t len, uint64_t file_size, trp__npy *out,
                    trp_error *error);

/* Parses the header of a stream, whose length is not known. */
bool trp__npy_parse_head(const unsigned char *buf, size_t len, trp__npy *out, trp_error *error);

/* A header to be written: preamble, dict and padding. */
typedef struct trp__npy_bytes {
    unsigned char bytes[1088];
    size_t len;
} trp__npy_bytes;

/* Copies the properties of an array to an entry. False: out of memory. */
bool trp__npy_describe(trp_io_file *file, trp__io_entry *entry, const trp__npy *array);

/* Formats a header of version 1.0 with the padding of NumPy, so that files are the same as those of
 * NumPy. Uses type, fortran_order, rank and dim of `array`. */
trp__npy_bytes trp__npy_format(const trp__npy *array);

#endif
