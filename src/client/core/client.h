/* Inside the application side.
 *
 * Locks, in the order in which they may be taken: companions.lock, judging (what becomes of a
 * request that is cancelled, or whose worker has died), stream->lock (one direction of large
 * copies), device->memory_lock (sub-allocator, buffer slots), device->lock (worker, actors, arenas,
 * host segments), segment_lock, watch_lock, queue->lock; pool.opening before all but judging,
 * pool.lock after all, kept->lock just before it. A request that fits its mailbox takes none of
 * them on its way to the worker and back, except for the last holder of a freed buffer, for queues,
 * and for ranges that are not all of a buffer. */
#ifndef TRP_CLIENT_CORE_CLIENT_H
#define TRP_CLIENT_CORE_CLIENT_H

#include "base/log.h"
#include "client/core/outbox.h"
#include "client/core/suballoc.h"
#include "client/memory/contents.h"
#include "client/observe/stats.h"
#include "wire/actor_class.h"
#include "wire/box.h"
#include "wire/layout.h"
#include "wire/message.h"

#include <troupe/buffer.h>
#include <troupe/watch.h>

#include <pthread.h>

#define TRP__NO_WORKER                                                                             \
    "the program troupe-worker was not found beside this program, in ../libexec/troupe, or where " \
    "Troupe was installed; set TROUPE_WORKER or worker_path"

#define TRP__NO_DEADLINE                                                                           \
    "deadline_ns: with thread isolation there are no deadlines, for a thread can't be killed"

enum {
    TRP__DEVICES = 64,
    TRP__MAILBOX_DEFAULT = 1024,
    TRP__MAILBOX_MAX = 16384,
    TRP__TAG_BITS = 14, /* of a handle: which opened device it belongs to */
};

/* A request's life on this side. Kept with the slot's generation, and with whether a future wants
 * its result, in one word, so that each change is also a check that the slot still holds the same
 * request. Whoever takes a request from PENDING to RETIRING ends it: that happens exactly once. */
typedef enum trp__phase {
    TRP__FREE = 0,
    TRP__FILLING,  /* being written by its sender */
    TRP__PENDING,  /* sent */
    TRP__RETIRING, /* being ended by one thread */
    TRP__DONE,     /* ended; its future, or a queue, holds it */
    TRP__GATHERED, /* ended; the leader of its list holds it, see list.c */
} trp__phase;

#define TRP__WANTED UINT64_C(0x80) /* beside the phase: a future names the request */

/* A copy through the pieces of a stream. */
typedef struct trp__transfer {
    char *user; /* source or target */
    uint64_t bytes;
    trp__box box; /* of a pitched copy, also of a small one (see `boxed`); else its bytes are 0 */
    trp_pitch pitch;        /* of `user` */
    trp_pitch buffer_pitch; /* of the buffer */
    uint64_t number;        /* place among the transfers of its stream */
    uint64_t first_chunk, chunks, chunk_bytes;
    uint64_t claimed, finished; /* chunks taken by, and done with by, copying threads */
    uint32_t active;            /* threads that touch user memory now */
    uint32_t next;              /* slot of the next transfer of the stream */
} trp__transfer;

/* What lies in a queue: an ended request, or a watch that has notices. Under the queue's lock.
 * Small, for each request slot has one. */
typedef struct trp__queue_item {
    struct trp__queue_item *next;
    uint32_t device_tag;
    bool is_watch; /* else a slot */
} trp__queue_item;

typedef struct trp__extent trp__extent;

/* Where modules have their homes, see pool.c. */
typedef struct trp__pool {
    pthread_mutex_t opening;
    pthread_mutex_t lock; /* the pieces; the last lock of all */
    char *base;           /* NULL: not made yet */
    uint32_t segment;
    trp__extent *first;
} trp__pool;

#define TRP__NO_SLOT  UINT32_MAX
#define TRP__NO_PIECE UINT32_MAX

/* Whose the shared staging pieces are. */
enum { TRP__POOL_COPIES, TRP__POOL_REQUESTS, TRP__POOLS };

/* What was known of a range when a request that reads it was packed. The request gets its ticket
 * later, and what other threads do in between may belong after it. */
typedef struct trp__look {
    uint64_t cover, accepted; /* TRP__COVERED and TRP__ACCEPTED, the least in the range */
} trp__look;

/* What every request touches is in the first three lines; a table of 16,384 of these is in no
 * cache. */
