/* The reference BLAS's Fortran interface on the blas actor, for programs that are linked with
 * libblas: preloaded, it takes their calls, so that the reference BLAS's own test programs test the
 * actor. Public headers only. What it does not define stays libblas's. At its end it writes how
 * many calls it has served to the file that TROUPE_BLAS_CALLS names.
 * SPDX-License-Identifier: Apache-2.0 */
#include <troupe/troupe.h>

#include <complex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORTRAN __attribute__((visibility("default")))

enum { A, X, Y, NUMBERS, RESULT, SLOTS };
enum { READ = 1, WRITE = 2 };

static trp_system *troupe;
static trp_device *device;
static trp_actor *blas;
static unsigned long calls;

/* Where the operand of a slot is: in the program's memory, and a buffer that is kept. */
static struct {
    void *at;
    size_t bytes, room;
    int mode;
    trp_buffer buffer;
} slots[SLOTS];

static trp_completion pending[2 * SLOTS + 1];
static int pending_count;

static void check(trp_status status, const char *call)
{
    if (status == TRP_OK)
        return;
    fprintf(stderr, "blas bridge: %s: %s: %s\n", call, trp_status_name(status),
            trp_error_message());
    abort();
}

/* The worker is a program of its own, and wants its BLAS as it is. */
__attribute__((constructor)) static void keep_from_worker(void)
{
    unsetenv("LD_PRELOAD");
}

static void close_all(void)
{
    const char *path = getenv("TROUPE_BLAS_CALLS");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%lu\n", calls);
        fclose(file);
    }
    trp_device_close(device);
    check(trp_system_destroy(troupe), "trp_system_destroy");
}

static void open_all(void)
{
    const char *backend = getenv("TROUPE_TEST_BACKEND");
    const trp_device_options options = {
        .backend = backend && strcmp(backend, "cuda") == 0 ? TRP_BACKEND_CUDA : TRP_BACKEND_HOST};
    check(trp_system_create(NULL, &troupe), "trp_system_create");
    check(trp_device_open(troupe, &options, &device), "trp_device_open");
    check(trp_actor_create(device, &(trp_actor_options){.kind = "blas"}, &blas),
          "trp_actor_create");
    atexit(close_all);
}

static trp_completion *next_completion(void)
{
    pending[pending_count] = (trp_completion){0};
    return &pending[pending_count++];
}

static void place(int slot, const void *at, int64_t elements, trp_dtype type, int mode)
{
    const size_t bytes = elements > 0 ? (size_t)elements * trp_dtype_bits(type) / 8 : 0;
    if (!device)
        open_all();
    if (bytes > slots[slot].room || !slots[slot].room) {
        if (slots[slot].room)
            check(trp_buffer_free(device, slots[slot].buffer), "trp_buffer_free");
        slots[slot].room = bytes > 65536 ? 2 * bytes : 65536;
        check(trp_buffer_create(device, slots[slot].room, &slots[slot].buffer),
              "trp_buffer_create");
    }
    slots[slot].at = (void *)(uintptr_t)at;
    slots[slot].bytes = bytes;
    slots[slot].mode = mode;
    if (bytes > 0 && (mode & READ))
        check(trp_write(device, slots[slot].buffer, 0, at, bytes, next_completion()), "trp_write");
}

static void place_matrix(int slot, const void *at, int64_t rows, int64_t columns, int64_t ld,
                         trp_dtype type, int mode)
{
    place(slot, at, rows > 0 && columns > 0 ? (columns - 1) * ld + rows : 0, type, mode);
}

static void place_vector(int slot, const void *at, int64_t n, int64_t inc, trp_dtype type, int mode)
{
    place(slot, at, n > 0 ? (n - 1) * (inc < 0 ? -inc : inc) + 1 : 0, type, mode);
}

