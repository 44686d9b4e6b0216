/* Renders a row and a problem as the source of a kernel: the settings of a template, and the
 * tree. */
#include "actors/cutlass/catalogue/catalogue.h"
#include "actors/cutlass/catalogue/parts.h"
#include "actors/cutlass/epilogue/render.h"

#include <stdio.h>

static void add_triple(trp__text *out, const char *name, const uint16_t x[3], bool turned)
{
    trp__text_add(out, "#define %s %u, %u, %u\n", name, x[turned], x[!turned], x[2]);
}

/* Returns the type in which an element of A or B is multiplied: for narrow ones in 2.x the type
 * that they are widened to. */
static uint8_t multiplied(const trp__cutlass_row *row, const trp__cutlass_problem *p, uint8_t type)
{
    bool widened = trp__cutlass_row_mixed(row) && !trp__cutlass_row_3x(row);
    return !widened ? type : trp__cutlass_left_narrow(p) ? p->b : p->a;
}

/* Returns the elements of A or B per load. */
static uint32_t at_once(const trp__cutlass_row *row, const trp__cutlass_problem *p, uint8_t type)
{
    uint32_t most = 128 / trp_dtype_bits((trp_dtype)multiplied(row, p, type));
    return row->align < most ? row->align : most;
}

/* Tells whether the kernel computes the transpose to have the narrower matrix first. */
static bool is_swapped(const trp__cutlass_row *row, const trp__cutlass_problem *p)
{
    return trp__cutlass_row_3x(row) && trp__cutlass_row_turned(row, p);
}

/* Kernels of 2.x multiply the wider type and take the narrower one as an extra setting. */
static void add_mixed_sm80(const trp__cutlass_problem *p, trp__text *out)
{
    bool left = trp__cutlass_left_narrow(p);
    trp__text_add(out,
                  "#define TRP_NARROW %s\n"
                  "#define TRP_LEFT_NARROW %d\n"
                  "#define TRP_FACTORS %d\n"
                  "#define TRP_ZEROS %d\n",
                  trp__tree_element(left ? p->a : p->b), left, p->group != 0, p->zeros);
}

static void add_mixed(const trp__cutlass_row *row, const trp__cutlass_problem *p, trp__text *out)
{
    bool swap = is_swapped(row, p);
    const char *wide = trp__tree_element(swap ? p->a : p->b);
    trp__text_add(out,
                  "#define TRP_MIXED 1\n"
                  "#define TRP_SWAP %d\n"
                  "#define TRP_GROUPS %s\n"
                  "#define TRP_ZEROS %s\n",
                  swap, p->group ? wide : "void", p->zeros ? wide : "void");
}

static void add_sm80(const trp__cutlass_row *row, const trp__cutlass_problem *p, trp__text *out)
{
    bool fp8 = row->inputs == TRP__CUTLASS_FP8;
    trp__text_add(out,
                  "#define TRP_CLASS %s\n"
                  "#define TRP_ARCH %s\n"
                  "#define TRP_STAGES %u\n"
                  "#define TRP_STREAM_K %d\n"
                  "#define TRP_OPERATOR %s\n"
                  "#define TRP_A_ALIGN %u\n"
                  "#define TRP_B_ALIGN %u\n"
                  "#define TRP_D_ALIGN %u\n",
                  trp__cutlass_row_simt(row) ? "OpClassSimt" : "OpClassTensorOp",
                  fp8 ? "Sm89" : "Sm80", row->stages, row->stream_k,
                  row->fast ? "OpMultiplyAddFastAccum" : "OpMultiplyAdd", at_once(row, p, p->a),
                  at_once(row, p, p->b), trp__cutlass_row_line_elements(row, p->d));
    add_triple(out, "TRP_WARP", row->warp, trp__cutlass_row_turned(row, p));
    add_triple(out, "TRP_INSTRUCTION", row->instruction, false);
    if (trp__cutlass_row_mixed(row))
        add_mixed_sm80(p, out);
}

/* Tells whether the widest instruction that divides the tile's columns is outside CUTLASS's usual
 * set, from which many narrow instructions would be needed. */
static bool has_odd_width(const trp__cutlass_row *row)
{
    return row->tile[1] % 64 != 0 && row->tile[1] != 96 && row->tile[1] > 32;
}

static void add_3x(const trp__cutlass_row *row, const trp__cutlass_problem *p, trp__text *out)
{
    trp__text_add(out,
                  "#define TRP_C %s\n"
                  "#define TRP_CLUSTER %u, %u\n"
                  "#define TRP_STAGES %u\n"
                  "#define TRP_PINGPONG %d\n"
                  "#define TRP_SCHEDULER %d\n",
                  trp__tree_element(p->c), row->cluster[0], row->cluster[1], row->stages,
                  row->pingpong, row->operation == TRP__CUTLASS_GROUPED ? 2 : row->stream_k);
    if (row->family == TRP__CUTLASS_SM90)
        trp__text_add(out, "#define TRP_SINGLE %d\n#define TRP_FP8 %d\n#define TRP_FAST_FP8 %d\n",
                      row->single,
                      row->inputs == TRP__CUTLASS_FP8 || row->inputs == TRP__CUTLASS_FP8_BLOCKS,
                      row->fast);
    else
        trp__text_add(out, "#define TRP_SM %d\n", row->family == TRP__CUTLASS_SM100 ? 100 : 120);
    if (row->family == TRP__CUTLASS_SM90 && has_odd_width(row))
        trp__text_add(out, "#define TRP_ODD_WIDTH 1\n");
    if (row->inputs == TRP__CUTLASS_FP8_BLOCKS)
        trp__text_add(out, "#define TRP_SCALE_A %u\n#define TRP_SCALE_B %u\n",
                      trp__cutlass_scale_lines(p->scale_a), trp__cutlass_scale_lines(p->scale_b));
    if (trp__cutlass_row_mixed(row))
        add_mixed(row, p, out);
    if (row->inputs == TRP__CUTLASS_MXFP8 || row->inputs == TRP__CUTLASS_NVFP4)
        trp__text_add(out, "#define TRP_BLOCK %d\n", row->inputs == TRP__CUTLASS_MXFP8 ? 32 : 16);
}

