/* What a search has found, kept in the kernel cache (cache/store.h): for one GPU model, driver and
 * version of what was searched among, by problem. All actors' records begin alike; what was chosen
 * follows, in the actor's own bytes. docs/cache-format.md has the format. */
#ifndef TRP_TUNING_RECORD_H
#define TRP_TUNING_RECORD_H

#include "cache/store.h"

#include <stddef.h>

typedef struct trp__tuning_result {
    uint32_t level;            /* TRP_TUNE_QUICK or _FULL */
    uint32_t candidates;       /* that were measured */
    float default_us, best_us; /* of one run; equal if what serves without a search stays */
} trp__tuning_result;

/* What it holds for, as text. */
typedef struct trp__tuning_site {
    char gpu[160];    /* "NVIDIA H200, 132 multiprocessors" */
    char target[16];  /* "sm_90" */
    char driver[32];  /* "for CUDA 13.0" */
    char library[48]; /* "cuBLASLt 13.1.0": what was searched among */
} trp__tuning_site;

/* All but the library. `compute`: 90 is compute capability 9.0. `driver`: what cuDriverGetVersion()
 * says. */
void trp__tuning_site_set(trp__tuning_site *site, const char *gpu, uint32_t processors,
                          uint32_t compute, int driver);

/* Begins the key of what was measured at a site: the problem for people, what was found, and a
 * setting with the version of the format. The caller adds the problem as bytes, and ends it. */
void trp__tuning_key_begin(trp__key *key, const char *kind, const trp__tuning_site *site,
                           const char *name, const char *output, const char *format,
                           uint32_t version);
void trp__tuning_key_setting(trp__key *key, const char *name, const char *value);

/* The version of records, of what the bytes of problems mean, and of the rules by which searches
 * choose. It is a setting of the key, too: versions of Troupe that differ in it don't replace each
 * other's records. */
enum { TRP__TUNING_VERSION = 4 };

/* What a record begins with. */
enum { TRP__TUNING_HEAD = 24 };
void trp__tuning_write(const trp__tuning_result *result, unsigned char bytes[TRP__TUNING_HEAD]);
/* False: these are none, or of another version. */
bool trp__tuning_read(const unsigned char bytes[TRP__TUNING_HEAD], trp__tuning_result *out);

/* Looks for a record of `size` bytes in a store, which may be NULL, and keeps one there. What can't
 * be kept is found again by the next process. */
bool trp__tuning_find(trp__store *store, const trp__key *key, unsigned char *out, size_t size);
void trp__tuning_keep(trp__store *store, const trp__key *key, const unsigned char *bytes,
                      size_t size);

#endif
