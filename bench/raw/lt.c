#include "lt.h"

#include "bench/measure/stats.h"

#include <stdio.h>
#include <string.h>

#define WORKSPACE ((size_t)32 << 20)

static bool check_driver(raw_lt *x, int result, const char *call)
{
    if (result == TRP__CU_SUCCESS)
        return true;
    trp_error error = {0};
    trp__cuda_error(&error, result, call);
    snprintf(x->error, 320, "%s", error.message);
    return false;
}

static bool check(raw_lt *x, int result, const char *call)
{
    if (__builtin_expect(result == TRP__CUBLAS_SUCCESS, 1))
        return true;
    snprintf(x->error, 320, "%s (%d): %s, in %s", x->lt->cublasLtGetStatusName(result), result,
             x->lt->cublasLtGetStatusString(result), call);
    return false;
}

static bool open_library(raw_lt *x)
{
    trp_error error = {0};
    if (x->handle)
        return true;
    if (trp__cublaslt_load(&x->lt, &error) != TRP_OK) {
        snprintf(x->error, 320, "%s", error.message);
        return false;
    }
    return check_driver(x, x->cu->cuMemAlloc_v2(&x->workspace, WORKSPACE), "cuMemAlloc") &&
           check(x, x->lt->cublasLtCreate(&x->handle), "cublasLtCreate");
}

static int data_type(trp_dtype type)
{
    return type == TRP_F8E4M3 ? TRP__CUBLASLT_R_8F_E4M3
           : type == TRP_BF16 ? TRP__CUBLASLT_R_16BF
                              : TRP__CUBLASLT_R_32F;
}

/* Fills memory with copies of the piece. */
static bool fill(raw_lt *x, trp__cu_address *out, uint64_t bytes, const void *piece,
                 size_t piece_bytes)
{
    uint64_t done = bytes < piece_bytes ? bytes : piece_bytes;
    bool good = check_driver(x, x->cu->cuMemAlloc_v2(out, (size_t)bytes), "cuMemAlloc") &&
                check_driver(x, trp__cuda_upload(x->cu, *out, piece, (size_t)done), "cuMemcpyHtoD");
    while (good && done < bytes) {
        uint64_t some = bytes - done < done ? bytes - done : done;
        good = check_driver(x, x->cu->cuMemcpyAsync(*out + done, *out, (size_t)some, x->stream),
                            "cuMemcpyAsync");
        done += some;
    }
    return good;
}

static bool describe(raw_lt *x, const raw_product *p)
{
    const trp__cublaslt *lt = x->lt;
    int32_t transposed = TRP__CUBLAS_OP_T;
    const struct {
        trp_dtype type;
        int64_t rows, columns;
    } layouts[] = {{p->type, p->k, p->m}, {p->type, p->k, p->n}, {p->type_d, p->m, p->n}};
    bool good = check(x,
                      lt->cublasLtMatmulDescCreate(&x->desc, TRP__CUBLASLT_COMPUTE_32F,
                                                   TRP__CUBLASLT_R_32F),
                      "cublasLtMatmulDescCreate") &&
                check(x,
                      lt->cublasLtMatmulDescSetAttribute(x->desc, TRP__CUBLASLT_MATMUL_DESC_TRANSA,
                                                         &transposed, sizeof transposed),
                      "cublasLtMatmulDescSetAttribute");
    for (int i = 0; good && i < 3; i++)
        good = check(x,
                     lt->cublasLtMatrixLayoutCreate(&x->layout[i], data_type(layouts[i].type),
                                                    (uint64_t)layouts[i].rows,
                                                    (uint64_t)layouts[i].columns, layouts[i].rows),
                     "cublasLtMatrixLayoutCreate");
    return good;
}

enum { PROPOSALS = 16 };

static bool launch(raw_lt *x, uint64_t count);

static bool launch_and_wait(void *context, uint64_t count)
{
    raw_lt *x = context;
    return launch(x, count) && x->cu->cuStreamSynchronize(x->stream) == TRP__CU_SUCCESS;
}

static void take_fastest(raw_lt *x, const trp__cublaslt_result *result, int count)
{
    int best = 0;
    double least = -1;
    for (int i = 0; i < count; i++) {
        x->algo = result[i].algo;
        double ns = stats_least((stats_side){launch_and_wait, x});
        if (ns >= 0 && (least < 0 || ns < least)) {
            least = ns;
            best = i;
        }
    }
    x->error[0] = '\0';
    x->algo = result[best].algo;
}

