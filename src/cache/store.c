#include "cache/store.h"

#include "base/error.h"
#include "base/fault_point.h"
#include "base/os/share.h"
#include "cache/claim.h"
#include "cache/disk.h"
#include "cache/headers.h"
#include "cache/pack.h"
#include "cache/prune.h"
#include "cache/store_parts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Opening. */

bool trp__store_parse_bytes(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    uint64_t number = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(number, UINT64_C(10), &number) ||
            __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number))
            return false;
    }
    const char *unit = at != text && *at ? strchr(units, *at) : NULL;
    for (const char *u = units; unit && u <= unit; u++) {
        if (__builtin_mul_overflow(number, UINT64_C(1024), &number))
            return false;
    }
    *bytes = number;
    return at != text && (*at == '\0' || (unit && at[1] == '\0'));
}

static uint64_t bound(const trp__store_options *options)
{
    const char *text = secure_getenv("TROUPE_CACHE_SIZE");
    uint64_t bytes = TRP__STORE_BYTES_DEFAULT;
    if (options->max_bytes > 0)
        return options->max_bytes;
    if (text && *text && !trp__store_parse_bytes(text, &bytes)) {
        bytes = TRP__STORE_BYTES_DEFAULT;
        trp__log_line(options->log, TRP__LOG_WARNING,
                      "TROUPE_CACHE_SIZE: expected bytes, as in 500M or 2G, got '%.40s'; the cache "
                      "is bounded by 2G",
                      text);
    }
    return bytes;
}

static void find_place(trp__disk *disk, const char *folder)
{
    const char *own = secure_getenv("TROUPE_CACHE_DIR");
    trp_error why;
    if (folder ? *folder == '\0' : own && *own == '\0') {
        disk->absent = true;
    } else if (folder) {
        trp__copy_string(disk->place.path, sizeof disk->place.path, folder);
    } else if (trp__cache_place_find(&disk->place, &why) != TRP_OK) {
        disk->absent = true;
        trp__log_line(disk->log, TRP__LOG_WARNING, "the kernel cache is not used: %s", why.message);
    }
}

/* Opens a pack; one that can't be used is logged and left out. */
static trp_status open_pack(trp__store *store, const char *path, trp_error *error)
{
    trp_error why;
    trp_status status = trp__cache_pack_open(path, &store->pack[store->pack_count], &why);
    if (status == TRP_E_MEMORY)
        return trp__error_set(error, status, "%s", why.message);
    if (status == TRP_OK)
        store->pack_count++;
    else
        trp__log_line(store->disk.log, TRP__LOG_WARNING, "a pack is left out: %s", why.message);
    return TRP_OK;
}

/* Packs beside the library: kernels of the dnn actor, and those of CUTLASS. */
static const char *const installed_packs[] = {"kernels.trpk", "default.trpk"};

enum { INSTALLED = sizeof installed_packs / sizeof *installed_packs };

/* Opens the packs of a colon-separated list, then those installed with the library. */
static trp_status open_packs(trp__store *store, const char *list, bool installed, trp_error *error)
{
    char path[PATH_MAX];
    size_t count = 1 + INSTALLED;
    trp_status status = TRP_OK;
    for (const char *at = list; *at; at++)
        count += *at == ':';
    store->pack = calloc(count, sizeof(trp__cache_pack *));
    if (!store->pack)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a list of packs");
    for (const char *at = list, *end; *at && status == TRP_OK; at = *end ? end + 1 : end) {
        end = strchrnul(at, ':');
        size_t length = (size_t)(end - at);
        if (length == 0)
            continue;
        trp__copy_string(path, length < sizeof path ? length + 1 : sizeof path, at);
        status = open_pack(store, path, error);
    }
    for (size_t i = 0; i < INSTALLED && installed && status == TRP_OK; i++) {
        if (trp__share_find(installed_packs[i], NULL, path))
            status = open_pack(store, path, error);
    }
    return status;
}

trp_status trp__store_open(const trp__store_options *options, trp__store **out, trp_error *error)
{
    static const trp__store_options defaults;
    options = options ? options : &defaults;
    trp__store *store = calloc(1, sizeof *store);
    if (!store)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for the kernel cache");
    trp__claims_init(&store->claims);
    store->disk.log = options->log;
    store->disk.max_bytes = bound(options);
    find_place(&store->disk, options->folder);
    const char *packs = options->packs ? options->packs : secure_getenv("TROUPE_CACHE_PACKS");
    bool installed = !options->packs && (!packs || *packs);
    trp_status status = open_packs(store, packs ? packs : "", installed, error);
    if (status != TRP_OK) {
        trp__store_close(store);
        return status;
    }
    *out = store;
    return TRP_OK;
}

