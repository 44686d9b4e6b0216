/* All backends. */
#include "backend/cuda/cuda_backend.h"
#include "backend/host/host_backend.h"

const trp__backend *const trp__backends[] = {
    [TRP_BACKEND_BEST] = NULL, /* resolved by the application before a worker starts */
    [TRP_BACKEND_CUDA] = &trp__cuda_backend,
    [TRP_BACKEND_HOST] = &trp__host_backend,
};
