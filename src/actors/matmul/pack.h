/* The sender's side of matmul: what its parts share. pack.c checks types and numbers and writes the
 * record, pack_epilogue.c checks what is done with the product, pack_operands.c places everything
 * in buffers. */
#ifndef TRP_ACTORS_MATMUL_PACK_H
#define TRP_ACTORS_MATMUL_PACK_H

#include "base/error.h"
#include "matrix/operands.h"
#include "matrix/product.h"

#include <troupe/matmul.h>

/* A request in the making. */
typedef struct trp__making {
    trp__pack *pack;
    const trp_matmul_request *r;
    bool swap;     /* D is row-major: what travels is its transpose */
    bool reads_c;  /* also where C is in D's place, */
    bool in_place; /* as it is here */
    trp__matmul g;
    trp__operand operand[TRP__MATMUL_OPERANDS]; /* mode 0: it has none */
} trp__making;

#define TRP__UNSUPPORTED(m, ...) trp__error_set((m)->pack->error, TRP_E_UNSUPPORTED, __VA_ARGS__)

static inline trp_status trp__matmul_wrong(trp__making *m, const char *argument,
                                           const char *expected, int64_t got)
{
    return trp__operand_wrong(m->pack, argument, expected, got);
}

static inline bool trp__is_fp8(uint32_t type)
{
    return type == TRP_F8E4M3 || type == TRP_F8E5M2;
}

static inline bool trp__is_gradient(trp_activation activation)
{
    return activation == TRP_ACTIVATION_DRELU || activation == TRP_ACTIVATION_DGELU;
}

static inline bool trp__aux_is_bits(trp_activation activation)
{
    return activation == TRP_ACTIVATION_RELU || activation == TRP_ACTIVATION_DRELU;
}

/* What goes together, as cuBLASLt's documentation lists it; f8e4m3 as input stands for both fp8. */
typedef struct trp__type_row {
    trp_dtype input, d, c, vector, scalar;
} trp__type_row;

/* Whether the epilogue goes with types of that row, and its own types. */
trp_status trp__matmul_check_epilogue(trp__making *m, const trp__type_row *row);

/* Checks everything that lies in a buffer and adds it to the record. */
trp_status trp__matmul_set_operands(trp__making *m);

#endif
