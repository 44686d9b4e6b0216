/* State of a device for the path of requests. */
#ifndef TRP_CLIENT_REQUEST_STATE_H
#define TRP_CLIENT_REQUEST_STATE_H

#include "base/os/lock.h"
#include "client/core/slot.h"
#include "wire/layout.h"

#include <pthread.h>

enum { TRP__COPY_THREADS = 4, TRP__REHEARSED_KINDS = 1024 };

/* Pools of shared staging pieces. */
enum { TRP__POOL_COPIES, TRP__POOL_REQUESTS, TRP__POOLS };

typedef struct trp__client_stream {
    trp__lock lock;
    pthread_cond_t work;
    uint32_t first, last; /* transfers that have chunks left to claim, TRP__NO_SLOT for none */
    uint32_t active;      /* copying threads that copy a chunk */
    uint64_t next_chunk;
    /* Log of transfers by number: the end of their chunks, and, from `ended` on, whether they ended
     * out of order. */
    uint64_t next_number, ended;
    uint64_t base; /* all chunks below belong to transfers before `ended` */
    struct trp__transfer_log {
        uint64_t end_chunk;
        bool ended;
    } * log;
} trp__client_stream;

typedef struct trp__copier {
    trp__lock lock; /* starting and stopping the threads */
    pthread_t thread[TRP__STREAMS][TRP__COPY_THREADS];
    uint32_t count[TRP__STREAMS];
    _Atomic bool stop;
} trp__copier;

typedef struct trp__request_state {
    /* See rehearsed.c: checksums of the kinds of requests stored for standbys. */
    bool rehearses;
    atomic_flag rehearsed_busy;
    _Atomic uint64_t rehearsed_kind[TRP__REHEARSED_KINDS];
    _Atomic uint64_t failed;
    /* tag << 32 | index of the first free slot. Every sender writes it, so it shares no line with
     * what senders read. */
    _Alignas(64) _Atomic uint64_t free_slots;
    _Alignas(64) _Atomic uint32_t waiting; /* calls that wait for room, see room.h */
    _Alignas(64) _Atomic uint64_t
        free_pieces[TRP__POOLS]; /* the same for shared staging pieces, of which the */
    _Atomic uint32_t
        piece_next[TRP__SMALL_COUNT - TRP__SLOTS]; /* first behind the slots' own is 0 */
    _Alignas(64) _Atomic uint64_t queue_bound;     /* pending requests that go to queues */
    _Atomic uint64_t deliveries; /* pending requests with a result for the program's memory */
    _Atomic uint64_t deadlines;  /* pending requests with a deadline */
    trp__lock judging;           /* held while requests are judged; see cancel.c */
    _Atomic int64_t
        typical_wait[TRP__ACTORS]; /* ns, at least, of the last thread that slept for one */
    trp__client_stream stream[TRP__STREAMS];
    trp__copier copier;
    uint64_t *pending; /* scratch of the supervisor: cells of pending requests */
} trp__request_state;

#endif
