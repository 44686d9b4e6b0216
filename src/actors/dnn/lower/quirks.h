/* Nodes that cuDNN is not asked for although it may accept them, because a proof (engines/proof.h)
 * cannot judge them or would find only rejections. These rules do not cover wrong results: engines
 * are proven on the shapes, layouts and types of each graph. */
#ifndef TRP_ACTORS_DNN_LOWER_QUIRKS_H
#define TRP_ACTORS_DNN_LOWER_QUIRKS_H

#include "actors/dnn/graph/graph.h"

/* Returns the number of nodes from `first` on that cuDNN may get as one graph; 0: not even the
 * first. */
uint32_t trp__dnn_asked(const trp__dnn_graph *g, uint32_t first);

#endif
