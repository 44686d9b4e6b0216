/* PAGED_LOAD on the host: rows are copied as they are, from the pages that a table names. */
#ifndef TRP_ACTORS_DNN_HOST_PAGED_H
#define TRP_ACTORS_DNN_HOST_PAGED_H

#include "actors/dnn/host/run.h"

/* Whether a graph has tables that can be looked at before it runs: those in memory that none of its
 * nodes writes. */
bool trp__dnn_host_has_tables(const trp__dnn_graph *graph);

/* Looks at them, in the actor's stream: TRP_E_ARGUMENT names the entry that is no page. */
trp_status trp__dnn_host_look(const trp__dnn_host_run *run, trp_error *error);

/* Runs such a node. Of what is no page rows become NaN. */
void trp__dnn_host_paged_load(const trp__dnn_host_run *run, const trp__dnn_node *n);

#endif
