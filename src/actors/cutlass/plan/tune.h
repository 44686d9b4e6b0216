/* The sender's side of searching: what is known of a problem, and what a request that searches
 * takes along. */
#ifndef TRP_ACTORS_CUTLASS_PLAN_TUNE_H
#define TRP_ACTORS_CUTLASS_PLAN_TUNE_H

#include "actors/cutlass/plan/run.h"
#include "cache/key.h"

/* Finds the tuning record of the request's problem, in memory, or in the kernel cache, where a
 * search may have left one. False: none; *out is all zero then. */
bool trp__tune_known(trp__cutlass_running *w, trp__cutlass_choice *out);

/* Begins a search among the rows, the likeliest first, of which `known` may be one: has all of them
 * compiled and loaded before the request, and notes them in w->search. *main is the row that the
 * request itself is to use, NULL if nothing can be searched now. */
trp_status trp__tune_begin(trp__cutlass_running *w, const trp__cutlass_row *const *rows,
                           uint32_t count, const trp__cutlass_choice *known,
                           const trp__cutlass_row **main);

/* The request that has a module loaded before another one searches: `token` receives its slot and
 * generation; may be NULL. */
#define TRP__OP_CUTLASS_LOAD UINT32_C(0x0604)
typedef struct trp__cutlass_load_request {
    trp_request header;
    trp_module module;
    uint32_t *token;
} trp__cutlass_load_request;

trp_status trp__cutlass_encode_load(trp__encoder *encoder, const trp_request *request);

/* Bytes of what a search adds to the request's piece, once its settings and key are known; 0: there
 * is none, or no memory for it. The caller ends the key. */
uint32_t trp__tune_measure(trp__cutlass_running *w, trp__key *key);

/* Writes it. */
void trp__tune_write(const trp__cutlass_running *w, const trp__key *key, void *to);

#endif
