/* Searching in the worker: times kernels on the operands of the request that searches, in the
 * actor's stream, step by step, so that nothing ever waits for the device. The request itself
 * comes after all of them and writes again what kernels wrote. */
#ifndef TRP_ACTORS_CUTLASS_RUN_TUNE_H
#define TRP_ACTORS_CUTLASS_RUN_TUNE_H

#include "actors/cutlass/plan/record.h"
#include "actors/cutlass/wire/run.h"
#include "cache/lru.h"
#include "compile/loader.h"
#include "tuning/search.h"

enum { TRP__TUNE_FOUND = 1024 };

typedef enum trp__tune_phase {
    TRP__TUNE_ROWS,     /* each kernel with its first settings */
    TRP__TUNE_SETTINGS, /* the fastest with all of theirs, and then the final */
    TRP__TUNE_KEEP,     /* writes what was found */
    TRP__TUNE_DONE,
} trp__tune_phase;

typedef struct trp__cutlass_tuner {
    trp__jit_loader *loader;
    trp__cu_event begin, end;
    trp__lru *found; /* records of this worker, by the hash of their keys */

    /* The search in hand. */
    uint64_t ticket; /* of the request; 0: there was none yet */
    trp__run_search head;
    trp__run_candidate candidate[TRP__RUN_CANDIDATES_MAX];
    trp__cutlass_settings setting[TRP__RUN_SETTINGS_MAX];
    trp__hash key;
    int64_t until;
    trp__tune_phase phase;
    trp__search search; /* the first entry: what the request would run */
    trp__search_entry entry[TRP__RUN_SETTINGS_MAX];
    bool flying; /* a measurement is on the device */
    bool keeping;
    trp__cutlass_record record; /* `kernel` "": nothing was found */
    uint32_t winner;            /* among the candidates */
} trp__cutlass_tuner;

/* How kernels are run. */
typedef struct trp__tune_ways {
    void *context;
    /* Makes a kernel, whose name is given, with settings ready to be launched. TRP_AGAIN: not yet.
     */
    trp_status (*prepare)(void *context, trp__jit_loaded *module, const char *kernel,
                          const trp__cutlass_settings *settings, trp_error *error);
    /* Enqueues what was prepared last. */
    trp_status (*enqueue)(void *context, trp_error *error);
} trp__tune_ways;

/* Zeroed before. */
trp_status trp__cutlass_tuner_open(trp__cutlass_tuner *t, trp__jit_loader *loader,
                                   trp_error *error);
/* Parts that were not opened are ignored. */
void trp__cutlass_tuner_close(trp__cutlass_tuner *t);

/* Goes on with the search of the request `ticket`, or begins it: `search` is what it has taken
 * along, `bytes` of it. TRP_AGAIN: it goes on, and from the first time on the request must not be
 * cancelled. TRP_OK: *module and *settings are what it is to run, or as they were. Other statuses:
 * what it has taken along is damaged, or the device is. */
trp_status trp__cutlass_tune(trp__cutlass_tuner *t, uint64_t ticket, const void *search,
                             uint32_t bytes, const trp__tune_ways *ways, trp__jit_loaded **module,
                             trp__cutlass_settings *settings, trp_error *error);

#endif
