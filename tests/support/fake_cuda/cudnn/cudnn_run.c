/* The engines of the fake cuDNN, which run the dnn actor's own kernels on the graph that
 * descriptors describe. */
#include "support/fake_cuda/cudnn/cudnn.h"
#include "support/fake_cuda/direct.h"
#include "support/fake_cuda/settings.h"

#include "actors/dnn/math/functions.h"

#include <troupe/convert.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ATTR(name) TRP__CUDNN_ATTR_##name

enum { RUBBISH = 0xa5, FAST_NS = 20000, SLOW_NS = 100000000 };

typedef struct job {
    struct job *next, *previous;
    fake_cudnn_graph graph;
    int engine;
    int number; /* number of the run of this engine in this process, from 1 */
    uint64_t address[TRP__DNN_LOWERED_TENSORS], workspace;
    double value[TRP__DNN_LOWERED_TENSORS];
    /* Valid while it runs. */
    fake_pin pin[TRP__DNN_LOWERED_TENSORS];
    void *at[TRP__DNN_LOWERED_TENSORS];
    /* Whether NaN was found in the workspace, after an input, and in a result before it is written.
     */
    bool found_rubbish, rubbish_beside, rubbish_written;
} job;

/* Jobs that were sent and have not run. Jobs that a faulted stream has dropped stay here. */
static struct {
    pthread_mutex_t lock;
    job first;
} sent = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .first = {.next = &sent.first, .previous = &sent.first}};

static void add_job(job *j)
{
    pthread_mutex_lock(&sent.lock);
    j->next = &sent.first;
    j->previous = sent.first.previous;
    j->previous->next = j->next->previous = j;
    pthread_mutex_unlock(&sent.lock);
}

static void drop_job(job *j)
{
    pthread_mutex_lock(&sent.lock);
    j->previous->next = j->next;
    j->next->previous = j->previous;
    pthread_mutex_unlock(&sent.lock);
    free(j);
}

/* Run on a stream. */

/* Returns NULL if the stream has faulted, or if memory is missing. */
static void *place(job *j, uint32_t number)
{
    const trp__dnn_tensor *t = &j->graph.tensor[number];
    size_t bytes = fake_direct_bytes(t);
    if (t->role != TRP__DNN_VIRTUAL)
        return fake_cuda_reach(&j->pin[number], j->address[number], bytes, t->written);
    void *memory = malloc(bytes);
    if (memory)
        memset(memory, RUBBISH, bytes);
    return memory;
}

static bool place_all(job *j)
{
    for (uint32_t i = 0; i < j->graph.tensors; i++) {
        if (j->graph.tensor[i].role != TRP__DNN_VALUE && !(j->at[i] = place(j, i)))
            return false;
    }
    return true;
}

static void leave_all(job *j)
{
    for (uint32_t i = 0; i < j->graph.tensors; i++) {
        if (j->pin[i].at)
            fake_cuda_let_go(&j->pin[i]);
        else
            free(j->at[i]);
    }
}

static bool is_rubbish(const void *at)
{
    float found;
    memcpy(&found, at, sizeof found);
    return isnan(found);
}

static bool use_workspace(job *j)
{
    fake_pin pin;
    size_t bytes = fake_engine_workspace(j->engine);
    void *at = bytes ? fake_cuda_reach(&pin, j->workspace, bytes, true) : NULL;
    if (at) {
        j->found_rubbish = is_rubbish(at);
        memset(at, RUBBISH, bytes);
        fake_cuda_let_go(&pin);
    }
    return bytes == 0 || at;
}

/* Looks for NaN after inputs, and at the end of results. */
static void look_for_rubbish(job *j)
{
    for (uint32_t i = 0; i < j->graph.tensors; i++) {
        const trp__dnn_tensor *t = &j->graph.tensor[i];
        const uint64_t bytes = fake_direct_bytes(t);
        fake_pin pin;
        if (t->role != TRP__DNN_BUFFER || bytes < sizeof(float))
            continue;
        if (t->written)
            j->rubbish_written |= is_rubbish((const char *)j->at[i] + bytes - sizeof(float));
        const void *behind =
            t->written ? NULL : fake_cuda_reach(&pin, j->address[i] + bytes, sizeof(float), false);
        if (behind) {
            j->rubbish_beside |= is_rubbish(behind);
            fake_cuda_let_go(&pin);
        }
    }
}

static void run_node(job *j, const trp__dnn_node *n)
{
    trp__direct *d = calloc(1, sizeof *d);
    if (!d)
        abort();
    d->node = *n;
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        uint8_t t = n->port[i];
        if (t == TRP__DNN_NO_PORT)
            continue;
        d->used[i] = true;
        d->tensor[i] = j->graph.tensor[t];
        d->at[i] = j->at[t];
        d->value[i] = j->value[t];
    }
    fake_direct_run(d);
    free(d);
}

