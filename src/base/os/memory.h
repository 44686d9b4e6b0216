/* How much memory this process can still get. */
#ifndef TRP_BASE_OS_MEMORY_H
#define TRP_BASE_OS_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the bytes that the machine, and the control groups that this process is in, can give it
 * now, page caches that they can reclaim included; `swap`: with free swap space, which pinned
 * memory can't use. UINT64_MAX if unknown. Reads files of the kernel: not for a hot path. */
uint64_t trp__memory_available(bool swap);

#endif
