/* All includes of gemm_sm80.cuh, independent of the row: a source may have this file before its
 * settings, followed by #pragma nv_hdrstop, and be compiled with a precompiled header (see
 * docs/cutlass-kernels.md).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#define TRP_SM 80
#include "troupe_cutlass.h"

#include "cutlass/epilogue/thread/linear_combination.h"
#include "cutlass/gemm/kernel/default_gemm_universal.h"
#include "cutlass/gemm/threadblock/threadblock_swizzle.h"
#include "cutlass/gemm/threadblock/threadblock_swizzle_streamk.h"

#include "module.cuh"

namespace cutlass::arch
{

/* Wrapping sums of i8, as everywhere in Troupe. CUTLASS only has saturating ones. */
template <>
struct Mma<gemm::GemmShape<16, 8, 32>, 32, int8_t, layout::RowMajor, int8_t, layout::ColumnMajor,
           int32_t, layout::RowMajor, OpMultiplyAdd>
    : Mma<gemm::GemmShape<16, 8, 32>, 32, int8_t, layout::RowMajor, int8_t, layout::ColumnMajor,
          int32_t, layout::RowMajor, OpMultiplyAddSaturate> {
    using Operator = OpMultiplyAdd;

    CUTLASS_DEVICE void operator()(FragmentC &d, FragmentA const &a, FragmentB const &b,
                                   FragmentC const &c) const
    {
        uint32_t const *A = reinterpret_cast<uint32_t const *>(&a);
        uint32_t const *B = reinterpret_cast<uint32_t const *>(&b);
        int32_t const *C = reinterpret_cast<int32_t const *>(&c);
        int32_t *D = reinterpret_cast<int32_t *>(&d);
        asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
            : "=r"(D[0]), "=r"(D[1]), "=r"(D[2]), "=r"(D[3])
            : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]), "r"(C[0]),
              "r"(C[1]), "r"(C[2]), "r"(C[3]));
    }
};

} // namespace cutlass::arch
