/* A row and a problem as the source of a kernel: the settings of a template, and the tree. */
#include "actors/cutlass/catalogue.h"
#include "actors/cutlass/catalogue_parts.h"
#include "actors/cutlass/tree_render.h"

#include <stdio.h>

static void add_triple(trp__text *out, const char *name, const uint16_t x[3])
{
    trp__text_add(out, "#define %s %u, %u, %u\n", name, x[0], x[1], x[2]);
}

static void add_sm80(const trp__cutlass_row *row, const trp__cutlass_problem *p, trp__text *out)
{
    bool fp8 = row->inputs == TRP__CUTLASS_FP8;
    trp__text_add(out,
                  "#define TRP_CLASS %s\n"
                  "#define TRP_ARCH %s\n"
                  "#define TRP_STAGES %u\n"
                  "#define TRP_STREAM_K %d\n"
                  "#define TRP_A_ALIGN %u\n"
                  "#define TRP_D_ALIGN %u\n",
                  trp__cutlass_row_simt(row) ? "OpClassSimt" : "OpClassTensorOp",
                  fp8 ? "Sm89" : "Sm80", row->stages, row->stream_k, row->align,
                  trp__cutlass_row_line_elements(row, p->d));
    add_triple(out, "TRP_WARP", row->warp);
    add_triple(out, "TRP_INSTRUCTION", row->instruction);
}

static void add_sm90(const trp__cutlass_row *row, const trp__cutlass_problem *p, trp__text *out)
{
    bool fp8 = row->inputs == TRP__CUTLASS_FP8;
    trp__text_add(out,
                  "#define TRP_C %s\n"
                  "#define TRP_CLUSTER %u, %u\n"
                  "#define TRP_STAGES %u\n"
                  "#define TRP_PINGPONG %d\n"
                  "#define TRP_FP8 %d\n"
                  "#define TRP_FAST_FP8 %d\n"
                  "#define TRP_SCHEDULER %d\n",
                  trp__tree_element(p->c), row->cluster[0], row->cluster[1], row->stages,
                  row->pingpong, fp8, fp8 && row->by_name, row->stream_k);
}

trp_status trp__cutlass_row_render(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                   trp__text *out, trp_error *error)
{
    bool sm90 = row->family == TRP__CUTLASS_SM90;
    const char *template = sm90 ? "gemm_sm90" : "gemm_sm80";
    trp__text_add(out,
                  "/* %s */\n"
                  "#define TRP_A %s\n"
                  "#define TRP_B %s\n"
                  "#define TRP_D %s\n"
                  "#define TRP_ACC %s\n"
                  "#define TRP_SCALAR %s\n"
                  "#define TRP_A_ROW %d\n"
                  "#define TRP_B_ROW %d\n",
                  row->name, trp__tree_element(p->a), trp__tree_element(p->b),
                  trp__tree_element(p->d), trp__tree_element(p->accumulator),
                  trp__tree_element(p->tree ? p->tree->compute : p->accumulator), p->a_row,
                  p->b_row);
    add_triple(out, "TRP_TILE", row->tile);
    if (sm90)
        add_sm90(row, p, out);
    else
        add_sm80(row, p, out);
    if (p->tree) {
        trp__text_add(out, "#define TRP_TREE 1\n#include \"%s_head.cuh\"\n", template);
        trp_status status = trp__tree_render(p->tree, sm90 ? TRP__TREE_SM90 : TRP__TREE_SM80,
                                             p->align[4], out, error);
        if (status != TRP_OK)
            return status;
    }
    trp__text_add(out, "#include \"%s.cuh\"\n", template);
    return TRP_OK;
}

void trp__cutlass_row_architecture(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                   char out[16])
{
    if (row->family == TRP__CUTLASS_SM90)
        snprintf(out, 16, "sm_90a");
    else
        snprintf(out, 16, "sm_%u", p->capability);
}
