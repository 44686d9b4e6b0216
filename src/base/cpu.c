#include "base/cpu.h"

#include <sched.h>
#include <stdatomic.h>

/* A sender, the scheduler and a stream or copying thread, and one for the rest of the program. */
enum { CORES_TO_SPIN = 4 };

bool trp__cpu_may_spin(void)
{
    static _Atomic int known; /* 0: not yet, 1: no, 2: yes */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == 0) {
        cpu_set_t cores;
        bool many =
            sched_getaffinity(0, sizeof cores, &cores) != 0 || CPU_COUNT(&cores) >= CORES_TO_SPIN;
        answer = many ? 2 : 1;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
}

unsigned int trp__cpu_count(void)
{
    cpu_set_t cores;
    int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    return count > 0 ? (unsigned int)count : 1;
}

bool trp__cpu_has_avx2(void)
{
#if defined(__x86_64__)
    static _Atomic int known; /* 0: not yet, 1: no, 2: yes; cpuid traps in a virtual machine */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == 0) {
        __builtin_cpu_init();
        answer = __builtin_cpu_supports("avx2") ? 2 : 1;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
#else
    return false;
#endif
}
