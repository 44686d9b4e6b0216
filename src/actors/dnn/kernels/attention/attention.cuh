/* Fused attention. All passes are written once, over an "engine", which says how a block multiplies
 * tiles in shared memory and which elements of the products a thread holds:
 *
 *   product(s, a, b, used)             s[OWN][WALK] += a[OWN][used] b[WALK][used]^T
 *   weigh(o, s, scratch, b, from, to)  o[OWN][DEPTH] += s[OWN][from..to] b[from..to][DEPTH]
 *
 * A thread holds s at rows row(i) and columns column(j), o at row(i) and depth(c). Lanes that
 * differ in the bits lane_mask(0) to lane_mask(LANE_BITS - 1) hold the rest of a row; a warp owns
 * OWN / 4 rows that follow each other. The forward pass and that to dq own rows and walk columns;
 * that to dk and dv owns columns and walks rows, with scores the other way round.
 *
 * A walked tile is copied while the product before the one that needs it is computed: two tiles, of
 * which one is read while the other is filled, between two barriers. */
#ifndef TRP_ACTORS_DNN_KERNELS_ATTENTION_ATTENTION_CUH
#define TRP_ACTORS_DNN_KERNELS_ATTENTION_ATTENTION_CUH

#include "actors/dnn/kernels/attention/attention.h"
#include "actors/dnn/kernels/common/element.cuh"
#include "actors/dnn/kernels/common/tensor_core.cuh"
#include "actors/dnn/math/philox.h"

#ifdef __CUDACC_RTC__
#define TRP__UNROLL    _Pragma("unroll")
#define TRP__NO_UNROLL _Pragma("unroll 1")
TRP__DEVICE float trp__fma(float a, float b, float c)
{
    return __fmaf_rn(a, b, c);
}
TRP__DEVICE double trp__fma(double a, double b, double c)
{
    return __fma_rn(a, b, c);
}
#else
#define TRP__UNROLL
#define TRP__NO_UNROLL
template <typename T> TRP__DEVICE T trp__fma(T a, T b, T c)
{
    return a * b + c;
}
#endif

/* exp(x) for x at most 0, or no number. */
TRP__DEVICE float trp__weight(float x)
{
    return exp2f(x * 1.44269504088896340736f);
}
TRP__DEVICE double trp__weight(double x)
{
    return exp(x);
}

/* The larger number; b where a is NaN. */
TRP__DEVICE float trp__larger(float a, float b)
{
    return fmaxf(a, b);
}
TRP__DEVICE double trp__larger(double a, double b)
{
    return fmax(a, b);
}

/* Copies 16 bytes of device memory to shared memory, or zeros, without waiting for them; they are
 * there for the thread after trp__wait_copies(), for the block after a barrier behind that. */
#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 800
TRP__DEVICE void trp__copy16(void *to, uint64_t from, bool zero)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "r"(zero ? 0 : 16)
                 : "memory");
}
TRP__DEVICE void trp__wait_copies(void)
{
    asm volatile("cp.async.wait_all;" : : : "memory");
}
#else
TRP__DEVICE void trp__copy16(void *to, uint64_t from, bool zero)
{
    *(trp__pack16 *)to = zero ? trp__pack16{{0, 0, 0, 0}} : trp__at<trp__pack16>(from, 0);
}
TRP__DEVICE void trp__wait_copies(void)
{
}
#endif

template <typename T> TRP__DEVICE T trp__lowest(void)
{
    return (T)-INFINITY;
}

/* --- What a batch's rows see --- */

struct trp__attention_span {
    int32_t rows, columns; /* that are in use */
    int64_t shift, window; /* of the diagonal */
    bool causal;

    /* Columns from first() to below end(); both grow with the row. */
    TRP__DEVICE int32_t first(int32_t row) const
    {
        const int64_t from = row + shift + 1 - window;
        return window > 0 && from > 0 ? (int32_t)(from < columns ? from : columns) : 0;
    }
    TRP__DEVICE int32_t end(int32_t row) const
    {
        const int64_t to = row + shift + 1;
        if (row >= rows)
            return 0;
        return causal && to < columns ? (int32_t)(to > 0 ? to : 0) : columns;
    }
    TRP__DEVICE bool sees(int32_t row, int32_t column) const
    {
        return column >= first(row) && column < end(row);
    }
    /* Whether all rows of a tile see all of its columns. */
    TRP__DEVICE bool whole(int32_t row, int32_t row_count, int32_t column, int32_t count) const
    {
        return row + row_count <= rows && first(row + row_count - 1) <= column &&
               end(row) >= column + count;
    }
    /* Rows that see any of some columns: from first_row() to below end_row(). */
    TRP__DEVICE int32_t first_row(int32_t column) const
    {
        const int64_t from = column - shift;
        return causal && from > 0 ? (int32_t)(from < rows ? from : rows) : 0;
    }
    TRP__DEVICE int32_t end_row(int32_t last_column) const
    {
        const int64_t to = last_column - shift + window;
        return window > 0 && to < rows ? (int32_t)(to > 0 ? to : 0) : rows;
    }
};

TRP__DEVICE int32_t trp__used_length(const trp__attention_tensor &t, int32_t batch, int32_t size)
{
    if (!t.at)
        return size;
    const int32_t length = trp__at<int32_t>(t.at, batch * t.stride[0]);
    return length <= 0 ? 0 : length < size ? length : size;
}

TRP__DEVICE trp__attention_span trp__span_of(const trp__attention &p, int32_t batch)
{
    trp__attention_span s;
    s.rows = trp__used_length(p.tensor[TRP__ATTENTION_SEQ_Q], batch, p.rows);
    s.columns = trp__used_length(p.tensor[TRP__ATTENTION_SEQ_KV], batch, p.columns);
    s.shift = p.bottom_right ? (int64_t)s.columns - s.rows : 0;
    s.window = p.window;
    s.causal = p.causal != 0;
    return s;
}

/* One element of a type that attention has. */
template <typename T> TRP__DEVICE T trp__load_real(uint64_t at, int64_t i, uint8_t type)
{
    return type == TRP_F32    ? (T)trp__at<float>(at, i)
           : type == TRP_BF16 ? (T)trp__bf16_to_f32(trp__at<uint16_t>(at, i))
           : type == TRP_F16  ? (T)trp__half_value(trp__at<uint16_t>(at, i))
                              : (T)trp__at<double>(at, i);
}

template <typename T>
TRP__DEVICE void trp__store_real(uint64_t at, int64_t i, uint8_t type, T value)
{
    if (type == TRP_F32)
        trp__to<float>(at, i) = (float)value;
    else if (type == TRP_BF16)
        trp__to<uint16_t>(at, i) = trp__to_bf16(value);
    else if (type == TRP_F16)
        trp__to<uint16_t>(at, i) = trp__to_f16(value);
    else
        trp__to<double>(at, i) = (double)value;
}

/* --- An engine of multiply-adds: f32 and f64 --- */

template <typename T> struct alignas(16) trp__quad {
    static constexpr int COUNT = 16 / (int)sizeof(T);
    T v[COUNT];
};

