/* Tuning records: results of searches, stored in the kernel cache (cache/store.h) by problem, GPU
 * model, driver and library version. All actors' records begin with the same head; the actor's own
 * bytes follow. docs/cache-format.md has the format. */
#ifndef TRP_TUNING_RECORD_H
#define TRP_TUNING_RECORD_H

#include "cache/store.h"

#include <stddef.h>

typedef struct trp__tuning_result {
    uint32_t level;            /* TRP_TUNE_QUICK or _FULL */
    uint32_t candidates;       /* measured ways */
    float default_us, best_us; /* of one run; equal if the default way won */
} trp__tuning_result;

/* The device and versions for which a record is valid, as text. */
typedef struct trp__tuning_site {
    char gpu[160];    /* "NVIDIA H200, 132 multiprocessors" */
    char target[16];  /* "sm_90" */
    char driver[32];  /* "for CUDA 13.0" */
    char library[48]; /* whose algorithms were searched */
} trp__tuning_site;

/* Sets everything except the library. `compute`: 90 is compute capability 9.0. `driver`: the result
 * of cuDriverGetVersion(). */
void trp__tuning_site_set(trp__tuning_site *site, const char *gpu, uint32_t processors,
                          uint32_t compute, int driver);

/* Describes a device but for the library, from any thread without a context. */
trp_status trp__tuning_site_of(trp__tuning_site *site, uint32_t ordinal, trp_error *error);

/* Begins the key of a record: the problem as text, the kind of output, and a setting with the
 * version of the format. The caller adds the problem as bytes, and ends the key. */
void trp__tuning_key_begin(trp__key *key, const char *kind, const trp__tuning_site *site,
                           const char *name, const char *output, const char *format,
                           uint32_t version);
void trp__tuning_key_setting(trp__key *key, const char *name, const char *value);

/* Version of records, of the bytes of problems, and of the rules of searches. It is also a setting
 * of the key, so versions of Troupe that differ in it don't replace each other's records. */
enum { TRP__TUNING_VERSION = 4 };

/* The head of a record. */
enum { TRP__TUNING_HEAD = 24 };
void trp__tuning_write(const trp__tuning_result *result, unsigned char bytes[TRP__TUNING_HEAD]);
/* False: no record, or of another version. */
bool trp__tuning_read(const unsigned char bytes[TRP__TUNING_HEAD], trp__tuning_result *out);

/* Finds and stores a record of `size` bytes in a store, which may be NULL. A failure to store is
 * ignored: the next process searches again. */
bool trp__tuning_find(trp__store *store, const trp__key *key, unsigned char *out, size_t size);
void trp__tuning_keep(trp__store *store, const trp__key *key, const unsigned char *bytes,
                      size_t size);

#endif
