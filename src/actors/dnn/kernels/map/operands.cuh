/* Operands of element-wise programs: where a thread's elements are, and how they are read and
 * written. `type` and `layout` are those of the operand, and constants where a kernel is made for
 * one program. */
#ifndef TRP_ACTORS_DNN_KERNELS_MAP_OPERANDS_CUH
#define TRP_ACTORS_DNN_KERNELS_MAP_OPERANDS_CUH

#include "actors/dnn/kernels/common/functions.cuh"
#include "actors/dnn/kernels/map/map.h"
#include "actors/dnn/kernels/map/opcodes.h"
#include "base/numbers/normal.h"
#include "base/numbers/philox.h"

/* Returns the offset of element i of the space in an operand. `rank` is m.rank: a constant where a
 * kernel is made for one program. */
TRP__DEVICE int64_t trp__map_offset(const trp__map &m, const trp__map_operand &o, uint8_t layout,
                                    int rank, uint32_t i)
{
    int64_t offset = 0;
    if (layout == TRP__MAP_LINEAR)
        return i;
    for (int k = 0; k < rank - 1; k++) {
        const uint32_t next = trp__map_quotient(i, &m.dim[k]);
        offset += (int64_t)(i - next * m.dim[k].by) * o.stride[k];
        i = next;
    }
    return offset + (int64_t)i * o.stride[rank - 1];
}

/* Loads the elements of a thread that are below m.count: `first` to `first` + `here` - 1 (VECTOR),
 * or `first`, `first` + TRP__MAP_THREADS and so on. The others become 0. */
template <typename T, int WIDTH, bool VECTOR>
TRP__DEVICE void trp__map_load(const trp__map &m, const trp__map_operand &o, uint8_t type,
                               uint8_t layout, int rank, uint64_t first, int here, T v[WIDTH])
{
    if (!VECTOR || layout == TRP__MAP_STRIDED) {
        TRP__EACH(k, WIDTH) {
            const uint64_t e = first + (VECTOR ? (uint64_t)k : (uint64_t)k * TRP__MAP_THREADS);
            v[k] = e < m.count
                       ? trp__load<T>(o.at, trp__map_offset(m, o, layout, rank, (uint32_t)e), type)
                       : T(0);
        }
        return;
    }
    const int64_t offset = trp__map_offset(m, o, layout, rank, (uint32_t)first);
    if (layout == TRP__MAP_SPLAT) {
        const T one = trp__load<T>(o.at, offset, type);
        TRP__EACH(k, WIDTH)
            v[k] = one;
    } else if (here == WIDTH) {
        if constexpr (VECTOR)
            trp__load_run<T, WIDTH>(o.at, offset, type, v);
    } else {
        TRP__EACH(k, WIDTH)
            v[k] = k < here ? trp__load<T>(o.at, offset + k, type) : T(0);
    }
}

template <typename T, int WIDTH, bool VECTOR>
TRP__DEVICE void trp__map_store(const trp__map &m, const trp__map_operand &o, uint8_t type,
                                uint8_t layout, int rank, uint64_t first, int here,
                                const T v[WIDTH])
{
    if (!VECTOR || here < WIDTH) {
        TRP__EACH(k, WIDTH) {
            const uint64_t e = first + (VECTOR ? (uint64_t)k : (uint64_t)k * TRP__MAP_THREADS);
            if (e < m.count)
                trp__store<T>(o.at, trp__map_offset(m, o, layout, rank, (uint32_t)e), type, v[k]);
        }
    } else if constexpr (VECTOR) {
        trp__store_run<T, WIDTH>(
            o.at, trp__map_offset(m, o, layout, rank, (uint32_t)first), type, v);
    }
}

/* --- Random numbers: those of actors/dnn/math/random.h, a block of words at a time --- */

/* Reads a seed or an offset, of 64 bits. */
TRP__DEVICE uint64_t trp__map_word(const trp__map &m, uint8_t input)
{
    uint64_t word;
    if (input < TRP__MAP_NUMBER)
        return trp__at<uint64_t>(m.operand[input].at, 0);
    memcpy(&word, &m.number[input - TRP__MAP_NUMBER], sizeof word);
    return word;
}

/* Returns a fraction from 0 to below 1 with 53 random bits. */
TRP__DEVICE double trp__map_fraction(uint32_t high, uint32_t low)
{
    return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}

struct trp__map_pair {
    double v[2];
};
/* Makes two numbers of a normal distribution from two fractions. Not inlined, as the functions are
 * long. */
TRP__SHARED_CODE trp__map_pair trp__map_normal_wide(double u, double w, double mean,
                                                    double deviation)
{
    const double far = sqrt(-2 * log(1 - u)), turn = 6.283185307179586477 * w;
    const trp__map_pair pair = {
        {fma(deviation, far * cos(turn), mean), fma(deviation, far * sin(turn), mean)}};
    return pair;
}

