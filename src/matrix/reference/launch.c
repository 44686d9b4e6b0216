#include "matrix/reference/launch.h"

#include "base/error.h"
#include "matrix/plan.h"

#include <troupe/matmul.h>

#include <string.h>

static bool has_known_factors(uint8_t mode)
{
    return mode != TRP_SCALE_BLOCK_16 && mode != TRP_SCALE_BLOCK_32;
}

bool trp__product_takes(const trp__matmul *g)
{
    return has_known_factors(g->scale_a) && has_known_factors(g->scale_b) &&
           !trp__matmul_has(g, TRP__MATMUL_OUT_SCALE) && g->activation <= TRP_ACTIVATION_DGELU &&
           g->activation != TRP_ACTIVATION_SILU;
}

int64_t trp__product_elements(const trp__matmul *g, uint32_t what)
{
    const bool bits = what == TRP__MATMUL_AUX && g->type[TRP__MATMUL_AUX] == TRP_DTYPE_NONE;
    const int64_t lines = bits ? (g->m + 7) / 8
                          : what == TRP__MATMUL_VECTOR && g->gradient == TRP_BIAS_GRADIENT_B ? g->n
                                                                                             : g->m;
    return lines * (what == TRP__MATMUL_VECTOR ? 1 : g->n) * g->batch;
}

trp_status trp__product_launch_one(const trp__cuda *cu, trp__cu_function function,
                                   const trp__product_launch *launch, trp__cu_stream stream,
                                   trp_error *error)
{
    const int64_t most = 1 << 20;
    trp__product_launch parameter = *launch;
    void *parameters[] = {&parameter};
    const trp__cu_result result =
        cu->cuLaunchKernel(function, (unsigned)(launch->count < most ? launch->count : most), 1, 1,
                           TRP__PRODUCT_THREADS, 1, 1, 0, stream, parameters, NULL);
    return result == TRP__CU_SUCCESS ? TRP_OK : trp__cuda_error(error, result, "cuLaunchKernel");
}

static trp_status clear_largest(const trp__cuda *cu, void *at, trp__cu_stream stream,
                                trp_error *error)
{
    const trp__cu_result result =
        at ? cu->cuMemsetD32Async((uintptr_t)at, 0, 1, stream) : TRP__CU_SUCCESS;
    return result == TRP__CU_SUCCESS ? TRP_OK : trp__cuda_error(error, result, "cuMemsetD32Async");
}

/* D is last, since it may be C, which the other steps read. */
trp_status trp__product_launch_all(const trp__cuda *cu, trp__cu_function function,
                                   const trp__matmul *problem, void *const at[],
                                   trp__cu_stream stream, trp_error *error)
{
    const bool gradient = problem->gradient != TRP_BIAS_GRADIENT_NONE;
    const struct {
        uint32_t what;
        bool wanted;
    } steps[] = {{TRP__MATMUL_VECTOR, trp__matmul_has(problem, TRP__MATMUL_VECTOR) && gradient},
                 {TRP__MATMUL_AUX,
                  trp__matmul_has(problem, TRP__MATMUL_AUX) && !trp__matmul_is_derivative(problem)},
                 {TRP__MATMUL_D, true}};
    trp__product_launch launch = {.g = *problem};
    memcpy(launch.at, at, sizeof launch.at);
    trp_status status = clear_largest(cu, at[TRP__MATMUL_AMAX_D], stream, error);
    if (status == TRP_OK)
        status = clear_largest(cu, at[TRP__MATMUL_AMAX_AUX], stream, error);
    for (size_t i = 0; i < sizeof steps / sizeof *steps && status == TRP_OK; i++) {
        launch.what = steps[i].what;
        launch.count = trp__product_elements(problem, launch.what);
        if (steps[i].wanted && launch.count > 0)
            status = trp__product_launch_one(cu, function, &launch, stream, error);
    }
    return status;
}