static trp__store *of_process;

static void open_of_process(void)
{
    trp_error ignored;
    if (trp__store_open(NULL, &of_process, &ignored) != TRP_OK)
        of_process = NULL;
}

trp__store *trp__store_of_process(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_of_process);
    return of_process;
}

void trp__store_close(trp__store *store)
{
    if (!store)
        return;
    for (size_t i = 0; i < store->pack_count; i++)
        trp__cache_pack_close(store->pack[i]);
    free(store->pack);
    trp__claims_end(&store->claims);
    free(store);
}

/* Headers. */

/* The current content of each header of a list, asked for once and on demand. */
typedef struct present {
    const trp__store_request *request;
    const trp__header_list *list;
    trp__hash *content; /* zero: there is no such header */
    bool *asked;
} present;

static bool is_present(present *p, uint32_t index, const trp__hash *wanted)
{
    if (!p->asked[index]) {
        const struct trp__header_name *h = &p->list->header[index];
        p->asked[index] = true;
        if (!p->request->resolve(p->request->context, h->name, h->path, &p->content[index]))
            memset(&p->content[index], 0, sizeof p->content[index]);
    }
    return trp__hash_equal(&p->content[index], wanted);
}

static bool set_is_present(present *p, const struct trp__header_set *set)
{
    trp__hash wanted;
    for (uint32_t i = 0; i < set->count; i++) {
        uint32_t index = trp__headers_member(set, i, &wanted);
        if (!is_present(p, index, &wanted))
            return false;
    }
    return true;
}

static void add_headers(trp__key *key, const trp__header_list *list,
                        const struct trp__header_set *set)
{
    trp__hash content;
    for (uint32_t i = 0; i < set->count; i++) {
        const char *name = list->header[trp__headers_member(set, i, &content)].name;
        trp__key_add_header(key, name, &content);
    }
}

/* Looking. */

/* Looks for a key in one layer; the caller frees *memory. */
static trp_status find_in(trp__store *store, size_t layer, const trp__key *key, uint32_t type,
                          unsigned char **memory, trp__entry *entry)
{
    trp__hash hash = trp__key_hash(key);
    *memory = NULL;
    if (layer == store->pack_count)
        return trp__disk_find(&store->disk, &hash, type, key->bytes, key->length, memory, entry);
    return trp__cache_pack_find(store->pack[layer], &hash, type, key->bytes, key->length, memory,
                                entry)
               ? TRP_OK
               : TRP_E_MISSING;
}

static trp_status find_payload(trp__store *store, const trp__key *key, trp__store_hit *hit)
{
    trp_status status = key->status != TRP_OK ? key->status : TRP_E_MISSING;
    for (size_t layer = 0; layer <= store->pack_count && status == TRP_E_MISSING; layer++) {
        trp__entry e;
        unsigned char *memory;
        status = find_in(store, layer, key, TRP__ENTRY_PAYLOAD, &memory, &e);
        if (status != TRP_OK)
            continue;
        *hit = (trp__store_hit){
            .payload = e.payload,
            .bytes = e.bytes,
            .note = e.note,
            .note_bytes = e.note_bytes,
            .layer = layer == store->pack_count ? TRP__STORE_DISK : TRP__STORE_PACK,
            .hash = e.hash,
            .memory = memory,
        };
    }
    return status;
}

/* Tries the sets of a list until one is present and leads to a payload. */
static trp_status find_by_list(trp__store *store, const trp__store_request *request,
                               const trp__header_list *list, trp__store_hit *hit)
{
    trp_status status = TRP_E_MISSING;
    present now = {.request = request,
                   .list = list,
                   .content = calloc(list->count + 1u, sizeof *now.content),
                   .asked = calloc(list->count + 1u, sizeof *now.asked)};
    if (!now.content || !now.asked)
        status = TRP_E_MEMORY;
    for (uint32_t i = 0; i < list->set_count && status == TRP_E_MISSING; i++) {
        if (!set_is_present(&now, &list->set[i]))
            continue;
        trp__key full;
        trp__key_copy(request->key, &full);
        add_headers(&full, list, &list->set[i]);
        status = find_payload(store, &full, hit);
        trp__key_end(&full);
    }
    free(now.content);
    free(now.asked);
    return status;
}

