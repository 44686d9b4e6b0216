/* The path of a request, from its slot to its end. */
#ifndef TRP_CLIENT_REQUEST_REQUEST_H
#define TRP_CLIENT_REQUEST_REQUEST_H

#include "client/memory/memory.h"

/* slot.c and request.c: slots and the path of a request */
void trp__slots_init(trp_device *device);
uint32_t trp__index_pop(_Atomic uint64_t *head, _Atomic uint32_t *next, size_t stride);
void trp__index_push(_Atomic uint64_t *head, _Atomic uint32_t *next, size_t stride, uint32_t index);
trp_status trp__slot_begin(struct trp__room *room, trp__slot **out, trp__record **record);
bool trp__slots_return(const trp_device *device, uint32_t count, bool nested);
trp_status trp__slot_conclude(trp_device *device, trp__slot *slot, trp_status status,
                              const trp_error *encoding);
trp__encoder trp__encoder_begin(trp_device *device, trp__slot *slot, trp_error *error);
void trp__slot_abandon(trp_device *device, trp__slot *slot);
/* Gives a request that is being encoded its label. */
void trp__slot_label(trp__slot *slot, trp__record *record, const char *label);
/* Takes `count` places, from *place on, all of which must then be published. */
trp_status trp__mailbox_reserve(trp__client_actor *actor, uint32_t count, struct trp__room *room,
                                uint64_t *place);
/* A published request, for the last step of sending, with no lock held. */
typedef struct trp__sent {
    trp__slot *slot;
    uint64_t pending; /* its state when it was published */
    bool watched;     /* the supervisor must be woken */
} trp__sent;
trp__sent trp__slot_publish(trp__client_actor *actor, trp__slot *slot, uint64_t place,
                            trp_completion *completion);
/* Do the same in two steps, for several requests with consecutive tickets: after trp__slot_enlist()
 * of each, trp__slots_show() makes all visible to the worker at once. */
trp__sent trp__slot_enlist(trp__client_actor *actor, trp__slot *slot, uint64_t place,
                           uint64_t ticket, trp_completion *completion);
void trp__slots_show(trp_device *device, const trp__sent *sent, uint32_t count, uint64_t ticket);
void trp__slot_published(trp_device *device, const trp__sent *sent);
trp_status trp__slot_send(trp__client_actor *actor, trp__slot *slot, trp_completion *completion);
/* Returns the actor that a program names; raises TRP_E_STALE, or TRP_E_ARGUMENT for NULL, if there
 * is none. */
trp__client_actor *trp__actor_live(const trp_actor *actor);

/* future.c */
trp_status trp__future_find(trp_future future, trp_device **device, trp__slot **slot,
                            uint64_t *generation);
trp_status trp__future_stale(void);
bool trp__is_future(uint64_t state, uint64_t generation);

/* retire.c: how requests end */
/* Stores a request that succeeded for standbys to rehearse, if its kind is new. */
void trp__rehearsed_note(trp_device *device, const trp__slot *slot, const trp__record *record);

/* Fills in actor, operation and label (NULL: none) of an error. */
void trp__error_name(trp_error *error, const trp__client_actor *actor, uint32_t op,
                     const char *label);
bool trp__retire(trp_device *device, trp__slot *slot, uint64_t pending_state,
                 const trp_error *failure);
bool trp__retire_early(trp_device *device, trp__slot *slot, uint64_t pending_state,
                       const trp_error *failure);
bool trp__try_finish(trp_device *device, trp__slot *slot, uint64_t pending_state);
void trp__sweep(trp__client_actor *actor);
void trp__sweep_device(trp_device *device);
void trp__slot_release(trp_device *device, trp__slot *slot, uint64_t owned);
void trp__release_holdings(trp_device *device, trp__slot *slot);

/* Delivers the end of a request, whose slot has that generation, to its queue or future. */
void trp__report_end(trp_device *device, trp__slot *slot, uint64_t generation);
void trp__wake_sleepers(trp_device *device, const trp__slot *slot);

/* causes.c */
/* Ends the request because of which this one, which is done, could not run, and all earlier ones.
 * No lock is held that ending a request takes. */
void trp__end_causes(trp_device *device, const trp__slot *slot);

/* deliver.c: results in the program's memory */
bool trp__delivers(const trp__slot *slot);
void trp__delivery_begin(trp__client_actor *actor);
void trp__delivery_end(trp__client_actor *actor);
void trp__delivery_note_list(trp__client_actor *actor, uint32_t count);
void trp__deliver_before(trp_device *device, uint64_t ticket);

/* list.c: requests with one completion */
trp_status trp__list_submit(trp__client_actor *actor, const trp__op_class *op,
                            const trp_request *request, struct trp__room *room,
                            trp_completion *completion);
void trp__list_gather(trp_device *device, trp__slot *slot, uint64_t generation);
void trp__list_look(trp_device *device, const trp__slot *leader);
trp_status trp__result_read(trp_device *device, const trp__slot *slot, trp_error *out);
void trp__result_taken(trp_device *device, trp__slot *slot, uint64_t owned);

/* cancel.c */
void trp__cancel_in_doubt(trp_device *device, trp__slot *slot, uint64_t state);

/* retired_early.c: requests that end before their turn */
void trp__mark_retired_early(trp__slot *slot, uint64_t ticket);
void trp__slot_taken(trp_device *device, trp__slot *slot, uint64_t owned);
uint64_t trp__retired_early(const trp__slot *slot);
void trp__retired_early_pass(trp_device *device, trp__slot *slot, uint64_t ticket);
bool trp__retired_early_over(trp_device *device, trp__slot *slot, uint64_t ticket);

/* transfer.c and pieces.c */
bool trp__streams_init(trp_device *device);
void trp__transfer_end(trp_device *device, trp__slot *slot);
void trp__transfer_scatter(const trp__transfer *t, char *user, char *packed);
void trp__transfer_gather(const trp__transfer *t, char *user, char *packed);
void trp__piece_return(trp_device *device, const trp__slot *slot);
trp_status trp__result_reserve(trp__encoder *encoder, void *target, uint32_t bytes);
bool trp__transfer_drained(trp_device *device, trp__slot *slot, uint64_t pending);
bool trp__transfer_filled(trp_device *device, trp__slot *slot, uint64_t pending,
                          uint64_t stream_done);
void trp__transfers_restart(trp_device *device, uint32_t stream);
void trp__copier_stop(trp_device *device);
trp_status trp__input_reserve(trp__encoder *encoder, uint32_t bytes, void **room);
trp_status trp__exchange_reserve(trp__encoder *encoder, void *target, uint32_t result_bytes,
                                 uint32_t bytes, void **room);

/* queue.c */
void trp__queue_forget(trp_queue *queue, trp_device *device);

#endif
