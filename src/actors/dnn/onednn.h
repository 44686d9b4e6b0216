/* oneDNN 2, opened at run time. Its header is needed to compile this; without it, or the library,
 * own loops do what it would. */
#ifndef TRP_ACTORS_DNN_ONEDNN_H
#define TRP_ACTORS_DNN_ONEDNN_H

#include "actors/dnn/host_run.h"

/* What an actor has of it. */
typedef struct trp__onednn trp__onednn;

/* Opens oneDNN, once per process and for its whole life. TRP_E_MISSING says in `error` what to
 * install; TRP_E_VERSION, that it is another one than 2.x. */
trp_status trp__onednn_open(trp__onednn **out, trp_error *error);
void trp__onednn_close(trp__onednn *dnn);

/* Computes a convolution in f32. False, and nothing is written, if it can't. */
bool trp__onednn_conv(const trp__onednn *dnn, const trp__dnn_host_node *x);

#endif
