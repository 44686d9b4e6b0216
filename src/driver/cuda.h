/* The CUDA driver, opened at run time. */
#ifndef TRP_DRIVER_CUDA_H
#define TRP_DRIVER_CUDA_H

#include "driver/cuda_abi.h"

#include <troupe/status.h>

/* One row per function: result, exported name (with the version suffix of the current ABI),
 * parameters. All drivers since CUDA 11.7 (R515) have all of these, so all are required. */
#define TRP__CUDA_FUNCTIONS(X)                                                                     \
    X(trp__cu_result, cuInit, (unsigned int flags))                                                \
    X(trp__cu_result, cuDriverGetVersion, (int *version))                                          \
    X(trp__cu_result, cuGetErrorName, (trp__cu_result result, const char **name))                  \
    X(trp__cu_result, cuGetErrorString, (trp__cu_result result, const char **text))                \
    X(trp__cu_result, cuDeviceGetCount, (int *count))                                              \
    X(trp__cu_result, cuDeviceGet, (trp__cu_device * device, int ordinal))                         \
    X(trp__cu_result, cuDeviceGetName, (char *name, int size, trp__cu_device device))              \
    X(trp__cu_result, cuDeviceGetUuid_v2, (trp__cu_uuid * uuid, trp__cu_device device))            \
    X(trp__cu_result, cuDeviceGetAttribute,                                                        \
      (int *value, trp__cu_attribute attribute, trp__cu_device device))                            \
    X(trp__cu_result, cuDeviceTotalMem_v2, (size_t * bytes, trp__cu_device device))                \
    X(trp__cu_result, cuDevicePrimaryCtxRetain,                                                    \
      (trp__cu_context * context, trp__cu_device device))                                          \
    X(trp__cu_result, cuDevicePrimaryCtxRelease_v2, (trp__cu_device device))                       \
    X(trp__cu_result, cuCtxSetCurrent, (trp__cu_context context))                                  \
    X(trp__cu_result, cuCtxSynchronize, (void))                                                    \
    X(trp__cu_result, cuCtxGetLimit, (size_t * value, trp__cu_limit limit))                        \
    X(trp__cu_result, cuCtxSetLimit, (trp__cu_limit limit, size_t value))                          \
    X(trp__cu_result, cuMemGetInfo_v2, (size_t * free, size_t * total))                            \
    X(trp__cu_result, cuMemCreate,                                                                 \
      (trp__cu_memory * memory, size_t bytes, const trp__cu_allocation_prop *prop,                 \
       unsigned long long flags))                                                                  \
    X(trp__cu_result, cuMemRelease, (trp__cu_memory memory))                                       \
    X(trp__cu_result, cuMemGetAllocationGranularity,                                               \
      (size_t * bytes, const trp__cu_allocation_prop *prop, trp__cu_granularity option))           \
    X(trp__cu_result, cuMemExportToShareableHandle,                                                \
      (void *handle, trp__cu_memory memory, trp__cu_handle_type type, unsigned long long flags))   \
    X(trp__cu_result, cuMemImportFromShareableHandle,                                              \
      (trp__cu_memory * memory, void *handle, trp__cu_handle_type type))                           \
    X(trp__cu_result, cuMemAddressReserve,                                                         \
      (trp__cu_address * address, size_t bytes, size_t alignment, trp__cu_address hint,            \
       unsigned long long flags))                                                                  \
    X(trp__cu_result, cuMemAddressFree, (trp__cu_address address, size_t bytes))                   \
    X(trp__cu_result, cuMemMap,                                                                    \
      (trp__cu_address address, size_t bytes, size_t offset, trp__cu_memory memory,                \
       unsigned long long flags))                                                                  \
    X(trp__cu_result, cuMemUnmap, (trp__cu_address address, size_t bytes))                         \
    X(trp__cu_result, cuMemSetAccess,                                                              \
      (trp__cu_address address, size_t bytes, const trp__cu_access_desc *access, size_t count))    \
    X(trp__cu_result, cuMemHostRegister_v2, (void *base, size_t bytes, unsigned int flags))        \
    X(trp__cu_result, cuMemHostUnregister, (void *base))                                           \
    X(trp__cu_result, cuMemHostGetDevicePointer_v2,                                                \
      (trp__cu_address * address, void *base, unsigned int flags))                                 \
    X(trp__cu_result, cuMemHostAlloc, (void **base, size_t bytes, unsigned int flags))             \
    X(trp__cu_result, cuMemFreeHost, (void *base))                                                 \
    X(trp__cu_result, cuMemAlloc_v2, (trp__cu_address * address, size_t bytes))                    \
    X(trp__cu_result, cuMemFree_v2, (trp__cu_address address))                                     \
    X(trp__cu_result, cuMemAllocAsync,                                                             \
      (trp__cu_address * address, size_t bytes, trp__cu_stream stream))                            \
    X(trp__cu_result, cuMemFreeAsync, (trp__cu_address address, trp__cu_stream stream))            \
    X(trp__cu_result, cuStreamCreate, (trp__cu_stream * stream, unsigned int flags))               \
    X(trp__cu_result, cuStreamDestroy_v2, (trp__cu_stream stream))                                 \
    X(trp__cu_result, cuStreamQuery, (trp__cu_stream stream))                                      \
    X(trp__cu_result, cuStreamSynchronize, (trp__cu_stream stream))                                \
    X(trp__cu_result, cuStreamWriteValue64_v2,                                                     \
      (trp__cu_stream stream, trp__cu_address address, uint64_t value, unsigned int flags))        \
    X(trp__cu_result, cuStreamWaitValue64_v2,                                                      \
      (trp__cu_stream stream, trp__cu_address address, uint64_t value, unsigned int flags))        \
    X(trp__cu_result, cuStreamWaitEvent,                                                           \
      (trp__cu_stream stream, trp__cu_event event, unsigned int flags))                            \
    X(trp__cu_result, cuStreamBeginCapture_v2, (trp__cu_stream stream, trp__cu_capture_mode mode)) \
    X(trp__cu_result, cuStreamEndCapture, (trp__cu_stream stream, trp__cu_graph * graph))          \
    X(trp__cu_result, cuGraphInstantiateWithFlags,                                                 \
      (trp__cu_graph_exec * exec, trp__cu_graph graph, unsigned long long flags))                  \
    X(trp__cu_result, cuGraphLaunch, (trp__cu_graph_exec exec, trp__cu_stream stream))             \
    X(trp__cu_result, cuGraphExecDestroy, (trp__cu_graph_exec exec))                               \
    X(trp__cu_result, cuGraphDestroy, (trp__cu_graph graph))                                       \
    X(trp__cu_result, cuEventCreate, (trp__cu_event * event, unsigned int flags))                  \
    X(trp__cu_result, cuEventRecord, (trp__cu_event event, trp__cu_stream stream))                 \
    X(trp__cu_result, cuEventQuery, (trp__cu_event event))                                         \
    X(trp__cu_result, cuEventSynchronize, (trp__cu_event event))                                   \
    X(trp__cu_result, cuEventElapsedTime,                                                          \
      (float *milliseconds, trp__cu_event start, trp__cu_event end))                               \
    X(trp__cu_result, cuEventDestroy_v2, (trp__cu_event event))                                    \
    X(trp__cu_result, cuMemcpyAsync,                                                               \
      (trp__cu_address to, trp__cu_address from, size_t bytes, trp__cu_stream stream))             \
    X(trp__cu_result, cuMemcpy2DAsync_v2, (const trp__cu_memcpy_2d *copy, trp__cu_stream stream))  \
    X(trp__cu_result, cuMemcpyHtoD_v2, (trp__cu_address to, const void *from, size_t bytes))       \
    X(trp__cu_result, cuMemcpyDtoH_v2, (void *to, trp__cu_address from, size_t bytes))             \
    X(trp__cu_result, cuMemsetD8Async,                                                             \
      (trp__cu_address to, unsigned char value, size_t count, trp__cu_stream stream))              \
    X(trp__cu_result, cuMemsetD16Async,                                                            \
      (trp__cu_address to, unsigned short value, size_t count, trp__cu_stream stream))             \
    X(trp__cu_result, cuMemsetD32Async,                                                            \
      (trp__cu_address to, unsigned int value, size_t count, trp__cu_stream stream))               \
    X(trp__cu_result, cuModuleLoadData, (trp__cu_module * module, const void *image))              \
    X(trp__cu_result, cuModuleUnload, (trp__cu_module module))                                     \
    X(trp__cu_result, cuModuleGetFunction,                                                         \
      (trp__cu_function * function, trp__cu_module module, const char *name))                      \
    X(trp__cu_result, cuLaunchKernel,                                                              \
      (trp__cu_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,   \
       unsigned int block_x, unsigned int block_y, unsigned int block_z,                           \
       unsigned int shared_bytes, trp__cu_stream stream, void **arguments, void **extra))

