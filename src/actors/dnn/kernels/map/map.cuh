/* Runs the programs of map.h. Slots lie in shared memory, each thread in its own column, 16 bytes
 * next to 16 bytes of the next thread, so that accesses have no bank conflicts and need no barrier.
 *
 * Threads share the elements in one of two ways. "Vector": a thread has neighbouring elements, and
 * accesses 16 bytes at a time. "Loose", where sizes or alignment do not allow that: the elements of
 * a thread are a block's width apart, so that neighbouring threads access neighbouring elements. */
#ifndef TRP_ACTORS_DNN_KERNELS_MAP_MAP_CUH
#define TRP_ACTORS_DNN_KERNELS_MAP_MAP_CUH

#include "actors/dnn/kernels/map/operands.cuh"

/* Elements of one 16-byte column of a slot. */
template <typename T> struct trp__lanes {
    static constexpr int COUNT = 16 / (int)sizeof(T);
    T v[COUNT];
};

template <typename T, int WIDTH> struct trp__map_machine {
    static constexpr int LANES = trp__lanes<T>::COUNT;
    static constexpr int PARTS = WIDTH / LANES;
    const trp__map *m;
    trp__lanes<T> *slots;
    int thread;

    TRP__DEVICE trp__lanes<T> &slot(int number, int part) const
    {
        return slots[(number * PARTS + part) * TRP__MAP_THREADS + thread];
    }

    /* An input of an instruction: a slot, or a number. */
    TRP__DEVICE trp__lanes<T> input(int number, int part) const
    {
        trp__lanes<T> x;
        if (number < TRP__MAP_NUMBER)
            return slot(number, part);
        const T value = (T)m->number[number - TRP__MAP_NUMBER];
        TRP__EACH(k, LANES)
            x.v[k] = value;
        return x;
    }

    TRP__DEVICE void put(int number, const T value[WIDTH]) const
    {
        TRP__EACH(part, PARTS) {
            trp__lanes<T> x;
            TRP__EACH(k, LANES)
                x.v[k] = value[part * LANES + k];
            slot(number, part) = x;
        }
    }

    TRP__DEVICE void get(int number, T value[WIDTH]) const
    {
        TRP__EACH(part, PARTS) {
            const trp__lanes<T> x = input(number, part);
            TRP__EACH(k, LANES)
                value[part * LANES + k] = x.v[k];
        }
    }
};

/* One operation over the elements of a thread. */
#define TRP__MAP_CASE(name, expression)                                                            \
    case name:                                                                                     \
        TRP__UNROLL                                                                                \
        for (int part = 0; part < M::PARTS; part++) {                                              \
            const trp__lanes<T> a = at.input(c.a, part), b = at.input(c.b, part);                  \
            trp__lanes<T> y;                                                                       \
            TRP__UNROLL                                                                            \
            for (int k = 0; k < M::LANES; k++) {                                                   \
                const T x = a.v[k], w = b.v[k];                                                    \
                (void)w;                                                                           \
                y.v[k] = expression;                                                               \
            }                                                                                      \
            at.slot(c.to, part) = y;                                                               \
        }                                                                                          \
        break;

/* Not inlined: all calls of these long functions share one copy. */
template <typename T> TRP__SHARED_CODE T trp__map_long(uint8_t op, T x, T w, T p0)
{
    switch (op) {
#define TRP__MAP_LONG(name, expression)                                                            \
    case name:                                                                                     \
        return expression;
        TRP__MAP_LONG_OPERATIONS(TRP__MAP_LONG)
#undef TRP__MAP_LONG
    default:
        return x;
    }
}

