/* Inside the worker: what the side thread and the scheduler thread share.
 *
 * The side thread reads the control socket and does what is slow: mapping arenas, registering host
 * memory, loading libraries. The scheduler thread takes requests and issues them. They meet in
 * `state` fields that go from ABSENT to READY or FAILED, published by the side thread. */
#ifndef TRP_WORKER_WORKER_H
#define TRP_WORKER_WORKER_H

#include "wire/layout.h"
#include "worker/actor.h"

#include <pthread.h>

typedef enum trp__resource_state {
    TRP__ABSENT = 0, /* the message that announces it may be under way */
    TRP__READY,
    TRP__FAILED, /* `error` says why */
} trp__resource_state;

typedef struct trp__arena {
    _Atomic int state;
    void *base;
    uint64_t bytes;
    _Atomic uint64_t protection; /* the last change that was asked for, see wire/message.h */
    _Atomic bool read_only;      /* the mapping, once there is one */
    trp_error error;             /* why it is FAILED, or why it is not as `protection` says */
} trp__arena;

typedef struct trp__host_segment {
    _Atomic int state;
    char *base;
    uint64_t bytes;
    trp_error error;
} trp__host_segment;

typedef struct trp__worker_actor {
    _Atomic int state;
    trp__instance instance;
    trp_error error;
} trp__worker_actor;

typedef struct trp__scheduler trp__scheduler;

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

#endif
