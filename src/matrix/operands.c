#include "matrix/operands.h"

#include "base/error.h"
#include "base/numbers/types.h"

#include <stdio.h>

trp_status trp__operand_wrong(trp__encoder *encoder, const char *argument, const char *expected,
                              int64_t got)
{
    return trp__error_set(encoder->error, TRP_E_ARGUMENT, "%s: expected %s, got %lld", argument,
                          expected, (long long)got);
}

trp_status trp__operand_check_absent(trp__encoder *encoder, const trp__operand *x,
                                     const uint32_t *mode, int count)
{
    for (int i = 0; i < count; i++) {
        if (mode[i] == 0 && x[i].buffer.id)
            return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                  "%s: expected no buffer: the operation has no such operand",
                                  x[i].name);
    }
    return TRP_OK;
}

typedef struct argument_name {
    char text[24];
} argument_name;

/* Returns the name of a leading dimension or a stride in the request. */
static argument_name name_of(const trp__operand *x, bool ld)
{
    argument_name out;
    const char *part = ld ? "ld" : "stride";
    if (x->fields)
        snprintf(out.text, sizeof out.text, "%s.%s", x->name, part);
    else
        snprintf(out.text, sizeof out.text, "%s%s%s", ld ? part : x->name, ld ? "" : "_",
                 ld ? x->name : part);
    return out;
}

trp_status trp__operand_check_ld(trp__encoder *encoder, trp__operand *x, trp_order order)
{
    if (x->ld == 0)
        x->ld = x->rows > 0 ? x->rows : 1;
    if (x->ld >= x->rows && x->ld > 0)
        return TRP_OK;
    return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                          "%s: expected at least %lld (the %s of %s as stored), got %lld",
                          name_of(x, true).text, (long long)(x->rows > 0 ? x->rows : 1),
                          order == TRP_ROW_MAJOR ? "columns" : "rows", x->name, (long long)x->ld);
}

trp_status trp__operand_check_vector(trp__encoder *encoder, trp__operand *x, int64_t n,
                                     int64_t *inc, bool positive)
{
    if (*inc == 0)
        *inc = 1;
    if ((positive && *inc < 0) || *inc == INT64_MIN)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT, "inc%s: expected %s, got %lld",
                              x->name, positive ? "1 or more" : "more than -2^63", (long long)*inc);
    int64_t size = *inc < 0 ? -*inc : *inc;
    x->rows = size == 1 ? n : 1;
    x->columns = size == 1 ? 1 : n;
    x->ld = size == 1 ? n : size;
    return TRP_OK;
}

trp_status trp__operand_measure(trp__encoder *encoder, trp__operand *x, int64_t batch)
{
    uint64_t span, bytes;
    if (batch > 1 && x->stride < 0)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT, "%s: expected 0 or more, got %lld",
                              name_of(x, false).text, (long long)x->stride);
    if (batch <= 1)
        x->stride = 0;
    if (__builtin_mul_overflow((uint64_t)x->columns - 1, (uint64_t)x->ld, &x->one) ||
        __builtin_add_overflow(x->one, (uint64_t)x->rows, &x->one) ||
        __builtin_mul_overflow((uint64_t)batch - 1, (uint64_t)x->stride, &span) ||
        __builtin_add_overflow(span, x->one, &x->elements) ||
        __builtin_mul_overflow(x->elements, (uint64_t)x->element, &bytes) || bytes > INT64_MAX)
        return trp__error_set(
            encoder->error, TRP_E_ARGUMENT,
            "%s: %lld x %lld with leading dimension or increment %lld, batch %lld "
            "with stride %lld spans more than 2^63 bytes",
            x->name, (long long)x->rows, (long long)x->columns, (long long)x->ld, (long long)batch,
            (long long)x->stride);
    return TRP_OK;
}

trp_status trp__operand_check_stride(trp__encoder *encoder, const trp__operand *x, int64_t batch)
{
    if (batch <= 1 || (uint64_t)x->stride >= x->one)
        return TRP_OK;
    /* The extent of the first columns of all matrices. */
    uint64_t side_by_side = x->elements - x->one + (uint64_t)x->rows;
    if (x->stride >= x->rows && side_by_side <= (uint64_t)x->ld)
        return TRP_OK;
    return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                          "%s: expected at least %llu, or %lld with a leading dimension or "
                          "increment of at least %llu, to keep the members of the batch apart, got "
                          "%lld and %lld",
                          name_of(x, false).text, (unsigned long long)x->one, (long long)x->rows,
                          (unsigned long long)side_by_side, (long long)x->stride, (long long)x->ld);
}

trp_status trp__operand_check_extent(trp__encoder *encoder, trp__operand *x, int64_t batch)
{
    trp_status status = trp__operand_measure(encoder, x, batch);
    if (status == TRP_OK && (x->mode & TRP__WRITE))
        status = trp__operand_check_stride(encoder, x, batch);
    if (status == TRP_OK && x->mode == TRP__WRITE && trp__operand_dense(x, batch))
        x->mode |= TRP__COVER;
    return status;
}

/* Returns whether two matrices with the same leading dimension, such as parts of a larger matrix,
 * share elements. The first element of x is `distance` elements after that of c. */
