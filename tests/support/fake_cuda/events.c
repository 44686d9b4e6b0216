/* Events of the fake driver. */
#include "support/fake_cuda/events.h"

#include <stdlib.h>

void fake_event_drop(fake_event *event)
{
    if (--event->references == 0)
        free(event);
}

static fake_event *event_get(trp__cu_event handle)
{
    return fake_handle_get(FAKE_EVENT, (uintptr_t)handle);
}

trp__cu_result cuEventCreate(trp__cu_event *out, unsigned int flags)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    if (flags & ~(unsigned int)(FAKE_EVENT_BLOCKING_SYNC | FAKE_EVENT_DISABLE_TIMING))
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    fake_event *event = calloc(1, sizeof *event);
    uintptr_t handle = event ? fake_handle_new(FAKE_EVENT, event) : 0;
    if (!handle) {
        free(event);
        return fake_leave(FAKE_ERROR_OUT_OF_MEMORY);
    }
    event->references = 1;
    event->flags = flags;
    *out = (trp__cu_event)handle;
    return fake_leave(FAKE_SUCCESS);
}

/* Allowed while it is not reached: what waits for it goes on waiting. */
trp__cu_result cuEventDestroy_v2(trp__cu_event handle)
{
    int result = fake_enter(FAKE_ENDS_CONTEXT);
    if (result)
        return result;
    fake_event *event = event_get(handle);
    if (!event)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    fake_handle_drop((uintptr_t)handle);
    fake_event_drop(event);
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuEventRecord(trp__cu_event handle, trp__cu_stream stream)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    fake_event *event = event_get(handle);
    fake_stream *s = fake_stream_get(stream);
    if (!event || !s)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    event->references++; /* submitting may let the lock go */
    result = fake_submit(s, &(fake_op){.kind = FAKE_OP_RECORD,
                                       .event = {.event = event, .number = ++event->recorded}});
    if (result)
        event->completed = event->recorded;
    fake_event_drop(event);
    return fake_leave(result);
}

trp__cu_result cuEventQuery(trp__cu_event handle)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    const fake_event *event = event_get(handle);
    return fake_leave(!event                                ? FAKE_ERROR_INVALID_HANDLE
                      : event->completed >= event->recorded ? FAKE_SUCCESS
                                                            : FAKE_ERROR_NOT_READY);
}

trp__cu_result cuEventSynchronize(trp__cu_event handle)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    fake_event *event = event_get(handle);
    if (!event)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    uint64_t number = event->recorded;
    event->references++;
    while (fake.broken == 0 && event->completed < number)
        fake_wait();
    fake_event_drop(event);
    return fake_leave(fake.broken);
}

trp__cu_result cuEventElapsedTime(float *milliseconds, trp__cu_event start, trp__cu_event end)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    const fake_event *a = event_get(start), *b = event_get(end);
    if (!a || !b || ((a->flags | b->flags) & FAKE_EVENT_DISABLE_TIMING) || !a->recorded ||
        !b->recorded)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    if (a->completed < a->recorded || b->completed < b->recorded)
        return fake_leave(FAKE_ERROR_NOT_READY);
    *milliseconds = (float)((double)(b->time - a->time) / 1e6);
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuStreamWaitEvent(trp__cu_stream stream, trp__cu_event handle, unsigned int flags)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    fake_event *event = event_get(handle);
    if (!event)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    if (flags != 0)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    event->references++;
    fake_stream *s = fake_stream_get(stream);
    result = s ? fake_submit(s, &(fake_op){.kind = FAKE_OP_EVENT_WAIT,
                                           .event = {.event = event, .number = event->recorded}})
               : FAKE_ERROR_INVALID_HANDLE;
    fake_event_drop(event);
    return fake_leave(result);
}
