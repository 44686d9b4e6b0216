/* What the templates for sm_90 have in common: which of CUTLASS they include.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "builders.cuh"

#include "cutlass/epilogue/collective/builders/sm90_builder.inl"
#include "cutlass/gemm/collective/builders/sm90_gmma_builder.inl"
