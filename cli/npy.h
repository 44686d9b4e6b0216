/*
 * Reading and writing NumPy .npy files, for matrices, vectors and arrays of up to 8 dimensions, of
 * these elements: float64, float32, float16, complex128, complex64, int32, int8 and uint8.
 *
 * The format: numpy/lib/format.py ("NPY format"), versions 1.0, 2.0 and 3.0. A file is a magic
 * string, a version, a length, a header of that length that is a Python dict literal, and the raw
 * elements. What this does not take (other dtypes, other ranks, big-endian data) is refused with a
 * message that says what was expected and what came; nothing is converted.
 *
 * Every function that can fail returns false and leaves a message of one line in `error`, of at
 * most `error_size` bytes with its zero, printable whatever the file holds. `error` may be NULL
 * when `error_size` is 0. All functions may be called from any thread.
 */
#ifndef TRP_CLI_NPY_H
#define TRP_CLI_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest header that is read, in bytes. NumPy's own are 118 bytes for a matrix. */
#define NPY_HEADER_LIMIT (1u << 20)

/* A matrix or a vector in a file. */
typedef struct npy_info {
    char kind;            /* 'f': IEEE floating point, 'c': complex of two such; 'i', 'u': integer
                           * with and without a sign; all little-endian */
    uint32_t item_size;   /* bytes of an element: of f 2, 4 or 8, c 8 or 16, i 1 or 4, u 1 */
    bool vector;          /* a 1-D array: `rows` elements, cols 1 */
    bool fortran_order;   /* column-major; else row-major. Either way without gaps. */
    uint64_t rows, cols;  /* either may be 0 */
    uint64_t data_offset; /* bytes from the start of the file to the first element */
    uint64_t data_bytes;  /* rows * cols * item_size */
} npy_info;

enum { NPY_RANK_MAX = 8 };

/* An array of any shape in a file. */
typedef struct npy_array {
    char kind; /* these as of npy_info */
    uint32_t item_size;
    bool fortran_order;         /* the first dimension is the fastest; else the last one */
    uint32_t rank;              /* 1 to NPY_RANK_MAX */
    uint64_t dim[NPY_RANK_MAX]; /* any may be 0 */
    uint64_t data_offset, data_bytes;
} npy_array;

/*
 * Reads and checks the header of an open regular file, and that the file is as long as it says. The
 * file's position is neither used nor changed. *out is written on success only.
 */
bool npy_read_info(int fd, npy_info *out, char *error, size_t error_size);

/* The same for an array; npy_read_info() refuses what is neither a matrix nor a vector. */
bool npy_read_array(int fd, npy_array *out, char *error, size_t error_size);

/*
 * Reads the elements, info->data_bytes of them, into `dst`, in the order of the file. `info` is
 * what npy_read_info gave for this file. After a failure the contents of dst are undefined.
 */
bool npy_read_data(int fd, const npy_info *info, void *dst, char *error, size_t error_size);

/* The same for an array. */
bool npy_read_array_data(int fd, const npy_array *array, void *dst, char *error, size_t error_size);

/*
 * Writes a matrix to `path`, byte for byte as numpy.save would. `shape` gives kind, item_size,
 * vector, fortran_order, rows and cols; its data_offset and data_bytes are not looked at. `data` is
 * the elements in that order, and may be NULL for a matrix without any.
 *
 * The file appears whole or not at all: it is written under a temporary name in the same folder,
 * synced, and renamed over what was there. After any failure the temporary is gone and what was
 * there is as before. A file that is replaced passes its permissions on; a symbolic link stays, and
 * the file that it names is replaced. What exists and is no regular file (a device, a folder) is
 * refused.
 */
bool npy_write(const char *path, const npy_info *shape, const void *data, char *error,
               size_t error_size);

/* The same for an array: kind, item_size, fortran_order, rank and dim are looked at. */
bool npy_write_array(const char *path, const npy_array *shape, const void *data, char *error,
                     size_t error_size);

/*
 * The pure part of npy_read_info: `buf` is the first `len` bytes of a file of `file_size` bytes, at
 * least to the end of its header. Makes no system call and no allocation.
 */
bool npy_parse_header(const unsigned char *buf, size_t len, uint64_t file_size, npy_info *out,
                      char *error, size_t error_size);

/* The same for an array. */
bool npy_parse_array(const unsigned char *buf, size_t len, uint64_t file_size, npy_array *out,
                     char *error, size_t error_size);

#endif
