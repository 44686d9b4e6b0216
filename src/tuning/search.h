/* A search: which of several ways to do one thing is the fastest. It says what is measured next and
 * which one wins, and is told what was measured; it knows no device, so it measures nothing itself.
 *
 * The first entry is what serves without a search. First each entry is measured alone (once to be
 * loaded, twice, then for as long as the rules say); entries may be added until the final. In the
 * final the first and the fastest others are measured in turn, so that what changes meanwhile
 * changes for all. One takes the first's place only if it is faster by enough and by more than the
 * measurements vary, and not slower in any kind of measurement. */
#ifndef TRP_TUNING_SEARCH_H
#define TRP_TUNING_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

enum { TRP__SEARCH_ROUNDS = 11 };

typedef enum trp__search_kind {
    TRP__SEARCH_COLD, /* operands that are in no cache; all are measured so before the final */
    TRP__SEARCH_HOT,  /* the operands of the run before */
    TRP__SEARCH_KINDS,
} trp__search_kind;

/* Times are in microseconds. */
typedef struct trp__search_rules {
    uint32_t finalists; /* besides the first */
    uint32_t rounds;    /* of the final; at most TRP__SEARCH_ROUNDS */
    uint32_t kinds;     /* of measurements in the final: 1 or TRP__SEARCH_KINDS */
    uint32_t most;      /* runs of one measurement */
    float length_us;    /* of a measurement before the final */
    float final_us;     /* and in it */
    float enough;       /* what takes the first's place needs at most so much of its time */
    float hopeless; /* an entry whose first two runs take so many times as long as the fastest one
                     * is left out; 0: none is */
    /* A way that needs long heats the device until it lowers its clock, by as much as each way
     * makes it. If the first one needs at least `lasting_us`, all is measured after so much heat,
     * and the final is so long that each way comes to a clock of its own. 0: never. */
    float lasting_us, heat_us, lasting_final_us;
    uint32_t lasting_rounds, lasting_most;
} trp__search_rules;

typedef struct trp__search_entry {
    uint32_t what;                                      /* the caller's number for it */
    float us;                                           /* of one run, before the final */
    float final[TRP__SEARCH_KINDS][TRP__SEARCH_ROUNDS]; /* sorted once the search is over */
} trp__search_entry;

/* A measurement: `runs` of an entry, one after the other. */
typedef struct trp__search_step {
    uint32_t entry, runs;
    trp__search_kind kind;
} trp__search_step;

typedef enum trp__search_phase {
    TRP__SEARCH_ALONE,
    TRP__SEARCH_FINAL,
    TRP__SEARCH_OVER,
} trp__search_phase;

typedef struct trp__search {
    trp__search_rules rules;
    trp__search_phase phase;
    trp__search_entry *entry;
    uint32_t entries, room;
    uint32_t at;   /* the entry that is measured; before the final those before it are known */
    uint32_t turn; /* of its measurements before the final */
    uint32_t round, kind, finalists;
    bool hot, lasting, failed;
} trp__search;

/* Begins a search without entries; `entry` has room for `room` of them. */
void trp__search_begin(trp__search *s, const trp__search_rules *rules, trp__search_entry *entry,
                       uint32_t room);

/* Adds an entry, the first one first. False: there is no room, or the final has begun. */
bool trp__search_add(trp__search *s, uint32_t what);

/* What is to be measured. False: all entries are known, and more may be added or the final begun;
 * or the search is over. */
bool trp__search_next(const trp__search *s, trp__search_step *out);

/* What one run of that took. Negative: it failed. Before the final the entry is then left out, and
 * without the first there is no search; in the final the first wins. */
void trp__search_tell(trp__search *s, float us);

/* Orders the entries that are known: the first stays the first, the fastest others follow it. */
void trp__search_sort(trp__search *s);

/* Begins the final; entries that are not known have no part in it. */
void trp__search_final(trp__search *s);

/* There is no time left: begins the final without what is not known, or ends it after a whole
 * round, as soon as that can be. */
void trp__search_hurry(trp__search *s);

/* Of a search that is over: the entry that won, and the median of its runs, of the coldest kind. */
uint32_t trp__search_winner(const trp__search *s);
float trp__search_median(const trp__search *s, uint32_t entry);

#endif
