#include "worker/poison.h"

/* Beyond this number of poisoned ranges in a buffer, neighbours are joined, and the gap between
 * them is poisoned, too. */
enum { PARTS_MAX = 4096 };

typedef struct part {
    trp__range range;
    trp__poison poison;
} part;

static uint32_t accesses(const trp__record *record)
{
    return record->access_count < TRP__ACCESS_MAX ? record->access_count : TRP__ACCESS_MAX;
}

static part *part_at(const trp__poisoned *b, uint32_t index)
{
    return trp__ranges_at(&b->parts, sizeof(part), index);
}

static void clear(trp__poisons *poisons, trp__poisoned *b)
{
    poisons->count -= b->counted;
    trp__ranges_free(&b->parts);
    *b = (trp__poisoned){0};
}

/* Returns the poison of an access's buffer, NULL if it has none. Clears that of an earlier buffer
 * in the slot, whose requests have ended. */
static trp__poisoned *find(trp__poisons *poisons, const trp__access *access)
{
    trp__poisoned *b = &poisons->buffer[access->slot % TRP__BUFFERS];
    if (b->counted && b->generation != access->generation)
        clear(poisons, b);
    return b->counted ? b : NULL;
}

/* For a coarse part, `accepted` is as late as the last failure only if all possible failures were
 * delivered. */
static uint64_t cause_of(const trp__poison *p, const trp__record *record, const trp__access *access)
{
    bool acked = p->coarse ? p->ticket <= trp__accepted(access)
                           : p->ticket == 0 || trp__is_acked(record, access, p->ticket);
    return acked ? p->halfway : p->ticket;
}

static uint64_t cause_in(const trp__poisoned *b, const trp__record *record,
                         const trp__access *access)
{
    uint64_t end = access->offset + access->bytes;
    if (access->bytes == 0)
        return 0;
    if (b->all)
        return cause_of(&b->worst, record, access);
    for (uint32_t i = trp__ranges_find(&b->parts, sizeof(part), access->offset);
         i < b->parts.count && part_at(b, i)->range.begin < end; i++) {
        uint64_t cause = cause_of(&part_at(b, i)->poison, record, access);
        if (cause != 0)
            return cause;
    }
    return 0;
}

uint64_t trp__poisons_cause(trp__poisons *poisons, const trp__record *record)
{
    uint64_t cause = 0;
    for (uint32_t i = 0; i < accesses(record) && cause == 0; i++) {
        const trp__access *access = &record->access[i];
        const trp__poisoned *b = access->mode & TRP__READ ? find(poisons, access) : NULL;
        cause = b ? cause_in(b, record, access) : 0;
    }
    return cause;
}

static void put(trp__poison *p, const trp__poison *now)
{
    p->ticket = now->ticket > p->ticket ? now->ticket : p->ticket;
    p->halfway = now->halfway > p->halfway ? now->halfway : p->halfway;
}

static void halve(trp__poisoned *b)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i + 1 < b->parts.count; i += 2, count++) {
        part two = *part_at(b, i);
        put(&two.poison, &part_at(b, i + 1)->poison);
        two.poison.coarse = true;
        two.range.end = part_at(b, i + 1)->range.end;
        *part_at(b, count) = two;
    }
    if (b->parts.count % 2)
        *part_at(b, count++) = *part_at(b, b->parts.count - 1);
    b->parts.count = count;
}

static bool cut(trp__poisoned *b, const trp__access *access, uint32_t *first, uint32_t *last)
{
    uint64_t end = access->offset + access->bytes;
    if (b->parts.count + 2 > PARTS_MAX)
        halve(b);
    return trp__ranges_cut(&b->parts, sizeof(part), access->offset, end, 2 * PARTS_MAX, first,
                           last);
}

static void add_to(trp__poisoned *b, const trp__access *access, const trp__poison *now)
{
    uint32_t first = 0, last = 0;
    put(&b->worst, now);
    b->worst.coarse = true;
    b->all = b->all || !cut(b, access, &first, &last);
    for (uint32_t i = first; !b->all && i < last; i++) {
        trp__poison *p = &part_at(b, i)->poison;
        put(p, now);
        p->coarse = false; /* a request to which this failure was delivered may read the range */
    }
}

void trp__poisons_add(trp__poisons *poisons, const trp__record *record, bool parts)
{
    bool halfway = parts || atomic_load_explicit(&record->begun, memory_order_relaxed);
    const trp__poison now = {.ticket = record->ticket, .halfway = halfway ? record->ticket : 0};
    for (uint32_t i = 0; i < accesses(record); i++) {
        const trp__access *access = &record->access[i];
        trp__poisoned *b = &poisons->buffer[access->slot % TRP__BUFFERS];
        if (!(access->mode & TRP__WRITE) || access->bytes == 0)
            continue;
        find(poisons, access); /* drops poison of an earlier buffer in the slot */
        poisons->count += !b->counted;
        b->counted = true;
        b->generation = access->generation;
        add_to(b, access, &now);
    }
}

/* Clears a range. Without memory to cut it out, it stays poisoned. */
static void heal(trp__poisons *poisons, trp__poisoned *b, const trp__access *access)
{
    uint32_t first, last;
    if (access->whole) {
        clear(poisons, b);
        return;
    }
    uint32_t i = trp__ranges_find(&b->parts, sizeof(part), access->offset);
    bool any = i < b->parts.count && part_at(b, i)->range.begin < access->offset + access->bytes;
    if (b->all || access->bytes == 0 || !any || !cut(b, access, &first, &last))
        return;
    for (i = last; i < b->parts.count; i++)
        *part_at(b, i - (last - first)) = *part_at(b, i);
    b->parts.count -= last - first;
    if (b->parts.count == 0)
        clear(poisons, b);
}

void trp__poisons_heal(trp__poisons *poisons, const trp__record *record)
{
    for (uint32_t i = 0; i < accesses(record); i++) {
        const trp__access *access = &record->access[i];
        trp__poisoned *b = find(poisons, access);
        if (b && (access->mode & TRP__COVER))
            heal(poisons, b, access);
    }
}

void trp__poisons_free(trp__poisons *poisons)
{
    for (uint32_t i = 0; i < TRP__BUFFERS && poisons->count > 0; i++) {
        if (poisons->buffer[i].counted)
            clear(poisons, &poisons->buffer[i]);
    }
}
