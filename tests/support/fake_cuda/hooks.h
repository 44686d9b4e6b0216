/* What the fake driver offers beside the CUDA driver's functions: to a fake library that works on
 * its streams, and to tests, which take these from the loaded driver with dlsym. */
#ifndef TESTS_FAKE_CUDA_HOOKS_H
#define TESTS_FAKE_CUDA_HOOKS_H

#include "driver/cuda.h"

#define FAKE_API __attribute__((visibility("default")))

enum { FAKE_ARGUMENT_BYTES = 256 };

/* Puts a function behind the work in a stream. `bytes` of `arguments` are copied now and given to
 * it then. NULL is the default stream. A result as of a launch. */
FAKE_API int fake_cuda_enqueue(trp__cu_stream stream, void (*run)(void *arguments),
                               const void *arguments, size_t bytes);

/* If what goes into a stream is being recorded: records a function there, to be called at every
 * launch of the graph with `argument`, which drop() gets in the end. False: it is not. */
FAKE_API bool fake_cuda_record(trp__cu_stream stream, void (*run)(void *argument),
                               void (*drop)(void *argument), void *argument);

/* For a function that runs on a stream: the bytes behind a device address, which the processor
 * can't use itself. NULL: they are not mapped, or not for this; then the stream has faulted, and
 * the function must return. What was got must be let go. */
typedef struct fake_pin {
    void *at;
    struct fake_range *range;
} fake_pin;

FAKE_API void *fake_cuda_reach(fake_pin *pin, uint64_t address, size_t bytes, bool write);
/* The same for at most *bytes, which becomes how many lie there in one piece. */
FAKE_API void *fake_cuda_reach_some(fake_pin *pin, uint64_t address, size_t *bytes, bool write);
FAKE_API void fake_cuda_let_go(fake_pin *pin);

/* True when the work on all streams is to stop at once, since one has faulted. */
FAKE_API bool fake_cuda_stopping(void);

/* Work on a stream has taken so long by the device's clock, where a test says what is fast. */
FAKE_API void fake_cuda_took(int64_t ns);

/* Whether the calling thread could work now: 0, or what its next call would return. */
FAKE_API int fake_cuda_usable(void);

/* What is there that the program made and has not given back. */
typedef struct fake_counts {
    size_t contexts, streams, events, modules, memories, reservations, mappings, allocations,
        registrations, graphs;
    uint64_t bytes; /* of device memory that this process has taken */
} fake_counts;

FAKE_API fake_counts fake_cuda_count(void);

/* Of the fake cuBLASLt, in its own library. */
typedef enum fake_cublaslt_call {
    FAKE_CUBLASLT_HEURISTIC, /* cublasLtMatmulAlgoGetHeuristic */
    FAKE_CUBLASLT_CHECK,     /* cublasLtMatmulAlgoCheck */
    FAKE_CUBLASLT_MATMUL,    /* cublasLtMatmul */
    FAKE_CUBLASLT_CALLS,
} fake_cublaslt_call;

typedef struct fake_cublaslt_counts {
    uint64_t calls[FAKE_CUBLASLT_CALLS];         /* of this process so far, failed ones too */
    size_t handles, descs, layouts, preferences; /* not given back */
} fake_cublaslt_counts;

FAKE_API fake_cublaslt_counts fake_cublaslt_count(void);

/* The next `times` calls of one kind, after `skip` more that are as usual, give `result` and do
 * nothing. Replaces what was set before. */
FAKE_API void fake_cublaslt_fail(fake_cublaslt_call call, uint64_t skip, uint64_t times,
                                 int result);

#endif