typedef struct trp__slot {
    _Atomic uint64_t state;       /* generation << 8 | wanted | phase */
    _Atomic uint64_t ticket;      /* 0 until it is sent */
    _Atomic uint64_t detained;    /* of one that ended before its turn, see detained.c; else 0 */
    _Atomic uint64_t deadline_ns; /* for its running; 0: none */
    _Atomic int64_t sent_ns;      /* while the device is traced, or if it is timed; else 0 */
    trp_queue *queue;
    void *user_data;
    const char *label; /* NULL: none */
    /* The second line. */
    struct trp__room *room; /* of the call that fills it */
    uint64_t token;         /* of the object that it makes, until it is sent; 0: none */
    void *read_target;      /* where a small read's piece, or a result's, goes at the end */
    _Atomic uint32_t actor; /* id */
    _Atomic int stream;     /* -1: none; else `transfer` is in use */
    _Atomic uint32_t next_free;
    uint32_t index;
    _Atomic uint32_t deaths; /* workers that died while it was in flight */
    uint16_t lying;          /* workers that left it lying past its deadline */
    uint8_t weight;          /* requests that it is timed for, see latency.h; 0: it is not */
    uint32_t segment;        /* host segment that it holds, 0 for none */
    uint32_t piece;          /* small staging piece that it uses */
    _Atomic uint32_t leader; /* of one that belongs to a list, the list's last; NO_SLOT: to none */
    trp_status status;
    /* The third. */
    trp__queue_item item;
    _Atomic bool cancelling; /* somebody has asked for its end */
    _Atomic bool nested;     /* the call that fills it may send another request first; see room.h */
    bool delivers;           /* see deliver.c; set when it is sent */
    bool boxed;              /* a small copy whose rows lie apart: transfer.box says how */
    _Atomic uint32_t mate;   /* the next in the list */
    uint64_t read_bytes;
    _Atomic uint64_t writes; /* bit i: it writes a buffer whose number mod 64 is that */
    uint64_t *handle;        /* where its sender has that one's handle; with `token` */
    /* The leader's: */
    _Atomic uint32_t first; /* of the list */
    _Atomic uint32_t left;  /* members that have not ended */
    _Atomic uint32_t members;
    trp_status list_status; /* once they have ended: of the first that failed */
    trp__transfer transfer;
    trp__look look[TRP__ACCESS_MAX]; /* of each input */
} __attribute__((aligned(64))) trp__slot;

_Static_assert(offsetof(trp__slot, transfer) <= (size_t)3 * TRP__LINE, "a slot's first lines");

/* Something that requests make, use and share in order, as they do a buffer: one is its token, and
 * brings generations, freeing while requests are on their way, and that those that use what could
 * not be made are refused. First member of the struct of whoever makes such objects. */
typedef struct trp__object {
    /* Nobody holds the token any more, or the device is closing. `made`: the request that makes the
     * object has succeeded. */
    void (*destroy)(trp_device *device, struct trp__object *object, bool made);
} trp__object;

/* What only this side knows of a buffer. */
typedef struct trp__buffer_meta {
    /* generation << 32 | freed << 31 | requests that hold it. Freed with none left: it goes. */
    _Atomic uint64_t hold;
    trp__contents contents;
    uint32_t node; /* in the sub-allocator; 0 if it is sealable */
    uint32_t next_free;
    _Atomic uint32_t writers; /* see seal.c; only for sealable ones */
    bool sealable;            /* it has an arena to itself */
    uint32_t mapped[2];  /* by the program: read-only, writable; under device->lock, see map.c */
    trp__object *object; /* whose token it is; NULL: an ordinary buffer */
} trp__buffer_meta;

/* Why a numbered resource can't be used again yet: the worker still knows the old one. */
typedef enum trp__number_state {
    TRP__NUMBER_FREE = 0,
    TRP__NUMBER_LIVE,
    TRP__NUMBER_DROPPING,
} trp__number_state;

/* Where the program has an arena mapped, and for how many of its mappings. */
typedef struct trp__view_of_arena {
    char *base; /* NULL: nowhere */
    uint32_t users;
} trp__view_of_arena;

typedef struct trp__client_arena {
    trp__number_state state;
    uint8_t told; /* workers that have yet to answer the drop, as bits */
    int fd;
    uint64_t bytes;
    uint64_t handle;            /* the driver's, on cuda */
    bool own;                   /* it is that of one sealable buffer */
    trp__view_of_arena view[2]; /* in this process, see map.c: read-only, writable */
    /* Of a sealable buffer's arena, see seal.c. The small numbers are workers, as bits. */
    uint64_t protection; /* the last change, see wire/message.h */
    bool moving;         /* a call seals or unseals the buffer */
    uint8_t changing;    /* have yet to answer the last change */
    uint8_t refused;     /* could not make it */
    uint8_t guarded;     /* have it mapped read-only, or not at all */
    trp_error *refusal;  /* where their error goes; NULL: nobody waits for it */
} trp__client_arena;

typedef struct trp__client_segment {
    trp__number_state state;
    uint8_t told;
    int fd;
    char *base;
    uint64_t bytes;
    uint32_t holders; /* requests */
    bool freed;
    bool plain; /* the device does not reach it: the pool of modules */
    bool answered;
    trp_error answer;
} trp__client_segment;

/* What a program may name after its end, and what it is found out by: it stays until the system is
 * destroyed. */
typedef struct trp__remnant {
    struct trp__remnant *next;
    void *memory; /* freed with it; may be NULL */
} trp__remnant;

/* What the program holds of an actor: a few bytes, of which each actor has its own, while the
 * structs below are used again. */
struct trp_actor {
    trp__remnant remnant;              /* first: freed as one */
    _Atomic(trp__client_actor *) live; /* NULL: destroyed, or its device is closed */
};

