/* Our declarations of NVIDIA's interfaces against NVIDIA's own headers. Everything is checked by
 * the compiler; the program has nothing left to do. Built only where cuda.h is found; the part on
 * cuBLAS only where its header is there too. */
#include "driver/cuda.h"
#include "libs/cublas/cublas_lapack.h"
#include "libs/cublas/cublas_levels.h"
#include "libs/cublaslt/cublaslt_abi.h"
#include "libs/cudnn/cudnn_abi.h"
#include "libs/cufft/cufft_abi.h"
#include "libs/nvjitlink/nvjitlink_abi.h"
#include "libs/nvrtc/nvrtc_abi.h"
#include "support/label.h"
#include "worker/nvtx_abi.h"

#include <stdio.h>

#include <cuda.h>

TROUPE_TEST("cuda headers", "no tsan");

#define SAME(ours, theirs)                                                                         \
    _Static_assert((long long)(ours) == (long long)(theirs), #ours " is " #theirs)

/* Constants. */

#define RESULT(name) SAME(TRP__CU_##name, CUDA_ERROR_##name)
SAME(TRP__CU_SUCCESS, CUDA_SUCCESS);
RESULT(INVALID_VALUE);
RESULT(OUT_OF_MEMORY);
RESULT(NO_DEVICE);
RESULT(INVALID_DEVICE);
RESULT(NOT_FOUND);
RESULT(NOT_READY);
RESULT(ILLEGAL_ADDRESS);
RESULT(NOT_SUPPORTED);

#define ATTRIBUTE(name) SAME(TRP__CU_ATTRIBUTE_##name, CU_DEVICE_ATTRIBUTE_##name)
ATTRIBUTE(MULTIPROCESSOR_COUNT);
ATTRIBUTE(L2_CACHE_SIZE);
ATTRIBUTE(UNIFIED_ADDRESSING);
ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR);
ATTRIBUTE(COMPUTE_CAPABILITY_MINOR);
ATTRIBUTE(HOST_REGISTER_SUPPORTED);
ATTRIBUTE(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
ATTRIBUTE(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
#if CUDA_VERSION >= 12000 /* 11.7 gave the number to the same attribute under another name */
ATTRIBUTE(CAN_USE_64_BIT_STREAM_MEM_OPS);
#endif

#define CONSTANT(name) SAME(TRP__##name, name)
CONSTANT(CU_LIMIT_STACK_SIZE);
CONSTANT(CU_MEM_ALLOCATION_TYPE_PINNED);
CONSTANT(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
CONSTANT(CU_MEM_LOCATION_TYPE_DEVICE);
CONSTANT(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
CONSTANT(CU_MEM_ACCESS_FLAGS_PROT_READ);
CONSTANT(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
CONSTANT(CU_STREAM_NON_BLOCKING);
CONSTANT(CU_STREAM_CAPTURE_MODE_RELAXED);
CONSTANT(CU_STREAM_WAIT_VALUE_GEQ);
CONSTANT(CU_STREAM_WRITE_VALUE_DEFAULT);
CONSTANT(CU_EVENT_BLOCKING_SYNC);
CONSTANT(CU_EVENT_DEFAULT);
CONSTANT(CU_EVENT_DISABLE_TIMING);
CONSTANT(CU_MEMHOSTALLOC_PORTABLE);
CONSTANT(CU_MEMHOSTALLOC_DEVICEMAP);
CONSTANT(CU_MEMHOSTREGISTER_PORTABLE);
CONSTANT(CU_MEMHOSTREGISTER_DEVICEMAP);

/* Types. */

SAME(sizeof(trp__cu_result), sizeof(CUresult));
SAME(sizeof(trp__cu_attribute), sizeof(CUdevice_attribute));
SAME(sizeof(trp__cu_handle_type), sizeof(CUmemAllocationHandleType));
SAME(sizeof(trp__cu_granularity), sizeof(CUmemAllocationGranularity_flags));
SAME(sizeof(trp__cu_device), sizeof(CUdevice));
SAME(sizeof(trp__cu_address), sizeof(CUdeviceptr));
SAME(sizeof(trp__cu_memory), sizeof(CUmemGenericAllocationHandle));
SAME(sizeof(trp__cu_stream), sizeof(CUstream));

#define SIZE(ours, theirs)                                                                         \
    SAME(sizeof(ours), sizeof(theirs));                                                            \
    SAME(_Alignof(ours), _Alignof(theirs))
#define FIELD(ours, theirs, field)                                                                 \
    SAME(offsetof(ours, field), offsetof(theirs, field));                                          \
    SAME(sizeof(((ours *)0)->field), sizeof(((theirs *)0)->field))

SIZE(trp__cu_uuid, CUuuid);
SIZE(trp__cu_location, CUmemLocation);
FIELD(trp__cu_location, CUmemLocation, type);
FIELD(trp__cu_location, CUmemLocation, id);

SIZE(trp__cu_allocation_prop, CUmemAllocationProp);
FIELD(trp__cu_allocation_prop, CUmemAllocationProp, type);
FIELD(trp__cu_allocation_prop, CUmemAllocationProp, requestedHandleTypes);
FIELD(trp__cu_allocation_prop, CUmemAllocationProp, location);
FIELD(trp__cu_allocation_prop, CUmemAllocationProp, win32HandleMetaData);
FIELD(trp__cu_allocation_prop, CUmemAllocationProp, allocFlags);
FIELD(trp__cu_allocation_prop, CUmemAllocationProp, allocFlags.compressionType);
FIELD(trp__cu_allocation_prop, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
FIELD(trp__cu_allocation_prop, CUmemAllocationProp, allocFlags.usage);
FIELD(trp__cu_allocation_prop, CUmemAllocationProp, allocFlags.reserved);

SIZE(trp__cu_access_desc, CUmemAccessDesc);
FIELD(trp__cu_access_desc, CUmemAccessDesc, location);
FIELD(trp__cu_access_desc, CUmemAccessDesc, flags);

#if CUDA_VERSION >= 12040
CONSTANT(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
CONSTANT(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
CONSTANT(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
CONSTANT(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
CONSTANT(CU_FUNC_ATTRIBUTE_NUM_REGS);
CONSTANT(CU_FUNC_ATTRIBUTE_PTX_VERSION);
CONSTANT(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
CONSTANT(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
CONSTANT(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
CONSTANT(CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
CONSTANT(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
CONSTANT(CU_JIT_ERROR_LOG_BUFFER);
CONSTANT(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);

SAME(sizeof(trp__cu_tensor_map), sizeof(CUtensorMap));
_Static_assert(_Alignof(trp__cu_tensor_map) >= _Alignof(CUtensorMap), "alignment of a tensor map");
SIZE(trp__cu_launch_attribute, CUlaunchAttribute);
FIELD(trp__cu_launch_attribute, CUlaunchAttribute, id);
FIELD(trp__cu_launch_attribute, CUlaunchAttribute, value);
FIELD(trp__cu_launch_attribute, CUlaunchAttribute, value.cooperative);
SAME(offsetof(trp__cu_launch_attribute, value.cluster),
     offsetof(CUlaunchAttribute, value.clusterDim));
SAME(TRP__CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED);
SIZE(trp__cu_memcpy_2d, CUDA_MEMCPY2D);
FIELD(trp__cu_memcpy_2d, CUDA_MEMCPY2D, srcY);
FIELD(trp__cu_memcpy_2d, CUDA_MEMCPY2D, srcMemoryType);
FIELD(trp__cu_memcpy_2d, CUDA_MEMCPY2D, srcDevice);
FIELD(trp__cu_memcpy_2d, CUDA_MEMCPY2D, srcPitch);
FIELD(trp__cu_memcpy_2d, CUDA_MEMCPY2D, dstMemoryType);
FIELD(trp__cu_memcpy_2d, CUDA_MEMCPY2D, dstDevice);
FIELD(trp__cu_memcpy_2d, CUDA_MEMCPY2D, dstPitch);
FIELD(trp__cu_memcpy_2d, CUDA_MEMCPY2D, WidthInBytes);
FIELD(trp__cu_memcpy_2d, CUDA_MEMCPY2D, Height);
SIZE(trp__cu_launch_config, CUlaunchConfig);
FIELD(trp__cu_launch_config, CUlaunchConfig, gridDimX);
FIELD(trp__cu_launch_config, CUlaunchConfig, gridDimZ);
FIELD(trp__cu_launch_config, CUlaunchConfig, blockDimX);
FIELD(trp__cu_launch_config, CUlaunchConfig, blockDimZ);
FIELD(trp__cu_launch_config, CUlaunchConfig, sharedMemBytes);
FIELD(trp__cu_launch_config, CUlaunchConfig, hStream);
FIELD(trp__cu_launch_config, CUlaunchConfig, attrs);
FIELD(trp__cu_launch_config, CUlaunchConfig, numAttrs);
#endif

/* Functions: with NVIDIA's types written in place of ours, every row of the table must declare
 * exactly what the header does, under the name that the header maps the function to. */

#define trp__cu_result          CUresult
#define trp__cu_device          CUdevice
#define trp__cu_uuid            CUuuid
#define trp__cu_context         CUcontext
#define trp__cu_stream          CUstream
#define trp__cu_event           CUevent
#define trp__cu_module          CUmodule
#define trp__cu_function        CUfunction
#define trp__cu_address         CUdeviceptr
#define trp__cu_memory          CUmemGenericAllocationHandle
#define trp__cu_attribute       CUdevice_attribute
#define trp__cu_graph           CUgraph
#define trp__cu_graph_exec      CUgraphExec
#define trp__cu_capture_mode    CUstreamCaptureMode
#define trp__cu_limit           CUlimit
#define trp__cu_handle_type     CUmemAllocationHandleType
#define trp__cu_granularity     CUmemAllocationGranularity_flags
#define trp__cu_allocation_prop CUmemAllocationProp
#define trp__cu_access_desc     CUmemAccessDesc
#define trp__cu_memcpy_2d       CUDA_MEMCPY2D

#define SAME_FUNCTION(result, name, parameters)                                                    \
    _Static_assert(__builtin_types_compatible_p(result(*) parameters, __typeof__(&name)),          \
                   "type of " #name);
TRP__CUDA_FUNCTIONS(SAME_FUNCTION)
#if CUDA_VERSION >= 12040
#define trp__cu_jit_option         CUjit_option
#define trp__cu_function_attribute CUfunction_attribute
#define trp__cu_shared_of_block    CUoccupancyB2DSize
#define trp__cu_launch_config      CUlaunchConfig
#define trp__cu_tensor_map         CUtensorMap
#define trp__cu_tensor_type        CUtensorMapDataType
#define trp__cu_tensor_interleave  CUtensorMapInterleave
#define trp__cu_tensor_swizzle     CUtensorMapSwizzle
#define trp__cu_tensor_l2          CUtensorMapL2promotion
#define trp__cu_tensor_fill        CUtensorMapFloatOOBfill
TRP__CUDA_OPTIONAL_FUNCTIONS(SAME_FUNCTION)
#endif

/* The names that we load are those that a program built with this header would be linked to. */
#define TEXT(name)     #name
#define EXPANDED(name) TEXT(name)
#define LOADED_AS(name, exported)                                                                  \
    _Static_assert(__builtin_strcmp(EXPANDED(name), exported) == 0, exported)
LOADED_AS(cuDeviceTotalMem, "cuDeviceTotalMem_v2");
LOADED_AS(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
LOADED_AS(cuMemGetInfo, "cuMemGetInfo_v2");
LOADED_AS(cuMemHostRegister, "cuMemHostRegister_v2");
LOADED_AS(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2");
LOADED_AS(cuMemAlloc, "cuMemAlloc_v2");
LOADED_AS(cuMemFree, "cuMemFree_v2");
LOADED_AS(cuStreamDestroy, "cuStreamDestroy_v2");
#if CUDA_VERSION >= 12000
LOADED_AS(cuStreamWriteValue64, "cuStreamWriteValue64_v2");
LOADED_AS(cuStreamWaitValue64, "cuStreamWaitValue64_v2");
#endif
LOADED_AS(cuEventDestroy, "cuEventDestroy_v2");
LOADED_AS(cuMemcpyHtoD, "cuMemcpyHtoD_v2");
LOADED_AS(cuMemcpyDtoH, "cuMemcpyDtoH_v2");
LOADED_AS(cuStreamBeginCapture, "cuStreamBeginCapture_v2");
LOADED_AS(cuMemCreate, "cuMemCreate");
LOADED_AS(cuMemMap, "cuMemMap");
LOADED_AS(cuMemcpyAsync, "cuMemcpyAsync");
LOADED_AS(cuMemsetD32Async, "cuMemsetD32Async");
LOADED_AS(cuMemcpy2DAsync_v2, "cuMemcpy2DAsync_v2");
LOADED_AS(cuLaunchKernel, "cuLaunchKernel");

#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>

SAME(TRP__CUBLAS_SUCCESS, CUBLAS_STATUS_SUCCESS);
SAME(TRP__CUBLAS_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
SAME(TRP__CUBLAS_INVALID_VALUE, CUBLAS_STATUS_INVALID_VALUE);
SAME(TRP__CUBLAS_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
CONSTANT(CUBLAS_OP_N);
CONSTANT(CUBLAS_OP_T);
CONSTANT(CUBLAS_OP_C);
SAME(TRP__CUBLAS_LEFT, CUBLAS_SIDE_LEFT);
SAME(TRP__CUBLAS_RIGHT, CUBLAS_SIDE_RIGHT);
SAME(TRP__CUBLAS_LOWER, CUBLAS_FILL_MODE_LOWER);
SAME(TRP__CUBLAS_UPPER, CUBLAS_FILL_MODE_UPPER);
SAME(TRP__CUBLAS_NON_UNIT, CUBLAS_DIAG_NON_UNIT);
SAME(TRP__CUBLAS_UNIT, CUBLAS_DIAG_UNIT);
CONSTANT(CUBLAS_POINTER_MODE_HOST);
CONSTANT(CUBLAS_POINTER_MODE_DEVICE);
CONSTANT(CUDA_R_32F);
CONSTANT(CUDA_R_64F);
CONSTANT(CUDA_R_16F);
CONSTANT(CUDA_R_16BF);
CONSTANT(CUDA_R_8I);
CONSTANT(CUDA_R_32I);
CONSTANT(CUDA_C_32F);
CONSTANT(CUDA_C_64F);
CONSTANT(CUBLAS_COMPUTE_32F);
CONSTANT(CUBLAS_COMPUTE_64F);
CONSTANT(CUBLAS_COMPUTE_32I);
CONSTANT(CUBLAS_COMPUTE_32F_PEDANTIC);
CONSTANT(CUBLAS_COMPUTE_64F_PEDANTIC);
CONSTANT(CUBLAS_COMPUTE_32I_PEDANTIC);
#if CUBLAS_VERSION >= 130100
CONSTANT(CUBLAS_COMPUTE_32F_EMULATED_16BFX9);
CONSTANT(CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT);
CONSTANT(CUBLAS_EMULATION_STRATEGY_DEFAULT);
CONSTANT(CUBLAS_EMULATION_STRATEGY_EAGER);
SAME(sizeof(trp__cublas_strategy), sizeof(cublasEmulationStrategy_t));
#endif
CONSTANT(CUBLAS_COMPUTE_32F_FAST_TF32);
CONSTANT(CUBLAS_GEMM_DEFAULT);
CONSTANT(CUBLAS_DEFAULT_MATH);
SAME(TRP__CUBLAS_DISALLOW_REDUCED_PRECISION_REDUCTION,
     CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
SAME(TRP__CUDA_MAJOR_VERSION, MAJOR_VERSION);
SAME(TRP__CUDA_MINOR_VERSION, MINOR_VERSION);
SAME(TRP__CUDA_PATCH_LEVEL, PATCH_LEVEL);
SAME(sizeof(trp__cublas_status), sizeof(cublasStatus_t));
SAME(sizeof(trp__cublas_operation), sizeof(cublasOperation_t));
SAME(sizeof(trp__cublas_type), sizeof(cudaDataType));
SAME(sizeof(trp__cublas_compute), sizeof(cublasComputeType_t));
SAME(sizeof(trp__cublas_algorithm), sizeof(cublasGemmAlgo_t));
SAME(sizeof(trp__cublas_math), sizeof(cublasMath_t));
SAME(sizeof(trp__cuda_property), sizeof(libraryPropertyType));

#define trp__cublas_status    cublasStatus_t
#define trp__cublas_handle    cublasHandle_t
#define trp__cublas_operation cublasOperation_t
#define trp__cublas_type      cudaDataType
#define trp__cublas_compute   cublasComputeType_t
#define trp__cublas_algorithm cublasGemmAlgo_t
#define trp__cublas_math      cublasMath_t
#define trp__cuda_property    libraryPropertyType
#define trp__cublas_side      cublasSideMode_t
#define trp__cublas_fill      cublasFillMode_t
#define trp__cublas_diag      cublasDiagType_t

#define trp__cublas_pointer_mode cublasPointerMode_t

#if CUBLAS_VERSION >= 130100
#define trp__cublas_strategy cublasEmulationStrategy_t
#else /* no header to compare with */
#undef TRP__CUBLAS_GROUPED_FUNCTION
#define TRP__CUBLAS_GROUPED_FUNCTION(X)
#undef TRP__CUBLAS_EMULATION_FUNCTIONS
#define TRP__CUBLAS_EMULATION_FUNCTIONS(X)
#endif

#define SAME_CUBLAS_FUNCTION(result, name, parameters, required)                                   \
    SAME_FUNCTION(result, name, parameters)
TRP__CUBLAS_FUNCTIONS(SAME_CUBLAS_FUNCTION)

#if CUDA_VERSION >= 12000
#define ENTRY(name, family, T, R) SAME_FUNCTION(cublasStatus_t, name, TRP__CUBLAS_##family(T, R));
#define CUBLAS_REAL(op, family, s, d)                                                              \
    ENTRY(s, family, float, float) ENTRY(d, family, double, double)
#define CUBLAS_COMPLEX(op, family, c, z)                                                           \
    ENTRY(c, family, cuComplex, float) ENTRY(z, family, cuDoubleComplex, double)
#define CUBLAS_HALF(op, family, name) ENTRY(name, family, void, void)
#define CUBLAS_LAPACK(op, family, s, d, c, z)                                                      \
    CUBLAS_REAL(op, family, s, d) CUBLAS_COMPLEX(op, family, c, z)
#include "libs/blas/routines.def"
#endif

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

/* Constants that came with a version are left out before it. */
#define LT_12_0(ours, theirs) SAME(TRP__CUBLASLT_##ours, theirs);
#if CUBLAS_VERSION >= 120800
#define LT_12_8(ours, theirs) LT_12_0(ours, theirs)
#else
#define LT_12_8(ours, theirs)
#endif
#if CUBLAS_VERSION >= 120900
#define LT_12_9(ours, theirs) LT_12_0(ours, theirs)
#else
#define LT_12_9(ours, theirs)
#endif
#if CUBLAS_VERSION >= 130100
#define LT_13_1(ours, theirs) LT_12_0(ours, theirs)
#else
#define LT_13_1(ours, theirs)
#endif
#define LT(since, name, value)         LT_##since(name, CUBLASLT_##name)
#define LT_TYPE(since, name, value)    LT_##since(name, CUDA_##name)
#define LT_COMPUTE(since, name, value) LT_##since(COMPUTE_##name, CUBLAS_COMPUTE_##name)
TRP__CUBLASLT_TYPES(LT_TYPE)
TRP__CUBLASLT_COMPUTES(LT_COMPUTE)
TRP__CUBLASLT_EPILOGUES(LT)
TRP__CUBLASLT_DESC_ATTRIBUTES(LT)
TRP__CUBLASLT_LAYOUT_ATTRIBUTES(LT)
TRP__CUBLASLT_PREFERENCE_ATTRIBUTES(LT)
TRP__CUBLASLT_SCALE_MODES(LT)
TRP__CUBLASLT_ORDERS(LT)
TRP__CUBLASLT_BATCH_MODES(LT)
TRP__CUBLASLT_POINTER_MODES(LT)
TRP__CUBLASLT_REDUCTIONS(LT)
TRP__CUBLASLT_SEARCHES(LT)
TRP__CUBLASLT_CAPABILITIES(LT)
TRP__CUBLASLT_CONFIGS(LT)

#define LT_FIELD(ours, theirs)                                                                     \
    SAME(offsetof(trp__cublaslt_result, ours), offsetof(cublasLtMatmulHeuristicResult_t, theirs)); \
    SAME(sizeof(((trp__cublaslt_result *)0)->ours),                                                \
         sizeof(((cublasLtMatmulHeuristicResult_t *)0)->theirs))
SIZE(trp__cublaslt_algo, cublasLtMatmulAlgo_t);
SIZE(trp__cublaslt_result, cublasLtMatmulHeuristicResult_t);
LT_FIELD(algo, algo);
LT_FIELD(workspace_bytes, workspaceSize);
LT_FIELD(state, state);
LT_FIELD(waves, wavesCount);
LT_FIELD(reserved, reserved);
SAME(sizeof(trp__cublaslt_type), sizeof(cudaDataType));
SAME(sizeof(trp__cublaslt_compute), sizeof(cublasComputeType_t));
SAME(sizeof(trp__cublaslt_desc_attribute), sizeof(cublasLtMatmulDescAttributes_t));
SAME(sizeof(trp__cublaslt_layout_attribute), sizeof(cublasLtMatrixLayoutAttribute_t));
SAME(sizeof(trp__cublaslt_preference_attribute), sizeof(cublasLtMatmulPreferenceAttributes_t));
SAME(sizeof(trp__cublaslt_capability), sizeof(cublasLtMatmulAlgoCapAttributes_t));
SAME(sizeof(trp__cublaslt_config), sizeof(cublasLtMatmulAlgoConfigAttributes_t));

#define trp__cublaslt_handle     cublasLtHandle_t
#define trp__cublaslt_desc       cublasLtMatmulDesc_t
#define trp__cublaslt_layout     cublasLtMatrixLayout_t
#define trp__cublaslt_preference cublasLtMatmulPreference_t
#define trp__cublaslt_algo       cublasLtMatmulAlgo_t
#define trp__cublaslt_result     cublasLtMatmulHeuristicResult_t
#define trp__cublaslt_type       cudaDataType
#define trp__cublaslt_compute    cublasComputeType_t
#define trp__cublaslt_capability cublasLtMatmulAlgoCapAttributes_t
#define trp__cublaslt_config     cublasLtMatmulAlgoConfigAttributes_t

#define trp__cublaslt_desc_attribute       cublasLtMatmulDescAttributes_t
#define trp__cublaslt_layout_attribute     cublasLtMatrixLayoutAttribute_t
#define trp__cublaslt_preference_attribute cublasLtMatmulPreferenceAttributes_t

TRP__CUBLASLT_FUNCTIONS(SAME_CUBLAS_FUNCTION)
#endif
#endif

#define SAME_LIBRARY_FUNCTION(result, name, parameters, required)                                  \
    SAME_FUNCTION(result, name, parameters)

#if __has_include(<cufftXt.h>)
#include <cufftXt.h>

CONSTANT(CUFFT_SUCCESS);
CONSTANT(CUFFT_ALLOC_FAILED);
CONSTANT(CUFFT_INVALID_SIZE);
CONSTANT(CUFFT_NOT_IMPLEMENTED);
CONSTANT(CUFFT_NOT_SUPPORTED);
CONSTANT(CUFFT_FORWARD);
CONSTANT(CUFFT_INVERSE);
SAME(TRP__CUFFT_R_32F, CUDA_R_32F);
SAME(TRP__CUFFT_R_64F, CUDA_R_64F);
SAME(TRP__CUFFT_C_32F, CUDA_C_32F);
SAME(TRP__CUFFT_C_64F, CUDA_C_64F);
SAME(sizeof(trp__cufft_handle), sizeof(cufftHandle));
SAME(sizeof(trp__cufft_result), sizeof(cufftResult));
SAME(sizeof(trp__cufft_type), sizeof(cudaDataType));
#define trp__cufft_handle cufftHandle
#define trp__cufft_result cufftResult
#define trp__cufft_type   cudaDataType
TRP__CUFFT_FUNCTIONS(SAME_LIBRARY_FUNCTION)
#endif

#if __has_include(<nvrtc.h>) && CUDA_VERSION >= 12080
#include <nvrtc.h>

CONSTANT(NVRTC_SUCCESS);
CONSTANT(NVRTC_ERROR_OUT_OF_MEMORY);
CONSTANT(NVRTC_ERROR_INVALID_OPTION);
CONSTANT(NVRTC_ERROR_COMPILATION);
CONSTANT(NVRTC_ERROR_CANCELLED);
SAME(sizeof(trp__nvrtc_result), sizeof(nvrtcResult));
#define trp__nvrtc_result  nvrtcResult
#define trp__nvrtc_program nvrtcProgram
TRP__NVRTC_FUNCTIONS(SAME_LIBRARY_FUNCTION)
#endif

#if __has_include(<nvJitLink.h>)
#include <nvJitLink.h>

CONSTANT(NVJITLINK_SUCCESS);
CONSTANT(NVJITLINK_INPUT_CUBIN);
CONSTANT(NVJITLINK_INPUT_PTX);
CONSTANT(NVJITLINK_INPUT_LTOIR);
CONSTANT(NVJITLINK_INPUT_FATBIN);
CONSTANT(NVJITLINK_INPUT_OBJECT);
CONSTANT(NVJITLINK_INPUT_LIBRARY);
CONSTANT(NVJITLINK_INPUT_ANY);
SAME(sizeof(trp__nvjitlink_result), sizeof(nvJitLinkResult));
SAME(sizeof(trp__nvjitlink_input), sizeof(nvJitLinkInputType));
#define trp__nvjitlink_result nvJitLinkResult
#define trp__nvjitlink_input  nvJitLinkInputType
#define trp__nvjitlink_handle nvJitLinkHandle
TRP__NVJITLINK_FUNCTIONS(SAME_LIBRARY_FUNCTION)
#endif

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#endif
#if defined CUDNN_VERSION && CUDNN_VERSION >= 90000
/* Constants that came with a version are left out before it. */
#define DNN_9_0(ours, theirs) SAME(ours, theirs);
#if CUDNN_VERSION >= 90800
#define DNN_9_8(ours, theirs) SAME(ours, theirs);
#else
#define DNN_9_8(ours, theirs)
#endif
#if CUDNN_VERSION >= 91900
#define DNN_9_19(ours, theirs) SAME(ours, theirs);
#else
#define DNN_9_19(ours, theirs)
#endif
#define DNN(since, name)                  DNN_##since(TRP__CUDNN_##name, CUDNN_##name)
#define DNN_STATUS(since, name, value)    DNN(since, STATUS_##name)
#define DNN_DATA(since, name, value)      DNN(since, DATA_##name)
#define DNN_BACKEND(since, name, value)   DNN(since, BACKEND_##name)
#define DNN_TYPE(since, name, value)      DNN(since, TYPE_##name)
#define DNN_ATTRIBUTE(since, name, value) DNN(since, ATTR_##name)
#define DNN_POINTWISE(since, name, value) DNN(since, POINTWISE_##name)
#define DNN_REDUCTION(since, name, value) DNN(since, REDUCE_TENSOR_##name)
#define DNN_MODE(since, name, value)      DNN(since, name)
TRP__CUDNN_STATUSES(DNN_STATUS)
TRP__CUDNN_DATA_TYPES(DNN_DATA)
TRP__CUDNN_DESCRIPTORS(DNN_BACKEND)
TRP__CUDNN_ATTRIBUTE_TYPES(DNN_TYPE)
TRP__CUDNN_ATTRIBUTES(DNN_ATTRIBUTE)
TRP__CUDNN_POINTWISES(DNN_POINTWISE)
TRP__CUDNN_REDUCTIONS(DNN_REDUCTION)
TRP__CUDNN_MODES(DNN_MODE)
TRP__CUDNN_RNN_MODES(DNN_MODE)
SAME(sizeof(trp__cudnn_status), sizeof(cudnnStatus_t));
SAME(sizeof(trp__cudnn_attribute), sizeof(cudnnBackendAttributeName_t));
SAME(sizeof(trp__cudnn_attribute_type), sizeof(cudnnBackendAttributeType_t));
SAME(sizeof(trp__cudnn_descriptor_type), sizeof(cudnnBackendDescriptorType_t));
SAME(sizeof(int), sizeof(cudnnDataType_t));
SAME(sizeof(int), sizeof(cudnnPointwiseMode_t));
SAME(sizeof(int), sizeof(cudnnReduceTensorOp_t));
SAME(sizeof(int), sizeof(cudnnBackendNumericalNote_t));
SAME(sizeof(int), sizeof(cudnnBackendKnobType_t));
SAME(sizeof(int), sizeof(cudnnBackendHeurMode_t));

#define trp__cudnn_status          cudnnStatus_t
#define trp__cudnn_handle          cudnnHandle_t
#define trp__cudnn_descriptor      cudnnBackendDescriptor_t
#define trp__cudnn_descriptor_type cudnnBackendDescriptorType_t
#define trp__cudnn_attribute       cudnnBackendAttributeName_t
#define trp__cudnn_attribute_type  cudnnBackendAttributeType_t
#define trp__cudnn_data_type       cudnnDataType_t
#define trp__cudnn_math_type       cudnnMathType_t
#define trp__cudnn_tensor          cudnnTensorDescriptor_t
#define trp__cudnn_dropout         cudnnDropoutDescriptor_t
#define trp__cudnn_rnn             cudnnRNNDescriptor_t
#define trp__cudnn_rnn_data        cudnnRNNDataDescriptor_t
#define trp__cudnn_rnn_algo        cudnnRNNAlgo_t
#define trp__cudnn_rnn_mode        cudnnRNNMode_t
#define trp__cudnn_rnn_bias        cudnnRNNBiasMode_t
#define trp__cudnn_direction       cudnnDirectionMode_t
#define trp__cudnn_rnn_input       cudnnRNNInputMode_t
#define trp__cudnn_rnn_layout      cudnnRNNDataLayout_t
#define trp__cudnn_forward_mode    cudnnForwardMode_t
#define trp__cudnn_wgrad_mode      cudnnWgradMode_t
TRP__CUDNN_FUNCTIONS(SAME_LIBRARY_FUNCTION)
TRP__CUDNN_RNN_FUNCTIONS(SAME_LIBRARY_FUNCTION)
#endif

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

SAME(TRP__NVTX_VERSION, NVTX_VERSION);
CONSTANT(NVTX_ETID_CALLBACKS);
CONSTANT(NVTX_ETID_VERSIONINFO);
CONSTANT(NVTX_MESSAGE_TYPE_ASCII);
CONSTANT(NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
CONSTANT(NVTX_CB_MODULE_CORE);
CONSTANT(NVTX_CB_MODULE_CUDA);
CONSTANT(NVTX_CB_MODULE_OPENCL);
CONSTANT(NVTX_CB_MODULE_CUDART);
CONSTANT(NVTX_CB_MODULE_CORE2);
CONSTANT(NVTX_CB_MODULE_SYNC);
CONSTANT(NVTX_CB_MODULE_SIZE);
CONSTANT(NVTX_CBID_CORE_SIZE);
CONSTANT(NVTX_CBID_CUDA_SIZE);
CONSTANT(NVTX_CBID_OPENCL_SIZE);
CONSTANT(NVTX_CBID_CUDART_SIZE);
CONSTANT(NVTX_CBID_CORE2_SIZE);
CONSTANT(NVTX_CBID_SYNC_SIZE);
CONSTANT(NVTX_CBID_CORE2_DomainRangePushEx);
CONSTANT(NVTX_CBID_CORE2_DomainRangePop);
CONSTANT(NVTX_CBID_CORE2_DomainCreateA);

#define NVTX_FIELD(ours, theirs)                                                                   \
    SAME(offsetof(trp__nvtx_event_attributes, ours), offsetof(nvtxEventAttributes_t, theirs))
SAME(sizeof(trp__nvtx_event_attributes), sizeof(nvtxEventAttributes_t));
NVTX_FIELD(version, version);
NVTX_FIELD(size, size);
NVTX_FIELD(category, category);
NVTX_FIELD(color_type, colorType);
NVTX_FIELD(color, color);
NVTX_FIELD(payload_type, payloadType);
NVTX_FIELD(payload, payload);
NVTX_FIELD(message_type, messageType);
NVTX_FIELD(message, message);
SAME(sizeof(trp__nvtx_callbacks), sizeof(NvtxExportTableCallbacks));
SAME(offsetof(trp__nvtx_callbacks, GetModuleFunctionTable),
     offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable));
SAME(sizeof(trp__nvtx_version_info), sizeof(NvtxExportTableVersionInfo));
SAME(offsetof(trp__nvtx_version_info, version), offsetof(NvtxExportTableVersionInfo, version));
SAME(offsetof(trp__nvtx_version_info, SetInjectionNvtxVersion),
     offsetof(NvtxExportTableVersionInfo, SetInjectionNvtxVersion));
#endif

int main(void)
{
    printf("compared with the headers of CUDA %d.%d\n", CUDA_VERSION / 1000,
           CUDA_VERSION % 1000 / 10);
    return 0;
}
