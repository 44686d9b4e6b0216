/* Modules on the application's side, see wire/module.h: what is known of one beside the buffer by
 * which requests on it are ordered. */
#ifndef TRP_CLIENT_API_MODULE_H
#define TRP_CLIENT_API_MODULE_H

#include "client/api/api.h"

/* module.c. What pack functions do with modules. */
extern const trp__module_ops trp__modules;

#endif
