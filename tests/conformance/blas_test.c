/* The blas actor in the conformance suite. */
#include "conformance/blas_levels.h"

TROUPE_TEST("long", "no tsan");
TROUPE_TEST_FAKE_GPU("no sanitizer");
/* this device emulates f32 */
TROUPE_TEST_FAKE_GPU("as fake-blackwell", "FAKE_CUDA_ATTRIBUTE=75=10", "TROUPE_TEST_OPERATION=gemm",
                     "cases numbers", "no sanitizer");

int main(int argc, char **argv)
{
    static cf_operation operations[80];
    cf_actor blas = {.kind = "blas", .operations = operations};
    blas.count = cf_blas_levels(operations, sizeof operations / sizeof *operations - CF_GEMM_LISTS);
    cf_gemm_lists(&operations[blas.count], &operations[0]);
    blas.count += CF_GEMM_LISTS;
    return cf_main(argc, argv, &blas);
}
