/* Tracing: recording events (trace.c), and writing them to a file (trace_write.c). */
#ifndef TRP_CLIENT_OBSERVE_TRACE_H
#define TRP_CLIENT_OBSERVE_TRACE_H

#include "client/core/device.h"

#include "base/os/clock.h"

#include <troupe/observe.h>

enum { TRP__TRACE_MARKS = 256 };

/* A request that has ended, or that was interrupted by a fault and will run again. */
typedef struct trp__trace_event {
    _Atomic bool busy; /* being written */
    bool interrupted;
    bool by_timeline; /* the timeline has passed it: its end bounds earlier ones */
    uint16_t actor;
    int16_t status;
    uint32_t incarnation;
    uint32_t attempt; /* 1 + the workers that died before while it was in flight */
    uint64_t ticket;
    int64_t sent, issued,
        done; /* 0: unknown or not yet; the worker wrote the last two: unchecked */
    char op[24];
    char name[32];     /* of the actor */
    const char *label; /* the program's; NULL: none */
} trp__trace_event;

_Static_assert(sizeof(trp__trace_event) == 112, "as the comment of trp_trace_options says");

/* An event of the device itself. */
typedef struct trp__trace_mark {
    int64_t time;
    uint32_t incarnation;
    char name[12]; /* "fault" */
    char text[256];
} trp__trace_mark;

typedef struct trp__trace {
    trp__lock lock; /* starting, stopping, writing, and what the supervisor notes */
    /* Ended requests are recorded. Apart from control->tracing, which makes both sides note times
     * and stays on while the ring is copied. */
    _Atomic bool recording;
    int64_t began; /* requests sent and issued before are left out */
    trp__trace_event *ring;
    uint64_t capacity;        /* a power of two; 0: no trace was begun */
    _Atomic uint64_t next;    /* events so far */
    _Atomic uint64_t skipped; /* events that were not recorded */
    uint64_t marks;           /* so far */
    trp__trace_mark mark[TRP__TRACE_MARKS];
    _Atomic(char *) path; /* where to write it when the device closes, or the program
                           * ends; NULL: nowhere, or done */
} trp__trace;

static inline bool trp__tracing(const trp_device *device)
{
    return atomic_load_explicit(&device->control->tracing, memory_order_relaxed) != 0;
}

bool trp__trace_create(trp_device *device);
void trp__trace_destroy(trp_device *device);

/* A request has ended; its slot is RETIRING by this thread. by_timeline: the device has done it, or
 * the worker has refused it; else the client has ended it. */
void trp__trace_ended(trp_device *device, const trp__slot *slot, const trp__record *record,
                      bool by_timeline);
/* A request died with its worker, and will run again. Supervisor only. */
void trp__trace_interrupted(trp_device *device, trp__slot *slot, const trp__record *record);
/* Supervisor only. */
void trp__trace_mark_now(trp_device *device, const char *name, uint32_t incarnation,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));

/* TROUPE_TRACE: begins a trace of a device that has just opened; writes it before it closes. */
void trp__trace_by_environment(trp_device *device);
void trp__trace_at_close(trp_device *device);

/* Writes `count` events, in any order, and the marks. */
typedef struct trp__trace_content {
    const trp_device *device;
    int64_t time;            /* when the events were copied */
    trp__trace_event *event; /* will be sorted and corrected */
    uint64_t count, dropped;
    const trp__trace_mark *mark;
    uint64_t marks;
} trp__trace_content;

trp_status trp__trace_write_file(const trp__trace_content *content, const char *path,
                                 trp_error *error);

#endif
