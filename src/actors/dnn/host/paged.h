/* PAGED_LOAD on the host: copies rows unchanged from the pages that a table names. */
#ifndef TRP_ACTORS_DNN_HOST_PAGED_H
#define TRP_ACTORS_DNN_HOST_PAGED_H

#include "actors/dnn/host/run.h"

/* Tells whether a graph has tables that can be checked before it runs: */
bool trp__dnn_host_has_tables(const trp__dnn_graph *graph);

/* Checks them, in the actor's stream: TRP_E_ARGUMENT names the invalid entry. */
trp_status trp__dnn_host_look(const trp__dnn_host_run *run, trp_error *error);

/* Runs such a node. Rows of invalid pages become NaN. */
void trp__dnn_host_paged_load(const trp__dnn_host_run *run, const trp__dnn_node *n);

#endif
