/* Predicts properties of an epilogue tree's results. */
#include "actors/cutlass/epilogue/render.h"
#include "actors/cutlass/proof/parts.h"

#include <math.h>
#include <string.h>

/* Functions that make much of little where they jump or grow without limit. */
static bool is_steep(uint8_t function)
{
    return function == TRP__FN_div || function == TRP__FN_reciprocal || function == TRP__FN_sqrt ||
           function == TRP__FN_rsqrt || function == TRP__FN_log || function == TRP__FN_drelu;
}

/* Functions of which the result is as near as what goes in, whatever that is. */
static bool is_tame(uint8_t function)
{
    return function == TRP__FN_negate || function == TRP__FN_add || function == TRP__FN_sub ||
           function == TRP__FN_mul || function == TRP__FN_fma || function == TRP__FN_min ||
           function == TRP__FN_max || function == TRP__FN_relu || function == TRP__FN_leaky_relu ||
           function == TRP__FN_clipped_relu || function == TRP__FN_clamp;
}

trp__proving_tree trp__proving_look_at_tree(const trp__tree *tree)
{
    trp__proving_tree out = {.exact = true, .foretold = true, .tame = true};
    bool near[TRP__TREE_NODES_MAX] = {false};
    for (uint32_t i = 0; i < tree->count; i++) {
        const trp__tree_node *n = &tree->node[i];
        for (uint32_t k = 0; k < trp__tree_inputs(n); k++)
            near[i] = near[i] || near[n->input[k]];
        if (n->op == TRP__TREE_FUNCTION) {
            out.foretold = out.foretold && !(near[i] && is_steep(n->detail));
            out.tame = out.tame && is_tame(n->detail);
            near[i] = near[i] || !trp__tree_function_exact(n->detail);
        }
        out.tame = out.tame && n->op != TRP__TREE_CONVERT && n->op < TRP__TREE_REDUCE_ROWS;
        out.exact = out.exact && !near[i];
        out.reads = out.reads || n->op == TRP__TREE_C || n->op == TRP__TREE_PER_ROW ||
                    n->op == TRP__TREE_PER_COLUMN || n->op == TRP__TREE_LOAD;
    }
    return out;
}

static double moderate(double value)
{
    const double most = 0x1p20, least = 0x1p-20;
    if (isnan(value))
        return 1;
    if (fabs(value) > most)
        return copysign(most, value);
    return value != 0 && fabs(value) < least ? copysign(least, value) : value;
}

void trp__proving_set_numbers(const trp__tree *tree, trp_cutlass_args *args)
{
    for (uint32_t i = 0; i < tree->count; i++) {
        const trp__tree_node *n = &tree->node[i];
        if (n->op != TRP__TREE_SCALAR)
            continue;
        uint64_t *word = &args->slot[trp__tree_word(tree, n->slot)];
        double value;
        memcpy(&value, &word[1], sizeof value);
        value = moderate(value);
        if (word[0] == 0)
            memcpy(&word[1], &value, sizeof value);
    }
}
