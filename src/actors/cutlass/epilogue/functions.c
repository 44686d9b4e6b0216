/* Properties of the functions of epilogue trees: see functions.h. */
#include "actors/cutlass/epilogue/tree.h"

static const struct {
    const char *name;
    uint8_t values, parameters, commuting;
    bool exact;
} functions[TRP__FN_COUNT] = {
#define FN(name, values, parameters, commuting, exact, body)                                       \
    {#name, values, parameters, commuting, exact},
    TRP__TREE_FUNCTIONS(FN)
#undef FN
};

const char *trp__tree_function_name(uint8_t function)
{
    return functions[function].name;
}

uint32_t trp__tree_function_inputs(uint8_t function)
{
    return (uint32_t)functions[function].values + functions[function].parameters;
}

uint32_t trp__tree_function_parameters(uint8_t function)
{
    return functions[function].parameters;
}

bool trp__tree_function_exact(uint8_t function)
{
    return functions[function].exact;
}

uint32_t trp__tree_inputs(const trp__tree_node *node)
{
    if (node->op == TRP__TREE_FUNCTION)
        return trp__tree_function_inputs(node->detail);
    return node->op == TRP__TREE_CONVERT || trp__tree_is_sink(node) ? 1 : 0;
}

uint32_t trp__tree_commuting(const trp__tree_node *node)
{
    return node->op == TRP__TREE_FUNCTION ? functions[node->detail].commuting : 0;
}

const char *trp__tree_reduction_name(uint8_t reduction)
{
    static const char *const names[] = {"sum", "max", "min", "amax"};
    return names[reduction];
}

/* Returns an activation's default parameter, see cutlass.h. */
static double default_parameter(trp_activation activation, int which)
{
    switch (activation) {
    case TRP_ACTIVATION_CLIPPED_RELU:
        return 6;
    case TRP_ACTIVATION_LEAKY_RELU:
        return 0.01;
    case TRP_ACTIVATION_CLAMP:
        return which;
    default:
        return 1;
    }
}

double trp__tree_parameter(const trp_epilogue_node *x, int which)
{
    const trp_scalar *s = &x->parameter[which];
    return s->given ? s->re : default_parameter(x->activation, which);
}
