/* Objects of actors: their tokens, and the heap that they share. */
#include "base/error.h"
#include "base/os/shm.h"
#include "client/memory/failures.h"
#include "client/memory/memory.h"

#include <sys/mman.h>

#define OBJECT_BIT (UINT64_C(1) << 63) /* of the generation, which never gets so large */

static trp_buffer token_of(uint64_t handle)
{
    return (trp_buffer){(handle & OBJECT_BIT) ? handle & ~OBJECT_BIT : 0};
}

static trp_device *device_of(const trp__encoder *encoder)
{
    const trp__slot *request = encoder->context;
    return trp__device_by_tag(request->item.device_tag);
}

/* The slot of the token. */
static uint32_t slot_of(const trp__object *object)
{
    return (uint32_t)object->handle & (TRP__BUFFERS - 1);
}

static const trp__buffer_meta *meta_of(const trp__object *object)
{
    return &object->device->memory.meta[slot_of(object)];
}

/* `name`: the field of a request; NULL: the handle is an argument of a call. */
static trp_status stale(const trp__object_class *class, const char *name, uint64_t handle,
                        trp_error *error)
{
    const char *const field = name ? name : class->name;
    if (handle == 0)
        return trp__error_set(error, TRP_E_STALE, "%s: no %s given", field, class->name);
    return trp__error_set(error, TRP_E_STALE,
                          "%s: %s%s%#llx was freed, was never given out, or belongs to another "
                          "device",
                          field, name ? class->name : "", name ? " " : "",
                          (unsigned long long)handle);
}

/* Returns the object of that class in a buffer's slot; NULL: there is none. */
static trp__object *object_at(const trp_device *device, const trp__object_class *class,
                              uint32_t slot)
{
    trp__object *object = device->memory.meta[slot].object;
    return object && object->class == class ? object : NULL;
}

/* The heap. */

static trp_status make_heap(trp_device *device, trp__heap *heap, trp_error *error)
{
    uint32_t segment = 0;
    void *base = NULL;
    if (!trp__heap_reserve(heap))
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a table of extents");
    trp_status status = trp__segment_add(device, TRP__HEAP_BYTES, true, &segment, &base, error);
    if (status != TRP_OK)
        return status;
    madvise(base, TRP__HEAP_BYTES, MADV_DONTFORK);
    madvise(base, TRP__HEAP_BYTES, MADV_DONTDUMP);
    trp__heap_begin(heap, base, TRP__HEAP_BYTES, segment);
    return TRP_OK;
}

trp_status trp__objects_open(trp_device *device, const trp__object_class *class)
{
    trp__heap *heap = &device->memory.heap;
    trp_error error = {0};
    trp__lock_take(&heap->opening);
    trp_status status = heap->base ? TRP_OK : make_heap(device, heap, &error);
    if (status == TRP_OK)
        trp__heap_add_class(heap, class);
    trp__lock_drop(&heap->opening);
    /* Sent to the worker before the actor, so the first object's token need not wait until the
     * worker has mapped an arena. */
    trp__buffer_expect(device, TRP__OBJECT_TOKEN);
    return status == TRP_OK ? TRP_OK : trp__error_raise(&error);
}

void trp__objects_close(trp_device *device)
{
    trp__heap *heap = &device->memory.heap;
    for (uint32_t i = 0; device->memory.meta && i < device->memory.buffers_made; i++) {
        trp__object *object = device->memory.meta[i].object;
        if (object)
            object->class->destroy(object, false);
    }
    trp__heap_end(heap);
    if (heap->base)
        trp__shm_unmap(heap->base, heap->bytes);
}

static void shed(trp__encoder *encoder)
{
    trp_device *device = device_of(encoder);
    trp__heap *heap = &device->memory.heap;
    for (uint32_t i = 0; i < atomic_load(&heap->classes); i++) {
        if (heap->cache[i])
            heap->class[i]->cache_drop(heap->cache[i]);
    }
    device->end_over(device);
    trp__lock_take(&device->memory.lock);
    for (uint32_t i = 0; i < device->memory.buffers_made; i++) {
        trp__object *object = device->memory.meta[i].object;
        if (object && object->class->trim && trp__object_is_made(object))
            object->class->trim(object);
    }
    trp__lock_drop(&device->memory.lock);
}

/* Making. */

static trp_status make(trp__encoder *encoder, trp__object *object, uint64_t *handle)
{
    trp__slot *request = encoder->context;
    trp_device *device = device_of(encoder);
    trp__record *record = encoder->record;
    trp__access *access = &record->access[record->access_count];
    trp__client_actor *actor = atomic_load(&encoder->actor->live);
    trp_buffer token = {0};
    uint64_t bytes;
    trp_status status =
        trp__buffer_create(device, &(trp_buffer_options){.bytes = TRP__OBJECT_TOKEN}, &token);
    if (status != TRP_OK) {
        *encoder->error = *trp__error_last();
        object->class->destroy(object, false);
        return status;
    }
    object->device = device;
    object->handle = token.id | OBJECT_BIT;
    object->actor = actor;
    object->actor_made = actor->made;
    trp__buffer_set_object(device, token, object);
    request->token = token.id;
    request->handle = NULL;
    access->mode = TRP__WRITE | TRP__COVER;
    status = trp__buffer_acquire(encoder, object->class->name, token, access, &bytes);
    if (status != TRP_OK)
        return status;
    access->offset = 0;
    access->bytes = bytes;
    access->whole = true;
    record->access_count++;
    request->handle = handle;
    *handle = object->handle;
    return TRP_OK;
}

/* State of an object. */

