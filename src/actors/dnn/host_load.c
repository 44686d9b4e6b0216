/* Between tensors in memory, of any type and strides, and dense arrays. */
#include "actors/dnn/host_run.h"

#include <troupe/convert.h>

#include <math.h>
#include <string.h>

enum { BLOCK = 256, WIDEST = 8 };

/* The lines of a tensor along its last dimension, in order. */
typedef struct lines {
    const trp__dnn_tensor *t;
    int64_t at[TRP__DNN_RANK]; /* but in the last */
    int64_t offset;            /* of the line's first element */
} lines;

static bool next_line(lines *l)
{
    const trp__dnn_tensor *t = l->t;
    for (int i = t->rank - 2; i >= 0; i--) {
        l->offset += t->stride[i];
        if (++l->at[i] < t->dim[i])
            return true;
        l->offset -= t->stride[i] * t->dim[i];
        l->at[i] = 0;
    }
    return false;
}

/* Elements of `size` bytes, so many apart on either side. */
static void copy_elements(const char *from, int64_t from_step, char *to, int64_t to_step,
                          size_t size, int64_t count)
{
    if (from_step == 1 && to_step == 1) {
        memcpy(to, from, (size_t)count * size);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        memcpy(to + (size_t)(i * to_step) * size, from + (size_t)(i * from_step) * size, size);
}

/* What trp_convert() has no names for. */
static bool is_small(uint8_t type)
{
    return type == TRP_U8 || type == TRP_BOOL;
}

static void widen(uint8_t type, const void *from, bool wide, void *to, int64_t count)
{
    if (!is_small(type)) {
        trp_convert((trp_dtype)type, from, wide ? TRP_F64 : TRP_F32, to, (size_t)count);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        uint8_t value = ((const uint8_t *)from)[i];
        value = type == TRP_BOOL ? value != 0 : value;
        if (wide)
            ((double *)to)[i] = value;
        else
            ((float *)to)[i] = value;
    }
}

static void narrow(uint8_t type, bool wide, const void *from, void *to, int64_t count)
{
    if (!is_small(type)) {
        trp_convert(wide ? TRP_F64 : TRP_F32, from, (trp_dtype)type, to, (size_t)count);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        double value = wide ? ((const double *)from)[i] : (double)((const float *)from)[i];
        double nearest = nearbyint(value), most = type == TRP_BOOL ? 1 : UINT8_MAX;
        ((uint8_t *)to)[i] = (uint8_t)(!(nearest > 0) ? 0 : nearest >= most ? most : nearest);
    }
}

/* Goes over all elements in blocks; `load` to the dense array, else from it. */
static void move_all(const trp__dnn_tensor *t, char *place, bool wide, char *dense, bool load)
{
    _Alignas(16) char block[BLOCK * WIDEST];
    const size_t size = trp_dtype_bits((trp_dtype)t->type) / 8;
    const size_t real = wide ? sizeof(double) : sizeof(float);
    const int64_t length = t->dim[t->rank - 1], step = t->stride[t->rank - 1];
    lines l = {.t = t};
    if (trp__dnn_elements(t) == 0)
        return;
    do {
        for (int64_t i = 0, count; i < length; i += count) {
            char *at = place + (size_t)(l.offset + i * step) * size;
            count = length - i < BLOCK ? length - i : BLOCK;
            if (load) {
                copy_elements(at, step, block, 1, size, count);
                widen(t->type, block, wide, dense, count);
            } else {
                narrow(t->type, wide, dense, block, count);
                copy_elements(block, 1, at, step, size, count);
            }
            dense += (size_t)count * real;
        }
    } while (next_line(&l));
}

void trp__dnn_host_load(const trp__dnn_tensor *t, const void *place, bool wide, void *to)
{
    move_all(t, (char *)(uintptr_t)place, wide, to, true);
}

void trp__dnn_host_store(const trp__dnn_tensor *t, void *place, bool wide, const void *from)
{
    move_all(t, place, wide, (char *)(uintptr_t)from, false);
}
