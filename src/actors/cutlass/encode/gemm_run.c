#include "actors/cutlass/encode/gemm_run.h"

#include "actors/cutlass/fallback/cublaslt.h"
#include "actors/cutlass/plan/run.h"

#include <stddef.h>

static uint32_t alignment_of(const trp__operand *o, int64_t batch)
{
    const int64_t distances[] = {o->ld, batch > 1 ? o->stride : 0};
    return trp__run_alignment(o, distances, 2);
}

void trp__cutlass_set_types(trp__cutlass_problem *p, const trp__cutlass_gemm *g)
{
    bool turned = g->order[TRP__GEMM_D] == TRP_COL_MAJOR;
    int a = turned ? TRP__GEMM_B : TRP__GEMM_A, b = turned ? TRP__GEMM_A : TRP__GEMM_B;
    p->operation = TRP__CUTLASS_GEMM;
    p->m = turned ? g->n : g->m;
    p->n = turned ? g->m : g->n;
    p->k = g->k;
    p->batch = g->batch;
    p->a = g->type[a];
    p->b = g->type[b];
    p->c = g->type[TRP__GEMM_C];
    p->d = g->type[TRP__GEMM_D];
    p->accumulator = g->type[TRP__GEMM_A] == TRP_F64  ? TRP_F64
                     : g->type[TRP__GEMM_A] == TRP_I8 ? TRP_I32
                                                      : TRP_F32;
    p->a_row = (g->order[a] == TRP_ROW_MAJOR) != turned;
    p->b_row = (g->order[b] == TRP_ROW_MAJOR) != turned;
    p->compute = g->compute;
    p->scale_a = g->scale[a];
    p->scale_b = g->scale[b];
    p->group = g->group;
}

static uint32_t alignment_of_scales(const trp__cutlass_product *x)
{
    uint32_t least = 16;
    for (int i = TRP__GEMM_SCALE_A; i <= TRP__GEMM_ZERO_B; i++) {
        uint32_t one = trp__run_alignment(&x->matrix[i], &x->matrix[i].stride, 1);
        least = one < least ? one : least;
    }
    return least;
}

/* A column-major D is the row-major D' = B' A'. */
static void set_problem(trp__cutlass_running *w, const trp__cutlass_product *x)
{
    const trp__cutlass_gemm *g = x->g;
    bool turned = g->order[TRP__GEMM_D] == TRP_COL_MAJOR;
    int a = turned ? TRP__GEMM_B : TRP__GEMM_A, b = turned ? TRP__GEMM_A : TRP__GEMM_B;
    bool reads_c = g->type[TRP__GEMM_C] != TRP_DTYPE_NONE;
    int c = x->in_place ? TRP__GEMM_D : TRP__GEMM_C;
    w->problem = (trp__cutlass_problem){
        .fast = x->request->fast_accumulation,
        .zeros = x->matrix[TRP__GEMM_ZERO_B].mode != 0,
        .align = {alignment_of(&x->matrix[a], g->batch), alignment_of(&x->matrix[b], g->batch),
                  reads_c ? alignment_of(&x->matrix[c], g->batch) : 16,
                  alignment_of(&x->matrix[TRP__GEMM_D], g->batch),
                  trp__run_alignment_of_tree(w, g->batch)},
        .align_scales = alignment_of_scales(x),
        .tree = x->tree->count ? x->tree : NULL,
        .capability = w->encoder->compute,
        .processors = w->encoder->processors,
        .shared_bytes = trp__run_shared_bytes(w->encoder->compute),
    };
    trp__cutlass_set_types(&w->problem, g);
    w->args = (trp_cutlass_args){
        .lda = g->ld[a],
        .ldb = g->ld[b],
        .ldc = g->ld[TRP__GEMM_C],
        .ldd = g->ld[TRP__GEMM_D],
        .batch_a = g->stride[a],
        .batch_b = g->stride[b],
        .batch_c = g->stride[TRP__GEMM_C],
        .batch_d = g->stride[TRP__GEMM_D],
        .m = (int32_t)w->problem.m,
        .n = (int32_t)w->problem.n,
        .k = (int32_t)g->k,
        .l = (int32_t)g->batch,
        .group = (int32_t)(g->group < INT32_MAX ? g->group : INT32_MAX),
        .batch_scale_a = g->scale_stride[a],
        .batch_scale_b = g->scale_stride[g->group ? TRP__GEMM_B : b],
        .alpha = g->alpha,
        .beta = g->beta,
    };
}

static trp_status add_scales(trp__cutlass_running *w, const trp__cutlass_product *x, bool turned)
{
    const size_t a = offsetof(trp_cutlass_args, scale_a), b = offsetof(trp_cutlass_args, scale_b);
    const size_t at[] = {turned ? b : a, x->g->group || !turned ? b : a,
                         offsetof(trp_cutlass_args, zero_b)};
    trp_status status = TRP_OK;
    for (int i = TRP__GEMM_SCALE_A; i <= TRP__GEMM_ZERO_B && status == TRP_OK; i++) {
        if (x->matrix[i].mode)
            status = trp__run_add_operand(w, &x->matrix[i], at[i - TRP__GEMM_SCALE_A]);
    }
    return status;
}

static trp_status add_matrices(trp__cutlass_running *w, const trp__cutlass_product *x)
{
    bool turned = x->g->order[TRP__GEMM_D] == TRP_COL_MAJOR;
    const trp__operand *matrix = x->matrix;
    trp_status status = trp__run_add_operand(w, &matrix[turned ? TRP__GEMM_B : TRP__GEMM_A],
                                             offsetof(trp_cutlass_args, a));
    if (status == TRP_OK)
        status = trp__run_add_operand(w, &matrix[turned ? TRP__GEMM_A : TRP__GEMM_B],
                                      offsetof(trp_cutlass_args, b));
    if (status == TRP_OK)
        status = add_scales(w, x, turned);
    if (status == TRP_OK && matrix[TRP__GEMM_C].mode)
        status = trp__run_add_operand(w, &matrix[TRP__GEMM_C], offsetof(trp_cutlass_args, c));
    if (status == TRP_OK)
        status = trp__run_add_operand(w, &matrix[TRP__GEMM_D], offsetof(trp_cutlass_args, d));
    if (!matrix[TRP__GEMM_C].mode) /* in D's place, or what is not read */
        trp__run_note_address(w, offsetof(trp_cutlass_args, c),
                              w->encoder->record->access_count - 1);
    return status;
}

trp_status trp__cutlass_encode_product(trp__encoder *encoder, const trp__cutlass_product *x)
{
    trp__cutlass_running w = {.encoder = encoder,
                              .tree = x->tree,
                              .operands = x->operands,
                              .kernel = x->request->kernel,
                              .first = x->request->first,
                              .tune = x->request->tune,
                              .library = &trp__by_cublaslt,
                              .asked = x,
                              .in_place = x->in_place,
                              .chosen = x->request->chosen,
                              .ran = x->request->ran};
    trp_status status = trp__run_check_offsets(&w, x->matrix, TRP__GEMM_OPERANDS);
    if (status != TRP_OK)
        return status;
    set_problem(&w, x);
    status = trp__run_add_kernel(&w);
    if (status == TRP_OK && w.by_library)
        return trp__by_cublaslt_encode(encoder, x->request,
                                       x->g->type[TRP__GEMM_C] != TRP_DTYPE_NONE);
    if (status == TRP_OK)
        status = add_matrices(&w, x);
    if (status == TRP_OK)
        status = trp__run_add_slots(&w);
    return status == TRP_OK ? trp__run_write(&w) : status;
}
