#include "worker/poison.h"

static uint32_t accesses(const trp__record *record)
{
    return record->access_count < TRP__ACCESS_MAX ? record->access_count : TRP__ACCESS_MAX;
}

static void clear(trp__poisons *poisons, trp__poison *p)
{
    poisons->count -= p->ticket != 0;
    p->ticket = p->halfway = 0;
}

/* The poison of the buffer that an access means, NULL if it has none. That of a buffer which had
 * the same slot before is over: its requests had ended when the slot was given out again. */
static trp__poison *find(trp__poisons *poisons, const trp__access *access)
{
    trp__poison *p = &poisons->buffer[access->slot % TRP__BUFFERS];
    if (p->ticket != 0 && p->generation != access->generation)
        clear(poisons, p);
    return p->ticket != 0 ? p : NULL;
}

uint64_t trp__poisons_cause(trp__poisons *poisons, const trp__record *record)
{
    for (uint32_t i = 0; i < accesses(record); i++) {
        const trp__access *access = &record->access[i];
        const trp__poison *p = access->mode & TRP__READ ? find(poisons, access) : NULL;
        if (p && p->ticket > trp__accepted(access))
            return p->ticket;
        if (p && p->halfway != 0)
            return p->halfway;
    }
    return 0;
}

void trp__poisons_add(trp__poisons *poisons, const trp__record *record, bool parts)
{
    bool halfway = parts || atomic_load_explicit(&record->begun, memory_order_relaxed);
    for (uint32_t i = 0; i < accesses(record); i++) {
        const trp__access *access = &record->access[i];
        trp__poison *p = &poisons->buffer[access->slot % TRP__BUFFERS];
        if (!(access->mode & TRP__WRITE))
            continue;
        find(poisons, access); /* what is there may be of the buffer before */
        poisons->count += p->ticket == 0;
        p->ticket = record->ticket;
        p->halfway = halfway ? record->ticket : p->halfway;
        p->generation = access->generation;
    }
}

void trp__poisons_heal(trp__poisons *poisons, const trp__record *record,
                       const trp__control *control)
{
    for (uint32_t i = 0; i < accesses(record); i++) {
        const trp__access *access = &record->access[i];
        const trp__buffer_entry *entry = &control->buffer[access->slot % TRP__BUFFERS];
        trp__poison *p = find(poisons, access);
        if (p && (access->mode & TRP__COVER) && access->offset == 0 &&
            access->bytes == entry->bytes)
            clear(poisons, p);
    }
}
