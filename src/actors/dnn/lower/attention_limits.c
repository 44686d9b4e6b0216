#include "actors/dnn/lower/attention_limits.h"

#include "actors/dnn/lower/layout.h"

#include <troupe/dnn.h>

enum { RANK = 4, ALIGNMENT = 16 };

/* Kernels load pieces of 16 bytes: rows must be aligned to them and have contiguous elements.
 * Tensors without rows are small. */
bool trp__dnn_fits_attention(const trp__dnn_tensor *t, int port)
{
    enum { PIECE = 8 }; /* elements of f16 */
    if (t->role == TRP__DNN_BUFFER && t->alignment < ALIGNMENT)
        return false;
    if (t->role == TRP__DNN_VALUE)
        return true;
    if ((port > TRP__DNN_ATTENTION_Y && port < TRP__DNN_ATTENTION_DY) ||
        port == TRP__DNN_ATTENTION_DBIAS)
        return trp__dnn_layout(t) == TRP__DNN_ROWS;
    for (int i = 0; i < RANK - 1; i++) {
        if (t->dim[i] > 1 && (t->stride[i] % PIECE != 0 || t->stride[i] == 0))
            return false;
    }
    return t->stride[RANK - 1] == 1;
}

/* Tells whether a bias is broadcast along rows or columns: the library then computes wrong
 * gradients, with too large ones of the bias; broadcast along columns, some rows lack the bias
 * forward too. */
static bool repeats(const trp__dnn_tensor *bias, int64_t rows, int64_t columns, bool backward)
{
    return (backward && bias->dim[2] != rows) || bias->dim[3] != columns;
}

const char *trp__dnn_attention_refusal(const trp__dnn_tensor *tensors, const trp__dnn_node *n)
{
    const trp__dnn_tensor *q = &tensors[n->port[TRP__DNN_ATTENTION_Q]];
    const trp__dnn_tensor *v = &tensors[n->port[TRP__DNN_ATTENTION_V]];
    const int64_t rows = q->dim[2], columns = v->dim[2], depth = q->dim[3], width = v->dim[3];
    bool backward = n->kind == TRP_DNN_ATTENTION_BACKWARD;
    bool low = n->mode == TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT;
    bool bias = n->port[TRP__DNN_ATTENTION_BIAS] != TRP__DNN_NO_PORT;
    bool slopes = n->port[TRP__DNN_ATTENTION_SLOPES] != TRP__DNN_NO_PORT;
    bool lengths = n->port[TRP__DNN_ATTENTION_SEQ_Q] != TRP__DNN_NO_PORT;
    if (n->compute != TRP_F32 || (q->type != TRP_F16 && q->type != TRP_BF16))
        return "of other types than f16 and bf16";
    if (!(n->parameter[0] > 0)) /* the largest score would not have the largest exponent */
        return "with a scale that is not positive";
    if (n->parameter[1] > 0) /* its random numbers are its own and cannot be reproduced */
        return "with dropout";
    if (depth % 8 != 0 || width % 8 != 0)
        return "of a depth that is no multiple of 8";
    if (backward && (depth > 256 || width > 256))
        return "backward of a depth of more than 256";
    if (backward && rows == 1 && columns == 1)
        return "backward of one row and column";
    if (bias && repeats(&tensors[n->port[TRP__DNN_ATTENTION_BIAS]], rows, columns, backward))
        return backward ? "backward with a bias that repeats along rows or columns"
                        : "with a bias that repeats along columns";
    if (slopes && n->mode == TRP_DNN_MASK_NONE)
        return "with slopes and without a mask";
    if (low && (bias || slopes))
        return "with a bias or slopes and a diagonal that ends bottom right";
    if ((low || n->window[0] != 0) && !lengths && rows > columns)
        return "with a window, or a diagonal that ends bottom right, and more rows than columns";
    return NULL;
}
