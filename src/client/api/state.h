/* State of a device for opening, closing and making actors. */
#ifndef TRP_CLIENT_API_STATE_H
#define TRP_CLIENT_API_STATE_H

#include "client/core/actor.h"
#include "base/os/lock.h"

/* Actors that share the work of all actors whose class has companions; made with the first of those
 * and ended with the last. The lock comes before all others, and is held while they are made. */
typedef struct trp__companions {
    trp__lock lock;
    trp__client_actor *actor[TRP__COMPANIONS];
    uint32_t count, users;
} trp__companions;

typedef struct trp__api_state {
    trp__remnant *remnant; /* see leave_remnant() */
    _Atomic bool closed;   /* a thread has begun to close it */
    trp__companions companions;
} trp__api_state;

#endif
