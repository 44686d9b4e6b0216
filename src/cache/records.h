/* A table on disk: values of a fixed size by keys of a fixed size, for one identity (a GPU, a
 * driver, the version of a library), whose change makes it another table. A file in the cache
 * folder that is only appended to; several processes may do so at a time. What is damaged, of
 * another version, or not ours to trust is as if it were not there; what can't be written is kept
 * in memory. Not thread-safe. */
#ifndef TRP_CACHE_RECORDS_H
#define TRP_CACHE_RECORDS_H

#include <troupe/status.h>

#include <stddef.h>
#include <stdint.h>

typedef struct trp__records trp__records;

/* What the file begins with. */
#define TRP__RECORDS_IDENTITY 256

/* Opens the table of `kind` ("matmul") and `identity`, at most 255 bytes, and reads what is there.
 * TRP_E_MEMORY. */
trp_status trp__records_open(const char *kind, const char *identity, size_t key_bytes,
                             size_t value_bytes, trp__records **out, trp_error *error);

/* NULL is ignored. */
void trp__records_close(trp__records *records);

/* The last value that was added for a key, by whatever process; NULL if there is none. Valid until
 * the next call. */
const void *trp__records_find(trp__records *records, const void *key);

/* Adds a value, in memory at least. An error says why it is not on disk. */
trp_status trp__records_add(trp__records *records, const void *key, const void *value,
                            trp_error *error);

uint32_t trp__records_count(const trp__records *records);

#endif
