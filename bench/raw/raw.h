/* The raw side: the direct calls of a program without Troupe, in this process.
 *
 * A function that returns false has stored the reason in raw->error. One with a `count` performs
 * that many operations and returns when all are done. */
#ifndef TRP_BENCH_RAW_RAW_H
#define TRP_BENCH_RAW_RAW_H

#include <troupe/types.h>

typedef struct raw raw;

/* D = A^T B, column-major: A is k x m, B k x n. There are several consecutive copies, used in
 * rotation, so that operands come from memory and not from the cache, like a program's weights. */
typedef struct raw_product {
    trp_dtype type, type_d;
    int64_t m, n, k;
    uint32_t copies;
    bool best;        /* use the fastest of the proposed algorithms */
    const void *then; /* image of RAW_FUSED, launched after each product, or NULL */
} raw_product;

/* The kernel that applies to D, line by line, what an epilogue of bias, gelu, factors and a second
 * matrix computes. Parameters: D, that matrix, bias, factors, output, 16-byte vectors per line. */
#define RAW_FUSED "bench_fused"

typedef enum raw_direction { RAW_TO_DEVICE, RAW_TO_HOST } raw_direction;

enum { RAW_ALLOCATORS = 2 };

/* A NULL function has no raw counterpart on this backend; the labels name the calls. */
typedef struct raw_api {
    void (*close)(raw *r);

    const char *round_trip_label;
    bool (*round_trip)(raw *r, uint64_t count); /* launches an empty kernel and waits, each time */

    const char *launch_label;
    bool (*launch)(raw *r, uint64_t count); /* launches all, waits once */

    const char *gemm_label;
    bool (*gemm_supports)(trp_dtype type);
    /* Allocates memory for C = A B, n x n, column-major; copies A and B and poisons C. Products use
     * the copies in rotation. */
    bool (*gemm_begin)(raw *r, trp_dtype type, int n, const void *a, const void *b, size_t bytes,
                       uint32_t copies);
    bool (*gemm)(raw *r, uint64_t count); /* sends all, waits once */
    bool (*gemm_result)(raw *r, void *c, size_t bytes);
    void (*gemm_end)(raw *r); /* also after gemm_begin() has failed */

    const char *matmul_label;
    /* Fills A and B with copies of the piece. */
    bool (*matmul_begin)(raw *r, const raw_product *product, const void *piece, size_t bytes);
    bool (*matmul)(raw *r, uint64_t count); /* sends all, waits once */
    bool (*matmul_result)(raw *r, void *d, size_t bytes);
    void (*matmul_end)(raw *r); /* also after matmul_begin() has failed */

    /* Allocates device memory for copies, and host memory that the device accesses directly. */
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
    char blas_version[64];   /* empty without a library */
};

/* Opens the CUDA driver in this process's primary context with a separate stream, and cuBLAS if
 * found. Returns NULL with the reason in `message`. */
raw *raw_cuda_open(uint32_t ordinal, char *message, size_t message_size);

/* Loads the first image of this process, which must have no context, launches its kernel with a
 * null parameter, and waits; *ns is the duration. The context and a used stream exist before the
 * measurement starts. */
bool raw_cuda_first_load(uint32_t ordinal, const void *image, const char *kernel, double *ns,
                         char *message, size_t message_size);

/* Uses memcpy, malloc, and OpenBLAS if found. */
raw *raw_host_open(char *message, size_t message_size);

#endif
