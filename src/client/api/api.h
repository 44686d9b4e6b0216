/* Devices and actors, as the program opens and makes them. */
#ifndef TRP_CLIENT_API_API_H
#define TRP_CLIENT_API_API_H

#include "client/recovery/recovery.h"

/* actor.c */
void trp__actor_leave_handle(trp__client_actor *actor);
trp__client_actor *trp__actor_make(trp_device *device, uint32_t id, const trp__actor_class *class,
                                   const char *name);

#endif
