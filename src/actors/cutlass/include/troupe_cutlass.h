/* What CUTLASS expects of its surroundings and NVRTC does not have.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "troupe_std.h"

#include "cutlass/cutlass.h"
#include "cutlass/numeric_types.h"
