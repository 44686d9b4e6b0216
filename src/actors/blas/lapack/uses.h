/* What a row of LAPACK in routines.def says of an operation besides its operands. For the files
 * alone that include that one. */
#ifndef TRP_ACTORS_BLAS_LAPACK_USES_H
#define TRP_ACTORS_BLAS_LAPACK_USES_H

enum {
    TRANSPOSES = 1 << 0,  /* trans */
    ROWS = 1 << 1,        /* m; without it A is n x n */
    RIGHT_SIDES = 1 << 2, /* nrhs columns of B; without it B is as A */
    ANY_ORDER = 1 << 3,   /* the same on the transposed matrix */
    TALL = 1 << 4,        /* m >= n */
    SMALL = 1 << 5,       /* on cuda up to TRP__CUBLAS_MATINV_MOST rows */
};

#endif
