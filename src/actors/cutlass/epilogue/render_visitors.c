/* Renders the visitors of a tree. */
#include "actors/cutlass/epilogue/render_parts.h"

typedef trp__tree_render_state render;

static const char *matrix_stride(uint32_t order)
{
    return order == TRP_ROW_MAJOR ? "cute::Stride<int64_t, cute::_1, int64_t>"
                                  : "cute::Stride<cute::_1, int64_t, int64_t>";
}

#define ROW_STRIDE    "cute::Stride<cute::_0, cute::_1, int64_t>"
#define COLUMN_STRIDE "cute::Stride<cute::_1, cute::_0, int64_t>"

/* Visitors op0, op1, ... belong to the nodes. */

static uint32_t aux_alignment(const render *r, uint32_t type)
{
    uint32_t elements = r->alignment * 8 / trp_dtype_bits((trp_dtype)type);
    return elements > 0 ? elements : 1;
}

static void add_op_sm90(const render *r, const trp__tree_node *x)
{
    const char *element = trp__tree_element(x->type);
    const char *reduction =
        x->op >= TRP__TREE_REDUCE_ROWS ? trp__tree_reduction_name(x->detail) : "";
    switch (x->op) {
    case TRP__TREE_ACCUMULATOR:
        ADD(r, "fusion::Sm90AccFetch");
        break;
    case TRP__TREE_C:
        ADD(r, "fusion::Sm90SrcFetch<ElementC>");
        break;
    case TRP__TREE_SCALAR:
        ADD(r, "fusion::Sm90ScalarBroadcast<Compute, cute::Stride<cute::_0, cute::_0, int64_t>>");
        break;
    case TRP__TREE_PER_ROW: /* no vector access: a batch may start at any address */
        ADD(r, "fusion::Sm90ColBroadcast<0, trp_tile, %s%s, Compute, " COLUMN_STRIDE ", 1>",
            element, r->grouped ? " *" : "");
        break;
    case TRP__TREE_PER_COLUMN:
        ADD(r, "fusion::Sm90RowBroadcast<0, trp_tile, %s%s, Compute, " ROW_STRIDE ">", element,
            r->grouped ? " *" : "");
        break;
    case TRP__TREE_LOAD:
        ADD(r, "fusion::Sm90AuxLoad<0, void, %s, %s, void, void, %u>", element,
            matrix_stride(x->detail), aux_alignment(r, x->type));
        break;
    case TRP__TREE_FUNCTION:
        ADD(r, "fusion::Sm90Compute<fn_%s, Compute, Compute, Nearest>",
            trp__tree_function_name(x->detail));
        break;
    case TRP__TREE_CONVERT:
        ADD(r, "fusion::Sm90Compute<as_is, %s, Compute, Nearest>", element);
        break;
    case TRP__TREE_STORE:
        ADD(r, "fusion::Sm90AuxStore<0, void, %s, Nearest, %s, void, void, %u>", element,
            matrix_stride(x->detail), aux_alignment(r, x->type));
        break;
    case TRP__TREE_REDUCE_ALL:
        ADD(r,
            "fusion::Sm90ScalarReduction<red_%s, at_%s, Compute, Compute, Nearest, "
            "cute::Stride<cute::_0, cute::_0, int64_t>>",
            reduction, reduction);
        break;
    default:
        ADD(r,
            "fusion::Sm90%sReduction<red_%s, red_%s, at_%s, 0, trp_tile, Compute, Compute, "
            "Nearest, %s>",
            x->op == TRP__TREE_REDUCE_ROWS ? "Col" : "Row", reduction, reduction, reduction,
            x->op == TRP__TREE_REDUCE_ROWS ? COLUMN_STRIDE : ROW_STRIDE);
    }
}

static void add_op_sm80(const render *r, const trp__tree_node *x)
{
    const char *element = trp__tree_element(x->type);
    const char *reduction =
        x->op >= TRP__TREE_REDUCE_ROWS ? trp__tree_reduction_name(x->detail) : "";
    switch (x->op) {
    case TRP__TREE_ACCUMULATOR:
        ADD(r, "fusion::VisitorAccFetch");
        break;
    case TRP__TREE_C:
        ADD(r, "fusion::VisitorAuxLoad<trp_thread_map, ElementC, %s>",
            matrix_stride(TRP_ROW_MAJOR));
        break;
    case TRP__TREE_SCALAR:
        ADD(r, "fusion::VisitorScalarBroadcast<Compute, cute::Stride<cute::_0, cute::_0, int>>");
        break;
    case TRP__TREE_PER_ROW:
        ADD(r, "fusion::VisitorColBroadcast<trp_thread_map, %s, " COLUMN_STRIDE ">", element);
        break;
    case TRP__TREE_PER_COLUMN:
        ADD(r, "fusion::VisitorRowBroadcast<trp_thread_map, %s, " ROW_STRIDE ">", element);
        break;
    case TRP__TREE_LOAD:
        ADD(r, "fusion::VisitorAuxLoad<trp_thread_map, %s, %s>", element, matrix_stride(x->detail));
        break;
    case TRP__TREE_FUNCTION:
        ADD(r, "fusion::VisitorCompute<fn_%s, Compute, Compute, Nearest>",
            trp__tree_function_name(x->detail));
        break;
    case TRP__TREE_CONVERT:
        ADD(r, "fusion::VisitorCompute<as_is, %s, Compute, Nearest>", element);
        break;
    case TRP__TREE_STORE:
        ADD(r, "fusion::VisitorAuxStore<trp_thread_map, %s, Nearest, %s>", element,
            matrix_stride(x->detail));
        break;
    case TRP__TREE_REDUCE_ALL:
        ADD(r,
            "fusion::VisitorScalarReduction<red_%s, at_%s, trp_thread_map, Compute, Compute, "
            "Nearest, cute::Stride<cute::_0, cute::_0, int>>",
            reduction, reduction);
        break;
    default:
        ADD(r,
            "fusion::Visitor%sReduction<red_%s, at_%s, trp_thread_map, Compute, Compute, Nearest, "
            "%s>",
            x->op == TRP__TREE_REDUCE_ROWS ? "Col" : "Row", reduction, reduction,
            x->op == TRP__TREE_REDUCE_ROWS ? COLUMN_STRIDE : ROW_STRIDE);
    }
}

