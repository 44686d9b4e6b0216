/* Plans in the kernel cache (cache/store.h) by GPU model, driver, version of cuDNN, and graph.
 * docs/cache-format.md describes the bytes. */
#ifndef TRP_ACTORS_DNN_PLANS_RECORD_H
#define TRP_ACTORS_DNN_PLANS_RECORD_H

#include "actors/dnn/plans/plan.h"
#include "tuning/record.h"

/* Starts the record's key in the store: the site and the parts of the graph that determine
 * equality. The caller ends it. */
void trp__dnn_record_key(const trp__tuning_site *site, const trp__dnn_graph *graph, trp__key *key);

/* Looks for a plan in a store, which may be NULL; returns false if there is none, or none that the
 * library accepts. */
bool trp__dnn_record_find(trp__store *store, const trp__key *key, const trp__dnn_planner *planner,
                          const trp__dnn_graph *graph, trp__dnn_plan **out);
/* Stores a plan. If that fails, the next process creates it again. */
void trp__dnn_record_keep(trp__store *store, const trp__key *key, const trp__dnn_plan *plan);

/* Convert a plan to and from bytes; the caller frees *out. */
trp_status trp__dnn_record_write(const trp__dnn_plan *plan, unsigned char **out, size_t *bytes,
                                 trp_error *error);
trp_status trp__dnn_record_read(const void *bytes, size_t size, const trp__dnn_planner *planner,
                                const trp__dnn_graph *graph, trp__dnn_plan **out, trp_error *error);

#endif
