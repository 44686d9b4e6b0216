/* Copies between tensors in memory of any type and strides and dense arrays. */
#include "actors/dnn/host/arrays/node.h"
#include "actors/dnn/host/arrays/ops.h"

#include <troupe/convert.h>

#include <math.h>
#include <string.h>

enum { BLOCK = 256, WIDEST = 8 };

/* The lines of a tensor along its last dimension, in order. */
typedef struct lines {
    int rank; /* at least 1 */
    int64_t dim[TRP__DNN_RANK], stride[TRP__DNN_RANK];
    int64_t at[TRP__DNN_RANK]; /* position except in the last dimension */
    int64_t offset;            /* offset of the line's first element */
} lines;

/* Returns the lines of a tensor without dimensions of 1 and with contiguous dimensions merged. */
static lines lines_of(const trp__dnn_tensor *t)
{
    lines l = {.dim = {1}, .stride = {1}};
    for (int i = 0; i < t->rank; i++) {
        int last = l.rank - 1;
        if (t->dim[i] == 1)
            continue;
        if (l.rank > 0 && l.stride[last] == t->stride[i] * t->dim[i]) {
            l.dim[last] *= t->dim[i];
            l.stride[last] = t->stride[i];
            continue;
        }
        l.dim[l.rank] = t->dim[i];
        l.stride[l.rank++] = t->stride[i];
    }
    l.rank = l.rank > 0 ? l.rank : 1;
    return l;
}

static bool next_line(lines *l)
{
    for (int i = l->rank - 2; i >= 0; i--) {
        l->offset += l->stride[i];
        if (++l->at[i] < l->dim[i])
            return true;
        l->offset -= l->stride[i] * l->dim[i];
        l->at[i] = 0;
    }
    return false;
}

#define COPY_ELEMENTS(type)                                                                        \
    do {                                                                                           \
        for (int64_t i = 0; i < count; i++)                                                        \
            ((type *)to)[i * to_step] = ((const type *)from)[i * from_step];                       \
    } while (0)

/* Copies elements of `size` bytes with a step on either side. */
static void copy_elements(const void *from, int64_t from_step, void *to, int64_t to_step,
                          size_t size, int64_t count)
{
    switch (size) {
    case 1:
        COPY_ELEMENTS(uint8_t);
        break;
    case 2:
        COPY_ELEMENTS(uint16_t);
        break;
    case 4:
        COPY_ELEMENTS(uint32_t);
        break;
    default:
        COPY_ELEMENTS(uint64_t);
        break;
    }
}

/* Tells whether trp_convert() does not support a type. */
static bool is_small(uint8_t type)
{
    return type == TRP_U8 || type == TRP_BOOL;
}

static void widen(uint8_t type, const void *from, bool wide, void *to, int64_t count)
{
    if (type == (wide ? TRP_F64 : TRP_F32)) {
        memcpy(to, from, (size_t)count * (wide ? sizeof(double) : sizeof(float)));
        return;
    }
    if (type == TRP_I32) {
        trp__chain_widen_i32(from, wide, to, count);
        return;
    }
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
    if (type == (wide ? TRP_F64 : TRP_F32)) {
        memcpy(to, from, (size_t)count * (wide ? sizeof(double) : sizeof(float)));
        return;
    }
    if (!is_small(type)) {
        trp_convert(wide ? TRP_F64 : TRP_F32, from, (trp_dtype)type, to, (size_t)count);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        double value = wide ? ((const double *)from)[i] : (double)((const float *)from)[i];
        double nearest = nearbyint(value);
        if (type == TRP_BOOL) /* nonzero is true, as in AND, OR and SELECT; also NaN */
            ((uint8_t *)to)[i] = value != 0;
        else
            ((uint8_t *)to)[i] = (uint8_t)(!(nearest > 0)         ? 0
                                           : nearest >= UINT8_MAX ? UINT8_MAX
                                                                  : nearest);
    }
}

/* Iterates over all elements in blocks: loads to the dense array, or stores from it. */
static void move_all(const trp__dnn_tensor *t, char *place, bool wide, char *dense, bool load)
{
    _Alignas(16) char block[BLOCK * WIDEST];
    const size_t size = trp_dtype_bits((trp_dtype)t->type) / 8;
    const size_t real = wide ? sizeof(double) : sizeof(float);
    lines l = lines_of(t);
    const int64_t length = l.dim[l.rank - 1], step = l.stride[l.rank - 1];
    const int64_t most = step == 1 ? length : BLOCK; /* contiguous elements need no block */
    if (trp__dnn_elements(t) == 0)
        return;
    do {
        for (int64_t i = 0, count; i < length; i += count) {
            char *at = place + (size_t)(l.offset + i * step) * size;
            count = length - i < most ? length - i : most;
            if (load) {
                if (step != 1)
                    copy_elements(at, step, block, 1, size, count);
                widen(t->type, step == 1 ? at : block, wide, dense, count);
            } else {
                narrow(t->type, wide, dense, step == 1 ? at : block, count);
                if (step != 1)
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

/* Loads a block of elements; with a stride of 0 all are the same element. */
static void load_block(uint8_t type, const char *from, int64_t stride, bool wide, void *to,
                       int64_t count)
{
    _Alignas(16) char block[BLOCK * WIDEST];
    copy_elements(from, stride, block, 1, trp_dtype_bits((trp_dtype)type) / 8, count);
    widen(type, block, wide, to, count);
}

void trp__dnn_host_load_line(uint8_t type, const void *from, int64_t stride, bool wide, void *to,
                             int64_t count)
{
    const size_t size = trp_dtype_bits((trp_dtype)type) / 8;
    const size_t real = wide ? sizeof(double) : sizeof(float);
    if (stride == 1) {
        widen(type, from, wide, to, count);
        return;
    }
    for (int64_t i = 0; i < count; i += BLOCK)
        load_block(type, (const char *)from + i * stride * (int64_t)size, stride, wide,
                   (char *)to + (size_t)i * real, count - i < BLOCK ? count - i : BLOCK);
}

void trp__dnn_host_store_line(uint8_t type, void *to, int64_t stride, bool wide, const void *from,
                              int64_t count)
{
    _Alignas(16) char block[BLOCK * WIDEST];
    const size_t size = trp_dtype_bits((trp_dtype)type) / 8;
    const size_t real = wide ? sizeof(double) : sizeof(float);
    if (stride == 1) {
        narrow(type, wide, from, to, count);
        return;
    }
    for (int64_t i = 0; i < count; i += BLOCK) {
        const int64_t some = count - i < BLOCK ? count - i : BLOCK;
        narrow(type, wide, (const char *)from + (size_t)i * real, block, some);
        copy_elements(block, 1, (char *)to + i * stride * (int64_t)size, stride, size, some);
    }
}

void trp__dnn_host_round(uint8_t type, bool wide, void *elements, int64_t count)
{
    _Alignas(16) char block[BLOCK * WIDEST];
    const size_t real = wide ? sizeof(double) : sizeof(float);
    if (type == TRP_BF16 && !wide) {
        trp__chain_round_bf16(elements, count);
        return;
    }
    for (int64_t i = 0; i < count; i += BLOCK) {
        const int64_t some = count - i < BLOCK ? count - i : BLOCK;
        char *at = (char *)elements + (size_t)i * real;
        narrow(type, wide, at, block, some);
        widen(type, block, wide, at, some);
    }
}
