/* The fake cuBLAS's routines of levels 1 to 3: the table that describes them, and the steps of a
 * call. */
#include "support/fake_cuda/cublas/cublas_levels.h"

#include <string.h>

/* Routines. A shape is two letters of extent(), or 1 for the columns of a vector; w: the routine
 * also writes this operand, besides Y; no letters: it has no such operand. The structure is that of
 * A or, for updates of a triangle, that of Y, since A is X then. */
static const struct {
    const char *shape[OPERANDS];
    structure structure;
    double beta; /* beta where it is no parameter; alpha is 1 then */
    void (*run)(const job *j);
} routines[] = {
#define FAKE(op, a, x, y, structure, beta, function)                                               \
    [op] = {{a, x, y}, structure, beta, fake_blas_##function},
#include "libs/blas/routines.def"
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
    case 't': /* elements of a packed triangle */
        return q->n * (q->n + 1) / 2;
    case '5': /* numbers of a modified rotation */
        return 5;
    case 's':
        return q->side == TRP__CUBLAS_LEFT ? q->m : q->n;
    /* rows and columns of a matrix whose op(X) is m x n, or of op(X) for such a matrix, */
    case 'r':
        return trans ? q->n : q->m;
    case 'c':
        return trans ? q->m : q->n;
    case 'R': /* the same for the second op, */
        return trans_b ? q->n : q->m;
    case 'C':
        return trans_b ? q->m : q->n;
    case 'i': /* rows of X where op(X) is m x k, */
        return trans ? q->k : q->m;
    case 'k':
        return trans ? q->m : q->k;
    case 'K': /* of the second X where op(X) is k x n, */
        return trans_b ? q->n : q->k;
    case 'N':
        return trans_b ? q->k : q->n;
    case 'p': /* and where op(X) is n x k */
        return trans ? q->k : q->n;
    default:
        return trans ? q->n : q->k;
    }
}

/* Returns whether a routine updates a symmetric or Hermitian matrix, by vectors or by matrices
 * whose op(X) is n x k. */
static bool is_update(const call *q)
{
    const char *first = routines[q->op].shape[A];
    return routines[q->op].structure >= SYMMETRIC &&
           (strcmp(first, "n1") == 0 || strcmp(first, "pq") == 0);
}

static bool is_level1(const call *q)
{
    return q->op <= IAMIN;
}

static int64_t distance(int64_t step)
{
    return step < 0 ? -step : step;
}

/* Describes an operand as it lies in memory. */
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

/* Gives the view of an operand the structure and the op of the formula. */
static void form(const call *q, int which, view *v)
{
    bool first = which == A || is_update(q), ger = q->op == GER || q->op == GERC;
    trp__cublas_operation op = which == Y ? TRP__CUBLAS_OP_N : first ? q->trans : q->trans_b;
    if (which == (is_update(q) ? Y : A))
        v->structure = routines[q->op].structure;
    const char letter = routines[q->op].shape[which][0];
    v->banded = letter == 'b' && v->structure != BAND;
    v->packed = letter == 't';
    if (letter == 'b' || letter == 't')
        v->rows = q->m;
    if (letter == 't')
        v->columns = q->n;
    v->upper = q->fill == TRP__CUBLAS_UPPER;
    v->unit = q->diag == TRP__CUBLAS_UNIT;
    v->below = q->k;
    v->above = q->ku;
    if (op != TRP__CUBLAS_OP_N)
        fake_view_transpose(v, op == TRP__CUBLAS_OP_C);
    if (which == X && (is_update(q) || ger))
        fake_view_transpose(v, routines[q->op].structure == HERMITIAN || q->op == GERC);
    if (q->side == TRP__CUBLAS_RIGHT && !(which == X && q->op == DGMM))
        fake_view_transpose(v, false);
}

static bool written(const call *q, int which)
{
    const char *shape = routines[q->op].shape[which];
    return which == Y || (*shape && shape[2] == 'w');
}

/* Returns the scalar that an input is multiplied by. */
static const scalar *factor(const call *q, int which)
{
    return which == X && routines[q->op].run == fake_blas_add ? &q->beta : &q->alpha;
}

/* Returns whether an operand is accessed. Factors of 0 exclude inputs, except for scal. */
static bool wanted(const call *q, int which)
{
    const scalar *by = factor(q, which);
    return written(q, which) || q->op == SCAL || by->kind == NONE || by->number.at ||
           by->number.value != 0;
}

/* Finds the address of an operand in a batch: a stride after the previous one, or from a list of
 * addresses, which is read when the work runs. */
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
        if (v->down < 0) /* the first element is the last one in memory */
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

/* Complex updates take the op of their symmetry; for real types, both ops are the same. */
static bool good_options(const call *q)
{
    bool hermitian = routines[q->op].structure == HERMITIAN;
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

/* Real routines do not check addresses; the fake finds missing and misaligned ones. Operands that a
 * scalar in device memory may exclude are checked when the work runs. */
static bool good_operand(const call *q, int which)
{
    const void *at = q->operand[which].at;
    if (lay_out(q, which).size == 0 || !wanted(q, which))
        return true;
    return (uintptr_t)at % (q->op == TRSM_BATCHED ? sizeof at : fake_bytes(q->type)) == 0 &&
           (at || (!written(q, which) && factor(q, which)->number.at));
}

/* Some routines may write the matrix that they read, if both have the same layout. */
static bool good_alias(const call *q, int which)
{
    const operand *in = &q->operand[which], *out = &q->operand[Y];
    bool may = q->op == GEAM || (q->op == TRMM && which == X) || (q->op == DGMM && which == A);
    trp__cublas_operation op = which == X ? q->trans_b : q->trans;
    bool looked_at = wanted(q, which) || q->op == GEAM; /* accessed whatever the scalars are */
    return !may || !looked_at || in->at != out->at ||
           (in->step == out->step && op == TRP__CUBLAS_OP_N);
}

static bool take_scalar(const call *q, scalar *s, trp__cublas_pointer_mode mode)
{
    s->number.type = s->kind == REAL    ? fake_real(q->type)
                     : s->kind == FLOAT ? TRP__CUDA_R_32F
                                        : q->type;
    return s->kind == NONE || fake_scalar_take(&s->number, mode);
}

/* Empties vectors of a negative length, and those with a negative increment of routines that take
 * positive ones only: results are 0 then. */
static void clear_empty(call *q)
{
    bool forward = q->op == SCAL || (q->op >= NRM2 && q->op <= IAMIN);
    if (is_level1(q) && (q->n < 0 || (forward && q->operand[A].step < 0)))
        q->n = 0;
}

trp__cublas_status fake_blas_launch(trp__cublas_handle handle, const call *given)
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
    if ((q.result[0].kind != NONE || q.op == ROTM) && mode == TRP__CUBLAS_POINTER_MODE_HOST)
        return NOT_SUPPORTED;
    if ((q.m == 0 || q.n == 0 || q.batch == 0) && q.result[0].kind == NONE)
        return SUCCESS;
    for (int i = 0; i < OPERANDS; i++) {
        if (!good_operand(&q, i) || (i != Y && !good_alias(&q, i)))
            return INVALID_VALUE;
    }
    return fake_cublas_enqueue(handle, run, &q, sizeof q);
}
