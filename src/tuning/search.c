#include "tuning/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Measurements of an entry before the final. */
enum { LOAD, WARM, LONG };

void trp__search_begin(trp__search *s, const trp__search_rules *rules, trp__search_entry *entry,
                       uint32_t room)
{
    *s = (trp__search){.rules = *rules, .entry = entry, .room = room};
}

bool trp__search_add(trp__search *s, uint32_t what)
{
    if (s->phase != TRP__SEARCH_ALONE || s->failed || s->entries == s->room)
        return false;
    s->entry[s->entries++] = (trp__search_entry){.what = what};
    return true;
}

static bool needs_heat(const trp__search *s)
{
    return s->at == 0 && s->turn == LONG && !s->hot && s->rules.lasting_us > 0 &&
           s->entry[0].us >= s->rules.lasting_us;
}

static uint32_t runs_for(float us, float length_us, uint32_t most)
{
    const float count = us > 0 ? length_us / us : (float)most;
    return count < 2 ? 2 : count > (float)most ? most : (uint32_t)count;
}

static uint32_t runs_alone(const trp__search *s)
{
    const trp__search_rules *r = &s->rules;
    const float us = s->entry[s->at].us;
    return s->turn == LOAD   ? 1
           : s->turn == WARM ? 2
           : needs_heat(s)   ? runs_for(us, r->heat_us, r->lasting_most)
                             : runs_for(us, r->length_us, r->most);
}

static uint32_t runs_in_final(const trp__search *s)
{
    const trp__search_rules *r = &s->rules;
    return s->lasting ? runs_for(s->entry[0].us, r->lasting_final_us, r->lasting_most)
                      : runs_for(s->entry[0].us, r->final_us, r->most);
}

bool trp__search_next(const trp__search *s, trp__search_step *out)
{
    if (s->phase == TRP__SEARCH_OVER || (s->phase == TRP__SEARCH_ALONE && s->at == s->entries))
        return false;
    *out = (trp__search_step){.entry = s->at, .kind = (trp__search_kind)s->kind};
    out->runs = s->phase == TRP__SEARCH_FINAL ? runs_in_final(s) : runs_alone(s);
    return true;
}

/* The search fails without its first entry, the baseline. */
static void fail(trp__search *s)
{
    s->failed = true;
    s->phase = TRP__SEARCH_OVER;
}

static void leave_out(trp__search *s)
{
    s->entries--;
    memmove(&s->entry[s->at], &s->entry[s->at + 1], (s->entries - s->at) * sizeof *s->entry);
    s->turn = LOAD;
}

static bool is_hopeless(const trp__search *s, float us)
{
    float best = INFINITY;
    for (uint32_t i = 0; i < s->at; i++)
        best = fminf(best, s->entry[i].us);
    return s->rules.hopeless > 0 && us > s->rules.hopeless * best;
}

static void add_alone(trp__search *s, float us)
{
    if (needs_heat(s)) {
        s->hot = true;
        return;
    }
    s->entry[s->at].us = us;
    if (s->turn == WARM && is_hopeless(s, us)) {
        leave_out(s);
    } else if (s->turn++ == LONG) {
        s->turn = LOAD;
        s->at++;
    }
}

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void end_final(trp__search *s)
{
    s->phase = TRP__SEARCH_OVER;
    for (uint32_t i = 0; i < s->finalists; i++) {
        for (uint32_t kind = 0; kind < s->rules.kinds; kind++)
            qsort(s->entry[i].final[kind], s->round, sizeof(float), compare_floats);
    }
}

static uint32_t rounds_of(const trp__search *s)
{
    return s->lasting ? s->rules.lasting_rounds : s->rules.rounds;
}

static void add_in_final(trp__search *s, float us)
{
    s->entry[s->at].final[s->kind][s->round] = us;
    if (++s->at < s->finalists)
        return;
    s->at = 0;
    if (++s->kind < s->rules.kinds)
        return;
    s->kind = 0;
    if (++s->round == rounds_of(s))
        end_final(s);
}

void trp__search_add_time(trp__search *s, float us)
{
    const bool final = s->phase == TRP__SEARCH_FINAL;
    if (us < 0 && (final || s->at == 0))
        fail(s);
    else if (us < 0)
        leave_out(s);
    else if (final)
        add_in_final(s, us);
    else
        add_alone(s, us);
}

static int compare_entries(const void *a, const void *b)
{
    return compare_floats(&((const trp__search_entry *)a)->us, &((const trp__search_entry *)b)->us);
}

void trp__search_sort(trp__search *s)
{
    const uint32_t known = s->phase == TRP__SEARCH_ALONE ? s->at : s->entries;
    if (known > 2)
        qsort(s->entry + 1, known - 1, sizeof *s->entry, compare_entries);
}

void trp__search_final(trp__search *s)
{
    if (s->phase != TRP__SEARCH_ALONE)
        return;
    if (s->at == 0) {
        fail(s);
        return;
    }
    trp__search_sort(s);
    s->entries = s->at;
    s->finalists = s->rules.finalists + 1 < s->entries ? s->rules.finalists + 1 : s->entries;
    s->lasting = s->rules.lasting_us > 0 && s->entry[0].us >= s->rules.lasting_us;
    s->at = s->turn = 0;
    s->phase = TRP__SEARCH_FINAL;
}

void trp__search_hurry(trp__search *s)
{
    if (s->phase == TRP__SEARCH_ALONE && s->at > 0)
        trp__search_final(s);
    else if (s->phase == TRP__SEARCH_FINAL && s->round > 0 && s->at == 0 && s->kind == 0)
        end_final(s);
}

/* Returns an entry's time relative to the first one's, as the geometric mean over all kinds; 1: it
 * does not win. */
static double share_of_first(const trp__search *s, uint32_t i)
{
    const uint32_t low = s->round / 4, middle = s->round / 2, high = 3 * s->round / 4;
    double product = 1, best = 1;
    bool clear = false;
    for (uint32_t kind = 0; kind < s->rules.kinds; kind++) {
        const float *first = s->entry[0].final[kind], *other = s->entry[i].final[kind];
        const double share = (double)other[middle] / (double)first[middle];
        product *= share;
        if (share > 1)
            return 1;
        if (share < best) {
            best = share;
            clear = other[high] < first[low];
        }
    }
    const double mean = pow(product, 1.0 / s->rules.kinds);
    return clear && mean <= (double)s->rules.enough ? mean : 1;
}

uint32_t trp__search_winner(const trp__search *s)
{
    uint32_t winner = 0;
    double least = 1;
    for (uint32_t i = 1; i < s->finalists && !s->failed; i++) {
        const double share = share_of_first(s, i);
        if (share < least) {
            least = share;
            winner = i;
        }
    }
    return winner;
}

float trp__search_median(const trp__search *s, uint32_t entry)
{
    return s->entry[entry].final[TRP__SEARCH_COLD][s->round / 2];
}
