/* An engine of multiply-adds: f32 and f64. */
#ifndef TRP_ACTORS_DNN_KERNELS_ATTENTION_SIMT_CUH
#define TRP_ACTORS_DNN_KERNELS_ATTENTION_SIMT_CUH

#include "actors/dnn/kernels/attention/span.cuh"

template <typename T> struct alignas(16) trp__quad {
    static constexpr int COUNT = 16 / (int)sizeof(T);
    T v[COUNT];
};

/* 4 warps of 4 x 8 threads. A row in shared memory is 16 bytes longer than a multiple of all banks,
 * so that 8 threads that each read 16 bytes of a row have no bank conflicts. In each 4 lanes, two
 * pairs read the same row of a, and two pairs the same row of b: two quarters of a warp then share
 * one access. */
template <typename REAL, int OWNED_, int OWN_, int WALK_, int DEPTH_> struct trp__simt {
    typedef REAL T;
    typedef REAL element;
    typedef trp__quad<T> quad;
    static constexpr int OWNED = OWNED_, OWN = OWN_, WALK = WALK_, DEPTH = DEPTH_, LANE_BITS = 3;
    static constexpr int V = quad::COUNT;
    static constexpr int PITCH = DEPTH + V, SCRATCH = WALK + V; /* elements of a row */
    static constexpr int SHARED =
        TRP__ATTENTION_SHARED(OWNED, OWN, WALK, DEPTH, (int)sizeof(T), (int)sizeof(T));
    static constexpr uint8_t NATIVE = sizeof(T) == 4 ? TRP_F32 : TRP_F64;
    static constexpr int RM = OWN / 16, RN = WALK / 8, RD = DEPTH / 8;
    static constexpr int AHEAD = RD / V < 4 ? RD / V : 4; /* quads of b in flight */
    static constexpr bool COMPUTE_BOUND = true;
    int y, x;

    TRP__DEVICE trp__simt()
        : y(warp() * (OWN / 4) + ((int)threadIdx.x & 1) + ((int)threadIdx.x >> 1 & 2)),
          x(((int)threadIdx.x >> 1 & 1) + ((int)threadIdx.x >> 2 & 6))
    {
    }
    /* Returns the quarter of the owned rows that a warp has. Under a causal mask the last quarters
     * have more work, and warps of one number share a scheduler. Blocks whose numbers differ by
     * about 128 are likely to share a multiprocessor, so every other 128 blocks number their warps
     * in reverse. */
    TRP__DEVICE static int warp(void)
    {
        return (int)(threadIdx.x / 32 ^ (blockIdx.x / 128 % 2) * 3);
    }
    TRP__DEVICE static constexpr int lane_mask(int n)
    {
        return n == 0 ? 2 : n == 1 ? 8 : 16;
    }
    TRP__DEVICE int row(int i) const
    {
        return y + 4 * i;
    }
    TRP__DEVICE int column(int j) const
    {
        return x + 8 * j;
    }
    TRP__DEVICE int depth(int c) const
    {
        return (c / V) * 8 * V + x * V + c % V;
    }

    TRP__DEVICE static T value(element e)
    {
        return e;
    }

    /* Tells whether any of 16 bytes of elements is not finite. */
    TRP__DEVICE static bool is_odd(const trp__pack16 &x)
    {
        if (sizeof(T) == 8)
            return (x.word[1] & 0x7ff00000u) == 0x7ff00000u ||
                   (x.word[3] & 0x7ff00000u) == 0x7ff00000u;
        return (x.word[0] & 0x7f800000u) == 0x7f800000u ||
               (x.word[1] & 0x7f800000u) == 0x7f800000u ||
               (x.word[2] & 0x7f800000u) == 0x7f800000u || (x.word[3] & 0x7f800000u) == 0x7f800000u;
    }

    /* Writes four elements of a row to a tile, 0 from `count` on. Returns whether any is not
     * finite. */
    TRP__DEVICE static bool put4(element *to, const trp__attention_tensor &t, int64_t at, int count)
    {
        T v[4] = {0, 0, 0, 0};
        bool odd = false;
        if (t.vector && count >= 4) {
            trp__load_run<T, 4>(t.at, at, t.type, v);
        } else {
            TRP__ROLLED
            for (int k = 0; k < 4 && k < count; k++)
                v[k] = trp__load_float<T>(t.at, at + k * t.stride[3], t.type);
        }
        for (int k = 0; k < 4; k += V) {
            trp__quad<T> q;
            for (int n = 0; n < V; n++) {
                q.v[n] = v[k + n];
                odd = odd || v[k + n] - v[k + n] != 0;
            }
            *(trp__quad<T> *)(to + k) = q;
        }
        return odd;
    }

    TRP__DEVICE static void load_rows(quad p[RM], const T *from, int pitch)
    {
        TRP__EACH(i, RM)
            p[i] = *(const quad *)(from + i * 4 * pitch);
    }

    /* Multiplies V elements of each row, and loads the next ones meanwhile: all of a, one of b. The
     * last step loads elements beyond the row, which are not used. */
    TRP__DEVICE static void product_step(T s[RM][RN], const quad p[RM], quad next[RM], quad *q,
                                         const element *a, const element *b)
    {
        load_rows(next, a + V, PITCH);
        TRP__EACH(j, RN) {
            const quad now = *q;
            *q = *(const quad *)(j + 1 < RN ? b + (j + 1) * 8 * PITCH : b + V);
            TRP__EACH(v, V) {
                TRP__EACH(i, RM)
                    s[i][j] = trp__fma(p[i].v[v], now.v[v], s[i][j]);
            }
        }
    }

    /* Beyond `used` elements of a row, tiles hold zeros. */
    TRP__DEVICE void product(T s[RM][RN], const element *a, const element *b, int used) const
    {
        quad even[RM], odd[RM], q;
        a += row(0) * PITCH;
        b += column(0) * PITCH;
        load_rows(even, a, PITCH);
        q = *(const quad *)b;
        TRP__ROLLED
        for (int k = 0; k < used; k += 2 * V) {
            product_step(s, even, odd, &q, a, b);
            product_step(s, odd, even, &q, a + V, b + V);
            a += 2 * V;
            b += 2 * V;
        }
    }

    /* Multiplies V lines of b in the same way, with AHEAD quads in flight. `follow` is the line
     * after the last of these. */
    TRP__DEVICE static void weigh_step(T o[RM][RD], const quad p[RM], quad next[RM], quad q[AHEAD],
                                       const T *s, const element *b, const element *follow)
    {
        load_rows(next, s + V, SCRATCH);
        TRP__EACH(n, RD) {
            const int v = n / (RD / V), c = n % (RD / V);
            const int line = (n + AHEAD) / (RD / V), at = (n + AHEAD) % (RD / V) * 8 * V;
            const quad now = q[n % AHEAD];
            q[n % AHEAD] = *(const quad *)((line < V ? b + line * PITCH : follow) + at);
            TRP__EACH(k, V) {
                TRP__EACH(i, RM)
                    o[i][c * V + k] = trp__fma(p[i].v[v], now.v[k], o[i][c * V + k]);
            }
        }
    }

    /* A row of s is held by threads of one warp, so barriers of the warp are enough. */
    TRP__DEVICE void weigh(T o[RM][RD], const T s[RM][RN], T *scratch, const element *b, int from,
                           int to) const
    {
        quad even[RM], odd[RM], q[AHEAD];
        __syncwarp();
        trp__attention_spread(*this, s, scratch);
        __syncwarp();
        from = from / (2 * V) * (2 * V);
        scratch += row(0) * SCRATCH + from;
        b += from * PITCH + depth(0);
        load_rows(even, scratch, SCRATCH);
        TRP__EACH(c, AHEAD)
            q[c] = *(const quad *)(b + c * 8 * V);
        TRP__ROLLED
        for (int k = from; k < to; k += 2 * V) {
            const element *const middle = b + V * PITCH;
            const element *const follow = k + 2 * V < to ? b + 2 * V * PITCH : b;
            weigh_step(o, even, odd, q, scratch, b, middle);
            weigh_step(o, odd, even, q, scratch + V, middle, follow);
            scratch += 2 * V;
            b = follow;
        }
    }
};

#endif
