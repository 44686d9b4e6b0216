/* Level 3. */
#include "bridge.h"

static void place_3(trp_blas3_request *r, const void *a, int64_t a_rows, int64_t a_columns, int lda,
                    const void *b, int64_t b_rows, int64_t b_columns, int ldb, int b_mode, void *c,
                    int ldc)
{
    bridge_place_matrix(A, a, a_rows, a_columns, lda, r->type, READ);
    r->a = bridge_slots[A].buffer;
    r->lda = lda;
    if (b) {
        bridge_place_matrix(X, b, b_rows, b_columns, ldb, r->type, b_mode);
        r->b = bridge_slots[X].buffer;
        r->ldb = ldb;
    }
    if (c) {
        bridge_place_matrix(Y, c, r->m > 0 ? r->m : r->n, r->n, ldc, r->type, READ | WRITE);
        r->c = bridge_slots[Y].buffer;
        r->ldc = ldc;
    }
}

#define GEMM(p, t)                                                                                 \
    FORTRAN void p##gemm_(const char *trans_a, const char *trans_b, const int *m, const int *n,    \
                          const int *k, const void *alpha, const void *a, const int *lda,          \
                          const void *b, const int *ldb, const void *beta, void *c,                \
                          const int *ldc)                                                          \
    {                                                                                              \
        const bool a_is = is(trans_a, 'n'), b_is = is(trans_b, 'n');                               \
        trp_gemm_request r = {.type = t,                                                           \
                              .trans_a = trans_of(trans_a),                                        \
                              .trans_b = trans_of(trans_b),                                        \
                              .m = *m,                                                             \
                              .n = *n,                                                             \
                              .k = *k,                                                             \
                              .alpha = scalar(t, alpha),                                           \
                              .beta = scalar(t, beta),                                             \
                              .lda = *lda,                                                         \
                              .ldb = *ldb,                                                         \
                              .ldc = *ldc};                                                        \
        bridge_place_matrix(A, a, a_is ? *m : *k, a_is ? *k : *m, *lda, t, READ);                  \
        bridge_place_matrix(X, b, b_is ? *k : *n, b_is ? *n : *k, *ldb, t, READ);                  \
        bridge_place_matrix(Y, c, *m, *n, *ldc, t, READ | WRITE);                                  \
        r.a = bridge_slots[A].buffer;                                                              \
        r.b = bridge_slots[X].buffer;                                                              \
        r.c = bridge_slots[Y].buffer;                                                              \
        SEND(gemm);                                                                                \
    }

#define SYMM(name, op, t)                                                                          \
    FORTRAN void name(const char *side, const char *uplo, const int *m, const int *n,              \
                      const void *alpha, const void *a, const int *lda, const void *b,             \
                      const int *ldb, const void *beta, void *c, const int *ldc)                   \
    {                                                                                              \
        const int size = is(side, 'l') ? *m : *n;                                                  \
        trp_blas3_request r = {.type = t,                                                          \
                               .side = side_of(side),                                              \
                               .uplo = uplo_of(uplo),                                              \
                               .m = *m,                                                            \
                               .n = *n,                                                            \
                               .alpha = scalar(t, alpha),                                          \
                               .beta = scalar(t, beta)};                                           \
        place_3(&r, a, size, size, *lda, b, *m, *n, *ldb, READ, c, *ldc);                          \
        SEND(op);                                                                                  \
    }

#define SYRK(name, op, t, scalar_type)                                                             \
    FORTRAN void name(const char *uplo, const char *trans, const int *n, const int *k,             \
                      const void *alpha, const void *a, const int *lda, const void *beta, void *c, \
                      const int *ldc)                                                              \
    {                                                                                              \
        const bool plain = is(trans, 'n');                                                         \
        trp_blas3_request r = {.type = t,                                                          \
                               .uplo = uplo_of(uplo),                                              \
                               .trans = trans_of(trans),                                           \
                               .n = *n,                                                            \
                               .k = *k,                                                            \
                               .alpha = scalar(scalar_type, alpha),                                \
                               .beta = scalar(scalar_type, beta)};                                 \
        place_3(&r, a, plain ? *n : *k, plain ? *k : *n, *lda, NULL, 0, 0, 0, 0, c, *ldc);         \
        SEND(op);                                                                                  \
    }

#define SYR2K(name, op, t, beta_type)                                                              \
    FORTRAN void name(const char *uplo, const char *trans, const int *n, const int *k,             \
                      const void *alpha, const void *a, const int *lda, const void *b,             \
                      const int *ldb, const void *beta, void *c, const int *ldc)                   \
    {                                                                                              \
        const bool plain = is(trans, 'n');                                                         \
        const int64_t rows = plain ? *n : *k, columns = plain ? *k : *n;                           \
        trp_blas3_request r = {.type = t,                                                          \
                               .uplo = uplo_of(uplo),                                              \
                               .trans = trans_of(trans),                                           \
                               .n = *n,                                                            \
                               .k = *k,                                                            \
                               .alpha = scalar(t, alpha),                                          \
                               .beta = scalar(beta_type, beta)};                                   \
        place_3(&r, a, rows, columns, *lda, b, rows, columns, *ldb, READ, c, *ldc);                \
        SEND(op);                                                                                  \
    }

#define TRIANGLE_3(p, op, t)                                                                       \
    FORTRAN void p##op##_(const char *side, const char *uplo, const char *trans, const char *diag, \
                          const int *m, const int *n, const void *alpha, const void *a,            \
                          const int *lda, void *b, const int *ldb)                                 \
    {                                                                                              \
        const int size = is(side, 'l') ? *m : *n;                                                  \
        trp_blas3_request r = {.type = t,                                                          \
                               .side = side_of(side),                                              \
                               .uplo = uplo_of(uplo),                                              \
                               .trans = trans_of(trans),                                           \
                               .diag = diag_of(diag),                                              \
                               .m = *m,                                                            \
                               .n = *n,                                                            \
                               .alpha = scalar(t, alpha)};                                         \
        place_3(&r, a, size, size, *lda, b, *m, *n, *ldb, READ | WRITE, NULL, 0);                  \
        SEND(op);                                                                                  \
    }

#define LEVEL_3(p, t)                                                                              \
    GEMM(p, t)                                                                                     \
    SYMM(p##symm_, symm, t)                                                                        \
    SYRK(p##syrk_, syrk, t, t)                                                                     \
    SYR2K(p##syr2k_, syr2k, t, t)                                                                  \
    TRIANGLE_3(p, trmm, t)                                                                         \
    TRIANGLE_3(p, trsm, t)
#define HERMITIAN_3(p, t)                                                                          \
    SYMM(p##hemm_, hemm, t)                                                                        \
    SYRK(p##herk_, herk, t, real_of(t))                                                            \
    SYR2K(p##her2k_, her2k, t, real_of(t))

LEVEL_3(s, TRP_F32)
LEVEL_3(d, TRP_F64)
LEVEL_3(c, TRP_C64)
LEVEL_3(z, TRP_C128)
HERMITIAN_3(c, TRP_C64)
HERMITIAN_3(z, TRP_C128)
