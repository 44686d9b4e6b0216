/* The sender's side of levels 1 to 3: checks a request by the table row of its operation and writes
 * its record. */
#include "actors/blas/levels.h"

#include "actors/blas/levels_shape.h"
#include "base/error.h"
#include "base/numbers/types.h"

#include <troupe/blas.h>

#include <string.h>

_Static_assert(sizeof(trp__levels) <= TRP__PAYLOAD_BYTES, "the payload fits into a record");

enum { A = TRP__BLAS_A, X = TRP__BLAS_X, Y = TRP__BLAS_Y, OPERANDS = TRP__BLAS_OPERANDS };

typedef trp__levels_problem problem;

static bool is_half(trp_dtype type)
{
    return type == TRP_F16 || type == TRP_BF16;
}

static uint32_t element_bytes(const problem *p)
{
    return trp_dtype_bits(p->type) / 8;
}

static uint32_t real_bytes(const problem *p)
{
    return element_bytes(p) / (trp__is_complex(p->type) ? 2 : 1);
}

/* Checks of everything but the operands. */

static trp_status wrong(const problem *p, const char *argument, const char *expected, int64_t got)
{
    return trp__operand_wrong(p->encoder, argument, expected, got);
}

static trp_status check_type(const problem *p)
{
    bool real = p->type == TRP_F32 || p->type == TRP_F64;
    bool real_too = !(p->row->uses & COMPLEX_ONLY), complex_too = !(p->row->uses & REAL_ONLY);
    bool half_too = p->row->uses & HALF;
    bool fits = (is_half(p->type) && half_too) || (trp__is_complex(p->type) && complex_too) ||
                (real && real_too);
    return fits
               ? TRP_OK
               : trp__error_set(p->encoder->error, TRP_E_ARGUMENT, "type: expected %s, got %s (%d)",
                                !real_too      ? "c64 or c128"
                                : !complex_too ? "f32 or f64"
                                : half_too     ? "f32, f64, c64, c128, f16 or bf16"
                                               : "f32, f64, c64 or c128",
                                trp_dtype_name(p->type), (int)p->type);
}

/* `given` has the options of the request, from side to diag. */
static trp_status check_options(const problem *p, const int64_t given[5])
{
    static const struct {
        const char *name, *expected;
        uint32_t flag;
        int64_t most;
    } options[5] = {
        {"side", "TRP_LEFT or TRP_RIGHT", SIDE, TRP_RIGHT},
        {"uplo", "TRP_UPPER or TRP_LOWER", UPLO, TRP_LOWER},
        {"trans", "TRP_N, TRP_T or TRP_C", TRANS, TRP_C},
        {"trans_b", "TRP_N, TRP_T or TRP_C", TRANS_B, TRP_C},
        {"diag", "TRP_NON_UNIT or TRP_UNIT", DIAG, TRP_UNIT},
    };
    uint32_t uses = p->row->uses;
    for (int i = 0; i < 5; i++) {
        bool used = uses & options[i].flag;
        if (given[i] < 0 || given[i] > (used ? options[i].most : 0))
            return wrong(p, options[i].name,
                         used ? options[i].expected : "0: the operation has no such option",
                         given[i]);
    }
    if (p->order != TRP_COL_MAJOR && p->order != TRP_ROW_MAJOR)
        return wrong(p, "order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", p->order);
    if (!trp__is_complex(p->type))
        return TRP_OK;
    if ((uses & NO_CONJUGATE) && given[2] == TRP_C)
        return wrong(p, "trans", "TRP_N or TRP_T for a complex type", given[2]);
    if ((uses & NO_TRANSPOSE) && given[2] == TRP_T)
        return wrong(p, "trans", "TRP_N or TRP_C", given[2]);
    return TRP_OK;
}

