/* The sender's side of graphs. */
#ifndef TRP_ACTORS_DNN_REQUEST_ENCODE_H
#define TRP_ACTORS_DNN_REQUEST_ENCODE_H

#include "wire/actor_class.h"

#include <troupe/dnn.h>

/* Checks a request and writes its record. */
trp_status trp__dnn_encode(trp__encoder *encoder, const trp_request *request);

/* Tells whether a request is valid apart from its buffers' sizes, and cuDNN may be asked for all of
 * its nodes, together or in parts (lower/quirks.h). */
bool trp__dnn_is_asked(const trp_dnn_graph_request *request);

#endif
