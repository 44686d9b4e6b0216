#include "wire/directive.h"

#include <stddef.h>
#include <string.h>

/* A row: name, code, verdict. The verdict is a directive, or STICKY: RESTART_CONTEXT, and the
 * driver has stopped the context's work by itself. */

/* CUresult, as of CUDA 13.0.
 *   STICKY           the documentation says that any further work returns the same error, or that
 *                    the context can't be used any more.
 *   RESTART_CONTEXT the process has lost the driver, its context or its server, and another process
 * may find them; also UNKNOWN. RESTART_ACTOR    a handle, or a stream that was left in capture.
 *   STOP             no process on this machine finds a device that it can use.
 * INVALID_DEVICE is not among the last, since it also says that an argument is wrong. */
#define CUDA_ROWS(X)                                                                               \
    X(CUDA_SUCCESS, 0, REPLY)                                                                      \
    X(CUDA_ERROR_INVALID_VALUE, 1, REPLY)                                                          \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2, TRIM)                                                           \
    X(CUDA_ERROR_NOT_INITIALIZED, 3, RESTART_CONTEXT)                                              \
    X(CUDA_ERROR_DEINITIALIZED, 4, RESTART_CONTEXT)                                                \
    X(CUDA_ERROR_PROFILER_DISABLED, 5, REPLY)                                                      \
    X(CUDA_ERROR_PROFILER_NOT_INITIALIZED, 6, REPLY)                                               \
    X(CUDA_ERROR_PROFILER_ALREADY_STARTED, 7, REPLY)                                               \
    X(CUDA_ERROR_PROFILER_ALREADY_STOPPED, 8, REPLY)                                               \
    X(CUDA_ERROR_STUB_LIBRARY, 34, STOP)                                                           \
    X(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, 36, REPLY)                                            \
    X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46, RESTART_CONTEXT)                                          \
    X(CUDA_ERROR_NO_DEVICE, 100, STOP)                                                             \
    X(CUDA_ERROR_INVALID_DEVICE, 101, REPLY)                                                       \
    X(CUDA_ERROR_DEVICE_NOT_LICENSED, 102, STOP)                                                   \
    X(CUDA_ERROR_INVALID_IMAGE, 200, REPLY)                                                        \
    X(CUDA_ERROR_INVALID_CONTEXT, 201, RESTART_CONTEXT)                                            \
    X(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, 202, REPLY)                                              \
    X(CUDA_ERROR_MAP_FAILED, 205, REPLY)                                                           \
    X(CUDA_ERROR_UNMAP_FAILED, 206, REPLY)                                                         \
    X(CUDA_ERROR_ARRAY_IS_MAPPED, 207, REPLY)                                                      \
    X(CUDA_ERROR_ALREADY_MAPPED, 208, REPLY)                                                       \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209, REPLY)                                                    \
    X(CUDA_ERROR_ALREADY_ACQUIRED, 210, REPLY)                                                     \
    X(CUDA_ERROR_NOT_MAPPED, 211, REPLY)                                                           \
    X(CUDA_ERROR_NOT_MAPPED_AS_ARRAY, 212, REPLY)                                                  \
    X(CUDA_ERROR_NOT_MAPPED_AS_POINTER, 213, REPLY)                                                \
    X(CUDA_ERROR_ECC_UNCORRECTABLE, 214, STICKY)                                                   \
    X(CUDA_ERROR_UNSUPPORTED_LIMIT, 215, REPLY)                                                    \
    X(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, 216, REPLY)                                               \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217, REPLY)                                              \
    X(CUDA_ERROR_INVALID_PTX, 218, REPLY)                                                          \
    X(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, 219, REPLY)                                             \
    X(CUDA_ERROR_NVLINK_UNCORRECTABLE, 220, STICKY)                                                \
    X(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221, REPLY)                                               \
    X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222, REPLY)                                              \
    X(CUDA_ERROR_JIT_COMPILATION_DISABLED, 223, REPLY)                                             \
    X(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, 224, REPLY)                                            \
    X(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC, 225, REPLY)                                             \
    X(CUDA_ERROR_CONTAINED, 226, STICKY)                                                           \
    X(CUDA_ERROR_INVALID_SOURCE, 300, REPLY)                                                       \
    X(CUDA_ERROR_FILE_NOT_FOUND, 301, REPLY)                                                       \
    X(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, 302, REPLY)                                       \
    X(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, 303, REPLY)                                            \
    X(CUDA_ERROR_OPERATING_SYSTEM, 304, REPLY)                                                     \
    X(CUDA_ERROR_INVALID_HANDLE, 400, RESTART_ACTOR)                                               \
    X(CUDA_ERROR_ILLEGAL_STATE, 401, RESTART_ACTOR)                                                \
    X(CUDA_ERROR_LOSSY_QUERY, 402, REPLY)                                                          \
    X(CUDA_ERROR_NOT_FOUND, 500, REPLY)                                                            \
    X(CUDA_ERROR_NOT_READY, 600, REPLY)                                                            \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700, STICKY)                                                     \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701, REPLY)                                              \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702, STICKY)                                                      \
    X(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, 703, REPLY)                                        \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, REPLY)                                          \
    X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, 705, REPLY)                                              \
    X(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708, REPLY)                                               \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, RESTART_CONTEXT)                                       \
    X(CUDA_ERROR_ASSERT, 710, STICKY)                                                              \
    X(CUDA_ERROR_TOO_MANY_PEERS, 711, REPLY)                                                       \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712, REPLY)                                       \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713, REPLY)                                           \
    X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714, STICKY)                                                \
    X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715, STICKY)                                                 \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716, STICKY)                                                  \
    X(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717, STICKY)                                               \
    X(CUDA_ERROR_INVALID_PC, 718, STICKY)                                                          \
    X(CUDA_ERROR_LAUNCH_FAILED, 719, STICKY)                                                       \
    X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720, REPLY)                                         \
    X(CUDA_ERROR_TENSOR_MEMORY_LEAK, 721, STICKY)                                                  \
    X(CUDA_ERROR_NOT_PERMITTED, 800, REPLY)                                                        \
    X(CUDA_ERROR_NOT_SUPPORTED, 801, REPLY)                                                        \
    X(CUDA_ERROR_SYSTEM_NOT_READY, 802, RESTART_CONTEXT)                                           \
    X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803, STOP)                                                \
    X(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804, STOP)                                        \
    X(CUDA_ERROR_MPS_CONNECTION_FAILED, 805, RESTART_CONTEXT)                                      \
    X(CUDA_ERROR_MPS_RPC_FAILURE, 806, RESTART_CONTEXT)                                            \
    X(CUDA_ERROR_MPS_SERVER_NOT_READY, 807, RESTART_CONTEXT)                                       \
    X(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, 808, RESTART_CONTEXT)                                    \
    X(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, 809, RESTART_CONTEXT)                                \
    X(CUDA_ERROR_MPS_CLIENT_TERMINATED, 810, RESTART_CONTEXT)                                      \
    X(CUDA_ERROR_CDP_NOT_SUPPORTED, 811, REPLY)                                                    \
    X(CUDA_ERROR_CDP_VERSION_MISMATCH, 812, REPLY)                                                 \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, RESTART_ACTOR)                                   \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901, RESTART_ACTOR)                                   \
    X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902, RESTART_ACTOR)                                         \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903, RESTART_ACTOR)                                     \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904, RESTART_ACTOR)                                      \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905, RESTART_ACTOR)                                     \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906, RESTART_ACTOR)                                      \
    X(CUDA_ERROR_CAPTURED_EVENT, 907, RESTART_ACTOR)                                               \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908, RESTART_ACTOR)                                  \
    X(CUDA_ERROR_TIMEOUT, 909, REPLY)                                                              \
    X(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910, REPLY)                                            \
    X(CUDA_ERROR_EXTERNAL_DEVICE, 911, STICKY)                                                     \
    X(CUDA_ERROR_INVALID_CLUSTER_SIZE, 912, REPLY)                                                 \
    X(CUDA_ERROR_FUNCTION_NOT_LOADED, 913, REPLY)                                                  \
    X(CUDA_ERROR_INVALID_RESOURCE_TYPE, 914, REPLY)                                                \
    X(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, 915, REPLY)                                       \
    X(CUDA_ERROR_KEY_ROTATION, 916, RESTART_CONTEXT)                                               \
    X(CUDA_ERROR_UNKNOWN, 999, RESTART_CONTEXT)

