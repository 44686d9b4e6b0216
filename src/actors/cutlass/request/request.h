/* What the requests of the actor have in common on the sender's side: the types of their matrices,
 * what becomes of the sums, and how that travels. */
#ifndef TRP_ACTORS_CUTLASS_REQUEST_REQUEST_H
#define TRP_ACTORS_CUTLASS_REQUEST_REQUEST_H

#include "actors/cutlass/wire/gemm.h"
#include "wire/actor_class.h"

#include <troupe/cutlass.h>

/* A request's types and epilogue, in the making. */
typedef struct trp__epilogue_pack {
    trp__pack *pack;

    /* As the request has them. */
    trp_dtype a, b, c, d;
    trp_order order; /* of C and D */
    bool transpose;  /* the tree, see trp__tree_types */
    trp_compute compute;
    bool has_c; /* a buffer of C */
    bool no_i8; /* as inputs */
    bool fp4;   /* as inputs, too */
    bool mixed; /* B may be narrower than A */
    trp_scalar alpha, beta;
    const trp_epilogue_node *epilogue;
    uint32_t count;

    /* What is made of them. */
    trp_dtype sums;
    uint8_t type[TRP__GEMM_MATRICES]; /* of a C that is not read TRP_DTYPE_NONE */
    bool integers;                    /* D is i32, and there is no tree */
    const trp_epilogue_node *nodes;
    trp_epilogue_node plain[7]; /* those of alpha and beta */
    trp__tree tree;
    trp__tree_operands operands;
    uint32_t slots, tree_bytes;
    uint8_t bytes[TRP__TREE_BYTES_MAX];
} trp__epilogue_pack;

/* One number of a request that stands for a name. */
typedef struct trp__choice {
    const char *name, *expected;
    uint32_t value, most;
} trp__choice;

/* Whether each is one of 0 to the most. */
trp_status trp__check_choices(trp__pack *pack, const trp__choice *choices, size_t count);

/* Whether a matrix, whose name is given, has no scale: trees have nodes for that. */
trp_status trp__check_no_scale(trp__pack *pack, const char *name, const trp_matmul_matrix *matrix);

/* What a request says of kernels: the host has none to choose from, and says so in `chosen`, which
 * may be NULL. */
trp_status trp__check_kernel(trp__pack *pack, const char *kernel, trp_cutlass_chosen *chosen);

/* Whether B is narrower than A. */
bool trp__is_mixed(trp_dtype a, trp_dtype b);

/* Checks types, scalars and tree, and fills in what is made of them. */
trp_status trp__epilogue_check(trp__epilogue_pack *e);

/* Whether a request of so many matrices has no more operands than it may, those of the tree, which
 * are placed by now, included. */
trp_status trp__epilogue_check_count(const trp__epilogue_pack *e, uint32_t matrices);

/* Adds an operand to the record, unless its mode is 0; the number of its access, or
 * TRP__GEMM_NO_ACCESS. */
trp_status trp__add_operand(trp__pack *pack, const trp__operand *x, uint32_t *access);

/* What follows a record's head: `extra` bytes of the request's own (a multiple of 8), slots, tree.
 * Counts them, and finds room for all of it: `rest`, if that has enough (`rest_bytes`), else a
 * piece of staging memory, for which it waits. Before any operand is added. */
trp_status trp__epilogue_reserve(trp__epilogue_pack *e, void *rest, size_t rest_bytes,
                                 uint32_t extra, void **room);

/* Adds the operands of the tree to the record, and writes slots and tree to `room`, which is the
 * one above, behind the extra bytes. After all other operands. */
trp_status trp__epilogue_put(trp__epilogue_pack *e, void *room);

#endif
