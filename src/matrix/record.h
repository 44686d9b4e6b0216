/* What searches for products have found (tuning/record.h). */
#ifndef TRP_MATRIX_RECORD_H
#define TRP_MATRIX_RECORD_H

#include "matrix/plan.h"
#include "tuning/record.h"

typedef struct trp__matmul_record {
    trp__tuning_result result; /* of algorithms */
    trp__cublaslt_algo algo;
    uint64_t workspace; /* bytes */
} trp__matmul_record;

/* A problem in the words of `troupe tune`, and some that it does not have, as it is after a
 * row-major product was made a column-major one. */
void trp__matmul_problem_text(const trp__matmul *problem, char *text, size_t size);

/* The record's key in the store: the site, and all of `problem` but whether to search. The caller
 * ends it. */
void trp__matmul_record_key(const trp__tuning_site *site, const trp__matmul_key *problem,
                            trp__key *key);

/* A record as bytes: docs/cache-format.md has them. */
enum { TRP__MATMUL_RECORD_BYTES = 96 };
void trp__matmul_record_write(const trp__matmul_record *record,
                              unsigned char bytes[TRP__MATMUL_RECORD_BYTES]);
/* False: these are none, or of another version. */
bool trp__matmul_record_read(const unsigned char bytes[TRP__MATMUL_RECORD_BYTES],
                             trp__matmul_record *out);

/* Looks for a record in a store, which may be NULL, and keeps one there. */
bool trp__matmul_record_find(trp__store *store, const trp__key *key, trp__matmul_record *out);
void trp__matmul_record_keep(trp__store *store, const trp__key *key,
                             const trp__matmul_record *record);

#endif
