/* How a call that sends waits for room: for a request slot, for a piece of staging memory, for
 * places in a mailbox, all within one wait_ns. A wait ends when there is room, when the time is
 * over, or when the device goes down. Nothing here is touched by a call that finds room at once.
 *
 * No wait without limit may be one that never ends, so each stage waits only for what ends by
 * itself, and the stages are taken in one order:
 *
 *   slot     Waits while some slot of the table will come back by itself: its request is pending or
 *            being ended, or another sender fills it. Futures and queue events that the program has
 *            not taken do not come back by themselves: once they fill the table, TRP_E_BUSY. A
 *            sender that may wait for a second slot while it fills one (trp__slot.nested) does not
 *            count as one that goes on.
 *   piece    Whoever has one holds a slot, and waits for a mailbox at most. A request gives it back
 *            when it has ended, whether its end is asked for or not.
 *   mailbox  Its places come back as its requests end, whether their ends are asked for or not. A
 *            list needs several at once, which others would take from it one by one: while one
 *            waits, single requests that may wait do so behind it.
 *
 * Threads that the device needs for its progress do not wait (base/os/service_thread.h). A thread
 * that waits can't be cancelled (base/call.h): it holds a slot, and closing the device waits for
 * it. */
#ifndef TRP_CLIENT_REQUEST_ROOM_H
#define TRP_CLIENT_REQUEST_ROOM_H

#include "client/core/backoff.h"
#include "client/request/request.h"

typedef struct trp__room {
    trp_device *device;
    int64_t wait_ns; /* as in trp_request */
    bool begun;      /* it has waited: `backoff` runs, and the device counts it */
    trp__backoff backoff;
} trp__room;

/* `backoff` is set when the call begins to wait. */
static inline void trp__room_begin(trp__room *room, trp_device *device, int64_t wait_ns)
{
    room->device = device;
    room->wait_ns = wait_ns;
    room->begun = false;
}

trp_status trp__wait_check(int64_t wait_ns);
bool trp__room_may_wait(const trp__room *room);
trp_status trp__room_wait(trp__room *room);
void trp__room_leave(trp__room *room);
const char *trp__room_why(const trp__room *room);

/* The last call on a room: from here on the device may be closed. */
static inline void trp__room_end(trp__room *room)
{
    if (__builtin_expect(room->begun, 0))
        trp__room_leave(room);
}

#endif