/* Newer functions, or those of single actors: NULL where a driver lacks them. All are in drivers
 * since CUDA 12.4. */
#define TRP__CUDA_OPTIONAL_FUNCTIONS(X)                                                            \
    X(trp__cu_result, cuModuleLoadDataEx,                                                          \
      (trp__cu_module * module, const void *image, unsigned int count,                             \
       trp__cu_jit_option *options, void **values))                                                \
    X(trp__cu_result, cuModuleGetGlobal_v2,                                                        \
      (trp__cu_address * address, size_t * bytes, trp__cu_module module, const char *name))        \
    X(trp__cu_result, cuFuncGetParamInfo,                                                          \
      (trp__cu_function function, size_t index, size_t * offset, size_t * bytes))                  \
    X(trp__cu_result, cuFuncGetAttribute,                                                          \
      (int *value, trp__cu_function_attribute attribute, trp__cu_function function))               \
    X(trp__cu_result, cuFuncSetAttribute,                                                          \
      (trp__cu_function function, trp__cu_function_attribute attribute, int value))                \
    X(trp__cu_result, cuLaunchKernelEx,                                                            \
      (const trp__cu_launch_config *config, trp__cu_function function, void **arguments,           \
       void **extra))                                                                              \
    X(trp__cu_result, cuOccupancyMaxActiveBlocksPerMultiprocessor,                                 \
      (int *blocks, trp__cu_function function, int block, size_t shared_bytes))                    \
    X(trp__cu_result, cuOccupancyMaxActiveClusters,                                                \
      (int *clusters, trp__cu_function function, const trp__cu_launch_config *config))             \
    X(trp__cu_result, cuOccupancyMaxPotentialBlockSize,                                            \
      (int *grid, int *block, trp__cu_function function, trp__cu_shared_of_block shared_of_block,  \
       size_t shared_bytes, int limit))                                                            \
    X(trp__cu_result, cuTensorMapEncodeTiled,                                                      \
      (trp__cu_tensor_map * map, trp__cu_tensor_type type, unsigned int rank, void *address,       \
       const uint64_t *size, const uint64_t *stride, const unsigned int *box,                      \
       const unsigned int *step, trp__cu_tensor_interleave interleave,                             \
       trp__cu_tensor_swizzle swizzle, trp__cu_tensor_l2 l2, trp__cu_tensor_fill fill))            \
    X(trp__cu_result, cuTensorMapEncodeIm2col,                                                     \
      (trp__cu_tensor_map * map, trp__cu_tensor_type type, unsigned int rank, void *address,       \
       const uint64_t *size, const uint64_t *stride, const int *lower, const int *upper,           \
       unsigned int channels, unsigned int pixels, const unsigned int *step,                       \
       trp__cu_tensor_interleave interleave, trp__cu_tensor_swizzle swizzle, trp__cu_tensor_l2 l2, \
       trp__cu_tensor_fill fill))

