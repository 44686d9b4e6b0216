#include "actors/cutlass/fallback/cublaslt.h"

#include "actors/matmul/matmul.h"
#include "libs/cublaslt/cublaslt.h"

#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

bool trp__by_cublaslt_multiplies(const uint8_t type[TRP__GEMM_MATRICES], trp_scalar alpha)
{
    uint8_t a = type[TRP__GEMM_A], c = type[TRP__GEMM_C], d = type[TRP__GEMM_D];
    bool half = a == TRP_F16 || a == TRP_BF16;
    return (half || a == TRP_F32 || a == TRP_F64) && type[TRP__GEMM_B] == a &&
           (d == a || (half && d == TRP_F32)) && (c == d || c == TRP_DTYPE_NONE) &&
           (!alpha.given || alpha.re != 0);
}

static bool takes(const void *problem)
{
    const trp__cutlass_product *x = problem;
    const trp__cutlass_gemm *g = x->g;
    bool factors =
        g->group > 0 || g->scale[0] != TRP_SCALE_TENSOR || g->scale[1] != TRP_SCALE_TENSOR;
    return x->request->epilogue_count == 0 && !factors && g->batch <= INT_MAX &&
           trp__by_cublaslt_multiplies(g->type, x->request->alpha);
}

static atomic_bool found;

const trp__run_library trp__by_cublaslt = {
    .name = "cublaslt", .takes = takes, .find = trp__cublaslt_find, .found = &found};

_Static_assert(sizeof(trp_cutlass_ran) == sizeof(trp_matmul_ran) &&
                   offsetof(trp_cutlass_ran, proven) == offsetof(trp_matmul_ran, proven) &&
                   offsetof(trp_cutlass_ran, workspace_bytes) ==
                       offsetof(trp_matmul_ran, workspace_bytes),
               "both report the same");

trp_status trp__by_cublaslt_encode(trp__encoder *encoder, const trp_cutlass_gemm_request *request,
                                   bool reads_c)
{
    static const trp_matmul_matrix none;
    const trp_matmul_request r = {.header = request->header,
                                  .m = request->m,
                                  .n = request->n,
                                  .k = request->k,
                                  .batch = request->batch,
                                  .compute = request->compute,
                                  .a = request->a,
                                  .b = request->b,
                                  .c = reads_c ? request->c : none,
                                  .d = request->d,
                                  .alpha = request->alpha,
                                  .beta = request->beta,
                                  .ran = (trp_matmul_ran *)(void *)request->ran};
    trp__by_cublaslt_run x = {.run = {.args_bytes = TRP__RUN_BY_CUBLASLT}};
    trp_status status = trp__matmul_encode(encoder, &r.header);
    memcpy(&x.problem, encoder->record->payload, sizeof x.problem);
    memcpy(encoder->record->payload, &x, sizeof x);
    return status;
}
