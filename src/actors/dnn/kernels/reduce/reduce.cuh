/* Reductions of any type, see reduce.h. In kernels of rows, the threads of a result lie along the
 * reduced elements; in kernels of columns, adjacent threads have adjacent results. */
#ifndef TRP_ACTORS_DNN_KERNELS_REDUCE_REDUCE_CUH
#define TRP_ACTORS_DNN_KERNELS_REDUCE_REDUCE_CUH

#include "actors/dnn/kernels/common/functions.cuh"
#include "actors/dnn/kernels/reduce/reduce.h"

#define TRP__HUGE       1e150
#define TRP__TINY       1e-150
#define TRP__SHRINK     2.4099198651028841e-181 /* 2^-600 */
#define TRP__GROW       4.1495155688809930e+180 /* 2^600 */
#define TRP__SUM_LIMIT  1e290
#define TRP__SUM_SHRINK 5.4210108624275222e-20 /* 2^-64 */
#define TRP__SUM_GROW   18446744073709551616.0

/* A partial result. WIDE, for f64 and i32: `big` and `small` are sums of scaled terms, which would
 * overflow or underflow in `mid`. */
struct trp__partial {
    double mid, big, small;
};

template <int KIND, bool WIDE> struct trp__reducer {
    TRP__DEVICE static trp__partial first()
    {
        trp__partial p = {KIND == TRP__REDUCE_PRODUCTS ? 1.0 : 0.0, 0, 0};
        if (KIND == TRP__REDUCE_EXTREMES)
            p.mid = -(double)INFINITY;
        return p;
    }

    TRP__DEVICE static void add(trp__partial &p, double x)
    {
        if (KIND == TRP__REDUCE_SUMS) {
            if (WIDE && fabs(x) > TRP__SUM_LIMIT)
                p.big += x * TRP__SUM_SHRINK;
            else
                p.mid += x;
        } else if (KIND == TRP__REDUCE_SQUARES) {
            const double a = fabs(x);
            if (WIDE && a > TRP__HUGE)
                p.big += a * TRP__SHRINK * (a * TRP__SHRINK);
            else if (WIDE && a < TRP__TINY)
                p.small += a * TRP__GROW * (a * TRP__GROW);
            else
                p.mid += x * x;
        } else if (KIND == TRP__REDUCE_PRODUCTS) {
            p.mid *= x;
        } else {
            p.mid = trp__most<double>(p.mid, x);
        }
    }

    /* Adds several elements at once. Elements of 16 bits are added up in f32, scaled so that the
     * sum can't overflow; extremes are found in type T. */
    template <typename T, int N>
    TRP__DEVICE static void add_all(trp__partial &p, const T v[N], bool narrow)
    {
        if (KIND == TRP__REDUCE_SUMS && N > 1 && narrow) {
            float sum = 0;
            TRP__EACH(k, N)
                sum += (float)v[k] * (1.0f / N);
            add(p, (double)sum * N);
        } else if (KIND == TRP__REDUCE_EXTREMES) {
            T most = v[0];
            TRP__UNROLL
            for (int k = 1; k < N; k++)
                most = trp__most<T>(most, v[k]);
            add(p, (double)most);
        } else {
            TRP__EACH(k, N)
                add(p, (double)v[k]);
        }
    }

    TRP__DEVICE static void join(trp__partial &p, const trp__partial &q)
    {
        if (KIND == TRP__REDUCE_PRODUCTS) {
            p.mid *= q.mid;
        } else if (KIND == TRP__REDUCE_EXTREMES) {
            p.mid = trp__most<double>(p.mid, q.mid);
        } else {
            p.mid += q.mid;
            p.big += q.big;
            p.small += q.small;
        }
    }

    TRP__DEVICE static double last(const trp__reduce &r, const trp__partial &p)
    {
        const double n = r.divide && r.length > 0 ? (double)r.length : 1;
        if (KIND == TRP__REDUCE_SUMS)
            return p.big == 0 ? p.mid / n : p.mid / n + p.big / n * TRP__SUM_GROW;
        if (KIND == TRP__REDUCE_EXTREMES && r.absolute && r.length == 0)
            return 0; /* the least magnitude, of no elements */
        if (KIND != TRP__REDUCE_SQUARES)
            return r.negative ? -p.mid : p.mid;
        if (!r.root)
            return p.mid + p.big * TRP__GROW * TRP__GROW + p.small * TRP__SHRINK * TRP__SHRINK;
        if (p.big > 0)
            return sqrt(p.big + p.mid * TRP__SHRINK * TRP__SHRINK) * TRP__GROW;
        if (p.mid == 0)
            return sqrt(p.small) * TRP__SHRINK;
        return sqrt(p.mid + p.small * TRP__SHRINK * TRP__SHRINK);
    }
};

