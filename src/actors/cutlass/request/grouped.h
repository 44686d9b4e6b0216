/* A grouped product under construction on the sender's side. */
#ifndef TRP_ACTORS_CUTLASS_REQUEST_GROUPED_H
#define TRP_ACTORS_CUTLASS_REQUEST_GROUPED_H

#include "actors/cutlass/wire/grouped.h"
#include "actors/cutlass/request/request.h"

typedef struct trp__grouped_encoding {
    trp__encoder *encoder;
    const trp_cutlass_grouped_gemm_request *r;
    trp__cutlass_grouped g;
    trp__epilogue_encoding e;
    trp__operand matrix[TRP__GEMM_MATRICES]; /* mode 0: absent or without elements */
    trp__operand table;                      /* mode 0: absent */
    char name[TRP__GEMM_MATRICES][24];       /* by value: name of the group that reaches farthest */
} trp__grouped_encoding;

/* Returns the request's matrices A to D as an array. */
static inline const trp_matmul_matrix *trp__grouped_matrix(const trp__grouped_encoding *m,
                                                           int which)
{
    const trp_matmul_matrix *const all[] = {&m->r->a, &m->r->b, &m->r->c, &m->r->d};
    return all[which];
}

#endif