/* cublasStatus_t. The worker asks the context's health first. */
#define CUBLAS_ROWS(X)                                                                             \
    X(CUBLAS_STATUS_SUCCESS, 0, REPLY)                                                             \
    X(CUBLAS_STATUS_NOT_INITIALIZED, 1, RESTART_ACTOR)                                             \
    X(CUBLAS_STATUS_ALLOC_FAILED, 3, TRIM)                                                         \
    X(CUBLAS_STATUS_INVALID_VALUE, 7, REPLY)                                                       \
    X(CUBLAS_STATUS_ARCH_MISMATCH, 8, REPLY)                                                       \
    X(CUBLAS_STATUS_MAPPING_ERROR, 11, RESTART_ACTOR)                                              \
    X(CUBLAS_STATUS_EXECUTION_FAILED, 13, RESTART_ACTOR)                                           \
    X(CUBLAS_STATUS_INTERNAL_ERROR, 14, RESTART_ACTOR)                                             \
    X(CUBLAS_STATUS_NOT_SUPPORTED, 15, REPLY)                                                      \
    X(CUBLAS_STATUS_LICENSE_ERROR, 16, REPLY)

/* cufftResult, as of cuFFT 12.0, and three of cuFFT 11. NO_WORKSPACE: a plan ran without its
 * memory, which is a mistake of ours. */