static double number_at(uint8_t type, const void *from)
{
    double number = 0;
    if (type == TRP_BOOL || type == TRP_U8)
        number = *(const uint8_t *)from;
    else
        (void)trp_convert((trp_dtype)type, from, TRP_F64, &number, 1);
    return number;
}

/* Runs of each engine in this process. */
static atomic_int runs[FAKE_CUDNN_ENGINES];

/* Returns whether the engine fails from this run on: "0 5" in the file stands for engine 0, from
 * run 5 on. */
static bool fails_by_now(int engine)
{
    char text[32];
    int number, from;
    return fake_setting("cudnn_fails_from", text, sizeof text) &&
           sscanf(text, "%d %d", &number, &from) == 2 && number == engine &&
           atomic_load(&runs[engine]) + 1 >= from;
}

/* Returns whether an input has a number above a given size. */
static bool reads_beyond(const job *j, double most)
{
    for (uint32_t i = 0; i < j->graph.tensors; i++) {
        const trp__dnn_tensor *t = &j->graph.tensor[i];
        const size_t width = trp_dtype_bits((trp_dtype)t->type) / 8;
        if (t->role != TRP__DNN_BUFFER || t->written || t->type == TRP_I64)
            continue;
        for (int64_t k = 0; k < trp__dnn_extent(t); k++) {
            double x = number_at(t->type, (const char *)j->at[i] + (size_t)k * width);
            if (!(x >= -most && x <= most))
                return true;
        }
    }
    return false;
}

/* Writes after the last element of a result. */
static void write_beside(const job *j)
{
    for (uint32_t i = 0; i < j->graph.tensors; i++) {
        const trp__dnn_tensor *t = &j->graph.tensor[i];
        fake_pin pin;
        void *at = t->written && t->role != TRP__DNN_VIRTUAL
                       ? fake_cuda_reach(&pin, j->address[i] + fake_direct_bytes(t), 1, true)
                       : NULL;
        if (at) {
            *(unsigned char *)at ^= 0xff;
            fake_cuda_let_go(&pin);
        }
    }
}

/* Rounds an f32 as tensor cores read it, to 10 bits of mantissa, and flushes denormals. */
static uint32_t rounded(uint32_t x)
{
    return (x + 0x1000) & ~UINT32_C(0x1fff);
}

static uint32_t flushed(uint32_t x)
{
    return (x & 0x7f800000) == 0 ? x & 0x80000000 : x;
}

/* Changes inputs of f32 to the numbers that an engine reads; `kept`: the original numbers. */
static void change_inputs(const job *j, uint32_t (*read)(uint32_t), void *kept[])
{
    for (uint32_t i = 0; i < j->graph.tensors; i++) {
        const trp__dnn_tensor *t = &j->graph.tensor[i];
        kept[i] = NULL;
        if (t->role != TRP__DNN_BUFFER || t->written || t->type != TRP_F32)
            continue;
        const uint64_t bytes = fake_direct_bytes(t);
        uint32_t *x = j->at[i];
        kept[i] = malloc(bytes ? bytes : 1);
        memcpy(kept[i], x, bytes);
        for (uint64_t k = 0; k < bytes / sizeof *x; k++)
            x[k] = read(x[k]);
    }
}

static void restore_inputs(const job *j, void *kept[])
{
    for (uint32_t i = 0; i < j->graph.tensors; i++) {
        if (kept[i])
            memcpy(j->at[i], kept[i], fake_direct_bytes(&j->graph.tensor[i]));
        free(kept[i]);
    }
}

/* The tanh of hardware: 11 bits, except near 1. */
static double coarse_tanh(double x)
{
    const double y = tanh(x);
    return fabs(y) > 0.9999 ? copysign(1, y) : y * (1 - 0x1p-11);
}

/* Changes results as tensor cores would, whose sums lose bits, and those of GELU as a coarse tanh
 * would. */
static void change_results(const job *j, const trp__dnn_node *n)
{
    const bool product =
        n->kind <= TRP_DNN_MATMUL && fake_setting_has("cudnn_truncates", j->engine);
    const bool gelu = n->kind == TRP_DNN_POINTWISE && n->mode == TRP_DNN_GELU_TANH &&
                      fake_setting_has("cudnn_coarse", j->engine);
    for (int i = 0; i < TRP__DNN_PORTS && (product || gelu); i++) {
        if (n->port[i] == TRP__DNN_NO_PORT || !trp__dnn_kind_of(n->kind)->port[i].written)
            continue;
        const trp__dnn_tensor *t = &j->graph.tensor[n->port[i]];
        const uint8_t from = product ? n->port[i] : n->port[TRP__DNN_POINTWISE_X];
        const uint8_t type = j->graph.tensor[from].type;
        for (int64_t k = 0; k < trp__dnn_extent(t); k++) {
            const size_t at = (size_t)k * (trp_dtype_bits((trp_dtype)type) / 8);
            const double x = number_at(type, (const char *)j->at[from] + at);
            const double bent = coarse_tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
            const double y = product ? x * (1 - 0x1p-13) : x / 2 * (1 + bent);
            (void)trp_convert(TRP_F64, &y, (trp_dtype)t->type,
                              (char *)j->at[n->port[i]] +
                                  (size_t)k * (trp_dtype_bits((trp_dtype)t->type) / 8),
                              1);
        }
    }
}

