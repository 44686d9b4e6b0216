/* Reading a device's figures out of its shared memory, in its own process or in another.
 *
 * Requests are counted by looking at all records: one is pending if this incarnation has to run it
 * (its ticket is at or above resume_start, or it is in the resume list) and its actor's timeline
 * has not passed its ticket. So running requests need no counters. The memory may be changing, and
 * that of another process is not trusted: every number is bounded before it is used, every loop
 * ends. */
#include "base/call.h"
#include "client/observe/stats.h"

#include "base/error.h"
#include "base/text.h"
#include "client/observe/observe.h"
#include "wire/actor_class.h"

#include <string.h>

/* Tries to read a group that is being changed. */
enum { READ_TRIES = 1000 };

#define SEE(field) atomic_load_explicit(&(field), memory_order_acquire)

typedef struct counts {
    uint32_t queued[TRP__ACTORS], in_flight[TRP__ACTORS];
    uint64_t oldest[TRP__ACTORS]; /* ticket in flight, 0: none */
    uint32_t op[TRP__ACTORS];     /* of that one */
    uint32_t slot[TRP__ACTORS];   /* and its place */
} counts;

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void fixed_text(char *to, size_t size, const char *from)
{
    memcpy(to, from, size);
    to[size - 1] = '\0';
    trp__text_clean(to);
}

static void read_name(char out[32], const trp__shared_name *name)
{
    uint64_t word[sizeof name->word / sizeof *name->word];
    _Static_assert(sizeof word == 32, "a name");
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        word[i] = SEE(name->word[i]);
    fixed_text(out, sizeof word, (const char *)word);
}

/* Fields that the supervisor publishes. */
typedef struct published {
    uint32_t state, incarnation, restarts;
    int64_t worker_pid, standby_pid;
    uint64_t faults, promotions;
} published;

static published read_published(const trp__stats *s)
{
    published p = {0};
    for (int i = 0; i < READ_TRIES; i++) {
        uint32_t before = SEE(s->version);
        p = (published){.state = SEE(s->state),
                        .incarnation = SEE(s->incarnation),
                        .restarts = SEE(s->restarts),
                        .worker_pid = SEE(s->worker_pid),
                        .standby_pid = SEE(s->standby_pid),
                        .faults = SEE(s->faults),
                        .promotions = SEE(s->promotions)};
        if (before % 2 == 0 && SEE(s->version) == before)
            break;
    }
    return p;
}

/* The request slots of the resume list. */
typedef struct slot_set {
    uint64_t bits[TRP__SLOTS / 64];
} slot_set;

/* Records are read while they may be written. A record whose ticket is the same before and after
 * was complete. */
__attribute__((no_sanitize("thread"))) static void resume_list(const trp__control *control,
                                                               slot_set *set, uint64_t *start)
{
    const volatile trp__control *c = control;
    uint32_t count = c->resume_count;
    *start = c->resume_start;
    for (uint32_t i = 0; i < count && i < TRP__SLOTS; i++) {
        uint32_t slot = c->resume[i] % TRP__SLOTS;
        set->bits[slot / 64] |= UINT64_C(1) << slot % 64;
    }
}

__attribute__((no_sanitize("thread"))) static bool read_record(const trp__control *control,
                                                               uint32_t slot, uint64_t *ticket,
                                                               uint32_t *actor, uint32_t *op)
{
    const volatile trp__record *record = &control->record[slot];
    *ticket = record->ticket;
    *actor = record->actor;
    *op = record->op;
    return *ticket != 0 && *actor < TRP__ACTORS && record->ticket == *ticket;
}

/* The label of a request, if the record still holds the request. */
__attribute__((no_sanitize("thread"))) static void
read_label(const trp__control *control, uint32_t slot, uint64_t ticket, char *out)
{
    const volatile trp__record *record = &control->record[slot % TRP__SLOTS];
    uint8_t labelled = record->labelled;
    for (int i = 0; i < TRP_LABEL_MAX; i++)
        out[i] = labelled ? record->label[i] : '\0';
    out[TRP_LABEL_MAX] = '\0';
    if (record->ticket != ticket)
        out[0] = '\0';
    trp__text_clean(out);
}

static void count_pending(const trp__view *view, counts *n)
{
    uint64_t start = 0, timeline[TRP__ACTORS], issued[TRP__ACTORS];
    slot_set resumed = {{0}};
    memset(n, 0, sizeof *n);
    if (!view->control || !view->reply)
        return;
    resume_list(view->control, &resumed, &start);
    for (uint32_t a = 0; a < TRP__ACTORS; a++) {
        timeline[a] = SEE(view->reply->timelines.timeline[a].value);
        issued[a] = SEE(view->reply->issued[a].value);
    }
    uint32_t slots = (uint32_t)smaller(SEE(view->stats->slots), TRP__SLOTS);
    for (uint32_t i = 0; i < slots; i++) {
        uint64_t ticket;
        uint32_t actor, op;
        if (!read_record(view->control, i, &ticket, &actor, &op) || ticket <= timeline[actor] ||
            (ticket < start && !(resumed.bits[i / 64] >> i % 64 & 1)))
            continue;
        if (ticket > issued[actor]) {
            n->queued[actor]++;
            continue;
        }
        n->in_flight[actor]++;
        if (n->oldest[actor] == 0 || ticket < n->oldest[actor]) {
            n->oldest[actor] = ticket;
            n->op[actor] = op;
            n->slot[actor] = i;
        }
    }
}

