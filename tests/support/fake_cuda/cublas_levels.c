/* The fake cuBLAS's routines of levels 1 to 3: one call for all of them, described by a table, and
 * a few loops on views of its operands. */
#include "support/fake_cuda/cublas.h"

#include "libs/cublas/cublas_levels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum operation {
#define CUBLAS_ALL(op, family, s, d, c, z) op,
#define CUBLAS_REAL(op, family, s, d)      op,
#define CUBLAS_COMPLEX(op, family, c, z)   op,
#include "libs/blas/routines.def"
} operation;

/* Y is what a routine writes, whatever its documentation calls it; rot, rotg and swap write X too.
 */
enum { A, X, Y, OPERANDS };

typedef struct operand {
    const void *at;
    int64_t step; /* leading dimension, or increment */
    long long int stride;
} operand;

/* What a scalar or a result is, besides an element. */
typedef enum kind { NONE, ELEMENT, REAL, INTEGER } kind;

typedef struct scalar {
    fake_scalar number;
    kind kind;
} scalar;

typedef struct output {
    void *at;
    kind kind;
} output;

typedef struct call {
    operation op;
    trp__cublas_type type;
    trp__cublas_side side;
    trp__cublas_fill fill;
    trp__cublas_diag diag;
    trp__cublas_operation trans, trans_b;
    int64_t m, n, k, ku, batch; /* vectors: 1 x n */
    operand operand[OPERANDS];
    scalar alpha, beta; /* rot: c and s */
    output result[2];
} call;

_Static_assert(sizeof(call) <= FAKE_ARGUMENT_BYTES, "a call fits into an operation");

/* Views: op(X) of an operand X, whatever its place, order, triangle. */

typedef enum structure { FULL, BAND, TRIANGLE, SYMMETRIC, HERMITIAN } structure;

typedef struct view {
    trp__cublas_type type;
    char *at;                   /* element (0, 0) of X; NULL: not to be looked at */
    int64_t rows, columns;      /* of op(X) */
    int64_t down, right;        /* elements between those of X */
    bool trans, conj;           /* of op */
    structure structure;        /* of X */
    bool upper, unit;           /* of X */
    bool banded;                /* X is the band of a triangle, `below` diagonals beside one */
    int64_t below, above, size; /* diagonals of X; all elements that X takes up */
} view;

static void transpose(view *v, bool conj)
{
    int64_t rows = v->rows;
    v->rows = v->columns;
    v->columns = rows;
    v->trans = !v->trans;
    v->conj = v->conj != conj;
}

static char *element(const view *v, int64_t row, int64_t column)
{
    return v->at + (row * v->down + column * v->right) * (int64_t)fake_bytes(v->type);
}

/* Whether an element of X lies outside of its triangle. */
static bool outside(const view *v, int64_t row, int64_t column)
{
    return v->structure >= TRIANGLE && (v->upper ? row > column : row < column);
}

static fake_number get(const view *v, int64_t i, int64_t j)
{
    int64_t row = v->trans ? j : i, column = v->trans ? i : j;
    bool mirrored = outside(v, row, column), conj = v->conj;
    if (v->structure == BAND) {
        if (row - column > v->below || column - row > v->above)
            return 0;
        row += v->above - column;
    } else if (v->structure == TRIANGLE) {
        if (mirrored)
            return 0;
        if (v->unit && row == column)
            return 1;
    } else if (mirrored) {
        int64_t other = row;
        row = column;
        column = other;
        conj = conj != (v->structure == HERMITIAN);
    }
    if (v->banded) {
        if (llabs(row - column) > v->below)
            return 0;
        row += v->upper ? v->below - column : -column;
    }
    bool on_diagonal = i == j;
    fake_number value = fake_load(v->type, element(v, row, column));
    if (v->structure == HERMITIAN && on_diagonal)
        return creal(value);
    return conj ? fake_pair(creal(value), -cimag(value)) : value;
}

static void put(const view *v, int64_t i, int64_t j, fake_number value)
{
    int64_t row = v->trans ? j : i, column = v->trans ? i : j;
    if (outside(v, row, column))
        return;
    if (v->structure == HERMITIAN && row == column)
        value = creal(value);
    fake_store(v->type, element(v, row, column), value);
}

static fake_number *allocate(int64_t count)
{
    fake_number *numbers = calloc((size_t)count + 1, sizeof *numbers);
    if (!numbers)
        abort();
    return numbers;
}

