/* Modules on the application's side, see wire/module.h: what is known of one beside the buffer by
 * which requests on it are ordered. */
#ifndef TRP_CLIENT_MODULE_H
#define TRP_CLIENT_MODULE_H

#include "client/client.h"

/* pool.c. Makes the pool of a device if there is none yet; waits for the worker. Raises its error.
 */
trp_status trp__pool_open(trp_device *device);
void trp__pool_close(trp_device *device);
/* A piece of it, zeroed, and where it lies; NULL: there is no room. */
trp__extent *trp__pool_take(trp_device *device, uint64_t bytes, uint64_t *offset);
/* Keeps the first `bytes` of a piece. */
void trp__pool_cut(trp_device *device, trp__extent *extent, uint64_t bytes);
void trp__pool_return(trp_device *device, trp__extent *extent);

/* module.c. For trp__pack. */
trp_status trp__module_make(trp__pack *pack, const trp__module_wish *wish, trp_module *out,
                            trp__module_place *place);
trp_status trp__module_again(trp__pack *pack, const trp__module_wish *wish, trp_module *out,
                             trp__module_place *place, bool *found);
void trp__module_keep(trp__pack *pack, const trp__module_wish *wish,
                      const trp__module_place *place);
trp_status trp__module_use(trp__pack *pack, const char *name, trp_module module, uint32_t mode,
                           trp__module_place *place);
trp_status trp__module_add_set(trp__pack *pack, const trp__module_place *place,
                               const char *variable, uint64_t at, const void *data, uint32_t bytes,
                               uint32_t *set);
/* The module of a buffer's slot has no holder any more, or its device is closing. `made`: the
 * request that makes it has succeeded. */
void trp__module_destroy(trp_device *device, struct trp__module *module, bool made);
/* Frees the module that a request should have made, which was not sent; its handle is none. */
void trp__module_undo(trp_device *device, trp__slot *request);

#endif
