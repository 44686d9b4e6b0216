/* Plans kept in the kernel cache (cache/store.h): for one GPU model, driver and version of cuDNN,
 * by graph. docs/cache-format.md has the bytes. */
#ifndef TRP_ACTORS_DNN_PLANS_RECORD_H
#define TRP_ACTORS_DNN_PLANS_RECORD_H

#include "actors/dnn/plans/plan.h"
#include "tuning/record.h"

/* The record's key in the store: the site, and all of the graph that makes graphs the same. The
 * caller ends it. */
void trp__dnn_record_key(const trp__tuning_site *site, const trp__dnn_graph *graph, trp__key *key);

/* Looks for a plan in a store, which may be NULL; false if there is none, or none that the library
 * takes. */
bool trp__dnn_record_find(trp__store *store, const trp__key *key, const trp__dnn_planner *planner,
                          const trp__dnn_graph *graph, trp__dnn_plan **out);
/* What can't be kept is made again by the next process. */
void trp__dnn_record_keep(trp__store *store, const trp__key *key, const trp__dnn_plan *plan);

/* The same from and as bytes: *out is the caller's to free. */
trp_status trp__dnn_record_write(const trp__dnn_plan *plan, unsigned char **out, size_t *bytes,
                                 trp_error *error);
trp_status trp__dnn_record_read(const void *bytes, size_t size, const trp__dnn_planner *planner,
                                const trp__dnn_graph *graph, trp__dnn_plan **out, trp_error *error);

#endif