TRP__DEVICE int64_t trp__reduce_offset(const trp__reduce_space &s, const int64_t *stride, int64_t i)
{
    int64_t offset = 0;
    for (int k = 0; k < s.rank - 1; k++) {
        const uint32_t n = (uint32_t)i;
        const uint32_t next =
            (uint32_t)(((uint64_t)n * s.dim[k].factor >> 32) + n) >> s.dim[k].shift;
        offset += (int64_t)(n - next * s.dim[k].by) * stride[k];
        i = next;
    }
    return offset + i * stride[s.rank - 1];
}

/* Stores a result, or leaves it as a partial result for trp_reduce_finish. */
template <int KIND, bool WIDE>
TRP__DEVICE void trp__reduce_put(const trp__reduce &r, int64_t kept, uint32_t split,
                                 const trp__partial &p)
{
    typedef trp__reducer<KIND, WIDE> R;
    if (r.splits > 1) {
        const int64_t at = split * r.kept + kept, all = r.splits * r.kept;
        trp__to<double>(r.partial, at) = p.mid;
        if (WIDE) {
            trp__to<double>(r.partial, all + at) = p.big;
            trp__to<double>(r.partial, 2 * all + at) = p.small;
        }
    } else {
        trp__store<double>(r.y, trp__reduce_offset(r.keep, r.keep.y, kept), r.y_type,
                           R::last(r, p));
    }
}

/* Combines the partial results of each group of `lanes` adjacent threads, and returns that of the
 * group to its first thread. All threads of the block call this. */
template <int KIND, bool WIDE> TRP__DEVICE trp__partial trp__reduce_group(trp__partial p, int lanes)
{
    typedef trp__reducer<KIND, WIDE> R;
    TRP__DYNAMIC(trp__partial, shared);
    const int thread = (int)threadIdx.x, lane = thread & (lanes - 1);
    if (lanes == 1)
        return p;
    __syncthreads();
    shared[thread] = p;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
        if (lane < half)
            R::join(shared[thread], shared[thread + half]);
        __syncthreads();
    }
    return shared[thread];
}

template <typename T> TRP__DEVICE T trp__reduce_value(const trp__reduce &r, T x)
{
    const T a = r.absolute ? fabs(x) : x;
    return r.negative ? -a : a;
}

/* Loads several runs, all in flight together. The type is tested once for all of them. */
template <typename T, int WIDTH, int FLIGHT>
TRP__DEVICE void trp__reduce_read(const trp__reduce &r, const int64_t at[FLIGHT],
                                  T v[FLIGHT][WIDTH])
{
#define TRP__REDUCE_READ(TYPE)                                                                     \
    for (int f = 0; f < FLIGHT; f++)                                                               \
    trp__load_run<T, WIDTH>(r.x, at[f], TYPE, v[f])
    if (r.type == TRP_F32) {
        TRP__UNROLL
        TRP__REDUCE_READ(TRP_F32);
    } else if (r.type == TRP_BF16) {
        TRP__UNROLL
        TRP__REDUCE_READ(TRP_BF16);
    } else if (r.type == TRP_F16) {
        TRP__UNROLL
        TRP__REDUCE_READ(TRP_F16);
    } else {
        TRP__UNROLL
        TRP__REDUCE_READ(TRP_F64);
    }
#undef TRP__REDUCE_READ
}

