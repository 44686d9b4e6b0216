/* Messages that carry resources to a worker, in order, without ever waiting for it, and the answers
 * that it owes. It answers each once, so a worker that stops reading or answering is noticed. */
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
    int64_t owed_since;  /* time of the last answer, or when the first of these was posted */
    uint64_t host_bytes; /* of host memory posted since then, whose first touch takes time */
} trp__outbox;

typedef enum trp__posting {
    TRP__POSTED,  /* sent */
    TRP__WAITING, /* the inbox is full; to be flushed later */
    TRP__NOBODY,  /* the other end is closed */
    TRP__NO_ROOM, /* no memory for a letter */
} trp__posting;

/* Sends news, or queues it behind unsent news; in both cases an answer is owed. */
trp__posting trp__outbox_post(trp__outbox *outbox, int socket, const trp__news *news);

/* Sends queued news as far as the socket has room: TRP__POSTED if none is left. */
trp__posting trp__outbox_flush(trp__outbox *outbox, int socket);

/* Withdraws unsent news of one type about one number; returns how many. */
uint32_t trp__outbox_withdraw(trp__outbox *outbox, trp__message_type type, uint32_t id);

/* Takes an answer. False if it is not the answer to the first news. */
bool trp__outbox_answered(trp__outbox *outbox, uint32_t about, uint32_t id);

void trp__outbox_free(trp__outbox *outbox);

#endif