/* 4 warps of 4 x 8 threads. Rows in shared memory are 16 bytes apart from a multiple of all banks,
 * so that 8 threads that read 16 bytes of a row each have no bank conflicts. Of each 4 lanes 2 and
 * 2 read the same row of a, and 2 and 2 the same of b: two quarters of a warp then share one
 * access. */
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
    static constexpr int AHEAD = RD / V < 4 ? RD / V : 4; /* quads of b that are being loaded */
    static constexpr bool COMPUTE_BOUND = true;
    int y, x;

    TRP__DEVICE trp__simt()
        : y(warp() * (OWN / 4) + ((int)threadIdx.x & 1) + ((int)threadIdx.x >> 1 & 2)),
          x(((int)threadIdx.x >> 1 & 1) + ((int)threadIdx.x >> 2 & 6))
    {
    }
    /* Which quarter of the owned rows a warp has. A diagonal gives the last ones more work, and
     * warps of one number share a scheduler: so every other 128 blocks, which an SM has at a time
     * with those before, number them the other way round. */
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

    /* Whether any of 16 bytes of elements is not finite. */
    TRP__DEVICE static bool is_odd(const trp__pack16 &x)
    {
        if (sizeof(T) == 8)
            return (x.word[1] & 0x7ff00000u) == 0x7ff00000u ||
                   (x.word[3] & 0x7ff00000u) == 0x7ff00000u;
        return (x.word[0] & 0x7f800000u) == 0x7f800000u ||
               (x.word[1] & 0x7f800000u) == 0x7f800000u ||
               (x.word[2] & 0x7f800000u) == 0x7f800000u || (x.word[3] & 0x7f800000u) == 0x7f800000u;
    }

    /* Four elements of a row. */
    TRP__DEVICE static bool put4(element *to, const trp__attention_tensor &t, int64_t at, int count)
    {
        T v[4] = {0, 0, 0, 0};
        bool odd = false;
        if (t.vector && count >= 4) {
            trp__load_run<T, 4>(t.at, at, t.type, v);
        } else {
            TRP__NO_UNROLL
            for (int k = 0; k < 4 && k < count; k++)
                v[k] = trp__load_real<T>(t.at, at + k * t.stride[3], t.type);
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
        TRP__UNROLL
        for (int i = 0; i < RM; i++)
            p[i] = *(const quad *)(from + i * 4 * pitch);
    }

    /* Products of V elements of each row, while the next ones are loaded: all of a, one of b. The
     * last step loads what follows a row, which no one uses. */
    TRP__DEVICE static void product_step(T s[RM][RN], const quad p[RM], quad next[RM], quad *q,
                                         const element *a, const element *b)
    {
        load_rows(next, a + V, PITCH);
        TRP__UNROLL
        for (int j = 0; j < RN; j++) {
            const quad now = *q;
            *q = *(const quad *)(j + 1 < RN ? b + (j + 1) * 8 * PITCH : b + V);
            TRP__UNROLL
            for (int v = 0; v < V; v++) {
                TRP__UNROLL
                for (int i = 0; i < RM; i++)
                    s[i][j] = trp__fma(p[i].v[v], now.v[v], s[i][j]);
            }
        }
    }

    /* Behind `used` tiles hold zeros. */
    TRP__DEVICE void product(T s[RM][RN], const element *a, const element *b, int used) const
    {
        quad even[RM], odd[RM], q;
        a += row(0) * PITCH;
        b += column(0) * PITCH;
        load_rows(even, a, PITCH);
        q = *(const quad *)b;
        TRP__NO_UNROLL
        for (int k = 0; k < used; k += 2 * V) {
            product_step(s, even, odd, &q, a, b);
            product_step(s, odd, even, &q, a + V, b + V);
            a += 2 * V;
            b += 2 * V;
        }
    }

    /* The same of V lines of b, AHEAD quads ahead; behind the last line follows that at `follow`.
     */
    TRP__DEVICE static void weigh_step(T o[RM][RD], const quad p[RM], quad next[RM], quad q[AHEAD],
                                       const T *s, const element *b, const element *follow)
    {
        load_rows(next, s + V, SCRATCH);
        TRP__UNROLL
        for (int n = 0; n < RD; n++) {
            const int v = n / (RD / V), c = n % (RD / V);
            const int line = (n + AHEAD) / (RD / V), at = (n + AHEAD) % (RD / V) * 8 * V;
            const quad now = q[n % AHEAD];
            q[n % AHEAD] = *(const quad *)((line < V ? b + line * PITCH : follow) + at);
            TRP__UNROLL
            for (int k = 0; k < V; k++) {
                TRP__UNROLL
                for (int i = 0; i < RM; i++)
                    o[i][c * V + k] = trp__fma(p[i].v[v], now.v[k], o[i][c * V + k]);
            }
        }
    }

    /* Rows of s are held by threads of one warp. */
    TRP__DEVICE void weigh(T o[RM][RD], const T s[RM][RN], T *scratch, const element *b, int from,
                           int to) const
    {
        quad even[RM], odd[RM], q[AHEAD];
        __syncwarp();
        spread(s, scratch);
        __syncwarp();
        from = from / (2 * V) * (2 * V);
        scratch += row(0) * SCRATCH + from;
        b += from * PITCH + depth(0);
        load_rows(even, scratch, SCRATCH);
        TRP__UNROLL
        for (int c = 0; c < AHEAD; c++)
            q[c] = *(const quad *)(b + c * 8 * V);
        TRP__NO_UNROLL
        for (int k = from; k < to; k += 2 * V) {
            const element *const middle = b + V * PITCH;
            const element *const follow = k + 2 * V < to ? b + 2 * V * PITCH : b;
            weigh_step(o, even, odd, q, scratch, b, middle);
            weigh_step(o, odd, even, q, scratch + V, middle, follow);
            scratch += 2 * V;
            b = follow;
        }
    }

    TRP__DEVICE void spread(const T s[RM][RN], T *scratch) const
    {
        TRP__UNROLL
        for (int i = 0; i < RM; i++) {
            TRP__UNROLL
            for (int j = 0; j < RN; j++)
                scratch[row(i) * SCRATCH + column(j)] = s[i][j];
        }
    }
};

/* --- An engine of tensor cores: f16 and bf16 --- */

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
            TRP__NO_UNROLL
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
            TRP__UNROLL
            for (int i = 0; i < RM / 2; i++)
                trp__load_matrices<false>(a + (warp() * (OWN / 4) + i * 16 + lane % 16) * PITCH +
                                              k + lane / 16 * 8,
                                          p[i]);
            TRP__UNROLL
            for (int n = 0; n < WALK / 16; n++) {
                uint32_t q[4];
                trp__load_matrices<false>(
                    b + (n * 16 + lane / 16 * 8 + lane % 8) * PITCH + k + lane / 8 % 2 * 8, q);
                TRP__UNROLL
                for (int i = 0; i < RM / 2; i++) {
                    multiply(&s[2 * i][4 * n], &s[2 * i + 1][4 * n], p[i], q);
                    multiply(&s[2 * i][4 * n + 2], &s[2 * i + 1][4 * n + 2], p[i], q + 2);
                }
            }
        }
    }

    TRP__DEVICE void weigh(float o[RM][RD], const float s[RM][RN], float *, const element *b, int,
                           int to) const
    {
        TRP__UNROLL
        for (int k = 0; k < WALK / 16; k++) {
            uint32_t p[RM / 2][4];
            if (k * 16 >= to)
                break;
            TRP__UNROLL
            for (int i = 0; i < RM / 2; i++) {
                TRP__UNROLL
                for (int w = 0; w < 4; w++)
                    p[i][w] = pair(s[2 * i + w % 2][4 * k + w / 2 * 2],
                                   s[2 * i + w % 2][4 * k + w / 2 * 2 + 1]);
            }
            TRP__UNROLL
            for (int n = 0; n < DEPTH / 16; n++) {
                uint32_t q[4];
                trp__load_matrices<true>(
                    b + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * PITCH + n * 16 + lane / 16 * 8, q);
                TRP__UNROLL
                for (int i = 0; i < RM / 2; i++) {
                    multiply(&o[2 * i][4 * n], &o[2 * i + 1][4 * n], p[i], q);
                    multiply(&o[2 * i][4 * n + 2], &o[2 * i + 1][4 * n + 2], p[i], q + 2);
                }
            }
        }
    }

    TRP__DEVICE void spread(const float s[RM][RN], float *scratch) const
    {
        TRP__UNROLL
        for (int i = 0; i < RM; i++) {
            TRP__UNROLL
            for (int j = 0; j < RN; j++)
                scratch[row(i) * SCRATCH + column(j)] = s[i][j];
        }
    }
};

/* --- What all passes share --- */

/* The shared memory of a block: tiles that it owns, one forward and two backward, and walks. */
template <typename E> struct trp__attention_memory {
    typename E::element own[E::OWNED][E::OWN * E::PITCH];
    typename E::element walk[2][E::WALK * E::PITCH];
    typename E::T scratch[E::OWN * E::SCRATCH];
    typename E::T sums[TRP__ATTENTION_SUMS][E::WALK]; /* of rows that are walked */
    uint8_t kept[E::OWN * E::WALK / 4];               /* 4 bits each: weights not dropped */
    int32_t
        odd[2]; /* whether the walked tiles hold what is not finite: of this turn and the next */
    int32_t any;
};

/* How many of so many accesses of a thread are under way at a time. */
TRP__DEVICE constexpr int trp__attention_run(int count)
{
    return count < 8 ? count : 8;
}

/* Whether 16 bytes of a tile are 16 bytes of the tensor, as they are. */
template <typename E> TRP__DEVICE bool trp__copies(const trp__attention_tensor &t, int32_t depth)
{
    return t.type == E::NATIVE && t.chunk && depth % (16 / (int)sizeof(typename E::element)) == 0;
}

/* Starts to fill a tile with rows of a tensor; zeros for what is behind the last row or element.
 * Tensors that are not copied as they are, are there when it returns. True: some of these are not
 * finite. */
