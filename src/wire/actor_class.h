/* What both sides know of a kind of actor.
 *
 * The sender's part, pack(), checks a request and writes its record; it runs in the application.
 * The worker's part is the vtable of <troupe/worker.h>, opaque here. The table of all classes
 * is at the end of the layering (actors/table.c) and reached through this declaration, so neither
 * side depends on the actors. */
#ifndef TRP_WIRE_ACTOR_CLASS_H
#define TRP_WIRE_ACTOR_CLASS_H

#include "wire/record.h"

#include <troupe/submit.h>

struct trp_actor_impl;

/* A record in the making. */
typedef struct trp__pack {
    trp__record *record;
    trp_error *error;
    trp_backend backend;
    /* Looks a buffer up and holds it for what access->mode says, which the caller has set: fills
     * slot, generation; sets *bytes to its size. Refuses stale handles; lost contents, if the mode
     * has TRP__READ; sealed buffers, if it has TRP__WRITE. The mode must stay as it is until the
     * record's owner has released the access. */
    trp_status (*acquire)(struct trp__pack *pack, const char *name, trp_buffer buffer,
                          trp__access *access, uint64_t *bytes);
    /* Reserves room for `bytes` bytes of a result, zeroed, which go to `target` in the application
     * if the request succeeds, before its end is told. At most once a request. The actor finds the
     * room as one more access, behind those of the record. Waits for some up to wait_ns, then
     * TRP_E_BUSY. */
    trp_status (*result)(struct trp__pack *pack, void *target, uint32_t bytes, int64_t wait_ns);
    void *context; /* the application's, for these two */
} trp__pack;

/* Adds an access to the record after checking that the range lies inside the buffer and that its
 * offset is a multiple of `alignment`. `name` is the argument's name for messages. */
trp_status trp__pack_access(trp__pack *pack, const char *name, trp_buffer buffer, uint64_t offset,
                            uint64_t bytes, uint64_t alignment, uint32_t mode);

/* An operation that stands for several requests of another one, which are sent together and have
 * one completion. */
typedef struct trp__list_class {
    uint32_t op; /* of each */
    /* How many they are, at least 1; checks what they have in common. */
    trp_status (*count)(const trp_request *request, uint32_t *count, trp_error *error);
    /* Checks one of them and writes its record. */
    trp_status (*pack)(trp__pack *pack, const trp_request *request, uint32_t index);
} trp__list_class;

typedef struct trp__op_class {
    uint32_t op;            /* TRP_OP_...: its low byte is the place in the class's table + 1 */
    uint32_t request_bytes; /* size of the public request struct */
    const char *name;
    trp_status (*pack)(trp__pack *pack, const trp_request *request);
    const trp__list_class *list; /* instead of pack; else NULL */
} trp__op_class;

typedef struct trp__actor_class {
    const char *kind;
    bool internal; /* not for trp_actor_create() */
    bool library;  /* the worker's part is in a shared object that the application names */
    uint32_t op_count;
    const trp__op_class *ops;
    const struct trp_actor_impl *cuda; /* NULL: the backend lacks this actor */
    const struct trp_actor_impl *host;
} trp__actor_class;

/* All classes, NULL-terminated. */
extern const trp__actor_class *const trp__actor_classes[];

const trp__actor_class *trp__actor_class_find(const char *kind);

/* The operation of a class, NULL if it has none of that number. */
const trp__op_class *trp__op_class_find(const trp__actor_class *actor_class, uint32_t op);

/* The name of an operation for people: "gemm", "upload"; "0x0101" if it has none here. actor_class
 * may be NULL. */
void trp__op_name(const trp__actor_class *actor_class, uint32_t op, char *out, size_t size);

#endif
