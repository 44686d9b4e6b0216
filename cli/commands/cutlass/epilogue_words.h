/* The words of epilogue texts (epilogue.h): functions, reductions, types, and names that operands
 * can't have. */
#ifndef TRP_CLI_COMMANDS_CUTLASS_EPILOGUE_WORDS_H
#define TRP_CLI_COMMANDS_CUTLASS_EPILOGUE_WORDS_H

#include "ui/spell.h"

#include <troupe/cutlass.h>

/* A function by its name. */
typedef struct function_row {
    const char *name;
    trp_epilogue_kind kind;
    int which;           /* trp_activation, trp_unary, trp_binary */
    uint32_t inputs;     /* inputs that are values */
    uint32_t parameters; /* numbers that may follow */
} function_row;

extern const function_row epilogue_functions[];
extern const size_t epilogue_function_count;

enum { EPILOGUE_REDUCTIONS = 4 };
extern const char *const epilogue_reductions[EPILOGUE_REDUCTIONS]; /* by trp_reduction */

/* NULL: no function of that name. The hint, or "", names the nearest. */
const function_row *epilogue_function(const char *name);
spell_text epilogue_function_hint(const char *name);

/* Parses a type of an operand or conversion; the tree's check decides which fit. */
trp_dtype epilogue_type(const char *name);

/* Tells whether no operand can have this name. */
bool epilogue_reserved(const char *name);

#endif
