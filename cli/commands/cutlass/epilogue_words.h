/* The words of epilogue texts, see epilogue.h: functions, reductions, types, and what no operand
 * can be called. */
#ifndef TRP_CLI_COMMANDS_CUTLASS_EPILOGUE_WORDS_H
#define TRP_CLI_COMMANDS_CUTLASS_EPILOGUE_WORDS_H

#include "ui/spell.h"

#include <troupe/cutlass.h>

/* A function by its name. */
typedef struct function_row {
    const char *name;
    trp_epilogue_kind kind;
    int which;           /* trp_activation, trp_unary, trp_binary */
    uint32_t inputs;     /* that are values */
    uint32_t parameters; /* numbers that may follow */
} function_row;

extern const function_row epilogue_functions[];
extern const size_t epilogue_function_count;

enum { EPILOGUE_REDUCTIONS = 4 };
extern const char *const epilogue_reductions[EPILOGUE_REDUCTIONS]; /* by trp_reduction */

/* NULL: there is none of that name. The hint, or "", names the nearest. */
const function_row *epilogue_function(const char *name);
spell_text epilogue_function_hint(const char *name);

/* The types that an operand or a conversion can name; the tree's check says which fit. */
trp_dtype epilogue_type(const char *name);

/* Words that no operand can have as its name. */
bool epilogue_reserved(const char *name);

#endif
