#include "client/memory/contents.h"

#include "client/memory/memory.h"
#include "wire/rank.h"

#include <string.h>

void trp__contents_init(trp_device *device)
{
    for (int i = 0; i < TRP__CONTENT_LOCKS; i++)
        trp__lock_init(&device->memory.content_lock[i], TRP__RANK_CONTENT);
}

void trp__contents_destroy(trp_device *device)
{
    for (uint32_t i = 0; device->memory.meta && i < device->memory.buffers_made; i++)
        trp__ranges_free(&device->memory.meta[i].contents.map);
    for (int i = 0; i < TRP__CONTENT_LOCKS; i++)
        trp__lock_destroy(&device->memory.content_lock[i]);
}

static trp__lock *lock_of(trp_device *device, uint32_t slot)
{
    return &device->memory.content_lock[slot % TRP__CONTENT_LOCKS];
}

static uint32_t incarnation_of(const trp_device *device)
{
    return atomic_load_explicit(&device->incarnation, memory_order_relaxed);
}

void trp__contents_reset(trp_device *device, uint32_t slot)
{
    trp__contents *c = &device->memory.meta[slot].contents;
    trp__lock_take(lock_of(device, slot));
    for (int i = 0; i < TRP__WORDS; i++)
        atomic_store_explicit(&c->word[i], 0, memory_order_relaxed);
    atomic_store_explicit(&c->damaged, false, memory_order_relaxed);
    atomic_store_explicit(&c->parts, 0, memory_order_relaxed);
    trp__ranges_free(&c->map);
    c->judged = (trp__judged){0};
    trp__lock_drop(lock_of(device, slot));
}

void trp__raise_ticket(_Atomic uint64_t *word, uint64_t ticket)
{
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
    while (old < ticket && !atomic_compare_exchange_weak(word, &old, ticket))
        continue;
}

/* Parts. The content lock is held. */

static trp__part *part_at(const trp__contents *c, uint32_t index)
{
    return trp__ranges_at(&c->map, sizeof(trp__part), index);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t word_of(const trp__contents *c, int word)
{
    return atomic_load_explicit(&c->word[word], memory_order_acquire);
}

static trp__judged later_of(const trp__judged *a, const trp__judged *b)
{
    trp__judged later = b->order > a->order ? *b : *a;
    if (a->incarnation == b->incarnation && a->generation == b->generation)
        later.cover = larger(a->cover, b->cover);
    return later;
}

/* Joins the words of the bytes of a part; NULL: of bytes without a part. */
static void join_words(const trp__contents *c, const trp__part *part, trp__part *out)
{
    for (int i = 0; i < TRP__WORDS; i++)
        out->word[i] = larger(word_of(c, i), part ? part->word[i] : 0);
}

/* Returns the least ticket of the requests that have not ended. Requests sent from now on have
 * larger tickets than any part. */
static uint64_t oldest_pending(trp_device *device)
{
    uint64_t oldest = UINT64_MAX;
    for (uint32_t i = 0; i < atomic_load(&device->slots_used); i++) {
        trp__slot *slot = &device->slot[i];
        trp__phase phase = trp__phase_of(atomic_load(&slot->state));
        uint64_t ticket = atomic_load(&slot->ticket);
        uint64_t retired_early = atomic_load(&slot->retired_early);
        if (ticket != 0 && phase != TRP__FREE && (phase <= TRP__RETIRING || retired_early))
            oldest = smaller(oldest, ticket);
    }
    return oldest;
}

/* Returns whether a part is obsolete: its bytes are good, its buffer's words agree, and no pending
 * request is as old as the part's words. */
static bool is_over(const trp_device *device, const trp__contents *c, const trp__part *part,
                    uint64_t oldest)
{
    const uint64_t *w = part->word;
    uint64_t whole_bad = larger(word_of(c, TRP__LOST), word_of(c, TRP__POISON));
    uint64_t bad = larger(larger(w[TRP__LOST], w[TRP__POISON]), w[TRP__ACCEPTED]);
    return larger(w[TRP__COVERED], w[TRP__GOOD]) < oldest && bad <= w[TRP__GOOD] &&
           whole_bad <= word_of(c, TRP__GOOD) && part->judged.incarnation != incarnation_of(device);
}

static void drop_parts(trp_device *device, trp__contents *c)
{
    uint64_t oldest = oldest_pending(device);
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->map.count; i++) {
        if (!is_over(device, c, part_at(c, i), oldest))
            *part_at(c, count++) = *part_at(c, i);
    }
    c->map.count = count;
}

