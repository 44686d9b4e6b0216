/* Flags of a row of LAPACK in routines.def, for files that include it. */
#ifndef TRP_ACTORS_BLAS_LAPACK_USES_H
#define TRP_ACTORS_BLAS_LAPACK_USES_H

enum {
    TRANSPOSES = 1 << 0,  /* trans */
    ROWS = 1 << 1,        /* has m; without it, A is n x n */
    RIGHT_SIDES = 1 << 2, /* B has nrhs columns; without it, B has the size of A */
    ANY_ORDER = 1 << 3,   /* the result of the transpose is the transpose of the result */
    TALL = 1 << 4,        /* m >= n */
    SMALL = 1 << 5,       /* on GPUs, at most TRP__CUBLAS_MATINV_MOST rows */
};

#endif
