#include "base/os/poll.h"

#include "base/os/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/select.h>

enum { WORD = 8 * sizeof(unsigned long), NUMBERS = 1 << 14 };

/* A set for select() with more descriptors than an fd_set has. */
typedef struct set {
    unsigned long word[NUMBERS / WORD];
} set;

static void add(set *s, int fd)
{
    s->word[fd / WORD] |= 1UL << (fd % WORD);
}

static bool has(const set *s, int fd)
{
    return s->word[fd / WORD] >> (fd % WORD) & 1;
}

static int by_select(struct pollfd *polled, int count, const struct timespec *timeout)
{
    set in, out;
    int end = 0, ready = 0;
    memset(&in, 0, sizeof in);
    memset(&out, 0, sizeof out);
    for (int i = 0; i < count; i++) {
        const int fd = polled[i].fd;
        if (fd >= NUMBERS)
            return errno = EINVAL, -1;
        if (fd < 0 || polled[i].events == 0)
            continue;
        if (polled[i].events & POLLIN)
            add(&in, fd);
        if (polled[i].events & POLLOUT)
            add(&out, fd);
        end = fd >= end ? fd + 1 : end;
    }
    if (pselect(end, (fd_set *)&in, (fd_set *)&out, NULL, timeout, NULL) < 0)
        return -1;
    for (int i = 0; i < count; i++) {
        const int fd = polled[i].fd;
        if (fd >= 0)
            polled[i].revents =
                (short)((has(&in, fd) ? POLLIN : 0) | (has(&out, fd) ? POLLOUT : 0));
        ready += polled[i].revents != 0;
    }
    return ready;
}

int trp__poll(struct pollfd *polled, int count, int64_t timeout_ns)
{
    const struct timespec t = {.tv_sec = timeout_ns / TRP__SECOND,
                               .tv_nsec = timeout_ns % TRP__SECOND};
    const struct timespec *timeout = timeout_ns >= 0 ? &t : NULL;
    for (int i = 0; i < count; i++)
        polled[i].revents = 0;
    int ready = ppoll(polled, (nfds_t)count, timeout, NULL);
    if (ready >= 0 || errno != EINVAL)
        return ready;
    ready = by_select(polled, count, timeout);
    if (ready < 0 && errno == EINVAL) { /* the caller polls again */
        trp__sleep_ns(timeout_ns >= 0 && timeout_ns < TRP__MS ? timeout_ns : TRP__MS);
        ready = 0;
    }
    return ready;
}
