/* The epilogue tree, checked and in canonical form: what the sender makes of the nodes of a
 * request, what the worker renders or evaluates, and what is part of a kernel's key.
 *
 * A tree in this form has as its nodes just what a kernel has to do. SCALE_ROWS and SCALE_COLUMNS
 * have become a vector and a product, parameters of activations have become scalars, values that
 * are computed twice in the same way are one node, and stores and reductions hang on the value that
 * they take. Nodes are numbered, and operands of commuting functions ordered, by what they compute
 * and not by how the sender wrote them.
 *
 * Everything that may change from request to request lies in slots: slot 0 is D, slot 1 is C, the
 * others follow in the order of the nodes. */
#ifndef TRP_ACTORS_CUTLASS_EPILOGUE_TREE_H
#define TRP_ACTORS_CUTLASS_EPILOGUE_TREE_H

#include "actors/cutlass/epilogue/functions.h"
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

typedef enum trp__tree_op {
    TRP__TREE_ACCUMULATOR,
    TRP__TREE_C,
    TRP__TREE_SCALAR,         /* slot */
    TRP__TREE_PER_ROW,        /* slot, type */
    TRP__TREE_PER_COLUMN,     /* slot, type */
    TRP__TREE_LOAD,           /* slot, type, detail: trp_order */
    TRP__TREE_FUNCTION,       /* detail: trp__tree_function; its inputs */
    TRP__TREE_CONVERT,        /* type; one input */
    TRP__TREE_STORE,          /* slot, type, detail: trp_order; one input */
    TRP__TREE_REDUCE_ROWS,    /* slot, detail: trp_reduction; one input */
    TRP__TREE_REDUCE_COLUMNS, /* likewise */
    TRP__TREE_REDUCE_ALL,     /* likewise */
    TRP__TREE_OPS
} trp__tree_op;

typedef struct trp__tree_node {
    uint8_t op;     /* trp__tree_op */
    uint8_t type;   /* trp_dtype in memory, or that is converted to; else 0 */
    uint8_t detail; /* see trp__tree_op; else 0 */
    uint8_t slot;   /* 0: none */
    uint8_t input[TRP__TREE_INPUTS];
} trp__tree_node;

typedef struct trp__tree {
    uint8_t accumulator, c, d; /* trp_dtype; c: TRP_DTYPE_NONE if the tree does not read C */
    uint8_t order;             /* of C and D: trp_order */
    uint8_t compute;           /* TRP_F32 or TRP_F64 */
    uint8_t count, slots;      /* of nodes; of slots, D and C included */
    uint8_t root;              /* the node whose value is D */
    trp__tree_node node[TRP__TREE_NODES_MAX]; /* after their inputs */
    /* Where a slot comes from, for the sender: node of the request, and 0 for what it has in memory
     * or by value, 1 and 2 for its parameters. Zero after decoding. */
    struct {
        uint8_t node, part;
    } origin[TRP__TREE_SLOTS_MAX];
} trp__tree;

/* What a tree is checked against. */
typedef struct trp__tree_types {
    trp_dtype accumulator; /* f32, f64 or i32 */
    trp_dtype c;           /* of the request's C; TRP_DTYPE_NONE: it has none */
    trp_dtype d;
    trp_order order; /* of C and D */
    /* The kernel computes the transpose of D (D' = B' A'): rows become columns and row-major
     * becomes column-major in the tree. */
    bool transpose;
} trp__tree_types;

/* Checks nodes and makes a tree of them. A message names the node: "nodes[4] (binary add):
 * input[1]: expected ..., got ...". TRP_E_ARGUMENT, TRP_E_UNSUPPORTED. Looks neither at sizes nor
 * at where things lie. */
trp_status trp__tree_build(const trp_epilogue_node *nodes, uint32_t count,
                           const trp__tree_types *types, trp__tree *out, trp_error *error);

/* The canonical form of a tree that trp__tree_build() made: its length, at most
 * TRP__TREE_BYTES_MAX. Two trees have the same bytes if they compute the same but for the numbers
 * of their nodes and the order of operands that commute; two that compute anything else never have.
 * (Of trees so symmetric that the search for the smallest form is cut short, the same may have two
 * forms: a second kernel is compiled then.) No scalar, parameter, place, size or stride is in it.
 */
size_t trp__tree_encode(const trp__tree *tree, uint8_t bytes[TRP__TREE_BYTES_MAX]);

/* The tree of a canonical form; false if the bytes are none. What it accepts is safe to render and
 * to evaluate, and encodes to the same bytes. */
bool trp__tree_decode(const uint8_t *bytes, size_t length, trp__tree *out);

/* Numbers the nodes and slots of a lowered tree in their canonical order. */
void trp__tree_canonize(trp__tree *tree);

/* What of the request a slot is, as numbers that are the same in both processes. */
typedef struct trp__tree_place {
    int64_t ld, stride; /* elements; of a vector ld is 0 */
    double value;       /* of a scalar that is not in memory */
} trp__tree_place;

typedef struct trp__tree_operands {
    trp__operand operand[TRP__TREE_SLOTS_MAX]; /* mode 0: not in memory. D and C are not set */
    trp__tree_place place[TRP__TREE_SLOTS_MAX];
    char name[TRP__TREE_SLOTS_MAX][16]; /* "nodes[4]", for messages */
} trp__tree_operands;

/* Places the slots of a tree for a D of m x n and a batch of at least 1, all as the sender wrote
 * them (not transposed): checks values, leading dimensions, strides, and that what is written
 * overlaps nothing of the tree and none of `others` (D, C, A, B), which are measured already. m and
 * n are at least 1. Adds no access to the record: trp__operand_access() of each that has a mode
 * does. */
trp_status trp__tree_place_operands(trp__pack *pack, const trp_epilogue_node *nodes,
                                    const trp__tree *tree, int64_t m, int64_t n, int64_t batch,
                                    const trp__operand *others, uint32_t other_count,
                                    trp__tree_operands *out);

/* The same of the transpose of D: rows become columns, row-major column-major. Its nodes keep their
 * order, so that it is not in canonical form. */
void trp__tree_transpose(trp__tree *tree);

/* Parameter `which` of a node with an activation: the one that is given, or its default. */
double trp__tree_parameter(const trp_epilogue_node *x, int which);

/* Of a function: its name, how many inputs it has in all, and how many of the first commute. */
const char *trp__tree_function_name(uint8_t function);
const char *trp__tree_reduction_name(uint8_t reduction); /* a trp_reduction */
uint32_t trp__tree_function_inputs(uint8_t function);
uint32_t trp__tree_function_parameters(uint8_t function); /* the last of these */
uint32_t trp__tree_function_commuting(uint8_t function);
bool trp__tree_function_exact(uint8_t function);

/* How many inputs a node has, and how many of them commute. */
uint32_t trp__tree_inputs(const trp__tree_node *node);
uint32_t trp__tree_commuting(const trp__tree_node *node);

/* Whether the result of a node goes to memory and not to another node. */
static inline bool trp__tree_is_sink(const trp__tree_node *node)
{
    return node->op >= TRP__TREE_STORE;
}

static inline bool trp__tree_has_slot(const trp__tree_node *node)
{
    return node->op != TRP__TREE_ACCUMULATOR && node->op != TRP__TREE_C &&
           node->op != TRP__TREE_FUNCTION && node->op != TRP__TREE_CONVERT;
}

/* Whether a matrix, or a vector that is read, can have the type. */
bool trp__tree_matrix_type(uint8_t compute, uint32_t type);
bool trp__tree_vector_type(uint8_t compute, uint32_t type);

#endif
