/* A worker as all of this side may see it: telling it, importing what it writes, and waking the
 * supervisor, whose thread alone starts and ends it. */
#ifndef TRP_CLIENT_CORE_WORKER_H
#define TRP_CLIENT_CORE_WORKER_H

#include "client/core/actor.h"
#include "client/core/outbox.h"
#include "client/core/slot.h"

#include <pthread.h>

enum { TRP__WORKERS = 2 };

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
    _Atomic uint32_t starting;
    uint32_t starting_seen;
    int64_t starting_since;
    bool stuck;     /* it was killed because that took too long */
    int kill_errno; /* why SIGKILL could not be sent; 0: it could, or was not needed */
    uint32_t lines; /* for the log that it has sent */
} trp__process;

/* tell.c */
/* Tells the workers something; device->lock is held. Never waits: what a worker has no room for is
 * sent by the supervisor later. A worker that comes later is told of everything by the supervisor.
 */
void trp__tell(trp_device *device, const trp__news *news);
void trp__tell_drop(trp_device *device, trp__message_type type, uint32_t id,
                    trp__number_state *state, uint8_t *pending_acks);
/* The same to one worker, which is ready. */
void trp__tell_one(trp_device *device, uint32_t index, const trp__news *news);

/* wake.c */
void trp__supervisor_wake(trp_device *device);
/* Makes the supervisor check the worker's progress at once. */
void trp__supervisor_alarm(trp_device *device);
void trp__supervisor_close(trp_device *device);
/* Device memory is short: gives the standby's context back. True if there was one. No lock is held.
 */
bool trp__standby_give_up(trp_device *device);

/* import.c: what a worker writes is looked at before it counts, see recovery/validate_reply.c */
void trp__error_import(trp_error *out, const trp_error *from);
void trp__text_import(char *to, const volatile char *from, size_t size);
void trp__reply_import(trp_error *out, const trp__reply_error *from, const trp__record *record);

#endif
