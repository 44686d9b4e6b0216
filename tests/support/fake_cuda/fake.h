/* Shared by the files of the fake CUDA driver; README.md says what it is for. One lock guards
 * everything, and is released only while the work of an operation runs on a stream's thread. Every
 * function of the driver begins with fake_enter() and ends with fake_leave(). */
#ifndef TESTS_FAKE_CUDA_FAKE_H
#define TESTS_FAKE_CUDA_FAKE_H

#include "support/fake_cuda/hooks.h"

#include <pthread.h>
#include <stdatomic.h>

/* Declares every function of the table as exported. The library is linked with all references
 * resolved, and exports.c refers to each, so that each is defined in some file. */
#define FAKE_DECLARE(result, name, parameters) FAKE_API result name parameters;
TRP__CUDA_FUNCTIONS(FAKE_DECLARE)
TRP__CUDA_OPTIONAL_FUNCTIONS(FAKE_DECLARE)
#undef FAKE_DECLARE

/* The results that the fake returns. Defined here, so that the driver's numbers do not come from
 * the code under test. Source: CUDA Driver API Reference, CUresult. */
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
    FAKE_STREAM_DEPTH = 1024,   /* operations in a stream; a call waits for room beyond these */
    FAKE_GRANULE = 2 << 20,     /* bytes: unit of mapped memory */
    FAKE_PIECE_BYTES = 1 << 20, /* bytes that are copied between two checks for a stop */
};

typedef struct fake_stream fake_stream;

/* The primary context of a device. The handle of the context is the address of this struct. */
typedef struct fake_context {
    int device;
    unsigned int retained;
    fake_stream *standard; /* stream of calls with stream NULL; made at first use */
} fake_context;

typedef struct fake_settings {
    int devices;
    int queues;
    uint64_t memory_bytes; /* memory of each device */
    uint64_t address_shift;
    int64_t report_ns;
    int64_t write_ns;               /* before each write of a word */
    int attribute, attribute_value; /* an attribute whose value is changed; 0: none */
    uint64_t
        /* number of the call, from cuInit on, that fails without a fault of the caller; 0: none */
        fail_call;
    int fail_result;
    const char *leaks; /* file for the counts at the end of the program; NULL: none */
} fake_settings;

typedef struct fake_driver {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* for callers that wait for the progress of a stream, or for room */
    pthread_cond_t quiet;   /* for the stream that reports a fault: no operation runs */
    unsigned int waiters;   /* threads that wait for `changed` */
    fake_settings settings;
    bool initialised;
    atomic_bool forked; /* this process is a child of the process that called cuInit */
    fake_context context[FAKE_DEVICES];
    uint64_t taken[FAKE_DEVICES]; /* allocated bytes of device memory */

    uint64_t calls; /* without those that cannot fail */

    bool faulted;         /* a stream has faulted, and will report it */
    atomic_bool stopping; /* no operation may run any more */
    unsigned int executing;
    int broken; /* result of every call since a fault was reported; 0: none was */
} fake_driver;

extern fake_driver fake;

/* Calls. */

typedef enum fake_need {
    FAKE_NEEDS_INIT,    /* cuInit, but no context; succeeds after a fault */
    FAKE_NEEDS_DRIVER,  /* no context, but a process without a fault */
    FAKE_NEEDS_CONTEXT, /* a context that is current in the calling thread */
    /* like the two before, for calls that release something. They never fail on demand, */
    FAKE_ENDS_DRIVER,
    FAKE_ENDS_CONTEXT, /* as a caller could not handle it */
} fake_need;

/* Takes the lock and returns 0, or returns the result of the call without the lock. */
int fake_enter(fake_need need);
/* Releases the lock and returns its argument. */
int fake_leave(int result);

/* Returns the current context of this thread, after fake_enter(FAKE_NEEDS_CONTEXT). */
fake_context *fake_current(void);

int64_t fake_now(void);

/* The clock of the device: that of the machine or, where a test lists fast kernels, the sum of
 * their times. */
int64_t fake_cutlass_clock(void);
/* Waits for `changed`. */
void fake_wait(void);
void fake_announce(void);

/* Handles are never used twice, so that stale ones are found. */

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

/* Returns a new handle; 0: out of memory. */
uintptr_t fake_handle_new(fake_kind kind, void *object);
/* Returns the object; NULL: it does not exist, or no longer. */
void *fake_handle_get(fake_kind kind, uintptr_t handle);
void fake_handle_drop(uintptr_t handle);
size_t fake_handle_count(fake_kind kind);

/* Memory. */

typedef struct fake_range fake_range;

/* Pins the part of [address, address + *bytes) in one range, which may then be used without the
 * lock. Returns its address for the processor, and its length in *bytes. NULL: the first byte is
 * not mapped, or not for this access. */
char *fake_pin_range(uint64_t address, size_t *bytes, bool write, fake_range **range);
void fake_unpin_range(fake_range *range);

/* Returns whether a range is mapped for any access, which is what a call can check before the work
 * runs. */
bool fake_known(uint64_t address, size_t bytes);

/* Returns the word at a device address of 8 aligned bytes; NULL: as above. */
_Atomic uint64_t *fake_word(uint64_t address, bool write);

/* Like cuMemAlloc, with the lock held. */
int fake_allocate(trp__cu_address *address, size_t bytes);
/* Frees memory of cuMemAlloc; cuMemFreeAsync has claimed it before. */
bool fake_allocation_claim(uint64_t address);
void fake_allocation_free(uint64_t address);

/* Release everything that a context owns, when it ends. */
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
    uint64_t turn; /* number in the stream's hardware queue */
    union {
        struct {
            uint64_t to, from;
            size_t bytes;
            void *host_to; /* pageable memory of a waiting caller; NULL: use the address */
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
            uint64_t *parameter; /* owned by the operation until it has run */
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

/* Returns the stream of a handle, or of the current context for NULL; NULL: there is none. */
fake_stream *fake_stream_get(trp__cu_stream handle);
/* Copies `op` into the stream; waits for room, with the lock released. */
int fake_submit(fake_stream *stream, const fake_op *op);
/* Wait for all earlier operations of the stream, or of all streams. */
int fake_stream_drain(fake_stream *stream);
int fake_drain_all(void);
/* Returns whether the work of a stream's thread must stop now; needs no lock. */
bool fake_interrupted(void);
/* Ends the running operation with a fault. */
void fake_fault(int result);
/* Returns where a stream stores the graph that it records, which is NULL if it records none; NULL:
 * there is no such stream. */
fake_graph **fake_stream_capture(trp__cu_stream handle);
/* Ends all streams of a context, with pending operations. */
void fake_streams_clear(fake_context *context);

/* Graphs. The lock is held, except in fake_graph_run(). */

void fake_graph_keep(fake_graph *graph);
void fake_graph_drop(fake_graph *graph);
void fake_graph_run(const fake_graph *graph);

/* Kernels. */

typedef struct fake_kernel {
    const char *name;
    void (*run)(const uint64_t *parameter); /* parameters, each in as many words as it needs */
    size_t parameter_count;
    /* variable of the module, whose address is passed as one more word; NULL: none */
    const char *variable;
    void (*threads)(const void *parameter); /* replaces `run`: one thread, see device.hpp */
} fake_kernel;

/* Returns the kernel; NULL: the fake has none of this name. */
const fake_kernel *fake_kernel_find(const char *name);

/* Kernels of the cutlass actor, see cutlass.c and cutlass_build.c. */
void fake_cutlass_build(const uint64_t *parameter);
void fake_cutlass_prepare(const uint64_t *parameter);
void fake_cutlass_run(const uint64_t *parameter);

#endif