/* As packed columns. */
static fake_number *pack(const view *v)
{
    fake_number *packed = allocate(v->rows * v->columns), *to = packed;
    for (int64_t j = 0; j < v->columns; j++) {
        for (int64_t i = 0; i < v->rows; i++)
            *to++ = get(v, i, j);
    }
    return packed;
}

/* What each routine does. A job's views are the operands as they enter a formula: with op(), and
 * with those of the right side all transposed. */

typedef struct job {
    const call *call;
    fake_number alpha, beta;
    view v[OPERANDS];
} job;

static void give(const output *to, trp__cublas_type type, fake_number value)
{
    fake_pin pin = {0};
    int64_t integer = (int64_t)creal(value);
    trp__cublas_type stored = to->kind == ELEMENT ? type : fake_real(type);
    size_t bytes = to->kind == INTEGER ? sizeof integer : fake_bytes(stored);
    if (!fake_cuda_reach(&pin, (uintptr_t)to->at, bytes, true))
        return;
    if (to->kind == INTEGER)
        memcpy(pin.at, &integer, sizeof integer);
    else
        fake_store(stored, pin.at, value);
    fake_cuda_let_go(&pin);
}

/* Y = alpha A + beta X, by elements: axpy, scal, copy, geam. */
static void add(const job *j)
{
    for (int64_t l = 0; l < j->v[Y].columns && !fake_cuda_stopping(); l++) {
        for (int64_t i = 0; i < j->v[Y].rows; i++) {
            bool all = j->call->op == SCAL; /* it multiplies by 0, too */
            fake_number a = all || j->alpha != 0 ? fake_times(j->alpha, get(&j->v[A], i, l)) : 0;
            fake_number x = j->beta != 0 ? fake_times(j->beta, get(&j->v[X], i, l)) : 0;
            put(&j->v[Y], i, l, a + x);
        }
    }
}

static void swap(const job *j)
{
    for (int64_t i = 0; i < j->v[X].rows; i++) {
        fake_number x = get(&j->v[X], i, 0);
        put(&j->v[X], i, 0, get(&j->v[Y], i, 0));
        put(&j->v[Y], i, 0, x);
    }
}

static void rotate(const job *j)
{
    fake_number c = j->alpha, s = j->beta;
    for (int64_t i = 0; i < j->v[X].rows; i++) {
        fake_number x = get(&j->v[X], i, 0), y = get(&j->v[Y], i, 0);
        put(&j->v[X], i, 0, fake_times(c, x) + fake_times(s, y));
        put(&j->v[Y], i, 0, fake_times(c, y) - fake_times(conj(s), x));
    }
}

/* a = r, and where it is real b = z, from which c and s can be had again. */
static void make_rotation(const job *j)
{
    fake_number a = get(&j->v[X], 0, 0), b = get(&j->v[Y], 0, 0);
    bool is_complex = fake_complex(j->call->type);
    double norm = hypot(cabs(a), cabs(b));
    fake_number c = 1, s = 0, r = 0, z = 0;
    if (is_complex && a == 0) {
        c = 0, s = 1, r = b;
    } else if (is_complex) {
        c = cabs(a) / norm;
        r = a / cabs(a) * norm;
        s = fake_times(a / cabs(a), conj(b)) / norm;
    } else if (norm != 0) {
        bool larger = cabs(a) > cabs(b);
        r = copysign(norm, creal(larger ? a : b));
        c = creal(a) / creal(r);
        s = creal(b) / creal(r);
        z = larger ? s : c != 0 ? 1 / creal(c) : 1;
    }
    put(&j->v[X], 0, 0, r);
    if (!is_complex)
        put(&j->v[Y], 0, 0, z);
    give(&j->call->result[0], j->call->type, c);
    give(&j->call->result[1], j->call->type, s);
}

static void dot(const job *j)
{
    fake_number sum = 0;
    for (int64_t i = 0; i < j->v[A].rows; i++) {
        fake_number x = get(&j->v[A], i, 0);
        sum += fake_times(j->call->op == DOTC ? conj(x) : x, get(&j->v[X], i, 0));
    }
    give(&j->call->result[0], j->call->type, sum);
}

static void norm(const job *j)
{
    double sum = 0;
    for (int64_t i = 0; i < j->v[A].rows; i++) {
        fake_number x = get(&j->v[A], i, 0);
        sum = j->call->op == NRM2 ? hypot(sum, cabs(x)) : sum + fabs(creal(x)) + fabs(cimag(x));
    }
    give(&j->call->result[0], j->call->type, sum);
}

