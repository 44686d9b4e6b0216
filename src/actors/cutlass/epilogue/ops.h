/* The kinds of nodes of an epilogue tree (tree.h). Read by NVRTC, too. */
#ifndef TRP_ACTORS_CUTLASS_EPILOGUE_OPS_H
#define TRP_ACTORS_CUTLASS_EPILOGUE_OPS_H

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

#endif
