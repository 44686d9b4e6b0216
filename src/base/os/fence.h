/* A fence between two processes. GCC's ThreadSanitizer knows none and refuses to compile one; an
 * atomic access of sequential consistency stands for it there.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TRP_BASE_OS_FENCE_H
#define TRP_BASE_OS_FENCE_H

#include <stdatomic.h>

static inline void trp__fence(memory_order order)
{
#ifdef __SANITIZE_THREAD__
    static _Atomic int any;
    (void)order;
    atomic_fetch_add(&any, 0);
#else
    atomic_thread_fence(order);
#endif
}

#endif
