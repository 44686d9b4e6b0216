/* A search finds the fastest of several ways to do one thing. It decides what to measure next and
 * which way wins; the caller measures and reports. It knows no device.
 *
 * The first entry is the default. Each entry is first measured alone: once to load it, twice, then
 * for as long as the rules say; entries may be added until the final. In the final the first and
 * the fastest others are measured in turn, so that drift affects all alike. An entry beats the
 * first only if it is faster by enough and by more than the measurements vary, and slower in no
 * kind of measurement. */
#ifndef TRP_TUNING_SEARCH_H
#define TRP_TUNING_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

enum { TRP__SEARCH_ROUNDS = 11 };

typedef enum trp__search_kind {
    TRP__SEARCH_COLD, /* operands outside of the cache; the only kind before the final */
    TRP__SEARCH_HOT,  /* the same operands as the run before */
    TRP__SEARCH_KINDS,
} trp__search_kind;

/* Times are in microseconds. */
typedef struct trp__search_rules {
    uint32_t finalists; /* besides the first */
    uint32_t rounds;    /* of the final; at most TRP__SEARCH_ROUNDS */
    uint32_t kinds;     /* of measurements in the final: 1 or TRP__SEARCH_KINDS */
    uint32_t most;      /* runs of one measurement */
    float length_us;    /* of one measurement before the final */
    float final_us;     /* of one measurement in the final */
    float enough;       /* the winner takes at most this share of the first one's time */
    float hopeless; /* entries whose first two runs take more than this many times the fastest one's
                       are dropped; 0: none */
    /* A long run heats the device until it lowers its clock, by an amount that depends on the way.
     * If the first entry takes at least `lasting_us`, all entries are measured after that much
     * heat, and rounds of the final are long enough for each way to reach its own clock. 0:
     * never. */
    float lasting_us, heat_us, lasting_final_us;
    uint32_t lasting_rounds, lasting_most;
} trp__search_rules;

typedef struct trp__search_entry {
    uint32_t what;                                      /* the caller's number */
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
    uint32_t at;   /* the entry being measured; before the final, those below it are known */
    uint32_t turn; /* of its measurements before the final */
    uint32_t round, kind, finalists;
    bool hot, lasting, failed;
} trp__search;

/* Begins a search without entries; `entry` has room for `room` of them. */
void trp__search_begin(trp__search *s, const trp__search_rules *rules, trp__search_entry *entry,
                       uint32_t room);

/* Adds an entry; the default comes first. False: there is no room, or the final has begun. */
bool trp__search_add(trp__search *s, uint32_t what);

/* Returns the next measurement. False: all entries are known, so that more may be added or the
 * final begun; or the search is over. */
bool trp__search_next(const trp__search *s, trp__search_step *out);

/* Reports the time of one run. Negative: it failed. Before the final the entry is then dropped, and
 * without the first the search fails; in the final the first wins. */
void trp__search_add_time(trp__search *s, float us);

/* Sorts the known entries by time behind the first. */
void trp__search_sort(trp__search *s);

/* Begins the final among the known entries. */
void trp__search_final(trp__search *s);

/* Time is up: begins the final without the unknown entries, or ends it after the current whole
 * round. */
void trp__search_hurry(trp__search *s);

/* Return, after the search, the entry that won, and the median of its cold runs. */
uint32_t trp__search_winner(const trp__search *s);
float trp__search_median(const trp__search *s, uint32_t entry);

#endif
