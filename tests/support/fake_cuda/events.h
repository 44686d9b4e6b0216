/* Events of the fake driver, as its streams see them. */
#ifndef TESTS_FAKE_CUDA_EVENTS_H
#define TESTS_FAKE_CUDA_EVENTS_H

#include "support/fake_cuda/fake.h"

/* One recording of an event, which is done when the stream that it was recorded in gets there. Who
 * waits for an event waits for its last recording so far, whatever is recorded later and wherever.
 * It lives as long as the event or an operation refers to it. */
struct fake_recording {
    unsigned int references;
    bool timed, done;
    int64_t time;
};

enum { FAKE_EVENT_BLOCKING_SYNC = 1, FAKE_EVENT_DISABLE_TIMING = 2 };

/* Gives a reference up. The lock is held. */
void fake_recording_drop(fake_recording *recording);

#endif
