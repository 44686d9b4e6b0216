/* Buffers, the state of their contents, arenas and host segments. */
#ifndef TRP_CLIENT_MEMORY_MEMORY_H
#define TRP_CLIENT_MEMORY_MEMORY_H

#include "client/memory/contents.h"
#include "client/observe/observe.h"

/* poison.c: refusing readers of a failed request's outputs */
bool trp__buffer_lost(trp_device *device, uint32_t slot);
/* Returns the state of the range of an access. */
trp__look trp__access_look(trp_device *device, const trp__access *access);
/* Returns TRP_OK, TRP_E_LOST or TRP_E_DEPENDENCY; *cause is the request that has failed. */
trp_status trp__access_readable(trp_device *device, const trp__access *access, uint64_t *cause);
/* Does the same for a request that has its ticket. `look`: the state before it got the ticket. */
trp_status trp__access_readable_at(trp_device *device, const trp__access *access, uint64_t ticket,
                                   const trp__look *look, uint64_t *cause);
/* Returns the last failed request that should have written some of the range and whose failure was
 * delivered before; 0: none. */
uint64_t trp__access_last_acked(trp_device *device, const trp__access *access, uint64_t ticket,
                                const trp__look *look);
/* Notes in a request that has its ticket, for one of its accesses, the failures that were
 * delivered. Returns one that is too old to note, else 0. acked_last of the record is set. */
uint64_t trp__access_note_acked(trp_device *device, trp__record *record, trp__access *access,
                                uint64_t ticket, const trp__look *look);
/* Returns whether a failed request is the last that should have written some byte of a buffer, and
 * the byte was not written since. */
bool trp__poison_stands(trp_device *device, uint32_t slot, uint64_t ticket);
void trp__poison_outputs(trp_device *device, const trp__slot *slot);
void trp__poison_accept(trp_device *device, const trp__slot *slot);

/* buffer.c and arena.c */
trp_status trp__buffer_create(trp_device *device, const trp_buffer_options *options,
                              trp_buffer *out);
trp_status trp__buffer_free(trp_device *device, trp_buffer buffer);
/* Makes a buffer, which has no holder yet, the token of an object. */
void trp__buffer_set_object(trp_device *device, trp_buffer token, trp__object *object);
trp_status trp__buffer_acquire(trp__encoder *encoder, const char *name, trp_buffer buffer,
                               trp__access *access, uint64_t *bytes);
/* Returns the bytes of live buffers, sealable ones included; memory.lock is held. */
uint64_t trp__memory_used(const trp_device *device);
/* Publishes the figures of memory; memory.lock is held. */
void trp__memory_publish(trp_device *device);
void trp__access_release(trp_device *device, const trp__access *access);
/* Holds a buffer for a call; raises TRP_E_STALE if there is none. */
trp_status trp__buffer_hold(trp_device *device, trp_buffer buffer, uint32_t *slot);
void trp__buffer_release(trp_device *device, uint32_t slot);
/* Finds the slot of a buffer that is alive, or freed and still held; raises TRP_E_STALE. */
trp_status trp__buffer_find(trp_device *device, trp_buffer buffer, uint32_t *slot);
/* Holds a buffer for a call that reads its bytes; raises the errors of a reader. */
trp_status trp__buffer_hold_readable(trp_device *device, trp_buffer buffer, uint32_t *slot);
/* Returns the unit of an arena's size. */
trp_status trp__arena_granule(trp_device *device, uint64_t *bytes, trp_error *error);
/* Adds an arena, if memory allows, so that a buffer of that size can be made without one. */
void trp__buffer_expect(trp_device *device, uint64_t bytes);
/* Refuses contents that can't be read, see trp__encoder.look. */
trp_status trp__buffer_look(trp__encoder *encoder, const char *name, trp_buffer buffer,
                            const trp__access *access);
/* Returns whether it is freed and has no holder. */
bool trp__buffer_gone(const trp__buffer_meta *meta);
/* Adds an arena. memory.lock is held, and dropped while waiting for a worker. `own`: not NULL for
 * the arena of one sealable buffer, which is not added to the sub-allocator; receives its id. */
trp_status trp__arena_add(trp_device *device, uint64_t needed, uint32_t *own, trp_error *error);
void trp__arena_return(trp_device *device, uint32_t id); /* such an arena; no lock is held */
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
/* Adds a segment, `plain` for memory that no device reaches; waits for the worker's answer. */
trp_status trp__segment_add(trp_device *device, uint64_t bytes, bool plain, uint32_t *id,
                            void **base, trp_error *error);
void trp__segment_close(trp_device *device, trp__client_segment *segment);
/* Returns cached segments to the system. Returns whether there were any. */
bool trp__segments_trim(trp_device *device);

/* object.c */
/* Prepares for objects of a class: makes the heap if there is none yet, which waits for the worker,
 * and the cache of the class. Raises its error. */
trp_status trp__objects_open(trp_device *device, const trp__object_class *class);
/* Destroys all objects, and the heap; the device is closing. */
void trp__objects_close(trp_device *device);
/* For encode functions. */
extern const trp__object_ops trp__objects;

#endif
