/* A memory barrier that one side pays for two: where one of two threads marks something often and
 * the other looks rarely, the first can do with a store that the compiler keeps in its place, if
 * the second has the system put a full barrier into all threads that are running. The threads may
 * be of different processes. (membarrier(2), the expedited global commands.) */
#ifndef TRP_BASE_FENCE_H
#define TRP_BASE_FENCE_H

#include <stdatomic.h>
#include <stdbool.h>

/* This process's threads take part from now on. False: the system has no such barrier. */
bool trp__fence_join(void);

/* What the thread does that marks often, between its store and what it looks at then. */
static inline void trp__fence_light(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/* A full barrier in this thread, and in every running one of the processes that take part. False:
 * there was none. */
bool trp__fence_heavy(void);

#endif
