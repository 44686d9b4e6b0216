/* Chains: consecutive nodes of POINTWISE, POINTWISE_BACKWARD and, computed in f32, REDUCTION over
 * the last dimensions, as one program over blocks of elements.
 *
 * A chain has one full shape. Its elements are gone through in the order in which its first result
 * lies, as rows: those of what is reduced, in the order of its dimensions, or single elements. A
 * block is some rows, of about 1024 elements, or one longer row; all nodes of the chain are
 * computed for it before the next one. Tensors of the full shape, or of one element a row, are
 * written by nodes of a chain; what it reads beside those may be broadcast to either, in any type
 * and with any strides. Intermediate results stay in the block, each rounded to its tensor's type;
 * virtual tensors that no other node reads are not stored. So results have the same bits as those
 * of the nodes one after the other, and as those of any number of threads: rows are shared among
 * the threads of base/os/team.h, and each row is reduced by one of them. */
#ifndef TRP_ACTORS_DNN_HOST_CHAIN_H
#define TRP_ACTORS_DNN_HOST_CHAIN_H

#include "actors/dnn/host/run.h"

/* How many nodes from `first` on are a chain, at most `most`; 0: that node is none's. */
int trp__dnn_chain_length(const trp__dnn_graph *g, int first, int most);

/* Bytes of scratch memory for the chain, for all threads. */
size_t trp__dnn_chain_bytes(const trp__dnn_graph *g, int first, int count);

/* Runs it, with the run's scratch memory. */
void trp__dnn_chain_run(const trp__dnn_host_run *run, int first, int count);

#endif
