#include "actors/dnn/integers.h"

#include "actors/dnn/layout.h"

enum {
    TOGETHER = 16,       /* channels */
    TERMS_MAX = 1 << 16, /* of 2^14 at most: a factor of 2 below what i32 holds */
};

bool trp__dnn_sums_i8(const trp__dnn_tensor tensor[], const trp__dnn_node *node)
{
    if (node->kind != TRP_DNN_CONV_FORWARD || node->compute != TRP_I32 || node->spatial != 2)
        return false;
    const trp__dnn_tensor *x = &tensor[node->port[TRP__DNN_CONV_X]];
    const trp__dnn_tensor *w = &tensor[node->port[TRP__DNN_CONV_W]];
    const int64_t taps = w->dim[2] * w->dim[3];
    const uint32_t layouts = trp__dnn_layouts(x) & trp__dnn_layouts(w);
    return x->type == TRP_I8 && w->type == TRP_I8 && x->dim[1] == w->dim[1] &&
           x->dim[1] % TOGETHER == 0 && w->dim[0] % TOGETHER == 0 &&
           taps * w->dim[1] <= TERMS_MAX && (!node->mode || taps == 1) &&
           (layouts & 1u << TRP__DNN_CHANNELS_LAST);
}