/* Returns whether the run goes wrong: the library is wrong where tensors have gaps, and so is an
 * engine that a test names. */
static bool goes_wrong(const job *j)
{
    if (fake_setting_has("cudnn_wrong", j->engine) ||
        (fake_setting_has("cudnn_reads_workspace", j->engine) && j->found_rubbish) ||
        (fake_setting_has("cudnn_reads_beside", j->engine) && j->rubbish_beside) ||
        (fake_setting_has("cudnn_reads_output", j->engine) && j->rubbish_written) ||
        (fake_setting_has("cudnn_wrong_extreme", j->engine) && reads_beyond(j, 16)) ||
        (fake_setting_has("cudnn_cubes", j->engine) && reads_beyond(j, 0x1p42) &&
         !reads_beyond(j, 0x1p110)) ||
        (fake_setting_has("cudnn_wrong_second", j->engine) && j->number % 2 == 0))
        return true;
    for (uint32_t i = 0; i < j->graph.tensors; i++) {
        const trp__dnn_tensor *t = &j->graph.tensor[i];
        if (t->role == TRP__DNN_BUFFER && trp__dnn_extent(t) != trp__dnn_elements(t))
            return true;
    }
    return false;
}

/* Changes infinite results of f16 to 0. */
static void lose_overflow(const job *j)
{
    for (uint32_t i = 0; i < j->graph.tensors; i++) {
        const trp__dnn_tensor *t = &j->graph.tensor[i];
        uint16_t *at = j->at[i];
        for (int64_t k = 0; t->written && t->type == TRP_F16 && k < trp__dnn_extent(t); k++) {
            if ((at[k] & 0x7fff) == 0x7c00)
                at[k] = 0;
        }
    }
}

/* Takes time on the device's clock, so that the result of a search does not depend on the machine.
 */
static void take_time(const job *j)
{
    char fast[16];
    if (fake_setting("fast", fast, sizeof fast))
        fake_cuda_took(atoi(fast) == j->engine ? FAST_NS : SLOW_NS);
}

static void run(void *arguments)
{
    job *j = *(job **)arguments;
    char line[64];
    snprintf(line, sizeof line, "engine %d of %u nodes", j->engine, j->graph.nodes);
    fake_report("cudnn_runs", line);
    take_time(j);
    if (fake_setting_has("cudnn_faults", j->engine)) {
        fake_pin pin;
        (void)fake_cuda_reach(&pin, 64, 64, true); /* an address without a mapping */
    } else if (use_workspace(j) && place_all(j)) {
        void *kept[TRP__DNN_LOWERED_TENSORS] = {NULL};
        const bool rounds = fake_setting_has("cudnn_rounds", j->engine);
        const bool flushes = fake_setting_has("cudnn_flushes", j->engine);
        look_for_rubbish(j);
        if (rounds || flushes)
            change_inputs(j, rounds ? rounded : flushed, kept);
        for (uint32_t i = 0; i < j->graph.nodes && !fake_cuda_stopping(); i++) {
            run_node(j, &j->graph.node[i]);
            change_results(j, &j->graph.node[i]);
        }
        if (rounds || flushes)
            restore_inputs(j, kept);
        if (fake_setting_has("cudnn_loses_overflow", j->engine))
            lose_overflow(j);
        bool wrong = goes_wrong(j);
        for (uint32_t i = 0; i < j->graph.tensors && wrong; i++) {
            if (j->graph.tensor[i].written)
                memset(j->at[i], 0x33, fake_direct_bytes(&j->graph.tensor[i]));
        }
        if (fake_setting_has("cudnn_beside", j->engine))
            write_beside(j);
    }
    leave_all(j);
    drop_job(j);
}

/* Calls. */

int fake_finalize_pack(fake_descriptor *d)
{
    const fake_attribute *uid = fake_attribute_of(d, ATTR(VARIANT_PACK_UNIQUE_IDS));
    const fake_attribute *at = fake_attribute_of(d, ATTR(VARIANT_PACK_DATA_POINTERS));
    return uid->count == at->count
               ? FAKE_CUDNN_SUCCESS
               : fake_cudnn_say(FAKE_CUDNN_BAD_PARAM, "%lld unique ids, %lld pointers",
                                (long long)uid->count, (long long)at->count);
}

