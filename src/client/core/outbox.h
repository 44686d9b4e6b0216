/* What a worker is told, and what it owes: messages that carry resources to it, in order, without
 * ever waiting for it. Each is answered once, so a worker that stops reading or answering shows. */
#ifndef TRP_CLIENT_CORE_OUTBOX_H
#define TRP_CLIENT_CORE_OUTBOX_H

#include "client/core/actor.h"
#include "wire/message.h"

#include <troupe/device.h>

#include <stdbool.h>

/* A message that gives a resource to a worker, or takes it away. The descriptor, or the actor,
 * belongs to the resource: when that goes, a message that was not sent yet is withdrawn. */
typedef struct trp__news {
    trp__message_type type;
    uint32_t id;
    uint64_t bytes;
    uint64_t protection;
    int fd;                         /* -1: none */
    const trp__client_actor *actor; /* of TRP__MSG_ACTOR */
    uint8_t *pending_acks; /* receives a bit for each worker that has to answer; may be NULL */
} trp__news;

/* Letters to one worker that it has not answered, in order; some at the end may not have been sent,
 * because there was no room. A worker answers them in order too. */
typedef struct trp__outbox {
    trp__news *letter; /* `count` from `first` on */
    size_t first, count, sent, capacity;
    int64_t owed_since;  /* the last answer, or when the first of these was told */
    uint64_t host_bytes; /* of host memory told since then, whose first touch takes its time */
} trp__outbox;

typedef enum trp__posting {
    TRP__POSTED,  /* sent */
    TRP__WAITING, /* the inbox is full; to be flushed later */
    TRP__NOBODY,  /* the other end is closed */
    TRP__NO_ROOM, /* no memory for a letter */
} trp__posting;

/* Sends news, or keeps it behind what waits already; in both cases an answer is owed. */
trp__posting trp__outbox_post(trp__outbox *outbox, int socket, const trp__news *news);

/* Sends what waits, as far as there is room: TRP__POSTED if nothing waits any more. */
trp__posting trp__outbox_flush(trp__outbox *outbox, int socket);

/* Takes back what waits of one type about one number; returns how many letters that were. */
uint32_t trp__outbox_withdraw(trp__outbox *outbox, trp__message_type type, uint32_t id);

/* An answer has come. False if it is not that to the first letter. */
bool trp__outbox_answered(trp__outbox *outbox, uint32_t about, uint32_t id);

void trp__outbox_free(trp__outbox *outbox);

#endif
