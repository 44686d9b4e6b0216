/* Modules that were compiled once are kept, so that the same request again needs no compile, no
 * file and no copy: a new module shares what the first one has made. Bounded by TRP__KEPT_MOST and
 * by bytes; what was not used for longest goes. */
#ifndef TRP_COMPILE_MODULES_KEPT_H
#define TRP_COMPILE_MODULES_KEPT_H

#include "compile/modules/module.h"

enum { TRP__KEPT_MOST = 256 };

/* What one compile was asked for and has made, and the extent of the heap where that lies. */
typedef struct trp__kept trp__kept;

/* The list of a device. */
typedef struct trp__kept_list trp__kept_list;

/* The cache of trp__module_class. */
void *trp__kept_make(trp__heap *heap);
/* No module holds any of them any more. */
void trp__kept_end(void *cache);
/* Gives up all that no module holds. */
void trp__kept_drop_all(void *cache);

/* Notes a module that is about to be made by a request that could come again; `sum` is a checksum
 * of all that it asks for, and the home's input says it in full, which is copied. The extent
 * belongs to what is returned, which the module is to hold. NULL: it is not kept; the extent is
 * still the caller's. `module` is the module's handle. */
trp__kept *trp__kept_add(trp__kept_list *list, uint64_t sum, const trp__home *home, uint32_t room,
                         uint64_t module, trp__extent *extent);

/* What was made for the same request before, held; *output is where and how large. It is only found
 * if the module could be made, and each header is the file that was read. NULL: none. */
trp__kept *trp__kept_find(trp__kept_list *list, const trp__module_wish *wish, trp__home *output);

void trp__kept_release(trp__kept_list *list, trp__kept *kept);

/* The module that makes it is going; `made`: it could be made. */
void trp__kept_settle(trp__kept_list *list, trp__kept *kept, bool made);

/* Small extents for the heads of modules that share the rest, with their pages there. NULL: none.
 */
trp__extent *trp__kept_take_head(trp__kept_list *list, uint64_t *offset);
/* False: it is not taken. */
bool trp__kept_return_head(trp__kept_list *list, trp__extent *extent, uint64_t offset);

#endif
