/* Systems and completion queues; the devices that are open. */
#ifndef TRP_CLIENT_CORE_SYSTEM_H
#define TRP_CLIENT_CORE_SYSTEM_H

#include "base/log.h"
#include "base/os/lock.h"
#include "wire/layout.h"

#include <troupe/buffer.h>
#include <troupe/watch.h>

#include <stdatomic.h>

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

/* The part of an object that stays until the system is destroyed, so that use after its end is
 * detected. */
typedef struct trp__remnant {
    struct trp__remnant *next;
    void *memory; /* freed with it; may be NULL */
} trp__remnant;

/* An item of a queue: an ended request, or a watch that has notices. Under the queue's lock. Small,
 * for each request slot has one. */
typedef struct trp__queue_item {
    struct trp__queue_item *next;
    uint32_t device_tag;
    bool is_watch; /* else a slot */
} trp__queue_item;

struct trp_queue {
    trp__remnant remnant; /* first: freed as one */
    _Atomic bool ended;
    trp_system *system;
    trp__lock lock;
    trp__queue_item *first, *last;
    int fd;
    _Atomic uint64_t expected; /* requests that will be delivered, and watches */
    struct trp_queue *next;    /* of the system; under its lock */
};

struct trp_system {
    const uint32_t *alive; /* a page that reads zero in a forked child */
    char worker_path[4096];
    char folder[4096]; /* working folder of workers: the program's when it made the system */
    trp__log log;
    trp__lock lock;
    trp_device *device[TRP__DEVICES];
    uint32_t devices;
    trp_queue *queues;
    _Atomic(trp__remnant *) remnants;
};

/* system.c */
void trp__error_down(const trp_device *device, trp_error *error);
trp_status trp__device_usable(const trp_device *device);
/* Does the same for calls that also work on a device that is down. */
trp_status trp__device_known(const trp_device *device);
/* Keeps the remnant of an object until the system is destroyed. No lock is needed. */
void trp__system_retain(trp_system *system, trp__remnant *remnant);
trp_status trp__system_usable(const trp_system *system);
trp_status trp__describe_device(trp_backend backend, uint32_t ordinal, trp_device_info *out,
                                trp_error *error);
trp_device *trp__device_by_tag(uint32_t tag);
trp_status trp__device_register(trp_device *device);
void trp__device_unlist(trp_device *device);
void trp__device_unregister(trp_device *device);
void trp__devices_see(void (*see)(trp_device *device));

/* Checks that the reserved words of an options struct are 0; a later version may use them. */
trp_status trp__check_room(const uint64_t *reserved, size_t count);
#define TRP__CHECK_ROOM(options)                                                                   \
    trp__check_room((options)->reserved, sizeof(options)->reserved / sizeof *(options)->reserved)

#endif
