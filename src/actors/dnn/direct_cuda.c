#include "actors/dnn/direct_cuda.h"

#include "actors/dnn/functions.h"
#include "actors/jit/make.h"
#include "actors/jit/nvrtc.h"
#include "base/embedded.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which kernels a kind of node takes, in turn, and of which tensor they have a thread or a block
 * for each element. */
static const struct {
    uint8_t kind;
    uint8_t port;
    bool blocks;
    const char *name;
} kernels[TRP__DIRECT_KERNELS] = {
    {TRP_DNN_CONV_FORWARD, TRP__DNN_CONV_Y, false, "trp_direct_conv_forward"},
    {TRP_DNN_CONV_BACKWARD_DATA, TRP__DNN_CONV_X, false, "trp_direct_conv_backward_data"},
    {TRP_DNN_CONV_BACKWARD_FILTER, TRP__DNN_CONV_W, true, "trp_direct_conv_backward_filter"},
    {TRP_DNN_MATMUL, TRP__DNN_MATMUL_Y, false, "trp_direct_matmul"},
    {TRP_DNN_POINTWISE, TRP__DNN_POINTWISE_Y, false, "trp_direct_pointwise"},
    {TRP_DNN_POINTWISE_BACKWARD, TRP__DNN_GRADIENT_DX, false, "trp_direct_gradient"},
    {TRP_DNN_REDUCTION, TRP__DNN_REDUCTION_Y, true, "trp_direct_reduction"},
    {TRP_DNN_RESAMPLE_FORWARD, TRP__DNN_RESAMPLE_Y, false, "trp_direct_pool"},
    {TRP_DNN_RESAMPLE_BACKWARD, TRP__DNN_RESAMPLE_X, false, "trp_direct_pool_backward"},
    {TRP_DNN_NORM_TRAINING, TRP__DIRECT_STATISTICS, true, "trp_direct_norm"},
    {TRP_DNN_NORM_INFERENCE, TRP__DIRECT_STATISTICS, true, "trp_direct_norm"},
    {TRP_DNN_NORM_BACKWARD, TRP__DIRECT_STATISTICS, true, "trp_direct_norm_backward"},
    {TRP_DNN_NORM_BACKWARD, TRP__DNN_NORM_DSCALE, true, "trp_direct_norm_backward_scale"},
    {TRP_DNN_STATISTICS, TRP__DNN_STATISTICS_SUM, true, "trp_direct_statistics"},
    {TRP_DNN_ATTENTION, TRP__DIRECT_STATISTICS, true, "trp_direct_attention"},
    {TRP_DNN_ATTENTION_BACKWARD, TRP__DIRECT_STATISTICS, true, "trp_direct_attention_backward_q"},
    {TRP_DNN_ATTENTION_BACKWARD, TRP__DNN_ATTENTION_K, true, "trp_direct_attention_backward_kv"},
    {TRP_DNN_ATTENTION_BACKWARD, TRP__DNN_ATTENTION_DBIAS, true,
     "trp_direct_attention_backward_bias"},
    {TRP_DNN_CONCATENATE, TRP__DNN_MOVE_Y, false, "trp_direct_move"},
    {TRP_DNN_SLICE, TRP__DNN_MOVE_Y, false, "trp_direct_move"},
    {TRP_DNN_TRANSPOSE, TRP__DNN_MOVE_Y, false, "trp_direct_move"},
    {TRP_DNN_RESHAPE, TRP__DNN_MOVE_Y, false, "trp_direct_move"},
    {TRP_DNN_RANDOM, TRP__DNN_RANDOM_Y, false, "trp_direct_random"},
    {TRP_DNN_PAGED_LOAD, TRP__DNN_PAGED_Y, false, "trp_direct_paged_load"},
    {TRP_DNN_BLOCK_SCALE_QUANTIZE, TRP__DNN_BLOCKS_SCALE, false, "trp_direct_quantize"},
    {TRP_DNN_BLOCK_SCALE_DEQUANTIZE, TRP__DNN_BLOCKS_Y, false, "trp_direct_dequantize"},
};

