/* What the parts of the catalogue tell each other. */
#ifndef TRP_ACTORS_CUTLASS_CATALOGUE_PARTS_H
#define TRP_ACTORS_CUTLASS_CATALOGUE_PARTS_H

#include "actors/cutlass/catalogue.h"

/* How many elements of D's type a thread stores at once, and of C and auxiliary matrices loads. At
 * most eight for 2.x: with more a warp's rows would not divide among its threads. */
static inline uint32_t trp__cutlass_row_line_elements(const trp__cutlass_row *row, uint32_t type)
{
    uint32_t elements = row->lines * 8u / trp_dtype_bits((trp_dtype)type);
    if (row->family == TRP__CUTLASS_SM80 && elements > 8)
        elements = 8;
    return elements > 0 ? elements : 1;
}

/* Bytes of shared memory that a block has, at least. 3.x takes all that 9.0 has. */
static inline uint32_t trp__cutlass_row_shared(const trp__cutlass_row *row,
                                               const trp__cutlass_problem *p)
{
    uint32_t bytes = trp_dtype_bits((trp_dtype)p->a) / 8;
    return row->family == TRP__CUTLASS_SM90
               ? 232448u
               : (uint32_t)row->stages * (row->tile[0] + row->tile[1]) * row->tile[2] * bytes;
}

#endif
