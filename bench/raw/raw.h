/* The raw side: what a program would call without Troupe, in this process.
 *
 * A function that returns false has described in raw->error what failed. One that takes `count`
 * does so many operations and returns when all are done. */
#ifndef TRP_BENCH_RAW_RAW_H
#define TRP_BENCH_RAW_RAW_H

#include <troupe/types.h>

typedef struct raw raw;

/* D = A^T B, column-major: A is k x m, B k x n. There are several of each, one behind the other,
 * and each product takes the next: as a program has its weights in memory and not in the cache. */
typedef struct raw_product {
    trp_dtype type, type_d;
    int64_t m, n, k;
    uint32_t copies;
    bool best;        /* the fastest of all algorithms that are proposed, instead of the first */
    const void *then; /* the image of RAW_FUSED, which is launched after each product; NULL: none */
} raw_product;

/* A kernel that does with D, line by line, what an epilogue of bias, gelu, factors and a second
 * matrix does: (D, that matrix, bias, factors, out, vectors of 16 bytes in a line). */
#define RAW_FUSED "bench_fused"

typedef enum raw_direction { RAW_TO_DEVICE, RAW_TO_HOST } raw_direction;

enum { RAW_ALLOCATORS = 2 };

/* A function that is NULL stands for what has no raw counterpart on this backend; the labels say
 * what is called. */
typedef struct raw_api {
    void (*close)(raw *r);

    const char *round_trip_label;
    bool (*round_trip)(raw *r, uint64_t count); /* launches an empty kernel, waits; each time */

    const char *launch_label;
    bool (*launch)(raw *r, uint64_t count); /* launches all, waits once */

    const char *gemm_label;
    bool (*gemm_supports)(trp_dtype type);
    /* Takes memory for C = A B, n x n, column-major; A and B are copied, C is poisoned. There are
     * so many copies of each, and each product takes the next. */
    bool (*gemm_begin)(raw *r, trp_dtype type, int n, const void *a, const void *b, size_t bytes,
                       uint32_t copies);
    bool (*gemm)(raw *r, uint64_t count); /* sends all, waits once */
    bool (*gemm_result)(raw *r, void *c, size_t bytes);
    void (*gemm_end)(raw *r); /* also after gemm_begin() has failed */

    const char *matmul_label;
    /* A and B are filled with the piece, again and again. */
    bool (*matmul_begin)(raw *r, const raw_product *product, const void *piece, size_t bytes);
    bool (*matmul)(raw *r, uint64_t count); /* sends all, waits once */
    bool (*matmul_result)(raw *r, void *d, size_t bytes);
    void (*matmul_end)(raw *r); /* also after matmul_begin() has failed */

    /* Takes device memory for copies, and host memory that the device reaches directly. */
    bool (*copy_begin)(raw *r, uint64_t bytes, bool pinned);
    void (*copy_end)(raw *r); /* also after copy_begin() has failed */
    const char *pinned_label;
    bool (*copy_pinned)(raw *r, raw_direction direction, uint64_t bytes, uint64_t count);
    const char *pageable_label[2]; /* by direction */
    bool (*copy_pageable)(raw *r, raw_direction direction, void *memory, uint64_t bytes,
                          uint64_t count);

    struct {
        const char *label;
        bool (*pairs)(raw *r, uint64_t bytes, uint64_t count); /* allocates and frees */
    } allocator[RAW_ALLOCATORS];
} raw_api;

struct raw {
    const raw_api *api;
    char error[320];
    char driver_version[16]; /* "13.0"; empty on the host */
    char blas_version[64];   /* "cuBLAS 13.1.0"; empty if there is none */
};

/* The CUDA driver in this process's primary context, with a stream of its own; cuBLAS, if found.
 * NULL: `message` says why. */
raw *raw_cuda_open(uint32_t ordinal, char *message, size_t message_size);

/* Loads an image as the first of this process, which must have no context, launches its kernel with
 * a null pointer for its parameter, and waits: *ns is what that took. The context and a stream that
 * has been used are made before. */
bool raw_cuda_first_load(uint32_t ordinal, const void *image, const char *kernel, double *ns,
                         char *message, size_t message_size);

/* memcpy, malloc, and OpenBLAS if found. */
raw *raw_host_open(char *message, size_t message_size);

#endif