/* The first of the largest or smallest, as rounded to the type. */
static void find(const job *j)
{
    int64_t found = 0;
    double best = 0;
    for (int64_t i = 0; i < j->v[A].rows; i++) {
        fake_number x = get(&j->v[A], i, 0);
        double size = fabs(creal(x)) + fabs(cimag(x));
        if (fake_real(j->call->type) == TRP__CUDA_R_32F)
            size = (double)(float)size;
        if (found == 0 || (j->call->op == IAMAX ? size > best : size < best)) {
            best = size;
            found = i + 1;
        }
    }
    give(&j->call->result[0], j->call->type, (double)found);
}

/* Adds factor a b to the packed sums. */
static void add_product(fake_number *sum, fake_number factor, const view *a, const view *b)
{
    if (factor == 0 || a->columns == 0)
        return;
    fake_number *left = pack(a), *right = pack(b);
    for (int64_t j = 0; j < b->columns && !fake_cuda_stopping(); j++, sum += a->rows) {
        for (int64_t l = 0; l < a->columns; l++) {
            fake_number by = fake_times(factor, right[j * a->columns + l]);
            for (int64_t i = 0; i < a->rows; i++)
                sum[i] += fake_times(left[l * a->rows + i], by);
        }
    }
    free(left);
    free(right);
}

static bool is_rank_2(const call *q)
{
    return q->op == SYR2K || q->op == HER2K || q->op == SYR2 || q->op == HER2;
}

/* Y = alpha A X + beta Y, of rank 2k also + alpha X' A', with ' for transposed, or with a conjugate
 * for all of that. All is read before anything is written, since Y may be X. */
static void multiply(const job *j)
{
    const view *c = &j->v[Y];
    bool of_k = j->call->op == HERK || j->call->op == HER2K;
    bool adds = j->alpha != 0 && (!of_k || j->call->k > 0);
    if (c->structure == HERMITIAN && j->beta == 1 && !adds)
        return;
    fake_number *sum = allocate(c->rows * c->columns), *from = sum;
    add_product(sum, j->alpha, &j->v[A], &j->v[X]);
    if (is_rank_2(j->call)) {
        bool hermitian = c->structure == HERMITIAN;
        view a = j->v[X], b = j->v[A];
        transpose(&a, hermitian);
        transpose(&b, hermitian);
        add_product(sum, hermitian ? conj(j->alpha) : j->alpha, &a, &b);
    }
    for (int64_t l = 0; l < c->columns && !fake_cuda_stopping(); l++) {
        for (int64_t i = 0; i < c->rows; i++, from++) {
            if (!outside(c, c->trans ? l : i, c->trans ? i : l))
                put(c, i, l, *from + (j->beta != 0 ? fake_times(j->beta, get(c, i, l)) : 0));
        }
    }
    free(sum);
}

static fake_number quotient(fake_number a, fake_number b)
{
    return cimag(a) == 0 && cimag(b) == 0 ? creal(a) / creal(b) : a / b;
}

/* One column, in place: from the end where the triangle is an upper one. */
static void solve_column(const view *a, const fake_number *packed, fake_number *x)
{
    int64_t n = a->rows;
    bool upper = a->upper != a->trans;
    for (int64_t step = 0; step < n; step++) {
        int64_t l = upper ? n - 1 - step : step;
        const fake_number *factor = packed + l * n;
        if (!a->unit)
            x[l] = quotient(x[l], factor[l]);
        for (int64_t i = upper ? 0 : l + 1; i < (upper ? l : n); i++)
            x[i] -= fake_times(factor[i], x[l]);
    }
}

/* Y = alpha times the inverse of A times Y. */
static void solve(const job *j)
{
    const view *b = &j->v[Y];
    fake_number *a = j->alpha != 0 ? pack(&j->v[A]) : NULL, *x = allocate(b->rows);
    for (int64_t l = 0; l < b->columns && !fake_cuda_stopping(); l++) {
        for (int64_t i = 0; i < b->rows; i++)
            x[i] = a ? fake_times(j->alpha, get(b, i, l)) : 0;
        if (a)
            solve_column(&j->v[A], a, x);
        for (int64_t i = 0; i < b->rows; i++)
            put(b, i, l, x[i]);
    }
    free(a);
    free(x);
}

