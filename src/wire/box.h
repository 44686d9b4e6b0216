/* Boxes of rows at a pitch, for pitched copies. In staging memory a box is packed: its rows follow
 * each other. */
#ifndef TRP_WIRE_BOX_H
#define TRP_WIRE_BOX_H

#include <troupe/buffer.h>

typedef struct trp__box {
    uint64_t bytes;  /* of a row; 0: there is no box, but a copy of consecutive bytes */
    uint64_t rows;   /* of a plane, at least 1 */
    uint64_t planes; /* at least 1 */
} trp__box;

/* A part of a box in one plane: rows of the same length. */
typedef struct trp__box_part {
    uint64_t packed;  /* where it begins in the packed box */
    uint64_t strided; /* and at a pitch */
    uint64_t bytes, rows;
} trp__box_part;

static inline uint64_t trp__box_span(const trp__box *box, const trp_pitch *pitch)
{
    return (box->planes - 1) * pitch->plane + (box->rows - 1) * pitch->row + box->bytes;
}

static inline uint64_t trp__box_bytes(const trp__box *box)
{
    return box->bytes * box->rows * box->planes;
}

/* The next part of the packed bytes from *at to `end`, and moves *at behind it. False: none is
 * left. */
static inline bool trp__box_next(const trp__box *box, const trp_pitch *pitch, uint64_t *at,
                                 uint64_t end, trp__box_part *part)
{
    if (*at >= end)
        return false;
    uint64_t row = *at / box->bytes, inside = *at % box->bytes, left = end - *at;
    uint64_t rows_left = box->rows - row % box->rows, rest = box->bytes - inside;
    bool whole = inside == 0 && left >= box->bytes;
    *part = (trp__box_part){.packed = *at,
                            .strided = row / box->rows * pitch->plane +
                                       row % box->rows * pitch->row + inside,
                            .bytes = whole         ? box->bytes
                                     : left < rest ? left
                                                   : rest,
                            .rows = 1};
    if (whole)
        part->rows = left / box->bytes < rows_left ? left / box->bytes : rows_left;
    *at += part->bytes * part->rows;
    return true;
}

#endif