#define CUFFT_ROWS(X)                                                                              \
    X(CUFFT_SUCCESS, 0x0, REPLY)                                                                   \
    X(CUFFT_INVALID_PLAN, 0x1, RESTART_ACTOR)                                                      \
    X(CUFFT_ALLOC_FAILED, 0x2, TRIM)                                                               \
    X(CUFFT_INVALID_TYPE, 0x3, REPLY)                                                              \
    X(CUFFT_INVALID_VALUE, 0x4, REPLY)                                                             \
    X(CUFFT_INTERNAL_ERROR, 0x5, RESTART_ACTOR)                                                    \
    X(CUFFT_EXEC_FAILED, 0x6, RESTART_ACTOR)                                                       \
    X(CUFFT_SETUP_FAILED, 0x7, RESTART_ACTOR)                                                      \
    X(CUFFT_INVALID_SIZE, 0x8, REPLY)                                                              \
    X(CUFFT_UNALIGNED_DATA, 0x9, REPLY)                                                            \
    X(CUFFT_INCOMPLETE_PARAMETER_LIST, 0xA, REPLY)                                                 \
    X(CUFFT_INVALID_DEVICE, 0xB, REPLY)                                                            \
    X(CUFFT_PARSE_ERROR, 0xC, REPLY)                                                               \
    X(CUFFT_NO_WORKSPACE, 0xD, REPLY)                                                              \
    X(CUFFT_NOT_IMPLEMENTED, 0xE, REPLY)                                                           \
    X(CUFFT_LICENSE_ERROR, 0xF, REPLY)                                                             \
    X(CUFFT_NOT_SUPPORTED, 0x10, REPLY)                                                            \
    X(CUFFT_MISSING_DEPENDENCY, 0x11, REPLY)                                                       \
    X(CUFFT_NVRTC_FAILURE, 0x12, REPLY)                                                            \
    X(CUFFT_NVJITLINK_FAILURE, 0x13, REPLY)                                                        \
    X(CUFFT_NVSHMEM_FAILURE, 0x14, REPLY)

/* Linux's signals, as the reason of a process's end; REPLY: its default action ends nothing. The
 * real-time signals follow. */
#define SIGNAL_ROWS(X)                                                                             \
    X(SIGHUP, 1, RESTART_CONTEXT)                                                                  \
    X(SIGINT, 2, RESTART_CONTEXT)                                                                  \
    X(SIGQUIT, 3, RESTART_CONTEXT)                                                                 \
    X(SIGILL, 4, RESTART_CONTEXT)                                                                  \
    X(SIGTRAP, 5, RESTART_CONTEXT)                                                                 \
    X(SIGABRT, 6, RESTART_CONTEXT)                                                                 \
    X(SIGBUS, 7, RESTART_CONTEXT)                                                                  \
    X(SIGFPE, 8, RESTART_CONTEXT)                                                                  \
    X(SIGKILL, 9, RESTART_CONTEXT)                                                                 \
    X(SIGUSR1, 10, RESTART_CONTEXT)                                                                \
    X(SIGSEGV, 11, RESTART_CONTEXT)                                                                \
    X(SIGUSR2, 12, RESTART_CONTEXT)                                                                \
    X(SIGPIPE, 13, RESTART_CONTEXT)                                                                \
    X(SIGALRM, 14, RESTART_CONTEXT)                                                                \
    X(SIGTERM, 15, RESTART_CONTEXT)                                                                \
    X(SIGSTKFLT, 16, RESTART_CONTEXT)                                                              \
    X(SIGCHLD, 17, REPLY)                                                                          \
    X(SIGCONT, 18, REPLY)                                                                          \
    X(SIGSTOP, 19, REPLY)                                                                          \
    X(SIGTSTP, 20, REPLY)                                                                          \
    X(SIGTTIN, 21, REPLY)                                                                          \
    X(SIGTTOU, 22, REPLY)                                                                          \
    X(SIGURG, 23, REPLY)                                                                           \
    X(SIGXCPU, 24, RESTART_CONTEXT)                                                                \
    X(SIGXFSZ, 25, RESTART_CONTEXT)                                                                \
    X(SIGVTALRM, 26, RESTART_CONTEXT)                                                              \
    X(SIGPROF, 27, RESTART_CONTEXT)                                                                \
    X(SIGWINCH, 28, REPLY)                                                                         \
    X(SIGPOLL, 29, RESTART_CONTEXT)                                                                \
    X(SIGPWR, 30, RESTART_CONTEXT)                                                                 \
    X(SIGSYS, 31, RESTART_CONTEXT)

