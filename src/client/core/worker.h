/* The worker's process as the whole client sees it: sending it news, validating its output, and
 * waking the supervisor, whose thread alone starts and ends workers. */
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
    bool ready; /* under device->lock: it has started, and gets all news */
    uint32_t incarnation;
    trp__reply *reply; /* its block, mapped for the supervisor */
    int reply_fd;
    int64_t pid; /* 0: none */
    int pidfd;
    trp_error refusal; /* its REFUSE message; status TRP_OK: none */
    bool has_thread;   /* thread isolation */
    pthread_t thread;
    int64_t launched_ns;
    trp__outbox outbox; /* changed under device->lock, as are: */
    bool missed_news;   /* it missed news for lack of memory */
    bool closed;        /* it has closed its end of the socket, and should be ending */
    /* Why the supervisor has to kill it, as "it ...", and the fault that this counts as: an invalid
     * message or word, or a late answer. NULL: no reason. */
    const char *breach;
    trp_fault breach_fault;
    /* Actors that it was sent and has not answered (under device->lock); the one whose init() runs,
     * and since when. */
    _Atomic uint32_t starting;
    uint32_t starting_seen;
    int64_t starting_since;
    bool stuck;     /* it was killed because that init() took too long */
    int kill_errno; /* why SIGKILL could not be sent; 0: it could, or was not needed */
    uint32_t lines; /* for the log that it has sent */
} trp__process;

/* broadcast.c */
/* Sends news to the workers that are ready; device->lock is held. Never waits: the supervisor sends
 * later what a socket has no room for, and sends everything to a worker that starts later. */
void trp__broadcast(trp_device *device, const trp__news *news);
void trp__broadcast_drop(trp_device *device, trp__message_type type, uint32_t id,
                         trp__number_state *state, uint8_t *pending_acks);
/* Does the same for one worker, which is ready. */
void trp__send_news(trp_device *device, uint32_t index, const trp__news *news);

/* wake.c */
void trp__supervisor_wake(trp_device *device);
/* Makes the supervisor check the worker's progress at once. */
void trp__supervisor_alarm(trp_device *device);
/* Wakes the supervisor even if it is not asleep yet. */
void trp__supervisor_ring(const trp_device *device);
/* Device memory is short: ends the standby to free its context. True if there was one. No lock is
 * held. */
bool trp__standby_give_up(trp_device *device);

/* import.c: validates what a worker writes, see recovery/validate_reply.c */
void trp__error_import(trp_error *out, const trp_error *from);
void trp__text_import(char *to, const volatile char *from, size_t size);
void trp__reply_import(trp_error *out, const trp__reply_error *from, const trp__record *record);

#endif