static trp_status check_sizes(const problem *p)
{
    const trp__levels *g = &p->g;
    uint32_t uses = p->row->uses;
    const struct {
        const char *name;
        int64_t value;
        bool used;
    } sizes[] = {
        {"m", g->m, uses & SIZE_M},
        {"n", g->n, !(uses & GIVES_ONE)},
        {uses & SIZE_K ? "k" : "kl", g->k, uses & (SIZE_K | BAND | DIAGONALS)},
        {"ku", g->ku, uses & BAND},
        {"batch", g->batch, uses & BATCH},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].used && sizes[i].value < 0)
            return wrong(p, sizes[i].name, "0 or more", sizes[i].value);
    }
    int64_t sum;
    if ((uses & BAND) && (__builtin_add_overflow(g->k, g->ku, &sum) || sum == INT64_MAX))
        return wrong(p, "kl", "fewer than 2^63 diagonals with ku", g->k);
    if ((uses & DIAGONALS) && g->k == INT64_MAX)
        return wrong(p, "kl", "fewer than 2^63 - 1 diagonals", g->k);
    if ((uses & PACKED) && g->ld[A] != 0)
        return wrong(p, "lda", "0: a packed matrix has no leading dimension", g->ld[A]);
    if (!(uses & BAND) && g->ku != 0)
        return wrong(p, "ku", "0: the matrix has no diagonals above the main one", g->ku);
    return !(uses & BATCH) && g->batch != 0 && g->batch != 1
               ? wrong(p, "batch", "0 or 1: the operation has no batches", g->batch)
               : TRP_OK;
}

/* Checks a scalar that is given by value. */
static trp_status check_scalar(const problem *p, const char *name, trp_scalar scalar, bool used,
                               bool real)
{
    trp_status status = trp__scalar_check(p->encoder->error, name, &scalar);
    if (status != TRP_OK || !scalar.given)
        return status;
    if (!used)
        return trp__error_set(p->encoder->error, TRP_E_ARGUMENT,
                              "%s: expected none: the operation has no such scalar, got %g + %gi",
                              name, scalar.re, scalar.im);
    status = trp__check_one_source(p->encoder, p->scalars.buffer, name, scalar);
    if (status != TRP_OK)
        return status;
    if (real && scalar.im != 0)
        return trp__error_set(p->encoder->error, TRP_E_ARGUMENT,
                              "%s: expected a real number, got %g + %gi", name, scalar.re,
                              scalar.im);
    return trp__check_scalar(p->encoder, name, scalar, p->type);
}

static trp_status check_scalars(const problem *p)
{
    uint32_t uses = p->row->uses;
    bool real = uses & REAL_SCALARS;
    trp_status status = check_scalar(p, "alpha", p->alpha, uses & ALPHA, real);
    if (status == TRP_OK)
        status = check_scalar(p, "beta", p->beta, uses & BETA, real || (uses & REAL_BETA));
    if (status == TRP_OK)
        status = check_scalar(p, "c", p->c, uses & ROTATION, true);
    if (status == TRP_OK)
        status = check_scalar(p, "s", p->s, uses & ROTATION, false);
    if (status != TRP_OK)
        return status;
    if (p->scalars.buffer.id && !(uses & SCALARS))
        return trp__error_set(p->encoder->error, TRP_E_ARGUMENT,
                              "scalars: expected none: the operation has no scalars");
    if ((uses & ROTATION) && !p->scalars.buffer.id && (!p->c.given || !p->s.given))
        return trp__error_set(p->encoder->error, TRP_E_ARGUMENT,
                              "%s: expected a scalar, or both in `scalars`, got none",
                              p->c.given ? "s" : "c");
    if ((uses & MODIFIED) && !p->scalars.buffer.id)
        return trp__error_set(p->encoder->error, TRP_E_ARGUMENT,
                              "scalars: expected a buffer with the five numbers of rotmg's result, "
                              "got none");
    return TRP_OK;
}

/* Operands. */

static trp_status check_operand(problem *p, int i)
{
    trp__operand *x = &p->operand[i];
    trp_status status;
    if (p->vector[i]) {
        status =
            trp__operand_check_vector(p->encoder, x, x->rows, &p->g.ld[i], p->row->uses & POSITIVE);
    } else if (i == A && p->row->uses & PACKED) {
        x->ld = x->rows;
        p->g.ld[i] = 1;
        status = TRP_OK;
    } else {
        x->ld = p->g.ld[i];
        status = trp__operand_check_ld(p->encoder, x, p->order);
        p->g.ld[i] = x->ld;
    }
    return status == TRP_OK ? trp__operand_check_extent(p->encoder, x, p->g.batch) : status;
}

