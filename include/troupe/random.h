/* The "random" actor: fills tensors with random numbers. Names and parameters are those of NumPy's
 * Generator. It computes on the host and on NVIDIA GPUs.
 *
 * The law of counters. Every number is a function of seed, stream, offset, the element's place, and
 * the distribution with its parameters and type; of nothing else. So it has the same bits in every
 * process, on the host and on every GPU, with any number of threads and any instruction set, and
 * however a request is split.
 *
 *   1. A stream is a sequence of 2^64 words of 32 bits. Word n is word n % 4 of Philox4x32-10 with
 *      the seed as key (low half first) and, as counter, n / 4 in words 0 and 1 and the stream in
 *      words 2 and 3. That is the sequence of curand_init(seed, stream, offset), which
 *      curand_kernel.h defines and PyTorch's kernels draw from, with one stream for each thread.
 *   2. An element takes trp_random_words() words: 1, 2 or 4. `offset` counts words and is rounded
 *      up to a multiple of that. Place i, in row-major order of the indices, takes the words from
 *      offset + i * words on. f32 normals are made in pairs of elements, from words 2j and 2j + 1,
 *      and f64 normals from words 4j to 4j + 3; each is a function of its pair.
 *   3. An integer whose words are rejected takes them, at the same places, from what Philox makes
 *      of the rejected block: counter is that block, the key's words are those of the seed with all
 *      bits inverted. So no number of tries moves another element.
 *
 * To split a request, add words * elements to the offset. Between requests that are to be
 * independent, add trp_random_span(), which is a multiple of 4.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_RANDOM_H
#define TROUPE_RANDOM_H

#include <troupe/submit.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRP_OP_RANDOM         UINT32_C(0x0901)
#define TRP_OP_RANDOM_ADVANCE UINT32_C(0x0902)

enum { TRP_RANDOM_RANK_MAX = 8 };

typedef enum trp_random_generator {
    TRP_RANDOM_PHILOX4X32_10 = 0,
} trp_random_generator;

/* u is a fraction between 0 and 1 made of an element's words, z a normal number. */
typedef enum trp_random_distribution {
    /* All bits of the words: u32 in i32, u64 in i64, low word first. */
    TRP_RANDOM_BITS = 0,
    /* Integers from low_integer to below high_integer, or to high_integer with `endpoint`, all with
     * equal probability. Types i8, u8, i32, i64. */
    TRP_RANDOM_INTEGERS = 1,
    /* low + (high - low) u, with ends as trp_random_ends says. Types f16, bf16, f32, f64, here and
     * below where nothing is said. */
    TRP_RANDOM_UNIFORM = 2,
    /* loc + scale z. Also c64 and c128: real and imaginary part are independent, each with a
     * variance of scale^2 / 2, and loc is complex. */
    TRP_RANDOM_NORMAL = 3,
    TRP_RANDOM_LOGNORMAL = 4,   /* exp(loc + scale z); NumPy: mean, sigma */
    TRP_RANDOM_EXPONENTIAL = 5, /* -scale log(u) */
    TRP_RANDOM_LAPLACE = 6,     /* loc + scale (an exponential number with a random sign) */
    TRP_RANDOM_CAUCHY = 7,      /* loc + scale tan(pi (u - 1/2)) */
    TRP_RANDOM_GUMBEL = 8,      /* loc - scale log(-log(u)) */
    /* 1 with probability p, else 0. The types of uniform numbers and of integers, and bool; the
     * same elements are 1 in all of them. p is rounded to a multiple of 2^-32. */
    TRP_RANDOM_BERNOULLI = 9,
    /* A mask to multiply with: 0 with probability p, else 1 / (1 - p), rounded to the type; zeros
     * only if p is 1. The elements that are 0 are those where BERNOULLI with the same p has 1. */
    TRP_RANDOM_DROPOUT = 10,
} trp_random_distribution;

/* Which ends a uniform number can be. None is ever outside, whatever is rounded. */
typedef enum trp_random_ends {
    TRP_RANDOM_HALF_OPEN = 0, /* low, not high: as NumPy has it */
    TRP_RANDOM_OPEN = 1,      /* neither */
    TRP_RANDOM_CLOSED = 2,    /* both, each with half the probability of a number between */
    TRP_RANDOM_OPEN_LOW = 3,  /* high, not low: as cuRAND has it */
} trp_random_ends;

/* A tensor in a buffer. */
typedef struct trp_random_tensor {
    trp_buffer buffer; /* the caller keeps it until the request has ended */
    uint64_t offset; /* bytes, of the element with all indices 0; a multiple of the element size */
    trp_dtype type;
    int64_t dim[TRP_RANDOM_RANK_MAX];
    /* Elements; may be negative. All 0: packed, the last dimension fastest. */
    int64_t stride[TRP_RANDOM_RANK_MAX];
} trp_random_tensor;

