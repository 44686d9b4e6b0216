/* What cuDNN may be asked for. It takes more than it does right: seen with 9.19 on an H200, by
 * comparing a thousand graphs with the host; what is refused here runs by kernels of ours. */
#ifndef TRP_ACTORS_DNN_TRUST_H
#define TRP_ACTORS_DNN_TRUST_H

#include "actors/dnn/graph.h"

/* How many nodes from `first` on may be given to it as one graph; 0: not even that one. */
uint32_t trp__dnn_trusted(const trp__dnn_graph *g, uint32_t first);

#endif
