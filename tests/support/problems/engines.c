/* See engines.h. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/engines.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const struct {
    const char *node, *types, *condition;
} table[] = {
#define TRP_PLAIN(node, types, condition, reason) {node, types, condition},
#include "peer/engines.def"
#undef TRP_PLAIN
};

const char *engines_name(trp_dnn_kind kind)
{
    static const char *const names[] = {
        [TRP_DNN_CONV_FORWARD] = "conv_forward",
        [TRP_DNN_CONV_BACKWARD_DATA] = "conv_backward_data",
        [TRP_DNN_CONV_BACKWARD_FILTER] = "conv_backward_filter",
        [TRP_DNN_MATMUL] = "matmul",
        [TRP_DNN_POINTWISE] = "pointwise",
        [TRP_DNN_POINTWISE_BACKWARD] = "pointwise_backward",
        [TRP_DNN_REDUCTION] = "reduction",
        [TRP_DNN_RESAMPLE_FORWARD] = "resample_forward",
        [TRP_DNN_RESAMPLE_BACKWARD] = "resample_backward",
        [TRP_DNN_NORM_TRAINING] = "norm_training",
        [TRP_DNN_NORM_INFERENCE] = "norm_inference",
        [TRP_DNN_NORM_BACKWARD] = "norm_backward",
        [TRP_DNN_STATISTICS] = "statistics",
        [TRP_DNN_ATTENTION] = "attention",
        [TRP_DNN_ATTENTION_BACKWARD] = "attention_backward",
        [TRP_DNN_CONCATENATE] = "concatenate",
        [TRP_DNN_SLICE] = "slice",
        [TRP_DNN_TRANSPOSE] = "transpose",
        [TRP_DNN_RESHAPE] = "reshape",
        [TRP_DNN_RANDOM] = "random",
        [TRP_DNN_BLOCK_SCALE_QUANTIZE] = "block_scale_quantize",
        [TRP_DNN_BLOCK_SCALE_DEQUANTIZE] = "block_scale_dequantize",
        [TRP_DNN_PAGED_LOAD] = "paged_load",
        [TRP_DNN_ARG] = "arg",
        [TRP_DNN_TOP_K] = "top_k",
        [TRP_DNN_SAMPLE] = "sample",
    };
    return (size_t)kind < COUNT_OF(names) ? names[kind] : NULL;
}

/* Returns the first tensor that a node reads. */
static uint32_t first_read(const trp_dnn_node *n)
{
    const uint32_t all[] = {n->kind == TRP_DNN_CONV_BACKWARD_DATA ? n->dy : 0,
                            n->x,
                            n->a,
                            n->q,
                            n->dy,
                            n->part[0],
                            n->seed};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        if (all[i])
            return all[i];
    }
    return 0;
}

/* Returns whether a list, separated by spaces, has a name, or is "*". */
static bool lists(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += length) {
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0))
            return true;
    }
    return !strcmp(list, "*");
}

static bool is_packed(const trp_dnn_tensor *t)
{
    int64_t next = 1;
    bool given = false;
    for (uint32_t i = 0; i < t->rank; i++)
        given = given || t->stride[i] != 0;
    for (uint32_t i = t->rank; given && i-- > 0; next *= t->dim[i]) {
        if (t->dim[i] > 1 && t->stride[i] != next)
            return false;
    }
    return true;
}

static bool holds(const char *condition, const trp_dnn_node *n, const trp_dnn_tensor *t)
{
    if (!strcmp(condition, "flip"))
        return n->flip;
    if (!strcmp(condition, "dropout"))
        return n->parameter[1].given && n->parameter[1].re > 0;
    if (!strcmp(condition, "bias"))
        return n->bias != 0;
    if (!strcmp(condition, "lengths"))
        return n->seq_q != 0;
    if (!strcmp(condition, "index"))
        return n->index != 0;
    if (!strcmp(condition, "strided"))
        return !is_packed(t);
    return !*condition;
}

bool engines_allow_plain(const trp_dnn_tensor *tensors, const trp_dnn_node *nodes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *name = engines_name(nodes[i].kind);
        const trp_dnn_tensor *t = &tensors[first_read(&nodes[i])];
        for (size_t row = 0; name && row < COUNT_OF(table); row++) {
            if (!strcmp(table[row].node, name) &&
                lists(table[row].types, trp_dtype_name(t->type)) &&
                holds(table[row].condition, &nodes[i], t))
                return true;
        }
    }
    return false;
}