/* Ends a call whose request was sent with the completion before: fetches what it has written. */
static void finish(trp_status sent, const char *name)
{
    check(sent, name);
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i].bytes > 0 && (slots[i].mode & WRITE))
            check(trp_read(device, slots[i].buffer, 0, slots[i].at, slots[i].bytes,
                           next_completion()),
                  "trp_read");
        slots[i].bytes = 0;
        slots[i].mode = 0;
    }
    for (int i = 0; i < pending_count; i++)
        check(trp_await(pending[i].future, INT64_C(60000000000), NULL), name);
    pending_count = 0;
    calls++;
}

/* Numbers and options. */

static trp_scalar scalar(trp_dtype type, const void *at)
{
    const float *f32 = at;
    const double *f64 = at;
    switch (type) {
    case TRP_F32:
        return trp_real((double)f32[0]);
    case TRP_F64:
        return trp_real(f64[0]);
    case TRP_C64:
        return trp_complex((double)f32[0], (double)f32[1]);
    default:
        return trp_complex(f64[0], f64[1]);
    }
}

static trp_dtype real_of(trp_dtype type)
{
    return type == TRP_F32 || type == TRP_C64 ? TRP_F32 : TRP_F64;
}

static bool is(const char *option, char letter)
{
    return (*option | 0x20) == letter;
}

static trp_transpose trans_of(const char *option)
{
    return is(option, 'n') ? TRP_N : is(option, 't') ? TRP_T : TRP_C;
}

static trp_uplo uplo_of(const char *option)
{
    return is(option, 'u') ? TRP_UPPER : TRP_LOWER;
}

static trp_side side_of(const char *option)
{
    return is(option, 'l') ? TRP_LEFT : TRP_RIGHT;
}

static trp_diag diag_of(const char *option)
{
    return is(option, 'u') ? TRP_UNIT : TRP_NON_UNIT;
}

/* Level 1. */

static trp_blas1_request vectors(trp_dtype type, int n, const void *x, int incx, int x_mode,
                                 const void *y, int incy, int y_mode)
{
    trp_blas1_request r = {.type = type, .n = n > 0 ? n : 0, .incx = incx, .incy = incy};
    place_vector(X, x, n, incx, type, x_mode);
    r.x = slots[X].buffer;
    if (y) {
        place_vector(Y, y, n, incy, type, y_mode);
        r.y = slots[Y].buffer;
    }
    return r;
}

#define SEND(name) finish(trp_##name(blas, &r, next_completion()), #name)

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
        place_vector(NUMBERS, param, 5, 1, t, READ);                                               \
        r.scalars = slots[NUMBERS].buffer;                                                         \
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

/* Level 2. */

