/* The fake driver's state: start, settings, faults, handles. */
#include "support/fake_cuda/fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

fake_driver fake = {.lock = PTHREAD_MUTEX_INITIALIZER,
                    .changed = PTHREAD_COND_INITIALIZER,
                    .quiet = PTHREAD_COND_INITIALIZER};

static _Thread_local fake_context *current;

int64_t fake_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void fake_wait(void)
{
    fake.waiters++;
    pthread_cond_wait(&fake.changed, &fake.lock);
    fake.waiters--;
}

void fake_announce(void)
{
    if (fake.waiters > 0)
        pthread_cond_broadcast(&fake.changed);
}

/* Calls. */

static bool context_lives(const fake_context *context)
{
    return context->retained > 0;
}

/* The lock is held. */
static int refusal(fake_need need)
{
    if (!fake.initialised)
        return FAKE_ERROR_NOT_INITIALIZED;
    if (need == FAKE_NEEDS_INIT)
        return 0;
    if (fake.broken)
        return fake.broken;
    bool in_context = need == FAKE_NEEDS_CONTEXT || need == FAKE_ENDS_CONTEXT;
    if (in_context && !current)
        return FAKE_ERROR_INVALID_CONTEXT;
    if (in_context && !context_lives(current))
        return FAKE_ERROR_CONTEXT_IS_DESTROYED;
    if (need == FAKE_ENDS_DRIVER || need == FAKE_ENDS_CONTEXT)
        return 0;
    return ++fake.calls == fake.settings.fail_call ? fake.settings.fail_result : 0;
}

int fake_enter(fake_need need)
{
    /* In a forked child, a thread that does not exist there may hold the lock. */
    if (atomic_load(&fake.forked))
        return FAKE_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&fake.lock);
    int result = refusal(need);
    return result == 0 ? 0 : fake_leave(result);
}

int fake_leave(int result)
{
    pthread_mutex_unlock(&fake.lock);
    return result;
}

fake_context *fake_current(void)
{
    return current;
}

int fake_cuda_usable(void)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    return result ? result : fake_leave(0);
}

/* A handle consists of the slot's number and of how often the slot was used. It is never 0 nor a
 * small number, since small numbers stand for default streams. */

enum { SLOT_BITS = 20, KIND_BITS = 4 };

typedef struct slot {
    void *object; /* NULL: free */
    uint64_t generation;
    fake_kind kind;
} slot;

static slot *slots;
static size_t slot_count;
static size_t counts[FAKE_KINDS];

static size_t free_slot(void)
{
    size_t i = 0;
    while (i < slot_count && slots[i].object)
        i++;
    if (i < slot_count || i == (size_t)1 << SLOT_BITS)
        return i;
    size_t grown = slot_count ? 2 * slot_count : 64;
    slot *more = realloc(slots, grown * sizeof *more);
    if (!more)
        return SIZE_MAX;
    memset(more + slot_count, 0, (grown - slot_count) * sizeof *more);
    slots = more;
    slot_count = grown;
    return i;
}

uintptr_t fake_handle_new(fake_kind kind, void *object)
{
    size_t i = free_slot();
    if (i >= slot_count)
        return 0;
    slots[i].object = object;
    slots[i].kind = kind;
    slots[i].generation++;
    counts[kind]++;
    return ((uintptr_t)slots[i].generation << SLOT_BITS | i) << KIND_BITS | (uintptr_t)kind;
}

static slot *slot_of(uintptr_t handle)
{
    size_t i = (handle >> KIND_BITS) & (((size_t)1 << SLOT_BITS) - 1);
    uintptr_t kind = handle & (((uintptr_t)1 << KIND_BITS) - 1);
    bool same = i < slot_count && slots[i].object && (uintptr_t)slots[i].kind == kind &&
                slots[i].generation == handle >> (KIND_BITS + SLOT_BITS);
    return same ? &slots[i] : NULL;
}

void *fake_handle_get(fake_kind kind, uintptr_t handle)
{
    const slot *s = slot_of(handle);
    return s && s->kind == kind ? s->object : NULL;
}

