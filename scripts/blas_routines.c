/* Prints the operations of the blas actor except gemm as a table of Markdown; blas_routines.sh writes
 * docs/actors/blas_routines.md from it. SPDX-License-Identifier: Apache-2.0 */
#include "actors/blas/lapack/uses.h"
#include "actors/blas/routines.h"

#include <troupe/blas.h>

#include <stdio.h>
#include <string.h>

enum { R = 1, W = 2, RW = 3, TYPES = 5, PLACES = 256 };

typedef struct routine {
    int level;
    const char *name;
    unsigned uses;
    int mode[3];
} routine;

/* In the order of their numbers. */
static const routine routines[PLACES] = {
#define ROUTINE(level, op, name, uses, a, x, y, ...)                                               \
    [TRP_OP_##op & 0xff] = {level, #name, (unsigned)(uses), {a, x, y}},
#include "libs/blas/routines.def"
};

static const char *const cublas[PLACES][TYPES] = {
#define TRP_OP_GEMV_BATCHED     0
#define TRP_OP_TRSM_BATCHED     0xff
#define NAMES(op, first, p, q)  [TRP_OP_##op & 0xff][first] = #p, [TRP_OP_##op & 0xff][first + 1] = #q,
#define CUBLAS_REAL(op, family, s, d)    NAMES(op, 0, s, d)
#define CUBLAS_COMPLEX(op, family, c, z) NAMES(op, 2, c, z)
#define CUBLAS_HALF(op, family, name) [TRP_OP_##op & 0xff][4] = #name,
#define CUBLAS_LAPACK(op, family, s, d, c, z) NAMES(op, 0, s, d) NAMES(op, 2, c, z)
#include "libs/blas/routines.def"
};

static const char *const host[PLACES][TYPES] = {
#define CBLAS_REAL(op, family, s, d)    NAMES(op, 0, s, d)
#define CBLAS_COMPLEX(op, family, c, z) NAMES(op, 2, c, z)
#define HOST_REAL(op, function)         NAMES(op, 0, , )
#define HOST_COMPLEX(op, function)      NAMES(op, 2, , )
#define HOST_HALF(op, function) [TRP_OP_##op & 0xff][4] = "",
#define HOST_LAPACK(op, family, s, d, c, z) NAMES(op, 0, s, d) NAMES(op, 2, c, z)
#include "libs/blas/routines.def"
};

/* The operations of LAPACK. */
static const struct {
    const char *name;
    unsigned uses;
    int mode[5];
} lapack[PLACES] = {
#define LAPACK(op, name, uses, a, b, pivots, tau, info)                                             \
    [TRP_OP_##op & 0xff] = {#name, uses, {a, b, pivots, tau, info}},
#include "libs/blas/routines.def"
};

static void options(const routine *r)
{
    static const struct {
        unsigned flag;
        const char *name;
    } all[] = {{SIDE, "side"},         {UPLO, "uplo"},
               {TRANS, "trans"},       {TRANS_B, "trans_b"},
               {DIAG, "diag"},         {BAND, "kl, ku"},
               {DIAGONALS, "kl"},      {ALPHA, "alpha"},
               {BETA, "beta"},         {ROTATION, "c, s"},
               {MODIFIED, "`scalars`"}, {BATCH, "batch"},
               {GIVES, "`result`"}};
    const char *between = "";
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (r->uses & all[i].flag) {
            printf("%s%s", between, all[i].name);
            between = ", ";
        }
    }
}

static const char *const modes[] = {"", "read", "written", "read and written"};

static void operands(const routine *r)
{
    static const char *const names[4][3] = {
        {""}, {"a", "x", "y"}, {"a", "x", "y"}, {"a", "b", "c"}};
    const char *between = "";
    for (int i = 0; i < 3; i++) {
        int mode = r->mode[i] == W && r->uses & BETA && strcmp(r->name, "geam") != 0 ? RW : r->mode[i];
        if (!mode)
            continue;
        printf("%s%s %s", between, names[r->level][i], modes[mode]);
        between = ", ";
    }
}

static void names_of(const char *const names[TYPES], const char *otherwise)
{
    const char *between = "", *last = NULL;
    for (int i = 0; i < TYPES; i++) {
        const char *name = names[i] && !*names[i] ? otherwise : names[i];
        if (name && (!last || strcmp(name, last) != 0)) {
            printf(name == otherwise ? "%s%s" : "%s`%s`", between, name);
            between = ", ";
            last = name;
        }
    }
}

static void lapack_row(int place)
{
    static const char *const names[] = {"a", "b", "pivots", "tau", "info"};
    unsigned uses = lapack[place].uses;
    const char *between = "";
    printf("| %s | %s%sorder, batch | ", lapack[place].name, uses & TRANSPOSES ? "trans, " : "",
           uses & RIGHT_SIDES ? "nrhs, " : "");
    for (int i = 0; i < 5; i++) {
        if (lapack[place].mode[i]) {
            printf("%s%s %s", between, names[i], modes[lapack[place].mode[i]]);
            between = ", ";
        }
    }
    printf(" | ");
    names_of(cublas[place], "");
    printf(" | ");
    names_of(host[place], "");
    printf(" |\n");
}

int main(void)
{
    printf("# The routines of the blas actor\n\nWritten by `scripts/blas_routines.sh` from "
           "`src/libs/blas/routines.def`. gemm and its lists are on [the actor's page](blas.md).\n\n"
           "| operation | level | types | options and scalars | operands | cuBLAS | host |\n"
           "| --- | --- | --- | --- | --- | --- | --- |\n");
    for (int i = 0; i < PLACES; i++) {
        const routine *r = &routines[i];
        if (!r->name)
            continue;
        printf("| %s | %d | %s | ", r->name, r->level,
               r->uses & COMPLEX_ONLY ? "c64, c128"
               : r->uses & REAL_ONLY  ? "f32, f64"
               : r->uses & HALF       ? "f32, f64, c64, c128, f16, bf16"
                                      : "f32, f64, c64, c128");
        options(r);
        printf(" | ");
        operands(r);
        printf(" | ");
        names_of(cublas[i], "");
        printf(" | ");
        names_of(host[i], "a loop of our own");
        printf(" |\n");
    }
    printf("\nLAPACK, by `trp_lapack_request`, for f32, f64, c64 and c128:\n\n"
           "| operation | options | operands | cuBLAS | host |\n| --- | --- | --- | --- | --- |\n");
    for (int i = 0; i < PLACES; i++) {
        if (lapack[i].name)
            lapack_row(i);
    }
    printf("\nA beta of 0 leaves its operand unread. A batch of gemv is done by "
           "`cublas?gemvStridedBatched_64`, one of trsm by `cublas?trsmBatched_64`.\n");
    return 0;
}
