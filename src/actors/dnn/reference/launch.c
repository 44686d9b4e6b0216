#include "actors/dnn/reference/launch.h"

#include "actors/dnn/graph/train_op.h"
#include "actors/dnn/math/functions.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* The kernels of each kind of node, in order, and the tensor of which they have a thread or a block
 * for each element. */
static const struct {
    uint8_t first, last; /* kinds */
    uint8_t port;
    bool blocks;
    const char *name;
} kernels[] = {
    {TRP_DNN_CONV_FORWARD, TRP_DNN_CONV_FORWARD, TRP__DNN_CONV_Y, false, "trp_direct_conv_forward"},
    {TRP_DNN_CONV_BACKWARD_DATA, TRP_DNN_CONV_BACKWARD_DATA, TRP__DNN_CONV_X, false,
     "trp_direct_conv_backward_data"},
    {TRP_DNN_CONV_BACKWARD_FILTER, TRP_DNN_CONV_BACKWARD_FILTER, TRP__DNN_CONV_W, true,
     "trp_direct_conv_backward_filter"},
    {TRP_DNN_MATMUL, TRP_DNN_MATMUL, TRP__DNN_MATMUL_Y, false, "trp_direct_matmul"},
    {TRP_DNN_POINTWISE, TRP_DNN_POINTWISE, TRP__DNN_POINTWISE_Y, false, "trp_direct_pointwise"},
    {TRP_DNN_POINTWISE_BACKWARD, TRP_DNN_POINTWISE_BACKWARD, TRP__DNN_GRADIENT_DX, false,
     "trp_direct_gradient"},
    {TRP_DNN_REDUCTION, TRP_DNN_REDUCTION, TRP__DNN_REDUCTION_Y, true, "trp_direct_reduction"},
    {TRP_DNN_RESAMPLE_FORWARD, TRP_DNN_RESAMPLE_FORWARD, TRP__DNN_RESAMPLE_Y, false,
     "trp_direct_pool"},
    {TRP_DNN_RESAMPLE_BACKWARD, TRP_DNN_RESAMPLE_BACKWARD, TRP__DNN_RESAMPLE_X, false,
     "trp_direct_pool_backward"},
    {TRP_DNN_NORM_TRAINING, TRP_DNN_NORM_TRAINING, TRP__DIRECT_STATISTICS, true, "trp_direct_norm"},
    {TRP_DNN_NORM_INFERENCE, TRP_DNN_NORM_INFERENCE, TRP__DIRECT_STATISTICS, true,
     "trp_direct_norm"},
    {TRP_DNN_NORM_BACKWARD, TRP_DNN_NORM_BACKWARD, TRP__DIRECT_STATISTICS, true,
     "trp_direct_norm_backward"},
    {TRP_DNN_NORM_BACKWARD, TRP_DNN_NORM_BACKWARD, TRP__DNN_NORM_DSCALE, true,
     "trp_direct_norm_backward_scale"},
    {TRP_DNN_STATISTICS, TRP_DNN_STATISTICS, TRP__DNN_STATISTICS_SUM, true,
     "trp_direct_statistics"},
    {TRP_DNN_ATTENTION, TRP_DNN_ATTENTION, TRP__DIRECT_STATISTICS, true, "trp_direct_attention"},
    {TRP_DNN_ATTENTION_BACKWARD, TRP_DNN_ATTENTION_BACKWARD, TRP__DIRECT_STATISTICS, true,
     "trp_direct_attention_backward_q"},
    {TRP_DNN_ATTENTION_BACKWARD, TRP_DNN_ATTENTION_BACKWARD, TRP__DNN_ATTENTION_K, true,
     "trp_direct_attention_backward_kv"},
    {TRP_DNN_ATTENTION_BACKWARD, TRP_DNN_ATTENTION_BACKWARD, TRP__DNN_ATTENTION_DBIAS, true,
     "trp_direct_attention_backward_bias"},
    {TRP_DNN_CONCATENATE, TRP_DNN_CONCATENATE, TRP__DNN_MOVE_Y, false, "trp_direct_move"},
    {TRP_DNN_SLICE, TRP_DNN_SLICE, TRP__DNN_MOVE_Y, false, "trp_direct_move"},
    {TRP_DNN_TRANSPOSE, TRP_DNN_TRANSPOSE, TRP__DNN_MOVE_Y, false, "trp_direct_move"},
    {TRP_DNN_RESHAPE, TRP_DNN_RESHAPE, TRP__DNN_MOVE_Y, false, "trp_direct_move"},
    {TRP_DNN_RANDOM, TRP_DNN_RANDOM, TRP__DNN_RANDOM_Y, false, "trp_direct_random"},
    {TRP_DNN_PAGED_LOAD, TRP_DNN_PAGED_LOAD, TRP__DNN_PAGED_Y, false, "trp_direct_paged_load"},
    {TRP_DNN_BLOCK_SCALE_QUANTIZE, TRP_DNN_BLOCK_SCALE_QUANTIZE, TRP__DNN_BLOCKS_SCALE, false,
     "trp_direct_quantize"},
    {TRP_DNN_BLOCK_SCALE_DEQUANTIZE, TRP_DNN_BLOCK_SCALE_DEQUANTIZE, TRP__DNN_BLOCKS_Y, false,
     "trp_direct_dequantize"},
#define ROW(name, first, last, port, blocks)                                                       \
    {TRP_DNN_##first, TRP_DNN_##last, port, blocks, "trp_direct_" #name},
    TRP__TRAIN_KERNELS(ROW)
#undef ROW
};

enum { KERNELS = sizeof kernels / sizeof *kernels };

static bool is_for(size_t kernel, uint8_t kind)
{
    return kernels[kernel].first <= kind && kind <= kernels[kernel].last;
}

bool trp__direct_takes(const trp__dnn_node *node)
{
    bool any = false;
    for (size_t i = 0; i < KERNELS; i++)
        any = any || is_for(i, node->kind);
    return any;
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
    trp__direct_train_shape(out);
}

/* Returns the index of the same position in another shape, whose dimensions may be 1; -1: another
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

/* Tells whether one block per row of the last dimension does the work and the row's other blocks
 * none. */
static bool does_rows(size_t kernel)
{
    return kernels[kernel].first == TRP_DNN_ATTENTION_BACKWARD &&
           kernels[kernel].port == TRP__DNN_ATTENTION_K;
}

/* Restricts a launch to the elements of its port that a sample needs, each once. The launch stays
 * whole if all elements are needed, if the shapes are unrelated, and if the port is not a
 * tensor. */
static trp_status restrict_launch(const trp__kernel_launch *launch, size_t kernel,
                                  const trp__direct_sample *sample, trp__direct *d,
                                  trp_error *error)
{
    const trp__cuda *cu = launch->modules->cu;
    d->sample = NULL;
    d->samples = 0;
    if (kernels[kernel].port >= TRP__DIRECT_TENSORS || trp__dnn_is_training(d->node.kind))
        return TRP_OK;
    const trp__dnn_tensor *shape = &d->tensor[kernels[kernel].port];
    const int64_t width = does_rows(kernel) ? shape->dim[shape->rank - 1] : 1;
    int64_t *numbers = malloc((sample->count + 1) * sizeof *numbers);
    size_t count = 0;
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
        status =
            trp__kernel_check(launch->instance, cu->cuStreamSynchronize(trp__kernel_stream(launch)),
                              "cuStreamSynchronize", error);
        if (status == TRP_OK)
            status = trp__kernel_check(
                launch->instance,
                trp__cuda_upload(cu, sample->room, numbers, count * sizeof *numbers),
                "cuMemcpyHtoD", error);
        d->sample = (const int64_t *)(uintptr_t)sample->room;
        d->samples = (int64_t)count;
        d->count = (int64_t)count * width;
    }
    free(numbers);
    return status;
}