template <typename E, int ROWS>
TRP__DEVICE bool trp__load_tile(typename E::element *tile, const trp__attention_tensor &t,
                                int64_t batch, int64_t head, int32_t first, int32_t end,
                                int32_t depth)
{
    constexpr int SIZE = (int)sizeof(typename E::element), PER = 16 / SIZE;
    constexpr int LINE = E::DEPTH / PER, STEP = TRP__ATTENTION_THREADS / LINE;
    static_assert(TRP__ATTENTION_THREADS % LINE == 0, "a thread copies one part of all its rows");
    const int64_t base = batch * t.stride[0] + head * t.stride[1];
    bool odd = false;
    if (trp__copies<E>(t, depth)) {
        const int own_row = (int)threadIdx.x / LINE, at = (int)threadIdx.x % LINE * PER;
        const int32_t count = at < depth ? end - first : 0;
        const uint64_t step = (uint64_t)t.stride[2] * (STEP * SIZE);
        uint64_t from =
            t.at + (uint64_t)(base + (int64_t)(first + own_row) * t.stride[2] + at) * SIZE;
        TRP__NO_UNROLL
        for (int row = own_row; row < ROWS; row += STEP) {
            trp__copy16(tile + row * E::PITCH + at, row < count ? from : t.at, row >= count);
            from += step;
        }
        return false;
    }
    TRP__NO_UNROLL
    for (int i = (int)threadIdx.x; i < ROWS * (E::DEPTH / 4); i += TRP__ATTENTION_THREADS) {
        const int row = i / (E::DEPTH / 4), at = i % (E::DEPTH / 4) * 4;
        const int count = first + row < end ? depth - at : 0;
        odd |= E::put4(tile + row * E::PITCH + at, t,
                       base + (int64_t)(first + row) * t.stride[2] + at * t.stride[3], count);
    }
    return odd;
}

/* Whether any of what this thread has copied to a tile, once it is there, is not finite. */
template <typename E, int ROWS>
TRP__DEVICE bool trp__odd_tile(const typename E::element *tile, const trp__attention_tensor &t,
                               int32_t depth)
{
    constexpr int PER = 16 / (int)sizeof(typename E::element), LINE = E::DEPTH / PER;
    bool odd = false;
    if (!trp__copies<E>(t, depth))
        return false;
    TRP__NO_UNROLL
    for (int i = (int)threadIdx.x; i < ROWS * LINE; i += TRP__ATTENTION_THREADS)
        odd |= E::is_odd(*(const trp__pack16 *)(tile + i / LINE * E::PITCH + i % LINE * PER));
    return odd;
}

TRP__DEVICE uint32_t trp__kept_bits(const trp__attention &p, uint64_t seed, uint64_t offset,
                                    uint64_t number)
{
    uint32_t word[TRP__PHILOX_WORDS], bits = 0;
    trp__philox_block(seed, offset, number / 4, word);
    for (int k = 0; k < 4; k++)
        bits |= (uint32_t)((word[k] >> 8) >= p.threshold) << k;
    return bits;
}

/* Which weights of so many rows and columns are not dropped: 4 of a row a byte. */
TRP__DEVICE void trp__fill_kept(const trp__attention &p, uint8_t *kept, int64_t head, int32_t row,
                                int rows, int32_t column, int columns)
{
    const uint64_t seed = p.seed_at ? trp__at<uint64_t>(p.seed_at, 0) : p.seed;
    const uint64_t offset = p.offset_at ? trp__at<uint64_t>(p.offset_at, 0) : p.offset;
    for (int i = (int)threadIdx.x; i < rows * (columns / 4); i += TRP__ATTENTION_THREADS) {
        const uint64_t number =
            (uint64_t)(head * p.rows + row + i / (columns / 4)) * (uint64_t)p.columns +
            (uint64_t)(column + i % (columns / 4) * 4);
        const uint32_t behind = (uint32_t)(number % 4);
        uint32_t bits = trp__kept_bits(p, seed, offset, number);
        if (behind)
            bits = bits >> behind | trp__kept_bits(p, seed, offset, number + 3) << (4 - behind);
        kept[i] = (uint8_t)(bits & 15);
    }
}

/* Of one head: what is added to scores. */
template <typename T> struct trp__attention_scores {
    const trp__attention *p;
    trp__attention_span span;
    bool bias, plain; /* plain: a score is a product times the scale */
    T scale, slope;

    TRP__DEVICE trp__attention_scores(const trp__attention &q, int32_t batch, int32_t head)
        : p(&q), span(trp__span_of(q, batch)), bias(q.tensor[TRP__ATTENTION_BIAS].at != 0),
          plain(!bias && !q.tensor[TRP__ATTENTION_SLOPES].at), scale((T)q.scale), slope(0)
    {
        const trp__attention_tensor &s = q.tensor[TRP__ATTENTION_SLOPES];
        if (s.at)
            slope = trp__load_real<T>(s.at, head * s.stride[1], s.type);
    }

    /* The score of a product of q and k, given where its bias is. */
    TRP__DEVICE T of(T product, const T *add, int32_t row, int32_t column) const
    {
        T s = product * scale;
        if (bias && *add == -(T)INFINITY)
            return *add; /* hidden, whatever the product is */
        if (bias)
            s += *add;
        if (p->tensor[TRP__ATTENTION_SLOPES].at)
            s += slope * (T)(column - row);
        return s;
    }
};

/* The part of a tile of scores that a warp holds. */
template <typename E, bool TURNED> struct trp__attention_part {
    int from, to; /* what any of its rows, or columns, sees of the tile that is walked */
    bool whole;   /* all of them see all of it */
    TRP__DEVICE trp__attention_part(const trp__attention_span &span, int32_t own, int32_t walk)
    {
        constexpr int COUNT = E::OWN / 4;
        const int32_t first = own + E::warp() * COUNT;
        const int32_t size = TURNED ? span.columns : span.rows;
        const int32_t last = (first + COUNT < size ? first + COUNT : size) - 1;
        from = to = 0;
        whole = TURNED ? span.whole(walk, E::WALK, first, COUNT)
                       : span.whole(first, COUNT, walk, E::WALK);
        if (last < first)
            return;
        from = (TURNED ? span.first_row(first) : span.first(first)) - walk;
        to = (TURNED ? span.end_row(last) : span.end(last)) - walk;
        from = from > 0 ? from : 0;
        to = to < E::WALK ? to : E::WALK;
    }
    TRP__DEVICE bool any() const
    {
        return from < to;
    }
};

/* o += s b where b holds what is not finite: what is not seen has no part, not even 0 times that.
 */
template <typename E, bool TURNED>
TRP__DEVICE void trp__weigh_seen(const E &e, typename E::T o[E::RM][E::RD],
                                 const typename E::T s[E::RM][E::RN], typename E::T *scratch,
                                 const typename E::element *b, const trp__attention_span &span,
                                 int32_t own, int32_t walk)
{
    __syncwarp();
    e.spread(s, scratch);
    __syncwarp();
    TRP__UNROLL
    for (int i = 0; i < E::RM; i++) {
        TRP__NO_UNROLL
        for (int k = 0; k < E::WALK; k++) {
            const int32_t row = TURNED ? walk + k : own + e.row(i);
            const int32_t column = TURNED ? own + e.row(i) : walk + k;
            const typename E::T weight = scratch[e.row(i) * E::SCRATCH + k];
            if (!span.sees(row, column) || weight == 0)
                continue;
            TRP__UNROLL
            for (int c = 0; c < E::RD; c++)
                o[i][c] = trp__fma(weight, E::value(b[k * E::PITCH + e.depth(c)]), o[i][c]);
        }
    }
}

/* `odd`: b holds what is not finite. */
template <typename E, bool TURNED>
TRP__DEVICE void trp__weigh(const E &e, typename E::T o[E::RM][E::RD],
                            const typename E::T s[E::RM][E::RN], typename E::T *scratch,
                            const typename E::element *b, bool odd,
                            const trp__attention_scores<typename E::T> &scores,
                            const trp__attention_part<E, TURNED> &part, int32_t own, int32_t walk)
{
    if (odd && (scores.bias || !part.whole))
        trp__weigh_seen<E, TURNED>(e, o, s, scratch, b, scores.span, own, walk);
    else
        e.weigh(o, s, scratch, b, part.from, part.to);
}

