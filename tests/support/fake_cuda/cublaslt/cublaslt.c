/* A fake cuBLASLt on the fake driver: handles, descriptors, counts, and failures on demand. */
#include "support/fake_cuda/cublaslt/cublaslt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
#define MEMBER(result, name, parameters, required) result(*name) parameters;
    TRP__CUBLASLT_FUNCTIONS(MEMBER)
#undef MEMBER
} all __attribute__((used)) = {
#define ROW(result, name, parameters, required) .name = name,
    TRP__CUBLASLT_FUNCTIONS(ROW)
#undef ROW
};

struct trp__cublaslt_context {
    int magic;
};

static atomic_size_t objects[4]; /* numbers of handles, descriptors, layouts, preferences */

/* Counted calls. */

static struct {
    pthread_mutex_t lock;
    bool set_up;
    uint64_t calls[FAKE_CUBLASLT_CALLS];
    struct {
        uint64_t skip, times;
        int result;
    } fail[FAKE_CUBLASLT_CALLS];
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t setting(const char *name, uint64_t preset)
{
    const char *text = getenv(name);
    char *end = NULL;
    if (!text || !*text)
        return preset;
    uint64_t value = strtoull(text, &end, 0);
    if (*end) {
        fprintf(stderr, "fake cuBLASLt: %s=%s is not a number\n", name, text);
        abort();
    }
    return value;
}

/* The lock is held. */
static void set_up(void)
{
    static const char *const names[FAKE_CUBLASLT_CALLS] = {
        "FAKE_CUBLASLT_FAIL_HEURISTIC", "FAKE_CUBLASLT_FAIL_CHECK", "FAKE_CUBLASLT_FAIL_MATMUL"};
    if (state.set_up)
        return;
    state.set_up = true;
    for (int call = 0; call < FAKE_CUBLASLT_CALLS; call++) {
        uint64_t number = setting(names[call], 0);
        if (number == 0)
            continue;
        state.fail[call].skip = number - 1;
        state.fail[call].times = setting("FAKE_CUBLASLT_FAIL_TIMES", 1);
        state.fail[call].result = (int)setting("FAKE_CUBLASLT_FAIL_RESULT", EXECUTION_FAILED);
    }
}

trp__cublas_status fake_lt_called(fake_cublaslt_call call)
{
    trp__cublas_status status = SUCCESS;
    pthread_mutex_lock(&state.lock);
    set_up();
    state.calls[call]++;
    if (state.fail[call].skip > 0) {
        state.fail[call].skip--;
    } else if (state.fail[call].times > 0) {
        state.fail[call].times--;
        status = state.fail[call].result;
    }
    pthread_mutex_unlock(&state.lock);
    return status;
}

void fake_cublaslt_fail(fake_cublaslt_call call, uint64_t skip, uint64_t times, int result)
{
    pthread_mutex_lock(&state.lock);
    set_up();
    state.fail[call].skip = skip;
    state.fail[call].times = times;
    state.fail[call].result = result;
    pthread_mutex_unlock(&state.lock);
}

fake_cublaslt_counts fake_cublaslt_count(void)
{
    fake_cublaslt_counts counts = {.handles = atomic_load(&objects[0]),
                                   .descs = atomic_load(&objects[1]),
                                   .layouts = atomic_load(&objects[2]),
                                   .preferences = atomic_load(&objects[3])};
    pthread_mutex_lock(&state.lock);
    memcpy(counts.calls, state.calls, sizeof counts.calls);
    pthread_mutex_unlock(&state.lock);
    return counts;
}

/* For tests whose worker is another process: each process that ends in order writes one line. After
 * a fault nothing can be released. */
__attribute__((destructor)) static void report_counts(void)
{
    const char *path = getenv("FAKE_CUBLASLT_COUNTS");
    FILE *file = path && !fake_cuda_stopping() ? fopen(path, "ae") : NULL;
    if (!file)
        return;
    fake_cublaslt_counts counts = fake_cublaslt_count();
    fprintf(file, "heuristics %llu checks %llu matmuls %llu left %zu\n",
            (unsigned long long)counts.calls[FAKE_CUBLASLT_HEURISTIC],
            (unsigned long long)counts.calls[FAKE_CUBLASLT_CHECK],
            (unsigned long long)counts.calls[FAKE_CUBLASLT_MATMUL],
            counts.handles + counts.descs + counts.layouts + counts.preferences);
    fclose(file);
}

/* The library. */

bool fake_lt_good_handle(trp__cublaslt_handle handle)
{
    return handle && handle->magic == LT_HANDLE;
}

trp__cublas_status cublasLtCreate(trp__cublaslt_handle *handle)
{
    if (!handle)
        return INVALID_VALUE;
    if (fake_cuda_usable() != 0)
        return NOT_INITIALIZED;
    *handle = malloc(sizeof **handle);
    if (!*handle)
        return ALLOC_FAILED;
    (*handle)->magic = LT_HANDLE;
    atomic_fetch_add(&objects[0], 1);
    return SUCCESS;
}

trp__cublas_status cublasLtDestroy(trp__cublaslt_handle handle)
{
    if (!fake_lt_good_handle(handle))
        return NOT_INITIALIZED;
    handle->magic = 0;
    free(handle);
    atomic_fetch_sub(&objects[0], 1);
    return SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return 130100;
}

trp__cublas_status cublasLtGetProperty(trp__cuda_property property, int *value)
{
    static const int version[] = {13, 1, 0};
    if (!FAKE_ONE_OF_3(property) || !value)
        return INVALID_VALUE;
    *value = version[property];
    return SUCCESS;
}

const char *cublasLtGetStatusName(trp__cublas_status status)
{
    switch (status) {
#define CASE(name, code)                                                                           \
    case code:                                                                                     \
        return "CUBLAS_STATUS_" #name;
        FAKE_CUBLAS_STATUSES(CASE)
#undef CASE
    default:
        return "CUBLAS_STATUS_UNKNOWN";
    }
}

const char *cublasLtGetStatusString(trp__cublas_status status)
{
    return status == SUCCESS ? "success" : "the fake cuBLASLt refused";
}

/* Descriptors. */

typedef struct attribute {
    int number;
    size_t offset, bytes;
} attribute;

static trp__cublas_status set_attribute(void *object, const attribute *rows, size_t count,
                                        int number, const void *value, size_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].number != number)
            continue;
        if (!value || bytes != rows[i].bytes)
            return INVALID_VALUE;
        memcpy((char *)object + rows[i].offset, value, bytes);
        return SUCCESS;
    }
    return INVALID_VALUE;
}

