/* Actors on the application's side. */
#ifndef TRP_CLIENT_CORE_ACTOR_H
#define TRP_CLIENT_CORE_ACTOR_H

#include "client/core/system.h"
#include "wire/actor_class.h"
#include "wire/message.h"

typedef struct trp__client_actor trp__client_actor;

/* State of a numbered resource. DROPPING: the number can't be reused, since a worker still knows
 * the old one. */
typedef enum trp__number_state {
    TRP__NUMBER_FREE = 0,
    TRP__NUMBER_LIVE,
    TRP__NUMBER_DROPPING,
} trp__number_state;

/* The program's handle of an actor: a few bytes, never reused, while the struct below is. */
struct trp_actor {
    trp__remnant remnant;              /* first: freed as one */
    _Atomic(trp__client_actor *) live; /* NULL: destroyed, or its device is closed */
};

/* The actor of a number. */
struct trp__client_actor {
    trp_device *device;
    trp_actor *handle; /* NULL: not made by the program */
    const trp__actor_class *class;
    trp__number_state state;
    uint8_t pending_acks; /* workers that have yet to answer the drop, as bits */
    bool cold;            /* standbys do not make it */
    uint32_t id;
    uint64_t made; /* which of the actors that had this struct it is */
    void *sender;  /* see trp__actor_class */
    trp__client_actor *companion[TRP__COMPANIONS]; /* those of the device, if it has some */
    uint32_t companions;
    bool answered;
    trp_error answer;
    char name[32];
    char library[TRP__LIBRARY_PATH_MAX + 1]; /* "": a built-in actor */
    char config[TRP_ACTOR_CONFIG_MAX + 1];
    /* Making it, see actor_start.c; under device->lock. */
    bool trial;           /* not answered, and sent to the standby only */
    bool suspected;       /* a worker died while it made this actor, perhaps of another cause */
    bool quarantined;     /* later workers get `start_error` in its place */
    uint32_t crash_count; /* workers in a row that died of making it */
    trp_error start_error;
    /* Mailbox: requests sent and not seen to end, as cells like those of the ring; 0: not written
     * yet. */
    uint64_t capacity;
    _Atomic uint64_t *mailbox;
    _Atomic uint64_t *tail; /* on a line of its own, in the shared figures of the device */
    _Alignas(64) _Atomic uint64_t head;
    _Atomic bool sweeping;
    _Atomic uint32_t lists;       /* that wait for places */
    _Atomic uint64_t deliveries;  /* pending requests with a result, see deliver.c */
    _Atomic uint32_t longest;     /* list that was sent; 0: none was */
    _Atomic uint32_t timed_every; /* see latency.h; a power of two */
    _Atomic int64_t rated_at;     /* when it was set */
    _Atomic uint64_t rated_sent;  /* requests sent then */
    uint64_t watched;             /* supervisor: the cell of the request that is running, */
    int64_t watched_since;
};

#endif
