/* What searches have found, kept in the kernel cache (cache/store.h): for one GPU model, driver and
 * version of the library, by problem. */
#ifndef TRP_MATRIX_RECORD_H
#define TRP_MATRIX_RECORD_H

#include "cache/store.h"
#include "matrix/plan.h"

/* What a search has found. */
typedef struct trp__matmul_record {
    trp__cublaslt_algo algo;
    uint64_t workspace;        /* bytes */
    float default_us, best_us; /* of one product; equal if the first algorithm stays */
    uint32_t candidates;       /* that were timed */
    uint32_t full;             /* it was a full search */
} trp__matmul_record;

/* What it holds for, as text. */
typedef struct trp__matmul_site {
    char gpu[160];    /* "NVIDIA H200, 132 multiprocessors" */
    char target[16];  /* "sm_90" */
    char driver[32];  /* "for CUDA 13.0" */
    char library[48]; /* "cuBLASLt 13.1.0" */
} trp__matmul_site;

/* A problem in the words of `troupe tune`, and some that it does not have, as it is after a
 * row-major product was made a column-major one. */
void trp__matmul_problem_text(const trp__matmul *problem, char *text, size_t size);

/* The record's key in the store: the site, and all of `problem` but whether to search. The caller
 * ends it. */
void trp__matmul_record_key(const trp__matmul_site *site, const trp__matmul_key *problem,
                            trp__key *key);

/* A record as bytes: docs/cache-format.md has them. */
enum { TRP__MATMUL_RECORD_BYTES = 96 };
void trp__matmul_record_write(const trp__matmul_record *record,
                              unsigned char bytes[TRP__MATMUL_RECORD_BYTES]);
/* False: these are none, or of another version. */
bool trp__matmul_record_read(const void *bytes, size_t size, trp__matmul_record *out);

/* Looks for a record in a store, which may be NULL, and keeps one there. */
bool trp__matmul_record_find(trp__store *store, const trp__key *key, trp__matmul_record *out);
void trp__matmul_record_keep(trp__store *store, const trp__key *key,
                             const trp__matmul_record *record);

#endif
