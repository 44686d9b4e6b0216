/* The sender's side of LAPACK: checks a request by the table row of its operation and writes its
 * record. */
#include "actors/blas/lapack/lapack.h"

#include "actors/blas/lapack/uses.h"
#include "actors/blas/lapack/wire.h"
#include "base/error.h"
#include "base/numbers/types.h"
#include "libs/cublas/cublas_lapack.h"
#include "matrix/operands.h"

#include <string.h>

_Static_assert(sizeof(trp__lapack) <= TRP__PAYLOAD_BYTES, "the payload fits into a record");

enum {
    A = TRP__LAPACK_A,
    B = TRP__LAPACK_B,
    PIVOTS = TRP__LAPACK_PIVOTS,
    TAU = TRP__LAPACK_TAU,
    INFO = TRP__LAPACK_INFO,
    OPERANDS = TRP__LAPACK_OPERANDS,
};

/* The properties of an operation. */
typedef struct row {
    uint32_t op;
    uint32_t uses;
    const char *name;
    uint32_t mode[OPERANDS]; /* access mode of each operand; 0: it has no such operand */
} row;

#define R  TRP__READ
#define W  TRP__WRITE
#define RW (TRP__READ | TRP__WRITE)
static const row rows[] = {
#define LAPACK(op_, text, uses_, a, b, pivots, tau, info)                                          \
    {.op = TRP_OP_##op_, .uses = (uses_), .name = #text, .mode = {a, b, pivots, tau, info}},
#include "libs/blas/routines.def"
};
#undef R
#undef W
#undef RW

/* trp_submit() has found the operation in the actor's table, so there is a row. */
static const row *row_of(uint32_t op)
{
    const row *found = rows;
    while (found->op != op)
        found++;
    return found;
}

typedef struct problem {
    trp__encoder *encoder;
    const row *row;
    const trp_lapack_request *request;
    trp__lapack l;
    trp__operand operand[OPERANDS];
} problem;

static trp_status wrong(const problem *p, const char *argument, const char *expected, int64_t got)
{
    return trp__operand_wrong(p->encoder, argument, expected, got);
}

static trp_status check_options(const problem *p)
{
    const trp_lapack_request *r = p->request;
    const bool transposes = p->row->uses & TRANSPOSES;
    if (r->type != TRP_F32 && r->type != TRP_F64 && !trp__is_complex(r->type))
        return trp__error_set(p->encoder->error, TRP_E_ARGUMENT,
                              "type: expected f32, f64, c64 or c128, got %s (%d)",
                              trp_dtype_name(r->type), (int)r->type);
    if (r->order != TRP_COL_MAJOR && r->order != TRP_ROW_MAJOR)
        return wrong(p, "order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->order);
    if ((int)r->trans < 0 || r->trans > (transposes ? TRP_C : TRP_N))
        return wrong(p, "trans",
                     transposes ? "TRP_N, TRP_T or TRP_C" : "0: the operation has no such option",
                     r->trans);
    return TRP_OK;
}

static trp_status check_sizes(const problem *p)
{
    const trp_lapack_request *r = p->request;
    const uint32_t uses = p->row->uses;
    if ((uses & ROWS) && r->m < 0)
        return wrong(p, "m", "0 or more", r->m);
    if (r->n < 0)
        return wrong(p, "n", "0 or more", r->n);
    if ((uses & RIGHT_SIDES) && r->nrhs < 0)
        return wrong(p, "nrhs", "0 or more", r->nrhs);
    if (r->batch < 0)
        return wrong(p, "batch", "0 or more", r->batch);
    if ((uses & TALL) && r->m < r->n)
        return wrong(p, "m",
                     "at least n: with fewer equations than unknowns, the solution is not unique",
                     r->m);
    if ((uses & SMALL) && p->encoder->backend == TRP_BACKEND_CUDA && r->n > TRP__CUBLAS_MATINV_MOST)
        return trp__error_set(
            p->encoder->error, TRP_E_UNSUPPORTED,
            "n: expected at most %d, which cuBLAS's %s takes, got %lld; getrf and "
            "getri invert larger ones",
            TRP__CUBLAS_MATINV_MOST, p->row->name, (long long)r->n);
    return TRP_OK;
}

/* Describes an array without gaps that has `each` elements for each matrix. */
static void set_array(trp__operand *x, int64_t each, int64_t batch, uint32_t bytes)
{
    x->rows = each;
    x->columns = batch;
    x->ld = each;
    x->element = bytes;
}

/* Describes a matrix, which a row-major one is the transpose of. */
static void set_matrix(trp__operand *x, const trp_lapack_request *r, int64_t m, int64_t n)
{
    const bool turned = r->order == TRP_ROW_MAJOR;
    x->rows = turned ? n : m;
    x->columns = turned ? m : n;
    x->element = trp_dtype_bits(r->type) / 8;
}

/* Fills the sizes of the operands, and the payload except the accesses. */
static void lay_out(problem *p)
{
    const trp_lapack_request *r = p->request;
    const uint32_t bytes = trp_dtype_bits(r->type) / 8;
    trp__lapack *l = &p->l;
    trp__operand *x = p->operand;
    l->type = (uint8_t)r->type;
    l->trans = (uint8_t)(r->trans == TRP_C && !trp__is_complex(r->type) ? TRP_T : r->trans);
    l->n = r->n;
    l->m = p->row->uses & ROWS ? r->m : r->n;
    l->nrhs = p->row->uses & RIGHT_SIDES ? r->nrhs : r->n;
    l->batch = r->batch == 0 ? 1 : r->batch;
    l->turned = r->order == TRP_ROW_MAJOR && !(p->row->uses & ANY_ORDER);
    set_matrix(&x[A], r, l->m, l->n);
    set_matrix(&x[B], r, l->m, l->nrhs);
    x[A].ld = r->lda;
    x[B].ld = r->ldb;
    x[A].stride = r->a_stride;
    x[B].stride = r->b_stride;
    set_array(&x[PIVOTS], l->n, l->batch, sizeof(int32_t));
    set_array(&x[TAU], trp__lapack_reflectors(l), l->batch, bytes);
    set_array(&x[INFO], 1, l->batch, sizeof(int32_t));
    const bool empty = l->m == 0 || l->n == 0 || l->nrhs == 0;
    for (int i = 0; i < OPERANDS; i++)
        x[i].mode = empty && i != INFO ? 0 : p->row->mode[i];
}

static trp_status check_operand(problem *p, int i)
{
    trp__operand *x = &p->operand[i];
    const bool matrix = i == A || i == B;
    const int64_t batch = matrix ? p->l.batch : 1;
    trp_status status = matrix ? trp__operand_check_ld(p->encoder, x, p->request->order) : TRP_OK;
    return status == TRP_OK ? trp__operand_check_extent(p->encoder, x, batch) : status;
}

static trp_status add_operands(problem *p)
{
    trp_status status = TRP_OK;
    for (int i = 0; i < OPERANDS && status == TRP_OK; i++) {
        p->l.access[i] = TRP__LAPACK_NO_ACCESS;
        if (p->operand[i].mode == 0)
            continue;
        status = check_operand(p, i);
        p->l.access[i] = (uint8_t)p->encoder->record->access_count;
        if (status == TRP_OK)
            status = trp__operand_access(p->encoder, &p->operand[i]);
    }
    return status;
}

trp_status trp__lapack_encode(trp__encoder *encoder, const trp_request *request)
{
    const trp_lapack_request *r = (const trp_lapack_request *)request;
    problem p = {
        .encoder = encoder,
        .row = row_of(request->op),
        .request = r,
        .operand = {[A] = {.name = "a", .buffer = r->a, .offset = r->a_offset},
                    [B] = {.name = "b", .buffer = r->b, .offset = r->b_offset},
                    [PIVOTS] = {.name = "pivots", .buffer = r->pivots, .offset = r->pivots_offset},
                    [TAU] = {.name = "tau", .buffer = r->tau, .offset = r->tau_offset},
                    [INFO] = {.name = "info", .buffer = r->info, .offset = r->info_offset}}};
    trp_status status = check_options(&p);
    if (status == TRP_OK)
        status = check_sizes(&p);
    if (status == TRP_OK)
        status = trp__operand_check_absent(encoder, p.operand, p.row->mode, OPERANDS);
    if (status != TRP_OK)
        return status;
    lay_out(&p);
    status = add_operands(&p);
    if (status == TRP_OK)
        status = trp__operands_check_apart(encoder, p.operand, OPERANDS, p.l.batch);
    p.l.lda = p.operand[A].ld;
    p.l.ldb = p.operand[B].ld;
    p.l.a_stride = p.operand[A].stride;
    p.l.b_stride = p.operand[B].stride;
    memcpy(encoder->record->payload, &p.l, sizeof p.l);
    return status;
}
