#include "fuzz/rogue_acts.h"

#include "base/os/shm.h"
#include "wire/entry.h"
#include "wire/layout.h"
#include "wire/message.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHILD_MS = 300 };

static const char *const names[] = {
#define ROGUE_NAME(name) #name,
    ROGUE_LIST(ROGUE_NAME)
#undef ROGUE_NAME
};

const char *rogue_name(rogue_kind kind)
{
    return names[kind];
}

void rogue_path(rogue_kind kind, uint64_t seed, char *out, size_t size)
{
    char self[4096];
    const char *folder = getenv("TMPDIR");
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    snprintf(out, size, "%s/rogue-%d-%llx", folder ? folder : "/tmp", (int)kind,
             (unsigned long long)seed);
    if (symlink(self, out) != 0) {
        perror(out);
        abort();
    }
}

/* ---- the kinds ---- */

typedef struct attempts {
    char text[200]; /* what should have failed */
} attempts;

static void should_fail(attempts *a, bool worked, const char *what)
{
    size_t used = strlen(a->text);
    if (worked)
        snprintf(a->text + used, sizeof a->text - used, "%s, ", what);
}

static void try_size(attempts *a, int fd, const char *what)
{
    struct stat st;
    fstat(fd, &st);
    should_fail(a, ftruncate(fd, 0) == 0, what);
    should_fail(a, ftruncate(fd, st.st_size - 4096) == 0, what);
    should_fail(a, ftruncate(fd, st.st_size + 4096) == 0, what);
    should_fail(a, fallocate(fd, 0, st.st_size, 4096) == 0, what);
    should_fail(a, fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0, what);
}

static void try_seals(rogue *r)
{
    attempts a = {""};
    char path[64], byte = 0;
    int control = r->fds[0];
    try_size(&a, r->fds[0], "size of the control block");
    try_size(&a, r->fds[1], "size of the reply block");
    try_size(&a, r->fds[2], "size of the staging memory");
    should_fail(&a, mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, control, 0) != MAP_FAILED,
                "mapping the control block for writing");
    should_fail(&a, mprotect((void *)(uintptr_t)r->control, 4096, PROT_READ | PROT_WRITE) == 0,
                "making the control block writable");
    should_fail(&a, pwrite(control, &byte, 1, 0) == 1, "writing to the control block");
    should_fail(&a, fallocate(control, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20) == 0,
                "a hole in the control block");
    should_fail(&a, madvise((void *)(uintptr_t)r->control, 4096, MADV_REMOVE) == 0,
                "removing pages of the control block");
    snprintf(path, sizeof path, "/proc/self/fd/%d", control);
    int again = open(path, O_RDWR | O_CLOEXEC);
    should_fail(&a, again >= 0 && pwrite(again, &byte, 1, 0) == 1,
                "writing to the control block, opened anew");
    trp__message m = {.error = {.status = TRP_E_MISSING}};
    snprintf(m.error.message, sizeof m.error.message, "worked: %s", a.text[0] ? a.text : "nothing");
    rogue_say(TRP__MSG_REFUSE, &m, NULL, 0);
}

static void boast(rogue *r)
{
    for (int i = 0; i < 8; i++)
        rogue_pretend(r, true), rogue_nap_us(1000);
    uint64_t beyond =
        atomic_load(&r->control->next_ticket.value) + (chance(r, 50) ? 1000 : UINT64_C(1) << 40);
    for (uint32_t i = 0; i < TRP__ACTORS; i++)
        atomic_store(&r->reply->timelines.timeline[i].value, beyond);
}

static void leave_child(rogue *r)
{
    ref_rng_next(&r->rng);
    pid_t pid = fork();
    if (pid != 0)
        return;
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < CHILD_MS; i++) {
        for (int k = 0; k < 8; k++)
            rogue_scribble_reply(r);
        rogue_scribble_memory(r);
        if (chance(r, 5))
            rogue_garble(r);
        rogue_nap_us(1000);
    }
    _exit(0);
}

static int be_forker(rogue *r)
{
    for (int i = 0; i < 5; i++)
        rogue_pretend(r, chance(r, 50)), rogue_take_messages(r, 2);
    leave_child(r);
    leave_child(r);
    if (chance(r, 30))
        kill(getpid(), SIGKILL);
    return (int)below(r, 3);
}

