#include "compile/modules/cache.h"

#include "base/checksum.h"
#include "base/os/lock.h"
#include "wire/rank.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BYTES_DEFAULT (UINT64_C(64) << 20)

enum { HEADS = 256 }; /* a page each */

typedef enum entry_state {
    MAKING = 0, /* the request is pending, or its end was not noticed yet */
    MADE,
    USELESS, /* failed, or can't be compared with a new compile */
} entry_state;

struct trp__cached_module {
    uint32_t holders; /* including the cache itself; under the lock, as all that follows */
    entry_state state;
    uint64_t sum;
    uint32_t room; /* requested room for the output */
    char *input;   /* the request's input */
    uint64_t input_bytes;
    trp__extent *extent;
    trp__storage storage;
    uint64_t module; /* handle of the module that makes it, until that is freed */
    char *stamps;    /* MADE: of its headers */
    uint64_t stamps_bytes;
    uint64_t bytes; /* that count against the bound */
    uint64_t used;
    uint32_t incarnation; /* worker's incarnation when the output was last checked */
};

struct trp__module_cache {
    trp__heap *heap;
    trp__lock lock;
    uint64_t bytes, bytes_most, used;
    uint32_t count;
    uint64_t sum[TRP__MODULE_CACHE_MOST]; /* of entry[i] */
    trp__cached_module *entry[TRP__MODULE_CACHE_MOST];
    uint32_t heads;
    trp__extent *head[HEADS];
    uint64_t head_at[HEADS];
};

void *trp__module_cache_make(trp__heap *heap)
{
    const char *text = secure_getenv("TROUPE_JIT_MEMORY");
    char *end = NULL;
    trp__module_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    cache->heap = heap;
    trp__lock_init(&cache->lock, TRP__RANK_OBJECTS);
    cache->bytes_most = BYTES_DEFAULT;
    if (!text || !*text)
        return cache;
    errno = 0;
    unsigned long long bytes = strtoull(text, &end, 10);
    if (*end == '\0' && *text != '-' && errno == 0)
        cache->bytes_most = bytes;
    else
        trp__log_line(trp__heap_log(heap), TRP__LOG_WARNING,
                      "TROUPE_JIT_MEMORY: expected bytes, got '%.40s'; %llu are taken", text,
                      (unsigned long long)BYTES_DEFAULT);
    return cache;
}

/* Letting go. */

/* The lock is held. */
static void let_go(trp__module_cache *cache, trp__cached_module *k)
{
    if (--k->holders > 0)
        return;
    trp__heap_return(cache->heap, k->extent);
    free(k->input);
    free(k->stamps);
    free(k);
}

/* Takes one out of the cache. The lock is held. */
static void drop(trp__module_cache *cache, uint32_t i)
{
    trp__cached_module *k = cache->entry[i];
    cache->bytes -= k->bytes;
    k->bytes = 0;
    cache->count--;
    cache->entry[i] = cache->entry[cache->count];
    cache->sum[i] = cache->sum[cache->count];
    let_go(cache, k);
}

static void drop_one(trp__module_cache *cache, const trp__cached_module *k)
{
    for (uint32_t i = 0; i < cache->count; i++) {
        if (cache->entry[i] == k) {
            drop(cache, i);
            return;
        }
    }
}

/* Until there are at most so many, and what they have fits. */
static void drop_old(trp__module_cache *cache, uint32_t most)
{
    while (cache->count > 0 && (cache->count > most || cache->bytes > cache->bytes_most)) {
        uint32_t oldest = 0;
        for (uint32_t i = 1; i < cache->count; i++) {
            if (cache->entry[i]->used < cache->entry[oldest]->used)
                oldest = i;
        }
        drop(cache, oldest);
    }
}

void trp__module_cache_release(trp__module_cache *cache, trp__cached_module *k)
{
    trp__lock_take(&cache->lock);
    let_go(cache, k);
    trp__lock_drop(&cache->lock);
}

void trp__module_cache_drop_all(void *cached)
{
    trp__module_cache *cache = cached;
    trp__lock_take(&cache->lock);
    while (cache->count > 0)
        drop(cache, 0);
    while (cache->heads > 0)
        trp__heap_return(cache->heap, cache->head[--cache->heads]);
    trp__lock_drop(&cache->lock);
}

void trp__module_cache_end(void *cached)
{
    trp__module_cache *cache = cached;
    trp__module_cache_drop_all(cache);
    trp__lock_destroy(&cache->lock);
    free(cache);
}

