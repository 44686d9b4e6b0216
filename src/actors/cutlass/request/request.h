/* Shared by the actor's requests on the sender's side: the types of their matrices, the epilogue,
 * and its encoding. */
#ifndef TRP_ACTORS_CUTLASS_REQUEST_REQUEST_H
#define TRP_ACTORS_CUTLASS_REQUEST_REQUEST_H

#include "actors/cutlass/wire/gemm.h"
#include "wire/actor_class.h"

#include <troupe/cutlass.h>

/* A request's types and epilogue under construction. */
typedef struct trp__epilogue_encoding {
    trp__encoder *encoder;

    /* From the request. */
    trp_dtype a, b, c, d;
    trp_order order; /* of C and D */
    bool transpose;  /* see trp__tree_types */
    trp_compute compute;
    bool has_c;    /* C has a buffer */
    bool any_type; /* allows i8 and fp4 as input, and a B narrower than A */
    trp_scalar alpha, beta;
    const trp_epilogue_node *epilogue;
    uint32_t count;

    /* Derived values. */
    trp_dtype sums;
    uint8_t type[TRP__GEMM_MATRICES]; /* trp_dtype; TRP_DTYPE_NONE for a C that is not read */
    bool integers;                    /* D is i32, and there is no tree */
    const trp_epilogue_node *nodes;
    trp_epilogue_node plain[7]; /* nodes of alpha and beta */
    trp__tree tree;
    trp__tree_operands operands;
    uint32_t slots, tree_bytes;
    uint8_t bytes[TRP__TREE_BYTES_MAX];
} trp__epilogue_encoding;

/* Initialises what all requests have. */
#define TRP__EPILOGUE_OF(r)                                                                        \
    .a = (r)->a.type, .b = (r)->b.type, .c = (r)->c.type, .d = (r)->d.type,                        \
    .compute = (r)->compute, .has_c = (r)->c.buffer.id != 0, .alpha = (r)->alpha,                  \
    .beta = (r)->beta, .epilogue = (r)->epilogue, .count = (r)->epilogue_count

/* An enumerated field of a request. */
typedef struct trp__choice {
    const char *name, *expected;
    uint32_t value, most;
} trp__choice;

/* Checks that each choice is between 0 and its maximum. */
trp_status trp__check_choices(trp__encoder *encoder, const trp__choice *choices, size_t count);

/* Checks that the named matrix has no scale: */
trp_status trp__check_no_scale(trp__encoder *encoder, const char *name,
                               const trp_matmul_matrix *matrix);

/* Checks a request's choice of a kernel: the host has no kernels and says so in `chosen` and `ran`,
 * which may be NULL. `ran` is set to "none" elsewhere, which the worker replaces. */
trp_status trp__check_kernel(trp__encoder *encoder, const char *kernel, trp_cutlass_chosen *chosen,
                             trp_cutlass_ran *ran);

/* Tells whether B is narrower than A. */
bool trp__is_mixed(trp_dtype a, trp_dtype b);

/* Checks types, scalars and tree, and sets the derived values. */
trp_status trp__epilogue_check(trp__epilogue_encoding *e);

/* Checks the number of a request's operands, including those of the tree, which must be placed. */
trp_status trp__epilogue_check_count(const trp__epilogue_encoding *e, uint32_t matrices);

/* Adds an operand to the record unless its mode is 0; stores the number of its access, or
 * TRP__GEMM_NO_ACCESS. */
trp_status trp__add_operand(trp__encoder *encoder, const trp__operand *x, uint32_t *access);

/* Reserves space for the data after a record's head: `extra` bytes of the request (a multiple of
 * 8), slots, tree. Uses `rest` if its `rest_bytes` suffice, else a piece of staging memory, for
 * which it waits. Call it before any operand is added. */
trp_status trp__epilogue_reserve(trp__epilogue_encoding *e, void *rest, size_t rest_bytes,
                                 uint32_t extra, void **room);

/* Adds the operands of the tree to the record, and writes slots and tree to `room`, the reserved
 * space after the extra bytes. Call it after all other operands. */
trp_status trp__epilogue_put(trp__epilogue_encoding *e, void *room);

#endif