/* Returns the access mode of an operand after check_operand(). Y is not read if beta is 0; a
 * triangle covers only a part of its matrix. */
static uint32_t mode_of(const problem *p, int i)
{
    const trp__operand *x = &p->operand[i];
    uint32_t uses = p->row->uses;
    bool reads = p->g.beta[0] != 0 || p->g.beta[1] != 0 || p->scalars.buffer.id;
    if (!(x->mode & TRP__WRITE) || (x->mode & TRP__READ))
        return x->mode;
    if ((uses & BETA) && reads && p->row->op != TRP_OP_GEAM)
        return TRP__READ | TRP__WRITE;
    return uses & TRIANGLE ? TRP__WRITE : x->mode;
}

static trp_status add(problem *p, trp__operand *x, uint8_t *index)
{
    *index = (uint8_t)p->encoder->record->access_count;
    return trp__operand_access(p->encoder, x);
}

/* Returns whether Y is X. */
static bool in_place(const problem *p)
{
    const trp__operand *x = &p->operand[X], *y = &p->operand[Y];
    return (p->row->uses & IN_PLACE) && x->buffer.id == y->buffer.id && x->offset == y->offset &&
           x->ld == y->ld;
}

/* Checks all operands. None is added to the record before, since in_place() needs their leading
 * dimensions. */
static trp_status check_operands(problem *p)
{
    trp_status status = TRP_OK;
    for (int i = 0; i < OPERANDS && status == TRP_OK; i++) {
        trp__operand *x = &p->operand[i];
        if (x->mode != 0 && p->unread[i]) {
            p->g.ld[i] = x->rows > 0 ? x->rows : 1;
            x->mode = 0;
        }
        if (x->mode != 0)
            status = check_operand(p, i);
    }
    return status;
}

static trp_status add_operands(problem *p)
{
    trp_status status = check_operands(p);
    for (int i = 0; i < OPERANDS && status == TRP_OK; i++) {
        trp__operand *x = &p->operand[i];
        if (x->mode == 0)
            continue;
        x->mode = mode_of(p, i);
        if (i == X && in_place(p))
            x->mode = TRP__READ | TRP__WRITE;
        if (i == Y && in_place(p)) {
            x->mode = 0;
            p->g.access[Y] = p->g.access[X];
        } else {
            status = add(p, x, &p->g.access[i]);
        }
    }
    return status;
}

/* The worker copies vectors that it conjugates and does not write, without gaps. Their batch stride
 * may be 0, so the copies can be larger than any buffer. */
static trp_status check_copies(const problem *p)
{
    const int64_t most = INT64_MAX / 64; /* of both together 32 bytes, and some more */
    int64_t elements;
    for (int i = X; p->g.conjugate && i <= Y; i++) {
        const trp__operand *x = &p->operand[i];
        if (x->mode != 0 && !(x->mode & TRP__WRITE) &&
            (__builtin_mul_overflow(x->rows, p->g.batch, &elements) || elements > most))
            return trp__error_set(p->encoder->error, TRP_E_ARGUMENT,
                                  "batch: expected fewer than 2^57 elements of %s in all, got %lld "
                                  "vectors of %lld",
                                  x->name, (long long)p->g.batch, (long long)x->rows);
    }
    return TRP_OK;
}

static trp_status add_scalars(problem *p)
{
    uint32_t uses = p->row->uses;
    if (!p->scalars.buffer.id)
        return TRP_OK;
    bool real = uses & (REAL_SCALARS | REAL_BETA);
    uint64_t count = uses & MODIFIED ? 5 : uses & REAL_BETA ? 3 : uses & (BETA | ROTATION) ? 2 : 1;
    uint32_t bytes = is_half(p->type) && uses & ALPHA ? sizeof(float)
                     : real                           ? real_bytes(p)
                                                      : element_bytes(p);
    p->scalars = trp__operand_of_scalars(p->scalars.buffer, p->scalars.offset, bytes, count);
    return add(p, &p->scalars, &p->g.scalars);
}

