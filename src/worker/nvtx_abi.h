/* The part of NVTX 3 that Troupe speaks, declared by the project itself: the interface between a
 * program that marks ranges and the tool that is injected to see them (Nsight Systems, Nsight
 * Compute, CUPTI). tests/unit/fakes/cuda_abi_test.c compares it with NVIDIA's headers where they
 * are found. Names are NVIDIA's with our prefix. */
#ifndef TRP_WORKER_NVTX_ABI_H
#define TRP_WORKER_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
    TRP__NVTX_VERSION = 3,
    TRP__NVTX_ETID_CALLBACKS = 1,
    TRP__NVTX_ETID_VERSIONINFO = 3,
    TRP__NVTX_MESSAGE_TYPE_ASCII = 1,
    TRP__NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 = 1,
};

/* Modules, and how many places their tables of functions have. Place 0 is never used. */
enum {
    TRP__NVTX_CB_MODULE_CORE = 1,
    TRP__NVTX_CB_MODULE_CUDA = 2,
    TRP__NVTX_CB_MODULE_OPENCL = 3,
    TRP__NVTX_CB_MODULE_CUDART = 4,
    TRP__NVTX_CB_MODULE_CORE2 = 5,
    TRP__NVTX_CB_MODULE_SYNC = 6,
    TRP__NVTX_CB_MODULE_SIZE = 7,

    TRP__NVTX_CBID_CORE_SIZE = 16,
    TRP__NVTX_CBID_CUDA_SIZE = 9,
    TRP__NVTX_CBID_OPENCL_SIZE = 15,
    TRP__NVTX_CBID_CUDART_SIZE = 7,
    TRP__NVTX_CBID_CORE2_SIZE = 16,
    TRP__NVTX_CBID_SYNC_SIZE = 7,

    /* Places of CORE2. */
    TRP__NVTX_CBID_CORE2_DomainRangePushEx = 4,
    TRP__NVTX_CBID_CORE2_DomainRangePop = 5,
    TRP__NVTX_CBID_CORE2_DomainCreateA = 12,
};

typedef struct trp__nvtx_event_attributes {
    uint16_t version;
    uint16_t size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type;
    int32_t reserved0;
    union {
        uint64_t ullValue;
        double dValue;
    } payload;
    int32_t message_type;
    union {
        const char *ascii;
        const void *registered;
    } message;
} trp__nvtx_event_attributes;

typedef struct trp__nvtx_domain trp__nvtx_domain; /* the tool defines it */

typedef int trp__nvtx_range_push(trp__nvtx_domain *domain, const trp__nvtx_event_attributes *event);
typedef int trp__nvtx_range_pop(trp__nvtx_domain *domain);
typedef trp__nvtx_domain *trp__nvtx_domain_create(const char *name);

/* A tool gets, for each module, an array of places to store its functions in. */
typedef void (*trp__nvtx_function)(void);
typedef trp__nvtx_function **trp__nvtx_function_table;

typedef struct trp__nvtx_callbacks {
    size_t struct_size;
    int (*GetModuleFunctionTable)(int module, trp__nvtx_function_table *table, unsigned int *size);
} trp__nvtx_callbacks;

typedef struct trp__nvtx_version_info {
    size_t struct_size;
    uint32_t version;
    uint32_t reserved0;
    void (*SetInjectionNvtxVersion)(uint32_t version);
} trp__nvtx_version_info;

typedef const void *(*trp__nvtx_get_export_table)(uint32_t id);

/* Exported by the tool under this name; 0: it refuses. */
#define TRP__NVTX_INITIALIZE "InitializeInjectionNvtx2"
typedef int trp__nvtx_initialize(trp__nvtx_get_export_table get_export_table);

#endif
