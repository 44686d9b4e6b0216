#include "actors/fft/plan.h"

#include <stdio.h>

static trp__cufft_type type_of(const trp__fft_problem *p, bool real)
{
    return p->wide ? real ? TRP__CUFFT_R_64F : TRP__CUFFT_C_64F
           : real  ? TRP__CUFFT_R_32F
                   : TRP__CUFFT_C_32F;
}

static void copy_embed(const int64_t from[], int rank, long long to[])
{
    for (int i = 0; i < rank; i++)
        to[i] = from[i];
}

trp_status trp__fft_cuda_plan_make(const trp__cufft *fft, const trp__fft_problem *problem,
                                   trp__fft_cuda_plan *out, trp_error *error)
{
    long long n[TRP__FFT_AXES], x_embed[TRP__FFT_AXES], y_embed[TRP__FFT_AXES];
    const trp__cufft_type x = type_of(problem, problem->kind == TRP_FFT_R2C),
                          y = type_of(problem, problem->kind == TRP_FFT_C2R);
    *out = (trp__fft_cuda_plan){0};
    copy_embed(problem->n, problem->rank, n);
    copy_embed(problem->x.embed, problem->rank, x_embed);
    copy_embed(problem->y.embed, problem->rank, y_embed);
    trp_status status = trp__cufft_check(fft->cufftCreate(&out->handle), "cufftCreate", error);
    if (status != TRP_OK)
        return status;
    status = trp__cufft_check(fft->cufftSetAutoAllocation(out->handle, 0), "cufftSetAutoAllocation",
                              error);
    if (status == TRP_OK)
        status = trp__cufft_check(
            fft->cufftXtMakePlanMany(out->handle, problem->rank, n, x_embed, problem->x.stride,
                                     problem->x.distance, x, y_embed, problem->y.stride,
                                     problem->y.distance, y, problem->batch, &out->work_bytes,
                                     type_of(problem, false)),
            "cufftXtMakePlanMany", error);
    if (status != TRP_OK)
        fft->cufftDestroy(out->handle);
    return status;
}

trp_status trp__fft_cuda_plan_run(const trp__cufft *fft, const trp__fft_problem *problem,
                                  trp__fft_cuda_plan *plan, void *x, void *y, void *area,
                                  trp__cu_stream stream, trp_error *error)
{
    const bool inverse = problem->kind == TRP_FFT_C2R || problem->inverse;
    trp_status status = TRP_OK;
    if (plan->stream != stream)
        status =
            trp__cufft_check(fft->cufftSetStream(plan->handle, stream), "cufftSetStream", error);
    if (status != TRP_OK)
        return status;
    plan->stream = stream;
    if (plan->work_bytes > 0 && plan->area != area)
        status =
            trp__cufft_check(fft->cufftSetWorkArea(plan->handle, area), "cufftSetWorkArea", error);
    if (status != TRP_OK)
        return status;
    plan->area = area;
    return trp__cufft_check(
        fft->cufftXtExec(plan->handle, x, y, inverse ? TRP__CUFFT_INVERSE : TRP__CUFFT_FORWARD),
        "cufftXtExec", error);
}

void trp__fft_describe(const trp__fft_problem *p, char *out, size_t size)
{
    static const char *const kinds[] = {"c2c", "r2c", "c2r"};
    int used = snprintf(out, size, "%s of f%d%s%s, ", kinds[p->kind], p->wide ? 64 : 32,
                        p->inverse ? " inverse" : "", p->in_place ? " in place" : "");
    for (int i = 0; i < p->rank; i++)
        used +=
            snprintf(out + used, size - (size_t)used, "%s%lld", i ? "x" : "", (long long)p->n[i]);
    snprintf(out + used, size - (size_t)used, ", %lld batches", (long long)p->batch);
}