trp__extent *trp__module_cache_take_head(trp__module_cache *cache, uint64_t *offset)
{
    trp__extent *extent = NULL;
    trp__lock_take(&cache->lock);
    if (cache->heads > 0) {
        extent = cache->head[--cache->heads];
        *offset = cache->head_at[cache->heads];
    }
    trp__lock_drop(&cache->lock);
    return extent;
}

bool trp__module_cache_return_head(trp__module_cache *cache, trp__extent *extent, uint64_t offset)
{
    trp__lock_take(&cache->lock);
    bool room = cache->heads < HEADS;
    if (room) {
        cache->head[cache->heads] = extent;
        cache->head_at[cache->heads++] = offset;
    }
    trp__lock_drop(&cache->lock);
    return room;
}

/* Keeping. */

trp__cached_module *trp__module_cache_add(trp__module_cache *cache, uint64_t sum,
                                          const trp__storage *storage, uint32_t room,
                                          uint64_t module, trp__extent *extent)
{
    if (!cache || cache->bytes_most == 0)
        return NULL;
    trp__cached_module *k = calloc(1, sizeof *k);
    char *input = malloc(storage->input_bytes + 1);
    if (!k || !input) {
        free(k);
        free(input);
        return NULL;
    }
    memcpy(input, trp__heap_at(cache->heap, trp__storage_input_at(storage)), storage->input_bytes);
    *k = (trp__cached_module){.holders = 2,
                              .sum = sum,
                              .room = room,
                              .input = input,
                              .input_bytes = storage->input_bytes,
                              .extent = extent,
                              .storage = *storage,
                              .module = module,
                              .bytes = storage->input_bytes + sizeof *k};
    trp__lock_take(&cache->lock);
    drop_old(cache, TRP__MODULE_CACHE_MOST - 1);
    k->used = ++cache->used;
    cache->sum[cache->count] = sum;
    cache->entry[cache->count++] = k;
    cache->bytes += k->bytes;
    drop_old(cache, TRP__MODULE_CACHE_MOST);
    trp__lock_drop(&cache->lock);
    return k;
}

/* The size of an output; 0: it can't be true. *good: it is whole, and can be used as long as its
 * headers are the same. */
static uint64_t look_at_output(const trp__module_cache *cache, const trp__storage *storage,
                               trp__storage_output *head, bool *good)
{
    const char *output = trp__heap_at(cache->heap, trp__storage_output_at(storage));
    memcpy(head, output, sizeof *head);
    uint64_t size = trp__storage_output_size(head, storage->output_bytes);
    bool possible = head->magic == TRP__STORAGE_OUTPUT && size != UINT64_MAX;
    *good = possible && head->image_bytes > 0 && head->keepable &&
            trp__checksum(output + sizeof *head, size - sizeof *head) == head->checksum;
    return possible ? size : 0;
}

/* A module that was made: its stamps are copied, and its storage is cut to what is in it. */
static void take_made(trp__module_cache *cache, trp__cached_module *k)
{
    trp__storage_output head;
    char *stamps = NULL;
    uint32_t incarnation = trp__heap_incarnation(cache->heap);
    bool good;
    trp__lock_take(&cache->lock); /* another thread may be at it */
    const trp__storage storage = k->storage;
    trp__lock_drop(&cache->lock);
    uint64_t size = look_at_output(cache, &storage, &head, &good);
    if (good)
        stamps = malloc(head.stamps_bytes + 1);
    if (stamps)
        memcpy(
            stamps,
            trp__heap_at(cache->heap, trp__storage_output_at(&storage) + size - head.stamps_bytes),
            head.stamps_bytes);
    trp__lock_take(&cache->lock);
    if (k->state == MAKING && size > 0) {
        k->storage.output_bytes = (uint32_t)size;
        trp__heap_cut(cache->heap, k->extent, trp__storage_bytes(&k->storage));
    }
    if (k->state == MAKING && stamps) {
        k->state = MADE;
        k->stamps = stamps;
        k->stamps_bytes = head.stamps_bytes;
        k->incarnation = incarnation;
        if (k->bytes > 0) { /* in the cache */
            uint64_t more = trp__storage_bytes(&k->storage) + head.stamps_bytes;
            k->bytes += more;
            cache->bytes += more;
        }
        stamps = NULL;
    } else if (k->state == MAKING) {
        k->state = USELESS;
        drop_one(cache, k);
    }
    drop_old(cache, TRP__MODULE_CACHE_MOST);
    trp__lock_drop(&cache->lock);
    free(stamps);
}

