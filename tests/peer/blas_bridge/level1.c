/* Level 1. */
#include "bridge.h"

static trp_blas1_request vectors(trp_dtype type, int n, const void *x, int incx, int x_mode,
                                 const void *y, int incy, int y_mode)
{
    trp_blas1_request r = {.type = type, .n = n > 0 ? n : 0, .incx = incx, .incy = incy};
    bridge_place_vector(X, x, n, incx, type, x_mode);
    r.x = bridge_slots[X].buffer;
    if (y) {
        bridge_place_vector(Y, y, n, incy, type, y_mode);
        r.y = bridge_slots[Y].buffer;
    }
    return r;
}

#define VECTORS(p, t)                                                                              \
    FORTRAN void p##axpy_(const int *n, const void *alpha, const void *x, const int *incx,         \
                          void *y, const int *incy)                                                \
    {                                                                                              \
        trp_blas1_request r = vectors(t, *n, x, *incx, READ, y, *incy, READ | WRITE);              \
        r.alpha = scalar(t, alpha);                                                                \
        SEND(axpy);                                                                                \
    }                                                                                              \
    FORTRAN void p##copy_(const int *n, const void *x, const int *incx, void *y, const int *incy)  \
    {                                                                                              \
        trp_blas1_request r = vectors(t, *n, x, *incx, READ, y, *incy, READ | WRITE);              \
        SEND(vcopy);                                                                               \
    }                                                                                              \
    FORTRAN void p##swap_(const int *n, void *x, const int *incx, void *y, const int *incy)        \
    {                                                                                              \
        trp_blas1_request r = vectors(t, *n, x, *incx, READ | WRITE, y, *incy, READ | WRITE);      \
        SEND(swap);                                                                                \
    }                                                                                              \
    FORTRAN int i##p##amax_(const int *n, const void *x, const int *incx)                          \
    {                                                                                              \
        int64_t place_of = 0;                                                                      \
        if (*n < 1 || *incx < 1)                                                                   \
            return 0;                                                                              \
        trp_blas1_request r = vectors(t, *n, x, *incx, READ, NULL, 0, 0);                          \
        r.value = &place_of;                                                                       \
        SEND(iamax);                                                                               \
        return (int)place_of;                                                                      \
    }

#define SCALE(name, t, scalar_type)                                                                \
    FORTRAN void name(const int *n, const void *alpha, void *x, const int *incx)                   \
    {                                                                                              \
        if (*n < 1 || *incx < 1)                                                                   \
            return;                                                                                \
        trp_blas1_request r = vectors(t, *n, x, *incx, READ | WRITE, NULL, 0, 0);                  \
        r.alpha = scalar(scalar_type, alpha);                                                      \
        SEND(scal);                                                                                \
    }

#define NORM(name, op, t, R)                                                                       \
    FORTRAN R name(const int *n, const void *x, const int *incx)                                   \
    {                                                                                              \
        R value = 0;                                                                               \
        if (*n < 1 || *incx < 1)                                                                   \
            return 0;                                                                              \
        trp_blas1_request r = vectors(t, *n, x, *incx, READ, NULL, 0, 0);                          \
        r.value = &value;                                                                          \
        SEND(op);                                                                                  \
        return value;                                                                              \
    }

#define DOT(name, op, t, T)                                                                        \
    FORTRAN T name(const int *n, const void *x, const int *incx, const void *y, const int *incy)   \
    {                                                                                              \
        T value = 0;                                                                               \
        trp_blas1_request r = vectors(t, *n, x, *incx, READ, y, *incy, READ);                      \
        r.value = &value;                                                                          \
        SEND(op);                                                                                  \
        return value;                                                                              \
    }