/* The actor of a number. */
struct trp__client_actor {
    trp_device *device;
    trp_actor *handle; /* NULL: of one that the program did not make */
    const trp__actor_class *class;
    trp__number_state state;
    uint8_t told;
    bool cold; /* standbys do not make it */
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
    /* Making it, see making.c; under device->lock. */
    bool trial;        /* not answered, and told to the standby only */
    bool suspect;      /* a worker died while it made this one, perhaps of something else */
    bool condemned;    /* later workers get `verdict` in its place */
    uint32_t killings; /* workers in a row that died of making it */
    trp_error verdict;
    /* Mailbox: what was sent and has not been seen to end, as cells like those of the ring; 0: not
     * written yet. */
    uint64_t capacity;
    _Atomic uint64_t *mailbox;
    _Atomic uint64_t *tail; /* on a line of its own, in the shared figures of the device */
    _Alignas(64) _Atomic uint64_t head;
    _Atomic bool sweeping;
    _Atomic uint32_t lists;       /* that wait for places */
    _Atomic uint64_t deliveries;  /* pending requests with a result, see deliver.c */
    _Atomic uint32_t timed_every; /* see latency.h; a power of two, */
    _Atomic int64_t rated_at;     /* settled then, */
    _Atomic uint64_t rated_sent;  /* when so many had been sent */
    uint64_t watched;             /* supervisor: the cell of the request that is running, */
    int64_t watched_since;
};

typedef struct trp__client_stream {
    pthread_mutex_t lock;
    pthread_cond_t work;
    uint32_t first, last; /* transfers that have chunks left to claim, TRP__NO_SLOT for none */
    uint32_t active;      /* copying threads that are at a chunk */
    uint64_t next_chunk;
    /* Transfers by number: where their chunks end, and, from `ended` on, whether they have ended
     * out of turn. */
    uint64_t next_number, ended;
    uint64_t base; /* all chunks below belong to transfers before `ended` */
    struct trp__transfer_log {
        uint64_t end_chunk;
        bool ended;
    } * log;
} trp__client_stream;

/* What a worker says of its progress, as last looked at and believed; belongs to the supervisor. */
typedef struct trp__words {
    uint64_t timeline[TRP__ACTORS];
    uint64_t issued[TRP__ACTORS];
    uint64_t waiting[TRP__ACTORS]; /* a request that is issued and has not begun; any number */
    uint64_t stream_done[TRP__STREAMS];
    uint64_t taken;
} trp__words;

enum { TRP__COPY_THREADS = 4, TRP__WORKERS = 2, TRP__DYING = 8 };

/* Actors that share the work of all actors whose class has companions; made with the first of those
 * and ended with the last. The lock comes before all others, and is held while they are made. */
typedef struct trp__companions {
    pthread_mutex_t lock;
    trp__client_actor *actor[TRP__COMPANIONS];
    uint32_t count, users;
} trp__companions;

typedef struct trp__copier {
    pthread_mutex_t lock; /* starting and stopping the threads */
    pthread_t thread[TRP__STREAMS][TRP__COPY_THREADS];
    uint32_t count[TRP__STREAMS];
    _Atomic bool stop;
} trp__copier;

/* One worker; belongs to the supervisor thread. */
typedef struct trp__process {
    int socket; /* changed under device->lock; -1: no worker */
    bool ready; /* under device->lock: it has started, and is told of everything */
    uint32_t incarnation;
    trp__reply *reply; /* its block, mapped for the supervisor */
    int reply_fd;
    int64_t pid; /* 0: none */
    int pidfd;
    trp_error refusal; /* what it said if it could not start; status TRP_OK: nothing */
    bool has_thread;   /* thread isolation */
    pthread_t thread;
    int64_t launched_ns;
    trp__outbox outbox; /* under device->lock, as is: */
    bool untold;        /* there was no memory to tell it something */
    bool closed;        /* it has closed its end of the socket, and may be about to end */
    /* What it did that no worker does, or did not do in time; then it is killed. Belongs to the
     * supervisor. NULL: nothing; else "it ...", and how that counts. */
    const char *breach;
    trp_fault breach_fault;
    /* Actors that it was told to make and has not answered for (under device->lock); the one that
     * it is at, and since when. */
    _Atomic uint32_t making;
    uint32_t making_seen;
    int64_t making_since;
    bool stuck;     /* it was killed because that took too long */
    int kill_errno; /* why SIGKILL could not be sent; 0: it could, or was not needed */
    uint32_t lines; /* for the log that it has sent */
} trp__process;

/* All of it reads zero once it was closed: whole pages, which cost nothing but addresses then. */
enum { TRP__REHEARSED_KINDS = 1024 };

struct trp_device {
    trp_system *system;
    trp_device_options options;
    trp_backend backend;
    trp_device_info identity; /* what never changes */
    uint32_t tag;
    const uint32_t *alive; /* a page that reads zero in a forked child; NULL: closed */
    trp__remnant *remnant; /* for what stays of the device */
    _Atomic bool closed;   /* a thread has begun to close it */
    /* Ends requests that are over, for those who need what they hold; no lock is held but judging
     * and those before it. */
    void (*end_over)(trp_device *device);

    trp__control *control;
    trp__reply *reply; /* always at this address: a new incarnation's block replaces the mapping */
    char *staging;
    int control_fd, staging_fd;

