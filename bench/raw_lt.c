#include "raw_lt.h"

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

/* The piece, again and again. */
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

static bool choose(raw_lt *x)
{
    const trp__cublaslt *lt = x->lt;
    trp__cublaslt_preference preference = NULL;
    trp__cublaslt_result result;
    uint64_t workspace = WORKSPACE;
    int found = 0;
    bool good =
        check(x, lt->cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    good = good && check(x,
                         lt->cublasLtMatmulPreferenceSetAttribute(
                             preference, TRP__CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                             sizeof workspace),
                         "cublasLtMatmulPreferenceSetAttribute");
    good = good && check(x,
                         lt->cublasLtMatmulAlgoGetHeuristic(
                             x->handle, x->desc, x->layout[0], x->layout[1], x->layout[2],
                             x->layout[2], preference, 1, &result, &found),
                         "cublasLtMatmulAlgoGetHeuristic");
    if (preference)
        lt->cublasLtMatmulPreferenceDestroy(preference);
    if (good && found == 0)
        snprintf(x->error, 320, "cuBLASLt has no algorithm for it");
    x->algo = result.algo;
    return good && found > 0;
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
           describe(x, p) && choose(x);
}

bool raw_lt_run(raw_lt *x, uint64_t count)
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
                   "cublasLtMatmul"))
            return false;
    }
    return true;
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
    free_memory(x, &x->a);
    free_memory(x, &x->b);
    free_memory(x, &x->d);
}

void raw_lt_close(raw_lt *x)
{
    raw_lt_end(x);
    if (x->handle)
        x->lt->cublasLtDestroy(x->handle);
    x->handle = NULL;
    free_memory(x, &x->workspace);
}
