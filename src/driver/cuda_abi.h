/* The part of the CUDA driver's binary interface that Troupe uses, declared here so that it builds
 * without a CUDA toolkit. Every line is compared with NVIDIA's header by
 * tests/unit/fakes/cuda_abi_test.c.
 *
 * Source: CUDA Driver API Reference. */
#ifndef TRP_DRIVER_CUDA_ABI_H
#define TRP_DRIVER_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int trp__cu_result; /* CUresult */
typedef int trp__cu_device; /* CUdevice */
typedef struct trp__cu_context_opaque *trp__cu_context;
typedef struct trp__cu_stream_opaque *trp__cu_stream;
typedef struct trp__cu_event_opaque *trp__cu_event;
typedef struct trp__cu_graph_opaque *trp__cu_graph;
typedef struct trp__cu_graph_exec_opaque *trp__cu_graph_exec;
typedef struct trp__cu_module_opaque *trp__cu_module;
typedef struct trp__cu_function_opaque *trp__cu_function;
typedef unsigned long long trp__cu_address; /* CUdeviceptr */
typedef unsigned long long trp__cu_memory;  /* CUmemGenericAllocationHandle */

/* The results that the code uses by name; wire/directive.c lists all, and the reaction to each. */
typedef enum trp__cu_result_code {
    TRP__CU_SUCCESS = 0,
    TRP__CU_INVALID_VALUE = 1,
    TRP__CU_OUT_OF_MEMORY = 2,
    TRP__CU_NO_DEVICE = 100,
    TRP__CU_INVALID_DEVICE = 101,
    TRP__CU_NOT_FOUND = 500,
    TRP__CU_NOT_READY = 600,
    TRP__CU_ILLEGAL_ADDRESS = 700,
    TRP__CU_NOT_SUPPORTED = 801,
} trp__cu_result_code;

/* CUdevice_attribute */
typedef enum trp__cu_attribute {
    TRP__CU_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    TRP__CU_ATTRIBUTE_L2_CACHE_SIZE = 38,
    TRP__CU_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    TRP__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    TRP__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    TRP__CU_ATTRIBUTE_HOST_REGISTER_SUPPORTED = 99,
    TRP__CU_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
    TRP__CU_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
    TRP__CU_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS = 122,
} trp__cu_attribute;

/* CUmemAllocationType */
typedef enum trp__cu_capture_mode {
    TRP__CU_STREAM_CAPTURE_MODE_RELAXED = 2,
} trp__cu_capture_mode;

typedef enum trp__cu_allocation_type {
    TRP__CU_MEM_ALLOCATION_TYPE_PINNED = 1,
} trp__cu_allocation_type;

/* CUmemAllocationHandleType */
typedef enum trp__cu_handle_type {
    TRP__CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
} trp__cu_handle_type;

/* CUlimit */
typedef enum trp__cu_limit {
    TRP__CU_LIMIT_STACK_SIZE = 0, /* of a thread, in bytes */
} trp__cu_limit;

/* CUmemLocationType */
typedef enum trp__cu_location_type {
    TRP__CU_MEM_LOCATION_TYPE_DEVICE = 1,
} trp__cu_location_type;

/* CUmemAllocationGranularity_flags */
typedef enum trp__cu_granularity {
    TRP__CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
} trp__cu_granularity;

/* CUmemAccess_flags */
typedef enum trp__cu_access_flags {
    TRP__CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
    TRP__CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
} trp__cu_access_flags;

typedef struct trp__cu_location {
    trp__cu_location_type type;
    int id;
} trp__cu_location;

typedef struct trp__cu_uuid { /* CUuuid */
    char bytes[16];
} trp__cu_uuid;

typedef struct trp__cu_allocation_prop {
    trp__cu_allocation_type type;
    trp__cu_handle_type requestedHandleTypes;
    trp__cu_location location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType;
        unsigned char gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
} trp__cu_allocation_prop;

