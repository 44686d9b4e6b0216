/* Products of f16 and bf16 on tensor cores, summed in f32: m16n8k16, and the loads of its operands
 * from shared memory. On the tests' device, lanes exchange operands by way of shared memory. */
#ifndef TRP_ACTORS_DNN_KERNELS_COMMON_TENSOR_CORE_CUH
#define TRP_ACTORS_DNN_KERNELS_COMMON_TENSOR_CORE_CUH

#include "actors/dnn/kernels/common/element.cuh"

#ifdef __CUDACC_RTC__

/* Loads four 8 x 8 matrices. Lane 8 m + r passes the address of row r of matrix m, a multiple of
 * 16. Lane 4 r + c gets elements 2 c and 2 c + 1 of row r of each matrix, or with TURNED of column
 * r. */
template <bool TURNED> TRP__DEVICE void trp__load_matrices(const uint16_t *row, uint32_t out[4])
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    if (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                     : "r"(at)
                     : "memory");
}

/* c += a b: a is 16 x 16, b 16 x 8. */
template <int TYPE>
TRP__DEVICE void trp__multiply_matrices(const uint32_t a[4], const uint32_t b[2], float c[4])
{
    if (TYPE == TRP_BF16)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#else

/* Words that the lanes of each warp exchange between two barriers. */
template <typename WORD, int COUNT> struct trp__lane_words {
    WORD word[32][32][COUNT];
};

template <bool TURNED> TRP__DEVICE void trp__load_matrices(const uint16_t *row, uint32_t out[4])
{
    __shared__ trp__lane_words<const uint16_t *, 1> all;
    const int lane = (int)(threadIdx.x % 32);
    auto &rows = all.word[threadIdx.x / 32];
    rows[lane][0] = row;
    __syncwarp();
    for (int m = 0; m < 4; m++) {
        const int first = TURNED ? 8 * m + lane % 4 * 2 : 8 * m + lane / 4;
        const uint16_t *x = rows[first][0], *y = rows[first + (TURNED ? 1 : 0)][0];
        out[m] = TURNED ? x[lane / 4] | (uint32_t)y[lane / 4] << 16
                        : x[lane % 4 * 2] | (uint32_t)y[lane % 4 * 2 + 1] << 16;
    }
    __syncwarp();
}

template <int TYPE> TRP__DEVICE float trp__half_of(uint32_t word, int which)
{
    const uint16_t bits = (uint16_t)(which ? word >> 16 : word);
    return TYPE == TRP_BF16 ? trp__bf16_to_f32(bits) : trp__half_value(bits);
}

template <int TYPE>
TRP__DEVICE void trp__multiply_matrices(const uint32_t a[4], const uint32_t b[2], float c[4])
{
    __shared__ trp__lane_words<uint32_t, 6> all;
    const int lane = (int)(threadIdx.x % 32), row = lane / 4, column = lane % 4 * 2;
    auto &words = all.word[threadIdx.x / 32];
    memcpy(words[lane], a, 4 * sizeof *a);
    memcpy(words[lane] + 4, b, 2 * sizeof *b);
    __syncwarp();
    for (int k = 0; k < 16; k++) {
        const int from = k / 2 % 4, half = k / 8;
        for (int i = 0; i < 4; i++)
            c[i] += trp__half_of<TYPE>(words[4 * row + from][2 * half + i / 2], k % 2) *
                    trp__half_of<TYPE>(words[4 * (column + i % 2) + from][4 + half], k % 2);
    }
    __syncwarp();
}

#endif

#endif
