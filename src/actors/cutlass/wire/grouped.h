/* Payload of TRP_OP_CUTLASS_GROUPED_GEMM: checked, with the defaults applied that hold for all
 * groups. With 0 groups there is no access and nothing to do. */
#ifndef TRP_ACTORS_CUTLASS_WIRE_GROUPED_H
#define TRP_ACTORS_CUTLASS_WIRE_GROUPED_H

#include "actors/cutlass/wire/gemm.h"

#define TRP__GROUPED_HEAD_BYTES 112u

typedef struct trp__cutlass_grouped {
    int64_t m, n, k;                /* maxima over groups; the total for the divided dimension */
    int64_t ld[TRP__GEMM_MATRICES]; /* elements; by value and by table 0 means the minimum */
    int64_t stride[TRP__GEMM_MATRICES]; /* elements from group to group */
    uint32_t groups;
    uint16_t tree_bytes;
    uint8_t grouping;                   /* trp_cutlass_grouping */
    uint8_t type[TRP__GEMM_MATRICES];   /* as in trp__cutlass_gemm */
    uint8_t order[TRP__GEMM_MATRICES];  /* likewise */
    uint8_t access[TRP__GEMM_MATRICES]; /* indices into the accesses; those of A and B may be absent
                                         * if k is 0 */
    uint8_t table;                      /* index into the accesses; by value TRP__GEMM_NO_ACCESS */
    uint8_t in_place;                   /* C has D's memory */
    uint8_t compute;                    /* trp_compute */
    uint8_t slots;
    uint8_t alignment; /* alignment in bytes of the table's values; at least 1 */
    /* The groups if by value, slots and tree, or in a piece of staging memory if they are
     * longer. */
    unsigned char rest[TRP__PAYLOAD_BYTES - TRP__GROUPED_HEAD_BYTES];
} trp__cutlass_grouped;

_Static_assert(sizeof(trp__cutlass_grouped) == TRP__PAYLOAD_BYTES, "no padding");
_Static_assert(sizeof(trp_cutlass_group) == 96, "a row of 12 numbers");

/* One group with its sizes and places. */
typedef struct trp__group {
    int64_t m, n, k;
    int64_t at[TRP__GEMM_MATRICES]; /* element offsets in the request's matrices; unset without C */
    int64_t ld[TRP__GEMM_MATRICES];
    int64_t row, column; /* first row and column within a divided dimension; else 0 */
} trp__group;

/* Tells whether a matrix has the divided dimension, so that all groups share one matrix. */
bool trp__grouped_is_cut(uint32_t grouping, int matrix);

/* Tells whether the divided dimension runs along the matrix's lines, so that a piece may begin
 * anywhere in a line.
 */
bool trp__grouped_cuts_lines(const trp__cutlass_grouped *g, int matrix);

/* Returns the length and number of a matrix's lines in memory. */
void trp__group_lines(const trp__cutlass_grouped *g, const trp__group *x, int matrix,
                      int64_t *length, int64_t *count);

/* Returns the number of elements from the first of all groups to the end of this group's matrix; 0
 * if it has none. */
uint64_t trp__group_end(const trp__cutlass_grouped *g, const trp__group *x, int matrix);

/* Computes group number `index` from a row: checks sizes against m, n and k, and that each matrix
 * lies within `room` elements. TRP_E_ARGUMENT: "group[3].lda: expected ..., got ...". */
trp_status trp__group_from_row(const trp__cutlass_grouped *g, uint32_t index,
                               const trp_cutlass_group *row,
                               const uint64_t room[TRP__GEMM_MATRICES], trp__group *out,
                               trp_error *error);

/* Computes the group from the begin and end of its piece of the divided dimension. */
trp_status trp__group_from_ends(const trp__cutlass_grouped *g, uint32_t index, int64_t begin,
                                int64_t end, trp__group *out, trp_error *error);

#endif