static bool is_undelivered(const trp__part *part)
{
    return part->word[TRP__POISON] > part->word[TRP__ACCEPTED];
}

/* Joins two neighbours into one part with the worst state of both and of the gap between them. */
static void unite(trp__part *a, const trp__part *b)
{
    bool gap = a->range.end != b->range.begin;
    bool undelivered = is_undelivered(a) || is_undelivered(b);
    for (int i = 0; i < TRP__WORDS; i++) {
        bool good = i == TRP__COVERED || i == TRP__GOOD;
        a->word[i] = !good ? larger(a->word[i], b->word[i])
                     : gap ? 0
                           : smaller(a->word[i], b->word[i]);
    }
    if (undelivered)
        a->word[TRP__ACCEPTED] = 0;
    uint64_t cover = gap ? 0 : smaller(a->judged.cover, b->judged.cover);
    if (b->judged.bad || (!a->judged.bad && b->judged.order > a->judged.order))
        a->judged = b->judged;
    a->judged.cover = cover;
    a->range.end = b->range.end;
}

/* Returns whether a new request may read it. */
static bool is_fine(const trp__part *part)
{
    const uint64_t *w = part->word;
    uint64_t bad = larger(w[TRP__LOST], is_undelivered(part) ? w[TRP__POISON] : 0);
    return bad == 0 || bad < larger(w[TRP__COVERED], w[TRP__GOOD]);
}

/* Two parts that are both bad, or both fine without a gap: joining them worsens only the gap
 * between two bad ones. */
static bool are_alike(const trp__part *a, const trp__part *b)
{
    return is_fine(a) == is_fine(b) && (!is_fine(a) || a->range.end == b->range.begin);
}

/* Joins parts two by two, all or those that are alike. */
static void unite_parts(trp__contents *c, bool all)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->map.count; i++) {
        trp__part *one = part_at(c, count++);
        *one = *part_at(c, i);
        if (i + 1 < c->map.count && (all || are_alike(one, part_at(c, i + 1))))
            unite(one, part_at(c, ++i));
    }
    c->map.count = count;
}

typedef struct some_parts {
    uint32_t first, last; /* first to last - 1 */
} some_parts;

static bool cut_range(trp__contents *c, const trp__access *access, some_parts *out)
{
    return trp__ranges_cut(&c->map, sizeof(trp__part), access->offset,
                           access->offset + access->bytes, TRP__PARTS_MAX, &out->first, &out->last);
}

/* Cuts the parts so that *out is exactly the range; false: no memory. */
static bool cut(trp_device *device, trp__contents *c, const trp__access *access, some_parts *out)
{
    bool done = cut_range(c, access, out);
    if (!done) {
        drop_parts(device, c);
        if (c->map.count > TRP__PARTS_MAX / 2)
            unite_parts(c, false);
        done = cut_range(c, access, out);
    }
    if (!done) {
        unite_parts(c, true);
        done = cut_range(c, access, out);
    }
    atomic_store(&c->parts, c->map.count);
    return done;
}

/* Raising. */

static void raise_parts(trp_device *device, const trp__access *access, trp__word word,
                        uint64_t ticket)
{
    trp__contents *c = &device->memory.meta[access->slot].contents;
    some_parts parts;
    trp__lock_take(lock_of(device, access->slot));
    if (cut(device, c, access, &parts)) {
        for (uint32_t i = parts.first; i < parts.last; i++) {
            trp__part *part = part_at(c, i);
            part->word[word] = larger(part->word[word], ticket);
        }
    } else if (word == TRP__LOST || word == TRP__POISON) {
        trp__raise_ticket(&c->word[word],
                          ticket); /* without memory the whole buffer gets worse, never better */
    }
    trp__lock_drop(lock_of(device, access->slot));
}

void trp__contents_raise(trp_device *device, const trp__access *access, trp__word word,
                         uint64_t ticket)
{
    trp__contents *c = &device->memory.meta[access->slot].contents;
    if (word == TRP__LOST || word == TRP__POISON || word == TRP__ACCEPTED)
        atomic_store(&c->damaged, true);
    if (access->whole)
        trp__raise_ticket(&c->word[word], ticket);
    else if (access->bytes > 0)
        raise_parts(device, access, word, ticket);
}

/* Judging. */

