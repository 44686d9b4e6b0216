/* Fast kernels of ours: what they take of a graph, and how a step of a plan launches them. A family
 * is a C file and a file of kernels beside it; families.c lists them all. The reference kernels
 * (actors/dnn/reference/node.h) take any node, but slowly; these take what users run, at the speed
 * of memory. */
#ifndef TRP_ACTORS_DNN_KERNELS_KERNELS_H
#define TRP_ACTORS_DNN_KERNELS_KERNELS_H

#include "actors/dnn/kernels/launch/launch.h"

/* All families, in the order in which they are asked; NULL behind the last. */
extern const trp__kernel_family *const trp__kernel_families[];

/* The family that takes the most nodes from `first` on, and how many; NULL: none takes any. */
const trp__kernel_family *trp__kernels_for(const trp__dnn_graph *graph, uint32_t first,
                                           uint32_t most, uint32_t *count);

/* The same of families that are asked where libraries have refused: what a library does, it does
 * faster. */
const trp__kernel_family *trp__kernels_behind(const trp__dnn_graph *graph, uint32_t first,
                                              uint32_t most, uint32_t *count);

#endif
