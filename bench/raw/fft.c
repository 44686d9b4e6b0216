#include "fft.h"

#include <stdio.h>

static bool check_driver(raw_fft *f, int result, const char *call)
{
    trp_error error = {0};
    if (__builtin_expect(result == TRP__CU_SUCCESS, 1))
        return true;
    trp__cuda_error(&error, result, call);
    snprintf(f->error, 320, "%s", error.message);
    return false;
}

static bool check(raw_fft *f, int result, const char *call)
{
    trp_error error = {0};
    if (trp__cufft_check(result, call, &error) == TRP_OK)
        return true;
    snprintf(f->error, 320, "%s", error.message);
    return false;
}

trp_status raw_fft_open(raw_fft *f, char *text)
{
    trp_error error = {0};
    *f = (raw_fft){.error = text};
    trp_status status = trp__cuda_load(&f->cu, &error);
    if (status == TRP_OK)
        status = trp__cufft_load(&f->lib, &error);
    if (status != TRP_OK) {
        snprintf(text, 320, "%s", error.message);
        return status;
    }
    return check_driver(f, f->cu->cuStreamCreate(&f->stream, TRP__CU_STREAM_NON_BLOCKING),
                        "cuStreamCreate")
               ? TRP_OK
               : TRP_E_LIBRARY;
}

void raw_fft_close(raw_fft *f)
{
    if (f->stream)
        f->cu->cuStreamDestroy_v2(f->stream);
    f->stream = NULL;
}

static bool is_real(const raw_fft_problem *p, bool of_y)
{
    return p->kind == (of_y ? TRP_FFT_C2R : TRP_FFT_R2C);
}

static int64_t length(const raw_fft_problem *p, bool of_y, int axis)
{
    const bool half = p->kind != TRP_FFT_C2C && !is_real(p, of_y) && axis == p->rank - 1;
    return half ? p->n[axis] / 2 + 1 : p->n[axis];
}

/* Elements of one transform. */
static int64_t elements(const raw_fft_problem *p, bool of_y)
{
    int64_t count = 1;
    for (int i = 0; i < p->rank; i++)
        count *= length(p, of_y, i);
    return count;
}

uint64_t raw_fft_bytes(const raw_fft_problem *p, bool of_y)
{
    return (uint64_t)(elements(p, of_y) * p->batch) * (is_real(p, of_y) ? 4 : 8) *
           (p->wide ? 2 : 1);
}

static trp__cufft_type type_of(const raw_fft_problem *p, bool real)
{
    return p->wide ? real ? TRP__CUFFT_R_64F : TRP__CUFFT_C_64F
           : real  ? TRP__CUFFT_R_32F
                   : TRP__CUFFT_C_32F;
}

static bool make_plan(raw_fft *f)
{
    const raw_fft_problem *p = &f->what;
    long long n[3] = {0}, x[3] = {0}, y[3] = {0};
    size_t work = 0;
    for (int i = 0; i < p->rank; i++) {
        n[i] = p->n[i];
        x[i] = length(p, false, i);
        y[i] = length(p, true, i);
    }
    f->planned = check(f, f->lib->cufftCreate(&f->plan), "cufftCreate");
    return f->planned &&
           check(f, f->lib->cufftSetAutoAllocation(f->plan, 0), "cufftSetAutoAllocation") &&
           check(f,
                 f->lib->cufftXtMakePlanMany(f->plan, p->rank, n, x, 1, elements(p, false),
                                             type_of(p, is_real(p, false)), y, 1, elements(p, true),
                                             type_of(p, is_real(p, true)), p->batch, &work,
                                             type_of(p, false)),
                 "cufftXtMakePlanMany") &&
           check_driver(f, f->cu->cuMemAlloc_v2(&f->area, work ? work : 1), "cuMemAlloc") &&
           check(f, f->lib->cufftSetWorkArea(f->plan, (void *)(uintptr_t)f->area),
                 "cufftSetWorkArea") &&
           check(f, f->lib->cufftSetStream(f->plan, f->stream), "cufftSetStream");
}

bool raw_fft_begin(raw_fft *f, const raw_fft_problem *what, const void *piece, size_t bytes)
{
    const uint64_t all = raw_fft_bytes(what, false);
    uint64_t done = all < bytes ? all : bytes;
    f->what = *what;
    bool good =
        make_plan(f) && check_driver(f, f->cu->cuMemAlloc_v2(&f->x, all), "cuMemAlloc") &&
        check_driver(f, f->cu->cuMemAlloc_v2(&f->y, raw_fft_bytes(what, true)), "cuMemAlloc") &&
        check_driver(f, trp__cuda_upload(f->cu, f->x, piece, done), "cuMemcpyHtoD");
    while (good && done < all) {
        const uint64_t some = all - done < done ? all - done : done;
        good = check_driver(f, f->cu->cuMemcpyAsync(f->x + done, f->x, some, f->stream),
                            "cuMemcpyAsync");
        done += some;
    }
    return good && check_driver(f, f->cu->cuStreamSynchronize(f->stream), "cuStreamSynchronize");
}

static bool execute(raw_fft *f)
{
    return check(
        f,
        f->lib->cufftXtExec(f->plan, (void *)(uintptr_t)f->x, (void *)(uintptr_t)f->y,
                            f->what.kind == TRP_FFT_C2R ? TRP__CUFFT_INVERSE : TRP__CUFFT_FORWARD),
        "cufftXtExec");
}

static bool wait(raw_fft *f)
{
    return check_driver(f, f->cu->cuStreamSynchronize(f->stream), "cuStreamSynchronize");
}

bool raw_fft_run(raw_fft *f, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (!execute(f))
            return false;
    }
    return wait(f);
}

bool raw_fft_run_each(raw_fft *f, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (!execute(f) || !wait(f))
            return false;
    }
    return true;
}

bool raw_fft_result(raw_fft *f, void *y, size_t bytes)
{
    return check_driver(f, f->cu->cuMemcpyDtoH_v2(y, f->y, bytes), "cuMemcpyDtoH");
}

void raw_fft_end(raw_fft *f)
{
    if (f->planned)
        f->lib->cufftDestroy(f->plan);
    f->planned = false;
    trp__cu_address *const all[] = {&f->x, &f->y, &f->area};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (*all[i])
            f->cu->cuMemFree_v2(*all[i]);
        *all[i] = 0;
    }
}
