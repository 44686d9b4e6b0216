/* The sender's side of matmul. encoder.c checks types and numbers and writes the record,
 * encode_epilogue.c checks the epilogue, and encode_operands.c checks the operands in buffers. */
#ifndef TRP_ACTORS_MATMUL_ENCODE_H
#define TRP_ACTORS_MATMUL_ENCODE_H

#include "base/error.h"
#include "matrix/operands.h"
#include "matrix/product.h"

#include <troupe/matmul.h>

/* A request while it is checked. */
typedef struct trp__matmul_encoding {
    trp__encoder *encoder;
    const trp_matmul_request *r;
    bool swap;     /* D is row-major, so its transpose is computed */
    bool reads_c;  /* also if C is D */
    bool in_place; /* C is D */
    trp__matmul g;
    trp__operand operand[TRP__MATMUL_OPERANDS]; /* mode 0: not there */
} trp__matmul_encoding;

#define TRP__UNSUPPORTED(m, ...) trp__error_set((m)->encoder->error, TRP_E_UNSUPPORTED, __VA_ARGS__)

static inline trp_status trp__matmul_wrong(trp__matmul_encoding *m, const char *argument,
                                           const char *expected, int64_t got)
{
    return trp__operand_wrong(m->encoder, argument, expected, got);
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

/* A supported combination of types. f8e4m3 as input type stands for both fp8 types. */
typedef struct trp__type_row {
    trp_dtype input, d, c, vector, scalar;
} trp__type_row;

/* Checks the epilogue, with the types of a row. */
trp_status trp__matmul_check_epilogue(trp__matmul_encoding *m, const trp__type_row *row);

/* Checks all operands in buffers, and adds them to the record. */
trp_status trp__matmul_set_operands(trp__matmul_encoding *m);

#endif
