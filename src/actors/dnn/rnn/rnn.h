/* Recurrent networks of the dnn actor. */
#ifndef TRP_ACTORS_DNN_RNN_RNN_H
#define TRP_ACTORS_DNN_RNN_RNN_H

#include "actors/dnn/rnn/wire.h"
#include "libs/openblas/openblas.h"
#include "wire/actor_class.h"

#include <troupe/worker.h>

/* Check a request and write its record. */
trp_status trp__rnn_encode(trp__encoder *encoder, const trp_request *request);
trp_status trp__rnn_encode_reserve(trp__encoder *encoder, const trp_request *request);

/* In the worker: return the address of a place, NULL if absent, and the bytes available there; both
 * are checked if the number of elements is known. */
trp_status trp__rnn_place(const trp__rnn *n, const trp_job *job, int place, void **at,
                          uint64_t *bytes, trp_error *error);

/* Returns the piece of staging memory of a request if it has `bytes` bytes. */
trp_status trp__rnn_piece(const trp_job *job, uint64_t bytes, void **at, trp_error *error);

/* Handles requests on the host. */
trp_status trp__rnn_host_handle(trp_instance *instance, const trp__openblas *blas, trp_job *job,
                                trp_error *error);

#endif