static void place_2(trp_blas2_request *r, const void *a, int64_t rows, int64_t columns, int lda,
                    int a_mode, const void *x, int64_t x_count, int incx, int x_mode, const void *y,
                    int64_t y_count, int incy, int y_mode)
{
    place_matrix(A, a, rows, columns, lda, r->type, a_mode);
    place_vector(X, x, x_count, incx, r->type, x_mode);
    r->a = slots[A].buffer;
    r->x = slots[X].buffer;
    r->lda = lda;
    r->incx = incx;
    if (!y)
        return;
    place_vector(Y, y, y_count, incy, r->type, y_mode);
    r->y = slots[Y].buffer;
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

#define RANK_1(name, op, t, alpha_type)                                                            \
    FORTRAN void name(const char *uplo, const int *n, const void *alpha, const void *x,            \
                      const int *incx, void *a, const int *lda)                                    \
    {                                                                                              \
        trp_blas2_request r = {                                                                    \
            .type = t, .uplo = uplo_of(uplo), .n = *n, .alpha = scalar(alpha_type, alpha)};        \
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

#define PACKED_1(name, op, t, alpha_type)                                                          \
    FORTRAN void name(const char *uplo, const int *n, const void *alpha, const void *x,            \
                      const int *incx, void *a)                                                    \
    {                                                                                              \
        trp_blas2_request r = {                                                                    \
            .type = t, .uplo = uplo_of(uplo), .n = *n, .alpha = scalar(alpha_type, alpha)};        \
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

SPMV(sspmv_, spmv, TRP_F32)
SPMV(dspmv_, spmv, TRP_F64)
SPMV(chpmv_, hpmv, TRP_C64)
SPMV(zhpmv_, hpmv, TRP_C128)
PACKED_TRIANGLE(s, tpmv, TRP_F32)
PACKED_TRIANGLE(d, tpmv, TRP_F64)
PACKED_TRIANGLE(c, tpmv, TRP_C64)
PACKED_TRIANGLE(z, tpmv, TRP_C128)
PACKED_TRIANGLE(s, tpsv, TRP_F32)
PACKED_TRIANGLE(d, tpsv, TRP_F64)
PACKED_TRIANGLE(c, tpsv, TRP_C64)
PACKED_TRIANGLE(z, tpsv, TRP_C128)
PACKED_1(sspr_, spr, TRP_F32, TRP_F32)
PACKED_1(dspr_, spr, TRP_F64, TRP_F64)
PACKED_1(chpr_, hpr, TRP_C64, TRP_F32)
PACKED_1(zhpr_, hpr, TRP_C128, TRP_F64)
PACKED_2(sspr2_, spr2, TRP_F32)
PACKED_2(dspr2_, spr2, TRP_F64)
PACKED_2(chpr2_, hpr2, TRP_C64)
PACKED_2(zhpr2_, hpr2, TRP_C128)
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
SBMV(ssbmv_, sbmv, TRP_F32)
SBMV(dsbmv_, sbmv, TRP_F64)
SBMV(chbmv_, hbmv, TRP_C64)
SBMV(zhbmv_, hbmv, TRP_C128)
BAND_TRIANGLE(s, tbmv, TRP_F32)
BAND_TRIANGLE(d, tbmv, TRP_F64)
BAND_TRIANGLE(c, tbmv, TRP_C64)
BAND_TRIANGLE(z, tbmv, TRP_C128)
BAND_TRIANGLE(s, tbsv, TRP_F32)
BAND_TRIANGLE(d, tbsv, TRP_F64)
BAND_TRIANGLE(c, tbsv, TRP_C64)
BAND_TRIANGLE(z, tbsv, TRP_C128)
RANK_1(ssyr_, syr, TRP_F32, TRP_F32)
RANK_1(dsyr_, syr, TRP_F64, TRP_F64)
RANK_1(cher_, her, TRP_C64, TRP_F32)
RANK_1(zher_, her, TRP_C128, TRP_F64)
RANK_2(ssyr2_, syr2, TRP_F32)
RANK_2(dsyr2_, syr2, TRP_F64)
RANK_2(cher2_, her2, TRP_C64)
RANK_2(zher2_, her2, TRP_C128)
SYMV(ssymv_, symv, TRP_F32)
SYMV(dsymv_, symv, TRP_F64)
SYMV(chemv_, hemv, TRP_C64)
SYMV(zhemv_, hemv, TRP_C128)

/* Level 3. */

static void place_3(trp_blas3_request *r, const void *a, int64_t a_rows, int64_t a_columns, int lda,
                    const void *b, int64_t b_rows, int64_t b_columns, int ldb, int b_mode, void *c,
                    int ldc)
{
    place_matrix(A, a, a_rows, a_columns, lda, r->type, READ);
    r->a = slots[A].buffer;
    r->lda = lda;
    if (b) {
        place_matrix(X, b, b_rows, b_columns, ldb, r->type, b_mode);
        r->b = slots[X].buffer;
        r->ldb = ldb;
    }
    if (c) {
        place_matrix(Y, c, r->m > 0 ? r->m : r->n, r->n, ldc, r->type, READ | WRITE);
        r->c = slots[Y].buffer;
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
        place_matrix(A, a, a_is ? *m : *k, a_is ? *k : *m, *lda, t, READ);                         \
        place_matrix(X, b, b_is ? *k : *n, b_is ? *n : *k, *ldb, t, READ);                         \
        place_matrix(Y, c, *m, *n, *ldc, t, READ | WRITE);                                         \
        r.a = slots[A].buffer;                                                                     \
        r.b = slots[X].buffer;                                                                     \
        r.c = slots[Y].buffer;                                                                     \
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
