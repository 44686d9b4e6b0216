/* Records of the results of searches for products (tuning/record.h). */
#ifndef TRP_MATRIX_RECORD_H
#define TRP_MATRIX_RECORD_H

#include "matrix/plan.h"
#include "tuning/record.h"

typedef struct trp__matmul_record {
    trp__tuning_result result; /* of the search */
    trp__cublaslt_algo algo;
    uint64_t workspace; /* bytes */
} trp__matmul_record;

/* Describes a problem in the words of `troupe tune`, and some more. A row-major product is
 * described by its column-major equivalent. */
void trp__matmul_problem_text(const trp__matmul *problem, char *text, size_t size);

/* Makes the key of a record in the store: the site, and all of `problem` except the level of
 * search. The caller ends it. */
void trp__matmul_record_key(const trp__tuning_site *site, const trp__matmul_key *problem,
                            trp__key *key);

/* Conversion of records to bytes (docs/cache-format.md). */
enum { TRP__MATMUL_RECORD_BYTES = 96 };
void trp__matmul_record_write(const trp__matmul_record *record,
                              unsigned char bytes[TRP__MATMUL_RECORD_BYTES]);
/* Returns false if the bytes are no record, or one of another version. */
bool trp__matmul_record_read(const unsigned char bytes[TRP__MATMUL_RECORD_BYTES],
                             trp__matmul_record *out);

/* Find and keep a record in a store, which may be NULL. */
bool trp__matmul_record_find(trp__store *store, const trp__key *key, trp__matmul_record *out);
void trp__matmul_record_keep(trp__store *store, const trp__key *key,
                             const trp__matmul_record *record);

#endif
