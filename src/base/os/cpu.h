/* Properties of the processor. */
#ifndef TRP_BASE_OS_CPU_H
#define TRP_BASE_OS_CPU_H

#include <stdbool.h>

/* Whether this process may use enough cores that a spinning thread does not slow the one it waits
 * for. Determined once. */
bool trp__cpu_may_spin(void);

/* Processors that this process may use, by its affinity and by the quota of its control groups (as
 * set by `docker run --cpus`), rounded up; at least 1. */
unsigned int trp__cpu_count(void);

/* Threads that share the work of one operation: trp__cpu_count(), or OMP_NUM_THREADS if that is
 * less. */
unsigned int trp__cpu_threads(void);

/* The quota alone, UINT_MAX if there is none: `groups` is a file like /proc/self/cgroup, `root` the
 * folder of control groups, of version 1 or 2. */
unsigned int trp__cpu_quota(const char *groups, const char *root);

/* Whether it has AVX2, and the system saves its registers. Determined once. */
bool trp__cpu_has_avx2(void);

#endif
