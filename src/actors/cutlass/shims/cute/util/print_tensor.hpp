/* In place of CUTLASS's: kernels here do without it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once
