/* What the processor is like. */
#ifndef TRP_BASE_CPU_H
#define TRP_BASE_CPU_H

#include <stdbool.h>

/* Whether this process may run on so many cores that a thread that spins takes none away from the
 * thread it waits for. Asked of the system once. */
bool trp__cpu_may_spin(void);

/* Processors that this process may use; at least 1. */
unsigned int trp__cpu_count(void);

/* Whether it has AVX2, and the system saves its registers. Asked once. */
bool trp__cpu_has_avx2(void);

#endif