static trp__judged judged_after(const trp__judged *before, const trp__judged *note)
{
    trp__judged after = *note;
    bool current =
        before->incarnation == note->incarnation && before->generation == note->generation;
    after.cover = !note->bad ? note->ticket : current ? before->cover : 0;
    return after;
}

void trp__contents_judge(trp_device *device, const trp__access *access, uint64_t ticket, bool bad)
{
    trp__contents *c = &device->memory.meta[access->slot].contents;
    const trp__judged note = {.order = ++device->memory.judged,
                              .ticket = ticket,
                              .incarnation = incarnation_of(device),
                              .generation = access->generation,
                              .bad = bad};
    some_parts parts;
    trp__lock_take(lock_of(device, access->slot));
    if (!access->whole && cut(device, c, access, &parts)) {
        for (uint32_t i = parts.first; i < parts.last; i++) {
            trp__judged before = later_of(&c->judged, &part_at(c, i)->judged);
            part_at(c, i)->judged = judged_after(&before, &note);
        }
    } else if (access->whole || bad) {
        c->judged = judged_after(&c->judged, &note);
    }
    trp__lock_drop(lock_of(device, access->slot));
}

void trp__contents_judge_all(trp_device *device, uint32_t slot, uint64_t ticket)
{
    trp__contents *c = &device->memory.meta[slot].contents;
    trp__lock_take(lock_of(device, slot));
    c->judged =
        (trp__judged){.order = ++device->memory.judged,
                      .ticket = ticket,
                      .incarnation = incarnation_of(device),
                      .generation = (uint32_t)(atomic_load(&device->memory.meta[slot].hold) >> 32),
                      .bad = false};
    atomic_store(&c->word[TRP__GOOD], 0);
    for (uint32_t i = 0; i < c->map.count; i++) {
        part_at(c, i)->word[TRP__GOOD] = 0;
        part_at(c, i)->judged.cover = 0;
    }
    trp__lock_drop(lock_of(device, slot));
}

bool trp__contents_rejudge(trp_device *device, uint32_t slot, uint32_t generation, uint64_t from,
                           uint64_t to)
{
    trp__contents *c = &device->memory.meta[slot].contents;
    trp__lock_take(lock_of(device, slot));
    bool found = c->judged.incarnation == incarnation_of(device) &&
                 c->judged.generation == generation && c->judged.ticket == from;
    if (found)
        c->judged.ticket = to;
    trp__lock_drop(lock_of(device, slot));
    return found;
}

/* Walking. */

static void hold_lock(trp_device *device, uint32_t slot, trp__walk *walk)
{
    walk->lock = lock_of(device, slot);
    trp__lock_take(walk->lock);
    walk->next = trp__ranges_find(&walk->contents->map, sizeof(trp__part), walk->reached);
}

trp__walk trp__walk_begin(trp_device *device, uint32_t slot, uint64_t begin, uint64_t end)
{
    const trp__contents *c = &device->memory.meta[slot].contents;
    trp__walk walk = {.contents = c, .reached = begin, .end = end};
    if (atomic_load_explicit(&c->parts, memory_order_acquire) > 0)
        hold_lock(device, slot, &walk);
    return walk;
}

trp__walk trp__walk_judged(trp_device *device, const trp__access *access)
{
    trp__walk walk = {.contents = &device->memory.meta[access->slot].contents,
                      .judges = true,
                      .reached = access->offset,
                      .end = access->offset + access->bytes};
    hold_lock(device, access->slot, &walk);
    return walk;
}

void trp__walk_end(trp__walk *walk)
{
    if (walk->lock)
        trp__lock_drop(walk->lock);
    walk->lock = NULL;
    walk->reached = walk->end;
}

const trp__part *trp__walk_next(trp__walk *walk)
{
    const trp__contents *c = walk->contents;
    const trp__part *part = walk->lock && walk->next < c->map.count ? part_at(c, walk->next) : NULL;
    if (walk->reached >= walk->end) {
        trp__walk_end(walk);
        return NULL;
    }
    if (part && part->range.begin > walk->reached) {
        walk->now.range.end = smaller(part->range.begin, walk->end);
        part = NULL;
    } else {
        walk->now.range.end = part ? smaller(part->range.end, walk->end) : walk->end;
        walk->next += part != NULL;
    }
    join_words(c, part, &walk->now);
    if (walk->judges)
        walk->now.judged = part ? later_of(&c->judged, &part->judged) : c->judged;
    walk->now.range.begin = walk->reached;
    walk->reached = walk->now.range.end;
    return &walk->now;
}
