/* Events of the fake driver, as its streams use them. */
#ifndef TESTS_FAKE_CUDA_EVENTS_H
#define TESTS_FAKE_CUDA_EVENTS_H

#include "support/fake_cuda/fake.h"

/* One recording of an event, done when the stream that recorded it reaches it. A wait for an event
 * waits for its latest recording so far, regardless of later ones. A recording lives as long as the
 * event or an operation refers to it. */
struct fake_recording {
    unsigned int references;
    bool timed, done;
    int64_t time;
};

enum { FAKE_EVENT_BLOCKING_SYNC = 1, FAKE_EVENT_DISABLE_TIMING = 2 };

/* Drops a reference. The lock is held. */
void fake_recording_drop(fake_recording *recording);

#endif
