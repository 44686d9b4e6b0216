/* The raw side on the host: the C library and OpenBLAS. */
#include "raw.h"

#include "libs/openblas/openblas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POISON = 0xff }; /* a NaN in every element type */

typedef struct raw_host {
    raw base;
    const trp__openblas *blas; /* NULL: missing */
    int n;
    size_t bytes; /* bytes of one copy of each matrix */
    uint32_t copies, next;
    trp_dtype type;
    void *a, *b, *c;
    void *memory, *other; /* for copies */
} raw_host;

static raw_host *of(raw *r)
{
    return (raw_host *)r; /* its first member */
}

static bool fail(raw_host *r, const char *message)
{
    snprintf(r->base.error, sizeof r->base.error, "%s", message);
    return false;
}

/* Returns memory whose pages are all present. */
static void *touched(uint64_t bytes, int value)
{
    void *memory = malloc(bytes);
    if (memory)
        memset(memory, value, bytes);
    return memory;
}

static bool host_gemm_supports(trp_dtype type)
{
    return type == TRP_F64 || type == TRP_F32;
}

static bool host_gemm_begin(raw *base, trp_dtype type, int n, const void *a, const void *b,
                            size_t bytes, uint32_t copies)
{
    raw_host *r = of(base);
    if (!r->blas)
        return fail(r, "OpenBLAS was not found");
    r->n = n;
    r->type = type;
    r->bytes = bytes;
    r->copies = copies;
    r->next = 0;
    r->a = malloc(bytes * copies);
    r->b = malloc(bytes * copies);
    r->c = touched(bytes * copies, POISON);
    if (!r->a || !r->b || !r->c)
        return fail(r, "no memory");
    for (uint32_t i = 0; i < copies; i++) {
        memcpy((char *)r->a + i * bytes, a, bytes);
        memcpy((char *)r->b + i * bytes, b, bytes);
    }
    return true;
}

static bool host_gemm(raw *base, uint64_t count)
{
    raw_host *r = of(base);
    int n = r->n;
    for (uint64_t i = 0; i < count; i++, r->next = r->next + 1 < r->copies ? r->next + 1 : 0) {
        size_t at = r->next * r->bytes;
        void *a = (char *)r->a + at, *b = (char *)r->b + at, *c = (char *)r->c + at;
        if (r->type == TRP_F64)
            r->blas->cblas_dgemm(TRP__CBLAS_COLUMN_MAJOR, TRP__CBLAS_NO_TRANS, TRP__CBLAS_NO_TRANS,
                                 n, n, n, 1, a, n, b, n, 0, c, n);
        else
            r->blas->cblas_sgemm(TRP__CBLAS_COLUMN_MAJOR, TRP__CBLAS_NO_TRANS, TRP__CBLAS_NO_TRANS,
                                 n, n, n, 1, a, n, b, n, 0, c, n);
    }
    return true;
}

static bool host_gemm_result(raw *base, void *c, size_t bytes)
{
    memcpy(c, of(base)->c, bytes);
    return true;
}

static void host_gemm_end(raw *base)
{
    raw_host *r = of(base);
    free(r->a);
    free(r->b);
    free(r->c);
    r->a = r->b = r->c = NULL;
}

static bool host_copy_begin(raw *base, uint64_t bytes, bool pinned)
{
    raw_host *r = of(base);
    r->memory = touched(bytes, 0xa5);
    r->other = pinned ? touched(bytes, 0x5a) : NULL;
    return (r->memory && (r->other || !pinned)) || fail(r, "no memory");
}

static void host_copy_end(raw *base)
{
    raw_host *r = of(base);
    free(r->memory);
    free(r->other);
    r->memory = r->other = NULL;
}

static bool host_copy_pageable(raw *base, raw_direction direction, void *memory, uint64_t bytes,
                               uint64_t count)
{
    raw_host *r = of(base);
    for (uint64_t i = 0; i < count; i++) {
        memcpy(direction == RAW_TO_DEVICE ? r->memory : memory,
               direction == RAW_TO_DEVICE ? memory : r->memory, bytes);
        __asm__ volatile("" ::: "memory"); /* keeps the compiler from removing copies */
    }
    return true;
}

static bool host_copy_pinned(raw *base, raw_direction direction, uint64_t bytes, uint64_t count)
{
    return host_copy_pageable(base, direction, of(base)->other, bytes, count);
}

static bool host_pairs(raw *base, uint64_t bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        void *volatile memory = malloc(bytes); /* volatile: the pair is not optimised away */
        if (!memory)
            return fail(of(base), "no memory");
        free(memory);
    }
    return true;
}

static void host_close(raw *base)
{
    host_gemm_end(base);
    host_copy_end(base);
    free(base);
}

static const raw_api api = {
    .close = host_close,
    .gemm_label = "cblas_sgemm, cblas_dgemm",
    .gemm_supports = host_gemm_supports,
    .gemm_begin = host_gemm_begin,
    .gemm = host_gemm,
    .gemm_result = host_gemm_result,
    .gemm_end = host_gemm_end,
    .copy_begin = host_copy_begin,
    .copy_end = host_copy_end,
    .pinned_label = "memcpy in one thread",
    .copy_pinned = host_copy_pinned,
    .pageable_label = {"memcpy in one thread", "memcpy in one thread"},
    .copy_pageable = host_copy_pageable,
    .allocator = {{"malloc + free, untouched", host_pairs}},
};

raw *raw_host_open(char *message, size_t message_size)
{
    raw_host *r = calloc(1, sizeof *r);
    if (!r) {
        snprintf(message, message_size, "no memory");
        return NULL;
    }
    r->base.api = &api;
    if (trp__openblas_load(&r->blas, NULL) == TRP_OK) {
        char version[32];
        trp__openblas_version(r->blas, version, sizeof version);
        snprintf(r->base.blas_version, sizeof r->base.blas_version, "OpenBLAS %s", version);
    } else {
        r->blas = NULL;
    }
    return &r->base;
}
