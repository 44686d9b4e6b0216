#include "client/outbox.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static trp__posting send_letter(int socket, const trp__letter *letter)
{
    trp__message m = {.id = letter->id, .bytes = letter->bytes};
    if (letter->kind)
        trp__copy_string(m.text, sizeof m.text, letter->kind);
    trp__copy_string(m.error.actor, sizeof m.error.actor, letter->name);
    if (trp__message_send(socket, letter->type, &m, &letter->fd, letter->fd >= 0, NULL) == TRP_OK)
        return TRP__POSTED;
    /* ENOBUFS, ENOMEM and ETOOMANYREFS (too many descriptors in flight) pass as well. */
    return errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN ? TRP__NOBODY : TRP__WAITING;
}

static bool append(trp__outbox *o, const trp__letter *letter)
{
    if (o->first > 0 && o->first + o->count == o->capacity) {
        memmove(o->letter, o->letter + o->first, o->count * sizeof *o->letter);
        o->first = 0;
    }
    if (o->count == o->capacity) {
        size_t capacity = o->capacity ? 2 * o->capacity : 64;
        trp__letter *more = realloc(o->letter, capacity * sizeof *more);
        if (!more)
            return false;
        o->letter = more;
        o->capacity = capacity;
    }
    o->letter[o->first + o->count++] = *letter;
    return true;
}

static void owe(trp__outbox *o, const trp__letter *letter)
{
    if (o->owed++ == 0) {
        o->owed_since = trp__now_ns();
        o->owed_host = 0;
    }
    if (letter->type == TRP__MSG_HOST)
        o->owed_host += letter->bytes;
}

trp__posting trp__outbox_post(trp__outbox *o, int socket, const trp__news *news)
{
    trp__letter letter = {.type = news->type,
                          .id = news->id,
                          .bytes = news->bytes,
                          .fd = news->fd,
                          .kind = news->kind};
    if (news->name)
        trp__copy_string(letter.name, sizeof letter.name, news->name);
    owe(o, &letter);
    trp__posting result = o->count > 0 ? TRP__WAITING : send_letter(socket, &letter);
    if (result == TRP__WAITING && !append(o, &letter))
        return TRP__NO_ROOM;
    return result;
}

trp__posting trp__outbox_flush(trp__outbox *o, int socket)
{
    while (o->count > 0) {
        trp__posting result = send_letter(socket, &o->letter[o->first]);
        if (result != TRP__POSTED)
            return result;
        o->first++;
        o->count--;
    }
    o->first = 0;
    return TRP__POSTED;
}

void trp__outbox_withdraw(trp__outbox *o, trp__message_type type, uint32_t id)
{
    size_t kept = 0;
    for (size_t i = 0; i < o->count; i++) {
        const trp__letter *letter = &o->letter[o->first + i];
        if (letter->type == type && letter->id == id)
            o->owed--;
        else
            o->letter[o->first + kept++] = *letter;
    }
    o->count = kept;
}

bool trp__outbox_answered(trp__outbox *o)
{
    if (o->owed <= o->count) /* all that is owed was not even sent */
        return false;
    o->owed--;
    o->owed_since = trp__now_ns();
    return true;
}

void trp__outbox_free(trp__outbox *o)
{
    free(o->letter);
    *o = (trp__outbox){0};
}
