#include "base/os/limits.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

const char *trp__limits_text(int code, char *out, size_t size)
{
    /* A thread's stack for which there is no address space is EAGAIN, too. */
    static const struct {
        int code;
        int resource;
        const char *name;
    } limits[] = {
        {EMFILE, RLIMIT_NOFILE, "RLIMIT_NOFILE"}, {EFBIG, RLIMIT_FSIZE, "RLIMIT_FSIZE"},
        {ENOMEM, RLIMIT_AS, "RLIMIT_AS"},         {ENOMEM, RLIMIT_DATA, "RLIMIT_DATA"},
        {EAGAIN, RLIMIT_NPROC, "RLIMIT_NPROC"},   {EAGAIN, RLIMIT_AS, "RLIMIT_AS"},
    };
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit limit;
        if (limits[i].code != code || getrlimit((unsigned)limits[i].resource, &limit) != 0 ||
            limit.rlim_cur == RLIM_INFINITY || used >= size)
            continue;
        used += (size_t)snprintf(out + used, size - used, "%s%s is %llu", used ? ", " : " (",
                                 limits[i].name, (unsigned long long)limit.rlim_cur);
    }
    if (used && used < size)
        snprintf(out + used, size - used, ")");
    return out;
}

trp__writing trp__writing_begin(void)
{
    trp__writing w;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGXFSZ);
    sigaddset(&signals, SIGPIPE);
    sigpending(&w.pending);
    w.blocked = pthread_sigmask(SIG_BLOCK, &signals, &w.before) == 0;
    return w;
}

void trp__writing_end(const trp__writing *writing, int code)
{
    const int signal = code == EFBIG ? SIGXFSZ : code == EPIPE ? SIGPIPE : 0;
    if (signal && writing->blocked && !sigismember(&writing->pending, signal)) {
        const struct timespec none = {0};
        sigset_t signals;
        sigemptyset(&signals);
        sigaddset(&signals, signal);
        while (sigtimedwait(&signals, NULL, &none) < 0 && errno == EINTR)
            continue;
    }
    if (writing->blocked)
        pthread_sigmask(SIG_SETMASK, &writing->before, NULL);
    if (code != 0)
        errno = code;
}
