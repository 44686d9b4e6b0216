/* oneDNN 2, opened at run time. Its header is needed to compile this; without it, or the library,
 * own loops do what it would. */
#ifndef TRP_ACTORS_DNN_HOST_ONEDNN_ONEDNN_H
#define TRP_ACTORS_DNN_HOST_ONEDNN_ONEDNN_H

#include "actors/dnn/host/arrays/node.h"

/* The loaded functions. */
typedef struct trp__onednn trp__onednn;

/* Opens oneDNN, once per process and for its whole life; after a failure the next call tries again.
 * Any thread. TRP_E_MISSING says in `error` what to install. */
trp_status trp__onednn_load(const trp__onednn **out, trp_error *error);

/* The file that it was loaded from; empty before. And "2.6.3". */
const char *trp__onednn_path(void);
void trp__onednn_version(const trp__onednn *dnn, char *out, size_t size);

/* What an actor has of it. Used by one thread at a time. */
typedef struct trp__onednn_engine trp__onednn_engine;

trp_status trp__onednn_open(trp__onednn_engine **out, trp_error *error);
void trp__onednn_close(trp__onednn_engine *dnn);

/* Computes a convolution in f32. False, with nothing of worth written, if it can't, or is so small
 * that it is not worth it. */
bool trp__onednn_conv(const trp__onednn_engine *dnn, const trp__dnn_host_node *x);

/* The same for all other nodes, with results no less exact than f32 allows, and the same for what
 * is infinite or no number. */
bool trp__onednn_node(const trp__onednn_engine *dnn, const trp__dnn_host_node *x);

/* Over which dimension the nodes from `first` on are a softmax in f32, which is worth it and whose
 * intermediate results nobody else reads; -1: they are none. The last of them writes its result. */
enum { TRP__ONEDNN_SOFTMAX_NODES = 5 };
int trp__onednn_softmax_axis(const trp__dnn_graph *g, int first);

/* Computes it: x is a node of TRP_DNN_POINTWISE, from X to Y. */
bool trp__onednn_softmax(const trp__onednn_engine *dnn, const trp__dnn_host_node *x, int axis);

#endif