/* Writes a tile, by way of shared memory, so that threads write what follows each other. */
template <typename E>
TRP__DEVICE void trp__store_tile(const E &e, trp__attention_memory<E> *m,
                                 const trp__attention_tensor &t, int64_t batch, int64_t head,
                                 int32_t first, int32_t end, int32_t depth,
                                 const typename E::T o[E::RM][E::RD])
{
    typedef typename E::T T;
    constexpr int PITCH = E::DEPTH + 4;
    static_assert(E::OWN * PITCH * sizeof(T) <= sizeof *m, "as large as a tile");
    const int64_t base = batch * t.stride[0] + head * t.stride[1];
    T *const tile = (T *)m;
    trp__wait_copies();
    __syncthreads();
    TRP__UNROLL
    for (int i = 0; i < E::RM; i++) {
        TRP__UNROLL
        for (int c = 0; c < E::RD; c++)
            tile[e.row(i) * PITCH + e.depth(c)] = o[i][c];
    }
    __syncthreads();
    TRP__NO_UNROLL
    for (int i = (int)threadIdx.x; i < E::OWN * (E::DEPTH / 4); i += TRP__ATTENTION_THREADS) {
        const int row = i / (E::DEPTH / 4), at = i % (E::DEPTH / 4) * 4;
        const int64_t to = base + (int64_t)(first + row) * t.stride[2] + at * t.stride[3];
        if (first + row >= end)
            continue;
        if (t.vector && at + 4 <= depth) {
            trp__store_run<T, 4>(t.at, to, t.type, &tile[row * PITCH + at]);
            continue;
        }
        TRP__NO_UNROLL
        for (int k = 0; k < 4 && at + k < depth; k++)
            trp__store_real<T>(t.at, to + k * t.stride[3], t.type, tile[row * PITCH + at + k]);
    }
}

TRP__DEVICE float trp__bias_value(float stored, uint8_t)
{
    return stored;
}
TRP__DEVICE double trp__bias_value(double stored, uint8_t)
{
    return stored;
}
TRP__DEVICE float trp__bias_value(uint16_t stored, uint8_t type)
{
    return type == TRP_BF16 ? trp__bf16_to_f32(stored) : trp__half_value(stored);
}

template <typename E, bool TURNED, typename STORED>
TRP__DEVICE void trp__copy_bias(trp__attention_memory<E> *m, const trp__attention &p, int64_t base,
                                int32_t own, int32_t walk)
{
    const trp__attention_tensor &t = p.tensor[TRP__ATTENTION_BIAS];
    constexpr int FAST = TURNED ? E::OWN : E::WALK;
    constexpr int EACH = E::OWN * E::WALK / TRP__ATTENTION_THREADS,
                  BATCH = trp__attention_run(EACH);
    TRP__NO_UNROLL
    for (int n = 0; n < EACH; n += BATCH) {
        STORED x[BATCH];
        TRP__UNROLL
        for (int k = 0; k < BATCH; k++) {
            const int i = (n + k) * TRP__ATTENTION_THREADS + (int)threadIdx.x;
            const int32_t row = (TURNED ? walk : own) + i / FAST;
            const int32_t column = (TURNED ? own : walk) + i % FAST;
            x[k] = 0;
            if (row < p.rows && column < p.columns)
                x[k] = trp__at<STORED>(t.at, base + row * t.stride[2] + column * t.stride[3]);
        }
        TRP__UNROLL
        for (int k = 0; k < BATCH; k++) {
            const int i = (n + k) * TRP__ATTENTION_THREADS + (int)threadIdx.x;
            m->scratch[TURNED ? i % FAST * E::SCRATCH + i / FAST
                              : i / FAST * E::SCRATCH + i % FAST] =
                (typename E::T)trp__bias_value(x[k], t.type);
        }
    }
}

/* Copies the part of a bias that is added to a tile of scores into the scratch memory. */
template <typename E, bool TURNED>
TRP__DEVICE void trp__load_bias(trp__attention_memory<E> *m, const trp__attention &p, int32_t batch,
                                int32_t head, int32_t own, int32_t walk)
{
    const trp__attention_tensor &t = p.tensor[TRP__ATTENTION_BIAS];
    const int64_t base = batch * t.stride[0] + head * t.stride[1];
    if (!t.at)
        return;
    if (t.type == TRP_F32)
        trp__copy_bias<E, TURNED, float>(m, p, base, own, walk);
    else if (t.type == TRP_F64)
        trp__copy_bias<E, TURNED, double>(m, p, base, own, walk);
    else
        trp__copy_bias<E, TURNED, uint16_t>(m, p, base, own, walk);
}

template <typename E, int COUNT> TRP__DEVICE void trp__clear(typename E::T (&o)[E::RM][COUNT])
{
    TRP__UNROLL
    for (int i = 0; i < E::RM; i++) {
        TRP__UNROLL
        for (int c = 0; c < COUNT; c++)
            o[i][c] = 0;
    }
}

template <typename E> TRP__DEVICE typename E::T trp__row_most(typename E::T value)
{
    TRP__UNROLL
    for (int n = 0; n < E::LANE_BITS; n++)
        value = trp__larger(__shfl_xor_sync(0xffffffffu, value, E::lane_mask(n)), value);
    return value;
}

template <typename E> TRP__DEVICE typename E::T trp__row_sum(typename E::T value)
{
    TRP__UNROLL
    for (int n = 0; n < E::LANE_BITS; n++)
        value += __shfl_xor_sync(0xffffffffu, value, E::lane_mask(n));
    return value;
}

/* Which tile a block owns. Causal attention begins with the tiles of the most work: those of all
 * heads where products take the time, so that the last blocks are short; of each head where copies
 * do, so that its tiles stay in the cache. */
struct trp__attention_block {
    int32_t tile, batch, head; /* the first element of the tile */
    TRP__DEVICE trp__attention_block(const trp__attention &p, int32_t size, int32_t own,
                                     int32_t heads, bool last_first, bool compute_bound)
    {
        const uint32_t tiles = (uint32_t)(size + own - 1) / (uint32_t)own;
        const uint32_t all_heads = (uint32_t)heads * (uint32_t)p.batches;
        const bool by_tile = compute_bound && p.causal;
        const uint32_t all =
            by_tile ? (uint32_t)blockIdx.x % all_heads : (uint32_t)blockIdx.x / tiles;
        const uint32_t one =
            by_tile ? (uint32_t)blockIdx.x / all_heads : (uint32_t)blockIdx.x % tiles;
        tile = (int32_t)(last_first && p.causal ? tiles - 1 - one : one) * own;
        batch = (int32_t)(all / (uint32_t)heads);
        head = (int32_t)(all % (uint32_t)heads);
    }
};

/* Products of a tile become scores, unseen ones minus infinity. */
template <typename E, bool PLAIN, bool WHOLE>
TRP__DEVICE void trp__score(const E &e, const typename E::T *bias,
                            const trp__attention_scores<typename E::T> &scores, int32_t own,
                            int32_t walk, typename E::T s[E::RM][E::RN])
{
    TRP__UNROLL
    for (int i = 0; i < E::RM; i++) {
        const int32_t row = own + e.row(i);
        const int32_t first = WHOLE ? 0 : scores.span.first(row);
        const int32_t end = WHOLE ? 0 : scores.span.end(row);
        TRP__UNROLL
        for (int j = 0; j < E::RN; j++) {
            const int32_t column = walk + e.column(j);
            const typename E::T score =
                PLAIN ? s[i][j] * scores.scale
                      : scores.of(s[i][j], &bias[e.row(i) * E::SCRATCH + e.column(j)], row, column);
            s[i][j] =
                WHOLE || (column >= first && column < end) ? score : trp__lowest<typename E::T>();
        }
    }
}

/* Scores of a tile, and the largest and the sum of each row so far: the weights, relative to the
 * largest. What o is to be multiplied by comes in `again`. */
template <typename E>
TRP__DEVICE void trp__soft_max(const E &e, const trp__attention_memory<E> *m,
                               const trp__attention_scores<typename E::T> &scores, bool whole,
                               int32_t own, int32_t walk, typename E::T s[E::RM][E::RN],
                               typename E::T most[E::RM], typename E::T sum[E::RM],
                               typename E::T again[E::RM])
{
    typedef typename E::T T;
    if (!scores.plain)
        trp__score<E, false, false>(e, m->scratch, scores, own, walk, s);
    else if (whole)
        trp__score<E, true, true>(e, m->scratch, scores, own, walk, s);
    else
        trp__score<E, true, false>(e, m->scratch, scores, own, walk, s);
    TRP__UNROLL
    for (int i = 0; i < E::RM; i++) {
        T largest = most[i];
        TRP__UNROLL
        for (int j = 0; j < E::RN; j++)
            largest = trp__larger(s[i][j], largest);
        largest = trp__row_most<E>(largest);
        const T from = largest == trp__lowest<T>() ? T(0) : largest;
        again[i] = trp__weight(most[i] - from);
        most[i] = largest;
        sum[i] *= again[i];
        TRP__UNROLL
        for (int j = 0; j < E::RN; j++) {
            s[i][j] = trp__weight(s[i][j] - from);
            sum[i] += s[i][j];
        }
    }
}

/* --- Forward --- */