/* The loaded functions, called by their exported names: cu->cuMemAlloc_v2(...). */
typedef struct trp__cuda {
#define TRP__CUDA_MEMBER(result, name, parameters) result(*name) parameters;
    TRP__CUDA_FUNCTIONS(TRP__CUDA_MEMBER)
    TRP__CUDA_OPTIONAL_FUNCTIONS(TRP__CUDA_MEMBER)
#undef TRP__CUDA_MEMBER
} trp__cuda;

/* Opens the driver and calls cuInit, once per process and for its whole life; later calls give the
 * same answer. Makes no context. Any thread. TRP_E_MISSING: no driver or no device. */
trp_status trp__cuda_load(const trp__cuda **out, trp_error *error);

/* Returns the file that the driver was loaded from; empty before trp__cuda_load() has succeeded. */
const char *trp__cuda_path(void);

/* Fills in an error record for a result other than 0: domain "cuda", the code, its name and the
 * driver's text for it, and the call that returned it. The status follows from the directive of the
 * code (wire/directive.h): RESTART_CONTEXT gives TRP_E_FAULT, STOP gives TRP_E_MISSING, both with
 * the fault TRP_FAULT_GPU if the driver has stopped the context's work, else TRP_FAULT_LIBRARY;
 * TRIM gives TRP_E_MEMORY; other directives give TRP_E_LIBRARY, except that an invalid device gives
 * TRP_E_MISSING and an unsupported call TRP_E_UNSUPPORTED. */
trp_status trp__cuda_error(trp_error *error, int result, const char *call);

/* Copies to the device and waits for the end of the copy. cuMemcpyHtoD alone may return while a
 * part of pageable memory is still pending in the default stream, for which non-blocking streams do
 * not wait. */
trp__cu_result trp__cuda_upload(const trp__cuda *cu, trp__cu_address to, const void *from,
                                size_t bytes);

/* Returns whether a result means that the process must end: its directive is RESTART_CONTEXT or
 * STOP. */
bool trp__cuda_sticky(int result);

#endif
