/* Monotonic time. */
#ifndef TRP_BASE_OS_CLOCK_H
#define TRP_BASE_OS_CLOCK_H

#include "base/call.h"

#include <stdint.h>
#include <time.h>

#define TRP__US     INT64_C(1000)
#define TRP__MS     INT64_C(1000000)
#define TRP__SECOND INT64_C(1000000000)

static inline int64_t trp__now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * TRP__SECOND + t.tv_nsec;
}

/* Returns the end of a wait of `timeout_ns` that begins now; INT64_MAX for a negative (endless)
 * one. */
static inline int64_t trp__deadline(int64_t timeout_ns)
{
    if (timeout_ns < 0)
        return INT64_MAX;
    int64_t now = trp__now_ns();
    return timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
}

/* Not a cancellation point within a public call. */
static inline void trp__sleep_ns(int64_t ns)
{
    trp__call_shield();
    struct timespec t = {.tv_sec = ns / TRP__SECOND, .tv_nsec = ns % TRP__SECOND};
    nanosleep(&t, NULL);
}

/* A hint to the processor inside a spin loop. */
static inline void trp__relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