static void make_useless(trp__module_cache *cache, trp__cached_module *k)
{
    trp__lock_take(&cache->lock);
    k->state = USELESS;
    drop_one(cache, k);
    trp__lock_drop(&cache->lock);
}

void trp__module_cache_settle(trp__module_cache *cache, trp__cached_module *k, bool made)
{
    trp__lock_take(&cache->lock);
    bool open = k->state == MAKING;
    trp__lock_drop(&cache->lock);
    if (open && made)
        take_made(cache, k);
    else if (open)
        make_useless(cache, k);
}

/* Finding. */

/* Whether each header is the one that was read, and none has come where none was. */
static bool same_files(const trp__cached_module *k)
{
    for (uint64_t at = 0; at < k->stamps_bytes;) {
        trp__storage_stamp was;
        struct stat s;
        if (k->stamps_bytes - at < sizeof was)
            return false;
        memcpy(&was, k->stamps + at, sizeof was);
        const char *path = k->stamps + at + sizeof was;
        if (was.path_bytes == 0 || was.path_bytes > k->stamps_bytes - at - sizeof was ||
            path[was.path_bytes - 1] != '\0')
            return false;
        bool there = stat(path, &s) == 0;
        if (!was.exists && (there || (errno != ENOENT && errno != ENOTDIR)))
            return false;
        if (was.exists &&
            (!there || was.device != s.st_dev || was.inode != s.st_ino ||
             was.bytes != (uint64_t)s.st_size ||
             was.modified_ns != s.st_mtim.tv_sec * INT64_C(1000000000) + s.st_mtim.tv_nsec ||
             was.changed_ns != s.st_ctim.tv_sec * INT64_C(1000000000) + s.st_ctim.tv_nsec))
            return false;
        at += sizeof was + was.path_bytes;
    }
    return true;
}

/* State of an entry that was found. */
typedef struct look {
    uint64_t module; /* that makes the output, unless its request was seen to end */
    bool made;
    uint32_t incarnation;
    trp__storage storage;
} look;

/* The lock is held. */
static void look_at(const trp__cached_module *k, look *out)
{
    out->module = k->state == MAKING ? k->module : 0;
    out->made = k->state == MADE;
    out->incarnation = k->incarnation;
    out->storage = k->storage;
}

/* One of this request, held. */
static trp__cached_module *find(trp__module_cache *cache, const trp__module_spec *spec, look *out)
{
    trp__cached_module *found = NULL;
    trp__lock_take(&cache->lock);
    for (uint32_t i = 0; i < cache->count && !found; i++) {
        trp__cached_module *k = cache->entry[i];
        if (cache->sum[i] != spec->sum || k->state == USELESS || k->room != spec->output_bytes ||
            k->storage.output_kind != spec->output_kind || k->input_bytes != spec->input_bytes ||
            !spec->is_same(spec->request, k->input))
            continue;
        k->holders++;
        k->used = ++cache->used;
        look_at(k, out);
        found = k;
    }
    trp__lock_drop(&cache->lock);
    return found;
}

/* Takes the output if the request that makes it has ended. That request's module may be freed
 * meanwhile. */
static void look_at_making(trp__module_cache *cache, trp__cached_module *k, uint64_t module)
{
    trp__object *object;
    if (trp__object_hold(trp__heap_device(cache->heap), &trp__module_class, module, &object) !=
        TRP_OK)
        return;
    if (trp__object_is_made(object))
        take_made(cache, k);
    trp__object_release(object);
}

trp__cached_module *trp__module_cache_find(trp__module_cache *cache, const trp__module_spec *spec,
                                           trp__storage *output)
{
    trp__storage_output head;
    look l;
    trp__cached_module *k = cache ? find(cache, spec, &l) : NULL;
    if (!k)
        return NULL;
    bool on_its_way = l.module != 0;
    if (on_its_way) {
        look_at_making(cache, k, l.module);
        trp__lock_take(&cache->lock);
        look_at(k, &l);
        trp__lock_drop(&cache->lock);
    }
    /* A worker that died may have written anywhere before. */
    uint32_t now = trp__heap_incarnation(cache->heap);
    if (l.made && l.incarnation != now) {
        look_at_output(cache, &l.storage, &head, &l.made);
        trp__lock_take(&cache->lock);
        k->incarnation = now;
        trp__lock_drop(&cache->lock);
    }
    *output = l.storage;
    if (l.made && same_files(k))
        return k;
    if (!on_its_way)
        make_useless(cache, k);
    trp__module_cache_release(cache, k);
    return NULL;
}