    /* For those who look, see client/observe/stats.h and client/observe/trace.h. */
    trp__stats *stats;
    int stats_fd;
    trp__view view;
    _Atomic bool observable;     /* it is open, and `view` can be read */
    uint64_t faults, promotions; /* the supervisor's, as is: */
    bool robbed;                 /* the program has closed descriptors of the library */
    bool unended; /* the active worker could not be ended: no other may take its place */
    struct trp__trace *trace;
    struct trp__failures *failures; /* failures.c */

    /* See rehearsed.c: the checksums of the kinds of requests that are kept for standbys. */
    bool rehearses;
    atomic_flag rehearsed_busy;
    _Atomic uint64_t rehearsed_kind[TRP__REHEARSED_KINDS];

    _Atomic int state; /* trp_device_state */
    _Atomic uint32_t incarnation;
    _Atomic uint32_t restarts;
    _Atomic uint64_t failed;
    _Atomic uint32_t slots_used; /* slots from here on were never used */
    /* tag << 32 | index of the first free slot. Every sender writes it, so it shares no line with
     * what senders read. */
    _Alignas(64) _Atomic uint64_t free_slots;
    _Alignas(64) _Atomic uint32_t waiting; /* calls that wait for room, see room.h */
    _Alignas(64) _Atomic uint64_t
        free_pieces[TRP__POOLS]; /* the same for shared staging pieces, of which the */
    _Atomic uint32_t
        piece_next[TRP__SMALL_COUNT - TRP__SLOTS]; /* first behind the slots' own is 0 */
    trp__slot *slot;
    trp_error *slot_error;
    trp__buffer_meta *meta;
    pthread_mutex_t content_lock[TRP__CONTENT_LOCKS]; /* see contents.h */
    uint64_t judged;                                  /* supervisor: notes of that kind so far */

    trp__companions companions;
    pthread_mutex_t judging; /* a request's fate is being decided; see cancel.c */
    pthread_mutex_t lock;
    pthread_cond_t changed;                          /* answers, end of start-up */
    _Atomic(trp__client_actor *) actor[TRP__ACTORS]; /* made once, used again, freed at the end */
    _Atomic int64_t
        typical_wait[TRP__ACTORS]; /* ns, at least, of the last thread that slept for one */
    trp__client_arena arena[TRP__ARENAS];
    pthread_mutex_t segment_lock; /* holders, freed, base of segments */
    trp__client_segment segment[TRP__HOST_SEGMENTS];
    trp__pool pool;
    struct trp__kept_list *kept;    /* kept.c */
    const trp__module_ops *modules; /* module.c */
    uint32_t segments_made;         /* under segment_lock: numbers from here on were never used */
    /* The worker that takes requests, and the warm one that waits for its death. */
    trp__process worker[TRP__WORKERS];
    uint32_t active;                /* its index */
    trp__process dying[TRP__DYING]; /* workers that were given up and have not ended yet */
    _Atomic int64_t worker_pid, standby_pid;
    uint32_t incarnations;         /* workers made so far */
    uint32_t standby_failures;     /* in a row */
    int64_t standby_after;         /* when the next one may be started */
    _Atomic bool standby_unwanted; /* its memory is needed elsewhere */

    pthread_mutex_t memory_lock;
    trp__suballoc *suballoc;
    uint32_t free_buffer;
    uint32_t buffers_made;
    uint64_t reserved, first_arena_bytes, live_buffers;
    uint64_t sealable_bytes;    /* of `reserved`: arenas of sealable buffers */
    _Atomic uint64_t lingering; /* buffers that are freed and still held by requests */

    trp__client_stream stream[TRP__STREAMS];
    trp__copier copier;

    pthread_t supervisor;
    int wake_fd;
    _Atomic bool supervisor_asleep;
    _Atomic bool closing;
    _Atomic bool alarm;  /* somebody saw the worker write what can't be true */
    trp__words seen;     /* of the active worker */
    uint32_t seen_again; /* supervisor: the worker's count of requests asked to wait */
    uint64_t idle_cell;  /* supervisor: the cell of a request that nothing keeps from running, */
    int64_t idle_since;  /* and that the worker has not begun */
    _Atomic uint64_t queue_bound; /* pending requests that go to queues */
    _Atomic uint64_t deliveries;  /* pending requests with a result for the program's memory */
    _Atomic uint64_t deadlines;   /* pending requests with a deadline */
    bool started; /* under lock: the first start has ended, lanes included, as start_error says */
    trp_error start_error;
    trp_error down;            /* why it went down by itself; set before `state` is */
    trp_status down_cause;     /* the status of the failure that was one too many */
    int64_t *restart_time;     /* of the last restart_budget restarts */
    uint8_t *pending_progress; /* what the supervisor found out of each */
    uint64_t *pending;         /* scratch of the supervisor: cells of pending requests */

    pthread_mutex_t watch_lock;
    pthread_cond_t watch_idle; /* a callback has returned */
    struct trp__watch *watches;
    uint32_t watch_count;
    uint64_t notices;          /* made so far */
    _Atomic bool notices_wait; /* for the supervisor to call a callback */
};

struct trp_queue {
    trp__remnant remnant; /* first: freed as one */
    _Atomic bool ended;
    trp_system *system;
    pthread_mutex_t lock;
    trp__queue_item *first, *last;
    int fd;
    _Atomic uint64_t expected; /* requests that will be delivered, and watches */
    struct trp_queue *next;    /* of the system; under its lock */
};

