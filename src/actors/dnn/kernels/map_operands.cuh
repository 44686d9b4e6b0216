/* Operands of element-wise programs: where a thread's elements are, and how they are read and
 * written. `type` and `layout` are those of the operand; a constant where a kernel is made for one
 * program. */
#ifndef TRP_ACTORS_DNN_KERNELS_MAP_OPERANDS_CUH
#define TRP_ACTORS_DNN_KERNELS_MAP_OPERANDS_CUH

#include "actors/dnn/kernels/functions.cuh"
#include "actors/dnn/kernels/map.h"
#include "actors/dnn/kernels/opcodes.h"

TRP__DEVICE uint32_t trp__quotient(uint32_t n, const trp__map_divisor &d)
{
    return (uint32_t)(((uint64_t)n * d.factor >> 32) + n) >> d.shift;
}

/* Where element i of the space is in an operand. */
TRP__DEVICE int64_t trp__map_offset(const trp__map &m, const trp__map_operand &o, uint8_t layout,
                                    uint32_t i)
{
    int64_t offset = 0;
    if (layout == TRP__MAP_LINEAR)
        return i;
    for (int k = 0; k < m.rank - 1; k++) {
        const uint32_t next = trp__quotient(i, m.dim[k]);
        offset += (int64_t)(i - next * m.dim[k].by) * o.stride[k];
        i = next;
    }
    return offset + (int64_t)i * o.stride[m.rank - 1];
}

/* Elements `first` to `first` + `here` - 1 (VECTOR), or `first`, `first` + TRP__MAP_THREADS and so
 * on, as far as there are any. */
template <typename T, int WIDTH, bool VECTOR>
TRP__DEVICE void trp__map_load(const trp__map &m, const trp__map_operand &o, uint8_t type,
                               uint8_t layout, uint64_t first, int here, T v[WIDTH])
{
    if (!VECTOR || layout == TRP__MAP_STRIDED) {
        TRP__UNROLL
        for (int k = 0; k < WIDTH; k++) {
            const uint64_t e = first + (VECTOR ? (uint64_t)k : (uint64_t)k * TRP__MAP_THREADS);
            v[k] = e < m.count
                       ? trp__load<T>(o.at, trp__map_offset(m, o, layout, (uint32_t)e), type)
                       : T(0);
        }
        return;
    }
    const int64_t offset = trp__map_offset(m, o, layout, (uint32_t)first);
    if (layout == TRP__MAP_SPLAT) {
        const T one = trp__load<T>(o.at, offset, type);
        TRP__UNROLL
        for (int k = 0; k < WIDTH; k++)
            v[k] = one;
    } else if (here == WIDTH) {
        trp__load_run<T, WIDTH>(o.at, offset, type, v);
    } else {
        TRP__UNROLL
        for (int k = 0; k < WIDTH; k++)
            v[k] = k < here ? trp__load<T>(o.at, offset + k, type) : T(0);
    }
}

template <typename T, int WIDTH, bool VECTOR>
TRP__DEVICE void trp__map_store(const trp__map &m, const trp__map_operand &o, uint8_t type,
                                uint8_t layout, uint64_t first, int here, const T v[WIDTH])
{
    if (!VECTOR || here < WIDTH) {
        TRP__UNROLL
        for (int k = 0; k < WIDTH; k++) {
            const uint64_t e = first + (VECTOR ? (uint64_t)k : (uint64_t)k * TRP__MAP_THREADS);
            if (e < m.count)
                trp__store<T>(o.at, trp__map_offset(m, o, layout, (uint32_t)e), type, v[k]);
        }
    } else {
        trp__store_run<T, WIDTH>(o.at, trp__map_offset(m, o, layout, (uint32_t)first), type, v);
    }
}

#endif
