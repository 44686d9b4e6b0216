/* The worker, and the state that its side thread and scheduler thread share. The side thread reads
 * the control socket and does the slow work: mapping arenas, registering host memory, loading
 * libraries. The scheduler thread takes requests and issues them. They meet in `state` fields that
 * go from ABSENT to READY or FAILED, published by the side thread. The scheduler changes one of
 * them itself: an actor from READY to RESTARTING, which gives its instance to the side thread until
 * that publishes READY or FAILED again. */
#ifndef TRP_WORKER_WORKER_H
#define TRP_WORKER_WORKER_H

#include "wire/directive.h"
#include "wire/layout.h"
#include "worker/actor.h"

#include <pthread.h>

typedef enum trp__resource_state {
    TRP__ABSENT = 0, /* its message may be under way */
    TRP__RESTARTING, /* an actor: the side thread stops it and starts it again */
    TRP__READY,
    TRP__FAILED, /* `error` says why */
} trp__resource_state;

typedef struct trp__arena {
    _Atomic int state;
    void *base;
    uint64_t bytes;
    _Atomic uint64_t protection; /* the last change requested, see wire/message.h */
    _Atomic bool read_only;      /* the mapping, once there is one */
    /* For a sealable buffer's arena: the last request of each actor that may use it. */
    _Atomic uint64_t used[TRP__ACTORS];
    trp_error error; /* why it is FAILED, or why it differs from `protection` */
} trp__arena;

typedef struct trp__host_segment {
    _Atomic int state;
    char *base;
    uint64_t bytes;
    bool plain; /* not registered: only processors reach it */
    trp_error error;
} trp__host_segment;

typedef struct trp__worker_actor {
    _Atomic int state;
    trp__instance instance;
    trp_error error;
    /* While it restarts: the cause, and the ticket that its timeline must reach before it is
     * stopped. */
    trp_error restart_cause;
    uint64_t restart_after;
} trp__worker_actor;

typedef struct trp__scheduler trp__scheduler;

/* Restarts of actors within the window; the next one restarts the whole context. */
enum { TRP__ACTOR_RESTARTS = 8 };

typedef struct trp__worker {
    const trp__control *control;
    trp__reply *reply;
    const trp__backend *backend;
    trp__accel *accel;
    trp__scheduler *scheduler;
    int socket;
    bool own_process;
    uint32_t incarnation;
    _Atomic bool stop;
    _Atomic uint64_t turns; /* of the scheduler's loop */
    int side_fd;            /* an event file: wakes the side thread for restarts */
    int64_t restart_time[TRP__ACTOR_RESTARTS]; /* of the last restarts of actors */
    uint32_t restarts;
    _Atomic uint32_t unsent; /* notices for which the socket had no room */
    trp__arena arena[TRP__ARENAS];
    trp__host_segment host[TRP__HOST_SEGMENTS];
    trp__worker_actor actor[TRP__ACTORS];
} trp__worker;

/* The scheduler's state for a worker whose blocks are mapped; NULL if memory is short. */
trp__scheduler *trp__scheduler_create(trp__worker *worker);
void trp__scheduler_destroy(trp__scheduler *scheduler);

/* Takes and issues requests until worker->stop. Returns TRP_OK, or TRP_E_FAULT with the error
 * filled when the device context is broken. */
trp_status trp__scheduler_run(trp__scheduler *scheduler, trp_error *error);

/* resources.c: starts and stops an actor whose impl, name and so on are set; stop also undoes an
 * incomplete start. Side thread. */
trp_status trp__instance_start(trp__worker *worker, trp__instance *instance, trp_error *error);
void trp__instance_stop(trp__worker *worker, trp__instance *instance, bool initialised);

/* directives.c: reactions to an error of handle(), by the table of wire/directive.h. */

/* Returns, after an error, whether the context is broken. *error becomes the fault then. */
bool trp__is_broken(trp__worker *worker, trp_error *error);

/* Reacts to an error of handle(): for TRIM, trims and calls handle() again. Returns the new result
 * TRP_OK or TRP__AGAIN; or an error and in *directive what is left to do: REPLY, RESTART_ACTOR
 * (reply, then trp__actor_restart()), or RESTART_CONTEXT (`error` is a fault to report). Scheduler
 * thread. */
trp_status trp__obey(trp__worker *worker, trp__instance *instance, trp__job *job, trp_error *error,
                     trp__directive *directive);

/* Gives an actor to the side thread, to be restarted when its timeline has reached `after`: the
 * last signalled ticket in its stream. Scheduler thread. */
void trp__actor_restart(trp__worker *worker, uint32_t actor, uint64_t after,
                        const trp_error *cause);

/* Waits until the control socket has something to read; restarts actors meanwhile. Side thread. */
void trp__side_wait(trp__worker *worker);

#endif
