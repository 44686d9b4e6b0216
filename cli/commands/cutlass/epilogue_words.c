#include "epilogue_words.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#define ACTIVATION(name, which, inputs, parameters)                                                \
    {                                                                                              \
        name, TRP_EPILOGUE_ACTIVATION, TRP_ACTIVATION_##which, inputs, parameters                  \
    }
#define UNARY(name, which)                                                                         \
    {                                                                                              \
        name, TRP_EPILOGUE_UNARY, TRP_UNARY_##which, 1, 0                                          \
    }

const function_row epilogue_functions[] = {
    ACTIVATION("relu", RELU, 1, 0),
    ACTIVATION("gelu", GELU, 1, 0),
    ACTIVATION("silu", SILU, 1, 0),
    ACTIVATION("drelu", DRELU, 2, 0),
    ACTIVATION("dgelu", DGELU, 2, 0),
    ACTIVATION("clipped_relu", CLIPPED_RELU, 1, 1),
    ACTIVATION("leaky_relu", LEAKY_RELU, 1, 1),
    ACTIVATION("elu", ELU, 1, 1),
    ACTIVATION("selu", SELU, 1, 0),
    ACTIVATION("gelu_erf", GELU_ERF, 1, 0),
    ACTIVATION("sigmoid", SIGMOID, 1, 0),
    ACTIVATION("tanh", TANH, 1, 0),
    ACTIVATION("softplus", SOFTPLUS, 1, 1),
    ACTIVATION("mish", MISH, 1, 0),
    ACTIVATION("hard_sigmoid", HARD_SIGMOID, 1, 0),
    ACTIVATION("hard_swish", HARD_SWISH, 1, 0),
    ACTIVATION("clamp", CLAMP, 1, 2),
    UNARY("negate", NEGATE),
    UNARY("abs", ABS),
    UNARY("square", SQUARE),
    UNARY("sqrt", SQRT),
    UNARY("rsqrt", RSQRT),
    UNARY("reciprocal", RECIPROCAL),
    UNARY("exp", EXP),
    UNARY("log", LOG),
    {"min", TRP_EPILOGUE_BINARY, TRP_BINARY_MIN, 2, 0},
    {"max", TRP_EPILOGUE_BINARY, TRP_BINARY_MAX, 2, 0},
    {"fma", TRP_EPILOGUE_FMA, 0, 3, 0},
    {"scale_rows", TRP_EPILOGUE_SCALE_ROWS, 0, 1, 0},
    {"scale_columns", TRP_EPILOGUE_SCALE_COLUMNS, 0, 1, 0},
    {"convert", TRP_EPILOGUE_CONVERT, TRP_DTYPE_NONE, 1, 0},
};
const size_t epilogue_function_count = COUNT_OF(epilogue_functions);

const char *const epilogue_reductions[EPILOGUE_REDUCTIONS] = {"sum", "max", "min", "amax"};

trp_dtype epilogue_type(const char *name)
{
    for (trp_dtype t = TRP_F64; t <= TRP_I32; t = (trp_dtype)(t + 1)) {
        if (strcmp(trp_dtype_name(t), name) == 0)
            return t;
    }
    return TRP_DTYPE_NONE;
}

spell_text epilogue_function_hint(const char *name)
{
    spell s = spell_begin(name, strlen(name));
    for (size_t i = 0; i < COUNT_OF(epilogue_functions); i++)
        spell_try(&s, epilogue_functions[i].name);
    return spell_hint(&s, "");
}

const function_row *epilogue_function(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(epilogue_functions); i++) {
        if (strcmp(epilogue_functions[i].name, name) == 0)
            return &epilogue_functions[i];
    }
    return NULL;
}

bool epilogue_reserved(const char *name)
{
    static const char *const words[] = {"acc", "c", "row", "col", "inf", "nan", "rowmajor", "none"};
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (strcmp(words[i], name) == 0)
            return true;
    }
    for (size_t i = 0; i < EPILOGUE_REDUCTIONS; i++) {
        if (strcmp(epilogue_reductions[i], name) == 0)
            return true;
    }
    return epilogue_function(name) || epilogue_type(name) != TRP_DTYPE_NONE;
}