/* Fills y with random numbers.
 *
 * Parameters. Those that a distribution does not have must be left out. They are rounded to the
 * type of the arithmetic, f64 for f64 and c128 and for every distribution but UNIFORM and NORMAL,
 * else f32; of UNIFORM, low and high to the type of y. Results are rounded once to the type of y;
 * f16 and bf16 are rounded from f32 for UNIFORM and NORMAL. Every step of the arithmetic is one
 * that IEEE 754 rounds correctly, so the bits are the same on every processor.
 *
 * Resolution. UNIFORM has as many bits as the type has precision: 53, 24, 11, 8; with OPEN ends one
 * less. Other distributions of types other than f64 and c128 use all 32 bits of a word: normals
 * reach 6.7 deviations. f64 uses 52 bits of two words: normals reach 8.5.
 *
 * State. With a `state`, seed and offset are read from that buffer when the request runs: two u64,
 * seed and offset, at `state_offset`. `seed` must be 0 then, and `offset` is added to the one that
 * is read. Offsets wrap at 2^64 there; without a state, a request that would need words beyond 2^64
 * is refused. trp_random_advance() moves the offset, so that a recorded sequence of requests gives
 * new numbers each time.
 *
 * A tensor has less than 2^48 elements, and they are not further apart. No two elements of y may be
 * at one place; TRP_E_ARGUMENT also for strides so irregular that this can't be told. If y has no
 * elements, nothing is done. The state must not overlap y.
 *
 * If the worker dies, the request runs again and gives the same bits.
 *
 * Errors at the call: TRP_E_ARGUMENT, which names the field: parameters that are NaN or infinite, a
 * range that is empty or has a width that is not finite, a probability outside of 0 to 1, a
 * negative scale, integers that the type lacks; those of trp_submit().
 *
 * Source: Salmon et al., SC 2011 (Philox); Box and Muller, 1958; Lemire, 2019 (integers). */
typedef struct trp_random_request {
    trp_request header;
    trp_random_generator generator;
    trp_random_distribution distribution;
    trp_random_ends ends;              /* UNIFORM */
    trp_scalar low, high;              /* UNIFORM; default 0 and 1 */
    trp_scalar loc;                    /* default 0; complex for complex types */
    trp_scalar scale;                  /* 0 or more; default 1 */
    trp_scalar p;                      /* BERNOULLI, DROPOUT: 0 to 1; default 0.5 */
    int64_t low_integer, high_integer; /* INTEGERS */
    bool endpoint;                     /* INTEGERS */
    uint64_t seed, stream, offset;     /* offset counts words of 32 bits */
    trp_buffer state;                  /* none: seed and offset are those above */
    uint64_t state_offset;             /* bytes, a multiple of 8 */
    uint32_t rank;                     /* 1 to TRP_RANDOM_RANK_MAX */
    trp_random_tensor y;
} trp_random_request;

/* Adds to the offset of a state: reads a seed and an offset, two u64, of `from`, and writes the
 * seed and offset + words to `to`. `to` may be the same place; the request can't run again then if
 * its worker dies (submit.h): it ends with TRP_E_FAULT, and the state is lost. Two buffers, used in
 * turns, are safe. Places that overlap otherwise are refused. */
typedef struct trp_random_advance_request {
    trp_request header;
    trp_buffer from;
    uint64_t from_offset; /* bytes, a multiple of 8 */
    trp_buffer to;
    uint64_t to_offset; /* bytes, a multiple of 8 */
    uint64_t words;     /* added modulo 2^64; trp_random_span() of what was drawn */
} trp_random_advance_request;

/* Sends the filling of a tensor; see trp_submit() for completion and errors. */
TRP__REQUEST(random, TRP_OP_RANDOM, trp_random_request)

/* Sends the advance of a state. */
TRP__REQUEST(random_advance, TRP_OP_RANDOM_ADVANCE, trp_random_advance_request)

/* The words of 32 bits that an element takes. */
TRP_INLINE uint32_t trp_random_words(trp_random_distribution distribution, trp_dtype type)
{
    if (distribution == TRP_RANDOM_BERNOULLI || distribution == TRP_RANDOM_DROPOUT)
        return 1;
    if (type == TRP_C128)
        return 4;
    return type == TRP_F64 || type == TRP_I64 || type == TRP_C64 ? 2 : 1;
}

/* The words that `elements` elements take from a multiple of 4 on, rounded up to a multiple of 4.
 * The number of elements is less than 2^60. */
TRP_INLINE uint64_t trp_random_span(trp_random_distribution distribution, trp_dtype type,
                                    uint64_t elements)
{
    return (elements * trp_random_words(distribution, type) + 3) / 4 * 4;
}

#ifdef __cplusplus
}
#endif
#endif