struct trp_system {
    const uint32_t *alive; /* a page that reads zero in a forked child */
    char worker_path[4096];
    char folder[4096]; /* in which workers work: that of the program when it made the system */
    trp__log log;
    pthread_mutex_t lock;
    trp_device *device[TRP__DEVICES];
    uint32_t devices;
    trp_queue *queues;
    _Atomic(trp__remnant *) remnants;
};

/* system.c */
void trp__error_down(const trp_device *device, trp_error *error);
trp_status trp__device_usable(const trp_device *device);
/* The same for calls that work on a device that is down, too. */
trp_status trp__device_known(const trp_device *device);
/* Takes what is left of an object until the system is destroyed. No lock is needed. */
void trp__system_retain(trp_system *system, trp__remnant *remnant);
trp_status trp__system_usable(const trp_system *system);
const uint32_t *trp__alive_create(trp_error *error);
void trp__alive_destroy(const uint32_t *alive);
trp_status trp__describe_device(trp_backend backend, uint32_t ordinal, trp_device_info *out,
                                trp_error *error);
trp_device *trp__device_by_tag(uint32_t tag);
trp_status trp__device_register(trp_device *device);
void trp__device_unlist(trp_device *device);
void trp__device_unregister(trp_device *device);
void trp__devices_see(void (*see)(trp_device *device));

/* slot.c and request.c: slots and the path of a request */
void trp__slots_init(trp_device *device);
uint32_t trp__index_pop(_Atomic uint64_t *head, _Atomic uint32_t *next, size_t stride);
void trp__index_push(_Atomic uint64_t *head, _Atomic uint32_t *next, size_t stride, uint32_t index);
trp_status trp__slot_begin(struct trp__room *room, trp__slot **out, trp__record **record);
bool trp__slots_return(const trp_device *device, uint32_t count, bool nested);
trp_status trp__slot_conclude(trp_device *device, trp__slot *slot, trp_status status,
                              const trp_error *packing);
trp__pack trp__pack_begin(trp_device *device, trp__slot *slot, trp_error *error);
void trp__slot_abandon(trp_device *device, trp__slot *slot);
/* Gives a request that is being packed its label. */
void trp__slot_label(trp__slot *slot, trp__record *record, const char *label);
/* `count` places, from *place on, all of which must then be published. */
trp_status trp__mailbox_reserve(trp__client_actor *actor, uint32_t count, struct trp__room *room,
                                uint64_t *place);
/* What is left to do for a request after it was published, with no lock held. */
typedef struct trp__sent {
    trp__slot *slot;
    uint64_t pending; /* its state when it was published */
    bool watched;     /* the supervisor must look after it */
} trp__sent;
trp__sent trp__slot_publish(trp__client_actor *actor, trp__slot *slot, uint64_t place,
                            trp_completion *completion);
/* The same in two steps, for several with tickets in a row: after trp__slot_enlist() of each,
 * trp__slots_show() makes them visible to the worker, all at once. */
trp__sent trp__slot_enlist(trp__client_actor *actor, trp__slot *slot, uint64_t place,
                           uint64_t ticket, trp_completion *completion);
void trp__slots_show(trp_device *device, const trp__sent *sent, uint32_t count, uint64_t ticket);
void trp__slot_published(trp_device *device, const trp__sent *sent);
trp_status trp__slot_send(trp__client_actor *actor, trp__slot *slot, trp_completion *completion);
/* The actor that a program names; raises TRP_E_STALE, or TRP_E_ARGUMENT for NULL, if there is none.
 */
trp__client_actor *trp__actor_live(const trp_actor *actor);

/* future.c */
trp_status trp__future_find(trp_future future, trp_device **device, trp__slot **slot,
                            uint64_t *generation);
trp_status trp__future_stale(void);
bool trp__is_future(uint64_t state, uint64_t generation);

/* retire.c: how requests end */
/* Keeps a request that has ended well for the standbys to come, if its kind is new. */
void trp__rehearsed_note(trp_device *device, const trp__slot *slot, const trp__record *record);

/* Fills in whose request an error is of: actor, operation, label (NULL: none). */
void trp__error_name(trp_error *error, const trp__client_actor *actor, uint32_t op,
                     const char *label);
bool trp__retire(trp_device *device, trp__slot *slot, uint64_t pending_state,
                 const trp_error *failure);
bool trp__retire_early(trp_device *device, trp__slot *slot, uint64_t pending_state,
                       const trp_error *failure);
bool trp__try_finish(trp_device *device, trp__slot *slot, uint64_t pending_state);
void trp__sweep(trp__client_actor *actor);
void trp__sweep_device(trp_device *device);
void trp__slot_release(trp_device *device, trp__slot *slot, uint64_t owned);
void trp__release_holdings(trp_device *device, trp__slot *slot);

/* Tells the end of a request, whose slot has that generation, to whoever wants to know. */
void trp__tell_end(trp_device *device, trp__slot *slot, uint64_t generation);
void trp__wake_sleepers(trp_device *device, const trp__slot *slot);

