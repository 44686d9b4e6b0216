/* What the tests in gpu/ share. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_GPU_H
#define TESTS_SUPPORT_GPU_H

#include "support/harness.h"

/* h_main() on a GPU, with workers that are processes. */
int gpu_main(int argc, char **argv, const h_case *cases, size_t count);
#define GPU_CASES(...) H_MAIN((void)0, gpu_main, __VA_ARGS__)

/* Which of a list are to be run: all, or with TROUPE_TEST_ONLY=3 the third alone, since several
 * processes compile faster than one. Returns the index of the first and sets their count; 0: none.
 */
size_t gpu_chosen(size_t *count);

/* A kernel of the catalogue, as `troupe cutlass kernels` prints it. */
typedef struct gpu_row {
    char name[64], inputs[32], device[16];
    int align; /* elements of A and B that it loads at once */
} gpu_row;

/* Those whose names have the word in them (and TROUPE_TEST_ROW, if it is set), or with NULL those
 * of products alone; of these, with TROUPE_TEST_SHARD=2/16, the third, nineteenth, ..., so
 * that 16 processes share the compiling. Fails the test if no name is meant. The caller frees them.
 */
gpu_row *gpu_rows(const char *word, size_t *count);

/* Whether the device can have it. */
bool gpu_row_fits(const gpu_row *row, trp_device *device);

/* Sends something to each of them that the device can have, some at once, whose kernels are
 * compiled side by side, and checks them in order. `at`: which of those it is, below
 * GPU_ROWS_AT_ONCE. */
enum { GPU_ROWS_AT_ONCE = 8 };
typedef void (*gpu_row_send)(const gpu_row *row, size_t at);
typedef void (*gpu_row_check)(size_t at);
void gpu_each_row(const char *word, trp_device *device, gpu_row_send send, gpu_row_check check);

/* An empty folder for compiled kernels, from here to the end of the case. */
typedef struct gpu_cache {
    char folder[256];
} gpu_cache;

gpu_cache gpu_empty_cache(void);
void gpu_drop_cache(const gpu_cache *cache);

/* Fails the test unless a library has been chosen until the kernel is compiled (NULL: the kernel).
 * A driver that is not a GPU's may have compiled it by then. */
void gpu_check_fallback(const trp_cutlass_chosen *chosen, const char *library);

/* Small multiples of 1/16, uploaded; the caller frees both. */
float *gpu_floats(trp_device *device, int count, trp_buffer *buffer);

/* What is allowed of a result's deviation. Half a unit in the last place of a value near 1 of D's
 * type; and, for each unit of the terms' magnitudes, what a sum loses. */
double gpu_rounding(trp_dtype type);
double gpu_sum_error(trp_dtype input, trp_compute compute);

/* A matrix, or several at a distance, as they lie in memory; in elements. */
typedef struct gpu_matrix {
    trp_dtype type;
    bool by_row;
    size_t ld, stride, elements;
    unsigned char *data;
    trp_buffer buffer;
} gpu_matrix;

/* Fills it, with small integers if its type has no others, and uploads that. An output gets any
 * bytes. */
void gpu_matrix_make(trp_device *device, gpu_matrix *x, bool is_output);
void gpu_matrix_free(trp_device *device, gpu_matrix *x);
/* As a request has it. */
trp_matmul_matrix gpu_matrix_of(const gpu_matrix *x);

size_t gpu_matrix_bytes(const gpu_matrix *x);
/* Where an element is in such lines of `ld` elements; and what `data` has at an index. */
size_t gpu_matrix_at(const gpu_matrix *x, size_t ld, int i, int j);
double gpu_matrix_load(const gpu_matrix *x, const unsigned char *data, size_t index);

#endif