static void go_deaf(rogue *r)
{
    rogue_take_messages(r, 20);
    switch (below(r, 3)) {
    case 0:
        shutdown(SOCKET, SHUT_RD);
        break;
    case 1:
        shutdown(SOCKET, SHUT_WR);
        break;
    default:
        close(SOCKET);
        break;
    }
    rogue_sleep_forever();
}

static void flood(rogue *r)
{
    for (;;) {
        trp__message m = {.id = (uint32_t)below(r, 70), .about = (uint32_t)below(r, 9)};
        rogue_say(TRP__MSG_ANSWER, &m, NULL, 0);
    }
}

/* One thing of all that can be done. */
static void anything(rogue *r)
{
    if (chance(r, r->honesty)) {
        rogue_pretend(r, chance(r, 90));
        rogue_nap_us((long)below(r, 300));
        return;
    }
    switch (below(r, 16)) {
    case 0:
        rogue_garble(r);
        break;
    case 1:
        rogue_send_descriptors(r);
        break;
    case 2:
        leave_child(r);
        break;
    case 3:
        if (chance(r, 30))
            _exit((int)below(r, 256));
        break;
    case 4:
        if (chance(r, 30))
            kill(getpid(), (int[]){SIGKILL, SIGABRT, SIGSTOP, SIGSEGV}[below(r, 4)]);
        break;
    case 5:
        if (chance(r, 10))
            go_deaf(r);
        break;
    case 6:
        if (chance(r, 30)) {
            trp__message m = {0};
            rogue_scribble_fault(r);
            rogue_say(chance(r, 50) ? TRP__MSG_FAULT : TRP__MSG_REFUSE, &m, NULL, 0);
        }
        break;
    case 7:
        if (chance(r, 10))
            rogue_sleep_forever();
        break;
    case 8:
    case 9:
        rogue_scribble_memory(r);
        break;
    default:
        rogue_scribble_reply(r);
        break;
    }
}

/* ---- a real worker behind somebody ---- */

static void *run_worker(void *argument)
{
    _exit(trp__worker_run((int)(intptr_t)argument, true));
}

/* Passes one message on, mostly. False if there was an end. */
static bool pass_on(rogue *r, int from, int to, bool to_application)
{
    trp__message m;
    int fds[TRP__MESSAGE_FDS];
    bool closed = false;
    uint32_t count = 0;
    if (trp__message_receive(from, &m, fds, &closed, NULL) != TRP_OK)
        return !closed;
    while (count < TRP__MESSAGE_FDS && fds[count] >= 0)
        count++;
    rogue_note_resource(r, &m, fds[0]);
    if (to_application && r->ready && !chance(r, r->honesty)) {
        if (chance(r, 50))
            rogue_fill_random(r, &m.error, sizeof m.error);
        if (chance(r, 30))
            m.id = (uint32_t)below(r, 70);
        if (chance(r, 30))
            m.about = (uint32_t)below(r, 9);
    }
    r->ready = r->ready || (to_application && m.type == TRP__MSG_READY);
    bool lost = r->ready && to_application && !chance(r, r->honesty) && chance(r, 20);
    if (!lost)
        trp__message_send(to, (trp__message_type)m.type, &m, fds, count, NULL);
    for (uint32_t i = 0; i < count; i++)
        close(fds[i]);
    return true;
}

static int be_meddler(rogue *r)
{
    int pair[2];
    pthread_t thread;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0 ||
        pthread_create(&thread, NULL, run_worker, (void *)(intptr_t)pair[1]) != 0)
        return 1;
    trp__message hello = {.id = r->incarnation};
    trp__message_send(pair[0], TRP__MSG_HELLO, &hello, r->fds, TRP__MESSAGE_FDS, NULL);
    for (;;) {
        struct pollfd p[2] = {{.fd = SOCKET, .events = POLLIN}, {.fd = pair[0], .events = POLLIN}};
        poll(p, 2, 1);
        if (p[0].revents && !pass_on(r, SOCKET, pair[0], false))
            return 0;
        if (p[1].revents && !pass_on(r, pair[0], SOCKET, true))
            return 0;
        if (rogue_my_turn(r) && !chance(r, r->honesty)) {
            if (chance(r, 50))
                rogue_scribble_reply(r);
            else
                rogue_scribble_memory(r);
        }
    }
}

