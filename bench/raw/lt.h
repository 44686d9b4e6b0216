/* Direct calls of cuBLASLt with its heuristic's first algorithm or the fastest of the proposed
 * ones, and a workspace of 32 MiB. Part of the raw side on a GPU. */
#ifndef TRP_BENCH_RAW_LT_H
#define TRP_BENCH_RAW_LT_H

#include "raw.h"

#include "driver/cuda.h"
#include "libs/cublaslt/cublaslt.h"

typedef struct raw_lt {
    const trp__cuda *cu;
    trp__cu_stream stream;
    char *error;             /* room for 320 bytes */
    const trp__cublaslt *lt; /* NULL: not loaded */
    trp__cublaslt_handle handle;
    trp__cu_address workspace, a, b, d;
    raw_product product;
    uint64_t a_bytes, b_bytes, d_bytes; /* bytes of one copy */
    uint32_t next;                      /* index of the copy to use next */
    trp__cublaslt_desc desc;
    trp__cublaslt_layout layout[3]; /* layouts of A, B, D */
    trp__cublaslt_algo algo;
    /* The kernel after a product. */
    trp__cu_module module; /* NULL: no kernel follows */
    trp__cu_function fused;
    trp__cu_address second, bias, factors, out;
} raw_lt;

/* A is k x m and used transposed, B is k x n, D is m x n, all column-major. Call raw_lt_end() also
 * after a failed raw_lt_begin(); raw_lt_close() releases the library's handles. */
bool raw_lt_begin(raw_lt *x, const raw_product *product, const void *piece, size_t piece_bytes);
bool raw_lt_run(raw_lt *x, uint64_t count); /* sends all, starting with the first copy, without
                                             * waiting */
void raw_lt_end(raw_lt *x);
void raw_lt_close(raw_lt *x);

#endif
