/* Flags of a row of routines.def, for files that include it. */
#ifndef TRP_ACTORS_BLAS_ROUTINES_H
#define TRP_ACTORS_BLAS_ROUTINES_H

/* Options and sizes. Options that an operation does not use must be 0; sizes need not. */
enum {
    COMPLEX_ONLY = 1 << 0,
    TRANS = 1 << 1,
    TRANS_B = 1 << 2,
    SIDE = 1 << 3,
    UPLO = 1 << 4,
    DIAG = 1 << 5,
    SIZE_M = 1 << 6,
    SIZE_K = 1 << 7,
    BAND = 1 << 8,
    BATCH = 1 << 9,
    ALPHA = 1 << 10,
    BETA = 1 << 11,
    ROTATION = 1 << 12,     /* c and s */
    POSITIVE = 1 << 13,     /* the increment */
    TRIANGLE = 1 << 14,     /* of Y is written */
    NO_CONJUGATE = 1 << 15, /* complex: no TRP_C */
    NO_TRANSPOSE = 1 << 16, /* complex: no TRP_T */
    CONJUGATES = 1 << 17,   /* complex: row-major order needs conjugates of the vectors */
    PACKED = 1 << 18,       /* A: one triangle, column by column */
    REAL_SCALARS = 1 << 19, /* alpha and beta */
    REAL_BETA = 1 << 20,
    GIVES_ELEMENT = 1 << 21, /* the result is an element */
    GIVES_REAL = 1 << 22,    /* the result is a real number */
    GIVES_INDEX = 1 << 23,   /* the result is an i64 */
    GIVES_ROTATION = 1 << 24,
    /* the result is c and s */ IN_PLACE = 1 << 25, /* Y may be X */
    DIAGONALS = 1 << 26,                            /* a band in one triangle: kl */
    REAL_ONLY = 1 << 27,
    MODIFIED = 1 << 28,       /* scalars: the five numbers of a modified rotation */
    GIVES_MODIFIED = 1 << 29, /* the result is these five numbers */
    HALF = 1 << 30,           /* f16 and bf16 too; alpha is f32 */
};
#define SCALARS (ALPHA | BETA | ROTATION | MODIFIED)
#define GIVES   (GIVES_ELEMENT | GIVES_REAL | GIVES_INDEX | GIVES_ROTATION | GIVES_MODIFIED)
/* The operation computes one rotation for any n. */
#define GIVES_ONE (GIVES_ROTATION | GIVES_MODIFIED)

#endif
