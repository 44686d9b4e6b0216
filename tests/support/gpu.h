/* Shared by the tests in gpu/. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_GPU_H
#define TESTS_SUPPORT_GPU_H

#include "support/harness.h"

/* h_main() on a GPU, with workers in processes of their own. */
int gpu_main(int argc, char **argv, const h_case *cases, size_t count);
#define GPU_CASES(...) H_MAIN((void)0, gpu_main, __VA_ARGS__)

/* Selects rows of a list: all or, with TROUPE_TEST_ONLY=3, the third one alone, since several
 * processes compile faster than one. Returns the index of the first row and sets their count; 0:
 * none. */
size_t gpu_chosen(size_t *count);

/* A kernel of the catalogue, as `troupe cutlass kernels` prints it. */
typedef struct gpu_row {
    char name[64], inputs[32], device[16];
    int align; /* elements of A and B per load */
} gpu_row;

/* Selects kernels whose names contain a word (and TROUPE_TEST_ROW, if set); NULL: kernels of plain
 * products. With TROUPE_TEST_SHARD=2/16, takes the third, the nineteenth, and so on, so that 16
 * processes share the compiles. Fails if no name matches. The caller frees the array. */
gpu_row *gpu_rows(const char *word, size_t *count);

/* Returns whether the device can run a kernel. */
bool gpu_row_fits(const gpu_row *row, trp_device *device);

/* Sends a request for each kernel that the device can run, several at a time, whose kernels are
 * compiled concurrently, and checks results in order. `at`: the request's place, below
 * GPU_ROWS_AT_ONCE. */
enum { GPU_ROWS_AT_ONCE = 8 };
typedef void (*gpu_row_send)(const gpu_row *row, size_t at);
typedef void (*gpu_row_check)(size_t at);
void gpu_each_row(const char *word, trp_device *device, gpu_row_send send, gpu_row_check check);

/* An empty cache for compiled kernels, until the end of the case. */
typedef struct gpu_cache {
    char folder[256];
} gpu_cache;

gpu_cache gpu_empty_cache(void);
void gpu_drop_cache(const gpu_cache *cache);

/* Fails unless a library ran the product until the kernel was compiled (NULL: unless the kernel
 * ran). Without a GPU, the compile may be done by then. */
void gpu_check_fallback(const trp_cutlass_chosen *chosen, const char *library);

/* Return small multiples of 1/16 and upload them; the caller frees both. */
float *gpu_floats(trp_device *device, int count, trp_buffer *buffer);

/* Allowed deviation of a result: half a unit in the last place near 1 in D's type and, for each
 * unit of the terms' magnitudes, the loss of the sum. */
double gpu_rounding(trp_dtype type);
double gpu_sum_error(trp_dtype input, trp_compute compute);

/* A matrix in memory, or several at a stride, in elements. */
typedef struct gpu_matrix {
    trp_dtype type;
    bool by_row;
    size_t ld, stride, elements;
    unsigned char *data;
    trp_buffer buffer;
} gpu_matrix;

/* Fills a matrix, with small integers if its type holds no others, and uploads it. An output gets
 * arbitrary bytes. */
void gpu_matrix_make(trp_device *device, gpu_matrix *x, bool is_output);
void gpu_matrix_free(trp_device *device, gpu_matrix *x);
/* Returns the matrix as a request has it. */
trp_matmul_matrix gpu_matrix_of(const gpu_matrix *x);

size_t gpu_matrix_bytes(const gpu_matrix *x);
/* Returns the index of an element in lines of `ld` elements, and the value at an index of `data`.
 */
size_t gpu_matrix_at(const gpu_matrix *x, size_t ld, int i, int j);
double gpu_matrix_load(const gpu_matrix *x, const unsigned char *data, size_t index);

#endif