/* causes.c */
/* If a request that is over could not run because of another one, ends that one, too, if nobody has
 * yet, and all before it: no lock is held that one takes to end a request. */
void trp__end_causes(trp_device *device, const trp__slot *slot);

/* deliver.c: when results are in the program's memory */
bool trp__delivers(const trp__slot *slot);
void trp__delivery_begin(trp__client_actor *actor);
void trp__delivery_end(trp__client_actor *actor);
void trp__deliver_before(trp_device *device, uint64_t ticket);

/* list.c: requests with one completion */
trp_status trp__list_submit(trp__client_actor *actor, const trp__op_class *op,
                            const trp_request *request, struct trp__room *room,
                            trp_completion *completion);
void trp__list_gather(trp_device *device, trp__slot *slot, uint64_t generation);
void trp__list_look(trp_device *device, const trp__slot *leader);
trp_status trp__result_read(trp_device *device, const trp__slot *slot, trp_error *out);
void trp__result_taken(trp_device *device, trp__slot *slot, uint64_t owned);
static inline bool trp__leads(const trp__slot *slot)
{
    return atomic_load_explicit(&slot->leader, memory_order_relaxed) == slot->index;
}

/* cancel.c */
void trp__cancel_in_doubt(trp_device *device, trp__slot *slot, uint64_t state);

/* detained.c: requests that end before their turn */
void trp__detain(trp__slot *slot, uint64_t ticket);
void trp__slot_taken(trp_device *device, trp__slot *slot, uint64_t owned);
uint64_t trp__detained(const trp__slot *slot);
void trp__detained_pass(trp_device *device, trp__slot *slot, uint64_t ticket);
bool trp__detained_over(trp_device *device, trp__slot *slot, uint64_t ticket);

/* poison.c: what a failed request means for those that read its outputs */
bool trp__buffer_lost(trp_device *device, uint32_t slot);
/* What is known of the range of an access. */
trp__look trp__access_look(trp_device *device, const trp__access *access);
/* TRP_OK, TRP_E_LOST, TRP_E_DEPENDENCY; *cause is the request that has failed. */
trp_status trp__access_readable(trp_device *device, const trp__access *access, uint64_t *cause);
/* The same for a request that has its ticket. `look`: what was seen before. */
trp_status trp__access_readable_at(trp_device *device, const trp__access *access, uint64_t ticket,
                                   const trp__look *look, uint64_t *cause);
/* The last failed request that should have written some of what a request reads, of those whose
 * failure was told before; 0: none. */
uint64_t trp__access_last_told(trp_device *device, const trp__access *access, uint64_t ticket,
                               const trp__look *look);
/* Notes in a request that has its ticket, for one of its accesses, which failures were told. Some
 * may be too old: then one that can't be named, else 0. told_last of the record is set. */
uint64_t trp__access_note_told(trp_device *device, trp__record *record, trp__access *access,
                               uint64_t ticket, const trp__look *look);
/* Whether a failed request is the last that should have written some byte of a buffer, which was
 * not written anew since. */
bool trp__poison_stands(trp_device *device, uint32_t slot, uint64_t ticket);
void trp__poison_outputs(trp_device *device, const trp__slot *slot);
void trp__poison_accept(trp_device *device, const trp__slot *slot);

/* buffer.c and arena.c */
trp_status trp__buffer_create(trp_device *device, const trp_buffer_options *options,
                              trp_buffer *out);
trp_status trp__buffer_free(trp_device *device, trp_buffer buffer);
/* Makes a buffer, which has no holder yet, the token of an object. */
void trp__buffer_set_object(trp_device *device, trp_buffer token, trp__object *object);
/* Destroys all objects; the device is closing. */
void trp__objects_destroy(trp_device *device);
trp_status trp__buffer_acquire(trp__pack *pack, const char *name, trp_buffer buffer,
                               trp__access *access, uint64_t *bytes);
void trp__access_release(trp_device *device, const trp__access *access);
/* Holds a buffer for a call; raises TRP_E_STALE if there is none. */
trp_status trp__buffer_hold(trp_device *device, trp_buffer buffer, uint32_t *slot);
void trp__buffer_release(trp_device *device, uint32_t slot);
/* The slot of a buffer that is alive, or freed and still held; raises TRP_E_STALE. */
trp_status trp__buffer_find(trp_device *device, trp_buffer buffer, uint32_t *slot);
/* Holds a buffer for a call that looks at its bytes, as a reader does; raises its errors. */
trp_status trp__buffer_hold_readable(trp_device *device, trp_buffer buffer, uint32_t *slot);
/* The unit of an arena's size. */
trp_status trp__arena_granule(trp_device *device, uint64_t *bytes, trp_error *error);
/* Sees to it, as far as there is memory, that a buffer of that size need not wait for the device's.
 */
void trp__buffer_expect(trp_device *device, uint64_t bytes);
/* Refuses contents that can't be read, see trp__pack.look. */
trp_status trp__buffer_look(trp__pack *pack, const char *name, trp_buffer buffer,
                            const trp__access *access);
/* It is freed and nobody holds it. */
bool trp__buffer_gone(const trp__buffer_meta *meta);
/* memory_lock is held, and given up while the worker is waited for. `own`: not NULL for the arena
 * of one buffer, of which the sub-allocator does not learn; receives its id. */
