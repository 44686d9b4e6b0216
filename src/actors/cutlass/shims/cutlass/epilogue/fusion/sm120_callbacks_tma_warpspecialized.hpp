/* CUTLASS's own, only where it is wanted: the epilogue of sm_90 includes it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once
#if TRP_SM >= 120
#include_next <cutlass/epilogue/fusion/sm120_callbacks_tma_warpspecialized.hpp>
#endif
