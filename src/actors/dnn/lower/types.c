#include "actors/dnn/lower/types.h"

#include <troupe/dnn.h>

/* The type in which a product reads an operand without loss. */
static uint8_t type_read(const trp__dnn_tensor *t)
{
    return t->type == TRP_F8E4M3 || t->type == TRP_F8E5M2 ? TRP_F16 : t->type;
}

bool trp__lower_has_wider_type(const trp__dnn_tensor *tensor, const trp__dnn_node *node)
{
    const trp__dnn_kind *kind = trp__dnn_kind_of(node->kind);
    for (int i = TRP__DNN_CONV_X; i <= TRP__DNN_CONV_Y; i++) {
        const trp__dnn_tensor *t = &tensor[node->port[i]];
        const uint8_t type = type_read(t);
        const bool known = type == TRP_F32 || type == TRP_F16 || type == TRP_BF16;
        if (t->role == TRP__DNN_VALUE ||
            (!known && type != node->compute && !kind->port[i].written))
            return false;
    }
    return node->compute == TRP_F32 || node->compute == TRP_F64;
}

uint8_t trp__lower_type_alike(const trp__dnn_tensor *tensor, const trp__dnn_node *node, int port,
                              trp__dnn_lowering lowering)
{
    const trp__dnn_kind *kind = trp__dnn_kind_of(node->kind);
    uint8_t read = TRP_DTYPE_NONE, written = TRP_DTYPE_NONE;
    for (int i = TRP__DNN_CONV_X; i <= TRP__DNN_CONV_Y; i++) {
        const trp__dnn_tensor *t = &tensor[node->port[i]];
        if (kind->port[i].written)
            written = t->type;
        else
            read = read == TRP_DTYPE_NONE || read == type_read(t) ? type_read(t) : node->compute;
    }
    if (node->compute == TRP_F64 || (lowering == TRP__DNN_LOWER_F32 && written != read))
        return node->compute;
    return kind->port[port].written && written != read ? node->compute : read;
}

bool trp__lower_is_converted(const trp__dnn_tensor *tensor, const trp__dnn_node *node, int port)
{
    const bool norm = node->kind >= TRP_DNN_NORM_TRAINING;
    const bool result = port == TRP__DNN_NORM_Y ||
                        (port == TRP__DNN_NORM_DX && node->kind == TRP_DNN_NORM_BACKWARD);
    if (node->port[port] == TRP__DNN_NO_PORT || (!norm && port == TRP__DNN_RESAMPLE_INDEX))
        return false;
    const trp__dnn_tensor *t = &tensor[node->port[port]];
    const bool narrow =
        t->type == TRP_F8E4M3 || t->type == TRP_F8E5M2 || t->type == TRP_I8 || t->type == TRP_U8;
    return t->role != TRP__DNN_VALUE && (narrow || (norm && result && t->type == TRP_F64));
}