trp_status trp__arena_add(trp_device *device, uint64_t needed, uint32_t *own, trp_error *error);
void trp__arena_return(trp_device *device, uint32_t id); /* such an arena; no lock is held */
bool trp__arena_trim(trp_device *device);
void trp__arena_close(trp_device *device, trp__client_arena *arena);

/* map.c */
bool trp__mapped_for_writing(trp_device *device, uint32_t slot);
void trp__arena_unmap(trp__client_arena *arena);

/* seal.c; device->lock is held for the last three */
bool trp__write_begin(trp__buffer_meta *meta);
void trp__write_end(trp__buffer_meta *meta);
bool trp__sealed(trp__buffer_meta *meta);
bool trp__seal_answered(trp_device *device, uint32_t index, const trp__message *m);
void trp__seal_announced(trp__client_arena *arena, uint32_t index);
void trp__seal_worker_gone(trp__client_arena *arena, uint32_t index);

/* scope.c; for the supervisor */
#define TRP__SCOPE_LOST  UINT64_MAX            /* as a judged_ticket: lost with everything else */
#define TRP__SCOPE_FIRST (TRP__SCOPE_LOST - 1) /* this and those above are no tickets */
void trp__scope_begin(trp_device *device);
void trp__scope_cover(trp_device *device, const trp__record *record);
void trp__scope_end(trp_device *device, uint64_t last);

/* transfer.c, pieces.c and segment.c */
bool trp__streams_init(trp_device *device);
void trp__transfer_end(trp_device *device, trp__slot *slot);
void trp__transfer_scatter(const trp__transfer *t, char *user, char *packed);
void trp__transfer_gather(const trp__transfer *t, char *user, char *packed);
void trp__piece_return(trp_device *device, const trp__slot *slot);
trp_status trp__result_reserve(trp__pack *pack, void *target, uint32_t bytes);
bool trp__transfer_drained(trp_device *device, trp__slot *slot, uint64_t pending);
bool trp__transfer_filled(trp_device *device, trp__slot *slot, uint64_t pending,
                          uint64_t stream_done);
void trp__transfers_restart(trp_device *device, uint32_t stream);
void trp__copier_stop(trp_device *device);
bool trp__segment_find(trp_device *device, const void *memory, uint64_t bytes, uint32_t *segment,
                       uint64_t *offset);
void trp__segment_release(trp_device *device, uint32_t segment);
/* A new segment, `plain` for memory that no device reaches; waits for the worker's answer. */
trp_status trp__segment_add(trp_device *device, uint64_t bytes, bool plain, uint32_t *id,
                            void **base, trp_error *error);
trp_status trp__input_reserve(trp__pack *pack, uint32_t bytes, void **room);
trp_status trp__exchange_reserve(trp__pack *pack, void *target, uint32_t result_bytes,
                                 uint32_t bytes, void **room);
void trp__segment_close(trp_device *device, trp__client_segment *segment);

/* queue_items.c and queue.c */
/* Whether ends of the device's requests can go to a queue, which is that argument of a call. */
trp_status trp__queue_check(const trp_device *device, const trp_queue *queue, const char *name);
/* Whether a queue, which is that argument of a call, can be used. */
trp_status trp__queue_usable(const trp_queue *queue, const char *name);
void trp__queue_push(trp_queue *queue, trp__slot *slot, uint64_t done);
void trp__queue_forget(trp_queue *queue, trp_device *device);
/* The queue's lock is held. */
void trp__queue_link(trp_queue *queue, trp__queue_item *item);
void trp__queue_unlink(trp_queue *queue, trp__queue_item *item);
/* What the event file of the queue says; nothing else changes it. */
void trp__queue_set_readable(trp_queue *queue, bool readable);

/* watch.c */
bool trp__watch_take(trp__queue_item *item, trp_event *out);
void trp__notice_post(trp_device *device, trp_notice_kind kind, uint32_t incarnation,
                      int64_t time_ns, uint64_t dropped, const trp_error *error);
void trp__notice(trp_device *device, trp_notice_kind kind, const trp_error *error);
void trp__notice_relay(trp_device *device, uint32_t incarnation, const trp__message *m);
/* A line for an operator, of something that is a notice of that kind, too: it does not go to
 * standard error if a watch gets such notices. trp__worker_line() passes on what a worker has to
 * say. */
