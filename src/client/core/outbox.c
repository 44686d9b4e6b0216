#include "client/core/outbox.h"

#include "base/os/clock.h"
#include "base/error.h"
#include "client/core/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void fill_actor(const trp__client_actor *actor, trp__message *m)
{
    if (actor->quarantined)
        m->error = actor->start_error;
    trp__copy_string(m->text, sizeof m->text, actor->class->kind);
    trp__copy_string(m->library, sizeof m->library, actor->library);
    trp__copy_string(m->config, sizeof m->config, actor->config);
    trp__copy_string(m->error.actor, sizeof m->error.actor, actor->name);
}

static trp__posting send_letter(int socket, const trp__news *letter)
{
    trp__message m = {.id = letter->id, .bytes = letter->bytes, .protection = letter->protection};
    if (letter->actor)
        fill_actor(letter->actor, &m);
    if (trp__message_send(socket, letter->type, &m, &letter->fd, letter->fd >= 0, NULL) == TRP_OK)
        return TRP__POSTED;
    /* ENOBUFS, ENOMEM and ETOOMANYREFS (too many descriptors in flight) pass as well. */
    return errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN ? TRP__NOBODY : TRP__WAITING;
}

static bool append(trp__outbox *o, const trp__news *letter)
{
    if (o->first > 0 && o->first + o->count == o->capacity) {
        memmove(o->letter, o->letter + o->first, o->count * sizeof *o->letter);
        o->first = 0;
    }
    if (o->count == o->capacity) {
        size_t capacity = o->capacity ? 2 * o->capacity : 64;
        trp__news *more = realloc(o->letter, capacity * sizeof *more);
        if (!more)
            return false;
        o->letter = more;
        o->capacity = capacity;
    }
    o->letter[o->first + o->count++] = *letter;
    return true;
}

trp__posting trp__outbox_post(trp__outbox *o, int socket, const trp__news *news)
{
    if (!append(o, news))
        return TRP__NO_ROOM;
    if (o->count == 1) {
        o->owed_since = trp__now_ns();
        o->host_bytes = 0;
    }
    if (news->type == TRP__MSG_HOST && news->protection == 0)
        o->host_bytes += news->bytes;
    return trp__outbox_flush(o, socket);
}

trp__posting trp__outbox_flush(trp__outbox *o, int socket)
{
    while (o->sent < o->count) {
        trp__posting result = send_letter(socket, &o->letter[o->first + o->sent]);
        if (result != TRP__POSTED)
            return result;
        o->sent++;
    }
    return TRP__POSTED;
}

uint32_t trp__outbox_withdraw(trp__outbox *o, trp__message_type type, uint32_t id)
{
    size_t kept = o->sent, before = o->count;
    for (size_t i = o->sent; i < o->count; i++) {
        const trp__news *letter = &o->letter[o->first + i];
        if (letter->type != type || letter->id != id)
            o->letter[o->first + kept++] = *letter;
    }
    o->count = kept;
    return (uint32_t)(before - kept);
}

bool trp__outbox_answered(trp__outbox *o, uint32_t about, uint32_t id)
{
    if (o->sent == 0 || o->letter[o->first].type != about || o->letter[o->first].id != id)
        return false;
    o->first++;
    o->count--;
    o->sent--;
    o->owed_since = trp__now_ns();
    if (o->count == 0)
        o->first = 0;
    return true;
}

void trp__outbox_free(trp__outbox *o)
{
    free(o->letter);
    *o = (trp__outbox){0};
}
