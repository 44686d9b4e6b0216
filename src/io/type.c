/* The element types of files, and the sizes of arrays of them. */
#include "io/file.h"

const trp__io_type trp__io_types[] = {
    {TRP_F64, 64, "f8", "F64"},
    {TRP_F32, 32, "f4", "F32"},
    {TRP_F16, 16, "f2", "F16"},
    {TRP_BF16, 16, NULL, "BF16"},
    {TRP_F8E4M3, 8, NULL, "F8_E4M3"},
    {TRP_F8E5M2, 8, NULL, "F8_E5M2"},
    {TRP_F8E8M0, 8, NULL, "F8_E8M0"},
    {TRP_F4E2M1, 4, NULL, "F4"},
    {TRP_I64, 64, "i8", "I64"},
    {TRP_I32, 32, "i4", "I32"},
    {TRP_I8, 8, "i1", "I8"},
    {TRP_I4, 4, NULL, NULL},
    {TRP_U8, 8, "u1", "U8"},
    {TRP_BOOL, 8, "b1", "BOOL"},
    {TRP_C64, 64, "c8", "C64"},
    {TRP_C128, 128, "c16", NULL},
    {TRP_DTYPE_NONE, 16, NULL, "I16"},
    {TRP_DTYPE_NONE, 16, NULL, "U16"},
    {TRP_DTYPE_NONE, 32, NULL, "U32"},
    {TRP_DTYPE_NONE, 64, NULL, "U64"},
    {TRP_DTYPE_NONE, 6, NULL, "F6_E2M3"},
    {TRP_DTYPE_NONE, 6, NULL, "F6_E3M2"},
    {TRP_DTYPE_NONE, 8, NULL, "F8_E4M3FNUZ"},
    {TRP_DTYPE_NONE, 8, NULL, "F8_E5M2FNUZ"},
};
const size_t trp__io_type_count = sizeof trp__io_types / sizeof *trp__io_types;

const trp__io_type *trp__io_type_of(trp_dtype type)
{
    for (size_t i = 0; i < trp__io_type_count && type != TRP_DTYPE_NONE; i++) {
        if (trp__io_types[i].type == type)
            return &trp__io_types[i];
    }
    return NULL;
}

bool trp__io_count_bytes(const int64_t *dim, uint32_t rank, uint32_t bits, uint64_t *bytes)
{
    uint64_t count = 1, fraction;
    *bytes = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (dim[i] == 0)
            return true;
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (__builtin_mul_overflow(count, (uint64_t)dim[i], &count))
            return false;
    }
    /* The count of bits could overflow: 2^63 bytes are 2^66 bits. So whole groups of 8 elements are
     * computed in bytes, the rest in bits. */
    if (__builtin_mul_overflow(count / 8, bits, bytes))
        return false;
    fraction = count % 8 * bits;
    return fraction % 8 == 0 && !__builtin_add_overflow(*bytes, fraction / 8, bytes) &&
           *bytes <= INT64_MAX;
}