/* The same from two words, for nodes that compute in f32. */
TRP__SHARED_CODE trp__map_pair trp__map_normal(uint32_t word, uint32_t next, double mean,
                                               double deviation)
{
    float two[2];
    trp__normal_two(trp__normal_of(mean, deviation), word, next, two);
    const trp__map_pair pair = {{two[0], two[1]}};
    return pair;
}

/* Turns the words of one block into 4 elements, or into 2 for nodes that compute in f64. */
template <typename T>
TRP__DEVICE void trp__map_drawn(uint8_t mode, const double *numbers, const uint32_t word[4],
                                T out[4])
{
    const int kind = mode & TRP__MAP_RANDOM_MODES;
    const bool wide = mode & TRP__MAP_RANDOM_F64;
    if (wide) {
        double u[2] = {trp__map_fraction(word[0], word[1]), trp__map_fraction(word[2], word[3])};
        if (kind == TRP_DNN_NORMAL) {
            const trp__map_pair pair = trp__map_normal_wide(u[0], u[1], numbers[0], numbers[1]);
            u[0] = pair.v[0];
            u[1] = pair.v[1];
        }
        TRP__EACH(k, 2) {
            if (kind == TRP_DNN_BERNOULLI)
                u[k] = u[k] < numbers[0];
            if (kind == TRP_DNN_UNIFORM)
                u[k] = fmin(fma(numbers[1], u[k], numbers[0]), numbers[2]);
            out[k] = (T)u[k];
        }
        out[2] = out[3] = 0;
        return;
    }
    if (kind == TRP_DNN_NORMAL) {
        TRP__UNROLL
        for (int k = 0; k < 4; k += 2) {
            const trp__map_pair pair =
                trp__map_normal(word[k], word[k + 1], numbers[0], numbers[1]);
            out[k] = (T)pair.v[0];
            out[k + 1] = (T)pair.v[1];
        }
        return;
    }
    TRP__EACH(k, 4) {
        if (kind == TRP_DNN_BERNOULLI) /* numbers[0]: the probability times 2^24 */
            out[k] = (float)(word[k] >> 8) < (float)numbers[0] ? T(1) : T(0);
        else if (mode & TRP__MAP_RANDOM_F32)
            out[k] = (T)fmin(
                fma((float)numbers[1], trp__philox_uniform(word[k]), (float)numbers[0]),
                (float)numbers[2]);
        else
            out[k] = (T)fmin((double)(float)fma(numbers[1], (double)trp__philox_uniform(word[k]),
                                                numbers[0]),
                             numbers[2]);
    }
}

/* Draws numbers for the elements that trp__map_load() would load. Neighbouring elements that begin
 * at a block of words share the block; others are drawn one by one. */
template <typename T, int WIDTH, bool VECTOR>
TRP__DEVICE void trp__map_random(const trp__map &m, uint8_t number, uint8_t layout, uint8_t seed,
                                 uint8_t offset, uint8_t parameter, uint8_t mode, int rank,
                                 uint64_t first, T v[WIDTH])
{
    const trp__map_operand &o = m.operand[number];
    const uint64_t key = trp__map_word(m, seed), before = trp__map_word(m, offset);
    const int each = mode & TRP__MAP_RANDOM_F64 ? 2 : 4;
    const double *numbers = m.number + parameter;
    uint32_t word[4];
    T drawn[4];
    if (VECTOR && (layout == TRP__MAP_LINEAR || layout == TRP__MAP_PACKED)) {
        const uint64_t at = o.at + (uint64_t)trp__map_offset(m, o, layout, rank, (uint32_t)first);
        if (at % 4 == 0) {
            TRP__UNROLL
            for (int k = 0; k < WIDTH; k += each) {
                trp__philox_block(key, before, (at + (uint64_t)k) / (uint64_t)each, word);
                trp__map_drawn<T>(mode, numbers, word, drawn);
                TRP__EACH(j, 4) {
                    if (j < each)
                        v[k + j] = drawn[j];
                }
            }
            return;
        }
    }
    TRP__ROLLED
    for (int k = 0; k < WIDTH; k++) {
        const uint64_t e = first + (VECTOR ? (uint64_t)k : (uint64_t)k * TRP__MAP_THREADS);
        const uint64_t at =
            o.at + (uint64_t)(e < m.count ? trp__map_offset(m, o, layout, rank, (uint32_t)e) : 0);
        trp__philox_block(key, before, at / (uint64_t)each, word);
        trp__map_drawn<T>(mode, numbers, word, drawn);
        const int j = (int)(at % (uint64_t)each);
        const T some = j == 0 ? drawn[0] : j == 1 ? drawn[1] : j == 2 ? drawn[2] : drawn[3];
        TRP__EACH(i, WIDTH)
            v[i] = i == k ? some : v[i];
    }
}

#endif
