/* The random actor's kernels. Each gives the bits that the host gives: it shares the text of the
 * law, and nothing is contracted. */
#ifndef TRP_ACTORS_RANDOM_KERNELS_RANDOM_CUH
#define TRP_ACTORS_RANDOM_KERNELS_RANDOM_CUH

#include "actors/random/kernels/makers.cuh"

/* The place in memory of element `at`, in elements; not inlined, for packed tensors lack it. */
TRP__SHARED_CODE int64_t trp__random_place(const trp__random_launch &p, int64_t at)
{
    int64_t place = 0;
    if (p.count <= INT32_MAX) { /* 32 bits are divided faster */
        uint32_t rest = (uint32_t)at;
        for (int i = p.rank - 1; i > 0; i--) {
            const uint32_t n = (uint32_t)p.dim[i].n, whole = rest / n;
            place += (int64_t)(rest - whole * n) * p.dim[i].stride;
            rest = whole;
        }
        return place + (int64_t)rest * p.dim[0].stride;
    }
    for (int i = p.rank - 1; i > 0; i--) {
        place += at % p.dim[i].n * p.dim[i].stride;
        at /= p.dim[i].n;
    }
    return place + at * p.dim[0].stride;
}

/* Stores the elements of a chunk that the tensor has, one by one; `at` is the first one's number,
 * negative if the chunk begins ahead of the tensor. */
template <class MAKER>
TRP__DEVICE void trp__random_store_each(const trp__random_launch &p, int64_t at,
                                        const uint32_t *out)
{
    enum { BYTES = MAKER::BYTES };
    TRP__EACH(i, MAKER::ELEMENTS) {
        const int64_t number = at + i;
        if (number < 0 || number >= p.count)
            continue;
        const int64_t place = p.packed ? number : trp__random_place(p, number);
        if constexpr (BYTES == 1)
            trp__to<uint8_t>(p.y, place) = (uint8_t)(out[i / 4] >> i % 4 * 8);
        else if constexpr (BYTES == 2)
            trp__to<uint16_t>(p.y, place) = (uint16_t)(out[i / 2] >> i % 2 * 16);
        else if constexpr (BYTES == 4)
            trp__to<uint32_t>(p.y, place) = out[i];
        else
            trp__to<uint64_t>(p.y, place) = trp__random_pair(out + 2 * i);
    }
}

/* Where the numbers of a launch come from. */
struct trp__random_source {
    uint64_t seed;
    uint64_t first; /* the number of the tensor's first part in its stream */
    TRP__DEVICE trp__random_source(const trp__random_launch &p) : seed(p.g.seed)
    {
        const uint32_t pairs = p.pairs ? 2 : 1;
        uint64_t offset = p.g.offset;
        if (p.state) {
            seed = trp__at<uint64_t>(p.state, 0);
            offset += trp__at<uint64_t>(p.state, 1);
        }
        first = trp__random_first_element(offset, p.g.words * pairs) * pairs;
    }
};

template <class MAKER> TRP__DEVICE void trp__random_fill(const trp__random_launch &p)
{
    enum { OF_BLOCK = 4 / MAKER::WORDS, ELEMENTS = MAKER::ELEMENTS };
    const trp__random_source source(p);
    const MAKER maker(p, source.seed);
    const int64_t skip = (int64_t)(source.first % OF_BLOCK);
    const int64_t chunks = (skip + p.count + ELEMENTS - 1) / ELEMENTS;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    const uint64_t y = p.y - (uint64_t)(skip * MAKER::BYTES); /* of the first chunk, if packed */
    const bool vectors = p.packed && y % 16 == 0;
    for (int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; c < chunks; c += step) {
        const uint64_t block = source.first / OF_BLOCK + (uint64_t)c * MAKER::BLOCKS;
        const int64_t at = c * ELEMENTS - skip;
        uint32_t word[MAKER::TAKEN], out[MAKER::OUT];
        TRP__EACH(i, MAKER::BLOCKS)
            trp__philox_block(source.seed, p.g.stream, (block + i) % TRP__RANDOM_BLOCKS,
                              word + 4 * i);
        maker.make(block, word, out);
        if (vectors && at >= 0 && at + ELEMENTS <= p.count) {
            TRP__EACH(i, MAKER::OUT / 4)
                trp__store16(y + (uint64_t)c * (4 * MAKER::OUT) + 16 * i, out + 4 * i);
        } else {
            trp__random_store_each<MAKER>(p, at, out);
        }
    }
}

TRP__DEVICE void trp__random_advance_state(const trp__random_advance_launch &p)
{
    const uint64_t seed = trp__at<uint64_t>(p.from, 0), offset = trp__at<uint64_t>(p.from, 1);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        trp__to<uint64_t>(p.to, 0) = seed;
        trp__to<uint64_t>(p.to, 1) = offset + p.words;
    }
}

#define TRP__RANDOM_BOUNDS (TRP__RANDOM_KERNEL_THREADS)
TRP__ENTRY(trp_philox_bits, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_bits>)
TRP__ENTRY(trp_philox_integers_8, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_integers<1>>)
TRP__ENTRY(trp_philox_integers_32, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_integers<4>>)
TRP__ENTRY(trp_philox_integers_64, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_integers_64>)
TRP__ENTRY(trp_philox_uniform_f32, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_uniform<TRP_F32>>)
TRP__ENTRY(trp_philox_uniform_f16, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_uniform<TRP_F16>>)
TRP__ENTRY(trp_philox_uniform_bf16, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_uniform<TRP_BF16>>)
TRP__ENTRY(trp_philox_uniform_f64, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_uniform_64>)
TRP__ENTRY(trp_philox_normal_f32, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_normal<TRP_F32>>)
TRP__ENTRY(trp_philox_normal_f16, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_normal<TRP_F16>>)
TRP__ENTRY(trp_philox_normal_bf16, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_normal<TRP_BF16>>)
TRP__ENTRY(trp_philox_normal_f64, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_normal_64>)
TRP__ENTRY(trp_philox_two_values_8, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_two_values<1>>)
TRP__ENTRY(trp_philox_two_values_16, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_two_values<2>>)
TRP__ENTRY(trp_philox_two_values_32, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_two_values<4>>)
TRP__ENTRY(trp_philox_two_values_64, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_two_values<8>>)
TRP__ENTRY(trp_philox_others_f32, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_others<TRP_F32>>)
TRP__ENTRY(trp_philox_others_f16, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_others<TRP_F16>>)
TRP__ENTRY(trp_philox_others_bf16, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_others<TRP_BF16>>)
TRP__ENTRY(trp_philox_others_f64, trp__random_launch, TRP__RANDOM_BOUNDS,
           trp__random_fill<trp__random_others_64>)
TRP__ENTRY(trp_philox_advance, trp__random_advance_launch, (32), trp__random_advance_state)

#endif
