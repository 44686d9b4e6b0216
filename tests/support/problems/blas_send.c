/* Requests of problems. See blas_problem.h. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/blas_problem.h"

static trp_buffer buffer_of(const problem *p, int place)
{
    const operand *x = &p->operands[place];
    return x->use == UNUSED ? (trp_buffer){0} : p->blocks[x->block].buffer;
}

static uint64_t offset_of(const problem *p, int place)
{
    const operand *x = &p->operands[place];
    return x->use == UNUSED ? 0 : (uint64_t)x->start * ref_blas_size(x->view.type);
}

/* Fields that all requests have. */
#define OPERAND(name, place) .name = buffer_of(p, place), .name##_offset = offset_of(p, place)
#define SCALAR(name)         .name = p->on_device ? (trp_scalar){0} : p->name

static trp_gemm_request request_0(const problem *p)
{
    trp_gemm_request r = {
        .type = p->type,
        .type_c = p->type_c,
        .compute = p->compute,
        .order = p->row_major ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
        .trans_a = p->trans,
        .trans_b = p->trans_b,
        .m = p->m,
        .n = p->n,
        .k = p->k,
        SCALAR(alpha),
        SCALAR(beta),
        OPERAND(a, REF_A),
        OPERAND(b, REF_X),
        OPERAND(c, REF_Y),
        OPERAND(scalars, SCALARS),
        .lda = p->operands[REF_A].ld,
        .ldb = p->operands[REF_X].ld,
        .ldc = p->operands[REF_Y].ld,
        .a_stride = p->operands[REF_A].stride,
        .b_stride = p->operands[REF_X].stride,
        .c_stride = p->operands[REF_Y].stride,
        .batch = p->batch == 1 ? (int64_t)blas_below(2) : p->batch,
        .joining = (trp_joining)blas_below(2),
    };
    return r;
}

static trp_blas1_request request_1(const problem *p)
{
    trp_blas1_request r = {
        .type = p->type,
        .n = p->n,
        SCALAR(alpha),
        SCALAR(c),
        SCALAR(s),
        OPERAND(x, REF_X),
        OPERAND(y, REF_Y),
        OPERAND(scalars, SCALARS),
        OPERAND(result, REF_RESULT),
        .incx = p->operands[REF_X].ld,
        .incy = p->operands[REF_Y].ld,
    };
    return r;
}

static trp_blas2_request request_2(const problem *p)
{
    trp_blas2_request r = {
        .type = p->type,
        .order = p->row_major ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
        .trans = p->trans,
        .uplo = p->uplo,
        .diag = p->diag,
        .m = p->m,
        .n = p->n,
        .kl = p->kl,
        .ku = p->ku,
        SCALAR(alpha),
        SCALAR(beta),
        OPERAND(a, REF_A),
        OPERAND(x, REF_X),
        OPERAND(y, REF_Y),
        OPERAND(scalars, SCALARS),
        .lda = p->operands[REF_A].ld,
        .incx = p->operands[REF_X].ld,
        .incy = p->operands[REF_Y].ld,
        .a_stride = p->operands[REF_A].stride,
        .x_stride = p->operands[REF_X].stride,
        .y_stride = p->operands[REF_Y].stride,
        .batch = p->batch == 1 ? (int64_t)blas_below(2) : p->batch,
    };
    return r;
}

static trp_blas3_request request_3(const problem *p)
{
    trp_blas3_request r = {
        .type = p->type,
        .order = p->row_major ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
        .side = p->side,
        .uplo = p->uplo,
        .trans = p->trans,
        .trans_b = p->trans_b,
        .diag = p->diag,
        .m = p->m,
        .n = p->n,
        .k = p->k,
        SCALAR(alpha),
        SCALAR(beta),
        OPERAND(a, REF_A),
        OPERAND(b, REF_X),
        OPERAND(c, REF_Y),
        OPERAND(scalars, SCALARS),
        .lda = p->operands[REF_A].ld,
        .ldb = p->operands[REF_X].ld,
        .ldc = p->operands[REF_Y].ld,
        .a_stride = p->operands[REF_A].stride,
        .b_stride = p->operands[REF_X].stride,
        .batch = p->batch == 1 ? (int64_t)blas_below(2) : p->batch,
    };
    if (p->same_place) {
        r.c = r.b;
        r.c_offset = r.b_offset;
        r.ldc = r.ldb;
    }
    if (p->op->rules[REF_X].vector) {
        r.incx = r.ldb;
        r.ldb = 0;
    }
    return r;
}

void blas_make_request(const problem *p, blas_request *out)
{
    if (p->op->level == 0)
        out->gemm = request_0(p);
    else if (p->op->level == 1)
        out->one = request_1(p);
    else if (p->op->level == 2)
        out->two = request_2(p);
    else
        out->three = request_3(p);
}

trp_status blas_send_problem(trp_actor *blas, const problem *p, trp_completion *done)
{
    blas_request r;
    blas_make_request(p, &r);
    return p->op->level == 0   ? p->op->send_0(blas, &r.gemm, done)
           : p->op->level == 1 ? p->op->send_1(blas, &r.one, done)
           : p->op->level == 2 ? p->op->send_2(blas, &r.two, done)
                               : p->op->send_3(blas, &r.three, done);
}
