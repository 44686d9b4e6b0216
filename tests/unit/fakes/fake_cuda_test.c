/* The fake driver itself: what it allows, what it refuses, and what a fault does. Each case runs in
 * a process of its own, since a fault breaks a process for good. */
#include "support/unit.h"

#include "base/os/clock.h"
#include "driver/cuda.h"
#include "support/fake_cuda/hooks.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRANULE ((size_t)2 << 20)

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    ALREADY_REGISTERED = 712,
    MISALIGNED_ADDRESS = 716,
    LAUNCH_FAILED = 719,
};

static const trp__cuda *cu;
static __typeof__(&fake_cuda_count) count_all;

/* In the child process of a case: no cmocka there. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define IS(call, wanted)                                                                           \
    do {                                                                                           \
        int result_ = (call);                                                                      \
        if (result_ != (wanted)) {                                                                 \
            fprintf(stderr, "%s:%d: %s gave %d, expected %d\n", __FILE__, __LINE__, #call,         \
                    result_, (int)(wanted));                                                       \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define OK(call) IS(call, 0)

static void load(void)
{
    trp_error error = {0};
    if (trp__cuda_load(&cu, &error) != TRP_OK) {
        fprintf(stderr, "%s\n", error.message);
        _exit(1);
    }
    void *driver = dlopen(trp__cuda_path(), RTLD_NOW | RTLD_NOLOAD);
    CHECK(driver);
    *(void **)&count_all = dlsym(driver, "fake_cuda_count");
    CHECK(count_all);
}

static trp__cu_context context;
static trp__cu_stream stream;

static void open_context(void)
{
    load();
    OK(cu->cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu->cuCtxSetCurrent(context));
    OK(cu->cuStreamCreate(&stream, 1));
}

/* Everything that a case made is given back. */
static void close_context(void)
{
    OK(cu->cuStreamDestroy_v2(stream));
    fake_counts c = count_all();
    CHECK(c.contexts == 1 && c.streams + c.events + c.modules + c.memories + c.reservations == 0);
    CHECK(c.mappings + c.allocations + c.registrations == 0 && c.bytes == 0);
    OK(cu->cuDevicePrimaryCtxRelease_v2(0));
}

static trp__cu_memory create(size_t bytes)
{
    trp__cu_memory memory = 0;
    const trp__cu_allocation_prop prop = {.type = TRP__CU_MEM_ALLOCATION_TYPE_PINNED,
                                          .requestedHandleTypes =
                                              TRP__CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                          .location = {.type = TRP__CU_MEM_LOCATION_TYPE_DEVICE}};
    OK(cu->cuMemCreate(&memory, bytes, &prop, 0));
    return memory;
}

static int set_access(trp__cu_address at, size_t bytes, int flags)
{
    const trp__cu_access_desc access = {.location = {.type = TRP__CU_MEM_LOCATION_TYPE_DEVICE},
                                        .flags = (trp__cu_access_flags)flags};
    return cu->cuMemSetAccess(at, bytes, &access, 1);
}

/* Memory of one granule that can be written, as an arena is. */
static trp__cu_address map_granule(void)
{
    trp__cu_address at = 0;
    trp__cu_memory memory = create(GRANULE);
    OK(cu->cuMemAddressReserve(&at, 2 * GRANULE, 0, 0, 0));
    OK(cu->cuMemMap(at, GRANULE, 0, memory, 0));
    OK(set_access(at, GRANULE, 3));
    OK(cu->cuMemRelease(memory));
    return at;
}

static void unmap_granule(trp__cu_address at)
{
    OK(cu->cuMemUnmap(at, GRANULE));
    OK(cu->cuMemAddressFree(at, 2 * GRANULE));
}

static uint64_t words[8] __attribute__((aligned(64)));

static void register_words(void)
{
    OK(cu->cuMemHostRegister_v2(words, sizeof words, 3));
}

static trp__cu_address word_at(int index)
{
    trp__cu_address at = 0;
    OK(cu->cuMemHostGetDevicePointer_v2(&at, &words[index], 0));
    return at;
}

static uint64_t word(int index)
{
    return __atomic_load_n(&words[index], __ATOMIC_ACQUIRE);
}

