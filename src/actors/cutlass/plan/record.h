/* Tuning records of searches among kernels (tuning/record.h). */
#ifndef TRP_ACTORS_CUTLASS_PLAN_RECORD_H
#define TRP_ACTORS_CUTLASS_PLAN_RECORD_H

#include "actors/cutlass/plan/plans.h"
#include "tuning/record.h"

typedef struct trp__cutlass_record {
    trp__tuning_result result; /* of kernels with settings */
    trp__cutlass_settings settings;
    char kernel[TRP_CUTLASS_NAME_SIZE];
} trp__cutlass_record;

/* The record's key in the store. The caller ends it. */
void trp__cutlass_record_key(const trp__tuning_site *site, const trp__cutlass_choice_key *problem,
                             trp__key *key);

/* A record as bytes: docs/cache-format.md has them. */
enum { TRP__CUTLASS_RECORD_BYTES = 108 };
void trp__cutlass_record_write(const trp__cutlass_record *record,
                               unsigned char bytes[TRP__CUTLASS_RECORD_BYTES]);
/* False: these are none, or of another version. Whether there is such a kernel, and such settings
 * of it, is for the reader to find out. */
bool trp__cutlass_record_read(const unsigned char bytes[TRP__CUTLASS_RECORD_BYTES],
                              trp__cutlass_record *out);

/* Looks for a record in a store, which may be NULL. */
bool trp__cutlass_record_find(trp__store *store, const trp__key *key, trp__cutlass_record *out);

/* Keeps one under the bytes of its key. */
void trp__cutlass_record_keep(trp__store *store, const void *key_bytes, size_t length,
                              const trp__cutlass_record *record);

#endif