static void scale_rows(const job *j)
{
    for (int64_t l = 0; l < j->v[Y].columns && !fake_cuda_stopping(); l++) {
        for (int64_t i = 0; i < j->v[Y].rows; i++)
            put(&j->v[Y], i, l, fake_times(get(&j->v[X], i, 0), get(&j->v[A], i, l)));
    }
}

/* Routines. A shape is two letters of extent(), 1 for a vector's columns, and w for one that is
 * written besides Y; none: there is no such operand. The structure is A's, or for updates of a
 * triangle, where X is A's equal, Y's. */
static const struct {
    const char *shape[OPERANDS];
    structure structure;
    double beta; /* where it is not a parameter; alpha is 1 then */
    void (*run)(const job *j);
} routines[] = {
    [AXPY] = {{"n1", "n1", "n1"}, FULL, 1, add},
    [SCAL] = {{"n1", "", "n1"}, FULL, 0, add},
    [VCOPY] = {{"n1", "", "n1"}, FULL, 0, add},
    [SWAP] = {{"", "n1w", "n1"}, FULL, 0, swap},
    [ROT] = {{"", "n1w", "n1"}, FULL, 0, rotate},
    [ROTG] = {{"", "n1w", "n1"}, FULL, 0, make_rotation},
    [DOT] = {{"n1", "n1", ""}, FULL, 0, dot},
    [DOTC] = {{"n1", "n1", ""}, FULL, 0, dot},
    [NRM2] = {{"n1", "", ""}, FULL, 0, norm},
    [ASUM] = {{"n1", "", ""}, FULL, 0, norm},
    [IAMAX] = {{"n1", "", ""}, FULL, 0, find},
    [IAMIN] = {{"n1", "", ""}, FULL, 0, find},
    [GEMV] = {{"mn", "c1", "r1"}, FULL, 0, multiply},
    [GEMV_BATCHED] = {{"mn", "c1", "r1"}, FULL, 0, multiply},
    [GBMV] = {{"bn", "c1", "r1"}, BAND, 0, multiply},
    [GER] = {{"m1", "n1", "mn"}, FULL, 1, multiply},
    [GERC] = {{"m1", "n1", "mn"}, FULL, 1, multiply},
    [SYMV] = {{"nn", "n1", "n1"}, SYMMETRIC, 0, multiply},
    [HEMV] = {{"nn", "n1", "n1"}, HERMITIAN, 0, multiply},
    [TRMV] = {{"nn", "n1", "n1"}, TRIANGLE, 0, multiply},
    [TRSV] = {{"nn", "", "n1"}, TRIANGLE, 0, solve},
    [SBMV] = {{"bn", "n1", "n1"}, SYMMETRIC, 0, multiply},
    [HBMV] = {{"bn", "n1", "n1"}, HERMITIAN, 0, multiply},
    [TBMV] = {{"bn", "n1", "n1"}, TRIANGLE, 0, multiply},
    [TBSV] = {{"bn", "", "n1"}, TRIANGLE, 0, solve},
    [SYR] = {{"n1", "n1", "nn"}, SYMMETRIC, 1, multiply},
    [HER] = {{"n1", "n1", "nn"}, HERMITIAN, 1, multiply},
    [SYR2] = {{"n1", "n1", "nn"}, SYMMETRIC, 1, multiply},
    [HER2] = {{"n1", "n1", "nn"}, HERMITIAN, 1, multiply},
    [SYMM] = {{"ss", "mn", "mn"}, SYMMETRIC, 0, multiply},
    [HEMM] = {{"ss", "mn", "mn"}, HERMITIAN, 0, multiply},
    [SYRK] = {{"pq", "pq", "nn"}, SYMMETRIC, 0, multiply},
    [HERK] = {{"pq", "pq", "nn"}, HERMITIAN, 0, multiply},
    [SYR2K] = {{"pq", "pq", "nn"}, SYMMETRIC, 0, multiply},
    [HER2K] = {{"pq", "pq", "nn"}, HERMITIAN, 0, multiply},
    [TRMM] = {{"ss", "mn", "mn"}, TRIANGLE, 0, multiply},
    [TRSM] = {{"ss", "", "mn"}, TRIANGLE, 0, solve},
    [TRSM_BATCHED] = {{"ss", "", "mn"}, TRIANGLE, 0, solve},
    [GEAM] = {{"rc", "RC", "mn"}, FULL, 0, add},
    [DGMM] = {{"mn", "s1", "mn"}, FULL, 0, scale_rows},
};