static bool parts_meet(const trp__operand *c, const trp__operand *x, int64_t ld, int64_t distance)
{
    /* Column j of x is `distance` + (j - i) ld after column i of c, which depends on e = j - i
     * only. Columns are no longer than ld, so they can only overlap for the two values of e that
     * bring them closest. */
    int64_t whole = distance / ld - (distance % ld < 0); /* rounded down */
    for (int64_t e = -whole - 1; e <= -whole; e++) {
        if (e <= -c->columns || e >= x->columns)
            continue;
        int64_t apart = distance + e * ld;
        if (apart < c->rows && apart > -x->rows)
            return true;
    }
    return false;
}

/* Returns a leading dimension that fits both matrices; 0: there is none. A single column fits any.
 */
static int64_t common_ld(const trp__operand *c, const trp__operand *x)
{
    if (c->ld == x->ld || (x->columns == 1 && c->ld >= x->rows))
        return c->ld;
    return c->columns == 1 && x->ld >= c->rows ? x->ld : 0;
}

trp_status trp__operand_check_apart(trp__encoder *encoder, const trp__operand *written,
                                    const trp__operand *other, int64_t batch)
{
    if (written->buffer.id != other->buffer.id)
        return TRP_OK;
    uint64_t end, other_end;
    /* A range beyond any buffer is refused when it is compared with its own buffer. */
    if (__builtin_add_overflow(written->offset, written->elements * written->element, &end) ||
        __builtin_add_overflow(other->offset, other->elements * other->element, &other_end) ||
        end > INT64_MAX || other_end > INT64_MAX)
        return TRP_OK;
    if (end <= other->offset || other_end <= written->offset)
        return TRP_OK;
    int64_t ld = common_ld(written, other);
    if (batch == 1 && ld > 0 && written->element == other->element) {
        int64_t distance =
            ((int64_t)other->offset - (int64_t)written->offset) / (int64_t)written->element;
        if (!parts_meet(written, other, ld, distance))
            return TRP_OK;
    }
    return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                          "%s: bytes %llu to %llu of its buffer must not overlap those of %s, %llu "
                          "to %llu",
                          written->name, (unsigned long long)written->offset,
                          (unsigned long long)end, other->name, (unsigned long long)other->offset,
                          (unsigned long long)other_end);
}

trp_status trp__operands_check_apart(trp__encoder *encoder, const trp__operand *all, int count,
                                     int64_t batch)
{
    trp_status status = TRP_OK;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < count && status == TRP_OK && (all[i].mode & TRP__WRITE); k++) {
            if (k != i && all[k].mode != 0)
                status = trp__operand_check_apart(encoder, &all[i], &all[k], batch);
        }
    }
    return status;
}

trp_status trp__operand_check_offset(trp__encoder *encoder, const trp__operand *x)
{
    if (!x->fields || x->offset % x->element == 0)
        return TRP_OK;
    return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                          "%s.offset: expected a multiple of %u bytes, got %llu", x->name,
                          (unsigned)x->element, (unsigned long long)x->offset);
}

trp_status trp__operand_access(trp__encoder *encoder, const trp__operand *x)
{
    trp_status status = trp__operand_check_offset(encoder, x);
    return status == TRP_OK ? trp__encode_access(encoder, x->name, x->buffer, x->offset,
                                                 x->elements * x->element, x->element, x->mode)
                            : status;
}

/* Scalars. */

static bool is_int32(double value)
{
    return value >= INT32_MIN && value <= INT32_MAX && value == (double)(int32_t)value;
}

trp_status trp__check_scalar(trp__encoder *encoder, const char *name, trp_scalar scalar,
                             trp_dtype type)
{
    trp_status status = trp__scalar_check(encoder->error, name, &scalar);
    if (status != TRP_OK || !scalar.given || trp__is_complex(type))
        return status;
    if (type == TRP_I32 && (scalar.im != 0 || !is_int32(scalar.re)))
        return trp__error_set(
            encoder->error, TRP_E_ARGUMENT,
            "%s: expected an integer of 32 bits, since sums are i32, got %g + %gi", name, scalar.re,
            scalar.im);
    if (scalar.im == 0)
        return TRP_OK;
    return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                          "%s: expected a real number for type %s, got %g + %gi", name,
                          trp_dtype_name(type), scalar.re, scalar.im);
}

trp_status trp__check_one_source(trp__encoder *encoder, trp_buffer scalars, const char *name,
                                 trp_scalar scalar)
{
    if (!scalars.id || !scalar.given)
        return TRP_OK;
    return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                          "%s: expected none, since it is read from `scalars`, got %g + %gi", name,
                          scalar.re, scalar.im);
}

trp__operand trp__operand_of_scalars(trp_buffer buffer, uint64_t offset, uint32_t element,
                                     uint64_t count)
{
    return (trp__operand){.name = "scalars",
                          .buffer = buffer,
                          .offset = offset,
                          .rows = (int64_t)count,
                          .columns = 1,
                          .ld = (int64_t)count,
                          .element = element,
                          .mode = TRP__READ,
                          .elements = count,
                          .one = count};
}
