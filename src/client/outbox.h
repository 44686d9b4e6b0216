/* What a worker is told, and what it owes: messages that carry resources to it, in order, without
 * ever waiting for it. Each is answered once, so a worker that stops reading or answering shows. */
#ifndef TRP_CLIENT_OUTBOX_H
#define TRP_CLIENT_OUTBOX_H

#include "wire/message.h"

#include <stdbool.h>

/* Something that a worker has to know. */
typedef struct trp__news {
    trp__message_type type;
    uint32_t id;
    uint64_t bytes;
    int fd; /* -1: none */
    const char *kind, *name;
    uint8_t *told; /* receives a bit for each worker that was told; NULL: nobody counts */
} trp__news;

/* One that waits for room in the worker's inbox. Its descriptor belongs to the resource: when that
 * goes, the letter is taken back. */
typedef struct trp__letter {
    trp__message_type type;
    uint32_t id;
    uint64_t bytes;
    int fd;
    const char *kind;
    char name[32];
} trp__letter;

typedef struct trp__outbox {
    trp__letter *letter; /* a list of `count` from `first` on */
    size_t first, count, capacity;
    uint64_t owed;      /* answers to what is sent or waits here */
    uint64_t owed_host; /* bytes of host memory among it, whose first touch takes its time */
    int64_t owed_since; /* the last answer, or when the first of these was told */
} trp__outbox;

typedef enum trp__posting {
    TRP__POSTED,  /* sent */
    TRP__WAITING, /* the inbox is full; to be flushed later */
    TRP__NOBODY,  /* the other end is closed */
    TRP__NO_ROOM, /* no memory for what waits */
} trp__posting;

/* Sends news, or keeps it behind what waits already. */
trp__posting trp__outbox_post(trp__outbox *outbox, int socket, const trp__news *news);

/* Sends what waits, as far as there is room: TRP__POSTED if nothing waits any more. */
trp__posting trp__outbox_flush(trp__outbox *outbox, int socket);

/* Takes back what waits of one type about one number. */
void trp__outbox_withdraw(trp__outbox *outbox, trp__message_type type, uint32_t id);

/* An answer has come. False if none is owed. */
bool trp__outbox_answered(trp__outbox *outbox);

void trp__outbox_free(trp__outbox *outbox);

#endif
