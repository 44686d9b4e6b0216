#include "actors/dnn/kernels/launch/space.h"

#include <string.h>

void trp__space_begin(trp__space *s, const trp__dnn_tensor *shape)
{
    memset(s, 0, sizeof *s);
    s->rank = shape->rank;
    for (int i = 0; i < shape->rank; i++)
        s->dim[i] = shape->dim[shape->rank - 1 - i];
}

int trp__space_add(trp__space *s, const trp__dnn_tensor *shape, const trp__dnn_tensor *operand)
{
    int64_t *stride = s->stride[s->operands];
    for (int i = 0; i < shape->rank; i++) {
        const int d = shape->rank - 1 - i;
        stride[i] = operand->rank == shape->rank && operand->dim[d] != 1 ? operand->stride[d] : 0;
    }
    return s->operands++;
}

static void swap_dims(trp__space *s, int a, int b)
{
    const int64_t dim = s->dim[a];
    s->dim[a] = s->dim[b];
    s->dim[b] = dim;
    for (int o = 0; o < s->operands; o++) {
        const int64_t stride = s->stride[o][a];
        s->stride[o][a] = s->stride[o][b];
        s->stride[o][b] = stride;
    }
}

static void remove_dim(trp__space *s, int at)
{
    s->rank--;
    for (int i = at; i < s->rank; i++) {
        s->dim[i] = s->dim[i + 1];
        for (int o = 0; o < s->operands; o++)
            s->stride[o][i] = s->stride[o][i + 1];
    }
}

void trp__space_order(trp__space *s, int by)
{
    for (int i = s->rank; i-- > 0;) {
        if (s->dim[i] == 1 && s->rank > 1)
            remove_dim(s, i);
    }
    for (int i = 1; i < s->rank; i++) {
        for (int k = i; k > 0 && s->stride[by][k] < s->stride[by][k - 1]; k--)
            swap_dims(s, k, k - 1);
    }
}

static bool is_gapless(const trp__space *s, int inner)
{
    for (int o = 0; o < s->operands; o++) {
        if (s->stride[o][inner + 1] != s->stride[o][inner] * s->dim[inner])
            return false;
    }
    return true;
}

void trp__space_merge(trp__space *s)
{
    for (int i = s->rank - 2; i >= 0; i--) {
        if (!is_gapless(s, i))
            continue;
        s->dim[i] *= s->dim[i + 1];
        remove_dim(s, i + 1); /* the strides of the inner one stay */
    }
}

bool trp__space_is_aligned(const trp__dnn_tensor *t, uint64_t bytes)
{
    return t->role != TRP__DNN_BUFFER || t->alignment % (bytes < 16 ? bytes : 16) == 0;
}

bool trp__space_takes_type(uint8_t type)
{
    return type == TRP_F64 || type == TRP_F32 || type == TRP_F16 || type == TRP_BF16 ||
           type == TRP_F8E4M3 || type == TRP_F8E5M2 || type == TRP_I8 || type == TRP_I32 ||
           type == TRP_U8 || type == TRP_BOOL;
}

int64_t trp__space_elements(const trp__space *s)
{
    int64_t count = 1;
    for (int i = 0; i < s->rank; i++)
        count *= s->dim[i];
    return count;
}
