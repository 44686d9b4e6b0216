/* Properties of element types. */
#ifndef TRP_BASE_NUMBERS_TYPES_H
#define TRP_BASE_NUMBERS_TYPES_H

#include <troupe/types.h>

#include <stdbool.h>

/* `type` is a trp_dtype; requests have it in 8 bits. */
static inline bool trp__is_complex(uint32_t type)
{
    return type == TRP_C64 || type == TRP_C128;
}

#endif
