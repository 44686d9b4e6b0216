/* The reference kernel of the cutlass actor, which the fake driver runs as C. */
#ifndef TESTS_SUPPORT_FAKE_CUDA_CUTLASS_CUTLASS_REFERENCE_H
#define TESTS_SUPPORT_FAKE_CUDA_CUTLASS_CUTLASS_REFERENCE_H

#include "actors/cutlass/reference/problem.h"

void fake_cutlass_reference(const uint64_t *parameter);

#endif
