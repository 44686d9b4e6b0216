/* Refers to every function of the driver's table, so that a row without a fake does not link. */
#include "support/fake_cuda/fake.h"

__attribute__((used)) static const trp__cuda all = {
#define ROW(result, name, parameters) .name = name,
    TRP__CUDA_FUNCTIONS(ROW) TRP__CUDA_OPTIONAL_FUNCTIONS(ROW)
#undef ROW
};
