#include "matrix/proving.h"

#include <troupe/types.h>

#include <math.h>

double trp__proving_unit(uint8_t type)
{
    return type == TRP_F16      ? 1.1e-3
           : type == TRP_BF16   ? 8.8e-3
           : type == TRP_F8E4M3 ? 0.14
           : type == TRP_F8E5M2 ? 0.28
                                : 0;
}

/* Tensor cores truncate what they add to a sum of f32, and much more with fp8. Errors that must be
 * found: an algorithm that rounds f32 to tf32 has up to 8e-4, one that adds parts rounded to f16
 * has 2e-3 and more. */
double trp__proving_of_sums(uint8_t type, int64_t k, bool rounded)
{
    const double root = sqrt((double)k);
    if (type == TRP_F64 || type == TRP_C128)
        return 1e-10;
    if (type == TRP_F8E4M3 || type == TRP_F8E5M2)
        return 2e-2 + 1e-4 * root;
    if (type == TRP_F16 || type == TRP_BF16)
        return 3e-4 + 2e-6 * root;
    return rounded ? 5e-3 : 5e-5 + 3e-7 * root;
}

trp_status trp__proving_copy(const trp__cuda *cu, const trp__proving_lines *x, trp__cu_address from,
                             trp__cu_address to, trp__cu_stream stream, trp_error *error)
{
    const size_t pitch = (size_t)x->ld * x->width;
    trp__cu_result result = TRP__CU_SUCCESS;
    for (int64_t l = 0; l < x->batch && result == TRP__CU_SUCCESS; l++) {
        const uint64_t skipped = (uint64_t)(l * x->stride) * x->width;
        const trp__cu_memcpy_2d copy = {.srcMemoryType = TRP__CU_MEMORYTYPE_UNIFIED,
                                        .srcDevice = from + skipped,
                                        .srcPitch = pitch,
                                        .dstMemoryType = TRP__CU_MEMORYTYPE_UNIFIED,
                                        .dstDevice = to + skipped,
                                        .dstPitch = pitch,
                                        .WidthInBytes = (size_t)x->length * x->width,
                                        .Height = (size_t)x->count};
        result = cu->cuMemcpy2DAsync_v2(&copy, stream);
    }
    return result == TRP__CU_SUCCESS ? TRP_OK : trp__cuda_error(error, result, "cuMemcpy2DAsync");
}