static int64_t extent(const call *q, char letter)
{
    bool trans = q->trans != TRP__CUBLAS_OP_N, trans_b = q->trans_b != TRP__CUBLAS_OP_N;
    switch (letter) {
    case '1':
        return 1;
    case 'm':
        return q->m;
    case 'n':
        return q->n;
    case 'b':
        return q->k + q->ku + 1;
    case 's':
        return q->side == TRP__CUBLAS_LEFT ? q->m : q->n;
    case 'r': /* rows and columns of a matrix with op(X) of m x n, or of op(X) for one of m x n, */
        return trans ? q->n : q->m;
    case 'c':
        return trans ? q->m : q->n;
    case 'R': /* the same for the second op, */
        return trans_b ? q->n : q->m;
    case 'C':
        return trans_b ? q->m : q->n;
    case 'p': /* and with op(X) of n x k */
        return trans ? q->k : q->n;
    default:
        return trans ? q->n : q->k;
    }
}

static bool is_update(const call *q)
{
    return q->op == SYRK || q->op == HERK || q->op == SYR2K || q->op == HER2K || q->op == SYR ||
           q->op == HER || q->op == SYR2 || q->op == HER2;
}

static bool is_level1(const call *q)
{
    return q->op <= IAMIN;
}

static int64_t distance(int64_t step)
{
    return step < 0 ? -step : step;
}

/* An operand as it lies in memory. */
static view lay_out(const call *q, int which)
{
    const char *shape = routines[q->op].shape[which];
    int64_t step = q->operand[which].step;
    view v = {.type = q->type};
    if (!*shape)
        return v;
    bool vector = shape[1] == '1';
    v.rows = extent(q, shape[0]);
    v.columns = extent(q, shape[1]);
    v.down = vector ? step : 1;
    v.right = vector ? 0 : step;
    if (v.rows > 0 && v.columns > 0)
        v.size = (v.rows - 1) * distance(v.down) + (v.columns - 1) * v.right + 1;
    return v;
}

/* Gives an operand's view the structure and the op of the formula. */
static void form(const call *q, int which, view *v)
{
    bool first = which == A || is_update(q), ger = q->op == GER || q->op == GERC;
    trp__cublas_operation op = which == Y ? TRP__CUBLAS_OP_N : first ? q->trans : q->trans_b;
    if (which == (is_update(q) ? Y : A))
        v->structure = routines[q->op].structure;
    v->banded = which == A && (q->op == SBMV || q->op == HBMV || q->op == TBMV || q->op == TBSV);
    if (v->structure == BAND || v->banded)
        v->rows = q->m;
    v->upper = q->fill == TRP__CUBLAS_UPPER;
    v->unit = q->diag == TRP__CUBLAS_UNIT;
    v->below = q->k;
    v->above = q->ku;
    if (op != TRP__CUBLAS_OP_N)
        transpose(v, op == TRP__CUBLAS_OP_C);
    if (which == X && (is_update(q) || ger))
        transpose(v, routines[q->op].structure == HERMITIAN || q->op == GERC);
    if (q->side == TRP__CUBLAS_RIGHT && !(which == X && q->op == DGMM))
        transpose(v, false);
}

static bool written(const call *q, int which)
{
    const char *shape = routines[q->op].shape[which];
    return which == Y || (*shape && shape[2] == 'w');
}

/* What an input is multiplied by. */
static const scalar *factor(const call *q, int which)
{
    return which == X && routines[q->op].run == add ? &q->beta : &q->alpha;
}

/* Whether an operand is accessed: what is multiplied by 0 is not read, but by scal. */
static bool wanted(const call *q, int which)
{
    const scalar *by = factor(q, which);
    return written(q, which) || q->op == SCAL || by->kind == NONE || by->number.at ||
           by->number.value != 0;
}

/* Where an operand of one of a batch begins: a stride further than the last, or where a list of
 * addresses says, which is read when the work is done. */
static bool find_one(const call *q, const operand *o, int64_t index, uint64_t *at)
{
    fake_pin pin = {0};
    *at = (uintptr_t)o->at;
    if (q->op != TRSM_BATCHED) {
        *at += (uint64_t)(index * o->stride) * fake_bytes(q->type);
        return true;
    }
    if (!fake_cuda_reach(&pin, *at + (uint64_t)index * sizeof *at, sizeof *at, false))
        return false;
    memcpy(at, pin.at, sizeof *at);
    fake_cuda_let_go(&pin);
    return true;
}