/* What the texts expect of a compiler, where they are C. */
static const char source[] = "#define TRP__KERNEL extern \"C\" __global__\n"
                             "#define TRP__SHARED __shared__\n"
                             "#define TRP__SYNC() __syncthreads()\n"
                             "#define TRP__THREAD ((int)threadIdx.x)\n"
                             "#define TRP__THREADS ((int)blockDim.x)\n"
                             "#define TRP__BLOCK blockIdx.x\n"
                             "#define TRP__BLOCKS gridDim.x\n"
                             "#define _Static_assert static_assert\n"
                             "#include \"actors/dnn/functions.c\"\n"
                             "#include \"actors/dnn/direct_kernels.h\"\n";

/* There may be no headers of C where it runs, so it gets what the texts need of them. */
static const trp__embedded standard[] = {
    {"stdint.h", "#pragma once\n"
                 "typedef signed char int8_t;\ntypedef unsigned char uint8_t;\n"
                 "typedef short int16_t;\ntypedef unsigned short uint16_t;\n"
                 "typedef int int32_t;\ntypedef unsigned uint32_t;\n"
                 "typedef long int64_t;\ntypedef unsigned long uint64_t;\n"
                 "typedef long intptr_t;\ntypedef unsigned long uintptr_t;\n"
                 "#define INT8_MIN (-128)\n#define INT8_MAX 127\n#define UINT8_MAX 255\n"
                 "#define INT32_MIN (-2147483647 - 1)\n#define INT32_MAX 2147483647\n"
                 "#define INT64_MAX 9223372036854775807l\n"
                 "#define UINT32_MAX 4294967295u\n#define UINT64_MAX 18446744073709551615ul\n"
                 "#define UINT32_C(x) x##u\n#define INT64_C(x) x##l\n#define UINT64_C(x) x##ul\n"},
    {"stddef.h", "#define offsetof(type, member) __builtin_offsetof(type, member)\n"},
    {"stdbool.h", ""},
    {"string.h", ""},
    {"math.h", "#define INFINITY ((double)__int_as_float(0x7f800000))\n"
               "#define NAN ((double)__int_as_float(0x7fffffff))\n"},
    {0},
};

enum { TEXTS_MAX = 32 };

/* All that a compile reads. */
typedef struct texts {
    const char *name[TEXTS_MAX], *text[TEXTS_MAX];
    int count;
} texts;

static void add_texts(texts *t, const trp__embedded *more)
{
    for (; more->name && t->count < TEXTS_MAX; more++) {
        t->name[t->count] = more->name;
        t->text[t->count++] = more->text;
    }
}

bool trp__direct_takes(const trp__dnn_node *node)
{
    bool any = false;
    for (int i = 0; i < TRP__DIRECT_KERNELS; i++)
        any = any || kernels[i].kind == node->kind;
    return any;
}

/* Compiling. */

static trp_status failed(const trp__nvrtc *rtc, trp__nvrtc_result result, const char *call,
                         const char *log, trp_error *error)
{
    char what[128], message[sizeof error->message];
    snprintf(what, sizeof what, "%s (%d), in %s", rtc->nvrtcGetErrorString(result), result, call);
    trp__jit_error_lines(log, what, message, sizeof message);
    return trp__error_set_code(error, TRP_E_LIBRARY, "nvrtc", result, "%s", message);
}

static trp_status take_image(const trp__nvrtc *rtc, trp__nvrtc_program program,
                             trp__direct_kernels *k, trp_error *error)
{
    size_t bytes = 0;
    trp__nvrtc_result result = rtc->nvrtcGetCUBINSize(program, &bytes);
    if (result != TRP__NVRTC_SUCCESS || bytes == 0)
        return failed(rtc, result, "nvrtcGetCUBINSize", "", error);
    void *image = malloc(bytes);
    if (!image)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for an image of %zu bytes", bytes);
    result = rtc->nvrtcGetCUBIN(program, image);
    if (result != TRP__NVRTC_SUCCESS) {
        free(image);
        return failed(rtc, result, "nvrtcGetCUBIN", "", error);
    }
    k->image = image;
    k->image_bytes = bytes;
    return TRP_OK;
}

