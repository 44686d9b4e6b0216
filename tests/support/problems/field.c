/* See field.h. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/field.h"

#include "support/reference/elements.h"

#include <complex.h>
#include <math.h>

static trp_device *device;

void f_open(trp_device *opened)
{
    device = opened;
}

int64_t f_below(int64_t bound)
{
    return (int64_t)ref_rng_below(h_rng(), (size_t)bound);
}

int64_t f_from(int64_t least, int64_t most)
{
    return least + f_below(most - least + 1);
}

trp_dtype f_real(void)
{
    static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_F16, TRP_BF16};
    return types[f_below(4)];
}

static bool is_integer(trp_dtype type)
{
    return type == TRP_I32 || type == TRP_I64 || type == TRP_I8 || type == TRP_U8 ||
           type == TRP_BOOL;
}

static double round_to(trp_dtype type, double v)
{
    return is_integer(type) ? v : ref_element_round(type, v);
}

static int64_t place(const trp_dnn_tensor *t, int64_t number)
{
    int64_t at = (int64_t)(t->offset / (trp_dtype_bits(t->type) / 8)), next = 1;
    bool packed = true;
    for (uint32_t i = 0; i < t->rank; i++)
        packed = packed && t->stride[i] == 0;
    for (uint32_t i = t->rank; i-- > 0;) {
        at += number % t->dim[i] * (packed ? next : t->stride[i]);
        next *= t->dim[i];
        number /= t->dim[i];
    }
    return at;
}

static void put(trp_dtype type, void *array, int64_t at, double v)
{
    if (type == TRP_I64)
        ((int64_t *)array)[at] = (int64_t)v;
    else if (type == TRP_U8 || type == TRP_BOOL)
        ((uint8_t *)array)[at] = (uint8_t)v;
    else
        ref_element_store(type, array, at, v);
}

static double get(trp_dtype type, const void *array, int64_t at)
{
    if (type == TRP_I64)
        return (double)((const int64_t *)array)[at];
    if (type == TRP_U8 || type == TRP_BOOL)
        return ((const uint8_t *)array)[at];
    return creal(ref_element_load(type, array, at));
}

/* Draws the order of the dimensions, and gaps. */
static void spread(trp_dnn_tensor *t)
{
    uint32_t order[TRP_DNN_RANK_MAX];
    int64_t next = 1 + f_below(3);
    for (uint32_t i = 0; i < t->rank; i++) {
        const uint32_t at = (uint32_t)f_below((int64_t)i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (uint32_t i = 0; i < t->rank; i++) {
        t->stride[order[i]] = next;
        next = next * (t->dim[order[i]] ? t->dim[order[i]] : 1) + f_below(3);
    }
    t->offset = (uint64_t)f_below(4) * (trp_dtype_bits(t->type) / 8);
}

static f_field allocate(const trp_dnn_tensor *shape, double low, double high)
{
    f_field f = {.t = *shape, .count = 1};
    int64_t last = 0;
    for (uint32_t i = 0; i < f.t.rank; i++)
        f.count *= f.t.dim[i];
    for (int64_t i = 0; i < f.count; i++)
        last = place(&f.t, i) > last ? place(&f.t, i) : last;
    f.bytes = (size_t)(last + 3) * (trp_dtype_bits(f.t.type) / 8);
    f.v = h_malloc((size_t)(f.count + 1) * sizeof *f.v);
    f.raw = h_malloc(f.bytes);
    memset(f.raw, 0xff, f.bytes);
    for (int64_t i = 0; i < f.count; i++) {
        f.v[i] = round_to(f.t.type, ref_rng_uniform(h_rng(), low, high));
        if (is_integer(f.t.type))
            f.v[i] = floor(low + (high - low + 1) * ref_rng_uniform(h_rng(), 0, 1));
    }
    if (low <= high)
        f_encode(&f);
    return f;
}

static f_field upload(f_field f)
{
    f.t.buffer = h_buffer(device, f.bytes);
    h_write(device, f.t.buffer, 0, f.raw, f.bytes);
    return f;
}

f_field f_draw(trp_dtype type, int rank, const int64_t *dim, bool packed, double low, double high)
{
    trp_dnn_tensor t = {.type = type, .rank = (uint32_t)rank};
    memcpy(t.dim, dim, (size_t)rank * sizeof *dim);
    if (!packed && f_below(2))
        spread(&t);
    return allocate(&t, low, high);
}

f_field f_make(trp_dtype type, int rank, const int64_t *dim, bool packed, double low, double high)
{
    return upload(f_draw(type, rank, dim, packed, low, high));
}

f_field f_like(const f_field *other, trp_dtype type, double low, double high)
{
    trp_dnn_tensor t = other->t;
    t.type = type;
    t.buffer = (trp_buffer){0};
    t.offset = t.offset / (trp_dtype_bits(other->t.type) / 8) * (trp_dtype_bits(type) / 8);
    return upload(allocate(&t, low, high));
}

void f_encode(f_field *f)
{
    for (int64_t i = 0; i < f->count; i++) {
        f->v[i] = round_to(f->t.type, f->v[i]);
        put(f->t.type, f->raw, place(&f->t, i), f->v[i]);
    }
}

void f_write(f_field *f)
{
    f_encode(f);
    h_write(device, f->t.buffer, 0, f->raw, f->bytes);
}

void f_decode(f_field *f, const void *bytes)
{
    for (int64_t i = 0; i < f->count; i++)
        f->v[i] = get(f->t.type, bytes, place(&f->t, i));
}

void f_mark(const f_field *f, bool *bytes)
{
    const size_t size = trp_dtype_bits(f->t.type) / 8;
    for (int64_t i = 0; i < f->count; i++)
        memset(bytes + (size_t)place(&f->t, i) * size, true, size);
}

void f_read(f_field *f)
{
    const size_t size = trp_dtype_bits(f->t.type) / 8;
    unsigned char *got = h_malloc(f->bytes);
    h_read(device, f->t.buffer, 0, got, f->bytes);
    f_decode(f, got);
    for (int64_t i = 0; i < f->count; i++) {
        const int64_t at = place(&f->t, i);
        memcpy(f->raw + (size_t)at * size, got + (size_t)at * size, size);
    }
    H_SAME(got, f->raw, f->bytes);
    free(got);
}

void f_drop(f_field *f)
{
    if (f->t.buffer.id)
        H_OK(trp_buffer_free(device, f->t.buffer));
    free(f->v);
    free(f->raw);
    *f = (f_field){0};
}

bool f_right(const f_field *f, const double *wanted, double size, double units, bool wide,
             double *worst)
{
    const double own = f->t.type == TRP_F64    ? 0x1p-52
                       : f->t.type == TRP_F32  ? 0x1p-23
                       : f->t.type == TRP_F16  ? 0x1p-10
                       : f->t.type == TRP_BF16 ? 0x1p-7
                                               : 0;
    for (int64_t i = 0; i < f->count; i++) {
        const double right = round_to(f->t.type, wanted[i]), got = f->v[i];
        const double scale = fabs(right) > size ? fabs(right) : size;
        const double slack = own * fabs(right) + units * (wide ? 0x1p-52 : 0x1p-23) * scale +
                             (f->t.type == TRP_F16 ? 0x1p-24 : 0);
        if (isnan(right) ? isnan(got) : got == right)
            continue;
        if (isnan(right) || isinf(right) || own == 0 || !(fabs(got - right) <= slack)) {
            fprintf(stderr,
                    "element %lld of %lld (%s): expected %.17g, got %.17g, more than %g apart\n",
                    (long long)i, (long long)f->count, trp_dtype_name(f->t.type), right, got,
                    slack);
            return false;
        }
        *worst = fmax(*worst, fabs(got - right) / slack);
    }
    return true;
}

void f_compare(const char *file, int line, f_field *f, const double *wanted, double size,
               double units, bool wide)
{
    f_read(f);
    if (!f_right(f, wanted, size, units, wide, &(double){0}))
        h_fail(file, line, "a field is not what it must be");
}
