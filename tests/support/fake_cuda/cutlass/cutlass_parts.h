/* What the parts of the fake driver's cutlass kernels share. */
#ifndef TESTS_SUPPORT_FAKE_CUDA_CUTLASS_CUTLASS_PARTS_H
#define TESTS_SUPPORT_FAKE_CUDA_CUTLASS_CUTLASS_PARTS_H

#include "actors/cutlass/templates/groups.h"
#include "support/fake_cuda/cutlass/cutlass.h"
#include "support/fake_cuda/fake.h"

enum { FAKE_CUTLASS_VECTORS = TRP__TREE_NODES_MAX, FAKE_CUTLASS_GROUPED_BYTES = 1 << 10 };

/* What a kernel is, from its module's variable; false: the stream has faulted. */
bool fake_cutlass_read(uint64_t address, fake_cutlass_kernel *k);
uint32_t fake_cutlass_bytes(uint8_t type);
/* Two elements of 4 bits make one. */
uint64_t fake_cutlass_bytes_of_all(uint8_t type, uint64_t elements);
/* As long as the test wants it. */
void fake_cutlass_take_time(const char *name);

/* Of grouped products: the vectors of the tree, and what else the arrays of groups depend on. */
int32_t fake_cutlass_vectors(const fake_cutlass_kernel *k,
                             trp_group_vector out[FAKE_CUTLASS_VECTORS]);
trp_group_kind fake_cutlass_kind(const fake_cutlass_kernel *k);

#endif
