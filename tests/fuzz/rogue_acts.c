#include "fuzz/rogue_acts.h"

#include "base/os/shm.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void rogue_nap_us(long us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

_Noreturn void rogue_sleep_forever(void)
{
    for (;;)
        pause();
}

void rogue_fill_random(rogue *r, void *to, size_t bytes)
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

void rogue_say(trp__message_type type, trp__message *m, const int *fds, uint32_t count)
{
    trp__message_send(SOCKET, type, m, fds, count, NULL);
}

void rogue_say_ready(rogue *r)
{
    trp__message m = {0};
    rogue_say(TRP__MSG_READY, &m, NULL, 0);
    r->ready = true;
}

/* ---- memory ---- */

void rogue_keep_map(rogue *r, int fd, uint64_t bytes)
{
    if (r->maps == MAPS || bytes == 0)
        return;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base != MAP_FAILED)
        r->map[r->maps++] = (map){.base = base, .bytes = bytes};
}

void rogue_scribble_memory(rogue *r)
{
    if (r->maps == 0)
        return;
    map *m = &r->map[below(r, r->maps)];
    size_t at = below(r, m->bytes), left = m->bytes - at;
    rogue_fill_random(r, m->base + at, left < 4096 ? left : 4096);
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
    rogue_fill_random(r, e->domain, sizeof e->domain); /* with no end, as a rule */
    rogue_fill_random(r, e->message, sizeof e->message);
    atomic_store(&e->ticket, chance(r, 80) ? ticket : odd_number(r));
}

void rogue_scribble_fault(rogue *r)
{
    rogue_fill_random(r, &r->reply->fault, sizeof r->reply->fault);
    if (chance(r, 50))
        r->reply->fault.fault = (trp_fault)below(r, 8);
    atomic_store(&r->reply->fault_present, (uint32_t)below(r, 3));
}

void rogue_scribble_reply(rogue *r)
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
        rogue_scribble_fault(r);
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
        rogue_fill_random(r, (char *)reply + below(r, sizeof *reply - 512), 8 + below(r, 500));
        break;
    }
}

/* ---- messages ---- */

void rogue_note_resource(rogue *r, const trp__message *m, int fd)
{
    if (fd >= 0 && (m->type == TRP__MSG_HOST || m->type == TRP__MSG_ARENA))
        rogue_keep_map(r, fd, m->bytes);
}

static void answer_rightly(const trp__message *m)
{
    trp__message a = {.id = m->id, .about = m->type};
    rogue_say(TRP__MSG_ANSWER, &a, NULL, 0);
}

static void answer_wrongly(rogue *r, const trp__message *m)
{
    trp__message a = {.id = m->id, .about = m->type};
    rogue_fill_random(r, &a.error, sizeof a.error);
    if (chance(r, 50))
        a.error.status = (trp_status)below(r, 20);
    if (chance(r, 20))
        a.id = (uint32_t)ref_rng_next(&r->rng);
    if (chance(r, 20))
        a.about = chance(r, 50) ? (uint32_t)below(r, 14) : (uint32_t)ref_rng_next(&r->rng);
    rogue_say(TRP__MSG_ANSWER, &a, NULL, 0);
    if (chance(r, 10))
        rogue_say(TRP__MSG_ANSWER, &a, NULL, 0);
}

bool rogue_take_messages(rogue *r, int ms)
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
            rogue_note_resource(r, &m, fds[0]);
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

void rogue_garble(rogue *r)
{
    static char packet[70000];
    size_t bytes = below(r, 4) == 0 ? below(r, sizeof packet) : below(r, sizeof(trp__message) + 64);
    rogue_fill_random(r, packet, bytes);
    trp__message *m = (trp__message *)(void *)packet;
    if (chance(r, 80))
        m->magic = TRP__MAGIC;
    if (chance(r, 80))
        m->abi = TRP__ABI;
    if (chance(r, 50))
        m->type = (uint32_t)below(r, 14);
    send(SOCKET, packet, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void rogue_send_descriptors(rogue *r)
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

void rogue_pretend(rogue *r, bool finish)
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

bool rogue_my_turn(const rogue *r)
{
    return atomic_load(&r->control->promoted) == r->incarnation;
}

void rogue_await_my_turn(rogue *r)
{
    while (!rogue_my_turn(r)) {
        if (!rogue_take_messages(r, 5))
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
