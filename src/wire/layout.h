/* The memory that the application and one worker share.
 *
 *   control block   written by the application, read-only in the worker: it describes the device
 *                   and holds the submission ring and every request. It outlives workers.
 *   reply block     written by one worker (and the GPU), read by the application; a new one for
 *                   each incarnation, so the last writes of a dying worker are never seen.
 *   staging         written by both: bounce pieces of copies from and to ordinary memory.
 *
 * Either side may be of another build, so both blocks begin with a magic number, the ABI version
 * and their size, which are compared before anything else is read. */
#ifndef TRP_WIRE_LAYOUT_H
#define TRP_WIRE_LAYOUT_H

#include "wire/record.h"

#include <troupe/device.h>

#include <stdatomic.h>

#define TRP__MAGIC UINT64_C(0x6570756f72742e31)
#define TRP__ABI   UINT32_C(17) /* raise with every change of a struct in wire/ */

enum {
    TRP__LINE = 64,
    TRP__ACTORS = 64,
    TRP__ARENAS = 1024,
    TRP__HOST_SEGMENTS = 257, /* segment 0 is the staging memory */
    TRP__BUFFER_BITS = 18,
    TRP__BUFFERS = 1 << TRP__BUFFER_BITS,
    TRP__SLOT_BITS = 14,
    TRP__SLOTS = 1 << TRP__SLOT_BITS, /* requests that exist at a time */
    TRP__RING = 2 * TRP__SLOTS,
    TRP__REHEARSED = 256,           /* requests that are kept for standbys */
    TRP__REHEARSED_PIECE = 8 << 10, /* requests with a larger piece are not */
};

/* Every device has three actors for its memory, so that copies in both directions and on the device
 * overlap; copies through staging memory stream in the first two. */
enum {
    TRP__LANE_UPLOAD = 0,
    TRP__LANE_DOWNLOAD = 1,
    TRP__LANE_LOCAL = 2,
    TRP__LANES = 3,
    TRP__STREAMS = 2,
};

/* Staging memory: small pieces, for copies, results and inputs too large for their records; then a
 * ring of large pieces for each stream of large copies. Each request slot has a small piece of its
 * own, and larger ones are shared, in one pool for copies and one for the requests of actors: so
 * neither waits for the other. Small pieces are numbered through, the slots' own ones first. */
enum {
    TRP__OWN_BYTES = 1536,
    TRP__SMALL_BYTES = 64 << 10,
    TRP__SMALL_COPIES = 64,    /* shared pieces for copies */
    TRP__SMALL_REQUESTS = 128, /* and for the requests of actors */
    TRP__SMALL_COUNT = TRP__SLOTS + TRP__SMALL_COPIES + TRP__SMALL_REQUESTS,
    TRP__PIECE_BYTES = 512 << 10,
    TRP__PIECES = 64,
};
#define TRP__STAGING_SHARED ((uint64_t)TRP__OWN_BYTES * TRP__SLOTS)
#define TRP__STAGING_PIECES                                                                        \
    (TRP__STAGING_SHARED + (uint64_t)TRP__SMALL_BYTES * (TRP__SMALL_COUNT - TRP__SLOTS))
#define TRP__STAGING_BYTES                                                                         \
    (TRP__STAGING_PIECES + (uint64_t)TRP__STREAMS * TRP__PIECES * TRP__PIECE_BYTES)

/* Where a small piece lies in the staging memory, and how much it holds. */
static inline uint64_t trp__small_offset(uint32_t piece)
{
    return piece < TRP__SLOTS
               ? (uint64_t)piece * TRP__OWN_BYTES
               : TRP__STAGING_SHARED + (uint64_t)(piece - TRP__SLOTS) * TRP__SMALL_BYTES;
}

static inline uint32_t trp__small_bytes(uint32_t piece)
{
    return piece < TRP__SLOTS ? TRP__OWN_BYTES : TRP__SMALL_BYTES;
}

/* Where piece `chunk` of a stream lies in the staging memory. */
static inline uint64_t trp__piece_offset(uint32_t stream, uint64_t chunk)
{
    return TRP__STAGING_PIECES +
           ((uint64_t)stream * TRP__PIECES + chunk % TRP__PIECES) * TRP__PIECE_BYTES;
}

typedef struct trp__block_head {
    uint64_t magic;
    uint32_t abi;
    uint32_t reserved;
    uint64_t bytes;
    char version[16];
} trp__block_head;

/* One buffer. The application changes the generation only when no request uses the slot.
 * `protection` is the wanted protection of a sealable buffer's arena, numbered as in trp__message;
 * 0 for all other buffers. */
typedef struct trp__buffer_entry {
    _Atomic uint32_t generation;
    uint32_t arena;
    uint64_t offset;
    uint64_t bytes;
    _Atomic uint64_t protection;
} trp__buffer_entry;

_Static_assert(sizeof(trp__buffer_entry) == 32, "an entry lies in one cache line");

typedef struct trp__padded_u64 {
    _Atomic uint64_t value;
} __attribute__((aligned(64))) trp__padded_u64;

/* One cell of the submission ring: ticket << TRP__SLOT_BITS | slot. The cell of ticket t is
 * t % TRP__RING; tickets begin at 1. A cell is never overwritten before the worker took it: each
 * untaken one holds a request slot, and there are fewer slots than cells. */
