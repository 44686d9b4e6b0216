/* The ranks of the locks of the application's side, for the client and for what actors do there.
 *
 * A request that fits its mailbox takes none of these locks on its way to the worker and back,
 * except for the last holder of a freed buffer, for queues, and for ranges that are not all of a
 * buffer. */
#ifndef TRP_WIRE_RANK_H
#define TRP_WIRE_RANK_H

/* In the order in which they may be taken. */
typedef enum trp__rank {
    TRP__RANK_COMPANIONS, /* held while actors are made */
    TRP__RANK_OPENING,    /* the heap is made */
    TRP__RANK_REGISTRY,   /* devices by tag; held while the traces of all are written */
    TRP__RANK_SYSTEM,     /* devices and queues of a system; held while mailboxes are swept */
    TRP__RANK_JUDGING,    /* what becomes of a request that is cancelled, or whose worker died */
    TRP__RANK_TRACE,      /* waits for requests that are being ended, by threads that take: */
    TRP__RANK_STREAM,     /* one direction of large copies */
    TRP__RANK_MEMORY,     /* sub-allocator, slots of buffers */
    TRP__RANK_DEVICE,     /* worker, actors, arenas, host segments */
    TRP__RANK_SEGMENT,    /* holders of host segments */
    TRP__RANK_WATCH,
    TRP__RANK_QUEUE,
    TRP__RANK_FAILURES,
    TRP__RANK_CONTENT, /* parts of one buffer */
    TRP__RANK_OBJECT,  /* of one object of an actor */
    TRP__RANK_OBJECTS, /* of what its class keeps for all of them */
    TRP__RANK_HEAP,    /* pieces of the heap */
    TRP__RANK_COPIER,  /* starting and stopping copying threads */
} trp__rank;

#endif