static trp_status compile(trp__direct_kernels *k, const texts *t, trp_error *error)
{
    char arch[32], log[2048] = "";
    const char *const options[] = {arch, "-default-device", "-std=c++17"};
    const trp__nvrtc *rtc;
    trp__nvrtc_program program = NULL;
    size_t bytes = 0;
    trp_status status = trp__nvrtc_load(&rtc, error);
    if (status != TRP_OK)
        return status;
    snprintf(arch, sizeof arch, "-arch=%s", k->target);
    trp__nvrtc_result result =
        rtc->nvrtcCreateProgram(&program, source, "trp_dnn_direct.cu", t->count, t->text, t->name);
    if (result != TRP__NVRTC_SUCCESS)
        return failed(rtc, result, "nvrtcCreateProgram", "", error);
    result = rtc->nvrtcCompileProgram(program, sizeof options / sizeof *options, options);
    if (result == TRP__NVRTC_SUCCESS) {
        status = take_image(rtc, program, k, error);
    } else {
        if (rtc->nvrtcGetProgramLogSize(program, &bytes) == TRP__NVRTC_SUCCESS &&
            bytes <= sizeof log)
            rtc->nvrtcGetProgramLog(program, log);
        status = failed(rtc, result, "nvrtcCompileProgram", log, error);
    }
    rtc->nvrtcDestroyProgram(&program);
    return status;
}

static void make_key(const trp__direct_kernels *k, const texts *t, trp__key *key)
{
    char compiler[TRP__NVRTC_IDENTITY] = "";
    trp_error ignored; /* without one nothing is compiled, and a pack may still have it */
    (void)trp__nvrtc_identity(compiler, &ignored);
    *key = (trp__key){0};
    trp__key_begin(key, TRP__KIND_DNN_KERNELS);
    trp__key_add_text(key, TRP__KEY_NAME, "kernels of the dnn actor");
    trp__key_add_text(key, TRP__KEY_SOURCE, source);
    trp__key_add_text(key, TRP__KEY_TARGET, k->target);
    trp__key_add_text(key, TRP__KEY_OUTPUT, "cubin");
    trp__key_add_text(key, TRP__KEY_COMPILER, compiler);
    for (int i = 0; i < t->count; i++)
        trp__key_add_text(key, TRP__KEY_INPUT, t->text[i]);
}

static bool find_image(trp__direct_kernels *k, const trp__store_request *request)
{
    trp__store_hit hit = {0};
    if (k->store && trp__store_find(k->store, request, &hit) == TRP_OK && hit.bytes > 0) {
        k->image = malloc(hit.bytes);
        k->image_bytes = hit.bytes;
        if (k->image)
            memcpy(k->image, hit.payload, hit.bytes);
    }
    trp__store_hit_end(&hit);
    return k->image != NULL;
}

trp_status trp__direct_make(trp__direct_kernels *k, trp_error *error)
{
    texts t = {.count = 0};
    trp__key key;
    trp_error ignored;
    trp_status status = TRP_OK;
    if (k->image)
        return TRP_OK;
    add_texts(&t, standard);
    add_texts(&t, trp__direct_texts);
    make_key(k, &t, &key);
    const trp__store_request request = {.key = &key};
    if (!find_image(k, &request)) {
        status = compile(k, &t, error);
        if (status == TRP_OK && k->store)
            (void)trp__store_put(k->store, &request,
                                 &(trp__store_entry){.payload = k->image, .bytes = k->image_bytes},
                                 &ignored);
    }
    trp__key_end(&key);
    return status;
}

/* Launching. */

