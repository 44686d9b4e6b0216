/* CuTe's own, with the part that it hides from NVRTC: how the types of a tensor map follow from
 * those of the tensors. What it includes is read before, as NVRTC is to see it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cutlass/cuda_host_adapter.hpp"
#include "cutlass/numeric_types.h"
#include <cute/config.hpp>
#include <cute/arch/util.hpp>
#include <cute/arch/config.hpp>
#include <cute/arch/copy.hpp>
#include <cute/arch/copy_sm90.hpp>
#include <cute/container/alignment.hpp>
#include <cute/container/bit_field.hpp>
#include <cute/container/array.hpp>
#include <cute/numeric/numeric_types.hpp>

#undef __CUDACC_RTC__
#include_next <cute/arch/copy_sm90_desc.hpp>
#define __CUDACC_RTC__ 1
