#include "fuzz/rogue.h"

#include "support/reference/reference.h"

#include "base/os/shm.h"
#include "wire/entry.h"
#include "wire/layout.h"
#include "wire/message.h"

#include <errno.h>
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
#include <time.h>
#include <unistd.h>

enum { SOCKET = 3, MAPS = 8, CHILD_MS = 300 };

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

/* ---- one rogue ---- */

typedef struct map {
    char *base;
    size_t bytes;
} map;

typedef struct rogue {
    rogue_kind kind;
    ref_rng rng;
    uint32_t incarnation;
    int fds[TRP__MESSAGE_FDS]; /* control, reply, staging */
    const trp__control *control;
    trp__reply *reply;
    map map[MAPS]; /* memory that it may scribble over: staging, host segments, arenas */
    uint32_t maps;
    uint64_t next;    /* ticket */
    uint32_t honesty; /* of 100 steps, so many are as they should be */
    bool ready;
} rogue;

static size_t below(rogue *r, size_t bound)
{
    return ref_rng_below(&r->rng, bound);
}

static bool chance(rogue *r, size_t percent)
{
    return below(r, 100) < percent;
}

static void nap_us(long us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

/* The parent's death, or its signal, ends this. */
_Noreturn static void sleep_forever(void)
{
    for (;;)
        pause();
}

static void fill_random(rogue *r, void *to, size_t bytes)
{
    unsigned char *p = to;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = ref_rng_next(&r->rng);
        memcpy(p + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

/* A number of the kinds that break programs. */
static uint64_t odd_number(rogue *r)
{
    uint64_t next = atomic_load(&r->control->next_ticket.value);
    const uint64_t choice[] = {0,
                               1,
                               next - 1,
                               next,
                               next + 1,
                               next / 2,
                               next + TRP__RING,
                               UINT64_MAX,
                               UINT64_MAX / 2,
                               below(r, 100),
                               ref_rng_next(&r->rng)};
    return choice[below(r, sizeof choice / sizeof *choice)];
}

static void say(trp__message_type type, trp__message *m, const int *fds, uint32_t count)
{
    trp__message_send(SOCKET, type, m, fds, count, NULL);
}

static void say_ready(rogue *r)
{
    trp__message m = {0};
    say(TRP__MSG_READY, &m, NULL, 0);
    r->ready = true;
}

/* ---- memory ---- */

static void keep_map(rogue *r, int fd, uint64_t bytes)
{
    if (r->maps == MAPS || bytes == 0)
        return;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base != MAP_FAILED)
        r->map[r->maps++] = (map){.base = base, .bytes = bytes};
}

static void scribble_memory(rogue *r)
{
    if (r->maps == 0)
        return;
    map *m = &r->map[below(r, r->maps)];
    size_t at = below(r, m->bytes), left = m->bytes - at;
    fill_random(r, m->base + at, left < 4096 ? left : 4096);
}

/* An error of a request that is pending, so that somebody reads it. */
static void scribble_error(rogue *r)
{
    uint64_t next = atomic_load(&r->control->next_ticket.value);
    uint64_t ticket = next > 1 ? next - 1 - below(r, next - 1 < 64 ? next - 1 : 64) : 1;
    uint32_t slot = (uint32_t)(atomic_load(&r->control->ring[ticket % TRP__RING]) % TRP__SLOTS);
    trp__reply_error *e = &r->reply->error[slot];
    e->status = chance(r, 50) ? (int)below(r, 20) : (int)ref_rng_next(&r->rng);
    e->code = (int)ref_rng_next(&r->rng);
    fill_random(r, e->domain, sizeof e->domain); /* with no end, as a rule */
    fill_random(r, e->message, sizeof e->message);
    atomic_store(&e->ticket, chance(r, 80) ? ticket : odd_number(r));
}

static void scribble_fault(rogue *r)
{
    fill_random(r, &r->reply->fault, sizeof r->reply->fault);
    if (chance(r, 50))
        r->reply->fault.fault = (trp_fault)below(r, 8);
    atomic_store(&r->reply->fault_present, (uint32_t)below(r, 3));
}

/* Rubbish in one place of the reply block. */
static void scribble_reply(rogue *r)
{
    trp__reply *reply = r->reply;
    size_t actor = chance(r, 80) ? below(r, 6) : below(r, TRP__ACTORS);
    switch (below(r, 8)) {
    case 0:
        atomic_store(&reply->sleeping, (uint32_t)below(r, 2));
        break;
    case 1:
        atomic_store(&reply->taken.value, odd_number(r));
        break;
    case 2:
        scribble_fault(r);
        break;
    case 3:
        atomic_store(&reply->issued[actor].value, odd_number(r));
        break;
    case 4:
        atomic_store(&reply->timelines.timeline[actor].value, odd_number(r));
        break;
    case 5:
        atomic_store(&reply->timelines.stream_done[below(r, TRP__STREAMS)].value, odd_number(r));
        break;
    case 6:
        scribble_error(r);
        break;
    default: /* anywhere at all */
        fill_random(r, (char *)reply + below(r, sizeof *reply - 512), 8 + below(r, 500));
        break;
    }
}

/* ---- messages ---- */

static void note_resource(rogue *r, const trp__message *m, int fd)
{
    if (fd >= 0 && (m->type == TRP__MSG_HOST || m->type == TRP__MSG_ARENA))
        keep_map(r, fd, m->bytes);
}

static void answer_rightly(const trp__message *m)
{
    trp__message a = {.id = m->id, .about = m->type};
    say(TRP__MSG_ANSWER, &a, NULL, 0);
}

static void answer_wrongly(rogue *r, const trp__message *m)
{
    trp__message a = {.id = m->id, .about = m->type};
    fill_random(r, &a.error, sizeof a.error);
    if (chance(r, 50))
        a.error.status = (trp_status)below(r, 20);
    if (chance(r, 20))
        a.id = (uint32_t)ref_rng_next(&r->rng);
    if (chance(r, 20))
        a.about = chance(r, 50) ? (uint32_t)below(r, 14) : (uint32_t)ref_rng_next(&r->rng);
    say(TRP__MSG_ANSWER, &a, NULL, 0);
    if (chance(r, 10))
        say(TRP__MSG_ANSWER, &a, NULL, 0);
}

/* Takes messages for up to `ms`. False when the application wants its end. */
static bool take_messages(rogue *r, int ms)
{
    struct pollfd p = {.fd = SOCKET, .events = POLLIN};
    while (poll(&p, 1, ms) > 0) {
        trp__message m;
        int fds[TRP__MESSAGE_FDS];
        bool closed = false;
        trp_status status = trp__message_receive(SOCKET, &m, fds, &closed, NULL);
        if (closed)
            return false;
        if (status == TRP_OK && m.type == TRP__MSG_STOP && r->kind != ROGUE_STUBBORN)
            return false;
        if (status == TRP_OK)
            note_resource(r, &m, fds[0]);
        for (int i = 0; i < TRP__MESSAGE_FDS; i++) {
            if (fds[i] >= 0)
                close(fds[i]);
        }
        if (chance(r, r->honesty))
            answer_rightly(&m);
        else if (chance(r, 70))
            answer_wrongly(r, &m);
        ms = 0;
    }
    return true;
}

static void garble(rogue *r)
{
    static char packet[70000];
    size_t bytes = below(r, 4) == 0 ? below(r, sizeof packet) : below(r, sizeof(trp__message) + 64);
    fill_random(r, packet, bytes);
    trp__message *m = (trp__message *)(void *)packet;
    if (chance(r, 80))
        m->magic = TRP__MAGIC;
    if (chance(r, 80))
        m->abi = TRP__ABI;
    if (chance(r, 50))
        m->type = (uint32_t)below(r, 14);
    send(SOCKET, packet, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Descriptors, more than anybody has room for. */
static void send_descriptors(rogue *r)
{
    enum { MANY = 20 };
    union {
        char bytes[CMSG_SPACE(sizeof(int) * MANY)];
        struct cmsghdr align;
    } control;
    trp__message m = {.magic = TRP__MAGIC, .abi = TRP__ABI};
    m.type = chance(r, 50) ? TRP__MSG_ANSWER : TRP__MSG_READY;
    size_t count = 1 + below(r, chance(r, 50) ? TRP__MESSAGE_FDS : MANY);
    struct iovec data = {.iov_base = &m, .iov_len = sizeof m};
    struct msghdr header = {.msg_iov = &data,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = CMSG_SPACE(sizeof(int) * count)};
    memset(&control, 0, sizeof control);
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * count);
    for (size_t i = 0; i < count; i++)
        memcpy(CMSG_DATA(rights) + i * sizeof(int), &r->fds[below(r, TRP__MESSAGE_FDS)],
               sizeof(int));
    sendmsg(SOCKET, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- work ---- */

static void copy_nothing_but_say_so(rogue *r, const trp__record *record)
{
    struct {
        uint32_t segment, stream;
        uint64_t host_offset, first_chunk, chunks;
    } payload;
    memcpy(&payload, record->payload, sizeof payload);
    if (record->op == 3 && payload.stream < TRP__STREAMS && r->kind != ROGUE_READER)
        atomic_store(&r->reply->timelines.stream_done[payload.stream].value,
                     payload.first_chunk + payload.chunks);
}

/* Takes what is in the ring and says that it is done. */
static void pretend(rogue *r, bool finish)
{
    const trp__control *c = r->control;
    for (;; r->next++) {
        uint64_t cell = atomic_load(&c->ring[r->next % TRP__RING]);
        if (cell >> TRP__SLOT_BITS != r->next)
            break;
        const trp__record *record = &c->record[cell % TRP__SLOTS];
        uint32_t actor = record->actor % TRP__ACTORS;
        atomic_store(&r->reply->taken.value, r->next + 1);
        if (record->ticket != r->next)
            continue;
        atomic_store(&r->reply->issued[actor].value, r->next);
        if (!finish)
            continue;
        copy_nothing_but_say_so(r, record);
        atomic_store(&r->reply->timelines.timeline[actor].value, r->next);
    }
}

static bool my_turn(const rogue *r)
{
    return atomic_load(&r->control->promoted) == r->incarnation;
}

static void await_my_turn(rogue *r)
{
    while (!my_turn(r)) {
        if (!take_messages(r, 5))
            _exit(0);
    }
    r->next = r->control->resume_start;
    for (uint32_t i = 0; i < r->control->resume_count && i < TRP__SLOTS; i++) {
        const trp__record *record = &r->control->record[r->control->resume[i] % TRP__SLOTS];
        if (r->kind != ROGUE_CLERK && chance(r, r->honesty)) {
            uint32_t actor = record->actor % TRP__ACTORS;
            atomic_store(&r->reply->issued[actor].value, record->ticket);
            copy_nothing_but_say_so(r, record);
            atomic_store(&r->reply->timelines.timeline[actor].value, record->ticket);
        }
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
    say(TRP__MSG_REFUSE, &m, NULL, 0);
}

static void boast(rogue *r)
{
    for (int i = 0; i < 8; i++)
        pretend(r, true), nap_us(1000);
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
            scribble_reply(r);
        scribble_memory(r);
        if (chance(r, 5))
            garble(r);
        nap_us(1000);
    }
    _exit(0);
}

static int be_forker(rogue *r)
{
    for (int i = 0; i < 5; i++)
        pretend(r, chance(r, 50)), take_messages(r, 2);
    leave_child(r);
    leave_child(r);
    if (chance(r, 30))
        kill(getpid(), SIGKILL);
    return (int)below(r, 3);
}

static void go_deaf(rogue *r)
{
    take_messages(r, 20);
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
    sleep_forever();
}

static void flood(rogue *r)
{
    for (;;) {
        trp__message m = {.id = (uint32_t)below(r, 70), .about = (uint32_t)below(r, 9)};
        say(TRP__MSG_ANSWER, &m, NULL, 0);
    }
}

/* One thing of all that can be done. */
static void anything(rogue *r)
{
    if (chance(r, r->honesty)) {
        pretend(r, chance(r, 90));
        nap_us((long)below(r, 300));
        return;
    }
    switch (below(r, 16)) {
    case 0:
        garble(r);
        break;
    case 1:
        send_descriptors(r);
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
            scribble_fault(r);
            say(chance(r, 50) ? TRP__MSG_FAULT : TRP__MSG_REFUSE, &m, NULL, 0);
        }
        break;
    case 7:
        if (chance(r, 10))
            sleep_forever();
        break;
    case 8:
    case 9:
        scribble_memory(r);
        break;
    default:
        scribble_reply(r);
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
    note_resource(r, &m, fds[0]);
    if (to_application && r->ready && !chance(r, r->honesty)) {
        if (chance(r, 50))
            fill_random(r, &m.error, sizeof m.error);
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
        if (my_turn(r) && !chance(r, r->honesty)) {
            if (chance(r, 50))
                scribble_reply(r);
            else
                scribble_memory(r);
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
    keep_map(r, r->fds[2], TRP__STAGING_BYTES);
    return true;
}

/* What is done once, after READY; true if nothing else follows. */
static bool begin(rogue *r)
{
    switch (r->kind) {
    case ROGUE_MUTE:
        sleep_forever();
    case ROGUE_FLOODER:
        flood(r);
        return true;
    case ROGUE_HASTY:
        for (int i = 0; i < 1000; i++)
            say_ready(r);
        return false;
    case ROGUE_EARLY:
        if (!my_turn(r)) {
            atomic_store(&r->reply->timelines.timeline[below(r, 4)].value, 1);
            atomic_store(&r->reply->issued[3].value, 1);
        }
        return false;
    case ROGUE_GARBLER:
        for (int i = 0; i < 50; i++)
            take_messages(r, 1), garble(r);
        return false;
    default:
        return false;
    }
}

/* Every turn of its life. False: it ends. */
static bool live(rogue *r)
{
    if (!take_messages(r, 1))
        return false;
    switch (r->kind) {
    case ROGUE_CLERK:
        break;
    case ROGUE_BOASTER:
        boast(r);
        break;
    case ROGUE_WAVERER:
        pretend(r, chance(r, 50));
        atomic_store(&r->reply->timelines.timeline[below(r, 5)].value, below(r, r->next + 1));
        atomic_store(&r->reply->issued[below(r, 5)].value, below(r, r->next + 1));
        break;
    case ROGUE_STOPPED:
        pretend(r, true);
        if (chance(r, 20))
            raise(SIGSTOP);
        break;
    case ROGUE_DEAF:
        pretend(r, true);
        if (chance(r, 20))
            go_deaf(r);
        break;
    case ROGUE_FORKER:
        _exit(be_forker(r));
    case ROGUE_MAD:
        anything(r);
        break;
    default:
        pretend(r, true);
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
        sleep_forever();
    }
    if (r.kind == ROGUE_FLOODER && chance(&r, 50))
        flood(&r);
    if (r.kind == ROGUE_MAD && chance(&r, 5))
        anything(&r);
    say_ready(&r);
    if (begin(&r))
        return 0;
    await_my_turn(&r);
    while (live(&r))
        continue;
    if (r.kind == ROGUE_STUBBORN || (r.kind == ROGUE_MAD && chance(&r, 2)))
        sleep_forever();
    return 0;
}
