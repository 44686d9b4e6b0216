/* Shared by the parts of the catalogue. */
#ifndef TRP_ACTORS_CUTLASS_CATALOGUE_PARTS_H
#define TRP_ACTORS_CUTLASS_CATALOGUE_PARTS_H

#include "actors/cutlass/catalogue/catalogue.h"

/* Returns the elements of D's type per store of a thread, and per load of C and auxiliary matrices.
 * At most eight for 2.x: with more, a warp's rows cannot be divided among its threads. */
static inline uint32_t trp__cutlass_row_line_elements(const trp__cutlass_row *row, uint32_t type)
{
    uint32_t elements = row->lines * 8u / trp_dtype_bits((trp_dtype)type);
    if (row->family == TRP__CUTLASS_SM80 && elements > 8)
        elements = 8;
    return elements > 0 ? elements : 1;
}

/* Tells whether one matrix is narrower than the other. */
static inline bool trp__cutlass_row_mixed(const trp__cutlass_row *row)
{
    return row->inputs == TRP__CUTLASS_MIXED || row->inputs == TRP__CUTLASS_MIXED_I4;
}

/* Tells whether A is the narrower matrix. */
static inline bool trp__cutlass_left_narrow(const trp__cutlass_problem *p)
{
    return trp_dtype_bits((trp_dtype)p->a) < trp_dtype_bits((trp_dtype)p->b);
}

/* Tells whether the tile is transposed: rows of the catalogue for mixed types are written for a
 * narrow A in 3.x, where the kernel computes the transpose if B is narrow, and for a narrow B in
 * 2.x. */
static inline bool trp__cutlass_row_turned(const trp__cutlass_row *row,
                                           const trp__cutlass_problem *p)
{
    return trp__cutlass_row_mixed(row) && trp__cutlass_left_narrow(p) != trp__cutlass_row_3x(row);
}

/* Returns a tile's size along m (0) or n (1). */
static inline uint32_t trp__cutlass_row_tile(const trp__cutlass_row *row,
                                             const trp__cutlass_problem *p, int along)
{
    return row->tile[trp__cutlass_row_turned(row, p) ? 1 - along : along];
}

/* Returns the number of lines that share a factor of 128 elements along k. */
static inline uint32_t trp__cutlass_scale_lines(uint32_t mode)
{
    return mode == TRP_SCALE_BLOCK_128X128 ? 128 : 1;
}

/* Returns a lower bound of a block's shared memory in bytes. 3.x uses all that its generation
 * has. */
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
