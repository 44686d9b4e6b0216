/* The table of the operations of levels 1 to 3, and the sizes of their operands, which the checks
 * in levels.c use. */
#ifndef TRP_ACTORS_BLAS_LEVELS_SHAPE_H
#define TRP_ACTORS_BLAS_LEVELS_SHAPE_H

#include "actors/blas/levels_wire.h"
#include "actors/blas/routines.h"
#include "matrix/operands.h"

/* A request of any level while it is checked. */
typedef struct trp__levels_problem {
    trp__encoder *encoder;
    const struct trp__levels_row *row;
    trp_dtype type;
    trp_order order;
    trp__levels g;
    trp__operand operand[TRP__BLAS_OPERANDS];
    bool vector[TRP__BLAS_OPERANDS];
    bool unread[TRP__BLAS_OPERANDS]; /* given, but not read */
    trp__operand scalars, result;
    void *value;                  /* for the result, in the sender's memory instead of a buffer */
    trp_scalar alpha, beta, c, s; /* as given */
} trp__levels_problem;

/* The properties of an operation. */
typedef struct trp__levels_row {
    uint32_t op;
    uint32_t uses;                     /* flags of routines.h */
    uint32_t mode[TRP__BLAS_OPERANDS]; /* access modes of A, X and Y; 0: it has no such operand */
    void (*lay_out)(trp__levels_problem *p);    /* sets the sizes of the operands */
    void (*to_columns)(trp__levels_problem *p); /* converts from row-major order */
} trp__levels_row;

/* Finds the row of an operation. trp_submit() has found the operation in the actor's table, so
 * there is a row. */
const trp__levels_row *trp__levels_row_of(uint32_t op);

#endif
