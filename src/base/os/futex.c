#include "base/os/futex.h"

#include "base/os/clock.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

void trp__futex_wait(const _Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    struct timespec t = {.tv_sec = timeout_ns / TRP__SECOND, .tv_nsec = timeout_ns % TRP__SECOND};
    syscall(SYS_futex, word, FUTEX_WAIT, expected, timeout_ns < 0 ? NULL : &t, NULL, 0);
}

void trp__futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}
