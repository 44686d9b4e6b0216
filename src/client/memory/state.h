/* State of a device's memory: arenas, buffers and their contents, host segments. */
#ifndef TRP_CLIENT_MEMORY_STATE_H
#define TRP_CLIENT_MEMORY_STATE_H

#include "base/ranges.h"
#include "client/core/actor.h"
#include "base/os/lock.h"
#include "client/core/suballoc.h"
#include "client/memory/heap.h"
#include "wire/layout.h"

/* See contents.h. */
enum { TRP__PARTS_MAX = 4096, TRP__CONTENT_LOCKS = 64 };

typedef enum trp__word {
    TRP__LOST, /* the last request that may have half-written it */
    TRP__POISON,
    /* the last failed request that should have written it */ TRP__ACCEPTED, /* the last of those
                                                                                whose failure was
                                                                                delivered */
    TRP__COVERED, /* the last request sent that writes all of it */
    TRP__GOOD,    /* the last of those that succeeded */
    TRP__WORDS,
} trp__word;

/* The last request judged after a death, for the supervisor: one that failed (`bad`), or one that
 * goes on and writes all of it. */
typedef struct trp__judged {
    uint64_t order; /* the note with the larger number counts; 0: none */
    uint64_t ticket;
    uint64_t cover; /* the last that goes on and writes all of it */
    uint32_t incarnation;
    uint32_t generation; /* of the buffer of the slot */
    bool bad;
} trp__judged;

/* A range of bytes with one state. */
typedef struct trp__part {
    trp__range range;
    uint64_t word[TRP__WORDS];
    trp__judged judged;
} trp__part;

typedef struct trp__contents {
    _Atomic uint64_t word[TRP__WORDS]; /* of all bytes */
    _Atomic uint32_t parts;            /* how many there are in `map` */
    _Atomic bool damaged;              /* some byte is lost or poisoned, or was */
    trp__ranges map;                   /* of trp__part; under the buffer's content lock */
    trp__judged judged;                /* of all bytes; likewise */
} trp__contents;

/* The client's state of a buffer. */
typedef struct trp__buffer_meta {
    /* generation << 32 | freed << 31 | requests that hold it. Freed without holders: recycled. */
    _Atomic uint64_t hold;
    trp__contents contents;
    uint32_t node; /* in the sub-allocator; 0 if it is sealable */
    uint32_t next_free;
    _Atomic uint32_t writers; /* see seal.c; only for sealable ones */
    bool sealable;            /* it has an arena to itself */
    uint32_t mapped[2];  /* by the program: read-only, writable; under device->lock, see map.c */
    trp__object *object; /* whose token it is; NULL: an ordinary buffer */
} trp__buffer_meta;

/* A mapping of an arena in the program, and how many buffer mappings use it. */
typedef struct trp__view_of_arena {
    char *base; /* NULL: nowhere */
    uint32_t users;
} trp__view_of_arena;

typedef struct trp__client_arena {
    trp__number_state state;
    uint8_t pending_acks; /* workers that have yet to answer the drop, as bits */
    int fd;
    uint64_t bytes;
    uint64_t handle;            /* the driver's, on cuda */
    bool own;                   /* it is that of one sealable buffer */
    trp__view_of_arena view[2]; /* in this process, see map.c: read-only, writable */
    /* Members of a sealable buffer's arena, see seal.c. The uint8_t are sets of workers, as
     * bits. */
    uint64_t protection; /* the last change, see wire/message.h */
    bool moving;         /* a call seals or unseals the buffer */
    uint8_t changing;    /* have yet to answer the last change */
    uint8_t refused;     /* could not make it */
    uint8_t guarded;     /* have it mapped read-only, or not at all */
    trp_error *refusal;  /* receives their error; NULL: no call waits */
} trp__client_arena;

typedef struct trp__client_segment {
    trp__number_state state;
    uint8_t pending_acks;
    int fd;
    char *base;
    uint64_t bytes;
    uint32_t holders; /* requests */
    bool freed;
    bool kept;  /* freed and cached */
    bool plain; /* the device does not reach it: the heap of objects */
    bool answered;
    uint32_t incarnation; /* the worker that has answered */
    trp_error answer;
} trp__client_segment;

typedef struct trp__memory_state {
    trp__buffer_meta *meta;
    struct trp__failures *failures; /* failures.c */
    /* Changes with every buffer, so it shares no line with what senders read. */
    _Alignas(64) trp__lock lock; /* sub-allocator, slots of buffers, figures */
    trp__suballoc *suballoc;
    uint32_t free_buffer;
    uint32_t buffers_made;
    uint64_t reserved, first_arena_bytes, live_buffers;
    uint64_t sealable_bytes;    /* of `reserved`: arenas of sealable buffers */
    _Atomic uint64_t lingering; /* buffers that are freed and still held by requests */
    trp__lock content_lock[TRP__CONTENT_LOCKS]; /* see contents.h */
    uint64_t judged;                            /* supervisor: notes of a trp__judged so far */
    trp__client_arena arena[TRP__ARENAS];       /* under device->lock */
    trp__lock segment_lock;                     /* holders, freed, kept, base of segments */
    trp__client_segment segment[TRP__HOST_SEGMENTS];
    trp__heap heap;
    uint32_t segments_made; /* under segment_lock: numbers from here on were never used */
} trp__memory_state;

#endif
