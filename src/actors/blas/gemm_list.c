/* The sender's side of lists of gemms. Each member is encoded as a gemm. */
#include "actors/blas/gemm_list.h"

#include "actors/blas/blas_wire.h"
#include "actors/blas/gemm.h"
#include "base/error.h"

#include <troupe/blas.h>

#include <stdio.h>
#include <string.h>

/* A number that must be 0, since it is given elsewhere or not at all. */
typedef struct field {
    const char *name;
    uint64_t value;
} field;

static trp_status check_zero(const field *fields, size_t count, const char *why, trp_error *error)
{
    for (size_t i = 0; i < count; i++) {
        if (fields[i].value != 0)
            return trp__error_set(error, TRP_E_ARGUMENT, "%s: expected 0: %s, got %lld",
                                  fields[i].name, why, (long long)fields[i].value);
    }
    return TRP_OK;
}

static trp_status count_items(const trp_request *request, uint32_t *count, trp_error *error)
{
    const trp_gemm_list_request *r = (const trp_gemm_list_request *)request;
    const trp_gemm_request *c = &r->common;
    const field items[] = {
        {"common.a", c->a.id},
        {"common.b", c->b.id},
        {"common.c", c->c.id},
        {"common.a_offset", c->a_offset},
        {"common.b_offset", c->b_offset},
        {"common.c_offset", c->c_offset},
        {"common.a_stride", (uint64_t)c->a_stride},
        {"common.b_stride", (uint64_t)c->b_stride},
        {"common.c_stride", (uint64_t)c->c_stride},
        {"common.batch", (uint64_t)c->batch},
        {"common.header", c->header.deadline_ns | (uint64_t)c->header.wait_ns},
    };
    const field sizes[] = {
        {"common.m", (uint64_t)c->m},     {"common.n", (uint64_t)c->n},
        {"common.k", (uint64_t)c->k},     {"common.lda", (uint64_t)c->lda},
        {"common.ldb", (uint64_t)c->ldb}, {"common.ldc", (uint64_t)c->ldc},
    };
    if (r->count < 1 || r->count > INT32_MAX)
        return trp__error_set(error, TRP_E_ARGUMENT, "count: expected 1 or more, got %lld",
                              (long long)r->count);
    if (!r->item)
        return trp__error_set(error, TRP_E_ARGUMENT, "item: expected a pointer, got NULL");
    *count = (uint32_t)r->count;
    trp_status status =
        check_zero(items, sizeof items / sizeof *items, "each item has its own", error);
    return status == TRP_OK && r->own_sizes
               ? check_zero(sizes, sizeof sizes / sizeof *sizes,
                            "with own_sizes, each item has its own", error)
               : status;
}

static trp_status check_item(const trp_gemm_list_request *r, const trp_gemm_item *x,
                             trp_error *error)
{
    const field sizes[] = {
        {"m", (uint64_t)x->m},     {"n", (uint64_t)x->n},     {"k", (uint64_t)x->k},
        {"lda", (uint64_t)x->lda}, {"ldb", (uint64_t)x->ldb}, {"ldc", (uint64_t)x->ldc},
    };
    return r->own_sizes ? TRP_OK
                        : check_zero(sizes, sizeof sizes / sizeof *sizes,
                                     "without own_sizes, it is in `common`", error);
}

static trp_gemm_request product_of(const trp_gemm_list_request *r, const trp_gemm_item *x)
{
    trp_gemm_request one = r->common;
    one.a = x->a;
    one.b = x->b;
    one.c = x->c;
    one.a_offset = x->a_offset;
    one.b_offset = x->b_offset;
    one.c_offset = x->c_offset;
    if (r->own_sizes) {
        one.m = x->m;
        one.n = x->n;
        one.k = x->k;
        one.lda = x->lda;
        one.ldb = x->ldb;
        one.ldc = x->ldc;
    }
    return one;
}

static trp_status encode_item(trp__encoder *encoder, const trp_request *request, uint32_t index)
{
    const trp_gemm_list_request *r = (const trp_gemm_list_request *)request;
    trp_gemm_request one = product_of(r, &r->item[index]);
    trp__gemm g;
    trp_status status = check_item(r, &r->item[index], encoder->error);
    if (status == TRP_OK)
        status = trp__gemm_encode(encoder, &one.header);
    if (status == TRP_OK && r->own_sizes) {
        memcpy(&g, encoder->record->payload, sizeof g);
        g.grouped = true;
        memcpy(encoder->record->payload, &g, sizeof g);
    }
    if (status == TRP_OK)
        return TRP_OK;
    char message[sizeof encoder->error->message];
    trp__copy_string(message, sizeof message, encoder->error->message);
    snprintf(encoder->error->message, sizeof encoder->error->message, "item[%u]: %.230s", index,
             message);
    return status;
}

const trp__list_class trp__gemm_list = {
    .op = TRP_OP_GEMM, .count = count_items, .encode = encode_item};
