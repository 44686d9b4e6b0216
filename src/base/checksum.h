/* A checksum against damage by accident: XXH64 with seed 0, as the specification of xxHash 0.1.1
 * has it, at the speed of memory. It does not protect against deliberate changes. */
#ifndef TRP_BASE_CHECKSUM_H
#define TRP_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint64_t trp__checksum(const void *data, size_t bytes);

#endif