/* Adds what grouped kernels need to locate the tree's operands: for each vector its word among the
 * arguments, its element size, and whether it is per row; and the words of scalars. */
static void add_operands(const trp__tree *tree, trp__text *out)
{
    uint32_t vectors = 0, scalars = 0;
    trp__text_add(out, "#define TRP_VECTORS");
    for (uint32_t i = 0; i < tree->count; i++) {
        const trp__tree_node *x = &tree->node[i];
        if (x->op == TRP__TREE_PER_ROW || x->op == TRP__TREE_PER_COLUMN)
            trp__text_add(out, "%s {%u, %u, %d}", vectors++ ? "," : "",
                          trp__tree_word(tree, x->slot), trp_dtype_bits((trp_dtype)x->type) / 8,
                          x->op == TRP__TREE_PER_ROW);
    }
    trp__text_add(out, "\n#define TRP_VECTOR_COUNT %u\n", vectors);
    for (uint32_t i = 0; i < tree->count; i++) {
        const trp__tree_node *x = &tree->node[i];
        if (x->op == TRP__TREE_SCALAR)
            trp__text_add(out, "%s%u", scalars++ ? ", " : "#define TRP_SCALARS ",
                          trp__tree_word(tree, x->slot));
    }
    if (scalars)
        trp__text_add(out, "\n");
}

static void add_conv(const trp__cutlass_problem *p, trp__text *out)
{
    trp__text_add(out,
                  "#define TRP_CONV %u\n"
                  "#define TRP_CONV_DIMS %u\n"
                  "#define TRP_CONV_UNIT_STRIDE %d\n",
                  p->conv.operation, p->conv.dims, !p->conv.divided);
}

trp_status trp__cutlass_row_render(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                   trp__text *out, trp_error *error)
{
    static const char *const families[] = {[TRP__CUTLASS_SM80] = "sm80",
                                           [TRP__CUTLASS_SM90] = "sm90",
                                           [TRP__CUTLASS_SM100] = "sm100",
                                           [TRP__CUTLASS_SM120] = "sm100"};
    static const char *const operations[] = {[TRP__CUTLASS_GEMM] = "gemm",
                                             [TRP__CUTLASS_GROUPED] = "grouped",
                                             [TRP__CUTLASS_CONV] = "conv"};
    const char *family = families[row->family];
    bool by_tma = trp__cutlass_row_3x(row), grouped = row->operation == TRP__CUTLASS_GROUPED;
    trp__tree_target target = !by_tma   ? TRP__TREE_SM80
                              : grouped ? TRP__TREE_SM90_GROUPED
                                        : TRP__TREE_SM90;
    const char *operation =
        trp__cutlass_row_mixed(row) && !by_tma ? "mixed" : operations[row->operation];
    trp__text_add(out,
                  "/* %s */\n"
                  "#define TRP_A %s\n"
                  "#define TRP_B %s\n"
                  "#define TRP_D %s\n"
                  "#define TRP_ACC %s\n"
                  "#define TRP_SCALAR %s\n"
                  "#define TRP_A_ROW %d\n"
                  "#define TRP_B_ROW %d\n",
                  row->name, trp__tree_element(multiplied(row, p, p->a)),
                  trp__tree_element(multiplied(row, p, p->b)), trp__tree_element(p->d),
                  trp__tree_element(p->accumulator),
                  trp__tree_element(p->tree ? p->tree->compute : p->accumulator), p->a_row,
                  p->b_row);
    add_triple(out, "TRP_TILE", row->tile, !by_tma && trp__cutlass_row_turned(row, p));
    if (by_tma)
        add_3x(row, p, out);
    else
        add_sm80(row, p, out);
    if (grouped && !by_tma)
        trp__text_add(out, "#define TRP_C %s\n", trp__tree_element(p->c));
    if (grouped)
        add_operands(p->tree, out);
    if (row->operation == TRP__CUTLASS_CONV)
        add_conv(p, out);
    if (p->tree) {
        trp__text_add(out, "#define TRP_TREE 1\n#include \"gemm_%s_head.cuh\"\n", family);
        trp__tree tree = *p->tree;
        if (is_swapped(row, p))
            trp__tree_transpose(&tree);
        trp_status status = trp__tree_render(&tree, target, p->align[4], out, error);
        if (status != TRP_OK)
            return status;
    }
    trp__text_add(out, "#include \"%s_%s.cuh\"\n", operation, family);
    return TRP_OK;
}

void trp__cutlass_row_architecture(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                   char out[16])
{
    snprintf(out, 16, "sm_%u%s", p->capability, trp__cutlass_row_3x(row) ? "a" : "");
}