template <typename T, int WIDTH, int KIND, bool WIDE>
TRP__DEVICE void trp__reduce_rows(const trp__reduce &r)
{
    typedef trp__reducer<KIND, WIDE> R;
    enum { FLIGHT = WIDE ? 2 : 4 };
    const int lanes = (int)r.lanes, lane = (int)threadIdx.x & (lanes - 1);
    const int64_t rows = TRP__REDUCE_THREADS / lanes;
    const uint32_t split = (uint32_t)(blockIdx.x % r.splits);
    const int64_t kept = (int64_t)(blockIdx.x / r.splits) * rows + threadIdx.x / lanes;
    const bool there = kept < r.kept;
    const int64_t base = there ? trp__reduce_offset(r.keep, r.keep.x, kept) : 0;
    int64_t start = split * r.split;
    const int64_t end = !there ? 0 : start + r.split < r.length ? start + r.split : r.length;
    trp__partial p = R::first();
    if (r.vector) {
        const int64_t step = (int64_t)lanes * WIDTH;
        if (r.over.rank == 1 && there) { /* elements before the first multiple of 16 bytes */
            const int size = trp__element_bytes(r.type);
            const int before = (int)((r.x + (uint64_t)((base + start) * size)) % 16) / size;
            const int64_t head = before > 0 ? 16 / size - before : 0;
            for (int64_t i = start + lane; i < start + head && i < end; i += lanes)
                R::add(p, trp__reduce_value<T>(r, trp__load<T>(r.x, base + i, r.type)));
            start += head;
        }
        int64_t i = start + (int64_t)lane * WIDTH;
        for (; i + (FLIGHT - 1) * step + WIDTH <= end; i += FLIGHT * step) {
            T v[FLIGHT][WIDTH];
            int64_t at[FLIGHT];
            TRP__EACH(f, FLIGHT)
                at[f] = base + trp__reduce_offset(r.over, r.over.x, i + f * step);
            trp__reduce_read<T, WIDTH, FLIGHT>(r, at, v);
            TRP__EACH(f, FLIGHT) {
                TRP__EACH(k, WIDTH)
                    v[f][k] = trp__reduce_value<T>(r, v[f][k]);
                R::template add_all<T, WIDTH>(p, v[f], r.narrow);
            }
        }
        for (; i < end; i += step) {
            const int64_t at = base + trp__reduce_offset(r.over, r.over.x, i);
            for (int k = 0; k < WIDTH && i + k < end; k++)
                R::add(p, trp__reduce_value<T>(r, trp__load<T>(r.x, at + k, r.type)));
        }
    } else {
        enum { LOOSE = 4 };
        int64_t i = start + lane;
        for (; i + (int64_t)(LOOSE - 1) * lanes < end; i += (int64_t)LOOSE * lanes) {
            T v[LOOSE];
            TRP__EACH(f, LOOSE)
                v[f] = trp__load<T>(
                    r.x, base + trp__reduce_offset(r.over, r.over.x, i + (int64_t)f * lanes),
                    r.type);
            TRP__EACH(f, LOOSE)
                R::add(p, trp__reduce_value<T>(r, v[f]));
        }
        for (; i < end; i += lanes)
            R::add(p, trp__reduce_value<T>(
                          r, trp__load<T>(r.x, base + trp__reduce_offset(r.over, r.over.x, i),
                                          r.type)));
    }
    p = trp__reduce_group<KIND, WIDE>(p, lanes);
    if (lane == 0 && there)
        trp__reduce_put<KIND, WIDE>(r, kept, split, p);
}

