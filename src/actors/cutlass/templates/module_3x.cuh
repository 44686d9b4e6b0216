/* The module of trp_kernel, a kernel of CUTLASS 3.x, and how a builder of its parameter ends.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "module.cuh"

/* Writes the parameter computed from the kernel's arguments, and the grid. A macro, because the
 * compiler turns a function into different builders depending on its inlining decisions. */
#define TRP_RETURN_BUILT(arguments, workspace, out, built)                                         \
    do {                                                                                           \
        typename trp_kernel::Params params = trp_kernel::to_underlying_arguments(                  \
            (arguments), reinterpret_cast<void *>(workspace));                                     \
        const dim3 grid = trp_kernel::get_grid_shape(params);                                      \
        (built).grid[0] = grid.x;                                                                  \
        (built).grid[1] = grid.y;                                                                  \
        (built).grid[2] = grid.z;                                                                  \
        trp_write_params((out), params);                                                           \
        return TRP_CUTLASS_BUILT;                                                                  \
    } while (0)

#define TRP_MODULE_3X                                                                              \
    TRP_MODULE(trp_kernel, trp_run_3x, trp_kernel::SharedStorageSize,                              \
               trp_kernel::MaxThreadsPerBlock, trp_kernel::MinBlocksPerMultiprocessor,             \
               cute::size<0>(trp_cluster{}), cute::size<1>(trp_cluster{}),                         \
               cute::size<2>(trp_cluster{}), cute::size<0>(trp_tile{}), cute::size<1>(trp_tile{}), \
               cute::size<2>(trp_tile{}), trp_mainloop::DispatchPolicy::Stages)
