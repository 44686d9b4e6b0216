/* cuDNN's own start, ahead of the first request. */
#ifndef TRP_ACTORS_DNN_WARM_H
#define TRP_ACTORS_DNN_WARM_H

#include "actors/dnn/descriptors.h"

/* The library sets up its heuristics and its engines when it plans for the first time, the latter
 * also where a plan is read from a record: some 40 ms each (9.19), for which the first graph would
 * wait. Plans a small convolution and drops it. False: it is refused, which later requests may say.
 */
bool trp__dnn_warm_up(const trp__dnn_planner *planner);

#endif