/* Writes a partial result to shared memory: one number or, if WIDE, three. */
template <bool WIDE> TRP__DEVICE void trp__reduce_keep(double *shared, int i, const trp__partial &p)
{
    if (WIDE) {
        shared[3 * i] = p.mid;
        shared[3 * i + 1] = p.big;
        shared[3 * i + 2] = p.small;
    } else {
        shared[i] = p.mid;
    }
}

template <bool WIDE> TRP__DEVICE trp__partial trp__reduce_kept(const double *shared, int i)
{
    trp__partial p = {shared[WIDE ? 3 * i : i], 0, 0};
    if (WIDE) {
        p.big = shared[3 * i + 1];
        p.small = shared[3 * i + 2];
    }
    return p;
}

/* Reduces columns. Thread t of a block has WIDTH adjacent columns, pack t % (THREADS / lanes) of
 * the block's, and every `lanes`th row of these. */
template <typename T, int WIDTH, int KIND, bool WIDE>
TRP__DEVICE void trp__reduce_columns(const trp__reduce &r)
{
    typedef trp__reducer<KIND, WIDE> R;
    enum { FLIGHT = 4 };
    TRP__DYNAMIC(double, shared);
    const int lanes = (int)r.lanes, across = TRP__REDUCE_THREADS / lanes;
    const int column = (int)threadIdx.x % across, lane = (int)threadIdx.x / across;
    const uint32_t split = (uint32_t)(blockIdx.x % r.splits);
    const int64_t tile = (int64_t)(blockIdx.x / r.splits) * across * WIDTH;
    const int64_t kept = tile + (int64_t)column * WIDTH;
    const bool there = kept < r.kept;
    const int64_t base = there ? trp__reduce_offset(r.keep, r.keep.x, kept) : 0;
    const int64_t start = split * r.split;
    const int64_t end = !there ? 0 : start + r.split < r.length ? start + r.split : r.length;
    trp__partial p[WIDTH];
    TRP__EACH(k, WIDTH)
        p[k] = R::first();
    int64_t i = start + lane;
    for (; i + (FLIGHT - 1) * lanes < end; i += (int64_t)FLIGHT * lanes) {
        T v[FLIGHT][WIDTH];
        int64_t at[FLIGHT];
        TRP__EACH(f, FLIGHT)
            at[f] = base + trp__reduce_offset(r.over, r.over.x, i + (int64_t)f * lanes);
        if constexpr (WIDTH > 1) {
            trp__reduce_read<T, WIDTH, FLIGHT>(r, at, v);
        } else {
            TRP__EACH(f, FLIGHT)
                v[f][0] = trp__load<T>(r.x, at[f], r.type);
        }
        TRP__EACH(k, WIDTH) {
            T w[FLIGHT];
            TRP__EACH(f, FLIGHT)
                w[f] = trp__reduce_value<T>(r, v[f][k]);
            R::template add_all<T, FLIGHT>(p[k], w, r.narrow);
        }
    }
    for (; i < end; i += lanes) {
        const int64_t at = base + trp__reduce_offset(r.over, r.over.x, i);
        TRP__EACH(k, WIDTH)
            R::add(p[k], trp__reduce_value<T>(r, trp__load<T>(r.x, at + k, r.type)));
    }
    TRP__EACH(k, WIDTH)
        trp__reduce_keep<WIDE>(shared, (lane * across + column) * WIDTH + k, p[k]);
    __syncthreads();
    for (int c = (int)threadIdx.x; c < across * WIDTH && tile + c < r.kept;
         c += TRP__REDUCE_THREADS) {
        trp__partial sum = trp__reduce_kept<WIDE>(shared, c);
        for (int l = 1; l < lanes; l++)
            R::join(sum, trp__reduce_kept<WIDE>(shared, l * across * WIDTH + c));
        trp__reduce_put<KIND, WIDE>(r, tile + c, split, sum);
    }
}

/* Combines the pieces of each result. Adjacent threads have adjacent results, and every
 * `finish_lanes`th piece of these. */
