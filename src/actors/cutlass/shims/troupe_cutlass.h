/* Defines what CUTLASS expects of its environment and NVRTC lacks; included before all of it.
 * TRP_SM selects the generation's headers of those that CuTe would include together: 80, 90.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#ifndef TRP_SM
#error "a template says TRP_SM"
#endif

#include "troupe_std.h"

#include "abi.h"

#if TRP_SM < 100
/* The default of a parameter of policies for sm_100. */
namespace cute
{
struct SM100_TMEM_LOAD_32dp32b32x;
}
#endif

#include "cutlass/cutlass.h"
#include "cutlass/numeric_types.h"
