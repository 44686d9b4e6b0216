/* Arrays in files, as commands take them: one array of up to eight dimensions, of f64, f32, f16,
 * c128, c64, i32, i8 or u8, in an .npy file, or alone in an .npz or safetensors file; "-" is
 * standard input or output, and FIFOs work (pipe.h). The functions report errors themselves. */
#ifndef TRP_CLI_DATA_ARRAY_FILE_H
#define TRP_CLI_DATA_ARRAY_FILE_H

#include <troupe/io.h>

enum { FILE_RANK_MAX = 8 };

typedef struct file_array {
    trp_dtype type;
    bool fortran_order;
    uint32_t rank;               /* 1 to FILE_RANK_MAX */
    uint64_t dim[FILE_RANK_MAX]; /* any may be 0 */
    uint64_t data_bytes;
} file_array;

/* A matrix or a vector. */
typedef struct file_matrix {
    trp_dtype type;
    bool vector;        /* a 1-D array: `rows` elements, cols 1 */
    bool fortran_order; /* column-major; else row-major; always packed */
    uint64_t rows, cols;
    uint64_t data_bytes;
} file_matrix;

/* Returns the NumPy type for one of ours, or to convert from: "np.float32". */
const char *array_file_numpy(trp_dtype type);

/* Opens a file and describes its array; NULL after reporting an error. The caller closes it with
 * trp_io_close(). */
trp_io_file *array_file_open(const char *path, file_array *out);
trp_io_file *array_file_open_matrix(const char *path, file_matrix *out);

/* Reads all elements, in the order of the file. */
bool array_file_read(trp_io_file *file, void *target, uint64_t bytes);

/* Checks that a file can be written, before there is data: the folder is writable, an existing file
 * can be replaced. Reports errors; leaves nothing behind. */
bool array_file_try_write(const char *path);

/* Writes a file completely or leaves the old one. `data` may be NULL for an empty array. */
bool array_file_write(const char *path, const file_array *array, const void *data);
bool array_file_write_matrix(const char *path, const file_matrix *matrix, const void *data);

/* Formats a shape: "(2, 3)". */
typedef struct array_shape_text {
    char s[224];
} array_shape_text;
array_shape_text array_file_shape(const int64_t *dim, uint32_t rank);

#endif