static bool reach(const call *q, int which, int64_t index, view *v, fake_pin *pin)
{
    const operand *o = &q->operand[which];
    size_t size = fake_bytes(q->type);
    *v = lay_out(q, which);
    if (v->size > 0 && wanted(q, which)) {
        uint64_t at;
        if (!find_one(q, o, index, &at))
            return false;
        v->at = fake_cuda_reach(pin, at, (size_t)v->size * size, written(q, which));
        if (!v->at)
            return false;
        if (v->down < 0) /* the first element is the last in memory */
            v->at += (v->rows - 1) * -v->down * (int64_t)size;
    }
    form(q, which, v);
    return true;
}

static void run_one(const call *q, int64_t index)
{
    fake_pin pin[OPERANDS] = {0};
    job j = {.call = q,
             .alpha = q->alpha.kind == NONE ? 1 : q->alpha.number.value,
             .beta = q->beta.kind == NONE ? routines[q->op].beta : q->beta.number.value};
    bool reached = true;
    for (int i = 0; i < OPERANDS && reached; i++)
        reached = reach(q, i, index, &j.v[i], &pin[i]);
    if (reached)
        routines[q->op].run(&j);
    for (int i = 0; i < OPERANDS; i++)
        fake_cuda_let_go(&pin[i]);
}

static void run(void *arguments)
{
    call q = *(const call *)arguments;
    if (!fake_scalar_read(&q.alpha.number) || !fake_scalar_read(&q.beta.number))
        return;
    for (int64_t i = 0; i < q.batch && !fake_cuda_stopping(); i++)
        run_one(&q, i);
}

/* Calls. */

/* Complex updates take the op that goes with their symmetry; for real types, both are the same. */
static bool good_options(const call *q)
{
    bool hermitian = q->op == HERK || q->op == HER2K;
    trp__cublas_operation wrong = hermitian ? TRP__CUBLAS_OP_T : TRP__CUBLAS_OP_C;
    return FAKE_ONE_OF_2(q->side) && FAKE_ONE_OF_2(q->fill) && FAKE_ONE_OF_2(q->diag) &&
           FAKE_ONE_OF_3(q->trans) && FAKE_ONE_OF_3(q->trans_b) &&
           !(is_update(q) && fake_complex(q->type) && q->trans == wrong);
}

static bool good_sizes(const call *q)
{
    bool good = q->m >= 0 && q->n >= 0 && q->k >= 0 && q->ku >= 0 && q->batch >= 0;
    for (int i = 0; i < OPERANDS && good; i++) {
        const char *is = routines[q->op].shape[i];
        int64_t step = q->operand[i].step;
        if (*is)
            good = is[1] == '1' ? step != 0 : step >= 1 && step >= extent(q, is[0]);
    }
    return good;
}

/* Real routines do not look at addresses; here those that are missing or misaligned are found. An
 * input that a scalar on the device may exclude is left to the work itself. */
static bool good_operand(const call *q, int which)
{
    const void *at = q->operand[which].at;
    if (lay_out(q, which).size == 0 || !wanted(q, which))
        return true;
    return (uintptr_t)at % (q->op == TRSM_BATCHED ? sizeof at : fake_bytes(q->type)) == 0 &&
           (at || (!written(q, which) && factor(q, which)->number.at));
}

/* The matrix that is written may be an input of some routines, if it is read as it is written. */
static bool good_alias(const call *q, int which)
{
    const operand *in = &q->operand[which], *out = &q->operand[Y];
    bool may = q->op == GEAM || (q->op == TRMM && which == X) || (q->op == DGMM && which == A);
    trp__cublas_operation op = which == X ? q->trans_b : q->trans;
    bool looked_at = wanted(q, which) || q->op == GEAM; /* whatever its scalars are */
    return !may || !looked_at || in->at != out->at ||
           (in->step == out->step && op == TRP__CUBLAS_OP_N);
}

static bool take_scalar(const call *q, scalar *s, trp__cublas_pointer_mode mode)
{
    s->number.type = s->kind == REAL ? fake_real(q->type) : q->type;
    return s->kind == NONE || fake_scalar_take(&s->number, mode);
}

/* A vector of no elements has no result but 0; one that takes positive increments only has none
 * with another. */
static void clear_empty(call *q)
{
    bool forward = q->op == SCAL || (q->op >= NRM2 && q->op <= IAMIN);
    if (is_level1(q) && (q->n < 0 || (forward && q->operand[A].step < 0)))
        q->n = 0;
}

