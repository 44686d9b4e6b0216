/* Fast kernels: which nodes of a graph they take, and how a step of a plan launches them. A family
 * is a C file with a file of kernels beside it; families.c lists all. The reference kernels
 * (actors/dnn/reference/node.h) take any node, but are slow; these take the nodes that users run,
 * at the speed of memory. */
#ifndef TRP_ACTORS_DNN_KERNELS_KERNELS_H
#define TRP_ACTORS_DNN_KERNELS_KERNELS_H

#include "actors/dnn/kernels/launch/launch.h"

/* All families, in the order in which they are asked; NULL behind the last. */
extern const trp__kernel_family *const trp__kernel_families[];

/* Returns the family that takes the most nodes from `first` on, and how many; NULL: none takes any.
 * */
const trp__kernel_family *trp__kernels_for(const trp__dnn_graph *graph, uint32_t first,
                                           uint32_t most, uint32_t *count);

/* Returns likewise a family that is asked only after the libraries have refused, as a library is
 * faster. */
const trp__kernel_family *trp__kernels_behind(const trp__dnn_graph *graph, uint32_t first,
                                              uint32_t most, uint32_t *count);

#endif