void fake_handle_drop(uintptr_t handle)
{
    slot *s = slot_of(handle);
    if (!s)
        return;
    counts[s->kind]--;
    s->object = NULL;
}

size_t fake_handle_count(fake_kind kind)
{
    return counts[kind];
}

/* Counts at the end. */

static fake_counts forgotten;

static fake_counts count_all(void)
{
    fake_counts c = {.streams = counts[FAKE_STREAM],
                     .events = counts[FAKE_EVENT],
                     .modules = counts[FAKE_MODULE],
                     .memories = counts[FAKE_MEMORY],
                     .graphs = counts[FAKE_GRAPH] + counts[FAKE_GRAPH_EXEC]};
    for (int i = 0; i < FAKE_DEVICES; i++) {
        c.contexts += fake.context[i].retained;
        c.bytes += fake.taken[i];
    }
    fake_memory_count(&c);
    return c;
}

/* The last release of a context also drops what it still owns: the application forgot that. */
static void note_forgotten(void)
{
    fake_counts c = count_all();
    forgotten.streams += c.streams;
    forgotten.mappings += c.mappings;
    forgotten.allocations += c.allocations;
    forgotten.registrations += c.registrations;
}

fake_counts fake_cuda_count(void)
{
    pthread_mutex_lock(&fake.lock);
    fake_counts c = count_all();
    pthread_mutex_unlock(&fake.lock);
    return c;
}

/* Each process that used the driver and ends in order writes one line. */
__attribute__((destructor)) static void report_leaks(void)
{
    char line[320];
    if (!fake.settings.leaks || !fake.initialised || atomic_load(&fake.forked))
        return;
    fake_counts c = fake_cuda_count();
    c.streams += forgotten.streams;
    c.mappings += forgotten.mappings;
    c.allocations += forgotten.allocations;
    c.registrations += forgotten.registrations;
    size_t all = c.contexts + c.streams + c.events + c.modules + c.memories + c.reservations +
                 c.mappings + c.allocations + c.registrations + c.graphs;
    int length = snprintf(line, sizeof line,
                          "%s: process %d: %zu contexts, %zu streams, %zu events, %zu modules, "
                          "%zu memories, %zu reservations, %zu mappings, %zu allocations, "
                          "%zu registrations, %zu graphs\n",
                          fake.broken ? "broken"
                          : all       ? "left"
                                      : "clean",
                          (int)getpid(), c.contexts, c.streams, c.events, c.modules, c.memories,
                          c.reservations, c.mappings, c.allocations, c.registrations, c.graphs);
    int fd = open(fake.settings.leaks, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)length) != length)
        perror(fake.settings.leaks);
    if (fd >= 0)
        close(fd);
}

/* Start. */

/* A wrong setting must not be taken for the default. */
static uint64_t setting(const char *name, uint64_t standard, uint64_t least, uint64_t most)
{
    const char *text = getenv(name);
    char *end = NULL;
    if (!text || !*text)
        return standard;
    uint64_t value = strtoull(text, &end, 0);
    if (*end == '\0' && value >= least && value <= most)
        return value;
    fprintf(stderr, "fake CUDA driver: %s: expected a number from %llu to %llu, got \"%s\"\n", name,
            (unsigned long long)least, (unsigned long long)most, text);
    abort();
}

static void read_settings(void)
{
    fake_settings *s = &fake.settings;
    s->devices = (int)setting("FAKE_CUDA_DEVICES", 1, 0, FAKE_DEVICES);
    s->queues = (int)setting("FAKE_CUDA_QUEUES", 8, 1, FAKE_QUEUES);
    s->memory_bytes = setting("FAKE_CUDA_MEMORY_MB", 8192, 1, 1 << 20) << 20;
    s->address_shift = setting("FAKE_CUDA_ADDRESS_SHIFT", 0, 0, UINT64_C(1) << 52);
    s->report_ns = (int64_t)setting("FAKE_CUDA_REPORT_MS", 0, 0, 60000) * 1000000;
    s->write_ns = (int64_t)setting("FAKE_CUDA_WRITE_US", 0, 0, 1000000) * 1000;
    s->fail_call = setting("FAKE_CUDA_FAIL_CALL", 0, 0, UINT64_MAX);
    s->fail_result = (int)setting("FAKE_CUDA_FAIL_RESULT", FAKE_ERROR_OUT_OF_MEMORY, 1, 999);
    s->leaks = getenv("FAKE_CUDA_LEAKS");
    const char *answer = getenv("FAKE_CUDA_ATTRIBUTE");
    if (answer && sscanf(answer, "%d=%d", &s->attribute, &s->attribute_value) != 2) {
        fprintf(stderr, "fake CUDA driver: FAKE_CUDA_ATTRIBUTE: expected NUMBER=VALUE, got %s\n",
                answer);
        abort();
    }
}

