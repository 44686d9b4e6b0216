/* What the parts of the fake CUDA driver share. README.md says what it is for.
 *
 * One lock guards all of it. It is let go only while an operation's own work runs on a stream's
 * thread. Every function of the driver begins with fake_enter() and ends with fake_leave(). */
#ifndef TESTS_FAKE_CUDA_FAKE_H
#define TESTS_FAKE_CUDA_FAKE_H

#include "support/fake_cuda/hooks.h"

#include <pthread.h>
#include <stdatomic.h>

/* Every function of the table is declared as exported, and defined somewhere here: the library is
 * linked with all references resolved, and exports.c refers to each. */
#define FAKE_DECLARE(result, name, parameters) FAKE_API result name parameters;
TRP__CUDA_FUNCTIONS(FAKE_DECLARE)
TRP__CUDA_OPTIONAL_FUNCTIONS(FAKE_DECLARE)
#undef FAKE_DECLARE

/* The results that the fake gives, by themselves: the driver's numbers must not come from the code
 * under test. Source: CUDA Driver API Reference, CUresult. */
#define FAKE_RESULTS(X)                                                                            \
    X(SUCCESS, 0, "no error")                                                                      \
    X(ERROR_INVALID_VALUE, 1, "invalid argument")                                                  \
    X(ERROR_OUT_OF_MEMORY, 2, "out of memory")                                                     \
    X(ERROR_NOT_INITIALIZED, 3, "initialization error")                                            \
    X(ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                                  \
    X(ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                         \
    X(ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")                                  \
    X(ERROR_INVALID_CONTEXT, 201, "invalid device context")                                        \
    X(ERROR_NO_BINARY_FOR_GPU, 209, "no kernel image is available for execution on the device")    \
    X(ERROR_ECC_UNCORRECTABLE, 214, "uncorrectable ECC error encountered")                         \
    X(ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")                                      \
    X(ERROR_INVALID_HANDLE, 400, "invalid resource handle")                                        \
    X(ERROR_NOT_FOUND, 500, "named symbol not found")                                              \
    X(ERROR_NOT_READY, 600, "device not ready")                                                    \
    X(ERROR_ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")                      \
    X(ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch")               \
    X(ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")                                     \
    X(ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712,                                                   \
      "part or all of the requested memory range is already mapped")                               \
    X(ERROR_HOST_MEMORY_NOT_REGISTERED, 713, "pointer does not correspond to a registered region") \
    X(ERROR_MISALIGNED_ADDRESS, 716, "misaligned address")                                         \
    X(ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")                                      \
    X(ERROR_NOT_SUPPORTED, 801, "operation not supported")                                         \
    X(ERROR_UNKNOWN, 999, "unknown error")

typedef enum fake_result {
#define FAKE_RESULT(name, code, text) FAKE_##name = code,
    FAKE_RESULTS(FAKE_RESULT)
#undef FAKE_RESULT
} fake_result;

enum {
    FAKE_DEVICES = 16,
    FAKE_QUEUES = 64,
    FAKE_STREAM_DEPTH = 1024,   /* operations in a stream; then a call waits for room */
    FAKE_GRANULE = 2 << 20,     /* of memory that can be mapped */
    FAKE_PIECE_BYTES = 1 << 20, /* of a copy, between looks at whether all must stop */
};

typedef struct fake_stream fake_stream;

/* The primary context of a device: a context's handle is the address of this. */
typedef struct fake_context {
    int device;
    unsigned int retained;
    fake_stream *standard; /* of calls with the stream NULL; made when first used */
} fake_context;

typedef struct fake_settings {
    int devices;
    int queues;
    uint64_t memory_bytes; /* of each device */
    uint64_t address_shift;
    int64_t report_ns;
    int64_t write_ns;               /* before each write of a word */
    int attribute, attribute_value; /* an answer that is changed; attribute 0: none */
    uint64_t
        fail_call; /* the call, from cuInit on, that fails for no fault of the caller; 0: none */
    int fail_result;
    const char *leaks; /* file for the counts at the program's end; NULL: none */
} fake_settings;

typedef struct fake_driver {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* callers that wait for a stream's progress, or for room */
    pthread_cond_t quiet;   /* for the stream that reports a fault: nothing is being executed */
    unsigned int waiters;   /* of `changed` */
    fake_settings settings;
    bool initialised;
    atomic_bool forked; /* this process is a child of the one that called cuInit */
    fake_context context[FAKE_DEVICES];
    uint64_t taken[FAKE_DEVICES]; /* bytes of device memory */

    uint64_t calls; /* but for those that can't fail */

    bool faulted;         /* a stream has faulted; it will be told */
    atomic_bool stopping; /* nothing may be executed any more */
    unsigned int executing;
    int broken; /* what every call returns since a fault was told; 0: none was */
} fake_driver;

extern fake_driver fake;

/* Calls. */

typedef enum fake_need {
    FAKE_NEEDS_INIT,    /* cuInit, no context; says nothing of faults either */
    FAKE_NEEDS_DRIVER,  /* no context, but a process without a fault */
    FAKE_NEEDS_CONTEXT, /* a context that is current in the calling thread */
    FAKE_ENDS_DRIVER,   /* as the two before; what gives something back does not fail on demand, */
    FAKE_ENDS_CONTEXT,  /* since nobody could do anything about it */
} fake_need;

/* Takes the lock and gives 0; or gives what the call must return, without the lock. */
int fake_enter(fake_need need);
/* Gives the lock back, and its argument. */
int fake_leave(int result);

/* The context that is current in this thread, after fake_enter(FAKE_NEEDS_CONTEXT). */
fake_context *fake_current(void);

int64_t fake_now(void);

/* The device's: the machine's, or what kernels have taken where a test says which are fast. */
int64_t fake_cutlass_clock(void);
/* Waits for `changed`. */
void fake_wait(void);
void fake_announce(void);

/* Handles: never used twice, so one that is gone is found to be so. */

typedef enum fake_kind {
    FAKE_STREAM = 1,
    FAKE_EVENT,
    FAKE_MODULE,
    FAKE_FUNCTION,
    FAKE_MEMORY,
    FAKE_GRAPH,
    FAKE_GRAPH_EXEC,
    FAKE_KINDS,
} fake_kind;

/* 0: no memory. */
uintptr_t fake_handle_new(fake_kind kind, void *object);
/* NULL: there is no such thing, or none any more. */
void *fake_handle_get(fake_kind kind, uintptr_t handle);
void fake_handle_drop(uintptr_t handle);
size_t fake_handle_count(fake_kind kind);

/* Memory. */

typedef struct fake_range fake_range;

/* The part of [address, address + *bytes) that lies in one range: its address for the processor,
 * and its length in *bytes. NULL: the first byte is not mapped, or not for this access. While it is
 * pinned it can be used without the lock. */
char *fake_pin_range(uint64_t address, size_t *bytes, bool write, fake_range **range);
void fake_unpin_range(fake_range *range);

/* Whether all of a range is mapped, whatever for: what a call can know before the work is done. */
bool fake_known(uint64_t address, size_t bytes);

/* The word at a device's address of 8 aligned bytes; NULL as above. */
_Atomic uint64_t *fake_word(uint64_t address, bool write);

/* As cuMemAlloc, with the lock held. */
int fake_allocate(trp__cu_address *address, size_t bytes);
/* Frees what cuMemAlloc gave; cuMemFreeAsync has claimed it before. */
bool fake_allocation_claim(uint64_t address);
void fake_allocation_free(uint64_t address);

/* Everything that is a context's, when it goes. */
void fake_memory_clear(int device);
void fake_memory_count(fake_counts *counts);

/* Streams. */

typedef struct fake_recording fake_recording;
typedef struct fake_graph fake_graph;
struct fake_kernel;

typedef enum fake_op_kind {
    FAKE_OP_COPY,
    FAKE_OP_FILL,
    FAKE_OP_WRITE,
    FAKE_OP_WAIT,
    FAKE_OP_RECORD,
    FAKE_OP_EVENT_WAIT,
    FAKE_OP_KERNEL,
    FAKE_OP_FUNCTION,
    FAKE_OP_FREE,
    FAKE_OP_GRAPH,
} fake_op_kind;

typedef struct fake_op {
    struct fake_op *next;
    fake_op_kind kind;
    uint64_t turn; /* its place in the stream's hardware queue */
    union {
        struct {
            uint64_t to, from;
            size_t bytes;
            void *host_to; /* pageable memory of a caller that waits; NULL: use the address */
            const void *host_from;
        } copy;
        struct {
            uint64_t to;
            size_t count;
            uint32_t value, width;
        } fill;
        struct {
            uint64_t address, value;
        } word;                    /* WRITE, WAIT */
        fake_recording *recording; /* RECORD, EVENT_WAIT */
        struct {
            const struct fake_kernel *kernel;
            uint64_t *parameter; /* its own, until it was run */
            unsigned grid[3], block, cluster;
            size_t shared_bytes;
        } kernel;
        struct {
            void (*run)(void *arguments);
            uint64_t arguments[FAKE_ARGUMENT_BYTES / 8];
        } function;
        uint64_t address; /* FREE */
        fake_graph *graph;
    };
} fake_op;

/* The stream of a handle, or the current context's own for NULL; NULL if there is none. */
fake_stream *fake_stream_get(trp__cu_stream handle);
/* Copies `op` into the stream; waits for room. The lock is let go meanwhile. */
int fake_submit(fake_stream *stream, const fake_op *op);
/* Wait for all that was put into the stream, or into all streams, before. */
int fake_stream_drain(fake_stream *stream);
int fake_drain_all(void);
/* Whether work of a stream's thread must come to an end now; needs no lock. */
bool fake_interrupted(void);
/* From an operation that runs: it ends with a fault. */
void fake_fault(int result);
/* Where a stream keeps what is recorded of it, NULL if nothing is; NULL: there is no such stream.
 */
fake_graph **fake_stream_capture(trp__cu_stream handle);
/* Ends all streams of a context, whatever is in them. */
void fake_streams_clear(fake_context *context);

/* Graphs. The lock is held, but when one runs. */

void fake_graph_keep(fake_graph *graph);
void fake_graph_drop(fake_graph *graph);
void fake_graph_run(const fake_graph *graph);

/* Kernels. */

typedef struct fake_kernel {
    const char *name;
    void (*run)(const uint64_t *parameter); /* each in as many words as it needs */
    size_t parameter_count;
    const char *variable; /* of the module, whose address is one more word; NULL: none */
    void (*threads)(const void *parameter); /* in place of run: one thread of it, see device.hpp */
} fake_kernel;

/* NULL: none of this name has been written for the fake. */
const fake_kernel *fake_kernel_find(const char *name);

/* Those of the cutlass actor, see cutlass.c and cutlass_build.c. */
void fake_cutlass_build(const uint64_t *parameter);
void fake_cutlass_prepare(const uint64_t *parameter);
void fake_cutlass_run(const uint64_t *parameter);

#endif