typedef struct trp__cu_access_desc {
    trp__cu_location location;
    trp__cu_access_flags flags;
} trp__cu_access_desc;

typedef unsigned int trp__cu_jit_option;  /* CUjit_option */
typedef unsigned int trp__cu_tensor_type; /* CUtensorMapDataType, and so on */
typedef unsigned int trp__cu_tensor_interleave;
typedef unsigned int trp__cu_tensor_swizzle;
typedef unsigned int trp__cu_tensor_l2;
typedef unsigned int trp__cu_tensor_fill;
typedef size_t (*trp__cu_shared_of_block)(int block); /* CUoccupancyB2DSize */

/* CUfunction_attribute */
typedef enum trp__cu_function_attribute {
    TRP__CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    TRP__CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    TRP__CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
    TRP__CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
    TRP__CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
    TRP__CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
    TRP__CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
    TRP__CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    TRP__CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
} trp__cu_function_attribute;

/* CUlaunchAttribute: only the members of its union that are used. */
typedef struct trp__cu_launch_attribute {
    unsigned int id;
    char pad[4];
    union {
        uint64_t room[8];
        int cooperative;
        int programmatic; /* the kernel itself waits for the previous one */
        struct {
            unsigned int x, y, z;
        } cluster;
    } value;
} trp__cu_launch_attribute;

/* CUmemorytype: unified addressing, with which the driver determines the memory by the address. */
typedef enum trp__cu_memory_type {
    TRP__CU_MEMORYTYPE_UNIFIED = 4,
} trp__cu_memory_type;

/* CUDA_MEMCPY2D */
typedef struct trp__cu_memcpy_2d {
    size_t srcXInBytes, srcY;
    trp__cu_memory_type srcMemoryType;
    const void *srcHost;
    trp__cu_address srcDevice;
    void *srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    trp__cu_memory_type dstMemoryType;
    void *dstHost;
    trp__cu_address dstDevice;
    void *dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} trp__cu_memcpy_2d;

/* CUlaunchConfig */
typedef struct trp__cu_launch_config {
    unsigned int gridDimX, gridDimY, gridDimZ;
    unsigned int blockDimX, blockDimY, blockDimZ;
    unsigned int sharedMemBytes;
    trp__cu_stream hStream;
    trp__cu_launch_attribute *attrs;
    unsigned int numAttrs;
} trp__cu_launch_config;

/* CUtensorMap, which is opaque. */
typedef struct trp__cu_tensor_map {
    _Alignas(128) uint64_t opaque[16]; /* 64 is enough for drivers before CUDA 13 */
} trp__cu_tensor_map;

enum {
    TRP__CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
    TRP__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
    TRP__CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
    TRP__CU_JIT_ERROR_LOG_BUFFER = 5,
    TRP__CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
};

enum {
    TRP__CU_STREAM_NON_BLOCKING = 1,
    TRP__CU_STREAM_WAIT_VALUE_GEQ = 0,
    TRP__CU_STREAM_WRITE_VALUE_DEFAULT = 0,
    TRP__CU_EVENT_DEFAULT = 0,
    TRP__CU_EVENT_BLOCKING_SYNC = 1,
    TRP__CU_EVENT_DISABLE_TIMING = 2,
    TRP__CU_MEMHOSTALLOC_PORTABLE = 1,
    TRP__CU_MEMHOSTALLOC_DEVICEMAP = 2,
    TRP__CU_MEMHOSTREGISTER_PORTABLE = 1,
    TRP__CU_MEMHOSTREGISTER_DEVICEMAP = 2,
};

/* libraryPropertyType: the part of the version that a library of the toolkit returns */
typedef enum trp__cuda_property {
    TRP__CUDA_MAJOR_VERSION = 0,
    TRP__CUDA_MINOR_VERSION = 1,
    TRP__CUDA_PATCH_LEVEL = 2,
} trp__cuda_property;

#endif