static void set_word(int index, uint64_t value)
{
    __atomic_store_n(&words[index], value, __ATOMIC_RELEASE);
}

static trp__cu_function kernel(const char *name)
{
    static const char ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                              ".visible .entry probe_spin(.param .u64 duration)\n{ ret; }\n"
                              ".visible .entry probe_store(.param .u64 address) { ret; }\n"
                              ".visible .entry probe_trap() { trap; }\n"
                              ".visible .entry unheard_of(.param .f32 x, .param .u64 y) { ret; }\n";
    trp__cu_module module;
    trp__cu_function function = NULL;
    OK(cu->cuModuleLoadData(&module, ptx));
    IS(cu->cuModuleGetFunction(&function, module, "unheard_of"), NOT_FOUND);
    IS(cu->cuModuleGetFunction(&function, module, "not_there"), NOT_FOUND);
    OK(cu->cuModuleGetFunction(&function, module, name));
    return function;
}

static int launch(trp__cu_function function, trp__cu_stream to, uint64_t argument)
{
    void *arguments[] = {&argument};
    return cu->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, to, arguments, NULL);
}

/* ---- cases ---- */

static void no_context(void)
{
    trp__cu_stream none;
    load();
    create(GRANULE); /* needs none */
    IS(cu->cuStreamCreate(&none, 1), INVALID_CONTEXT);
    pid_t child = fork();
    if (child == 0) {
        int count;
        _exit(cu->cuDeviceGetCount(&count) == NOT_INITIALIZED ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void stale_handles(void)
{
    open_context();
    trp__cu_stream other;
    trp__cu_event event;
    trp__cu_memory memory = create(GRANULE);
    OK(cu->cuStreamCreate(&other, 1));
    OK(cu->cuEventCreate(&event, 2));
    OK(cu->cuStreamDestroy_v2(other));
    OK(cu->cuEventDestroy_v2(event));
    OK(cu->cuMemRelease(memory));
    IS(cu->cuStreamQuery(other), INVALID_HANDLE);
    IS(cu->cuStreamDestroy_v2(other), INVALID_HANDLE);
    IS(cu->cuEventRecord(event, stream), INVALID_HANDLE);
    IS(cu->cuMemRelease(memory), INVALID_VALUE);
    close_context();
}

static void mapping_rules(void)
{
    open_context();
    trp__cu_address at = 0;
    trp__cu_memory memory = create(2 * GRANULE);
    int fd = -1;
    OK(cu->cuMemAddressReserve(&at, 4 * GRANULE, 0, 0, 0));
    IS(cu->cuMemMap(at + 4096, GRANULE, 0, memory, 0), INVALID_VALUE);
    IS(cu->cuMemMap(at, 4 * GRANULE, 0, memory, 0), INVALID_VALUE);
    IS(cu->cuMemMap(at + 3 * GRANULE, 2 * GRANULE, 0, memory, 0), INVALID_VALUE);
    IS(set_access(at, 2 * GRANULE, 3), INVALID_VALUE);
    OK(cu->cuMemMap(at, 2 * GRANULE, 0, memory, 0));
    IS(cu->cuMemMap(at + GRANULE, 2 * GRANULE, 0, memory, 0), INVALID_VALUE);
    IS(set_access(at, GRANULE, 3), INVALID_VALUE);
    IS(set_access(at, 3 * GRANULE, 3), INVALID_VALUE);
    IS(set_access(at, 2 * GRANULE, 2), INVALID_VALUE);
    OK(set_access(at, 2 * GRANULE, 1));
    IS(cu->cuMemUnmap(at, GRANULE), INVALID_VALUE);
    IS(cu->cuMemAddressFree(at, 4 * GRANULE), INVALID_VALUE);
    OK(cu->cuMemUnmap(at, 2 * GRANULE));
    IS(cu->cuMemAddressFree(at, 2 * GRANULE), INVALID_VALUE);
    OK(cu->cuMemAddressFree(at, 4 * GRANULE));
    /* What is exported can be imported; another file can't. */
    OK(cu->cuMemExportToShareableHandle(&fd, memory, TRP__CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                        0));
    OK(cu->cuMemRelease(memory));
    OK(cu->cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)fd,
                                          TRP__CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    OK(cu->cuMemRelease(memory));
    close(fd);
    IS(cu->cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)STDERR_FILENO,
                                          TRP__CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
       INVALID_VALUE);
    close_context();
}

static void host_memory_rules(void)
{
    static const char constant[4096] = "is read-only";
    trp__cu_address at;
    open_context();
    register_words();
    IS(cu->cuMemHostRegister_v2(&words[1], 8, 3), ALREADY_REGISTERED);
    IS(cu->cuMemHostRegister_v2((void *)(uintptr_t)constant, 64, 3), INVALID_VALUE);
    IS(cu->cuMemHostRegister_v2((void *)4096, 4096, 3), INVALID_VALUE);
    at = word_at(0);
    IS(cu->cuStreamWriteValue64_v2(stream, at + 4, 1, 0), INVALID_VALUE);
    IS(cu->cuStreamWriteValue64_v2(stream, (trp__cu_address)(uintptr_t)&at, 1, 0), INVALID_VALUE);
    OK(cu->cuMemHostUnregister(words));
    IS(cu->cuMemHostUnregister(words), 713);
    IS(cu->cuStreamWriteValue64_v2(stream, at, 1, 0), INVALID_VALUE);
    close_context();
}

static void memory_runs_out(void)
{
    setenv("FAKE_CUDA_MEMORY_MB", "16", 1);
    trp__cu_address a, b;
    size_t left, total;
    open_context();
    OK(cu->cuMemAlloc_v2(&a, 12 << 20));
    IS(cu->cuMemAlloc_v2(&b, 5 << 20), OUT_OF_MEMORY);
    OK(cu->cuMemGetInfo_v2(&left, &total));
    CHECK(left == 4 << 20 && total == 16 << 20);
    OK(cu->cuMemFreeAsync(a, stream));
    IS(cu->cuMemFree_v2(a), INVALID_VALUE);
    OK(cu->cuStreamSynchronize(stream));
    OK(cu->cuMemAlloc_v2(&b, 16 << 20));
    OK(cu->cuMemFree_v2(b));
    close_context();
}

static void order_and_events(void)
{
    open_context();
    trp__cu_stream other;
    trp__cu_event begin, end;
    unsigned char got[4];
    float milliseconds = -1;
    trp__cu_address at = map_granule();
    register_words();
    OK(cu->cuStreamCreate(&other, 1));
    OK(cu->cuEventCreate(&begin, 0));
    OK(cu->cuEventCreate(&end, 1));
    OK(cu->cuEventQuery(begin)); /* never recorded */
    OK(cu->cuStreamWaitValue64_v2(stream, word_at(0), 5, 0));
    OK(cu->cuEventRecord(begin, stream));
    OK(cu->cuMemsetD32Async(at, 0x04030201, 1, stream));
    OK(cu->cuEventRecord(end, stream));
    OK(cu->cuStreamWaitEvent(other, end, 0));
    OK(cu->cuMemcpyAsync(word_at(1), at, 4, other));
    OK(cu->cuStreamWriteValue64_v2(other, word_at(2), 77, 0));
    IS(cu->cuStreamQuery(stream), NOT_READY);
    IS(cu->cuEventQuery(end), NOT_READY);
    IS(cu->cuEventElapsedTime(&milliseconds, begin, end), NOT_READY);
    CHECK(word(2) == 0);
    set_word(0, 6); /* at least 5 */
    OK(cu->cuEventSynchronize(end));
    OK(cu->cuStreamSynchronize(other));
    CHECK(word(1) == 0x04030201 && word(2) == 77);
    OK(cu->cuEventElapsedTime(&milliseconds, begin, end));
    CHECK(milliseconds >= 0);
    OK(cu->cuMemcpyDtoH_v2(got, at, 4));
    CHECK(memcmp(got, "\1\2\3\4", 4) == 0);
    OK(cu->cuEventDestroy_v2(begin));
    OK(cu->cuEventDestroy_v2(end));
    OK(cu->cuStreamDestroy_v2(other));
    OK(cu->cuMemHostUnregister(words));
    unmap_granule(at);
    close_context();
}

/* Who waits for an event waits for its recording at that time, whatever is recorded later. */
static void event_recorded_again(void)
{
    open_context();
    trp__cu_stream other, beside;
    trp__cu_event event;
    register_words();
    OK(cu->cuStreamCreate(&other, 1));
    OK(cu->cuStreamCreate(&beside, 1));
    OK(cu->cuEventCreate(&event, 2));
    OK(cu->cuStreamWaitValue64_v2(stream, word_at(0), 5, 0));
    OK(cu->cuEventRecord(event, stream));
    OK(cu->cuStreamWaitEvent(other, event, 0));
    OK(cu->cuStreamWriteValue64_v2(other, word_at(1), 1, 0));
    OK(cu->cuEventRecord(event, beside));
    OK(cu->cuEventSynchronize(event));
    usleep(20000);
    CHECK(word(1) == 0);
    IS(cu->cuStreamQuery(other), NOT_READY);
    OK(cu->cuEventDestroy_v2(event));
    set_word(0, 5);
    OK(cu->cuStreamSynchronize(other));
    CHECK(word(1) == 1);
    OK(cu->cuStreamDestroy_v2(beside));
    OK(cu->cuStreamDestroy_v2(other));
    OK(cu->cuMemHostUnregister(words));
    close_context();
}

static _Atomic uint64_t sent;

static void *send_many(void *unused)
{
    OK(cu->cuCtxSetCurrent(context));
    for (uint64_t i = 1; i <= 1200; i++) {
        OK(cu->cuStreamWriteValue64_v2(stream, word_at(1), i, 0));
        atomic_store(&sent, i);
    }
    return unused;
}

/* A stream holds 1024 operations; then its sender waits. */
static void full_stream(void)
{
    pthread_t thread;
    open_context();
    register_words();
    OK(cu->cuStreamWaitValue64_v2(stream, word_at(0), 1, 0));
    CHECK(pthread_create(&thread, NULL, send_many, NULL) == 0);
    while (atomic_load(&sent) < 1023)
        trp__sleep_ns(TRP__MS);
    trp__sleep_ns(20 * TRP__MS);
    CHECK(atomic_load(&sent) == 1023 && word(1) == 0);
    set_word(0, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(cu->cuStreamSynchronize(stream));
    CHECK(word(1) == 1200);
    OK(cu->cuMemHostUnregister(words));
    close_context();
}

/* In one hardware queue a wait holds up what was sent later, to any stream. */
static void one_queue(void)
{
    setenv("FAKE_CUDA_QUEUES", "1", 1);
    trp__cu_stream other;
    open_context();
    register_words();
    OK(cu->cuStreamCreate(&other, 1));
    OK(cu->cuStreamWaitValue64_v2(stream, word_at(0), 1, 0));
    OK(cu->cuStreamWriteValue64_v2(other, word_at(1), 1, 0));
    trp__sleep_ns(20 * TRP__MS);
    CHECK(word(1) == 0);
    IS(cu->cuStreamQuery(other), NOT_READY);
    set_word(0, 1);
    OK(cu->cuCtxSynchronize());
    CHECK(word(1) == 1);
    OK(cu->cuStreamDestroy_v2(other));
    OK(cu->cuMemHostUnregister(words));
    close_context();
}

/* Every call but those that need nothing gives the fault's result from then on. */
static void is_broken(int result)
{
    trp__cu_address at;
    int count;
    IS(cu->cuStreamSynchronize(stream), result);
    IS(cu->cuStreamQuery(stream), result);
    IS(cu->cuMemAlloc_v2(&at, 256), result);
    IS(cu->cuCtxSetCurrent(context), result);
    OK(cu->cuDeviceGetCount(&count));
}

static void sealed_memory(void)
{
    uint64_t got = 0;
    open_context();
    trp__cu_address at = map_granule();
    trp__cu_function store = kernel("probe_store");
    register_words();
    OK(launch(store, stream, at + 8));
    OK(cu->cuStreamSynchronize(stream));
    OK(set_access(at, GRANULE, 1));
    OK(cu->cuMemcpyDtoH_v2(&got, at + 8, 8)); /* can be read */
    OK(set_access(at, GRANULE, 3));
    OK(cu->cuMemsetD8Async(at, 7, 8, stream));
    OK(cu->cuStreamSynchronize(stream));
    OK(set_access(at, GRANULE, 1));
    OK(cu->cuMemcpyAsync(word_at(0), at, 8, stream));
    OK(cu->cuStreamWriteValue64_v2(stream, word_at(1), 1, 0));
    OK(launch(store, stream, at));
    is_broken(ILLEGAL_ADDRESS);
    CHECK(word(0) == UINT64_C(0x0707070707070707) && word(1) == 1);
}

static void no_access(void)
{
    trp__cu_address at = 0;
    open_context();
    OK(cu->cuMemAddressReserve(&at, GRANULE, 0, 0, 0));
    OK(cu->cuMemMap(at, GRANULE, 0, create(GRANULE), 0));
    OK(cu->cuMemsetD8Async(at, 7, 8, stream));
    is_broken(ILLEGAL_ADDRESS);
}

static void unmapped_while_queued(void)
{
    open_context();
    trp__cu_address at = map_granule();
    register_words();
    OK(cu->cuStreamWaitValue64_v2(stream, word_at(0), 1, 0));
    OK(cu->cuMemsetD8Async(at, 7, 8, stream));
    OK(cu->cuStreamWriteValue64_v2(stream, word_at(1), 1, 0));
    OK(cu->cuMemUnmap(at, GRANULE));
    set_word(0, 1);
    is_broken(ILLEGAL_ADDRESS);
    CHECK(word(1) == 0);
}

static void misaligned(void)
{
    open_context();
    OK(launch(kernel("probe_store"), stream, map_granule() + 1));
    is_broken(MISALIGNED_ADDRESS);
}

static void trap(void)
{
    open_context();
    OK(launch(kernel("probe_trap"), stream, 0));
    is_broken(LAUNCH_FAILED);
}

/* A fault is told later; meanwhile its own stream stands still, and others go on. */
static void reported_later(void)
{
    setenv("FAKE_CUDA_REPORT_MS", "150", 1);
    trp__cu_stream other;
    open_context();
    register_words();
    OK(cu->cuStreamCreate(&other, 1));
    int64_t begun = trp__now_ns();
    OK(launch(kernel("probe_trap"), stream, 0));
    OK(cu->cuStreamWriteValue64_v2(stream, word_at(0), 1, 0));
    OK(cu->cuStreamWriteValue64_v2(other, word_at(1), 1, 0));
    OK(launch(kernel("probe_spin"), other, UINT64_C(3600) * TRP__SECOND));
    IS(cu->cuStreamSynchronize(other), LAUNCH_FAILED); /* which ends the spin */
    CHECK(trp__now_ns() - begun >= 150 * TRP__MS);
    CHECK(word(0) == 0 && word(1) == 1);
    is_broken(LAUNCH_FAILED);
}

/* The processor can't use device memory. */
static void touched_by_the_processor(void)
{
    open_context();
    trp__cu_address at = map_granule();
    signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would turn it into something else */
    *(volatile char *)(uintptr_t)at = 1;
}

/* ---- the parent ---- */

static int run(void (*run_case)(void))
{
    int status = -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        run_case();
        _exit(0);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    return status;
}

#define CASE(name)                                                                                 \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        assert_int_equal(run(name), 0);                                                            \
    }
#define CASES(X)                                                                                   \
    X(no_context)                                                                                  \
    X(stale_handles)                                                                               \
    X(mapping_rules)                                                                               \
    X(host_memory_rules)                                                                           \
    X(memory_runs_out)                                                                             \
    X(order_and_events)                                                                            \
    X(event_recorded_again)                                                                        \
    X(full_stream)                                                                                 \
    X(one_queue)                                                                                   \
    X(sealed_memory)                                                                               \
    X(no_access)                                                                                   \
    X(unmapped_while_queued)                                                                       \
    X(misaligned)                                                                                  \
    X(trap)                                                                                        \
    X(reported_later)
CASES(CASE)

static void test_touched_by_the_processor(void **state)
{
    (void)state;
    int status = run(touched_by_the_processor);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROW(name) UNIT(test_##name),
        CASES(ROW) UNIT(test_touched_by_the_processor),
    };
    const char *path = getenv("TROUPE_FAKE_CUDA");
    if (!path) {
        fprintf(stderr, "TROUPE_FAKE_CUDA is not set: the path of the fake driver\n");
        return 77;
    }
    setenv("TROUPE_CUDA_DRIVER", path, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