template <typename E> TRP__DEVICE void trp__attention_forward(const trp__attention &p)
{
    typedef typename E::T T;
    TRP__DYNAMIC(trp__attention_memory<E>, m);
    static_assert(sizeof *m <= E::SHARED, "as much as a launch has");
    const E e;
    const trp__attention_block block(p, p.rows, E::OWN, p.heads, true, E::COMPUTE_BOUND);
    const int32_t own = block.tile, shared = block.head / (p.heads / p.shared_heads);
    const trp__attention_scores<T> scores(p, block.batch, block.head);
    const trp__attention_span &span = scores.span;
    const int32_t last = (own + E::OWN < span.rows ? own + E::OWN : span.rows) - 1;
    const int32_t end = last >= own ? span.end(last) : 0;
    T o[E::RM][E::RD], most[E::RM], sum[E::RM];
    trp__clear<E>(o);
    for (int i = 0; i < E::RM; i++) {
        most[i] = trp__lowest<T>();
        sum[i] = 0;
    }
    if (threadIdx.x == 0)
        m->odd[0] = m->odd[1] = 0;
    trp__load_tile<E, E::OWN>(m->own[0], p.tensor[TRP__ATTENTION_Q], block.batch, block.head, own,
                              span.rows, p.depth);
    const trp__attention_tensor &k = p.tensor[TRP__ATTENTION_K], &v = p.tensor[TRP__ATTENTION_V];
    const int32_t start = span.first(own) / E::WALK * E::WALK;
    if (start < end)
        trp__load_tile<E, E::WALK>(m->walk[0], k, block.batch, shared, start, span.columns,
                                   p.depth);
    int turn = 0;
    TRP__NO_UNROLL
    for (int32_t walk = start; walk < end; walk += E::WALK) {
        T s[E::RM][E::RN], again[E::RM];
        const trp__attention_part<E, false> part(span, own, walk);
        trp__wait_copies();
        __syncthreads(); /* k is there, v free */
        bool odd = trp__load_tile<E, E::WALK>(m->walk[1], v, block.batch, shared, walk,
                                              span.columns, p.width);
        trp__load_bias<E, false>(m, p, block.batch, block.head, own, walk);
        if (p.dropout)
            trp__fill_kept(p, m->kept, (int64_t)block.batch * p.heads + block.head, own, E::OWN,
                           walk, E::WALK);
        trp__clear<E>(s);
        if (part.any())
            e.product(s, m->own[0], m->walk[0], p.depth);
        trp__wait_copies();
        if (scores.bias || !span.whole(own, E::OWN, walk, E::WALK))
            odd |= trp__odd_tile<E, E::WALK>(m->walk[1], v, p.width);
        if (odd)
            m->odd[turn] = 1;
        __syncthreads(); /* v is there, k free */
        odd = m->odd[turn];
        turn ^= 1;
        if (threadIdx.x == 0)
            m->odd[turn] = 0;
        if (walk + E::WALK < end)
            trp__load_tile<E, E::WALK>(m->walk[0], k, block.batch, shared, walk + E::WALK,
                                       span.columns, p.depth);
        if (!part.any())
            continue;
        trp__soft_max(e, m, scores, part.whole, own, walk, s, most, sum, again);
        TRP__UNROLL
        for (int i = 0; i < E::RM; i++) {
            TRP__UNROLL
            for (int c = 0; c < E::RD; c++)
                o[i][c] *= again[i];
            if (p.dropout) {
                TRP__UNROLL
                for (int j = 0; j < E::RN; j++) {
                    const int column = e.column(j);
                    const bool kept =
                        m->kept[e.row(i) * (E::WALK / 4) + column / 4] >> column % 4 & 1;
                    s[i][j] = kept ? s[i][j] * (T)p.factor : T(0);
                }
            }
        }
        trp__weigh<E, false>(e, o, s, m->scratch, m->walk[1], odd, scores, part, own, walk);
    }
    TRP__UNROLL
    for (int i = 0; i < E::RM; i++) {
        const int32_t row = own + e.row(i);
        const T all = trp__row_sum<E>(sum[i]);
        const T by = all == 0 ? T(0) : T(1) / all;
        TRP__UNROLL
        for (int c = 0; c < E::RD; c++)
            o[i][c] = all == 0 ? T(0) : o[i][c] * by;
        const trp__attention_tensor &t = p.tensor[TRP__ATTENTION_STATS];
        if (t.at && row < p.rows && e.column(0) == 0)
            trp__store_real<T>(
                t.at, block.batch * t.stride[0] + block.head * t.stride[1] + row * t.stride[2],
                t.type, all == 0 ? trp__lowest<T>() : most[i] + log(all));
    }
    trp__store_tile(e, m, p.tensor[TRP__ATTENTION_Y], block.batch, block.head, own, p.rows, p.width,
                    o);
}

/* --- Backward --- */

/* dy y of rows that see anything, else 0: 8 lanes a row, the next of the same lanes 16 rows on. All
 * of them load at a time. */
template <typename E>
TRP__DEVICE void trp__row_products(const trp__attention &p, const trp__attention_span &span,
                                   int64_t batch, int64_t head, int32_t own,
                                   typename E::T sum[E::OWN / 16])
{
    typedef typename E::T T;
    constexpr int PER = 16 / (int)sizeof(typename E::element), ROWS = E::OWN / 16;
    const trp__attention_tensor &dy = p.tensor[TRP__ATTENTION_DY], &y = p.tensor[TRP__ATTENTION_Y];
    const int64_t from_dy = batch * dy.stride[0] + head * dy.stride[1];
    const int64_t from_y = batch * y.stride[0] + head * y.stride[1];
    const bool copies = trp__copies<E>(dy, p.width) && trp__copies<E>(y, p.width);
    TRP__UNROLL
    for (int r = 0; r < ROWS; r++)
        sum[r] = 0;
    TRP__NO_UNROLL
    for (int32_t c = (int32_t)threadIdx.x % 8 * PER; c < p.width; c += 8 * PER) {
        trp__pack16 a[ROWS], b[ROWS];
        TRP__UNROLL
        for (int r = 0; r < ROWS; r++) {
            const int32_t row = own + r * 16 + (int32_t)threadIdx.x / 8;
            const bool sees = span.end(row) > span.first(row);
            a[r] = b[r] = trp__pack16{{0, 0, 0, 0}};
            if (sees && copies) {
                const uint64_t size = sizeof(typename E::element);
                a[r] = trp__at<trp__pack16>(
                    dy.at + (uint64_t)(from_dy + row * dy.stride[2] + c) * size, 0);
                b[r] = trp__at<trp__pack16>(
                    y.at + (uint64_t)(from_y + row * y.stride[2] + c) * size, 0);
            }
            TRP__NO_UNROLL
            for (int32_t k = c; k < c + PER && k < p.width && sees && !copies; k++)
                sum[r] +=
                    trp__load_real<T>(dy.at, from_dy + row * dy.stride[2] + k * dy.stride[3],
                                      dy.type) *
                    trp__load_real<T>(y.at, from_y + row * y.stride[2] + k * y.stride[3], y.type);
        }
        TRP__UNROLL
        for (int r = 0; r < ROWS && copies; r++) {
            typename E::element x[PER], z[PER];
            memcpy(x, &a[r], sizeof x);
            memcpy(z, &b[r], sizeof z);
            TRP__UNROLL
            for (int k = 0; k < PER; k++)
                sum[r] += E::value(x[k]) * E::value(z[k]);
        }
    }
    TRP__UNROLL
    for (int r = 0; r < ROWS; r++) {
        TRP__UNROLL
        for (int mask = 1; mask < 8; mask *= 2)
            sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], mask);
    }
}

/* The largest score of a row and 1 / sum are those of the forward pass. Where stats, their
 * logarithm, are so large that it has lost the digits of the sum, both are computed again. */
