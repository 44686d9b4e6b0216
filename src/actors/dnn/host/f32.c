/* Nodes that compute in f32. */
#define T       float
#define NAME(x) x##_f32
#define GEMM    cblas_sgemm
#define IS_F32  1
#include "actors/dnn/host/layer.h"
#include "actors/dnn/host/nodes_real.h"

void trp__dnn_host_node_f32(const trp__dnn_host_node *x)
{
    if (trp__dnn_host_layer(x))
        return;
    if (!x->libraries->onednn || !trp__onednn_node(x->libraries->onednn, x))
        runs_f32[x->n->kind](x);
}
