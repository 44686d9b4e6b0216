/* Payload of TRP_OP_CUTLASS_GROUPED_GEMM: checked, all defaults filled in that are those of all
 * groups. With groups 0 there is no access and nothing to do. */
#ifndef TRP_ACTORS_CUTLASS_WIRE_GROUPED_H
#define TRP_ACTORS_CUTLASS_WIRE_GROUPED_H

#include "actors/cutlass/wire/gemm.h"

#define TRP__GROUPED_HEAD_BYTES 112u

typedef struct trp__cutlass_grouped {
    int64_t m, n, k; /* the most that a group has, or of the dimension that is cut all of it */
    int64_t ld[TRP__GEMM_MATRICES];     /* elements; by value and by table 0 stands for the least */
    int64_t stride[TRP__GEMM_MATRICES]; /* elements from group to group */
    uint32_t groups;
    uint16_t tree_bytes;
    uint8_t grouping;                   /* trp_cutlass_grouping */
    uint8_t type[TRP__GEMM_MATRICES];   /* as in trp__cutlass_gemm */
    uint8_t order[TRP__GEMM_MATRICES];  /* likewise */
    uint8_t access[TRP__GEMM_MATRICES]; /* likewise; A's and B's may be missing where k is 0 */
    uint8_t table;                      /* index into the accesses; by value TRP__GEMM_NO_ACCESS */
    uint8_t in_place;                   /* C is in D's place */
    uint8_t compute;                    /* trp_compute */
    uint8_t slots;
    uint8_t alignment; /* bytes that divide what the table says; at least 1 */
    /* By value the groups; slots and tree. In a piece of staging memory if they are longer. */
    unsigned char rest[TRP__PAYLOAD_BYTES - TRP__GROUPED_HEAD_BYTES];
} trp__cutlass_grouped;

_Static_assert(sizeof(trp__cutlass_grouped) == TRP__PAYLOAD_BYTES, "no padding");
_Static_assert(sizeof(trp_cutlass_group) == 96, "a row of 12 numbers");

/* One group, as it is computed. */
typedef struct trp__group {
    int64_t m, n, k;
    int64_t at[TRP__GEMM_MATRICES]; /* elements behind those of the request; of no C: nothing */
    int64_t ld[TRP__GEMM_MATRICES];
    int64_t row, column; /* where its rows and columns begin, of a dimension that is cut; else 0 */
} trp__group;

/* Whether a matrix has the dimension that is cut, so that there is one for all groups. */
bool trp__grouped_is_cut(uint32_t grouping, int matrix);

/* Of one that has it: whether that is along its lines, so that a piece may begin anywhere in one.
 */
bool trp__grouped_cuts_lines(const trp__cutlass_grouped *g, int matrix);

/* Rows and columns of a matrix in memory: how long its lines are, and how many. */
void trp__group_lines(const trp__cutlass_grouped *g, const trp__group *x, int matrix,
                      int64_t *length, int64_t *count);

/* Elements from the first that all groups have to behind the last of this group's matrix; 0 if it
 * has none. */
uint64_t trp__group_end(const trp__cutlass_grouped *g, const trp__group *x, int matrix);

/* Group number `index` from a row: checks sizes against m, n and k, and that each matrix lies
 * within `room` elements. TRP_E_ARGUMENT: "group[3].lda: expected ..., got ...". */
trp_status trp__group_from_row(const trp__cutlass_grouped *g, uint32_t index,
                               const trp_cutlass_group *row,
                               const uint64_t room[TRP__GEMM_MATRICES], trp__group *out,
                               trp_error *error);

/* From where its piece of the cut dimension begins and ends. */
trp_status trp__group_from_ends(const trp__cutlass_grouped *g, uint32_t index, int64_t begin,
                                int64_t end, trp__group *out, trp_error *error);

#endif