static trp_status add_result(problem *p)
{
    uint32_t uses = p->row->uses;
    trp__operand *r = &p->result;
    bool into_buffer = r->buffer.id, into_value = p->value;
    if (!(uses & GIVES))
        return into_buffer || into_value
                   ? trp__error_set(p->encoder->error, TRP_E_ARGUMENT,
                                    "%s: expected none: the operation has no result",
                                    into_buffer ? "result" : "value")
                   : TRP_OK;
    if (into_buffer == into_value)
        return trp__error_set(p->encoder->error, TRP_E_ARGUMENT, "%s",
                              into_value ? "value: expected none beside `result`, got a pointer"
                                         : "result: expected a buffer, or a pointer in `value`, "
                                           "got none");
    uint32_t bytes = uses & GIVES_INDEX ? 8 : uses & GIVES_REAL ? real_bytes(p) : element_bytes(p);
    uint64_t count = uses & GIVES_MODIFIED ? 5 : uses & GIVES_ROTATION ? 2 : 1;
    *r = trp__operand_of_scalars(r->buffer, r->offset, bytes, count);
    r->name = "result";
    if (into_value) {
        p->g.result = (uint8_t)p->encoder->record->access_count;
        return p->encoder->result(p->encoder, p->value, (uint32_t)r->elements * bytes);
    }
    /* Only the real part of the c of a complex rotation is written. */
    bool whole = !(uses & GIVES_ROTATION) || !trp__is_complex(p->type);
    r->mode = whole ? TRP__WRITE | TRP__COVER : TRP__WRITE;
    return add(p, r, &p->g.result);
}

static trp_status check_apart(const problem *p)
{
    trp__operand all[OPERANDS + 2];
    memcpy(all, p->operand, sizeof p->operand);
    all[OPERANDS] = p->scalars;
    all[OPERANDS + 1] = p->result;
    if (p->value)
        all[OPERANDS + 1].mode = 0;
    return trp__operands_check_apart(p->encoder, all, OPERANDS + 2, p->g.batch);
}

/* Returns whether there is nothing to compute, so that no operand is accessed. */
static bool is_empty(const problem *p)
{
    return p->g.n == 0 || ((p->row->uses & SIZE_M) && p->g.m == 0);
}

/* Checks a request and writes its record. The checks go from the most general argument to the
 * operands. */
static trp_status finish(problem *p, const int64_t options[5])
{
    trp_status status = check_type(p);
    if (status == TRP_OK)
        status = check_options(p, options);
    if (status == TRP_OK)
        status = check_sizes(p);
    if (status == TRP_OK)
        status = check_scalars(p);
    if (status == TRP_OK)
        status = trp__operand_check_absent(p->encoder, p->operand, p->row->mode, OPERANDS);
    if (status != TRP_OK)
        return status;
    trp__levels *g = &p->g;
    bool complex = trp__is_complex(p->type);
    g->type = (uint8_t)p->type;
    g->side = (uint8_t)options[0];
    g->uplo = (uint8_t)options[1];
    g->trans = (uint8_t)(options[2] == TRP_C && !complex ? TRP_T : options[2]);
    g->trans_b = (uint8_t)(options[3] == TRP_C && !complex ? TRP_T : options[3]);
    g->diag = (uint8_t)options[4];
    if (g->batch == 0)
        g->batch = 1;
    for (int i = 0; i < OPERANDS; i++) {
        p->operand[i].mode = p->row->mode[i];
        p->operand[i].element = element_bytes(p);
        g->access[i] = TRP__BLAS_NO_ACCESS;
    }
    g->scalars = g->result = TRP__BLAS_NO_ACCESS;
    if (p->order == TRP_ROW_MAJOR && p->row->to_columns)
        p->row->to_columns(p);
    p->row->lay_out(p);
    for (int i = X; g->conjugate && i <= Y; i++)
        g->length[i] = p->operand[i].rows;
    if (is_empty(p)) {
        for (int i = 0; i < OPERANDS; i++)
            p->operand[i].mode = 0;
    } else {
        status = add_operands(p);
        if (status == TRP_OK)
            status = check_copies(p);
        if (status == TRP_OK)
            status = add_scalars(p);
    }
    if (status == TRP_OK)
        status = add_result(p);
    if (status == TRP_OK)
        status = check_apart(p);
    for (int i = 0; i < OPERANDS; i++)
        g->stride[i] = p->operand[i].stride;
    memcpy(p->encoder->record->payload, g, sizeof *g);
    return status;
}

/* Requests of the three levels. */