/* Tells whether a node may be repeated as several visitors because it costs nothing. */
static bool is_free(const render *r, const trp__tree_node *x)
{
    return x->op == TRP__TREE_ACCUMULATOR || x->op == TRP__TREE_SCALAR ||
           (x->op == TRP__TREE_C && r->target == TRP__TREE_SM90);
}

static void count_uses(render *r)
{
    const trp__tree *t = r->tree;
    bool stored[TRP__TREE_NODES_MAX] = {false};
    r->uses[t->root]++;
    for (uint32_t i = 0; i < t->count; i++) {
        const trp__tree_node *x = &t->node[i];
        for (uint32_t p = 0; p < trp__tree_inputs(x); p++) {
            if (trp__tree_is_sink(x))
                stored[x->input[p]] = true;
            else
                r->uses[x->input[p]]++;
        }
    }
    r->nested = true;
    for (uint32_t i = 0; i < t->count; i++) {
        const trp__tree_node *x = &t->node[i];
        if (trp__tree_is_sink(x))
            continue;
        if (r->uses[i] != 1 && (stored[i] || !is_free(r, x)))
            r->nested = false;
    }
}

/* Adds opD, the visitor that converts the root's value to D. */
static void add_last(const render *r)
{
    if (r->target == TRP__TREE_SM90)
        ADD(r, "using opD = fusion::Sm90Compute<as_is, ElementD, Compute, Nearest>;\n");
    else
        ADD(r, "using opD = fusion::VisitorAuxStore<trp_thread_map, ElementD, Nearest, %s>;\n",
            matrix_stride(TRP_ROW_MAJOR));
}

static const char *tree_of(const render *r)
{
    return r->target == TRP__TREE_SM90 ? "fusion::Sm90TreeVisitor" : "fusion::Sm80EVT";
}

/* Adds the values v0, v1, ... as nested visitors; stored values pass through their stores. A value
 * with several stores is nested in one after the other. */
static void add_nested(const render *r)
{
    const trp__tree *t = r->tree;
    for (uint32_t i = 0; i < t->count; i++) {
        const trp__tree_node *x = &t->node[i];
        bool convert_sums = x->op == TRP__TREE_ACCUMULATOR && t->accumulator != t->compute;
        char stores[TRP__TREE_NODES_MAX];
        uint32_t stored = 0;
        if (trp__tree_is_sink(x))
            continue;
        for (uint32_t s = i + 1; s < t->count; s++) {
            if (trp__tree_is_sink(&t->node[s]) && t->node[s].input[0] == i)
                stores[stored++] = (char)s;
        }
        ADD(r, "using v%u = ", i);
        for (uint32_t s = stored; s > 0; s--)
            ADD(r, "%s<op%d, ", tree_of(r), stores[s - 1]);
        if (trp__tree_inputs(x) > 0) {
            ADD(r, "%s<op%u", tree_of(r), i);
            for (uint32_t p = 0; p < trp__tree_inputs(x); p++)
                ADD(r, ", v%u", x->input[p]);
            ADD(r, ">");
        } else if (convert_sums) {
            ADD(r, "%s<opS, op%u>", tree_of(r), i);
        } else {
            ADD(r, "op%u", i);
        }
        for (uint32_t s = 0; s < stored; s++)
            ADD(r, ">");
        ADD(r, ";\n");
    }
    ADD(r, "using Tree = %s<opD, v%u>;\n", tree_of(r), t->root);
}

/* Adds all visitors as a list, each with the indices of its inputs. */
static void add_listed(const render *r)
{
    const trp__tree *t = r->tree;
    ADD(r, "using Tree = fusion::%s<Compute,\n    cute::tuple<",
        r->target == TRP__TREE_SM90 ? "Sm90TopologicalVisitor" : "Sm80TopologicalVisitor");
    for (uint32_t i = 0; i < t->count; i++) {
        const trp__tree_node *x = &t->node[i];
        ADD(r, "cute::seq<");
        for (uint32_t p = 0; p < trp__tree_inputs(x); p++)
            ADD(r, "%s%u", p ? ", " : "", x->input[p]);
        ADD(r, ">, ");
    }
    ADD(r, "cute::seq<%u>>,\n    ", t->root);
    for (uint32_t i = 0; i < t->count; i++)
        ADD(r, "op%u, ", i);
    ADD(r, "opD>;\n");
}

void trp__render_visitors(trp__tree_render_state *r)
{
    count_uses(r);
    for (uint32_t i = 0; i < r->tree->count; i++) {
        ADD(r, "using op%u = ", i);
        if (r->target == TRP__TREE_SM90)
            add_op_sm90(r, &r->tree->node[i]);
        else
            add_op_sm80(r, &r->tree->node[i]);
        ADD(r, ";\n");
    }
    ADD(r, "using opS = fusion::%s<as_is, Compute, Compute, Nearest>;\n",
        r->target == TRP__TREE_SM90 ? "Sm90Compute" : "VisitorCompute");
    add_last(r);
    if (r->nested)
        add_nested(r);
    else
        add_listed(r);
}
