#include "client/request/room.h"

#include "base/error.h"
#include "base/os/service_thread.h"

trp_status trp__wait_check(int64_t wait_ns)
{
    if (wait_ns >= 0 || wait_ns == TRP_FOREVER || wait_ns == TRP_NOWAIT)
        return TRP_OK;
    return trp__fail(TRP_E_ARGUMENT,
                     "wait_ns: expected nanoseconds, 0 or TRP_FOREVER (without limit), or "
                     "TRP_NOWAIT, got %lld",
                     (long long)wait_ns);
}

bool trp__room_may_wait(const trp__room *room)
{
    return room->wait_ns != TRP_NOWAIT && !trp__is_service_thread;
}

/* One step of waiting; then look for room again. TRP_E_BUSY: the time has passed; the caller raises
 * the error. Else the device is down, and the error is raised. */
trp_status trp__room_wait(trp__room *room)
{
    if (!trp__room_may_wait(room))
        return TRP_E_BUSY;
    if (!room->begun) {
        room->begun = true;
        room->backoff = trp__backoff_begin(room->wait_ns == 0 ? TRP_FOREVER : room->wait_ns);
        atomic_fetch_add(&room->device->request.waiting, 1);
    }
    trp_status status = trp__device_usable(room->device);
    int64_t nap = 0;
    if (status != TRP_OK)
        return status;
    if (!trp__backoff_step(&room->backoff, &nap))
        return TRP_E_BUSY;
    if (nap > 0) {
        trp__backoff_doze(&room->backoff);
        trp__sleep_ns(nap);
    }
    return trp__device_usable(room->device);
}

void trp__room_leave(trp__room *room)
{
    room->begun = false;
    trp__backoff_end(&room->backoff);
    atomic_fetch_sub(&room->device->request.waiting, 1);
}

/* Returns the end of a message about a lack of room. */
const char *trp__room_why(const trp__room *room)
{
    if (trp__is_service_thread)
        return "; a thread that the device needs for its progress (a watch's callback, an actor in "
               "this process) does not wait";
    if (room->wait_ns == TRP_NOWAIT)
        return " (TRP_NOWAIT)";
    return "";
}
