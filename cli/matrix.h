/* A matrix: an npy file, its content in host memory that the device reaches, a device buffer. */
#ifndef TRP_CLI_MATRIX_H
#define TRP_CLI_MATRIX_H

#include "npy.h"
#include "run.h"

typedef struct matrix {
    npy_info shape;
    void *data;        /* trp_host_alloc(); NULL while there is none, and for an empty matrix */
    trp_buffer buffer; /* likewise */
} matrix;

/* The type of the elements in a file. */
trp_dtype matrix_type_of(const npy_info *shape);

/* "1000 x 1200 f32"; of a vector "1000 f32". */
typedef struct matrix_text {
    char s[64];
} matrix_text;
matrix_text matrix_describe(const matrix *m);

trp_dtype matrix_dtype(const matrix *m);

/* Opens a file and reads its header; -1 after telling what is wrong. The caller closes it. */
int matrix_open_file(const char *path, npy_info *shape);

/* The same for an array of any shape. */
int matrix_open_array(const char *path, npy_array *array);

/* The same; it must be a matrix of f32 or f64. */
int matrix_open(const char *path, matrix *m);

/* The shape of a fresh matrix in C order. False, and told, if it would be too large to address. */
bool matrix_shape(matrix *m, uint32_t item_size, uint64_t rows, uint64_t cols);

/* Gets host memory and a device buffer for m->shape, reads the file into the former. */
bool matrix_place(struct run *run, matrix *m);
bool matrix_read_file(matrix *m, int fd, const char *path);

/* Gives both back. Everything sent must have completed. */
void matrix_release(struct run *run, matrix *m);

/* Copies between host memory and buffer, and waits. */
bool matrix_upload(struct run *run, const matrix *m);
bool matrix_download(struct run *run, const matrix *m);

/* The transpose over the same memory and buffer: no element moves. */
matrix matrix_transposed(const matrix *m);

/* Uniform in [-1, 1], the same for the same seed. */
void matrix_randomise(const npy_info *shape, void *data, uint64_t seed);

/* C = A B on the device, waited for; the buffers hold all three. C is in C order, A and B in any:
 * an operand in Fortran order is sent as the transpose of what lies in memory. */
bool matrix_multiply(struct run *run, const matrix *a, const matrix *b, const matrix *c,
                     trp_compute compute);

/* Whether A B exists for these two; else tells why not. The strings are their names. */
bool matrix_agree(const char *a_name, const matrix *a, const char *b_name, const matrix *b);

#endif
