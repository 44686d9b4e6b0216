/* A store in a folder of its own, for each case a new one: entry n has a key and a payload that
 * tell n. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_CACHE_STORE_BED_H
#define TESTS_UNIT_CACHE_STORE_BED_H

#include "base/error.h"
#include "cache/store.h"
#include "support/unit.h"

#include <limits.h>

extern char st_folder[PATH_MAX - 256], st_entries[PATH_MAX - 128];
extern int st_warnings;
extern char st_last_warning[512];
extern const trp__log st_log;
trp__store *st_open(uint64_t max_bytes);
trp__key st_key(int n);
/* Payload n is `bytes` bytes that tell n. */
unsigned char *st_payload(int n, size_t bytes);
trp_status st_put(trp__store *store, int n, size_t bytes, trp_error *error);
void st_is_payload(const trp__store_hit *hit, int n);
bool st_has(trp__store *store, int n);
void st_path(char *path, int n);
int st_setup(void **state);
int st_teardown(void **state);

#define STORE_CASE(name) cmocka_unit_test_setup_teardown(name, st_setup, st_teardown)

#endif
