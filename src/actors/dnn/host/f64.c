/* Nodes that compute in f64, or in i32, whose sums f64 holds. */
#define T       double
#define NAME(x) x##_f64
#define GEMM    cblas_dgemm
#define IS_F32  0
#include "actors/dnn/host/layer.h"
#include "actors/dnn/host/nodes_real.h"

void trp__dnn_host_node_f64(const trp__dnn_host_node *x)
{
    runs_f64[x->n->kind](x);
}

/* Counts in elements of the smaller type, f32, so that it is enough for both. */
int64_t trp__dnn_host_rest(const trp__dnn_node *n, const trp__dnn_tensor *const tensor[])
{
    const int doubled = sizeof(double) / sizeof(float);
    if (n->kind <= TRP_DNN_CONV_BACKWARD_FILTER) {
        const trp__dnn_tensor *w = tensor[TRP__DNN_CONV_W], *y = tensor[TRP__DNN_CONV_Y];
        int64_t depth = w->dim[1], pixels = 1;
        for (int i = 0; i < n->spatial; i++) {
            depth *= w->dim[2 + i];
            pixels *= y->dim[2 + i];
        }
        return depth * conv_tile_f64(depth, pixels);
    }
    if (n->kind == TRP_DNN_REDUCTION)
        return doubled * 3 * trp__dnn_elements(tensor[TRP__DNN_REDUCTION_Y]);
    if (n->kind == TRP_DNN_STATISTICS)
        return doubled * 4 * trp__dnn_elements(tensor[TRP__DNN_STATISTICS_SUM]);
    if (n->kind >= TRP_DNN_NORM_TRAINING && n->kind <= TRP_DNN_NORM_BACKWARD) {
        const trp__dnn_tensor statistics = trp__dnn_statistics_shape(n, tensor);
        const int64_t layer = trp__dnn_host_layer_rest(n, tensor);
        const int64_t other = doubled * (6 * trp__dnn_elements(&statistics) +
                                         4 * trp__dnn_elements(tensor[TRP__DNN_NORM_SCALE]));
        return layer > other ? layer : other;
    }
    if (n->kind == TRP_DNN_ATTENTION || n->kind == TRP_DNN_ATTENTION_BACKWARD)
        return doubled * attention_rest(tensor[TRP__DNN_ATTENTION_K]) * trp__team_width();
    return 0;
}
