/* A model of how a request is sent, run, ended, judged after a death, and run again: the steps of
 * src/client and src/worker at the granularity of their accesses to memory that others use.
 * README.md says which line of which function each step stands for, and what is left out.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_MODEL_PROTOCOL_H
#define TESTS_MODEL_PROTOCOL_H

#include "model/explorer.h"

enum {
    MODEL_REQUESTS = 5,
    MODEL_SLOTS = 4,
    MODEL_ACTORS = 2,
    MODEL_BUFFERS = 2,
    MODEL_SENDERS = 3,
    MODEL_MAILBOX = 4,
};

/* What a sender does with a request's end. */
typedef enum model_end {
    MODEL_AWAIT,       /* before it sends its next */
    MODEL_AWAIT_LATER, /* after it has sent all */
    MODEL_DROP,        /* drops the future at once, and once more at the end */
    MODEL_NOBODY,      /* asked for no future; a thread that sweeps ends it */
} model_end;

typedef struct model_request {
    uint8_t sender, actor;
    uint8_t reads, writes; /* a bit for each buffer; written and not read: all of it */
    uint8_t end;           /* model_end */
    uint8_t fails;         /* its library fails, when it runs for this time, and later; 0: never */
    bool cancelled;        /* by its sender, when it is sent */
    bool culprit;          /* kills its worker whenever it runs */
    bool must_succeed;     /* whatever happens */
    bool delivers;         /* its end brings a result into the program's memory */
} model_request;

/* Wrong ways to do it, each of which the model must find out. NONE is the program as it is. */
#define MODEL_MUTATIONS(X)                                                                         \
    X(NONE)                                                                                        \
    X(DOORBELL_BEFORE_RING)       /* the sender looks at `sleeping` before it fills the cell */    \
    X(RING_NOT_FENCED)            /* the cell may become visible after that look */                \
    X(SLEEPING_NOT_FENCED)        /* `sleeping` may become visible after the look at the ring */   \
    X(NO_SECOND_LOOK_AT_RING)     /* the worker sleeps without it */                               \
    X(DOORBELL_NOT_RAISED)        /* wakes whoever sleeps now, without changing the word */        \
    X(CELL_BEFORE_RECORD)         /* the ticket is written to the record after the ring */         \
    X(CELL_BEFORE_PENDING)        /* the slot becomes PENDING after the ring */                    \
    X(ISSUED_AFTER_HANDLE)        /* `issued` is stored when the work is in the stream */          \
    X(NO_SIGNAL_BEFORE_OVERWRITE) /* an input is destroyed before its reader is known to be done   \
                                   */                                                              \
    X(RETIRE_WITHOUT_SWAP)        /* a load and a store instead of one exchange */                 \
    X(GENERATION_NOT_RAISED)      /* a slot that is used again looks the same */                   \
    X(PLACE_FREED_EARLY)          /* the mailbox's head moves before the place is cleared */       \
    X(SWEEP_SKIPS_UNFINISHED)     /* the sweeper clears places of requests that have not ended */  \
    X(NO_AWAIT_PUBLICATION)       /* judged before all senders have filled their cells */          \
    X(NO_SECOND_PASS_LOST)        /* those sent during the judging are forgotten */                \
    X(NO_SECOND_PASS_UNJUDGED)    /* those are left to the ring, with nobody having judged them */ \
    X(LOOK_BEFORE_TICKET)         /* lost inputs are looked for only before the ticket is taken */ \
    X(LATER_COVER_COUNTS)     /* a request's input passes for written by one that runs later */    \
    X(DEATHS_NOT_COUNTED)     /* a request runs again however many workers it has met dying */     \
    X(NOT_ALONE)              /* those that run again do so together */                            \
    X(ALONE_UNTIL_ISSUED)     /* the next of those is taken when the one before is issued */       \
    X(ALL_RUN_AGAIN)          /* also those that read what they write */                           \
    X(BLIND_REPLAY)           /* queued requests run though an input will never be written */      \
    X(PROMOTED_BEFORE_MAPPED) /* the new worker begins while senders see the old block */          \
    X(DOWN_AFTER_FAILING)     /* the state is set after all was failed */                          \
    X(SENDER_IGNORES_DOWN)    /* a sender does not look at the state after it has published */     \
    X(REFUSAL_IGNORED)        /* the worker runs what its sender has marked as to be refused */    \
    X(REPLY_AFTER_END)        /* says why a request is refused when its end can be seen */         \
    X(POISON_IGNORED)         /* runs what reads the outputs of a request that was refused */      \
    X(SECOND_PASS_FAILS)      /* it ends what can not run itself, and marks what that poisons */   \
    X(POISONED_EARLY)       /* what a death ends poisons its outputs then, and not in its turn */  \
    X(FAILED_NOT_LISTED)    /* the next worker does not hear of it */                              \
    X(RETIRED_EARLY_FREED)  /* the slot of one that is retired early is given back at once */      \
    X(PASSING_NOT_AWAITED)  /* judges while a thread is about to poison what was passed */         \
    X(LATER_ACKED_COUNTS)   /* the failure of a later request passes for that of an input */       \
    X(ACKED_COUNTS_HALFWAY) /* the worker lets in who was told of a later failure than that which  \
                              left it half-written */                                              \
    X(ACKED_COUNTS_LOST)    /* the judge does */                                                   \
    X(COVER_NOT_JUDGED)     /* the judge does not count who will write it anew */                  \
    X(LOSS_FORGOTTEN)       /* nor that, if this fails, what is half-written still is */           \
    X(CANCEL_LOOKS_FIRST)   /* whether it is issued, before it is marked as cancelled */           \
    X(DELIVERY_FORGOTTEN)   /* an end is told, whatever has become of results before it */         \
    X(DELIVERY_NOT_AWAITED) /* passes over a request that another thread is ending */              \
    X(DELIVERY_COUNTED_EARLY)  /* a result is no longer counted while it is on its way */          \
    X(DELIVERY_STOPS_AT_GAP)   /* looks no further than a place that is taken and still empty */   \
    X(DELIVERY_STOPS_AT_LATER) /* nor than the first request with a later ticket */

typedef enum model_mutation {
#define MODEL_MUTATION_ENUM(name) MODEL_##name,
    MODEL_MUTATIONS(MODEL_MUTATION_ENUM)
#undef MODEL_MUTATION_ENUM
        MODEL_MUTATION_COUNT
} model_mutation;

/* What is explored: who sends what, and what may go wrong. */
typedef struct model_plan {
    const char *name;
    uint8_t slots, actors, buffers, mailbox, senders, requests;
    uint8_t kills;     /* deaths from outside, at any moment */
    uint8_t hangs;     /* kills by the supervisor, of any request in flight */
    uint8_t budget;    /* restarts before the device is down */
    bool sweeper;      /* a thread that ends what is over, at any moment */
    bool slow_passing; /* what was retired early and passed is given back in more than one step */
    model_request request[MODEL_REQUESTS];
} model_plan;

const char *model_mutation_name(model_mutation mutation);

/* Explores a plan. */
explorer_result model_run(const model_plan *plan, model_mutation mutation, uint64_t max_states,
                          FILE *trace);

#endif
