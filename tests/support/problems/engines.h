/* The engines that may run a graph of the dnn actor on a GPU, by tests/peer/engines.def, which
 * tests/peer/peer.py reads as well. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_ENGINES_H
#define TESTS_SUPPORT_PROBLEMS_ENGINES_H

#include <troupe/dnn.h>

/* Returns a trp_dnn_kind in small letters, as in the table; a static string; NULL: no such kind. */
const char *engines_name(trp_dnn_kind kind);

/* Returns whether the plain kernels may run a graph: one of its nodes is in the table. */
bool engines_allow_plain(const trp_dnn_tensor *tensors, const trp_dnn_node *nodes, uint32_t count);

#endif