uint64_t trp__direct_workspace(const trp__dnn_graph *graph, const trp__dnn_node *node)
{
    const trp__dnn_tensor *tensor[TRP__DNN_PORTS];
    if (!trp__dnn_is_training(node->kind) || !trp__train_op_of(node->kind)->device_bytes)
        return 0;
    for (int i = 0; i < TRP__DNN_PORTS; i++)
        tensor[i] = node->port[i] == TRP__DNN_NO_PORT ? NULL : &graph->tensor[node->port[i]];
    return trp__train_op_of(node->kind)->device_bytes(node, tensor);
}

trp_status trp__direct_launch_sample(const trp__dnn_graph *graph, uint32_t node,
                                     const trp__kernel_launch *launch,
                                     const trp__direct_sample *sample, trp_error *error)
{
    const int64_t blocks_max = 1 << 20;
    trp__direct d;
    trp_status status = TRP_OK;
    describe(graph, &graph->node[node], launch->at, launch->number, &d);
    d.scratch = launch->workspace;
    for (size_t i = 0; i < KERNELS && status == TRP_OK; i++) {
        trp__cu_function function;
        if (!is_for(i, graph->node[node].kind))
            continue;
        d.count = trp__direct_count(&d, kernels[i].port);
        if (d.count == 0)
            continue;
        if (sample)
            status = restrict_launch(launch, i, sample, &d, error);
        const int64_t blocks =
            kernels[i].blocks ? d.count : (d.count - 1) / TRP__DIRECT_THREADS + 1;
        if (status == TRP_OK)
            status = trp__kernels_function(launch->modules, launch->instance, TRP__MODULE_DIRECT,
                                           kernels[i].name, &function, error);
        if (status == TRP_OK)
            status = trp__kernel_enqueue(launch, function,
                                         (uint64_t)(blocks < blocks_max ? blocks : blocks_max),
                                         TRP__DIRECT_THREADS, 0, &d, error);
    }
    return status;
}

trp_status trp__direct_launch(const trp__dnn_graph *graph, uint32_t node,
                              const trp__kernel_launch *launch, trp_error *error)
{
    return trp__direct_launch_sample(graph, node, launch, NULL, error);
}