bool trp__object_is_made(const trp__object *object)
{
    return atomic_load(&meta_of(object)->contents.word[TRP__GOOD]) != 0;
}

static bool has_failed(const trp__object *object)
{
    const trp__buffer_meta *meta = meta_of(object);
    return !trp__object_is_made(object) && (atomic_load(&meta->contents.word[TRP__POISON]) != 0 ||
                                            atomic_load(&meta->contents.word[TRP__LOST]) != 0);
}

trp__object_state trp__object_look(const trp__object *object)
{
    if (!trp__object_is_made(object) && !has_failed(object))
        object->device->end_over(object->device);
    return trp__object_is_made(object) ? TRP__OBJECT_MADE
           : has_failed(object)        ? TRP__OBJECT_FAILED
                                       : TRP__OBJECT_PENDING;
}

/* Using. */

/* Raises the error for an object on which a request has failed. */
static trp_status unusable(trp_device *device, uint32_t slot, const trp__object_class *class,
                           const char *name, const char *what, uint64_t handle, trp_error *error)
{
    char why[180];
    trp_error root = {0};
    uint64_t cause = atomic_load(&device->memory.meta[slot].contents.word[TRP__POISON]);
    trp__failures_explain(device, cause, slot, &root, why, sizeof why);
    trp__error_set(error, TRP_E_DEPENDENCY, "%s: %s %#llx %s: %s", name, class->name,
                   (unsigned long long)handle, what, why);
    error->cause_request = root.cause_request;
    error->cause_status = root.cause_status;
    error->cause_fault = root.cause_fault;
    return TRP_E_DEPENDENCY;
}

/* Adds an access to the whole token, which the record's owner releases. */
static trp_status add_access(trp__encoder *encoder, const trp__object_class *class,
                             const char *name, uint64_t handle, trp__access *access)
{
    uint64_t bytes;
    trp_status status = trp__buffer_acquire(encoder, name, token_of(handle), access, &bytes);
    if (status == TRP_E_STALE)
        return stale(class, name, handle, encoder->error);
    if (status != TRP_OK)
        return status;
    access->offset = 0;
    access->bytes = bytes;
    encoder->record->access_count++;
    status = trp__encode_look(encoder, name, token_of(handle), access, bytes);
    if (status == TRP_E_DEPENDENCY)
        return unusable(device_of(encoder), access->slot, class, name, "can't be used", handle,
                        encoder->error);
    if (status == TRP_E_LOST)
        return trp__error_set(encoder->error, status,
                              "%s: a fault interrupted a request on %s %#llx that can't run "
                              "again; make it anew",
                              name, class->name, (unsigned long long)handle);
    return status;
}

static trp_status use(trp__encoder *encoder, const trp__object_class *class, const char *name,
                      uint64_t handle, uint32_t mode, trp__object **out)
{
    trp_device *device = device_of(encoder);
    trp__access *access = &encoder->record->access[encoder->record->access_count];
    const trp__client_actor *actor = atomic_load(&encoder->actor->live);
    access->mode = (uint8_t)mode;
    trp_status status = add_access(encoder, class, name, handle, access);
    if (status != TRP_OK)
        return status;
    trp__object *object = object_at(device, class, access->slot);
    if (!object)
        return stale(class, name, handle, encoder->error);
    if (has_failed(object))
        return unusable(device, access->slot, class, name, "was not made", handle, encoder->error);
    if (object->actor != actor || object->actor_made != actor->made)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "%s: %s %#llx was made by another actor%s%.31s", name, class->name,
                              (unsigned long long)handle,
                              object->actor != actor ? ", " : " of the same name",
                              object->actor != actor ? object->actor->name : "");
    *out = object;
    return TRP_OK;
}

static trp__request_id request(trp__encoder *encoder)
{
    const trp__slot *slot = encoder->context;
    trp_device *device = device_of(encoder);
    device->end_over(device);
    return (trp__request_id){slot->index, trp__generation_of(atomic_load(&slot->state))};
}

static bool has_ended(const trp__encoder *encoder, trp__request_id request)
{
    uint64_t state = atomic_load(&device_of(encoder)->slot[request.slot].state);
    trp__phase phase = trp__phase_of(state);
    return trp__generation_of(state) != request.generation ||
           (phase != TRP__FILLING && phase != TRP__PENDING && phase != TRP__RETIRING);
}

const trp__object_ops trp__objects = {
    .make = make, .use = use, .shed = shed, .request = request, .has_ended = has_ended};

trp_status trp__object_hold(trp_device *device, const trp__object_class *class, uint64_t handle,
                            trp__object **object)
{
    trp_status status = trp__device_known(device);
    trp_error error;
    uint32_t slot;
    if (status != TRP_OK)
        return status;
    if (token_of(handle).id != 0 && trp__buffer_hold(device, token_of(handle), &slot) == TRP_OK) {
        *object = object_at(device, class, slot);
        if (*object)
            return TRP_OK;
        trp__buffer_release(device, slot);
    }
    stale(class, NULL, handle, &error);
    trp__error_raise(&error);
    return TRP_E_STALE;
}

void trp__object_release(trp__object *object)
{
    trp__buffer_release(object->device, slot_of(object));
}

trp_status trp__object_free(trp_device *device, const trp__object_class *class, uint64_t handle)
{
    trp__object *object;
    trp_error error;
    trp_status status = trp__object_hold(device, class, handle, &object);
    if (status != TRP_OK)
        return status;
    status = trp__buffer_free(device, token_of(handle));
    trp__object_release(object);
    if (status != TRP_E_STALE)
        return status;
    stale(class, NULL, handle, &error); /* freed meanwhile */
    return trp__error_raise(&error);
}
