/* Class of an actor: the part that both sides know.
 *
 * The sender's part, encode(), checks a request and writes its record; it runs in the application.
 * The worker's part is the vtable of <troupe/worker.h>, opaque here. The table of all classes
 * is at the end of the layering (actors/table.c) and reached through this declaration, so neither
 * side depends on the actors. */
#ifndef TRP_WIRE_ACTOR_CLASS_H
#define TRP_WIRE_ACTOR_CLASS_H

#include "wire/object.h"
#include "wire/record.h"

struct trp_actor_impl;

/* A record while it is filled in. */
typedef struct trp__encoder {
    trp__record *record;
    trp_error *error;
    trp_backend backend;
    /* Looks a buffer up and holds it for access->mode, which the caller has set: fills slot and
     * generation, sets *bytes to its size. Refuses stale handles, and sealed buffers if the mode
     * has TRP__WRITE. The mode must not change until the record's owner has released the access. */
    trp_status (*acquire)(struct trp__encoder *encoder, const char *name, trp_buffer buffer,
                          trp__access *access, uint64_t *bytes);
    /* The second step, once the range of the access is known: refuses lost and poisoned contents if
     * the mode has TRP__READ. Called by trp__encode_look(). NULL: contents are not checked. */
    trp_status (*look)(struct trp__encoder *encoder, const char *name, trp_buffer buffer,
                       const trp__access *access);
    /* Reserves room for `bytes` bytes of a result, zeroed, which are copied to `target` in the
     * application if the request succeeds, before its end is delivered. At most once a request. The
     * actor finds the room as one more access, behind those of the record. Waits for room as the
     * request says, then TRP_E_BUSY. A holder of such room must not wait for more, nor submit()
     * another request. */
    trp_status (*result)(struct trp__encoder *encoder, void *target, uint32_t bytes);
    /* Reserves room for `bytes` bytes of input too large for the record, up to TRP__SMALL_BYTES;
     * instead of a result, with the same rules. */
    trp_status (*input)(struct trp__encoder *encoder, uint32_t bytes, void **room);
    /* Both in one piece: `bytes` bytes of input, over the first result_bytes of which the actor
     * writes the result for `target`. */
    trp_status (*exchange)(struct trp__encoder *encoder, void *target, uint32_t result_bytes,
                           uint32_t bytes, void **room);
    const trp__object_ops *objects;
    trp__heap *heap; /* of the device, for objects */
    /* Sends a request, without a completion, to a companion or to the actor itself, as trp_submit()
     * does. It gets its ticket before the request that is encoded. */
    trp_status (*submit)(struct trp__encoder *encoder, const trp_request *request);
    uint32_t compute;     /* the device's compute capability, 90 for 9.0; 0 on the host */
    uint32_t processors;  /* of the device */
    uint64_t deadline_ns; /* the request's; 0: none */
    trp_actor *actor;
    void *sender;  /* see sender_make() below */
    void *context; /* the client's */
} trp__encoder;

/* Adds an access to the record after checking that the range lies inside the buffer and that its
 * offset is a multiple of `alignment`. `name` is the argument's name for messages. */
trp_status trp__encode_access(trp__encoder *encoder, const char *name, trp_buffer buffer,
                              uint64_t offset, uint64_t bytes, uint64_t alignment, uint32_t mode);

/* For an actor that calls acquire() itself: checks the contents of the access, whose range is set
 * and lies within the `size` bytes of the buffer. */
trp_status trp__encode_look(trp__encoder *encoder, const char *name, trp_buffer buffer,
                            trp__access *access, uint64_t size);

/* The same as trp__encode_access(), from an offset to the end of the buffer. */
trp_status trp__encode_access_rest(trp__encoder *encoder, const char *name, trp_buffer buffer,
                                   uint64_t offset, uint64_t alignment, uint32_t mode);

/* The same for an access that the application describes itself: `mode` is a trp_access_mode; 0
 * bytes are those up to the end of the buffer. `field` is the name of `bytes` for messages. */
trp_status trp__encode_access_described(trp__encoder *encoder, const char *name, trp_buffer buffer,
                                        uint32_t mode, uint64_t offset, const char *field,
                                        uint64_t bytes);

/* Refuses a scalar that has a value but is not `given`, and so would be ignored. */
trp_status trp__scalar_check(trp_error *error, const char *name, const trp_scalar *scalar);

/* An operation that stands for several requests of another one, which are sent together and have
 * one completion. */
typedef struct trp__list_class {
    uint32_t op; /* of each */
    /* Sets *count, at least 1; checks the common fields. */
    trp_status (*count)(const trp_request *request, uint32_t *count, trp_error *error);
    /* Checks one of them and writes its record. */
    trp_status (*encode)(trp__encoder *encoder, const trp_request *request, uint32_t index);
} trp__list_class;

typedef struct trp__op_class {
    uint32_t op;            /* TRP_OP_...: its low byte is the place in the class's table + 1 */
    uint32_t request_bytes; /* size of the public request struct */
    const char *name;
    trp_status (*encode)(trp__encoder *encoder, const trp_request *request);
    const trp__list_class *list; /* instead of encoder; else NULL */
    bool apart;                  /* goes to one of the actor's companions */
    /* Standbys rehearse the operation before they take over, because its first call plans and loads
     * kernels. Requests whose payloads differ in the first `rehearsed` bytes are rehearsed apart.
     * 0: not rehearsed. */
    uint32_t rehearsed;
} trp__op_class;

typedef struct trp__actor_class {
    const char *kind;
    bool internal; /* not for trp_actor_create() */
    bool library;  /* the worker's part is in a shared object that the application names */
    uint32_t op_count;
    const trp__op_class *ops;
    const struct trp_actor_impl *cuda; /* NULL: the backend lacks this actor */
    const struct trp_actor_impl *host;
    /* The class of companions: actors for operations that take long, such as compiles, so that only
     * requests that need their results wait. They are made with the first actor of this class on a
     * device, one for each processor up to TRP__COMPANIONS, and shared by all. Each operation goes
     * to the least busy one. All classes with companions share one class. */
    const struct trp__actor_class *companion;
    const char *name; /* of a companion, before its number */
    /* The class of objects that its requests make and use. NULL: none. */
    const trp__object_class *objects;
    bool deep;       /* runs kernels of the program, whose need of stack is unknown */
    bool host_alone; /* on the host it has no companions and no objects */
    /* The class's own state of an actor in the application, for encode(). sender_make() is called
     * when the actor is made; NULL: no memory. sender_end() is called when no more requests can be
     * sent; the device is NULL if it is closing, with all its objects. Both or neither. */
    void *(*sender_make)(void);
    void (*sender_end)(void *sender, trp_device *device);
} trp__actor_class;

enum { TRP__COMPANIONS = 8 };

/* trp_device_get_info(), for a sender inside a call of the program. */
trp_status trp__device_info(trp_device *device, trp_device_info *out);

/* All classes, NULL-terminated. */
extern const trp__actor_class *const trp__actor_classes[];

const trp__actor_class *trp__actor_class_find(const char *kind);

/* The operation of a class, NULL if it has none of that number. */
const trp__op_class *trp__op_class_find(const trp__actor_class *actor_class, uint32_t op);

/* The name of an operation for people: "gemm", "upload"; "0x0101" if it has none here. actor_class
 * may be NULL. */
void trp__op_name(const trp__actor_class *actor_class, uint32_t op, char *out, size_t size);
/* The same of an operation of any class. */
void trp__op_find_name(uint32_t op, char *out, size_t size);

#endif