static trp__cublas_status launch(trp__cublas_handle handle, const call *given)
{
    call q = *given;
    trp__cublas_pointer_mode mode;
    if (!fake_cublas_mode(handle, &mode))
        return NOT_INITIALIZED;
    if (q.op != GEMV_BATCHED && q.op != TRSM_BATCHED)
        q.batch = 1;
    clear_empty(&q);
    if (!good_options(&q) || !good_sizes(&q) || !take_scalar(&q, &q.alpha, mode) ||
        !take_scalar(&q, &q.beta, mode))
        return INVALID_VALUE;
    for (int i = 0; i < 2; i++) {
        if (q.result[i].kind != NONE && !q.result[i].at)
            return INVALID_VALUE;
    }
    if (q.result[0].kind != NONE && mode == TRP__CUBLAS_POINTER_MODE_HOST)
        return NOT_SUPPORTED;
    if ((q.m == 0 || q.n == 0 || q.batch == 0) && q.result[0].kind == NONE)
        return SUCCESS;
    for (int i = 0; i < OPERANDS; i++) {
        if (!good_operand(&q, i) || (i != Y && !good_alias(&q, i)))
            return INVALID_VALUE;
    }
    return fake_cublas_enqueue(handle, run, &q, sizeof q);
}

/* What the parameters of each family are in a call. */

#define SIZE(rows, columns)           .m = rows, .n = columns
#define OPERAND(name, pointer, step_) .operand[name] = {.at = pointer, .step = step_}
#define STRIDED(name, pointer, step_)                                                              \
    {                                                                                              \
        .at = pointer, .step = step_, .stride = pointer##_stride                                   \
    }
#define SCALAR(name, pointer, kind_)   .name = {.kind = kind_, .number = {.at = pointer}}
#define RESULT(number, pointer, kind_) .result[number] = {.at = pointer, .kind = kind_}
#define VECTORS(x_name, y_name)        OPERAND(x_name, x, incx), OPERAND(y_name, y, incy)
#define MATRICES                       OPERAND(A, a, lda), OPERAND(X, b, ldb), OPERAND(Y, c, ldc)
#define SCALARS(alpha_kind, beta_kind)                                                             \
    SCALAR(alpha, alpha, alpha_kind), SCALAR(beta, beta, beta_kind)
#define MATRIX_VECTORS OPERAND(A, a, lda), VECTORS(X, Y), SCALARS(ELEMENT, ELEMENT)

#define CALL_AXPY SIZE(1, n), VECTORS(A, X), OPERAND(Y, y, incy), SCALAR(alpha, alpha, ELEMENT)
#define CALL_SCAL                                                                                  \
    SIZE(1, n), OPERAND(A, x, incx), OPERAND(Y, x, incx), SCALAR(alpha, alpha, ELEMENT)
#define CALL_COPY SIZE(1, n), VECTORS(A, Y)
#define CALL_SWAP SIZE(1, n), VECTORS(X, Y)
#define CALL_ROT  SIZE(1, n), VECTORS(X, Y), SCALAR(alpha, c, REAL), SCALAR(beta, s, ELEMENT)
#define CALL_ROTG                                                                                  \
    SIZE(1, 1), OPERAND(X, a, 1), OPERAND(Y, b, 1), RESULT(0, c, REAL), RESULT(1, s, ELEMENT)
#define CALL_DOT   SIZE(1, n), VECTORS(A, X), RESULT(0, result, ELEMENT)
#define CALL_NORM  SIZE(1, n), OPERAND(A, x, incx), RESULT(0, result, REAL)
#define CALL_INDEX SIZE(1, n), OPERAND(A, x, incx), RESULT(0, result, INTEGER)
#define CALL_GEMV  SIZE(m, n), MATRIX_VECTORS, .trans = trans
#define CALL_GEMV_BATCHED                                                                          \
    SIZE(m, n), SCALARS(ELEMENT, ELEMENT),                                                         \
        .trans = trans, .batch = batch,                                                            \
        .operand = {STRIDED(A, a, lda), STRIDED(X, x, incx), STRIDED(Y, y, incy)}
#define CALL_GBMV   SIZE(m, n), MATRIX_VECTORS, .trans = trans, .k = kl, .ku = ku
#define CALL_GER    SIZE(m, n), VECTORS(A, X), OPERAND(Y, a, lda), SCALAR(alpha, alpha, ELEMENT)
#define CALL_RANK_1 SIZE(n, n), .fill = fill, OPERAND(Y, a, lda)
#define CALL_SYR                                                                                   \
    CALL_RANK_1, OPERAND(A, x, incx), OPERAND(X, x, incx), SCALAR(alpha, alpha, ELEMENT)