template <typename E> TRP__DEVICE void trp__attention_rows(const trp__attention &p)
{
    typedef typename E::T T;
    TRP__DYNAMIC(trp__attention_memory<E>, m);
    static_assert(sizeof *m <= E::SHARED, "as much as a launch has");
    const E e;
    const trp__attention_block block(p, p.rows, E::OWN, p.heads, true, E::COMPUTE_BOUND);
    const int32_t own = block.tile, shared = block.head / (p.heads / p.shared_heads);
    const int64_t head = (int64_t)block.batch * p.heads + block.head;
    const trp__attention_scores<T> scores(p, block.batch, block.head);
    const trp__attention_span &span = scores.span;
    const trp__attention_tensor &stats = p.tensor[TRP__ATTENTION_STATS];
    const int32_t last = (own + E::OWN < span.rows ? own + E::OWN : span.rows) - 1;
    const int32_t end = last >= own ? span.end(last) : 0;
    const T limit = p.recompute ? T(-1) : T(64);
    if (threadIdx.x == 0)
        m->any = 0;
    __syncthreads();
    T dot[E::OWN / 16];
    trp__row_products<E>(p, span, block.batch, block.head, own, dot);
    for (int r = 0; r < E::OWN / 16; r++) {
        const int32_t row = own + r * 16 + (int32_t)threadIdx.x / 8;
        const bool sees = span.end(row) > span.first(row);
        if (threadIdx.x % 8 != 0 || row >= p.rows)
            continue;
        const T most = trp__load_real<T>(stats.at,
                                         block.batch * stats.stride[0] +
                                             block.head * stats.stride[1] + row * stats.stride[2],
                                         stats.type);
        if (sees && most != trp__lowest<T>() && !(most <= limit && most >= -limit))
            m->any = 1;
        const bool none = !sees || most == trp__lowest<T>();
        const int64_t to = (head * p.rows + row) * TRP__ATTENTION_SUMS;
        trp__to<T>(p.sums, to) = none ? T(0) : most;
        trp__to<T>(p.sums, to + 1) = none ? T(0) : T(1);
        trp__to<T>(p.sums, to + 2) = dot[r];
    }
    __syncthreads();
    if (!m->any)
        return;
    T most[E::RM], sum[E::RM];
    for (int i = 0; i < E::RM; i++) {
        most[i] = trp__lowest<T>();
        sum[i] = 0;
    }
    trp__load_tile<E, E::OWN>(m->own[0], p.tensor[TRP__ATTENTION_Q], block.batch, block.head, own,
                              span.rows, p.depth);
    TRP__NO_UNROLL
    for (int32_t walk = span.first(own) / E::WALK * E::WALK; walk < end; walk += E::WALK) {
        T s[E::RM][E::RN], again[E::RM];
        __syncthreads();
        trp__load_tile<E, E::WALK>(m->walk[0], p.tensor[TRP__ATTENTION_K], block.batch, shared,
                                   walk, span.columns, p.depth);
        trp__load_bias<E, false>(m, p, block.batch, block.head, own, walk);
        trp__wait_copies();
        __syncthreads();
        trp__clear<E>(s);
        e.product(s, m->own[0], m->walk[0], p.depth);
        trp__soft_max(e, m, scores, false, own, walk, s, most, sum, again);
    }
    TRP__UNROLL
    for (int i = 0; i < E::RM; i++) {
        const int32_t row = own + e.row(i);
        const T all = trp__row_sum<E>(sum[i]);
        const int64_t to = (head * p.rows + row) * TRP__ATTENTION_SUMS;
        if (row < p.rows && e.column(0) == 0) {
            trp__to<T>(p.sums, to) = all == 0 ? T(0) : most[i];
            trp__to<T>(p.sums, to + 1) = all == 0 ? T(0) : T(1) / all;
        }
    }
}

/* Products of q and k and of dy and v: s becomes weights, once some are dropped, dp gradients of
 * scores. The sums of rows are those of a thread's own rows, or of the rows that are walked. */
template <typename E, bool TURNED, bool PLAIN, bool WHOLE>
TRP__DEVICE void trp__attention_slopes_of(const E &e, const trp__attention_memory<E> *m,
                                          const trp__attention_scores<typename E::T> &scores,
                                          int32_t own, int32_t walk, const typename E::T *most,
                                          const typename E::T *by, const typename E::T *mean,
                                          typename E::T s[E::RM][E::RN],
                                          typename E::T dp[E::RM][E::RN])
{
    typedef typename E::T T;
    constexpr int ROWS = TURNED ? E::RN : E::RM, COLUMNS = TURNED ? E::RM : E::RN;
    TRP__UNROLL
    for (int r = 0; r < ROWS; r++) {
        const int line = TURNED ? e.column(r) : r;
        const int32_t row = TURNED ? walk + e.column(r) : own + e.row(r);
        const int32_t first = WHOLE ? 0 : scores.span.first(row);
        const int32_t end = WHOLE ? 0 : scores.span.end(row);
        const T largest = most[line], times = by[line], less = mean[line];
        TRP__UNROLL
        for (int c = 0; c < COLUMNS; c++) {
            const int i = TURNED ? c : r, j = TURNED ? r : c;
            const int32_t column = TURNED ? own + e.row(c) : walk + e.column(c);
            const int at = e.row(i) * E::SCRATCH + e.column(j);
            const T score =
                PLAIN ? s[i][j] * scores.scale : scores.of(s[i][j], &m->scratch[at], row, column);
            const bool seen = times != 0 && (WHOLE || (column >= first && column < end));
            /* No branch, for the sake of all the others that are under way. */
            const T weight = trp__weight(seen ? score - largest : trp__lowest<T>()) * times;
            T slope = dp[i][j], factor = 1;
            if (!PLAIN && scores.p->dropout) {
                const int bit = TURNED ? e.row(i) : e.column(j);
                const int byte = TURNED ? e.column(j) * (E::OWN / 4) + bit / 4
                                        : e.row(i) * (E::WALK / 4) + bit / 4;
                factor = m->kept[byte] >> bit % 4 & 1 ? (T)scores.p->factor : T(0);
                slope = factor == 0 ? T(0) : slope * factor;
            }
            /* 0 whatever k and v hold where a weight is 0. */
            dp[i][j] = weight == 0 ? T(0) : weight * (slope - less);
            s[i][j] = PLAIN ? weight : weight == 0 ? T(0) : weight * factor;
        }
    }
}

template <typename E, bool TURNED>
TRP__DEVICE void trp__attention_slopes(const E &e, const trp__attention_memory<E> *m,
                                       const trp__attention_scores<typename E::T> &scores,
                                       bool whole, int32_t own, int32_t walk,
                                       const typename E::T *most, const typename E::T *by,
                                       const typename E::T *mean, typename E::T s[E::RM][E::RN],
                                       typename E::T dp[E::RM][E::RN])
{
    if (!scores.plain || scores.p->dropout)
        trp__attention_slopes_of<E, TURNED, false, false>(e, m, scores, own, walk, most, by, mean,
                                                          s, dp);
    else if (whole)
        trp__attention_slopes_of<E, TURNED, true, true>(e, m, scores, own, walk, most, by, mean, s,
                                                        dp);
    else
        trp__attention_slopes_of<E, TURNED, true, false>(e, m, scores, own, walk, most, by, mean, s,
                                                         dp);
}

template <typename E>
TRP__DEVICE void trp__load_sums(const E &e, const trp__attention &p, int64_t head, int32_t own,
                                typename E::T most[E::RM], typename E::T by[E::RM],
                                typename E::T mean[E::RM])
{
    typedef typename E::T T;
    for (int i = 0; i < E::RM; i++) {
        const int64_t row = own + e.row(i), at = (head * p.rows + row) * TRP__ATTENTION_SUMS;
        const bool there = row < p.rows;
        most[i] = there ? trp__at<T>(p.sums, at) : T(0);
        by[i] = there ? trp__at<T>(p.sums, at + 1) : T(0);
        mean[i] = there ? trp__at<T>(p.sums, at + 2) : T(0);
    }
}