/* Codes without a row have the domain's default. */
#define ERRNO_ROWS(X) X(ENOMEM, 12, TRIM)

/* Drills: errors that a program asks for, one for each directive. */
#define PROBE_ROWS(X)                                                                              \
    X(PROBE_LIBRARY_ERROR, 1, REPLY)                                                               \
    X(PROBE_ACTOR_ERROR, 2, RESTART_ACTOR)                                                         \
    X(PROBE_OUT_OF_MEMORY, 3, TRIM)                                                                \
    X(PROBE_DEVICE_GONE, 4, STOP)

typedef struct verdict {
    const char *name;
    trp__directive directive;
    bool sticky;
} verdict;

#define VERDICT_REPLY           TRP__DIRECTIVE_REPLY, false
#define VERDICT_TRIM            TRP__DIRECTIVE_TRIM, false
#define VERDICT_RESTART_ACTOR   TRP__DIRECTIVE_RESTART_ACTOR, false
#define VERDICT_RESTART_CONTEXT TRP__DIRECTIVE_RESTART_CONTEXT, false
#define VERDICT_STICKY          TRP__DIRECTIVE_RESTART_CONTEXT, true
#define VERDICT_STOP            TRP__DIRECTIVE_STOP, false

#define ROW(name, code, verdict_)                                                                  \
    case code:                                                                                     \
        return (verdict){#name, VERDICT_##verdict_};

/* A lookup of one domain; `other` is for codes without a row. */
#define DEFINE_LOOKUP(domain, ROWS, other)                                                         \
    static verdict look_up_##domain(int code)                                                      \
    {                                                                                              \
        switch (code) {                                                                            \
            ROWS(ROW)                                                                              \
        default:                                                                                   \
            return (verdict){NULL, VERDICT_##other};                                               \
        }                                                                                          \
    }

#define NO_ROWS(X)

DEFINE_LOOKUP(cuda, CUDA_ROWS, RESTART_CONTEXT)
DEFINE_LOOKUP(cublas, CUBLAS_ROWS, RESTART_ACTOR)
DEFINE_LOOKUP(cufft, CUFFT_ROWS, RESTART_ACTOR)
DEFINE_LOOKUP(usual_signal, SIGNAL_ROWS, RESTART_CONTEXT)
DEFINE_LOOKUP(exit, NO_ROWS, RESTART_CONTEXT)
DEFINE_LOOKUP(os, ERRNO_ROWS, REPLY)
DEFINE_LOOKUP(probe, PROBE_ROWS, REPLY)

static verdict look_up_signal(int number)
{
    enum { REAL_TIME = 32, LAST = 64 };
    static const char *const names[] = {
        "SIG32", "SIG33", "SIG34", "SIG35", "SIG36", "SIG37", "SIG38", "SIG39", "SIG40",
        "SIG41", "SIG42", "SIG43", "SIG44", "SIG45", "SIG46", "SIG47", "SIG48", "SIG49",
        "SIG50", "SIG51", "SIG52", "SIG53", "SIG54", "SIG55", "SIG56", "SIG57", "SIG58",
        "SIG59", "SIG60", "SIG61", "SIG62", "SIG63", "SIG64"};
    if (number >= REAL_TIME && number <= LAST)
        return (verdict){names[number - REAL_TIME], VERDICT_RESTART_CONTEXT};
    return look_up_usual_signal(number);
}

static verdict look_up(const char *domain, int code)
{
    static const struct {
        const char *domain;
        verdict (*look_up)(int code);
    } domains[] = {
        {"cuda", look_up_cuda},     {"cublas", look_up_cublas}, {"cufft", look_up_cufft},
        {"signal", look_up_signal}, {"exit", look_up_exit},     {"errno", look_up_os},
        {"probe", look_up_probe},
    };
    for (size_t i = 0; i < sizeof domains / sizeof *domains; i++) {
        if (strcmp(domain, domains[i].domain) == 0)
            return domains[i].look_up(code);
    }
    return (verdict){NULL, VERDICT_REPLY};
}

trp__directive trp__directive_of(const char *domain, int code)
{
    return look_up(domain, code).directive;
}

bool trp__code_sticky(const char *domain, int code)
{
    return look_up(domain, code).sticky;
}

const char *trp__code_name(const char *domain, int code)
{
    return look_up(domain, code).name;
}
