#include "support/faults/sleeper.h"

#include "base/os/futex.h"
#include "support/harness.h"

static void *sleep_long(void *argument)
{
    h_sleeper *s = argument;
    trp__futex_wait(&s->word, 0, -1);
    atomic_store(&s->awake, true);
    return NULL;
}

void h_sleeper_start(h_sleeper *sleeper)
{
    atomic_store(&sleeper->word, 0);
    atomic_store(&sleeper->awake, false);
    sleeper->thread = h_start(sleep_long, sleeper);
}

void h_sleeper_join(h_sleeper *sleeper)
{
    h_join(sleeper->thread);
}
