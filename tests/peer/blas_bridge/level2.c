/* Level 2. */
#include "bridge.h"

static void place_2(trp_blas2_request *r, const void *a, int64_t rows, int64_t columns, int lda,
                    int a_mode, const void *x, int64_t x_count, int incx, int x_mode, const void *y,
                    int64_t y_count, int incy, int y_mode)
{
    bridge_place_matrix(A, a, rows, columns, lda, r->type, a_mode);
    bridge_place_vector(X, x, x_count, incx, r->type, x_mode);
    r->a = bridge_slots[A].buffer;
    r->x = bridge_slots[X].buffer;
    r->lda = lda;
    r->incx = incx;
    if (!y)
        return;
    bridge_place_vector(Y, y, y_count, incy, r->type, y_mode);
    r->y = bridge_slots[Y].buffer;
    r->incy = incy;
}

#define GENERAL_2(p, t)                                                                            \
    FORTRAN void p##gemv_(const char *trans, const int *m, const int *n, const void *alpha,        \
                          const void *a, const int *lda, const void *x, const int *incx,           \
                          const void *beta, void *y, const int *incy)                              \
    {                                                                                              \
        const bool plain = is(trans, 'n');                                                         \
        trp_blas2_request r = {.type = t,                                                          \
                               .trans = trans_of(trans),                                           \
                               .m = *m,                                                            \
                               .n = *n,                                                            \
                               .alpha = scalar(t, alpha),                                          \
                               .beta = scalar(t, beta)};                                           \
        place_2(&r, a, *m, *n, *lda, READ, x, plain ? *n : *m, *incx, READ, y, plain ? *m : *n,    \
                *incy, READ | WRITE);                                                              \
        SEND(gemv);                                                                                \
    }                                                                                              \
    FORTRAN void p##gbmv_(const char *trans, const int *m, const int *n, const int *kl,            \
                          const int *ku, const void *alpha, const void *a, const int *lda,         \
                          const void *x, const int *incx, const void *beta, void *y,               \
                          const int *incy)                                                         \
    {                                                                                              \
        const bool plain = is(trans, 'n');                                                         \
        trp_blas2_request r = {.type = t,                                                          \
                               .trans = trans_of(trans),                                           \
                               .m = *m,                                                            \
                               .n = *n,                                                            \
                               .kl = *kl,                                                          \
                               .ku = *ku,                                                          \
                               .alpha = scalar(t, alpha),                                          \
                               .beta = scalar(t, beta)};                                           \
        place_2(&r, a, *kl + *ku + 1, *n, *lda, READ, x, plain ? *n : *m, *incx, READ, y,          \
                plain ? *m : *n, *incy, READ | WRITE);                                             \
        SEND(gbmv);                                                                                \
    }                                                                                              \
    TRIANGLE_2(p, trmv, t)                                                                         \
    TRIANGLE_2(p, trsv, t)

#define TRIANGLE_2(p, op, t)                                                                       \
    FORTRAN void p##op##_(const char *uplo, const char *trans, const char *diag, const int *n,     \
                          const void *a, const int *lda, void *x, const int *incx)                 \
    {                                                                                              \
        trp_blas2_request r = {.type = t,                                                          \
                               .uplo = uplo_of(uplo),                                              \
                               .trans = trans_of(trans),                                           \
                               .diag = diag_of(diag),                                              \
                               .n = *n};                                                           \
        place_2(&r, a, *n, *n, *lda, READ, x, *n, *incx, READ | WRITE, NULL, 0, 0, 0);             \
        SEND(op);                                                                                  \
    }

#define GER(name, op, t)                                                                           \
    FORTRAN void name(const int *m, const int *n, const void *alpha, const void *x,                \
                      const int *incx, const void *y, const int *incy, void *a, const int *lda)    \
    {                                                                                              \
        trp_blas2_request r = {.type = t, .m = *m, .n = *n, .alpha = scalar(t, alpha)};            \
        place_2(&r, a, *m, *n, *lda, READ | WRITE, x, *m, *incx, READ, y, *n, *incy, READ);        \
        SEND(op);                                                                                  \
    }

#define SYMV(name, op, t)                                                                          \
    FORTRAN void name(const char *uplo, const int *n, const void *alpha, const void *a,            \
                      const int *lda, const void *x, const int *incx, const void *beta, void *y,   \
                      const int *incy)                                                             \
    {                                                                                              \
        trp_blas2_request r = {.type = t,                                                          \
                               .uplo = uplo_of(uplo),                                              \
                               .n = *n,                                                            \
                               .alpha = scalar(t, alpha),                                          \
                               .beta = scalar(t, beta)};                                           \
        place_2(&r, a, *n, *n, *lda, READ, x, *n, *incx, READ, y, *n, *incy, READ | WRITE);        \
        SEND(op);                                                                                  \
    }

#define SBMV(name, op, t)                                                                          \
    FORTRAN void name(const char *uplo, const int *n, const int *k, const void *alpha,             \
                      const void *a, const int *lda, const void *x, const int *incx,               \
                      const void *beta, void *y, const int *incy)                                  \
    {                                                                                              \
        trp_blas2_request r = {.type = t,                                                          \
                               .uplo = uplo_of(uplo),                                              \
                               .n = *n,                                                            \
                               .kl = *k,                                                           \
                               .alpha = scalar(t, alpha),                                          \
                               .beta = scalar(t, beta)};                                           \
        place_2(&r, a, *k + 1, *n, *lda, READ, x, *n, *incx, READ, y, *n, *incy, READ | WRITE);    \
        SEND(op);                                                                                  \
    }