template <typename E> TRP__DEVICE void trp__attention_to_dq(const trp__attention &p)
{
    typedef typename E::T T;
    TRP__DYNAMIC(trp__attention_memory<E>, m);
    static_assert(sizeof *m <= E::SHARED, "as much as a launch has");
    const E e;
    const trp__attention_block block(p, p.rows, E::OWN, p.heads, true, E::COMPUTE_BOUND);
    const int32_t own = block.tile, shared = block.head / (p.heads / p.shared_heads);
    const int64_t head = (int64_t)block.batch * p.heads + block.head;
    const trp__attention_scores<T> scores(p, block.batch, block.head);
    const trp__attention_span &span = scores.span;
    const int32_t last = (own + E::OWN < span.rows ? own + E::OWN : span.rows) - 1;
    const int32_t end = last >= own ? span.end(last) : 0;
    T dq[E::RM][E::RD], most[E::RM], by[E::RM], mean[E::RM];
    trp__clear<E>(dq);
    trp__load_sums(e, p, head, own, most, by, mean);
    if (threadIdx.x == 0)
        m->odd[0] = m->odd[1] = 0;
    trp__load_tile<E, E::OWN>(m->own[0], p.tensor[TRP__ATTENTION_Q], block.batch, block.head, own,
                              span.rows, p.depth);
    trp__load_tile<E, E::OWN>(m->own[1], p.tensor[TRP__ATTENTION_DY], block.batch, block.head, own,
                              span.rows, p.width);
    const trp__attention_tensor &k = p.tensor[TRP__ATTENTION_K], &v = p.tensor[TRP__ATTENTION_V];
    const int32_t start = span.first(own) / E::WALK * E::WALK;
    if (start < end)
        trp__load_tile<E, E::WALK>(m->walk[1], v, block.batch, shared, start, span.columns,
                                   p.width);
    int turn = 0;
    TRP__NO_UNROLL
    for (int32_t walk = start; walk < end; walk += E::WALK) {
        T s[E::RM][E::RN], dp[E::RM][E::RN];
        const trp__attention_part<E, false> part(span, own, walk);
        trp__wait_copies();
        __syncthreads(); /* v is there, k free */
        bool odd = trp__load_tile<E, E::WALK>(m->walk[0], k, block.batch, shared, walk,
                                              span.columns, p.depth);
        trp__load_bias<E, false>(m, p, block.batch, block.head, own, walk);
        if (p.dropout)
            trp__fill_kept(p, m->kept, head, own, E::OWN, walk, E::WALK);
        trp__clear<E>(s);
        trp__clear<E>(dp);
        if (part.any())
            e.product(dp, m->own[1], m->walk[1], p.width);
        trp__wait_copies();
        if (scores.bias || !span.whole(own, E::OWN, walk, E::WALK))
            odd |= trp__odd_tile<E, E::WALK>(m->walk[0], k, p.depth);
        if (odd)
            m->odd[turn] = 1;
        __syncthreads(); /* k is there, v free */
        odd = m->odd[turn];
        turn ^= 1;
        if (threadIdx.x == 0)
            m->odd[turn] = 0;
        if (walk + E::WALK < end)
            trp__load_tile<E, E::WALK>(m->walk[1], v, block.batch, shared, walk + E::WALK,
                                       span.columns, p.width);
        if (!part.any())
            continue;
        e.product(s, m->own[0], m->walk[0], p.depth);
        trp__attention_slopes<E, false>(e, m, scores, part.whole, own, walk, most, by, mean, s, dp);
        trp__weigh<E, false>(e, dq, dp, m->scratch, m->walk[0], odd, scores, part, own, walk);
    }
    TRP__UNROLL
    for (int i = 0; i < E::RM; i++) {
        TRP__UNROLL
        for (int c = 0; c < E::RD; c++)
            dq[i][c] *= (T)p.scale;
    }
    trp__store_tile(e, m, p.tensor[TRP__ATTENTION_DQ], block.batch, block.head, own, p.rows,
                    p.depth, dq);
}

/* The sums of the rows that are walked. */
template <typename E>
TRP__DEVICE void trp__load_walked_sums(trp__attention_memory<E> *m, const trp__attention &p,
                                       int64_t head, int32_t walk)
{
    typedef typename E::T T;
    for (int i = (int)threadIdx.x; i < E::WALK * TRP__ATTENTION_SUMS; i += TRP__ATTENTION_THREADS) {
        const int row = i / TRP__ATTENTION_SUMS, one = i % TRP__ATTENTION_SUMS;
        const int64_t at = (head * p.rows + walk + row) * TRP__ATTENTION_SUMS + one;
        m->sums[one][row] = walk + row < p.rows ? trp__at<T>(p.sums, at) : T(0);
    }
}

/* Owns columns: over the rows of all heads that share one of k and v. */
template <typename E> TRP__DEVICE void trp__attention_to_dkv(const trp__attention &p)
{
    typedef typename E::T T;
    TRP__DYNAMIC(trp__attention_memory<E>, m);
    static_assert(sizeof *m <= E::SHARED, "as much as a launch has");
    const E e;
    const trp__attention_block block(p, p.columns, E::OWN, p.shared_heads, false, E::COMPUTE_BOUND);
    const int32_t own = block.tile, group = p.heads / p.shared_heads;
    const trp__attention_span span = trp__span_of(p, block.batch);
    const int32_t last = (own + E::OWN < span.columns ? own + E::OWN : span.columns) - 1;
    const int32_t first = span.first_row(own), end = last >= own ? span.end_row(last) : 0;
    T dk[E::RM][E::RD], dv[E::RM][E::RD];
    trp__clear<E>(dk);
    trp__clear<E>(dv);
    if (threadIdx.x == 0)
        m->odd[0] = m->odd[1] = 0;
    trp__load_tile<E, E::OWN>(m->own[0], p.tensor[TRP__ATTENTION_K], block.batch, block.head, own,
                              span.columns, p.depth);
    trp__load_tile<E, E::OWN>(m->own[1], p.tensor[TRP__ATTENTION_V], block.batch, block.head, own,
                              span.columns, p.width);
    const trp__attention_tensor &q = p.tensor[TRP__ATTENTION_Q], &dy = p.tensor[TRP__ATTENTION_DY];
    const int32_t start = first / E::WALK * E::WALK;
    int turn = 0;
    bool odd = false;
    if (start < end)
        odd = trp__load_tile<E, E::WALK>(m->walk[1], dy, block.batch, block.head * group, start,
                                         span.rows, p.width);
    TRP__NO_UNROLL
    for (int32_t one = 0; one < group; one++) {
        const int32_t of = block.head * group + one;
        const int64_t head = (int64_t)block.batch * p.heads + of;
        const trp__attention_scores<T> scores(p, block.batch, of);
        TRP__NO_UNROLL
        for (int32_t walk = start; walk < end; walk += E::WALK) {
            T s[E::RM][E::RN], dp[E::RM][E::RN];
            const trp__attention_part<E, true> part(span, own, walk);
            const bool check = scores.bias || !span.whole(walk, E::WALK, own, E::OWN);
            trp__wait_copies();
            if (check)
                odd |= trp__odd_tile<E, E::WALK>(m->walk[1], dy, p.width);
            __syncthreads(); /* dy is there, q free */
            odd |= trp__load_tile<E, E::WALK>(m->walk[0], q, block.batch, of, walk, span.rows,
                                              p.depth);
            trp__load_walked_sums(m, p, head, walk);
            trp__load_bias<E, true>(m, p, block.batch, of, own, walk);
            if (p.dropout)
                trp__fill_kept(p, m->kept, head, walk, E::WALK, own, E::OWN);
            trp__clear<E>(s);
            trp__clear<E>(dp);
            if (part.any())
                e.product(dp, m->own[1], m->walk[1], p.width);
            trp__wait_copies();
            if (check)
                odd |= trp__odd_tile<E, E::WALK>(m->walk[0], q, p.depth);
            if (odd)
                m->odd[turn] = 1;
            __syncthreads(); /* q and all sums are there */
            const bool careful = m->odd[turn];
            turn ^= 1;
            if (threadIdx.x == 0)
                m->odd[turn] = 0;
            if (part.any()) {
                e.product(s, m->own[0], m->walk[0], p.depth);
                trp__attention_slopes<E, true>(e, m, scores, part.whole, own, walk, m->sums[0],
                                               m->sums[1], m->sums[2], s, dp);
                trp__weigh<E, true>(e, dv, s, m->scratch, m->walk[1], careful, scores, part, own,
                                    walk);
            }
            __syncthreads(); /* dy is free */
            const bool more = walk + E::WALK < end;
            odd = (more || one + 1 < group) &&
                  trp__load_tile<E, E::WALK>(m->walk[1], dy, block.batch, more ? of : of + 1,
                                             more ? walk + E::WALK : start, span.rows, p.width);
            if (part.any())
                trp__weigh<E, true>(e, dk, dp, m->scratch, m->walk[0], careful, scores, part, own,
                                    walk);
        }
    }
    TRP__UNROLL
    for (int i = 0; i < E::RM; i++) {
        TRP__UNROLL
        for (int c = 0; c < E::RD; c++)
            dk[i][c] *= (T)p.scale;
    }
    if (p.tensor[TRP__ATTENTION_DK].at)
        trp__store_tile(e, m, p.tensor[TRP__ATTENTION_DK], block.batch, block.head, own, p.columns,
                        p.depth, dk);
    if (p.tensor[TRP__ATTENTION_DV].at)
        trp__store_tile(e, m, p.tensor[TRP__ATTENTION_DV], block.batch, block.head, own, p.columns,
                        p.width, dv);
}

