/* Shared by the files of the fake driver's cutlass kernels. */
#ifndef TESTS_SUPPORT_FAKE_CUDA_CUTLASS_CUTLASS_PARTS_H
#define TESTS_SUPPORT_FAKE_CUDA_CUTLASS_CUTLASS_PARTS_H

#include "actors/cutlass/templates/groups.h"
#include "support/fake_cuda/cutlass/cutlass.h"
#include "support/fake_cuda/fake.h"

enum { FAKE_CUTLASS_VECTORS = TRP__TREE_NODES_MAX, FAKE_CUTLASS_GROUPED_BYTES = 1 << 10 };

/* Reads the description of a kernel from its module's variable; false: the stream has faulted. */
bool fake_cutlass_read(uint64_t address, fake_cutlass_kernel *k);
uint32_t fake_cutlass_bytes(uint8_t type);
/* Returns the bytes of elements; two elements of 4 bits share a byte. */
uint64_t fake_cutlass_bytes_of_all(uint8_t type, uint64_t elements);
/* Takes the time that a test sets. */
void fake_cutlass_take_time(const char *name);

/* Returns the number of vectors of the tree in a grouped product, which the layout of its arrays
 * depends on. */
int32_t fake_cutlass_vectors(const fake_cutlass_kernel *k,
                             trp_group_vector out[FAKE_CUTLASS_VECTORS]);
trp_group_kind fake_cutlass_kind(const fake_cutlass_kernel *k);

#endif
