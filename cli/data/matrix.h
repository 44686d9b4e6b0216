/* A matrix: an npy file, its content in host memory that the device reaches, a device buffer. */
#ifndef TRP_CLI_DATA_MATRIX_H
#define TRP_CLI_DATA_MATRIX_H

#include "array_file.h"
#include "run.h"

typedef struct matrix {
    file_matrix shape;
    void *data;        /* trp_host_alloc(); NULL while there is none, and for an empty matrix */
    trp_buffer buffer; /* likewise */
} matrix;

/* Describes a matrix, "1000 x 1200 f32", or a vector, "1000 f32". */
typedef struct matrix_text {
    char s[64];
} matrix_text;
matrix_text matrix_describe(const matrix *m);

/* Opens a file, which must be a matrix of f32 or f64; NULL after reporting an error. */
trp_io_file *matrix_open(const char *path, matrix *m);

/* Sets the shape of a new matrix in C order. False after reporting that it is too large to
 * address. */
bool matrix_shape(matrix *m, trp_dtype type, uint64_t rows, uint64_t cols);

/* Allocate host memory and a device buffer for m->shape, and read the file into host memory. */
bool matrix_place(struct run *run, matrix *m);
bool matrix_read_file(matrix *m, trp_io_file *file);

/* Frees both. All requests must have completed. */
void matrix_release(struct run *run, matrix *m);

/* Copies between host memory and buffer, and waits. */
bool matrix_upload(struct run *run, const matrix *m);
bool matrix_download(struct run *run, const matrix *m);

/* Returns the transpose over the same memory and buffer: no element moves. */
matrix matrix_transposed(const matrix *m);

/* Fills with numbers uniform in [-1, 1], reproducibly by the seed. */
void matrix_randomise(const file_matrix *shape, void *data, uint64_t seed);

/* Computes C = A B on the device and waits. C is in C order; A and B may be in Fortran order, which
 * is sent as a transpose. */
bool matrix_multiply(struct run *run, const matrix *a, const matrix *b, const matrix *c,
                     trp_compute compute);

#endif
