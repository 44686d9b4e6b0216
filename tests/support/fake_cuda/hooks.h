/* Functions of the fake driver beside those of the CUDA driver: for fake libraries that work on its
 * streams, and for tests, which find them in the loaded driver by dlsym(). */
#ifndef TESTS_FAKE_CUDA_HOOKS_H
#define TESTS_FAKE_CUDA_HOOKS_H

#include "driver/cuda.h"

#define FAKE_API __attribute__((visibility("default")))

enum { FAKE_ARGUMENT_BYTES = 256 };

/* Enqueues a function in a stream, NULL for the default one. Copies `bytes` of `arguments` now, and
 * passes them to the function. Returns the result of a launch. */
FAKE_API int fake_cuda_enqueue(trp__cu_stream stream, void (*run)(void *arguments),
                               const void *arguments, size_t bytes);

/* If the stream records a graph, adds a function that every launch of the graph calls with
 * `argument`; drop() gets the argument at the end. False: it does not record. */
FAKE_API bool fake_cuda_record(trp__cu_stream stream, void (*run)(void *argument),
                               void (*drop)(void *argument), void *argument);

/* For a function that runs on a stream: returns the bytes at a device address, which the processor
 * can't use itself. NULL: they are not mapped, or not for this access; the stream has faulted, and
 * the function must return. The caller must release the pin. */
typedef struct fake_pin {
    void *at;
    struct fake_range *range;
} fake_pin;

FAKE_API void *fake_cuda_reach(fake_pin *pin, uint64_t address, size_t bytes, bool write);
/* The same for at most *bytes, which gets the number of bytes in one piece. */
FAKE_API void *fake_cuda_reach_some(fake_pin *pin, uint64_t address, size_t *bytes, bool write);
FAKE_API void fake_cuda_let_go(fake_pin *pin);

/* Returns whether the work on all streams must stop at once, as one of them has faulted. */
FAKE_API bool fake_cuda_stopping(void);

/* Adds the time of work on a stream to the device's clock, where a test lists fast kernels. */
FAKE_API void fake_cuda_took(int64_t ns);

/* Returns 0 if the calling thread can use the driver now, otherwise the result of its next call. */
FAKE_API int fake_cuda_usable(void);

/* Objects that the program has created and not released. */
typedef struct fake_counts {
    size_t contexts, streams, events, modules, memories, reservations, mappings, allocations,
        registrations, graphs;
    uint64_t bytes; /* device memory that this process has allocated */
} fake_counts;

FAKE_API fake_counts fake_cuda_count(void);

/* Functions of the fake cuBLASLt, in its own library. */
typedef enum fake_cublaslt_call {
    FAKE_CUBLASLT_HEURISTIC, /* cublasLtMatmulAlgoGetHeuristic */
    FAKE_CUBLASLT_CHECK,     /* cublasLtMatmulAlgoCheck */
    FAKE_CUBLASLT_MATMUL,    /* cublasLtMatmul */
    FAKE_CUBLASLT_CALLS,
} fake_cublaslt_call;

typedef struct fake_cublaslt_counts {
    uint64_t calls[FAKE_CUBLASLT_CALLS];         /* of this process so far, including failed ones */
    size_t handles, descs, layouts, preferences; /* not released */
} fake_cublaslt_counts;

FAKE_API fake_cublaslt_counts fake_cublaslt_count(void);

/* The next `times` calls of one kind, after `skip` normal ones, return `result` and do nothing.
 * Replaces an earlier setting. */
FAKE_API void fake_cublaslt_fail(fake_cublaslt_call call, uint64_t skip, uint64_t times,
                                 int result);

#endif
