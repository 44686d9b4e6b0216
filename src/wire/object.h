/* Objects: things that requests make, use and share in the same order as buffers, and whose meaning
 * only an actor knows: a module of kernels, a plan with its inputs.
 *
 * 1. An object has a *token*, a buffer of TRP__OBJECT_TOKEN bytes that is never read or written.
 * The token gives order, generations, freeing while requests are in flight, and refusal of requests
 * whose object could not be made. The object's handle is the token's with one more bit, so neither
 * is taken for the other. 2. The object itself is a struct of its class in the application, whose
 * first member is a
 *    trp__object. The class allocates it and hands it over with make(); from then on it is the
 *    client's, which calls destroy() when the last holder has released the token, or at the end of
 * the device.
 * 3. Bytes for workers lie in the device's *heap*, memory that the application shares with all its
 * workers, so the next worker finds what the last one left. The taker of an extent owns it. A
 * worker may write anywhere in the heap: the application checks all that it reads there. 4. The
 * state that a class shares among all its objects of a device is its *cache*. It is made with the
 * first actor whose class names the class of objects, and ended after the device's last object.
 *
 * Threads: any. Locks: those of the rank TRP__RANK_OBJECT and TRP__RANK_OBJECTS are for classes.
 * The functions of the heap may be called while they are held, all others while none is. */
#ifndef TRP_WIRE_OBJECT_H
#define TRP_WIRE_OBJECT_H

#include "base/log.h"
#include "wire/rank.h"

#include <troupe/buffer.h>

#define TRP__OBJECT_TOKEN 256                  /* bytes of the buffer */
#define TRP__HEAP_BYTES   (UINT64_C(16) << 30) /* of address space; memory only as it is used */

struct trp__encoder;
struct trp__client_actor;
typedef struct trp__heap trp__heap;     /* of a device */
typedef struct trp__extent trp__extent; /* a part of it that was taken */
typedef struct trp__object trp__object;

typedef struct trp__object_class {
    const char *name; /* for messages: "module" */
    /* The cache. NULL: out of memory; the class works without. All three or none. */
    void *(*cache_make)(trp__heap *heap);
    void (*cache_end)(void *cache);
    void (*cache_drop)(void *cache); /* the heap is full: frees extents that no object needs */
    /* The same for an object that was made. Takes no locks but those of a class. May be NULL. */
    void (*trim)(trp__object *object);
    /* The object has no holder any more. `made`: the request that makes it has succeeded. */
    void (*destroy)(trp__object *object, bool made);
} trp__object_class;

struct trp__object {
    const trp__object_class *class; /* set by the class; the rest is the client's */
    trp_device *device;
    uint64_t handle;
    struct trp__client_actor *actor; /* that made it */
    uint64_t actor_made;             /* `made` of that actor, whose struct may be used again */
};

/* Identifies a request for the life of its device. */
typedef struct trp__request_id {
    uint32_t slot;
    uint64_t generation;
} trp__request_id;

/* Operations on objects for encode functions. */
typedef struct trp__object_ops {
    /* Gives an object its token, which the record's next access writes whole, and its handle. Takes
     * ownership: on an error the object was destroyed, or is destroyed with the request. */
    trp_status (*make)(struct trp__encoder *encoder, trp__object *object, uint64_t *handle);
    /* Adds an object of that class, made by the same actor, as an access, as acquire() and look()
     * do for a buffer. `name` is the argument's. */
    trp_status (*use)(struct trp__encoder *encoder, const trp__object_class *class,
                      const char *name, uint64_t handle, uint32_t mode, trp__object **object);
    /* Makes all classes free extents that they can do without. */
    void (*shed)(struct trp__encoder *encoder);
    /* The request that is encoded. Ends requests that are done before it returns. */
    trp__request_id (*request)(struct trp__encoder *encoder);
    bool (*has_ended)(const struct trp__encoder *encoder, trp__request_id request);
} trp__object_ops;

/* Inside a call of the program. */

/* Holds an object of that class; raises TRP_E_STALE if there is none. */
trp_status trp__object_hold(trp_device *device, const trp__object_class *class, uint64_t handle,
                            trp__object **object);
void trp__object_release(trp__object *object);
/* Holders may keep it. Raises TRP_E_STALE. */
trp_status trp__object_free(trp_device *device, const trp__object_class *class, uint64_t handle);

typedef enum trp__object_state {
    TRP__OBJECT_PENDING = 0,
    TRP__OBJECT_MADE,
    TRP__OBJECT_FAILED, /* it never will be made, even after the failure was delivered */
} trp__object_state;

/* State of a held object; ends requests that are done if the state may follow from them. */
trp__object_state trp__object_look(const trp__object *object);
/* The same without ending anything. */
bool trp__object_is_made(const trp__object *object);

/* The heap. */

/* Takes an extent that begins on a page, of undefined content; sets *offset. NULL: no room. */
trp__extent *trp__heap_take(trp__heap *heap, uint64_t bytes, uint64_t *offset);
/* Keeps the first `bytes` of an extent. */
void trp__heap_cut(trp__heap *heap, trp__extent *extent, uint64_t bytes);
void trp__heap_return(trp__heap *heap, trp__extent *extent);
trp_device *trp__heap_device(const trp__heap *heap);
/* An address, here. */
char *trp__heap_at(const trp__heap *heap, uint64_t offset);
/* The segment by which workers know the heap. */
uint32_t trp__heap_segment(const trp__heap *heap);
/* Changes with each worker, since a dead one may have written anywhere before. */
uint32_t trp__heap_incarnation(const trp__heap *heap);
/* The cache of a class; NULL: it has none. */
void *trp__heap_cache(const trp__heap *heap, const trp__object_class *class);
trp__log *trp__heap_log(const trp__heap *heap);

#endif
