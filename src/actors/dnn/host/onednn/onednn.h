/* oneDNN 2, loaded at run time. Compiling this needs its header; without header or library, own
 * loops are used. */
#ifndef TRP_ACTORS_DNN_HOST_ONEDNN_ONEDNN_H
#define TRP_ACTORS_DNN_HOST_ONEDNN_ONEDNN_H

#include "actors/dnn/host/arrays/node.h"

/* The loaded functions. */
typedef struct trp__onednn trp__onednn;

/* Opens oneDNN once per process; after a failure the next call tries again. Any thread.
 * TRP_E_MISSING: `error` names what to install. */
trp_status trp__onednn_load(const trp__onednn **out, trp_error *error);

/* Return the file that it was loaded from, empty before, and its version, "2.6.3". */
const char *trp__onednn_path(void);
void trp__onednn_version(const trp__onednn *dnn, char *out, size_t size);

/* An actor's engine of oneDNN. Used by one thread at a time. */
typedef struct trp__onednn_engine trp__onednn_engine;

trp_status trp__onednn_open(trp__onednn_engine **out, trp_error *error);
void trp__onednn_close(trp__onednn_engine *dnn);

/* Computes a convolution in f32. Returns false, with undefined outputs, if it is unsupported or too
 * small. */
bool trp__onednn_conv(const trp__onednn_engine *dnn, const trp__dnn_host_node *x);

/* Computes other nodes, with results as exact as f32 allows and equal treatment of infinities and
 * NaN. */
bool trp__onednn_node(const trp__onednn_engine *dnn, const trp__dnn_host_node *x);

/* Returns the dimension over which the nodes from `first` on are a softmax in f32 that is large
 * enough and whose intermediate results no other node reads, or -1. The last node writes the
 * result. */
enum { TRP__ONEDNN_SOFTMAX_NODES = 5 };
int trp__onednn_softmax_axis(const trp__dnn_graph *g, int first);

/* Computes a softmax: x is a node of TRP_DNN_POINTWISE, from X to Y. */
bool trp__onednn_softmax(const trp__onednn_engine *dnn, const trp__dnn_host_node *x, int axis);

#endif