#define BAND_TRIANGLE(p, op, t)                                                                    \
    FORTRAN void p##op##_(const char *uplo, const char *trans, const char *diag, const int *n,     \
                          const int *k, const void *a, const int *lda, void *x, const int *incx)   \
    {                                                                                              \
        trp_blas2_request r = {.type = t,                                                          \
                               .uplo = uplo_of(uplo),                                              \
                               .trans = trans_of(trans),                                           \
                               .diag = diag_of(diag),                                              \
                               .n = *n,                                                            \
                               .kl = *k};                                                          \
        place_2(&r, a, *k + 1, *n, *lda, READ, x, *n, *incx, READ | WRITE, NULL, 0, 0, 0);         \
        SEND(op);                                                                                  \
    }

#define RANK_1(name, op, t)                                                                        \
    FORTRAN void name(const char *uplo, const int *n, const void *alpha, const void *x,            \
                      const int *incx, void *a, const int *lda)                                    \
    {                                                                                              \
        trp_blas2_request r = {                                                                    \
            .type = t, .uplo = uplo_of(uplo), .n = *n, .alpha = scalar(real_of(t), alpha)};        \
        place_2(&r, a, *n, *n, *lda, READ | WRITE, x, *n, *incx, READ, NULL, 0, 0, 0);             \
        SEND(op);                                                                                  \
    }

#define RANK_2(name, op, t)                                                                        \
    FORTRAN void name(const char *uplo, const int *n, const void *alpha, const void *x,            \
                      const int *incx, const void *y, const int *incy, void *a, const int *lda)    \
    {                                                                                              \
        trp_blas2_request r = {                                                                    \
            .type = t, .uplo = uplo_of(uplo), .n = *n, .alpha = scalar(t, alpha)};                 \
        place_2(&r, a, *n, *n, *lda, READ | WRITE, x, *n, *incx, READ, y, *n, *incy, READ);        \
        SEND(op);                                                                                  \
    }

/* A packed matrix is placed as one column. */
static int64_t packed(int n)
{
    return (int64_t)n * (n + 1) / 2;
}

#define SPMV(name, op, t)                                                                          \
    FORTRAN void name(const char *uplo, const int *n, const void *alpha, const void *a,            \
                      const void *x, const int *incx, const void *beta, void *y, const int *incy)  \
    {                                                                                              \
        trp_blas2_request r = {.type = t,                                                          \
                               .uplo = uplo_of(uplo),                                              \
                               .n = *n,                                                            \
                               .alpha = scalar(t, alpha),                                          \
                               .beta = scalar(t, beta)};                                           \
        place_2(&r, a, packed(*n), 1, 0, READ, x, *n, *incx, READ, y, *n, *incy, READ | WRITE);    \
        SEND(op);                                                                                  \
    }

#define PACKED_TRIANGLE(p, op, t)                                                                  \
    FORTRAN void p##op##_(const char *uplo, const char *trans, const char *diag, const int *n,     \
                          const void *a, void *x, const int *incx)                                 \
    {                                                                                              \
        trp_blas2_request r = {.type = t,                                                          \
                               .uplo = uplo_of(uplo),                                              \
                               .trans = trans_of(trans),                                           \
                               .diag = diag_of(diag),                                              \
                               .n = *n};                                                           \
        place_2(&r, a, packed(*n), 1, 0, READ, x, *n, *incx, READ | WRITE, NULL, 0, 0, 0);         \
        SEND(op);                                                                                  \
    }

#define PACKED_1(name, op, t)                                                                      \
    FORTRAN void name(const char *uplo, const int *n, const void *alpha, const void *x,            \
                      const int *incx, void *a)                                                    \
    {                                                                                              \
        trp_blas2_request r = {                                                                    \
            .type = t, .uplo = uplo_of(uplo), .n = *n, .alpha = scalar(real_of(t), alpha)};        \
        place_2(&r, a, packed(*n), 1, 0, READ | WRITE, x, *n, *incx, READ, NULL, 0, 0, 0);         \
        SEND(op);                                                                                  \
    }

#define PACKED_2(name, op, t)                                                                      \
    FORTRAN void name(const char *uplo, const int *n, const void *alpha, const void *x,            \
                      const int *incx, const void *y, const int *incy, void *a)                    \
    {                                                                                              \
        trp_blas2_request r = {                                                                    \
            .type = t, .uplo = uplo_of(uplo), .n = *n, .alpha = scalar(t, alpha)};                 \
        place_2(&r, a, packed(*n), 1, 0, READ | WRITE, x, *n, *incx, READ, y, *n, *incy, READ);    \
        SEND(op);                                                                                  \
    }

BY_SYMMETRY(SPMV, spmv, hpmv)
BY_TYPE(PACKED_TRIANGLE, tpmv)
BY_TYPE(PACKED_TRIANGLE, tpsv)
BY_SYMMETRY(PACKED_1, spr, hpr)
BY_SYMMETRY(PACKED_2, spr2, hpr2)
GENERAL_2(s, TRP_F32)
GENERAL_2(d, TRP_F64)
GENERAL_2(c, TRP_C64)
GENERAL_2(z, TRP_C128)
GER(sger_, ger, TRP_F32)
GER(dger_, ger, TRP_F64)
GER(cgeru_, ger, TRP_C64)
GER(zgeru_, ger, TRP_C128)
GER(cgerc_, gerc, TRP_C64)
GER(zgerc_, gerc, TRP_C128)
BY_SYMMETRY(SBMV, sbmv, hbmv)
BY_TYPE(BAND_TRIANGLE, tbmv)
BY_TYPE(BAND_TRIANGLE, tbsv)
BY_SYMMETRY(RANK_1, syr, her)
BY_SYMMETRY(RANK_2, syr2, her2)
BY_SYMMETRY(SYMV, symv, hemv)
