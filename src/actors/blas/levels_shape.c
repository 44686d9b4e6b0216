#include "actors/blas/levels_shape.h"

#include "base/numbers/types.h"
#include <troupe/blas.h>

enum { A = TRP__BLAS_A, X = TRP__BLAS_X, Y = TRP__BLAS_Y, OPERANDS = TRP__BLAS_OPERANDS };

typedef trp__levels_problem problem;
typedef trp__levels_row row;

/* Sizes of the operands, in column-major order. */

static void set(problem *p, int operand, int64_t rows, int64_t columns)
{
    p->operand[operand].rows = rows;
    p->operand[operand].columns = columns;
}

static void set_vector(problem *p, int operand, int64_t n)
{
    p->vector[operand] = true;
    set(p, operand, n, 1);
}

static void lay_out_vectors(problem *p)
{
    set_vector(p, X, p->g.n);
    set_vector(p, Y, p->g.n);
}

static void lay_out_gemv(problem *p)
{
    const trp__levels *g = &p->g;
    set(p, A, p->row->uses & BAND ? g->k + g->ku + 1 : g->m, g->n);
    set_vector(p, X, g->trans == TRP_N ? g->n : g->m);
    set_vector(p, Y, g->trans == TRP_N ? g->m : g->n);
}

static void lay_out_ger(problem *p)
{
    set(p, A, p->g.m, p->g.n);
    set_vector(p, X, p->g.m);
    set_vector(p, Y, p->g.n);
}

static void lay_out_symv(problem *p)
{
    set(p, A, p->g.n, p->g.n);
    lay_out_vectors(p);
}

static void lay_out_sbmv(problem *p)
{
    set(p, A, p->g.k + 1, p->g.n);
    lay_out_vectors(p);
}

/* A has n (n + 1) / 2 elements; on overflow, more than any buffer. */
static void lay_out_packed(problem *p)
{
    int64_t n = p->g.n, odd = n % 2 ? n : n + 1, half = n / 2 + n % 2, count;
    set(p, A, __builtin_mul_overflow(odd, half, &count) ? INT64_MAX : count, 1);
    lay_out_vectors(p);
}

/* X is d1, d2 and x1, Y is y1. */
static void lay_out_rotmg(problem *p)
{
    set_vector(p, X, 3);
    set_vector(p, Y, 1);
}

static void lay_out_symm(problem *p)
{
    int64_t size = p->g.side == TRP_LEFT ? p->g.m : p->g.n;
    set(p, A, size, size);
    set(p, X, p->g.m, p->g.n);
    set(p, Y, p->g.m, p->g.n);
}

static void lay_out_syrk(problem *p)
{
    const trp__levels *g = &p->g;
    bool plain = g->trans == TRP_N;
    set(p, A, plain ? g->n : g->k, plain ? g->k : g->n);
    set(p, X, plain ? g->n : g->k, plain ? g->k : g->n);
    set(p, Y, g->n, g->n);
    p->unread[A] = p->unread[X] = g->k == 0;
}

/* With alpha 0, A and B do not contribute, as with k 0. */
static void lay_out_gemm(problem *p)
{
    trp__levels *g = &p->g;
    if (g->alpha[0] == 0 && g->alpha[1] == 0 && !p->scalars.buffer.id)
        g->k = 0;
    set(p, A, g->trans == TRP_N ? g->m : g->k, g->trans == TRP_N ? g->k : g->m);
    set(p, X, g->trans_b == TRP_N ? g->k : g->n, g->trans_b == TRP_N ? g->n : g->k);
    set(p, Y, g->m, g->n);
    p->unread[A] = p->unread[X] = g->k == 0;
}

static void lay_out_geam(problem *p)
{
    const trp__levels *g = &p->g;
    set(p, A, g->trans == TRP_N ? g->m : g->n, g->trans == TRP_N ? g->n : g->m);
    set(p, X, g->trans_b == TRP_N ? g->m : g->n, g->trans_b == TRP_N ? g->n : g->m);
    set(p, Y, g->m, g->n);
    p->unread[X] = g->beta[0] == 0 && g->beta[1] == 0 && !p->scalars.buffer.id;
}

static void lay_out_dgmm(problem *p)
{
    set(p, A, p->g.m, p->g.n);
    set_vector(p, X, p->g.side == TRP_LEFT ? p->g.m : p->g.n);
    set(p, Y, p->g.m, p->g.n);
}

/* Conversion from row-major order: a row-major matrix is its transpose in column-major order. */

static void swap_sizes(int64_t *x, int64_t *y)
{
    int64_t first = *x;
    *x = *y;
    *y = first;
}

static void swap_operands(problem *p, int x, int y)
{
    trp__operand first = p->operand[x];
    p->operand[x] = p->operand[y];
    p->operand[y] = first;
    swap_sizes(&p->g.ld[x], &p->g.ld[y]);
}

