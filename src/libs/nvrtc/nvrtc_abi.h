/* The part of NVRTC's binary interface that Troupe uses, declared here so that it builds without a
 * CUDA toolkit. tests/unit/fakes/cuda_abi_test.c compares every line with NVIDIA's header.
 *
 * Source: NVRTC documentation. */
#ifndef TRP_LIBS_NVRTC_ABI_H
#define TRP_LIBS_NVRTC_ABI_H

#include <stddef.h>

typedef int trp__nvrtc_result; /* nvrtcResult */
typedef struct trp__nvrtc_program_opaque *trp__nvrtc_program;

enum {
    TRP__NVRTC_SUCCESS = 0,
    TRP__NVRTC_ERROR_OUT_OF_MEMORY = 1,
    TRP__NVRTC_ERROR_INVALID_OPTION = 5,
    TRP__NVRTC_ERROR_COMPILATION = 6,
    TRP__NVRTC_ERROR_CANCELLED = 16,
};

/* One row per function: result, exported name, parameters, whether it is required. */
#define TRP__NVRTC_FUNCTIONS(X)                                                                    \
    X(const char *, nvrtcGetErrorString, (trp__nvrtc_result result), true)                         \
    X(trp__nvrtc_result, nvrtcVersion, (int *major, int *minor), true)                             \
    X(trp__nvrtc_result, nvrtcCreateProgram,                                                       \
      (trp__nvrtc_program * program, const char *source, const char *name, int count,              \
       const char *const *headers, const char *const *names),                                      \
      true)                                                                                        \
    X(trp__nvrtc_result, nvrtcDestroyProgram, (trp__nvrtc_program * program), true)                \
    X(trp__nvrtc_result, nvrtcAddNameExpression,                                                   \
      (trp__nvrtc_program program, const char *expression), true)                                  \
    X(trp__nvrtc_result, nvrtcCompileProgram,                                                      \
      (trp__nvrtc_program program, int count, const char *const *options), true)                   \
    X(trp__nvrtc_result, nvrtcGetLoweredName,                                                      \
      (trp__nvrtc_program program, const char *expression, const char **name), true)               \
    X(trp__nvrtc_result, nvrtcGetProgramLogSize, (trp__nvrtc_program program, size_t * bytes),     \
      true)                                                                                        \
    X(trp__nvrtc_result, nvrtcGetProgramLog, (trp__nvrtc_program program, char *log), true)        \
    X(trp__nvrtc_result, nvrtcGetCUBINSize, (trp__nvrtc_program program, size_t * bytes), true)    \
    X(trp__nvrtc_result, nvrtcGetCUBIN, (trp__nvrtc_program program, char *image), true)           \
    X(trp__nvrtc_result, nvrtcGetPTXSize, (trp__nvrtc_program program, size_t * bytes), true)      \
    X(trp__nvrtc_result, nvrtcGetPTX, (trp__nvrtc_program program, char *image), true)             \
    X(trp__nvrtc_result, nvrtcGetLTOIRSize, (trp__nvrtc_program program, size_t * bytes), true)    \
    X(trp__nvrtc_result, nvrtcGetLTOIR, (trp__nvrtc_program program, char *image), true)           \
    X(trp__nvrtc_result, nvrtcSetFlowCallback,                                                     \
      (trp__nvrtc_program program, int (*callback)(void *, void *), void *payload), false)

#endif