trp_status trp__store_find(trp__store *store, const trp__store_request *request,
                           trp__store_hit *hit)
{
    *hit = (trp__store_hit){0};
    trp_status status = request->key->status;
    if (status != TRP_OK)
        return status;
    if (!request->resolve)
        return find_payload(store, request->key, hit);
    status = TRP_E_MISSING;
    for (size_t layer = 0; layer <= store->pack_count && status == TRP_E_MISSING; layer++) {
        trp__entry e;
        unsigned char *memory;
        trp__header_list list;
        status = find_in(store, layer, request->key, TRP__ENTRY_HEADERS, &memory, &e);
        if (status != TRP_OK)
            continue;
        status = TRP_E_MISSING;
        if (trp__headers_read(e.payload, e.bytes, &list)) {
            status = find_by_list(store, request, &list, hit);
            trp__headers_end(&list);
        }
        free(memory);
    }
    return status;
}

void trp__store_hit_end(trp__store_hit *hit)
{
    free(hit->memory);
    *hit = (trp__store_hit){0};
}

trp_status trp__store_claim_begin(trp__store *store, const trp__key *key,
                                  const trp__store_wait *wait, trp__store_claim **claim,
                                  trp_error *error)
{
    trp__hash hash = trp__key_hash(key);
    *claim = NULL;
    return trp__claim_begin(&store->claims, &store->disk, &hash, wait, claim, error);
}

trp_status trp__store_claim_or_find(trp__store *store, const trp__store_request *request,
                                    const trp__store_wait *wait, trp__store_hit *hit,
                                    trp__store_claim **claim, trp_error *error)
{
    *claim = NULL;
    trp_status status = trp__store_find(store, request, hit);
    if (status == TRP_E_MISSING) {
        status = trp__store_claim_begin(store, request->key, wait, claim, error);
        if (status != TRP_OK)
            return status;
        status = trp__store_find(store, request, hit); /* the previous holder may have made it */
    }
    if (status != TRP_E_MISSING) {
        trp__store_claim_end(*claim);
        *claim = NULL;
    }
    if (status != TRP_OK)
        trp__error_set(error, status,
                       status == TRP_E_MISSING
                           ? "the kernel cache has no such entry"
                           : "the key is too long, or there is no memory for it");
    return status;
}

/* Writing. */

/* Writes the list that leads to an entry, keeping its previous sets. Without a claim two writers of
 * one key may lose each other's set; that entry is then made again. */
static trp_status put_headers(trp__store *store, const trp__store_request *request,
                              const trp__store_entry *entry, trp_error *error)
{
    trp__entry e;
    trp__header_list old = {0};
    unsigned char *memory = NULL, *bytes = NULL;
    size_t size = 0;
    bool known = find_in(store, store->pack_count, request->key, TRP__ENTRY_HEADERS, &memory, &e) ==
                     TRP_OK &&
                 trp__headers_read(e.payload, e.bytes, &old);
    trp_status status = trp__headers_make(entry->headers, entry->header_count, known ? &old : NULL,
                                          &bytes, &size, error);
    if (status == TRP_OK) {
        trp__entry list = {.type = TRP__ENTRY_HEADERS,
                           .key = request->key->bytes,
                           .key_bytes = request->key->length,
                           .payload = bytes,
                           .bytes = size};
        status = trp__disk_write(&store->disk, &list, error);
    }
    free(bytes);
    trp__headers_end(&old);
    free(memory);
    return status;
}

trp_status trp__store_put(trp__store *store, const trp__store_request *request,
                          const trp__store_entry *entry, trp_error *error)
{
    trp__key full;
    trp_status status = trp__headers_full_key(request, entry, &full, error);
    if (status == TRP_OK) {
        trp__entry e = {.type = TRP__ENTRY_PAYLOAD,
                        .key = full.bytes,
                        .key_bytes = full.length,
                        .note = entry->note,
                        .note_bytes = entry->note_bytes,
                        .payload = entry->payload,
                        .bytes = entry->bytes};
        status = trp__disk_write(&store->disk, &e, error);
    }
    TRP__FAULT_POINT(CACHE_ENTRY_WRITTEN);
    if (status == TRP_OK && request->resolve)
        status = put_headers(store, request, entry, error);
    trp__key_end(&full);
    return status;
}
