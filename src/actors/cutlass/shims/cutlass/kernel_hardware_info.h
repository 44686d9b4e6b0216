/* Replaces CUTLASS's header, whose device queries NVRTC cannot compile: the host queries the device
 * and passes the answers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cutlass/device_kernel.h"
#include <cute/int_tuple.hpp>

namespace cutlass
{

struct KernelHardwareInfo {
    int device_id = 0;
    int sm_count = 0;
    int max_active_clusters = 0;
    dim3 cluster_shape = {0, 0, 0};
    dim3 cluster_shape_fallback = {0, 0, 0};

    __device__ static int query_device_multiprocessor_count(int = 0)
    {
        return 0;
    }
};

} // namespace cutlass
