/* Includes of CUTLASS shared by the templates for sm_90.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "builders.cuh"

#include "cutlass/epilogue/collective/builders/sm90_builder.inl"
#include "cutlass/gemm/collective/builders/sm90_gmma_builder.inl"
