/* D = epilogue(A B, C) by CUTLASS 3.x for sm_100a (tcgen05) and sm_120a (mma.sync with TMA),
 * persistent. The settings are in gemm_sm100_head.cuh.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gemm_sm100_head.cuh"

#ifndef TRP_FUSION
#define TRP_FUSION_PLAIN
#define TRP_FUSION                                                                                 \
    cutlass::epilogue::fusion::LinearCombination<TRP_D, TRP_SCALAR, TRP_C, TRP_SCALAR>
#endif

using trp_epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    trp_arch, trp_class, trp_tile, trp_cluster, cutlass::epilogue::collective::EpilogueTileAuto,
    TRP_ACC, TRP_SCALAR, TRP_C, trp_layout<TRP_C_ROW>, 128 / trp_bits<TRP_C>, TRP_D,
    trp_layout<TRP_D_ROW>, 128 / trp_bits<TRP_D>, trp_epilogue_schedule, TRP_FUSION>::CollectiveOp;

#if TRP_STAGES
using trp_stages = cutlass::gemm::collective::StageCount<TRP_STAGES>;
#else
using trp_stages = cutlass::gemm::collective::StageCountAutoCarveout<int(
    sizeof(typename trp_epilogue::SharedStorage))>;
#endif
using trp_mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    trp_arch, trp_class, trp_left, trp_layout<TRP_A_ROW>, trp_align<TRP_A>, trp_right,
    trp_layout<TRP_B_ROW>, trp_align<TRP_B>, TRP_ACC, trp_tile, trp_cluster, trp_stages,
    trp_schedule>::CollectiveOp;

#include "gemm_3x.cuh"
