#include "worker/usage.h"

#include "worker/scheduler.h"

enum { PARTS_MAX = 4096, PART_READERS = 4, ACTOR_BITS = 6 };

_Static_assert(TRP__ACTORS <= 1 << ACTOR_BITS, "a reader's actor fits beside its ticket");

typedef struct part {
    trp__range range;
    uint64_t writer_ticket;
    uint32_t writer;
    uint32_t readers;              /* since */
    uint64_t reader[PART_READERS]; /* ticket << ACTOR_BITS | actor, one for each actor */
} part;

static part *part_at(const trp__usage *u, uint32_t index)
{
    return trp__ranges_at(&u->parts, sizeof(part), index);
}

/* The request that is being taken. */
typedef struct taken {
    trp__scheduler *s;
    trp__pending *p;
    uint32_t self;
    uint64_t ticket;
    bool writes; /* the access that is noted */
} taken;

static void depend(const taken *t, uint32_t actor, uint64_t ticket)
{
    trp__pending *p = t->p;
    if (actor == t->self || ticket == 0 || trp__timeline(t->s, actor) >= ticket)
        return; /* the stream's own order, or done */
    if (!(p->waits_for & trp__bit(actor)) || p->ticket[actor] < ticket)
        p->ticket[actor] = ticket;
    p->waits_for |= trp__bit(actor);
    if (t->writes)
        p->destroys |= trp__bit(actor);
}

/* Orders the request after a writer. The same ticket means another access of the same request. */
static void come_after_writer(const taken *t, uint32_t writer, uint64_t ticket)
{
    depend(t, writer, ticket);
    if (writer == t->self && ticket != t->ticket && ticket > t->p->follows)
        t->p->follows = ticket;
}

/* Orders the request after a reader. */
static void come_after_reader(const taken *t, uint32_t reader, uint64_t ticket)
{
    depend(t, reader, ticket);
    if (reader == t->self && ticket != t->ticket && ticket > t->p->overwrites)
        t->p->overwrites = ticket;
}

static void come_after_readers(const taken *t, const trp__usage *u)
{
    for (uint64_t rest = u->readers; rest; rest &= rest - 1) {
        uint32_t reader = (uint32_t)__builtin_ctzll(rest);
        come_after_reader(t, reader, u->reader_ticket[reader]);
    }
}

static void come_after_part(const taken *t, const part *x, bool writes)
{
    come_after_writer(t, x->writer, x->writer_ticket);
    for (uint32_t i = 0; writes && i < x->readers; i++)
        come_after_reader(t, (uint32_t)(x->reader[i] % TRP__ACTORS), x->reader[i] >> ACTOR_BITS);
}

/* All of a buffer. */

static void join_readers(const taken *t, trp__usage *u)
{
    u->readers |= trp__bit(t->self);
    u->reader_ticket[t->self] = t->ticket;
}

static void note_whole(const taken *t, trp__usage *u, bool writes)
{
    for (uint32_t i = 0; i < u->parts.count; i++)
        come_after_part(t, part_at(u, i), writes);
    if (!writes) {
        join_readers(t, u);
        return;
    }
    come_after_readers(t, u);
    u->parts.count = 0;
    u->readers = 0;
    u->writer = t->self;
    u->writer_ticket = t->ticket;
}

/* Parts. */

/* Returns a place among the readers of a part; NULL: none is free. */
static uint64_t *place_for(const taken *t, part *x)
{
    for (uint32_t i = 0; i < x->readers; i++) {
        uint32_t actor = (uint32_t)(x->reader[i] % TRP__ACTORS);
        if (actor == t->self || trp__timeline(t->s, actor) >= x->reader[i] >> ACTOR_BITS)
            return &x->reader[i];
    }
    return x->readers < PART_READERS ? &x->reader[x->readers++] : NULL;
}

static void read_part(const taken *t, trp__usage *u, part *x)
{
    uint64_t *place = place_for(t, x);
    if (place)
        *place = t->ticket << ACTOR_BITS | t->self;
    else
        join_readers(t, u);
}

/* Joins the parts into one with this writer. */
static void write_parts(const taken *t, trp__usage *u, uint32_t first, uint32_t last)
{
    part *one = part_at(u, first);
    one->range.end = part_at(u, last - 1)->range.end;
    one->writer = t->self;
    one->writer_ticket = t->ticket;
    one->readers = 0;
    for (uint32_t i = last; i < u->parts.count; i++)
        *part_at(u, i - (last - first - 1)) = *part_at(u, i);
    u->parts.count -= last - first - 1;
}

static void note_parts(const taken *t, trp__usage *u, uint32_t first, uint32_t last, bool writes)
{
    for (uint32_t i = first; i < last; i++) {
        come_after_part(t, part_at(u, i), writes);
        if (!writes)
            read_part(t, u, part_at(u, i));
    }
    if (writes) {
        come_after_readers(t, u);
        write_parts(t, u, first, last);
    }
}

void trp__usage_note(trp__scheduler *s, trp__pending *p, const trp__record *record,
                     const trp__access *access)
{
    bool writes = access->mode & TRP__WRITE;
    const taken t = {
        .s = s, .p = p, .self = record->actor, .ticket = record->ticket, .writes = writes};
    uint64_t end = access->offset + access->bytes;
    uint32_t first, last;
    if (access->slot >= TRP__BUFFERS || access->bytes == 0)
        return; /* a bad slot is refused when the request is issued */
    trp__usage *u = &s->usage[access->slot];
    come_after_writer(&t, u->writer, u->writer_ticket);
    if (!access->whole &&
        trp__ranges_cut(&u->parts, sizeof(part), access->offset, end, PARTS_MAX, &first, &last)) {
        s->parted = access->slot < s->parted ? s->parted : access->slot + 1;
        note_parts(&t, u, first, last, writes);
    } else {
        note_whole(&t, u, writes);
    }
}

void trp__usages_free(trp__scheduler *s)
{
    for (uint32_t i = 0; i < s->parted; i++)
        trp__ranges_free(&s->usage[i].parts);
}
