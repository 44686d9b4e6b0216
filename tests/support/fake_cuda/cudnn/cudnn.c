/* A fake cuDNN on the fake driver: handles, error messages, counts, and failures on demand. */
#include "support/fake_cuda/cudnn/cudnn.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
#define MEMBER(result, name, parameters, required) result(*name) parameters;
    TRP__CUDNN_FUNCTIONS(MEMBER)
#undef MEMBER
} all __attribute__((used)) = {
#define ROW(result, name, parameters, required) .name = name,
    TRP__CUDNN_FUNCTIONS(ROW)
#undef ROW
};

enum { MAGIC = 0xd99 };

static atomic_ullong calls;
static atomic_int left;
static _Thread_local char said[256];

int fake_cudnn_say(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
    return status;
}

static uint64_t setting(const char *name, uint64_t preset)
{
    const char *text = getenv(name);
    char *end = NULL;
    if (!text || !*text)
        return preset;
    uint64_t value = strtoull(text, &end, 0);
    if (*end) {
        fprintf(stderr, "fake cuDNN: %s=%s is not a number\n", name, text);
        abort();
    }
    return value;
}

int fake_cudnn_called(void)
{
    uint64_t call = atomic_fetch_add(&calls, 1) + 1;
    if (call != setting("FAKE_CUDNN_FAIL_CALL", 0))
        return FAKE_CUDNN_SUCCESS;
    int status = (int)setting("FAKE_CUDNN_FAIL_RESULT", FAKE_CUDNN_EXECUTION_FAILED);
    return fake_cudnn_say(status, "call %llu was to fail", (unsigned long long)call);
}

void fake_cudnn_count(int more)
{
    atomic_fetch_add(&left, more);
}

/* Each process that ends in order writes one line; after a fault nothing can be released. */
__attribute__((destructor)) static void report_counts(void)
{
    const char *path = getenv("FAKE_CUDNN_COUNTS");
    FILE *file = path && !fake_cuda_stopping() ? fopen(path, "ae") : NULL;
    if (!file)
        return;
    fprintf(file, "cuDNN calls %llu left %d\n", atomic_load(&calls), atomic_load(&left));
    fclose(file);
}

/* The library. */

size_t cudnnGetVersion(void)
{
    return FAKE_CUDNN_VERSION;
}

trp__cudnn_status cudnnGetProperty(trp__cuda_property property, int *value)
{
    static const int version[] = {9, 19, 0};
    if ((int)property < 0 || (int)property > 2)
        return FAKE_CUDNN_BAD_PARAM;
    *value = version[property];
    return FAKE_CUDNN_SUCCESS;
}

const char *cudnnGetErrorString(trp__cudnn_status status)
{
    switch (status) {
#define CASE(name, code)                                                                           \
    case code:                                                                                     \
        return "CUDNN_STATUS_" #name;
        FAKE_CUDNN_STATUSES(CASE)
#undef CASE
    default:
        return "CUDNN_STATUS_UNKNOWN";
    }
}

void cudnnGetLastErrorString(char *message, size_t size)
{
    snprintf(message, size, "%s", said);
    said[0] = '\0';
}

bool fake_cudnn_good_handle(trp__cudnn_handle handle)
{
    return handle && handle->magic == MAGIC;
}

trp__cudnn_status cudnnCreate(trp__cudnn_handle *handle)
{
    int status = fake_cudnn_called();
    if (status)
        return status;
    if (fake_cuda_usable() != 0)
        return fake_cudnn_say(FAKE_CUDNN_NOT_INITIALIZED, "no context, or a broken one");
    *handle = malloc(sizeof **handle);
    if (!*handle)
        return FAKE_CUDNN_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    **handle = (struct trp__cudnn_opaque){.magic = MAGIC};
    fake_cudnn_count(1);
    return FAKE_CUDNN_SUCCESS;
}

trp__cudnn_status cudnnDestroy(trp__cudnn_handle handle)
{
    if (!fake_cudnn_good_handle(handle))
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "no handle");
    handle->magic = 0;
    free(handle);
    fake_cudnn_count(-1);
    return FAKE_CUDNN_SUCCESS;
}

trp__cudnn_status cudnnSetStream(trp__cudnn_handle handle, trp__cu_stream stream)
{
    int status = fake_cudnn_called();
    if (status)
        return status;
    if (!fake_cudnn_good_handle(handle))
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "no handle");
    handle->stream = stream;
    return FAKE_CUDNN_SUCCESS;
}