static trp__operand named(const char *name, trp_buffer buffer, uint64_t offset)
{
    return (trp__operand){.name = name, .buffer = buffer, .offset = offset};
}

static void set_scalars(problem *p, trp_buffer buffer, uint64_t offset, trp_scalar alpha,
                        trp_scalar beta)
{
    p->scalars = named("scalars", buffer, offset);
    p->alpha = alpha;
    p->beta = beta;
    p->g.alpha[0] = alpha.given ? alpha.re : 1;
    p->g.alpha[1] = alpha.given ? alpha.im : 0;
    p->g.beta[0] = beta.given ? beta.re : 0;
    p->g.beta[1] = beta.given ? beta.im : 0;
}

trp_status trp__blas1_encode(trp__encoder *encoder, const trp_request *request)
{
    const trp_blas1_request *r = (const trp_blas1_request *)request;
    static const int64_t options[5] = {0};
    problem p = {.encoder = encoder,
                 .row = trp__levels_row_of(request->op),
                 .type = r->type,
                 .c = r->c,
                 .s = r->s};
    bool rotation = p.row->uses & ROTATION;
    p.operand[X] = named("x", r->x, r->x_offset);
    p.operand[Y] = named("y", r->y, r->y_offset);
    p.result = named("result", r->result, r->result_offset);
    p.value = r->value;
    set_scalars(&p, r->scalars, r->scalars_offset, r->alpha, (trp_scalar){0});
    if (rotation) {
        p.g.alpha[0] = r->c.re;
        p.g.beta[0] = r->s.re;
        p.g.beta[1] = r->s.im;
    }
    p.g.n = p.row->uses & GIVES_ONE ? 1 : r->n;
    p.g.ld[X] = r->incx;
    p.g.ld[Y] = r->incy;
    return finish(&p, options);
}

trp_status trp__blas2_encode(trp__encoder *encoder, const trp_request *request)
{
    const trp_blas2_request *r = (const trp_blas2_request *)request;
    const int64_t options[5] = {0, r->uplo, r->trans, 0, r->diag};
    problem p = {.encoder = encoder,
                 .row = trp__levels_row_of(request->op),
                 .type = r->type,
                 .order = r->order};
    p.operand[A] = named("a", r->a, r->a_offset);
    p.operand[X] = named("x", r->x, r->x_offset);
    p.operand[Y] = named("y", r->y, r->y_offset);
    p.operand[A].stride = r->a_stride;
    p.operand[X].stride = r->x_stride;
    p.operand[Y].stride = r->y_stride;
    set_scalars(&p, r->scalars, r->scalars_offset, r->alpha, r->beta);
    p.g.m = r->m;
    p.g.n = r->n;
    p.g.k = r->kl;
    p.g.ku = r->ku;
    p.g.ld[A] = r->lda;
    p.g.ld[X] = r->incx;
    p.g.ld[Y] = r->incy;
    p.g.batch = r->batch;
    return finish(&p, options);
}

trp_status trp__blas3_encode(trp__encoder *encoder, const trp_request *request)
{
    const trp_blas3_request *r = (const trp_blas3_request *)request;
    const int64_t options[5] = {r->side, r->uplo, r->trans, r->trans_b, r->diag};
    problem p = {.encoder = encoder,
                 .row = trp__levels_row_of(request->op),
                 .type = r->type,
                 .order = r->order};
    bool into_b = (p.row->uses & IN_PLACE) && !r->c.id;
    p.operand[A] = named("a", r->a, r->a_offset);
    p.operand[X] = named("b", r->b, r->b_offset);
    p.operand[Y] = into_b ? named("b", r->b, r->b_offset) : named("c", r->c, r->c_offset);
    set_scalars(&p, r->scalars, r->scalars_offset, r->alpha, r->beta);
    p.g.m = r->m;
    p.g.n = r->n;
    p.g.k = r->k;
    p.g.ld[A] = r->lda;
    p.g.ld[X] = p.row->op == TRP_OP_DGMM ? r->incx : r->ldb;
    p.g.ld[Y] = into_b ? r->ldb : r->ldc;
    p.operand[A].stride = r->a_stride;
    p.operand[X].stride = r->b_stride;
    p.g.batch = r->batch;
    return finish(&p, options);
}