typedef _Atomic uint64_t trp__cell;

/* A request that succeeded, for standbys to rehearse. */
typedef struct trp__rehearsed {
    _Atomic uint64_t number; /* of all that were kept, from 1; 0 while it is written */
    trp__record record;
    unsigned char piece[TRP__REHEARSED_PIECE]; /* of its staging memory, if it has one */
} trp__rehearsed;

typedef struct trp__control {
    trp__block_head head;
    uint32_t backend;
    uint32_t ordinal;
    uint32_t isolation;
    uint32_t proof;             /* a trp_proof */
    uint64_t restart_window_ns; /* in which restarts of actors are counted */

    /* Where a worker begins once it is promoted: first the requests listed, in order, of which the
     * first `resume_alone` run one at a time; then the ring from `start`. */
    uint64_t resume_start;
    uint32_t resume_alone;
    uint32_t resume_count;
    uint32_t resume[TRP__SLOTS];

    /* The incarnation that takes requests; a futex. A lower one is dead or dying, a higher one is
     * warm and waits. */
    _Alignas(64) _Atomic uint32_t promoted;
    _Atomic uint32_t tracing; /* not 0: both sides note times; on a line that rarely changes */
    _Alignas(128) _Atomic uint32_t doorbell; /* futex: changes when a sleeping worker shall wake */
    _Alignas(128) trp__padded_u64 next_ticket;

    /* For each piece of staging memory of a stream, the last chunk + 1 that the application has
     * filled (upload) or emptied (download). */
    trp__padded_u64 piece_ready[TRP__STREAMS][TRP__PIECES];

    _Alignas(64) trp__cell ring[TRP__RING];
    trp__record record[TRP__SLOTS];
    trp__buffer_entry buffer[TRP__BUFFERS];

    /* Number n is in place n % TRP__REHEARSED. */
    _Alignas(64) _Atomic uint64_t rehearsed_count;
    trp__rehearsed rehearsed[TRP__REHEARSED];
} trp__control;

/* Why a request failed in the worker; written before the timeline passes its ticket. */
typedef struct trp__reply_error {
    _Atomic uint64_t ticket;
    int32_t status;
    int32_t code;
    char domain[16];
    uint64_t cause; /* the request because of which this one did not run; 0: none */
    char message[216];
} trp__reply_error;

_Static_assert(sizeof(trp__reply_error) == 256, "layout of an error reply");

/* Words that the GPU writes; page-aligned, since a driver registers whole pages. timeline[a]: every
 * request of actor a with a ticket up to this number is done. stream_done[s]: chunks of stream s
 * that the device has copied. */
typedef struct trp__timelines {
    trp__padded_u64 timeline[TRP__ACTORS];
    trp__padded_u64 stream_done[TRP__STREAMS];
} __attribute__((aligned(4096))) trp__timelines;

/* A time of a traced or timed request: when it was issued; or of an actor: when the scheduler saw
 * its timeline reach a ticket. CLOCK_MONOTONIC, in ns. */
typedef struct trp__stamp {
    _Atomic uint64_t ticket; /* written after the time */
    _Atomic int64_t ns;
} trp__stamp;

enum { TRP__PROGRESS = 128 };

typedef struct trp__progress {
    _Alignas(64) _Atomic uint64_t count; /* of stamps; number n lies in place n % TRP__PROGRESS */
    _Alignas(64) trp__stamp stamp[TRP__PROGRESS];
} trp__progress;

typedef struct trp__reply {
    trp__block_head head;
    /* The worker needs the doorbell. Read for each request, so not on a pair of cache lines (they
     * are fetched in pairs) that is written for each. */
    _Alignas(128) _Atomic uint32_t sleeping;
    _Alignas(128) trp__padded_u64 taken;          /* tickets below this were taken from the ring */
    _Alignas(128) _Atomic uint32_t fault_present; /* `fault` is complete; the worker ends */
    int64_t fault_time_ns;                        /* when it was reported, CLOCK_MONOTONIC */
    _Atomic uint32_t starting;                    /* 1 + the actor whose init() runs; 0: none */
    /* Counts answers of actors that a request has to wait for a kernel, a plan or a proof. While it
     * changes, a request that is not begun misses no deadline. */
    _Atomic uint32_t again;
    trp_error fault;
    /* Every request of actor a with a ticket up to this number was, or is being, issued. */
    trp__padded_u64 issued[TRP__ACTORS];
    /* The issued request of actor a that waits for a kernel, a plan or a proof; 0: none. It has no
     * work on the device, so it can't have caused a death, and its deadline does not run. */
    trp__padded_u64 waiting[TRP__ACTORS];
    trp__timelines timelines;
    trp__reply_error error[TRP__SLOTS];
    trp__stamp issue_stamp[TRP__SLOTS];
    trp__progress progress[TRP__ACTORS];
} trp__reply;

#define TRP__CONTROL_BYTES ((sizeof(trp__control) + 4095) / 4096 * 4096)
#define TRP__REPLY_BYTES   ((sizeof(trp__reply) + 4095) / 4096 * 4096)

#endif
