/* Buffers, what is known of their contents, arenas and host segments. */
#ifndef TRP_CLIENT_MEMORY_MEMORY_H
#define TRP_CLIENT_MEMORY_MEMORY_H

#include "client/memory/contents.h"
#include "client/observe/observe.h"

/* poison.c: what a failed request means for those that read its outputs */
bool trp__buffer_lost(trp_device *device, uint32_t slot);
/* What is known of the range of an access. */
trp__look trp__access_look(trp_device *device, const trp__access *access);
/* TRP_OK, TRP_E_LOST, TRP_E_DEPENDENCY; *cause is the request that has failed. */
trp_status trp__access_readable(trp_device *device, const trp__access *access, uint64_t *cause);
/* The same for a request that has its ticket. `look`: what was seen before. */
trp_status trp__access_readable_at(trp_device *device, const trp__access *access, uint64_t ticket,
                                   const trp__look *look, uint64_t *cause);
/* The last failed request that should have written some of what a request reads, of those whose
 * failure was told before; 0: none. */
uint64_t trp__access_last_told(trp_device *device, const trp__access *access, uint64_t ticket,
                               const trp__look *look);
/* Notes in a request that has its ticket, for one of its accesses, which failures were told. Some
 * may be too old: then one that can't be named, else 0. told_last of the record is set. */
uint64_t trp__access_note_told(trp_device *device, trp__record *record, trp__access *access,
                               uint64_t ticket, const trp__look *look);
/* Whether a failed request is the last that should have written some byte of a buffer, which was
 * not written anew since. */
bool trp__poison_stands(trp_device *device, uint32_t slot, uint64_t ticket);
void trp__poison_outputs(trp_device *device, const trp__slot *slot);
void trp__poison_accept(trp_device *device, const trp__slot *slot);

/* buffer.c and arena.c */
trp_status trp__buffer_create(trp_device *device, const trp_buffer_options *options,
                              trp_buffer *out);
trp_status trp__buffer_free(trp_device *device, trp_buffer buffer);
/* Makes a buffer, which has no holder yet, the token of an object. */
void trp__buffer_set_object(trp_device *device, trp_buffer token, trp__object *object);
trp_status trp__buffer_acquire(trp__pack *pack, const char *name, trp_buffer buffer,
                               trp__access *access, uint64_t *bytes);
/* Shows the figures of memory to those who look; memory.lock is held. */
void trp__memory_publish(trp_device *device);
void trp__access_release(trp_device *device, const trp__access *access);
/* Holds a buffer for a call; raises TRP_E_STALE if there is none. */
trp_status trp__buffer_hold(trp_device *device, trp_buffer buffer, uint32_t *slot);
void trp__buffer_release(trp_device *device, uint32_t slot);
/* The slot of a buffer that is alive, or freed and still held; raises TRP_E_STALE. */
trp_status trp__buffer_find(trp_device *device, trp_buffer buffer, uint32_t *slot);
/* Holds a buffer for a call that looks at its bytes, as a reader does; raises its errors. */
trp_status trp__buffer_hold_readable(trp_device *device, trp_buffer buffer, uint32_t *slot);
/* The unit of an arena's size. */
trp_status trp__arena_granule(trp_device *device, uint64_t *bytes, trp_error *error);
/* Sees to it, as far as there is memory, that a buffer of that size need not wait for the device's.
 */
void trp__buffer_expect(trp_device *device, uint64_t bytes);
/* Refuses contents that can't be read, see trp__pack.look. */
trp_status trp__buffer_look(trp__pack *pack, const char *name, trp_buffer buffer,
                            const trp__access *access);
/* It is freed and nobody holds it. */
bool trp__buffer_gone(const trp__buffer_meta *meta);
/* memory.lock is held, and given up while the worker is waited for. `own`: not NULL for the arena
 * of one buffer, of which the sub-allocator does not learn; receives its id. */
trp_status trp__arena_add(trp_device *device, uint64_t needed, uint32_t *own, trp_error *error);
void trp__arena_return(trp_device *device, uint32_t id); /* such an arena; no lock is held */
bool trp__arena_trim(trp_device *device);
void trp__arena_close(trp_device *device, trp__client_arena *arena);

/* map.c */
bool trp__mapped_for_writing(trp_device *device, uint32_t slot);
void trp__arena_unmap(trp__client_arena *arena);

/* seal.c; device->lock is held for the last three */
bool trp__write_begin(trp__buffer_meta *meta);
void trp__write_end(trp__buffer_meta *meta);
bool trp__sealed(trp__buffer_meta *meta);
bool trp__seal_answered(trp_device *device, uint32_t index, const trp__message *m);
void trp__seal_announced(trp__client_arena *arena, uint32_t index);
void trp__seal_worker_gone(trp__client_arena *arena, uint32_t index);

/* segment.c */
bool trp__segment_find(trp_device *device, const void *memory, uint64_t bytes, uint32_t *segment,
                       uint64_t *offset);
void trp__segment_release(trp_device *device, uint32_t segment);
/* A new segment, `plain` for memory that no device reaches; waits for the worker's answer. */
trp_status trp__segment_add(trp_device *device, uint64_t bytes, bool plain, uint32_t *id,
                            void **base, trp_error *error);
void trp__segment_close(trp_device *device, trp__client_segment *segment);
/* Gives back to the system what was freed and is kept. True if there was any. */
bool trp__segments_trim(trp_device *device);

/* object.c */
/* Objects of that class are to be made: makes the heap if there is none yet, for which it waits for
 * the worker, and the cache of the class. Raises its error. */
trp_status trp__objects_open(trp_device *device, const trp__object_class *class);
/* Destroys all objects, and the heap; the device is closing. */
void trp__objects_close(trp_device *device);
/* For pack functions. */
extern const trp__object_ops trp__objects;

#endif
