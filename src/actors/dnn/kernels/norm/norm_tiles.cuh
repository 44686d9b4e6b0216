/* Norms of short rows that follow each other without a gap and need not begin at multiples of 16
 * bytes. A block copies some rows unchanged to shared memory, by 16 bytes, a few threads work on
 * each row, and results are written by 16 bytes again. */
#ifndef TRP_ACTORS_DNN_KERNELS_NORM_NORM_TILES_CUH
#define TRP_ACTORS_DNN_KERNELS_NORM_NORM_TILES_CUH

#include "actors/dnn/kernels/common/async.cuh"
#include "actors/dnn/kernels/norm/norm_packs.cuh"

/* A thread's elements of a row in shared memory: each p.threads-th one. */
template <int TYPE> struct trp__norm_tile {
    typedef trp__norm_packs<TYPE, trp__norm_row_affine<>> rows;
    enum { SIZE = rows::packs::SIZE, SLOTS = TRP__NORM_TILE_ELEMENTS };
    typedef typename trp__stored<TYPE>::word word;
    word *at;       /* the thread's first element */
    int left, step; /* elements from `at` to the end of the row, and between the thread's */
    float v[SLOTS];

    static TRP__DEVICE float value(word bits)
    {
        if constexpr (TYPE == TRP_F32)
            return trp__f32_from_bits(bits);
        else
            return TYPE == TRP_BF16 ? trp__bf16_to_f32(bits) : trp__half_value(bits);
    }
    static TRP__DEVICE word bits(float value)
    {
        if constexpr (TYPE == TRP_F32)
            return trp__f32_bits(value);
        else
            return TYPE == TRP_BF16 ? trp__bfloat_bits(value) : trp__half_bits(value);
    }
    TRP__DEVICE bool has(int i) const
    {
        return i * step < left;
    }
    TRP__DEVICE float read()
    {
        float all = 0;
        TRP__EACH(i, SLOTS) {
            v[i] = has(i) ? value(at[i * step]) : 0.0f;
            all += v[i];
        }
        return all;
    }
    TRP__DEVICE void add(float mean, float s[2]) const
    {
        TRP__EACH(i, SLOTS)
            rows::add_one(has(i) ? v[i] - mean : 0.0f, s);
    }
    TRP__DEVICE void apply(const rows &r)
    {
        TRP__EACH(i, SLOTS) {
            if (has(i))
                at[i * step] = bits(fmaf(fmaf(v[i] - r.mean, r.inverse, -r.more), r.affine.scale,
                                         r.affine.bias));
        }
    }
};

/* Copies so many bytes of elements to shared memory, and waits until all threads have.
 * trp__norm_tile_write() waits for all threads, and copies them back. */
template <typename T>
TRP__DEVICE void trp__norm_tile_read(T *shared, uint64_t from, int bytes)
{
    const int whole = bytes / 16;
    for (int i = (int)threadIdx.x; i < whole; i += (int)blockDim.x)
        trp__async_copy((trp__pack16 *)shared + i, from + (uint64_t)i * 16);
    for (int k = whole * (16 / (int)sizeof(T)) + (int)threadIdx.x; k < bytes / (int)sizeof(T);
         k += (int)blockDim.x)
        shared[k] = trp__at<T>(from, k);
    trp__async_commit();
    trp__async_wait<0>();
    __syncthreads();
}
template <typename T>
TRP__DEVICE void trp__norm_tile_write(const T *shared, uint64_t to, int bytes)
{
    const int whole = bytes / 16;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < whole; i += (int)blockDim.x)
        trp__store16(to + (uint64_t)i * 16, ((const trp__pack16 *)shared)[i].word);
    for (int k = whole * (16 / (int)sizeof(T)) + (int)threadIdx.x; k < bytes / (int)sizeof(T);
         k += (int)blockDim.x)
        trp__to<T>(to, k) = shared[k];
}

template <int TYPE> TRP__DEVICE void trp__norm_tiles(const trp__norm &p)
{
    typedef trp__norm_tile<TYPE> T;
    TRP__DYNAMIC(typename T::word, shared);
    T t;
    typename T::rows r;
    const int shift = 31 - __clz(p.threads), here = (int)blockDim.x >> shift;
    const int row = (int)threadIdx.x >> shift, lane = (int)threadIdx.x - (row << shift);
    const int64_t first = (p.first + blockIdx.x) * here, rest = p.space.rows - first;
    const int bytes = (int)(rest < here ? rest : here) * (int)p.n * T::SIZE;
    const uint64_t place = (uint64_t)(first * p.n) * T::SIZE;
    float s[2] = {0, 0};
    r.row = first + row;
    r.leads = lane == 0 && row < rest;
    t.at = shared + row * (int)p.n + lane;
    t.left = row < rest ? (int)p.n - lane : 0;
    t.step = p.threads;
    if (row < rest)
        r.affine.row(p, r.row);
    trp__norm_tile_read(shared, p.io[TRP__NORM_X].at + place, bytes);
    const float all = t.read();
    r.mean = p.centred
                 ? trp__rows_together<trp__rows_sum, float>(all, p.threads, 0.0f) * p.share
                 : 0.0f;
    t.add(r.mean, s);
    trp__rows_together<trp__rows_sum, float, 2>(s, p.threads, 0.0f);
    const bool narrow = r.finish(p, s) || row >= rest;
    if (narrow)
        t.apply(r);
    trp__norm_tile_write(shared, p.io[TRP__NORM_Y].at + place, bytes);
    if (__syncthreads_or(!narrow) && !narrow) {
        r.thread = lane;
        r.wide(p);
    }
}

#define TRP__NORM_TILE_KERNELS(name, TYPE)                                                         \
    TRP__ENTRY(name##_rows, trp__norm, (TRP__NORM_GROUP), trp__norm_tiles<TYPE>)

TRP__NORM_TILE_KERNELS(trp_norm_tiles_f32, TRP_F32)
TRP__NORM_TILE_KERNELS(trp_norm_tiles_bf16, TRP_BF16)
TRP__NORM_TILE_KERNELS(trp_norm_tiles_f16, TRP_F16)

#endif