#define ROTATIONS(p, t, T)                                                                         \
    FORTRAN void p##rot_(const int *n, void *x, const int *incx, void *y, const int *incy,         \
                         const T *c, const T *s)                                                   \
    {                                                                                              \
        trp_blas1_request r = vectors(t, *n, x, *incx, READ | WRITE, y, *incy, READ | WRITE);      \
        r.c = scalar(t, c);                                                                        \
        r.s = scalar(t, s);                                                                        \
        SEND(rot);                                                                                 \
    }                                                                                              \
    FORTRAN void p##rotg_(T *a, T *b, T *c, T *s)                                                  \
    {                                                                                              \
        T pair[2] = {0, 0};                                                                        \
        trp_blas1_request r = vectors(t, 1, a, 1, READ | WRITE, b, 1, READ | WRITE);               \
        r.value = pair;                                                                            \
        SEND(rotg);                                                                                \
        *c = pair[0];                                                                              \
        *s = pair[1];                                                                              \
    }

#define MODIFIED_ROTATIONS(p, t, T)                                                                \
    FORTRAN void p##rotm_(const int *n, void *x, const int *incx, void *y, const int *incy,        \
                          const T *param)                                                          \
    {                                                                                              \
        trp_blas1_request r = vectors(t, *n, x, *incx, READ | WRITE, y, *incy, READ | WRITE);      \
        bridge_place_vector(NUMBERS, param, 5, 1, t, READ);                                        \
        r.scalars = bridge_slots[NUMBERS].buffer;                                                  \
        SEND(rotm);                                                                                \
    }                                                                                              \
    FORTRAN void p##rotmg_(T *d1, T *d2, T *x1, const T *y1, T *param)                             \
    {                                                                                              \
        T three[3] = {*d1, *d2, *x1}, five[5];                                                     \
        trp_blas1_request r = vectors(t, 3, three, 1, READ | WRITE, y1, 1, READ);                  \
        r.value = five;                                                                            \
        SEND(rotmg);                                                                               \
        *d1 = three[0];                                                                            \
        *d2 = three[1];                                                                            \
        *x1 = three[2];                                                                            \
        for (int i = 0; i < 5; i++) { /* BLAS leaves alone what the flag implies */                \
            const bool diagonal = i == 1 || i == 4;                                                \
            if (i == 0 || five[0] == -1 || (five[0] == 0 && !diagonal) ||                          \
                (five[0] == 1 && diagonal))                                                        \
                param[i] = five[i];                                                                \
        }                                                                                          \
    }

VECTORS(s, TRP_F32)
VECTORS(d, TRP_F64)
VECTORS(c, TRP_C64)
VECTORS(z, TRP_C128)
SCALE(sscal_, TRP_F32, TRP_F32)
SCALE(dscal_, TRP_F64, TRP_F64)
SCALE(cscal_, TRP_C64, TRP_C64)
SCALE(zscal_, TRP_C128, TRP_C128)
SCALE(csscal_, TRP_C64, TRP_F32)
SCALE(zdscal_, TRP_C128, TRP_F64)
NORM(snrm2_, nrm2, TRP_F32, float)
NORM(dnrm2_, nrm2, TRP_F64, double)
NORM(scnrm2_, nrm2, TRP_C64, float)
NORM(dznrm2_, nrm2, TRP_C128, double)
NORM(sasum_, asum, TRP_F32, float)
NORM(dasum_, asum, TRP_F64, double)
NORM(scasum_, asum, TRP_C64, float)
NORM(dzasum_, asum, TRP_C128, double)
DOT(sdot_, dot, TRP_F32, float)
DOT(ddot_, dot, TRP_F64, double)
DOT(cdotu_, dot, TRP_C64, float _Complex)
DOT(zdotu_, dot, TRP_C128, double _Complex)
DOT(cdotc_, dotc, TRP_C64, float _Complex)
DOT(zdotc_, dotc, TRP_C128, double _Complex)
ROTATIONS(s, TRP_F32, float)
ROTATIONS(d, TRP_F64, double)
MODIFIED_ROTATIONS(s, TRP_F32, float)
MODIFIED_ROTATIONS(d, TRP_F64, double)
