/* Properties of the processor. */
#ifndef TRP_BASE_OS_CPU_H
#define TRP_BASE_OS_CPU_H

#include <stdbool.h>

/* Returns whether this process may use enough cores that a spinning thread does not slow the one it
 * waits for. Determined once. */
bool trp__cpu_may_spin(void);

/* Returns the processors that this process may use, by its affinity and by the quota of its control
 * groups (as set by `docker run --cpus`), rounded up; at least 1. */
unsigned int trp__cpu_count(void);

/* Returns the threads that share the work of one operation: trp__cpu_count(), or OMP_NUM_THREADS if
 * that is less. */
unsigned int trp__cpu_threads(void);

/* Returns the quota alone, UINT_MAX if there is none: `groups` is a file like /proc/self/cgroup,
 * `root` the folder of control groups, of version 1 or 2. */
unsigned int trp__cpu_quota(const char *groups, const char *root);

/* Returns whether the processor has AVX2, and the system saves its registers. Determined once. */
bool trp__cpu_has_avx2(void);

/* The same, and fused multiply-adds. */
bool trp__cpu_has_avx2_and_fma(void);

#endif
