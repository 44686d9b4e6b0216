/* An engine of tensor cores: f16 and bf16. */
#ifndef TRP_ACTORS_DNN_KERNELS_ATTENTION_TENSOR_CORES_CUH
#define TRP_ACTORS_DNN_KERNELS_ATTENTION_TENSOR_CORES_CUH

#include "actors/dnn/kernels/attention/span.cuh"

/* 4 warps, each of which owns OWN / 4 rows. Weights are rounded to the type of v for the second
 * product, for which they stay in registers. */
template <int TYPE, int OWNED_, int OWN_, int WALK_, int DEPTH_> struct trp__tensor_cores {
    typedef float T;
    typedef uint16_t element;
    static constexpr int OWNED = OWNED_, OWN = OWN_, WALK = WALK_, DEPTH = DEPTH_, LANE_BITS = 2;
    static constexpr int PITCH = DEPTH + 8, SCRATCH = WALK + 4;
    static constexpr int SHARED = TRP__ATTENTION_SHARED(OWNED, OWN, WALK, DEPTH, 2, 4);
    static constexpr uint8_t NATIVE = TYPE;
    static constexpr int RM = OWN / 32, RN = WALK / 4, RD = DEPTH / 4;
    static constexpr bool COMPUTE_BOUND = false;
    int lane;

    TRP__DEVICE trp__tensor_cores() : lane((int)threadIdx.x % 32)
    {
    }
    TRP__DEVICE static int warp(void)
    {
        return (int)threadIdx.x / 32;
    }
    TRP__DEVICE static constexpr int lane_mask(int n)
    {
        return 1 << n;
    }
    TRP__DEVICE int row(int i) const
    {
        return warp() * (OWN / 4) + i * 8 + lane / 4;
    }
    TRP__DEVICE int column(int j) const
    {
        return j / 2 * 8 + lane % 4 * 2 + j % 2;
    }
    TRP__DEVICE int depth(int c) const
    {
        return column(c);
    }
    TRP__DEVICE static float value(element e)
    {
        return TYPE == TRP_BF16 ? trp__bf16_to_f32(e) : trp__half_value(e);
    }
    TRP__DEVICE static bool is_odd(const trp__pack16 &x)
    {
        const uint32_t all = TYPE == TRP_BF16 ? 0x7f80u : 0x7c00u;
        bool odd = false;
        for (int k = 0; k < 4; k++)
            odd = odd || (x.word[k] & all) == all || (x.word[k] >> 16 & all) == all;
        return odd;
    }
    TRP__DEVICE static uint32_t pair(float low, float high)
    {
        return TYPE == TRP_BF16 ? trp__bfloat_bits(low) | (uint32_t)trp__bfloat_bits(high) << 16
                                : trp__half_bits(low) | (uint32_t)trp__half_bits(high) << 16;
    }

    TRP__DEVICE static bool put4(element *to, const trp__attention_tensor &t, int64_t at, int count)
    {
        const uint32_t odd = TYPE == TRP_BF16 ? 0x7f80u : 0x7c00u;
        uint64_t four = 0;
        bool found = false;
        if (t.vector && count >= 4) {
            four = trp__at<uint64_t>(t.at + (uint64_t)at * 2, 0);
        } else {
            TRP__ROLLED
            for (int k = 0; k < 4 && k < count; k++)
                four |= (uint64_t)trp__at<uint16_t>(t.at, at + k * t.stride[3]) << 16 * k;
        }
        for (int k = 0; k < 4; k++)
            found = found || ((uint32_t)(four >> 16 * k) & odd) == odd;
        memcpy(to, &four, sizeof four);
        return found;
    }

    TRP__DEVICE void multiply(float *low, float *high, const uint32_t a[4],
                              const uint32_t b[2]) const
    {
        float c[4] = {low[0], low[1], high[0], high[1]};
        trp__multiply_matrices<TYPE>(a, b, c);
        low[0] = c[0];
        low[1] = c[1];
        high[0] = c[2];
        high[1] = c[3];
    }

    TRP__DEVICE void product(float s[RM][RN], const element *a, const element *b, int used) const
    {
        TRP__UNROLL
        for (int k = 0; k < DEPTH; k += 16) {
            uint32_t p[RM / 2][4];
            if (k >= used)
                break;
            TRP__EACH(i, RM / 2)
                trp__load_matrices<false>(a + (warp() * (OWN / 4) + i * 16 + lane % 16) * PITCH +
                                              k + lane / 16 * 8,
                                          p[i]);
            TRP__EACH(n, WALK / 16) {
                uint32_t q[4];
                trp__load_matrices<false>(
                    b + (n * 16 + lane / 16 * 8 + lane % 8) * PITCH + k + lane / 8 % 2 * 8, q);
                TRP__EACH(i, RM / 2) {
                    multiply(&s[2 * i][4 * n], &s[2 * i + 1][4 * n], p[i], q);
                    multiply(&s[2 * i][4 * n + 2], &s[2 * i + 1][4 * n + 2], p[i], q + 2);
                }
            }
        }
    }

    TRP__DEVICE void weigh(float o[RM][RD], const float s[RM][RN], float *, const element *b, int,
                           int to) const
    {
        TRP__EACH(k, WALK / 16) {
            uint32_t p[RM / 2][4];
            if (k * 16 >= to)
                break;
            TRP__EACH(i, RM / 2) {
                TRP__EACH(w, 4)
                    p[i][w] = pair(s[2 * i + w % 2][4 * k + w / 2 * 2],
                                   s[2 * i + w % 2][4 * k + w / 2 * 2 + 1]);
            }
            TRP__EACH(n, DEPTH / 16) {
                uint32_t q[4];
                trp__load_matrices<true>(
                    b + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * PITCH + n * 16 + lane / 16 * 8, q);
                TRP__EACH(i, RM / 2) {
                    multiply(&o[2 * i][4 * n], &o[2 * i + 1][4 * n], p[i], q);
                    multiply(&o[2 * i][4 * n + 2], &o[2 * i + 1][4 * n + 2], p[i], q + 2);
                }
            }
        }
    }
};

#endif
