/* The cache of modules: what was compiled once stays, so that the same request again needs no
 * compile, no file and no copy: a new module shares what the first one has made. Bounded by
 * TRP__MODULE_CACHE_MOST and by bytes; what was not used for longest goes. */
#ifndef TRP_COMPILE_MODULES_CACHE_H
#define TRP_COMPILE_MODULES_CACHE_H

#include "compile/modules/module.h"

enum { TRP__MODULE_CACHE_MOST = 256 };

/* What one compile was asked for and has made, and the extent of the heap where that lies. */
typedef struct trp__cached_module trp__cached_module;

/* Those of a device; NULL: none are kept, for there was no memory. */
typedef struct trp__module_cache trp__module_cache;

/* The cache of trp__module_class. */
void *trp__module_cache_make(trp__heap *heap);
/* No module holds any of them any more. */
void trp__module_cache_end(void *cache);
/* Gives up all that no module holds. */
void trp__module_cache_drop_all(void *cache);

/* Notes a module that is about to be made by a request that could come again; `sum` is a checksum
 * of all that it asks for, and the home's input says it in full, which is copied. The extent
 * belongs to what is returned, which the module is to hold. NULL: it does not stay; the extent is
 * still the caller's. `module` is the module's handle. */
trp__cached_module *trp__module_cache_add(trp__module_cache *cache, uint64_t sum,
                                          const trp__home *home, uint32_t room, uint64_t module,
                                          trp__extent *extent);

/* What was made for the same request before, held; *output is where and how large. It is only found
 * if the module could be made, and each header is the file that was read. NULL: none. */
trp__cached_module *trp__module_cache_find(trp__module_cache *cache, const trp__module_wish *wish,
                                           trp__home *output);

void trp__module_cache_release(trp__module_cache *cache, trp__cached_module *k);

/* The module that makes it is going; `made`: it could be made. */
void trp__module_cache_settle(trp__module_cache *cache, trp__cached_module *k, bool made);

/* Small extents for the heads of modules that share the rest, with their pages there. NULL: none.
 */
trp__extent *trp__module_cache_take_head(trp__module_cache *cache, uint64_t *offset);
/* False: it is not taken. */
bool trp__module_cache_return_head(trp__module_cache *cache, trp__extent *extent, uint64_t offset);

#endif
