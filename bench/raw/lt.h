/* cuBLASLt, called as a program without Troupe would: the first algorithm that its heuristic
 * proposes, or the fastest of those, with a workspace of 32 MiB. Part of the raw side on a GPU. */
#ifndef TRP_BENCH_RAW_LT_H
#define TRP_BENCH_RAW_LT_H

#include "raw.h"

#include "driver/cuda.h"
#include "libs/cublaslt/cublaslt.h"

typedef struct raw_lt {
    const trp__cuda *cu;
    trp__cu_stream stream;
    char *error;             /* room for 320 bytes */
    const trp__cublaslt *lt; /* NULL: not loaded yet */
    trp__cublaslt_handle handle;
    trp__cu_address workspace, a, b, d;
    raw_product product;
    uint64_t a_bytes, b_bytes, d_bytes; /* of one copy */
    uint32_t next;                      /* copy */
    trp__cublaslt_desc desc;
    trp__cublaslt_layout layout[3]; /* of A, B, D */
    trp__cublaslt_algo algo;
    /* What follows a product. */
    trp__cu_module module; /* NULL: nothing */
    trp__cu_function fused;
    trp__cu_address second, bias, factors, out;
} raw_lt;

/* A is k x m and taken transposed, B is k x n, D is m x n, all column-major. What begin() has taken
 * end() gives back, also after a failure; close() the rest. */
bool raw_lt_begin(raw_lt *x, const raw_product *product, const void *piece, size_t piece_bytes);
bool raw_lt_run(raw_lt *x, uint64_t count); /* sends all, the first copy first, does not wait */
void raw_lt_end(raw_lt *x);
void raw_lt_close(raw_lt *x);

#endif