static trp_status check(trp__cu_result result, const char *call, trp_error *error)
{
    return result == TRP__CU_SUCCESS ? TRP_OK : trp__cuda_error(error, result, call);
}

static trp_status load(trp__direct_kernels *k, trp_error *error)
{
    trp_status status = TRP_OK;
    if (k->module)
        return TRP_OK;
    if (!k->image)
        return trp__error_set(error, TRP_E_INTERNAL, "kernels that were not made");
    status = check(k->cu->cuModuleLoadData(&k->module, k->image), "cuModuleLoadData", error);
    for (int i = 0; i < TRP__DIRECT_KERNELS && status == TRP_OK; i++)
        status = check(k->cu->cuModuleGetFunction(&k->function[i], k->module, kernels[i].name),
                       "cuModuleGetFunction", error);
    return status;
}

trp_status trp__direct_share(const trp__direct_kernels *from, trp__direct_kernels *to,
                             trp_error *error)
{
    *to = (trp__direct_kernels){.cu = from->cu, .store = from->store, .target = from->target};
    to->image = malloc(from->image_bytes ? from->image_bytes : 1);
    if (!from->image || !to->image)
        return trp__error_set(error, TRP_E_MEMORY, "no image of %zu bytes", from->image_bytes);
    memcpy(to->image, from->image, from->image_bytes);
    to->image_bytes = from->image_bytes;
    return TRP_OK;
}

void trp__direct_end(trp__direct_kernels *k, trp_instance *instance)
{
    if (k->module)
        trp_cuda_check(instance, k->cu->cuModuleUnload(k->module), "cuModuleUnload", NULL);
    free(k->image);
    k->module = NULL;
    k->image = NULL;
}

static bool is_norm(const trp__dnn_node *node)
{
    return node->kind >= TRP_DNN_NORM_TRAINING && node->kind <= TRP_DNN_NORM_BACKWARD;
}

static void describe(const trp__dnn_graph *graph, const trp__dnn_node *node, void *const at[],
                     const double value[], trp__direct *out)
{
    const trp__dnn_tensor *tensor[TRP__DNN_PORTS] = {0};
    memset(out, 0, sizeof *out);
    out->node = *node;
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        uint8_t number = node->port[i];
        if (number == TRP__DNN_NO_PORT)
            continue;
        tensor[i] = &graph->tensor[number];
        out->used[i] = true;
        out->tensor[i] = *tensor[i];
        if (tensor[i]->role == TRP__DNN_VALUE)
            out->value[i] = value[number];
        else
            out->at[i] = at[number];
    }
    if (is_norm(node))
        out->tensor[TRP__DIRECT_STATISTICS] = trp__dnn_statistics_shape(node, tensor);
    if (node->kind == TRP_DNN_ATTENTION || node->kind == TRP_DNN_ATTENTION_BACKWARD) {
        out->tensor[TRP__DIRECT_STATISTICS] = out->tensor[TRP__DNN_ATTENTION_Q];
        out->tensor[TRP__DIRECT_STATISTICS].dim[3] = 1;
    }
}

/* The number of the same place in another shape, in which dimensions may be 1; -1: it has another
 * shape. */
static int64_t number_within(const trp__dnn_tensor *from, const trp__dnn_tensor *to, int64_t number)
{
    int64_t at[TRP__DNN_RANK], result = 0;
    if (from->rank != to->rank)
        return -1;
    for (int i = from->rank - 1; i >= 0; i--) {
        if (to->dim[i] != from->dim[i] && to->dim[i] != 1)
            return -1;
        at[i] = number % from->dim[i];
        number /= from->dim[i];
    }
    for (int i = 0; i < to->rank; i++)
        result = result * to->dim[i] + (to->dim[i] == 1 ? 0 : at[i]);
    return result;
}

