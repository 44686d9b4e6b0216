/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/cache/store_bed.h"

#include "cache/disk.h"
#include "cache/store_parts.h"
#include "support/folder.h"
#include "support/reference/random.h"

#include <sys/stat.h>

char st_folder[PATH_MAX - 256], st_entries[PATH_MAX - 128];

int st_warnings;

char st_last_warning[512];

static void st_count_warning(void *user_data, int level, const char *line)
{
    (void)user_data;
    st_warnings += level >= TRP__LOG_WARNING;
    snprintf(st_last_warning, sizeof st_last_warning, "%s", line);
}

const trp__log st_log = {.sink = st_count_warning};

trp__store *st_open(uint64_t max_bytes)
{
    trp__store *store = NULL;
    trp__store_options options = {
        .folder = st_folder, .packs = "", .max_bytes = max_bytes, .log = &st_log};
    assert_int_equal(trp__store_open(&options, &store, NULL), TRP_OK);
    return store;
}

trp__key st_key(int n)
{
    char name[32];
    trp__key key = {0};
    snprintf(name, sizeof name, "kernel%d", n);
    trp__key_begin(&key, "test");
    trp__key_add_text(&key, TRP__KEY_NAME, name);
    trp__key_add_text(&key, TRP__KEY_SOURCE, "__global__ void k() {}");
    trp__key_add_text(&key, TRP__KEY_OPTION, "-O3");
    return key;
}

/* Payload n is `bytes` bytes that tell n. */
unsigned char *st_payload(int n, size_t bytes)
{
    unsigned char *payload = malloc(bytes ? bytes : 1);
    uint64_t rng = (uint64_t)n;
    for (size_t i = 0; i < bytes; i++)
        payload[i] = i % 8 ? (unsigned char)(payload[i - 1] + 1) : (unsigned char)random_next(&rng);
    return payload;
}

trp_status st_put(trp__store *store, int n, size_t bytes, trp_error *error)
{
    trp__key key = st_key(n);
    unsigned char *payload = st_payload(n, bytes);
    trp__store_request request = {.key = &key};
    trp__store_entry entry = {
        .payload = payload, .bytes = bytes, .note = "a note", .note_bytes = 7};
    trp_status status = trp__store_put(store, &request, &entry, error);
    free(payload);
    trp__key_end(&key);
    return status;
}

void st_is_payload(const trp__store_hit *hit, int n)
{
    unsigned char *payload = st_payload(n, hit->bytes);
    assert_memory_equal(hit->payload, payload, hit->bytes);
    assert_int_equal((uintptr_t)hit->payload % 64, 0);
    assert_int_equal(hit->note_bytes, 7);
    assert_memory_equal(hit->note, "a note", 7);
    free(payload);
}

bool st_has(trp__store *store, int n)
{
    trp__key key = st_key(n);
    trp__store_request request = {.key = &key};
    trp__store_hit hit;
    trp_status status = trp__store_find(store, &request, &hit);
    if (status == TRP_OK)
        st_is_payload(&hit, n);
    else
        assert_int_equal(status, TRP_E_MISSING);
    trp__store_hit_end(&hit);
    trp__key_end(&key);
    return status == TRP_OK;
}

void st_path(char *path, int n)
{
    char name[TRP__DISK_NAME];
    trp__key key = st_key(n);
    trp__hash hash = trp__key_hash(&key);
    trp__disk_name(name, &hash, TRP__ENTRY_PAYLOAD);
    snprintf(path, PATH_MAX, "%s/%s", st_entries, name);
    trp__key_end(&key);
}

int st_setup(void **state)
{
    (void)state;
    st_warnings = 0;
    h_folder_make(st_folder, sizeof st_folder, "troupe-store");
    snprintf(st_entries, sizeof st_entries, "%s/store", st_folder);
    return 0;
}

int st_teardown(void **state)
{
    (void)state;
    chmod(st_folder, 0700);
    chmod(st_entries, 0700);
    h_folder_remove(st_folder);
    return 0;
}