static void note_fork(void)
{
    atomic_store(&fake.forked, true);
}

trp__cu_result cuInit(unsigned int flags)
{
    int result = FAKE_SUCCESS;
    if (flags != 0)
        return FAKE_ERROR_INVALID_VALUE;
    if (atomic_load(&fake.forked))
        return FAKE_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&fake.lock);
    if (!fake.initialised) {
        read_settings();
        for (int i = 0; i < FAKE_DEVICES; i++)
            fake.context[i].device = i;
        fake.initialised = fake.settings.devices > 0;
        if (fake.initialised)
            pthread_atfork(NULL, NULL, note_fork);
        else
            result = FAKE_ERROR_NO_DEVICE;
    }
    return fake_leave(result);
}

trp__cu_result cuDriverGetVersion(int *version)
{
    if (!version)
        return FAKE_ERROR_INVALID_VALUE;
    *version = 13000;
    return FAKE_SUCCESS;
}

static const struct {
    int code;
    const char *name, *text;
} results[] = {
#define RESULT_ROW(name, code, text) {code, "CUDA_" #name, text},
    FAKE_RESULTS(RESULT_ROW)
#undef RESULT_ROW
};

trp__cu_result cuGetErrorName(trp__cu_result result, const char **name)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        if (results[i].code == result) {
            *name = results[i].name;
            return FAKE_SUCCESS;
        }
    }
    *name = NULL;
    return FAKE_ERROR_INVALID_VALUE;
}

trp__cu_result cuGetErrorString(trp__cu_result result, const char **text)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        if (results[i].code == result) {
            *text = results[i].text;
            return FAKE_SUCCESS;
        }
    }
    *text = NULL;
    return FAKE_ERROR_INVALID_VALUE;
}

/* Devices. */

static bool device_exists(int device)
{
    return device >= 0 && device < fake.settings.devices;
}

