/* Replaces the driver's header, which CuTe includes for encoding tensor maps: declares its types,
 * and functions that record the arguments instead (see abi.h). The numbers are the driver's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi.h"

struct alignas(64) CUtensorMap {
    uint64_t opaque[16];
};

enum CUresult { CUDA_SUCCESS = 0 };
enum CUtensorMapDataType {
    CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
    CU_TENSOR_MAP_DATA_TYPE_UINT16 = 1,
    CU_TENSOR_MAP_DATA_TYPE_UINT32 = 2,
    CU_TENSOR_MAP_DATA_TYPE_INT32 = 3,
    CU_TENSOR_MAP_DATA_TYPE_UINT64 = 4,
    CU_TENSOR_MAP_DATA_TYPE_INT64 = 5,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT64 = 8,
    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9,
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 = 11,
    CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B = 13,
    CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B = 14,
    CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B = 15
};
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE = 0 };
enum CUtensorMapSwizzle {
    CU_TENSOR_MAP_SWIZZLE_NONE = 0,
    CU_TENSOR_MAP_SWIZZLE_32B = 1,
    CU_TENSOR_MAP_SWIZZLE_64B = 2,
    CU_TENSOR_MAP_SWIZZLE_128B = 3,
    CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B = 4,
    CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B = 5,
    CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B = 6
};
enum CUtensorMapL2promotion {
    CU_TENSOR_MAP_L2_PROMOTION_NONE = 0,
    CU_TENSOR_MAP_L2_PROMOTION_L2_64B = 1,
    CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2,
    CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3
};
enum CUtensorMapFloatOOBfill {
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0,
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA = 1
};

/* Not inlined: these are for the builder alone, and each kernel has several maps. */
__device__ __noinline__ inline void trp_note_map(CUtensorMap *out, uint64_t tag, int type,
                                                 uint32_t rank, void const *address,
                                                 uint64_t const *size, uint64_t const *stride,
                                                 uint32_t const *step, int interleave, int swizzle,
                                                 int l2, int fill)
{
    trp_cutlass_map map = {};
    map.tag = tag;
    map.address = reinterpret_cast<uint64_t>(address);
    map.type = uint8_t(type);
    map.rank = uint8_t(rank);
    for (uint32_t i = 0; i < rank; i++) {
        map.size[i] = uint32_t(size[i] - 1);
        map.step[i] = uint8_t(step[i]);
        if (i + 1 < rank)
            map.stride[i] = stride[i];
    }
    map.interleave = uint8_t(interleave);
    map.swizzle = uint8_t(swizzle);
    map.l2 = uint8_t(l2);
    map.fill = uint8_t(fill);
    *reinterpret_cast<trp_cutlass_map *>(out) = map;
}

__device__ inline CUresult
trp_cuTensorMapEncodeTiled(CUtensorMap *out, CUtensorMapDataType type, uint32_t rank, void *address,
                           uint64_t const *size, uint64_t const *stride, uint32_t const *box,
                           uint32_t const *step, CUtensorMapInterleave interleave,
                           CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                           CUtensorMapFloatOOBfill fill)
{
    trp_note_map(out, TRP_CUTLASS_TILED, type, rank, address, size, stride, step, interleave,
                 swizzle, l2, fill);
    for (uint32_t i = 0; i < rank; i++)
        reinterpret_cast<trp_cutlass_map *>(out)->box[i] = uint16_t(box[i]);
    return CUDA_SUCCESS;
}

__device__ inline CUresult trp_cuTensorMapEncodeIm2col(
    CUtensorMap *out, CUtensorMapDataType type, uint32_t rank, void *address, uint64_t const *size,
    uint64_t const *stride, int const *lower, int const *upper, uint32_t channels, uint32_t pixels,
    uint32_t const *step, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill)
{
    trp_note_map(out, TRP_CUTLASS_IM2COL, type, rank, address, size, stride, step, interleave,
                 swizzle, l2, fill);
    trp_cutlass_map *map = reinterpret_cast<trp_cutlass_map *>(out);
    map->box[0] = uint16_t(pixels);
    map->box[1] = uint16_t(channels);
    for (uint32_t i = 0; i + 2 < rank; i++) {
        map->lower[i] = int8_t(lower[i]);
        map->upper[i] = int8_t(upper[i]);
    }
    return CUDA_SUCCESS;
}

#undef CUTLASS_CUDA_DRIVER_WRAPPER_CALL
#define CUTLASS_CUDA_DRIVER_WRAPPER_CALL(function) ::trp_##function

/* That code throws on errors, which cannot occur here. */
#define throw (void)
namespace std
{
struct runtime_error {
    __device__ constexpr runtime_error(char const *)
    {
    }
};
struct trp_stream {
    template <class T> __device__ trp_stream const &operator<<(T const &) const
    {
        return *this;
    }
};
__device__ constexpr trp_stream cerr{};
enum trp_end { endl };
} // namespace std
