#include "base/ranges.h"

#include <string.h>

enum { ROOM_FIRST = 4 };

static trp__range *at(const trp__ranges *r, size_t stride, uint32_t index)
{
    return trp__ranges_at(r, stride, index);
}

uint32_t trp__ranges_find(const trp__ranges *r, size_t stride, uint64_t offset)
{
    uint32_t low = 0, high = r->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (at(r, stride, middle)->end > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Returns how many elements a cut adds. */
static uint32_t count_new(const trp__ranges *r, size_t stride, uint64_t begin, uint64_t end)
{
    uint32_t i = trp__ranges_find(r, stride, begin), more = 0;
    uint64_t reached = begin;
    for (; i < r->count && at(r, stride, i)->begin < end; i++) {
        const trp__range *e = at(r, stride, i);
        more += (uint32_t)(e->begin < begin) + (uint32_t)(e->end > end) +
                (uint32_t)(e->begin > reached);
        reached = e->end;
    }
    return more + (uint32_t)(reached < end);
}

static bool make_room(trp__ranges *r, size_t stride, uint32_t count)
{
    uint32_t room = r->room ? r->room : ROOM_FIRST;
    while (room < count)
        room *= 2;
    if (room == r->room)
        return true;
    char *more = realloc(r->at, stride * room);
    if (!more)
        return false;
    r->at = more;
    r->room = room;
    return true;
}

/* Inserts an element before that of `index`: a copy of that one, or zero. There is room. */
static trp__range *insert(trp__ranges *r, size_t stride, uint32_t index, bool copy)
{
    char *place = trp__ranges_at(r, stride, index);
    memmove(place + stride, place, stride * (r->count - index));
    if (!copy)
        memset(place, 0, stride);
    r->count++;
    return at(r, stride, index);
}

bool trp__ranges_cut(trp__ranges *r, size_t stride, uint64_t begin, uint64_t end, uint32_t most,
                     uint32_t *first, uint32_t *last)
{
    uint32_t i = trp__ranges_find(r, stride, begin);
    *first = *last = i;
    if (begin >= end)
        return true;
    uint32_t more = count_new(r, stride, begin, end);
    if (r->count + more > most || !make_room(r, stride, r->count + more))
        return false;
    if (i < r->count && at(r, stride, i)->begin < begin) {
        insert(r, stride, i, true)->end = begin;
        at(r, stride, ++i)->begin = begin;
    }
    *first = i;
    for (uint64_t reached = begin; reached < end; i++) {
        trp__range *e = i < r->count ? at(r, stride, i) : NULL;
        if (!e || e->begin > reached) {
            uint64_t until = e && e->begin < end ? e->begin : end;
            *insert(r, stride, i, false) = (trp__range){reached, until};
        } else if (e->end > end) {
            insert(r, stride, i, true)->end = end;
            at(r, stride, i + 1)->begin = end;
        }
        reached = at(r, stride, i)->end;
    }
    *last = i;
    return true;
}

void trp__ranges_free(trp__ranges *r)
{
    free(r->at);
    *r = (trp__ranges){0};
}