#define CALL_HER  CALL_RANK_1, OPERAND(A, x, incx), OPERAND(X, x, incx), SCALAR(alpha, alpha, REAL)
#define CALL_SYR2 CALL_RANK_1, VECTORS(A, X), SCALAR(alpha, alpha, ELEMENT)
#define CALL_SYMV SIZE(n, n), MATRIX_VECTORS, .fill = fill
#define CALL_SBMV SIZE(n, n), MATRIX_VECTORS, .fill = fill, .k = k
#define CALL_TBMV CALL_TRMV, .k = k
#define CALL_TRMV                                                                                  \
    SIZE(n, n), OPERAND(A, a, lda), OPERAND(X, x, incx), OPERAND(Y, x, incx),                      \
        .fill = fill, .trans = trans, .diag = diag
#define CALL_SYMM SIZE(m, n), MATRICES, SCALARS(ELEMENT, ELEMENT), .side = side, .fill = fill
#define CALL_RANK                                                                                  \
    SIZE(n, n), .k = k, .fill = fill, .trans = trans, OPERAND(A, a, lda), OPERAND(Y, c, ldc)
#define CALL_SYRK  CALL_RANK, OPERAND(X, a, lda), SCALARS(ELEMENT, ELEMENT)
#define CALL_HERK  CALL_RANK, OPERAND(X, a, lda), SCALARS(REAL, REAL)
#define CALL_SYR2K CALL_RANK, OPERAND(X, b, ldb), SCALARS(ELEMENT, ELEMENT)
#define CALL_HER2K CALL_RANK, OPERAND(X, b, ldb), SCALARS(ELEMENT, REAL)
#define CALL_TRIANGLE                                                                              \
    SIZE(m, n), .side = side, .fill = fill, .trans = trans, .diag = diag,                          \
                SCALAR(alpha, alpha, ELEMENT)
#define CALL_TRMM         CALL_TRIANGLE, MATRICES
#define CALL_TRSM         CALL_TRIANGLE, OPERAND(A, a, lda), OPERAND(Y, b, ldb)
#define CALL_TRSM_BATCHED CALL_TRSM, .batch = batch
#define CALL_GEAM                                                                                  \
    SIZE(m, n), MATRICES, SCALARS(ELEMENT, ELEMENT), .trans = trans_a, .trans_b = trans_b
#define CALL_DGMM                                                                                  \
    SIZE(m, n), .side = side, OPERAND(A, a, lda), OPERAND(X, x, incx), OPERAND(Y, c, ldc)

/* The families' lists leave out the names of parameters that their type tells. */
#define trp__cublas_handle trp__cublas_handle handle
#define trp__cublas_side   trp__cublas_side side
#define trp__cublas_fill   trp__cublas_fill fill
#define trp__cublas_diag   trp__cublas_diag diag

#define DEFINE(op_, family, name, type_)                                                           \
    FAKE_API trp__cublas_status name TRP__CUBLAS_##family(void, void);                             \
    trp__cublas_status name TRP__CUBLAS_##family(void, void)                                       \
    {                                                                                              \
        return launch(handle, &(const call){.op = op_, .type = type_, CALL_##family});             \
    }

/* Real types have one routine for two of the rows: it is made for the first of them. */
#define SKIP(op_, family, name, type_)
#define SAME_DOTC                  0, SKIP
#define SAME_GERC                  0, SKIP
#define SECOND(first, second, ...) second
#define CHOOSE(...)                SECOND(__VA_ARGS__)
#define CUBLAS_ALL(op_, family, s, d, c, z)                                                        \
    CHOOSE(SAME_##op_, DEFINE, 0)                                                                  \
    (op_, family, s, TRP__CUDA_R_32F)                                                              \
        CHOOSE(SAME_##op_, DEFINE, 0)(op_, family, d, TRP__CUDA_R_64F)                             \
            CUBLAS_COMPLEX(op_, family, c, z)
#define CUBLAS_REAL(op_, family, s, d)                                                             \
    DEFINE(op_, family, s, TRP__CUDA_R_32F) DEFINE(op_, family, d, TRP__CUDA_R_64F)
#define CUBLAS_COMPLEX(op_, family, c, z)                                                          \
    DEFINE(op_, family, c, TRP__CUDA_C_32F) DEFINE(op_, family, z, TRP__CUDA_C_64F)
#include "libs/blas/routines.def"
