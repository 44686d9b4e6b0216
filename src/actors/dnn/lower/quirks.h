/* What cuDNN is not asked for although it may take it, because a proof (engines/proof.h) can't
 * judge it or would find nothing but rejections. What it computes wrong is no matter of these
 * rules: engines are proven on the shapes, layouts and types of each graph. */
#ifndef TRP_ACTORS_DNN_LOWER_QUIRKS_H
#define TRP_ACTORS_DNN_LOWER_QUIRKS_H

#include "actors/dnn/graph/graph.h"

/* How many nodes from `first` on cuDNN may be asked for as one graph; 0: not even that one. */
uint32_t trp__dnn_asked(const trp__dnn_graph *g, uint32_t first);

#endif
