#include "base/fault_point.h"

#ifdef TROUPE_FAULT_POINTS

#include "base/os/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PLANS = 16 };

#define STALL_NS    (20 * TRP__MS)
#define END_WAIT_MS 10000

typedef enum action { KILL_SELF, KILL_ACTIVE, KILL_SUCCESSOR, STALL, FAIL, ACTIONS } action;

static const char *const action_names[ACTIONS] = {
    [KILL_SELF] = "kill-self",
    [KILL_ACTIVE] = "kill-active",
    [KILL_SUCCESSOR] = "kill-successor",
    [STALL] = "stall",
    [FAIL] = "fail",
};

static const char *const point_names[TRP__FAULT_POINT_COUNT] = {
#define POINT(name, side, can_fail) #name,
    TRP__FAULT_POINTS(POINT)
#undef POINT
};

typedef struct plan {
    uint32_t point;
    uint32_t first, last; /* hits */
    action action;
} plan;

/* Written before main(), then only read. */
static plan plans[PLANS];
static uint32_t plan_count;
static _Atomic uint32_t *hits; /* NULL: nothing was asked for */

static uint32_t find(const char *const *names, uint32_t count, const char *name)
{
    uint32_t i = 0;
    while (i < count && strcmp(names[i], name) != 0)
        i++;
    return i;
}

/* A test that misspells a name must not pass. */
static _Noreturn void refuse(const char *text)
{
    fprintf(stderr, "TROUPE_FAULT_POINT: expected NAME:HITS:ACTION, got %s\n", text);
    abort();
}

static void read_plan(const char *text)
{
    char name[64], range[32], what[32];
    plan *p = &plans[plan_count];
    if (plan_count == PLANS || sscanf(text, "%63[^:]:%31[^:]:%31s", name, range, what) != 3)
        refuse(text);
    char *end = range;
    p->point = find(point_names, TRP__FAULT_POINT_COUNT, name);
    p->action = (action)find(action_names, ACTIONS, what);
    p->first = p->last = (uint32_t)strtoul(range, &end, 10);
    if (*end == '+')
        p->last = UINT32_MAX;
    else if (*end == '-')
        p->last = (uint32_t)strtoul(end + 1, NULL, 10);
    if (p->point == TRP__FAULT_POINT_COUNT || p->action == ACTIONS || p->first == 0 ||
        p->last < p->first)
        refuse(text);
    plan_count++;
}

static void read_plans(const char *list)
{
    char text[1024], *rest = NULL;
    size_t length = strlen(list);
    if (length >= sizeof text)
        refuse(list);
    memcpy(text, list, length + 1);
    for (char *one = strtok_r(text, ",", &rest); one; one = strtok_r(NULL, ",", &rest))
        read_plan(one);
}

static void map_hits(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *map = MAP_FAILED;
    if (fd >= 0)
        map = mmap(NULL, sizeof *hits * TRP__FAULT_POINT_COUNT, PROT_READ | PROT_WRITE, MAP_SHARED,
                   fd, 0);
    if (map == MAP_FAILED) {
        fprintf(stderr, "TROUPE_FAULT_POINT_HITS: %s: %s\n", path, strerror(errno));
        abort();
    }
    close(fd);
    hits = map;
}

__attribute__((constructor)) static void arm(void)
{
    static _Atomic uint32_t own[TRP__FAULT_POINT_COUNT];
    const char *list = secure_getenv("TROUPE_FAULT_POINT"),
               *path = secure_getenv("TROUPE_FAULT_POINT_HITS");
    if (list && *list) {
        read_plans(list);
        hits = own;
    }
    if (path && *path)
        map_hits(path);
}

/* Kills a process and waits until it has ended, so that the next step finds it dead. */
static void kill_and_wait(int64_t pid)
{
    if (pid <= 0)
        return;
    int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (pidfd < 0)
        return;
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, END_WAIT_MS);
    close(pidfd);
}

static bool act(action what, int64_t active, int64_t successor)
{
    trp__call_shield();
    switch (what) {
    case KILL_SELF:
        kill(getpid(), SIGKILL);
        break;
    case KILL_ACTIVE:
        kill_and_wait(active);
        break;
    case KILL_SUCCESSOR:
        kill_and_wait(successor);
        break;
    case STALL:
        trp__sleep_ns(STALL_NS);
        break;
    default:
        return true;
    }
    return false;
}

bool trp__fault_point(trp__fault_point_id point, int64_t active, int64_t successor)
{
    bool fails = false;
    if (!hits)
        return false;
    int kept = errno;
    uint32_t hit = atomic_fetch_add(&hits[point], 1) + 1;
    for (uint32_t i = 0; i < plan_count; i++) {
        const plan *p = &plans[i];
        if (p->point == point && hit >= p->first && hit <= p->last)
            fails = act(p->action, active, successor) || fails;
    }
    errno = kept;
    return fails;
}

#endif
