/* cuDNN as the dnn actor uses it, without a GPU: plans for an H200. */
#ifndef TESTS_UNIT_DNN_DNN_PLANNER_H
#define TESTS_UNIT_DNN_DNN_PLANNER_H

#include "actors/dnn/plans/plan.h"

/* Exits with 77 where that can't be done: there is no cuDNN, or it is too old. */
void dnn_planner_open(trp__dnn_planner *planner);
void dnn_planner_close(trp__dnn_planner *planner);

#endif
