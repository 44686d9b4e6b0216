/* Waiting for room of a call that sends: for a request slot, a piece of staging memory, places in a
 * mailbox, all within one wait_ns. A wait ends when there is room, when the time has passed, or
 * when the device goes down. A call that finds room at once touches nothing here.
 *
 * A wait without limit must end, so each stage waits only for requests that end by themselves, and
 * the stages have one order:
 *
 *   slot Waits while some slot will be freed by itself: its request is pending or being ended, or
 * another sender fills it. Slots whose futures and queue events the program has not taken are not
 * freed by themselves: once they fill the table, TRP_E_BUSY. A slot whose sender may wait for a
 * second one (trp__slot.nested) does not count as one that will be freed. piece Its holder also
 * holds a slot, and waits for a mailbox at most. A request gives its piece back when it has ended,
 * even if its end is not asked for. mailbox Places are freed as requests end, even if their ends
 * are not asked for. A list needs several at once: while one waits, single requests that may wait
 * do so behind it, or they would take each place as it gets free.
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
