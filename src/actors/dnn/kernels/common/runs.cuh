/* Runs of four neighbouring elements, for blocks of TRP__RUNS_THREADS threads that walk several
 * arrays without gaps together. */
#ifndef TRP_ACTORS_DNN_KERNELS_COMMON_RUNS_CUH
#define TRP_ACTORS_DNN_KERNELS_COMMON_RUNS_CUH

#include "actors/dnn/kernels/common/element.cuh"

enum { TRP__RUNS_EACH = 4, TRP__RUNS_THREADS = 256 };

/* Four elements, unconverted, so that a thread can load those of all arrays before it converts the
 * first. */
template <typename T> struct trp__runs_raw {
    trp__pack16 p[sizeof(T) / 4];

    TRP__DEVICE void load(uint64_t at, int64_t i, uint8_t type)
    {
        if (type == TRP_F32) {
            p[0] = trp__at<trp__pack16>(at + (uint64_t)i * 4, 0);
        } else if (sizeof(T) == 8 && type == TRP_F64) {
            TRP__EACH(k, (int)sizeof(T) / 4)
                p[k] = trp__at<trp__pack16>(at + (uint64_t)i * 8, k);
        } else {
            const uint64_t q = trp__at<uint64_t>(at + (uint64_t)i * 2, 0);
            p[0].word[0] = (uint32_t)q;
            p[0].word[1] = (uint32_t)(q >> 32);
        }
    }
    TRP__DEVICE void convert(uint8_t type, T out[TRP__RUNS_EACH]) const
    {
        if (type == TRP_F32) {
            TRP__EACH(k, TRP__RUNS_EACH)
                out[k] = (T)trp__f32_from_bits(p[0].word[k]);
        } else if (sizeof(T) == 8 && type == TRP_F64) {
            double v[sizeof(T) / 2];
            memcpy(v, p, sizeof v);
            TRP__EACH(k, (int)sizeof(T) / 2)
                out[k] = (T)v[k];
        } else if (type == TRP_BF16) {
            TRP__EACH(k, TRP__RUNS_EACH) {
                const uint32_t w = p[0].word[k / 2];
                out[k] = (T)trp__f32_from_bits(k % 2 ? w & 0xffff0000u : w << 16);
            }
        } else {
            TRP__EACH(k, TRP__RUNS_EACH) {
                const uint32_t w = p[0].word[k / 2];
                out[k] = (T)trp__half_value((uint16_t)(k % 2 ? w >> 16 : w));
            }
        }
    }
};

/* Returns the index in the block's elements of element j of run r of a thread. Without `runs`,
 * neighbouring threads have neighbouring elements. */
TRP__DEVICE int trp__runs_at(bool runs, int r, int j)
{
    const int thread = (int)threadIdx.x;
    return runs ? (r * TRP__RUNS_THREADS + thread) * TRP__RUNS_EACH + j
                : (r * TRP__RUNS_EACH + j) * TRP__RUNS_THREADS + thread;
}

#endif
