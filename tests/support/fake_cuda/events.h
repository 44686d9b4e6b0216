/* Events of the fake driver, as its streams see them. */
#ifndef TESTS_FAKE_CUDA_EVENTS_H
#define TESTS_FAKE_CUDA_EVENTS_H

#include "support/fake_cuda/fake.h"

/* Events live as long as an operation refers to them. */
struct fake_event {
    unsigned int references;
    unsigned int flags;
    bool destroyed;
    uint64_t recorded, completed; /* by number; 0: never */
    int64_t time;
};

enum { FAKE_EVENT_BLOCKING_SYNC = 1, FAKE_EVENT_DISABLE_TIMING = 2 };

/* Gives a reference up. The lock is held. */
void fake_event_drop(fake_event *event);

#endif
