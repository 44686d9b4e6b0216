/* The loop of functions that convert `count` elements from `in` to `out`. GCC 12 vectorises at -O2
 * only loops of a known trip count, so an array is done in blocks of a constant number of elements
 * and a scalar tail. A macro, so that it can be compiled for several targets. */
#ifndef TRP_BASE_NUMBERS_CONVERT_ARRAY_H
#define TRP_BASE_NUMBERS_CONVERT_ARRAY_H

#define TRP__CONVERT_BLOCK 32u

#define TRP__CONVERT_ARRAY(convert)                                                                \
    do {                                                                                           \
        size_t done = 0;                                                                           \
        for (; count - done >= TRP__CONVERT_BLOCK; done += TRP__CONVERT_BLOCK) {                   \
            for (size_t i = 0; i < TRP__CONVERT_BLOCK; i++)                                        \
                out[done + i] = convert(in[done + i]);                                             \
        }                                                                                          \
        for (; done < count; done++)                                                               \
            out[done] = convert(in[done]);                                                         \
    } while (0)

#endif
