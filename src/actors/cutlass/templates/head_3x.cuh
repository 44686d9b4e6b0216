/* Shared by the heads of all products by CUTLASS 3.x: common settings, includes and names. A head
 * first defines its own settings, including TRP_SM, TRP_TILE and TRP_CLUSTER.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Settings of a row with their defaults. */
#ifndef TRP_A /* elements of A and B; float is computed as tf32 */
#define TRP_A cutlass::bfloat16_t
#endif
#ifndef TRP_B
#define TRP_B TRP_A
#endif
#ifndef TRP_D
#define TRP_D cutlass::bfloat16_t
#endif
#ifndef TRP_C /* void: the epilogue reads no C, and keeps no room for it */
#define TRP_C TRP_D
#endif
#ifndef TRP_ACC
#define TRP_ACC float
#endif
#ifndef TRP_SCALAR
#define TRP_SCALAR float
#endif
#ifndef TRP_A_ROW
#define TRP_A_ROW 1
#endif
#ifndef TRP_B_ROW
#define TRP_B_ROW 0
#endif
#ifndef TRP_C_ROW
#define TRP_C_ROW 1
#endif
#ifndef TRP_D_ROW
#define TRP_D_ROW 1
#endif
#ifndef TRP_STAGES /* 0: as many as fit */
#define TRP_STAGES 0
#endif
#ifndef TRP_PINGPONG
#define TRP_PINGPONG 0
#endif
#ifndef TRP_SCHEDULER /* 0 persistent, 1 stream-K, 2 groups */
#define TRP_SCHEDULER 0
#endif

#include "builders.cuh"

#include "module.cuh"

template <int M, int N, int K = 1>
using trp_shape = cute::Shape<cute::Int<M>, cute::Int<N>, cute::Int<K>>;
template <bool Row>
using trp_layout =
    cutlass::platform::conditional_t<Row, cutlass::layout::RowMajor, cutlass::layout::ColumnMajor>;
template <class T> inline constexpr int trp_bits = cutlass::sizeof_bits<T>::value;
template <> inline constexpr int trp_bits<void> = 128;

using trp_tile = trp_shape<TRP_TILE>;
using trp_cluster = trp_shape<TRP_CLUSTER>;