/* Copies `preset` into new memory. Its first word is the magic number of the type. */
static trp__cublas_status create(void *out, const void *preset, size_t bytes, int magic)
{
    void *object = malloc(bytes);
    if (!object)
        return ALLOC_FAILED;
    memcpy(object, preset, bytes);
    memcpy(out, &object, sizeof object);
    atomic_fetch_add(&objects[magic - LT_HANDLE], 1);
    return SUCCESS;
}

static trp__cublas_status destroy(int *magic, int wanted)
{
    if (!magic || *magic != wanted)
        return INVALID_VALUE;
    *magic = 0;
    free(magic);
    atomic_fetch_sub(&objects[wanted - LT_HANDLE], 1);
    return SUCCESS;
}

#define PRESET(name, field, type, preset) .field = preset,

trp__cublas_status cublasLtMatmulDescCreate(trp__cublaslt_desc *desc, trp__cublaslt_compute compute,
                                            trp__cublaslt_type scale_type)
{
    lt_desc preset = {.magic = LT_DESC, LT_DESC_FIELDS(PRESET)};
    preset.compute = compute;
    preset.scale_type = scale_type;
    return desc ? create(desc, &preset, sizeof preset, LT_DESC) : INVALID_VALUE;
}

trp__cublas_status cublasLtMatmulDescDestroy(trp__cublaslt_desc desc)
{
    return destroy((int *)desc, LT_DESC);
}

trp__cublas_status cublasLtMatmulDescSetAttribute(trp__cublaslt_desc desc,
                                                  trp__cublaslt_desc_attribute number,
                                                  const void *value, size_t bytes)
{
    static const attribute rows[] = {
#define ROW(name, field, type, preset)                                                             \
    {TRP__CUBLASLT_MATMUL_DESC_##name, offsetof(lt_desc, field), sizeof(type)},
        LT_DESC_FIELDS(ROW)
#undef ROW
    };
    if (!desc || desc->magic != LT_DESC)
        return INVALID_VALUE;
    return set_attribute(desc, rows, sizeof rows / sizeof *rows, (int)number, value, bytes);
}

trp__cublas_status cublasLtMatrixLayoutCreate(trp__cublaslt_layout *layout, trp__cublaslt_type type,
                                              uint64_t rows, uint64_t columns, int64_t ld)
{
    lt_layout preset = {.magic = LT_LAYOUT, LT_LAYOUT_FIELDS(PRESET)};
    preset.type = (uint32_t)type;
    preset.rows = rows;
    preset.columns = columns;
    preset.ld = ld;
    return layout ? create(layout, &preset, sizeof preset, LT_LAYOUT) : INVALID_VALUE;
}

trp__cublas_status cublasLtMatrixLayoutDestroy(trp__cublaslt_layout layout)
{
    return destroy((int *)layout, LT_LAYOUT);
}

trp__cublas_status cublasLtMatrixLayoutSetAttribute(trp__cublaslt_layout layout,
                                                    trp__cublaslt_layout_attribute number,
                                                    const void *value, size_t bytes)
{
    static const attribute rows[] = {
#define ROW(name, field, type, preset)                                                             \
    {TRP__CUBLASLT_MATRIX_LAYOUT_##name, offsetof(lt_layout, field), sizeof(type)},
        LT_LAYOUT_FIELDS(ROW)
#undef ROW
    };
    if (!layout || layout->magic != LT_LAYOUT)
        return INVALID_VALUE;
    return set_attribute(layout, rows, sizeof rows / sizeof *rows, (int)number, value, bytes);
}

trp__cublas_status cublasLtMatmulPreferenceCreate(trp__cublaslt_preference *preference)
{
    lt_preference preset = {.magic = LT_PREFERENCE, LT_PREFERENCE_FIELDS(PRESET)};
    return preference ? create(preference, &preset, sizeof preset, LT_PREFERENCE) : INVALID_VALUE;
}

trp__cublas_status cublasLtMatmulPreferenceDestroy(trp__cublaslt_preference preference)
{
    return destroy((int *)preference, LT_PREFERENCE);
}

trp__cublas_status cublasLtMatmulPreferenceSetAttribute(trp__cublaslt_preference preference,
                                                        trp__cublaslt_preference_attribute number,
                                                        const void *value, size_t bytes)
{
    static const attribute rows[] = {
#define ROW(name, field, type, preset)                                                             \
    {TRP__CUBLASLT_MATMUL_PREF_##name, offsetof(lt_preference, field), sizeof(type)},
        LT_PREFERENCE_FIELDS(ROW)
#undef ROW
    };
    if (!preference || preference->magic != LT_PREFERENCE)
        return INVALID_VALUE;
    return set_attribute(preference, rows, sizeof rows / sizeof *rows, (int)number, value, bytes);
}