static int compare_numbers(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Whether a block does a row of the last dimension, and all others of that row nothing. */
static bool does_rows(int kernel)
{
    return kernels[kernel].kind == TRP_DNN_ATTENTION_BACKWARD &&
           kernels[kernel].port == TRP__DNN_ATTENTION_K;
}

/* Restricts a launch to the elements of `port` that a sample needs, each once. Where the shapes say
 * nothing about each other, and where all are needed, it stays whole. */
static trp_status restrict_launch(trp__direct_kernels *k, trp__cu_stream stream, int kernel,
                                  const trp__direct_sample *sample, trp__direct *d,
                                  trp_error *error)
{
    const trp__dnn_tensor *shape = &d->tensor[kernels[kernel].port];
    const int64_t width = does_rows(kernel) ? shape->dim[shape->rank - 1] : 1;
    int64_t *numbers = malloc((sample->count + 1) * sizeof *numbers);
    size_t count = 0;
    d->sample = NULL;
    d->samples = 0;
    if (!numbers)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for %zu numbers", sample->count);
    for (size_t i = 0; i < sample->count; i++) {
        int64_t number = number_within(sample->tensor, shape, sample->number[i]);
        if (number < 0) {
            free(numbers);
            return TRP_OK;
        }
        numbers[i] = number / width;
    }
    qsort(numbers, sample->count, sizeof *numbers, compare_numbers);
    for (size_t i = 0; i < sample->count; i++) {
        if (count == 0 || numbers[count - 1] != numbers[i])
            numbers[count++] = numbers[i];
    }
    trp_status status = TRP_OK;
    if (count > 0 && (int64_t)count * width < d->count) {
        status = check(k->cu->cuStreamSynchronize(stream), "cuStreamSynchronize", error);
        if (status == TRP_OK)
            status = check(trp__cuda_upload(k->cu, sample->room, numbers, count * sizeof *numbers),
                           "cuMemcpyHtoD", error);
        d->sample = (const int64_t *)(uintptr_t)sample->room;
        d->samples = (int64_t)count;
        d->count = (int64_t)count * width;
    }
    free(numbers);
    return status;
}

trp_status trp__direct_launch_on(trp__direct_kernels *k, trp__cu_stream stream,
                                 const trp__dnn_graph *graph, uint32_t node, void *const at[],
                                 const double value[], const trp__direct_sample *sample,
                                 trp_error *error)
{
    const int64_t blocks_max = 1 << 20;
    trp__direct d;
    void *arguments[] = {&d};
    trp_status status = load(k, error);
    if (status == TRP_OK)
        describe(graph, &graph->node[node], at, value, &d);
    for (int i = 0; i < TRP__DIRECT_KERNELS && status == TRP_OK; i++) {
        const uint8_t port = kernels[i].port;
        if (kernels[i].kind != graph->node[node].kind || (port < TRP__DNN_PORTS && !d.used[port]))
            continue;
        d.count = trp__dnn_elements(&d.tensor[port]);
        if (d.count == 0)
            continue;
        if (sample)
            status = restrict_launch(k, stream, i, sample, &d, error);
        int64_t blocks = kernels[i].blocks ? d.count : (d.count - 1) / TRP__DIRECT_THREADS + 1;
        if (status == TRP_OK)
            status =
                check(k->cu->cuLaunchKernel(
                          k->function[i], (unsigned)(blocks < blocks_max ? blocks : blocks_max), 1,
                          1, TRP__DIRECT_THREADS, 1, 1, 0, stream, arguments, NULL),
                      "cuLaunchKernel", error);
    }
    return status;
}

trp_status trp__direct_launch(trp__direct_kernels *k, trp_instance *instance,
                              const trp__dnn_graph *graph, uint32_t node, void *const at[],
                              const double value[], trp_error *error)
{
    trp_status status =
        trp__direct_launch_on(k, instance->stream, graph, node, at, value, NULL, error);
    return status == TRP_OK || strcmp(error->domain, "cuda") != 0
               ? status
               : instance->services->cuda_fail(instance, error->code, "a kernel of Troupe's",
                                               error);
}
