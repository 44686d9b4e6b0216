/* Sleeping on a 32-bit word that may be shared between processes. */
#ifndef TRP_BASE_OS_FUTEX_H
#define TRP_BASE_OS_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/* Sleeps while *word is `expected`, for at most timeout_ns (negative: without limit). May return
 * early. The word may lie in memory that is mapped read-only. */
void trp__futex_wait(const _Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);

/* Wakes up to `count` sleepers. */
void trp__futex_wake(_Atomic uint32_t *word, int count);

#endif