/* Sets the address of a tensor, or reads its value from host memory. */
static int take_pointer(job *j, uint32_t number, const fake_descriptor *pack)
{
    const fake_attribute *uid = fake_attribute_of(pack, ATTR(VARIANT_PACK_UNIQUE_IDS));
    const fake_attribute *at = fake_attribute_of(pack, ATTR(VARIANT_PACK_DATA_POINTERS));
    const trp__dnn_tensor *t = &j->graph.tensor[number];
    void *pointer = NULL;
    for (int64_t i = 0; i < uid->count; i++) {
        if (((int64_t *)uid->values)[i] == j->graph.uid[number])
            pointer = ((void **)at->values)[i];
    }
    if (!pointer)
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM_NULL_POINTER, "no pointer for unique id %lld",
                              (long long)j->graph.uid[number]);
    if (t->role == TRP__DNN_VALUE)
        j->value[number] = number_at(t->type, pointer);
    else if ((uintptr_t)pointer % t->alignment != 0)
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM_MISALIGNED_POINTER,
                              "unique id %lld: not aligned to %u bytes",
                              (long long)j->graph.uid[number], t->alignment);
    j->address[number] = (uintptr_t)pointer;
    return FAKE_CUDNN_SUCCESS;
}

/* The library may read values only once: a variant pack belongs to one plan and to the values at
 * its first use. */
static int keep_values(job *j, fake_descriptor *pack)
{
    const size_t bytes = j->graph.tensors * sizeof *pack->value;
    if (pack->value) {
        memcpy(j->value, pack->value, bytes);
        return FAKE_CUDNN_SUCCESS;
    }
    pack->value = malloc(bytes);
    if (!pack->value)
        return FAKE_CUDNN_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    memcpy(pack->value, j->value, bytes);
    return FAKE_CUDNN_SUCCESS;
}

static int fill_job(job *j, const fake_descriptor *plan, fake_descriptor *pack)
{
    const fake_attribute *workspace = fake_attribute_of(pack, ATTR(VARIANT_PACK_WORKSPACE));
    int status = FAKE_CUDNN_SUCCESS;
    j->graph = *plan->graph;
    j->engine = plan->engine;
    j->number = atomic_fetch_add(&runs[j->engine], 1) + 1;
    j->workspace = (uintptr_t) * (void **)workspace->values;
    if (fake_engine_workspace(j->engine) && (!j->workspace || j->workspace % 16 != 0))
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM_NULL_POINTER, "a workspace is needed");
    for (uint32_t i = 0; i < j->graph.tensors && status == FAKE_CUDNN_SUCCESS; i++) {
        if (j->graph.tensor[i].role != TRP__DNN_VIRTUAL)
            status = take_pointer(j, i, pack);
    }
    return status == FAKE_CUDNN_SUCCESS ? keep_values(j, pack) : status;
}

trp__cudnn_status cudnnBackendExecute(trp__cudnn_handle handle, trp__cudnn_descriptor plan_at,
                                      trp__cudnn_descriptor pack_at)
{
    int status = fake_cudnn_called();
    const fake_descriptor *plan =
        fake_descriptor_at(plan_at, TRP__CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    fake_descriptor *pack = fake_descriptor_at(pack_at, TRP__CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    if (status)
        return status;
    if (!fake_cudnn_good_handle(handle) || !plan || !plan->final || !pack || !pack->final)
        return fake_cudnn_say(FAKE_CUDNN_BAD_PARAM_NOT_FINALIZED, "no handle, plan or pack");
    if (getenv("FAKE_CUDNN_RUN_RESULT"))
        return fake_cudnn_say(atoi(getenv("FAKE_CUDNN_RUN_RESULT")), "it was not to be run");
    if (fake_setting_has("cudnn_kills", plan->engine))
        raise(SIGKILL);
    if (fake_setting_has("cudnn_fails", plan->engine) || fails_by_now(plan->engine))
        return fake_cudnn_say(FAKE_CUDNN_EXECUTION_FAILED, "an invalid grid");
    job *j = calloc(1, sizeof *j);
    if (!j)
        return FAKE_CUDNN_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    add_job(j);
    status = fill_job(j, plan, pack);
    if (status == FAKE_CUDNN_SUCCESS && fake_cuda_enqueue(handle->stream, run, &j, sizeof j) != 0)
        status = fake_cudnn_say(FAKE_CUDNN_EXECUTION_FAILED, "the stream does not take it");
    if (status != FAKE_CUDNN_SUCCESS)
        drop_job(j);
    return status;
}
