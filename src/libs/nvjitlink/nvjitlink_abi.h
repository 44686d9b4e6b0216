/* The part of nvJitLink's binary interface that Troupe uses, declared here so that it builds
 * without a CUDA toolkit. tests/unit/fakes/cuda_abi_test.c compares every line with NVIDIA's
 * header. The library exports each function by its plain name, too, besides the versioned name that
 * the header's inline functions call.
 *
 * Source: nvJitLink documentation. */
#ifndef TRP_LIBS_NVJITLINK_ABI_H
#define TRP_LIBS_NVJITLINK_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int trp__nvjitlink_result; /* nvJitLinkResult */
typedef int trp__nvjitlink_input;  /* nvJitLinkInputType */
typedef struct trp__nvjitlink_opaque *trp__nvjitlink_handle;

enum {
    TRP__NVJITLINK_SUCCESS = 0,
    TRP__NVJITLINK_INPUT_CUBIN = 1,
    TRP__NVJITLINK_INPUT_PTX = 2,
    TRP__NVJITLINK_INPUT_LTOIR = 3,
    TRP__NVJITLINK_INPUT_FATBIN = 4,
    TRP__NVJITLINK_INPUT_OBJECT = 5,
    TRP__NVJITLINK_INPUT_LIBRARY = 6,
    TRP__NVJITLINK_INPUT_ANY = 10,
};

#define TRP__NVJITLINK_FUNCTIONS(X)                                                                \
    X(trp__nvjitlink_result, nvJitLinkVersion, (unsigned int *major, unsigned int *minor), true)   \
    X(trp__nvjitlink_result, nvJitLinkCreate,                                                      \
      (trp__nvjitlink_handle * handle, uint32_t count, const char **options), true)                \
    X(trp__nvjitlink_result, nvJitLinkDestroy, (trp__nvjitlink_handle * handle), true)             \
    X(trp__nvjitlink_result, nvJitLinkAddData,                                                     \
      (trp__nvjitlink_handle handle, trp__nvjitlink_input type, const void *data, size_t bytes,    \
       const char *name),                                                                          \
      true)                                                                                        \
    X(trp__nvjitlink_result, nvJitLinkComplete, (trp__nvjitlink_handle handle), true)              \
    X(trp__nvjitlink_result, nvJitLinkGetLinkedCubinSize,                                          \
      (trp__nvjitlink_handle handle, size_t * bytes), true)                                        \
    X(trp__nvjitlink_result, nvJitLinkGetLinkedCubin, (trp__nvjitlink_handle handle, void *image), \
      true)                                                                                        \
    X(trp__nvjitlink_result, nvJitLinkGetLinkedPtxSize,                                            \
      (trp__nvjitlink_handle handle, size_t * bytes), true)                                        \
    X(trp__nvjitlink_result, nvJitLinkGetLinkedPtx, (trp__nvjitlink_handle handle, char *image),   \
      true)                                                                                        \
    X(trp__nvjitlink_result, nvJitLinkGetErrorLogSize,                                             \
      (trp__nvjitlink_handle handle, size_t * bytes), true)                                        \
    X(trp__nvjitlink_result, nvJitLinkGetErrorLog, (trp__nvjitlink_handle handle, char *log),      \
      true)                                                                                        \
    X(trp__nvjitlink_result, nvJitLinkGetInfoLogSize,                                              \
      (trp__nvjitlink_handle handle, size_t * bytes), true)                                        \
    X(trp__nvjitlink_result, nvJitLinkGetInfoLog, (trp__nvjitlink_handle handle, char *log), true)

#endif
