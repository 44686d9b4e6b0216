/* What an operation of levels 1 to 3 is, and the sizes of its operands, which the sender's checks
 * (levels.c) go by. */
#ifndef TRP_ACTORS_BLAS_LEVELS_SHAPE_H
#define TRP_ACTORS_BLAS_LEVELS_SHAPE_H

#include "actors/blas/levels_wire.h"
#include "actors/blas/routines.h"
#include "matrix/operands.h"

/* A request of any level on its way to its payload. */
typedef struct trp__levels_problem {
    trp__pack *pack;
    const struct trp__levels_row *row;
    trp_dtype type;
    trp_order order;
    trp__levels g;
    trp__operand operand[TRP__BLAS_OPERANDS];
    bool vector[TRP__BLAS_OPERANDS];
    bool unread[TRP__BLAS_OPERANDS]; /* present, and not looked at */
    trp__operand scalars, result;
    void *value;                  /* instead of the result's buffer, in the sender's memory */
    trp_scalar alpha, beta, c, s; /* as given */
} trp__levels_problem;

/* What an operation is and takes. */
typedef struct trp__levels_row {
    uint32_t op;
    uint32_t uses;                           /* flags as below */
    uint32_t mode[TRP__BLAS_OPERANDS];       /* how it uses A, X and Y; 0: it has none */
    void (*lay_out)(trp__levels_problem *p); /* sizes of the operands, from those of the request */
    void (*to_columns)(trp__levels_problem *p); /* from row-major order to column-major */
} trp__levels_row;

/* trp_submit() has found the operation in the actor's table, which has a row here for each. */
const trp__levels_row *trp__levels_row_of(uint32_t op);

#endif
