/* Epilogue trees as text, for --epilogue: 'relu(alpha*acc + bias[row]) * scale[col]'.
 *
 *   text      = { statement ";" } sum [ ";" ]           the sum is D
 *   statement = name "=" sum                            a value that is used later, at least once
 *             | name "[row,col]" suffixes "=" sum       stored in a matrix as well
 *             | name index suffixes "=" reduction "(" sum ")"
 *   reduction = "sum" | "max" | "min" | "amax"
 *   index     = "[row]" | "[col]" | "[]"                over each row, each column, everything
 *   sum       = product { ("+" | "-") product }
 *   product   = factor { ("*" | "/") factor }
 *   factor    = "-" factor | number | "(" sum ")" | function "(" sum { "," sum } ")"
 *             | "acc" | "c" | name [ "[row]" | "[col]" | "[row,col]" ] suffixes
 *   suffixes  = { ":" (type | "rowmajor") }
 *
 * acc is the product's sums, c is C. A name without an index is one number, or a value that a
 * statement has named; x[row] has a value for each row, x[col] for each column, x[row,col] for each
 * element. The same name is the same operand wherever it stands. A suffix says an operand's type
 * and order where the default is not meant; said once it is enough.
 *
 * Functions: the activations (relu, gelu, silu, ...; parameters follow as numbers, as in
 * leaky_relu(x, 0.1)), negate, abs, square, sqrt, rsqrt, reciprocal, exp, log, min and max of two,
 * fma(x, y, z), scale_rows(x, s[row]), scale_columns(x, s[col]), and the name of a type, or
 * "convert" for D's, to round to it. Nothing is simplified: 1 * acc multiplies by one. */
#ifndef TRP_CLI_COMMANDS_CUTLASS_EPILOGUE_H
#define TRP_CLI_COMMANDS_CUTLASS_EPILOGUE_H

#include <troupe/cutlass.h>

enum {
    EPILOGUE_NAME_MAX = 32,   /* bytes of a name, its end included */
    EPILOGUE_TEXT_MAX = 4096, /* bytes of a text */
    EPILOGUE_DEPTH_MAX = 64,  /* nesting of parentheses and signs */
};

/* A tree and the names of its operands. Named nodes still need a buffer (scalars: or a value) and,
 * if a matrix, a leading dimension where it is not the smallest. */
typedef struct epilogue {
    trp_epilogue_node node[TRP_EPILOGUE_NODES_MAX];
    char name[TRP_EPILOGUE_NODES_MAX][EPILOGUE_NAME_MAX]; /* "": none */
    uint32_t count;
} epilogue;

/* Parses a text. On failure returns false and writes a message to `error`, of at most `error_size`
 * bytes: a line with the column and what was expected, then the text around it and a caret below.
 * *out is undefined then. */
bool epilogue_parse(const char *text, epilogue *out, char *error, size_t error_size);

#endif