/* ---- life ---- */

static bool set_up(rogue *r)
{
    trp__message hello;
    bool closed;
    if (trp__message_receive(SOCKET, &hello, r->fds, &closed, NULL) != TRP_OK)
        return false;
    void *control = NULL, *reply = NULL;
    if (trp__shm_map(r->fds[0], TRP__CONTROL_BYTES, false, NULL, &control, NULL) != TRP_OK ||
        trp__shm_map(r->fds[1], TRP__REPLY_BYTES, true, NULL, &reply, NULL) != TRP_OK)
        return false;
    r->control = control;
    r->reply = reply;
    r->incarnation = hello.id;
    rogue_keep_map(r, r->fds[2], TRP__STAGING_BYTES);
    return true;
}

/* What is done once, after READY; true if nothing else follows. */
static bool begin(rogue *r)
{
    switch (r->kind) {
    case ROGUE_MUTE:
        rogue_sleep_forever();
    case ROGUE_FLOODER:
        flood(r);
        return true;
    case ROGUE_HASTY:
        for (int i = 0; i < 1000; i++)
            rogue_say_ready(r);
        return false;
    case ROGUE_EARLY:
        if (!rogue_my_turn(r)) {
            atomic_store(&r->reply->timelines.timeline[below(r, 4)].value, 1);
            atomic_store(&r->reply->issued[3].value, 1);
        }
        return false;
    case ROGUE_GARBLER:
        for (int i = 0; i < 50; i++)
            rogue_take_messages(r, 1), rogue_garble(r);
        return false;
    default:
        return false;
    }
}

/* Every turn of its life. False: it ends. */
static bool live(rogue *r)
{
    if (!rogue_take_messages(r, 1))
        return false;
    switch (r->kind) {
    case ROGUE_CLERK:
        break;
    case ROGUE_BOASTER:
        boast(r);
        break;
    case ROGUE_WAVERER:
        rogue_pretend(r, chance(r, 50));
        atomic_store(&r->reply->timelines.timeline[below(r, 5)].value, below(r, r->next + 1));
        atomic_store(&r->reply->issued[below(r, 5)].value, below(r, r->next + 1));
        break;
    case ROGUE_STOPPED:
        rogue_pretend(r, true);
        if (chance(r, 20))
            raise(SIGSTOP);
        break;
    case ROGUE_DEAF:
        rogue_pretend(r, true);
        if (chance(r, 20))
            go_deaf(r);
        break;
    case ROGUE_FORKER:
        _exit(be_forker(r));
    case ROGUE_MAD:
        anything(r);
        break;
    default:
        rogue_pretend(r, true);
        break;
    }
    return true;
}

int rogue_main(const char *path)
{
    int kind = 0;
    unsigned long long seed = 0;
    const char *name = strrchr(path, '/');
    if (!name || sscanf(name, "/rogue-%d-%llx", &kind, &seed) != 2)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    static rogue r;
    r.kind = (rogue_kind)kind;
    ref_rng_init(&r.rng, seed);
    if (!set_up(&r))
        return 3;
    ref_rng_init(&r.rng, seed * 1000003 + r.incarnation);
    const uint32_t honesty[] = {0, 50, 90, 99};
    r.honesty = r.kind == ROGUE_MAD || r.kind == ROGUE_MEDDLER ? honesty[below(&r, 4)] : 100;
    if (r.kind == ROGUE_MEDDLER)
        return be_meddler(&r);
    if (r.kind == ROGUE_SEALS) {
        try_seals(&r);
        rogue_sleep_forever();
    }
    if (r.kind == ROGUE_FLOODER && chance(&r, 50))
        flood(&r);
    if (r.kind == ROGUE_MAD && chance(&r, 5))
        anything(&r);
    rogue_say_ready(&r);
    if (begin(&r))
        return 0;
    rogue_await_my_turn(&r);
    while (live(&r))
        continue;
    if (r.kind == ROGUE_STUBBORN || (r.kind == ROGUE_MAD && chance(&r, 2)))
        rogue_sleep_forever();
    return 0;
}