/* Returns how many requests of an actor are done, of `tail` sent. Never falls, although the values
 * were read at different times. While a worker is being replaced (not `sure`) it keeps the last
 * value. */
static uint64_t raise_done(trp__view *view, uint32_t id, uint64_t tail, uint64_t pending, bool sure)
{
    uint64_t seen = atomic_load(&view->done[id]);
    uint64_t now = sure && tail > pending ? tail - pending : 0;
    while (seen < now && !atomic_compare_exchange_weak(&view->done[id], &seen, now))
        continue;
    return smaller(seen > now ? seen : now, tail);
}

static void read_latency(trp_latency *out, const trp__histogram *h)
{
    out->count = 0;
    out->sum_ns = SEE(h->sum_ns);
    for (uint32_t i = 0; i < TRP_LATENCY_BUCKETS; i++) {
        out->bucket[i] = SEE(h->bucket[i]);
        out->count += out->bucket[i];
    }
}

static bool read_actor(const trp__stats_actor *s, trp_actor_stats *out, uint64_t *first)
{
    uint32_t live = 0;
    for (int i = 0; i < READ_TRIES; i++) {
        uint32_t before = SEE(s->version);
        live = SEE(s->live);
        *first = SEE(s->first);
        out->capacity = SEE(s->capacity);
        out->failed = SEE(s->failed);
        read_name(out->kind, &s->kind);
        read_name(out->name, &s->name);
        if (before % 2 == 0 && SEE(s->version) == before)
            break;
    }
    if (live) {
        read_latency(&out->waiting_time, &s->waiting);
        read_latency(&out->running_time, &s->running);
    }
    return live != 0;
}

static void read_device(const trp__stats *s, const published *p, trp_device_stats *out)
{
    trp_device_info *info = &out->info;
    out->pid = s->pid;
    fixed_text(out->program, sizeof out->program, s->program);
    out->number = s->number;
    *info = s->identity;
    fixed_text(info->name, sizeof info->name, s->identity.name);
    info->isolation = (trp_isolation)s->isolation;
    info->state = (trp_device_state)p->state;
    info->incarnation = p->incarnation;
    info->restarts = p->restarts;
    info->worker_pid = p->worker_pid;
    info->standby_pid = p->standby_pid;
    info->memory_limit = s->memory_limit;
    info->memory_reserved = SEE(s->memory_reserved);
    info->memory_used = SEE(s->memory_used);
    info->buffers = SEE(s->buffers);
    info->requests_failed = SEE(s->failed);
    out->faults = p->faults;
    out->promotions = p->promotions;
}

void trp__view_read(trp__view *view, trp_device_stats *out)
{
    const trp__stats *s = view->stats;
    uint64_t tail[TRP__ACTORS];
    counts n;
    memset(out, 0, sizeof *out);

    /* Reads `tail` before the pending requests, so that requests sent in between don't count as
     * done. */
    published before = read_published(s);
    for (uint32_t id = 0; id < TRP__ACTORS; id++)
        tail[id] = SEE(s->actor[id].tail);
    count_pending(view, &n);
    published after = read_published(s);
    bool down = before.state == TRP_DEVICE_DOWN;
    bool sure = before.state != TRP_DEVICE_RECOVERING && after.state == before.state &&
                after.incarnation == before.incarnation && (down || (view->control && view->reply));
    if (down)
        memset(&n, 0, sizeof n); /* everything has ended */
    read_device(s, &before, out);

    for (uint32_t id = 0; id < TRP__ACTORS; id++) {
        trp_actor_stats *a = &out->actor[out->actor_count];
        uint64_t pending = (uint64_t)n.queued[id] + n.in_flight[id], first = 0;
        uint64_t done = raise_done(view, id, tail[id], pending, sure);
        out->info.requests_submitted += tail[id];
        if (!read_actor(&s->actor[id], a, &first))
            continue;
        out->actor_count++;
        a->id = id;
        a->sent = tail[id] > first ? tail[id] - first : 0;
        a->done = done > first ? done - first : 0;
        a->queued = n.queued[id];
        a->in_flight = n.in_flight[id];
        a->running_request = n.oldest[id];
        if (!a->in_flight)
            continue;
        trp__op_name(trp__actor_class_find(a->kind), n.op[id], a->running, sizeof a->running);
        read_label(view->control, n.slot[id], n.oldest[id], a->running_label);
    }
}

const char *trp__device_state_name(trp_device_state state)
{
    static const char *const names[] = {[TRP_DEVICE_READY] = "ready",
                                        [TRP_DEVICE_RECOVERING] = "recovering",
                                        [TRP_DEVICE_DOWN] = "down"};
    unsigned n = (unsigned)state;
    return n < sizeof names / sizeof *names && names[n] ? names[n] : "unknown";
}

trp_status trp_device_get_stats(trp_device *device, trp_device_stats *out)
{
    TRP__CALL(trp__call_refused());
    trp_status status = trp__device_known(device);
    if (status != TRP_OK)
        return status;
    if (!out)
        return trp__fail_null("out");
    trp__view_read(&device->observe.view, out);
    return TRP_OK;
}
