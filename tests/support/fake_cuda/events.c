/* Events of the fake driver. */
#include "support/fake_cuda/events.h"

#include <stdlib.h>

typedef struct event {
    unsigned int flags;
    fake_recording *last; /* NULL: there is none */
} event;

void fake_recording_drop(fake_recording *recording)
{
    if (recording && --recording->references == 0)
        free(recording);
}

static event *event_get(trp__cu_event handle)
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
    event *e = calloc(1, sizeof *e);
    uintptr_t handle = e ? fake_handle_new(FAKE_EVENT, e) : 0;
    if (!handle) {
        free(e);
        return fake_leave(FAKE_ERROR_OUT_OF_MEMORY);
    }
    e->flags = flags;
    *out = (trp__cu_event)handle;
    return fake_leave(FAKE_SUCCESS);
}

/* Allowed while the event is pending: work that waits for it goes on waiting. */
trp__cu_result cuEventDestroy_v2(trp__cu_event handle)
{
    int result = fake_enter(FAKE_ENDS_CONTEXT);
    if (result)
        return result;
    event *e = event_get(handle);
    if (!e)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    fake_handle_drop((uintptr_t)handle);
    fake_recording_drop(e->last);
    free(e);
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuEventRecord(trp__cu_event handle, trp__cu_stream stream)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    const event *e = event_get(handle);
    fake_stream *s = fake_stream_get(stream);
    if (!e || !s)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    fake_recording *new = calloc(1, sizeof *new);
    if (!new)
        return fake_leave(FAKE_ERROR_OUT_OF_MEMORY);
    *new = (fake_recording){.references = 1, .timed = !(e->flags & FAKE_EVENT_DISABLE_TIMING)};
    result = fake_submit(s, &(fake_op){.kind = FAKE_OP_RECORD, .recording = new});
    event *still = event_get(handle); /* submitting may release the lock */
    if (result || !still) {
        fake_recording_drop(new);
        return fake_leave(result);
    }
    fake_recording_drop(still->last);
    still->last = new;
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuEventQuery(trp__cu_event handle)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    const event *e = event_get(handle);
    return fake_leave(!e                          ? FAKE_ERROR_INVALID_HANDLE
                      : !e->last || e->last->done ? FAKE_SUCCESS
                                                  : FAKE_ERROR_NOT_READY);
}

trp__cu_result cuEventSynchronize(trp__cu_event handle)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    const event *e = event_get(handle);
    if (!e)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    fake_recording *last = e->last;
    if (!last)
        return fake_leave(fake.broken);
    last->references++;
    while (fake.broken == 0 && !last->done)
        fake_wait();
    fake_recording_drop(last);
    return fake_leave(fake.broken);
}

trp__cu_result cuEventElapsedTime(float *milliseconds, trp__cu_event start, trp__cu_event end)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    const event *a = event_get(start), *b = event_get(end);
    if (!a || !b || !a->last || !b->last || !a->last->timed || !b->last->timed)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    if (!a->last->done || !b->last->done)
        return fake_leave(FAKE_ERROR_NOT_READY);
    *milliseconds = (float)((double)(b->last->time - a->last->time) / 1e6);
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuStreamWaitEvent(trp__cu_stream stream, trp__cu_event handle, unsigned int flags)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    const event *e = event_get(handle);
    if (!e)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    if (flags != 0)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    fake_stream *s = fake_stream_get(stream);
    fake_recording *last = e->last;
    if (!s)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    if (!last)
        return fake_leave(FAKE_SUCCESS);
    last->references++; /* submitting may release the lock */
    result = fake_submit(s, &(fake_op){.kind = FAKE_OP_EVENT_WAIT, .recording = last});
    fake_recording_drop(last);
    return fake_leave(result);
}
