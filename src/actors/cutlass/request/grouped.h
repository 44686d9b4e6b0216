/* A grouped product in the making, on the sender's side. */
#ifndef TRP_ACTORS_CUTLASS_REQUEST_GROUPED_H
#define TRP_ACTORS_CUTLASS_REQUEST_GROUPED_H

#include "actors/cutlass/wire/grouped.h"
#include "actors/cutlass/request/request.h"

typedef struct trp__grouped_pack {
    trp__pack *pack;
    const trp_cutlass_grouped_gemm_request *r;
    trp__cutlass_grouped g;
    trp__epilogue_pack e;
    trp__operand matrix[TRP__GEMM_MATRICES]; /* mode 0: there is none, or it has no elements */
    trp__operand table;                      /* likewise */
    char name[TRP__GEMM_MATRICES][24];       /* by value of the group that reaches farthest */
} trp__grouped_pack;

/* Numbers of the request as an array, A to D. */
static inline const trp_matmul_matrix *trp__grouped_matrix(const trp__grouped_pack *m, int which)
{
    const trp_matmul_matrix *const all[] = {&m->r->a, &m->r->b, &m->r->c, &m->r->d};
    return all[which];
}

#endif