static bool choose(raw_lt *x)
{
    const trp__cublaslt *lt = x->lt;
    trp__cublaslt_preference preference = NULL;
    trp__cublaslt_result result[PROPOSALS];
    uint64_t workspace = WORKSPACE;
    int found = 0;
    bool good =
        check(x, lt->cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    good = good && check(x,
                         lt->cublasLtMatmulPreferenceSetAttribute(
                             preference, TRP__CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                             sizeof workspace),
                         "cublasLtMatmulPreferenceSetAttribute");
    good = good &&
           check(x,
                 lt->cublasLtMatmulAlgoGetHeuristic(
                     x->handle, x->desc, x->layout[0], x->layout[1], x->layout[2], x->layout[2],
                     preference, x->product.best ? PROPOSALS : 1, result, &found),
                 "cublasLtMatmulAlgoGetHeuristic");
    if (preference)
        lt->cublasLtMatmulPreferenceDestroy(preference);
    if (good && found == 0)
        snprintf(x->error, 320, "cuBLASLt has no algorithm for it");
    if (!good || found == 0)
        return false;
    x->algo = result[0].algo;
    if (x->product.best)
        take_fastest(x, result, found);
    return true;
}

/* Prepares the kernel after a product. Its vectors and the second matrix are filled like A and B;
 * factors are 0.5. */
static bool begin_fused(raw_lt *x, const void *piece, size_t piece_bytes)
{
    const raw_product *p = &x->product;
    if (!p->then)
        return true;
    return check_driver(x, x->cu->cuModuleLoadData(&x->module, p->then), "cuModuleLoadData") &&
           check_driver(x, x->cu->cuModuleGetFunction(&x->fused, x->module, RAW_FUSED),
                        "cuModuleGetFunction") &&
           fill(x, &x->second, x->d_bytes, piece, piece_bytes) &&
           fill(x, &x->bias, (uint64_t)p->m * trp_dtype_bits(p->type_d) / 8, piece, piece_bytes) &&
           check_driver(x, x->cu->cuMemAlloc_v2(&x->factors, (size_t)p->n * 4), "cuMemAlloc") &&
           check_driver(x, x->cu->cuMemsetD32Async(x->factors, 0x3f000000, (size_t)p->n, x->stream),
                        "cuMemsetD32Async") &&
           check_driver(x, x->cu->cuMemAlloc_v2(&x->out, x->d_bytes), "cuMemAlloc");
}

static bool launch_fused(raw_lt *x, trp__cu_address d)
{
    enum { THREADS = 256 };
    const raw_product *p = &x->product;
    unsigned vectors = (unsigned)((uint64_t)p->m * trp_dtype_bits(p->type_d) / 128);
    void *parameters[] = {&d, &x->second, &x->bias, &x->factors, &x->out, &vectors};
    return !x->fused ||
           check_driver(x,
                        x->cu->cuLaunchKernel(x->fused, (vectors + THREADS - 1) / THREADS,
                                              (unsigned)p->n, 1, THREADS, 1, 1, 0, x->stream,
                                              parameters, NULL),
                        "cuLaunchKernel");
}

bool raw_lt_begin(raw_lt *x, const raw_product *p, const void *piece, size_t piece_bytes)
{
    uint64_t in = trp_dtype_bits(p->type) / 8, out = trp_dtype_bits(p->type_d) / 8;
    uint64_t m = (uint64_t)p->m, n = (uint64_t)p->n, k = (uint64_t)p->k;
    x->product = *p;
    x->a_bytes = m * k * in;
    x->b_bytes = n * k * in;
    x->d_bytes = m * n * out;
    x->next = 0;
    return open_library(x) && fill(x, &x->a, x->a_bytes * p->copies, piece, piece_bytes) &&
           fill(x, &x->b, x->b_bytes * p->copies, piece, piece_bytes) &&
           check_driver(x, x->cu->cuMemAlloc_v2(&x->d, x->d_bytes * p->copies), "cuMemAlloc") &&
           describe(x, p) && choose(x) && begin_fused(x, piece, piece_bytes);
}

static bool launch(raw_lt *x, uint64_t count)
{
    const float alpha = 1, beta = 0;
    void *workspace = (void *)(uintptr_t)x->workspace;
    for (uint64_t i = 0; i < count;
         i++, x->next = x->next + 1 < x->product.copies ? x->next + 1 : 0) {
        const void *a = (const void *)(uintptr_t)(x->a + x->next * x->a_bytes);
        const void *b = (const void *)(uintptr_t)(x->b + x->next * x->b_bytes);
        void *d = (void *)(uintptr_t)(x->d + x->next * x->d_bytes);
        if (!check(x,
                   x->lt->cublasLtMatmul(x->handle, x->desc, &alpha, a, x->layout[0], b,
                                         x->layout[1], &beta, d, x->layout[2], d, x->layout[2],
                                         &x->algo, workspace, WORKSPACE, x->stream),
                   "cublasLtMatmul") ||
            !launch_fused(x, (uintptr_t)d))
            return false;
    }
    return true;
}

bool raw_lt_run(raw_lt *x, uint64_t count)
{
    return launch(x, count);
}

static void free_memory(raw_lt *x, trp__cu_address *address)
{
    if (*address)
        x->cu->cuMemFree_v2(*address);
    *address = 0;
}

void raw_lt_end(raw_lt *x)
{
    for (int i = 0; i < 3; i++) {
        if (x->layout[i])
            x->lt->cublasLtMatrixLayoutDestroy(x->layout[i]);
        x->layout[i] = NULL;
    }
    if (x->desc)
        x->lt->cublasLtMatmulDescDestroy(x->desc);
    x->desc = NULL;
    if (x->module)
        x->cu->cuModuleUnload(x->module);
    x->module = NULL;
    x->fused = NULL;
    trp__cu_address *const all[] = {&x->a,    &x->b,       &x->d,  &x->second,
                                    &x->bias, &x->factors, &x->out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free_memory(x, all[i]);
}

void raw_lt_close(raw_lt *x)
{
    raw_lt_end(x);
    if (x->handle)
        x->lt->cublasLtDestroy(x->handle);
    x->handle = NULL;
    free_memory(x, &x->workspace);
}