/* A block adds up one tile of gradients of scores over the dimensions that p.over names. */
template <typename E> TRP__DEVICE void trp__attention_to_dbias(const trp__attention &p)
{
    typedef typename E::T T;
    TRP__DYNAMIC(trp__attention_memory<E>, m);
    static_assert(sizeof *m <= E::SHARED, "as much as a launch has");
    const E e;
    const uint32_t column_tiles = p.over[3] ? 1 : (uint32_t)(p.columns + E::WALK - 1) / E::WALK;
    const uint32_t row_tiles = p.over[2] ? 1 : (uint32_t)(p.rows + E::OWN - 1) / E::OWN;
    const uint32_t heads = p.over[1] ? 1 : (uint32_t)p.heads;
    uint32_t i0 = blockIdx.x;
    const int32_t column0 = (int32_t)(i0 % column_tiles) * E::WALK;
    i0 /= column_tiles;
    const int32_t row0 = (int32_t)(i0 % row_tiles) * E::OWN;
    i0 /= row_tiles;
    const int32_t head0 = (int32_t)(i0 % heads), batch0 = (int32_t)(i0 / heads);
    const int32_t batch_end = p.over[0] ? p.batches : batch0 + 1;
    const int32_t head_end = p.over[1] ? p.heads : head0 + 1;
    const int32_t row_end = p.over[2] ? p.rows : row0 + 1;
    const int32_t column_end = p.over[3] ? p.columns : column0 + 1;
    T total[E::RM][E::RN];
    trp__clear<E>(total);
    for (int32_t batch = batch0; batch < batch_end; batch++) {
        for (int32_t of = head0; of < head_end; of++) {
            const int64_t head = (int64_t)batch * p.heads + of;
            const int32_t shared = of / (p.heads / p.shared_heads);
            const trp__attention_scores<T> scores(p, batch, of);
            const trp__attention_span &span = scores.span;
            for (int32_t own = row0; own < row_end && own < span.rows; own += E::OWN) {
                const int32_t last = (own + E::OWN < span.rows ? own + E::OWN : span.rows) - 1;
                T most[E::RM], by[E::RM], mean[E::RM];
                trp__load_sums(e, p, head, own, most, by, mean);
                bool loaded = false;
                TRP__NO_UNROLL
                for (int32_t walk = column0; walk < column_end; walk += E::WALK) {
                    T s[E::RM][E::RN], dp[E::RM][E::RN];
                    if (walk >= span.end(last) || walk + E::WALK <= span.first(own))
                        continue;
                    __syncthreads();
                    if (!loaded) {
                        trp__load_tile<E, E::OWN>(m->own[0], p.tensor[TRP__ATTENTION_Q], batch, of,
                                                  own, span.rows, p.depth);
                        trp__load_tile<E, E::OWN>(m->own[1], p.tensor[TRP__ATTENTION_DY], batch, of,
                                                  own, span.rows, p.width);
                        loaded = true;
                    }
                    trp__load_tile<E, E::WALK>(m->walk[0], p.tensor[TRP__ATTENTION_K], batch,
                                               shared, walk, span.columns, p.depth);
                    trp__load_tile<E, E::WALK>(m->walk[1], p.tensor[TRP__ATTENTION_V], batch,
                                               shared, walk, span.columns, p.width);
                    trp__load_bias<E, false>(m, p, batch, of, own, walk);
                    if (p.dropout)
                        trp__fill_kept(p, m->kept, head, own, E::OWN, walk, E::WALK);
                    trp__wait_copies();
                    __syncthreads();
                    trp__clear<E>(s);
                    trp__clear<E>(dp);
                    e.product(s, m->own[0], m->walk[0], p.depth);
                    e.product(dp, m->own[1], m->walk[1], p.width);
                    trp__attention_slopes_of<E, false, false, false>(e, m, scores, own, walk, most,
                                                                     by, mean, s, dp);
                    TRP__UNROLL
                    for (int i = 0; i < E::RM; i++) {
                        TRP__UNROLL
                        for (int j = 0; j < E::RN; j++)
                            total[i][j] += dp[i][j];
                    }
                }
            }
        }
    }
    __syncthreads();
    e.spread(total, m->scratch);
    __syncthreads();
    const trp__attention_tensor &t = p.tensor[TRP__ATTENTION_DBIAS];
    const int rows = p.over[2] ? 1 : E::OWN, columns = p.over[3] ? 1 : E::WALK;
    for (int i = (int)threadIdx.x; i < rows * columns; i += TRP__ATTENTION_THREADS) {
        const int row = i / columns, column = i % columns;
        T sum = 0;
        if (row0 + row >= p.rows || column0 + column >= p.columns)
            continue;
        for (int a = 0; a < (p.over[2] ? E::OWN : 1); a++) {
            for (int b = 0; b < (p.over[3] ? E::WALK : 1); b++)
                sum += m->scratch[(row + a) * E::SCRATCH + column + b];
        }
        const int64_t to = batch0 * p.bias_stride[0] + head0 * p.bias_stride[1] +
                           (row0 + row) * p.bias_stride[2] + (column0 + column) * p.bias_stride[3];
        if (p.partial)
            trp__to<T>(p.partial, to) = sum;
        else
            trp__store_real<T>(t.at, to, t.type, sum);
    }
}

/* Adds up partial sums, b x h x rows x columns or 1 of each of the latter, over batches and heads:
 * an element for each thread. */
template <typename T> TRP__DEVICE void trp__attention_fold(const trp__attention &p)
{
    const trp__attention_tensor &t = p.tensor[TRP__ATTENTION_DBIAS];
    const bool all_batches = t.stride[0] == 0, all_heads = t.stride[1] == 0;
    const int64_t columns = p.over[3] ? 1 : p.columns, rows = p.over[2] ? 1 : p.rows;
    const int64_t heads = all_heads ? 1 : p.heads, batches = all_batches ? 1 : p.batches;
    int64_t i = (int64_t)blockIdx.x * TRP__ATTENTION_THREADS + (int64_t)threadIdx.x;
    if (i >= batches * heads * rows * columns)
        return;
    const int64_t column = i % columns;
    i /= columns;
    const int64_t row = i % rows;
    i /= rows;
    const int64_t head = i % heads, batch = i / heads;
    T sum = 0;
    for (int64_t b = batch; b < (all_batches ? p.batches : batch + 1); b++) {
        for (int64_t h = head; h < (all_heads ? p.heads : head + 1); h++)
            sum += trp__at<T>(p.partial, b * p.bias_stride[0] + h * p.bias_stride[1] +
                                             row * p.bias_stride[2] + column * p.bias_stride[3]);
    }
    trp__store_real<T>(
        t.at, batch * t.stride[0] + head * t.stride[1] + row * t.stride[2] + column * t.stride[3],
        t.type, sum);
}

/* The two engines of a variant. */
#define TRP__ATTENTION_ENGINES(name, engine, type)                                                 \
    typedef engine<type, 1, trp__attention_##name##_own, trp__attention_##name##_walk,             \
                   trp__attention_##name##_depth>                                                  \
        trp__##name##_forward;                                                                     \
    typedef engine<type, 2, trp__attention_##name##_own_back, trp__attention_##name##_walk_back,   \
                   trp__attention_##name##_depth>                                                  \
        trp__##name##_backward;
#define TRP__ATTENTION_SIMT(name, type) TRP__ATTENTION_ENGINES(name, trp__simt, type)
#define TRP__ATTENTION_TENSOR_CORES(name, type)                                                    \
    TRP__ATTENTION_ENGINES(name, trp__tensor_cores, type)

/* The kernels of an engine: one for the forward pass, one for the others. */
#define TRP__ATTENTION_KERNELS(name, real, forward, backward)                                      \
    TRP__GLOBAL(TRP__ATTENTION_THREADS)                                                            \
    name##_forward(const TRP__CONSTANT trp__attention p)                                           \
    {                                                                                              \
        trp__attention_forward<forward>(p);                                                        \
    }                                                                                              \
    TRP__GLOBAL(TRP__ATTENTION_THREADS) name##_rows(const TRP__CONSTANT trp__attention p)          \
    {                                                                                              \
        trp__attention_rows<backward>(p);                                                          \
    }                                                                                              \
    TRP__GLOBAL(TRP__ATTENTION_THREADS) name##_dq(const TRP__CONSTANT trp__attention p)            \
    {                                                                                              \
        trp__attention_to_dq<backward>(p);                                                         \
    }                                                                                              \
    TRP__GLOBAL(TRP__ATTENTION_THREADS) name##_dkv(const TRP__CONSTANT trp__attention p)           \
    {                                                                                              \
        trp__attention_to_dkv<backward>(p);                                                        \
    }                                                                                              \
    TRP__GLOBAL(TRP__ATTENTION_THREADS) name##_dbias(const TRP__CONSTANT trp__attention p)         \
    {                                                                                              \
        trp__attention_to_dbias<backward>(p);                                                      \
    }                                                                                              \
    TRP__GLOBAL(TRP__ATTENTION_THREADS) name##_fold(const TRP__CONSTANT trp__attention p)          \
    {                                                                                              \
        trp__attention_fold<real>(p);                                                              \
    }

#endif
