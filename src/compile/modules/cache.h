/* The module cache: a repeated request needs no compile, no file and no copy, since the new module
 * shares the output of the first. Bounded by TRP__MODULE_CACHE_MOST and by bytes; the least
 * recently used is dropped. */
#ifndef TRP_COMPILE_MODULES_CACHE_H
#define TRP_COMPILE_MODULES_CACHE_H

#include "compile/modules/module.h"

enum { TRP__MODULE_CACHE_MOST = 256 };

/* A compile's input and output, with the heap extent that holds them. */
typedef struct trp__cached_module trp__cached_module;

/* The cache of a device; NULL: no memory, nothing is cached. */
typedef struct trp__module_cache trp__module_cache;

/* Creates the cache of trp__module_class. */
void *trp__module_cache_make(trp__heap *heap);
/* Destroys the cache, of which no module holds an entry. */
void trp__module_cache_end(void *cache);
/* Drops all entries; those that a module holds survive in it. */
void trp__module_cache_drop_all(void *cache);

/* Adds a module that a repeatable request is about to make. `sum` is a checksum of the request; the
 * storage's input, which is copied, describes it in full. `module` is the module's handle. The
 * extent then belongs to the entry returned, which the module holds. NULL: not cached, the extent
 * is still the caller's. */
trp__cached_module *trp__module_cache_add(trp__module_cache *cache, uint64_t sum,
                                          const trp__storage *storage, uint32_t room,
                                          uint64_t module, trp__extent *extent);

/* Finds the output of an equal request, and holds it; *output says where it lies. Found only if it
 * was made and every header is unchanged. NULL: none. */
trp__cached_module *trp__module_cache_find(trp__module_cache *cache, const trp__module_spec *spec,
                                           trp__storage *output);

void trp__module_cache_release(trp__module_cache *cache, trp__cached_module *k);

/* The module that makes the entry is freed; `made`: it succeeded. */
void trp__module_cache_settle(trp__module_cache *cache, trp__cached_module *k, bool made);

/* Reuses small extents, whose pages are present, for heads of modules that share an output. NULL:
 * none. */
trp__extent *trp__module_cache_take_head(trp__module_cache *cache, uint64_t *offset);
/* Gives an extent back. False: no room, the caller keeps it. */
bool trp__module_cache_return_head(trp__module_cache *cache, trp__extent *extent, uint64_t offset);

#endif
