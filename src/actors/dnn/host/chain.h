/* Chains: consecutive nodes of POINTWISE, POINTWISE_BACKWARD and, computed in f32, REDUCTION over
 * the last dimensions, as one program over blocks of elements.
 *
 * A chain has one full shape. Its elements are processed in the memory order of its first result,
 * as rows: either the reduced dimensions in their order, or single elements. A block is a few rows
 * of about 1024 elements in all, or one longer row; all nodes of the chain are computed for a block
 * before the next one. Nodes of a chain write tensors of the full shape or of one element per row;
 * other inputs may be broadcast to either, in any type and with any strides. Intermediate results
 * stay in the block, each rounded to its tensor's type; virtual tensors that no other node reads
 * are not stored. So results have the same bits as those of single nodes, for any number of
 * threads: the threads of base/os/team.h share the rows, and each row is reduced by one thread. */
#ifndef TRP_ACTORS_DNN_HOST_CHAIN_H
#define TRP_ACTORS_DNN_HOST_CHAIN_H

#include "actors/dnn/host/run.h"

/* Returns the number of nodes from `first` on that form a chain, at most `most`; 0: the node cannot
 * be in a chain. */
int trp__dnn_chain_length(const trp__dnn_graph *g, int first, int most);

/* Returns the bytes of scratch memory of the chain for all threads. */
size_t trp__dnn_chain_bytes(const trp__dnn_graph *g, int first, int count);

/* Runs the chain with the run's scratch memory. */
void trp__dnn_chain_run(const trp__dnn_host_run *run, int first, int count);

#endif
