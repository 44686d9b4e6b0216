/* Modules on the application's side, see wire/module.h: what is known of one beside the buffer by
 * which requests on it are ordered. */
#ifndef TRP_CLIENT_API_MODULE_H
#define TRP_CLIENT_API_MODULE_H

#include "client/api/api.h"

/* pool.c. Makes the pool of a device if there is none yet; waits for the worker. Raises its error.
 */
trp_status trp__pool_open(trp_device *device);
void trp__pool_close(trp_device *device);
/* A piece of it, zeroed, and where it lies; NULL: there is no room. */
trp__extent *trp__pool_take(trp_device *device, uint64_t bytes, uint64_t *offset);
/* Keeps the first `bytes` of a piece. */
void trp__pool_cut(trp_device *device, trp__extent *extent, uint64_t bytes);
void trp__pool_return(trp_device *device, trp__extent *extent);

/* module.c. What pack functions do with modules. */
extern const trp__module_ops trp__modules;

#endif
