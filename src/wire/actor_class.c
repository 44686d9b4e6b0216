#include "wire/actor_class.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

trp_status trp__encode_look(trp__encoder *encoder, const char *name, trp_buffer buffer,
                            trp__access *access, uint64_t size)
{
    access->whole = access->offset == 0 && access->bytes == size;
    return encoder->look ? encoder->look(encoder, name, buffer, access) : TRP_OK;
}

/* `rest`: ignores `bytes` and takes all up to the end of the buffer. */
static trp_status add_access(trp__encoder *encoder, const char *name, trp_buffer buffer,
                             uint64_t offset, uint64_t bytes, bool rest, uint64_t alignment,
                             uint32_t mode)
{
    trp__record *record = encoder->record;
    if (record->access_count >= TRP__ACCESS_MAX)
        return trp__error_set(encoder->error, TRP_E_INTERNAL,
                              "%s: a request names at most %d buffers", name, TRP__ACCESS_MAX);
    trp__access *access = &record->access[record->access_count];
    uint64_t size = 0;
    access->mode = (uint8_t)mode;
    trp_status status = encoder->acquire(encoder, name, buffer, access, &size);
    if (status != TRP_OK)
        return status;
    if (rest)
        bytes = offset < size ? size - offset : 0;
    access->offset = offset;
    access->bytes = bytes;
    record->access_count++; /* from here on the record's owner releases it */

    if (offset % alignment != 0)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "%s_offset: expected a multiple of %llu bytes, got %llu", name,
                              (unsigned long long)alignment, (unsigned long long)offset);
    if (offset > size || bytes > size - offset)
        return trp__error_set(
            encoder->error, TRP_E_ARGUMENT,
            "%s: the request needs bytes %llu to %llu + %llu, the buffer has %llu", name,
            (unsigned long long)offset, (unsigned long long)offset, (unsigned long long)bytes,
            (unsigned long long)size);
    return trp__encode_look(encoder, name, buffer, access, size);
}

trp_status trp__scalar_check(trp_error *error, const char *name, const trp_scalar *scalar)
{
    if (scalar->given || (scalar->re == 0 && scalar->im == 0))
        return TRP_OK;
    return trp__error_set(error, TRP_E_ARGUMENT,
                          "%s: expected what trp_real() or trp_complex() makes, or all zero, got "
                          "%g + %gi that is not `given`",
                          name, scalar->re, scalar->im);
}

trp_status trp__encode_access(trp__encoder *encoder, const char *name, trp_buffer buffer,
                              uint64_t offset, uint64_t bytes, uint64_t alignment, uint32_t mode)
{
    return add_access(encoder, name, buffer, offset, bytes, false, alignment, mode);
}

trp_status trp__encode_access_rest(trp__encoder *encoder, const char *name, trp_buffer buffer,
                                   uint64_t offset, uint64_t alignment, uint32_t mode)
{
    return add_access(encoder, name, buffer, offset, 0, true, alignment, mode);
}

trp_status trp__encode_access_described(trp__encoder *encoder, const char *name, trp_buffer buffer,
                                        uint32_t mode, uint64_t offset, const char *field,
                                        uint64_t bytes)
{
    trp__record *record = encoder->record;
    trp__access *access = &record->access[record->access_count];
    uint64_t size = 0;
    if (mode == 0)
        mode = TRP__READ | TRP__WRITE;
    if (mode > (TRP__READ | TRP__WRITE) && mode != (TRP__WRITE | TRP__COVER))
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "%s.mode: expected a trp_access_mode, got %d", name, (int)mode);
    access->mode = (uint8_t)mode;
    trp_status status = encoder->acquire(encoder, name, buffer, access, &size);
    if (status != TRP_OK)
        return status;
    record->access_count++; /* from here on the record's owner releases it */
    access->offset = offset;
    if (offset >= size)
        return trp__error_set(
            encoder->error, TRP_E_ARGUMENT,
            "%s.offset: expected less than the %llu bytes of the buffer, got %llu", name,
            (unsigned long long)size, (unsigned long long)offset);
    access->bytes = bytes ? bytes : size - offset;
    if (access->bytes > size - offset)
        return trp__error_set(
            encoder->error, TRP_E_ARGUMENT,
            "%s.%s: expected at most %llu, from offset %llu to the buffer's end, got %llu", name,
            field, (unsigned long long)(size - offset), (unsigned long long)offset,
            (unsigned long long)bytes);
    return trp__encode_look(encoder, name, buffer, access, size);
}

const trp__actor_class *trp__actor_class_find(const char *kind)
{
    for (const trp__actor_class *const *c = trp__actor_classes; *c; c++) {
        if (strcmp((*c)->kind, kind) == 0)
            return *c;
    }
    return NULL;
}

const trp__op_class *trp__op_class_find(const trp__actor_class *actor_class, uint32_t op)
{
    uint32_t index = (op & 0xff) - 1;
    if (index >= actor_class->op_count || actor_class->ops[index].op != op)
        return NULL;
    return &actor_class->ops[index];
}

void trp__op_name(const trp__actor_class *actor_class, uint32_t op, char *out, size_t size)
{
    const trp__op_class *found = actor_class ? trp__op_class_find(actor_class, op) : NULL;
    if (found)
        trp__copy_string(out, size, found->name);
    else
        snprintf(out, size, "0x%04x", op);
}

void trp__op_find_name(uint32_t op, char *out, size_t size)
{
    const trp__actor_class *const *c = trp__actor_classes;
    while (*c && !trp__op_class_find(*c, op))
        c++;
    trp__op_name(*c, op, out, size);
}
