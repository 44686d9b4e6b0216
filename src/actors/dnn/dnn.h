/* The dnn actor: graphs of neural-network operations. */
#ifndef TRP_ACTORS_DNN_DNN_H
#define TRP_ACTORS_DNN_DNN_H

#include "actors/dnn/graph/wire.h"
#include "actors/dnn/request/encode.h"
#include "wire/actor_class.h"

#include <troupe/worker.h>

extern const trp__actor_class trp__dnn_class;
extern const trp_actor_impl trp__dnn_cuda, trp__dnn_host;

/* In the worker: finds the graph of a request and the place for the description of its run. */
trp_status trp__dnn_job_graph(const trp_job *job, trp__dnn_graph *graph, trp_dnn_ran **ran,
                              trp_error *error);

/* Finds the tensors in buffers or in the request from the accesses of `job`: their addresses, and,
 * unless `bytes` is NULL, their available bytes. Leaves the entries of other tensors unchanged. */
void trp__dnn_job_places(const trp_job *job, const trp__dnn_graph *graph, void *address[],
                         uint64_t bytes[]);

#endif