template <int KIND, bool WIDE> TRP__DEVICE void trp__reduce_finish(const trp__reduce &r)
{
    typedef trp__reducer<KIND, WIDE> R;
    TRP__DYNAMIC(trp__partial, shared);
    const int lanes = (int)r.finish_lanes, across = TRP__REDUCE_THREADS / lanes;
    const int column = (int)threadIdx.x % across, lane = (int)threadIdx.x / across;
    const int64_t kept = (int64_t)blockIdx.x * across + column;
    const int64_t all = r.splits * r.kept;
    trp__partial p = R::first();
#pragma unroll 4
    for (uint32_t s = lane; s < r.splits && kept < r.kept; s += lanes) {
        const int64_t at = s * r.kept + kept;
        trp__partial q = {trp__at<double>(r.partial, at), 0, 0};
        if (WIDE && r.wide) {
            q.big = trp__at<double>(r.partial, all + at);
            q.small = trp__at<double>(r.partial, 2 * all + at);
        }
        R::join(p, q);
    }
    shared[threadIdx.x] = p;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
        if (lane < half)
            R::join(shared[threadIdx.x], shared[threadIdx.x + (unsigned)(half * across)]);
        __syncthreads();
    }
    if (lane == 0 && kept < r.kept)
        trp__store<double>(r.y, trp__reduce_offset(r.keep, r.keep.y, kept), r.y_type,
                           R::last(r, shared[threadIdx.x]));
}

#define TRP__REDUCE_BY_KIND(function, WIDE, ...)                                                   \
    if (r.kind == TRP__REDUCE_SUMS)                                                                \
        function<__VA_ARGS__ TRP__REDUCE_SUMS, WIDE>(r);                                           \
    else if (r.kind == TRP__REDUCE_SQUARES)                                                        \
        function<__VA_ARGS__ TRP__REDUCE_SQUARES, WIDE>(r);                                        \
    else if (r.kind == TRP__REDUCE_PRODUCTS)                                                       \
        function<__VA_ARGS__ TRP__REDUCE_PRODUCTS, WIDE>(r);                                       \
    else                                                                                           \
        function<__VA_ARGS__ TRP__REDUCE_EXTREMES, WIDE>(r)
#define TRP__COMMA ,

TRP__GLOBAL(TRP__REDUCE_THREADS) trp_reduce_rows_f32(const TRP__CONSTANT trp__reduce r)
{
    TRP__REDUCE_BY_KIND(trp__reduce_rows, false, float TRP__COMMA TRP__REDUCE_WIDTH TRP__COMMA);
}

TRP__GLOBAL(TRP__REDUCE_THREADS) trp_reduce_rows_f64(const TRP__CONSTANT trp__reduce r)
{
    TRP__REDUCE_BY_KIND(trp__reduce_rows, true, double TRP__COMMA TRP__REDUCE_WIDTH_F64 TRP__COMMA);
}

TRP__GLOBAL(TRP__REDUCE_THREADS) trp_reduce_columns_f32(const TRP__CONSTANT trp__reduce r)
{
    if (r.vector) {
        TRP__REDUCE_BY_KIND(trp__reduce_columns, false,
                            float TRP__COMMA TRP__REDUCE_WIDTH TRP__COMMA);
    } else {
        TRP__REDUCE_BY_KIND(trp__reduce_columns, false, float TRP__COMMA 1 TRP__COMMA);
    }
}

TRP__GLOBAL(TRP__REDUCE_THREADS) trp_reduce_columns_f64(const TRP__CONSTANT trp__reduce r)
{
    TRP__REDUCE_BY_KIND(trp__reduce_columns, true, double TRP__COMMA 1 TRP__COMMA);
}

TRP__GLOBAL(TRP__REDUCE_THREADS) trp_reduce_finish(const TRP__CONSTANT trp__reduce r)
{
    TRP__REDUCE_BY_KIND(trp__reduce_finish, true, );
}

#endif