template <typename T, int WIDTH>
TRP__DEVICE void trp__map_compute(const trp__map_machine<T, WIDTH> &at, const trp__map_code &c)
{
    typedef trp__map_machine<T, WIDTH> M;
    const double *numbers = at.m->number + c.parameter;
    const T p[3] = {(T)numbers[0], (T)numbers[1], (T)numbers[2]};
    (void)p;
    switch (c.op) {
        TRP__MAP_OPERATIONS(TRP__MAP_CASE)
    case TRP_DNN_SELECT:
        TRP__EACH(part, M::PARTS) {
            const trp__lanes<T> a = at.input(c.a, part), b = at.input(c.b, part),
                                t = at.input(c.c, part);
            trp__lanes<T> y;
            TRP__EACH(k, M::LANES)
                y.v[k] = t.v[k] != 0 ? a.v[k] : b.v[k];
            at.slot(c.to, part) = y;
        }
        break;
    case TRP__MAP_ROUND:
        TRP__EACH(part, M::PARTS) {
            const trp__lanes<T> a = at.input(c.a, part);
            trp__lanes<T> y;
            TRP__EACH(k, M::LANES)
                y.v[k] = trp__rounded<T>(c.b, a.v[k]);
            at.slot(c.to, part) = y;
        }
        break;
    default:
        TRP__EACH(part, M::PARTS) {
            const trp__lanes<T> a = at.input(c.a, part), b = at.input(c.b, part);
            trp__lanes<T> y;
            TRP__EACH(k, M::LANES)
                y.v[k] = trp__map_long<T>(c.op, a.v[k], b.v[k], p[0]);
            at.slot(c.to, part) = y;
        }
        break;
    }
}

/* Not inlined, since the interpreter has the code of all modes. */
template <typename T, int WIDTH, bool VECTOR>
TRP__SHARED_CODE void trp__map_draw(const trp__map_machine<T, WIDTH> &at, const trp__map_code &c,
                                    uint64_t first)
{
    T v[WIDTH] = {0};
    trp__map_random<T, WIDTH, VECTOR>(*at.m, c.a, at.m->operand[c.a].layout, c.b, c.c, c.parameter,
                                      c.mode, at.m->rank, first, v);
    at.put(c.to, v);
}

/* Runs an instruction that loads, stores or draws. */
template <typename T, int WIDTH, bool VECTOR>
TRP__DEVICE void trp__map_move(const trp__map_machine<T, WIDTH> &at, const trp__map_code &c,
                               uint64_t first, int here)
{
    T v[WIDTH];
    if (c.op == TRP__MAP_LOAD) {
        const trp__map_operand &o = at.m->operand[c.a];
        trp__map_load<T, WIDTH, VECTOR>(*at.m, o, o.type, o.layout, at.m->rank, first, here, v);
        at.put(c.to, v);
    } else if (c.op == TRP__MAP_RANDOM) {
        trp__map_draw<T, WIDTH, VECTOR>(at, c, first);
    } else {
        const trp__map_operand &o = at.m->operand[c.b];
        at.get(c.a, v);
        trp__map_store<T, WIDTH, VECTOR>(*at.m, o, o.type, o.layout, at.m->rank, first, here, v);
    }
}

template <typename T, int WIDTH> TRP__DEVICE void trp__map_run(const trp__map &m)
{
    TRP__DYNAMIC(trp__lanes<T>, slots);
    const trp__map_machine<T, WIDTH> at = {&m, slots, (int)threadIdx.x};
    const uint64_t block = (uint64_t)blockIdx.x * TRP__MAP_THREADS * WIDTH;
    const uint64_t first = block + (m.vector ? threadIdx.x * WIDTH : threadIdx.x);
    const int here = first >= m.count          ? 0
                     : m.count - first < WIDTH ? (int)(m.count - first)
                                               : WIDTH;
    for (int i = 0; i < m.codes && here > 0; i++) {
        const trp__map_code c = m.code[i];
        const bool places =
            c.op == TRP__MAP_LOAD || c.op == TRP__MAP_STORE || c.op == TRP__MAP_RANDOM;
        if (!places)
            trp__map_compute<T, WIDTH>(at, c);
        else if (m.vector)
            trp__map_move<T, WIDTH, true>(at, c, first, here);
        else
            trp__map_move<T, WIDTH, false>(at, c, first, here);
    }
}

TRP__ENTRY(trp_map_f32, trp__map, (TRP__MAP_THREADS), trp__map_run<float, TRP__MAP_WIDTH>)
TRP__ENTRY(trp_map_f64, trp__map, (TRP__MAP_THREADS), trp__map_run<double, TRP__MAP_WIDTH_F64>)

#endif
