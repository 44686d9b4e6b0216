/* What the parts of the catalogue tell each other. */
#ifndef TRP_ACTORS_CUTLASS_CATALOGUE_PARTS_H
#define TRP_ACTORS_CUTLASS_CATALOGUE_PARTS_H

#include "actors/cutlass/catalogue/catalogue.h"

/* How many elements of D's type a thread stores at once, and of C and auxiliary matrices loads. At
 * most eight for 2.x: with more a warp's rows would not divide among its threads. */
static inline uint32_t trp__cutlass_row_line_elements(const trp__cutlass_row *row, uint32_t type)
{
    uint32_t elements = row->lines * 8u / trp_dtype_bits((trp_dtype)type);
    if (row->family == TRP__CUTLASS_SM80 && elements > 8)
        elements = 8;
    return elements > 0 ? elements : 1;
}

/* Of a matrix that is narrower than the other one. */
static inline bool trp__cutlass_row_mixed(const trp__cutlass_row *row)
{
    return row->inputs == TRP__CUTLASS_MIXED || row->inputs == TRP__CUTLASS_MIXED_I4;
}

/* Which of the two is narrower. */
static inline bool trp__cutlass_left_narrow(const trp__cutlass_problem *p)
{
    return trp_dtype_bits((trp_dtype)p->a) < trp_dtype_bits((trp_dtype)p->b);
}

/* Whether the tile lies the other way around: rows of one narrow matrix are written for 3.x as if A
 * were that, which the kernel computes then, and for 2.x as if B were. */
static inline bool trp__cutlass_row_turned(const trp__cutlass_row *row,
                                           const trp__cutlass_problem *p)
{
    return trp__cutlass_row_mixed(row) && trp__cutlass_left_narrow(p) != trp__cutlass_row_3x(row);
}

/* A tile's size along m (0) or n (1). */
static inline uint32_t trp__cutlass_row_tile(const trp__cutlass_row *row,
                                             const trp__cutlass_problem *p, int along)
{
    return row->tile[trp__cutlass_row_turned(row, p) ? 1 - along : along];
}

/* For how many lines a factor of a block of 128 along k is. */
static inline uint32_t trp__cutlass_scale_lines(uint32_t mode)
{
    return mode == TRP_SCALE_BLOCK_128X128 ? 128 : 1;
}

/* Bytes of shared memory that a block has, at least. 3.x takes all that its generation has. */
static inline uint32_t trp__cutlass_row_shared(const trp__cutlass_row *row,
                                               const trp__cutlass_problem *p)
{
    if (row->family == TRP__CUTLASS_SM120)
        return 101376u;
    if (trp__cutlass_row_3x(row))
        return 232448u;
    uint32_t bytes = trp__cutlass_row_tile(row, p, 0) * trp_dtype_bits((trp_dtype)p->a) / 8 +
                     trp__cutlass_row_tile(row, p, 1) * trp_dtype_bits((trp_dtype)p->b) / 8;
    return (uint32_t)row->stages * bytes * row->tile[2];
}

#endif
