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

/* "1000 x 1200 f32"; of a vector "1000 f32". */
typedef struct matrix_text {
    char s[64];
} matrix_text;
matrix_text matrix_describe(const matrix *m);

trp_dtype matrix_dtype(const matrix *m);

/* Opens a file, which must be a matrix of f32 or f64; NULL after telling what is wrong. */
trp_io_file *matrix_open(const char *path, matrix *m);

/* The shape of a fresh matrix in C order. False, and told, if it would be too large to address. */
bool matrix_shape(matrix *m, trp_dtype type, uint64_t rows, uint64_t cols);

/* Gets host memory and a device buffer for m->shape, reads the file into the former. */
bool matrix_place(struct run *run, matrix *m);
bool matrix_read_file(matrix *m, trp_io_file *file);

/* Gives both back. Everything sent must have completed. */
void matrix_release(struct run *run, matrix *m);

/* Copies between host memory and buffer, and waits. */
bool matrix_upload(struct run *run, const matrix *m);
bool matrix_download(struct run *run, const matrix *m);

/* The transpose over the same memory and buffer: no element moves. */
matrix matrix_transposed(const matrix *m);

/* Uniform in [-1, 1], the same for the same seed. */
void matrix_randomise(const file_matrix *shape, void *data, uint64_t seed);

/* C = A B on the device, waited for; the buffers hold all three. C is in C order, A and B in any:
 * an operand in Fortran order is sent as the transpose of what lies in memory. */
bool matrix_multiply(struct run *run, const matrix *a, const matrix *b, const matrix *c,
                     trp_compute compute);

/* Whether A B exists for these two; else tells why not. The strings are their names. */
bool matrix_agree(const char *a_name, const matrix *a, const char *b_name, const matrix *b);

#endif
