/* The epilogue tree, checked and in canonical form: the sender builds it from the nodes of a
 * request, the worker renders or evaluates it, and it is part of a kernel's key.
 *
 * The nodes of this form are exactly a kernel's operations. SCALE_ROWS and SCALE_COLUMNS have
 * become a vector and a product, parameters of activations scalars, values computed twice in the
 * same way one node, and stores and reductions are attached to their values. Nodes are numbered,
 * and operands of commuting functions ordered, by what they compute and not by how the sender wrote
 * them.
 *
 * Everything that may change between requests is in slots: slot 0 is D, slot 1 is C, the others
 * follow in the order of the nodes. */
#ifndef TRP_ACTORS_CUTLASS_EPILOGUE_TREE_H
#define TRP_ACTORS_CUTLASS_EPILOGUE_TREE_H

#include "actors/cutlass/epilogue/functions.h"
#include "actors/cutlass/epilogue/ops.h"
#include "matrix/operands.h"

#include <troupe/cutlass.h>

enum {
    TRP__TREE_NODES_MAX = 64,
    TRP__TREE_SLOT_D = 0,
    TRP__TREE_SLOT_C = 1,
    TRP__TREE_SLOT_FIRST = 2,
    TRP__TREE_SLOTS_MAX = TRP__TREE_NODES_MAX + TRP__TREE_SLOT_FIRST,
    TRP__TREE_INPUTS = 3,
    TRP__TREE_BYTES_MAX = 8 + 6 * TRP__TREE_NODES_MAX, /* of the canonical form */
};

typedef struct trp__tree_node {
    uint8_t op;     /* trp__tree_op */
    uint8_t type;   /* trp_dtype in memory or of a conversion's result; else 0 */
    uint8_t detail; /* see trp__tree_op; else 0 */
    uint8_t slot;   /* 0: none */
    uint8_t input[TRP__TREE_INPUTS];
} trp__tree_node;

typedef struct trp__tree {
    uint8_t accumulator, c, d; /* trp_dtype; c: TRP_DTYPE_NONE if the tree does not read C */
    uint8_t order;             /* of C and D: trp_order */
    uint8_t compute;           /* TRP_F32 or TRP_F64 */
    uint8_t count, slots;      /* number of nodes; of slots including D and C */
    uint8_t root;              /* index of the node whose value is D */
    trp__tree_node node[TRP__TREE_NODES_MAX]; /* each after its inputs */
    /* The origin of a slot, for the sender: the request's node, and 0 for its memory or value, 1
     * and 2 for its parameters. Zero after decoding. */
    struct {
        uint8_t node, part;
    } origin[TRP__TREE_SLOTS_MAX];
} trp__tree;

/* The types that a tree is checked against. */
typedef struct trp__tree_types {
    trp_dtype accumulator; /* f32, f64 or i32 */
    trp_dtype c;           /* of the request's C, or TRP_DTYPE_NONE */
    trp_dtype d;
    trp_order order; /* of C and D */
    /* The kernel computes the transpose of D (D' = B' A'): rows become columns and row-major
     * becomes column-major in the tree. */
    bool transpose;
} trp__tree_types;

/* Checks nodes and builds a tree of them. A message names the node: "nodes[4] (binary add):
 * input[1]: expected ..., got ...". Returns TRP_E_ARGUMENT or TRP_E_UNSUPPORTED. Ignores sizes and
 * addresses. */
trp_status trp__tree_build(const trp_epilogue_node *nodes, uint32_t count,
                           const trp__tree_types *types, trp__tree *out, trp_error *error);

/* Writes the canonical form of a tree from trp__tree_build() and returns its length, at most
 * TRP__TREE_BYTES_MAX. Trees have the same bytes if they compute the same, up to the numbering of
 * nodes and the order of commuting operands; trees that compute anything else never do. (For very
 * symmetric trees the search for the smallest form is cut short, so one tree may have two forms and
 * a second kernel is compiled.) The form contains no scalar, parameter, address, size or stride.
 */
size_t trp__tree_encode(const trp__tree *tree, uint8_t bytes[TRP__TREE_BYTES_MAX]);

/* Reads the tree of a canonical form; returns false for other bytes. An accepted tree is safe to
 * render and to evaluate and encodes to the same bytes. */
bool trp__tree_decode(const uint8_t *bytes, size_t length, trp__tree *out);

/* Numbers the nodes and slots of a lowered tree in their canonical order. */
void trp__tree_canonize(trp__tree *tree);

/* A slot's contents in the request, as numbers that are the same in both processes. */
typedef struct trp__tree_place {
    int64_t ld, stride; /* elements; ld of a vector is 0 */
    double value;       /* of a scalar passed by value */
} trp__tree_place;

typedef struct trp__tree_operands {
    trp__operand operand[TRP__TREE_SLOTS_MAX]; /* mode 0: not in memory. D and C are unset */
    trp__tree_place place[TRP__TREE_SLOTS_MAX];
    char name[TRP__TREE_SLOTS_MAX][16]; /* "nodes[4]", for messages */
} trp__tree_operands;

/* Describes the slots of a tree for a D of m x n and a batch of at least 1 in the sender's
 * orientation (not transposed): checks values, leading dimensions, strides, and that outputs
 * overlap neither the tree's operands nor `others` (D, C, A, B), which are measured already. m and
 * n are at least 1. Adds no access to the record: trp__operand_access() of each operand with a mode
 * does. */
trp_status trp__tree_place_operands(trp__encoder *encoder, const trp_epilogue_node *nodes,
                                    const trp__tree *tree, int64_t m, int64_t n, int64_t batch,
                                    const trp__operand *others, uint32_t other_count,
                                    trp__tree_operands *out);

/* Transposes the tree with D: rows become columns, row-major becomes column-major. Nodes keep their
 * order, so the result is not in canonical form. */
void trp__tree_transpose(trp__tree *tree);

/* Returns parameter `which` of a node with an activation: the given one or the default. */
double trp__tree_parameter(const trp_epilogue_node *x, int which);

/* Return a function's name, its number of inputs, and how many of the first commute. */
const char *trp__tree_function_name(uint8_t function);
const char *trp__tree_reduction_name(uint8_t reduction); /* a trp_reduction */
uint32_t trp__tree_function_inputs(uint8_t function);
uint32_t trp__tree_function_parameters(uint8_t function); /* number of parameters, the last
                                                           * inputs */
bool trp__tree_function_exact(uint8_t function);

/* Return the number of a node's inputs, and how many of them commute. */
uint32_t trp__tree_inputs(const trp__tree_node *node);
uint32_t trp__tree_commuting(const trp__tree_node *node);

/* Tells whether the result of a node goes to memory and not to another node. */
static inline bool trp__tree_is_sink(const trp__tree_node *node)
{
    return node->op >= TRP__TREE_STORE;
}

static inline bool trp__tree_has_slot(const trp__tree_node *node)
{
    return node->op != TRP__TREE_ACCUMULATOR && node->op != TRP__TREE_C &&
           node->op != TRP__TREE_FUNCTION && node->op != TRP__TREE_CONVERT;
}

/* Tells whether a matrix, or a vector that is read, may have the type. */
bool trp__tree_matrix_type(uint8_t compute, uint32_t type);
bool trp__tree_vector_type(uint8_t compute, uint32_t type);

#endif