/* Instead of the matrix, everything else is conjugated: y = alpha conj(A) x + beta y becomes
 * conj(y) = conj(alpha) A conj(x) + conj(beta) conj(y). */
static void conjugate_rest(problem *p)
{
    p->g.conjugate = TRP__BLAS_CONJUGATES;
    if (p->row->mode[X] & TRP__WRITE)
        p->g.conjugate |= TRP__BLAS_CONJUGATES_X;
    if (p->row->mode[Y] & TRP__WRITE)
        p->g.conjugate |= TRP__BLAS_CONJUGATES_Y;
    if (!(p->row->uses & BETA)) /* alpha multiplies conjugated vectors */
        return;
    p->g.alpha[1] = -p->g.alpha[1];
    p->g.beta[1] = -p->g.beta[1];
    if (p->scalars.buffer.id)
        p->g.conjugate |= TRP__BLAS_CONJUGATE_SCALARS;
}

/* op(A) is (A^T)^T, A^T, or conj(A^T). */
static void turn_trans(problem *p)
{
    if (p->g.trans == TRP_C)
        conjugate_rest(p);
    p->g.trans = p->g.trans == TRP_N ? TRP_T : TRP_N;
}

static void turn_gemv(problem *p)
{
    turn_trans(p);
    swap_sizes(&p->g.m, &p->g.n);
    swap_sizes(&p->g.k, &p->g.ku);
}

/* (x y^T)^T = y x^T, and (x y^H)^T = conj(y) conj(x)^H. */
static void turn_ger(problem *p)
{
    swap_sizes(&p->g.m, &p->g.n);
    swap_operands(p, X, Y);
    if (p->row->uses & CONJUGATES && trp__is_complex(p->type))
        conjugate_rest(p);
}

/* A^T is A, or conj(A) of a Hermitian matrix: (x x^H)^T = conj(x) conj(x)^H. */
static void turn_symv(problem *p)
{
    p->g.uplo = !p->g.uplo;
    if (p->row->uses & CONJUGATES)
        conjugate_rest(p);
}

/* (alpha x y^H + conj(alpha) y x^H)^T is the same of conj(y) and conj(x). */
static void turn_her2(problem *p)
{
    turn_symv(p);
    swap_operands(p, X, Y);
}

static void turn_trmv(problem *p)
{
    p->g.uplo = !p->g.uplo;
    turn_trans(p);
}

/* (A B)^T = B^T A^T, and (op(A))^T is op of A^T for each op. */
static void turn_symm(problem *p)
{
    p->g.side = !p->g.side;
    p->g.uplo = !p->g.uplo;
    swap_sizes(&p->g.m, &p->g.n);
}

/* (A A^T)^T is itself, and (A A^H)^T = conj(A) A^T: in both cases, the right factor becomes the
 * left one. */
static void turn_syrk(problem *p)
{
    uint8_t other = p->row->uses & NO_TRANSPOSE ? TRP_C : TRP_T;
    p->g.uplo = !p->g.uplo;
    p->g.trans = p->g.trans == TRP_N ? other : TRP_N;
}

/* (alpha A B^H)^T = alpha conj(B) A^T: A and B are exchanged too. */
static void turn_her2k(problem *p)
{
    turn_syrk(p);
    swap_operands(p, A, X);
}

/* (op(A) op(B))^T = op(B)^T op(A)^T, and op(B)^T is op of B^T. */
static void turn_gemm(problem *p)
{
    uint8_t trans = p->g.trans;
    p->g.trans = p->g.trans_b;
    p->g.trans_b = trans;
    swap_sizes(&p->g.m, &p->g.n);
    swap_operands(p, A, X);
}

static void turn_geam(problem *p)
{
    swap_sizes(&p->g.m, &p->g.n);
}

static void turn_dgmm(problem *p)
{
    p->g.side = !p->g.side;
    swap_sizes(&p->g.m, &p->g.n);
}

/* The operations. */

#define R        TRP__READ
#define W        TRP__WRITE
#define RW       (TRP__READ | TRP__WRITE)
#define turn_not NULL
static const row rows[] = {
#define ROUTINE(level, op_, name, uses_, a, x, y, shape, turn)                                     \
    {.op = TRP_OP_##op_,                                                                           \
     .uses = (uses_),                                                                              \
     .mode = {a, x, y},                                                                            \
     .lay_out = lay_out_##shape,                                                                   \
     .to_columns = turn_##turn},
#include "libs/blas/routines.def"
};
#undef R
#undef W
#undef RW
#undef turn_not

const trp__levels_row *trp__levels_row_of(uint32_t op)
{
    const row *r = rows;
    while (r->op != op)
        r++;
    return r;
}
