/* Kernels of both BLOCK_SCALE_..., a part of kernels.h. */
#include "actors/dnn/math/blocks.h"

/* One thread per block of elements. */
TRP__KERNEL void trp_direct_quantize(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_BLOCKS_X], *y = &d.tensor[TRP__DNN_BLOCKS_Y];
    const trp__dnn_tensor *s = &d.tensor[TRP__DNN_BLOCKS_SCALE];
    const int axis = d.node.mode, most = d.node.window[0];
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        double amax = 0;
        position(s, i, at);
        const int64_t to = offset(s, s->rank, at);
        at[axis] *= most;
        const int64_t from_x = offset(x, x->rank, at), from_y = offset(y, y->rank, at);
        const int64_t rest = x->dim[axis] - at[axis], count = rest < most ? rest : most;
        for (int64_t k = 0; k < count; k++)
            amax =
                trp__blocks_amax(amax, load(&d, TRP__DNN_BLOCKS_X, from_x + k * x->stride[axis]));
        const double scale = trp__blocks_scale(s->type, y->type, amax);
        store(&d, TRP__DNN_BLOCKS_SCALE, to, scale);
        for (int64_t k = 0; k < count; k++)
            store(&d, TRP__DNN_BLOCKS_Y, from_y + k * y->stride[axis],
                  trp__blocks_narrow(
                      y->type, load(&d, TRP__DNN_BLOCKS_X, from_x + k * x->stride[axis]), scale));
    }
}

TRP__KERNEL void trp_direct_dequantize(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_BLOCKS_X], *y = &d.tensor[TRP__DNN_BLOCKS_Y];
    const trp__dnn_tensor *s = &d.tensor[TRP__DNN_BLOCKS_SCALE];
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        position(y, i, at);
        const int64_t to = offset(y, y->rank, at);
        const double value = load(&d, TRP__DNN_BLOCKS_X, offset(x, x->rank, at));
        at[d.node.mode] /= d.node.window[0];
        store(&d, TRP__DNN_BLOCKS_Y, to,
              trp__blocks_widen(&d.node, value,
                                load(&d, TRP__DNN_BLOCKS_SCALE, offset(s, s->rank, at))));
    }
}