void trp__device_line(trp_device *device, trp_notice_kind kind, int level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void trp__worker_line(trp_device *device, struct trp__process *p, const trp__message *m);
void trp__notices_deliver(trp_device *device);
void trp__watches_close(trp_device *device);

/* wake.c */
void trp__supervisor_wake(trp_device *device);
void trp__supervisor_alarm(trp_device *device);
bool trp__standby_give_up(trp_device *device);

/* tell.c */
/* Tells the workers something; device->lock is held. Never waits: what a worker has no room for is
 * sent by the supervisor later. A worker that comes later is told of everything by the supervisor.
 */
void trp__tell(trp_device *device, const trp__news *news);
void trp__tell_drop(trp_device *device, trp__message_type type, uint32_t id,
                    trp__number_state *state, uint8_t *told);
/* The same to one worker, which is ready. */
void trp__tell_one(trp_device *device, uint32_t index, const trp__news *news);

/* supervisor.c and process.c */
trp_status trp__supervisor_start(trp_device *device);
void trp__supervisor_stop(trp_device *device);
trp_status trp__process_launch(trp_device *device, uint32_t index, trp_error *error);
trp_status trp__process_await_ready(trp_device *device, uint32_t index, trp_error *error);
trp_status trp__process_refusal(const trp__message *m, trp_error *error);
void trp__process_welcome(trp_device *device, uint32_t index);
trp_status trp__process_promote(trp_device *device, uint32_t index, trp_error *error);
bool trp__process_end(trp_device *device, uint32_t index, bool kill_now, trp_error *cause);
void trp__process_kill(trp__process *process);
void trp__process_abandon(trp_device *device, uint32_t index, trp_error *cause);
void trp__process_reap(trp_device *device, bool wait);
void trp__number_answered(trp_device *device, uint32_t index, const trp__message *m);
void trp__take_messages(trp_device *device, uint32_t index, bool *gone);
void trp__look_after_mail(trp_device *device, uint32_t index);
void trp__tell_actor(trp_device *device, uint32_t index, trp__client_actor *actor);
int64_t trp__process_due(const trp_device *device, const trp__process *p);

/* making.c: actors that are being made. device->lock is held. */
void trp__making_begin(trp_device *device, trp__client_actor *actor);
void trp__making_answered(trp_device *device, uint32_t index, trp__client_actor *actor,
                          const trp_error *error);
/* The supervisor's, which holds no lock. */
typedef struct trp__suspicion {
    trp__client_actor *actor; /* that the worker was making; NULL: none */
    uint64_t made;            /* its `made` then */
    uint32_t incarnation;
    bool stuck;
} trp__suspicion;
trp__suspicion trp__making_suspicion(trp_device *device, uint32_t index);
bool trp__making_explain(trp_device *device, const trp__suspicion *suspicion, trp_error *cause);
void trp__making_blame(trp_device *device, const trp__suspicion *suspicion, bool others,
                       const trp_error *cause);
void trp__making_end_trials(trp_device *device);
bool trp__making_late(trp__process *p);
bool trp__making_any(const trp_device *device);
bool trp__making_lanes_end(trp_device *device, trp_error *error);
void trp__making_check(trp_device *device);
trp_status trp__making_await(trp_device *device, uint32_t index, trp_error *error);

/* import.c and distrust.c: what a worker writes is looked at before it counts */
void trp__error_import(trp_error *out, const trp_error *from);
void trp__text_import(char *to, const volatile char *from, size_t size);
void trp__reply_import(trp_error *out, const trp__reply_error *from, const trp__record *record);
void trp__process_breach(trp__process *p, trp_fault fault, const char *what);
const char *trp__words_look(trp_device *device);
bool trp__words_untouched(const trp__reply *reply);
bool trp__read_absurd(trp_device *device);
void trp__words_freeze(trp_device *device);

/* actor.c */
void trp__actor_leave_handle(trp__client_actor *actor);
trp__client_actor *trp__actor_make(trp_device *device, uint32_t id, const trp__actor_class *class,
                                   const char *name);

static inline trp_status trp__completion_check(const trp_device *device,
                                               const trp_completion *completion)
{
    return completion && completion->queue
               ? trp__queue_check(device, completion->queue, "completion.queue")
               : TRP_OK;
}

static inline uint64_t trp__state(uint64_t generation, trp__phase phase)
{
    return generation << 8 | (uint64_t)phase;
}

static inline trp__phase trp__phase_of(uint64_t state)
{
    return (trp__phase)(state & 0x7f);
}

static inline uint64_t trp__generation_of(uint64_t state)
{
    return state >> 8;
}

static inline uint64_t trp__timeline(const trp_device *device, uint32_t actor)
{
    return atomic_load_explicit(&device->reply->timelines.timeline[actor].value,
                                memory_order_acquire);
}

static inline uint64_t trp__stream_done(const trp_device *device, uint32_t stream)
{
    return atomic_load_explicit(&device->reply->timelines.stream_done[stream].value,
                                memory_order_acquire);
}

/* Whether the worker has written why it did not run a request. */
static inline bool trp__replied(const trp_device *device, uint32_t slot, uint64_t ticket)
{
    return atomic_load_explicit(&device->reply->error[slot].ticket, memory_order_acquire) == ticket;
}

/* Whether a timeline that has passed a ticket can't be true. Who ends requests asks only if it is
 * far ahead, which is rare, and random rubbish nearly always is. */
static inline bool trp__timeline_absurd(const trp_device *device, uint64_t timeline,
                                        uint64_t ticket)
{
    return timeline - ticket >= TRP__RING &&
           timeline >= atomic_load(&device->control->next_ticket.value);
}

/* Of cells, for qsort(): they begin with the ticket. */
static inline int trp__by_ticket(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The room of a struct of options, which a program compiled for a later version may use. */
trp_status trp__check_room(const uint64_t *reserved, size_t count);
#define TRP__CHECK_ROOM(options)                                                                   \
    trp__check_room((options)->reserved, sizeof(options)->reserved / sizeof *(options)->reserved)

#endif