trp__cu_result cuDeviceGetCount(int *count)
{
    int result = fake_enter(FAKE_NEEDS_INIT);
    if (result)
        return result;
    *count = fake.settings.devices;
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuDeviceGet(trp__cu_device *device, int ordinal)
{
    int result = fake_enter(FAKE_NEEDS_INIT);
    if (result)
        return result;
    if (!device_exists(ordinal))
        return fake_leave(FAKE_ERROR_INVALID_DEVICE);
    *device = ordinal;
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuDeviceGetName(char *name, int size, trp__cu_device device)
{
    int result = fake_enter(FAKE_NEEDS_INIT);
    if (result)
        return result;
    if (!device_exists(device))
        return fake_leave(FAKE_ERROR_INVALID_DEVICE);
    if (!name || size <= 0)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    snprintf(name, (size_t)size, "Fake GPU");
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuDeviceGetUuid_v2(trp__cu_uuid *uuid, trp__cu_device device)
{
    int result = fake_enter(FAKE_NEEDS_INIT);
    if (result)
        return result;
    if (!device_exists(device))
        return fake_leave(FAKE_ERROR_INVALID_DEVICE);
    if (!uuid)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    memset(uuid, 0, sizeof *uuid);
    memcpy(uuid->bytes, "fake GPU", 8);
    uuid->bytes[15] = (char)device;
    return fake_leave(FAKE_SUCCESS);
}

/* Attributes of an H100 that may be queried; a query of another one is a mistake. */
static bool find_attribute(int attribute, int *value)
{
    static const int known[][2] = {
        {1, 1024},                                /* threads in a block */
        {16, 132},                                /* multiprocessors */
        {38, 1 << 20},                            /* bytes of L2; a small one for small machines */
        {39, 2048},    {41, 1},                   /* unified addressing */
        {75, 9},                                  /* compute capability */
        {76, 0},       {89, 1}, {91, 1}, {99, 1}, /* registration of host memory */
        {102, 1},                                 /* virtual memory management */
        {103, 1},                                 /* sharing by file descriptor */
        {122, 1},                                 /* 64-bit stream memory operations */
    };
    if (attribute != 0 && attribute == fake.settings.attribute) {
        *value = fake.settings.attribute_value;
        return true;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i][0] == attribute) {
            *value = known[i][1];
            return true;
        }
    }
    return false;
}

trp__cu_result cuDeviceGetAttribute(int *value, trp__cu_attribute attribute, trp__cu_device device)
{
    int result = fake_enter(FAKE_NEEDS_INIT);
    if (result)
        return result;
    if (!device_exists(device))
        return fake_leave(FAKE_ERROR_INVALID_DEVICE);
    return fake_leave(find_attribute((int)attribute, value) ? FAKE_SUCCESS
                                                            : FAKE_ERROR_INVALID_VALUE);
}

trp__cu_result cuDeviceTotalMem_v2(size_t *bytes, trp__cu_device device)
{
    int result = fake_enter(FAKE_NEEDS_INIT);
    if (result)
        return result;
    if (!device_exists(device))
        return fake_leave(FAKE_ERROR_INVALID_DEVICE);
    *bytes = fake.settings.memory_bytes;
    return fake_leave(FAKE_SUCCESS);
}

/* Contexts. */

trp__cu_result cuDevicePrimaryCtxRetain(trp__cu_context *context, trp__cu_device device)
{
    int result = fake_enter(FAKE_NEEDS_DRIVER);
    if (result)
        return result;
    if (!device_exists(device))
        return fake_leave(FAKE_ERROR_INVALID_DEVICE);
    fake.context[device].retained++;
    *context = (trp__cu_context)(void *)&fake.context[device];
    return fake_leave(FAKE_SUCCESS);
}

/* The last release ends the context, with everything that it owns. */
trp__cu_result cuDevicePrimaryCtxRelease_v2(trp__cu_device device)
{
    int result = fake_enter(FAKE_ENDS_DRIVER);
    if (result)
        return result;
    if (!device_exists(device))
        return fake_leave(FAKE_ERROR_INVALID_DEVICE);
    fake_context *context = &fake.context[device];
    if (context->retained == 0)
        return fake_leave(FAKE_ERROR_INVALID_CONTEXT);
    if (context->retained == 1) {
        note_forgotten();
        fake_streams_clear(context);
        fake_memory_clear(device);
    }
    context->retained--;
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuCtxSetCurrent(trp__cu_context context)
{
    int result = fake_enter(FAKE_NEEDS_DRIVER);
    if (result)
        return result;
    fake_context *wanted = (fake_context *)(void *)context;
    if (wanted) {
        int i = 0;
        while (i < FAKE_DEVICES && wanted != &fake.context[i])
            i++;
        if (i == FAKE_DEVICES || !context_lives(wanted))
            return fake_leave(FAKE_ERROR_INVALID_CONTEXT);
    }
    current = wanted;
    return fake_leave(FAKE_SUCCESS);
}

/* Kernels ignore it. */
static size_t stack_limit = 1024;

trp__cu_result cuCtxGetLimit(size_t *value, trp__cu_limit limit)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    if (!value || limit != TRP__CU_LIMIT_STACK_SIZE)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    *value = stack_limit;
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuCtxSetLimit(trp__cu_limit limit, size_t value)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    if (limit != TRP__CU_LIMIT_STACK_SIZE)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    stack_limit = value;
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuCtxSynchronize(void)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    return result ? result : fake_leave(fake_drain_all());
}
